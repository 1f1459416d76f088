"""Sub-agents that ask, are refused, fail and spend; what they did is undone with the turn that sent them."""

from __future__ import annotations

import sys

from tests.support.model_replies import Call
from tests.support.stories.day import ALL, Day, story
from tests.support.stories.model import bash, edit, plan, read, says, task

PYTEST = f"{sys.executable} -m pytest -q -p no:cacheprovider test_tax.py"
TEST = "from tax import tax\n\n\ndef test_tax():\n    assert tax(100) == 19\n"


@story(fronts=ALL, faults=("application-kill", "lines-disk", "headless-connection"))
def test_helpers_ask_and_are_undone(day: Day) -> None:
    day.repository(tax__py="def tax(n):\n    return n * 20 // 100\n", test_tax__py=TEST, __gitignore="__pycache__/\n")
    day.model.will(
        says("One looks.", plan("find", "mend"), task("Find the rate.", "explore")),
        says("I search.", Call("Grep", {"pattern": "20", "output_mode": "content"}), sees="Find the rate."),
        says("tax.py:2 has 20.", sees="n * 20"),
        says("Another one mends.", plan("find", "mend", done=1), task("Make the rate 19."), sees="tax.py:2 has 20."),
        says("I read it.", read("tax.py"), sees="Make the rate 19."),
        says("And change it.", edit("tax.py", "20", "19")),
    )
    day.begin("tax is 19 %")
    day.asked("tax.py", "+    return n * 19 // 100")
    day.model.will(
        says("The rate is 19."),
        says("The tests.", bash(PYTEST), sees="The rate is 19."),
    )
    day.answer("y")
    day.asked("-m pytest")
    day.model.will(
        says("", plan("find", "mend", done=2), sees="1 passed"),
        says("It is 19 % now, with one test that passes."),
    )
    day.inject_fault("-m pytest")
    day.answer("y")
    day.shows("It is 19 % now, with one test that passes.")
    day.clear_fault()
    day.undo(files=1)
    assert "20" in day.text("tax.py")
    day.leave()
    shown = day.agent("show")
    assert "Make the rate 19." in shown or "Task" in shown
    assert "tax.py" in day.agent("undo", "--redo", "--yes")
    assert "19" in day.text("tax.py")
    assert "tax is 19 %" in day.agent("why", "tax.py:2")
