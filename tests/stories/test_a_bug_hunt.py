"""A bug hunt: searches that find nothing, files that are not there, a failing test, a plan in nine steps."""

from __future__ import annotations

from tests.support.stories.day import ALL, Day, story
from tests.support.stories.model import bash, edit, plan, read, says, write

BUG = "def total(prices):\n    return sum(prices[1:])\n"
TEST = """import unittest

from total import total


class Total(unittest.TestCase):
    def test_all_count(self):
        self.assertEqual(total([1, 2, 3]), 6)
"""
SEARCHES = (
    "grep -rn subtotal .",
    "test -f setup.cfg",
    "which no-such-tool",
    "grep -c VAT total.py",
    "diff total.py test_total.py > /dev/null",
    "cmp total.py test_total.py",
    "git grep -n subtotal",
)
MISSING = [f"lib/part{n}.py" for n in range(6)]
STEPS = [f"step {number}" for number in range(1, 10)]
FLAGS = ("--permission-mode", "acceptEdits", "--allowedTools", "Bash(python3 -m unittest:*)")
FAULTS = ("headless-connection", "lines-kill", "application-terminal")


@story(fronts=ALL, faults=FAULTS)
def test_what_finds_nothing_is_no_failure_and_a_plan_is_carried_to_its_end(day: Day) -> None:
    day.repository(total__py=BUG, test_total__py=TEST, __gitignore="__pycache__/\n")
    for number, command in enumerate(SEARCHES):
        day.model.will(says(f"Search {number}.", bash(command), sees="exit code 1" if number else ()))
    day.model.will(
        says("Perhaps in the parts.", *map(read, MISSING), sees="exit code 1"),
        says("The code and the tests?", read("total.py"), bash("python3 -m unittest -q"), sees=MISSING),
        says("Nine steps.", plan(*STEPS), sees="FAILED (failures=1)"),
        says("I begin."),
    )
    # A model that stops after every step is sent on, as often as it gets on.
    for number, step in enumerate(STEPS, 1):
        work = edit("total.py", "[1:]", "") if number == 9 else write(f"notes/{number}.txt", f"{step}\n")
        day.model.will(
            says(f"Doing {step}.", work, sees="Next step: step" if number != 5 or not day.ends else ()),
            says("", plan(*STEPS, done=number), fault=number == 4),
            says(f"Finished {step}."),
        )
    day.model.lines.pop()
    day.model.will(says("And the tests.", bash("python3 -m unittest -q")), says("All nine done.", sees="OK"))
    day.begin("find out why totals are wrong", *FLAGS)
    day.inject_fault_during_turn("go on")
    day.shows("All nine done.")
    assert day.text("total.py") == "def total(prices):\n    return sum(prices)\n"
    day.leave()

    # Another process knows it all, and takes it back.
    day.front.resume()
    day.model.will(says("The first price was left out.", sees="what was it?", unseen="Next step"))
    day.say("what was it?")
    day.shows("The first price was left out.")
    day.leave()
    # What was said after a fault began another turn.
    for files in (5, 4) if day.ends else (9,):
        assert f"Restored {files} files." in day.agent("undo", "--yes")
    assert day.text("total.py") == BUG
    assert not (day.work / "notes").exists()
