"""A file whose whole text a message carries counts as read: it can be edited at once, as long as it has not changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_cli.kernel.engine.conversation import Conversation
from agent_cli.kernel.engine.types import TurnOptions
from agent_cli.kernel.events import Event, FilesSeen
from agent_cli.knowledge.template import with_files
from agent_tools.fs.encoding import fingerprint
from tests.support.program import agent
from tests.support.scripts import call, script
from tests.support.turns import World

EDIT = call("Edit", file_path="slug.py", old_string="one", new_string="two")


@pytest.fixture
def slug(work: Path) -> Path:
    file = work / "slug.py"
    file.write_text("one\n" + "# line\n" * 20)
    return file


def go(work: Path, prompt: str, replies: list[dict[str, Any]], *args: str) -> Any:
    model = script(work.parent / "s.toml", replies)
    return agent(["-p", "--model", model, "--allowedTools", "Edit,Bash,SlashCommand", *args, prompt], work)


def test_a_mentioned_file_is_edited_without_another_look(work: Path, slug: Path) -> None:
    done = go(work, "fix @slug.py, please", [{"calls": [EDIT]}, {"text": "Done.", "expect": "It now reads"}])
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    assert slug.read_text().startswith("two\n")


def test_so_it_is_after_a_resume_in_another_process(work: Path, slug: Path) -> None:
    replies = [{"text": "Seen."}, {"calls": [EDIT]}, {"text": "Done.", "expect": "It now reads"}]
    assert go(work, "see @slug.py", replies).stdout == "Seen.\n"
    done = go(work, "fix it", replies, "-c")
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    assert slug.read_text().startswith("two\n")


@pytest.mark.parametrize(
    ("prompt", "first", "text"),
    [
        ("fix slug.py", [], "was not read in this conversation"),
        ("fix @slug.py:1-3", [], "Edited slug.py"),
        ("fix @slug.py", [call("Bash", command="echo more >> slug.py")], "by the user, a formatter or a command"),
    ],
)
def test_what_a_mention_shows_of_a_file_counts_as_read(
    work: Path, slug: Path, prompt: str, first: list[dict[str, Any]], text: str
) -> None:
    replies = [*({"calls": [c]} for c in first), {"calls": [EDIT]}, {"text": "Done.", "expect": text}]
    done = go(work, prompt, replies)
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    assert slug.read_text().startswith("two\n" if "@" in prompt else "one\n")


def test_only_the_lines_of_a_long_file_that_a_mention_shows_count_as_read(work: Path, slug: Path) -> None:
    slug.write_text("one\n" + "x" * 40_000)
    replies = [
        {"calls": [call("Write", file_path="slug.py", content="two\n")]},
        {"text": "Done.", "expect": "Line 2 is longer"},
    ]
    done = go(work, "fix @slug.py", replies)
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    assert slug.read_text().startswith("one\n")


def test_a_command_of_the_users_that_mentions_it_counts_too(work: Path, slug: Path) -> None:
    command = work.parent / "home/.agent/commands/mend.md"
    command.parent.mkdir(parents=True)
    command.write_text("Mend @slug.py")
    replies = [{"calls": [call("SlashCommand", command="/mend")]}, {"calls": [EDIT]}]
    done = go(work, "mend it", [*replies, {"text": "Done.", "expect": "It now reads"}])
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr


def test_a_message_typed_while_a_turn_runs_counts_as_well(work: Path, slug: Path) -> None:
    records: list[Event] = []
    world = World(work, [{"text": "Ok."}])
    talk = Conversation(world.deps, TurnOptions(model="scripted", label="scripted", system=""), records.append)
    talk.expanders.append(lambda text: with_files(text, world.deps.context))
    talk.inbox.append("and @slug.py")
    talk.send("hello", lambda event: None)
    text = slug.read_bytes()
    lines = len(text.splitlines())
    known = {str(slug): f"{fingerprint(text)} 1-{lines}@:message/{lines}"}
    assert world.deps.context.seen == known and FilesSeen(known) in records


def test_a_prompt_that_a_hook_blocks_was_never_seen(work: Path, slug: Path) -> None:
    settings = work.parent / "home/.claude/settings.json"
    settings.parent.mkdir(parents=True)
    hook = '{"hooks": [{"type": "command", "command": "grep -q fix && exit 2 || true"}]}'
    settings.write_text(f'{{"hooks": {{"UserPromptSubmit": [{hook}]}}}}')
    replies = [{"text": "Hello."}, {"calls": [EDIT]}, {"text": "Done.", "expect": "was not read"}]
    assert go(work, "hello", replies).stdout == "Hello.\n"
    go(work, "fix @slug.py", replies, "-c")
    done = go(work, "change slug.py", replies, "-c")
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
