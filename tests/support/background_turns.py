"""Turns with sub-agents in the background: one script for the parent, and one for each, by its prompt."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from agent_cli.kernel.messages import UserMessage
from agent_cli.models.scripted import ScriptedClient
from tests.support.scripts import call
from tests.support.turns import World

PATIENCE = 60.0


def background(prompt: str, kind: str = "general", **more: Any) -> dict[str, Any]:
    """A call that starts a sub-agent in the background."""
    return call("Task", subagent_type=kind, description=f"do {prompt}", prompt=prompt, background=True, **more)


class ScriptsByPrompt:
    """A client with a script for each conversation, by its first message. gates: a request waits for its gate, by
    prompt; `reached` is set when it came.
    """

    def __init__(self, parent: Any, scripts: dict[str, list[dict[str, Any]]]) -> None:
        self.parent = parent
        self.scripts = {prompt: ScriptedClient(replies, prompt) for prompt, replies in scripts.items()}
        self.gates: dict[str, threading.Event] = {}
        self.reached: dict[str, threading.Event] = {prompt: threading.Event() for prompt in scripts}

    def stream(self, request: Any, cancel: Any) -> Any:
        first = request.messages[0]
        assert isinstance(first, UserMessage)
        name = first.text
        if name in self.scripts:
            self.reached[name].set()
            while (gate := self.gates.get(name)) is not None and not gate.wait(0.02):
                cancel.check()
        return self.scripts.get(name, self.parent).stream(request, cancel)


class BackgroundWorld(World):
    """A world whose sub-agents in the background record their events with the others."""

    def __init__(self, root: Path, parent: list[dict[str, Any]], scripts: dict[str, Any], *answers: Any, **more: Any):
        super().__init__(root, parent, list(answers), **more)
        self.models = ScriptsByPrompt(self.model, scripts)
        self.deps = self.deps.replace(client=self.models)
        self.deps.state.emit = self.events.append

    @property
    def agents(self) -> Any:
        assert self.deps.state.background is not None
        return self.deps.state.background
