"""A day from the first look to the summary: edits, tests, a commit that a hook rejects, a push, undo, a review."""

from __future__ import annotations

from tests.support.stories.day import ALL, Day, story
from tests.support.stories.model import bash, edit, read, says, write

SLUG = """def slug(title):
    return title.lower().replace(" ", "-")
"""
TEST = """import unittest

from slug import slug


class Slugs(unittest.TestCase):
    def test_blanks(self):
        self.assertEqual(slug("a  b"), "a-b")
"""
# As a hook does that wants a changelog.
WANTS_CHANGES = """git diff --cached --name-only | grep -q CHANGES.md && exit 0
echo "pre-commit: say it in CHANGES.md" >&2; exit 1"""
COMMIT = "git add -A && git commit -qm 'One dash for a run of blanks'"
FAULTS = ("application-connection", "lines-terminal", "application-kill", "lines-disk", "headless-clock")


@story(fronts=ALL, faults=FAULTS, line="slow")
def test_status_edit_test_commit_push_undo_review(day: Day) -> None:
    day.repository(slug__py=SLUG, test_slug__py=TEST, __gitignore="__pycache__/\n")
    day.git_hook("pre-commit", WANTS_CHANGES)
    day.settings('[after_edit]\n"*.py" = "echo formatter: no config found >&2; exit 3"\n')
    day.model.will(
        says("I look at the state first.", bash("git status --short --branch"), bash("git log --oneline -1")),
        says("Now the code.", read("slug.py"), read("test_slug.py"), sees=("main...origin/main", "Begin")),
        says("Blanks first.", edit("slug.py", '.replace(" ", "-")', ".split()"), sees="def test_blanks"),
    )
    day.begin("a slug has one dash for any run of blanks")
    day.approves("slug.py", "+    return title.lower().split()")

    day.model.will(says("The tests.", bash("python3 -m unittest -q"), sees=("formatter: no config found", "3")))
    day.approves("python3 -m unittest -q")
    day.model.will(
        says(
            "It needs a join.",
            edit("slug.py", "title.lower().split()", '"-".join(title.lower().split())'),
            sees="FAILED (failures=1)",
        )
    )
    day.approves("slug.py", '"-".join')
    day.model.will(says("Again.", bash("python3 -m unittest -q")))
    day.approves("python3 -m unittest -q")

    day.model.will(says("It passes. I commit.", bash(COMMIT), sees="OK"))
    day.approves("git commit")
    day.model.will(
        says("The hook wants a line.", write("CHANGES.md", "- one dash\n"), sees="pre-commit: say it in CHANGES.md")
    )
    assert day.git("log", "--format=%s") == "Begin"
    day.approves("CHANGES.md")
    day.model.will(says("Now it goes in.", bash(COMMIT)))
    day.approves("git commit")
    day.model.will(says("I push it.", bash("git push"), sees="exit code 0"))
    day.asked("git push")
    day.model.will(says("It is fixed, committed and pushed.", sees="main -> main"))
    day.inject_fault("git push")
    day.answer("y")
    day.shows("It is fixed, committed and pushed.")
    assert day.git("log", "-1", "--format=%s", "main", cwd=day.remote) == "One dash for a run of blanks"
    assert sorted(day.git("show", "--name-only", "--format=", "main").split()) == ["CHANGES.md", "slug.py"]
    day.clear_fault()

    day.undo(files=2)
    assert day.text("slug.py") == SLUG
    assert not (day.work / "CHANGES.md").exists()
    assert day.git("status", "--short").split() == ["D", "CHANGES.md", "M", "slug.py"]
    day.model.will(
        says("Let me see what there is.", bash("git diff HEAD"), sees=("D CHANGES.md", "M slug.py")),
        says("Not yet: slug.py loses the join.", sees="-    return"),
    )
    day.say("/review")
    day.shows("Not yet: slug.py loses the join.")
    day.git("checkout", "-q", "--", ".")
    day.model.will(says("Summary: a fix, a changelog line, one push, one undo."))
    day.say("sum the day up")
    day.shows("Summary: a fix")
    day.leave()
    assert day.git("status", "--short", "--branch") == "## main...origin/main"
    shown = day.agent("show")
    assert shown.count("python3 -m unittest -q") == 2
