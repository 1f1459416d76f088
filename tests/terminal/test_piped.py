"""A session between pipes: standard output has the conversation, standard error what is about the session."""

from __future__ import annotations

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
