"""Stand-ins for checkers and language servers, as programs in a folder of PATH below the home folder."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from tests.support import language_server

# Finds the lines with BAD in them, in the form of ruff's JSON, and leaves a line in `ran` for each run.
LINES = """
import json, sys
from pathlib import Path
with open("{log}", "a") as log:
    log.write(" ".join(sys.argv[1:]) + "\\n")
text = sys.stdin.read() if "-" in sys.argv or "--stdin" in sys.argv else Path(sys.argv[-1]).read_text()
found = [(n, line.strip()) for n, line in enumerate(text.splitlines(), 1) if "BAD" in line]
"""
RUFF = (
    LINES
    + """
print(json.dumps([{{"code": "F821", "message": f"{{line}} is undefined", "location": {{"row": n}}}} for n, line in found]))
"""
)
ESLINT = (
    LINES
    + """
print(json.dumps([{{"filePath": "x", "messages": [
    {{"ruleId": "no-bad", "severity": 2, "message": f"{{line}} is bad", "line": n}} for n, line in found]}}]))
"""
)
MYPY = (
    LINES
    + """
for n, line in found:
    print(f"{{sys.argv[-1]}}:{{n}}: error: {{line}} has no type  [attr-defined]")
"""
)


class CheckerFolder:
    """A folder of programs in the home folder, which the sandbox shows. What they log is in the workspace."""

    def __init__(self, home: Path, work: Path) -> None:
        self.folder = home / "programs/bin"
        self.folder.mkdir(parents=True)
        self.log = work / "ran"

    @property
    def path(self) -> str:
        """PATH with this folder, and without those that may hold real checkers."""
        return f"{self.folder}:/usr/bin:/bin"

    def add(self, name: str, code: str, folder: Path | None = None) -> Path:
        """Add a Python program."""
        program = (folder or self.folder) / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f"#!{sys.executable} -IS\n{code.format(log=self.log)}")
        program.chmod(0o755)
        return program

    def add_server(self, name: str, mode: str = "push") -> None:
        """Add a language server that behaves in this way; its log is beside it, where the sandbox cannot write."""
        source = self.log.parent / "fake_server.py"
        shutil.copy(os.fspath(language_server.__file__), source)
        self.add(name, f"import os, sys\nos.execv(sys.executable, [sys.executable, '-IS', '{source}', '{mode}'])\n")

    def runs(self) -> list[str]:
        """The arguments of each run."""
        return self.log.read_text().splitlines() if self.log.exists() else []

    def server_log(self) -> list[str]:
        log = self.log.parent / "server.log"
        return log.read_text().splitlines() if log.exists() else []
