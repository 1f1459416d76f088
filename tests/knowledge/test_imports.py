"""Which `@path` in a text is an import."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_cli.knowledge.memory_imports import MAX_IMPORTS, find_imports, is_path


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("See @docs/style.md.", ["docs/style.md"]),
        ("@README and (@a.md), @b.md!", ["README", "a.md", "b.md"]),
        ("- @~/.claude/mine.md\n- @../up.md\n- @/etc/x.md", ["~/.claude/mine.md", "../up.md", "/etc/x.md"]),
        ("@with\\ blank.md", ["with blank.md"]),
        ("@a.md @a.md", ["a.md"]),
        ("mail me@example.org, @scope/pkg@1.2, @", []),
        ("`@a.md` and ``@b.md ` `` but @c.md", ["c.md"]),
        ("`open and @a.md", ["a.md"]),
        ("`one\n\n@a.md two`", ["a.md"]),
        ("```\n@a.md\n```\n@b.md", ["b.md"]),
        ("~~~ sh\n@a.md\n```\n@b.md\n~~~\n@c.md", ["c.md"]),
        ("````\n```\n@a.md\n````\n@b.md", ["b.md"]),
        ("```\n@never.md", []),
        ("<!-- @a.md\n@b.md --> @c.md", ["c.md"]),
        ("<!-- @a.md", []),
        ("x `code`@a.md", []),
        ("@\x1b[2J.md", []),
    ],
)
def test_imports_are_found_outside_of_code_and_comments(text: str, found: list[str]) -> None:
    assert find_imports(text) == found


def test_names_of_people_and_packages_are_reported_from_paths() -> None:
    assert all(is_path(n) for n in ("./x", "../x", "~/x", "a.md", "docs/b.txt"))
    assert not any(is_path(n) for n in ("ada", "types/node", "app/router"))


@given(st.text(alphabet="@`~<!-> \n.a/\\", max_size=300))
def test_any_text_is_read_and_nothing_in_a_whole_line_of_code_counts(text: str) -> None:
    assert len(find_imports(text)) <= MAX_IMPORTS
    fenced = "\n".join(f"    {line}" for line in text.replace("`", "").replace("~", "").split("\n"))
    assert find_imports(f"~~~\n{fenced}\n~~~") == []


def test_a_text_full_of_backticks_takes_no_time() -> None:
    text = "".join("`" * (n % 300 + 1) + "a " for n in range(1000)) + "@a.md"
    assert len(find_imports(text)) <= 1
