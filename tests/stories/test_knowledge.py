"""What the project knows: memory files, mentions, an image, a command, a skill, a type of sub-agent."""

from __future__ import annotations

from tests.support.model_replies import Call
from tests.support.sample_files import picture
from tests.support.stories.day import ALL, Day, story
from tests.support.stories.model import edit, says, task

COMMAND = """---
description: Mend a test
allowed-tools: Bash(python3 -m unittest:*)
---
Mend $1. It stands:

!`git status --short`
"""
SKILL = (
    "---\nname: release\ndescription: How releases are made. Use it before tagging.\n---\nTag with v, never without.\n"
)
CRITIC = "---\nname: critic\ndescription: Reads prose.\ntools: Read, Grep\n---\nYou read for people in a hurry.\n"


@story(fronts=ALL, faults=("headless-connection", "application-terminal", "headless-clock"))
def test_what_the_project_knows_reaches_the_model(day: Day) -> None:
    day.repository(
        slug__py="def slug(t):\n    return t\n",
        **{"AGENTS.md": "Dashes, never underscores. See @docs/style.md.\n", "docs/style.md": "Short names.\n"},
    )
    day.settings('model_takes = ["image"]\n')
    (day.work / "shot.png").write_bytes(picture())
    for name, text in (
        ("commands/mend.md", COMMAND), ("skills/release/SKILL.md", SKILL), ("agents/critic.md", CRITIC),
    ):  # fmt: skip
        day.file(f".agent/{name}", text)
    # The text that a message brings counts as read.
    day.model.will(
        says("I see it.", edit("slug.py", "return t", "return t.lower()"), sees=("def slug(t)", "look at @slug.py"))
    )
    day.begin("look at @slug.py and make it lower case", "--trust")
    day.asked("slug.py", "t.lower()")
    system = str(day.model.requests[0].body)
    assert "never underscores" in system and "Short names." in system and "How releases are made" in system
    day.model.will(says("Lower case it is."))
    day.inject_fault("t.lower()")
    day.answer("y")
    day.shows("Lower case it is.")
    assert "t.lower()" in day.text("slug.py")

    day.model.will(
        says("I run them.", Call("Bash", {"command": "python3 -m unittest -q"}), sees=("Mend blanks.", "M slug.py")),
        says("There are none yet.", sees="Ran 0 tests"),
    )
    day.say("/mend blanks")
    day.shows("There are none yet.")
    if day.front.name != "headless":
        # There an image is given with -i.
        day.model.will(says("A blue square."))
        day.say("what is on @shot.png ?")
        day.shows("A blue square.")
        assert "image_url" in str(day.model.requests[-1].body["messages"][-1])
    day.model.will(
        says("I look it up.", Call("Skill", {"name": "release"})),
        says("A critic, please.", task("Read AGENTS.md.", "critic"), sees="Tag with v, never without."),
        says("It is short enough."),
        says("Tag v1.0, the critic agrees.", sees="It is short enough."),
    )
    day.say("how do I tag?")
    day.shows("Tag v1.0, the critic agrees.")
    [asked] = [r for r in day.model.requests if "people in a hurry" in str(r.body["messages"][0])]
    assert {t["function"]["name"] for t in asked.body["tools"]} == {"Read", "Grep"}
    if day.front.name != "headless":
        day.say("#tests need redis")
        day.until(lambda: "tests need redis" in day.text("AGENTS.md"), "the note")
    day.leave()
    day.front.resume()
    day.model.will(says("Dashes."))
    day.say("dashes or underscores?")
    day.shows("Dashes.")
    day.leave()
