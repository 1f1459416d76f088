"""A day that ends in commits: what you staged stays yours, a hook says no once, a push by hand."""

from __future__ import annotations

from tests.support.stories.day import TERMINALS, Day, story
from tests.support.stories.front_ends import Application
from tests.support.stories.model import bash, edit, read, says, write

HOOK = """grep -q TODO parser.py || exit 0
echo "no TODO goes in" >&2
exit 1"""
FLAGS = ("--permission-mode", "acceptEdits", "--trust", "--allowedTools", "Bash(sed:*)")


@story(fronts=TERMINALS, faults=("lines-connection", "application-disk", "lines-kill"))
def test_commit_rejected_mended_committed_pushed(day: Day) -> None:
    day.repository(parser__py="a = 1\nb = 2\n", readme__md="hello\n")
    day.git_hook("pre-commit", HOOK)
    day.file("readme.md", "hello, mine\n")
    day.git("add", "readme.md")
    day.model.will(
        says("I read it.", read("parser.py")),
        says("And change it.", edit("parser.py", "a = 1", "a = 10  # TODO"), write("new.py", "c = 3\n")),
        says("Changed."),
    )
    day.begin("a is ten", *FLAGS)
    day.shows("Changed.")
    day.say("/diff")
    day.shows("a = 10")
    if isinstance(day.front, Application):
        day.shows("q close")
        day.front.key("q")
    day.say("/commit -m A is ten")
    day.front.pick("Commit with this message?", "yes")  # type: ignore[union-attr]
    day.shows("no TODO goes in")
    assert day.git("log", "--format=%s") == "Begin"
    assert day.git("diff", "--cached", "--name-only") == "readme.md"

    day.inject_fault()
    day.model.will(
        says("It goes.", bash("sed -i 's/  # TODO//' parser.py"), sees="remove the TODO"),
        says("No TODO any more."),
    )
    day.say("remove the TODO")
    day.shows("No TODO any more.")
    day.clear_fault()
    day.model.will(says("Make a ten\n\nAnd add c."))
    day.say("/commit in English")
    day.front.pick("Commit with this message?", "yes")  # type: ignore[union-attr]
    day.shows("Committed")
    assert day.git("log", "-1", "--format=%s") == "Make a ten"
    assert sorted(day.git("show", "--format=", "--name-only").split()) == ["new.py", "parser.py"]
    assert day.git("diff", "--cached", "--name-only") == "readme.md"
    day.say("!git push -q && echo pushed")
    day.until(lambda: day.git("log", "-1", "--format=%s", "main", cwd=day.remote) == "Make a ten", "the push")
    day.model.will(says("It is on main.", sees=("pushed", "Make a ten")))
    day.say("where is it now?")
    day.shows("It is on main.")
    if day.fault != "disk":
        # On a full disk nothing can be kept for an undo, which was said.
        day.undo(files=1)
        assert day.text("parser.py") == "a = 10  # TODO\nb = 2\n"
    day.leave()
