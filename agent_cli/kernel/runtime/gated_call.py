"""A call of another program: prepared and decided as the engine does it, and waiting for the user's answer.

The program runs the call itself. The decision, the copies of files for undo, and the record are as for calls of ours.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any, Literal

from agent_cli.config.config import Config
from agent_cli.kernel.decisions import Defer, Level
from agent_cli.kernel.engine.tool_call import approval_fingerprint, approval_request, may_mutate, prepare_call
from agent_cli.kernel.engine.turn import Turn, TurnDeps
from agent_cli.kernel.engine.types import CallError, ConversationState, PreparedCall, ToolTable, TurnOptions
from agent_cli.kernel.events import ApprovalRequested
from agent_cli.kernel.messages import ToolCall, UserMessage
from agent_cli.kernel.run_environment import UsageError
from agent_cli.kernel.runtime.checkpoints import checkpoint_keeper
from agent_cli.kernel.runtime.environment import read_settings
from agent_cli.kernel.runtime.gate_session import GateSession
from agent_cli.kernel.runtime.tools import make_context, make_workspace, rule_saver
from agent_tools.base import Effect, Tool, ToolContext, ToolError, ToolResult
from agent_tools.record import Value
from agent_tools.registry import find_tool
from agent_tools.results import Diff, Diffs
from agent_tools.text import one_line

# "": none of ours; the program decides.
GateVerdict = Literal["allow", "deny", ""]


class HostTool(Tool[Any]):
    """A tool of another program that is none of ours, or a call whose change cannot be shown here.

    effects_of: what the call does; by default it is unknown, so the user is asked.
    """

    def __init__(self, name: str, summary: str, effects_of: tuple[Effect, ...]) -> None:
        self.name, self._summary, self._effects = name, summary, effects_of

    def read(self, arguments: dict[str, Any]) -> Value:
        return Value()

    def canonical(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return arguments

    def effects(self, args: Value, ctx: ToolContext) -> tuple[Effect, ...]:
        return self._effects

    def summary(self, args: Value, ctx: ToolContext) -> str:
        return self._summary

    def run(self, args: Value, ctx: ToolContext) -> ToolResult:
        raise ToolError("The other program runs its own tools.")


class GatedCall:
    """A call of another program, made ready as the engine does it, and what is needed to decide it.

    call: in the words of our tools, with the name "" if none of them does the same. given: in the program's own words.
    harmless: its tool changes nothing but the conversation.

    Raises UsageError for settings that cannot be read, and for a call that cannot be described.
    """

    def __init__(self, session: GateSession, call: ToolCall, given: ToolCall, *, harmless: bool) -> None:
        self.given, self.session, self.harmless = given, session, harmless
        run_env = session.run_env
        self.layers = read_settings(Config(), run_env)
        settings = self.layers.settings()
        # The other program runs the command, so our sandbox makes nothing safer.
        settings = settings.replace(sandbox=settings.sandbox.replace(mode="off"))
        self.save_rule = rule_saver(Config(), run_env, self.layers)
        self.keeper = checkpoint_keeper(run_env, settings, session.session_id)
        context, self.policy = make_context(
            make_workspace(run_env, settings, ()), settings, self.layers, run_env, answered=True,
            require_read_first=False,
        )  # fmt: skip
        for rule in session.grants():
            self.policy.grant(rule)
        tool = find_tool(call.name) if call.name else None
        self.call = call
        if tool is None:
            tool = self._unknown()
            self.call = call.replace(name=tool.name)
        options = TurnOptions(model=session.label, label=session.label, system="")
        deps = TurnDeps(
            client=None,  # type: ignore[arg-type]
            tools=ToolTable([tool]),
            context=context,
            policy=self.policy,
            approver=lambda request: Defer(),
            state=ConversationState(),
            save_rule=self.save_rule,
            watch=self.keeper,
        )
        # Only an address has to be in the messages.
        history = session.history() if tool.address_argument else ()
        self.turn = Turn(history, deps, options, lambda history, deps, options: iter(()))  # type: ignore[arg-type,return-value]
        self.item = self._prepare()

    def _unknown(self) -> HostTool:
        tool = self.given.name
        if self.harmless:
            return HostTool(tool, tool, (Effect("state"),))
        text = json.dumps(self.given.arguments, ensure_ascii=False)
        return HostTool(tool, one_line(f"{tool} {text}"), (Effect("call", tool),))

    def _prepare(self) -> PreparedCall:
        found = prepare_call(self.turn, self.call, together=False)
        if isinstance(found, CallError):
            # Another version of the program has other arguments: what they do is not known.
            tool = self._unknown()
            self.turn.deps.tools.replace({tool.name: tool})
            self.call = ToolCall(self.call.id, tool.name, self.given.arguments)
            found = prepare_call(self.turn, self.call, together=False)
        if isinstance(found, CallError):
            raise UsageError(found.text)
        return found

    def request(self) -> ApprovalRequested:
        """Return the question about the call."""
        try:
            return approval_request(self.turn, self.item)
        except ToolError:
            # The other program may find the text by rules of its own, so the question has no diff.
            tool = HostTool(self.item.tool.name, self.item.summary, self.item.effects)
            self.item = self.item.replace(tool=tool)
            return approval_request(self.turn, self.item)

    def keep_copies(self) -> None:
        """Save the files that the call may change, as before every call of ours."""
        # Programs run what changes files one after the other, and do not report the end of every call.
        self.keeper.after_earlier("")
        # In the list of what can be undone, the turn is one of this program.
        history = [
            UserMessage(f"{self.session.label}: {m.text}") if isinstance(m, UserMessage) else m
            for m in self.session.history() or (UserMessage(GateSession.NO_MESSAGE),)
        ]
        self.keeper.turn(history, new=False, model=self.session.label)
        item, cwd = self.item, str(self.turn.deps.context.workspace.cwd)
        self.keeper.before(self.call.id, item.tool.name, item.summary, item.effects, cwd)
        self.keeper.close()

    def decide(self, until: float, gone: Callable[[], bool]) -> tuple[GateVerdict, str, str]:
        """Return the verdict about the call, its reason, and a note for the model."""
        decision = self.item.decision
        if decision.level is Level.ASK:
            return self._ask(until, gone)
        reason = f"agent gate: this call {decision.reason}"
        if decision.level is Level.DENY:
            self.session.settle(self.call, self.item.summary, f"Refused: it {decision.reason}.", allowed=False,
                                asked=False)  # fmt: skip
            return "deny", f"{reason}.", ""
        if may_mutate(self.turn, self.item):
            self._allow(asked=False, text=f"Allowed: it {decision.reason}. {self.session.label} runs it.")
        return "allow", reason, ""

    def _ask(self, until: float, gone: Callable[[], bool]) -> tuple[GateVerdict, str, str]:
        with self.session.turn_to_ask(until, gone) as ready:
            if not ready:
                return "deny", GateSession.NOBODY, ""
            request = self.request().replace(edits=False)  # the other program has modes of its own
            self.session.ask(self.call, request, until)
            text = GateSession.NOBODY
            try:
                made = self.session.wait(request, until, gone)
                if made is not None and made.decision == "approve":
                    if approval_fingerprint(self.turn, self.item) == request.binding:
                        text = ""
                        return self._approved(request, made.rule, made.scope, made.reason)
                    text = "A file that the user was shown has changed since. Make the call again."
                elif made is not None:
                    text = f"The user refused this call{f': {made.reason}' if made.reason else '.'}"
                return "deny", text, ""
            finally:
                if text:  # also when the hook is ended meanwhile
                    self.session.settle(self.call, request.summary, text, allowed=False, asked=True)

    def _approved(self, request: ApprovalRequested, rule: str, scope: str, note: str) -> tuple[GateVerdict, str, str]:
        note = f"{GateSession.NOTE}{note}" if note else ""
        if rule and scope == "project" and self.save_rule is not None and (why := self.save_rule(rule)):
            sys.stderr.write(f"agent gate: the rule was not saved for the project: {why}\n")
        preview = request.preview if isinstance(request.preview, Diff | Diffs) else None
        self._allow(asked=True, text=note or f"Approved. {self.session.label} runs it.", preview=preview)
        return "allow", "agent gate: the user approved this call", note

    def _allow(self, *, asked: bool, text: str, preview: Diff | Diffs | None = None) -> None:
        if may_mutate(self.turn, self.item):
            self.keep_copies()
        self.session.settle(self.call, self.item.summary, text, allowed=True, asked=asked, display=preview)

    def decided_before(self) -> GateVerdict:
        """Return the verdict about a call that was decided already, and that the program asks about once more."""
        level = self.item.decision.level
        if level is not Level.ASK:
            return "allow" if level is Level.ALLOW else "deny"
        made = self.session.history()
        for message in reversed(made):
            for call in getattr(message, "calls", ()):
                if (call.name, call.arguments) == (self.call.name, self.item.call.arguments):
                    result = next((m for m in made if getattr(m, "call_id", "") == call.id), None)
                    return "allow" if result is not None and not getattr(result, "is_error", True) else "deny"
        return ""
