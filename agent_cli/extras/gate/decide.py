"""Decide a call of another program: `agent gate decide HOST`, run by its hooks.

The hook's JSON is on standard input, and the answer in the program's own form on standard output. Nothing else is
written there. A call gets the decision that the engine would give it. If that is a question, the hook waits for the
user's answer in `agent pending`, on the page or over the API, and refuses the call before the program's time is up. An
error refuses it, too.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from agent_cli import (
    ApprovalRequested,
    Config,
    Defer,
    Effect,
    Tool,
    ToolCall,
    ToolContext,
    ToolError,
    ToolResult,
    UsageError,
    UserMessage,
    Value,
    read_settings,
)
from agent_cli.extras.gate.hosts import Host, HostCall, Verdict, find_host
from agent_cli.extras.gate.session import NO_MESSAGE, NOTE, GateSession
from agent_cli.kernel.decisions import Level
from agent_cli.kernel.engine.tool_call import approval_fingerprint, approval_request, may_mutate, prepare_call
from agent_cli.kernel.engine.turn import Turn, TurnDeps
from agent_cli.kernel.engine.types import CallError, ConversationState, PreparedCall, ToolTable, TurnOptions
from agent_cli.kernel.runtime.checkpoints import checkpoint_keeper
from agent_cli.kernel.runtime.tools import make_context, make_workspace, rule_saver
from agent_cli.kernel.session.store import write_crash_report
from agent_tools.registry import find_tool
from agent_tools.results import Diff, Diffs
from agent_tools.text import escape_controls, one_line

_WAIT_SECONDS = 600
# After the deadline, when a call is refused whatever is being done; and how often a hook that waits looks whether it
# still should.
_LATE_SECONDS, _LOOK_SECONDS = 8, 0.1
_MAX_INPUT_BYTES = 64 << 20
_NOBODY = "Nobody answered in time, so the call is refused. See: agent pending"


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
    """A call of a host, made ready as the engine does it, and what is needed to decide it."""

    def __init__(self, host: Host, call: HostCall, session: GateSession) -> None:
        self.host, self.given, self.session = host, call, session
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
        name, arguments = host.translate(call)
        tool = find_tool(name) if name else None
        self.call = ToolCall(f"{call.key}-{os.urandom(3).hex()}" if not call.call_id else call.key, name, arguments)
        if tool is None:
            tool = self._unknown()
            self.call = self.call.replace(name=tool.name)
        options = TurnOptions(model=host.label, label=host.label, system="")
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
        tool = self.given.tool
        if tool in self.host.harmless:
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
            UserMessage(f"{self.host.label}: {m.text}") if isinstance(m, UserMessage) else m
            for m in self.session.history() or (UserMessage(NO_MESSAGE),)
        ]
        self.keeper.turn(history, new=False, model=self.host.label)
        item, cwd = self.item, str(self.turn.deps.context.workspace.cwd)
        self.keeper.before(self.call.id, item.tool.name, item.summary, item.effects, cwd)
        self.keeper.close()

    def decide(self, until: float, gone: Callable[[], bool]) -> tuple[Verdict, str, str]:
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
            self._allow(asked=False, text=f"Allowed: it {decision.reason}. {self.host.label} runs it.")
        return "allow", reason, ""

    def _ask(self, until: float, gone: Callable[[], bool]) -> tuple[Verdict, str, str]:
        with self.session.turn_to_ask(until, gone) as ready:
            if not ready:
                return "deny", _NOBODY, ""
            request = self.request().replace(edits=False)  # the other program has modes of its own
            self.session.ask(self.call, request, until)
            text = _NOBODY
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

    def _approved(self, request: ApprovalRequested, rule: str, scope: str, note: str) -> tuple[Verdict, str, str]:
        note = f"{NOTE}{note}" if note else ""
        if rule and scope == "project" and self.save_rule is not None and (why := self.save_rule(rule)):
            sys.stderr.write(f"agent gate: the rule was not saved for the project: {why}\n")
        preview = request.preview if isinstance(request.preview, Diff | Diffs) else None
        self._allow(asked=True, text=note or f"Approved. {self.host.label} runs it.", preview=preview)
        return "allow", "agent gate: the user approved this call", note

    def _allow(self, *, asked: bool, text: str, preview: Diff | Diffs | None = None) -> None:
        if may_mutate(self.turn, self.item):
            self.keep_copies()
        self.session.settle(self.call, self.item.summary, text, allowed=True, asked=asked, display=preview)


def main(words: list[str]) -> int:
    """Answer one hook; return the exit code. words: the host, and `--wait SECONDS`."""
    host, call = None, None
    try:
        host = find_host(words[0] if words else "")
        seconds = int(words[words.index("--wait") + 1]) if "--wait" in words else _WAIT_SECONDS
        call = host.read(_input())
        until = time.time() + seconds
        _refuse_at(until, host, call)
        verdict, reason, note = _answer(host, call, until)
    except Exception as error:  # noqa: BLE001 - whatever goes wrong, the call must not run unseen
        if not isinstance(error, UsageError):
            write_crash_report(error, os.environ)
        text = escape_controls(str(error)) or type(error).__name__
        asked = call is None or call.moment in ("before", "ask")
        reason = f"agent gate could not decide this call, so it is refused: {text}" if asked else f"agent gate: {text}"
        verdict, note = "deny", ""
        if host is None or call is None:
            sys.stderr.write(f"{reason}\n")
            return 2
    if call.moment in ("before", "ask") or note:
        sys.stdout.write(host.answer(call.moment, verdict, reason, note))
        sys.stdout.flush()
    elif reason:
        sys.stderr.write(f"{reason}\n")
    return 0


def _input() -> dict[str, Any]:
    try:
        data = json.loads(sys.stdin.buffer.read(_MAX_INPUT_BYTES))
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise UsageError("Standard input is not the JSON object that a hook gets.")
    return data


def _refuse_at(until: float, host: Host, call: HostCall) -> None:
    """Refuse the call a little after the deadline, whatever is being done: the program would run it at its limit."""
    if call.moment != "before":
        return

    def refuse(*_: object) -> None:
        os.write(1, host.answer("before", "deny", _NOBODY).encode())
        for connection in watched[1:]:
            os.write(connection, b"\0")  # the exit code
        os._exit(0)

    signal.signal(signal.SIGALRM, refuse)
    signal.setitimer(signal.ITIMER_REAL, until - time.time() + _LATE_SECONDS)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, _stop)


def _stop(number: int, frame: object) -> None:
    raise SystemExit(2)


# Descriptors that are closed at their other end if nobody waits for the answer any more.
watched = [1]


def _reader_gone() -> bool:
    """Wait a moment; return True if nobody waits for the answer any more."""
    poller = select.poll()
    for descriptor in watched:
        poller.register(descriptor, 0)
    return bool(poller.poll(_LOOK_SECONDS * 1000))


def _answer(host: Host, call: HostCall, until: float) -> tuple[Verdict, str, str]:
    session = GateSession(host, call, dict(os.environ))
    if call.moment == "prompt":
        if call.prompt.strip():
            _close_copies(session)
            session.prompt(call.prompt)
        return "", "", ""
    if call.moment in ("after", "end"):
        _close_copies(session, call.key if call.moment == "after" else "")
        if call.moment == "end":
            session.end()
        return "", "", "" if host.takes_notes or call.moment == "end" else session.note_of(call.key)
    gated = GatedCall(host, call, session)
    if call.moment == "ask":
        # It was decided before; the program asks once more, by rules of its own.
        return _decided_before(gated), "agent gate: the rules or the user allowed this call", ""
    return gated.decide(until, _reader_gone)


def _decided_before(gated: GatedCall) -> Verdict:
    level = gated.item.decision.level
    if level is not Level.ASK:
        return "allow" if level is Level.ALLOW else "deny"
    made = gated.session.history()
    for message in reversed(made):
        for call in getattr(message, "calls", ()):
            if (call.name, call.arguments) == (gated.call.name, gated.item.call.arguments):
                result = next((m for m in made if getattr(m, "call_id", "") == call.id), None)
                return "allow" if result is not None and not getattr(result, "is_error", True) else "deny"
    return ""


def _close_copies(session: GateSession, call: str = "") -> None:
    """Save how files are after the calls that have ended; "" for all that ran in the session."""
    settings = read_settings(Config(), session.run_env).settings()
    keeper = checkpoint_keeper(session.run_env, settings, session.session_id)
    keeper.after_earlier(call)
