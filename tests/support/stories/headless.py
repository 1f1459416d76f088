"""The front end without a terminal, as a story drives it: `agent -p` and the commands that decide later."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Any

from tests.support.fork_server import start
from tests.support.program import agent, clean_env
from tests.support.stories.front_ends import PATIENCE, Front, files_put_back, flat

SUSPENDED = 3


class Headless(Front):
    """`agent -p` for each message, `agent approve` and `reject` for each answer, `agent undo` for /undo."""

    name = "headless"

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.run: subprocess.Popen[bytes] | None = None
        self.codes: list[int] = []
        self._out = self.work.parent / "run.out"
        self._say = ["-p"]
        # Flags of `agent pending`.
        self.listing: tuple[str, ...] = ()

    def shown(self) -> str:
        return self._out.read_text("utf-8", "replace") if self.run else ""

    def open(self, *flags: str) -> None:
        self._say = ["-p", *flags]

    def say(self, text: str) -> None:
        on_ask = [] if "--on-ask" in self.flags else ["--on-ask", "suspend"]
        self.start([*self._say, *self.flags, *on_ask, "--", text])
        self._say = ["-p", "-c"]

    def start(self, words: list[str]) -> None:
        """Start the program, once what runs has ended."""
        self.settled()
        with self._out.open("wb") as out:
            self.run = start(
                words,
                self.work,
                clean_env(self.work.parent / "home", **self.env),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def shows(self, *words: str) -> str:
        for each in words:
            self._until(lambda each=each: self.has(each), repr(each))  # type: ignore[misc]
        return self.text

    def asked(self, *words: str) -> str:
        self.settled()
        assert self.codes[-1] == SUSPENDED, f"exit code {self.codes[-1]}:\n{self.text}"
        shown = self.agent("pending", *self.listing)
        for each in words:
            assert flat(each) in flat(shown + self.text), f"{each!r} is not in what is pending:\n{shown}"
        return shown

    def pending(self) -> tuple[list[str], list[dict[str, Any]]]:
        """How to name the session that waits, and its open calls."""
        found = json.loads(self.agent("pending", "--json", *self.listing))
        assert found, f"nothing waits:\n{self.text}"
        # By its ID where it is of another project, as one in a worktree is.
        return [found[0]["session_id"]] if self.listing else [], found[0]["pending"]

    def answer(self, verdict: str) -> None:
        session, [asked] = self.pending()
        key, _, words = verdict.partition(" ")
        if key == "y":
            self.start(["approve", *session, *(["--with", words] if words else [])])
        elif asked["kind"] == "question":
            self.start(["answer", *session, verdict])
        elif key == "n" and not words:
            self.start(["reject", *session])
        else:
            self.start(["reject", *session, "--why", verdict])

    def undo(self, files: int) -> None:
        self.settled()
        shown = self.agent("undo", "--yes")
        assert f"Restored {files_put_back(files)}." in shown, shown

    def accept(self, mode: str) -> None:
        self.start(["approve", "--mode", mode])

    def settled(self) -> None:
        if self.run:
            self._until(lambda: False, "the end of the run", ends=True)

    def leave(self) -> str:
        self.settled()
        return self.text

    def kill(self) -> None:
        assert self.run
        self.run.kill()
        self._over()

    def hang_up(self) -> None:
        if self.run:
            os.killpg(self.run.pid, signal.SIGHUP)
            self._over()

    def close(self) -> None:
        """End what still runs, after a story that failed."""
        if self.run:
            self.run.kill()
            self.run.wait()

    def agent(self, *words: str, code: int | None = 0) -> str:
        """Run a command of the program to its end; what it says."""
        done = agent(list(words), self.work, self.env, timeout=PATIENCE)
        found = done.stdout + done.stderr
        assert code is None or done.returncode == code, f"agent {' '.join(words)}: {done.returncode}\n{found}"
        self._before += found
        return found

    def _until(self, holds: Callable[[], bool], what: str, *, ends: bool = False) -> None:
        end = time.monotonic() + PATIENCE
        while not holds():
            self.check()
            if self.run is None or self.run.poll() is not None:
                break
            assert time.monotonic() < end, f"{what} did not come:\n{self.text}"
            try:
                self.run.wait(0.02)
            except subprocess.TimeoutExpired:
                continue
        over = self.run is None or self.run.poll() is not None
        if over:
            self._over()
        assert ends or holds(), f"the run ended before {what}:\n{self.text}"

    def _over(self) -> None:
        if self.run:
            self.codes.append(self.run.wait(PATIENCE))
            self._before += self.shown() + "\n"
            self.run = None
