"""The real program as a process, in a clean environment."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from tests.support.fork_server import PYTHONPATH, start
from tests.support.fork_server import ROOT as ROOT
from tests.support.scripts import script


def clean_env(home: Path, **more: str) -> dict[str, str]:
    """An environment without keys, settings or state of the machine the tests run on. `home` is made."""
    home.mkdir(parents=True, exist_ok=True)
    kept = {k: v for k, v in os.environ.items() if k in ("PATH", "LANG", "LC_ALL", "SYSTEMROOT", "TMPDIR")}
    made = {
        **kept,
        "HOME": str(home),
        "AGENT_STATE_DIR": str(home / "state"),
        "PYTHONPATH": PYTHONPATH,
        "TERM": "xterm-256color",
        "NO_PROXY": "127.0.0.1,localhost",
        # No server on this machine is to be found by chance.
        "OLLAMA_HOST": "127.0.0.1:9",
        # What a command does is to be seen, not what a sandbox makes of it. Its tests set it; "": settings say it.
        "AGENT_SANDBOX_MODE": "off",
        **more,
    }
    return {name: value for name, value in made.items() if (name, value) != ("AGENT_SANDBOX_MODE", "")}


def agent(
    args: list[str],
    cwd: Path,
    env: dict[str, str] | None = None,
    stdin: str | bytes = "",
    timeout: float = 60,
) -> subprocess.CompletedProcess[str]:
    """Run the program to its end. `env` adds to a clean environment whose HOME is beside `cwd`."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with start(args, cwd, clean_env(cwd.parent / "home", **(env or {})), **pipes) as process:
        try:
            found = process.communicate(stdin.encode() if isinstance(stdin, str) else stdin, timeout)
        except BaseException:
            process.kill()
            raise
    out, err = (text.decode("utf-8", "replace") for text in found)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def run_allowing_bash(work: Path, replies: list[dict[str, Any]], *args: str, **env: str) -> Any:
    model = script(work.parent / "script.toml", replies)
    return agent(["-p", "--model", model, "--allowedTools", "Bash", *args, "hello"], work, env)


def output_allowing_bash(work: Path, replies: list[dict[str, Any]], *more: str, **env: str) -> str:
    """A one-shot run in which every command is allowed; its standard output. What it logs is beside `work`."""
    model = script(work.parent / "s.toml", replies)
    done = agent(["-p", "--model", model, "--allowedTools", "Bash", *more, "--", "go"], work, env)
    assert done.returncode == 0, done.stderr
    return done.stdout
