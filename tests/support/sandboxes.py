"""Real commands in a real sandbox: a workspace, a home with secrets in it, and one call per command."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from agent_cli.kernel.rules import read_rule
from agent_cli.policy.policy import Policy
from agent_tools.cancel import CancelToken
from agent_tools.record import Value
from agent_tools.sandbox import landlock
from agent_tools.sandbox.bwrap import find_bwrap
from agent_tools.sandbox.conditions import Confined, Kind, SandboxLimits
from agent_tools.sandbox.profile import Profile, make_profile
from agent_tools.sandbox.runner import SandboxRunner
from agent_tools.sandbox.sandbox import Sandbox, try_bubblewrap, try_landlock, try_seatbelt
from agent_tools.sandbox.temporary import STANDARD, TemporaryMount
from agent_tools.shell.process import run_process
from agent_tools.text import HeadTail
from tests.support.tool_bench import Bench

PYTHON = sys.executable
# For a Python program: what came of a function of the C library, as the name of the error or "ok".
CALL = """
import ctypes, errno, os, socket, struct
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *words):
    done = getattr(libc, name)(*[ctypes.c_ulong(w) if isinstance(w, int) else w for w in words])
    return "ok" if done != -1 else errno.errorcode[ctypes.get_errno()]
def tried(what, *words):
    try:
        return what(*words) and "ok" or "ok"
    except OSError as error:
        return errno.errorcode[error.errno]
