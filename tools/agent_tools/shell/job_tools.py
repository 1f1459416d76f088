"""The BashOutput, BashInput and KillShell tools: read the output of background commands, type into them, stop them."""

from __future__ import annotations

import json
import re
from collections.abc import Generator
from time import monotonic
from typing import Annotated, ClassVar

from agent_tools.base import Effect, Progress, Tool, ToolContext, ToolError, ToolResult
from agent_tools.lazy import lazy_imports
from agent_tools.record import Value
from agent_tools.results import Note
from agent_tools.shell.bash import MAX_TIMEOUT_SECONDS, OUTPUT_HINT, closed_ports
from agent_tools.shell.jobs import Jobs, clock_duration, moved_notes
from agent_tools.text import HeadTail, sanitize_output, shorten

with lazy_imports():
    from agent_tools.shell import keys

# Seconds that BashOutput waits for new output, so that polling does not cost rounds and money.
OUTPUT_WAIT_SECONDS = 5.0
_MAX_LINE_BYTES = 10_000


class BashOutputArgs(Value):
    """The arguments of BashOutput."""

    ALIASES: ClassVar = {"shell_id": ("bash_id", "task_id", "job_id", "id")}

    shell_id: Annotated[str, "As b1"]
    filter: Annotated[str | None, "Regex: drop other lines"] = None
    timeout: Annotated[int | None, "Milliseconds"] = None


