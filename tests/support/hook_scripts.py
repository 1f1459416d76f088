"""Hooks for tests: scripts written to files, a registry of them, and the result of a step."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from agent_cli.hooks import Hook, HookRegistry, HookResult, HookSession, HookSurroundings
from agent_cli.kernel.engine.conversation import consume
from agent_cli.kernel.events import Event, HookFinished, Warned
from agent_tools.cancel import CancelToken

PATH = {"PATH": os.environ.get("PATH", "/usr/bin:/bin")}


def bash(code: str) -> str:
    """The code as a hook's command: the shell that hooks run in is bash."""
    return code


def python(folder: Path, code: str) -> str:
    """A hook's command that runs `code`, with what is on standard input as `data`."""
    path = folder / f"hook{len(list(folder.glob('hook*.py')))}.py"
    path.write_text(f"import json, sys\ndata = json.load(sys.stdin)\n{code}\n")
    return f"{sys.executable} -S -E {path}"


def saying(answer: Any) -> str:
    """A command that prints JSON."""
    return f"cat <<'END'\n{json.dumps(answer)}\nEND"


class Step:
    """One step with its hooks, run to the end."""

    def __init__(self, root: Path, event: str, *commands: str, data: Any = None, **hook: Any) -> None:
        hooks = [Hook(event, command, source="test", **hook) for command in commands]
        self.events: list[Event] = []
        table = table_of(root, hooks)
        self.result: HookResult = consume(table.run(event, data or {}, CancelToken()), self.events.append)

    @property
    def ran(self) -> list[HookFinished]:
        return [e for e in self.events if isinstance(e, HookFinished)]

    @property
    def warnings(self) -> list[str]:
        return [e.text for e in self.events if isinstance(e, Warned)]


class PlainSurroundings(HookSurroundings):
    """The surroundings of a test's hooks. environment: their variables."""

    def __init__(self, root: Path, environment: dict[str, str] | None = None) -> None:
        super().__init__(HookSession("s-1", lambda: root / "log.jsonl", root))
        self._environment = PATH if environment is None else environment

    def environment(self, hook: Hook) -> dict[str, str]:
        return dict(self._environment)


def table_of(root: Path, hooks: list[Hook], **more: Any) -> HookRegistry:
    return HookRegistry(hooks, (), lambda: PlainSurroundings(root, **more))
