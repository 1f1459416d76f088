"""Running command lines by the real bash, among marker programs that write down how they were started."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

from agent_tools.record import Value
from tests.policy.random_line_parts import OTHERS, READERS, SPECIAL

REAL = ("env", "timeout", "nice", "nohup", "xargs", "find", "stdbuf", "setsid", "bash", "sh")
# dash starts in a millisecond, and its printf writes all at once.
MARKER = """#!/bin/dash
w="$(pwd -P)"
printf '%s\\0' "$w" "${0##*/}" "$@" '\x01' >> LOG
OUTCOME
"""
_OUTCOMES = {"say": "echo 'wipe q'", "nope": "exit 1"}
_CONTENTS = {"a": "a\n", ".in": "wipe q\nls\n", "b.txt": "b\n", "sub/c": "c\n", "two words": "", "-x": ""}
_SECONDS = 3.0
_DEEP = 25


class Ran(Value):
    """A program that a line started: where, and its words, its own name first."""

    cwd: str
    words: tuple[str, ...]


class Place:
    """A folder to run lines in, far below the folder that is given, so that no `cd ..` leaves it."""

    def __init__(self, folder: Path) -> None:
        deep = folder.joinpath(*["d"] * _DEEP)
        self.work, self.bin, self.home = deep / "work", deep / "bin", deep / "home"
        self._log = deep / "log"
        for path in (self.bin, self.home):
            path.mkdir(parents=True)
        for name in (*READERS, *OTHERS, *SPECIAL):
            marker = MARKER.replace("LOG", f"'{self._log}'").replace("OUTCOME", _OUTCOMES.get(name, ""))
            (self.bin / name).write_text(marker)
            (self.bin / name).chmod(0o755)
        for name in REAL:
            if found := shutil.which(name, path="/usr/bin:/bin"):
                (self.bin / name).symlink_to(found)
        self._fill()
        self._before = self._state()

    def _fill(self) -> None:
        for name, text in _CONTENTS.items():
            path = self.work / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (self.work / "link").symlink_to("sub")

    def run(self, line: str) -> list[Ran]:
        """Run a line to its end, and that of all it has started; what ran. Raises TimeoutExpired."""
        self._log.write_bytes(b"")
        env = {"PATH": str(self.bin), "HOME": str(self.home), "FUNCNEST": "8", "LC_ALL": "C.UTF-8"}
        bash = ["/bin/bash", "--noprofile", "--norc", "-c", "--", line]
        ear, mouth = os.pipe()
        process = subprocess.Popen(
            bash,
            cwd=self.work,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=(mouth,),
        )
        os.close(mouth)
        try:
            process.wait(_SECONDS)
            # The pipe ends with the last process that has it.
            if not select.select([ear], [], [], _SECONDS)[0]:
                raise subprocess.TimeoutExpired("background", _SECONDS)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            os.close(ear)
        return [_ran(record) for record in self._log.read_bytes().split(b"\0\x01\0") if record]

    def changes(self) -> list[str]:
        """The files that are not as they were, which they are again afterwards."""
        now = self._state()
        changed = sorted(name for name in now.keys() | self._before.keys() if now.get(name) != self._before.get(name))
        if changed:
            shutil.rmtree(self.work)
            for path in self.home.iterdir():
                path.unlink()
            for name in changed:
                if name.startswith("../"):
                    (self.work.parent / name[3:]).unlink(missing_ok=True)
            self._fill()
        return changed

    def _state(self) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for top in (self.work, self.home):
            for here, folders, files in os.walk(top):
                for name in files:
                    path = Path(here, name)
                    found[str(path)] = path.read_bytes() if path.is_file() else b""
                found.update(dict.fromkeys((f"{here}/{n}" for n in folders), b""))
        own = (self.work, self.bin, self.home, self._log)
        found.update((f"../{p.name}", b"") for p in self.work.parent.iterdir() if p not in own)
        return found


def _ran(record: bytes) -> Ran:
    cwd, *words = (piece.decode("utf-8", "replace") for piece in record.split(b"\0"))
    return Ran(cwd, tuple(words))
