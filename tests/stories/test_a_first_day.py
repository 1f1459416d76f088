"""A day from the first look to the summary."""

from __future__ import annotations

from tests.stories.day import ALL, FAULTS, Day, story
from tests.stories.model import bash, edit, read, says

SLUG = """def slug(title):
    return title.lower().replace(" ", "-")
"""
TEST = """import unittest

from slug import slug


class Slugs(unittest.TestCase):
    def test_blanks(self):
        self.assertEqual(slug("a  b"), "a-b")
"""
# Rejects the first commit, as a hook that wants a changelog does.
ONCE = """if [ ! -e ../rejected ]; then touch ../rejected; echo "pre-commit: say it in CHANGES.md" >&2; exit 1; fi"""


@story(fronts=ALL, faults=FAULTS)
def test_status_edit_test_commit_push_undo_review(day: Day) -> None:
    day.repository(slug__py=SLUG, test_slug__py=TEST)
    day.git_hook("pre-commit", ONCE)
    day.settings('[after_edit]\n"*.py" = "echo formatter: no config found >&2; exit 3"\n')
    day.model.will(
        says("I look at the state first.", bash("git status --short --branch"), bash("git log --oneline -1")),
        says("Now the code.", read("slug.py"), read("test_slug.py"), sees=("main...origin/main", "Begin")),
        says("Runs of blanks are one.", edit("slug.py", 'lower().replace(" ", "-")', 'lower().split()')),
    )
    day.begin("a slug has one dash for any run of blanks")
    day.approves("slug.py", "+    return title.lower().split()")
    day.model.will(
        says("The tests.", bash("python3 -m unittest -q"), sees=("formatter: no config found", "exit code 3")),
    )
    day.asked("python3 -m unittest -q")
    day.leave()
