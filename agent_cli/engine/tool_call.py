"""A call made ready: its tool, arguments, effects and the gate's decision; and what an approval of it binds to.

Whether a URL comes from the conversation: a page that nobody named may be a way to carry something out.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from agent_cli.core.events import ApprovalRequested
from agent_cli.core.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage, without_note
from agent_cli.engine.turn import Turn
from agent_cli.engine.types import CheckedCall, PreparedCall
from agent_cli.permissions.decision import Decision, Level
from agent_tools.base import Effect, Tool, ToolError
from agent_tools.fs.encoding import fingerprint
from agent_tools.fs.files import open_file
from agent_tools.registry import ClassOf, tool_class

_HASHED_BYTES = 64 << 20
PLAN_FIRST = (
    "Not run: the user approves a plan before anything is changed (plan_review). Write the plan with TodoWrite, and "
    "make this call again once it is approved."
)
READ_ONLY = (
    "Not run: nothing may be changed before the user has approved a plan. Report what you found instead; the changes "
    "come after that."
)


def check(turn: Turn, call: ToolCall, *, together: bool) -> CheckedCall:
    """The call made ready, or the error text that its result will be. `together`: other calls share its round."""
    tool = turn.kit.tools.get(call.name)
    if tool is None:
        return f"There is no tool named {call.name!r}. The tools are: {', '.join(turn.kit.tools)}."
    if call.broken and turn.was_cut:
        return (
            "Your answer was cut at the token limit, so this call is incomplete and was not run. Write the file in "
            "parts: the beginning with one call, the rest with further ones."
        )
    if call.broken:
        return (
            f"The arguments were not a JSON object, or nested too deeply: {call.broken[:200]!r}. "
            "Send them as one JSON object."
        )
    context = turn.kit.context
    try:
        args = tool.read(call.arguments)
        call = call.but(arguments=tool.canonical(call.arguments))
        if together and tool.alone(args):
            return "This call must be alone in its round. Make it again by itself, once the other results are in."
        tool, args = tool.stands_for(args, context)
        if tool.name != call.name and not turn.kit.offered(tool.name):
            return f"The tool {tool.name} is not offered here."
        args = tool.resolved(args, context)
        effects = tool.effects(args, context)
        decision = turn.kit.policy.decide(tool.name, effects)
        if tool.address_argument:
            decision = _unheard_of(turn, getattr(args, tool.address_argument), effects, decision)
        if turn.gates is not None:
            decision = turn.gates.decided(turn, tool.name, effects, decision)
        item = PreparedCall(call, tool, args, effects, tool.summary(args, context), decision)
        if turn.read_only and decision.level is not Level.DENY and may_change(turn, item):
            return PLAN_FIRST if not turn.options.read_only else READ_ONLY
        return item
    except ToolError as error:
        return str(error)


def may_change(turn: Turn, item: PreparedCall) -> bool:
    """Whether a call may change files: it writes, does what is not seen, or runs what is not known to be read-only."""
    return any(
        e.kind in ("write", "call") or (e.kind == "run" and not turn.kit.policy.only_reads(e.target))
        for e in item.effects
    )


def _unheard_of(turn: Turn, url: str, effects: tuple[Effect, ...], decision: Decision) -> Decision:
    """The decision about a page, where nothing but the model named its address: at most a question."""

    policy = turn.kit.policy
    if policy.mode == "bypassPermissions" or decision.level is Level.DENY:
        return decision
    histories = (*turn.kit.above, turn.history)
    if is_known_url((url, *(e.target for e in effects)), histories, turn.kit.tool_class):
        return decision
    said = "no message and no result named this address before"
    if decision.level is Level.ASK:
        return decision.but(reason=f"{decision.reason}, and {said}")
    reason = f"is allowed by {decision.rule}, but {said}" if decision.rule else f"is allowed, but {said}"
    if policy.mode == "dontAsk":
        return decision.but(level=Level.DENY, reason=f"{reason}, and the mode dontAsk denies it", by="mode")
    return decision.but(level=Level.ASK, reason=reason, by="default")


def proposals(batch: Sequence[CheckedCall]) -> list[PreparedCall]:
    """Those of a batch that a user can be asked about now.

    A call that touches what an undecided call before it would write has to wait: what it would do is not known yet.
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
    """The question, with what would happen. Raises ToolError where the call is bound to fail."""
    policy, cwd = turn.kit.policy, str(turn.kit.context.workspace.cwd)
    facts = policy.facts(item.tool.name, item.effects, item.decision)
    if policy.answered:
        facts += tuple(turn.kit.watch.facts(item.effects, cwd))
    # Where a rule asks, or an allowed call is asked about for another reason, one more that allows it is of no use.
    always = (
        "" if item.decision.rule or item.decision.by == "hook" else policy.always_rule(item.tool.name, item.effects)
    )
    return ApprovalRequested(
        call_id=item.call.id,
        tool=item.tool.name,
        summary=item.summary,
        reason=item.decision.reason,
        effects=item.effects,
        cwd=cwd,
        preview=item.tool.preview(item.args, turn.kit.context),
        always=always,
        binding=binding(turn, item),
        facts=facts,
        grants=policy.granted(always),
        keeps=bool(always) and turn.kit.save_rule is not None,
        arguments=item.call.arguments,
    )


