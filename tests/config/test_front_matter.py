"""The heads of markdown files: quick where they are plain, YAML where they are not, words as people write them."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_cli.config import prompts
from agent_cli.config.prompts import FrontMatterError, read_front_matter, split_front_matter
from tests.support.hypothesis_examples import examples

KEYS = st.sampled_from(["tools", "x", "Key", "allowed-tools", "yes", "color"])
VALUES = st.one_of(
    st.sampled_from(
        ["true", "False", "yes", "1", "1e3", "a:", "a: b", "a #b", "[a]", "{", "Bash(git add:*), Read", "~"]
    ),
    st.text(st.characters(codec="ascii", exclude_characters="\n\r"), max_size=12),
)


@given(st.lists(st.tuples(KEYS, VALUES), max_size=4))
@settings(max_examples=examples(200), deadline=None)
def test_the_quick_reading_is_yamls_or_none(lines: list[tuple[str, str]]) -> None:
    head = "".join(f"{key}: {value}\n" for key, value in lines)
    quick = prompts._read_plain(head)
    if quick is not None:
        assert quick == (yaml.safe_load(head) or {})


@given(st.text(max_size=60))
@settings(max_examples=examples(200), deadline=None)
def test_no_head_raises_anything_else(text: str) -> None:
    head, body = split_front_matter(f"---\n{text}\n---\nbody")
    assert body.endswith("body")
    try:
        read_front_matter(head)
    except FrontMatterError as error:
        assert str(error)


@pytest.mark.parametrize(
    ("head", "table"),
    [
        ("description: Review [file]: quickly # now", {"description": "Review [file]: quickly # now"}),
        ("argument-hint: [pr] [what]\ntools: [a, b]", {"argument-hint": "[pr] [what]", "tools": ["a", "b"]}),
        ('description: "Quoted: yes"', {"description": "Quoted: yes"}),
        ("description: >\n  Two\n  lines\n", {"description": "Two lines\n"}),
        ("description: begun here\n  and ended here", {"description": "begun here and ended here"}),
        ("disable-model-invocation: true", {"disable-model-invocation": True}),
        ("allowed-tools: Bash(git add:*), Read", {"allowed-tools": "Bash(git add:*), Read"}),
        ("model: 5", {"model": "5"}),
        ("description: d\ntools: *", {"description": "d", "tools": "*"}),
        ("globs: **/*.ts, *.js\nx: [a]", {"globs": "**/*.ts, *.js", "x": ["a"]}),
        ("name: a\ndescription: Use it so.\n\n<example>\nuser: \"go: é\"\n</example>\nmodel: haiku\ntools: [Read]",
         {"name": "a", "description": "Use it so.\n\n<example>\nuser: \"go: é\"\n</example>", "model": "haiku",
          "tools": ["Read"]}),
        ("description: First.\nContext: more\n<commentary>", {"description": "First.\nContext: more\n<commentary>"}),
        ("# nothing but a remark", {}),
        ("", {}),
    ],
)  # fmt: skip
def test_what_a_head_says(head: str, table: dict[str, object]) -> None:
    assert read_front_matter(head) == table


@pytest.mark.parametrize(
    "head",
    [
        "a: [1",
        "- a\n- b",
        "a: 1\n b: 2",
        "x" * 20_000,
        "a: !!python/object:os.system x",
        "[" * 9000,
        "description: a\n<b>\ntools: [1",
    ],
)
def test_a_broken_head_is_one_sentence(head: str) -> None:
    with pytest.raises(FrontMatterError) as caught:
        read_front_matter(head)
    assert "\n" not in str(caught.value)


def test_the_line_of_a_mistake_counts_from_the_top_of_the_file() -> None:
    with pytest.raises(FrontMatterError, match="line 3"):
        read_front_matter("a: 1\nb: c: d\n")


def test_texts_without_a_head_are_body() -> None:
    assert split_front_matter("Just words.\n---\nmore") == ("", "Just words.\n---\nmore")
    assert split_front_matter("---\nnever closed") == ("", "---\nnever closed")
    assert split_front_matter("---\r\na: b\r\n---\r\nx\r\n") == ("a: b\n", "x\n")
    assert split_front_matter("---\n---\nx") == ("", "x")
