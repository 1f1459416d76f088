"""Turns with sub-agents: a script for the parent, and one for those."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agent_cli.kernel.messages import UserMessage
from tests.support.turns import World


class SplitScripts:
    """One script for the parent and one for its sub-agents, chosen by the first message."""

    def __init__(self, world: World, nested: list[dict[str, Any]]) -> None:
        from agent_cli.models.scripted import ScriptedClient

        self.parent = world.model
        self.nested = ScriptedClient(nested, "nested")

    def stream(self, request: Any, cancel: Any) -> Any:
        first = request.messages[0]
        assert isinstance(first, UserMessage)
        return (self.nested if first.text == "find it" else self.parent).stream(request, cancel)


def story(
    root: Path, parent: list[dict[str, Any]], nested: list[dict[str, Any]], *answers: Any, **more: Any
) -> tuple[World, SplitScripts]:
    world = World(root, parent, list(answers), **more)
    models = SplitScripts(world, nested)
    world.deps = world.deps.replace(client=models)
    return world, models
