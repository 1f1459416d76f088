"""Every option, callback and method of the Agent SDK for Python, with this program in Claude Code's place."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.client_home import CLIENTS, environment

CASES: dict[str, dict[str, Any]] = {
    "every_option": {"result": "pong", "session": "6f1c1b4e-5f0e-4f51-9f0c-9d3c1f1d2e3a", "mode": "acceptEdits",
                     "tools": ["Bash", "Read"], "agent": True, "stderr": True},
    "more_options": {"expanded": "greeted", "composed": True, "stored": "two", "same": True, "cut": "five",
                     "denied": ["Bash"]},
    "sessions": {"same": True, "forked": True, "result": "four"},
    "callbacks": {"asked": [["Bash", True], ["Bash", True]], "called": ["hello"], "files": ["changed.txt"],
                  "hooks": ["PostToolUse", "PreToolUse", "Stop", "UserPromptSubmit"]},
    "methods": {"info": True, "rewound": True, "usage": True, "servers": ["mine"], "no_task": True},
    "output": {"output": {"word_count": 2}},
    "prompts": {"results": ["pong"] * 11},
}  # fmt: skip


@pytest.mark.skipif(not (CLIENTS / "py").is_dir(), reason="make outside installs the SDK")
@pytest.mark.parametrize("case", CASES)
def test_the_options_and_methods_of_the_sdk_work(tmp_path: Path, model: str, case: str) -> None:
    (tmp_path / "work").mkdir()
    script = Path(__file__).with_name("sdk_options.py")
    env = environment(tmp_path / "home", model)
    done = subprocess.run(
        [str(CLIENTS / "py/bin/python"), str(script), case],
        cwd=tmp_path / "work", env=env, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == CASES[case], done.stderr
