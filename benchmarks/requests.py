"""What is sent: the size of the first request, and how much of each request comes back unchanged in the next.

A provider bills a request that begins as the last one did at a fraction, so every break of the prefix costs money.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from agent_cli.kernel.results import Usage
from benchmarks.measure import expect
from benchmarks.stage import ANTHROPIC, LINES, OPENAI, PROMPT, PROTOCOLS, Stage, call_bash, history, say
from benchmarks.table import Row
from tests.support.model_server import Received

ROUNDS = 6
STEPS = 100
# What the model counts as a token: providers are between three and four for such text.
BYTES_PER_TOKEN = 3.5


def size(stage: Stage, runs: int) -> Iterator[Row]:
    """The first request of a session in a small repository."""
    stage.answer = say("Hello there.")
    for protocol, model in PROTOCOLS:
        [first] = stage.requests(lambda model=model: expect(stage.agent(PROMPT, model=model), "Hello"))  # type: ignore[misc]
        peers = "" if model != OPENAI else (
            "aider 3 KB, mini 3, OpenCode 30, gptme 36, Codex 39, Gemini 46, Claude Code 113"
        )  # fmt: skip
        tools = len(json.dumps(first.body["tools"])) / 1000
        note = f"Of that, tools: {tools:.1f} KB."
        kilobytes = len(first.raw) / 1000
        what = f"first request, {protocol}"
        yield Row("size", what, kilobytes, "KB", "<= 20 KB", kilobytes <= 20, None, peers, note)


def prefix(stage: Stage, runs: int) -> Iterator[Row]:
    """The share of each request that the next one begins with: within a turn, and where -c begins another."""
    for protocol, model in PROTOCOLS:

        def turn(*args: str, model: str = model) -> Sequence[Received]:
            stage.answer = call_bash(ROUNDS, "echo {n}; echo and more")
            asked = [*args, PROMPT, "--allowedTools", "Bash"]
            return stage.requests(lambda: expect(stage.agent(*asked, model=model), "All is done."))

        first, second = turn(), turn("-c")
        within = min(kept(a, b) for turn_ in (first, second) for a, b in pairwise(turn_))
        across = kept(first[-1], second[0])
        peers = "1.000 for Codex, Claude Code, Gemini, OpenCode and mini" if model == OPENAI else ""
        for what, share in (("within a turn", within), ("across turns (-c)", across)):
            yield Row(
                "prefix", f"kept as a prefix {what}, {protocol}", share * 100, "%", "100 %", share == 1, None, peers
            )
            peers = ""


def sent(stage: Stage, runs: int) -> Iterator[Row]:
    """What a hundred steps send whose results have two thousand lines each, to a model with a window of 200,000."""
    answer = call_bash(STEPS, LINES)
    stage.answer = lambda request: answer(request).replace(
        usage=Usage(input=int(len(request.raw) / BYTES_PER_TOKEN), output=60)
    )
    asked = [PROMPT, "--allowedTools", "Bash"]
    found = stage.requests(lambda: expect(stage.agent(*asked, model=ANTHROPIC), "All is done."))
    megabytes = sum(len(request.raw) for request in found) / 1e6
    largest = max(len(request.raw) for request in found) / 1000
    peers = "Claude Code 23.5 MB, Codex 44.7-48.7"
    note = f"{len(found)} requests, the largest {largest:.0f} KB, the last {len(found[-1].raw) / 1000:.0f} KB."
    what = "100 steps of 2,000 lines, sent in all"
    yield Row("sent", what, megabytes, "MB", "<= 15 MB", megabytes <= 15, None, peers, note)
    breaks = sum(kept(a, b) < 1 for a, b in pairwise(found))
    yield Row("sent", "  breaks of the prefix", breaks, "", "<= 4, else 100 %", breaks <= 4)


def kept(one: Received, two: Received) -> float:
    """The share of the first request's tools, system prompt and messages that the second begins with, in bytes.

    Cache marks are not content: they move, and count for nothing in the provider's comparison.
    """
    before, after = _pieces(one.body), _pieces(two.body)
    same = 0
    for a, b in zip(before, after, strict=False):
        if a != b:
            break
        same += len(a)
    return same / sum(map(len, before))


def _pieces(body: dict[str, Any]) -> list[bytes]:
    parts = [*body.get("tools", ()), "system"]
    system = body.get("system") or body.get("instructions")
    parts += [system] if isinstance(system, str) else system or []
    for message in history(body):
        content = message.get("content")
        # A message of several blocks may grow by further blocks, and is still a prefix of itself.
        if isinstance(content, list):
            parts += [message.get("role", message.get("type")), *content]
        else:
            parts.append(message)
    return [json.dumps(_unmarked(part)).encode() for part in parts]


def _unmarked(part: Any) -> Any:
    return {k: v for k, v in part.items() if k != "cache_control"} if isinstance(part, dict) else part
