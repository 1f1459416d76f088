"""Calls that are almost right, in the real program: arguments that are almost JSON, names of other programs' tools."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.fork_server import ROOT
from tests.support.model_server import Call, ModelServer, Reply
from tests.support.program import agent

Done = Reply(text="All done.")
COMMAND = "echo made > made.txt"
REPAIRED = {
    "code fence": f'```json\n{{"command": "{COMMAND}"}}\n```',
    "trailing comma": f'{{"command": "{COMMAND}",}}',
    "single quotes": f"{{'command': '{COMMAND}', 'run_in_background': False, 'description': None}}",
    "typographic quotes": f"{{\u201ccommand\u201d: \u201c{COMMAND}\u201d}}",
    "key without quotes": f'{{command: "{COMMAND}"}}',
    "raw line break": f'{{"command": "true\n{COMMAND}"}}',
    "raw tab": f'{{"command": "true;\t{COMMAND}"}}',
    "needless backslash": f'{{"command": "true \\d; {COMMAND}"}}',
    "the same object twice": f'{{"command": "{COMMAND}"}}{{"command": "{COMMAND}"}}',
    "an empty object first": f'{{}}{{"command": "{COMMAND}"}}',
    "doubled braces": f'{{{{"command": "{COMMAND}"}}}}',
    "missing brace": f'{{"command": "{COMMAND}"',
    "a brace too many": f'{{"command": "{COMMAND}"}}}}',
    "encoded twice, with a mistake": json.dumps(f'{{"command": "{COMMAND}",}}'),
}
# What a model may have meant otherwise is an error, which says where it is.
UNCLEAR = {
    "quotes in a string": (f'{{"command": "{COMMAND} "a""}}', "line 1, column 36"),
    "an apostrophe in single quotes": ("{'command': 'echo it's'}", "line 1, column 22"),
    "two values for a key": ('{"command": "ls", "command": \'pwd\'}', "two different values"),
    "no value": ('{"command": }', "expected a value"),
    "bare words": ("ls -la", "expected a value at line 1, column 1"),
    "words before it": (f'Sure: {{"command": "{COMMAND}"}}', "expected a value"),
    "not an object": ('["ls"]', "expected one object"),
}


def run(work: Path, server: ModelServer, *flags: str) -> Any:
    env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url, "IS_SANDBOX": "1"}
    if "--on-ask" not in flags:
        flags = ("--permission-mode", "bypassPermissions", *flags)
    return agent(["-p", "--model", "openai/some-model", *flags, "go"], work, env)


def results(server: ModelServer, request: int = -1) -> list[str]:
    return [m["content"] for m in server.bodies[request]["messages"] if m["role"] == "tool"]


def test_arguments_that_can_only_mean_one_thing_are_read(work: Path) -> None:
    """Each mistake is in an answer of its own, and its command writes a file of its own."""
    made = [f"made{number}.txt" for number in range(len(REPAIRED))]
    raw = [text.replace("made.txt", name) for text, name in zip(REPAIRED.values(), made, strict=True)]
    replies = [Reply(calls=(Call("Bash", text, id=f"c{number}"),), split=5) for number, text in enumerate(raw)]
    with ModelServer([*replies, Done]) as server:
        run(work, server)
    for number, (mistake, name) in enumerate(zip(REPAIRED, made, strict=True)):
        assert (work / name).read_text() == "made\n", (mistake, results(server)[number])
        sent = server.bodies[number + 1]["messages"][-2]["tool_calls"]
        assert len(sent) == 1 and f"echo made > {name}" in json.loads(sent[0]["function"]["arguments"])["command"]


PATCH = "*** Begin Patch\n*** Update File: a.txt\n@@\n-hello world\n+hello there\n*** End Patch"


@pytest.mark.parametrize("raw", [PATCH, f"\n{PATCH}\n", json.dumps(PATCH)], ids=["text", "blanks", "a JSON string"])
@pytest.mark.parametrize("name", ["apply_patch", "functions.apply_patch"])
def test_a_patch_as_plain_text_is_read_where_json_is_expected(work: Path, raw: str, name: str) -> None:
    with ModelServer([Reply(calls=(Call(name, raw),), split=5), Done]) as server:
        run(work, server, "--model", "openai/gpt-4.1")
    (found,) = results(server)
    assert (work / "a.txt").read_text() == "hello there\n" and "not valid JSON" not in found, found
    sent = server.bodies[1]["messages"][-2]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(sent) == {"patch": PATCH}


def test_a_patch_that_breaks_off_is_not_applied(work: Path) -> None:
    cut = PATCH.removesuffix("\n*** End Patch")
    with ModelServer([Reply(calls=(Call("apply_patch", cut),)), Done]) as server:
        run(work, server, "--model", "openai/gpt-4.1")
    assert (work / "a.txt").read_text() == "hello world\n" and "Send one JSON object" in results(server)[0]


def test_what_could_mean_something_else_is_an_error_with_its_place(work: Path) -> None:
    replies = [Reply(calls=(Call("Bash", raw, id=f"c{n}"),)) for n, (raw, _) in enumerate(UNCLEAR.values())]
    with ModelServer([*replies, Done]) as server:
        run(work, server)
    assert not (work / "made.txt").exists()
    for (mistake, (_, where)), found in zip(UNCLEAR.items(), results(server), strict=True):
        assert where in found and "Send one JSON object" in found, (mistake, found)


def test_what_was_repaired_is_reported_once_for_each_kind(work: Path) -> None:
    calls = ['{"file_path": "a.txt",}', '{"file_path": "a.txt", "limit": 1,}', "{'file_path': 'a.txt', 'limit': 2,}"]
    with ModelServer([*(Reply(calls=(Call("Read", raw, id=f"c{n}"),)) for n, raw in enumerate(calls)), Done]) as server:
        run(work, server)
    first, second, third = results(server)
    assert "[The arguments were not valid JSON: a comma" in first and "not valid JSON" not in second
    assert "single" in third and "comma" not in third


def test_nor_again_when_the_session_goes_on(work: Path) -> None:
    for number in (1, 2):
        with ModelServer([Reply(calls=(Call("bash", {"command": f"echo {number}"}),)), Done]) as server:
            run(work, server, *(["-c"] if number == 2 else []))
    assert ["Bash was called" in text for text in results(server)] == [True, False]


def test_two_objects_are_two_calls(work: Path) -> None:
    both = '{"command": "echo 1 >> made.txt"}{"command": "echo 2 >> made.txt"}'
    with ModelServer([Reply(calls=(Call("Bash", both),)), Done]) as server:
        run(work, server)
    assert (work / "made.txt").read_text() == "1\n2\n"
    assert len(results(server)) == 2 and "each was run as a separate call" in results(server)[0]


def test_a_text_that_breaks_off_writes_nothing_but_may_read(work: Path) -> None:
    write = Call("Write", '{"file_path": "made.txt", "content": "half of', id="w")
    remove = Call("Bash", '{"command": "rm -rf a.txt /tmp/some', id="b")
    more = Call("Edit", '{"file_path": "a.txt", "old_string": "hello", "new_string": "",', id="e")
    read = Call("Read", '{"file_path": "a.txt', id="r")
    before = (work / "a.txt").read_text()
    with ModelServer([Reply(calls=(write, remove, more, read)), Done]) as server:
        run(work, server)
    assert not (work / "made.txt").exists() and (work / "a.txt").read_text() == before
    assert ["broke off before their end" in text for text in results(server)] == [True, True, True, False]
    assert before.strip() in results(server)[3]


@pytest.mark.parametrize("tail", ["half of", 'half of"', 'half of",'])
def test_a_cut_answer_is_never_made_into_a_call(work: Path, tail: str) -> None:
    cut = Call("Write", f'{{"file_path": "made.txt", "content": "{tail}')
    with ModelServer([Reply(calls=(cut,), stop="max_tokens"), Done]) as server:
        run(work, server)
    assert not (work / "made.txt").exists()
    assert "Your answer was cut at 7 tokens" in results(server)[0] and "in parts" in results(server)[0]


MEAN_BASH = (
    "bash", "BASH", "functions.Bash", "functions.bash", "default_api.Bash", "tools.Bash", "Bash<|channel|>x",
    "functions.Bash:0", "shell", "run_command", "execute_command", "run_shell_command", "run_terminal_cmd",
)  # fmt: skip


def test_names_that_mean_a_tool(work: Path) -> None:
    calls = [Call(name, {"cmd": f"echo made > made{n}.txt"}, id=f"c{n}") for n, name in enumerate(MEAN_BASH)]
    with ModelServer([*(Reply(calls=(each,)) for each in calls), Done]) as server:
        run(work, server)
    assert "Bash was called" in results(server)[0]
    for number, name in enumerate(MEAN_BASH):
        assert (work / f"made{number}.txt").exists(), (name, results(server)[number])
        assert server.bodies[number + 1]["messages"][-2]["tool_calls"][0]["function"]["name"] == "Bash"


READING = (
    ("read_file", {"path": "a.txt"}, "hello"),
    ("read_file", {"target_file": "lines.txt", "start_line": 2, "end_line": 2, "explanation": "x"}, "second"),
    ("view", {"path": "lines.txt", "view_range": [3, 3]}, "third"),
    ("str_replace_editor", {"command": "view", "path": "lines.txt", "view_range": [2, 3]}, "third"),
    ("list_files", {"path": ".", "recursive": True}, "lines.txt"),
    ("list_directory", {"dir_path": "."}, "lines.txt"),
    ("search_files", {"path": ".", "regex": "seco"}, "lines.txt"),
    ("grep_search", {"query": "seco", "include_pattern": "*.txt"}, "lines.txt"),
    ("glob", {"pattern": "*.txt"}, "lines.txt"),
    ("find_files", {"pattern": "l*.txt"}, "lines.txt"),
    ("shell", {"command": ["bash", "-lc", "echo $((40 + 2))"]}, "42"),
    ("shell", {"command": ["echo", "a  b"]}, "a  b"),
)


def test_tools_of_other_programs_that_read(work: Path) -> None:
    (work / "lines.txt").write_text("first\nsecond\nthird\n")
    calls = [Call(name, arguments, id=f"c{number}") for number, (name, arguments, _) in enumerate(READING)]
    with ModelServer([*(Reply(calls=(each,)) for each in calls), Done]) as server:
        run(work, server)
    for (name, arguments, expected), found in zip(READING, results(server), strict=True):
        assert expected in found and "first" not in found, (name, arguments, found)


@pytest.mark.parametrize(
    ("name", "arguments", "content"),
    [
        ("write_file", {"path": "b.txt", "content": "x\n"}, "x\n"),
        ("create_file", {"filePath": "b.txt", "content": "x\n"}, "x\n"),
        ("replace", {"file_path": "b.txt", "old_string": "one", "new_string": "two", "instruction": "swap"}, "two\n"),
        ("edit_file", {"path": "b.txt", "old_str": "one", "new_str": "two"}, "two\n"),
        ("edit", {"file": "b.txt", "old": "one", "new": "two"}, "two\n"),
        ("edit_file", {"path": "b.txt", "edits": [{"oldText": "one", "newText": "two"}]}, "two\n"),
        (
            "str_replace_editor",
            {"command": "str_replace", "path": "b.txt", "old_str": "one", "new_str": "two"},
            "two\n",
        ),
        ("str_replace_based_edit_tool", {"command": "create", "path": "b.txt", "file_text": "x\n"}, "x\n"),
    ],
)
def test_tools_of_other_programs_that_write(work: Path, name: str, arguments: dict[str, Any], content: str) -> None:
    (work / "b.txt").write_text("one\n")
    read = Reply(calls=(Call("Read", {"file_path": "b.txt"}, id="r"),))
    with ModelServer([read, Reply(calls=(Call(name, arguments, id="w"),)), Done]) as server:
        run(work, server)
    assert (work / "b.txt").read_text() == content, results(server)


OTHERWISE = (
    ("str_replace_editor", {"command": "insert", "path": "a.txt", "insert_line": 1}, "There is no tool named"),
    ("Python", {"code": "1"}, "There is no tool named 'Python'"),
    ("edit_file", {"target_file": "a.txt", "code_edit": "x"}, "Unknown argument 'code_edit'"),
    ("Read", {"file_path": "a.txt", "encoding": "utf-8"}, "Unknown argument 'encoding'"),
    ("mcp__evil__Bash", {"command": COMMAND}, "There is no tool named"),
    ("evil.Bash", {"command": COMMAND}, "There is no tool named"),
)


def test_what_has_another_meaning_stays_an_error(work: Path) -> None:
    calls = [Call(name, arguments, id=f"c{number}") for number, (name, arguments, _) in enumerate(OTHERWISE)]
    with ModelServer([*(Reply(calls=(each,)) for each in calls), Done]) as server:
        run(work, server)
    assert not (work / "made.txt").exists()
    for (name, _, text), found in zip(OTHERWISE, results(server), strict=True):
        assert text in found, (name, found)


def test_a_tool_that_is_not_on_offer_is_not_meant(work: Path) -> None:
    with ModelServer([Reply(calls=(Call("shell", {"command": COMMAND}),)), Done]) as server:
        run(work, server, "--tools", "Read")
    assert "There is no tool named 'shell'" in results(server)[0]


def test_the_permission_is_that_of_the_tool_that_runs(work: Path) -> None:
    calls = (Call("shell", f"{{'cmd': '{COMMAND}',}}", id="a"), Call("functions.run_command", {"cmd": "ls"}, id="b"))
    with ModelServer([Reply(calls=calls), Done]) as server:
        denied = run(work, server, "--disallowedTools", "Bash(echo *)", "--output-format", "json")
    found = json.loads(denied.stdout)["permission_denials"]
    assert [(d["tool_name"], d["tool_input"]) for d in found] == [("Bash", {"command": COMMAND})]
    with ModelServer([Reply(calls=calls[:1])]) as server:
        asked = run(work, server, "--on-ask", "suspend", "--output-format", "stream-json")
    request = next(x for x in map(json.loads, asked.stdout.splitlines()) if x.get("subtype") == "approval_requested")
    assert request["tool"] == "Bash" and {"kind": "run", "target": COMMAND} in request["effects"], request
    assert not (work / "made.txt").exists()


def test_a_deferred_tool_of_a_server_can_be_called_by_its_name(work: Path) -> None:
    server_file = {"command": sys.executable, "args": [str(ROOT / "tests/support/mcp/odd_server.py")]}
    (work / "servers.json").write_text(json.dumps({"mcpServers": {"raw": server_file}}))
    flags = ["--mcp-config", "servers.json", "--settings", 'mcp.tool_search = "always"']
    calls = [Call("mcp__raw__echo", {"text": "hi"}, id="a"), Call("mcp__raw__none", {}, id="b")]
    with ModelServer([*(Reply(calls=(c,)) for c in calls), Done]) as server:
        run(work, server, *flags)
    assert "mcp__raw__echo" not in [t["function"]["name"] for t in server.bodies[0]["tools"]]
    first, second = results(server)
    assert "hi" in first and ("Find it with ToolSearch" in second or "Did you mean" in second), (first, second)
    with ModelServer([Reply(calls=(calls[0],)), Done]) as server:
        run(work, server, *flags, "--disallowedTools", "mcp__raw__echo", "--on-ask", "deny")
    assert "Permission was denied" in results(server)[0] or "no tool" in results(server)[0]


ANNOUNCED = [
    "I will read the file, then edit it.",
    "I'll fix the bug in a.txt now.",
    "Sure! Let me look at the file first.",
    "I've read a.txt. Now I'll edit it:",
    "To fix this, I need to read a.txt.",
]
FINISHED = [
    "All done.",
    "I fixed the bug in a.txt and the tests pass. I will be around should you need me.",
    "Done. If you want, I will update the docs.",
    "I will not change a.txt: it is right.",
    "Should I edit the file? I will read it first if you like.",
    "I changed the file. Let me know if it works.",
    "Which file do you mean?",
    "Understood: from now on I will use tabs.",
    "I will need to be told the name of the file.",
    "a.txt says that the server will read it and I'll see it later.",
]


@pytest.mark.parametrize("text", ANNOUNCED)
def test_an_announcement_without_a_call_is_asked_about_once(work: Path, text: str) -> None:
    with ModelServer([Reply(text=text), Reply(text=text)]) as server:
        done = run(work, server, "--output-format", "stream-json")
    assert "made no call" in server.bodies[1]["messages"][-1]["content"]
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [x["content"] for x in lines if x.get("subtype") == "informational"] == [
        "The model said what it would do but made no call; asking for it."
    ]
    assert lines[-1]["result"] == text


def test_a_finished_answer_is_not_asked_about(work: Path) -> None:
    said = '{"type": "user", "message": {"role": "user", "content": "go"}}\n' * len(FINISHED)
    formats = ["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]
    with ModelServer([Reply(text=text) for text in FINISHED]) as server:
        env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url}
        done = agent(["-p", "--model", "openai/some-model", *formats], work, env, stdin=said)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["result"] for line in lines if line["type"] == "result"] == FINISHED
    assert len(server.requests) == len(FINISHED)


def test_nor_without_tools_in_plan_mode_or_for_words(work: Path) -> None:
    with ModelServer([Reply(text=ANNOUNCED[0])] * 3) as server:
        env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url}
        args = ["-p", "--model", "openai/some-model"]
        for flags, prompt in (
            (["--tools", ""], "go"),
            (["--permission-mode", "plan"], "go"),
            ([], "What is your plan?"),
        ):
            assert agent([*args, *flags, prompt], work, env).stdout == f"{ANNOUNCED[0]}\n"
