"""Second thoughts: Esc in the middle of a command, another question, and the old plan later."""

from __future__ import annotations

from tests.support.stories.day import TERMINALS, Day, story
from tests.support.stories.model import bash, plan, says, write

STEPS = ("measure", "cut", "sew")
FLAGS = ("--permission-mode", "acceptEdits", "--allowedTools", "Bash(sh slow.sh:*)")
SLOW = "echo $$ > ../pid\necho measuring\nexec sleep 60\n"


@story(fronts=TERMINALS, faults=("application-connection", "lines-kill", "lines-clock"), line="far")
def test_an_interrupted_plan_waits_until_it_is_wanted(day: Day) -> None:
    day.repository(slow__sh=SLOW)
    day.model.will(
        says("A plan.", plan(*STEPS)),
        says("I write first.", write("pattern.txt", "a sleeve\n")),
        says("I measure.", bash("sh slow.sh")),
    )
    day.begin("make a coat", *FLAGS)
    day.until(lambda: (day.base / "pid").exists() and (day.base / "pid").read_text().strip(), "the command")
    day.front.key("\x1b" if day.front.name == "application" else "\x03")
    day.shows("interrupted")
    pid = int((day.base / "pid").read_text())
    day.until(lambda: pid not in day.processes(), "the end of the command")

    # A new request is answered, and the old plan does not push itself in front of it.
    asked = len(day.model.requests)
    day.model.will(says("It is 4.", sees="stop that, what is 2+2?", fault=True))
    day.front.settled()
    day.say("stop that, what is 2+2?")
    day.inject_fault_during_turn("what is 2+2?")
    day.shows("It is 4.")
    day.front.settled()
    assert len(day.model.requests) == asked + 1 + (day.fault in ("connection", "kill"))
    day.leave()
    day.front.resume()
    assert "plan_paused" not in day.front.text
    day.model.will(says("It is 9."))
    day.say("and 3*3?")
    day.shows("It is 9.")
    day.front.settled()

    day.say("/todos")
    day.shows("measure", "cut", "sew")
    day.model.will(
        says("On with the coat.", plan(*STEPS, done=1)),
        says("One step is done."),
        says("I cut.", write("cut.txt", "cut\n"), sees="Next step: cut"),
        says("", plan(*STEPS, done=3)),
        says("The coat is made."),
    )
    day.say("now go on with the coat")
    day.shows("The coat is made.")
    day.undo(files=1)
    assert not (day.work / "cut.txt").exists()
    day.leave()
    assert (day.work / "pattern.txt").exists(), day.front.text
