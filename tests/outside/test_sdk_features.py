"""Each feature of the Agent SDK of npm by itself, with this program in Claude Code's place; run by `make outside`."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.client_home import CLIENTS, environment
from tests.support.extension_files import put
from tests.support.model_server import ModelServer
from tests.support.obedient_model import answer_request
from tests.support.program import ROOT

SCRIPT = Path(__file__).with_name("sdk_features.mjs")
NAMES = re.findall(r"^  (\w+): async ", SCRIPT.read_text(), re.MULTILINE)


def test_there_are_at_least_44_features() -> None:
    assert len(NAMES) == len(set(NAMES)) >= 44


@pytest.mark.skipif(
    not (CLIENTS / "npm/node_modules").is_dir() or shutil.which("node") is None,
    reason="NOT TESTED: needs node and make outside",
)
@pytest.mark.parametrize("name", NAMES)
def test_a_feature_of_the_sdk(name: str, tmp_path: Path) -> None:
    work, home = tmp_path / "work", tmp_path / "home"
    work.mkdir()
    with ModelServer([answer_request], repeat=True) as server:
        env = environment(home, server.anthropic_url)
        env |= {
            "AGENT_CLIENTS": str(CLIENTS),
            "FORM_SERVER": f"{sys.executable} {ROOT}/tests/support/mcp/odd_server.py",
        }
        put(home, ".claude/commands/greet.md", "Reply with exactly: greeted")
        done = subprocess.run(
            ["node", str(SCRIPT), name], cwd=work, env=env, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout.splitlines()[-1])
        if isinstance(found, dict) and set(found) == {"sent"}:
            assert any(found["sent"] in json.dumps(body) for body in server.bodies), done.stderr
        else:
            assert found is True, f"{found} {done.stderr}"
