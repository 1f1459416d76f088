"""`--record FILE` and `--model replay:FILE`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.model_server import Call, ModelServer, Reply
from tests.support.program import agent
from tests.support.scripts import bash, call, script, task

KEY = "sk-recorded-key-1234567890"


@pytest.mark.parametrize("wire", ["anthropic", "openai", "gemini"])
def test_a_run_is_replayed_elsewhere_without_key_and_network(work: Path, tmp_path: Path, wire: str) -> None:
    file = tmp_path / "run.jsonl"
    args = ["-p", "--allowedTools", "Bash", "--output-format", "json"]
    with ModelServer([Reply(calls=(Call("Read", {"file_path": "a.txt"}), Call("Bash", {"command": "pwd; cat a.txt"}))),
                      Reply(text="It greets.")]) as server:  # fmt: skip
        keys = dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"), KEY)
        urls = {"OPENAI_BASE_URL": server.openai_url, "ANTHROPIC_BASE_URL": server.anthropic_url}
        urls["GEMINI_API_BASE"] = server.gemini_url
        done = agent([*args, "--model", f"{wire}/m-test", "--record", str(file), f"what is it? {KEY}"],
                     work, {**keys, **urls})  # fmt: skip
        assert done.returncode == 0, done.stderr
        asked = len(server.requests)
    assert KEY not in file.read_text() and str(work) not in file.read_text()
    other = tmp_path / "elsewhere/deeper"
    (other / ".git").mkdir(parents=True)
    (other / "a.txt").write_text("hello world\n")
    again = agent([*args, "--model", f"replay:{file}", "what is it? [redacted]"], other)
    assert again.returncode == 0, again.stderr
    result = json.loads(again.stdout)
    assert (result["result"], result["num_turns"], asked) == ("It greets.", 2, 2)
    assert (result["total_cost_usd"], result["cost_is_reliable"]) == (0.0, True)


def recorded(work: Path, replies: list[dict[str, Any]], *more: str) -> Path:
    file = work.parent / "run.jsonl"
    model = script(work.parent / "s.toml", replies)
    done = agent(["-p", "--model", model, "--allowedTools", "Bash", "--record", str(file), *more, "go"], work)
    assert done.returncode == 0, done.stderr
    return file


def replayed(work: Path, file: Path, *more: str) -> tuple[int, str]:
    done = agent(["-p", "--model", f"replay:{file}", "--allowedTools", "Bash", *more, "go"], work)
    return done.returncode, done.stderr


def test_a_replay_that_differs_says_where(work: Path) -> None:
    file = recorded(work, [bash("cat a.txt"), {"text": "Done."}])
    (work / "a.txt").write_text("hello there\n")
    code, err = replayed(work, file)
    assert code == 6
    assert "The replay differs in round 2" in err and "the result of Bash (call-1-1)" in err
    assert "-text: hello world" in err and "+text: hello there" in err


def test_another_option_prompt_or_tool_is_named(work: Path) -> None:
    file = recorded(work, [{"text": "Done."}])
    assert "the option effort" in replayed(work, file, "--effort", "high")[1]
    code, err = replayed(work, file, "--append-system-prompt", "Be brief.")
    assert code == 6 and "round 1" in err and "the system prompt" in err and "+Be brief." in err
    code, err = replayed(work, file, "--tools", "Read")
    assert code == 6 and "which tools there are" in err
    assert replayed(work, file)[0] == 0


def test_sub_agents_and_a_failed_request_are_replayed(work: Path) -> None:
    nested = [{"calls": [task(prompt="one")]}, bash("cat a.txt"), {"text": "Found."}, {"text": "Done."}]
    file = recorded(work, nested, "--allowedTools", "Task")
    code, err = replayed(work, file, "--allowedTools", "Task")
    assert code == 0, err


def test_what_is_no_recording_is_refused(work: Path) -> None:
    (work / "x.jsonl").write_text("{}\n")
    for name in ("x.jsonl", "missing.jsonl"):
        code, err = replayed(work, work / name)
        assert code == 2 and ("is no recording" in err or "cannot be read" in err)
    file = recorded(work, [{"text": "Done."}])
    code, err = replayed(work, file, "--record", str(work / "again.jsonl"))
    assert code == 2 and "is a recording already" in err


def test_a_recording_of_another_round_count_differs(work: Path) -> None:
    file = recorded(work, [{"calls": [call("Read", file_path="a.txt")]}, {"text": "Done."}])
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[:-1]))
    code, err = replayed(work, file)
    assert code == 6 and "has 1 rounds, and round 2 came" in err
