"""Contain unexpected exceptions while a call is checked, asked about or run: the call fails, the session continues.

The model reads a sentence, the user is warned, and a crash report has the traceback.
"""

from __future__ import annotations

from collections.abc import Generator

from agent_cli.core.events import Event, ToolFinished, Warned
from agent_cli.core.messages import ToolCall, pending_calls
from agent_cli.engine.turn import Turn, TurnDeps


def report_failure(deps: TurnDeps, doing: str, error: Exception) -> Generator[Event, None, str]:
    """Warn the user of an exception; return a sentence about it for the model.

    Call this while the exception is being handled.
    doing: what failed, as in "checking Read".
    """
    what = f"{doing[:1].upper()}{doing[1:]} failed: {error_sentence(error)}"
    where = deps.report(error)
    yield Warned(f"{what} This is an internal error{f', described in {where}' if where else ''}.")
    return what


def close_call(turn: Turn, call: ToolCall, text: str, *, last: bool) -> Generator[Event, None, None]:
    """Add a call's one result if it has none yet, and end it on the screen."""
    turn.budget.called(failed=True)
    if any(waiting.id == call.id for waiting in pending_calls(turn.history)):
        yield from turn.answer(call, text, is_error=True, last=last)
    else:
        yield ToolFinished(call.id, call.name, True, 0)


def error_sentence(error: Exception) -> str:
    """Return the exception's message as a sentence."""
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    else:
        text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return text if text.endswith((".", "!", "?")) else f"{text}."
