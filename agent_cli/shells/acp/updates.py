"""Convert the events of a turn to session updates: text, calls with diffs and output, the plan, usage, the end.

The kind and locations of a call follow from the traits of its tool. The same events, read from a
session's log, replay the conversation when an editor loads it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agent_cli import (
    AssistantMessage,
    CallView,
    Event,
    Failed,
    Failure,
    LimitReached,
    LiveSession,
    TextDelta,
    ThinkingDelta,
    ToolMessage,
    TurnResult,
    Usage,
)
from agent_cli.shells.acp.command_output import MAX_SHOWN_CHARS, OutputDisplay, TextOutput, Update, output_block
from agent_tools.edit.diff import parse_hunks
from agent_tools.record import Value
from agent_tools.registry import tool_traits
from agent_tools.results import CommandOutput, Diff, Diffs, Display, FileView, Media, TodoItem

_STATUS = {"pending": "pending", "in_progress": "in_progress", "completed": "completed"}


def text_block(text: str) -> Update:
    return {"type": "text", "text": text}


def message_chunk(text: str, kind: str = "agent_message_chunk") -> Update:
    """Return a piece of text as an update.

    kind: "user_message_chunk" for text of the user, "agent_thought_chunk" for reasoning.
    """
    return {"sessionUpdate": kind, "content": text_block(text)}


def plan_update(items: Iterable[TodoItem]) -> Update:
    """Return the plan as an update, without cancelled steps, for which the protocol has no status."""
    entries = [
        {"content": item.content, "priority": item.priority or "medium", "status": _STATUS[item.status]}
        for item in items
        if item.status in _STATUS
    ]
    return {"sessionUpdate": "plan", "entries": entries}


def usage_fields(usage: Usage) -> Update:
    """Return the tokens of a turn as the protocol counts them."""
    found = {"totalTokens": usage.input + usage.output, "inputTokens": usage.input, "outputTokens": usage.output}
    more = {
        "thoughtTokens": usage.reasoning,
        "cachedReadTokens": usage.cache_read,
        "cachedWriteTokens": usage.cache_write,
    }
    return found | {name: count for name, count in more.items() if count}


class PromptFailedError(Exception):
    """The model failed. kind: of the failure; the message is one sentence."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.kind = failure.kind


def prompt_answer(result: TurnResult | None, last: object, *, cancelled: bool) -> Update:
    """Return the answer to a prompt: why its turn ended, and what it used. Raises PromptFailedError.

    result: None for a prompt without a turn, such as a command. last: the last message of the history.
    """
    failure = getattr(result, "failure", None)
    reason = "end_turn"
    if cancelled or (isinstance(result, Failed) and failure is None):
        reason = "cancelled"
    elif isinstance(result, LimitReached):
        reason = "max_turn_requests"
    elif failure is not None and failure.kind == "refused":
        reason = "refusal"
    elif failure is not None:
        raise PromptFailedError(failure)
    elif result is not None and isinstance(last, AssistantMessage) and last.was_cut:
        reason = "max_tokens"
    return {"stopReason": reason, **({"usage": usage_fields(result.end.usage)} if result is not None else {})}


def tool_kind(tool: str) -> str:
    """Return the protocol's kind of a tool, from its traits."""
    traits = tool_traits(tool)
    kinds = {
        "edit": traits.changes_files,
        "execute": bool(traits.command_argument) or traits.types_input,
        "read": traits.shows_file,
        "fetch": bool(traits.address_argument) or traits.rule_names == "domain",
        "switch_mode": traits.ends_plan_mode,
        "think": traits.nested or traits.changes_plan,
        "search": traits.searches_content or (traits.parallel_safe and bool(traits.paths)),
    }
    return next((kind for kind, fits in kinds.items() if fits), "other")


class DiffHunk(Value):
    """One hunk of a diff as texts. line: its first line in the new file."""

    old: str
    new: str
    line: int


def diff_hunks(patch: str) -> list[DiffHunk]:
    """Split a unified diff into its hunks."""
    found: list[DiffHunk] = []
    for hunk in parse_hunks(patch):
        old: list[str] = []
        new: list[str] = []
        sides: Sequence[list[str]] = ()
        for text in hunk.lines:
            if text.startswith("\\"):
                # "\\ No newline at end of file" refers to the line before.
                for side in sides:
                    side[-1] = side[-1].removesuffix("\n")
            else:
                sides = {"-": (old,), "+": (new,)}.get(text[:1], (old, new))
                for side in sides:
                    side.append(f"{text[1:]}\n")
        found.append(DiffHunk("".join(old), "".join(new), max(1, hunk.new[0])))
    return found


