"""What many tests need: the real program as a process, script files, and a clean environment."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.forking import PYTHONPATH, start
from tests.forking import ROOT as ROOT


def examples(count: int) -> int:
    """How many examples of many Hypothesis tries: a third, and all with EXAMPLES=all, as `make fuzz` does."""
    return count if os.environ.get("EXAMPLES") == "all" else count // 3


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
            told = process.communicate(stdin.encode() if isinstance(stdin, str) else stdin, timeout)
        except BaseException:
            process.kill()
            raise
    out, err = (text.decode("utf-8", "replace") for text in told)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def end_listening(listener: socket.socket) -> None:
    """Close a listening socket in whose accept() a thread may wait.

    Closing alone does not wake that thread; where the process is then stopped and continued, the system calls accept()
    again with a descriptor that may be another server's by then, whose connections it takes.
    """
    with suppress(OSError):
        listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def script(path: Path, replies: list[dict[str, Any]]) -> str:
    """Write a script for the scripted model; returns the model's name."""
    tables = ("[[reply]]\n" + "\n".join(f"{k} = {_toml(v)}" for k, v in r.items()) for r in replies)
    path.write_text("\n".join(tables), "utf-8")
    return f"scripted:{path}"


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """A tool call of a script."""
    return {"name": name, "arguments": arguments}


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {_toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(v) for v in value) + "]"
    # Characters as they are: TOML has no surrogate pairs.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
