"""A working day: a repository with its remote, a home, the model, and one front end, which a story drives.

@story(fronts=ALL, faults=("lines-kill",))
def test_a_fix(day: Day) -> None:
    day.model.will(says("I mend it.", edit("a.py", "1", "2")), says("Mended."))
    day.begin("mend it")
    day.asked("Edit a.py")
    day.inject_fault()
    day.answer("y")
    day.shows("Mended.")
    day.leave()
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.file_faults import fill, mount_small
from tests.support.fork_server import ROOT
from tests.support.program import agent
from tests.support.slow_line import FAR, SLOW
from tests.support.stories.front_ends import PATIENCE, Application, Lines
from tests.support.stories.headless import Headless
from tests.support.stories.model import Model

ALL = ("application", "lines", "headless")
TERMINALS = ("application", "lines")
HOUR = 3600.0
FRONTS: dict[str, type[Application | Lines | Headless]] = {f.name: f for f in (Application, Lines, Headless)}


def story(fronts: Sequence[str] = ALL, faults: Sequence[str] = (), line: str = "") -> pytest.MarkDecorator:
    """Tell a story once in each front end; and again with a fault in one of them, as "lines-kill".

    Of several faults the first is run by default, and all by `make stories`.
    line: tell it in the application at the end of such a line, too: "slow" or "far".
    """
    faults = faults if os.environ.get("STORIES") == "all" else faults[:1]
    runs = [*((front, "") for front in fronts), *(tuple(fault.split("-")) for fault in faults)]
    runs += [("application", line)] if line else []
    return pytest.mark.parametrize("day", runs, indirect=True, ids=["-".join(filter(None, run)) for run in runs])


LINES = {"slow": SLOW, "far": FAR}


class Day:
    """See the module. `work` is the repository, `front` the front end, `fault` what goes wrong, if anything."""

    def __init__(self, base: Path, model: Model, front: str, fault: str) -> None:
        self.base, self.model, self.fault = base, model, fault
        self.work, self.home, self.remote = base / "work", base / "home", base / "origin.git"
        self.flags: list[str] = []
        model.on_fault = self._apply_fault
        self.mark = uuid.uuid4().hex
        self.clock = base / "clock"
        self.clock.write_text("0")
        self.home.mkdir()
        self.work.mkdir()
        (self.home / ".gitconfig").write_text(
            "[user]\nname = Ada\nemail = ada@example.org\n[init]\ndefaultBranch = main\n"
        )
        # Whether the fault ends the process, so that another one goes on.
        self.ends = fault in ("terminal", "kill")
        if fault == "disk":
            mount_small(self.home / "state", "24m")
        self.env = {
            "STORY": self.mark,
            "OPENAI_API_KEY": "story-key",
            "OPENAI_BASE_URL": model.server.openai_url,
            "AGENT_MODEL": "openai/test-model",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        }
        if fault == "clock":
            self.env["STORY_CLOCK"] = str(self.clock)
            paths = (Path(__file__).parent / "clock", ROOT, ROOT / "tools")
            self.env["PYTHONPATH"] = os.pathsep.join(map(str, paths))
        kind: type[Application | Lines | Headless] = FRONTS[front]
        self.front = kind(self.work, self.env, self.flags, self.model.all_problems)
        self.front.speed = LINES.get(fault)

    # What is there before the day begins

    def settings(self, text: str) -> None:
        """The user's own settings."""
        (self.home / ".agentrc").write_text(text)

    def file(self, name: str, content: str, *, mode: int = 0o644) -> Path:
        """A file in the repository."""
        path = self.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        path.chmod(mode)
        return path

    def text(self, name: str) -> str:
        """What is in a file of the repository."""
        return (self.work / name).read_text()

    def git(self, *words: str, cwd: Path | None = None) -> str:
        """The user's own git, outside the program."""
        env = {"HOME": str(self.home), "PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1"}
        done = subprocess.run(
            ["git", *words], cwd=cwd or self.work, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"git {' '.join(words)}: {done.stderr}"
        return done.stdout.strip()

    def repository(self, **files: str) -> None:
        """Make `work` a repository with these files committed and pushed to a bare remote. `__` in names is a dot."""
        self.git("init", "-q", "--bare", str(self.remote), cwd=self.base)
        self.git("init", "-q")
        for name, content in files.items():
            self.file(name.replace("__", "."), content)
        self.git("add", "-A")
        self.git("commit", "-qm", "Begin")
        self.git("remote", "add", "origin", str(self.remote))
        self.git("push", "-qu", "origin", "main")

    def git_hook(self, name: str, script: str) -> None:
        """A hook of git."""
        self.file(f".git/hooks/{name}", f"#!/bin/sh\n{script}\n", mode=0o755)

    # The day

    def begin(self, words: str = "", *flags: str) -> None:
        """Open the program with these flags, which all its processes get, and send a message."""
        self.flags += flags
        self.front.open()
        if words:
            self.front.say(words)

    def say(self, text: str) -> None:
        self.front.say(text)

    def asked(self, *words: str) -> str:
        return self.front.asked(*words)

    def answer(self, verdict: str) -> None:
        self.front.answer(verdict)

    def approves(self, *words: str) -> None:
        """Wait for a question with these words, and say yes."""
        self.asked(*words)
        self.answer("y")

    def shows(self, *words: str) -> str:
        return self.front.shows(*words)

    def undo(self, files: int) -> None:
        """Take back the last turn, which changed so many files."""
        self.front.undo(files)

    def leave(self) -> str:
        return self.front.leave()

    def inject_fault(self, *words: str) -> None:
        """Cause the fault of this day, if it has one; a process that ends by it is resumed.

        words: what the question shows that is open here, and is to be asked again.
        """
        if self.fault == "connection":
            self.model.breaks_off()
        elif self.fault == "clock":
            self.jump(-30 * HOUR)
        elif self.fault == "disk":
            self.full = fill(self.home / "state")
        elif self.ends:
            self.front.hang_up() if self.fault == "terminal" else self.front.kill()
            self.front.resume()
            if words:
                self.asked(*words)

    def inject_fault_during_turn(self, again: str) -> None:
        """Wait for the fault at the answer marked with `fault`; a process that ends is resumed and sent `again`."""
        if self.ends:
            self.until(self.model.server.stalled.is_set, "the silence of the model")
            self.inject_fault()
            self.say(again)

    def _apply_fault(self) -> str:
        """Cause the fault while the model works."""
        if self.ends:
            return "silence"
        self.inject_fault()
        return ""

    def clear_fault(self) -> None:
        """End the fault where that is possible: empty the disk."""
        if self.fault == "disk":
            self.full.unlink()

    def jump(self, seconds: float) -> None:
        """The wall clock jumps; it needs the fault "clock"."""
        self.clock.write_text(str(float(self.clock.read_text()) + seconds))

    # From outside

    def agent(self, *words: str, code: int | None = 0, stdin: str = "") -> str:
        """Run a command of the program in another process; what it says."""
        done = agent(list(words), self.work, self.env, stdin, timeout=PATIENCE)
        found = done.stdout + done.stderr
        harmless(found)
        assert code is None or done.returncode == code, f"agent {' '.join(words)}: {done.returncode}\n{found}"
        return found

    def until(self, holds: Callable[[], Any], what: str) -> None:
        """Wait for something outside the screen, as a file."""
        end = time.monotonic() + PATIENCE
        while not holds():
            self.front.check()
            assert time.monotonic() < end, f"{what} did not come:\n{self.front.text}"
            if self.front.name != "headless" and self.front.screen:  # type: ignore[union-attr]
                self.front.screen.read(0.02)  # type: ignore[union-attr]
            else:
                time.sleep(0.02)

    def processes(self) -> list[int]:
        """What runs of this day, by the mark in its environment."""
        found = []
        for folder in Path("/proc").iterdir():
            if folder.name.isdecimal():
                with contextlib.suppress(OSError):
                    if self.mark.encode() in (folder / "environ").read_bytes() and _alive(folder):
                        found.append(int(folder.name))
        return found

    def over(self) -> None:
        """What is true of every day that is over."""
        self.model.finished()
        harmless(self.front.text)
        self.until(lambda: not self.processes(), f"the end of all processes: {self.processes()}")
        self.agent("show", code=None)

    def close(self) -> None:
        """End what a story that failed has left."""
        self.front.close()
        for pid in self.processes():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)


def harmless(shown: str) -> None:
    """Raise AssertionError where a user sees the inside of the program."""
    assert not re.search(r'File "[^"]*/(agent_cli|agent_tools)/|internal error', shown), shown


def _alive(folder: Path) -> bool:
    return (folder / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"


@contextlib.contextmanager
def a_day(base: Path, front: str, fault: str) -> Iterator[Day]:
    """A day, and nothing left of it."""
    with Model() as model:
        day = Day(base, model, front, fault)
        try:
            yield day
        finally:
            day.close()
