"""On the page, changes are commented on, committed with a proposed message, pushed, and proposed as a pull request."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, expect

from agent_cli.extras.server.pairing import Pairing
from tests.support.repositories import git
from tests.support.scripts import call
from tests.support.web_page import PHONE, Served, press, reading, serving

GH = '#!/bin/sh\ncat >/dev/null\necho "$@" >"$0.args"\necho http://127.0.0.1:9/pull/7\n'


def test_the_changes_of_a_commit_are_chosen_by_ticks(browser: Browser, tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        for name, value in (("user.name", "Ann"), ("user.email", "ann@example.org")):
            git(served.work, "config", name, value)
        edits = [{"old_string": f"line {n}\n", "new_string": f"LINE {n}\n"} for n in (2, 30, 58)]
        change = call("MultiEdit", file_path="a.txt", edits=edits)
        replies = [{"calls": [call("Read", file_path="a.txt")]}, {"calls": [change]}, {"text": "Done."}]
        session = served.start(replies, "Shout", "done", mode="acceptEdits")
        with reading(browser, served, session=session) as reader:
            page = reader.page
            page.get_by_label("Message", exact=True).fill("/commit")
            page.keyboard.press("Enter")
            dialog = page.get_by_role("dialog", name="Commit and ship")
            expect(dialog.get_by_text("3 changes: untick what should not be committed")).to_be_visible()
            assert reader.axe() == []
            dialog.get_by_role("checkbox", name="a.txt, change 2").uncheck()
            dialog.get_by_label("Message").fill("The outer two")
            dialog.get_by_role("button", name="Commit 2 of 3 changes").click()
            expect(dialog.get_by_label("Message")).to_have_value("Change a.txt")
        committed = git(served.work, "show", "HEAD:a.txt")
        assert [f"LINE {n}\n" in committed for n in (2, 30, 58)] == [True, False, True]
        assert git(served.work, "diff", "--stat").count("a.txt") == 1


def test_a_task_leads_from_the_link_of_a_phone_to_a_pull_request(browser: Browser, tmp_path: Path) -> None:
    gh = tmp_path / "bin/gh"
    gh.parent.mkdir()
    gh.write_text(GH)
    gh.chmod(0o755)
    remote = tmp_path / "remote.git"
    served = Served(tmp_path)
    try:
        served.env["PATH"] = f"{gh.parent}:{served.env['PATH']}"
        git(served.work, "config", "user.name", "Ann")
        git(served.work, "config", "user.email", "ann@example.org")
        git(served.work, "init", "-q", "--bare", str(remote))
        git(served.work, "remote", "add", "origin", str(remote))
        git(served.work, "push", "-q", "origin", "HEAD:main")
        git(served.work, "switch", "-q", "-c", "topic")
        served.run()
        edit = {"calls": [call("Edit", file_path="b.py", old_string="x = 1", new_string="x = 2")]}
        heard = {"text": "It is two.", "expect": "On b.py:1: why two?"}
        replies = [{"text": "Set x to 2", "calls": [call("Read", file_path="b.py")]}, edit, {"text": "Done."}, heard]
        (served.home / ".agentrc").write_text(f'model = "{served.model(replies)}"\n')
        code = Pairing(served.home / "state").offer("start")
        with reading(browser, served, PHONE, token="none") as reader:
            page = reader.page
            page.goto("about:blank")
            page.goto(f"http://127.0.0.1:{served.port}/#pair={code}")
            page.get_by_role("button", name="New task").click()
            page.get_by_role("textbox", name="Task").fill("Make it two")
            page.get_by_role("button", name="Start", exact=True).click()
            press(page, "Allow once")
            expect(page.locator(".answer", has_text="Done.")).to_be_visible()
            expect(page.get_by_text("Allowed by Linux")).to_be_visible()
            page.get_by_role("button", name="More about this session").click()
            page.get_by_role("button", name="Changes", exact=True).click()
            page.get_by_role("button", name="Comment on line 1", exact=True).click()
            page.get_by_label("Comment on b.py, line 1").fill("why two?")
            assert reader.axe() == []
            page.get_by_role("button", name="Send 1 comment").click()
            expect(page.locator(".answer", has_text="It is two.")).to_be_visible()
            field = page.get_by_label("Message", exact=True)
            field.fill("/commit")
            page.get_by_role("button", name="Send", exact=True).click()
            dialog = page.get_by_role("dialog", name="Commit and ship")
            expect(dialog.get_by_role("heading", name="Commit 1 file to topic")).to_be_visible()
            expect(dialog.get_by_text("Push the branch first.")).to_be_visible()
            assert reader.axe() == []
            dialog.get_by_role("button", name="Propose a message").click()
            expect(dialog.get_by_label("Message")).to_have_value("Set x to 2")
            dialog.get_by_role("button", name="Commit", exact=True).click()
            expect(dialog.get_by_role("heading", name="Push 1 commit to origin/topic")).to_be_visible()
            dialog.get_by_role("button", name="Push", exact=True).click()
            expect(dialog.get_by_role("heading", name="Open a pull request for topic")).to_be_visible()
            expect(dialog.get_by_label("Title")).to_have_value("Set x to 2")
            assert reader.axe() == []
            dialog.get_by_role("button", name="Open the pull request").click()
            expect(page.get_by_text("Opened http://127.0.0.1:9/pull/7").first).to_be_visible()
        assert git(served.work, "rev-parse", "HEAD") == git(remote, "rev-parse", "topic")
        assert "--title Set x to 2" in Path(f"{gh}.args").read_text()
    finally:
        served.stop()
