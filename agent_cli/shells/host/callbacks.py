"""Requests to the host: permission for a call, an answer to a question, a hook, a message to its MCP servers.

Also `--permission-prompt-tool mcp__SERVER__TOOL`: a tool of an MCP server that is asked about calls instead.
"""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from agent_cli import (
    Answer,
    ApprovalRequested,
    Defer,
    EditedCall,
    QuestionAsked,
    QuestionReply,
    Reject,
    UsageError,
    UserDecision,
)
from agent_cli.console import print_warning
from agent_cli.hooks import PythonHook
from agent_cli.hooks.events import HOOK_EVENTS
from agent_cli.kernel.host_servers import HostServers
from agent_cli.kernel.rules import split_rules
from agent_cli.kernel.runtime.user_decision import DECLINED, DecisionWord
from agent_cli.mcp.answers import mcp_result
from agent_cli.mcp.tools import result_within, wait_for
from agent_cli.policy.policy import change_rules, rules_problem
from agent_cli.shells.host.channel import Fields, HostChannel, HostClosedError, HostRefusedError
from agent_tools.base import ToolError
from agent_tools.cancel import CancelledError
from agent_tools.plan import parse_plan, plan_text
from agent_tools.text import one_line, shorten

if TYPE_CHECKING:
    from agent_cli import Session
    from agent_cli.kernel.runtime.mcp import SessionServers

HOOK_TIMEOUT_SECONDS = 60.0
NOBODY_LEFT = "The host closed its input, so nobody can approve this."
_SESSION = "session"
# Fields of a question of an MCP server, and what hosts call them.
_ELICITED = {
    "mode": "mode", "url": "url", "elicitationId": "elicitation_id", "requestedSchema": "requested_schema",
}  # fmt: skip
_QUESTION_TOOLS = {"questions": "AskUserQuestion", "plan": "ExitPlanMode", "review": "Review"}


class RemoteApprover(ABC):
    """An external program that is asked about the calls of an attached session; subclasses define how."""

    def __init__(self) -> None:
        self._attached: Session | None = None
        # Arguments that the program chose, by call; it is not asked about them again.
        self._chosen: dict[str, Fields] = {}
        # Calls that it approved because a hook or a rule wanted that; their plan needs no second approval.
        self._granted: set[str] = set()

    def attach(self, agent: Session) -> None:
        """Answer for this session, which was built with `approve` as its approver. Nothing is asked before."""
        self._attached = agent

    @abstractmethod
    def _ask(self, fields: Fields) -> Fields | str:
        """Return the reply, or the reason why there is none. Raises CancelledError."""

    @property
    def _agent(self) -> Session:
        assert self._attached is not None
        return self._attached

    def approve(self, request: ApprovalRequested) -> Answer:
        """Ask about a call (an approver)."""
        if self._chosen.pop(request.call_id, None) == request.arguments:
            return UserDecision(request.call_id, "", "approve").answer_to(request)
        fields = {
            "tool_name": request.tool,
            "input": request.arguments,
            "permission_suggestions": permission_updates(request),
            "tool_use_id": request.call_id,
            "title": request.summary,
            "display_name": request.tool,
            "decision_reason": request.reason,
            "facts": list(request.facts),
            "description": str(request.arguments.get("description") or "\n".join(request.warnings)),
        }
        if path := _blocked_path(request, self._agent.tool_context.workspace.roots):
            fields["blocked_path"] = path
        reply = self._ask(fields)
        if isinstance(reply, str):
            return Reject(reply, by="default")
        try:
            answer = cast(Answer, self._take(request, reply, {"arguments": _dict_of(reply, "updatedInput")}))
        except UsageError as refused:
            print_warning(f"the host's answer: {refused}")
            return Reject(f"was answered by a decision that cannot be carried out: {refused}", by="default")
        if isinstance(answer, EditedCall):
            self._chosen[request.call_id] = answer.arguments
        if reply.get("behavior") == "allow":
            self._granted.add(request.call_id)
        return answer

    def _take(
        self, asked: ApprovalRequested | QuestionAsked, reply: Mapping[str, Any], fields: Mapping[str, Any]
    ) -> Answer | QuestionReply:
        """Return the answer that a reply gives. fields: of an approval. Raises UsageError for what cannot be honoured.

        Its permission updates are applied, and its interrupt.
        """
        behavior, text, workspace = reply.get("behavior"), reply.get("message", ""), self._agent.tool_context.workspace
        if behavior not in ("allow", "deny"):
            raise UsageError(f"behavior: expected allow or deny, not {shorten(one_line(str(behavior)), 60)}.")
        if not isinstance(text, str):
            raise UsageError("message: expected text.")
        if behavior == "allow" and reply.get("interrupt"):
            raise UsageError("interrupt: only a denial can end the turn.")
        given = reply.get("updatedPermissions") or []
        updates = given if isinstance(given, list) else [given]
        if behavior == "deny":
            wrong = [name for name in ("updatedInput", "updatedPermissions") if reply.get(name)]
            if wrong:
                raise UsageError(f"{', '.join(wrong)}: a denial does not take that.")
            word = "answer" if isinstance(asked, QuestionAsked) and asked.kind != "questions" else "reject"
            text = text or ("The user did not approve it." if word == "answer" else "")
            answer = UserDecision(asked.call_id, "", cast(DecisionWord, word), text).answer_to(asked, workspace)
            if reply.get("interrupt"):
                self._agent.interrupt()
            return answer
        mode = self._check_updates(updates)
        word = "answer" if isinstance(asked, QuestionAsked) and asked.kind == "questions" else "approve"
        decision = UserDecision(asked.call_id, "", cast(DecisionWord, word), text, mode=mode, **fields)
        answer = decision.answer_to(asked, workspace)
        for update in updates:
            if update["type"] != "setMode":
                for problem in change_rules(self._agent.policy, update, self._agent.save_rule):
                    print_warning(f"the host's answer: {problem}")
        return answer

    def _check_updates(self, updates: Sequence[Any]) -> str:
        """Return the mode that permission updates set, or "". Raises UsageError for an update that is not valid."""
        mode = ""
        for update in updates:
            kind = update.get("type") if isinstance(update, dict) else None
            if kind not in ("setMode", "addRules", "removeRules", "replaceRules"):
                raise UsageError(f"updatedPermissions: {shorten(one_line(str(kind)), 60)} is not supported.")
            if kind == "setMode":
                mode = str(update.get("mode"))
                self._agent.check_mode(mode)
            elif problem := rules_problem(update):
                raise UsageError(f"updatedPermissions: {problem}")
        return mode


