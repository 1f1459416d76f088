"""Sessions of other agents with damage, gaps and unknown records; rewinds, images, secrets and large results."""

from __future__ import annotations

import base64
import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent_cli.kernel.messages import AssistantMessage, Message, ToolMessage
from tests.support.claude_transcripts import written
from tests.support.foreign_stores import DATABASE, PROGRAMS, recorded, thaw
from tests.support.program import agent
from tests.support.taken_sessions import ask, load, place, shown, take

ID = "5d0d8d5e-0000-4000-8000-00000000abcd"
PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 20).decode()


def claude_file(home: Path, work: Path, lines: list[dict[str, Any]]) -> Path:
    name = "".join(c if c.isascii() and c.isalnum() else "-" for c in str(work.resolve()))
    lines = [{"cwd": str(work), **line} for line in lines]
    return written(home / ".claude/projects" / name / f"{ID}.jsonl", lines)


def user(content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "user", "message": {"role": "user", "content": content}, **more}


def answer(*blocks: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "assistant", "message": {"role": "assistant", "content": list(blocks)}, **more}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def use(name: str, call_id: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def result(call_id: str, words: Any, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": words, **more}


def taken(home: Path, work: Path, lines: list[dict[str, Any]]) -> list[Message]:
    claude_file(home, work, lines)
    return list(load(home, take(work, "claude")["session_id"]).history)


DAMAGED = ["{", "\x00\x01", "[1]", '"x"', '{"type": 5, "uuid": []}', '{"type": "new-record", "x": {}}', "9" * 5000]


@pytest.mark.parametrize("name", ["claude", "codex", "gemini"])
def test_damaged_and_unknown_lines_are_left_out_and_counted(work: Path, home: Path, name: str) -> None:
    place(name, "worked", home, work)
    [path] = [p for p in home.rglob("*.jsonl") if p.parent.name != "subagents"]
    expected = shown(load(home, take(work, name)["session_id"]))
    lines = path.read_text().splitlines()
    path.write_text("\n".join(line for one in lines for line in (*DAMAGED, one)) + '\n{"torn": "')
    assert not take(work, name)["new"]
    shutil.rmtree(home / "state")
    made = take(work, name)
    assert shown(load(home, made["session_id"])) == expected
    assert made["notes"][0].endswith(" of its file could not be read.")


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_beginning_of_a_file_is_a_session_or_a_sentence(work: Path, home: Path, name: str) -> None:
    place(name, "worked", home, work)
    if name == "opencode":
        paths = [home / DATABASE]
    else:
        paths = [p for p in home.rglob("*.jsonl") if p.parent.name != "subagents"]
    [path] = paths
    whole = path.read_bytes()
    for part in range(20):
        path.write_bytes(whole[: len(whole) * part // 20])
        done = agent(["sessions", "import", name], work)
        assert done.returncode in (0, 2) and "Traceback" not in done.stderr, done.stderr
    for made in home.glob("state/sessions/*/*.jsonl"):
        calls = [c.id for m in load(home, made.stem).history if isinstance(m, AssistantMessage) for c in m.calls]
        answered = [m.call_id for m in load(home, made.stem).history if isinstance(m, ToolMessage)]
        assert sorted(calls) == sorted(answered)


def test_a_call_without_a_result_is_closed_and_results_out_of_order_are_put_in_order(work: Path, home: Path) -> None:
    lines = [
        user("Go."),
        answer(text("Three."), *(use("Bash", call_id, command="x") for call_id in ("c1", "c2", "c3"))),
        user([result("c3", "three"), result("other", "of no call")]),
        user([result("c1", "one"), result("c1", "again")]),
        answer(text("On.")),
    ]  # fmt: skip
    history = taken(home, work, lines)
    results = [(m.call_id, m.text[:20], m.is_error) for m in history if isinstance(m, ToolMessage)]
    assert results == [("c1", "one", False), ("c2", "The session was inte", True), ("c3", "three", False)]
    ask(work, "anthropic/claude-sonnet-4-5", "-r", "@claude", "And?")


def test_a_call_of_an_unknown_tool_is_a_line_with_its_result(work: Path, home: Path) -> None:
    lines = [
        user("Go."),
        answer(use("mcp__tickets__find", "c1", id=7), use("Bash", "c2", command="ls", sandboxed=True)),
        user([result("c1", "Ticket 7:\n" + "broken " * 100), result("c2", "a.py")]),
        answer(use("Read", "c3", unknown="x")),
        user([result("c3", "no such argument", is_error=True)]),
        answer(text("Done.")),
    ]
    history = taken(home, work, lines)
    [first, second] = [m for m in history if isinstance(m, AssistantMessage)]
    assert first.text.startswith('[mcp__tickets__find: {"id": 7} -> Ticket 7: broken ') and len(first.text) < 300
    assert [(c.name, c.arguments) for c in first.calls] == [("Bash", {"command": "ls"})]
    assert second.text == '[Read failed: {"unknown": "x"} -> no such argument]\nDone.'
    for model in ("anthropic/claude-sonnet-4-5", "openai/gpt-5.6"):
        ask(work, model, "-r", "@claude", "And?")


def test_of_a_rewound_session_only_the_active_branch_is_taken_over(work: Path, home: Path) -> None:
    first = "00000000-0000-4000-a000-000000000001"
    lines = [
        user("One."),
        answer(text("Yes.")),
        user("Wrong."),
        answer(text("Gone.")),
        user("Right.", parentUuid=first),
    ]
    history = taken(home, work, lines)
    assert [m.text for m in history[:-1]] == ["One.", "Yes.", "Right."]


def test_rewound_messages_of_gemini_and_reverted_ones_of_opencode_are_gone(work: Path, home: Path) -> None:
    place("gemini", "worked", home, work)
    [path] = home.rglob("session-*.jsonl")
    messages = [line for line in map(json.loads, path.read_text().splitlines()) if line.get("type") == "user"]
    last = messages[-1]["id"]
    with path.open("a") as file:
        file.write(json.dumps({"$rewindTo": last}) + "\n")
    assert "U What does notes.md ask for" not in shown(load(home, take(work, "gemini")["session_id"]))
    place("opencode", "worked", home, work)
    with closing(sqlite3.connect(home / DATABASE)) as base:
        users = base.execute('select id from message where data like \'%"role":"user"%\' order by id').fetchall()
        base.execute("update session set revert = ?", (json.dumps({"messageID": users[-1][0]}),))
        base.commit()
    assert 'U "What does notes.md ask for"' not in shown(load(home, take(work, "opencode")["session_id"]))


def test_turns_that_codex_took_back_are_gone_and_its_plan_is_the_last_one(work: Path, home: Path) -> None:
    place("codex", "worked", home, work)
    [path] = home.rglob("rollout-*.jsonl")
    plan = json.dumps({"plan": [{"step": "Fix", "status": "completed"}, {"step": "Test", "status": "pending"}]})
    call = {"type": "function_call", "name": "update_plan", "call_id": "p1", "arguments": plan}
    output = {"type": "function_call_output", "call_id": "p1", "output": "Plan updated"}
    records = [{"type": "response_item", "payload": call}, {"type": "response_item", "payload": output}]
    with path.open("a") as file:
        for record in (*records, {"type": "event_msg", "payload": {"type": "thread_rolled_back", "num_turns": 1}}):
            file.write(json.dumps(record) + "\n")
    session = load(home, take(work, "codex")["session_id"])
    assert "U What does notes.md ask for" not in shown(session) and "U Wait for the build" in shown(session)
    assert [(item.content, item.status) for item in session.plan] == [("Fix", "completed"), ("Test", "pending")]


def test_images_are_taken_over_and_side_chains_are_not(work: Path, home: Path) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    lines = [
        user([text("What is this?"), image]),
        answer(use("Read", "c1", file_path="x.png")),
        user([result("c1", [image])]),
        user("A side chain.", isSidechain=True, parentUuid=None),
        answer(text("An image."), parentUuid="00000000-0000-4000-a000-000000000002"),
    ]
    history = taken(home, work, lines)
    assert [len(m.media) for m in history] == [1, 0, 1, 0, 0]
    assert not any("side chain" in m.text for m in history)


def test_slash_commands_are_as_typed_and_local_ones_are_left_out(work: Path, home: Path) -> None:
    expanded = "Review the code of a.py."
    lines = [
        user("<command-message>review</command-message>\n<command-name>/review</command-name>\n<command-args>a.py</command-args>"),
        user([text(expanded)], isMeta=True),
        answer(text("Fine.")),
        user("<command-name>/cost</command-name>\n<command-message>cost</command-message>\n<command-args></command-args>"),
        user("<local-command-stdout>$1</local-command-stdout>"),
        user("Next."),
    ]  # fmt: skip
    texts = [m.text for m in taken(home, work, lines)][:-1]
    assert texts == ["/review a.py", f"<reminder>\n{expanded}\n</reminder>", "Fine.", "Next."]


def test_secrets_are_redacted_and_large_and_binary_results_are_bounded(work: Path, home: Path) -> None:
    key = "sk-ant-api03-" + "a1B2" * 20
    lines = [
        user(f"Use {key}."),
        answer(use("Bash", "c1", command="cat x")),
        user([result("c1", "\x1b[31mred\x00\x07" + "line\n" * 200_000)]),
        answer(text("Done.")),
    ]
    claude_file(home, work, lines)
    made = take(work, "claude")["session_id"]
    [path] = home.glob(f"state/sessions/*/{made}.jsonl")
    assert key not in path.read_text() and path.stat().st_size < 100_000
    output = load(home, made).history[2].text
    assert "characters left out]" in output and "\x1b" not in output and "\x00" not in output


def test_a_file_read_in_part_counts_for_these_lines_as_they_are_now(work: Path, home: Path) -> None:
    whole = [f"line {n}" for n in range(1, 101)]
    (work / "long.py").write_text("\n".join(whole) + "\n")
    part = "\n".join(f"{n}\t{line}" for n, line in enumerate(whole[9:20], 10))
    lines = [
        user("Go."),
        answer(use("Read", "c1", file_path=str(work / "long.py"), offset=10, limit=11)),
        user([result("c1", part)]),
        answer(use("Edit", "c2", file_path=str(work / "long.py"), old_string="line 12", new_string="line twelve")),
        user([result("c2", "Done.")]),
    ]
    (work / "long.py").write_text("\n".join(whole).replace("line 12\n", "line twelve\n") + "\n")
    claude_file(home, work, lines)
    session = load(home, take(work, "claude")["session_id"])
    assert [mark.partition(" ")[2] for mark in session.seen.values()] == ["10-20@Edit:c2/100"]


def test_stores_behind_links_are_found(work: Path, home: Path) -> None:
    elsewhere = home.parent / "dotfiles"
    place("claude", "worked", home, work)
    (home / ".claude").rename(elsewhere)
    (home / ".claude").symlink_to(elsewhere)
    [path] = [p for p in elsewhere.rglob("*.jsonl") if p.parent.name != "subagents"]
    moved = home.parent / path.name
    path.rename(moved)
    path.symlink_to(moved)
    assert take(work, "claude")["new"]


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_a_store_of_another_kind_of_file_is_passed_over(work: Path, home: Path, make: Callable[[Path], None]) -> None:
    place("claude", "worked", home, work)
    [folder] = (home / ".claude/projects").iterdir()
    make(folder / f"{ID}.jsonl")
    assert take(work, "claude")["new"]


def test_a_database_that_is_being_written_is_read_with_what_is_not_in_it_yet(work: Path, home: Path) -> None:
    place("opencode", "worked", home, work)
    with closing(sqlite3.connect(home / DATABASE)) as base:
        base.execute("pragma journal_mode = wal")
        base.execute("update session set title = 'Written just now'")
        base.commit()
        assert (home / f"{DATABASE}-wal").stat().st_size > 0
        listed = json.loads(agent(["sessions", "import", "opencode", "--list", "--json"], work).stdout)
    assert [row["title"] for row in listed] == ["Written just now"]


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (["-p", "-r", "@claude", "Go."], "No session of Claude Code in"),
        (
            ["-p", "-r", "@other", "Go."],
            "Sessions of other cannot be taken over. There are claude, codex,",
        ),
        (["-p", "-r", "@claude", "--no-session-persistence", "Go."], "leave out --no-session-persistence"),
        (["-w", "x", "-r", "@claude"], "Take the session over first"),
        (["sessions", "import", "codex"], "No session of Codex in"),
        (["sessions", "import", "claude", "../x"], "No session of Claude Code in"),
    ],
)
def test_what_is_not_there_is_said_in_a_sentence(work: Path, home: Path, args: list[str], why: str) -> None:
    done = agent(args, work)
    assert done.returncode == 2 and why in done.stderr and "Traceback" not in done.stderr


def test_sessions_of_other_folders_are_taken_over_by_id_only(work: Path, home: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    thaw(recorded("codex", "worked"), home, other)
    assert "No session of Codex in" in agent(["sessions", "import", "codex"], work).stderr
    assert "There are no sessions of" in agent(["sessions", "import", "--list"], work).stderr
    [row] = json.loads(agent(["sessions", "import", "--list", "-A", "--json"], work).stdout)
    assert row["cwd"] == str(other)
    assert take(work, "codex", row["source_id"][:18], "-A")["new"]
    (other / ".git").mkdir()
    assert "1 session of this folder can be continued here" in agent(["import"], other).stdout


def test_an_import_that_cannot_be_written_leaves_nothing(work: Path, home: Path) -> None:
    place("claude", "worked", home, work)
    (home / "state").write_text("not a folder")
    done = agent(["sessions", "import", "claude"], work)
    assert done.returncode == 2 and "cannot be saved" in done.stderr and "Traceback" not in done.stderr
    (home / "state").unlink()
    made = take(work, "claude")
    assert made["new"]
    [path] = home.glob("state/sessions/*/*")
    # What a process left that was killed is no session.
    path.rename(path.with_suffix(".part"))
    assert json.loads(agent(["sessions", "list", "--json"], work).stdout) == []
    assert take(work, "claude")["new"] and len(list(home.glob("state/sessions/*/*"))) == 1


def test_a_transcript_of_a_session_of_ours_is_no_session_of_another_agent(work: Path, home: Path) -> None:
    place("claude", "worked", home, work)
    ask(work, "openai/gpt-4.1-mini", "Hello.")
    assert len(list(home.glob(".claude/projects/*/*.jsonl"))) == 2
    assert len(json.loads(agent(["sessions", "import", "--list", "--json"], work).stdout)) == 1


def test_the_steps_of_an_approved_plan_are_the_plan(work: Path, home: Path) -> None:
    lines = [
        user("Plan it."),
        answer(use("ExitPlanMode", "c1", plan="1. Write it\n2. Test it")),
        user([result("c1", "User has approved your plan. You can now start coding.")]),
        answer(text("I begin.")),
    ]
    claude_file(home, work, lines)
    session = load(home, take(work, "claude")["session_id"])
    assert [(item.content, item.status) for item in session.plan] == [("Write it", "pending"), ("Test it", "pending")]
    _, sent = ask(work, "anthropic/claude-sonnet-4-5", "-r", "@claude", "Go on.")
    assert "1. Write it" in sent


def test_sessions_of_sub_agents_are_not_listed(work: Path, home: Path) -> None:
    place("codex", "worked", home, work)
    [path] = home.rglob("rollout-*.jsonl")
    whole = path.read_text().replace('"source": "exec"', '"source": {"subagent": {"thread_spawn": {}}}')
    path.with_name(f"{path.stem[:-36]}{ID}.jsonl").write_text(whole)
    assert len(json.loads(agent(["sessions", "import", "--list", "--json"], work).stdout)) == 1


def test_files_that_messages_mention_follow_them_and_are_known(work: Path, home: Path) -> None:
    (work / "a.py").write_text("A = 1\n")
    (work / "b.py").write_text("B = 2\n")
    attached = [
        {"type": "attachment", "attachment": {"type": "file", "displayPath": name, "content": {"type": "text", "file": {
            "filePath": str(work / name), "content": text, "numLines": 2, "startLine": 1, "totalLines": 2}}}}
        for name, text in (("a.py", "A = 1\n"), ("b.py", "B = 1\n"))
    ]  # fmt: skip
    claude_file(home, work, [user("Compare @a.py and @b.py."), *attached, answer(text("They differ."))])
    session = load(home, take(work, "claude")["session_id"])
    assert session.history[0].text == (
        'Compare @a.py and @b.py.\n\n<file path="a.py">\nA = 1\n</file>\n\n<file path="b.py">\nB = 1\n</file>'
    )
    assert [(Path(path).name, mark.split("@")[1]) for path, mark in session.seen.items()] == [("a.py", ":message/1")]
    assert "read them before you edit them: b.py." in session.history[-1].text
    [listed] = json.loads(agent(["sessions", "list", "--json"], work).stdout)
    assert listed["first_message"].startswith("Compare @a.py and @b.py.")


def test_a_file_attached_in_opencode_follows_the_message(work: Path, home: Path) -> None:
    place("opencode", "worked", home, work)
    shown_file = (
        f"<path>{work / 'old.py'}</path>\n<type>file</type>\n<content>\n1: LIMIT = 10\n\n(End of file)\n</content>"
    )
    with closing(sqlite3.connect(home / DATABASE)) as base:
        [first] = base.execute("select message_id, session_id, data from part where data like '%Fix total%'").fetchall()
        for number, words in enumerate(("Called the Read tool with the following input: {}", shown_file)):
            data = json.dumps({"type": "text", "synthetic": True, "text": words})
            row = (f"prt_0000{number}", first[0], first[1], 1, 1, data)
            base.execute("insert into part values (?, ?, ?, ?, ?, ?)", row)
        base.commit()
    session = load(home, take(work, "opencode")["session_id"])
    assert session.history[0].text == (
        f'"Fix total in sums.py"\n\n<file path="{work / "old.py"}">\nLIMIT = 10\n</file>'
    )
