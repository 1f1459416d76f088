"""Sub-agents in the background of a session: two at once that ask, messages to them, a crash, an end, an undo."""

from __future__ import annotations

from tests.support.background_model import Subagents, background, runs
from tests.support.model_replies import Call, Reply
from tests.support.stories.day import Day, story
from tests.support.stories.model import says


@story(fronts=("application",))
def test_two_ask_while_the_user_goes_on(day: Day) -> None:
    """The turn ends while they work; their questions name them; one gets a message; the next turn has the reports."""
    day.repository(a__py="x = 1\n")
    agents = Subagents(
        day.model,
        one=[runs("echo one >> log"), Reply(text="One wrote its line.")],
        two=[runs("echo two >> log"), Reply(text="Two wrote."), Reply(text="Two wrote with tabs.")],
    )
    agents.hold("two", 1)
    day.model.will(says("", background("one"), background("two")), says("They are at work."))
    day.begin("send two")
    day.asked("for general", "in the background")
    day.answer("y")
    day.asked("in the background")
    day.answer("y")
    agents.until("two", 1)
    day.shows("They are at work.", "general-2: do two")
    day.say("@general-2 use tabs")
    day.shows("it reads this at its next step")
    agents.go("two", 1)
    day.shows("general-2 ended: do two")
    assert sorted(day.text("log").split()) == ["one", "two"]
    day.model.will(says("Both wrote.", sees=("One wrote its line.", "Two wrote with tabs.")))
    day.say("and?")
    day.shows("Both wrote.")
    day.leave()


@story(fronts=("application",))
def test_one_is_ended_and_its_changes_are_undone_by_their_name(day: Day) -> None:
    day.repository(a__py="x = 1\n")
    day.flags += ["--permission-mode", "acceptEdits"]
    write = Reply(calls=(Call("Write", {"file_path": "made.txt", "content": "made\n"}),))
    agents = Subagents(day.model, one=[write, Reply(text="never")])
    agents.hold("one", 1)
    day.model.will(says("", background("one")), says("It is at work."))
    day.begin("send one")
    day.shows("It is at work.")
    agents.until("one", 1)
    day.say("/undo")
    day.shows("Still at work in the background: general. First end it: /jobs kill general")
    day.say("/jobs kill general")
    day.shows("general ended.")
    day.undo(files=1)
    day.shows("The turn: Sub-agent general: do one")
    assert not (day.work / "made.txt").exists()
    day.leave()


@story(fronts=("application",))
def test_a_crash_at_its_question_and_at_its_work(day: Day) -> None:
    """The question is asked again by the next process; a call that ran is not repeated."""
    day.repository(a__py="x = 1\n")
    agents = Subagents(
        day.model,
        one=[runs("python3 -c pass && echo one >> log"), Reply(text="One is done.")],
        two=[Reply(calls=(Call("Write", {"file_path": "log", "content": "two\n"}),)), Reply(text="Two is done.")],
    )
    agents.hold("two", 1)
    day.flags += ["--permission-mode", "acceptEdits"]
    day.model.will(says("", background("one"), background("two")), says("They are at work."))
    day.begin("send two")
    day.shows("They are at work.")
    agents.until("two", 1)
    day.asked("echo one", "for general")
    day.front.kill()
    assert "echo one >> log" in day.agent("pending")
    agents.go("two", 1)
    day.front.resume()
    day.asked("echo one", "for general")
    day.answer("y")
    day.shows("general ended: do one")
    day.shows("general-2 ended: do two")
    assert day.text("log") == "two\none\n"
    day.model.will(says("All is done.", sees=("One is done.", "Two is done.")))
    day.say("and?")
    day.shows("All is done.")
    day.leave()


@story(fronts=("application",))
def test_an_interrupt_leaves_them_and_their_end_may_wake_a_turn(day: Day) -> None:
    """Esc stops the turn alone; with `wake_turns` the report starts a turn; the @ menu has their names."""
    day.repository(a__py="x = 1\n")
    day.settings("wake_turns = 1\n")
    agents = Subagents(day.model, one=[Reply(text="One is done.")])
    agents.hold("one")
    slow = Call("Bash", {"command": "touch began; sleep 600"})
    day.flags += ["--allowedTools", "Bash"]
    day.model.will(says("", background("one")), says("And a slow command.", slow))
    day.begin("send one")
    agents.until("one")
    day.front.until(lambda: (day.work / "began").exists(), "the command")
    day.front.key("\x1b")
    day.shows("interrupted", "general: do one")
    day.front.screen.type("@gen")
    day.shows("@general")
    day.front.clear()
    day.model.will(says("I go on."), says("It is done.", sees="One is done."))
    day.say("go on")
    day.shows("I go on.")
    agents.go("one")
    day.shows("continuing with what ended in the background (1 of 1, see wake_turns)", "It is done.")
    day.leave()


@story(fronts=("application",))
def test_who_leaves_and_comes_back_finds_them_at_work(day: Day) -> None:
    day.repository(a__py="x = 1\n")
    agents = Subagents(day.model, one=[Reply(text="One is done.")])
    agents.hold("one")
    day.model.will(says("", background("one")), says("It is at work."))
    day.begin("send one")
    day.shows("It is at work.")
    agents.until("one")
    assert "general stopped: do one (it continues when you resume the session)" in " ".join(day.leave().split())
    agents.go("one")
    day.front.resume()
    day.shows("general was at work when the program ended: it continues with your next message")
    day.model.will(says("Let us see."), says("It is done.", sees="One is done."))
    day.say("go on")
    day.shows("Let us see.", "general ended: do one")
    day.say("and?")
    day.shows("It is done.")
    day.leave()


@story(fronts=("application",))
def test_one_that_is_ended_takes_its_question_back(day: Day) -> None:
    day.repository(a__py="x = 1\n")
    Subagents(day.model, one=[runs("echo one >> log"), Reply(text="never")])
    day.model.will(says("", background("one")), says("It is at work."))
    day.begin("send one")
    day.asked("echo one", "for general in the background")
    day.shows("It is at work.")
    day.say("/jobs kill general")
    day.shows("general ended.")
    day.front.settled()
    assert not (day.work / "log").exists()
    day.model.will(says("It was stopped.", sees="was stopped by the user"))
    day.say("and?")
    day.shows("It was stopped.")
    day.leave()
