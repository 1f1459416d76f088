"""Messages are written on the page: commands, completion, files, drafts, earlier messages; model and mode."""

from __future__ import annotations

import re
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Browser, expect

from tests.support.scripts import bash, call
from tests.support.web_page import Served, press, reading, serving

SLOW = {"text": "word " * 80, "pause": 0.05}
PASTE = """
([name, type, text]) => {
  const data = new DataTransfer();
  data.items.add(new File([text], name, { type }));
  const event = new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true });
  document.querySelector(".composer textarea").dispatchEvent(event);
}
"""
DROP = (
    PASTE.replace("new ClipboardEvent", "new DragEvent")
    .replace('"paste"', '"drop"')
    .replace("clipboardData", "dataTransfer")
)


def test_commands_and_files_are_completed_and_no_command_is_sent(
    browser: Browser, served: Served, size: tuple[int, int]
) -> None:
    session = served.start([{"text": "One."}, {"text": "Two.", "expect": "x = 1"}], "Hello", "done")
    with reading(browser, served, size, session=session) as reader:
        page = reader.page
        field = page.get_by_label("Message", exact=True)
        field.press_sequentially("/co")
        options = page.get_by_role("listbox", name="Completions").get_by_role("option")
        expect(options.first).to_contain_text("/compact")
        assert reader.axe() == []
        expect(options).to_have_text(
            [re.compile(f"/{name}") for name in ("compact", "commit", "continue", "cost", "copy", "record")]
        )
        for _ in range(3):
            field.press("ArrowUp")
        field.press("Enter")
        expect(field).to_have_value("/cost ")
        page.get_by_role("button", name="Send").click()
        expect(page.get_by_role("heading", name="Usage and cost")).to_be_visible()
        page.keyboard.press("Escape")
        expect(field).to_have_value("")
        field.fill("/nonsense")
        page.get_by_role("button", name="Send").click()
        expect(page.get_by_text("Unknown command /nonsense")).to_be_visible()
        expect(field).to_have_value("/nonsense")
        field.fill("")
        field.press_sequentially("Read @b.p")
        expect(options.first).to_contain_text("@b.py")
        field.press("Tab")
        expect(field).to_have_value("Read @b.py ")
        page.get_by_role("button", name="Send").click()
        expect(page.locator(".answer", has_text="Two.")).to_be_visible()


def test_commands_of_the_terminal_work_on_the_page(browser: Browser, served: Served) -> None:
    todo = call("TodoWrite", todos=[{"content": "look", "status": "completed"}])
    session = served.start([{"text": "I look.", "calls": [todo]}, {"text": "Looked."}], "Look", "done")
    with reading(browser, served, session=session) as reader:
        page = reader.page
        field = page.get_by_label("Message", exact=True)

        def run(command: str) -> None:
            field.fill(command)
            page.get_by_role("button", name="Send").click()
            expect(field).to_have_value("")

        run("/rename Look twice")
        expect(page.get_by_role("heading", name="Look twice")).to_be_visible()
        run("/plan")
        expect(page.locator(".composer").get_by_role("button", name="Plan first")).to_be_visible()
        run("/mode acceptEdits")
        expect(page.locator(".composer").get_by_role("button", name="Accept edits")).to_be_visible()
        run("/todos")
        expect(page.get_by_role("dialog", name="Plan").get_by_text("look")).to_be_visible()
        page.keyboard.press("Escape")
        run("/continue")
        expect(page.get_by_text("There is nothing to resume")).to_be_visible()
        run("/rewind")
        expect(page.get_by_role("dialog", name="Undo")).to_be_visible()
        page.keyboard.press("Escape")
        run("/context")
        expect(page.get_by_role("dialog", name="Usage and cost")).to_be_visible()
        page.keyboard.press("Escape")
        run("/help")
        shown = page.get_by_role("dialog", name="Commands and keys")
        expect(shown.get_by_text("/uncompact")).to_have_count(0)
        expect(shown.get_by_text("/sessions")).to_be_visible()
        expect(shown.get_by_text("The board: sessions by state")).to_be_attached()
        assert reader.axe() == []
        page.keyboard.press("Escape")
        run("/sessions twice")
        expect(page.get_by_label("Search sessions")).to_have_value("twice")
        expect(page.locator(".row")).to_have_count(1)


