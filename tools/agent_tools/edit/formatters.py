"""Run the user's formatter or linter after an edit, and report its changes and new problems to the model.

The setting `after_edit` maps file globs to commands. They run in the root of the workspace like commands of Bash. The
edit has been made by then, so that nothing here makes it fail. Known checkers that may run then check the result.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING

from agent_tools.base import Progress, Steps, ToolContext, ToolError
from agent_tools.edit.change import Change
from agent_tools.edit.diff import Difference, short_patch
from agent_tools.fs import read_state
from agent_tools.fs.encoding import TextFile, decode_text
from agent_tools.fs.paths import compile_glob
from agent_tools.lazy import lazy_imports
from agent_tools.requirements import find_bash
from agent_tools.shell.state import command_env
from agent_tools.text import HeadTail, shorten

if TYPE_CHECKING:
    from agent_tools.shell.process import ExitInfo

with lazy_imports():
    from agent_tools.diagnostics import feedback
    from agent_tools.shell import process

TIMEOUT_SECONDS = 60.0
_MAX_MEMORY_BYTES = 8 << 30
_MAX_OUTPUT_BYTES = 2_000


FormattedChanges = tuple[tuple[Change, ...], str]


def after_edit(changes: Sequence[Change], ctx: ToolContext) -> Generator[Progress, None, FormattedChanges]:
    """Run the commands configured for the files of `changes`, which have been made.

    Returns the changes with the resulting content, and a report for the model, which names new problems that checkers
    find; "" if there is nothing to report.
    """
    final, notes = yield from _format(changes, ctx)
    if ctx.command_rule is not None and (found := ctx.state(feedback.EditDiagnostics).report(final, ctx)):
        yield Progress(f"{feedback.without_headings(found)}\n")
        notes += found
    return final, notes


def _format(changes: Sequence[Change], ctx: ToolContext) -> Generator[Progress, None, FormattedChanges]:
    table: dict[str, str] = ctx.settings.get("after_edit") or {}
    notes: list[str] = []
    ran = False
    for change in (c for c in changes if c.after is not None) if table else ():
        for command in _commands(table, change, ctx, notes):
            ran = True
            notes += yield from _run(command, ctx)
    if not ran:
        return tuple(changes), "".join(f"\n{text}" for text in notes)
    final = []
    for change in changes:
        now, more = _reread(change, ctx)
        final.append(now)
        notes += more
    return tuple(final), "".join(f"\n{text}" for text in notes)


def _commands(table: dict[str, str], change: Change, ctx: ToolContext, notes: list[str]) -> list[str]:
    """Return the commands whose glob matches the file, with its path filled in."""
    from shlex import quote

    path, root = change.path, ctx.workspace.root
    inside = path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
    found = []
    for pattern, command in table.items():
        try:
            fits = compile_glob(pattern).match(str(path) if pattern.startswith("/") else inside)
        except ToolError as error:
            notes.append(f"[after_edit: {error}]")
            continue
        if fits:
            found.append(command.replace("{file}", quote(str(path))))
    return found


def _run(command: str, ctx: ToolContext) -> Generator[Progress, None, list[str]]:
    """Run one command. Return the lines of its report; none if it succeeded without output."""
    name = f"after_edit: `{shorten(command, 150)}`"
    bash = find_bash(ctx)
    if bash is None or ctx.cancel.cancelled:
        return [f"[{name} was not run: {'the turn was interrupted' if bash else 'there is no bash'}]"]
    env, _ = command_env(ctx)
    kept = HeadTail(_MAX_OUTPUT_BYTES // 2, _MAX_OUTPUT_BYTES // 2)
    try:
        # Generous, since Node and others reserve much memory; it stops only runaway programs.
        limited = f"ulimit -Sd {_MAX_MEMORY_BYTES >> 10} 2>/dev/null\n{command}"
        argv = [bash, "--noprofile", "--norc", "-c", limited]
        running = process.run_process(argv, ctx.workspace.root, env, TIMEOUT_SECONDS, ctx.cancel, kept)
        steps = Steps(running)
        try:
            for text in steps:
                yield Progress(text)
        finally:
            running.close()
    except (OSError, ValueError) as error:
        return [f"[{name} could not be started: {error}]"]
    output = kept.text("run it to see all").strip("\n")
    how = _describe_exit(steps.result)
    return list(filter(None, (f"[{name}{how}]" if how or output else "", output)))


def _describe_exit(ending: ExitInfo) -> str:
    if ending.cause != "exit":
        return " was interrupted" if ending.cause == "interrupted" else f" timed out after {TIMEOUT_SECONDS:g} s"
    if ending.code < 0:
        return f" was killed by signal {-ending.code}"
    return f" failed with exit code {ending.code}" if ending.code else ""


def _reread(change: Change, ctx: ToolContext) -> tuple[Change, list[str]]:
    """Return the change with the file's current content, and lines with a diff of what the commands changed."""
    name = ctx.workspace.spell(change.path)
    try:
        data = ctx.workspace.read_if_there(change.path)
    except ToolError as error:
        return change, [f"[After the commands of after_edit: {error}]"]
    if data == change.after:
        return change, []
    text: TextFile | None = None if data is None else decode_text(data)
    if data is None or text is None:
        read_state.forget(change.path, ctx)
        return change, [f"[The commands of after_edit left {name} {'missing' if data is None else 'not a text file'}]"]
    difference = Difference(change.new, text.content)
    shown, counts, whole = short_patch(difference)
    told: read_state.Written = "changes" if whole else "nothing"
    read_state.note_change(change.path, change.after, data, difference, ctx, told)
    message = [f"[The commands of after_edit changed {name} ({counts}); edit the current content:]", *shown]
    return change.replace(after=data, new=text.content), message