"""


class Done(Value):
    """The result of a command. code: negative for a signal."""

    out: str
    code: int
    seconds: float
    cause: str = "exit"


class SandboxTester:
    """Runs commands in one kind of sandbox, in a workspace `root`. `home` is beside it."""

    def __init__(self, kind: Kind, folder: Path) -> None:
        self.kind = kind
        self.root = folder / "work"
        self.home = folder / "home"
        self.temp = folder / "private"
        for made in (self.root, self.home / ".ssh", self.temp):
            made.mkdir(parents=True, exist_ok=True)
        (self.home / ".ssh/id_ed25519").write_text("SECRET KEY\n")
        (self.home / ".netrc").write_text("machine SECRET\n")
        (self.home / "notes.txt").write_text("plain notes\n")
        (self.home / ".cargo").mkdir(exist_ok=True)
        (self.home / ".cargo/config.toml").write_text("[build]\n")
        self.sandbox = sandbox_of(kind)
        self.roots: list[Path] = [self.root]

    def profile(self, *, network: bool = False) -> Profile:
        return make_profile(self.roots, self.home, temp=self.temporary(), network=network)

    def temporary(self) -> tuple[TemporaryMount, ...]:
        """The temporary directories: /tmp and /var/tmp are one that is empty at first."""
        return tuple(TemporaryMount(target, self.temp) for target in STANDARD)

    def __call__(
        self,
        command: str | list[str],
        *,
        network: bool = False,
        seconds: float = 60,
        cancel: CancelToken | None = None,
        cwd: Path | None = None,
        inherited: tuple[int, ...] = (),
        profile: Profile | None = None,
    ) -> Done:
        argv = ["/bin/bash", "--noprofile", "--norc", "-c", command] if isinstance(command, str) else command
        env = {"PATH": os.environ["PATH"], "HOME": str(self.home), "LC_ALL": "C", "GIT_CONFIG_NOSYSTEM": "1"}
        kept = HeadTail()
        with self.sandbox.prepare(argv, cwd or self.root, env, profile or self.profile(network=network)) as ready:
            given = (*ready.pass_fds, *inherited)
            running = run_process(
                ready.argv, cwd or self.root, ready.env, seconds, cancel or CancelToken(), kept, given
            )
            try:
                while True:
                    next(running)
            except StopIteration as stop:
                ending = stop.value
            return Done(kept.text(""), ready.code(ending.code), ending.seconds, ending.cause)

    def python(self, code: str, **options: bool) -> str:
        """What a Python program prints; it has `call` and `tried`."""
        return self([PYTHON, "-I", "-S", "-c", CALL + code], **options).out.strip()

    def git(self, *words: str) -> None:
        """Run git outside the sandbox."""
        import subprocess

        env = {"PATH": os.environ["PATH"], "HOME": str(self.home), "GIT_CONFIG_NOSYSTEM": "1"}
        who = ["-c", "user.name=n", "-c", "user.email=n@example.org", "-c", "init.defaultBranch=main"]
        subprocess.run(["git", *who, *words], cwd=self.root, env=env, check=True, capture_output=True)


def confined(root: Path, home: Path | None = None, *, secret: tuple[Path, ...] = (), **options: Any) -> Confined:
    """A sandbox as the gate sees it: one that works and, unless said otherwise, lets commands run unasked."""
    return Confined(
        lambda: True,
        lambda: make_profile([root], home or root.parent, secret=secret),
        **{"auto_allow": True} | options,
    )


def sandbox_of(kind: Kind) -> Sandbox:
    """That kind of sandbox, or skip the test where it does not work."""
    if reason := missing(kind):
        pytest.skip(f"NOT TESTED: no {kind} here: {reason}")
    return Sandbox(kind, program=find_bwrap(os.environ) or "", limits=landlock.LIMITS if kind == "landlock" else ())


@cache
def missing(kind: Kind) -> str:
    """Why a kind of sandbox does not work here; "" where it does."""
    if kind == "seatbelt":
        return try_seatbelt(Profile(())) if sys.platform == "darwin" else "this is not macOS"
    if sys.platform != "linux":
        return "this is not Linux"
    if kind == "landlock":
        return try_landlock(Profile(()))
    program = find_bwrap(os.environ)
    return try_bubblewrap(program, Profile(())) if program else "it is not installed"


def tree(folder: Path) -> set[str]:
    """Return everything below a directory, to check that nothing was left behind."""
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if ".git/objects/" not in f"{p}/"}


def lines(text: str, words: Iterable[str]) -> list[str]:
    """The lines that have one of the words in them."""
    return [line for line in text.splitlines() if any(word in line for word in words)]


class SandboxedBench:
    """A bench in a home folder whose commands run in bubblewrap."""

    def __init__(
        self,
        folder: Path,
        limits: SandboxLimits,
        env: Mapping[str, str] = MappingProxyType({}),
        *,
        shared: bool = True,
        **profile: object,
    ) -> None:
        if reason := missing("bubblewrap"):
            pytest.skip(f"NOT TESTED: no bubblewrap here: {reason}")
        self.home = folder / "home"
        self.root = self.home / "work"
        self.root.mkdir(parents=True)
        self.bench = Bench(self.root)
        self.bench.ctx.env |= {"HOME": str(self.home), **env}
        self._more = profile
        self.sandbox = SandboxRunner("auto", self._profile, self.bench.ctx.env, limits, self.root if shared else None)
        self.bench.ctx.supply(self.sandbox)
        self.bench.ctx.workspace.temporary_files = self.sandbox.temporary_files

    def _profile(self, temp: tuple[TemporaryMount, ...], network: bool) -> Profile:
        return make_profile([self.root], self.home, temp=temp, network=network, **self._more)  # type: ignore[arg-type]

    def __call__(self, command: str, **more: object) -> str:
        return self.bench("Bash", command=command, **more).text

    def govern(
        self, *, allow: Iterable[str] = (), ask: Iterable[str] = (), deny: Iterable[str] = (), **options: Any
    ) -> Policy:
        """Let a policy with these rules of the user decide how commands run, by default without a question."""
        rules = [
            read_rule(kind, text, "the user's settings", self.root)  # type: ignore[arg-type]
            for kind, texts in (("allow", allow), ("ask", ask), ("deny", deny))
            for text in texts
        ]
        names = ("auto_allow", "auto_allow_destructive")
        asked = {"auto_allow": True} | {name: options.pop(name) for name in names if name in options}
        sandbox = Confined(lambda: self.sandbox.is_boundary, lambda: self.sandbox.profile, **asked)
        env = {"PATH": os.environ["PATH"], "HOME": str(self.home)}
        policy = Policy(self.bench.ctx.workspace, rules, home=str(self.home), env=env, confined=sandbox, **options)
        self.bench.ctx.run_conditions = policy.run_conditions
        return policy

    def shared(self) -> None:
        """Skip where the system allows no shared namespaces."""
        session = self.sandbox.session
        assert session is not None
        if session.space_error:
            pytest.skip(f"NOT TESTED: no shared namespaces here: {session.space_error}")
