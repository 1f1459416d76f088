"""SlashCommand: the user's prompts, offered where there are any and asked about before they are used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_cli.kernel.decisions import Approve
from agent_cli.knowledge.commands import Command
from agent_tools.base import ToolContext, ToolError
from agent_tools.context import OfferedExtensions
from agent_tools.results import Note
from tests.support.scripts import call
from tests.support.tool_bench import TOOLS, Bench
from tests.support.turns import World

TOOL = TOOLS["SlashCommand"]


def commands(folder: Path, **bodies: str) -> dict[str, Command]:
    for name, body in bodies.items():
        (folder / f"{name}.md").write_text(body)
    return {name: Command(name, folder / f"{name}.md", f"What {name} does", "[file]") for name in bodies}


def test_it_is_offered_only_where_there_are_commands(bench: Bench) -> None:
    assert not TOOL.available(bench.ctx)
    bench.ctx.extensions = OfferedExtensions(commands=commands(bench.root, review="Review $ARGUMENTS."))
    assert TOOL.available(bench.ctx)
    assert TOOL.dynamic_description(bench.ctx) == "/review [file] - What review does"
    assert bench("SlashCommand", command="/review a.py b.py").text.endswith("do it now:\n\nReview a.py b.py.")
    assert bench("SlashCommand", command="review").text.endswith("Review .")
    assert bench.fails("SlashCommand", command="/revue x") == (
        "Unknown command /revue. The user's commands are: /review."
    )


def test_the_list_is_bounded(bench: Bench) -> None:
    bench.ctx.extensions = OfferedExtensions(
        commands={f"c{n}": Command(f"c{n}", bench.root, "word " * 100) for n in range(200)}
    )
    taught = TOOL.dynamic_description(bench.ctx)
    assert len(taught.encode()) < 2_100
    assert taught.splitlines()[-1].startswith("and ") and "more" in taught.splitlines()[-1]


def test_it_takes_few_bytes() -> None:
    text = (Path(__file__).parents[2] / "prompts/tools/SlashCommand.md").read_text().strip()
    assert len(json.dumps(["SlashCommand", text, TOOL.schema()], separators=(",", ":"))) <= 450


def test_it_is_asked_about_with_the_whole_prompt(tmp_path: Path) -> None:
    review = call("SlashCommand", command="/review a.txt")
    world = World(tmp_path, [{"calls": [review]}, {"calls": [review]}, {"text": "Done."}])
    world.deps.context.extensions = OfferedExtensions(commands=commands(tmp_path, review="Review\n$ARGUMENTS"))
    world.answers = [Approve(rule="SlashCommand(/review)")]
    world.turn()
    assert len(world.asked) == 1, "always holds for the rest of the session"
    assert world.asked[0].preview == Note("Review\na.txt")
    assert world.asked[0].always == "SlashCommand(/review)"
    assert [m.is_error for m in world.results] == [False, False]


@pytest.mark.parametrize(
    ("rules", "asked", "fails"),
    [
        ({"allow": ("SlashCommand",)}, 0, False),
        ({"allow": ("SlashCommand(/review:*)",)}, 0, False),
        ({"deny": ("SlashCommand(/review)",), "allow": ("SlashCommand",)}, 0, True),
        ({"mode": "dontAsk"}, 0, True),
        ({"mode": "bypassPermissions"}, 0, False),
        ({"allow": ("SlashCommand(/other)",)}, 1, False),
    ],
)
def test_rules_and_modes_decide(tmp_path: Path, rules: dict[str, object], asked: int, fails: bool) -> None:
    replies = [{"calls": [call("SlashCommand", command="/review")]}, {"text": "Done."}]
    world = World(tmp_path, replies, [Approve()], **rules)  # type: ignore[arg-type]
    world.deps.context.extensions = OfferedExtensions(commands=commands(tmp_path, review="Review."))
    world.turn()
    assert (len(world.asked), world.results[0].is_error) == (asked, fails)


def test_a_command_that_cannot_be_read_is_never_asked_about(tmp_path: Path) -> None:
    world = World(tmp_path, [{"calls": [call("SlashCommand", command="/gone")]}, {"text": "Done."}])
    world.deps.context.extensions = OfferedExtensions(commands={"gone": Command("gone", tmp_path / "gone.md")})
    world.turn()
    assert not world.asked
    assert "cannot be read" in world.results[0].text


def test_a_nested_context_has_the_same_commands(bench: Bench) -> None:
    bench.ctx.extensions = OfferedExtensions(commands=commands(bench.root, review="Review."))
    nested: ToolContext = bench.ctx.nested()
    assert TOOL.available(nested)
    with pytest.raises(ToolError):
        TOOL.preview(bench.args("SlashCommand", {"command": "/x"}), nested)
