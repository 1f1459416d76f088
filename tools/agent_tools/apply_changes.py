"""The ApplyChanges tool: bring the changes of a staged turn into the project.

The program makes this call itself, when a turn ends and the copy differs from the project. It is approved like any
call: as a whole or in parts, from every front end, also days later. A refusal with words sends the work back; one
without discards it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Annotated, Any

from agent_tools.base import Effect, Finish, Tool, ToolContext, ToolError, ToolResult, ToolState
from agent_tools.edit.diff import diff_parts
from agent_tools.record import Value, from_json
from agent_tools.results import Diff, Diffs, Note
from agent_tools.sandbox.conditions import STAGED
from agent_tools.text import counted, one_line

_MAX_NAMED = 5


class StagedTurn(ToolState):
    """The stage of a session, supplied by the program.

    request: asks the process outside the stage. recorded: returns what is recorded of the running turn.
    found: the changes, as it last told them; a large project takes seconds to compare.
    """

    def __init__(self, request: Callable[..., Any], recorded: Callable[[], dict[str, Any]]) -> None:
        self.request, self.recorded = request, recorded
        self.found: dict[str, Any] = {"shown": "", "changes": []}

    def changes(self) -> dict[str, Any]:
        """Ask for the changes. Raises ToolError."""
        self.found = self.request("changes")
        return self.found


class ApplyChangesArgs(Value):
    """The arguments of ApplyChanges."""

    files: Annotated[tuple[str, ...], "The changed files"]
    ran: Annotated[tuple[str, ...], "Commands that ran in the copy, with what came of them"] = ()
    outside: Annotated[tuple[str, ...], "Commands that the user let out of the copy"] = ()
    shown: Annotated[str, "What identifies the changes"] = ""
    leave_out: Annotated[tuple[int, ...], "Parts of the changes that the user does not want, counted from 0"] = ()


class ApplyChanges(Tool[ApplyChangesArgs]):
    """Brings the changes of a staged turn into the project."""

    name = "ApplyChanges"
    description = "Brings the changes made in the copy into the user's project. Called at the end of a turn by itself."
    Args = ApplyChangesArgs
    of_conversation = True
    of_program = True
    numbered_parts = True

    def effects(self, args: ApplyChangesArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        root = str(ctx.workspace.root)
        return (Effect("call", STAGED), *(Effect("write", os.path.join(root, path)) for path in args.files))

    def summary(self, args: ApplyChangesArgs, ctx: ToolContext) -> str:
        names = ", ".join(map(one_line, args.files[:_MAX_NAMED]))
        more = f" and {len(args.files) - _MAX_NAMED} more" if len(args.files) > _MAX_NAMED else ""
        return f"Apply {counted(len(args.files), 'file')}: {names}{more}"

    def facts(self, args: ApplyChangesArgs, ctx: ToolContext) -> tuple[str, ...]:
        lines = [f"ran: {text}" for text in args.ran]
        lines += [f"left the stage: {text}" for text in args.outside]
        for change in _changes(args, ctx):
            if change["other"] == "conflict":
                lines.append(f"you changed {one_line(change['diff']['path'])} as well, in the same place: yours stays")
            elif change["other"]:
                lines.append(f"you changed {one_line(change['diff']['path'])} as well: both changes are in")
        return tuple(lines)

    def preview(self, args: ApplyChangesArgs, ctx: ToolContext) -> Diff | Diffs:
        diffs = _diffs(args, ctx)
        return diffs[0] if len(diffs) == 1 else Diffs(tuple(diffs))

    def run(self, args: ApplyChangesArgs, ctx: ToolContext) -> ToolResult:
        left_out: dict[str, list[int]] = {}
        number = 0
        for diff in _diffs(args, ctx):
            for part in range(len(diff_parts(diff))):
                if number in args.leave_out:
                    left_out.setdefault(diff.path, []).append(part)
                number += 1
        call, summary = f"apply_{os.urandom(8).hex()}", self.summary(args, ctx)
        stage = _stage(ctx)
        asked = {"left_out": left_out, "call": call, "summary": summary, "shown": args.shown}
        done = stage.request("apply", turn=stage.recorded(), **asked)
        applied = [*done["done"], *done["merged"]]
        lines = [f"The user took the changes: {counted(len(applied), 'path')} changed in the project."]
        if done["merged"]:
            lines.append(f"The user had changed these as well, and both changes are in: {', '.join(done['merged'])}.")
        if done["kept"]:
            lines.append(
                f"Not applied, because the user changed the same lines: {', '.join(done['kept'])}. The copy still has "
                "your version; the user decides on it at the end of the turn."
            )
        lines += [f"Not applied: {path}: {why}." for path, why in done["failed"].items()]
        lines += done["warnings"]
        whole = not (done["kept"] or done["failed"] or args.leave_out)
        return ToolResult("\n".join(lines), finish=Finish(checked=True) if whole else None, is_error=not applied)

    def refused(self, args: ApplyChangesArgs, reason: str, ctx: ToolContext) -> ToolResult | None:
        if reason:
            return ToolResult(
                f"The user did not take the changes yet and said: {reason}\nThe copy is as you left it. Continue."
            )
        kept = _stage(ctx).request("discard")
        shown = Note(f"Discarded: the files stay in {kept} for 14 days.")
        return ToolResult(
            "The user discarded the changes; the copy is as the project.", shown, finish=Finish(checked=True)
        )


def _stage(ctx: ToolContext) -> StagedTurn:
    found = ctx.supplied(StagedTurn)
    if found is None:
        raise ToolError("This session has no staged changes.")
    return found


def _changes(args: ApplyChangesArgs, ctx: ToolContext) -> list[dict[str, Any]]:
    """Return the changes of the copy. Raises ToolError if they are not those that the call names."""
    stage = _stage(ctx)
    found = stage.found if stage.found["shown"] == args.shown else stage.changes()
    if found["shown"] != args.shown or not args.shown:
        raise ToolError(
            "Nothing was applied, because the copy changed after the question. The user is asked again at the end."
        )
    changes: list[dict[str, Any]] = found["changes"]
    return changes


def _diffs(args: ApplyChangesArgs, ctx: ToolContext) -> list[Diff]:
    return [from_json(Diff, change["diff"]) for change in _changes(args, ctx)]
