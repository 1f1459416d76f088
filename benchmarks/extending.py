"""What files that add things cost: thirty commands, twenty skills and five types of sub-agents in the home folder."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import Sample, expect, interleaved, typical
from benchmarks.stage import PROMPT, Stage, say
from benchmarks.table import Row
from benchmarks.terminal import session

COMMANDS, SKILLS, AGENTS = 30, 20, 5
BODY = "Look at $1 and say what is wrong with it.\n" * 20


def files(stage: Stage, runs: int) -> Iterator[Row]:
    """The first prompt and one answer, with such files and without."""
    stage.answer = say("Hello there.")
    home = Path(stage.env["HOME"])

    def started(*, filled: bool, terminal: bool) -> Sample:
        shutil.rmtree(home / ".agent", ignore_errors=True)
        if filled:
            fill(home)
        return session(stage, "") if terminal else expect(stage.agent(PROMPT), "Hello there")

    found = interleaved(
        {
            "prompt": lambda: started(filled=True, terminal=True),
            "prompt without": lambda: started(filled=False, terminal=True),
            "answer": lambda: started(filled=True, terminal=False),
            "answer without": lambda: started(filled=False, terminal=False),
        },
        runs * 2,
    )
    shutil.rmtree(home / ".agent", ignore_errors=True)
    what = f"{COMMANDS} commands, {SKILLS} skills, {AGENTS} agent types"
    for name, case in (("prompt", "usable prompt, CPU"), ("answer", "one-shot hello, CPU")):
        ours, without = typical(found[name]), typical(found[f"{name} without"])
        goal, most = ("<= 1.1x without", 1.1) if name == "prompt" else ("", 0)
        met = ours <= most * without if most else None
        yield Row(
            "files", f"{what}: {case}", ours * 1000, "ms", goal, met, without * 1000, "", "The floor is without them."
        )


def fill(home: Path) -> None:
    """Files as people write them."""
    keep_commands(home)
    for number in range(SKILLS):
        keep(
            home / f".agent/skills/s{number}/SKILL.md",
            f"---\nname: s{number}\ndescription: Skill {number}.\n---\n{BODY}",
        )
    for number in range(AGENTS):
        head = f"---\nname: a{number}\ndescription: Agent {number}.\ntools: Read, Grep\n---\n"
        keep(home / f".agent/agents/a{number}.md", head + BODY)


def keep_commands(home: Path) -> None:
    for number in range(COMMANDS):
        head = f"---\ndescription: Command {number}\nargument-hint: [x]\n---\n"
        keep(home / f".agent/commands/c{number}.md", head + BODY)


def keep(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
