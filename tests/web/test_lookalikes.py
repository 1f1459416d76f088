"""The page writes out what the terminal writes out in a question, and hides nothing of what is to be approved."""

from __future__ import annotations

from playwright.sync_api import Browser, expect

from agent_tools.lookalikes import escape_lookalikes
from tests.support.lookalike_texts import DECEIVING
from tests.support.scripts import bash
from tests.support.web_page import DESK, Served, press, reading


def test_the_page_writes_out_what_the_terminal_does(browser: Browser, served: Served) -> None:
    """Every text that deceives, as one command."""
    command = "; ".join(f"touch {text}" for text in DECEIVING if "\n" not in text)
    session = served.start([bash(command), {"text": "Over."}])
    with reading(browser, served, DESK, session=session) as reader:
        expect(reader.page.locator(".question pre")).to_have_text(escape_lookalikes(command))
        expect(reader.page.get_by_text("contains characters that look like others")).to_be_visible()


def test_a_command_with_escape_sequences_is_shown_whole(browser: Browser, served: Served) -> None:
    """A sequence that the page takes for a window title must not take the command in it away."""
    session = served.start([bash("ls \x1b]; touch hidden; echo \x07"), {"text": "Over."}])
    with reading(browser, served, session=session) as reader:
        shown = reader.page.locator(".question pre")
        expect(shown).to_have_text(r"ls \x1b]; touch hidden; echo \x07")
        press(reader.page, "Reject")
        expect(reader.page.get_by_text("Over.")).to_be_visible()
    assert not (served.work / "hidden").exists()