def binding(turn: Turn, item: PreparedCall) -> str:
    """A hash of what a user is shown: what `bound` covers, and of commands what they would destroy."""
    stakes = turn.kit.policy.at_stake(item.effects)
    if not stakes:
        return bound(turn, item)
    told = json.dumps([bound(turn, item), sorted(stakes.items())])
    return fingerprint(told.encode("utf-8", "surrogatepass"))


def bound(turn: Turn, item: PreparedCall) -> str:
    """A hash of a call: tool, arguments, working directory, resolved targets and contents of its files."""
    shown = [item.tool.name, item.call.arguments, str(turn.kit.context.workspace.cwd)]
    parts = [json.dumps(shown, sort_keys=True).encode()]
    for effect in item.effects:
        parts.append(f"{effect.kind} {effect.target}".encode("utf-8", "surrogateescape"))
        if effect.kind in ("read", "write"):
            parts.append(_content(Path(effect.target)))
    return fingerprint(b"\0".join(parts))


def _content(path: Path) -> bytes:
    """What stands in for a file's content, also where there is none. Never raises."""
    try:
        with open(open_file(path), "rb") as file:
            return fingerprint(file.read(_HASHED_BYTES)).encode()
    except (ToolError, OSError, ValueError) as error:
        return f"none: {error}".encode("utf-8", "replace")


# User messages that the program writes and that quote the model: a command line, a plan, a summary.
_QUOTES = ("<compacted>", "<plan_", "<reminder>", "[Background command ")
_OWN_FILES = ("file_path", "notebook_path", "path")
# The commands whose output is what stood in one file, or in one place elsewhere, and nothing of the command line. What
# prints, joins or rewrites text could put an address together from pieces.
_FILE = r"(?!-)[\w./@+-]+"
_COPIES = re.compile(
    rf"(?:cat|(?:head|tail)(?: -n ?\d+| -\d+)?|grep(?: -[EFinw]+)? (?:\w+|'[^']*'))\s+(?P<file>{_FILE})"
    r"|git remote -v|git remote get-url \w+|gh (?:issue|pr|release|run) view \d+"
)


def is_known_url(urls: Iterable[str], histories: Sequence[Iterable[Message]], class_of: ClassOf = tool_class) -> bool:
    """Whether a user message or a tool result contains the URL: as given, or without fragment and trailing slash.

    urls: the spellings of it. histories: the user's conversation, then those of the sub-agents inside it, whose user
    messages were written by a model and do not count. Neither does a result that may only repeat what a model composed:
    where it wrote the URL before, in words or in arguments; output of commands that do more than show a file; files
    that it wrote; answers of sub-agents; a page that could not be fetched.
    """
    seen = _Seen({_bare(url) for url in urls}, class_of)
    return any(seen.known(history, own=not depth) for depth, history in enumerate(histories))


class _Seen:
    """What the models of the histories so far wrote: words, and names of files."""

    def __init__(self, spellings: set[str], class_of: ClassOf) -> None:
        self._spellings = spellings
        self._class_of = class_of
        self._composed = False
        self._commands = ""
        self._files: set[str] = set()

    def known(self, history: Iterable[Message], *, own: bool) -> bool:
        calls: dict[str, ToolCall] = {}
        for message in history:
            if isinstance(message, AssistantMessage):
                calls.update((call.id, call) for call in message.calls)
                self._take(message)
            elif isinstance(message, UserMessage):
                text = without_note(message.text)
                if own and not text.startswith(_QUOTES) and self._in(text):
                    return True
            elif not self._composed and self._in(message.text) and self._foreign(message, calls.get(message.call_id)):
                return True
        return False

    def _take(self, message: AssistantMessage) -> None:
        self._composed = self._composed or self._in(message.text)
        for call in message.calls:
            given = json.dumps(call.arguments, ensure_ascii=False)
            self._composed = self._composed or self._in(given)
            kind = self._class_of(call.name)
            if kind.command_argument and not _copied(call, kind):
                self._commands += given
            elif kind.composed:
                self._files |= {_name(call.arguments.get(key)) for key in _OWN_FILES} - {""}

    def _foreign(self, result: ToolMessage, call: ToolCall | None) -> bool:
        """Whether the text of a result was written by somebody else."""
        kind = self._class_of(result.name)
        if kind.composed or (result.is_error and kind.address_argument):
            return False
        if call is None:
            return not kind.command_argument
        kind = self._class_of(call.name)
        copied = _copied(call, kind)
        if kind.command_argument and copied is None:
            return False
        names = {_name(call.arguments.get(key)) for key in _OWN_FILES} | {_name(copied["file"] if copied else "")}
        if any(name in self._files or name in self._commands for name in names - {""}):
            return False
        return not kind.searches_content or not any(name in result.text for name in self._files)

    def _in(self, text: str) -> bool:
        small = text.lower()
        return any(spelling in small for spelling in self._spellings)


def _copied(call: ToolCall, kind: type[Tool[Any]]) -> re.Match[str] | None:
    """How a command shows what stands somewhere; None for one that does more, and for a call that runs none."""
    return _COPIES.fullmatch(str(call.arguments.get(kind.command_argument, "")).strip())


def _name(path: object) -> str:
    """The last part of a path that a call names; "" for a folder like `.`, or where it names none."""
    name = os.path.basename(path.rstrip("/")) if isinstance(path, str) else ""
    return "" if name in (".", "..") else name


def _bare(url: str) -> str:
    """A URL without what does not change the page, and without its scheme, which may be http in the one place only."""
    return (url.partition("#")[0].rstrip("/").partition("://")[2] or url).lower()
