"""A hostile repository that is opened by the program."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from tests.support.hostile.git import make
from tests.support.program import clean_env
from tests.support.scripts import call, script
from tests.support.tracing import AGENT, STRACE, whole_calls

SECONDS = 60


ALL = int(os.environ.get("FUZZ_LINES", "0")) > 10_000


# What the model would like to know; each is judged, and run only where that is safe.
READS = (
    "git status", "git diff", "git log -p -3", "git show", "git stash list -p", "git grep --untracked one",
    "git blame a.txt", "git diff HEAD --stat", "git ls-files -m",
    "git cat-file -p HEAD:a.txt", "git status && git diff", "git branch -vv",
)  # fmt: skip


class Opened:
    """A hostile repository and the environment of its user."""

    def __init__(self, name: str, tmp_path: Path) -> None:
        tmp_path.mkdir(exist_ok=True)
        self.root = tmp_path / "work"
        replies = [{"calls": [call("Bash", command=c) for c in READS]}, {"text": "ok"}]
        self.env = clean_env(tmp_path / "home", AGENT_MODEL=script(tmp_path / "s.toml", replies))
        self.env["PATH"] = f".:{self.env['PATH']}:"
        self.cwd = self.build(name)
        self.trace = tmp_path / "trace"

    def build(self, name: str) -> Path:
        """Make the repository; where to work in it."""
        return make(name, self.root)

    def run(self, args: list[str], text: str = "") -> subprocess.CompletedProcess[bytes]:
        traced = [*STRACE, "-o", str(self.trace)] if STRACE else []
        return subprocess.run(
            [*traced, *AGENT, *args],
            cwd=self.cwd, env=self.env, input=text.encode(), capture_output=True, timeout=SECONDS, check=False,
        )  # fmt: skip

    def wrong(self) -> list[str]:
        """Programs of the repository that were started, and connections to anywhere but local model servers."""
        if not STRACE:
            return []
        found = []
        for _, _, text in whole_calls(self.trace.read_text("utf-8", "replace")):
            if text.startswith("execve") and text.endswith("= 0"):
                file = text.partition('"')[2].partition('"')[0]
                if file.startswith(str(self.root)) or not file.startswith("/"):
                    found.append(text)
            elif re.match(r"(connect|sendto|sendmsg)\(", text) and "AF_INET" in text and "htons(9)" not in text:
                found.append(text)
        return [text for text in found if not re.search(r"sin_port=htons\((1234|8080|8000|11434|4891)\)", text)]
