"""Run turns: given a script and a list of answers, return events, history and files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agent_cli.kernel.decisions import Answer
from agent_cli.kernel.engine.conversation import consume
from agent_cli.kernel.engine.loop import run_turn
from agent_cli.kernel.engine.turn import TurnDeps
from agent_cli.kernel.engine.types import ConversationState, ToolTable, TurnOptions
from agent_cli.kernel.events import ApprovalRequested, Event
from agent_cli.kernel.messages import Message, ToolMessage, UserMessage
from agent_cli.kernel.results import TurnResult
from agent_cli.kernel.rules import RuleList, read_rule
from agent_cli.knowledge.agents import builtin_agent_types
from agent_cli.knowledge.loader import WORKFLOWS
from agent_cli.models.base import ToolSpec
from agent_cli.models.scripted import ScriptedClient
from agent_cli.policy.policy import Mode, Policy
from agent_tools.base import ToolContext
from agent_tools.fs.workspace import Workspace
from agent_tools.registry import BUILTIN

SPECS = tuple(ToolSpec(t.name, t.name, {}) for t in BUILTIN)


class World:
    """A workspace, a scripted model and a user who gives the listed answers, in order."""

    def __init__(
        self,
        root: Path,
        replies: list[dict[str, Any]],
        answers: list[Answer] | None = None,
        *,
        mode: Mode = "default",
        allow: tuple[str, ...] = (),
        deny: tuple[str, ...] = (),
        tools: tuple[Any, ...] = BUILTIN,
        **deps: Any,
    ) -> None:
        self.root = root
        self.model = ScriptedClient(replies)
        self.answers = list(answers or [])
        self.asked: list[ApprovalRequested] = []
        self.events: list[Event] = []
        rules = [*self._rules("allow", allow), *self._rules("deny", deny)]
        workspace = Workspace(root)
        context = ToolContext(workspace, env={"PATH": "/usr/bin:/bin"})
        self.policy = Policy(workspace, rules, mode)
        self.deps = TurnDeps(
            self.model,
            ToolTable(tools),
            context,
            self.policy,
            self._answer,
            ConversationState(),
            **{"agents": builtin_agent_types(), "workflows": WORKFLOWS, **deps},
        )
        self.history: list[Message] = []

    def _rules(self, kind: RuleList, texts: tuple[str, ...]) -> list[Any]:
        return [read_rule(kind, text, "test", self.root) for text in texts]

    def _answer(self, request: ApprovalRequested) -> Answer:
        self.asked.append(request)
        return self.answers.pop(0)

    def turn(self, text: str | None = "go", **options: Any) -> TurnResult:
        """Run a turn; with None, resume what is open."""
        if text is not None:
            self.history.append(UserMessage(text))
        fixed = {"model": "scripted", "label": "scripted", "system": "You are a test.\n# Environment\nhere"}
        chosen = TurnOptions(**{**fixed, "tools": SPECS, **options})
        result = consume(run_turn(self.history, self.deps, chosen), self.events.append)
        self.history += result.end.messages
        return result

    def of(self, *kinds: type) -> list[Any]:
        """The events of these kinds, in order."""
        return [e for e in self.events if isinstance(e, kinds)]

    @property
    def results(self) -> list[ToolMessage]:
        return [m for m in self.history if isinstance(m, ToolMessage)]

    @property
    def names(self) -> list[str]:
        return [type(e).__name__ for e in self.events]
