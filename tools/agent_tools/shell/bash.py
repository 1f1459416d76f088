"""The Bash tool: run a command in a fresh shell, in the foreground or the background."""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Generator
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, ClassVar

from agent_tools.base import Effect, Progress, Steps, Tool, ToolContext, ToolError, ToolResult
from agent_tools.fs import read_state
from agent_tools.fs.workspace import real_path
from agent_tools.lazy import lazy_imports
from agent_tools.record import Value
from agent_tools.requirements import find_bash
from agent_tools.results import CommandOutput, ExpandedPrompt, Note
from agent_tools.sandbox.conditions import OUTSIDE_SANDBOX, RunConditions, Wrapped, unconfined
from agent_tools.sandbox.runner import SandboxRunner
from agent_tools.shell.jobs import (
    STRAYS_LEFT,
    Job,
    Jobs,
    ended_note,
    format_duration,
    format_exit,
    format_rest,
    moved_notes,
)
from agent_tools.shell.state import (
    ENV_PASS_NOTE,
    MAX_EXPORT_CHARS,
    WITHHELD_NOTE,
    ReportChannel,
    ShellState,
    command_env,
    imposed,
    parse_exports,
    suspected_secrets,
)
from agent_tools.text import HeadTail, one_line, shorten

if TYPE_CHECKING:
    from agent_tools.sandbox.temporary import TemporaryFiles
    from agent_tools.shell.process import ExitInfo, RunningProcess

with lazy_imports():
    from agent_tools.sandbox import denials
    from agent_tools.shell import missing, process, shown_files

DEFAULT_TIMEOUT_SECONDS = 120.0
MAX_TIMEOUT_SECONDS = 600.0
# Seconds to wait for the first output of a background command.
BACKGROUND_WAIT_SECONDS = 0.5
# Seconds to wait for the first output of a command with a terminal.
TERMINAL_WAIT_SECONDS = 5.0
# Longer lines are examined in pieces.
_MAX_LINE_BYTES = 10_000
# Variables named in a note.
_MAX_NAMED = 5
_CONFINED_NOTE = (
    "[exported variables carry over to commands in the sandbox only; for one that runs outside, set them in the same "
    "command]"
)
OUTPUT_HINT = "run it again with its output in a file (> FILE 2>&1), then read or search that file"


class BashArgs(Value):
    """The arguments of Bash."""

    ALIASES: ClassVar = {
        "command": ("cmd", "shell_command"),
        "timeout": ("timeout_ms",),
        "run_in_background": ("background", "is_background"),
    }

    command: Annotated[str, "The command"]
    description: Annotated[str | None, "What it does, in 5-10 words"] = None
    timeout: Annotated[int | None, "Milliseconds (default 120000, at most 600000)"] = None
    run_in_background: Annotated[bool, "Return at once; see BashOutput"] = False
    pty: Annotated[bool, "In a terminal; see BashInput"] = False
    dangerouslyDisableSandbox: Annotated[bool, "Only if the sandbox refused it"] = False  # noqa: N815 - a known name


