"""A usage counter of npm reads the transcripts of `-p`, with no setting; run by `make outside`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agent_cli.kernel.results import Usage
from tests.support.client_home import CLIENTS, environment
from tests.support.model_server import Call, ModelServer, Reply

CCUSAGE = CLIENTS / "npm/node_modules/.bin/ccusage"


@pytest.mark.skipif(
    not CCUSAGE.exists() or shutil.which("node") is None, reason="NOT TESTED: ccusage needs node and make outside"
)
def test_ccusage_counts_tokens_cost_and_messages(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    replies = [
        Reply(calls=(Call("Bash", {"command": "true"}),), usage=Usage(input=1_000, output=100, cache_write=400)),
        Reply(text="Done.", usage=Usage(input=2_000, output=50, cache_read=1_500)),
    ]
    with ModelServer(replies) as server:
        env = environment(tmp_path / "home", server.anthropic_url)
        (tmp_path / "home/.claude/projects").mkdir(parents=True)
        done = subprocess.run(
            [env["AGENT_BIN"], "-p", "--allowedTools", "Bash", "--output-format", "json", "go"],
            cwd=work, env=env, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
    result = json.loads(done.stdout)
    assert result["result"] == "Done.", done.stderr

    def counted(report: str) -> Any:
        line = [str(CCUSAGE), report, "--json", "--offline"]
        ran = subprocess.run(line, env={**env, "PATH": os.environ["PATH"]}, capture_output=True, text=True, timeout=60)
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)

    [session] = counted("session")["sessions"]
    assert session["modelsUsed"] == ["claude-sonnet-4-5"]
    tokens = ("inputTokens", "outputTokens", "cacheCreationTokens", "cacheReadTokens")
    assert [session[name] for name in tokens] == [1_100, 150, 400, 1_500]
    assert session["totalCost"] == pytest.approx(result["total_cost_usd"])
    [block] = counted("blocks")["blocks"]
    assert block["entries"] == 2
