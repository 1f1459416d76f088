"""Exports: what was said is in them, whatever it was; and nothing that was said becomes markup."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from agent_cli.kernel.events import ApprovalResolved, SessionNamed, SubagentEvent, ToolFinished, ToolRequested, Warned
from agent_cli.kernel.messages import ToolCall
from agent_cli.kernel.session.export import (
    POLICY,
    STYLE,
    as_html,
    as_markdown,
    code_fence,
    data,
    document,
    inline_code,
    markdown,
    page,
    write_document,
)
from agent_cli.kernel.session.export_document import Document, ToolEntry, build_document
from agent_cli.kernel.session.records import Header
from agent_cli.kernel.session.store import SessionStore
from agent_tools.results import Diff, TodoItem, TodoView
from tests.support.hypothesis_examples import examples
from tests.support.session_logs import answered, asked, called, ended, keep, log_bytes, session_id, spent

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "</pre></details></body><svg onload=alert(1)>",
    "\"><a href='javascript:alert(1)'>",
    "[x](javascript:alert(1)) [y](data:text/html,<b>) <javascript:alert(1)>",
    "![tracker](https://evil.example/pixel.png)",
    "<!-- <style>*{display:none}</style>",
    "```\n</code></pre><script>1</script>",
    "a `<b>` <b>\n\n    <i>indented</i>\n\n> <u>quoted\n\n- <s>item",
    "&lt;script&gt; &#60;script>",
    "\x1b]52;c;eA==\x07\u202eevil\u200b\ud800",
    "<a\nhref=x>\n<?php 1 ?> <![CDATA[x]]> <!DOCTYPE x>",
]
# What the page itself and the renderer of markdown write.
TAGS = set(
    "html head meta title style body h1 h2 h3 h4 h5 h6 dl dt dd div p details summary pre code span a ul ol li em "
    "strong s blockquote hr br table thead tbody tr th td".split()
)
ATTRIBUTES = {
    "lang",
    "charset",
    "http-equiv",
    "content",
    "name",
    "class",
    "open",
    "href",
    "rel",
    "start",
    "style",
    "title",
}


class Seen(HTMLParser):
    """What a browser would take for markup; all text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.wrong: list[str] = []
        self.open: list[str] = []
        self.words = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        void = tag in ("meta", "br", "hr")
        self.open += [] if void else [tag]
        self.wrong += [tag] if tag not in TAGS else []
        for name, value in attrs:
            fine = name in ATTRIBUTES
            fine = fine and (name != "href" or bool(re.match(r"(https?://|mailto:|$)", value or "", re.IGNORECASE)))
            fine = fine and (name != "style" or bool(re.fullmatch(r"text-align:(left|right|center)", value or "")))
            self.wrong += [] if fine else [f"{tag} {name}={value}"]

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"/{tag}")

    def handle_data(self, data: str) -> None:
        self.words += data

    def handle_comment(self, data: str) -> None:
        self.wrong.append(f"comment {data}")

    def handle_decl(self, decl: str) -> None:
        self.wrong += [] if decl == "DOCTYPE html" else [decl]

    def handle_pi(self, data: str) -> None:
        self.wrong.append(data)


def session(text: str) -> Document:
    """A session in which a text stands wherever one can."""
    call = ToolCall("c1", "Edit", {"file_path": text, "new_string": text})
    run = ToolCall("c2", "Bash", {"command": text})
    events = [
        asked(text),
        answered(text, call, run),
        *called(call, text, Diff(text, f"@@ -1 +1 @@\n-{text}\n+{text}", 1, 1), summary=text),
        ApprovalResolved("c2", "reject", "person", text),
        *called(run, text, TodoView((TodoItem(text),)), summary=text),
        SubagentEvent(text, "c2", ToolRequested("n1", "Read", {"file_path": text}, text)),
        Warned(text),
        answered(text),
        ended(result="Failed", reason="failed").replace(text=text),
    ]
    header = Header(session_id(1), text, text, text, text, (), "0", text, text)
    return build_document(log_bytes(header, [*events, SessionNamed(text)]), session_id(1))


def check(text: str) -> None:
    found = session(text)
    seen = Seen(page(found))
    assert not seen.wrong
    assert not seen.open
    html = [t for t in _all(MarkdownIt("commonmark", {"html": True}).enable("table"), markdown(found)) if "html" in t]
    assert not html
    json.loads(data(found))
    assert not re.search(r"[\x00-\x08\x0e-\x1f\x7f\u202e\u200b]", page(found) + markdown(found))


def _all(parser: MarkdownIt, text: str) -> list[str]:
    return [t.type for token in parser.parse(text) for t in (token, *(token.children or ()))]


@pytest.mark.parametrize("text", HOSTILE)
def test_what_was_written_is_never_markup(text: str) -> None:
    check(text)


SIGNS = r"""< > </ <!-- --> script <b onx=" ' &lt; ` ``` ~~~ # | [ ]( ) javascript: <? <![CDATA[ ]]> \ * x https://e/"""
pieces = st.sampled_from([*SIGNS.split(), "\n", "\n\n", "    ", "> ", "- ", " ", "\x1b", "\u202e"])