def _dict_of(reply: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    """Return an object in a reply; None if it is missing or empty. Raises UsageError for another value."""
    if not (value := reply.get(name)):
        return None
    if not isinstance(value, dict):
        raise UsageError(f"{name}: expected an object.")
    return value


class HostCallbacks(RemoteApprover):
    """The host as approver, asker and hooks of a conversation.

    report_state: called with "requires_action" when the host is asked, and with "running" after that.
    servers: the host's MCP servers.
    """

    def __init__(self, channel: HostChannel, report_state: Callable[[str], None]) -> None:
        super().__init__()
        self._channel = channel
        self._report_state = report_state
        self.servers = HostServers(self._send_to_server, elicit=self._elicit)

    def ask(self, asked: QuestionAsked) -> QuestionReply | Defer:
        """Ask the host a question of the model, or about a plan or a review (an asker)."""
        if asked.kind == "plan" and asked.call_id in self._granted:
            return UserDecision(asked.call_id, "", "approve").answer_to(asked)
        given = {"plan": plan_text(asked.data)} if asked.kind == "plan" else dict(asked.data)
        name = _QUESTION_TOOLS[asked.kind]
        reply = self._ask(
            {"tool_name": name, "input": given, "permission_suggestions": [], "tool_use_id": asked.call_id,
             "display_name": name, "requires_user_interaction": True}
        )  # fmt: skip
        if isinstance(reply, str):
            return Defer()
        try:
            return cast(QuestionReply, self._take(asked, reply, _question_fields(asked, reply)))
        except UsageError as refused:
            text = f"The host's answer cannot be carried out: {refused}"
            return QuestionReply("answer" if asked.kind == "questions" else "revise", text, by="default")

    def _ask(self, fields: Fields) -> Fields | str:
        """Return the host's reply, or the reason why there is none. Raises CancelledError."""
        self._report_state("requires_action")
        try:
            return self._channel.request("can_use_tool", fields, self._agent.tool_context.cancel)
        except HostClosedError:
            return NOBODY_LEFT
        except HostRefusedError as error:
            return f"The host could not decide: {error}"
        finally:
            self._report_state("running")

    def hook(self, event: str, group: Fields, callback_id: str) -> PythonHook:
        """Return a hook that runs in the host. group: the matcher that it belongs to."""
        seconds = float(group.get("timeout") or HOOK_TIMEOUT_SECONDS)

        def call(given: dict[str, Any]) -> Mapping[str, Any]:
            fields = {"callback_id": callback_id, "input": given, "tool_use_id": given.get("tool_use_id")}
            return self._channel.request("hook_callback", fields, self._agent.tool_context.cancel, seconds)

        call.__qualname__ = f"host {callback_id}"
        strict = group.get("onFailure") == "block"
        return PythonHook(HOOK_EVENTS[event].name, call, group.get("matcher") or "", strict=strict, source="host")

    def hooks(self, configured: Any) -> tuple[PythonHook, ...]:
        """Return the hooks that the host registers; unknown events are skipped."""
        found = []
        for event, groups in configured.items() if isinstance(configured, dict) else ():
            for group in groups if event in HOOK_EVENTS and isinstance(groups, list) else ():
                found += [self.hook(event, group, str(name)) for name in group.get("hookCallbackIds") or ()]
        return tuple(found)

    def _elicit(self, server: str, question: Fields) -> Fields | None:
        """Let the host answer a question of an MCP server; return None if it has no answer."""
        fields = {"mcp_server_name": server, "message": str(question.get("message", ""))}
        fields |= {ours: question[name] for name, ours in _ELICITED.items() if name in question}
        try:
            reply = self._channel.request("elicitation", fields, self._agent.tool_context.cancel)
        except (HostClosedError, HostRefusedError, CancelledError):
            return None
        action = reply.get("action")
        if action not in ("accept", "decline", "cancel"):
            return None
        content = reply.get("content")
        return {"action": action, **({"content": content} if isinstance(content, dict) else {})}

    def _send_to_server(self, server: str, message: Fields) -> None:
        """Send a JSON-RPC message to a server in the host; its answer goes to `servers`."""

        def handle(reply: Fields | None) -> None:
            answer = reply.get("mcp_response") if reply is not None else None
            if isinstance(answer, dict) and "id" in answer:
                self.servers.receive(server, answer)
            elif reply is None:
                self.servers.end(server)

        self._channel.post("mcp_message", {"server_name": server, "message": message}, handle)


def permission_updates(request: ApprovalRequested) -> list[Fields]:
    """Return the permission updates that would have made this question unnecessary, the most useful first."""
    found: list[Fields] = []
    if request.edits:
        found.append({"type": "setMode", "mode": "acceptEdits", "destination": _SESSION})
    for text in (request.always, request.exact):
        if not text:
            continue
        rules = []
        for rule in split_rules(text):
            name, opened, rest = rule.partition("(")
            rules.append({"toolName": name, "ruleContent": rest[:-1]} if opened else {"toolName": name})
        destination = "localSettings" if request.keeps else _SESSION
        found.append({"type": "addRules", "rules": rules, "behavior": "allow", "destination": destination})
    return found


def _blocked_path(request: ApprovalRequested, roots: Sequence[Path]) -> str:
    """Return the first path outside the workspace that the call touches; "" for none."""
    for effect in request.effects:
        if effect.kind in ("read", "write") and effect.target:
            path = Path(os.path.normpath(os.path.join(request.cwd, effect.target)))
            if not any(path.is_relative_to(root) for root in roots):
                return str(path)
    return ""


def _question_fields(asked: QuestionAsked, reply: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a host's approval of a question, a plan or a review. Raises UsageError."""
    changed = _dict_of(reply, "updatedInput") or {}
    if reply.get("behavior") != "allow":
        return {}
    if asked.kind == "questions":
        given = changed.get("answers")
        named = given if isinstance(given, dict) else {}
        words = [_joined(named.get(q["question"], named.get(q.get("header", ""), ""))) for q in asked.data["questions"]]
        return {"answers": tuple(word or DECLINED for word in words)}
    shown = plan_text(asked.data)
    if asked.kind == "plan" and changed.get("plan", shown) != shown:
        return {"plan": parse_plan(str(changed["plan"]))}
    return {}


def _joined(answer: Any) -> str:
    return ", ".join(map(str, answer)) if isinstance(answer, list) else str(answer)


_KEYS = ("tool_name", "input", "tool_use_id")


class PromptTool(RemoteApprover):
    """The tool as approver of a session: it receives and returns JSON; the model cannot call it."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self._servers: SessionServers | None = None

    def attach(self, agent: Session) -> None:
        """Ask on behalf of this session. Raises UsageError if none of its servers can have the tool."""
        names = agent.mcp.servers.all if agent.mcp is not None else {}
        if agent.mcp is None or not any(self.name.startswith(f"mcp__{name}__") for name in names):
            servers = f"; the servers are {', '.join(names)}" if names else ", as there are no MCP servers"
            tool = shorten(one_line(self.name), 80)
            raise UsageError(f"--permission-prompt-tool: no MCP server can have the tool {tool}{servers}.")
        super().attach(agent)
        agent.mcp.withhold(self.name)
        self._servers = agent.mcp

    def _ask(self, fields: Fields) -> Fields | str:
        assert self._servers is not None
        context = self._agent.tool_context
        text = f"The tool of --permission-prompt-tool, {self.name},"
        try:
            for server in self._servers.servers.all.values():
                if not self.name.startswith(f"mcp__{server.name}__"):
                    continue
                wait_for(server, context.cancel)
                if (offer := server.tools.get(self.name)) is not None:
                    asked = {key: fields[key] for key in _KEYS}
                    call = server.call(offer.name, asked, lambda kind, what: None)
                    answer = mcp_result(result_within(call, context.cancel, server.name), context)
                    return f"{text} failed: {answer.text}" if answer.is_error else _read_reply(answer.text, text)
        except ToolError as error:
            return f"{text} could not be asked: {error}"
        return f"{text} does not exist."


def _read_reply(text: str, message: str) -> Fields | str:
    """Return the tool's answer, or the reason why it is invalid."""
    try:
        reply = json.loads(text)
    except (ValueError, RecursionError):
        reply = None
    if not isinstance(reply, dict) or reply.get("behavior") not in ("allow", "deny"):
        return f'{message} did not answer {{"behavior": "allow"}} or {{"behavior": "deny", "message": ...}} in JSON.'
    return reply
