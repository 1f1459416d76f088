"""Calls with the argument names of other programs, in the real program: run, shown to hooks, or answered in words."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.program import agent
from tests.support.scripts import call, script


def test_calls_of_a_model_trained_on_other_programs_work_and_hooks_see_our_names(work: Path) -> None:
    (work / "a.txt").write_text("one\n")
    log = work.parent / "log"
    hook = {"matcher": "", "hooks": [{"type": "command", "command": f"jq -c .tool_input >> {log} || cat >> {log}"}]}
    settings = work.parent / "home/.claude/settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps({"hooks": {"PreToolUse": [hook]}}))
    replies = [
        {"calls": [call("Read", filePath="a.txt")]},
        {"calls": [call("Edit", path="a.txt", old_str="one", new_str="two")], "expect": "one"},
        {"calls": [call("Bash", cmd="cat a.txt")]},
        {"text": "Done.", "expect": "two"},
    ]
    model = script(work.parent / "s.toml", replies)
    done = agent(["-p", "--model", model, "--allowedTools", "Bash,Edit", "--output-format", "json", "go"], work)
    assert (done.returncode, json.loads(done.stdout)["result"]) == (0, "Done."), done.stderr
    assert (work / "a.txt").read_text() == "two\n"
    found = log.read_text()
    assert '"old_string"' in found and '"file_path"' in found and '"command"' in found
    assert "filePath" not in found and "old_str" not in found.replace("old_string", "")


def test_a_name_that_nobody_knows_costs_a_round_and_nothing_runs(work: Path) -> None:
    replies = [
        {"calls": [call("Bash", command="touch made", in_backgroud=True)]},
        {"calls": [call("Write", path="b.txt", file_path="c.txt", content="x")], "expect": "did you mean 'run_in_bac"},
        {"text": "Done.", "expect": "'path' and 'file_path' are the same argument with different values"},
    ]
    model = script(work.parent / "s.toml", replies)
    done = agent(["-p", "--model", model, "--allowedTools", "Bash,Write", "go"], work)
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    assert not [p for p in ("made", "b.txt", "c.txt") if (work / p).exists()]


def test_calls_by_hand_are_read_alike(work: Path) -> None:
    (work / "a.txt").write_text("one\n")
    assert "one" in agent(["tools", "run", "Read", '{"path": "a.txt"}'], work).stdout
    wrong = agent(["tools", "run", "Read", '{"file_pth": "a.txt"}'], work)
    assert wrong.returncode != 0 and "did you mean 'file_path'?" in wrong.stdout + wrong.stderr
