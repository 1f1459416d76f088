"""Drop rights of this process, then execute the command.

`python -I -S launch.py FD COMMAND...` reads readable and writable paths as JSON from the descriptor, and runs the
command with them. Without paths in the JSON, only abstract sockets and signals are isolated, if the kernel supports it.
It imports nothing from this package, because it starts without site packages. If setup fails, the error goes to
standard error
and the command does not run: exit code 125.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import stat
import struct
import sys
from typing import Any

SETUP_FAILED_EXIT_CODE = 125
ERROR_PREFIX = "agent sandbox: "
_SET_PDEATHSIG, _SET_SECCOMP, _SET_NO_NEW_PRIVS, _FILTER = 1, 22, 38, 2
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
# LANDLOCK_ACCESS_FS_* of <linux/landlock.h>; below, by the ABI that introduced them.
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _MAKE_CHAR, _MAKE_BLOCK = 1, 2, 4, 8, 1 << 6, 1 << 11
_REFER, _TRUNCATE, _IOCTL_DEVICE = 1 << 13, 1 << 14, 1 << 15
_ACCESS_BY_ABI = {1: (1 << 13) - 1, 2: _REFER, 3: _TRUNCATE, 5: _IOCTL_DEVICE}
_FILE_ACCESS = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEVICE
_READ_ACCESS = _EXECUTE | _READ_FILE | _READ_DIR
# LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET and _SIGNAL, since ABI 6.
_SCOPES, _SCOPES_SINCE = 3, 6
# Before ABI 3, a file could be truncated without write access.
_MIN_ABI = 3
# CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER, CAP_FSETID: root writes files of other owners in the workspace.
_KEPT_CAPABILITIES = 0b11011
_CAPABILITIES_V3 = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)


class SandboxSetupError(Exception):
    """The sandbox cannot be set up; the message says why."""


def main(arguments: list[str]) -> None:
    with os.fdopen(int(arguments[0]), "rb") as file:
        spec: dict[str, Any] = json.load(file)
    try:
        confine(spec)
    except (SandboxSetupError, OSError) as error:
        fail(f"cannot be set up: {error}")
    try:
        os.execvp(arguments[1], arguments[1:])
    except OSError as error:
        fail(f"{arguments[1]}: {error.strerror}")


def fail(why: str) -> None:
    sys.stderr.write(f"{ERROR_PREFIX}{why}\n")
    sys.exit(SETUP_FAILED_EXIT_CODE)


def confine(spec: dict[str, Any]) -> None:
    """Apply the restrictions, the filter last: it blocks calls that the others need."""
    if "read" in spec:
        _call("prctl", _SET_PDEATHSIG, signal.SIGKILL)
        if os.geteuid() == 0:
            _drop_capabilities()
    _call("prctl", _SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    abi = int(_libc.syscall(ctypes.c_long(_CREATE_RULESET), None, ctypes.c_size_t(0), ctypes.c_uint32(1)))
    if "read" in spec:
        if abi < _MIN_ABI:
            raise SandboxSetupError(
                "the kernel has no Landlock" if abi < 1 else f"the kernel's Landlock is too old (ABI {abi})"
            )
        _restrict(abi, spec["read"], spec["write"], spec["devices"])
    elif abi >= _SCOPES_SINCE:
        _restrict(abi)
    if spec.get("filter"):
        program = bytes.fromhex(spec["filter"])
        code = ctypes.create_string_buffer(program, len(program))
        header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code))
        _call("prctl", _SET_SECCOMP, _FILTER, header, 0, 0)


def _restrict(
    abi: int, read: list[str] | None = None, write: list[str] | None = None, devices: list[str] | None = None
) -> None:
    """Restrict by Landlock: files if lists are given, and always abstract sockets and signals, if supported."""
    handled = sum(rights for since, rights in _ACCESS_BY_ABI.items() if since <= abi) if read is not None else 0
    attributes = struct.pack("QQQ", handled, 0, _SCOPES if abi >= _SCOPES_SINCE else 0)
    size = 24 if abi >= _SCOPES_SINCE else 8
    ruleset = _syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(size), ctypes.c_uint32(0))
    _add_rule(ruleset, "/", handled & _READ_DIR)
    for path in read or ():
        _add_rule(ruleset, path, handled & _READ_ACCESS)
    for path in write or ():
        _add_rule(ruleset, path, handled & ~(_MAKE_CHAR | _MAKE_BLOCK | _IOCTL_DEVICE))
    for path in devices or ():
        _add_rule(ruleset, path, handled & (_READ_ACCESS | _WRITE_FILE | _TRUNCATE | _IOCTL_DEVICE))
    _syscall(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    os.close(ruleset)


def _add_rule(ruleset: int, path: str, rights: int) -> None:
    if not rights:
        return
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # removed or inaccessible: nothing to grant
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= _FILE_ACCESS
        if rights:
            beneath = struct.pack("=Qi", rights, descriptor)
            _syscall(_ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(1), beneath, ctypes.c_uint32(0))
    finally:
        os.close(descriptor)


def _drop_capabilities() -> None:
    """Keep only the capabilities for writing in the workspace. With no_new_privs, none can be regained."""
    header = ctypes.create_string_buffer(struct.pack("Ii", _CAPABILITIES_V3, 0))
    had = ctypes.create_string_buffer(24)
    _call("capget", header, had)
    kept = struct.unpack("6I", had.raw)[1] & _KEPT_CAPABILITIES
    _call("capset", header, struct.pack("6I", kept, kept, 0, 0, 0, 0))


def _syscall(number: int, *arguments: Any) -> int:
    return _call("syscall", ctypes.c_long(number), *arguments)


def _call(name: str, *arguments: Any) -> int:
    # prctl takes longs; a bare int would leave the upper half undefined.
    given = [ctypes.c_ulong(a) if isinstance(a, int) else a for a in arguments]
    result = int(getattr(_libc, name)(*given))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")
    return result


if __name__ == "__main__":
    main(sys.argv[1:])
