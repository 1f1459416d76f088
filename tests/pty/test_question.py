"""The question in a terminal of 80 columns: everything that can be approved is there, with its facts."""

from __future__ import annotations

import os
import tempfile
import time
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
    for wanted in (
        command,
        "loses the uncommitted changes of 1 file (+1 -1 lines): a.txt",
        "deletes 1 file (1 byte), 1 that git has no copy of",
    ):
        assert "".join(wanted.split()) in "".join(shown.split()), wanted
    terminal.type("?")
    shown = terminal.expect("Allow?")
    for wanted in ("needs approval: rm", "deletes 1 file (1 byte):" + name):
        assert "".join(wanted.split()) in "".join(shown.split()), wanted
    terminal.type("n")
    terminal.expect("As you wish.")
    assert (work / "a.txt").read_text() == "changed\n"
    terminal.leave()


def test_always_kept_for_the_project_counts_in_the_next_session(work: Path) -> None:
    touch = {"calls": [call("Bash", command="touch made")]}
    model = script(work / "s.toml", [touch, {"text": "Finished."}])
    first = Terminal(["--model", model, "please"], work)
    shown = first.expect("Allow?")
    assert "a always this session: touch made" in " ".join(shown.split())
    assert "A always in this project, trusting it: touch made" in " ".join(shown.split())
    first.type("A")
    first.expect("Finished.")
    first.leave()
    assert tomllib.loads((work / ".agentrc.local").read_text())["permissions"]["allow"] == ["Bash(touch made)"]
    (work / "made").unlink()
    second = Terminal(["--model", model, "please"], work)
    assert "Allow?" not in second.expect("Finished.")
    second.leave()
    other = script(work / "other.toml", [{"calls": [call("Bash", command="touch other")]}, {"text": "Finished."}])
    third = Terminal(["--model", other, "please"], work)
    shown = " ".join(third.expect("Allow?").split())
    assert "A always in this project: touch other" in shown, "it is trusted by now"
    third.type("n")
    third.expect("Finished.")
    third.leave()
    assert (work / "made").exists()


def test_where_the_project_is_not_trusted_it_holds_for_the_session(work: Path) -> None:
    (work / ".agentrc").write_text('[permissions]\nallow = ["Bash(make)"]\n')
    model = script(work / "s.toml", [{"calls": [call("Bash", command="touch made")]}, {"text": "Finished."}])
    terminal = Terminal(["--model", model, "please"], work)
    terminal.expect("Trust")
    terminal.type("n")
    terminal.expect("Allow?")
    shown = terminal.expect("? explain")
    assert "a always this session: touch made" in shown
    assert "in this project" not in shown
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
    assert "h 3 hunks" in " ".join(terminal.expect("Allow?").split())
    terminal.type("h")
    assert "Hunk 1 of 3" in terminal.expect("Apply this hunk?")
    terminal.type("perhaps")
    terminal.expect("Apply this hunk?")
    terminal.type("n")
    assert "Hunk 2 of 3" in terminal.expect("Apply this hunk?")
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
    shown = terminal.expect("Allow?").rpartition("? Run a command")[2]
    assert shown.count("\n") <= 4 and all(len(line) <= 80 for line in shown.split("\n")), shown
    assert "y yes · a always this session: touch x" in shown
    terminal.type("n")
    terminal.leave()


def last(screen: Drawn, rows: int) -> list[str]:
    """The last rows of the screen, without rules and blank ones."""
    return [row for row in screen.visible().split("\n") if row.strip("─ ")][-rows:]


def test_a_small_question_in_the_application(short: Path) -> None:
    with Drawn(["--model", asked(short, "touch x"), "please"], short, 80, 24) as screen:
        screen.wait("Esc no")
        assert last(screen, 6) == [
            "Run this command?",
            "  touch x",
            "❯ y  Yes",
            "  a  Yes, and ask no more about touch x",
            "  n  No · Tab: say what to do instead",
            "  ↑↓ Enter · Tab add words · e edit · ? more · Esc no",
        ]
        assert screen.input_line() == "❯ y  Yes", "the one cursor is where the keys go"
        screen.rest()
        screen.type("n")
        screen.wait("⊘ Run: touch x · denied")
        screen.gone("Run this command?")
        screen.leave()


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (100, 32), (40, 15), (160, 45)])
def test_the_whole_command_is_on_the_screen_before_the_answer(short: Path, columns: int, rows: int) -> None:
    for number in range(90):
        (short / f"a-file-with-a-long-name-{number:02}").write_text("x\n")
    listed = " ".join(sorted(p.name for p in short.glob("a-file*")))
    command = f"rm -f {listed} && echo the-last-words"
    args = ["--model", script(short.parent / "s.toml", [{"calls": [call("Bash", command=command)]}, {"text": "Ok."}])]
    with Drawn([*args, "please"], short, columns, rows) as screen:
        screen.wait("Esc no")
        squeezed = "".join(screen.text().split())
        assert "".join(command.split()) in squeezed and "deletes 90 files" in screen.visible()
        screen.type("please, a draft of many words " * 12)
        screen.until(lambda: screen.input_line().rstrip().endswith("words"), "the draft")
        assert "Run this command?" in screen.visible() and "❯ y  Yes" in screen.visible()
        screen.type("\x1b")
        screen.wait("Esc no")
        screen.type("\x1b")
        screen.wait("Ok.")
        screen.kill()
    assert (short / "a-file-with-a-long-name-00").exists()


