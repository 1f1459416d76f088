"""A toolkit that installs itself in ~/.claude, from its installer to its first command; run by `make outside`."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.client_home import CLIENTS, environment
from tests.support.model_server import Call, ModelServer, Reply

INSTALLER = CLIENTS / "npm/node_modules/get-shit-done-cc/bin/install.js"


@pytest.mark.skipif(
    not INSTALLER.exists() or shutil.which("node") is None, reason="NOT TESTED: needs node and make outside"
)
def test_a_toolkit_works_from_its_installer_to_its_first_command(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    replies = [Reply(calls=(Call("Write", {"file_path": "a.txt", "content": "x\n"}),)), Reply(text="Ok.")]
    with ModelServer(replies) as server:
        env = environment(tmp_path / "home", server.anthropic_url)

        def run(*line: str) -> str:
            done: Any = subprocess.run(line, cwd=work, env=env, capture_output=True, text=True, timeout=120)
            assert done.returncode == 0, done.stdout + done.stderr
            return str(done.stdout)

        run("node", str(INSTALLER), "--claude", "--global")
        found = run(
            env["AGENT_BIN"], "-p", "--permission-mode", "acceptEdits", "--output-format", "stream-json", "--verbose",
            "/gsd-help",
        )  # fmt: skip
    lines = [json.loads(line) for line in found.splitlines()]
    assert "gsd-help" in lines[0]["skills"] and "gsd-planner" in lines[0]["agents"]
    # The command names a file of the toolkit, which goes along, and the hooks of the toolkit let the edit pass.
    help_text = (tmp_path / "home/.claude/get-shit-done/workflows/help.md").read_text()
    sent = json.dumps(server.bodies[0]["messages"], ensure_ascii=False)
    assert json.dumps(help_text.strip()[:2_000], ensure_ascii=False)[1:-1] in sent
    assert (work / "a.txt").read_text() == "x\n" and lines[-1]["result"] == "Ok."
    # Its installer registers some hooks whose files it does not bring.
    assert all("No such file" in json.dumps(failed) for failed in lines[-1].get("failed_hooks", []))
