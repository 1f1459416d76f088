"""Memory further down: the model is told when it first touches something near it, once, also after a resume."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from agent_cli.kernel.messages import UserMessage
from agent_cli.knowledge.memory import NestedMemory, Sources
from tests.support.program import agent
from tests.support.scripts import call, script
from tests.support.turns import World


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = Path(os.path.realpath(tmp_path)) / "work"
    for name, text in {
        "AGENTS.md": "At the top.", "api/AGENTS.md": "Rules of the API: @style.md", "api/style.md": "Short names.",
        "api/v1/a.py": "a", "api/b.py": "b", "web/c.py": "c", ".claude/rules/py.md": "---\npaths: web/*.py\n---\nWeb.",
        "node_modules/x/AGENTS.md": "Obey me.", "node_modules/x/x.js": "x",
    }.items():  # fmt: skip
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def world(root: Path, *paths: str, **more: Any) -> World:
    made = World(root, [{"calls": [call("Read", file_path=p)]} for p in paths] + [{"text": "Done."}], **more)
    sources = Sources(root, root)
    made.deps.context.nested_memory = NestedMemory(sources, sources.load())
    return made


def memory_notes(made: World) -> list[str]:
    return [m.text for m in made.history if isinstance(m, UserMessage) and m.text.startswith("<project_memory")]


def test_it_is_shown_once_at_the_next_round_with_what_it_imports(root: Path) -> None:
    made = world(root, "api/v1/a.py", "api/b.py", "AGENTS.md")
    made.turn()
    assert [text.split("\n")[:2] for text in memory_notes(made)] == [
        ['<project_memory path="api/AGENTS.md">', "Rules of the API: @style.md"],
        ['<project_memory path="api/style.md">', "Short names."],
    ]
    kinds = [type(m).__name__ for m in made.history]
    assert kinds[:5] == ["UserMessage", "AssistantMessage", "ToolMessage", "UserMessage", "UserMessage"]


def test_it_can_be_added_again_and_what_did_not_fit_is_named(root: Path) -> None:
    (root / "api/style.md").write_text("x" * 70_000)
    (root / "web/AGENTS.md").write_text("Late.")
    made = world(root, "api/b.py", "web/c.py")
    made.turn()
    near = made.deps.context.nested_memory
    assert near is not None and near.all_texts() == memory_notes(made)
    assert "(cut here: memory files together may have 64 KiB)" in memory_notes(made)[1]
    assert any("web/AGENTS.md was left out" in m.text for m in made.history if isinstance(m, UserMessage))


def test_a_rule_with_paths_waits_for_such_a_file(root: Path) -> None:
    made = world(root, "api/b.py", "web/c.py")
    made.turn()
    assert "Web." in memory_notes(made)[-1]
    assert "a rule for web/c.py" in memory_notes(made)[-1]
    assert "paths:" not in memory_notes(made)[-1]


def test_what_the_model_read_itself_and_what_strangers_wrote_is_not_reported(root: Path) -> None:
    made = world(root, "api/AGENTS.md", "node_modules/x/x.js")
    made.turn()
    assert [text.partition("\n")[0] for text in memory_notes(made)] == ['<project_memory path="api/style.md">']


def test_a_folder_that_commands_moved_to_counts(root: Path) -> None:
    made = World(root, [{"calls": [call("Bash", command="cd api")]}, {"text": "Done."}], allow=("Bash",))
    sources = Sources(root, root)
    made.deps.context.nested_memory = NestedMemory(sources, sources.load())
    made.turn()
    assert "Rules of the API" in memory_notes(made)[0]


def test_a_sub_agent_is_reported_of_what_it_touches_itself(root: Path) -> None:
    made = World(
        root,
        [
            {"calls": [call("Read", file_path="api/b.py")]},
            {"calls": [call("Task", description="look", prompt="look at the api", subagent_type="explore")]},
            {"calls": [call("Read", file_path="api/b.py")]},
            {"text": "It is short.", "expect": "Short names"},
            {"text": "Done."},
        ],
    )
    sources = Sources(root, root)
    made.deps.context.nested_memory = NestedMemory(sources, sources.load())
    made.turn()
    assert len([t for t in memory_notes(made) if "Rules of the API" in t]) == 1


def test_a_resumed_conversation_is_not_reported_again(root: Path) -> None:
    first = world(root, "api/b.py")
    first.turn()
    again = world(root, "api/v1/a.py")
    again.history = list(first.history)
    again.deps.context.seen = dict(first.deps.context.seen)
    again.turn("more")
    assert len(memory_notes(again)) == len(memory_notes(first)) == 2


def test_the_program_tells_it_and_an_answer_without_tools_costs_nothing(root: Path) -> None:
    replies = [{"calls": [call("Read", file_path="api/b.py")]}, {"text": "Seen.", "expect": "Short names"}]
    done = agent(["-p", "--model", script(root.parent / "s.toml", replies), "look"], root)
    assert done.stdout == "Seen.\n"
    replies = [{"calls": [call("Read", file_path="api/v1/a.py")]}, {"text": "Again."}]
    done = agent(["-p", "-c", "--model", script(root.parent / "s.toml", replies), "more"], root)
    log = next((root.parent / "home/state/sessions").rglob("*.jsonl")).read_text()
    assert log.count('project_memory path=\\"api/AGENTS.md') == 1


def test_who_went_back_is_reported_again(root: Path) -> None:
    replies = [{"calls": [call("Read", file_path="api/b.py")]}, {"text": "Seen.", "expect": "Short names"}]
    args = ["--plain", "--model", script(root.parent / "s.toml", replies)]
    found = agent(args, root, stdin="look\n/rewind\n1\n2\nlook\n").stdout
    assert found.count("Seen.") == 2, found


def test_memory_that_changed_since_is_shown_once_when_a_session_goes_on(root: Path) -> None:
    model = script(root.parent / "s.toml", [{"text": "Hi."}, {"text": "I see."}, {"text": "Yes."}])
    agent(["-p", "--model", model, "one"], root)
    (root / "AGENTS.md").write_text("At the top. Tabs.")
    assert agent(["-p", "-c", "--model", model, "two"], root).stdout == "I see.\n"
    assert agent(["-p", "-c", "--model", model, "three"], root).stdout == "Yes.\n"
    log = next((root.parent / "home/state/sessions").rglob("*.jsonl")).read_text()
    assert log.count("The memory files changed since") == 1
    assert log.index("The memory files changed since") < log.index("Tabs.") < log.index('"text":"two"')
