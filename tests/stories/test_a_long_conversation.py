"""A conversation that outgrows the window, goes back and forth, and goes on in another process."""

from __future__ import annotations

from tests.support.narrow_model import SUMMARY
from tests.support.stories.day import TERMINALS, Day, story
from tests.support.stories.model import bash, plan, read, says, write

FILES = 16
FLAGS = ("--permission-mode", "acceptEdits", "--settings", "context_window = 26000\nresults.clear = false")


@story(fronts=TERMINALS, faults=("lines-connection", "application-kill", "lines-disk"))
def test_compaction_undo_rewind_redo_and_resume(day: Day) -> None:
    texts = {f"chapter{n}__txt": f"chapter {n}, a line with some words\n" * 150 for n in range(FILES)}
    day.repository(**texts)
    day.model.summary = SUMMARY
    day.model.will(says("A plan.", plan("read", "write")))
    for number in range(FILES):
        day.model.will(says(f"Reading {number}.", read(f"chapter{number}.txt"), fault=number == 12))
    day.model.will(
        says("All read.", write("summary.txt", "sixteen chapters\n"), plan("read", "write", done=1)),
        says("Written.", plan("read", "write", done=2)),
        says("The summary is in summary.txt."),
    )
    day.begin("read all chapters and sum them up; never touch a chapter", *FLAGS)
    day.inject_fault_during_turn("go on, the same way")
    day.shows("The summary is in summary.txt.")
    day.clear_fault()
    assert day.model.compactions
    day.shows("compacted:")
    # What was asked for outlives the compaction, word for word.
    head = str(day.model.requests[-1].body["messages"])
    assert "<compacted>" in head and "never touch a chapter" in head

    day.model.will(says("Shorter.", write("summary.txt", "16 chapters\n")), says("It is shorter now."))
    day.say("make it shorter")
    day.shows("It is shorter now.")
    day.undo(files=1)
    assert day.text("summary.txt") == "sixteen chapters\n"
    day.say("/redo")
    day.front.pick("Redo?", "yes")  # type: ignore[union-attr]
    day.shows("Re-applied")
    assert day.text("summary.txt") == "16 chapters\n"
    day.say("/rewind")
    day.front.pick("before which message?", "make it shorter")  # type: ignore[union-attr]
    day.front.pick("What should go back?", "conversation and files")  # type: ignore[union-attr]
    day.front.pick("Undo?", "yes")  # type: ignore[union-attr]
    day.shows("The conversation continues from before")
    assert day.text("summary.txt") == "sixteen chapters\n"
    day.front.clear()  # type: ignore[union-attr]
    day.leave()

    day.front.resume()
    day.model.will(
        says("I look.", bash("wc -l summary.txt"), sees="how long is it?", unseen="make it shorter"),
        says("One line.", sees="1 summary.txt"),
    )
    day.say("how long is it?")
    day.shows("One line.")
    assert "make it shorter" not in str(day.model.requests[-1].body)
    before = day.model.compactions
    day.say("/compact the chapters")
    day.shows("chapters")
    day.until(lambda: day.model.compactions > before, "the compaction")
    day.front.settled()
    day.model.will(says("It is still there."))
    day.say("is the summary there?")
    day.shows("It is still there.")
    day.leave()
    assert [line.count("chapter") for line in day.git("status", "--short").splitlines()] == [0]