def test_answers_by_every_key(short: Path) -> None:
    """Enter, a digit, arrows, a comment, Escape, and what explains; no two of them in one question."""
    runs = [{"calls": [call("Bash", command=f"touch x{number}")]} for number in range(7)]
    runs[4]["expect"] = "said: and be quick"
    runs[6]["expect"] = "not this one"
    model = script(short.parent / "s.toml", [*runs, {"text": "All done."}])
    with Drawn(["--model", model, "please"], short, 80, 24) as screen:
        screen.wait("touch x0")
        screen.rest()
        screen.type("y\r")
        screen.wait("could be an answer")
        assert not (short / "x0").exists(), "two keys at once are a paste"
        screen.rest()
        screen.type("y")
        screen.wait("touch x1")
        screen.rest()
        screen.type("\r")
        screen.wait("touch x2")
        screen.rest()
        screen.type("1")
        screen.wait("touch x3")
        screen.rest()
        screen.type("\t")
        screen.wait("yes, and>")
        screen.line("and be quick")
        screen.wait("  touch x4")
        screen.rest()
        screen.type("?")
        screen.wait("asked, as touch is not known to be read-only, and no rule allows it")
        screen.type("\x1b")
        screen.gone("asked, as")
        screen.type("\x1b")
        screen.wait("  touch x5")
        screen.wait("⊘ Run: touch x4 · denied")
        screen.rest()
        screen.type("\x1b[A")
        screen.until(lambda: screen.input_line().startswith("❯ n"), "the last choice")
        screen.type("\t")
        screen.wait("no, because>")
        screen.line("not this one")
        screen.wait("  touch x6")
        screen.wait("denied: not this one")
        screen.rest()
        screen.type("\x1b[B")
        screen.until(lambda: screen.input_line().startswith("❯ a"), "the second choice")
        screen.type("\r")
        screen.wait("All done.")
        screen.leave()
    assert [p.name for p in sorted(short.glob("x*"))] == ["x0", "x1", "x2", "x3", "x6"]


def test_a_sentence_at_a_question_is_a_message_and_the_title_says_what_goes_on(short: Path) -> None:
    replies = [{"calls": [call("Bash", command="touch x")]}, {"text": "Noted.", "expect": "but use tabs"}]
    model = script(short.parent / "s.toml", replies)
    with Drawn(["--model", model, "please"], short, 80, 24) as screen:
        screen.wait("Esc no")
        assert screen.screen.title.startswith("? ")
        screen.rest()
        screen.type("but use tabs")
        screen.until(lambda: screen.input_line() == "> but use tabs", "the sentence, above the question")
        assert screen.visible().index("> but use tabs") < screen.visible().index("Run this command?")
        screen.type("\r")
        screen.wait("queued: but use tabs")
        assert not (short / "x").exists() and "Run this command?" in screen.visible()
        screen.rest()
        screen.type("\x1b[200~y\x1b[201~")
        screen.until(lambda: screen.input_line() == "> y", "the paste")
        assert not (short / "x").exists()
        screen.type("\x7f")
        screen.until(lambda: screen.input_line().startswith("❯ y"), "the question")
        screen.rest()
        screen.type("y")
        screen.wait("Noted.")
        assert (short / "x").exists()
        screen.leave()
    before_the_end = screen.raw[: screen.raw.index(b"Noted.")]
    assert before_the_end.rindex(b"\x1b]0;* ") > before_the_end.rindex(b"\x1b]0;? "), "the work goes on"


def test_shift_tab_at_an_edit_accepts_all_edits(short: Path) -> None:
    writes = [{"calls": [call("Write", file_path=f"n{number}", content="x\n" * 30)]} for number in range(3)]
    model = script(short.parent / "s.toml", [*writes, {"text": "All done."}])
    with Drawn(["--model", model, "please"], short, 80, 24) as screen:
        screen.wait("s  Yes, and make further edits without asking · Shift-Tab")
        assert "30 lines above" in screen.visible()
        screen.rest()
        screen.type("\x1b[Z")
        screen.wait("All done.")
        screen.leave()
    assert len(list(short.glob("n*"))) == 3


def test_each_call_of_an_answer_begins_when_it_is_allowed_and_a_comment_on_a_refusal_skips_the_rest(
    short: Path,
) -> None:
    calls = [call("Bash", command=f"touch x{number}") for number in range(4)]
    replies = [{"calls": calls}, {"text": "Ok.", "expect": "use mktemp"}]
    with Drawn(["--model", script(short.parent / "s.toml", replies), "please"], short, 80, 24) as screen:
        screen.wait("1 of 4")
        screen.rest()
        screen.type("y")
        screen.wait("2 of 4")
        assert (short / "x0").exists() and not (short / "x1").exists()
        screen.rest()
        screen.type("\x1b[A")
        screen.until(lambda: screen.input_line().startswith("❯ n"), "the last choice")
        screen.type("\t")
        screen.wait("no, because>")
        screen.line("use mktemp")
        screen.wait("Ok.")
        screen.leave()
    assert [p.name for p in short.glob("x*")] == ["x0"]


