"""Tasks of a batch, the command that runs them, and its results."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from tests.support.fork_server import start
from tests.support.program import agent, clean_env
from tests.support.repositories import git
from tests.support.scripts import call, script

ANSWER: dict[str, Any] = {"text": "42", "usage": {"input": 100, "output": 5}}
WRITE: dict[str, Any] = {
    "calls": [call("Write", file_path="b.txt", content="made\n")], "usage": {"input": 90, "output": 20}
}  # fmt: skip


class Batches:
    """The batches of a test: a folder `work`, beside it a repository `repo`, and models that write and that talk."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.base = work.parent
        self.repo = self.base / "repo"
        self.repo.mkdir()
        (self.repo / "a.txt").write_text("hello\n")
        git(self.repo, "init", "-q")
        self.commit("first")
        self.talker = script(self.base / "talker.toml", [ANSWER])
        self.writer = script(self.base / "writer.toml", [WRITE, ANSWER])
        self.state = self.base / "home/state"

    def commit(self, message: str) -> str:
        """Commit all in the repository; return the hash."""
        git(self.repo, "add", "-A")
        git(self.repo, "commit", "-q", "--allow-empty", "-m", message)
        return git(self.repo, "rev-parse", "HEAD").strip()

    def write(self, *tasks: dict[str, Any]) -> None:
        """Write the tasks; those that say nothing else talk about the repository."""
        usual = {"prompt": "Go.", "repository": "../repo", "model": self.talker}
        lines = [json.dumps({name: v for name, v in {**usual, **task}.items() if v is not None}) for task in tasks]
        (self.work / "tasks.jsonl").write_text("\n".join(lines))

    def run(self, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run the batch to its end."""
        return agent(["batch", "tasks.jsonl", *args], self.work, env, timeout=110)

    def start(self, *args: str, **env: str) -> subprocess.Popen[bytes]:
        """Start the batch."""
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return start(["batch", "tasks.jsonl", *args], self.work, clean_env(self.base / "home", **env), **pipes)

    def lines(self, name: str = "tasks.results.jsonl") -> list[dict[str, Any]]:
        """The results."""
        path = self.work / name
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def statuses(self) -> dict[str, str]:
        """How each task ended."""
        return {line["id"]: line["status"] for line in self.lines()}

    def patch(self, name: str) -> str:
        """The patch of a task."""
        return (self.work / f"tasks.results.patches/{name}.patch").read_text()

    def has_begun(self, name: str) -> bool:
        """Whether the agent of a task has said something."""
        found = self.state.glob(f"batches/*/*-{name}/result/transcript.jsonl")
        return any(path.stat().st_size for path in found)

    def left(self) -> list[str]:
        """What is left of the folders of tasks, and of processes in them."""
        folders = [path.name for path in (self.state / "batches").glob("*") if path.is_dir()]
        return folders + _below(self.state / "batches")


def _below(folder: Path) -> list[str]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            where = os.readlink(entry / "cwd")  # noqa: PTH115 - of a process that may be gone
        except OSError:
            continue
        if where.startswith(f"{folder}/"):
            found.append(entry.name)
    return found
