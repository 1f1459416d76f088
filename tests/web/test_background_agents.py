"""A question of a sub-agent in the background is decided on the page while another one works."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, expect

from tests.support.background_model import Subagents, background, runs
from tests.support.model_replies import Reply
from tests.support.stories.model import Model, says
from tests.support.web_page import DESK, Served, press, reading, wait_until


def test_its_line_and_its_question_are_there_while_another_one_works(browser: Browser, tmp_path: Path) -> None:
    served = Served(tmp_path)
    with Model() as model:
        served.env |= {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": model.server.openai_url}
        agents = Subagents(model, one=[runs("echo x >> log"), Reply(text="One ran.")], two=[Reply(text="Two is done.")])
        agents.hold("two")
        model.will(says("", background("one"), background("two")), says("They work."))
        served.run()
        try:
            project = served.ask("/v1/projects")["projects"][0]["id"]
            body = {"prompt": "send two", "project": project, "model": "openai/test-model"}
            session = str(served.ask("/v1/sessions", body)["id"])
            agents.until("two")
            with reading(browser, served, DESK, session=session) as reader:
                page = reader.page
                expect(page.get_by_text("For sub-agent general in the background: do one")).to_be_visible()
                expect(page.get_by_text("Sub-agent general in the background: do two")).to_be_visible()
                model.will(says("One is done.", sees="One ran."))
                press(page, "Allow once")
                expect(page.get_by_text("One is done.")).to_be_visible()
                expect(page.locator(".question")).to_be_hidden()
                page.get_by_label("Message", exact=True).fill("@general-2 and mind the tabs")
                with page.expect_response("**/messages"):
                    page.get_by_role("button", name="Send").click()
                wait_until(lambda: not served.ask(f"/v1/sessions/{session}")["queued"])
                model.will(says("Both are done.", sees="Two is done."))
                agents.scripts["two"].append(Reply(text="Two is done."))
                agents.go("two")
                expect(page.get_by_text("Both are done.")).to_be_visible()
        finally:
            served.stop()
    assert (served.work / "log").read_text() == "x\n"
    assert "mind the tabs" in agents.asked["two"][-1].raw.decode()
