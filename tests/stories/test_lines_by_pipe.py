"""A day in the line front end where there is no terminal: what is typed comes from a pipe, questions are answered."""

from __future__ import annotations

import json

from tests.support.stories.day import Day, story
from tests.support.stories.model import bash, edit, plan, read, says, write

ONLY = ("lines",)


@story(fronts=ONLY)
def test_a_day_of_lines_from_a_pipe(day: Day) -> None:
    day.repository(notes__md="one\n")
    day.model.will(
        says("I read.", read("notes.md"), plan("write", "check")),
        says("I add a line.", edit("notes.md", "one\n", "one\ntwo\n")),
        says("Refused, I see.", sees="said: in capitals"),
        says("Again.", edit("notes.md", "one\n", "one\nTWO\n"), sees="capitals, please"),
        says("", plan("write", "check", done=2)),
        says("Two lines."),
    )
    typed = ["add a line", "in capitals", "capitals, please", "y", "/todos", "/diff", "/cost", "/export out.md",
             "!git status --short", "/undo", "yes", "/redo", "yes", "/rename A day", "/exit"]  # fmt: skip
    found = day.agent("--plain", stdin="\n".join(typed) + "\n")
    order = ["I read.", "+two", "Allow?", "Refused, I see.", "+TWO", "Two lines.", "out.md", "M notes.md",
             "Reverted 1 file.", "Re-applied", "A day"]  # fmt: skip
    at = 0
    for words in order:
        at = found.find(words, at)
        assert at >= 0, f"{words!r} is missing or out of order in:\n{found}"
    assert "\x1b" not in found
    assert day.text("notes.md") == "one\nTWO\n"
    assert "add a line" in day.text("out.md")
    day.model.will(says("A pipe, please.", bash("wc -l notes.md"), sees="how long?"), says("Two.", sees="2 notes.md"))
    again = day.agent("--plain", "-c", stdin="how long?\n")
    assert "Two." in again
    [listed] = json.loads(day.agent("sessions", "list", "--json"))
    assert listed["name"] == "A day"
    # The end of input at a question leaves it open for another day.
    day.model.will(says("I write it.", write("more.md", "x\n")))
    day.agent("--plain", "-c", stdin="and more\n", code=None)
    assert "more.md" in day.agent("pending")
    day.model.will(says("Written."))
    assert "Written." in day.agent("approve")
    assert day.text("more.md") == "x\n"
