"""The engine alone: a turn of a thousand rounds in this process, with a model and a tool that do nothing.

What a round costs must not depend on how many came before.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from agent_cli.kernel.decisions import deny
from agent_cli.kernel.engine.conversation import consume
from agent_cli.kernel.engine.loop import run_turn
from agent_cli.kernel.engine.turn import TurnDeps
from agent_cli.kernel.engine.types import ConversationState, ToolTable, TurnOptions
from agent_cli.kernel.messages import UserMessage
from agent_cli.kernel.results import Limits
from agent_cli.models.base import Chunk, MessageStop, Request, Started, TextChunk, ToolCallDelta, ToolCallStart
from agent_cli.policy.policy import Policy
from agent_tools.base import Effect, Tool, ToolContext, ToolResult
from agent_tools.cancel import CancelToken
from agent_tools.fs.workspace import Workspace
from agent_tools.record import Value
from benchmarks.measure import BenchmarkError
from benchmarks.stage import Stage
from benchmarks.table import Row

ROUNDS = 1_000
FLAT = 1.5


class Count(Value):
    """The number of the call: calls that repeat are a case of their own."""

    n: int


class Noop(Tool[Count]):
    """Does nothing."""

    name = "Noop"
    Args = Count

    def effects(self, args: Count, ctx: ToolContext) -> tuple[Effect, ...]:
        return ()

    def summary(self, args: Count, ctx: ToolContext) -> str:
        return f"Count {args.n}"

    def run(self, args: Count, ctx: ToolContext) -> ToolResult:
        return ToolResult(f"done {args.n}")


class Caller:
    """A model that calls Noop in every round but the last, and notes when it was asked."""

    def __init__(self) -> None:
        self.asked: list[float] = []

    def stream(self, request: Request, cancel: CancelToken) -> Iterator[Chunk]:
        count = len(self.asked)
        self.asked.append(time.perf_counter())
        yield Started("reply", "caller")
        if count == ROUNDS:
            yield TextChunk("All is done.")
            yield MessageStop("end_turn")
            return
        yield ToolCallStart(0, f"call-{count}", "Noop")
        yield ToolCallDelta(0, f'{{"n": {count}}}')
        yield MessageStop("tool_use")


def turn(folder: Path) -> list[float]:
    """The seconds that each round of one turn took."""
    workspace = Workspace(folder)
    policy = Policy(workspace, mode="dontAsk")
    caller = Caller()
    deps = TurnDeps(caller, ToolTable([Noop()]), ToolContext(workspace), policy, deny, ConversationState())
    options = TurnOptions(model="caller", label="caller", system="", limits=Limits(0, 0, 0, 0))
    result = consume(run_turn([UserMessage("go")], deps, options))
    if len(caller.asked) != ROUNDS + 1 or result.end.denials:
        raise BenchmarkError(f"the turn of {ROUNDS} rounds ended early: {result.end.diagnostics}")
    return [b - a for a, b in zip(caller.asked, caller.asked[1:], strict=False)]


def rounds(stage: Stage, runs: int) -> Iterator[Row]:
    """The first ten rounds and the last ten, each the median over several turns."""
    turn(stage.project)
    turns = [turn(stage.project) for _ in range(runs)]
    first = median(s for t in turns for s in t[:10])
    last = median(s for t in turns for s in t[-10:])
    note = "No network and no log: the loop, permission and events alone."
    yield Row("rounds", "engine alone, rounds 1-10", first * 1e6, "us", "", None, note=note)
    goal = f"flat: <= {FLAT}x the first"
    yield Row("rounds", "  rounds 990-1,000", last * 1e6, "us", goal, last <= FLAT * first, first * 1e6)
