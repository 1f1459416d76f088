"""The Landlock and seccomp sandbox: a launcher drops its own rights and then executes the command.

It needs no namespaces, so it works in most containers, but protects less: see `LIMITS`. Landlock can only grant access
to whole trees; a path in a tree is excluded by granting its siblings one by one.

The filter of system calls (seccomp, classic BPF) is also used in bubblewrap. It blocks ways around namespaces and
Landlock: other interfaces of the kernel (io_uring, bpf, keyrings), new namespaces and mounts, input to a terminal,
kinds of sockets that no namespace isolates.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import stat
import struct
import sys
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path
from typing import Any

from agent_tools.sandbox.conditions import Wrapped, memory_file
from agent_tools.sandbox.profile import Profile

# Number on x86_64 and on aarch64; None if the architecture does not have the call.
DENIED_CALLS: dict[str, tuple[int | None, int | None]] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioperm": (173, None),
    "iopl": (172, None),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lookup_dcookie": (212, 18),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "perf_event_open": (298, 241),
    "pivot_root": (155, 41),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "userfaultfd": (323, 282),
    "vhangup": (153, 58),
}
# Denied if other processes are visible.
TRACING_CALLS: dict[str, tuple[int | None, int | None]] = {
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
}
FILTERED_CALLS: dict[str, tuple[int | None, int | None]] = {
    "clone": (56, 220),
    "clone3": (435, 435),
    "connect": (42, 203),
    "ioctl": (16, 29),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "unshare": (272, 97),
}
# Calls that give a file a mode: by number, and the argument that is the mode. A program that runs as its owner would be
# out of the sandbox as soon as another user starts it from a shared folder such as /tmp.
MODE_CALLS: dict[str, tuple[int | None, int | None, int]] = {
    "chmod": (90, None, 1),
    "creat": (85, None, 1),
    "fchmod": (91, 52, 1),
    "fchmodat": (268, 53, 2),
    "fchmodat2": (452, 452, 2),
    "mknod": (133, None, 1),
    "mknodat": (259, 33, 2),
}
# The same for files that are opened, if the argument before the mode says that they are created.
CREATING_CALLS: dict[str, tuple[int | None, int | None, int]] = {"open": (2, None, 2), "openat": (257, 56, 3)}
# It has the mode in memory, which a filter cannot read; without it, programs fall back to openat.
OPENAT2_NUMBER = 437
_CREATE_MODE = 0o100 | 0o20000000  # O_CREAT, __O_TMPFILE
# AUDIT_ARCH_* of <linux/audit.h>.
_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_X32 = 0x40000000
# CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET; only unshare has NEWTIME.
_NAMESPACES, _NEWTIME = 0x7E020000, 0x80
_TERMINAL_INPUT = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERROR, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER, _ARCH, _ARGUMENT = 0, 4, 16


def is_supported() -> bool:
    """Return True if this machine has a filter: 64-bit x86 or ARM."""
    return os.uname().machine in _ARCHITECTURES and struct.calcsize("P") == 8 and sys.byteorder == "little"


@lru_cache(maxsize=4)
def filter_program(*, network: bool, contained: bool) -> bytes:
    """Return the filter as an array of `struct sock_filter`.

    contained: the command has its own network and process namespaces, so that internet sockets are harmless, and
    tracing reaches only its own processes. Without it and `network`, only Unix sockets are allowed, and only as pairs.
    """
    column, arch = _ARCHITECTURES[os.uname().machine]
    numbers = {name: pair[column] for name, pair in {**DENIED_CALLS, **TRACING_CALLS, **FILTERED_CALLS}.items()}
    families = [socket.AF_UNIX]
    if network or contained:
        families += [socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK]
    refused = [*DENIED_CALLS, *(() if contained else TRACING_CALLS), *(() if contained or network else ("connect",))]
    deny = _op(_RETURN, _ERROR | errno.EPERM)
    # Programs of another architecture use other numbers for the same calls, so they must not run.
    code = [_op(_LOAD, _ARCH), _op(_EQUAL, arch, 1, 0), _op(_RETURN, _KILL), _op(_LOAD, _NUMBER)]
    if arch == _ARCHITECTURES["x86_64"][1]:
        code += [_op(_AT_LEAST, _X32, 0, 1), deny]
    for name in refused:
        if (number := numbers[name]) is not None:
            code += _for_call(number, [deny])
    for row in MODE_CALLS.values():
        code += _for_call(row[column], _argument(row[2], [_op(_ANY_BIT, stat.S_ISUID, 0, 1), deny]))
    for row in CREATING_CALLS.values():
        unless = [_op(_ANY_BIT, _CREATE_MODE, 0, 3), _op(_LOAD, _ARGUMENT + 8 * row[2])]
        code += _for_call(row[column], _argument(row[2] - 1, [*unless, _op(_ANY_BIT, stat.S_ISUID, 0, 1), deny]))
    code += _for_call(OPENAT2_NUMBER, [_op(_RETURN, _ERROR | errno.ENOSYS)])
    # clone3 has its flags in memory, which a filter cannot read; without it, libraries fall back to clone.
    code += _for_call(numbers["clone3"], [_op(_RETURN, _ERROR | errno.ENOSYS)])
    code += _for_call(numbers["clone"], _argument(0, [_op(_ANY_BIT, _NAMESPACES, 0, 1), deny]))
    code += _for_call(numbers["unshare"], _argument(0, [_op(_ANY_BIT, _NAMESPACES | _NEWTIME, 0, 1), deny]))
    code += _for_call(
        numbers["ioctl"], _argument(1, [op for k in _TERMINAL_INPUT for op in (_op(_EQUAL, k, 0, 1), deny)])
    )
    allow = _op(_RETURN, _ALLOW)
    known = [op for family in families for op in (_op(_EQUAL, family, 0, 1), allow)]
    for name in ("socket", "socketpair"):
        code += _for_call(numbers[name], _argument(0, [*known, deny]))
    return b"".join([*code, allow])


def _op(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("<HBBI", code, then, otherwise, value)


def _for_call(number: int | None, block: list[bytes]) -> list[bytes]:
    """Run `block`, which must end with a return, for one system call."""
    return [] if number is None else [_op(_EQUAL, number, 0, len(block)), *block]


def _argument(index: int, tests: list[bytes]) -> list[bytes]:
    """Test the low half of an argument, which is all that the kernel uses of an int; then allow the call."""
    return [_op(_LOAD, _ARGUMENT + 8 * index), *tests, _op(_RETURN, _ALLOW)]


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
    temp = [mount.source for mount in profile.temp[:1]]
    own = [*profile.writable, *temp]
    kept = (*profile.hidden, *profile.personal)
    shown = [p for p in map(_resolve, profile.shown) if any(p.is_relative_to(c) for c in profile.covered)]
    spec = {
        "read": [
            *grantable_paths(Path("/"), (*profile.hidden, *profile.covered)),
            *(path for root in (*shown, *own) for path in grantable_paths(root, profile.hidden)),
        ],
        "write": [*(path for root in own for path in grantable_paths(root, kept)), _SHARED],
        "devices": _DEVICES,
        "filter": filter_program(network=profile.network, contained=False).hex(),
    }
    first, descriptor = launcher(spec)
    if temp:
        env = env | {"TMPDIR": str(temp[0])}
    return Wrapped("landlock", [*first, *argv], env, (descriptor,))


def _resolve(path: Path) -> Path:
    return Path(os.path.realpath(path))


def grantable_paths(tree: Path, excluded: Collection[Path]) -> list[str]:
    """Return paths that together cover `tree` except the excluded paths.

    Nothing new can be created next to an excluded path: that right is only granted for whole trees.
    """
    inside = [path for path in excluded if path.is_relative_to(tree)]
    if tree in inside:
        return []
    if not inside:
        return [str(tree)]
    try:
        entries = [Path(entry.path) for entry in os.scandir(tree) if not entry.is_symlink()]
    except OSError:
        return []
    return [path for entry in entries for path in grantable_paths(entry, inside)]
