"""Prepare a call: its tool, arguments, effects and the policy's decision; and fingerprint what is approved."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from agent_cli.core.decisions import Decision, Level
from agent_cli.core.events import ApprovalRequested
from agent_cli.core.messages import ToolCall
from agent_cli.engine.known_urls import YoungFiles, is_known_url
from agent_cli.engine.turn import Turn
from agent_cli.engine.types import CheckedCall, PreparedCall
from agent_tools.base import Effect, ToolError
from agent_tools.fs.encoding import fingerprint
from agent_tools.fs.files import open_file

_HASHED_BYTES = 64 << 20
PLAN_FIRST = (
    "Not run: the user approves a plan before anything is changed (plan_review). Write the plan as a todo list, and "
    "make this call again once it is approved."
)
READ_ONLY = (
    "Not run: nothing may be changed before the user has approved a plan. Report what you found instead; the changes "
    "come after that."
)


def prepare_call(turn: Turn, call: ToolCall, *, together: bool) -> CheckedCall:
    """Return the call made ready, or the error text of its result. together: other calls share its round."""
    tool = turn.deps.tools.get(call.name)
    if tool is None:
        return f"There is no tool named {call.name!r}. The tools are: {', '.join(turn.deps.tools)}."
    if call.broken and turn.was_cut:
        where = f"{turn.cut_at:,} tokens" if turn.cut_at else "the token limit"
        return (
            f"Your answer was cut at {where}: write the file in parts, the beginning with one call, the rest with "
            "further ones. This call is incomplete and was not run."
        )
    if call.broken:
        return (
            f"The arguments were not a JSON object, or nested too deeply: {call.broken[:200]!r}. "
            "Send them as one JSON object."
        )
    context = turn.deps.context
    try:
        args = tool.read(call.arguments)
        call = call.replace(arguments=tool.canonical(call.arguments))
        if together and tool.is_exclusive(args):
            return "This call must be alone in its round. Make it again by itself, once the other results are in."
        tool, args = tool.resolve_target(args, context)
        if tool.name != call.name and not turn.deps.offered(tool.name):
            return f"The tool {tool.name} is not offered here."
        args = tool.resolve_paths(args, context)
        effects = tool.effects(args, context)
        decision = turn.deps.policy.decide(tool.name, effects)
        if tool.address_argument:
            decision = _question_unseen_url(turn, getattr(args, tool.address_argument), effects, decision)
        if turn.gates is not None:
            decision = turn.gates.decided(turn, tool.name, effects, decision)
        item = PreparedCall(call, tool, args, effects, tool.summary(args, context), decision)
        if turn.read_only and decision.level is not Level.DENY and may_mutate(turn, item):
            return PLAN_FIRST if not turn.options.read_only else READ_ONLY
        return item
    except ToolError as error:
        return str(error)


def may_mutate(turn: Turn, item: PreparedCall) -> bool:
    """Return True if a call may change files: it writes, has unknown effects, or runs a command not known to be
    read-only.
    """
    return any(
        e.kind in ("write", "call") or (e.kind == "run" and not turn.deps.policy.only_reads(e.target))
        for e in item.effects
    )


def _question_unseen_url(turn: Turn, url: str, effects: tuple[Effect, ...], decision: Decision) -> Decision:
    """Return the decision about a page whose address only the model named: at most a question."""

    policy = turn.deps.policy
    if policy.mode == "bypassPermissions" or decision.level is Level.DENY:
        return decision
    histories = (*turn.deps.above, turn.history)
    young = YoungFiles(turn.deps.state.began, turn.deps.context.workspace)
    urls = (url, *(e.target for e in effects))
    if is_known_url(urls, histories, turn.deps.tool_class, young=young, only_reads=policy.only_reads):
        return decision
    said = "no message and no result named this address before"
    if decision.level is Level.ASK:
        return decision.replace(reason=f"{decision.reason}, and {said}")
    reason = f"is allowed by {decision.rule}, but {said}" if decision.rule else f"is allowed, but {said}"
    if policy.mode == "dontAsk":
        return decision.replace(level=Level.DENY, reason=f"{reason}, and the mode dontAsk denies it", by="mode")
    return decision.replace(level=Level.ASK, reason=reason, by="default")


def askable_calls(batch: Sequence[CheckedCall]) -> list[PreparedCall]:
    """Return the calls of a batch that the user can be asked about now.

    A call that touches files which an undecided call before it would write has to wait: its effects are not known yet.
    """
    found: list[PreparedCall] = []
    touched: set[str] = set()
    for item in batch:
        if isinstance(item, str):
            continue
        if item.asks and not any(e.target in touched for e in item.effects):
            found.append(item)
        touched |= item.writes
    return found


def approval_request(turn: Turn, item: PreparedCall) -> ApprovalRequested:
    """Return the approval question with a preview. Raises ToolError if the call is bound to fail."""
    policy, cwd = turn.deps.policy, str(turn.deps.context.workspace.cwd)
    facts = policy.facts(item.tool.name, item.effects, item.decision)
    if policy.answered:
        facts += tuple(turn.deps.watch.facts(item.effects, cwd))
    # If a rule asks, or an allowed call is asked about for another reason, one more allow rule would not help.
    always = (
        "" if item.decision.rule or item.decision.by == "hook" else policy.suggest_rule(item.tool.name, item.effects)
    )
    return ApprovalRequested(
        call_id=item.call.id,
        tool=item.tool.name,
        summary=item.summary,
        reason=item.decision.reason,
        effects=item.effects,
        cwd=cwd,
        preview=item.tool.preview(item.args, turn.deps.context),
        always=always,
        binding=approval_fingerprint(turn, item),
        facts=facts,
        grants=policy.describe_grant(always),
        keeps=bool(always) and turn.deps.save_rule is not None,
        arguments=item.call.arguments,
    )


def approval_fingerprint(turn: Turn, item: PreparedCall) -> str:
    """Hash what a user is shown: the call itself, and what its commands would destroy."""
    stakes = turn.deps.policy.at_stake(item.effects)
    if not stakes:
        return call_fingerprint(turn, item)
    told = json.dumps([call_fingerprint(turn, item), sorted(stakes.items())])
    return fingerprint(told.encode("utf-8", "surrogatepass"))


def call_fingerprint(turn: Turn, item: PreparedCall) -> str:
    """Hash a call: tool, arguments, working directory, resolved targets and contents of its files."""
    shown = [item.tool.name, item.call.arguments, str(turn.deps.context.workspace.cwd)]
    parts = [json.dumps(shown, sort_keys=True).encode()]
    for effect in item.effects:
        parts.append(f"{effect.kind} {effect.target}".encode("utf-8", "surrogateescape"))
        if effect.kind in ("read", "write"):
            parts.append(_content(Path(effect.target)))
    return fingerprint(b"\0".join(parts))


def _content(path: Path) -> bytes:
    """Return a stand-in for a file's content, also if there is none. Never raises."""
    try:
        with open(open_file(path), "rb") as file:
            return fingerprint(file.read(_HASHED_BYTES)).encode()
    except (ToolError, OSError, ValueError) as error:
        return f"none: {error}".encode("utf-8", "replace")
