"""A plan as text: everything it comes down to is in it, and what was edited is read back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_tools.base import ToolContext, ToolError
from agent_tools.fs.workspace import Workspace
from agent_tools.plan import (
    SECTION_MARKER,
    SECTIONS,
    ExitPlanMode,
    ExitPlanModeArgs,
    PlanFormatError,
    parse_plan,
    plan_file,
    plan_for_editor,
    plan_text,
)


def proposed(**arguments: Any) -> dict[str, Any]:
    """The data of the question that ExitPlanMode asks."""
    result = ExitPlanMode().run(ExitPlanModeArgs(**arguments), ToolContext(Workspace(Path("/")), env={}))
    assert result.suspend is not None
    return result.suspend.data


WHOLE = {
    "plan": "Rename the slug.\n\n## Why\n\nIt is wrong.",
    "steps": ("Change slug.py", "Run the tests"),
    "files_to_create": ("docs/slug.md",),
    "files_to_modify": ("slug.py", "test_slug.py"),
    "commands": ("git mv a b\ngit status", "make"),
    "dependencies": ("unidecode",),
    "tests": ("python -m pytest tests/test_slug.py",),
}


def test_everything_a_plan_comes_down_to_is_in_its_text() -> None:
    assert plan_text(proposed(**WHOLE)) == (
        "Rename the slug.\n\n## Why\n\nIt is wrong.\n\n"
        "## Steps\n1. Change slug.py\n2. Run the tests\n\n"
        "## Files to create\n- docs/slug.md\n\n"
        "## Files to modify\n- slug.py\n- test_slug.py\n\n"
        "## Commands\n- git mv a b\n    git status\n- make\n\n"
        "## Dependencies\n- unidecode\n\n"
        "## Tests\n- python -m pytest tests/test_slug.py"
    )


def test_steps_that_the_prose_lists_are_not_listed_twice() -> None:
    data = proposed(plan="# Plan\n1. One\n2. Two\n")
    assert data["steps"] == ["One", "Two"]
    assert plan_text(data) == "# Plan\n1. One\n2. Two"
    edited = parse_plan(plan_for_editor(data).replace("2. Two", "2. Two\n3. Three"))
    assert edited["steps"] == ["One", "Two", "Three"]


def test_a_plan_of_steps_alone() -> None:
    assert plan_text({"plan": "", "steps": [{"content": "One", "status": "pending"}]}) == "## Steps\n1. One"


_LINE = st.text(st.characters(codec="utf-8"), max_size=12) | st.sampled_from(
    ["## Steps", "## Commands:", "1. one", "- two", "    three", "\t", SECTION_MARKER, "# Tests #", "<!--", "2)"]
)
_TEXT = st.lists(_LINE, max_size=5).map("\n".join)
_PLANS = st.fixed_dictionaries({"plan": _TEXT} | {name: st.lists(_TEXT, max_size=3).map(tuple) for name in SECTIONS})


@given(_PLANS)
def test_what_was_not_edited_is_read_back_as_it_was(arguments: dict[str, Any]) -> None:
    data = proposed(**arguments)
    if not data["plan"].strip() and not any(data[name] for name in SECTIONS):
        with pytest.raises(PlanFormatError, match="empty"):
            parse_plan(plan_for_editor(data))
    else:
        assert parse_plan(plan_for_editor(data)) == data


def test_sections_are_added_removed_and_changed() -> None:
    text = plan_for_editor(proposed(**WHOLE))
    text = text.replace("## Dependencies\n- unidecode\n\n", "").replace("- make", "* make\n- make test\n  in ./x")
    edited = parse_plan(text.replace("1. Change slug.py", "1) Change it").replace("## Tests", "### tests:"))
    assert edited["dependencies"] == []
    assert edited["commands"] == ["git mv a b\ngit status", "make", "make test\nin ./x"]
    assert edited["steps"] == ["Change it", "Run the tests"]
    assert edited["tests"] == list(WHOLE["tests"])
    assert parse_plan("1. Just this\n2. And that")["steps"] == ["Just this", "And that"]
    assert parse_plan(f"Prose\n{SECTION_MARKER}\r\n## Commands\r\n- make\r\n")["commands"] == ["make"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (f"x\n{SECTION_MARKER}\n## Stepps\n1. a", 'There is no section "## Stepps"; the sections are Steps, Files'),
        (f"x\n{SECTION_MARKER}\n## Steps\njust words", '"just words" is not a list item'),
        (f"x\n{SECTION_MARKER}\n- item", '"- item" is not a list item'),
        ("x\n## Steps\n1. a", "put this line above the first section"),
        (f"\n\n{SECTION_MARKER}\n", "The plan is empty."),
    ],
)
def test_what_cannot_be_read_back_is_refused_with_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(PlanFormatError) as refused:
        parse_plan(text)
    assert sentence in str(refused.value)


def test_files_of_a_plan_may_be_objects() -> None:
    given = {
        "plan": "Log in.",
        "files_to_create": [{"path": "auth/jwt.py", "purpose": "tokens"}, "auth/x.py"],
        "filesToModify": [{"path": "app.py", "changes": ["a route", "an import"]}, {"file": "b.py"}],
        "tests": [{"path": "tests/test_jwt.py", "coverage": "expiry"}],
        "steps": [{"id": "1", "content": "Write it", "status": "pending"}, {"title": "Test", "description": "all"}],
        "commands": [{"command": "pip install x", "purpose": "for tokens"}, "make"],
        "dependencies": [{"name": "pyjwt", "version": "2.8"}],
    }
    tool = ExitPlanMode()
    result = tool.run(tool.read(given), ToolContext(Workspace(Path("/")), env={}))
    assert result.suspend is not None
    data = result.suspend.data
    assert plan_text(data) == (
        "Log in.\n\n"
        "## Steps\n1. Write it\n2. Test: all\n\n"
        "## Files to create\n- auth/jwt.py: tokens\n- auth/x.py\n\n"
        "## Files to modify\n- app.py: a route; an import\n- b.py\n\n"
        "## Commands\n- pip install x  # for tokens\n- make\n\n"
        "## Dependencies\n- pyjwt: 2.8\n\n"
        "## Tests\n- tests/test_jwt.py: expiry"
    )
    assert parse_plan(plan_for_editor(data)) == data
    assert [plan_file(item) for item in data["files_to_create"]] == [("auth/jwt.py", "tokens"), ("auth/x.py", "")]


@pytest.mark.parametrize(
    ("given", "items"),
    [
        ({"a.py": "new", "b.py": ""}, ["a.py: new", "b.py"]),
        ({"path": "a.py", "purpose": "new"}, ["a.py: new"]),
        ("a.py: new\nb.py", ["a.py: new", "b.py"]),
        ([{"purpose": "new", "path": "a.py"}], ["a.py: new"]),
        ('[{"path": "a.py", "purpose": "new"}]', ["a.py: new"]),
        (' {"path": "a.py", "purpose": "new"}', ["a.py: new"]),
        (['{"path": "a.py", "purpose": "new"}', "b.py"], ["a.py: new", "b.py"]),
        ('["a.py: new", "b.py"]', ["a.py: new", "b.py"]),
        ("[id]/page.tsx: new", ["[id]/page.tsx: new"]),
        ([{"path": "a.py", "purpose": None, "lines": 3}], ["a.py: 3"]),
        ([["a.py", "new"]], ["a.py: new"]),
        ([], []),
    ],
)
def test_other_forms_of_a_list_are_read(given: Any, items: list[str]) -> None:
    assert list(ExitPlanMode().read({"plan": "x", "files_to_create": given}).files_to_create) == items


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            {"files_to_create": [{"path": "a.py", "purpose": "new"}], "tests": [{"path": "t.py", "coverage": "all"}]},
            "## Files to create\n- a.py: new\n\n## Tests\n- t.py: all",
        ),
        ({"plan": None, "steps": ["one", "two"]}, "## Steps\n1. one\n2. two"),
        ({"goal": "Log in.", "commands": ["make"]}, "## Goal\nLog in.\n\n## Commands\n- make"),
        ({"plan": {"summary": "Log in.", "steps": ["one", "two"]}}, "## Summary\nLog in.\n\n## Steps\n1. one\n2. two"),
        (
            {"plan": "Log in.", "risks": [{"risk": "keys", "mitigation": "rotate"}], "open_questions": []},
            "Log in.\n\n## Risks\n- keys: rotate",
        ),
        ({"plan": ["First this.", "Then that."]}, "First this.\nThen that."),
        (
            {"plan": "x", "steps": [{"id": 1, "description": "Write it", "status": "pending"}]},
            "x\n\n## Steps\n1. Write it",
        ),
    ],
)
def test_a_plan_in_another_form_loses_nothing(given: Any, text: str) -> None:
    tool = ExitPlanMode()
    result = tool.run(tool.read(given), ToolContext(Workspace(Path("/")), env={}))
    assert result.suspend is not None and plan_text(result.suspend.data) == text
    assert plan_text(parse_plan(plan_for_editor(result.suspend.data))) == text


@pytest.mark.parametrize("given", [{}, {"plan": None, "steps": []}])
def test_a_plan_without_anything_is_refused(given: Any) -> None:
    with pytest.raises(ToolError, match="plan"):
        ExitPlanMode().read(given)


@pytest.mark.parametrize("given", [3, [3.5, True], [["a"]]])
def test_a_list_of_something_else_is_refused(given: Any) -> None:
    with pytest.raises(ToolError, match="files_to_create"):
        ExitPlanMode().read({"plan": "x", "files_to_create": given})
