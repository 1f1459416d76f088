"""What a user may change of a call before it runs: its main argument, or which parts of its change are made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agent_cli.core.answers import Answer, EditedCall
from agent_cli.core.events import ApprovalRequested, Event, ToolRequested, TurnFinished, innermost
from agent_cli.terminal.hunks import Hunk, hunks_of, taken
from agent_tools.builtin import ClassOf, tool_class
from agent_tools.workspace import Workspace


class Changeable:
    """Of one call. name: the argument that may be changed, "" where there is none. in_line: whether its text fits into
    a line. hunks: the parts of its change, where they can be taken one by one."""

    def __init__(
        self,
        tool: str,
        arguments: dict[str, Any],
        hunks: Sequence[Hunk] = (),
        workspace: Workspace | None = None,
        class_of: ClassOf = tool_class,
    ) -> None:
        kind = class_of(tool)
        name, self.in_line = kind.editable, kind.editable_in_line
        text = arguments.get(name)
        self.name, self.text = (name, text) if isinstance(text, str) else ("", "")
        self.hunks = tuple(hunks)
        self._arguments, self._workspace = arguments, workspace

    def edited(self, text: str) -> EditedCall | None:
        """The answer that puts this text in place of the argument; None where that says nothing or nothing new."""
        return EditedCall({**self._arguments, self.name: text}) if text.strip() and text != self.text else None

    def taken(self, kept: Sequence[Hunk]) -> Answer:
        """The answer of a user who takes these of the hunks."""
        assert self._workspace is not None
        return taken(kept, self.hunks, self._arguments, self._workspace)


class Announced:
    """The arguments of a turn's calls, which the question about a call does not repeat."""

    def __init__(self) -> None:
        self._arguments: dict[str, dict[str, Any]] = {}

    def hear(self, event: Event) -> None:
        """Keep what an event says of a call, until the turn ends."""
        inner = innermost(event)
        if isinstance(inner, ToolRequested):
            self._arguments[inner.call_id] = inner.arguments
        elif isinstance(event, TurnFinished):
            self._arguments.clear()

    def changeable(
        self, request: ApprovalRequested, workspace: Workspace, class_of: ClassOf = tool_class
    ) -> Changeable:
        """What can be changed of the call that a question is about."""
        arguments = self._arguments.get(request.call_id, {})
        hunks = hunks_of(request.tool, request.preview, workspace, class_of) if arguments else []
        return Changeable(request.tool, arguments, hunks, workspace, class_of)
