"""Plans that wait for approval: the mode they are approved for, "yes" as an answer, and when they expire."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from agent_cli.kernel.session.files import decode_record, encode_record
from tests.support.program import agent
from tests.support.scripts import script
from tests.support.suspended_runs import PLAN, WRITE, as_printed, pending, plan_run, printed


def results(work: Path) -> list[str]:
    """The results of all calls, as the model reads them."""
    found = []
    for path in (work.parent / "home" / "state").rglob("*.jsonl"):
        for line in path.read_bytes().splitlines():
            message = ((decode_record(line) or {}).get("data") or {}).get("message", {})
            if message.get("type") == "ToolMessage":
                found.append(message["text"])
    return found


def age_by(work: Path, hours: int) -> None:
    """Let what waits have been asked so long ago: the log's own times are changed, with their checksums."""
    for path in (work.parent / "home" / "state").rglob("*.jsonl"):
        aged = []
        for line in path.read_bytes().splitlines():
            record = decode_record(line)
            assert record is not None
            time = datetime.fromisoformat(record["time"]) - timedelta(hours=hours)
            aged.append(encode_record(record | {"time": f"{time:%Y-%m-%dT%H:%M:%S}.000Z"}))
        path.write_bytes(b"".join(line + b"\n" for line in aged))


@pytest.mark.parametrize("words", ["OK", "yes", "Looks good!"])
def test_yes_to_a_plan_approves_it_or_names_the_command(work: Path, words: str) -> None:
    plan_run(work, {"calls": [WRITE], "expect": "approved the plan"}, {"text": "Written."})
    refused = agent(["answer", words], work)
    assert refused.returncode == 2
    assert "in the mode default its writes would be denied" in refused.stderr
    command = refused.stderr.partition("Name a mode: ")[2].strip()
    assert command.endswith("--mode acceptEdits")
    unsent = agent(["-p", "-c", "--model", f"scripted:{work / 's.toml'}", words], work)
    assert unsent.returncode == 3
    assert "The message was not sent: A plan is approved with a command" in unsent.stderr
    done = as_printed(command, work)
    assert (done.returncode, done.stdout) == (0, "Written.\n"), done.stderr


def test_yes_to_a_plan_approves_it_where_its_writes_are_allowed(work: Path) -> None:
    model = script(work / "s.toml", [{"calls": [PLAN]}, {"calls": [WRITE]}, {"text": "Written."}])
    run = ["-p", "--model", model, "--permission-mode", "plan", "--allowedTools", "Edit", "plan it"]
    assert agent(run, work).returncode == 3
    done = agent(["answer", "yes"], work)
    assert (done.returncode, done.stdout) == (0, "Written.\n"), done.stderr
    assert (work / "b.txt").exists()


def test_no_to_a_plan_is_asked_about(work: Path) -> None:
    plan_run(work, {"text": "never"})
    done = agent(["answer", "No."], work)
    assert done.returncode == 2
    assert "To end the work: agent reject" in done.stderr


def test_a_mode_in_which_the_plan_is_denied_is_reported_where_it_was_chosen(work: Path) -> None:
    plan_run(work, {"calls": [WRITE]}, {"text": "Denied."})
    refused = agent(["approve", "--mode", "plan"], work)
    assert refused.returncode == 2
    done = agent(["approve", "--mode", "dontAsk"], work)
    assert done.returncode == 0
    assert "warning: in the mode dontAsk its writes would be denied" in done.stderr
    assert not (work / "b.txt").exists()


def test_a_plan_of_a_run_that_is_not_saved_names_no_command(work: Path) -> None:
    model = script(work / "s.toml", [{"calls": [PLAN]}])
    done = agent(["-p", "--model", model, "--permission-mode", "plan", "--no-session-persistence", "q"], work)
    assert done.returncode == 3
    assert "cannot be decided later" in done.stderr
    assert not printed(done.stderr)


def test_a_plan_says_when_it_expires(work: Path) -> None:
    plan_run(work)
    item = pending(work)[0]["pending"][0]
    assert item["expires_at"] > item["asked_at"]
    assert ", expires 2" in agent(["pending"], work).stdout
    from agent_cli.kernel.session.pending_plans import exact_seconds_of, seconds_of
    from agent_tools.text import in_minutes

    assert seconds_of(item["expires_at"]) - seconds_of(item["asked_at"]) == 72 * 3600
    moment = "2026-01-02T03:04:05.678Z"
    assert exact_seconds_of(moment) - seconds_of(moment) == pytest.approx(0.678)
    assert exact_seconds_of("2026-01-02T03:04:05Z") == seconds_of(moment)
    assert [in_minutes(m) for m in (1, 90, 120, 4320)] == ["1 minute", "90 minutes", "2 hours", "3 days"]


def test_an_expired_plan_runs_nothing_and_costs_no_model_call(work: Path) -> None:
    plan_run(work, {"text": "Anew then.", "expect": "plan it anew"})
    age_by(work, 96)
    shown = agent(["pending"], work).stdout
    assert ", expired 2" in shown
    assert "agent approve" not in shown
    done = agent(["approve", "--mode", "acceptEdits", "--output-format", "json"], work)
    result = json.loads(done.stdout)
    assert done.returncode == 1
    assert result["errors"] == ["The plan expired: it was not approved within 3 days."]
    assert (result["num_turns"], result["terminal_reason"]) == (1, "cancelled")
    assert "Nothing was run" in done.stderr
    assert pending(work) == []
    after = agent(["-p", "-c", "--model", f"scripted:{work / 's.toml'}", "plan it anew"], work)
    assert (after.returncode, after.stdout) == (0, "Anew then.\n"), after.stderr
    assert results(work) == ["The plan expired: it was not approved within 3 days."]


def test_a_message_to_an_expired_plan_is_no_feedback_to_it(work: Path) -> None:
    plan_run(work, {"text": "Ok.", "expect": "something smaller"})
    age_by(work, 96)
    model = f"scripted:{work / 's.toml'}"
    yes = agent(["-p", "-c", "--model", model, "yes"], work)
    assert yes.returncode == 3
    assert "There is nothing to approve any more" in yes.stderr
    done = agent(["-p", "-c", "--model", model, "go ahead with something smaller"], work)
    assert (done.returncode, done.stdout) == (0, "Ok.\n"), done.stderr
    assert "The plan expired" in done.stderr
    assert results(work) == ["The plan expired: it was not approved within 3 days."]
