"""A model over HTTP whose sub-agents have scripts of their own, by their prompt."""

from __future__ import annotations

import threading
from typing import Any

from tests.support.model_replies import Call, Reply
from tests.support.model_server import Received
from tests.support.stories.model import Model, text_of

PATIENCE = 60.0


def background(prompt: str, kind: str = "general") -> Call:
    """A call that starts a sub-agent in the background."""
    return Call("Task", {"subagent_type": kind, "description": f"do {prompt}", "prompt": prompt, "background": True})


class Subagents:
    """Answers what sub-agents ask: the replies to a prompt, by the number of answers before.

    gates: a request with this prompt and number of answers waits until its gate is set. asked: all requests, by prompt.
    """

    def __init__(self, model: Model, **scripts: list[Reply]) -> None:
        self.scripts = scripts
        self.gates: dict[tuple[str, int], threading.Event] = {}
        self.reached: dict[tuple[str, int], threading.Event] = {}
        self.asked: dict[str, list[Received]] = {prompt: [] for prompt in scripts}
        model.beside("You are a sub-agent", self._answer)

    def hold(self, prompt: str, number: int = 0) -> None:
        """Let the request with this many answers before wait."""
        self.gates[prompt, number] = threading.Event()
        self.reached[prompt, number] = threading.Event()

    def until(self, prompt: str, number: int = 0) -> None:
        """Wait until the request came that is held."""
        assert self.reached[prompt, number].wait(PATIENCE)

    def go(self, prompt: str, number: int = 0) -> None:
        self.gates[prompt, number].set()

    def _answer(self, received: Received) -> Reply:
        messages: list[dict[str, Any]] = [m for m in received.body["messages"] if m["role"] != "system"]
        prompt = text_of(messages[0])
        number = sum(m["role"] == "assistant" for m in messages)
        self.asked.setdefault(prompt, []).append(received)
        if (prompt, number) in self.gates:
            self.reached[prompt, number].set()
            self.gates[prompt, number].wait(PATIENCE)
        return self.scripts[prompt][number].replace(id=f"{prompt}-{number}")


def runs(command: str, text: str = "") -> Reply:
    return Reply(text=text, calls=(Call("Bash", {"command": command}),))
