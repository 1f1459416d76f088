"""A session between pipes: standard output has the conversation, standard error what is about the session."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.program import agent
from tests.support.scripts import script


def test_banner_prompt_and_farewell_stay_out_of_a_piped_output(work: Path) -> None:
    model = script(work.parent / "s.toml", [{"text": "Hello there."}])
    done = agent(["--model", model], work, stdin="hi\n")
    assert done.stdout.splitlines()[0] == "Hello there."
    assert "> " not in done.stdout
    assert "--resume" not in done.stdout
    assert done.stderr.startswith("agent ")
    assert "agent --resume " in done.stderr


@pytest.mark.parametrize("mode", ["bypassPermissions", "acceptEdits"])
def test_a_mode_without_questions_is_warned_about_at_the_start(work: Path, mode: str) -> None:
    model = script(work.parent / "s.toml", [])
    done = agent(["--model", model, "--permission-mode", mode], work, {"IS_SANDBOX": "1"})
    warned = "warning: bypassPermissions: commands and edits run without asking" in done.stderr
    assert warned == (mode == "bypassPermissions")


def test_a_new_session_keeps_the_model_and_the_mode(work: Path) -> None:
    first, second = (script(work.parent / f"{name}.toml", [{"text": f"{name} answers."}]) for name in ("one", "two"))
    typed = f"/mode acceptEdits\n/model {second}\n/clear\n/status\nhello\n"
    done = agent(["--plain", "--model", first], work, stdin=typed)
    assert done.returncode == 0 and "two answers." in done.stdout
    assert re.search(r"mode +acceptEdits", done.stdout) and "one answers." not in done.stdout


@pytest.mark.parametrize("command", ["/clear", "/fork", "/new"])
def test_a_new_session_keeps_the_effort_and_the_rules_of_the_one_before(work: Path, command: str) -> None:
    model = script(work.parent / "s.toml", [{"text": "Hello."}, {"text": "Hello again."}])
    rules = "/permissions deny Bash(curl:*)\n/permissions allow Bash(make)\n"
    typed = f"hello\n{rules}/effort high\n{command}\n/effort\n/permissions\n"
    done = agent(["--plain", "--model", model], work, stdin=typed)
    assert done.returncode == 0, done.stderr
    after = done.stdout[done.stdout.rindex("effort: high") :]
    assert after.count("Bash(make)") == 1 and after.count("Bash(curl:*)") == 1, done.stdout
