"""Which modules a run of the program imports."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.support.program import clean_env

RUN = """
import json, sys
from agent_cli.__main__ import guarded
code = guarded(sys.argv[1:])
print(json.dumps([code, sorted(sys.modules)]))
"""


def loaded(folder: Path, *args: str, **env: str) -> set[str]:
    """The modules that a successful run has loaded at its end."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, *args],
        cwd=folder,
        env=clean_env(folder / "home", **env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
    )
    code, modules = json.loads(done.stdout.splitlines()[-1])
    assert code == 0
    return set(modules)