class BashOutput(Tool[BashOutputArgs]):
    """Returns the new output of a background command."""

    name = "BashOutput"
    Args = BashOutputArgs
    composed = True
    needs = "bash"

    def effects(self, args: BashOutputArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        return (Effect("state"),)

    def summary(self, args: BashOutputArgs, ctx: ToolContext) -> str:
        return f"Read the output of {shorten(args.shell_id, 20)}"

    def run(self, args: BashOutputArgs, ctx: ToolContext) -> Generator[Progress, None, ToolResult]:
        pattern = _compile(args.filter)
        job = ctx.state(Jobs).find(args.shell_id)
        if args.timeout is not None and args.timeout <= 0:
            raise ToolError("timeout is in milliseconds and must be positive.")
        until = monotonic() + (
            OUTPUT_WAIT_SECONDS if args.timeout is None else min(args.timeout / 1000, MAX_TIMEOUT_SECONDS)
        )
        awaited = job.wait_output if args.timeout is None else job.wait_end
        while not awaited(0.05) and monotonic() < until:
            ctx.cancel.check()
        buffer, ended = job.take()
        output = (
            _filter_lines(buffer, pattern, ctx).text(OUTPUT_HINT).rstrip("\n")
            if pattern
            else job.read(buffer, OUTPUT_HINT)
        )
        if output:
            yield Progress(f"{output}\n")
        nothing = f"(no new line matches {args.filter})" if pattern and buffer.total else "(nothing new)"
        note = (
            f"{job.id}: {job.state}, after {clock_duration(job.elapsed)}"
            if ended
            else f"{job.id} runs, {clock_duration(job.elapsed)}"
        )
        if pattern and not buffer.complete:
            note += "; there was too much output to search all of it"
        message, shown = (f"{note}\n{ports}" if ports else note for ports in closed_ports(job, ctx))
        lines = (output or nothing, f"[{message}]", *moved_notes(job.wrapped))
        return ToolResult("\n".join(lines), Note(shown, job.ended if ended else None))


# A JSON escape of a control character, after any number of escaped backslashes.
_CONTROL = r"(?<!\\)((?:\\\\)*)\\u00([01][0-9a-f])"


class BashInputArgs(Value):
    """The arguments of BashInput."""

    ALIASES: ClassVar = {"shell_id": ("bash_id", "task_id", "job_id", "id"), "text": ("input", "chars")}

    shell_id: Annotated[str, "As b1"]
    text: Annotated[str, "Typed unchanged; a \\n at its end is Enter, a \\t Tab"] = ""
    keys: Annotated[tuple[str, ...], "Keys after it: Enter, Tab, Esc, Up, PageDown, F1, Ctrl-C, Alt-x ..."] = ()


class BashInput(Tool[BashInputArgs]):
    """Types into the terminal of a background command. Input can do anything, so it needs approval."""

    name = "BashInput"
    rare = True
    Args = BashInputArgs
    composed = True
    types_input = True
    rule_names = "target"
    needs = "bash"

    def effects(self, args: BashInputArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        return (Effect("call", ctx.state(Jobs).find(args.shell_id).command),)

    def summary(self, args: BashInputArgs, ctx: ToolContext) -> str:
        parts = ([_quote_input(args.text)] if args.text or not args.keys else []) + [shorten(k, 20) for k in args.keys]
        return f"Type {', '.join(parts)} into {shorten(args.shell_id, 20)}"

    def run(self, args: BashInputArgs, ctx: ToolContext) -> Generator[Progress, None, ToolResult]:
        job = ctx.state(Jobs).find(args.shell_id)
        if not args.text and not args.keys:
            raise ToolError("There is nothing to type: give text or keys.")
        known = job.unread
        job.type(keys.typed_text(args.text, args.keys, keypad=job.keypad))
        job.wait_pause(ctx.cancel, OUTPUT_WAIT_SECONDS, known=known)
        buffer, ended = job.take()
        output = job.read(buffer, OUTPUT_HINT)
        if output:
            yield Progress(f"{output}\n")
        note = f"{job.id}: {job.state}" if ended else f"{job.id} runs, {clock_duration(job.elapsed)}"
        return ToolResult(f"{output or '(nothing new)'}\n[{note}]", Note(note))


class KillShellArgs(Value):
    """The arguments of KillShell."""

    ALIASES: ClassVar = {"shell_id": ("bash_id", "task_id", "job_id", "id")}

    shell_id: Annotated[str, "As b1"]


class KillShell(Tool[KillShellArgs]):
    """Stops a background command and everything that it started."""

    name = "KillShell"
    rare = True
    Args = KillShellArgs
    composed = True
    needs = "bash"

    def effects(self, args: KillShellArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        return (Effect("state"),)

    def summary(self, args: KillShellArgs, ctx: ToolContext) -> str:
        return f"End {shorten(args.shell_id, 20)}"

    def run(self, args: KillShellArgs, ctx: ToolContext) -> ToolResult:
        job = ctx.state(Jobs).find(args.shell_id)
        had_ended = not job.running
        job.end()
        output = job.take()[0].text(OUTPUT_HINT).rstrip("\n")
        how = "had already ended" if had_ended else "was stopped"
        note = f"{job.id} {how}: {job.state}, after {clock_duration(job.elapsed)}"
        lines = (output, f"[{note}]", *moved_notes(job.wrapped))
        return ToolResult("\n".join(filter(None, lines)), Note(note, job.ended))


def _quote_input(text: str) -> str:
    """Quote typed text on one line, with control characters as ^C."""
    quoted = json.dumps(text, ensure_ascii=False)
    return re.sub(_CONTROL, lambda found: f"{found[1]}^{chr(int(found[2], 16) + 64)}", quoted)


def _compile(text: str | None) -> re.Pattern[str] | None:
    try:
        return re.compile(text) if text else None
    except re.error as error:
        raise ToolError(f"The filter is not a valid regex: {error}. Escape literal ( ) [ ] with a backslash.") from None


def _filter_lines(buffer: HeadTail, pattern: re.Pattern[str], ctx: ToolContext) -> HeadTail:
    """Return the matching lines of an output; all of it is searched if it was spilled to a file."""
    found = ctx.result_buffer()
    for raw in buffer.lines(_MAX_LINE_BYTES):
        line = sanitize_output(raw.decode("utf-8", "replace"))
        if pattern.search(line.rstrip("\n")):
            found.feed(f"{line.rstrip(chr(10))}\n".encode("utf-8", "replace"))
    found.close()
    return found
