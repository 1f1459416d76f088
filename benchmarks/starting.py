"""What it costs to begin: the version, one answer, and what is imported for it.

Goals given as another program's seconds hold for the machine those were measured on. They are turned into multiples
of the floor there (0.02 s for a bare Python, 0.087 s for the script), so that they mean the same on any machine.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

from benchmarks.measure import Sample, expect, interleaved, measured, typical
from benchmarks.stage import OPENAI, PROMPT, PROTOCOLS, Stage, program, say
from benchmarks.table import Row

NEVER = ("litellm", "openai", "anthropic", "httpx", "mcp", "git", "prompt_toolkit", "asyncio", "boto3")
HEAVY = (*NEVER, "pydantic", "typer", "rich", "urllib3", "jsonschema", "platformdirs", "keyring")


def version(stage: Stage, runs: int) -> Iterator[Row]:
    """`agent --version`, beside an interpreter that does nothing."""
    found = interleaved(
        {
            "ours": lambda: expect(measured([*program(), "--version"], stage.project, stage.env), "agent "),
            "floor": lambda: stage.python("pass"),
        },
        runs * 3,
    )
    ours, floor = typical(found["ours"]), typical(found["floor"])
    peers = "Codex 0.08 s, Claude Code 0.18, gptme 0.50, OpenCode 1.3, aider 1.4, Gemini 2.8; bare Python 0.02"
    goal = "<= 1.0x Codex = 4.0x floor"
    yield Row("version", "--version, CPU", ours * 1000, "ms", goal, ours <= 4 * floor, floor * 1000, peers)


def hello(stage: Stage, runs: int) -> Iterator[Row]:
    """One streamed answer of ten pieces, over each protocol."""
    stage.answer = say("Hello there, I am the answer to all of the bench", 5)

    def ours_and_floor(model: str) -> dict[str, Callable[[], Sample]]:
        return {
            model: lambda: expect(stage.agent(PROMPT, model=model), "Hello there"),
            f"{model} floor": lambda: expect(stage.floor(model), "Hello there"),
        }

    found = interleaved({k: run for _, model in PROTOCOLS for k, run in ours_and_floor(model).items()}, runs * 2)
    for protocol, name in PROTOCOLS:
        floors = found[f"{name} floor"]
        ours, floor = typical(found[name]), typical(floors)
        peers = "" if name != OPENAI else (
            "floor 0.087 s, Codex 0.38, Claude Code 1.02, Gemini 3.6, gptme 5.9, aider 7.2, OpenCode 7.8, mini 8.5"
        )  # fmt: skip
        what = f"one-shot hello, {protocol}, CPU"
        yield Row("hello", what, ours * 1000, "ms", "<= 2.5x floor", ours <= 2.5 * floor, floor * 1000, peers)
        ours, floor = typical(found[name], "first_request"), typical(floors, "first_request")
        if name == OPENAI:
            peers = (
                "floor 0.07 s, Codex 0.30, Claude Code 0.94, Gemini 4.9, gptme 7.4, aider 8.1, mini 9.0, OpenCode 10"
            )
        goal = "<= 0.7x Codex = 3.0x floor"
        what = f"  exec to first request, {protocol}"
        yield Row("hello", what, ours * 1000, "ms", goal, ours <= 3 * floor, floor * 1000, peers)
        ours, floor = typical(found[name], "memory"), typical(floors, "memory")
        if name == OPENAI:
            peers = "floor 18 MB, Codex 185, mini 228, aider 239, gptme 260, Claude Code 308, Gemini 392, OpenCode 589"
        yield Row("hello", f"  peak memory, {protocol}", ours, "MB", "<= 55 MB", ours <= 55, floor, peers)


def imports(stage: Stage, runs: int) -> Iterator[Row]:
    """What a one-shot run imports."""
    stage.answer = say("Hello there.")
    for protocol, model in PROTOCOLS:
        argv = [sys.executable, "-X", "importtime", "-m", "agent_cli", *stage.command("-p", PROMPT, model=model)[1:]]
        lines = expect(measured(argv, stage.project, stage.env), "Hello").err.splitlines()
        names = {line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")}
        tops = {name.partition(".")[0] for name in names}
        there, never = sorted(tops & set(HEAVY)), sorted(tops & set(NEVER))
        note = f"Heavy ones: {', '.join(there) or 'none'}; never wanted here: {', '.join(never) or 'none'}."
        goal = "none of litellm, openai, ..."
        what = f"modules imported by -p, {protocol}"
        yield Row("imports", what, len(names) - 1, "", goal, not never, note=note)
