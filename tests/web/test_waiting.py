"""What waits for long, and how the page calls the user back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from agent_cli.kernel.session.files import encode_record
from tests.support.scripts import call
from tests.support.web_page import Served, press, press_more, reading, serving, wait_until

PLAN = {"calls": [call("ExitPlanMode", plan="# Plan\n\n1. Write new.txt", files_to_create=["new.txt"])]}
EDIT = {"calls": [call("Edit", file_path="b.py", old_string="x = 1", new_string="x = 2")]}
READ = {"calls": [call("Read", file_path="b.py")]}
# A window in the background, and a browser that shows notifications.
BACKGROUND = """
window.shown = [];
window.Notification = class {
  static permission = "granted";
  static async requestPermission() { return "granted"; }
  constructor(title, options) { this.title = title; this.options = options; window.shown.push(this); }
  close() { this.closed = true; }
};
Object.defineProperty(document, "hidden", { get: () => window.inBackground || false });
"""


def aged(log: Path) -> None:
    """Set the times of a log back by years."""
    lines = []
    for line in log.read_bytes().splitlines():
        record: dict[str, Any] = json.loads(line)
        record.pop("crc", None)
        lines.append(encode_record(record | {"time": "2020" + record["time"][4:]}))
    log.write_bytes(b"\n".join(lines) + b"\n")


def test_a_plan_that_expired_is_marked_and_a_new_one_is_asked_for(browser: Browser, served: Served) -> None:
    again = {"text": "The plan was too old.", "expect": "expired"}
    session = served.start([PLAN, again], mode="plan")
    served.stop()
    (log,) = served.home.rglob(f"{session}.jsonl")
    aged(log)
    served.run()
    with reading(browser, served, session=session) as reader:
        expect(reader.page.get_by_text("This plan has expired")).to_be_visible()
        press(reader.page, "Approve")
        expect(reader.page.locator(".question")).to_be_hidden()
    assert not (served.work / "new.txt").exists()


@pytest.mark.parametrize(("choice", "text"), [("Continue", "x = 2\n"), ("Undo this", "x = 1\n")])
def test_a_review_shows_the_changes_and_takes_them_back(
    browser: Browser, tmp_path: Path, choice: str, text: str
) -> None:
    with serving(tmp_path) as served:
        (served.home / ".agentrc").write_text('review = "files"\n')
        session = served.start([READ, EDIT, READ, {"text": "All right."}], mode="acceptEdits")
        with reading(browser, served, session=session) as reader:
            question = reader.page.locator(".question")
            expect(question.get_by_text("x = 2")).to_be_visible()
            expect(reader.page.get_by_label("Transcript, scrollable").get_by_text("b.py was changed.")).to_be_visible()
            if choice == "Continue":
                press(reader.page, choice)
            else:
                reader.page.wait_for_timeout(700)
                press_more(reader.page, choice)
                reader.page.get_by_role("dialog", name="Undo these").get_by_role("button", name=choice).click()
            expect(reader.page.get_by_text("All right.")).to_be_visible()
        assert (served.work / "b.py").read_text() == text


def test_a_window_in_the_background_is_notified_and_a_click_opens_the_session(browser: Browser, served: Served) -> None:
    with reading(browser, served) as reader:
        page = reader.page
        page.add_init_script(BACKGROUND)
        page.reload()
        page.get_by_role("button", name="Notifications: off").click()
        expect(page.get_by_role("button", name="Notifications: on")).to_be_visible()
        page.evaluate("window.inBackground = true")
        session = served.start([PLAN], prompt="Call me back", mode="plan")
        wait_until(lambda: page.evaluate("window.shown.length > 0"))
        assert page.evaluate("[shown[0].title, shown[0].options.body]") == ["Waiting for you", "Call me back"]
        page.evaluate("window.inBackground = false; shown[0].onclick()")
        expect(page.locator(".question").get_by_role("heading", name="Approve this plan?")).to_be_visible()
        assert page.evaluate("shown[0].closed") and session in page.url
