"""Sub-agents in the background: each works on a thread of its own, beside the turn that started it.

Its events are recorded and shown as they come, wrapped with its name; the parent's generator never sees them. Its
questions go to the same user. One that nobody answers suspends the sub-agent alone, and it goes on once there is an
answer. When it ends, its report is a message to the model at the next round, as for a background command.

It is paid for from the budget of the turn that started it, has the rules and the mode of the session at every moment,
and starts no sub-agents itself. A turn waits for its sub-agents before it ends, unless the front end lets them outlive
it (`outlive`). A log tells which have not ended, so another process can go on with them.
"""

from __future__ import annotations

import copy
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from agent_cli.kernel.decisions import Decision, Defer, Level
from agent_cli.kernel.engine.subagents import NestedTurn, SubagentQuestion, agent_type, separate_small_model
from agent_cli.kernel.engine.types import NestedState, PreparedCall, ToolTable
from agent_cli.kernel.events import (
    ApprovalRequested,
    Event,
    MessageAdded,
    QuestionAsked,
    SubagentEvent,
    TurnFinished,
    Warned,
)
from agent_cli.kernel.messages import Message, ToolCall, agent_report
from agent_cli.kernel.results import Denial, Diagnostics, Spent, Suspended, TurnResult, Usage
from agent_cli.models.base import ModelError
from agent_tools.base import ToolContext, ToolError, ToolResult
from agent_tools.cancel import CancelledError, CancelToken
from agent_tools.task import TaskArgs

if TYPE_CHECKING:
    from agent_cli.kernel.engine.progress import Budget
    from agent_cli.kernel.engine.turn import Turn
    from agent_cli.kernel.engine.types import ConversationState

MAX_AT_ONCE = 4
_POLL_SECONDS = 0.1
# How long those that are stopped have to end.
_GRACE_SECONDS = 5.0
STARTED = (
    "Started in the background as {name}. Its report comes as a message by itself: continue with other work, or end "
    "your answer. Do not guess what it will say."
)
State = Literal["running", "waiting", "stopped", "ended"]


class BackgroundAgent:
    """A sub-agent in the background.

    kind: its type. state: "waiting" until the user answers; "stopped" before it begins, or goes on in another process.
    asked: its open questions, by call. inbox: messages for its next round.
    text: its report, once it has ended. reported: the model has it.
    changed: it changed files.
    """

    def __init__(self, name: str, kind: str, item: PreparedCall) -> None:
        self.name, self.kind, self.item = name, kind, item
        self.state: State = "stopped"
        self.asked: dict[str, ApprovalRequested | QuestionAsked] = {}
        self.inbox: list[str] = []
        self.missed: tuple[Message, ...] = ()
        self.text = ""
        self.reported = self.changed = False
        self.usage = Usage()
        self.denials: tuple[Denial, ...] = ()
        self.seconds = 0.0
        self.siblings: list[Budget] | None = None
        self.before = Spent()
        self.cancel = CancelToken()
        self.thread: threading.Thread | None = None
        self.began = time.monotonic()

    @property
    def task(self) -> str:
        """Its task in a few words, on one line."""
        return " ".join(self.item.args.description.split())

    @property
    def open(self) -> bool:
        return self.state != "ended"

    def take(self) -> list[str]:
        """Return the messages for its next round."""
        texts = []
        while self.inbox:
            texts.append(self.inbox.pop(0))
        return texts


