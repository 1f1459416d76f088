"""The tools of a project without a session and a model: for single calls, for servers of tools, and for reports."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from agent_cli.config.config import Config
from agent_cli.config.layers import Layers
from agent_cli.kernel.decisions import deny
from agent_cli.kernel.engine.executor import run_calls
from agent_cli.kernel.engine.loop import run_turn
from agent_cli.kernel.engine.turn import Turn, TurnDeps
from agent_cli.kernel.engine.types import ConversationState, ToolTable, TurnOptions
from agent_cli.kernel.events import ApprovalRequested, Warned
from agent_cli.kernel.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from agent_cli.kernel.run_environment import RunEnvironment, UsageError
from agent_cli.kernel.runtime.environment import check_mode, memory_sources
from agent_cli.kernel.runtime.hooks import LoneHooks
from agent_cli.kernel.runtime.tools import choose_tools, make_context, make_workspace, tool_specs
from agent_cli.knowledge.loader import Extensions, load_extensions
from agent_cli.knowledge.memory import Memory
from agent_cli.models.base import ToolSpec
from agent_cli.models.scripted import ScriptedClient
from agent_tools.cancel import CancelledError
from agent_tools.fs.workspace import Workspace
from agent_tools.record import Value
from agent_tools.registry import BUILTIN
from agent_tools.results import Media


class ToolRun(Value, tag="Ran"):
    """Result of a call. hint: rule that would allow a denied call."""

    text: str
    is_error: bool
    denied: bool = False
    hint: str = ""
    media: tuple[Media, ...] = ()


class ToolBox:
    """Tools with the permissions of a run in which nobody can be asked.

    require_read_first: files must be read before they are changed.
    problem: why a folder of the settings is left out; "" if none is.
    """

    def __init__(
        self,
        run_env: RunEnvironment,
        layers: Layers,
        extensions: Extensions = Extensions(),  # noqa: B008 - frozen
        *,
        require_read_first: bool = True,
        tolerant: bool = False,
    ) -> None:
        """Raise UsageError for a folder of the settings that does not exist, unless it is to be left out."""
        self.run_env, self.layers, self.settings, self.problem = run_env, layers, layers.settings(), ""
        try:
            self.workspace = make_workspace(run_env, self.settings, extensions.readable_folders())
        except UsageError as mistake:
            if not tolerant:
                raise
            self.workspace, self.problem = Workspace(run_env.root, (), run_env.cwd), str(mistake)
        self.context, self.policy = make_context(
            self.workspace, self.settings, layers, run_env, answered=False, require_read_first=require_read_first,
            extensions=extensions.offered(),
        )  # fmt: skip
        self._hooks = LoneHooks(layers, run_env, self.context)

    @classmethod
    def one_shot(
        cls, config: Config, run_env: RunEnvironment, layers: Layers, warn: Callable[[str], None], *, extensions: bool
    ) -> ToolBox:
        """Return the tools as a one-shot run has them; files need not be read first. Raises UsageError.

        extensions: with the user's commands, skills and types of sub-agents.
        """
        settings = layers.settings()
        check_mode(settings.permissions.mode, run_env.env)
        added = load_extensions(config, run_env, layers, settings, warn) if extensions else Extensions()
        return cls(run_env, layers, added, require_read_first=False)

    @staticmethod
    def all_specs() -> tuple[ToolSpec, ...]:
        """Return the built-in tools as a model sees them everywhere."""
        return tool_specs(list(BUILTIN))

    def specs(self) -> tuple[ToolSpec, ...]:
        """Return the tools that the settings offer, without those that act on a conversation. Raises UsageError."""
        offered = choose_tools(self.settings, self.layers.rules, self.context, None)
        return tool_specs([t for t in offered if not t.of_conversation], self.context)

    def memory(self) -> Memory:
        """Load the memory files that apply here. Raises UsageError while a command keeps changing them."""
        return memory_sources(self.run_env, self.settings, self.layers.trust, self.context.readable).load()

    def run(self, call: ToolCall, warn: Callable[[str], None]) -> ToolRun:
        """Run one call through the executor: prepare, permit, run, finish; with the hooks of calls."""
        context = self.context
        rules: list[str] = []

        def refuse(request: ApprovalRequested) -> Any:
            rules.append(request.always)
            return deny(request)

        # The engine needs a model; this script without replies must never be called.
        deps = TurnDeps(
            ScriptedClient([]), ToolTable(BUILTIN), context, self.policy, refuse, ConversationState(), hooks=self._hooks
        )
        options = TurnOptions(model="none", label="none", system="")
        # The arguments are the caller's own words, including URLs.
        message = UserMessage(json.dumps(call.arguments, ensure_ascii=False))
        turn = Turn([message, AssistantMessage((call,))], deps, options, run_turn)
        try:
            for event in run_calls(turn, (call,)):
                if isinstance(event, Warned):
                    warn(event.text)
        except CancelledError:
            pass  # the call was answered before this was raised
        last = turn.history[-1]
        if not isinstance(last, ToolMessage):
            return ToolRun("Interrupted." if context.cancel.cancelled else "This tool needs the user to answer.", True)
        return ToolRun(last.text, last.is_error, bool(turn.denials), rules[0] if rules else "", last.media)

    def close(self) -> None:
        """Stop hooks and commands in the background, and release the sandbox."""
        self._hooks.close()
        self.context.close()
