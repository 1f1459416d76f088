"""What it costs to have much configured that a run does not use: MCP servers, hooks and commands together."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from benchmarks.extending import COMMANDS, keep_commands
from benchmarks.hooked import MANY, hook_table
from benchmarks.measure import Sample, expect, interleaved, measured, typical
from benchmarks.stage import PROMPT, Stage, say
from benchmarks.table import Row
from benchmarks.terminal import SERVERS, session


def configured(stage: Stage, runs: int) -> Iterator[Row]:
    """The first prompt and one answer, with all of it in the home folder and with an empty one."""
    stage.answer = say("Hello there.")
    homes = {name: stage.project.parent / name for name in ("empty", "full")}
    for home in homes.values():
        home.mkdir()
    fill(homes["full"])

    def env(name: str) -> dict[str, str]:
        # A state folder of its own: what the servers offer is known after the run that does not count.
        return {"HOME": str(homes[name]), "AGENT_STATE_DIR": str(homes[name] / "state")}

    def answer(name: str) -> Sample:
        return expect(measured(stage.command("-p", PROMPT), stage.project, {**stage.env, **env(name)}), "Hello there")

    answers = interleaved({name: lambda name=name: answer(name) for name in homes}, runs * 6)
    prompts = interleaved({name: lambda name=name: session(stage, "", **env(name)) for name in homes}, runs * 3)
    what = f"{len(SERVERS)} servers, {MANY} hooks, {COMMANDS} commands"
    for case, found, most in (("usable prompt", prompts, 1.1), ("one-shot hello", answers, 1.05)):
        full, empty = typical(found["full"]), typical(found["empty"])
        goal = f"<= {most}x without"
        yield Row("configured", f"{what}: {case}, CPU", full * 1000, "ms", goal, full <= most * empty, empty * 1000)


def fill(home: Path) -> None:
    """What a user would have in theirs; none of it is used."""
    keep_commands(home)
    (home / ".claude").mkdir()
    (home / ".claude" / "settings.json").write_text(json.dumps(hook_table("PostToolUse", MANY)))
    (home / ".agentrc").write_text(json.dumps({"mcp": {"servers": SERVERS}}))
