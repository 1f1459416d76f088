"""What a session costs is the same number everywhere: live, in /cost, in lists, and after a resume."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_cli.kernel.events import (
    Compacted,
    MessageAdded,
    SessionNamed,
    SubagentEvent,
    ToolStarted,
    TurnFinished,
    TurnStarted,
    UsageAdded,
)
from agent_cli.kernel.messages import AssistantMessage, Text, ToolCall, UserMessage
from agent_cli.kernel.results import Diagnostics, Usage
from agent_cli.kernel.session.files import read_log
from agent_cli.kernel.session.log import SessionLog
from agent_cli.kernel.session.records import Header
from agent_cli.kernel.session.restore import restore
from agent_cli.kernel.session.store import StoredSession
from agent_cli.kernel.session.timeline import build_timeline
from agent_cli.kernel.session.view import SessionView
from tests.support.program import agent
from tests.support.scripts import script

COSTS = {"input": 1_000, "output": 10, "cost": 0.25}
DONE = {"text": "Done.", "usage": COSTS}
BESIDE = {"text": "Green.", "usage": {**COSTS, "cost": 0.5}}


def session(work: Path, *lines: str, replies: list[dict[str, object]], resume: bool = False) -> str:
    model = script(work.parent / "s.toml", replies)
    options = ["--model", model, "--plain", *(["-c"] if resume else [])]
    return agent(options, work, stdin="\n".join(lines) + "\n").stdout


def test_a_side_question_counts_in_the_session_in_lists_and_after_a_resume(work: Path) -> None:
    shown = session(work, "go", "/btw what colour?", "/cost", replies=[DONE, BESIDE])
    assert "Green." in shown
    assert "session: 2,000 tokens in, 20 out; $0.7500" in shown
    assert "$0.7500" in agent(["sessions", "list"], work).stdout
    again = session(work, "more", "/cost", replies=[DONE] * 3, resume=True)
    assert "session: 3,000 tokens in, 30 out; $1.0000" in again


def test_a_side_question_before_anything_was_written_counts_too(work: Path) -> None:
    session(work, "/btw what colour?", "go", replies=[BESIDE])  # a script answers both with its first reply
    assert "$1.0000" in agent(["sessions", "list"], work).stdout


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log with every kind of cost: of a turn, a sub-agent, a title, a compaction, a side question, a killed turn."""
    path = tmp_path / "s.jsonl"
    written = SessionLog(path, lambda text: None)
    written.create(Header("s-1", "/w", "/w", "openai/m", "Be good.", (), "1"))
    written.record(MessageAdded(UserMessage("One")))
    written.record(TurnStarted("openai/m", "default"))
    written.record(UsageAdded("m", used(1)))
    written.record(SubagentEvent("explore", "c1", UsageAdded("openai/m", used(2))))
    written.record(SubagentEvent("explore", "c1", SubagentEvent("deep", "c2", UsageAdded("other/m2", used(4)))))
    written.record(MessageAdded(AssistantMessage((Text("Done."),), "end_turn")))
    written.record(TurnFinished("Complete", Diagnostics(1, 0, 5, 5, "stop", "completed"), used(7), "Done."))
    written.record(SessionNamed("A title", "other/m2", used(8)))
    written.record(UsageAdded("openai/m", used(16), aside=True))
    written.record(Compacted("manual", 2, 0, usage=used(16)))
    written.record(UsageAdded("openai/m", used(32), aside=True, of_turn=False))
    written.record(MessageAdded(UserMessage("Two")))
    written.record(TurnStarted("openai/m", "default"))
    written.record(UsageAdded("openai/m", used(64)))
    written.record(MessageAdded(AssistantMessage((ToolCall("c3", "Bash", {"command": "make"}),), "tool_use")))
    written.record(ToolStarted("c3", "Bash"))
    written.record(UsageAdded("openai/m", used(128), aside=True, of_turn=False))
    written.close()
    return path


def used(cost: float) -> Usage:
    return Usage(input=10, output=1, cost=cost)


def test_all_sums_of_a_log_agree(log: Path) -> None:
    data = read_log(log)
    spent, listed = SessionView.of_log(data), StoredSession(log).summary()
    assert listed is not None
    assert spent.usage.cost == 255
    assert listed.cost == 255
    assert restore(log.read_bytes(), "s-1").usage.cost == 255
    assert sum(turn.usage.cost for turn in build_timeline(data)) == 255
    assert [turn.usage.cost for turn in spent.turns] == [63, 192]


def test_a_model_has_one_name(log: Path) -> None:
    assert {name: u.cost for name, u in SessionView.of_log(read_log(log)).models.items()} == {
        "openai/m": 243,
        "other/m2": 12,
    }


def test_a_side_question_is_no_part_of_the_budget_of_a_turn(log: Path) -> None:
    interrupted = restore(log.read_bytes(), "s-1").interrupted
    assert interrupted is not None
    assert interrupted.spent.cost == 64


def test_what_is_estimated_is_reported() -> None:
    spent = Usage(input=10, cost=0.5)
    assert spent.cost_words == "$0.5000"
    assert spent.replace(estimated=True).cost_words == "about $0.5000"
    assert spent.replace(reliable=False).cost_words == "cost unknown"
