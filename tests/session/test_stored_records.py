"""What is stored stays readable: every record that a log may hold, and a log as this version writes it.

Lines are only ever added to `stored.jsonl`. A class that is renamed keeps its tag; what it no longer holds must still
be read.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_cli.kernel.results import Complete, Failed, LimitReached, Suspended
from agent_cli.kernel.session.restore import records, restore
from agent_tools.record import Value, from_json, to_json
from tests.session.stored_records import LINES, ROOTS, examples, tags

STORED = LINES.read_text("utf-8").splitlines()
CLASSES = {cls._tag: cls for cls in ROOTS}
LOG = Path(__file__).with_name("session.jsonl")


@pytest.mark.parametrize("tag", sorted({json.loads(line)["type"] for line in STORED}))
def test_every_stored_record_is_read_and_written_as_it_was(tag: str) -> None:
    cls = CLASSES[tag]
    for line in STORED:
        # `own` and `lent` are former names of fields.
        found = json.loads(line.replace('"own":', '"from_user":').replace('"lent": {', '"overrides": {'))
        if found["type"] == tag:
            assert from_json(cls, json.loads(line)["data"]) == from_json(cls, found["data"])
            assert json.loads(json.dumps(to_json(from_json(cls, found["data"])))) == found["data"]


def test_every_kind_that_is_stored_now_has_a_line() -> None:
    known = {tag for line in STORED for tag in tags(json.loads(line))}
    now = {tag for cls in ROOTS for made in examples(cls) for tag in tags(json.loads(json.dumps(to_json(made))))}
    assert now <= known, "run python -m tests.session.stored_records"


@pytest.mark.parametrize("cls", ROOTS, ids=lambda cls: cls._tag)
def test_what_is_written_now_is_read_again(cls: type[Value]) -> None:
    for made in examples(cls):
        assert from_json(cls, json.loads(json.dumps(to_json(made)))) == made


def test_tags_are_given_and_do_not_follow_the_name_of_a_class() -> None:
    class Before(Value, tag="Older"):
        text: str

    assert to_json(Before("x")) == {"type": "Older", "text": "x"}
    assert from_json(Before, {"type": "Older", "text": "x"}) == Before("x")
    assert [cls._tag for cls in (Complete, Suspended, Failed, LimitReached)] == [
        "Complete", "Suspended", "Failed", "MaxIterations",
    ]  # fmt: skip


def test_a_log_of_an_earlier_version_opens_unchanged() -> None:
    data = LOG.read_bytes()
    lines, damaged = records(data)
    assert len(lines) == len(data.splitlines()) and damaged == 0
    session = restore(data, "session")
    assert [type(m)._tag for m in session.history].count("UserMessage") == 3
    assert [item.status for item in session.plan] == ["completed", "completed"]
    assert session.waiting is not None and "rm a.py" in str(session.waiting)
    assert (session.usage.input, session.usage.output, session.usage.cache_read) == (200, 40, 100)
    assert session.bad == 0
