"""Run read-only sub-agents of one answer in parallel, a thread each; the parent's generator yields all their events.

A sub-agent continues once its event was handled, so every event is in the log before anything follows from it. Its
questions are put by the parent's thread, one after another; the others then wait at their next event. What they spend
counts against the limits of all of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from functools import cache
from queue import Empty, SimpleQueue
from threading import Event as Flag
from threading import Thread
from time import monotonic
from typing import Any

from agent_cli.core.decisions import Level
from agent_cli.core.events import Event, ToolStarted
from agent_cli.core.results import Suspended, TurnResult
from agent_cli.engine.limits import Budget
from agent_cli.engine.subagents import NestedTurn, agent_type, offers
from agent_cli.engine.turn import Turn
from agent_cli.engine.types import CheckedCall, ModelHandle, PreparedCall
from agent_cli.providers.base import ModelError
from agent_tools.base import ToolError, ToolResult
from agent_tools.cancel import CancelledError

# Seconds that interrupted sub-agents have to end.
_GRACE = 5.0


class _Question:
    """A question of a sub-agent to the user, and its answer."""

    def __init__(self, ask: Callable[[Any], Any], about: Any) -> None:
        self._ask, self._about = ask, about
        self.answer: Any = None
        self.error: BaseException | None = None

    def put(self) -> None:
        try:
            self.answer = self._ask(self._about)
        except Exception as error:  # noqa: BLE001 - raised again in the thread that asked
            self.error = error


class _Done:
    """A sub-agent has ended."""


class _Woken:
    """The work was interrupted."""


class ParallelSubagent:
    """A sub-agent that runs in a thread. signature: as for every call that began before its turn."""

    signature = None

    def __init__(self, group: SubagentGroup, item: PreparedCall, nested: NestedTurn) -> None:
        self.item = item
        self.nested = nested
        self.done = False
        self._group = group
        self._go_on = Flag()
        self._result: TurnResult | None = None
        self._error: BaseException | None = None
        deps = nested.deps
        nested.deps = deps.replace(
            approver=lambda request: self._ask(deps.approver, request),
            asker=lambda asked: self._ask(deps.asker, asked),
        )

    def work(self) -> None:
        """Run the sub-agent in the current thread."""
        run = self.nested.run()
        try:
            self._hand_over(ToolStarted(self.item.call.id, self.item.call.name))
            while not self._group.closed:
                self._hand_over(self.nested.wrap(next(run)))
        except StopIteration as stop:
            self._result = stop.value
        except BaseException as error:  # noqa: BLE001 - raised again where the call's turn comes
            self._error = error
        finally:
            run.close()
            self._group.steps.put((self, _Done()))

    def _hand_over(self, step: Event | _Question) -> None:
        """Pass a step to the parent's thread, and wait until it is handled."""
        self._go_on.clear()
        self._group.steps.put((self, step))
        if not self._group.closed:
            self._go_on.wait()

    def go_on(self) -> None:
        """Let the thread continue."""
        self._go_on.set()

    def _ask(self, ask: Callable[[Any], Any], about: Any) -> Any:
        question = _Question(ask, about)
        self._hand_over(question)
        if question.error is not None:
            raise question.error
        if self._group.closed:
            raise CancelledError
        return question.answer

    def outcome(self) -> Generator[Event, None, ToolResult | Suspended]:
        """Yield the events of all sub-agents of the group until this one has ended; return or raise its result."""
        yield from self._group.until(self)
        if self._error is not None:
            raise self._error
        if self._result is None:
            raise CancelledError
        return self.nested.end(self._result)

    def account(self, turn: Turn) -> None:
        """Add what it has spent to the parent's budget."""
        if self._result is not None:
            turn.budget.add(self.nested.deps.spent_by(self._result), self.nested.before)

    def abandon(self) -> None:
        """End the group; nobody waits for this result."""
        self._group.close()