def test_alike_calls_are_answered_together_once_all_of_them_are_shown(short: Path) -> None:
    calls = [call("Write", file_path=f"n{number}", content=f"the content of {number}\n" * 20) for number in range(3)]
    replies = [{"calls": calls}, {"text": "Ok."}]
    with Drawn(["--model", script(short.parent / "s.toml", replies), "please"], short, 80, 24) as screen:
        screen.wait("t  Show the 2 others like it, and answer together")
        screen.rest()
        screen.type("t")
        screen.wait("Allow all 3?")
        assert all(screen.text().count(f"the content of {number}\n") >= 20 for number in (1, 2))
        assert not list(short.glob("n*"))
        screen.rest()
        screen.type("y")
        screen.wait("Ok.")
        screen.leave()
    assert len(list(short.glob("n*"))) == 3


@pytest.mark.parametrize("key", ["y", "\r", "n", "1"])
def test_the_effect_of_a_key_is_on_the_screen_at_once(short: Path, key: str) -> None:
    runs = [{"calls": [call("Bash", command=f"touch x{number}")]} for number in range(8)]
    took = []
    with Drawn(["--model", script(short.parent / "s.toml", [*runs, {"text": "Ok."}]), "go"], short, 80, 24) as screen:
        for number in range(8):
            screen.wait(f"  touch x{number}")
            screen.rest()
            began = time.monotonic()
            screen.type(key)
            screen.until(lambda shown=f"  touch x{number}\n": shown not in screen.visible())  # type: ignore[misc]
            took.append(time.monotonic() - began)
        screen.wait("Ok.")
        screen.leave()
    # The machine may be busy; nothing in the program waits longer.
    assert min(took) < 0.06, took


def test_always_for_a_test_runner_spares_the_next_question(short: Path) -> None:
    (short / "pytest").write_text("#!/bin/sh\necho ran $* >> ran\n")
    (short / "pytest").chmod(0o755)
    one, two = "cd . && pytest tests/test_a.py -q 2>&1 | tail -5", "pytest tests/test_b.py"
    calls = [{"calls": [call("Bash", command=c)]} for c in (one, two, f"{two}; rm -rf gone")]
    model = script(short.parent / "s.toml", [*calls, {"text": "Finished."}])
    terminal = Terminal(["--model", model, "please"], short, PATH=f"{short}:{os.environ['PATH']}")
    shown = " ".join(terminal.expect("Allow?").split())
    assert "a always this session: pytest:*" in shown and "exactly: pytest tests/test_a.py -q" in shown
    terminal.type("?")
    shown = " ".join(terminal.expect("Allow?").split())
    assert "a always this session: pytest:*: until this session ends; adds Bash(pytest:*)" in shown
    terminal.type("a")
    assert "rm -rf gone" in terminal.expect("Allow?"), "the second is not asked about"
    assert (short / "ran").read_text() == "ran tests/test_a.py -q\nran tests/test_b.py\n"
    terminal.type("n")
    terminal.expect("Finished.")
    terminal.leave()


def test_a_question_comes_while_a_call_that_only_reads_runs_and_shows_it(work: Path) -> None:
    (work / "b.txt").write_text("one\n")
    os.mkfifo(work / "pipe")
    read = {"calls": [call("Read", file_path="b.txt")]}
    both = [call("Bash", command="cat pipe"), call("Edit", file_path="b.txt", old_string="one", new_string="two")]
    model = script(work.parent / "s.toml", [read, {"calls": both}, {"text": "Done."}])
    with Drawn(["--model", model], work) as screen:
        screen.wait("asks before changes (Shift-Tab)")
        screen.line("go")
        screen.wait("Make this change to b.txt?")
        screen.wait("Run: cat pipe")
        screen.rest()
        screen.type("y")
        screen.gone("Make this change to b.txt?")
        (work / "pipe").write_text("from the pipe\n")
        screen.wait("Done.")
        shown = screen.text()
        assert shown.count("Run: cat pipe") == 1 and shown.index("from the pipe") < shown.index("Edit b.txt")
        assert (work / "b.txt").read_text() == "two\n"
        screen.leave()


def test_the_answer_to_a_question_stands_apart_from_the_words_around_it(work: Path) -> None:
    questions = [{"question": "Which one?", "options": [{"label": "A"}, {"label": "B"}]}]
    ask = {"text": "I have to ask.", "calls": [call("AskUserQuestion", questions=questions)]}
    with Drawn(["--model", script(work / "s.toml", [ask, {"text": "So be it."}]), "--", "go"], work) as screen:
        screen.wait("Which one?")
        screen.rest()
        screen.type("1")
        screen.wait("So be it.")
        screen.wait("✓ ")
        assert "I have to ask.\n\n? Which one? → A\n\n  So be it." in screen.text()
