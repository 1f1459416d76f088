"""Two tasks as a strong model does them: several calls an answer, and nothing that costs it a round."""

from __future__ import annotations

import json

from tests.support.model_server import Call
from tests.support.stories.day import ALL, Day, story
from tests.support.stories.model import bash, edit, read, says

FLAGS = ("--permission-mode", "acceptEdits", "--allowedTools", "Bash(python3:*)")
DUE = '''"""When something is due."""

import datetime


def due(when, today=None):
    """Say when something is due: "today", "tomorrow", or the date."""
    today = today or datetime.date.today()
    days = (when.date() - today).days
    if days == 0:
        return "today"
    if days == 1:
        return "tomorrow"
    return when.date().isoformat()
'''
TESTS = """import datetime
import unittest

from due import due

NOON = datetime.datetime(2026, 3, 1, 12)


class DueTest(unittest.TestCase):
    def test_days(self):
        self.assertEqual(due(NOON, NOON.date()), "today")
"""
NEW_TEST = """
    def test_zones(self):
        east = datetime.timezone(datetime.timedelta(hours=11))
        when = datetime.datetime(2026, 3, 2, 9, tzinfo=east)
        now = datetime.datetime(2026, 3, 1, 23, tzinfo=datetime.timezone.utc)
        self.assertEqual(due(when, now), "today")
"""


@story(fronts=ALL, faults=("headless-connection",))
def test_a_bug_of_time_zones(day: Day) -> None:
    day.repository(due__py=DUE, test_due__py=TESTS)
    search = Call("Grep", {"pattern": "today", "path": "due.py", "output_mode": "content", "-C": 3})
    day.model.will(
        says("I look at it and its tests.", search, read("test_due.py"), bash("git log --oneline -3")),
        # Edited after a search alone; of the change to the tests, the result shows what the model has to check.
        says(
            "The day of now depends on the zone of the value.",
            edit("due.py", "    today = today or datetime.date.today()\n    days = (when.date() - today).days\n",
                 "    now = today or datetime.datetime.now(when.tzinfo)\n"
                 "    if isinstance(now, datetime.datetime):\n"
                 "        now = (now.astimezone(when.tzinfo) if when.tzinfo else now).date()\n"
                 "    days = (when.date() - now).days\n"),
            edit("test_due.py", '"today")\n', f'"today")\n{NEW_TEST}'),
            bash("python3 -m unittest -q"),
            sees=("8:    today = today or", "1\timport datetime\n"),
            fault=True,
        ),
        says("Fixed in due.py:8: now is taken in the zone of the value. Both tests pass. Nothing is left.",
             sees=("8\t    now = today or", "OK\n[exit code 0"), unseen=("not read", "failed")),
    )  # fmt: skip
    day.begin("due() is wrong for a value of another time zone. Fix it and add a test.", *FLAGS)
    day.inject_fault("Fixed in due.py")
    day.shows("Fixed in due.py:8")
    assert "east = datetime" in day.text("test_due.py")
    day.leave()


RUNNER = """import sys
for n in range(1, 4001):
    if n in (1500, 2500):
        print(f"ERROR: test_{n}")
        print(f"OSError: [Errno 28] No space left on device: {n}")
    print(f"test_{n} ... ok")
print("FAILED (errors=2)")
sys.exit(1)
"""


@story(fronts=ALL, faults=())
def test_failures_in_the_middle_of_a_long_output(day: Day) -> None:
    day.repository(run__py=RUNNER)
    day.settings('verify = ["python3 run.py"]\n')
    day.model.will(
        says("I run them.", bash("python3 run.py")),
        # No second run, no search: the errors are there with their lines, and an answer that names them is final.
        says(
            "Two of 4,000 tests fail, with a full disk: test_1500 and test_2500. I ran run.py once.",
            sees=("1500\tERROR: test_1500", "2502\tERROR: test_2500", "OSError: [Errno 28]", "FAILED (errors=2)"),
        ),
    )  # fmt: skip
    day.begin("run the tests and say what fails", *FLAGS)
    day.shows("Two of 4,000 tests fail")
    day.leave()
    sent = [json.dumps(request.body) for request in day.model.requests]
    assert len(sent) == 2 and "does not mention" not in sent[-1]
