"""A folder or file that another process keeps swapping for a link to the outside, and checks of what stays true."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from agent_cli.kernel.decisions import Level
from agent_cli.kernel.engine.loop import run_turn
from agent_cli.kernel.engine.tool_call import prepare_call
from agent_cli.kernel.engine.turn import Turn, TurnDeps
from agent_cli.kernel.engine.types import CallError, ConversationState, ToolTable, TurnOptions
from agent_cli.kernel.messages import ToolCall
from agent_cli.models.scripted import ScriptedClient
from agent_cli.policy.policy import Policy
from agent_tools.base import ToolContext, ToolError, ToolResult
from agent_tools.fs.workspace import Workspace
from agent_tools.registry import BUILTIN

# A few in the suite, 10,000 in `make fuzz`.
SWAPS = int(os.environ.get("RACES", "60"))
SECRET = "only-outside"
_SWAP = """
import ctypes, os, random, sys, time
victim, link, swaps = sys.argv[1], sys.argv[2], int(sys.argv[3])
exchange = getattr(ctypes.CDLL(None), "renameat2", None)
def swap():
    # In one step where there is one: the way is never missing, and calls come further.
    if exchange is None or exchange(-100, os.fsencode(victim), -100, os.fsencode(link), 2):
        os.rename(victim, victim + ".aside")
        os.rename(link, victim)
        os.rename(victim + ".aside", link)
for _ in range(2 * swaps):
    swap()
    time.sleep(random.choice((0, 0.0001, 0.0005)))
"""


class LinkSwapper:
    """While it is entered, a process puts `link` in the place of `victim` and back, `SWAPS` times."""

    def __init__(self, victim: Path, link: Path) -> None:
        self._argv = [sys.executable, "-c", _SWAP, str(victim), str(link), str(SWAPS)]

    def __enter__(self) -> LinkSwapper:
        self._process = subprocess.Popen(self._argv)
        return self

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is not None:
            self._process.kill()
        code = self._process.wait()
        assert kind is not None or code == 0


class SwapWorkspace:
    """A workspace with `d/a.txt`, and beside it the same names with other content, which no call may touch or show."""

    def __init__(self, base: Path) -> None:
        self.root, self.outside = base / "work", base / "outside"
        for folder, text in ((self.root / "d", "needle\n"), (self.outside, f"needle\n{SECRET}\n")):
            (folder / "sub").mkdir(parents=True)
            for name in ("a.txt", "sub/b.txt"):
                (folder / name).write_text(text)
            (folder / "n.ipynb").write_text(notebook(text))
        (self.outside / f"{SECRET}.txt").write_text("needle\n")
        self._precious = self._outside()
        workspace = Workspace(self.root)
        self.root = workspace.root
        self.ctx = ToolContext(workspace, env=dict(os.environ), require_read_first=False)
        policy = Policy(workspace, [], "acceptEdits")
        deps = TurnDeps(
            ScriptedClient([]), ToolTable(BUILTIN), self.ctx, policy, lambda request: None, ConversationState()
        )  # type: ignore[arg-type, return-value]
        self.turn = Turn([], deps, TurnOptions(model="none", label="none", system=""), run_turn)
        self.tried = self.done = 0

    def swapper(self, victim: str) -> LinkSwapper:
        """Swaps a folder or a file of the workspace for a link to what has its name outside."""
        return LinkSwapper(self.root / victim, self._link(victim, f"{victim}.link"))

    def swap(self, victim: str) -> None:
        """Put the link in its place, once."""
        (self.root / victim).rename(self.root / f"{victim}.aside")
        self._link(victim, victim)

    def _link(self, victim: str, name: str) -> Path:
        link = self.root / name
        link.symlink_to(self.outside / Path(victim).relative_to("d"))
        return link

    def call(self, name: str, between: Callable[[], object] = lambda: None, /, **arguments: object) -> str:
        """One call as the engine makes it, decided and then run; what the model reads, "" where it is not allowed.

        between: what happens after the decision.
        """
        self.tried += 1
        item = prepare_call(self.turn, ToolCall("c", name, arguments), together=False)
        if isinstance(item, CallError) or item.decision.level is not Level.ALLOW:
            return item.text if isinstance(item, CallError) else ""
        between()
        try:
            outcome = item.tool.run(item.args, self.ctx)
            while not isinstance(outcome, ToolResult):
                try:
                    next(outcome)
                except StopIteration as stop:
                    outcome = stop.value
        except ToolError as error:
            return str(error)
        self.done += 1
        return outcome.text

    def assert_untouched(self) -> None:
        assert self._outside() == self._precious

    def _outside(self) -> dict[str, bytes]:
        return {str(p): p.read_bytes() if p.is_file() else b"" for p in sorted(self.outside.rglob("*"))}


def notebook(text: str) -> str:
    return (
        '{"cells": [{"cell_type": "raw", "id": "one", "metadata": {}, "source": '
        f"{text.strip().splitlines()!r}".replace("'", '"')
        + '}], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'
    )


# The same as a pattern that is not the text itself, which messages repeat.
OUTSIDE = SECRET.replace("-", "[-]")


EDIT = {"old_string": "needle", "new_string": "needle."}


WRITES: dict[str, Callable[[int], dict[str, Any]]] = {
    "Write": lambda n: {"file_path": "d/a.txt", "content": f"needle {n}\n"},
    "Edit": lambda n: {"file_path": "d/a.txt", **EDIT},
    "MultiEdit": lambda n: {"edits": [{"file_path": f"d/{name}", **EDIT} for name in ("a.txt", "sub/b.txt")]},
    "NotebookEdit": lambda n: {"notebook_path": "d/n.ipynb", "cell_id": "one", "new_source": f"needle {n}"},
}


NEW: dict[str, Callable[[int], dict[str, Any]]] = {
    "Write": lambda n: {"file_path": f"d/new/{n}.txt", "content": "x\n"},
    "Edit": lambda n: {"file_path": f"d/{n}.txt", "old_string": "", "new_string": "x\n"},
    "MultiEdit": lambda n: {"file_path": f"d/{n}.txt", "edits": [{"old_string": "", "new_string": "x\n"}]},
}


READS: dict[str, dict[str, Any]] = {
    "Read": {"file_path": "d/a.txt"},
    "NotebookRead": {"notebook_path": "d/n.ipynb"},
    "LS": {"path": "."},
    "Glob": {"pattern": "**/*.txt"},
    "Grep": {"pattern": f"needle|{OUTSIDE}", "output_mode": "content"},
}
