"""The question in a terminal of 80 columns: everything that can be approved is there, with its facts."""

from __future__ import annotations

import os
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.program import agent
from tests.support.pty_screen import Drawn
from tests.support.pty_session import Terminal
from tests.support.repositories import git
from tests.support.scripts import call, script


def test_what_would_be_lost_is_shown_before(work: Path) -> None:
    git(work, "init")
    git(work, "add", ".")
    git(work, "commit", "-m", "first")
    (work / "a.txt").write_text("changed\n")
    name = "long-" * 30 + "end"
    (work / name).write_text("x")
    command = f"git reset --hard && rm '{name}'"
    model = script(work / "s.toml", [{"calls": [call("Bash", command=command)]}, {"text": "As you wish."}])
    terminal = Terminal(["--model", model, "please"], work)
    shown = terminal.expect("Allow?")
    flat = "".join(shown.split())
    for wanted in (
        command,
        "part 2, no rule allows it: rm",
        "loses the uncommitted changes of 1 file (+1 -1 lines): a.txt",
        "deletes 1 file (1 byte):" + name,
    ):
        assert "".join(wanted.split()) in flat, wanted
    terminal.type("n")
    terminal.expect("As you wish.")
    assert (work / "a.txt").read_text() == "changed\n"
    terminal.leave()


def test_always_kept_for_the_project_counts_in_the_next_session(work: Path) -> None:
    touch = {"calls": [call("Bash", command="touch made")]}
    model = script(work / "s.toml", [touch, {"text": "Finished."}])
    first = Terminal(["--model", model, "please"], work)
    shown = first.expect("Allow?")
    assert "a adds the rule Bash(touch made)" in shown
    assert "A saves it, and trusts the project as it is" in " ".join(shown.split())
    first.type("A")
    first.expect("Finished.")
    first.leave()
    assert tomllib.loads((work / ".agentrc.local").read_text())["permissions"]["allow"] == ["Bash(touch made)"]
    (work / "made").unlink()
    second = Terminal(["--model", model, "please"], work)
    assert "Allow?" not in second.expect("Finished.")
    assert (work / "made").exists()
    second.leave()


def test_where_the_project_is_not_trusted_it_holds_for_the_session(work: Path) -> None:
    (work / ".agentrc").write_text('[permissions]\nallow = ["Bash(make)"]\n')
    model = script(work / "s.toml", [{"calls": [call("Bash", command="touch made")]}, {"text": "Finished."}])
    terminal = Terminal(["--model", model, "please"], work)
    terminal.expect("Trust")
    terminal.type("n")
    shown = terminal.expect("Allow?")
    assert "a adds the rule" in shown
    assert "A keeps" not in shown
    terminal.type("a")
    terminal.expect("Finished.")
    assert not (work / ".agentrc.local").exists()
    terminal.leave()


def test_learning_from_what_was_approved(work: Path) -> None:
    calls = [
        {"calls": [call("Bash", command="touch made")]},
        {"calls": [call("Bash", command="touch made && touch more")]},
        {"calls": [call("Bash", command="python3 -c 1")]},
        {"calls": [call("Bash", command="touch refused")]},
    ]
    model = script(work / "s.toml", [*calls, {"text": "Finished."}])
    terminal = Terminal(["--model", model, "please"], work)
    for answer in ("y", "y", "y", "n"):
        terminal.expect("Allow?")
        terminal.type(answer)
    terminal.expect("Finished.")
    terminal.leave()
    done = agent(["permissions", "learn"], work)
    assert done.returncode == 0, done.stderr
    assert tomllib.loads(done.stdout) == {"permissions": {"allow": ["Bash(touch made)", "Bash(touch more)"]}}
    assert "# 3 calls that you approved in the last 30 days would need approval again." in done.stdout
    assert "# 1 of them cannot be allowed by a narrow rule." in done.stdout
    assert '"Bash(touch made)",  # 2 of them; allows exactly this command' in done.stdout
    (work / "rules.toml").write_text(done.stdout)
    shown = agent(["show"], work).stdout
    assert "the narrowest rule that would allow it: Bash(touch made)" in shown


def test_a_command_is_changed_before_it_runs(work: Path) -> None:
    model = script(
        work / "s.toml",
        [
            {"calls": [call("Bash", command="touch made")]},
            {"text": "Seen.", "expect": "The user changed the arguments"},
        ],
    )
    terminal = Terminal(["--model", model, "please"], work)
    assert "e edit" in " ".join(terminal.expect("Allow?").split())
    terminal.type("e")
    terminal.expect("new command")
    terminal.type("")
    terminal.expect("Allow?")
    terminal.type("e")
    terminal.expect("new command")
    terminal.type("touch other")
    assert "touch other" in terminal.expect("Allow?"), "what was changed is decided anew"
    terminal.type("y")
    terminal.expect("Seen.")
    assert (work / "other").exists() and not (work / "made").exists()
    terminal.leave()


