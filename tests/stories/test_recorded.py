"""Ten tasks in the application, with the answers that a model gave to its requests; two at the end of a bad line.

The answers in `recorded/` were given to the requests of the program one by one, through a server on loopback.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_tools.record import Value
from tests.support.model_server import Call
from tests.support.stories.day import Day
from tests.support.stories.model import says

RECORDED = Path(__file__).parent / "recorded"
NIGHT = [f"02:{n // 60:02}:{n % 60:02} step {n} {'ok' if n < 1_200 else 'skipped'}\n" for n in range(1, 1_900)]
NIGHT[1_199] = "02:20:00 ERROR disk full: /var/spool (step 1200)\n"


class Task(Value):
    """A recorded task. user: what the user does at its questions. ends: words of the last answer.

    files: what is in files afterwards; a file that is not there has "".
    """

    ends: str
    files: tuple[tuple[str, str], ...] = ()
    user: Callable[[Day], None] | None = None


def _approve_edit(day: Day) -> None:
    day.approves("Make this change to slug.py?")


def _answer_dash(day: Day) -> None:
    day.asked("Which separator should the words have?", "Underscore")
    day.answer("1")


def _keep_a_file(day: Day) -> None:
    day.asked("rm -r build", "deletes 3 files")
    day.answer("r keep.cfg is mine: remove the object files only")
    day.approves("rm build/a.o build/b.o")


def _approve_all(day: Day) -> None:
    day.asked("Carry out this plan?", "Try it with and without the variable")
    day.answer("y")
    day.approves("Make this change to greet.py?")
    day.approves("GREETING=Hi python3 greet.py")


TASKS = {
    "spaces": Task(
        "spaces at the ends none",
        (("slug.py", '"-".join(title.lower().split())'),),
        _approve_edit,
    ),
    "pages": Task("both tests pass", (("pages.py", "-(-len(items) // size)"), ("test_pages.py", "test_multiple"))),
    "explain": Task("Other exceptions pass through at once", (("net.py", "return None"),)),
    "option": Task("2 lines, 3 words", (("count.py", "args.lines"),)),
    "rename": Task("nothing else uses", (("db.py", "load_rows"), ("report.py", "rows from load_rows"))),
    "separator": Task("with a dash now", (("title.py", '"-".join(words)'),), _answer_dash),
    "refusal": Task("is as it was", (("build/keep.cfg", "port"), ("build/a.o", ""), ("build/b.o", "")), _keep_a_file),
    "plan": Task("Both steps are done: greet.py", (("greet.py", "GREETING"),), _approve_all),
    "newtest": Task("and both tests pass", (("roman.py", "number >= value"), ("test_roman.py", "XXVII"))),
    "logfile": Task("start the job again from step 1200", (("job.log", "disk full"),)),
}
RUNS = [(name, ("application", "")) for name in TASKS]
RUNS += [("spaces", ("application", "slow")), ("pages", ("application", "far"))]


@pytest.mark.parametrize(("name", "day"), RUNS, indirect=["day"], ids=[f"{n}-{d[1] or 'quick'}" for n, d in RUNS])
def test_a_recorded_task(name: str, day: Day) -> None:
    kept, task = json.loads((RECORDED / f"{name}.json").read_text()), TASKS[name]
    for path, text in (kept["files"] or {"job.log": "".join(NIGHT)}).items():
        day.file(path, text)
    day.repository()
    answers = kept["answers"]
    day.model.will(*(
        says(answer.get("text", ""), *(Call(call["name"], call["input"]) for call in answer.get("calls", ())))
        for answer in answers
    ))  # fmt: skip
    day.begin(kept["prompt"], *kept["flags"])
    if task.user is not None:
        task.user(day)
    day.shows(task.ends)
    day.leave()
    for path, words in task.files:
        assert words in day.text(path) if words else not (day.work / path).exists(), path
    assert len(day.model.requests) == len(answers), "no request that nobody has made before"
