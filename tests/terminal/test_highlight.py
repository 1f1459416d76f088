"""Colours of code line by line: those of the whole text, and the text itself never changed."""

from __future__ import annotations

import inspect
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pygments.lexers import get_lexer_by_name

from agent_cli.shells.terminal.render import code as highlight
from agent_cli.shells.terminal.render.code import MAX_LINE_CHARS, Highlighter


def styles(language: str, code: str) -> list[str]:
    """The style of every character but line ends."""
    highlighter = Highlighter(language)
    found = []
    for line in code.split("\n"):
        text = highlighter.line(line)
        assert text.plain == line
        here = [""] * len(line)
        for span in text.spans:
            here[span.start : span.end] = [str(span.style)] * (span.end - span.start)
        found += here[: len(line)]
    return found


def whole(language: str, code: str) -> list[str]:
    """The same from a lexer that sees the whole text."""
    found = []
    for _, kind, value in get_lexer_by_name(language).get_tokens_unprocessed(code + "\n"):
        found += [highlight._colour(kind) for c in value if c != "\n"]
    return found


BASH = 'set -e\nfor x in a "b\n$c"; do\n  echo $x `y` ${z:-1} # no\n  if [ -f "$x" ]; then cat; fi\ndone\n'


@pytest.mark.parametrize(
    ("language", "code"),
    [("python", inspect.getsource(highlight)), ("bash", BASH), ("c", "/* a */ int main(void) { return 0; } // x\n")],
)
def test_colours_are_those_of_the_whole_text(language: str, code: str) -> None:
    ours, theirs = styles(language, code), whole(language, code)
    assert len(ours) == len(theirs)
    wrong = sum(a != b for a, b in zip(ours, theirs, strict=True))
    assert wrong <= 0.01 * len(ours)


def test_json_and_yaml_have_colours_too() -> None:
    code = json.dumps({"key": ["text", 1.5, True, None]}, indent=1)
    assert {"bright_blue", "bright_green", "bright_cyan"} <= set(styles("json", code))
    assert len(set(styles("yaml", "key: value\nlist:\n  - 1\n  - 'text'\n"))) > 1


def test_a_look_ahead_does_not_move_on() -> None:
    highlighter = Highlighter("python")
    highlighter.line('x = """')
    assert highlighter.peek('still """').spans == highlighter.line('still """').spans


def test_unknown_languages_and_very_long_lines_are_left_as_they_are() -> None:
    assert Highlighter("nonsense").line("x = 1").spans == []
    assert Highlighter("").has_lexer is False
    assert Highlighter("python").line("x" * MAX_LINE_CHARS + "1").spans == []


@pytest.mark.parametrize(("name", "language"), [("a.py", "python"), ("x/Makefile", "make"), ("a.ts", "typescript")])
def test_a_file_name_tells_the_language(name: str, language: str) -> None:
    assert Highlighter.for_file(name)._lexer is Highlighter(language)._lexer is not None


LANGUAGES = (
    "python", "bash", "js", "ts", "html", "css", "c", "c++", "rust", "go", "java", "ruby", "php", "sql", "yaml", "toml",
    "json", "markdown", "diff", "make", "xml", "lua", "perl", "haskell", "dockerfile", "console",
)  # fmt: skip


@given(st.sampled_from(LANGUAGES), st.text(st.sampled_from("ab1 \t\n\"'`{}()[]<>/*#$\\=:;-%@!&|"), max_size=60))
def test_no_code_loses_a_character(language: str, code: str) -> None:
    styles(language, code)


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("javascript", "/**\n * const a\n */\nconst b"), ("c", "int a; /* int b\n int c */\nint d"),
        ("java", "/** int a\n * int b\n */\nint c"), ("css", "/* color: red\n color: blue */\na { color: red }"),
        ("rust", "/* fn a\n fn b */\nfn c"), ("html", "<p><!-- <b>\n <b> -->\n<b>"),
    ],
)  # fmt: skip
def test_a_comment_over_several_lines_ends_where_it_ends(language: str, text: str) -> None:
    highlighter = Highlighter(language)
    first, *inside, last = [highlighter.line(line) for line in text.split("\n")]
    comment = {str(span.style) for span in first.spans if first.plain[span.start : span.end].startswith(("/*", "<!--"))}
    assert comment == {"bright_black"}
    assert all({str(span.style) for span in line.spans} == comment for line in inside)
    assert last.spans and comment.isdisjoint(str(span.style) for span in last.spans)