def test_a_new_file_is_changed_in_the_editor_before_it_is_written(work: Path) -> None:
    editor = work.parent / "editor"
    editor.write_text('#!/bin/sh\nsed -i s/one/two/ "$1"\n')
    editor.chmod(0o755)
    model = script(
        work / "s.toml", [{"calls": [call("Write", file_path="new.txt", content="one\n")]}, {"text": "Seen."}]
    )
    terminal = Terminal(["--model", model, "please"], work, EDITOR=str(editor))
    terminal.expect("Allow?")
    terminal.type("e")
    assert "+two" in terminal.expect("Allow?").replace(" ", "")
    terminal.type("y")
    terminal.expect("Seen.")
    assert (work / "new.txt").read_text() == "two\n"
    terminal.leave()


def test_a_change_is_taken_in_parts(work: Path) -> None:
    (work / "f.txt").write_text("".join(f"{n}\n" for n in range(30)))
    edits = [{"old_string": f"\n{n}\n", "new_string": f"\nx{n}\n"} for n in (5, 15, 25)]
    replies = [
        {"calls": [call("Read", file_path="f.txt")]},
        {"calls": [call("MultiEdit", file_path="f.txt", edits=edits)]},
        {"text": "Some of it.", "expect": "The user took 2 of the 3 parts"},
    ]
    terminal = Terminal(["--model", script(work / "s.toml", replies), "please"], work)
    assert "h its 3 parts one by one" in " ".join(terminal.expect("Allow?").split())
    terminal.type("h")
    assert "Part 1 of 3" in terminal.expect("Take this part?")
    terminal.type("perhaps")
    terminal.expect("Take this part?")
    terminal.type("n")
    assert "Part 2 of 3" in terminal.expect("Take this part?")
    terminal.type("a")
    terminal.expect("Some of it.")
    assert [line for line in (work / "f.txt").read_text().split() if "x" in line] == ["x15", "x25"]
    terminal.leave()


@pytest.fixture
def short(tmp_path: Path) -> Iterator[Path]:
    """A project whose path is as long on every machine."""
    with tempfile.TemporaryDirectory(prefix="q-", dir="/tmp") as name:
        project = Path(name) / "p"
        (project / ".git").mkdir(parents=True)
        yield project


def asked(short: Path, command: str) -> str:
    return script(short.parent / "s.toml", [{"calls": [call("Bash", command=command)]}, {"text": "Finished."}])


def test_a_small_question_has_four_lines(short: Path) -> None:
    terminal = Terminal(["--model", asked(short, "touch x"), "please"], short, COLUMNS="80")
    shown = terminal.expect("Allow?").rpartition("? Run: touch x")[2]
    assert shown.count("\n") <= 3 and all(len(line) <= 80 for line in shown.split("\n")), shown
    assert "a adds the rule Bash(touch x) · A saves it" in shown
    terminal.type("n")
    terminal.leave()


def test_a_small_question_has_four_rows_in_the_application(short: Path) -> None:
    with Drawn(["--model", asked(short, "touch x"), "please"], short, 80, 24) as screen:
        screen.wait("because]")
        shown = screen.visible()
        rows = shown[shown.index("? Run: touch x") : shown.index("because]")].split("\n")
        assert len([r for r in rows if r.strip() and not r.startswith("* waiting")]) <= 4, rows
        screen.rest()
        screen.type("n")
        screen.leave()


@pytest.mark.parametrize("rows", [24, 12])
def test_the_command_is_never_scrolled_away(short: Path, rows: int) -> None:
    for number in range(30):
        (short / f"a-file-with-a-long-name-{number:02}").write_text("x\n")
    listed = " ".join(sorted(p.name for p in short.glob("a-file*")))
    command = f"rm -f {listed} && echo the-last-words"
    with Drawn(["--model", asked(short, command), "please"], short, 80, rows) as screen:
        screen.wait("Allow it?")
        shown = screen.visible()
        assert "? Run: rm -f a-file-with-a-long-name-00" in shown and "the-last-words" in shown
        assert "more rows, which stand above]" in shown
        assert "a-file-with-a-long-name-15" in screen.text(), "all of it is above"
        screen.rest()
        screen.type("n")
        screen.leave()


def test_always_for_a_test_runner_spares_the_next_question(short: Path) -> None:
    (short / "pytest").write_text("#!/bin/sh\necho ran $* >> ran\n")
    (short / "pytest").chmod(0o755)
    one, two = "cd . && pytest tests/test_a.py -q 2>&1 | tail -5", "pytest tests/test_b.py"
    calls = [{"calls": [call("Bash", command=c)]} for c in (one, two, f"{two}; rm -rf gone")]
    model = script(short.parent / "s.toml", [*calls, {"text": "Finished."}])
    terminal = Terminal(["--model", model, "please"], short, PATH=f"{short}:{os.environ['PATH']}")
    shown = " ".join(terminal.expect("Allow?").split())
    assert "a adds the rule Bash(pytest:*)" in shown
    assert "every command that begins with `pytest`, whatever follows" in shown
    terminal.type("a")
    assert "rm -rf gone" in terminal.expect("Allow?"), "the second is not asked about"
    assert (short / "ran").read_text() == "ran tests/test_a.py -q\nran tests/test_b.py\n"
    terminal.type("n")
    terminal.expect("Finished.")
    terminal.leave()
