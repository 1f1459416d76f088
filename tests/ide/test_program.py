"""The real program beside a stand-in editor: what goes to the model, and who decides about a change."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.ide_editor import StandIn, write_lock
from tests.support.program import agent
from tests.support.pty_screen import Drawn
from tests.support.scripts import call, script

TEXT = "one\ntwo\nthree\n"


@pytest.fixture
def editor(work: Path) -> Iterator[StandIn]:
    (work / "a.txt").write_text(TEXT)
    with StandIn(work.parent / "home", work) as found:
        yield found


def messages(work: Path) -> list[str]:
    """The texts of all messages in the only log."""
    (log,) = (work.parent / "home/state/sessions").rglob("*.jsonl")
    records = [json.loads(line) for line in log.read_text().splitlines()]
    return [r["data"]["message"].get("text", "") for r in records if r["type"] == "MessageAdded"]


def result(work: Path) -> str:
    return messages(work)[-2]


def test_the_selection_goes_along_once_and_is_named(work: Path, editor: StandIn) -> None:
    model = script(work.parent / "s.toml", [{"text": "First."}, {"text": "Second."}, {"text": "Third."}])
    with Drawn(["--model", model], work) as screen:
        editor.wait_connected()
        screen.wait("Standin")
        editor.select(work / "a.txt", "two\nthree\n", 1, 3)
        screen.line("what is this?")
        screen.wait("First.")
        screen.wait("attached lines 2-3 of a.txt, selected in Standin")
        screen.line("and this?")
        screen.wait("Second.")
        editor.select(work / "a.txt", "")
        screen.line("now?")
        screen.wait("Third.")
        screen.wait("a.txt is open in Standin")
        screen.leave()
    first, _, second, _, third, _ = messages(work)
    assert first.startswith("what is this?\n\n<editor path=")
    assert "two\nthree\n</editor>" in first
    assert second == "and this?"
    assert "has this file open in Standin" in third
    assert "three" not in third


def test_what_is_selected_in_a_secret_file_or_elsewhere_is_not_sent(work: Path, editor: StandIn) -> None:
    (work / ".env").write_text("TOKEN=abc\n")
    (work.parent / "other.txt").write_text("private\n")
    model = script(work.parent / "s.toml", [{"text": "First."}, {"text": "Second."}])
    with Drawn(["--model", model], work) as screen:
        editor.wait_connected()
        editor.select(work / ".env", "TOKEN=abc\n", 0, 1)
        screen.line("hello")
        screen.wait("First.")
        screen.wait("not attached: .env, selected in Standin, may not be read without asking")
        editor.select(work.parent / "other.txt", "private\n", 0, 1)
        screen.line("hello again")
        screen.wait("Second.")
        screen.wait("not attached: other.txt")
        screen.leave()
    assert messages(work)[::2] == ["hello", "hello again"]


def test_a_change_saved_in_the_editor_is_made(work: Path, editor: StandIn) -> None:
    edit = call("Edit", file_path="a.txt", old_string="two", new_string="2")
    model = script(work.parent / "s.toml", [{"calls": [call("Read", file_path="a.txt"), edit]}, {"text": "Done."}])
    with Drawn(["--model", model, "please"], work) as screen:
        shown = editor.wait_diff()
        screen.wait("also shown in Standin")
        assert shown["old_file_path"] == shown["new_file_path"] == str(work / "a.txt")
        assert shown["new_file_contents"] == "one\n2\nthree\n"
        editor.save(shown["tab_name"], shown["new_file_contents"])
        screen.wait("Done.")
        assert editor.closed.get(timeout=60) == shown["tab_name"]
        screen.leave()
    assert (work / "a.txt").read_text() == "one\n2\nthree\n"
    assert "changed" not in result(work)


@pytest.mark.parametrize("tool", ["Edit", "MultiEdit", "Write"])
def test_what_the_user_changes_in_the_editor_is_written_and_told(work: Path, editor: StandIn, tool: str) -> None:
    edit = {"old_string": "two", "new_string": "2"}
    arguments = {
        "Edit": {"file_path": "a.txt", **edit},
        "MultiEdit": {"file_path": "a.txt", "edits": [edit]},
        "Write": {"file_path": "a.txt", "content": "one\n2\nthree\n"},
    }[tool]
    read = {"calls": [call("Read", file_path="a.txt")]}
    model = script(work.parent / "s.toml", [read, {"calls": [call(tool, **arguments)]}, {"text": "Done."}])
    with Drawn(["--model", model, "please"], work) as screen:
        shown = editor.wait_diff()
        assert shown["new_file_contents"] == "one\n2\nthree\n"
        editor.save(shown["tab_name"], "one\nTWO\nthree\nfour\n")
        screen.wait("Done.")
        screen.leave()
    assert (work / "a.txt").read_text() == "one\nTWO\nthree\nfour\n"
    told = result(work)
    assert "The user changed the text before it was written" in told
    assert "-2\n" in told
    assert "+TWO\n" in told


def test_a_new_file_is_shown_and_a_rejected_one_is_not_made(work: Path, editor: StandIn) -> None:
    model = script(
        work.parent / "s.toml",
        [{"calls": [call("Write", file_path="new.txt", content="x\n")]}, {"text": "As you wish."}],
    )
    with Drawn(["--model", model, "please"], work) as screen:
        shown = editor.wait_diff()
        assert shown["new_file_contents"] == "x\n"
        editor.reject(shown["tab_name"])
        screen.wait("As you wish.")
        screen.leave()
    assert not (work / "new.txt").exists()


def test_a_change_decided_in_the_terminal_closes_its_tab(work: Path, editor: StandIn) -> None:
    edit = call("Edit", file_path="a.txt", old_string="two", new_string="2")
    model = script(work.parent / "s.toml", [{"calls": [call("Read", file_path="a.txt"), edit]}, {"text": "Done."}])
    with Drawn(["--model", model, "please"], work) as screen:
        shown = editor.wait_diff()
        screen.wait("also shown in Standin")
        screen.rest()
        screen.type("y")
        screen.wait("Done.")
        assert editor.closed.get(timeout=60) == shown["tab_name"]
        screen.leave()
    assert (work / "a.txt").read_text() == "one\n2\nthree\n"


def test_the_end_of_the_editor_leaves_the_question(work: Path, editor: StandIn) -> None:
    edit = call("Edit", file_path="a.txt", old_string="two", new_string="2")
    model = script(work.parent / "s.toml", [{"calls": [call("Read", file_path="a.txt"), edit]}, {"text": "Done."}])
    with Drawn(["--model", model, "please"], work) as screen:
        editor.wait_diff()
        screen.wait("also shown in Standin")
        editor.quit()
        screen.rest()
        screen.type("y")
        screen.wait("Done.")
        screen.leave()


def test_the_model_asks_for_the_problems_of_the_editor(work: Path, editor: StandIn) -> None:
    (work / ".env").write_text("x")
    problem = {
        "message": "no such name",
        "severity": "Error",
        "source": "ruff",
        "range": {"start": {"line": 1, "character": 2}},
    }
    editor.diagnostics = [
        {"uri": (work / "a.txt").as_uri(), "diagnostics": [problem]},
        {"uri": (work / ".env").as_uri(), "diagnostics": [problem]},
    ]
    calls = [call("mcp__ide__getDiagnostics", uri="a.txt"), call("mcp__ide__getDiagnostics")]
    model = script(work.parent / "s.toml", [{"calls": calls}, {"text": "Done."}])
    done = agent(["-p", "--ide", "--model", model, "look"], work)
    assert (done.returncode, done.stdout.strip()) == (0, "Done."), done.stderr
    assert messages(work)[2:4] == ["a.txt:2:3: error: no such name [ruff]"] * 2
    assert editor.asked == [{"uri": (work / "a.txt").as_uri()}, {}]


def test_a_rule_withholds_the_tool(work: Path, editor: StandIn) -> None:
    model = script(work.parent / "s.toml", [{"calls": [call("mcp__ide__getDiagnostics")]}, {"text": "Done."}])
    done = agent(["-p", "--ide", "--model", model, "--disallowedTools", "mcp__ide", "--", "look"], work)
    assert done.returncode == 0, done.stderr
    assert editor.asked == []


def test_only_ide_connects_a_one_shot_run(work: Path, editor: StandIn) -> None:
    editor.select(work / "a.txt", "two\n", 1, 2)
    model = script(work.parent / "s.toml", [{"text": "Done."}])
    assert agent(["-p", "--model", model, "look"], work).returncode == 0
    assert editor.connections == []
    assert messages(work)[0] == "look"
    other = work.parent / "second"
    other.mkdir()
    done = agent(["-p", "--ide", "--model", model, "look"], work, {"AGENT_STATE_DIR": str(other)})
    assert "attached line 2 of a.txt, selected in Standin" in done.stderr
    assert len(editor.connections) == 1


def test_ide_says_when_there_is_no_editor(work: Path) -> None:
    model = script(work.parent / "s.toml", [{"text": "Done."}])
    done = agent(["-p", "--ide", "--model", model, "look"], work)
    assert done.returncode == 0
    assert "no editor that serves the IDE protocol has this folder open" in done.stderr


def test_what_the_editor_mentions_is_put_into_the_line(work: Path, editor: StandIn) -> None:
    model = script(work.parent / "s.toml", [{"text": "Done."}])
    with Drawn(["--model", model], work) as screen:
        editor.wait_connected()
        screen.wait("Standin")
        editor.mention(work / "a.txt", 0, 1)
        screen.wait("@a.txt:1-2")
        screen.line("what is this?")
        screen.wait("Done.")
        screen.leave()
    assert messages(work)[0].startswith(
        '@a.txt:1-2 what is this?\n\n<file path="a.txt" lines="1-2">\none\ntwo\n</file>'
    )


def test_the_command_connects_disconnects_and_opens(work: Path, editor: StandIn) -> None:
    write_lock(work.parent / "home", 1, work, authToken="")
    model = script(work.parent / "s.toml", [{"text": "Done."}])
    with Drawn(["--model", model], work, CLAUDE_CODE_AUTO_CONNECT_IDE="false") as screen:
        screen.ready()
        screen.line("/ide")
        screen.wait(f"/ide connect {editor.port}")
        screen.wait("not used: 1.lock has no token")
        assert editor.connections == []
        screen.line("/ide connect")
        screen.wait("Connected to Standin")
        editor.wait_connected()
        screen.line("/ide open a.txt")
        screen.until(lambda: editor.opened == [str(work / "a.txt")])
        screen.line("/ide disconnect")
        screen.wait("Disconnected from Standin.")
        screen.line("hello")
        screen.wait("Done.")
        screen.leave()
    assert len(editor.connections) == 1


def test_a_new_session_keeps_the_connection(work: Path, editor: StandIn) -> None:
    model = script(work.parent / "s.toml", [{"text": "Done."}])
    with Drawn(["--model", model], work) as screen:
        editor.wait_connected()
        screen.wait("Standin")
        screen.line("hello")
        screen.wait("Done.")
        screen.line("/clear")
        screen.wait("> /clear")
        screen.line("/ide")
        screen.wait("Connected to Standin")
        screen.leave()
    assert len(editor.connections) == 1


def test_a_script_on_standard_input_connects_only_if_it_asks_for_that(work: Path, editor: StandIn) -> None:
    editor.select(work / "a.txt", "two\n", 1, 2)
    model = script(work.parent / "s.toml", [{"text": "Done."}])
    assert "Done." in agent(["--plain", "--model", model], work, stdin="look\n").stdout
    assert editor.connections == []
    other = work.parent / "second"
    other.mkdir()
    done = agent(["--plain", "--ide", "--model", model], work, {"AGENT_STATE_DIR": str(other)}, stdin="look\n")
    assert "attached line 2 of a.txt" in done.stdout