class Bash(Tool[BashArgs]):
    """Runs a command in a fresh bash without startup files, in the working directory."""

    name = "Bash"
    Args = BashArgs
    small_arguments = ("command",)
    example: ClassVar = {"command": "echo hello"}
    command_argument = "command"
    repeatable = True
    editable = "command"
    editable_in_line = True
    rule_names = "command"
    rule_covers = ("run",)
    needs = "bash"

    def effects(self, args: BashArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        try:
            os.fsencode(args.command)
        except UnicodeEncodeError:
            raise ToolError(
                "The command contains half a surrogate pair, which is not a character. Remove it."
            ) from None
        outside = (
            (Effect("call", OUTSIDE_SANDBOX),)
            if args.dangerouslyDisableSandbox and ctx.supplied(SandboxRunner) is not None
            else ()
        )
        return (Effect("run", args.command), *outside)

    def summary(self, args: BashArgs, ctx: ToolContext) -> str:
        how = " in a terminal" if args.pty else " in the background" if args.run_in_background else ""
        if args.dangerouslyDisableSandbox and ctx.supplied(SandboxRunner) is not None:
            how += f" {OUTSIDE_SANDBOX}"
        return f"Run{how}: {shorten(_on_one_line(args.command), 200)}"

    def may_run_in_parallel(self, args: BashArgs) -> bool:
        return not args.run_in_background and not args.pty

    def run(self, args: BashArgs, ctx: ToolContext) -> Generator[Progress, None, ToolResult]:
        bash = find_bash(ctx)
        if bash is None:
            raise ToolError("Commands cannot run: there is no bash on this machine.")
        if not args.command.strip() or "\0" in args.command:
            raise ToolError("The command is empty." if not args.command.strip() else "The command contains a NUL.")
        argv = [bash, "--noprofile", "--norc", "-c", args.command]
        seconds = time_limit(args, ctx)
        ctx.cancel.check()
        moved = ensure_working_directory(ctx)
        if (temporary := _temporary_files(args.command, ctx)) is not None:
            temporary.name_in(args.command)
        try:
            if args.run_in_background or args.pty:
                result = yield from _run_background(argv, args, seconds, ctx)
            else:
                result = yield from _run_foreground(argv, args, seconds, ctx)
        except (OSError, ValueError) as error:
            raise _start_error(error, ctx) from None
        return result.replace(text=f"{result.text}\n{moved}") if moved else result


def _run_foreground(
    argv: list[str], args: BashArgs, seconds: float, ctx: ToolContext
) -> Generator[Progress, None, ToolResult]:
    base, withheld = command_env(ctx)
    buffer, began_in, began = ctx.result_buffer(), ctx.workspace.cwd, time.time()
    channel: ReportChannel | None = None
    job: Job | None = None
    # Without a free descriptor, nothing carries over.
    with suppress(OSError):
        channel = ReportChannel()
    try:
        conditions = ctx.run_conditions(args.command)
        inside = _is_inside(args, ctx, conditions)
        env = ctx.state(ShellState).applied(base, inside=inside) | (channel.env if channel else {})
        wrapped = _wrap(argv, args, env | conditions.env, ctx, conditions)

        def hand_over(running: RunningProcess, started: float) -> bool:
            nonlocal job
            job = ctx.state(Jobs).adopt(running, args.command, started, ctx.owner, wrapped)
            return job is not None

        offered = ctx.workspace.offered("BashOutput")
        try:
            imposed_names = imposed(env, wrapped.env)
            inherited = (*((channel.fd,) if channel else ()), *wrapped.pass_fds)
            running = process.run_process(
                wrapped.argv,
                ctx.workspace.cwd,
                wrapped.env,
                seconds,
                ctx.cancel,
                buffer,
                inherited,
                hand_over if may_continue(ctx) else None,
                keep=hand_over if offered else None,
                report=wrapped.left,
            )
            steps = Steps(running)
            try:
                for text in steps:
                    yield Progress(text)
            finally:
                running.close()
            ending = steps.result.replace(code=wrapped.code(steps.result.code))
        finally:
            if job is None:
                wrapped.close()
        if (temporary := _temporary_files(args.command, ctx)) is not None:
            temporary.name_in(args.command)
        carried = _confined_variables(ctx, inside=inside)
        if channel and ending.cause == "exit":
            carried += carry_over(channel, base, imposed_names, ctx, inside=inside)
    finally:
        buffer.close()
        if channel:
            channel.close()
    if job is not None and ending.cause == "time-out":
        return _moved_to_background(job, buffer.text(OUTPUT_HINT).rstrip("\n"), conditions, ctx)
    failed = ending.cause != "exit" or (ending.code != 0 and not process.is_result_code(args.command, ending.code))
    output = buffer.text(OUTPUT_HINT, failed=failed).rstrip("\n")
    if not failed:
        shown_files.mark_printed(args.command, began_in, began, output, ctx)
    read_state.note_shown(output, args.command, began, ctx)
    note = _exit_note(ending, seconds, ctx, job)
    lines = [output or "(no output)", f"[{note}]", *carried]
    if job is not None:
        _open_ports(job, conditions, ctx)
        lines += filter(None, closed_ports(job, ctx)[:1])
    lines += _sandbox_notes(wrapped, buffer, ending, ctx, conditions, failed=failed)
    moved = moved_notes(wrapped)
    lines += moved
    if failed and ending.cause == "exit":
        lines += filter(None, [missing.missing_note(output, ctx)])
    if failed and ending.cause == "exit" and (names := suspected_secrets(args.command, output, withheld)):
        lines += filter(None, [ctx.once(f"[{WITHHELD_NOTE}: {', '.join(names)}; {ENV_PASS_NOTE}]")])
    code = ending.code if ending.code >= 0 and ending.cause == "exit" else None
    pipe = channel.pipe if channel else ()
    shown = "; ".join((note, *(line.strip("[]") for line in moved[:-1])))
    display = CommandOutput(args.command, output, code, round(ending.seconds, 3), shown, pipe)
    return ToolResult("\n".join(lines), display, failed)


def _run_background(
    argv: list[str], args: BashArgs, seconds: float, ctx: ToolContext
) -> Generator[Progress, None, ToolResult]:
    base, _ = command_env(ctx)
    conditions = ctx.run_conditions(args.command)
    env = ctx.state(ShellState).applied(base, inside=_is_inside(args, ctx, conditions)) | conditions.env
    if args.pty:
        env["TERM"] = "xterm"
        wrapped = _wrap_with_terminal(argv, args, env, ctx, conditions)
    else:
        wrapped = _wrap(argv, args, env, ctx, conditions)
    try:
        job = ctx.state(Jobs).start(
            argv,
            args.command,
            ctx.workspace.cwd,
            env,
            seconds,
            ctx.owner,
            wrapped,
            terminal=args.pty,
        )
    except BaseException:  # the caller reports the error
        wrapped.close()
        raise
    _open_ports(job, conditions, ctx)
    job.wait_end(BACKGROUND_WAIT_SECONDS)
    if args.pty:
        job.wait_pause(ctx.cancel, TERMINAL_WAIT_SECONDS)
    buffer, ended = job.take()
    output = job.read(buffer, OUTPUT_HINT)
    if output:
        yield Progress(f"{output}\n")
    if ended:
        message = f"{job.id} has already ended: {job.state}, {format_duration(job.elapsed)}"
        shown = message
    else:
        message = f"{job.id} runs in the background{_available_tools(job, ctx)}"
        shown = f"running in background as {job.id} (/jobs)"
    failed = ended and job.state != "exit code 0"
    ports = closed_ports(job, ctx)
    message, shown = ("\n".join(filter(None, each)) for each in zip((message, shown), ports, strict=True))
    note = Note(shown, job.ended if ended else None)
    lines = (output, f"[{message}]", *moved_notes(job.wrapped))
    return ToolResult("\n".join(filter(None, lines)), note, failed)


def _moved_to_background(job: Job, output: str, conditions: RunConditions, ctx: ToolContext) -> ToolResult:
    """Return the result of a command that reached its time limit and now runs in the background."""
    _open_ports(job, conditions, ctx)
    text = f"still running after {format_duration(job.elapsed)}, now in the background as {job.id}"
    ports = closed_ports(job, ctx)
    message = "\n".join(filter(None, (f"{text}{_available_tools(job, ctx)}", ports[0])))
    shown = "\n".join(filter(None, (text, ports[1])))
    lines = (output or "(no output yet)", f"[{message}]", *moved_notes(job.wrapped))
    return ToolResult("\n".join(lines), Note(shown))


def _available_tools(job: Job, ctx: ToolContext) -> str:
    """Describe the offered tools for a background command."""
    uses = {"BashOutput": "shows its output", "KillShell": "stops it"}
    uses |= {"BashInput": "types into it"} if job.terminal else {}
    named = ", ".join(f"{tool} {use}" for tool, use in uses.items() if ctx.workspace.offered(tool))
    return f": {named}" if named else ""


def _open_ports(job: Job, conditions: RunConditions, ctx: ToolContext) -> None:
    """Make the servers of a background command reachable from this machine, if a user or a rule allowed it."""
    sandbox = ctx.supplied(SandboxRunner)
    confined = job.wrapped is not None and job.wrapped.kind == "bubblewrap"
    if conditions.vouched and confined and sandbox is not None:
        sandbox.show_ports(lambda: job.running)
    job.vouched = conditions.vouched or not confined


def may_continue(ctx: ToolContext) -> bool:
    """Return True if a command that reaches its time limit continues in the background."""
    return ctx.workspace.offered("BashOutput")


def closed_ports(job: Job, ctx: ToolContext) -> tuple[str, str]:
    """Return a note about ports of a background command that the user cannot reach, as `Job.closed_ports` does."""
    sandbox = ctx.supplied(SandboxRunner)
    return ("", "") if job.vouched or sandbox is None else job.closed_ports(sandbox.closed_ports())


def _wrap(argv: list[str], args: BashArgs, env: dict[str, str], ctx: ToolContext, conditions: RunConditions) -> Wrapped:
    """Wrap the command for the sandbox, if it must run in one. Raises ToolError if it must not run."""
    sandbox = _sandbox_of(args, ctx, conditions)
    if conditions.read_only and sandbox is not None and not sandbox.is_boundary:
        raise ToolError("This command may run in a read-only sandbox only, and there is none.")
    if sandbox is None:
        wrapped = unconfined(argv, env)
        if (temporary := _temporary_files(args.command, ctx)) is not None:
            wrapped.on_close(temporary.follow(args.command))
        return wrapped
    return sandbox.prepare(argv, ctx.workspace.cwd, env, conditions, keep=not args.pty)


def _sandbox_of(args: BashArgs, ctx: ToolContext, conditions: RunConditions) -> SandboxRunner | None:
    """Return the sandbox that the command must run in; None if there is none, or it was allowed to leave it."""
    return None if args.dangerouslyDisableSandbox or conditions.outside else ctx.supplied(SandboxRunner)


def _is_inside(args: BashArgs, ctx: ToolContext, conditions: RunConditions) -> bool:
    """Return True if the command runs in a sandbox."""
    sandbox = _sandbox_of(args, ctx, conditions)
    return sandbox is not None and sandbox.is_active


# Opening a terminal makes it the controlling one of a session without one.
_OPEN_TERMINAL = 'T=$(tty) && exec 0<>"$T" 1>&0 2>&0; exec "$@"'


def _wrap_with_terminal(
    argv: list[str], args: BashArgs, env: dict[str, str], ctx: ToolContext, conditions: RunConditions
) -> Wrapped:
    """Wrap the command; its standard input becomes its controlling terminal, so that Ctrl-C reaches it."""
    sandbox = _sandbox_of(args, ctx, conditions)
    if sandbox is not None and sandbox.is_boundary:
        # Inside, the command does not lead its session and cannot see the device.
        setsid = next((path for path in ("/usr/bin/setsid", "/bin/setsid") if os.access(path, os.X_OK)), "")
        return _wrap([setsid, "-c", "-w", *argv] if setsid else argv, args, env, ctx, conditions)
    wrapped = _wrap(argv, args, env, ctx, conditions)
    wrapped.argv = [argv[0], "--noprofile", "--norc", "-c", _OPEN_TERMINAL, "bash", *wrapped.argv]
    return wrapped


def _sandbox_notes(
    wrapped: Wrapped, buffer: HeadTail, ending: ExitInfo, ctx: ToolContext, conditions: RunConditions, *, failed: bool
) -> list[str]:
    """Return notes on how the sandbox affected the result of a command."""
    sandbox = ctx.supplied(SandboxRunner)
    if sandbox is None:
        return []
    hosts = sandbox.refused() if wrapped.kind != "none" else ()
    output = (line.decode("utf-8", "replace") for line in buffer.lines(_MAX_LINE_BYTES))
    text = (
        denials.explain_refusal(
            wrapped.kind,
            output,
            ending.code,
            network=conditions.network,
            hosts=hosts,
            hides=sandbox.hides,
            was_there_before=sandbox.was_there_before,
            masked=conditions.masked if wrapped.kind == "bubblewrap" else (),
        )
        if ending.cause == "exit"
        else ""
    )
    if conditions.read_only and text:
        text = f"[{conditions.stopped()}]"
    if failed and not text and (note := denials.mask_note(conditions.masked)):
        text = ctx.once(note)
    return [line for line in (text, sandbox.shortfall()) if line]


def time_limit(args: BashArgs, ctx: ToolContext) -> float:
    """Return the time limit in seconds: the argument, or in the foreground the setting `shell.timeout`.

    A command with a terminal has none: it waits for input, which may wait for the user's approval.
    """
    default = _default_limit(ctx)
    if args.timeout is not None and args.timeout <= 0:
        raise ToolError("timeout is in milliseconds and must be positive.")
    if args.pty:
        return math.inf
    if args.timeout is None:
        return math.inf if args.run_in_background else default
    return (
        args.timeout / 1000 if args.run_in_background else min(args.timeout / 1000, max(MAX_TIMEOUT_SECONDS, default))
    )


def _default_limit(ctx: ToolContext) -> float:
    return float(ctx.settings.get("shell_timeout") or DEFAULT_TIMEOUT_SECONDS)


def ensure_working_directory(ctx: ToolContext) -> str:
    """If the working directory was removed, go back to the root of the workspace; return a note about it, or ""."""
    gone = ctx.workspace.cwd
    # A command in the sandbox may have replaced a temporary one by a link.
    usable = gone.is_dir() and (real_path(gone) == str(gone) or ctx.workspace.may_work_in(gone))
    if usable or not ctx.workspace.root.is_dir():
        return ""
    ctx.workspace.cwd = ctx.workspace.root
    return f"[{one_line(str(gone))} no longer exists: this ran in {one_line(str(ctx.workspace.cwd))}]"


def _temporary_files(command: str, ctx: ToolContext) -> TemporaryFiles | None:
    """Return the temporary files that the session shares with commands in the sandbox, if this one may use them."""
    sandbox = ctx.supplied(SandboxRunner)
    return sandbox.temporary_files_for(command) if sandbox is not None else None


def _confined_variables(ctx: ToolContext, *, inside: bool) -> list[str]:
    """Return a note for the model on the variables that a command did not get, because it ran outside the sandbox."""
    names = [] if inside else sorted(ctx.state(ShellState).confined)
    listed = ", ".join(names[:_MAX_NAMED]) + (f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else "")
    there = "does not have the value" if len(names) == 1 else "do not have the values"
    return (
        [
            f"[this command ran outside the sandbox: {listed} {there} there that a command in the sandbox gave. If "
            "they matter, set them in this command.]"
        ]
        if names
        else []
    )


def carry_over(
    channel: ReportChannel, base: dict[str, str], imposed_names: frozenset[str], ctx: ToolContext, *, inside: bool
) -> list[str]:
    """Carry over the directory and exported variables of a command; return notes for the model.

    imposed_names: variables that were set by the program for this command only.
    inside: the command ran in the sandbox.
    """
    data = channel.read()
    if not data or (data, imposed_names, inside) == ctx.state(ShellState).known:
        return []
    where, exported = parse_exports(data)
    before = ctx.workspace.cwd
    lines = []
    if not ctx.state(ShellState).learn(exported, base, imposed_names, inside=inside):
        lines.append(f"[exported variables not carried over: more than {MAX_EXPORT_CHARS:,} characters]")
    elif where == before:
        ctx.state(ShellState).known = (data, imposed_names, inside)
    if inside and ctx.state(ShellState).confined:
        lines += filter(None, [ctx.once(_CONFINED_NOTE)])
    if where == before:
        return lines
    if where is not None and ctx.workspace.may_work_in(where):
        ctx.workspace.cwd = where
        return [*lines, f"[working directory now: {one_line(str(where))}]"]
    if not before.is_dir():
        ctx.workspace.cwd = ctx.workspace.root
    if where is not None and where.is_dir():
        why = f"{one_line(str(where))} is outside the workspace; use absolute paths there"
    else:
        why = "the directory it ended in no longer exists"
    return [*lines, f"[the next command starts in {one_line(str(ctx.workspace.cwd))} again: {why}]"]


def _exit_note(ending: ExitInfo, limit: float, ctx: ToolContext, job: Job | None) -> str:
    if ending.cause == "time-out":
        text = f"timed out after {limit:g} s; the command and its children were killed"
        if may_continue(ctx) and (full := ctx.state(Jobs).full()):
            return f"{text}, as {full}: stop one that is no longer needed"
        longest = max(MAX_TIMEOUT_SECONDS, _default_limit(ctx))
        longer = f"Give a longer timeout (at most {longest * 1000:.0f} ms), or run" if limit < longest else "Run"
        return f"{text}. {longer} a smaller part of it at a time"
    if ending.cause == "interrupted":
        return f"{ctx.cancel.reason} after {format_duration(ending.seconds)}; the command and its children were killed"
    text = f"{format_exit(ending)}, {format_duration(ending.seconds)}"
    if job is not None:
        rest = f" ({format_rest(ending)})" if ending.rest else ""
        return f"{text}; what it left running{rest} is now {job.id} in the background{_available_tools(job, ctx)}"
    return f"{text}; {STRAYS_LEFT}" if ending.left else f"{text}{ended_note(ending)}"


def _start_error(error: OSError | ValueError, ctx: ToolContext) -> ToolError:
    if isinstance(error, OSError) and error.errno == 7:
        return ToolError("The command is too long for the system. Write it to a script file and run that.")
    if not ctx.workspace.cwd.is_dir():
        return ToolError(f"The working directory {one_line(str(ctx.workspace.cwd))} no longer exists.")
    return ToolError(f"The command could not be started: {error}")


def expand_prompt(prompt: ExpandedPrompt, ctx: ToolContext) -> Generator[Progress, None, str]:
    """Fill in the output of a prompt's commands, which the caller has checked against permissions.

    Raises ToolError, CancelledError.

    A command that fails is not an error: the model reads its output and exit code.
    """
    outputs = []
    for command in prompt.commands:
        result = yield from Bash().run(BashArgs(command), ctx.nested())
        shown = result.display
        if not isinstance(shown, CommandOutput):
            outputs.append(result.text)
        elif shown.exit_code == 0:
            outputs.append(shown.output or "(no output)")
        else:
            outputs.append(f"{shown.output}\n[{shown.note}]".strip())
    return prompt.text(outputs)


def _on_one_line(command: str) -> str:
    """Return a command with the text of its here-documents left out and its line breaks as signs."""
    if "\n" not in command:
        return command
    here = r"(<<-?\s*(['\"]?)(\w+)\2[^\n]*)\n.*?\n[ \t]*\3(?=\n|$)"
    return re.sub(r"\s*\n\s*", " ⏎ ", re.sub(here, r"\1 …", command, flags=re.DOTALL).strip())
