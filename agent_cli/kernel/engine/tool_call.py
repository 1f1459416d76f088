"""Prepare a call: its tool, arguments, effects and the policy's decision; and fingerprint what is approved.

A URL has to come from the conversation: an address that nobody named may be a way to exfiltrate data.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from stat import S_ISLNK
from typing import Any
from urllib.parse import unquote

from agent_cli.kernel.decisions import Decision, Level
from agent_cli.kernel.engine.turn import Turn
from agent_cli.kernel.engine.types import CallError, CheckedCall, PreparedCall
from agent_cli.kernel.events import ApprovalRequested
from agent_cli.kernel.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage, without_note
from agent_tools.base import Effect, Tool, ToolError
from agent_tools.fs.encoding import fingerprint
from agent_tools.fs.files import open_file
from agent_tools.fs.workspace import Workspace
from agent_tools.lazy import lazy_imports, lazy_pattern
from agent_tools.registry import TraitsOf, tool_traits

with lazy_imports():
    from agent_cli.kernel.engine import repairs

# User messages that the program writes and that quote the model: a command line, a plan, a summary.
_QUOTES = ("<compacted>", "<plan_", "<reminder>", "[Background command ")
# Begins a memory file that the program adds; a command may have written that file.
_MEMORY = "<project_memory "
_PATH_ARGUMENTS = ("file_path", "notebook_path", "path")
# Commands that print the content of one file, or of one place elsewhere, and nothing of their command line. Commands
# that print, join or rewrite text could assemble an address from pieces.
_FILE = r"(?!-)[\w./@+-]+"
_COPIES = lazy_pattern(
    rf"(?:cat|(?:head|tail)(?: -n ?\d+| -\d+)?|grep(?: -[EFinw]+)? (?:\w+|'[^']*'))\s+(?P<file>{_FILE})"
    r"|git remote -v|git remote get-url \w+|gh (?:issue|pr|release|run) view \d+"
)


class YoungFiles:
    """The files created or changed since the session began.

    since: seconds, wall clock; compared with the time of the last inode change, which no program can set.
    """

    def __init__(self, since: float, workspace: Workspace) -> None:
        self._since = since
        self._folders = (workspace.cwd, workspace.root)

    def __contains__(self, path: str) -> bool:
        """Return True if the path is one of them, or missing; a relative path is tried from the current folder and the
        root.
        """
        found = [young for folder in self._folders if (young := self._is_young(folder / path)) is not None]
        return not found or any(found)

    def _is_young(self, path: Path) -> bool | None:
        try:
            steps = [os.lstat(step) for step in (path, *path.parents)]
            stats = [path.stat(), steps[0], *(step for step in steps if S_ISLNK(step.st_mode))]
        except (OSError, ValueError):
            return None
        return any(stat.st_ctime >= self._since for stat in stats)


def is_known_url(
    urls: Iterable[str],
    histories: Sequence[Iterable[Message]],
    traits_of: TraitsOf = tool_traits,
    *,
    young: YoungFiles | frozenset[str] = frozenset(),
    only_reads: Callable[[str], bool] = lambda command: False,
) -> bool:
    """Return True if a user message or a tool result contains the URL, as given or without fragment and trailing slash.

    urls: spellings of the URL.
    histories: the user's conversation, then those of the sub-agents inside it, whose user messages were written by a
        model and do not count.

    A result does not count if it may only repeat what a model composed: if the model wrote the URL before, in text or
    arguments; output of commands that do more than show a file; files that the model wrote; answers of sub-agents; a
    page that could not be fetched. Once something ran that may write (`only_reads` returns False, or a sub-agent
    worked), the following do not count either: files changed since the session began (`young`), names in listings,
    output of git and gh.
    """
    seen = _Seen({_bare(url) for url in urls}, traits_of, young, only_reads)
    return any(seen.known(history, by_user=not depth) for depth, history in enumerate(histories))


class _Seen:
    """Tracks the text and file names that models wrote in the histories so far."""

    def __init__(
        self,
        spellings: set[str],
        traits_of: TraitsOf,
        young: YoungFiles | frozenset[str],
        only_reads: Callable[[str], bool],
    ) -> None:
        self._spellings = spellings
        self._traits_of = traits_of
        self._young = young
        self._only_reads = only_reads
        self._acted = False
        self._composed = False
        self._commands = ""
        self._files: set[str] = set()

    def known(self, history: Iterable[Message], *, by_user: bool) -> bool:
        calls: dict[str, ToolCall] = {}
        for message in history:
            if isinstance(message, AssistantMessage):
                calls.update((call.id, call) for call in message.calls)
                self._take(message)
            elif isinstance(message, UserMessage):
                text = without_note(message.text)
                ours = text.startswith(_QUOTES) or (self._acted and text.startswith(_MEMORY))
                if by_user and not ours and self._in(text):
                    return True
            elif not self._composed and self._in(message.text) and self._foreign(message, calls.get(message.call_id)):
                return True
        return False

    def _take(self, message: AssistantMessage) -> None:
        self._composed = self._composed or self._in(message.text)
        for call in message.calls:
            given = json.dumps(call.arguments, ensure_ascii=False)
            self._composed = self._composed or self._in(given) or self._in(unquote(given))
            kind = self._traits_of(call.name)
            if kind.command_argument and not _copied(call, kind):
                self._commands += given
                self._acted = self._acted or not self._only_reads(str(call.arguments.get(kind.command_argument, "")))
            elif kind.composed:
                self._acted = True
                self._files |= {_name(call.arguments.get(key)) for key in _PATH_ARGUMENTS} - {""}
                # A patch names its files in its text.
                self._commands += given if kind.freeform is not None else ""

    def _foreign(self, result: ToolMessage, call: ToolCall | None) -> bool:
        """Return True if the text of a result was written by somebody else."""
        kind = self._traits_of(result.name)
        if kind.composed or (result.is_error and kind.address_argument):
            return False
        if call is None:
            return not kind.command_argument
        kind = self._traits_of(call.name)
        copied = _copied(call, kind)
        if kind.command_argument and copied is None:
            return False
        names = {_name(call.arguments.get(key)) for key in _PATH_ARGUMENTS} | {_name(copied["file"] if copied else "")}
        if any(name in self._files or name in self._commands for name in names - {""}):
            return False
        if kind.searches_content and any(name in result.text for name in self._files):
            return False
        return not self._acted or self._is_old(result, call, kind, copied)

    def _is_old(self, result: ToolMessage, call: ToolCall, kind: Tool[Any], copied: re.Match[str] | None) -> bool:
        """Return True if the local content that a result shows existed before the session began."""
        if copied:
            return bool(copied["file"]) and copied["file"] not in self._young
        if kind.searches_content:
            return not any(name in self._young for name in self._found(result, call))
        named = [path for key in _PATH_ARGUMENTS if isinstance(path := call.arguments.get(key), str)]
        if kind.file_argument:
            return not any(path in self._young for path in named)
        # A listing shows names, which a command may have made.
        return kind.rule_names != "path"

    def _found(self, result: ToolMessage, call: ToolCall) -> Iterator[str]:
        """Yield the files in which a search found the URL: those that the lines name, or its own path if that may be
        the only file.
        """
        path = str(call.arguments.get("path") or "")
        for line in result.text.splitlines():
            if self._in(line):
                named = re.match(r"(.+?)[:-]\d+[:-]", line)
                if not named or (path and (call.arguments.get("-n") is False or re.match(r"\d+[:-]", line))):
                    yield path
                if named:
                    yield named[1]

    def _in(self, text: str) -> bool:
        small = text.lower()
        return any(spelling in small for spelling in self._spellings)


def _copied(call: ToolCall, kind: Tool[Any]) -> re.Match[str] | None:
    """Match a command that only shows a file or place; None for any other, and for a call that runs none."""
    return _COPIES.fullmatch(str(call.arguments.get(kind.command_argument, "")).strip())


def _name(path: object) -> str:
    """Return the last part of a path; "" for a folder like `.`, or no path."""
    name = os.path.basename(path.rstrip("/")) if isinstance(path, str) else ""
    return "" if name in (".", "..") else name


def _bare(url: str) -> str:
    """Return a URL without what does not change the page, and without its scheme, which may be http in one of two
    places.
    """
    return (url.partition("#")[0].rstrip("/").partition("://")[2] or url).lower()


_HASHED_BYTES = 64 << 20
PLAN_FIRST = (
    "Not run: the user approves a plan before anything is changed (plan_review). Write the plan as a todo list, and "
    "make this call again once it is approved."
)
BROKEN_OFF = (
    "The arguments broke off before their end, so a part may be missing and the call was not run. Make it again, "
    "whole; a long text in parts."
)
READS_ONLY = "Not run: you only read here, and this may change something. Report what you found instead."
READ_ONLY = (
    "Not run: nothing may be changed before the user has approved a plan. Report what you found instead; the changes "
    "come after that."
)


def prepare_call(turn: Turn, call: ToolCall, *, together: bool) -> CheckedCall:
    """Return the call made ready, or why it cannot run. together: other calls share its round."""
    tool = turn.deps.tools.get(call.name)
    if tool is None:
        here = next((f": {t.name} is in its place" for t in turn.deps.tools.values() if call.name in t.instead_of), "")
        return CallError(f"There is no tool named {call.name!r}{here}. The tools are: {', '.join(turn.deps.tools)}.")
    if call.broken:
        return CallError(_unreadable(turn, tool, call.broken))
    context = turn.deps.context
    try:
        args = tool.read(call.arguments)
        call = call.replace(arguments=tool.canonical(call.arguments))
        if together and tool.is_exclusive(args):
            raise ToolError(
                "This call must be alone in its round. Make it again by itself, once the other results are in."
            )
        tool, args = tool.resolve_target(args, context)
        if tool.name != call.name and not turn.deps.offered(tool.name):
            raise ToolError(f"The tool {tool.name} is not offered here.")
        args = tool.resolve_paths(args, context)
        effects = tool.effects(args, context)
        decision = turn.deps.policy.decide(tool.name, effects)
        if tool.address_argument:
            decision = _question_unseen_url(turn, getattr(args, tool.address_argument), effects, decision)
        if turn.gates is not None:
            decision = turn.gates.decided(turn, tool.name, effects, decision)
        item = PreparedCall(call, tool, args, effects, tool.summary(args, context), decision)
        if call.repaired and repairs.UNCLOSED in call.repaired and may_mutate(turn, item):
            raise ToolError(BROKEN_OFF)
        if turn.read_only and decision.level is not Level.DENY and may_mutate(turn, item):
            kind = turn.deps.agents.get(turn.deps.agent)
            first = READ_ONLY if turn.options.read_only else PLAN_FIRST
            raise ToolError(READS_ONLY if kind is not None and kind.read_only else first)
        return item
    except ToolError as error:
        return CallError(str(error))


def _unreadable(turn: Turn, tool: Tool[Any], raw: str) -> str:
    """Say why arguments could not be read, and what to do."""
    if turn.was_cut:
        parts = (
            "Write the file in parts: the beginning with one call, the rest with further ones."
            if tool.changes_files
            else "Make the call again, shorter."
        )
        return f"{turn.cut}, so this call is incomplete and was not run. {parts}"
    why = ""
    try:
        repairs.read_objects(raw)
    except repairs.LenientJsonError as error:
        why = f": {error}"
    return (
        f"The arguments are not a JSON object{why}. Send one JSON object; inside a string, write "
        '\\" for a quote, \\\\ for a backslash and \\n for a line break.'
    )


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
    if is_known_url(urls, histories, turn.deps.traits_of, young=young, only_reads=policy.only_reads):
        return decision
    text = "no message and no result named this address before"
    if decision.level is Level.ASK:
        return decision.replace(reason=f"{decision.reason}, and {text}")
    reason = f"is allowed by {decision.rule}, but {text}" if decision.rule else f"is allowed, but {text}"
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
        if isinstance(item, CallError):
            continue
        if item.needs_approval and not any(e.target in touched for e in item.effects):
            found.append(item)
        touched |= item.writes
    return found


def approval_request(turn: Turn, item: PreparedCall) -> ApprovalRequested:
    """Return the approval question with a preview. Raises ToolError if the call is bound to fail."""
    policy, cwd = turn.deps.policy, str(turn.deps.context.workspace.cwd)
    # The program's own calls are no commands, and their files are those of a copy.
    found = policy.facts(item.tool.name, () if item.tool.of_program else item.effects, item.decision)
    facts = found.lines
    undo = tuple(turn.deps.watch.facts(item.effects, cwd))
    facts += (*undo, *item.tool.facts(item.args, turn.deps.context))
    policy.note_asked(item.effects)
    # If a rule asks, or an allowed call is asked about for another reason, one more allow rule would not help.
    helps = not item.decision.rule and item.decision.by != "hook"
    always, exact = policy.suggest_rules(item.tool.name, item.effects) if helps else ("", "")
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
        trusts=not policy.trusted,
        scheduled=bool(always) and turn.deps.save_for_schedule is not None,
        arguments=item.call.arguments,
        exact=exact,
        warnings=(*found.warnings, *(line for line in undo if not line.startswith("undo: a copy"))),
        deferred=item.decision.deferred,
        edits=helps and item.tool.changes_files and policy.would_accept_edits(item.tool.name, item.effects),
    )


def approval_fingerprint(turn: Turn, item: PreparedCall) -> str:
    """Hash what a user is shown: the call itself, and what its commands would destroy."""
    stakes = turn.deps.policy.at_stake(item.effects)
    if not stakes:
        return call_fingerprint(turn, item)
    serialized = json.dumps([call_fingerprint(turn, item), sorted(stakes.items())])
    return fingerprint(serialized.encode("utf-8", "surrogatepass"))


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
