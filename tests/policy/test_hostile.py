"""Hostile repositories: opening one runs nothing of it, sends nothing, reads nothing outside, and never hangs.

The program runs as installed (not by `python -m`), within a time limit and 2 GB of memory; with strace every program
that is started and every connection is looked at. A run opens each; of the other commands each repository has one in
turn, a sample of them all, and `make fuzz` (FUZZ_LINES above 10,000) runs all in all of them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agent_cli.models.registry import LOCAL_SERVERS, base_url_of, find_provider
from tests.support.hostile import files
from tests.support.hostile.settings import REPOSITORIES, marker, python
from tests.support.program import clean_env
from tests.support.scripts import script
from tests.support.tracing import AGENT, STRACE, whole_calls

SECONDS = 20
COMMANDS = {"run": ["-p", "hi"], "doctor": ["doctor"], "rules": ["permissions", "list"], "trust": ["trust", "--show"]}
# Settings with a mistake end a run: usage or settings, exit code 2.
CODES = {"run": (0, 2), "doctor": (0, 1), "rules": (0, 2), "trust": (0, 2)}
PORTS = [
    base_url_of(find_provider(name), {"OLLAMA_HOST": "127.0.0.1:9"}).split(":")[2].split("/")[0]
    for name in LOCAL_SERVERS
]
ALL = int(os.environ.get("FUZZ_LINES", "0")) > 10_000
LOCAL = rf'sin_port=htons\(({"|".join(PORTS)})\), sin_addr=inet_addr\("127\.0\.0\.1"\)'
SAMPLE = ["settings_of_claude_with_hooks", "mcp_servers", "git_that_would_run_programs", "programs_named_like_ours"]


class OpenedProject:
    """A hostile repository, and the environment of the user who opens it."""

    def __init__(self, name: str, tmp_path: Path) -> None:
        self.root = tmp_path / "work"
        (self.root / ".git").mkdir(parents=True)
        self.env = clean_env(tmp_path / "home", AGENT_MODEL=script(tmp_path / "s.toml", [{"text": "ok"}]))
        # A user with a careless PATH.
        self.env["PATH"] = f".:{self.env['PATH']}:"
        self.cwd = REPOSITORIES[name](self.root) or self.root

    def run(self, args: list[str], *before: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*before, "/bin/sh", "-c", 'ulimit -v 2000000; exec "$@"', "sh", *AGENT, *args],
            cwd=os.fsencode(self.cwd),
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
        out, err = done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")
        return subprocess.CompletedProcess(done.args, done.returncode, out, err)


@pytest.fixture
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> OpenedProject:
    return OpenedProject(request.param, tmp_path)


@pytest.mark.parametrize(
    "opened",
    [pytest.param(name, marks=() if name in SAMPLE else pytest.mark.slow, id=name) for name in REPOSITORIES],
    indirect=True,
)
def test_opening_it_is_harmless(opened: OpenedProject, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    trace = tmp_path / "trace"
    for name in commands_for(request.node.callspec.id):
        args = COMMANDS[name]
        traced = STRACE if name in ("run", "doctor") else []
        done = opened.run(args, *traced, *(["-o", str(trace)] if traced else []))
        assert done.returncode in CODES[name], (name, done.stderr)
        assert "Traceback" not in done.stderr
        assert "internal error" not in done.stderr
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202e]", done.stderr), name
        assert len([line for line in done.stderr.splitlines() if "--trust" in line]) <= 1
        if name == "run":
            assert done.stdout.strip() == ("ok" if done.returncode == 0 else "")
        if traced:
            wrong = violations(trace.read_text("utf-8", "replace"), str(opened.cwd), str(opened.root))
            assert not wrong, (name, wrong)
    assert not marker(opened.root).exists()


def commands_for(repository: str) -> list[str]:
    """The commands that open a repository."""
    first, *others = COMMANDS
    if ALL or repository in SAMPLE:
        return [first, *others]
    return [first, others[list(REPOSITORIES).index(repository) % len(others)]]


@pytest.mark.skipif(not STRACE, reason="STRACE IS MISSING OR NOT ALLOWED: what is started was not checked")
def test_strace_was_there() -> None:
    """Its skip is the notice that the tests above saw less than they should."""


HARDENED = ("core.fsmonitor=false", "core.hooksPath=/dev/null", "core.attributesFile=/dev/null", "protocol.allow=never")


def violations(trace: str, cwd: str, root: str) -> list[str]:
    """Programs of the repository or in it, and connections, but for the program itself.

    The addresses that are let pass are those of local model servers, which doctor asks about everywhere.
    """
    folders: dict[str, str] = {}
    wrong = []
    started = 0
    for pid, parent, call in whole_calls(trace):
        here = folders.setdefault(pid, folders.get(parent, cwd))
        if (moved := re.match(r'chdir\("(.*)" *\) += 0', call)) is not None:
            folders[pid] = moved[1]
        elif call.startswith("fchdir(") and call.endswith("= 0"):
            folders[pid] = "unknown"
        elif call.startswith("execve") and call.endswith("= 0"):
            started += 1
            # Our own reads of a repository that brings nothing; what such a git starts is seen here, too.
            if re.match(r'execve\("/usr/bin/git"', call) and all(f'"{setting}"' in call for setting in HARDENED):
                continue
            program = call.partition('"')[2].partition('"')[0]
            # The first two are the shell that sets the limit, and the program itself.
            if started > 2 and (program.startswith(root) or not program.startswith("/") or not _is_outside(here, root)):
                wrong.append(f"{call} in {here}")
        elif re.match(r"(connect|sendto|sendmsg)\(", call) and "AF_INET" in call and not re.search(LOCAL, call):
            wrong.append(call)
    assert started >= 2, "strace saw nothing"
    return wrong


def _is_outside(folder: str, root: str) -> bool:
    return folder != "unknown" and folder != root and not folder.startswith(f"{root}/")


def test_the_watch_sees_what_it_should() -> None:
    start = '1 execve("/bin/sh", [], 0x1) = 0\n1 execve("/usr/bin/python3", [], 0x1) = 0\n'
    assert violations(start, "/r", "/r") == []
    for line in (
        '2 execve("/usr/bin/git", ["git"], 0x1) = 0',
        '1 vfork() = 2\n2 execve("/usr/bin/git", ["git"], 0x1) = 0',
        '1 vfork( <unfinished ...>\n2 execve("/usr/bin/git" <unfinished ...>\n1 <... vfork resumed>) = 2\n'
        "2 <... execve resumed>) = 0",
        '2 chdir("/") = 0\n2 execve("/r/evil", [], 0x1) = 0',
        '2 chdir("/") = 0\n2 execve("./evil", [], 0x1) = 0',
        "1 connect(3, {sa_family=AF_INET, sin_port=htons(80)}, 16) = -1 ECONNREFUSED",
    ):
        assert len(violations(start + line, "/r", "/r")) == 1, line
    moved = (
        '1 chdir("/") = 0\n1 clone( <unfinished ...>\n1 <... clone resumed>) = 2\n2 execve("/bin/true", [""], 0x1) = 0'
    )
    assert violations(start + moved, "/r", "/r") == []
    halves = '2 chdir("/" <unfinished ...>\n1 clone( <unfinished ...>\n2 <... chdir resumed>) = 0\n'
    assert violations(start + halves + '2 execve("/usr/bin/git", [], 0x1) = 0', "/r", "/r") == []
    assert violations(start + '2 chdir("/") = 0\n2 execve("/usr/bin/git", [], 0x1) = 0', "/r", "/r") == []


def test_the_module_form_does_not_import_from_the_working_directory(tmp_path: Path) -> None:
    opened = OpenedProject("modules_that_hide_libraries", tmp_path)
    python(opened.root, "agent_cli_extra.py")
    for args in (["doctor"], ["-p", "hi"], ["--help"]):
        done = subprocess.run(
            [sys.executable, "-m", "agent_cli", *args], cwd=opened.cwd, env=opened.env, capture_output=True, check=False
        )
        assert done.returncode in (0, 1), done.stderr
    assert not marker(opened.root).exists()


def test_there_are_forty_and_more() -> None:
    assert len(REPOSITORIES) >= 40
    assert any(build.__module__ == files.__name__ for build in REPOSITORIES.values())


@pytest.mark.slow
def test_the_largest_is_opened_in_no_time(tmp_path: Path) -> None:
    opened = OpenedProject("commands_without_number", tmp_path)
    opened.run(["-p", "hi"])
    began = time.monotonic()
    opened.run(["-p", "hi"])
    assert time.monotonic() - began < 5
