"""/help: topics, each of which fits on a screen."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_cli.shells.terminal import commands  # noqa: F401 - registers them
from agent_cli.shells.terminal.commands.help import TOPICS
from agent_cli.shells.terminal.slash import builtin_commands
from tests.support.program import agent
from tests.support.scripts import script

ROWS = 24


def say(work: Path, line: str) -> list[str]:
    """The lines that a session of 80 columns answers to a line."""
    model = script(work.parent / "s.toml", [])
    done = agent(["--model", model, "--plain"], work, env={"COLUMNS": "80"}, stdin=f"{line}\n")
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_every_command_is_in_one_topic() -> None:
    named = [name for topic in TOPICS.values() for name in topic.commands]
    assert sorted(named) == sorted(builtin_commands())


def test_help_names_the_topics_and_every_command(work: Path) -> None:
    shown = say(work, "/help")
    assert len(shown) < ROWS
    assert all(f"/{name}" in " ".join(shown) for name in builtin_commands())
    assert "/security-review" in " ".join(shown)
    assert shown[-1] == "  /help TOPIC or /help COMMAND shows more."


@pytest.mark.parametrize("topic", TOPICS)
def test_a_topic_fits_on_a_screen(work: Path, topic: str) -> None:
    shown = say(work, f"/help {topic}")
    assert shown[0] == f"  {topic}: {TOPICS[topic].about}"
    assert len(shown) < ROWS
    assert max(map(len, shown)) <= 80
    assert all(any(line.startswith(f"  /{name}") for line in shown) for name in TOPICS[topic].commands)


@pytest.mark.parametrize("word", ["mode", "/mode"])
def test_a_command_is_explained_with_its_values(work: Path, word: str) -> None:
    shown = say(work, f"/help {word}")
    assert shown[0].split() == ["/mode", "[MODE]", "choose", "the", "approval", "mode"]
    assert any(line.split()[0] == "acceptEdits" for line in shown)


def test_another_name_of_a_command_leads_to_it(work: Path) -> None:
    assert "Also: /quit, /q." in " ".join(say(work, "/help quit"))


def test_an_unknown_word_is_answered_with_the_topics(work: Path) -> None:
    shown = " ".join(say(work, "/help undoo"))
    assert "Did you mean /undo?" in shown
    assert "basics, models, changes" in shown
