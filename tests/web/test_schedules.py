"""Schedules on the page: one is added, paused, run, decided and removed."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, expect

from tests.support.scripts import call
from tests.support.web_page import press_more, reading, serving


def test_a_schedule_is_added_run_and_decided(browser: Browser, tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        replies = [{"calls": [call("Bash", command="mkdir made")]}, {"text": "Tidied."}]
        (served.home / ".agentrc").write_text(f'model = "{served.model(replies)}"\n')
        with reading(browser, served) as reader:
            page = reader.page
            page.get_by_role("button", name="Schedules").click()
            dialog = page.get_by_role("dialog", name="Schedules")
            dialog.get_by_text("Add a schedule").click()
            dialog.get_by_label("When").fill("someday")
            dialog.get_by_label("Task").fill("Tidy up")
            dialog.get_by_role("button", name="Add").click()
            expect(page.get_by_text("is not a time")).to_be_visible()
            dialog.get_by_label("When").fill("weekdays 9:00")
            dialog.get_by_role("button", name="Add").click()
            pause = dialog.get_by_role("button", name="Pause")
            expect(pause).to_be_visible()
            assert reader.axe() == []
            pause.click()
            dialog.get_by_role("button", name="Resume").click()
            expect(pause).to_be_visible()
            dialog.get_by_role("button", name="Run now").click()
            expect(page.get_by_text("Started.")).to_be_visible()
            dialog.get_by_role("button", name="Close").click()
            page.get_by_role("link", name="Tidy up").first.click()
            page.get_by_role("button", name="Allow once").wait_for()
            page.wait_for_timeout(700)  # the guard against early keys
            press_more(page, "Always in this schedule: mkdir made")
            expect(page.get_by_text("Tidied.")).to_be_visible()
            page.get_by_role("button", name="Schedules").click()
            dialog.get_by_text("weekdays 9:00 · Tidy up").click()
            expect(dialog.get_by_text("Bash(mkdir made)")).to_be_visible()
            dialog.get_by_role("button", name="Remove").click()
            page.get_by_role("dialog", name="Remove this schedule?").get_by_role("button", name="Remove").click()
            expect(dialog.get_by_text("There are no schedules")).to_be_visible()