@settings(max_examples=examples(200), deadline=None)
@given(text=st.lists(pieces, min_size=1, max_size=12).map("".join))
def test_no_soup_of_signs_is_markup(text: str) -> None:
    check(text)


@settings(max_examples=examples(300), deadline=None)
@given(text=st.lists(pieces, max_size=20).map("".join))
def test_words_in_a_document_end_where_they_end(text: str) -> None:
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    behind = parser.parse(f"{as_markdown(text)}\n\n# Behind\n")
    assert [t.type for t in behind[-3:]] == ["heading_open", "inline", "heading_close"]
    assert not [t for t in behind if "html" in t.type]
    block = parser.parse(f"{code_fence(text)}\n\n# Behind\n")
    assert [t.type for t in block] == ["fence", "heading_open", "inline", "heading_close"]
    line = parser.parse(inline_code(text))
    assert [[c.type for c in t.children or ()] for t in line if t.type == "inline"] in ([["code_inline"]], [])
    assert not Seen(as_html(text)).wrong


def test_markdown_stays_what_it_was() -> None:
    text = "Use `a < b` and **this**:\n\n```html\n<b>kept</b>\n```\n\n| a | b |\n| - | - |\n| 1 | 2 |\n\n1 < 2 <- 3"
    assert as_markdown(text) == text
    assert "<strong>this</strong>" in as_html(text)
    assert "&lt;b&gt;kept&lt;/b&gt;" in as_html(text)
    assert "<table>" in as_html(text)
    assert ' rel="noopener noreferrer">' in as_html("[a page](https://example.org)")


def test_the_page_folds_calls_colours_changes_and_loads_nothing(tmp_path: Path) -> None:
    call = ToolCall("c1", "Edit", {"file_path": "a.py"})
    run = ToolCall("c1", "Bash", {"command": "make test"})
    diff = Diff("a.py", "@@ -1 +1 @@\n-old\n+new\n same", 1, 1)
    events = [
        asked("Change it"), answered("I **do**.", call), *called(call, "ok", diff, summary="Edit a.py"),
        answered("And", run), *called(run, "12 passed", summary="Run: make test"), answered("Done."),
        spent(0.5), ended(0.5),
    ]  # fmt: skip
    path = keep(SessionStore(tmp_path, tmp_path), 1, events, name="The change", branch="main")
    text = document(path, "html")
    assert '<span class="del">-old</span><span class="add">+new</span><span class="same"> same</span>' in text
    assert text.count("<details") == 2
    assert "12 passed" in text
    assert "prefers-color-scheme: dark" in STYLE
    assert POLICY.startswith("default-src 'none'")
    assert not re.search(r"<script|src=|@import|url\(", text)
    seen = Seen(text)
    assert "The change" in seen.words
    assert "$0.5000" in seen.words
    plain = document(path, "markdown")
    assert "```diff\n@@ -1 +1 @@\n-old\n+new" in plain
    assert "```sh\nmake test\n```" in plain
    whole = json.loads(document(path, "json"))
    kinds = [entry["type"] for entry in whole["entries"]]
    assert kinds == ["Said", "Answer", "Done", "Answer", "Done", "Answer"]
    assert whole["entries"][4]["text"] == "12 passed"
    assert (whole["title"], whole["usage"]["cost"], whole["header"]["branch"]) == ("The change", 0.5, "main")


def test_calls_of_a_sub_agent_stand_in_its_task(tmp_path: Path) -> None:
    task = ToolCall("t1", "Task", {"prompt": "look"})
    inner = ToolRequested("i1", "Read", {"file_path": "x"}, "Read x")
    events = [
        asked("go"), answered("", task), ToolRequested("t1", "Task", {"prompt": "look"}, "explore: look"),
        SubagentEvent("explore", "t1", inner),
        SubagentEvent("explore", "t1", ToolFinished("i1", "Read", False, 3)),
        *called(task, "found", summary="explore: look")[1:],
    ]  # fmt: skip
    path = keep(SessionStore(tmp_path, tmp_path), 1, list(events))
    entry = build_document(path.read_bytes(), "x").entries[-1]
    assert isinstance(entry, ToolEntry)
    assert [i.summary for i in entry.inner] == ["Read x"]


def test_a_file_that_is_there_stays_unless_it_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "x.html"
    write_document(path, "one", replace=False)
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError):
        write_document(path, "two", replace=False)
    assert path.read_text() == "one"
    write_document(path, "three", replace=True)
    assert path.read_text() == "three"
    assert [p.name for p in tmp_path.iterdir()] == ["x.html"]


def test_what_the_program_sent_to_the_model_is_not_shown_as_the_users(tmp_path: Path) -> None:
    notes = [asked("<undo>\nThe user took back your changes to: a\n</undo>"), asked("<b>mine</b>")]
    path = keep(SessionStore(tmp_path, tmp_path), 1, [asked("go"), answered("Done."), *notes])
    text, html = document(path, "markdown"), document(path, "html")
    assert text.count("## You, ") == 2 and text.count("## Note to the model, ") == 1
    assert html.count("<h2>You, ") == 2 and html.count("<h2>Note to the model, ") == 1
