"""Bash: one command in a fresh shell."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from typing import TYPE_CHECKING, Annotated

from agent_tools.base import Effect, Progress, Tool, ToolContext, ToolError, ToolResult
from agent_tools.clipping import HeadTail, one_line, shorten
from agent_tools.display import CommandOutput
from agent_tools.shell_env import command_env
from agent_tools.values import Value

if TYPE_CHECKING:
    from agent_tools.process import Ending

SECONDS = 120.0
LONGEST = 600.0
_HINT = "run it again with its output in a file (> FILE 2>&1), then Read or Grep that"


class BashArgs(Value):
    """The arguments of Bash."""

    command: Annotated[str, "The command"]
    description: Annotated[str | None, "What it does, in 5-10 words"] = None
    timeout: Annotated[int | None, "Milliseconds (default 120000, at most 600000)"] = None


class Bash(Tool[BashArgs]):
    """Runs a command in a fresh bash without start-up files, in the working directory."""

    name = "Bash"
    Args = BashArgs

    def available(self, ctx: ToolContext) -> bool:
        return find_bash(ctx) is not None

    def effects(self, args: BashArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        return (Effect("run", args.command),)

    def summary(self, args: BashArgs, ctx: ToolContext) -> str:
        return f"Run: {shorten(args.command, 200)}"

    def run(self, args: BashArgs, ctx: ToolContext) -> Generator[Progress, None, ToolResult]:
        # With subprocess; a run without commands needs neither.
        from agent_tools.process import run_process

        bash = find_bash(ctx)
        if bash is None:
            raise ToolError("There is no bash on this machine, so commands cannot be run.")
        if not args.command.strip() or "\0" in args.command:
            raise ToolError("The command is empty." if not args.command.strip() else "The command contains a NUL.")
        seconds = time_limit(args.timeout, ctx)
        env, withheld = command_env(ctx)
        kept = HeadTail()
        ctx.cancel.check()
        argv = [bash, "--noprofile", "--norc", "-c", args.command]
        try:
            running = run_process(argv, ctx.workspace.cwd, env, seconds, ctx.cancel, kept)
            try:
                while True:
                    yield Progress(next(running))
            except StopIteration as stop:
                ending: Ending = stop.value
            finally:
                running.close()
        except (OSError, ValueError) as error:
            raise _not_started(error, ctx) from None
        output = kept.text(_HINT).rstrip("\n")
        note = _note(ending, seconds)
        failed = ending.code != 0 or ending.cause != "exit"
        text = "\n".join(filter(None, (output or "(no output)", f"[{note}]")))
        if failed and ending.cause == "exit" and withheld:
            text += f"\n[withheld from commands because they look like keys: {', '.join(withheld)}]"
        code = ending.code if ending.code >= 0 and ending.cause == "exit" else None
        return ToolResult(text, CommandOutput(args.command, output, code, round(ending.seconds, 3), note), failed)


def find_bash(ctx: ToolContext) -> str | None:
    """The first bash on the PATH of commands, else the system's."""
    places = [p for p in ctx.env.get("PATH", "").split(os.pathsep) if p.startswith("/")]
    return next((b for p in [*places, "/bin", "/usr/bin"] if os.access(b := f"{p}/bash", os.X_OK)), None)


def time_limit(milliseconds: int | None, ctx: ToolContext) -> float:
    """The seconds a command may take: as asked, or the setting `shell_timeout`, or two minutes."""
    usual = float(ctx.settings.get("shell_timeout") or SECONDS)
    if milliseconds is None:
        return usual
    if milliseconds <= 0:
        raise ToolError("timeout is in milliseconds and must be positive.")
    return min(milliseconds / 1000, max(LONGEST, usual))


def _note(ending: Ending, limit: float) -> str:
    took = f"{ending.seconds:.1f} s" if ending.seconds >= 0.1 else f"{ending.seconds * 1000:.0f} ms"
    if ending.cause == "time-out":
        return (
            f"timed out after {limit:g} s; the command and its children were ended. Give a longer timeout, or do less"
        )
    if ending.cause == "interrupted":
        return f"interrupted by the user after {took}; the command and its children were ended"
    if ending.code < 0:
        name = signal.Signals(-ending.code).name if -ending.code in set(signal.Signals) else "a signal"
        said = f"ended by {name} (signal {-ending.code}), {took}"
    else:
        said = f"exit code {ending.code}, {took}"
    return f"{said}; something it started still runs in the background" if ending.left else said


def _not_started(error: OSError | ValueError, ctx: ToolContext) -> ToolError:
    if isinstance(error, OSError) and error.errno == 7:
        return ToolError("The command is too long for the system. Write it to a script file and run that.")
    if not ctx.workspace.cwd.is_dir():
        return ToolError(f"The working directory {one_line(str(ctx.workspace.cwd))} does not exist any more.")
    return ToolError(f"The command could not be started: {error}")
