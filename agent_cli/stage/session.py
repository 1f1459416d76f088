"""A session in a stage: what its turns ran, and the call with which they end."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from agent_cli.kernel.engine.types import ChangeObserver
from agent_cli.kernel.messages import Message, ToolCall, ToolMessage, is_user_message
from agent_cli.kernel.run_environment import Stage, UsageError
from agent_tools.apply_changes import StagedTurn
from agent_tools.base import Effect, ToolContext, ToolError
from agent_tools.registry import BUILTIN
from agent_tools.sandbox.runner import SandboxRunner
from agent_tools.shell.jobs import Jobs
from agent_tools.text import shorten

if TYPE_CHECKING:
    from agent_cli.config.schema import Settings
    from agent_cli.kernel.engine.turn import Turn
    from agent_cli.policy.policy import Policy

APPLY = next(tool for tool in BUILTIN if tool.of_program)
_MAX_COMMANDS = 20


class StagedSession(ChangeObserver):
    """Follows the turns of a session in a stage: the project's own changes come into the copy when a turn begins.

    state: what the tool needs.
    attended: a user is present, so that background commands outlive the turn.
    """

    takes_all = True

    def __init__(self, stage: Stage, policy: Callable[[], Policy], *, attended: bool) -> None:
        self._stage, self._policy, self._attended = stage, policy, attended
        self._text, self._at, self._model = "", 0, ""
        self._commands: list[tuple[str, str]] = []
        self._offered: Any = None
        # What the user has to know about the copy, with the next call.
        self._notes: list[str] = []
        self.state = StagedTurn(stage.request, self._recorded)

    def join(self, session: str) -> None:
        """Tell the process outside which session this is. Raises UsageError if that has another copy."""
        try:
            self._stage.request("join", session=session)
        except ToolError as error:
            raise UsageError(str(error)) from None

    def require_sandbox(self, context: ToolContext) -> None:
        """Raise UsageError if commands would not run in a sandbox."""
        runner = context.supplied(SandboxRunner)
        if runner is None or not runner.is_boundary:
            why = runner.sandbox.text() if runner is not None else "it is off"
            raise UsageError(f"A staged turn needs the sandbox of bubblewrap for its commands: {why}.")

    def turn(self, history: Sequence[Message], *, new: bool, model: str) -> None:
        found = next(((n, m) for n, m in reversed([*enumerate(history)]) if is_user_message(m)), None)
        if found is not None:
            self._at, self._text = found[0], shorten(" ".join(found[1].words.split()), 200)
        self._model = model
        if new:
            self._commands, self._offered = [], None
        self._notes += self._stage.request("follow")

    def ended(self, *, suspended: bool) -> None:
        self._stage.request("ended", suspended=suspended)

    def before(self, call: str, tool: str, summary: str, effects: Sequence[Effect], cwd: str) -> Sequence[str]:
        self._commands += [(call, effect.target) for effect in effects if effect.kind == "run"]
        notes, self._notes = self._notes, []
        return notes

    def _recorded(self) -> dict[str, Any]:
        return {"text": self._text, "at": self._at, "model": self._model, "tool": APPLY.name}

    def at_end(self, turn: Turn) -> ToolCall | None:
        """Return the call that ends a turn: that of ApplyChanges if the copy changed since it was last offered."""
        if not self._attended and turn.deps.depth == 0:
            # They end with the process, which would change the copy after the question.
            for job in turn.deps.context.state(Jobs).all():
                job.end()
        found = self.state.changes() if turn.deps.depth == 0 else self._offered
        if found == self._offered or not found["changes"]:
            return None
        self._offered = found
        errors = {m.call_id: m.is_error for m in turn.history if isinstance(m, ToolMessage)}
        ran, outside = [], []
        for call, command in self._commands[-_MAX_COMMANDS:]:
            text = shorten(" ".join(command.split()), 200)
            ran.append(f"{text} ({'failed' if errors.get(call) else 'ok'})")
            outside += [text] if self._policy().run_conditions(command).outside else []
        files = [change["diff"]["path"] for change in found["changes"]]
        arguments = {"files": files, "ran": ran, "outside": outside, "shown": found["shown"]}
        return ToolCall(f"apply_{os.urandom(8).hex()}", APPLY.name, {k: v for k, v in arguments.items() if v})


def settings_in_stage(settings: Settings) -> Settings:
    """Return the settings of a staged session: commands in the sandbox do not ask, as they change a copy."""
    free = settings.sandbox.replace(mode="require", auto_allow=True, auto_allow_destructive=True)
    return settings.replace(sandbox=free)