class SubagentGroup:
    """Sub-agents that run at the same time, at most `most` of them; the others follow."""

    def __init__(self, turn: Turn, most: int) -> None:
        self.steps: SimpleQueue[tuple[ParallelSubagent | None, Event | _Question | _Done | _Woken]] = SimpleQueue()
        self.closed = False
        self.siblings: list[Budget] = []
        self.members: list[ParallelSubagent] = []
        self._turn = turn
        self._most = most
        self._waiting: deque[ParallelSubagent] = deque()

    def add(self, item: PreparedCall) -> None:
        """Add the sub-agent of a call. Raises ToolError, and ModelError if it has no connection of its own."""
        nested = NestedTurn(self._turn, item)
        deps = self._turn.deps
        if deps.open_model is not None:
            # Requests at the same time need connections of their own.
            nested.open_model(nested.kind.model or self._turn.options.label)
        nested.deps = nested.deps.replace(siblings=self.siblings, small=_own_small(self._turn))
        self.members.append(ParallelSubagent(self, item, nested))
        self._waiting.append(self.members[-1])

    def start(self) -> None:
        """Start as many threads as may run at once."""

        def worker() -> None:
            while not self.closed and not self._turn.deps.context.cancel.cancelled:
                try:
                    member = self._waiting.popleft()
                except IndexError:
                    return
                member.work()

        for number in range(min(self._most, len(self.members))):
            Thread(target=worker, name=f"sub-agent-{number + 1}", daemon=True).start()

    def until(self, member: ParallelSubagent) -> Generator[Event, None, None]:
        """Yield events until `member` has ended; after an interruption, until all have ended. Raises CancelledError."""
        cancel = self._turn.deps.context.cancel
        forget = cancel.on_cancel(lambda: self.steps.put((None, _Woken())))
        try:
            while not member.done:
                yield from self._handle(*self.steps.get())
                if cancel.cancelled:
                    yield from self._wind_up()
                    return
        finally:
            forget()

    def _wind_up(self) -> Generator[Event, None, None]:
        """Yield the last events of interrupted sub-agents, for a limited time."""
        until = monotonic() + _GRACE
        begun = [member for member in self.members if member not in self._waiting]
        while not all(member.done for member in begun) and (left := until - monotonic()) > 0:
            try:
                yield from self._handle(*self.steps.get(timeout=left))
            except Empty:
                return

    def _handle(
        self, member: ParallelSubagent | None, step: Event | _Question | _Done | _Woken
    ) -> Generator[Event, None, None]:
        if member is None or isinstance(step, _Woken):
            return
        if isinstance(step, _Done):
            member.done = True
            member.account(self._turn)
            return
        if isinstance(step, _Question):
            with self._turn.budget.waiting():
                step.put()
        else:
            yield step
        member.go_on()

    def close(self) -> None:
        """Let the threads end at their next step."""
        self.closed = True
        for member in self.members:
            member.go_on()


def may_join(turn: Turn, item: CheckedCall) -> bool:
    """Return True if the call starts, without a question, a sub-agent whose tools only read."""
    if isinstance(item, str) or not item.tool.nested or item.decision.level is not Level.ALLOW:
        return False
    try:
        kind = agent_type(turn, item.args.subagent_type)
    except ToolError:
        return False
    offered = offers(turn, kind)
    tools = [t for t in turn.deps.tools.values() if offered(t.name) and not t.ends_plan_mode]
    return all(t.parallel_safe or t.changes_plan for t in tools)


def start_subagents(turn: Turn, items: Sequence[PreparedCall]) -> dict[str, ParallelSubagent]:
    """Start the sub-agents of these calls; return them by call id. Those that cannot be prepared are left out."""
    group = SubagentGroup(turn, turn.options.max_parallel_subagents)
    for item in items:
        try:
            group.add(item)
        except (ToolError, ModelError):
            break
    if len(group.members) < 2:
        return {}
    group.start()
    return {member.item.call.id: member for member in group.members}


def _own_small(turn: Turn) -> Callable[[], ModelHandle] | None:
    """Return an opener of the small model for one sub-agent, with a connection of its own."""
    small, open_model = turn.deps.small, turn.deps.open_model
    if small is None or open_model is None:
        return small
    return cache(lambda: open_model(small().label))
