"""What was done is recorded: a plan with a test, a commit with a note, and a colleague who asks why a line is there."""

from __future__ import annotations

from tests.support.stories.day import TERMINALS, Day, story
from tests.support.stories.model import bash, edit, plan, read, says

TEST = (
    "import unittest\nfrom tax import tax\nclass T(unittest.TestCase):\n    def test_a(self): assert tax(100) == 19\n"
)
CHECK = "python3 -m unittest test_tax.py"
FLAGS = ("--permission-mode", "acceptEdits", "--trust", "--allowedTools", f"Bash({CHECK})")


@story(fronts=TERMINALS, faults=("lines-kill",))
def test_a_step_is_checked_noted_and_read_by_a_colleague(day: Day) -> None:
    day.repository(
        tax__py="def tax(n):\n    return n * 20 // 100\n", test_tax__py=TEST, **{".gitignore": "__pycache__\n"}
    )
    day.model.will(
        says("I plan it.", plan("change the rate", "tell", done=0), read("tax.py")),
        says("The rate.", edit("tax.py", "20", "19")),
        says("The test.", bash(CHECK)),
        says("", plan("change the rate", "tell", done=1)),
        says("The rate is 19.", plan("change the rate", "tell", done=2)),
        says("It is 19 % now."),
    )
    day.begin("tax is 19 %", *FLAGS)
    day.shows("It is 19 % now.")
    day.shows("2 of 2 steps, 1 with a passing check after the last change")
    day.inject_fault()
    day.say("/commit --note -m Tax is 19 %")
    day.front.pick("Commit with this message?", "yes")  # type: ignore[union-attr]
    day.shows("in refs/notes/agent. It is not pushed.")
    day.front.pick("Write this note", "yes")  # type: ignore[union-attr]
    day.shows("Noted in refs/notes/agent.")
    day.leave()
    assert "refs/notes" not in day.git("ls-remote", "origin")
    day.git("push", "-q", "origin", "HEAD", "refs/notes/agent")
    assert f"{CHECK}: exit 0 (passed)" in day.git("notes", "--ref=agent", "show", "HEAD")
