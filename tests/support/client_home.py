"""A home folder for the clients of other projects, in which `bin/agent` is this program."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.support.fork_server import PYTHONPATH

CLIENTS = Path(os.environ.get("AGENT_CLIENTS", "/nonexistent"))


def environment(home: Path, url: str) -> dict[str, str]:
    """The environment of a client: the program is started by `bin/agent` in its home folder."""
    (home / "bin").mkdir(parents=True)
    program = home / "bin/agent"
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{PYTHONPATH}" exec "{sys.executable}" -m agent_cli "$@"\n')
    program.chmod(0o755)
    (home / "tmp").mkdir()
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "LC_ALL")}
    return kept | {
        "HOME": str(home),
        "TMPDIR": str(home / "tmp"),
        "AGENT_BIN": str(program),
        "AGENT_MODEL": "anthropic/claude-sonnet-4-5",
        "AGENT_SANDBOX_MODE": "off",
        "ANTHROPIC_API_KEY": "key-of-no-one",
        "ANTHROPIC_BASE_URL": url,
        "CLAUDE_CONFIG_DIR": str(home / ".claude"),
        "CLAUDE_AGENT_SDK_SKIP_VERSION_CHECK": "1",
        "IS_SANDBOX": "1",
        "NO_PROXY": "127.0.0.1,localhost",
    }
