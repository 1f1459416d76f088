"""The Landlock and seccomp sandbox: a launcher drops its own rights and then executes the command.

It needs no namespaces, so it works in most containers, but protects less: see `LIMITS`. Landlock can only grant access
to whole trees; a path in a tree is excluded by granting its siblings one by one.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

from agent_tools.sandbox.profile import Profile
from agent_tools.sandbox.seccomp import filter_program
from agent_tools.sandbox.wrapped import Wrapped, memory_file

LAUNCHER = Path(__file__).with_name("launch.py")
LIMITS = (
    "protected files inside the workspace can be written",
    "processes that leave the command's group are not ended with it by the kernel",
    "modes, owners and times of files outside can be changed",
    "names of hidden files can be listed, and the processes of others",
    "with the network allowed, sockets of the system's services can be reached",
)
_DEVICES = tuple(f"/dev/{name}" for name in "null zero full random urandom tty ptmx pts".split())
_SHARED = "/dev/shm"


def launcher(spec: dict[str, Any]) -> tuple[list[str], int]:
    """Return the command line prefix of the launcher, and the descriptor to inherit, from which it reads `spec`."""
    descriptor = memory_file("sandbox", json.dumps(spec).encode())
    return [sys.executable, "-I", "-S", str(LAUNCHER), str(descriptor)], descriptor


def prepare_landlock(argv: list[str], env: dict[str, str], profile: Profile) -> Wrapped:
    """Wrap a command with the launcher."""
    own = [*profile.writable, *([profile.temp] if profile.temp else [])]
    kept = (*profile.hidden, *profile.personal)
    shown = [p for p in map(_real, profile.shown) if any(p.is_relative_to(c) for c in profile.covered)]
    spec = {
        "read": [
            *granted(Path("/"), (*profile.hidden, *profile.covered)),
            *(path for root in (*shown, *own) for path in granted(root, profile.hidden)),
        ],
        "write": [*(path for root in own for path in granted(root, kept)), _SHARED],
        "devices": _DEVICES,
        "filter": filter_program(network=profile.network, contained=False).hex(),
    }
    first, descriptor = launcher(spec)
    if profile.temp:
        env = env | {"TMPDIR": str(profile.temp)}
    return Wrapped("landlock", [*first, *argv], env, (descriptor,))


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def granted(tree: Path, kept_out: Collection[Path]) -> list[str]:
    """Return paths that together cover `tree` except what is kept out.

    Nothing new can be created next to an excluded path: that right is only granted for whole trees.
    """
    inside = [path for path in kept_out if path.is_relative_to(tree)]
    if tree in inside:
        return []
    if not inside:
        return [str(tree)]
    try:
        entries = [Path(entry.path) for entry in os.scandir(tree) if not entry.is_symlink()]
    except OSError:
        return []
    return [path for entry in entries for path in granted(entry, inside)]
