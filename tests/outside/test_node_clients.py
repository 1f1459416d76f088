"""The Agent SDK of npm and what is built on it, with this program in Claude Code's place; run by `make outside`."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.client_home import CLIENTS, environment
from tests.support.program import ROOT

EVENTS = ["content_block_delta", "content_block_start", "content_block_stop", "message_delta", "message_start",
          "message_stop"]  # fmt: skip
CASES: dict[str, dict[str, Any]] = {
    "query": {"result": "pong", "types": ["system", "assistant", "result"]},
    "permission": {"result": False, "asked": [["Bash", "touch made.txt", True, "string"]]},
    "denial": {"denials": ["Bash"]},
    "hooks": {"events": ["UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop"]},
    "tools": {"called": ["hello"], "error": False},
    "agents": {"offered": True, "result": "DONE"},
    "partial": {"kinds": EVENTS},
    "schema": {"output": {"word_count": 2}},
    "controls": {"commands": True, "models": True, "account": "object", "servers": 0, "first": "one", "second": "two"},
    "methods": {
        "initialized": True, "again": True, "agents": True, "context": True, "usage": False, "file": "one\n",
        "base64": "b25lCg==", "skills": True, "styles": True, "plugins": 0, "backgrounded": False,
        "servers": {"added": [], "removed": [], "errors": {}}, "refused": [True] * 5,
    },
    "options": {"result": "pong", "mode": "acceptEdits", "agent": True, "stderr": True},
    "moreOptions": {
        "session": True, "tools": True, "mode": "bypassPermissions", "plugin": ["plug"], "servers": ["none"],
        "log": True, "verbatim": True, "expanded": "greeted", "forked": "two", "own": "own", "spawned": 1,
    },
    "stores": {"same": True, "result": "two"},
    "interrupt": {"subtype": "error_during_execution"},
    "resume": {"same": True, "result": "two"},
    "failure": {"is_error": True, "subtype": "success", "raised": True},
    "examples": {"files": 2, "found": [], "wrong": True},
    "aisdk": {"text": "pong", "streamed": "pang"},
    "acp": {"stop": "end_turn", "text": "pong"},
}  # fmt: skip


@pytest.mark.skipif(
    not (CLIENTS / "npm/node_modules").is_dir() or shutil.which("node") is None, reason="needs node and make outside"
)
@pytest.mark.parametrize("case", CASES)
def test_a_client_of_npm_works(tmp_path: Path, model: str, case: str) -> None:
    (tmp_path / "work").mkdir()
    script = Path(__file__).with_name("node_clients.mjs")
    env = environment(tmp_path / "home", model) | {
        "AGENT_CLIENTS": str(CLIENTS),
        "EXAMPLES_OF_CI": str(ROOT / "examples/ci"),
    }
    done = subprocess.run(
        ["node", str(script), case], cwd=tmp_path / "work", env=env, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == CASES[case], done.stderr
