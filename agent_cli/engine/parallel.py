"""Run read-only calls in parallel before their turn comes; results and events keep the order of the calls.

Files are read, pages fetched, and commands run that only read and leave the directory of the next one as it is. Each
has a context of its own, so nothing that one learns or changes reaches another.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
from threading import Event as Flag
from threading import Thread
from typing import Any

from agent_cli.core.decisions import Level
from agent_cli.engine.turn import Turn
from agent_cli.engine.types import CheckedCall, PreparedCall
from agent_tools.base import AskModel, Effect, Progress, ToolContext, ToolResult
from agent_tools.cancel import CancelledError

WORKERS = 4
# Parts of a call's progress that wait to be shown; the oldest are dropped.
_SHOWN = 200
# Seconds that an interrupted command has to end and hand in its output.
_GRACE = 2.0


class PrefetchedCall:
    """A call that runs in another thread, up to its end or its first question to a model.

    It runs in a nested context, so files it reads count as read only when its turn comes. signature: what its result
    depends on, taken before it ran.
    """

    def __init__(self, item: PreparedCall, context: ToolContext, signature: object) -> None:
        self.item = item
        self.signature = signature
        self._shared = context
        self._own = context.for_call()
        self._forget = context.cancel.on_cancel(lambda: self._own.cancel.cancel(context.cancel.reason))
        self._before = dict(context.seen)
        self._own.seen = dict(context.seen)
        self._own.plan = context.plan
        self._done = Flag()
        self._steps: deque[Progress] = deque(maxlen=_SHOWN)
        self._rest: Generator[Any, Any, ToolResult] | None = None
        self._ask: AskModel | None = None
        self._end: ToolResult | Exception | None = None

    def work(self) -> None:
        """Run the call in the current thread."""
        try:
            self._own.cancel.check()
            outcome = self.item.tool.run(self.item.args, self._own)
            self._end = outcome if isinstance(outcome, ToolResult) else self._advance(outcome)
        except Exception as error:  # noqa: BLE001 - raised again where the call's turn comes
            self._end = error
        finally:
            self._done.set()
            self._forget()

    def abandon(self) -> None:
        """End the call; nobody waits for its result."""
        self._own.cancel.cancel()

    def _advance(self, steps: Generator[Any, Any, ToolResult]) -> ToolResult | None:
        while True:
            try:
                step = next(steps)
            except StopIteration as stop:
                result: ToolResult = stop.value
                return result
            if isinstance(step, AskModel):
                self._ask, self._rest = step, steps
                return None
            self._steps.append(step)

    def outcome(self) -> Generator[Any, Any, ToolResult]:
        """Yield, return or raise what the tool did. Raises CancelledError while waiting."""
        while not self._done.wait(0.05):
            yield from self._new_steps()
            if self._shared.cancel.cancelled:
                # A command hands in the output it had.
                if self.item.tool.command_argument and self._done.wait(_GRACE):
                    break
                raise CancelledError
        yield from self._new_steps()
        try:
            if self._rest is not None:
                return (yield from _continue_steps(self._rest, (yield self._ask)))
            if isinstance(self._end, Exception):
                raise self._end
            assert self._end is not None
            return self._end
        finally:
            learned = {p: mark for p, mark in self._own.seen.items() if self._before.get(p) != mark}
            self._shared.seen.update(learned)

    def _new_steps(self) -> Generator[Progress, None, None]:
        while self._steps:
            yield self._steps.popleft()


def _continue_steps(steps: Generator[Any, Any, ToolResult], answer: Any) -> Generator[Any, Any, ToolResult]:
    while True:
        try:
            step = steps.send(answer)
        except StopIteration as stop:
            result: ToolResult = stop.value
            return result
        answer = yield step


def is_parallel_safe(turn: Turn, item: CheckedCall) -> bool:
    """Return True if the call only reads, is allowed without a question, and is not a known repeat."""
    return (
        not isinstance(item, str)
        and item.tool.may_run_in_parallel(item.args)
        and item.decision.level is Level.ALLOW
        and all(_is_read(turn, effect) for effect in item.effects)
        and turn.repeats.unchanged(item) is None
    )


def _is_read(turn: Turn, effect: Effect) -> bool:
    return effect.kind in ("read", "fetch") or (effect.kind == "run" and turn.deps.policy.is_pure_read(effect.target))


def start_parallel(turn: Turn, items: Sequence[PreparedCall]) -> dict[str, PrefetchedCall]:
    """Start the calls in a few threads; return them by call id."""
    context = turn.deps.context
    begun = [PrefetchedCall(item, context, turn.repeats.signature(item)) for item in items]
    waiting = deque(begun)

    def worker() -> None:
        while not context.cancel.cancelled:
            try:
                next_one = waiting.popleft()
            except IndexError:
                return
            next_one.work()

    for _ in range(min(WORKERS, len(begun))):
        Thread(target=worker, daemon=True).start()
    return {b.item.call.id: b for b in begun}
