"""The sandbox and the kernel: rights that cannot be gained, and system calls that are refused."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from agent_tools.sandbox import landlock
from agent_tools.sandbox.landlock import filter_program
from tests.support.sandboxes import SandboxTester

_MODES = {name: (x86, arm) for name, (x86, arm, _) in {**landlock.MODE_CALLS, **landlock.CREATING_CALLS}.items()}
NUMBERS = {**landlock.DENIED_CALLS, **landlock.TRACING_CALLS, **landlock.FILTERED_CALLS, **_MODES}


def number(name: str) -> int:
    column = {"x86_64": 0, "aarch64": 1}[os.uname().machine]
    found = NUMBERS[name][column]
    assert found is not None
    return found


def test_no_new_rights_can_be_gained(cage: SandboxTester) -> None:
    text = cage("grep -E 'NoNewPrivs|Seccomp:|CapEff' /proc/self/status").out
    status = dict(line.split(":\t") for line in text.splitlines())
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    # CAP_CHOWN, DAC_OVERRIDE, FOWNER and FSETID for root, nothing for anyone else.
    assert int(status["CapEff"], 16) == (0x1B if os.geteuid() == 0 else 0)
    assert cage("id -u").out == f"{os.geteuid()}\n"


# Of these the kernel itself says the same, with or without a filter.
ALIKE = {"acct", "bpf", "reboot", "vhangup"}


@pytest.mark.parametrize("name", [n for n in landlock.DENIED_CALLS if None not in NUMBERS[n] and n not in ALIKE])
def test_calls_that_reach_around_the_sandbox_are_refused(cage: SandboxTester, name: str) -> None:
    # What is asked makes no sense on purpose: only the filter says EPERM before the kernel looks at that.
    assert cage.python(f"print(call('syscall', {number(name)}, -1, -1, -1, -1, -1, -1))") == "EPERM"


def test_new_namespaces_and_mounts_are_refused(cage: SandboxTester) -> None:
    code = f"""
print(*(call("unshare", flag) for flag in (0x10000000, 0x20000, 0x40000000, 0x20000000, 0x80)))
print(*(call("syscall", {number("clone")}, flag | 17, 0, 0, 0, 0) for flag in (0x10000000, 0x20000)))
print(call("syscall", {number("clone3")}, 0, 0), call("mount", b"none", b"/tmp", b"tmpfs", 0, 0))
print(call("unshare", 0x200))
"""
    first, second, third, last = cage.python(code).splitlines()
    assert set(f"{first} {second}".split()) == {"EPERM"} and third == "ENOSYS EPERM" and last == "ok"
    assert "Operation not permitted" in cage("unshare -Ur true").out


def test_no_program_can_be_made_that_runs_as_its_owner(cage: SandboxTester) -> None:
    """In a shared folder, another user could start it."""
    code = f"""
open("f", "w").close()
fd = os.open("f", os.O_RDWR)
print(*(tried(*words) for words in (
    (os.chmod, "f", 0o4755), (os.fchmod, fd, 0o6711), (os.open, "g", os.O_CREAT | os.O_WRONLY, 0o4755),
    (os.mknod, "n", 0o104755),
)))
print(call("syscall", {landlock.OPENAT2_NUMBER}, -100, b"f", 0, 0))
print(*(tried(*words) for words in (
    (os.chmod, "f", 0o2775), (os.open, "h", os.O_CREAT | os.O_WRONLY, 0o755), (os.open, "f", os.O_RDONLY, 0o4755),
    (os.mkdir, "d", 0o1777),
)))
"""
    assert cage.python(code).splitlines() == ["EPERM EPERM EPERM EPERM", "ENOSYS", "ok ok ok ok"]
    assert "Operation not permitted" in cage("cp /bin/true own && chmod u+s own; install -m 4755 own other").out
    assert not [p for p in cage.root.iterdir() if p.stat().st_mode & 0o4000]


def test_nothing_can_be_typed_into_a_terminal(cage: SandboxTester) -> None:
    code = """
import fcntl, pty
a, b = pty.openpty()
def push(request):
    fcntl.ioctl(b, request, b"x")
print(tried(push, 0x5412), tried(push, 0x541C), tried(push, 0x5413), tried(os.open, "/dev/tty", os.O_RDWR))
libc.ioctl.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_char_p]
print(libc.ioctl(b, 0x700005412, b"x"), errno.errorcode[ctypes.get_errno()])
"""
    first, last = cage.python(code).splitlines()
    # TIOCGWINSZ is not refused, though what it is given is too small for it.
    assert first.split()[:2] == ["EPERM", "EPERM"] and first.split()[2] != "EPERM" and first.split()[3] == "ENXIO"
    assert last == "-1 EPERM"


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="NOT TESTED: numbers of x86_64")
def test_the_numbers_of_other_architectures_do_not_help(cage: SandboxTester) -> None:
    # x32 numbers; getpid by them, and keyctl.
    assert cage.python("print(call('syscall', 0x40000000 | 39), call('syscall', 0x40000000 | 250, 0, 0))") == (
        "EPERM EPERM"
    )
    # The 32 bit gate, from machine code: mov eax, 20 (getpid of i386); int 0x80; ret.
    code = """
import mmap
page = mmap.mmap(-1, 4096, prot=7)
page.write(bytes.fromhex("b814000000cd80c3"))
ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
print("ran")
"""
    assert "ran" not in cage.python(code)


def test_the_numbers_of_calls_are_those_of_the_kernels_headers() -> None:
    headers = (
        (0, Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")),
        (1, Path("/usr/include/asm-generic/unistd.h")),
    )
    if not all(path.exists() for _, path in headers):
        pytest.skip("NOT TESTED: no kernel headers here")
    for column, path in headers:
        known = dict(re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", path.read_text()))
        for name, pair in NUMBERS.items():
            if name in known:
                assert pair[column] == int(known[name]), name


def test_a_filter_is_whole_instructions_whose_jumps_stay_inside() -> None:
    if not landlock.is_supported():
        pytest.skip("NOT TESTED: no filter for this machine")
    for network in (False, True):
        for contained in (False, True):
            program = filter_program(network=network, contained=contained)
            code = [program[i : i + 8] for i in range(0, len(program), 8)]
            assert len(program) % 8 == 0 and code[-1][0] == 0x06 and len(code) < 4096
            for at, op in enumerate(code):
                if op[0] in (0x15, 0x35, 0x45):
                    assert at + 1 + max(op[2], op[3]) < len(code)
