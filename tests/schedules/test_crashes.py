"""kill -9 at every write of the tick and of what it starts: no run comes twice, and none is lost."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.fork_server import ROOT
from tests.support.program import clean_env

# Each call of a run with `make crashes`, and some of them otherwise.
STEP = 1 if "CRASH_POINTS" in os.environ else 7


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_kills_at_every_write(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.support.schedule_crashes", str(tmp_path), str(STEP)]
    env = {**clean_env(tmp_path / "home"), "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tools'}"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=280, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    *problems, last = done.stdout.splitlines()
    assert not problems, "\n".join(problems)
    assert int(last.removeprefix("points ")) >= 15