class SessionUpdates:
    """Turns the events of one session into updates. view: the session.

    send: sends an update. root, cwd: for paths in displays and arguments.
    window: returns the tokens in use and the size of the model's window.
    commands: shows the output of commands; as text if it is None.
    """

    def __init__(
        self,
        send: Callable[[Update], None],
        root: Path,
        cwd: Path,
        window: Callable[[], tuple[int, int | None]] = lambda: (0, None),
        commands: OutputDisplay | None = None,
    ) -> None:
        self._send = send
        self._root, self._cwd, self._window = root, cwd, window
        self._text = TextOutput()
        self._commands = commands or self._text
        self.view = LiveSession()

    def __call__(self, event: Event) -> None:
        """Send the updates for an event."""
        if isinstance(event, TextDelta | ThinkingDelta):
            if event.text:
                kind = "agent_message_chunk" if isinstance(event, TextDelta) else "agent_thought_chunk"
                self._send(message_chunk(event.text, kind))
            return
        change = self.view.follow(event)
        if change.call is not None:
            self._of_call(change.kind, change.call, change.view.task_id, change.event)
            return
        own = change.view is self.view
        match change.kind:
            case "restarted" if own:
                self._send(message_chunk("\n\n*The answer broke off and starts again.*\n\n"))
            case "warning" | "notice" | "compacted":
                self._send(message_chunk(f"\n\n*{change.note}*\n\n"))
            case "plan" if own and not change.event.paused:
                self._send(plan_update(self.view.plan))
            case "usage" if own:
                self.show_usage()

    def _of_call(self, kind: str, call: CallView, task_id: str, event: Any) -> None:
        """Send what has changed of a call; a plan is shown itself."""
        if not call.requested or tool_traits(call.tool).changes_plan:
            return
        call_id, argument = call.call_id, tool_traits(call.tool).command_argument
        display: OutputDisplay = self._commands if argument else self._text
        match kind:
            case "requested":
                shown = display.requested(call_id, str(call.arguments.get(argument, "")))
                meta = {"agent": {"toolName": call.tool, **({"parentToolCallId": task_id} if task_id else {})}}
                update = {"sessionUpdate": "tool_call", "toolCallId": call_id, "status": "pending"}
                update |= self.call_fields(call.tool, call.arguments, call.summary)
                self._send({**update, **shown, "_meta": meta | shown.get("_meta", {})})
            case "asked" if (preview := getattr(event, "preview", None)) is not None:
                self._changed(call_id, content=self.user_content(preview), locations=self._locations(preview))
            case "started":
                self._changed(call_id, status="in_progress", **display.started(call_id))
            case "output":
                self._changed(call_id, **display.output(call_id, event.text))
            case "answered":
                self._changed(call_id, **self._result_fields(event.message))
            case "finished":
                status = "failed" if event.is_error else "completed"
                result = event.display if isinstance(event.display, CommandOutput) else None
                shown = display.ended(call_id, result)
                shown.setdefault("content", [] if result is not None else self.user_content(event.display))
                self._changed(call_id, status=status, locations=self._locations(event.display), **shown)

    def show_usage(self) -> None:
        """Send the usage of the context window and the cost of the session."""
        used, size = self._window()
        if size:
            spent = self.view.spent.cost
            cost = {"cost": {"amount": round(spent, 6), "currency": "USD"}} if spent else {}
            self._send({"sessionUpdate": "usage_update", "used": used, "size": size, **cost})

    def call_fields(self, tool: str, arguments: Mapping[str, Any], summary: str) -> Update:
        """Return the fields that describe a call: title, kind, locations, arguments."""
        traits = tool_traits(tool)
        command = arguments.get(traits.command_argument) if traits.command_argument else None
        path = arguments.get(traits.file_argument) if traits.file_argument else None
        locations = [{"path": self._absolute(path)}] if isinstance(path, str) and path else []
        title = f"`{command}`" if isinstance(command, str) and "\n" not in command and "`" not in command else summary
        return {"title": title, "kind": tool_kind(tool), "rawInput": dict(arguments), "locations": locations}

    def user_content(self, display: Display | None) -> list[Update]:
        """Return a display value as the content of a call."""
        if isinstance(display, Diff | Diffs):
            files = display.files if isinstance(display, Diffs) else (display,)
            return [part for diff in files for part in self._diff_parts(diff)]
        if isinstance(display, CommandOutput) and display.output.strip():
            return [output_block(display.output)]
        return []

    def _diff_parts(self, diff: Diff) -> Iterator[Update]:
        path = self._absolute(diff.path, self._root)
        for hunk in diff_hunks(diff.patch):
            yield {"type": "diff", "path": path, "oldText": None if diff.created else hunk.old, "newText": hunk.new}

    def _locations(self, display: Display | None) -> list[Update]:
        if isinstance(display, FileView):
            return [{"path": self._absolute(display.path, self._root), "line": display.first}]
        files: Sequence[Diff] = ()
        if isinstance(display, Diff | Diffs):
            files = display.files if isinstance(display, Diffs) else (display,)
        return [
            {"path": self._absolute(diff.path, self._root), "line": hunk.line}
            for diff in files
            for hunk in diff_hunks(diff.patch)
        ]

    def _absolute(self, path: str, base: Path | None = None) -> str:
        return os.path.normpath(os.path.join(base or self._cwd, os.path.expanduser(path)))

    def _changed(self, call_id: str, **fields: Any) -> None:
        found = {name: value for name, value in fields.items() if value not in (None, [])}
        if found:
            self._send({"sessionUpdate": "tool_call_update", "toolCallId": call_id, **found})

    def _result_fields(self, message: ToolMessage) -> Update:
        """Return the fields that a result adds to its call."""
        images = [{"type": "content", "content": block} for m in message.media for block in media_block(m)]
        return {"content": images, "rawOutput": message.text[:MAX_SHOWN_CHARS]}


def media_block(media: Media) -> list[Update]:
    """Return an image as a block of content; nothing for other media."""
    return [{"type": "image", "data": media.data, "mimeType": media.mime}] if media.kind == "image" else []
