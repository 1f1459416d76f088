"""Stand-ins for checkers and language servers, as programs in a folder of PATH below the home folder."""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from types import ModuleType

from tests.support import language_server

# Finds the lines with BAD in them. LOG is the path of a pipe.
_LINES = r"""
import json, sys
from pathlib import Path
with open(LOG, "wb", 0) as log:
    log.write(" ".join(sys.argv[1:]).encode() + b"\n")
text = sys.stdin.read() if "-" in sys.argv or "--stdin" in sys.argv else Path(sys.argv[-1]).read_text()
found = [(n, line.strip()) for n, line in enumerate(text.splitlines(), 1) if "BAD" in line]
"""
# They print as the real ones do.
RUFF = f"""{_LINES}
def problem(n, line):
    return {{"code": "F821", "message": f"{{line}} is undefined", "location": {{"row": n}}}}
print(json.dumps([problem(n, line) for n, line in found]))
"""
ESLINT = f"""{_LINES}
def problem(n, line):
    return {{"ruleId": "no-bad", "severity": 2, "message": f"{{line}} is bad", "line": n}}
print(json.dumps([{{"filePath": "x", "messages": [problem(n, line) for n, line in found]}}]))
"""
MYPY = f"""{_LINES}
for n, line in found:
    print(f"{{sys.argv[-1]}}:{{n}}: error: {{line}} has no type  [attr-defined]")
"""


class CheckerFolder:
    """A folder of programs in the home folder, which the sandbox shows.

    They log to a pipe there: the sandbox lets them write to no file that would be seen here.
    """

    def __init__(self, home: Path) -> None:
        self.folder = home / "programs/bin"
        self.folder.mkdir(parents=True)
        self.log = self.folder / "log"
        os.mkfifo(self.log)
        self._reader = os.open(self.log, os.O_RDWR | os.O_NONBLOCK)
        self._read = ""

    @property
    def path(self) -> str:
        """PATH with this folder, and without those that may hold real checkers."""
        return f"{self.folder}:/usr/bin:/bin"

    def add(self, name: str, code: str, folder: Path | None = None) -> Path:
        """Add a Python program, in which LOG is the path of the pipe."""
        program = (folder or self.folder) / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f"#!{sys.executable} -IS\nLOG = {str(self.log)!r}\n{code}")
        program.chmod(0o755)
        return program

    def add_server(self, name: str, mode: str = "push", source: ModuleType = language_server) -> None:
        """Add a language server, a module of this folder, that behaves in this way."""
        copy = self.folder / f"{name}.py"
        shutil.copy(os.fspath(str(source.__file__)), copy)
        self.add(name, f"import os, sys\nos.execv(sys.executable, [sys.executable, '-IS', '{copy}', '{mode}'])\n")

    def runs(self) -> list[str]:
        """What was logged until now: the arguments of each run, or the messages to a server."""
        with suppress(BlockingIOError):
            while data := os.read(self._reader, 65_536):
                self._read += data.decode()
        return self._read.splitlines()

    def close(self) -> None:
        os.close(self._reader)