def test_files_come_by_paste_drop_and_picker(browser: Browser, tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        (served.home / ".agentrc").write_text('model_takes = ["image"]\n')
        out = BytesIO()
        Image.new("RGB", (8, 8), "red").save(out, "PNG")
        session = served.start([{"text": "One."}, {"text": "Two.", "expect": "the secret is 42"}], "Hello", "done")
        with reading(browser, served, session=session) as reader:
            page = reader.page
            chips = page.get_by_role("list", name="Files of the message").get_by_role("listitem")
            expect(page.get_by_label("Message", exact=True)).to_be_visible()
            page.evaluate(PASTE, ["pasted.txt", "text/plain", "the secret is 42"])
            expect(chips).to_have_text(["pasted.txt"])
            page.evaluate(DROP, ["dropped.txt", "text/plain", "no secret"])
            expect(chips).to_have_count(2)
            with page.expect_file_chooser() as chooser:
                page.get_by_role("button", name="Attach files").click()
            chooser.value.set_files({"name": "red.png", "mimeType": "image/png", "buffer": out.getvalue()})
            expect(chips).to_have_count(3)
            page.evaluate(PASTE, ["zero.bin", "application/x", "a\0b"])
            expect(page.get_by_text("zero.bin is neither an image nor text")).to_be_visible()
            page.get_by_role("button", name="Remove dropped.txt").click()
            assert reader.axe() == []
            page.get_by_role("button", name="Send").click()
            expect(page.locator(".user-text").last).to_contain_text("Attached: pasted.txt, red.png")
            expect(page.locator("img.picture")).to_be_visible()
            expect(page.locator(".answer", has_text="Two.")).to_be_visible()
            expect(chips).to_have_count(0)


def test_a_draft_survives_a_reload_and_earlier_messages_come_back(browser: Browser, served: Served) -> None:
    session = served.start([{"text": "One."}, {"text": "Two."}], "The first message", "done")
    with reading(browser, served, session=session) as reader:
        page = reader.page
        field = page.get_by_label("Message", exact=True)
        field.fill("Half a thought")
        page.reload()
        expect(field).to_have_value("Half a thought")
        field.fill("")
        expect(page.locator(".user-text")).to_have_count(1)
        field.press("ArrowUp")
        expect(field).to_have_value("The first message")
        field.press("ArrowDown")
        expect(field).to_have_value("")
        page.reload()
        expect(field).to_have_value("")


def test_a_message_that_waits_is_taken_back_and_edited(browser: Browser, served: Served) -> None:
    session = served.start([SLOW, {"text": "Never."}], "Slowly", "running")
    with reading(browser, served, session=session) as reader:
        page = reader.page
        field = page.get_by_label("Message", exact=True)
        # Until its turn has begun, the first message waits as well.
        expect(page.locator(".user-text")).to_have_text("Slowly")
        expect(page.locator(".queued")).to_be_hidden()
        page.get_by_label("When the model gets it").select_option("queue")
        field.fill("And then this")
        field.press("Enter")
        expect(page.locator(".queued-text")).to_have_text("And then this")
        page.get_by_role("button", name="Edit this message").click()
        expect(field).to_have_value("And then this")
        expect(page.locator(".queued")).to_be_hidden()


@pytest.mark.parametrize("role", ["start", "decide"])
def test_model_and_mode_are_changed_beside_the_message(browser: Browser, served: Served, role: str) -> None:
    session = served.start([bash("touch one"), {"text": "One."}], "Hello")
    token = served.token if role == "start" else served.named("mode", role)
    with reading(browser, served, session=session, token=token) as reader:
        page = reader.page
        if role == "decide":
            expect(page.get_by_text("Your role is decide")).to_be_visible()
            return
        page.get_by_role("button", name="Ask before changes").click()
        dialog = page.get_by_role("dialog", name="Permission mode")
        expect(dialog.get_by_role("button", name="Ask before changes")).to_have_attribute("aria-current", "true")
        expect(dialog.get_by_role("button", name="Allow everything")).to_have_count(0)
        assert reader.axe() == []
        dialog.get_by_role("button", name="Accept edits").click()
        expect(page.locator(".composer").get_by_role("button", name="Accept edits")).to_be_visible()
        press(page, "Allow once")
        expect(page.locator(".answer", has_text="One.")).to_be_visible()
        assert served.ask(f"/v1/sessions/{session}")["mode"] == "acceptEdits"
