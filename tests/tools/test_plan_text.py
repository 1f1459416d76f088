"""A plan as text: everything it comes down to is in it, and what was edited is read back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_tools.base import ToolContext
from agent_tools.fs.workspace import Workspace
from agent_tools.plan import (
    SECTION_MARKER,
    SECTIONS,
    ExitPlanMode,
    ExitPlanModeArgs,
    PlanFormatError,
    parse_plan,
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