class BackgroundAgents:
    """The sub-agents in the background of a conversation, by name.

    outlive: turns end while they work. on_end: called when one has ended by itself, on its thread.
    """

    def __init__(self, state: ConversationState) -> None:
        self.by_name: dict[str, BackgroundAgent] = {}
        self.outlive = False
        self.on_end: Callable[[BackgroundAgent], None] = lambda agent: None
        self._state = state
        self._changed = threading.Condition()
        self._asking = threading.Lock()
        self._questions: deque[SubagentQuestion] = deque()
        self._closed = False

    @property
    def open(self) -> list[BackgroundAgent]:
        """Those that have not ended."""
        return [agent for agent in [*self.by_name.values()] if agent.open]

    def find(self, name: str) -> BackgroundAgent | None:
        """Return the sub-agent of this name that has not ended; None if there is none."""
        agent = self.by_name.get(name)
        return agent if agent is not None and agent.open else None

    @property
    def has_unreported(self) -> bool:
        """True if the model does not know yet that one has ended."""
        return any(not agent.open and not agent.reported for agent in [*self.by_name.values()])

    def start(self, turn: Turn, item: PreparedCall) -> ToolResult:
        """Start the sub-agent of a call. Raises ToolError."""
        working = [agent.name for agent in self.open]
        if len(working) >= MAX_AT_ONCE:
            raise ToolError(f"{MAX_AT_ONCE} sub-agents already work in the background ({', '.join(working)}).")
        kind = agent_type(turn, item.args.subagent_type).name
        agent = BackgroundAgent(self._free_name(kind), kind, item)
        nested = self._prepare(turn, agent)
        self.by_name[agent.name] = agent
        self._begin(agent, nested)
        return ToolResult(STARTED.format(name=agent.name))

    def _free_name(self, kind: str) -> str:
        name = re.sub(r"[^\w.-]+", "-", kind).strip("-") or "agent"
        number, found = 1, name
        while found in self.by_name:
            number += 1
            found = f"{name}-{number}"
        return found

    def add(self, agent: BackgroundAgent) -> None:
        """Add one of an earlier process."""
        self.by_name[agent.name] = agent

    def resume(self, turn: Turn, *, ask: bool) -> None:
        """Go on with those that were stopped, and those whose questions have an answer.

        ask: put the open questions again.
        """
        for agent in self.open:
            decided = all(turn.deps.recorded(asked) for asked in agent.asked.values())
            if self._closed or not (agent.state == "stopped" or (agent.state == "waiting" and (ask or decided))):
                continue
            try:
                self._begin(agent, self._prepare(turn, agent))
            except ToolError as error:
                self._end(agent, f"The sub-agent could not go on: {error}")

    def _prepare(self, turn: Turn, agent: BackgroundAgent) -> NestedTurn:
        """Return the turn of a sub-agent. Raises ToolError."""
        nested = NestedTurn(turn, agent.item, agent.name)
        deps, environment = nested.deps, turn.deps.environment
        try:
            if deps.open_model is not None:
                # It needs a connection of its own.
                nested.open_model(nested.kind.model or turn.options.label)
        except ModelError as error:
            raise ToolError(error.failure.message) from None
        if agent.siblings is None:
            given = turn.options.spent
            agent.siblings, agent.seconds = turn.budget.siblings, turn.budget.seconds
            agent.before = Spent(given.rounds, agent.seconds, given.tool_calls, given.cost)
        agent.cancel = deps.context.cancel
        nested.before = agent.before.replace(seconds=agent.seconds)
        nested.deps = deps.replace(
            tools=ToolTable([tool for tool in deps.tools.values() if not tool.nested], deps.tools.aliases),
            approver=self._asks(agent, deps.approver),
            asker=self._asks(agent, deps.asker),
            inbox=agent.take,
            siblings=agent.siblings,
            small=separate_small_model(turn),
            gates=None,
            background=True,
            watch=deps.watch.for_agent(turn.history, f"Sub-agent {agent.name}: {agent.task}"),
            # What it commits is news to the main agent.
            environment=copy.copy(environment) if environment is not None else None,
        )
        return nested

    def _asks(self, agent: BackgroundAgent, ask: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return a function that asks the user, one question at a time; one that is put aside stays open."""

        def put(asked: ApprovalRequested | QuestionAsked) -> Any:
            agent.asked[asked.call_id] = asked
            cancel = agent.cancel
            with self._asking:
                try:
                    cancel.check()
                    answer = self._ask_in_turn(cancel, ask, asked) if self._state.asks_in_turn else ask(asked)
                    cancel.check()
                except CancelledError:
                    if cancel.cancelled:
                        raise
                    answer = Defer()
            if not isinstance(answer, Defer):
                del agent.asked[asked.call_id]
            return answer

        return put

    def _ask_in_turn(self, cancel: CancelToken, ask: Callable[[Any], Any], asked: Any) -> Any:
        """Leave a question to the thread of the turn; return the answer. Raises CancelledError."""
        question = SubagentQuestion(ask, asked)
        self._questions.append(question)
        while not question.done:
            if cancel.wait(_POLL_SECONDS):
                raise CancelledError
        if question.error is not None:
            raise question.error
        return question.answer

    def answer_questions(self) -> None:
        """Put the questions that were left to the thread of the turn. Raises CancelledError if the user ends it."""
        while self._questions:
            question = self._questions.popleft()
            question.put()
            if isinstance(question.error, CancelledError):
                raise question.error

    def cancel_of_thread(self) -> CancelToken | None:
        """Return the token of the sub-agent that runs on the current thread; None for another thread."""
        here = threading.current_thread()
        return next((agent.cancel for agent in self.open if agent.thread is here), None)

    def _begin(self, agent: BackgroundAgent, nested: NestedTurn) -> None:
        agent.state, agent.asked, missed = "running", {}, agent.missed
        agent.missed = ()

        def work() -> None:
            for message in missed:
                self._state.emit(nested.wrap(MessageAdded(message)))
            self._work(agent, nested)

        agent.thread = threading.Thread(target=work, name=agent.name, daemon=True)
        agent.thread.start()

    def _work(self, agent: BackgroundAgent, nested: NestedTurn) -> None:
        """Run a sub-agent in the current thread, to its end or its suspension."""
        run = nested.run()
        result: TurnResult | None = None
        failed = "The sub-agent failed."
        try:
            while True:
                event = next(run)
                if self._closed:  # what comes now is no result: another process goes on from here
                    return
                agent.changed = agent.changed or (isinstance(event, TurnFinished) and event.changed_files)
                self._state.emit(nested.wrap(event))
        except StopIteration as stop:
            result = stop.value
        except Exception as error:  # noqa: BLE001 - it must cost the sub-agent, not the program
            where = nested.deps.report(error)
            failed = f"The sub-agent failed: {error}{f' (described in {where})' if where else ''}"
        finally:
            run.close()
        self._settle(agent, nested, result, failed)

    def _settle(self, agent: BackgroundAgent, nested: NestedTurn, result: TurnResult | None, failed: str) -> None:
        if result is not None:
            nested.store(result)
            agent.usage += result.end.usage
            agent.denials += result.end.denials
            agent.seconds = result.end.diagnostics.duration_ms / 1000
        if isinstance(result, Suspended):
            with self._changed:
                agent.state = "waiting"
                self._changed.notify_all()
        else:
            self._end(agent, nested.report(result).text if result is not None else failed)
            if not agent.cancel.cancelled:
                self.on_end(agent)
        self._state.reported()

    def _end(self, agent: BackgroundAgent, text: str) -> None:
        with self._changed:
            agent.text, agent.state = text, "ended"
            self._state.nested.pop(agent.item.call.id, None)
            self._changed.notify_all()

    def reports(self, context: ToolContext, turn: Turn | None = None) -> list[str]:
        """Return the reports of those that have ended, for the model; each is returned once.

        turn: takes over what they used and changed.
        """
        found = []
        for agent in [*self.by_name.values()]:
            if agent.open or agent.reported:
                continue
            agent.reported = True
            text = context.fit(ToolResult(agent.text), agent.item.tool.result_size).text
            if agent.inbox:
                text += f"\n\n[Too late for it, the user wrote: {' / '.join(agent.take())}]"
            found.append(agent_report(agent.name, agent.item.call.id, agent.task, text))
            if turn is not None:
                turn.usage += agent.usage
                turn.denials += agent.denials
                turn.checks.changed_since = turn.checks.changed_since or agent.changed
                turn.checks.wrote = turn.checks.wrote or agent.changed
        return found

    def forget(self) -> None:
        """Drop the reports that the model does not have: the user went back to before the calls."""
        for agent in self.by_name.values():
            agent.reported = agent.reported or not agent.open

    def wait(self, turn: Turn) -> Literal["", "more", "suspended"]:
        """Wait until there is something for the model; return "" if nothing works any more, and "suspended" if what is
        left needs the user. Raises CancelledError.
        """
        while True:
            turn.deps.context.cancel.check()
            self.answer_questions()
            self.resume(turn, ask=False)
            with self._changed:
                if self.has_unreported or turn.deps.state.inbox:
                    return "more"
                if not any(agent.state == "running" for agent in self.open):
                    return "suspended" if self.open else ""
                self._changed.wait(_POLL_SECONDS)

    def wait_idle(self, turn: Turn) -> None:
        """Wait until none works: each has ended or needs the user. Raises CancelledError."""
        while any(agent.state == "running" for agent in self.open):
            turn.deps.context.cancel.check()
            self.answer_questions()
            with self._changed:
                self._changed.wait(_POLL_SECONDS)

    def send(self, name: str, text: str) -> bool:
        """Give a message to a sub-agent; return False if there is none of this name that has not ended."""
        agent = self.find(name)
        if agent is None:
            return False
        agent.inbox.append(text)
        return True

    def stop(self, agents: Iterable[BackgroundAgent], why: str = "stopped by the user") -> list[str]:
        """End sub-agents and return their names. They have some seconds to end."""
        stopped = [agent for agent in agents if agent.open]
        for agent in stopped:
            agent.cancel.cancel(why)
            if agent.state != "running":
                ended = TurnFinished("Failed", Diagnostics(0, 0, 0, 0, "", "cancelled"), Usage(), why)
                self._state.emit(SubagentEvent(agent.kind, agent.item.call.id, ended, agent.name))
                self._end(agent, f"The sub-agent was {why} before it finished.")
        self._join(stopped)
        return [agent.name for agent in stopped]

    def end_turn(self, result: TurnResult) -> Generator[Event, None, None]:
        """End those that may not outlive the turn, and name those whose reports the model does not have."""
        if self.outlive or isinstance(result, Suspended):
            return
        self.stop(self.open, "stopped as the turn ended")
        if names := [agent.name for agent in self.by_name.values() if not agent.reported]:
            yield Warned(f"Ended with the turn, before their reports were read: {', '.join(names)}.")

    def _join(self, agents: Sequence[BackgroundAgent]) -> None:
        until = time.monotonic() + _GRACE_SECONDS
        for agent in agents:
            if agent.thread is not None and agent.thread is not threading.current_thread():
                agent.thread.join(max(0.0, until - time.monotonic()))

    def close(self) -> None:
        """Stop the threads without ending the sub-agents: a resumed session continues them."""
        self._closed = True
        for agent in self.open:
            agent.cancel.cancel("interrupted as the program ended")
        self._join(self.open)


def agents_of(state: ConversationState) -> BackgroundAgents:
    """Return the sub-agents in the background of a conversation."""
    agents: BackgroundAgents = state.background or BackgroundAgents(state)
    state.background = agents
    return agents


def start_in_background(turn: Turn, item: PreparedCall) -> ToolResult:
    """Start the sub-agent of a call in the background. Raises ToolError."""
    if turn.deps.depth:
        raise ToolError("Only the main agent can start sub-agents in the background.")
    if turn.gates is not None:
        raise ToolError("Work that is reviewed step by step cannot go on in the background: leave out `background`.")
    return agents_of(turn.deps.state).start(turn, item)


def restored_agent(
    state: ConversationState, tool: Any, name: str, kind: str, call_id: str, task: str, saved: NestedState
) -> BackgroundAgent:
    """Return a sub-agent of an earlier process. saved: its state there."""
    state.nested[call_id] = saved
    prompt = saved.history[0].text if saved.history else ""
    args = TaskArgs(kind, task, prompt, True)
    call = ToolCall(call_id, tool.name, {"subagent_type": kind, "description": task, "prompt": prompt})
    item = PreparedCall(call, tool, args, (), task, Decision(Level.ALLOW, ""))
    return BackgroundAgent(name, kind, item)
