"""A day in a worktree of its own, beside work that is not committed."""

from __future__ import annotations

from pathlib import Path

from tests.support.stories.day import ALL, Day, story
from tests.support.stories.headless import Headless
from tests.support.stories.model import bash, edit, read, says

FLAGS = ("--worktree", "try", "--permission-mode", "acceptEdits")


def worktree(day: Day) -> Path:
    [line] = [x for x in day.git("worktree", "list", "--porcelain").splitlines() if "worktrees" in x]
    return Path(line.removeprefix("worktree "))


@story(fronts=ALL, faults=("application-terminal", "lines-kill", "headless-connection"))
def test_an_attempt_apart_is_committed_pushed_and_merged(day: Day) -> None:
    day.repository(parser__py="old = True\n")
    mine = day.file("notes.txt", "mine\n")
    day.file("parser.py", "old = True  # mine\n")
    day.git_hook("pre-commit", "echo checked >> ../../../../../checked 2>/dev/null; exit 0")
    day.model.will(
        says("Where am I?", bash("git status --short --branch"), read("parser.py")),
        says("Another parser.", edit("parser.py", "old = True", "new = True"), sees=("agent/try", "old = True")),
        says("I commit.", bash("git commit -qam 'Another parser'")),
    )
    if isinstance(day.front, Headless):
        # A worktree is a project of its own.
        day.front.listing = ("--all",)
    day.begin("try another parser", *FLAGS)
    day.asked("git commit -qam")
    assert worktree(day).joinpath("parser.py").read_text() == "new = True\n"
    assert (day.text("parser.py"), mine.read_text()) == ("old = True  # mine\n", "mine\n")
    day.model.will(
        says("I push the branch.", bash("git push -q origin agent/try")),
        says("On its branch, and pushed."),
    )
    day.inject_fault("git commit -qam")
    day.answer("y")
    day.approves("git push")
    day.shows("On its branch, and pushed.")
    day.leave()
    day.shows("agent/try")
    assert day.git("log", "-1", "--format=%s", "agent/try", cwd=day.remote) == "Another parser"
    assert day.git("log", "-1", "--format=%s") == "Begin"

    day.front.resume()
    day.model.will(
        says("One more.", edit("parser.py", "new = True", "newest = True"), sees="better"),
        says("Better now."),
    )
    day.say("make it better")
    day.shows("Better now.")
    assert worktree(day).joinpath("parser.py").read_text() == "newest = True\n"
    day.leave()
    assert day.text("parser.py") == "old = True  # mine\n"
    day.git("stash", "-q")
    day.git("merge", "-q", "agent/try")
    assert day.text("parser.py") == "new = True\n"
