"""What tools say of themselves is true of them, and the program asks for it instead of their names."""

from __future__ import annotations

import ast
import re
from typing import Any

import pytest

from agent_cli.kernel.engine.compaction.carry_over import file_argument_of, superseded
from agent_cli.kernel.engine.turn import TurnDeps
from agent_cli.kernel.engine.types import ConversationState, ToolTable
from agent_cli.kernel.messages import AssistantMessage, Message, ToolCall, ToolMessage
from agent_cli.kernel.rules import RuleError, read_rule, rule_for
from agent_cli.kernel.runtime.edit_call import EditableCall
from agent_cli.policy.policy import Policy
from agent_tools.base import Effect, Tool, ToolContext, ToolResult
from agent_tools.fs.workspace import Workspace
from agent_tools.record import Value
from agent_tools.registry import BUILTIN, SHELL, TRAITS, find_tool, tool_name, tool_traits
from tests.support.fork_server import ROOT
from tests.support.program_files import nodes
from tests.support.tool_bench import Bench


@pytest.mark.parametrize("tool", BUILTIN, ids=lambda tool: tool.name)
def test_what_a_tool_says_of_itself_fits_together(tool: Tool[Any], bench: Bench) -> None:
    named = (tool.file_argument, tool.command_argument, tool.address_argument, tool.plan_argument, tool.editable)
    assert {name for name in named if name} | set(tool.paths) <= set(tool.Args._fields)
    assert not (tool.shows_file or tool.changes_files) or tool.file_argument or tool.freeform
    assert not tool.reopens or (tool.shows_file and tool.repeatable)
    assert not (tool.replaces_file or tool.in_parts) or tool.changes_files
    assert not tool.editable_in_line or tool.editable
    assert not tool.plan_argument or tool.changes_plan
    assert not tool.rule_covers or tool.rule_names
    if tool.example:
        effects = tool.effects(tool.read(dict(tool.example)), bench.ctx)
        assert any(e.kind == "write" for e in effects) is tool.changes_files
        assert any(e.kind == "run" for e in effects) is bool(tool.command_argument)
        assert any(e.kind == "fetch" for e in effects) is bool(tool.address_argument)


def test_a_name_leads_to_its_tool_and_an_unknown_one_to_what_most_tools_are() -> None:
    names = [name for tool in BUILTIN for name in (tool.name, *tool.other_names)]
    assert len(names) == len(set(names))
    assert [find_tool(tool.name) for tool in BUILTIN] == list(BUILTIN)
    assert tool_name("Agent") == "Task"
    assert tool_traits("Agent").nested
    assert (tool_name("mcp__a__b"), find_tool("mcp__a__b")) == ("mcp__a__b", None)
    assert all(getattr(tool_traits("mcp__a__b"), name) == getattr(Tool, name) for name in TRAITS - {"name"})
    assert [tool for tool in BUILTIN if tool.command_argument] == [SHELL]


def test_rules_are_written_and_read_by_what_they_are_about() -> None:
    assert [rule_for("read", "/a"), rule_for("write", "/a"), rule_for("run", "ls")] == [
        "Read(/a)",
        "Edit(/a)",
        "Bash(ls)",
    ]
    assert read_rule("deny", "MultiEdit(/a)", "", ROOT).covers("write")
    assert not read_rule("deny", "Write(/a)", "", ROOT).covers("write")
    with pytest.raises(RuleError, match="takes no parentheses"):
        read_rule("allow", "TodoWrite(x)", "", ROOT)


# Formats of others that have a shape for each tool of theirs, and the tools that a review is given.
NAMED_BY = (
    "engine/tool_results.py", "host/callbacks.py", "cli/commands/review.py",
    # Tools of other programs, and what they are here.
    "gate/hosts.py", "takeover/claude.py", "takeover/codex.py", "takeover/convert.py",
)  # fmt: skip


def test_the_program_names_no_tool() -> None:
    """A tool that is added, or called something else, must change nothing but its own file and the registry."""
    names = {name for tool in BUILTIN for name in (tool.name, *tool.other_names)}
    # Only files with a string that could be one are parsed.
    quoted = re.compile(rf"""['"](?:{"|".join(map(re.escape, sorted(names)))})['"]""")
    found = [
        f"{path.relative_to(ROOT)}: {node.value}"
        for path in sorted((ROOT / "agent_cli").rglob("*.py"))
        if not str(path).endswith(NAMED_BY) and quoted.search(path.read_text("utf-8"))
        for node in nodes(path)
        if isinstance(node, ast.Constant) and node.value in names
    ]
    # The tag of a stored answer, which was there before and stays.
    assert found == ["agent_cli/kernel/decisions.py: Edit"]


class StampArgs(Value):
    """The arguments of Stamp."""

    target: str
    words: str


class Stamp(Tool[StampArgs]):
    """A tool of a package, of which the program knows only what it says."""

    name = "Stamp"
    Args = StampArgs
    file_argument = "target"
    changes_files = True
    repeatable = True
    editable = "words"
    editable_in_line = True

    def effects(self, args: StampArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        return (Effect("write", args.target),)

    def summary(self, args: StampArgs, ctx: ToolContext) -> str:
        return f"Stamp {args.target}"

    def run(self, args: StampArgs, ctx: ToolContext) -> ToolResult:
        return ToolResult("stamped")


def test_a_tool_that_is_not_built_in_is_asked_as_well(bench: Bench) -> None:
    workspace = Workspace(bench.root)
    deps = TurnDeps(None, ToolTable([Stamp()]), bench.ctx, Policy(workspace), lambda request: None, ConversationState())  # type: ignore[arg-type, return-value]
    calls = [ToolCall(f"c{n}", "Stamp", {"target": "a", "words": "x"}) for n in range(2)]
    story: list[Message] = []
    for call in calls:
        story += [AssistantMessage((call,)), ToolMessage(call.id, "Stamp", "a line of a result\n" * 40)]
    assert file_argument_of(calls[0], deps.traits_of) == "a"
    assert list(superseded(story, "/w", (), deps.traits_of)) == ["c0"]
    change = EditableCall("Stamp", calls[0].arguments, traits_of=deps.traits_of)
    assert (change.name, change.text, change.single_line) == ("words", "x", True)
    assert superseded(story, "/w") == {}
