"""The list of sessions, the keys, the themes, and that axe-core finds nothing in any view."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from agent_cli.extras.server.pairing import Pairing
from tests.support.foreign_stores import recorded, thaw
from tests.support.scripts import bash, call
from tests.support.session_logs import turn
from tests.support.web_page import DESK, PHONE, PageUser, Served, press, reading, serving, wait_until

OPTIONS = [{"label": "SQLite", "description": "No server"}, {"label": "PostgreSQL", "description": "As live"}]
QUESTION = {"question": "Which database?", "header": "DB", "options": OPTIONS, "multiSelect": False}
EDITS = [
    {"old_string": "line 3\n", "new_string": "line three\n"},
    {"old_string": "line 40\n", "new_string": "line forty\n"},
]
STEPS = [
    {"content": "Read it", "status": "completed", "activeForm": "Reading it"},
    {"content": "Change it", "status": "in_progress", "activeForm": "Changing it"},
]
ANSWER = "# A title\n\n### A jump\n\n- one\n- [x] two\n\n```python\nx = 1  # y\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |"


@pytest.fixture(scope="module")
def shown(served: Served) -> dict[str, str]:
    """A session of each kind."""
    steps = {"text": ANSWER, "calls": [call("Read", file_path="a.txt"), call("TodoWrite", todos=STEPS)]}
    edit = {"calls": [call("MultiEdit", file_path="a.txt", edits=EDITS), call("Bash", command="rm -rf build")]}
    plan = call("ExitPlanMode", plan="# Plan\n\n1. Add a cache", files_to_create=["cache.py"], commands=["pytest"])
    task = call("Task", subagent_type="general", description="look", prompt="Look around")
    return {
        "edit": served.start([steps, bash("ls; false"), edit, {"text": "x"}], "Change two lines"),
        "question": served.start([{"calls": [call("AskUserQuestion", questions=[QUESTION])]}, {"text": "x"}], "Ask me"),
        "plan": served.start([{"calls": [plan]}, {"text": "x"}], "Plan a cache", mode="plan"),
        "nested": served.start(
            [{"calls": [task]}, bash("ls"), {"text": "Found."}, {"text": "Told."}], "Look around", state="done"
        ),
        "failed": served.start([], "Fail at once", state="failed"),
    }


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axe_finds_nothing(
    browser: Browser, served: Served, shown: dict[str, str], size: tuple[int, int], dark: bool
) -> None:
    with reading(browser, served, size, dark=dark) as reader:
        page = reader.page
        expect(page.locator(".row")).to_have_count(5)
        assert reader.axe() == []
        for name, session in shown.items():
            page.goto(served.link(session))
            expect(page.locator(".item").first).to_be_visible()
            for fold in page.locator("details.fold:not([open]) > summary").all():
                if fold.is_visible():
                    fold.click()
            assert reader.axe() == [], name
        page.get_by_role("button", name="More about this session").click()
        assert reader.axe() == []
        for button in ("Usage and cost", "Export…"):
            page.get_by_role("button", name=button).click()
            expect(page.get_by_role("heading", name=button.strip("…"))).to_be_visible()
            assert reader.axe() == [], button
            page.keyboard.press("Escape")
            page.get_by_role("button", name="More about this session").click()
        page.keyboard.press("Escape")
        page.keyboard.press("?")
        expect(page.get_by_role("heading", name="Keys")).to_be_visible()
        assert reader.axe() == []


def test_without_a_token_there_is_a_field_for_it(browser: Browser, served: Served, size: tuple[int, int]) -> None:
    with reading(browser, served, size, token="wrong") as reader:
        page = reader.page
        expect(page.get_by_label("Token")).to_be_focused()
        assert reader.axe() == []
        page.get_by_role("button", name="Continue").click()
        expect(page.get_by_role("alert")).to_have_text("Paste the token first.")
        page.get_by_label("Token").fill(served.link())
        page.get_by_role("button", name="Continue").click()
        expect(page.get_by_role("navigation", name="Sessions")).to_be_visible()
        assert served.token not in page.url
        page.reload()
        expect(page.get_by_role("navigation", name="Sessions")).to_be_visible()


def test_those_that_wait_come_first_and_are_counted_in_the_title(
    browser: Browser, served: Served, shown: dict[str, str]
) -> None:
    with reading(browser, served) as reader:
        page = reader.page
        page.add_init_script("Navigator.prototype.setAppBadge = async (count) => { window.badge = count; }")
        page.reload()
        # No session is open yet.
        expect(page.locator(".welcome")).to_have_text("3 sessions wait for you.")
        expect(page.locator(".welcome")).to_be_visible()
        expect(page.locator(".group h2").first).to_have_text("Waiting for you 3")
        expect(page).to_have_title("(3) agent")
        assert page.evaluate("badge") == 3
        page.get_by_label("Search sessions").fill("cache")
        expect(page.locator(".row-title")).to_have_text(["Plan a cache"])
        page.get_by_label("Search sessions").fill("no such thing")
        expect(page.get_by_text("No session matches.")).to_be_visible()
        page.get_by_role("button", name="Clear the filters").click()
        page.get_by_role("button", name="Failed 1").click()
        expect(page.locator(".row-title")).to_have_text(["Fail at once"])
        assert reader.axe() == []


def test_the_keys_lead_through_the_sessions(browser: Browser, served: Served, shown: dict[str, str]) -> None:
    with reading(browser, served) as reader:
        page = reader.page
        expect(page.locator(".row")).to_have_count(5)
        page.keyboard.press("j")
        page.keyboard.press("j")
        page.keyboard.press("k")
        expect(page.locator(".row a").first).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.locator("h1.session-title")).to_be_focused()
        page.keyboard.press("Escape")
        expect(page.locator(".row a").first).to_be_focused()
        page.keyboard.press("/")
        expect(page.get_by_label("Search sessions")).to_be_focused()
        page.keyboard.press("Escape")
        page.keyboard.press("n")
        expect(page.get_by_role("heading", name="New task")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)


def test_the_theme_is_chosen_and_stays(browser: Browser, served: Served) -> None:
    with reading(browser, served) as reader:
        page = reader.page
        page.get_by_role("button", name="Theme: as the system").click()
        page.get_by_role("button", name="Theme: light").click()
        expect(page.get_by_role("button", name="Theme: dark")).to_be_visible()
        dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.reload()
        expect(page.get_by_role("button", name="Theme: dark")).to_be_visible()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == dark != "rgb(250, 249, 247)"


def test_a_thousand_sessions_are_listed_page_by_page(browser: Browser, served: Served) -> None:
    for number in range(1, 1001):
        served.put(number, turn(f"Old task {number}", "Done."))
    with reading(browser, served, PHONE) as reader:
        page = reader.page
        expect(page.locator(".row").nth(49)).to_be_attached()
        assert page.locator(".row").count() < 400
        for _ in range(200):
            if page.locator(".row").count() >= 300:
                break
            page.locator(".list-scroll").evaluate("e => { e.scrollTop = e.scrollHeight }")
            page.wait_for_timeout(100)
        assert page.locator(".row").count() >= 300
        links = page.locator(".row a").evaluate_all("a => a.map(e => e.href)")
        assert len(links) == len(set(links))
        page.get_by_label("Search sessions").fill("task 777")
        expect(page.locator(".row-title")).to_have_text(["Old task 777"])


def test_a_task_is_started_with_what_was_chosen(browser: Browser, served: Served) -> None:
    (served.home / ".agentrc").write_text(f'model = "{served.model([{"text": "In a worktree."}])}"\n')
    with reading(browser, served) as reader:
        page = reader.page
        page.get_by_role("button", name="New task").click()
        page.get_by_role("textbox", name="Task").fill("Do it apart")
        page.get_by_label("In a separate worktree").check()
        page.get_by_label("Mode", exact=True).select_option("acceptEdits")
        page.get_by_text("Limits, folder and name").click()
        page.get_by_label("Dollars").fill("2.5")
        page.get_by_label("Minutes").fill("3")
        page.get_by_label("Name", exact=True).fill("My name for it")
        with page.expect_request(lambda request: request.method == "POST") as sent:
            page.get_by_role("button", name="Start").click()
        body = sent.value.post_data_json
        assert {**body, "project": ""} == {
            "prompt": "Do it apart", "project": "", "mode": "acceptEdits", "name": "My name for it", "worktree": True,
            "stage": False,
            "budget": {"cost": 2.5, "seconds": 180},
        }  # fmt: skip
        expect(page.get_by_text("In a worktree.")).to_be_visible()
        expect(page.locator("h1.session-title")).to_have_text("My name for it")
        expect(page.locator(".session-facts")).to_contain_text("(worktree)")


def test_a_session_of_another_agent_is_continued(browser: Browser, served: Served) -> None:
    thaw(recorded("codex", "worked"), served.home, served.work)
    with reading(browser, served) as reader:
        page = reader.page
        page.get_by_role("button", name="New task").click()
        page.get_by_role("button", name="Continue a session of another agent…").click()
        page.get_by_role("button", name="Codex, ").click()
        expect(page.locator("h1.session-title")).to_have_text("Fix total in sums.py")
        expect(page.get_by_text("It asks for an exact total.")).to_be_visible()
        expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_session_is_exported(browser: Browser, served: Served, shown: dict[str, str]) -> None:
    with reading(browser, served, session=shown["nested"]) as reader:
        page = reader.page
        page.get_by_role("button", name="More about this session").click()
        page.get_by_role("button", name="Export…").click()
        with page.expect_download() as saved:
            page.get_by_role("dialog").get_by_role("button", name="Markdown").click()
        assert saved.value.suggested_filename == "Look-around.md"
        assert "Look around" in saved.value.path().read_text("utf-8")


def test_two_windows_share_one_stream_of_the_list(browser: Browser, served: Served, shown: dict[str, str]) -> None:
    with reading(browser, served) as reader:
        asked: list[str] = []
        expect(reader.page.locator(".row").first).to_be_visible()
        wait_until(lambda: reader.page.evaluate("async () => (await navigator.locks.query()).held.length === 1"))
        reader.context.on("request", lambda request: asked.append(request.url))
        asked.clear()
        other = PageUser(reader.context, served)
        expect(other.page.locator(".row").first).to_be_visible()
        session = served.start([bash("touch shared"), {"text": "x"}], "Seen in both windows")
        for page in (reader.page, other.page):
            expect(page.locator(".row", has_text="Seen in both windows").locator(".state")).to_have_text(
                "Waiting for you"
            )
        assert not [url for url in asked if url.endswith("/v1/events")]
        reader.page.close()
        expect(other.page.locator(".row").first).to_be_visible()
        item = served.ask(f"/v1/sessions/{session}/pending")["items"][0]
        body = {"call_id": item["call_id"], "binding": item["binding"], "verdict": "reject"}
        served.ask(f"/v1/sessions/{session}/decisions", body)
        expect(other.page.locator(".row", has_text="Seen in both windows").locator(".state")).to_have_text("Done")
        assert [url for url in asked if url.endswith("/v1/events")]


def test_the_page_is_whole_under_its_policy(browser: Browser, served: Served, shown: dict[str, str]) -> None:
    """Nothing is fetched from elsewhere, and nothing inline is needed."""
    with reading(browser, served) as reader:
        _asked(reader, served, shown["edit"])


def _asked(reader: PageUser, served: Served, session: str) -> None:
    asked: list[str] = []
    reader.page.on("request", lambda request: asked.append(request.url))
    reader.page.goto(served.link(session))
    reader.page.reload()
    expect(reader.page.locator(".item").first).to_be_visible()
    away = [url for url in asked if not re.match(rf"(http://127\.0\.0\.1:{served.port}/|data:image/svg)", url)]
    assert away == [] and len(asked) > 15
    assert reader.page.viewport_size == {"width": DESK[0], "height": DESK[1]}


def test_a_session_is_renamed_and_deleted(browser: Browser, served: Served) -> None:
    session = served.start([bash("touch named"), {"text": "Done."}], "A name to change")
    with reading(browser, served, session=session) as reader:
        page = reader.page
        page.get_by_role("button", name="More about this session").click()
        page.get_by_role("button", name="Rename…").click()
        page.get_by_label("Name", exact=True).fill("A better name")
        assert reader.axe() == []
        page.get_by_role("dialog").get_by_role("button", name="Rename").click()
        expect(page.locator("h1.session-title")).to_have_text("A better name")
        expect(page.locator(".row-title", has_text="A better name")).to_be_visible()
        # It still waits for the same decision.
        press(page, "Allow once")
        expect(page.locator(".answer", has_text="Done.")).to_be_visible()
        served.until(session, "done")
        page.get_by_role("button", name="More about this session").click()
        page.get_by_role("button", name="Delete…").click()
        page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        expect(page.locator(".row-title", has_text="A better name")).to_have_count(0)
        expect(page.locator(".welcome")).to_be_visible()
    assert (served.work / "named").exists()


def _menu(page: Page, choice: str) -> None:
    page.get_by_role("button", name="More about this session").click()
    page.get_by_role("dialog").get_by_role("button", name=choice).click()


def test_a_session_is_copied_archived_and_found_by_its_messages(browser: Browser, served: Served) -> None:
    session = served.start([{"text": "The albatross glides."}], "About birds", "done")
    with reading(browser, served, session=session) as reader:
        page = reader.page
        page.get_by_label("Search sessions").fill("albatross")
        expect(page.locator(".row-note", has_text="albatross")).to_be_visible()
        page.get_by_label("Search sessions").fill("")
        _menu(page, "Continue in a copy")
        expect(page.get_by_text("This is the copy.")).to_be_visible()
        expect(page.locator(".answer", has_text="The albatross glides.")).to_be_visible()
        assert session not in page.url
        served.until(page.url.rpartition("/")[2], "done")
        _menu(page, "Archive")
        expect(page.get_by_text("Archived. The filter")).to_be_visible()
        expect(page.locator(".row-title", has_text="About birds")).to_have_count(1)
        page.get_by_role("button", name="Archived 1").click()
        expect(page.locator(".row-title")).to_have_text(["About birds"])
        _menu(page, "Move out of the archive")
        expect(page.get_by_text("No session matches.")).to_be_visible()


def test_a_project_is_trusted_where_a_task_is_started(browser: Browser, tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        (served.work / ".agent/commands").mkdir(parents=True)
        (served.work / ".agent/commands/ship.md").write_text("Ship it")
        with reading(browser, served) as reader:
            page = reader.page
            page.get_by_role("button", name="New task").click()
            page.get_by_role("button", name="See what it brings").click()
            expect(page.get_by_text("commands: ship")).to_be_visible()
            assert reader.axe() == []
            page.get_by_role("button", name="Trust it").click()
            expect(page.get_by_role("button", name="See what it brings")).to_be_hidden()
        assert served.ask("/v1/projects")["projects"][0]["trusted"]


def test_the_board_has_the_sessions_by_state_and_is_used_by_keys(
    browser: Browser, served: Served, shown: dict[str, str]
) -> None:
    with reading(browser, served) as reader:
        page = reader.page
        expect(page.locator(".row").first).to_be_visible()
        page.keyboard.press("b")
        expect(page.locator(".board .group h2")).to_have_text(
            [re.compile(name) for name in ("Waiting for you", "Running", "Stopped", "Done")]
        )
        expect(page.locator(".group.waiting .row-note").first).to_be_visible()
        assert reader.axe() == []
        page.keyboard.press("l")
        page.keyboard.press("l")
        expect(page.locator(".group.interrupted .row a").first).to_be_focused()
        page.keyboard.press("h")
        page.keyboard.press("Enter")
        expect(page.locator("h1.session-title")).to_be_focused()
        assert "board" not in page.url


def test_a_phone_is_paired_by_its_link_once(browser: Browser, served: Served) -> None:
    code = Pairing(served.home / "state").offer("start")
    link = f"http://127.0.0.1:{served.port}/#pair={code}"
    with reading(browser, served, PHONE, token="wrong") as reader:
        page = reader.page
        expect(page.get_by_label("Token")).to_be_visible()
        page.goto("about:blank")
        page.goto(link)
        expect(page.get_by_role("navigation", name="Sessions")).to_be_visible()
        assert code not in page.url
        page.reload()
        expect(page.get_by_role("navigation", name="Sessions")).to_be_visible()
        page.evaluate("localStorage.clear()")
        page.goto("about:blank")
        page.goto(link)
        expect(page.get_by_text("This code is not valid")).to_be_visible()


@pytest.mark.parametrize("shape", [(360, 640), (768, 1024)], ids=["phone", "tablet"])
def test_no_view_is_wider_than_the_window(
    browser: Browser, served: Served, shown: dict[str, str], shape: tuple[int, int]
) -> None:
    with reading(browser, served, shape) as reader:
        page = reader.page

        def fits(what: str) -> None:
            wide = (
                "[...document.querySelectorAll('body, dialog, .main, .list')].map((e) => e.scrollWidth - e.clientWidth)"
            )
            assert max(page.evaluate(wide)) <= 0, what
            assert page.evaluate("document.documentElement.scrollWidth") == shape[0], what

        expect(page.locator(".row").first).to_be_visible()
        fits("the list")
        page.keyboard.press("b")
        expect(page.get_by_role("heading", name="Stopped")).to_be_visible()
        fits("the board")
        page.keyboard.press("n")
        fits("a new task")
        page.keyboard.press("Escape")
        for name, session in shown.items():
            page.goto(served.link(session))
            expect(page.locator(".item").first).to_be_visible()
            fits(name)
            # A thumb reaches the buttons of a question, and they are large enough for it.
            for button in page.locator(".question .choices button").all():
                box = button.bounding_box()
                assert box is not None and box["height"] >= 38 and box["y"] > shape[1] / 2, name
        for command in ("/commit", "/diff", "/help", "/undo"):
            page.get_by_label("Message", exact=True).fill(command)
            page.get_by_role("button", name="Send").click()
            expect(page.locator("dialog")).to_be_visible()
            fits(command)
            page.keyboard.press("Escape")


def test_the_record_shows_each_step_with_its_evidence(browser: Browser, served: Served) -> None:
    done = [{**STEPS[0]}, {**STEPS[1], "status": "completed"}]
    replies = [
        {"calls": [call("TodoWrite", todos=STEPS)]}, {"calls": [call("Write", file_path="n.py", content="x")]},
        {"calls": [call("TodoWrite", todos=done)]}, {"text": "Done."},
    ]  # fmt: skip
    session = served.start(replies, "Change it", state="done", mode="acceptEdits")
    with reading(browser, served, DESK) as reader:
        page = reader.page
        page.goto(served.link(session))
        page.locator(".plan summary, .plan-strip summary, details:has(.plan-count) > summary").first.click()
        page.get_by_role("button", name="Evidence").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("2 of 2 steps")
        expect(dialog.locator(".recorded")).to_have_count(2)
        expect(dialog).to_contain_text("not checked after the last change: n.py")
        assert reader.axe() == []
