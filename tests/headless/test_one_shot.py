"""`agent -p` against a real model server and with scripts: what goes to stdout, what to stderr, and the exit code."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.model_server import Call, ModelServer, Reply
from tests.support.program import agent
from tests.support.scripts import call, script


def openai(server: ModelServer) -> dict[str, str]:
    return {"OPENAI_API_KEY": "sk-test", "OPENAI_BASE_URL": server.openai_url, "AGENT_RETRIES": "0"}


def result_of(stdout: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(stdout.splitlines()[-1])
    return found


def test_the_answer_alone_on_stdout(work: Path) -> None:
    with ModelServer([Reply(text="Hello *you*.")]) as server:
        done = agent(["-p", "hi", "--model", "openai/gpt-test"], work, openai(server))
    assert (done.returncode, done.stdout, done.stderr) == (0, "Hello *you*.\n", "")
    assert server.requests[0].headers["authorization"] == "Bearer sk-test"


def test_a_whole_job_over_the_wire(work: Path) -> None:
    replies = [
        Reply(text="Looking.", calls=(Call("Read", {"file_path": "a.txt"}),)),
        Reply(calls=(Call("Edit", {"file_path": "a.txt", "old_string": "world", "new_string": "you"}),)),
        Reply(calls=(Call("Bash", {"command": "cat a.txt"}),)),
        Reply(text="Done."),
    ]
    with ModelServer(replies) as server:
        env = openai(server)
        done = agent(
            ["-p", "--model", "openai/gpt-test", "--allowedTools", "Edit", "Bash(cat:*)", "--", "fix it"], work, env
        )
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    assert (work / "a.txt").read_text() == "hello you\n"
    *files, command = done.stderr.splitlines()
    assert files == ["Read a.txt", "Edit a.txt (+1 -1)"]
    assert re.fullmatch(r"Run: cat a\.txt \(exit 0, [\d.]+s\)", command)
    before, after = server.requests[0].body, server.requests[-1].body
    assert after["tools"] == before["tools"]
    assert after["messages"][: len(before["messages"])] == before["messages"]
    assert len(server.requests[0].raw) <= 20_000


def test_the_same_job_with_anthropic(work: Path) -> None:
    replies = [
        Reply(thinking="hm", signature="s", calls=(Call("Read", {"file_path": "a.txt"}),)),
        Reply(text="It greets."),
    ]
    with ModelServer(replies) as server:
        env = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": server.anthropic_url}
        done = agent(["-p", "--model", "anthropic/claude-test", "what is it"], work, env)
    assert (done.returncode, done.stdout) == (0, "It greets.\n"), done.stderr


def test_json_has_claude_codes_fields(work: Path) -> None:
    model = script(
        work / "s.toml",
        [{"calls": [call("Bash", command="make")]}, {"text": "Ok.", "usage": {"input": 9, "output": 2}}],
    )
    done = agent(["-p", "--model", model, "--output-format", "json", "q"], work)
    found = result_of(done.stdout)
    assert done.returncode == 5
    wanted = {
        "type", "subtype", "is_error", "duration_ms", "duration_api_ms", "ttft_ms", "num_turns", "result", "uuid",
        "session_id", "total_cost_usd", "usage", "modelUsage", "permission_denials", "terminal_reason", "errors",
        "stop_reason",
    }  # fmt: skip
    assert wanted <= set(found)
    assert (found["type"], found["subtype"], found["outcome"], found["result"]) == (
        "result",
        "success",
        "denied",
        "Ok.",
    )
    assert found["num_turns"] == 2
    assert found["usage"]["input_tokens"] == 9
    assert found["permission_denials"][0]["tool_name"] == "Bash"
    assert found["permission_denials"][0]["tool_input"] == {"command": "make"}


def test_stream_json_lines(work: Path) -> None:
    model = script(work / "s.toml", [{"text": "I look.", "calls": [call("Read", file_path="a.txt")]}, {"text": "Ok."}])
    done = agent(["-p", "--model", model, "--output-format", "stream-json", "--include-partial-messages", "q"], work)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(x["type"], x.get("subtype")) for x in lines if x["type"] != "stream_event"] == [
        ("system", "init"), ("assistant", None), ("assistant", None), ("user", None), ("assistant", None),
        ("result", "success"),
    ]  # fmt: skip
    assert all(x["session_id"] == lines[0]["session_id"] and x["uuid"] for x in lines)
    events = [x["event"] for x in lines if x["type"] == "stream_event"]
    pieces = [e["delta"]["text"] for e in events if e.get("delta", {}).get("type") == "text_delta"]
    assert "".join(pieces) == "I look.Ok."
    block = lines[[x["type"] for x in lines].index("user")]["message"]["content"][0]
    assert block["type"] == "tool_result"
    assert "hello world" in block["content"]
    assert {"cwd", "tools", "model", "permissionMode", "apiKeySource", "mcp_servers"} <= set(lines[0])


def test_json_lines_in(work: Path) -> None:
    model = script(work / "s.toml", [{"text": "One."}, {"text": "Two.", "expect": "second"}])
    lines = [
        {"type": "user", "message": {"role": "user", "content": c}}
        for c in ("first", [{"type": "text", "text": "second"}])
    ]
    stdin = "\n".join(json.dumps(s) for s in lines)
    done = agent(
        ["-p", "--model", model, "--input-format", "stream-json", "--output-format", "stream-json"], work, stdin=stdin
    )
    results = [json.loads(line) for line in done.stdout.splitlines() if '"type":"result"' in line]
    assert [r["result"] for r in results] == ["One.", "Two."]
    broken = agent(["-p", "--model", model, "--input-format", "stream-json"], work, stdin="{nope")
    assert broken.returncode == 2
    assert "Line 1 of standard input" in broken.stderr


def test_an_answer_that_fits_a_schema(work: Path) -> None:
    schema = '{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}'
    replies = [
        {"text": "Four."},
        {"calls": [call("StructuredOutput", n="four")], "expect": "StructuredOutput"},
        {"calls": [call("StructuredOutput", n=4)], "expect": "does not fit"},
    ]
    model = script(work / "s.toml", replies)
    done = agent(["-p", "--model", model, "--json-schema", schema, "--output-format", "json", "2+2"], work)
    assert done.returncode == 0, done.stderr
    assert result_of(done.stdout)["structured_output"] == {"n": 4}
    done = agent(["-p", "--model", model, "--json-schema", schema, "2+2"], work)
    assert json.loads(done.stdout) == {"n": 4}
    model = script(work / "s.toml", [{"text": "No."}] * 3)
    done = agent(["-p", "--model", model, "--json-schema", schema, "2+2"], work)
    assert (done.returncode, done.stdout) == (1, "")
    assert "no answer that matches" in done.stderr
    done = agent(["-p", "--model", model, "--json-schema", "{nope", "2+2"], work)
    assert done.returncode == 2


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "Bash", "n": 4}',
        '\n{"name": "Bash",\n "n": 4}\n',
        '```json\n{"name": "Bash", "n": 4}\n```',
        '```\n{"name": "Bash", "n": 4}```\n',
        'Here is the answer:\n\n```json\n{"name": "Bash", "n": 4}\n```',
    ],
)
@pytest.mark.parametrize("profile", ["default", "small"])
def test_an_answer_that_is_fitting_json_is_the_structured_answer(work: Path, text: str, profile: str) -> None:
    schema = json.dumps({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
    # A second request would fail.
    model = script(work / "s.toml", [{"text": text}])
    flags = ["--json-schema", schema, "--settings", f'profile = "{profile}"']
    done = agent(["-p", "--model", model, *flags, "--output-format", "json", "2+2"], work)
    assert done.returncode == 0, done.stderr
    assert result_of(done.stdout)["structured_output"] == {"name": "Bash", "n": 4}
    done = agent(["-p", "--model", model, *flags, "2+2"], work)
    assert json.loads(done.stdout) == {"name": "Bash", "n": 4}


@pytest.mark.parametrize(
    ("text", "reminder"),
    [
        ('{"n": "four"}', "The answer does not fit its schema. n: 'four' is not of type 'integer'"),
        ("{}", "The answer does not fit its schema. the answer: 'n' is a required property"),
        ("[4]", "Give the final answer by calling StructuredOutput"),
        ('{"n": 4', "Give the final answer by calling StructuredOutput"),
        ('```\n{"n": 4}\n```\nor\n```\n{"n": 5}\n```', "Give the final answer by calling StructuredOutput"),
        ('It is not {"n": 4}', "Give the final answer by calling StructuredOutput"),
    ],
)
def test_an_answer_that_is_no_fitting_json_is_asked_for_again(work: Path, text: str, reminder: str) -> None:
    schema = json.dumps({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
    model = script(work / "s.toml", [{"text": text}, {"text": '{"n": 4}', "expect": reminder}])
    done = agent(["-p", "--model", model, "--json-schema", schema, "2+2"], work)
    assert done.returncode == 0 and json.loads(done.stdout) == {"n": 4}, done.stderr


def test_piped_input_follows_the_prompt(work: Path) -> None:
    model = script(work / "s.toml", [{"text": "Ok.", "expect": "review this\ndiff --git a b"}])
    assert agent(["-p", "--model", model, "review this"], work, stdin="diff --git a b\n").returncode == 0
    model = script(work / "s.toml", [{"text": "Ok.", "expect": "all on stdin"}])
    assert agent(["-p", "--model", model], work, stdin="all on stdin").returncode == 0
    assert agent(["-p", "--model", model, "-"], work, stdin="all on stdin").returncode == 0


def test_much_input_is_cut_and_reported(work: Path) -> None:
    model = script(work / "s.toml", [{"text": "Ok.", "expect": "was cut here, after 1048576 bytes"}])
    done = agent(["-p", "--model", model, "q"], work, stdin=b"x" * 10_000_000)
    assert done.returncode == 0, done.stderr
    assert "cut after 1048576 bytes" in done.stderr


@pytest.mark.parametrize("stdin", [b"\x7fELF\0\0\0", b"ab\0cd" * 1000])
def test_binary_input_is_refused(work: Path, stdin: bytes) -> None:
    model = script(work / "s.toml", [{"text": "Ok."}])
    done = agent(["-p", "--model", model, "q"], work, stdin=stdin)
    assert done.returncode == 2
    assert done.stderr == "agent: Standard input is binary; pipe text, or name the file in the prompt.\n"


@pytest.mark.parametrize("args", [["-p"], ["-p", ""], ["-p", "  "], ["-p", "-"]])
def test_an_empty_prompt_is_exit_2(work: Path, args: list[str]) -> None:
    model = script(work / "s.toml", [{"text": "Ok."}])
    done = agent([*args, "--model", model], work)
    assert (done.returncode, done.stdout) == (2, "")
    assert "There is no prompt" in done.stderr


def exit_code(work: Path, replies: list[dict[str, Any]], *flags: str) -> int:
    return agent(["-p", "--model", script(work / "s.toml", replies), *flags, "q"], work).returncode


def test_exit_codes(work: Path) -> None:
    make = {"calls": [call("Bash", command="make")]}
    read = {"calls": [call("Read", file_path="a.txt")]}
    busy = {"error": {"kind": "overloaded", "message": "Busy.", "retryable": True}}
    refused = {"error": {"kind": "auth", "message": "Bad key."}}
    done = {"text": "Ok."}
    assert exit_code(work, [make, done]) == 5
    assert exit_code(work, [read, make, done]) == 0
    assert exit_code(work, [make, done], "--disallowedTools", "Bash(make)") == 0
    assert exit_code(work, [read, make, done], "--fail-on-denied") == 5
    assert exit_code(work, [done], "--fail-on-denied") == 0
    assert exit_code(work, [refused]) == 1
    assert exit_code(work, [busy]) == 75
    assert exit_code(work, [read, busy]) == 0
    assert exit_code(work, [read, busy], "--fail-on-degraded") == 75
    assert exit_code(work, [read, read, done], "--max-turns", "2") == 4


def test_degraded_says_so(work: Path) -> None:
    model = script(
        work / "s.toml",
        [{"calls": [call("Read", file_path="a.txt")]}, {"error": {"kind": "network", "message": "Gone."}}],
    )
    done = agent(["-p", "--model", model, "--output-format", "json", "q"], work)
    found = result_of(done.stdout)
    assert (found["outcome"], found["degraded"], found["is_error"]) == ("degraded", True, False)
    assert "Read a.txt (done)" in found["result"]
    assert "The model failed after tools had run: Gone." in done.stderr


def test_provider_failures_are_one_sentence(work: Path) -> None:
    with ModelServer([Reply(status=401, error="bad key")]) as server:
        done = agent(["-p", "--model", "openai/m", "q"], work, openai(server))
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    with ModelServer([Reply(status=404, error="no such model m")]) as server:
        done = agent(["-p", "--model", "openai/m", "q"], work, openai(server))
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "m" in done.stderr
    done = agent(["-p", "--model", "openai/m", "q"], work, {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
                                                             "AGENT_RETRIES": "0"})  # fmt: skip
    assert done.returncode == 75
    assert len(done.stderr.splitlines()) == 1


def test_no_model_and_no_key(work: Path) -> None:
    done = agent(["-p", "q"], work)
    assert done.returncode == 2
    assert "agent demo" in done.stderr
    done = agent(["-p", "--model", "openai/gpt-5", "q"], work)
    assert done.returncode == 2
    assert "OPENAI_API_KEY" in done.stderr
    done = agent(["-p", "--model", "nonsense", "q"], work)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("home", [None, "", "/nonexistent/home", "/dev/null"])
def test_without_a_usable_home_the_run_works(work: Path, home: str | None) -> None:
    model = script(work / "s.toml", [{"text": "Ok."}])
    env = {"AGENT_STATE_DIR": "", "HOME": home or ""}
    done = agent(["-p", "--model", model, "q"], work, env)
    assert (done.returncode, done.stdout) == (0, "Ok.\n")
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "There is no home folder, so this session is not saved." in done.stderr
    assert not Path("/nonexistent").exists()


def test_a_folder_that_is_no_repository(tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    model = script(folder / "s.toml", [{"calls": [call("Glob", pattern="*.toml")]}, {"text": "Ok."}])
    assert agent(["-p", "--model", model, "q"], folder).returncode == 0


def test_modes_and_refusals_of_the_command_line(work: Path) -> None:
    model = script(work / "s.toml", [{"calls": [call("Write", file_path="b.txt", content="x")]}, {"text": "Ok."}])
    done = agent(["-p", "--model", model, "--permission-mode", "acceptEdits", "q"], work)
    assert (done.returncode, (work / "b.txt").read_text()) == (0, "x")
    done = agent(["-p", "--model", model, "--permission-mode", "auto", "q"], work)
    assert done.returncode == 0
    assert "--permission-mode auto: no model decides about calls here, so acceptEdits is used." in done.stderr
    done = agent(["-p", "--model", model, "--tools", "Nope", "q"], work)
    assert done.returncode == 2
    done = agent(["-p", "--nope", "q"], work)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_a_word_close_to_a_command_is_questioned(work: Path) -> None:
    for word in ("docter", "doctor"):
        args = [word] if word == "docter" else ["--model", "x/y", word]
        done = agent(args, work)
        assert done.returncode == 2
        assert "agent doctor" in done.stderr


def test_tools_are_chosen(work: Path) -> None:
    with ModelServer([Reply(text="Ok.")], repeat=True) as server:
        env = openai(server)
        agent(["-p", "--model", "openai/m", "--tools", "Read,Grep", "q"], work, env)
        agent(["-p", "--model", "openai/m", "--disallowedTools", "Bash", "q"], work, env)
        agent(["-p", "--model", "openai/m", "--tools", "", "q"], work, env)
    names = [[t["function"]["name"] for t in r.body.get("tools", [])] for r in server.requests]
    assert names[0] == ["Read", "Grep"]
    assert "Bash" not in names[1]
    assert "Read" in names[1]
    assert names[2] == []


def test_debug_writes_requests_and_responses_without_secrets(work: Path) -> None:
    secret = "sk-test-0123456789abcdefghij"
    (work / "a.txt").write_text(f"token ghp_{'a' * 36} and {secret}\n")
    replies = [Reply(calls=(Call("Read", {"file_path": "a.txt"}),)), Reply(text="Done, really.")]
    with ModelServer(replies) as server:
        env = {**openai(server), "OPENAI_API_KEY": secret}
        done = agent(["-p", "--debug", "--model", "openai/m", "q"], work, env)
    assert done.returncode == 0
    path = Path(done.stderr.split("written to ")[1].split("\n")[0])
    assert oct(path.stat().st_mode & 0o777) == "0o600"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    calls = ["ToolRequested", "ToolFinished"]
    assert [x["kind"] for x in lines] == ["request", "response", *calls, "request", "response"]
    assert {"type": "TextChunk", "text": "Done, really."} in lines[-1]["data"]
    assert secret not in path.read_text()
    assert "ghp_a" not in path.read_text()
    assert "[redacted]" in path.read_text()
