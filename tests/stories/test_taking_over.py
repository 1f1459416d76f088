"""Work that was begun with another agent, and is finished here."""

from __future__ import annotations

from tests.support.foreign_stores import FILES, FIXED, recorded, thaw
from tests.support.stories.day import ALL, Day, story
from tests.support.stories.model import edit, says


@story(fronts=ALL, faults=("lines-kill", "application-terminal", "headless-connection"))
def test_what_another_agent_began_is_finished_and_only_our_part_is_undone(day: Day) -> None:
    day.repository(sums__py=FIXED, notes__md=FILES["notes.md"], old__py="LIMIT = 11\n")
    thaw(recorded("claude", "worked"), day.home, day.work)
    assert "of Claude Code: 24 messages. 1 file changed since." in day.agent("sessions", "import", "claude")
    day.model.will(
        says(
            "An empty list is none.",
            edit("sums.py", "sum(numbers)", "sum(numbers or [])"),
            sees=("was begun in Claude Code", "read them before you edit them: old.py"),
        ),
        says("It takes none, too."),
    )
    day.front.resume()
    day.say("take no list for an empty one")
    day.asked("sums.py", "+    return sum(numbers or [])")
    day.inject_fault("sums.py")
    day.answer("y")
    day.shows("It takes none, too.")
    day.undo(1)
    assert day.text("sums.py") == FIXED
    day.leave()
    assert "taken over before" in day.agent("sessions", "import", "claude")


@story(fronts=("application", "lines"))
def test_a_session_of_another_agent_is_resumed_in_the_middle_of_ours(day: Day) -> None:
    day.repository(sums__py=FIXED)
    thaw(recorded("codex", "worked"), day.home, day.work)
    day.model.will(says("Hello."))
    day.begin("hello")
    day.shows("Hello.")
    day.say("/resume @codex")
    day.shows("of Codex:", "It asks for an exact total.")
    day.say("/undo")
    day.shows("What was changed before it was taken over is not recorded.")
    day.model.will(says("A total.", sees="was begun in Codex"))
    day.say("what was it about?")
    day.shows("A total.")
    day.leave()


@story(fronts=("application", "lines", "headless"))
def test_a_session_of_another_agent_is_named_on_the_command_line(day: Day) -> None:
    day.repository(sums__py=FIXED)
    thaw(recorded("gemini", "worked"), day.home, day.work)
    day.model.will(says("A total.", sees=("was begun in Gemini CLI", "what was it about?")))
    day.begin("what was it about?", "-r", "@gemini")
    day.shows("A total.")
    day.leave()
