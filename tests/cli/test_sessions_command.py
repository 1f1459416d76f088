"""`agent sessions list`: what was kept of earlier runs here."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agent_cli.cli.commands.sessions import short_length
from agent_tools.text import short_age
from tests.support.program import agent
from tests.support.scripts import script


def test_without_sessions_there_is_a_sentence_and_no_output(work: Path) -> None:
    done = agent(["sessions", "list"], work)
    assert (done.returncode, done.stdout) == (0, "")
    assert "no sessions" in done.stderr
    assert json.loads(agent(["sessions", "list", "--json"], work).stdout) == []


def test_a_run_is_listed_and_its_short_id_resumes_it(work: Path) -> None:
    model = script(work.parent / "one.toml", [{"text": "first"}, {"text": "second"}])
    assert agent(["-p", "say\nsomething \x1b[31mred", "--model", model], work).returncode == 0
    done = agent(["sessions", "list"], work)
    header, row = done.stdout.splitlines()
    assert header.split()[:3] == ["ID", "AGE", "MODEL"]
    assert "\x1b" not in row
    assert "say something" in row
    again = agent(["-p", "more", "--model", model, "--resume", row.split()[0]], work)
    assert again.stdout == "second\n"


def test_json_has_every_field(work: Path) -> None:
    model = script(work.parent / "one.toml", [{"text": "first"}])
    agent(["-p", "hello", "--model", model], work)
    (session,) = json.loads(agent(["sessions", "list", "--json"], work).stdout)
    assert session["first_message"] == "hello"
    assert session["messages"] == 2
    assert (session["query"], session["stage"], session["pending"], session["plan"]) == ("hello", "completed", [], [])
    assert {"session_id", "cwd", "model", "cost", "completed", "created", "updated"} <= session.keys()


@pytest.mark.parametrize(
    ("time", "text"),
    [
        ("2026-01-10T11:59:30.000Z", "30s"),
        ("2026-01-10T11:20:00.000Z", "40m"),
        ("2026-01-10T02:00:00.000Z", "10h"),
        ("2025-12-10T12:00:00.000Z", "31d"),
        ("2026-01-10T12:00:09.000Z", "0s"),
        ("yesterday", "?"),
        ("2026-01-10T11:59:30", "?"),
    ],
)
def test_age_in_one_unit(time: str, text: str) -> None:
    assert short_age(time, datetime(2026, 1, 10, 12, tzinfo=UTC)) == text


def test_ids_are_as_long_as_it_takes_to_tell_them_apart() -> None:
    assert short_length([]) == 8
    assert short_length(["12345678-aa", "22345678-aa"]) == 8
    assert short_length(["12345678-aa", "12345678-ab"]) == 11
