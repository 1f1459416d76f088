"""What runs without a question only reads: each such command of the corpus, watched by strace in a scratch repository.

A sample by default; `make fuzz` (FUZZ_LINES above 10,000) watches all of them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from agent_cli.policy.policy import Policy
from agent_cli.policy.shell.analysis import analyse
from agent_tools.shell.state import NON_INTERACTIVE
from tests.policy.corpus import Case
from tests.policy.corpus.place import PATH, build, policy, spelled
from tests.policy.corpus.tables import CASES

ALL = int(os.environ.get("FUZZ_LINES", "0")) > 10_000
SAMPLE = 90
WATCHED = (
    "execve,open,openat,openat2,creat,unlink,unlinkat,rename,renameat,renameat2,mkdir,mkdirat,rmdir,link,linkat,symlink,"
    "symlinkat,truncate,ftruncate,chmod,fchmod,fchmodat,chown,fchown,lchown,fchownat,mknod,mknodat,socket,connect,bind,"
    "setxattr,utimensat,kill,mount,ptrace,settimeofday,clock_settime,sethostname,reboot"
)
# Programs that are shell scripts or start others, with what they run; ag asks git for the setting core.excludesFile.
_SCRIPTS = {
    "ag": {"sh", "git"},
    "which": {"sh", "dash"},
    "egrep": {"sh", "dash", "grep"},
    "fgrep": {"sh", "dash", "grep"},
    "npm": {"env", "node"},
    "yq": {"env", "python3", "jq"},
    "tar": {"sh", "gzip"},
}
# node and ip list the network interfaces, ss asks the kernel for its sockets, and pip tries whether an address of this
# machine can be used: nobody is contacted.
_LOOKS = {
    "node": r"AF_NETLINK",
    "ss": r"AF_NETLINK",
    "ip": r"AF_NETLINK",
    "npm": r"AF_NETLINK",
    "pip3": r"AF_INET6, SOCK_STREAM|htons\(0\).*\"::1\"",
    "pip": r"AF_INET6, SOCK_STREAM|htons\(0\).*\"::1\"",
}
# Bash itself looks for a terminal when it starts.
_DEVICES = re.compile(r"/dev/(?:null|stderr|stdout|fd/\d+|tty)")
_WRITES = re.compile(r"O_(?:WRONLY|RDWR|CREAT|TRUNC|APPEND)")
_CALL = re.compile(r"(?:\[pid +)?\d*\]? *(?P<name>\w+)\((?P<words>.*?)\) += (?P<result>-?\d+|\?)(?P<error>.*)")


def free(case: Case) -> bool:
    """Whether the case says that its command runs without any rule."""
    plain = (case.allow, case.ask, case.deny, case.carried, case.mode) == ((), (), (), (), "default")
    # A login shell reads the user's own start-up files first; services are asked over a socket or a network.
    return (
        plain
        and case.kind != "everyday services"
        and case.expected == "allow"
        and case.trusted
        and len(case.command) < 4_000
        and "-lc" not in case.command
    )


FREE = [case for case in CASES if free(case)]
# The first of each program come first, so that a sample has many programs.
_SEEN: dict[str, int] = {}
for _case in FREE:
    _first = _case.command.split()[0]
    _SEEN[_first] = _SEEN.get(_first, 0) + 1
CHOSEN = FREE if ALL else sorted(FREE, key=lambda c: (_SEEN[c.command.split()[0]], c.command))[:: len(FREE) // SAMPLE]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("proof"), git=True)


def watch(case: Case, root: Path, log: Path) -> list[tuple[str, str, bool]]:
    """The calls of the system that a command makes: name, arguments, and whether it went well."""
    gate: Policy = policy(case, root)
    command = spelled(case.command, root)
    variables = {
        "PATH": PATH,
        "HOME": str(root.parent / "home"),
        **NON_INTERACTIVE,
        **dict(gate.run_conditions(command).env),
    }
    argv = ["strace", "-f", "-qq", "-s", "4096", "-e", f"trace={WATCHED}", "-o", str(log)]
    argv += ["/bin/bash", "--noprofile", "--norc", "-c", command]
    subprocess.run(
        argv,
        cwd=root / case.cwd,
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=30,
        check=False,
    )
    found = []
    for line in log.read_text(errors="replace").splitlines():
        match = _CALL.match(line.split(" ", 1)[1].strip()) if " " in line else None
        if match:
            found.append((match["name"], match["words"], match["result"] not in ("-1", "?")))
    return found


def wrong(name: str, words: str, done: bool, programs: set[str]) -> bool:
    """Whether a call is one that a reading command must not make."""
    if name == "execve":
        path = re.match(r'"([^"]*)"', words)
        return done and (path is None or os.path.basename(path[1]) not in programs)
    if name in ("open", "openat", "openat2"):
        path = re.search(r'"([^"]*)"', words)
        return bool(_WRITES.search(words)) and not (path and _DEVICES.fullmatch(path[1]))
    if name in ("socket", "connect"):
        # The C library asks a local cache for the names of users.
        return "AF_UNIX" not in words or (name == "connect" and "/nscd/" not in words)
    return name not in ("kill", "ftruncate") or done


def looks(name: str, words: str, programs: set[str]) -> bool:
    """Whether a call only looks at the network of this machine."""
    return name in ("socket", "bind") and any(re.search(_LOOKS[p], words) for p in programs & _LOOKS.keys())


def programs_of(case: Case, root: Path) -> set[str]:
    """The programs that a command may start, by the analysis."""
    analysis = analyse(spelled(case.command, root), str(root / case.cwd), str(root.parent / "home"))
    named = {os.path.basename(w.text) for p in analysis.parts for w in p.words[:1]}
    named |= {os.path.basename(layer.words[0].text) for p in analysis.parts for layer in p.layers}
    named |= {script for name in list(named) for script in _SCRIPTS.get(name, ())}
    return named | {"bash"}


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("strace") is None, reason="NOT TESTED: there is no strace to watch what runs unasked")
@pytest.mark.parametrize("part", range(4))
def test_what_runs_unasked_only_reads(root: Path, tmp_path: Path, part: int) -> None:
    mistakes = []
    for case in CHOSEN[part::4]:
        may = programs_of(case, root)
        calls = watch(case, root, tmp_path / "log")
        mistakes += [
            f"{case.command!r}: {name}({words[:150]})"
            for name, words, ok in calls
            if wrong(name, words, ok, may) and not looks(name, words, may)
        ]
        assert any(name == "execve" for name, _, _ in calls), f"{case.command!r} was not watched"
    assert not mistakes, "\n".join(mistakes)


@pytest.mark.skipif(shutil.which("strace") is None, reason="NOT TESTED: there is no strace")
def test_the_watching_sees_writes(root: Path, tmp_path: Path) -> None:
    for command in ("echo x > /tmp/agent-proof-$$; rm /tmp/agent-proof-$$", "git status & touch a.txt", "rm nothing"):
        calls = watch(Case("", "ask", command), root, tmp_path / "log")
        assert any(wrong(name, words, ok, {"bash", "git", "rm", "touch"}) for name, words, ok in calls), command
