"""The command of the setting `after_turn`, which runs when a turn that changed files is about to end.

A failure goes back to the model, a limited number of times; then the turn ends with a warning.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from agent_cli.core.events import Event, HookFinished, HookStarted, Warned
from agent_cli.core.results import Check
from agent_cli.engine.turn import Turn
from agent_tools.base import Steps
from agent_tools.cancel import CancelledError
from agent_tools.lazy import lazy_imports
from agent_tools.requirements import find_bash
from agent_tools.shell.state import ShellState, command_env
from agent_tools.text import HeadTail, counted, shorten

if TYPE_CHECKING:
    from agent_tools.shell.process import ExitInfo

with lazy_imports():
    from agent_cli.engine import checks
    from agent_tools.shell import process

_HEAD_CHARS, _TAIL_CHARS = 2_000, 6_000
_NAME = "after_turn"


def run_command(turn: Turn) -> Generator[Event, None, str | None]:
    """Run the command; return a message for the model if it fails, None if the turn may end. Raises CancelledError."""
    command, times = turn.options.after_turn, turn.nudges.get(_NAME, 0)
    if _passed_already(turn, command):
        return None
    yield HookStarted(f"{_NAME}-{times + 1}", _NAME, _NAME, command)
    try:
        ending, output = _run(turn, command)
    except OSError as error:
        yield Warned(f"after_turn: `{shorten(command)}` could not be started: {error.strerror or error}.")
        return None
    code = ending.code if ending.cause == "exit" else None
    outcome = "cancelled" if code is None else "success" if code == 0 else "error"
    how = "" if code == 0 else _describe_end(ending)
    yield HookFinished(
        _NAME, command, code, round(ending.seconds * 1000), f"{_NAME}-{times + 1}", _NAME, "after_turn",
        outcome,  # type: ignore[arg-type]
        how, output[-4_000:],
    )  # fmt: skip
    if ending.cause == "interrupted":
        raise CancelledError
    turn.checks.last, turn.checks.changed_since = _check_result(turn, command, code), False
    turn.nudges["verify"] = 1
    if code == 0:
        return None
    if times >= turn.options.after_turn_tries:
        yield Warned(
            f"after_turn: `{shorten(command)}` still {how}; it went back to the model {counted(times, 'time')}."
        )
        return None
    turn.nudges[_NAME] = times + 1
    return (
        f"<hook_feedback>\nFiles were changed in this turn, so `{command}` was run. It {how}:\n\n{output}\n\n"
        "Fix what it found. If that cannot be done here, say plainly why.\n</hook_feedback>"
    )


def _check_result(turn: Turn, command: str, code: int | None) -> Check:
    """Return the command as a check of the work: judged by its exit code, unless a check in it can fail unnoticed."""
    line = " ".join(command.split())[: checks.MAX_COMMAND_CHARS]
    return checks.evaluate_check(command, code, more=turn.deps.verify) or Check(line, code)


def _passed_already(turn: Turn, command: str) -> bool:
    """Return True if the model itself ran the same command, it passed, and nothing changed since."""
    last, line = turn.checks.last, " ".join(command.split())
    # Of a longer command only the beginning is recorded, which another one may share.
    same = last is not None and last.passed and len(line) < checks.MAX_COMMAND_CHARS and last.command == line
    return same and not turn.checks.changed_since


def _run(turn: Turn, command: str) -> tuple[ExitInfo, str]:
    """Run the command in the workspace root. Raises OSError."""
    context = turn.deps.context
    bash = find_bash(context)
    if bash is None:
        raise OSError("there is no bash")
    env, _ = command_env(context)
    output_buffer = HeadTail(_HEAD_CHARS, _TAIL_CHARS)
    argv = [bash, "--noprofile", "--norc", "-c", command]
    env = context.state(ShellState).applied(env)
    seconds = turn.options.after_turn_timeout
    running = process.run_process(argv, context.workspace.root, env, seconds, context.cancel, output_buffer)
    return Steps(running).finish(), output_buffer.text("run it to see all").strip("\n")


def _describe_end(ending: ExitInfo) -> str:
    if ending.cause == "time-out":
        return f"was ended after {ending.seconds:.0f} s"
    if ending.cause == "interrupted":
        return "was interrupted"
    return f"was ended by signal {-ending.code}" if ending.code < 0 else f"failed with exit code {ending.code}"
