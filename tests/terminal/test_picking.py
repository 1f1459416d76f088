"""The menu of sessions: its rows, and what is typed to narrow them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.output import DummyOutput

from agent_cli.kernel.session.store import SessionStore
from agent_cli.kernel.session.summary import SessionSummary
from agent_cli.shells.terminal.dialogs.session_picker import SessionFilter, SessionPicker, session_row
from tests.support.pipe_terminal import PipeTerminal
from tests.support.session_logs import keep, turn

NOW = datetime(2026, 1, 10, 12, tzinfo=UTC)


@given(st.text(max_size=120), st.text(max_size=40), st.integers(20, 200))
def test_a_row_is_one_harmless_line_of_its_width(title: str, branch: str, width: int) -> None:
    one = SessionSummary("0" * 36, Path("x"), name=title, branch=branch, ended="failed", cost=1234.5)
    shown = session_row(one, width, NOW, [one])
    assert not {c for c in shown if ord(c) < 32 or 0x7F <= ord(c) < 0xA0 or c in "\u202e\u2028\u200b"}
    assert len(shown) <= width


def test_in_a_narrow_window_the_title_stays() -> None:
    one = SessionSummary("0" * 36, Path("x"), name="fix the parser", branch="main", ended="failed", cost=1.5)
    assert session_row(one, 37, NOW, [one]).startswith("fix the parser (failed)")
    assert "$1.50" in session_row(one, 47, NOW, [one]) and "main" not in session_row(one, 47, NOW, [one])
    assert "main" in session_row(one, 77, NOW, [one])


def test_the_facts_of_sessions_are_as_wide_as_they_need_and_titles_have_the_rest() -> None:
    title = "write the release notes, with all that changed since March"
    plain = SessionSummary("0" * 36, Path("x"), name=title, branch="main")
    dear = plain.replace(branch="feature/dates", cost=1.5)
    assert title in session_row(plain, 80, NOW, [plain])
    rows = [session_row(each, 120, NOW, [plain, dear]) for each in (plain, dear)]
    assert rows[0].index("main") == rows[1].index("feature/dates") and "$1.50" in rows[1]


def test_titles_first_then_what_was_written(tmp_path: Path) -> None:
    store = SessionStore(tmp_path, tmp_path)
    keep(store, 1, turn("fix the parser", "lexer"), branch="feature/x")
    keep(store, 2, turn("docs", "about the parser"))
    narrowing = SessionFilter(list(store.summaries()))
    assert [g.first for g in narrowing.matching("")] == ["docs", "fix the parser"]
    assert [g.first for g in narrowing.matching("PARSER")] == ["fix the parser"]
    assert [g.first for g in narrowing.matching("feature")] == ["fix the parser"]
    assert [g.first for g in narrowing.matching("about")] == ["docs"]
    assert narrowing.matching("zz") == narrowing.matching("zzzz") == []


def test_keys_choose_narrow_and_leave() -> None:
    found = [SessionSummary(f"{n:036x}", Path("x"), name=f"name {n}") for n in range(30)]

    def chosen(keys: str) -> str | None:
        with PipeTerminal() as source:
            source.send_text(keys)
            picked = SessionPicker(found).run(source.stdin, DummyOutput())
        return picked.name if picked else None

    assert chosen("\r") == "name 0"
    assert chosen("\x1b[B\x1b[B\r") == "name 2"
    assert chosen("\x1b[1;129B\x1b[13;1u") == "name 1"
    assert chosen("\x1b[A\r") == "name 29"
    assert chosen("27\r") == "name 27"
    assert chosen("2\x1b[Bx\x7f\r") == "name 2"
    assert chosen("\x03") is None
    assert chosen("nothing like it\r\x04") is None
