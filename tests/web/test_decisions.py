"""What waits is decided on the page, and the work goes on as with an answer in the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import APIResponse, Browser, Page, Route, expect

from tests.support.scripts import bash, call, script, task
from tests.support.web_page import DESK, Served, press, press_more, reading, wait_until

EDITS = [
    {"old_string": "line 3\n", "new_string": "line three\n"},
    {"old_string": "line 40\n", "new_string": "line forty\n"},
]


def restored(served: Served) -> str:
    text = "".join(f"line {n}\n" for n in range(1, 61))
    (served.work / "a.txt").write_text(text)
    return text


def test_one_hunk_of_two_is_allowed(browser: Browser, served: Served, size: tuple[int, int]) -> None:
    restored(served)
    edit = {"calls": [call("MultiEdit", file_path="a.txt", edits=EDITS)]}
    last = {"text": "Half of it.", "expect": "mind the tabs"}
    session = served.start([{"calls": [call("Read", file_path="a.txt")]}, edit, last])
    with reading(browser, served, size, session=session) as reader:
        page = reader.page
        page.get_by_label("a.txt, change 2").uncheck()
        page.get_by_label("Your comment").fill("mind the tabs")
        press(page, "Allow 1 of 2 changes")
        expect(page.get_by_text("Half of it.")).to_be_visible()
        expect(page.locator(".question")).to_be_hidden()
    text = (served.work / "a.txt").read_text()
    assert "line three\n" in text and "line 40\n" in text and "line forty" not in text


@pytest.mark.parametrize("shape", [(360, 740), (1280, 800)], ids=["narrow", "wide"])
def test_the_transcript_and_the_message_field_stay_beside_a_question(
    browser: Browser, served: Served, shape: tuple[int, int]
) -> None:
    command = "touch built; " + "; ".join(f"echo step {n}" for n in range(60))
    session = served.start([{"text": "I will build it.", "calls": [call("Bash", command=command)]}, {"text": "x"}])
    with reading(browser, served, shape, session=session) as reader:
        page = reader.page
        question = page.locator(".question")
        expect(question).to_be_visible()
        assert question.evaluate("e => e.getBoundingClientRect().height") <= 0.4 * shape[1]
        for button in ("Allow once", "Reject", "More choices"):
            expect(question.get_by_role("button", name=button)).to_be_in_viewport(ratio=1)
        expect(page.get_by_text("I will build it.")).to_be_in_viewport(ratio=1)
        expect(page.get_by_label("Message", exact=True)).to_be_in_viewport(ratio=1)
        page.get_by_label("Message", exact=True).fill("and then test it")
        page.get_by_role("button", name="Send").click()
        expect(page.locator(".queued")).to_contain_text("and then test it")
        assert reader.axe() == []


def test_a_rejection_takes_its_words_to_the_model(browser: Browser, served: Served, size: tuple[int, int]) -> None:
    session = served.start([bash("touch made-by-web"), {"text": "As you say.", "expect": "use the other folder"}])
    with reading(browser, served, size, session=session) as reader:
        reader.page.get_by_label("Your comment").fill("use the other folder")
        press(reader.page, "Reject")
        expect(reader.page.get_by_text("As you say.")).to_be_visible()
        expect(reader.page.get_by_text("Rejected by owner: use the other folder")).to_be_visible()
    assert not (served.work / "made-by-web").exists()


def test_a_command_is_shown_whole_with_its_facts_and_always_adds_its_rule(browser: Browser, served: Served) -> None:
    again = bash("rm seen; touch seen-2")
    session = served.start(
        [bash("touch seen", description="Leave a trace"), bash("touch seen"), again, {"text": "End."}]
    )
    with reading(browser, served, session=session) as reader:
        page = reader.page
        question = page.locator(".question")
        expect(question.get_by_role("heading", name="Run a command")).to_be_visible()
        expect(question.get_by_text("Leave a trace")).to_be_visible()
        expect(question.locator("pre")).to_have_text("touch seen")
        question.get_by_text("Details", exact=True).click()
        expect(question.get_by_text(f"in {served.work}", exact=True)).to_be_visible()
        page.wait_for_timeout(700)
        press_more(page, "Always this session: touch")
        # The same command runs unasked; another is asked about.
        expect(question.locator("pre")).to_have_text("rm seen; touch seen-2")
        press(page, "Reject")
        expect(page.get_by_text("End.")).to_be_visible()
    assert (served.work / "seen").exists()


def test_a_command_is_edited_before_it_runs(browser: Browser, served: Served) -> None:
    session = served.start([bash("touch wrong-name"), {"text": "Done."}])
    with reading(browser, served, session=session) as reader:
        press_more(reader.page, "Edit")
        reader.page.get_by_label("Command to run instead").fill("touch right-name")
        press(reader.page, "Allow once")
        # What was changed is checked, and asked about, as if the model had written it.
        expect(reader.page.locator(".question pre")).to_have_text("touch right-name")
        press(reader.page, "Allow once")
        expect(reader.page.locator(".answer", has_text="Done.")).to_be_visible()
    assert (served.work / "right-name").exists() and not (served.work / "wrong-name").exists()


def test_questions_are_answered_with_an_option_and_with_words(
    browser: Browser, served: Served, size: tuple[int, int]
) -> None:
    options = [{"label": "SQLite", "description": "No server"}, {"label": "PostgreSQL", "description": "As live"}]
    questions = [
        {"question": "Which database?", "header": "DB", "options": options, "multiSelect": False},
        {"question": "Which tests?", "header": "Tests", "options": options, "multiSelect": True},
    ]
    heard = "Which database? -> SQLite\nWhich tests? -> PostgreSQL, all the others"
    session = served.start(
        [{"calls": [call("AskUserQuestion", questions=questions)]}, {"text": "Understood.", "expect": heard}]
    )
    with reading(browser, served, size, session=session) as reader:
        page = reader.page
        send = page.get_by_role("button", name="Send answers")
        expect(send).to_be_disabled()
        page.get_by_role("group", name="Which database?").get_by_label("SQLite").check()
        page.get_by_role("group", name="Which tests?").get_by_label("PostgreSQL").check()
        page.get_by_role("group", name="Which tests?").get_by_label("Your own words").fill("all the others")
        press(page, "Send answers")
        expect(page.get_by_text("Understood.")).to_be_visible()


def test_a_plan_is_sent_back_with_words_and_then_approved(browser: Browser, served: Served) -> None:
    plans = [
        {"calls": [call("ExitPlanMode", plan=f"# Plan {n}\n\n1. Write new-{n}.txt", files_to_create=[f"new-{n}.txt"])]}
        for n in (1, 2)
    ]
    write = {"calls": [call("Write", file_path="new-2.txt", content="x\n")]}
    replies = [plans[0], {**plans[1], "expect": "name it two"}, write, {"text": "Written."}]
    session = served.start(replies, mode="plan")
    with reading(browser, served, session=session) as reader:
        page = reader.page
        expect(page.locator(".question").get_by_role("heading", name="Plan 1")).to_be_visible()
        page.get_by_label("Your comment").fill("name it two")
        press(page, "Request changes")
        expect(page.locator(".question").get_by_role("heading", name="Plan 2")).to_be_visible()
        page.wait_for_timeout(700)
        press_more(page, "Approve and accept edits")
        expect(page.get_by_text("Written.")).to_be_visible()
    assert (served.work / "new-2.txt").read_text() == "x\n"


def test_of_two_who_decide_the_second_sees_who_was_first_and_what(browser: Browser, served: Served) -> None:
    token = served.named("anna", "decide")
    calls = [call("Bash", command="touch two-1"), call("Bash", command="touch two-2")]
    session = served.start([{"calls": calls}, {"text": "Over."}])
    with reading(browser, served, session=session) as owner:
        page = owner.page
        expect(page.get_by_text("1 of 2")).to_be_visible()
        items = served.ask(f"/v1/sessions/{session}/pending")["items"]
        late: list[str] = []

        def send_second(route: Route) -> None:
            decided(served, session, items[0], token)
            late.append(items[0]["call_id"])
            route.continue_()

        page.route("**/decisions", send_second)
        press(page, "Allow once")
        wait_until(lambda: bool(page.evaluate("1") and late))
        expect(page.get_by_text("anna rejected this first: Run: touch two-1")).to_be_visible()
        page.unroute("**/decisions")
        decided(served, session, items[1], token)
        expect(page.get_by_text("Over.")).to_be_visible()
        expect(page.get_by_text("Rejected by anna: not now")).to_have_count(2)
    assert not (served.work / "two-1").exists()


def decided(served: Served, session: str, item: dict[str, str], token: str) -> None:
    body = {"call_id": item["call_id"], "binding": item["binding"], "verdict": "reject", "text": "not now"}
    assert "decided_by" in served.ask(f"/v1/sessions/{session}/decisions", body, token)


def test_a_role_sees_only_what_it_may_do(browser: Browser, served: Served) -> None:
    session = served.start([bash("touch role"), {"text": "Done."}])
    with reading(browser, served, session=session, token=served.named("reader", "read")) as reader:
        expect(reader.page.locator(".question").get_by_text("Your role is read")).to_be_visible()
        assert reader.page.get_by_role("button", name="Allow once").count() == 0
        assert reader.page.get_by_role("button", name="New task").count() == 0
    with reading(browser, served, session=session, token=served.named("decider", "decide")) as reader:
        press(reader.page, "Allow once")
        expect(reader.page.get_by_text("Your role is decide")).to_be_visible()
        expect(reader.page.get_by_text("Allowed by decider")).to_be_visible()
        assert reader.page.get_by_label("Message", exact=True).count() == 0


@contextmanager
def two_questions(browser: Browser, served: Served, name: str) -> Iterator[tuple[str, Page]]:
    """A session that asks about two commands, and its page once it takes keys."""
    calls = [call("Bash", command=f"touch {name}-{number}") for number in (1, 2)]
    session = served.start([{"calls": calls}, {"text": "Done."}])
    with reading(browser, served, DESK, session=session) as reader:
        expect(reader.page.get_by_text("1 of 2")).to_be_visible()
        reader.page.wait_for_timeout(700)
        yield session, reader.page


def test_a_key_does_not_answer_the_question_that_has_just_appeared(browser: Browser, served: Served) -> None:
    with two_questions(browser, served, "key") as (session, page):
        page.keyboard.press("a")
        page.keyboard.press("a")
        expect(page.locator(".question pre")).to_have_text("touch key-2")
        page.keyboard.press("a")
        page.keyboard.press("r")
        expect(page.get_by_label("Your comment")).to_be_focused()
        assert (
            len([item for item in served.ask(f"/v1/sessions/{session}/pending")["items"] if not item.get("decided")])
            == 1
        )
        page.keyboard.type("no more")
        # Until the server has answered the first decision, and the guard after it is over.
        expect(page.locator(".question[aria-busy]")).to_have_count(0)
        page.wait_for_timeout(700)
        page.keyboard.press("Control+Enter")
        expect(page.locator(".answer", has_text="Done.")).to_be_visible()
    wait_until(lambda: (served.work / "key-1").exists())
    assert not (served.work / "key-2").exists()


def test_words_keep_the_focus_when_the_answer_to_the_last_decision_comes_late(browser: Browser, served: Served) -> None:
    with two_questions(browser, served, "late") as (_session, page):
        held: list[tuple[Route, APIResponse]] = []
        page.route("**/decisions", lambda route: held.append((route, route.fetch())))
        page.keyboard.press("a")
        expect(page.locator(".question pre")).to_have_text("touch late-2")
        page.keyboard.press("r")
        words = page.get_by_label("Your comment")
        expect(words).to_be_focused()
        [(route, response)] = held
        route.fulfill(response=response)
        expect(page.locator(".question[aria-busy]")).to_have_count(0)
        page.keyboard.type("all of it")
        expect(words).to_have_value("all of it")
        assert not (served.work / "late-2").exists()


def test_words_that_are_being_written_keep_the_focus_when_another_question_goes(
    browser: Browser, served: Served
) -> None:
    """What is typed next would else be keys, and `a` allows."""
    with two_questions(browser, served, "word") as (session, page):
        page.keyboard.press("r")
        page.keyboard.type("not at ")
        other = served.ask(f"/v1/sessions/{session}/pending")["items"][1]
        decision = {"call_id": other["call_id"], "binding": other["binding"], "verdict": "reject"}
        assert "decided" in served.ask(f"/v1/sessions/{session}/decisions", decision)
        expect(page.get_by_text("1 of 2")).to_have_count(0)
        page.keyboard.type("all, a way")
        expect(page.get_by_label("Your comment")).to_have_value("not at all, a way")
        assert not (served.work / "word-1").exists()


def test_a_question_names_the_sub_agent_and_its_task(browser: Browser, served: Served) -> None:
    own = script(served.home.parent / "helper.toml", [bash("touch by-helper"), {"text": "Mended."}])
    kinds = served.home / ".agent/agents"
    kinds.mkdir(parents=True)
    (kinds / "helper.md").write_text(f"---\nname: helper\ndescription: helps\nmodel: {own}\n---\nHelp.\n")
    session = served.start([{"calls": [task("helper")]}, {"text": "All done."}])
    with reading(browser, served, session=session) as reader:
        expect(reader.page.locator(".question").get_by_text("For sub-agent helper: find it")).to_be_visible()
        press(reader.page, "Allow once")
        expect(reader.page.get_by_text("All done.")).to_be_visible()
    assert (served.work / "by-helper").exists()


def test_comments_on_lines_reach_the_model_and_stand_in_the_transcript(browser: Browser, served: Served) -> None:
    (served.work / "n.txt").write_text("".join(f"line {n}\n" for n in range(1, 61)))
    edits = [{"old_string": "line 3\n", "new_string": "three\n"}, {"old_string": "line 40\n", "new_string": "forty\n"}]
    change = {"calls": [call("Read", file_path="n.txt"), call("MultiEdit", file_path="n.txt", edits=edits)]}
    heard = {"text": "As you say.", "expect": "On n.txt:40 (removed): keep the number"}
    session = served.start([change, heard], "Change two lines")
    with reading(browser, served, session=session) as reader:
        page = reader.page
        page.get_by_role("button", name="Comment on change 2").click()
        page.get_by_label("Comment on n.txt, line 40").fill("keep the number")
        page.get_by_role("checkbox", name="n.txt, change 2").uncheck()
        assert reader.axe() == []
        line = page.get_by_role("button", name="Comment on line 1", exact=True)
        line.focus()
        page.keyboard.press("ArrowDown")
        expect(page.get_by_role("button", name="Comment on line 2", exact=True)).to_be_focused()
        press(page, "Allow 1 of 2 changes")
        expect(page.locator(".answer", has_text="As you say.")).to_be_visible()
        decision = page.locator(".decision")
        expect(decision).to_have_text("Allowed by owner, 1 of 2 changes: On n.txt:40 (removed): keep the number")
