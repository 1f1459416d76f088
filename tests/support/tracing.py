"""Run the program under strace, and read the trace."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress

# As the installed command does it: the working directory is not on the import path.
AGENT = [sys.executable, "-P", "-c", "from agent_cli.__main__ import main; main()"]


def _strace() -> list[str]:
    """Return the strace command; empty if it is not available."""
    calls = "execve,execveat,connect,sendto,sendmsg,chdir,fchdir,clone,clone3,fork,vfork"
    command = ["strace", "-f", "-qq", "-s", "4096", "-e", f"trace={calls}"]
    # Where the kernel does the choosing, the calls that are not looked at cost nothing.
    for tried in ([*command, "--seccomp-bpf"], command):
        with suppress(OSError):
            if subprocess.run([*tried, "true"], capture_output=True, check=False).returncode == 0:
                return tried
    return []


STRACE = _strace()


def whole_calls(trace: str) -> Iterator[tuple[str, str, str]]:
    """Process, the process that forked last, and call; the halves of interrupted lines joined.

    What a fork returns is no help: inside a namespace processes have other numbers.
    """
    begun: dict[str, str] = {}
    forked = ""
    for line in trace.splitlines():
        pid, _, call = line.partition(" ")
        call = call.strip()
        if re.match(r"(clone3?|v?fork)\(", call):
            forked = pid
        if call.endswith("<unfinished ...>"):
            begun[pid] = call.removesuffix("<unfinished ...>")
        elif resumed := re.match(r"<\.\.\. \w+ resumed>", call):
            yield pid, forked, begun.pop(pid, "") + call[resumed.end() :]
        else:
            yield pid, forked, call
