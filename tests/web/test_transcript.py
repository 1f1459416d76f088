"""The transcript: as it grows, with thousands of records, over broken connections, and whatever a model writes."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from playwright.sync_api import Browser, expect

from agent_cli.kernel.events import Event
from agent_cli.kernel.messages import ToolCall
from agent_tools.results import CommandOutput
from tests.support.scripts import call
from tests.support.session_logs import answered, asked, called, ended, turn
from tests.support.web_page import DESK, PHONE, Served, reading, serving, wait_until

HOSTILE = """# Hello <img src=x onerror="window.hit=1">

<script>window.hit = 2</script></script><iframe src="javascript:alert(1)"></iframe>

[click me](javascript:window.hit=3) and [data](data:text/html,<script>1</script>) and [fine](https://example.org/a?b=c)
[vb](vbscript:x) <javascript:alert(1)> ![pixel](https://example.org/pixel.png) [tab](java\tscript:alert(1))

Right-to-left: safe\u202egpj.exe and hidden\u200bspace

| a | <b onclick="window.hit=4">b</b> |
|---|---|
| `<img src=x onerror=window.hit=5>` | 2 |

```html
</code></pre><script>window.hit = 6</script>
```
"""


def test_a_check_whose_failure_a_pipe_hides_is_shown_as_failed(browser: Browser, served: Served) -> None:
    command = "pytest 2>&1 | tail"
    note = "exit code 0, 800 ms; pytest in the pipe: exit code 1"
    ran = CommandOutput(command, "1 failed", 0, 0.8, note, (1, 0), check_failed=True)
    call = ToolCall("c1", "Bash", {"command": command})
    session = served.put(4, [*turn("Test it", "I will."), *called(call, "x", ran, summary=f"Run: {command}"), ended()])
    with reading(browser, served, session=session) as reader:
        line = reader.page.locator(".call.failed")
        expect(line.locator(".brief")).to_have_text("0.8s; pytest in the pipe: exit code 1")
        expect(line.get_by_text("1 failed", exact=True)).to_be_visible()


def test_what_a_model_writes_is_never_html(browser: Browser, served: Served, size: tuple[int, int]) -> None:
    shown = ToolCall("c1", "Bash", {"command": "echo '<img src=x onerror=window.hit=7>'"})
    output = CommandOutput(shown.arguments["command"], "\x1b[31mred\x1b[0m <svg onload=window.hit=8>\u202e", 0, 0.1)
    events = [*turn("Say <b>hi</b>", HOSTILE), *called(shown, "x", output, summary="Run: <i>odd</i>\u202e"), ended()]
    session = served.put(size[0], events)
    with reading(browser, served, size, session=session) as reader:
        page = reader.page
        expect(page.locator(".user-text", has_text="Say <b>hi</b>")).to_be_visible()
        page.get_by_text("Run: <i>odd</i>\\u202e").click()
        expect(page.get_by_text("red <svg onload=window.hit=8>\\u202e")).to_be_visible()
        feed = page.locator(".feed")
        assert feed.locator("img, iframe, script, object, svg:not(.icon)").count() == 0
        assert feed.locator("a").evaluate_all("links => links.map(each => [each.href, each.rel, each.target])") == [
            ["https://example.org/a?b=c", "noopener noreferrer nofollow", "_blank"],
            ["https://example.org/pixel.png", "noopener noreferrer nofollow", "_blank"],
        ]
        text = feed.inner_text()
        for written in (
            "<img src=x onerror=",
            "<script>window.hit = 2</script>",
            "(javascript:window.hit=3)",
            "</code></pre>",
        ):
            assert written in text, text
        assert "safe\\u202egpj.exe" in text and "hidden\\u200bspace" in text
        assert page.evaluate("window.hit") is None
        assert reader.axe() == []


def test_markdown_becomes_what_it_means(browser: Browser, served: Served) -> None:
    text = (
        "# Title\n\nSome **bold**, *slanted*, ~~gone~~ and `code`, snake_case_name, 2 * 3 * 4.\n\n"
        "1. one\n   - inner\n2. two\n\n> quoted\n\n- [x] done\n- [ ] open\n\n| a | b |\n|:--|--:|\n| 1 | `x\\|y` |\n\n"
        "```python\ndef f():  # note\n    return 'x'\n```\n\nSee https://example.org/x_y_z.\n\n---\nlast"
    )
    session = served.put(2, turn("Show it", text))
    with reading(browser, served, session=session) as reader:
        shown = reader.page.locator(".markdown")
        expect(shown.get_by_role("heading", name="Title")).to_be_visible()
        expect(shown.locator("strong")).to_have_text("bold")
        expect(shown.locator("em")).to_have_text("slanted")
        expect(shown.locator("del")).to_have_text("gone")
        expect(shown.locator("ol > li > ul > li")).to_have_text("inner")
        assert shown.locator("ol > li").count() == 2 and shown.locator("hr").count() == 1
        expect(shown.locator("blockquote")).to_have_text("quoted")
        assert shown.locator("li:has(> .tick)").all_inner_texts() == ["☑ done", "☐ open"]
        assert shown.locator("td").all_inner_texts() == ["1", "x|y"]
        assert shown.locator("pre").inner_text() == "def f():  # note\n    return 'x'"
        assert shown.locator("pre .code-k").all_inner_texts() == ["def", "return"]
        expect(shown.locator("a")).to_have_attribute("href", "https://example.org/x_y_z")
        expect(shown.get_by_text("snake_case_name, 2 * 3 * 4.")).to_be_visible()


def test_marks_without_end_take_no_time(browser: Browser, served: Served) -> None:
    text = "\n\n".join(
        ["*a " * 20_000, "[" * 20_000, "`" * 9_999 + "x", "> " * 5_000, "| a " * 5_000, "- \n\n" * 3_000]
    )
    session = served.put(3, turn("Go", text))
    with reading(browser, served, session=session) as reader:
        expect(reader.page.locator(".markdown")).to_be_visible(timeout=10_000)


def test_an_answer_streams_and_its_end_is_followed(browser: Browser, served: Served, size: tuple[int, int]) -> None:
    text = " ".join(f"word{n}" for n in range(40))
    with reading(browser, served, size) as reader:
        page = reader.page
        session = served.start([{"text": f"{text}\n\nThe end.", "pause": 0.08}], "Write", state="running")
        page.goto(served.link(session))
        live = page.locator(".item-live .markdown")
        expect(live).to_contain_text("word2")
        first = live.inner_text()
        assert "The end." not in first
        expect(page.locator(".item-answer")).to_contain_text("The end.")
        expect(page.locator(".item-live")).to_have_count(0)
        assert page.locator(".item-answer").inner_text().split() == f"{text} The end.".split()


def test_a_task_is_started_and_steered_on_the_page(browser: Browser, served: Served, size: tuple[int, int]) -> None:
    model = served.model(
        [
            {"text": "I begin. " * 12, "pause": 0.2, "calls": [call("Read", file_path="a.txt")]},
            {"text": "Steered.", "expect": "look at b.py too"},
        ]
    )
    (served.home / ".agentrc").write_text(f'model = "{model}"\n')
    with reading(browser, served, size) as reader:
        page = reader.page
        page.get_by_role("button", name="New task").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("button", name="Start").click()
        expect(dialog.get_by_role("alert")).to_have_text("Say what should be done.")
        dialog.get_by_label("Task").fill("Look around")
        assert reader.axe() == []
        dialog.get_by_role("button", name="Start").click()
        expect(page.locator(".item-live")).to_contain_text("I begin.")
        page.get_by_label("Message", exact=True).fill("look at b.py too")
        page.get_by_role("button", name="Send").click()
        expect(page.get_by_text("Steered.")).to_be_visible()
        expect(page.locator(".item-user")).to_have_text(["You: Look around", "You: look at b.py too"])
        page.get_by_label("Message", exact=True).fill("x")
        expect(page.get_by_role("button", name="Interrupt")).to_have_count(0)


def test_a_turn_is_interrupted(browser: Browser, served: Served) -> None:
    session = served.start([{"text": "On and on. " * 200, "pause": 0.3}], "Write", state="running")
    with reading(browser, served, session=session) as reader:
        expect(reader.page.locator(".item-live")).to_contain_text("On and on.")
        reader.page.get_by_role("button", name="Interrupt").click()
        expect(reader.page.get_by_text("Interrupted. Say what to do instead, or continue.")).to_be_visible()


def _long(count: int) -> list[Event]:
    events: list[Event] = []
    for n in range(count // 5):
        made = ToolCall(f"c{n}", "Bash", {"command": f"echo {n}"})
        events += [asked(f"Question {n}"), answered(f"Answer **{n}**\n\n" + "text " * (n % 40), made)]
        events += called(made, f"{n}", CommandOutput(f"echo {n}", f"{n}\n", 0, 0.01), summary=f"Run: echo {n}")
    return [*events, answered("The very last line."), ended()]


def test_thousands_of_records_scroll_without_a_stop(browser: Browser, served: Served, size: tuple[int, int]) -> None:
    session = served.put(10_000 + size[0], _long(10_000 if os.environ.get("WEB") == "all" else 3_000))
    with reading(browser, served, size, session=session) as reader:
        page = reader.page
        expect(page.get_by_text("The very last line.")).to_be_visible()
        scroller = page.locator(".scroller")
        # To the first record, page by page.
        for _ in range(200):
            if page.locator(".user-text").get_by_text("Question 0", exact=True).count():
                break
            scroller.evaluate("e => { e.scrollTop = 0 }")
            page.wait_for_timeout(60)
        expect(page.locator(".user-text").get_by_text("Question 0", exact=True)).to_be_visible()
        # Across everything in steps, each drawn in its frame.
        took = page.evaluate(
            """async () => {
              const e = document.querySelector(".scroller");
              const frame = () => new Promise(requestAnimationFrame);
              let longest = 0;
              for (let at = 0; at <= 60; at++) {
                const start = performance.now();
                e.scrollTop = (e.scrollHeight * at) / 60;
                await frame(); await frame();
                longest = Math.max(longest, performance.now() - start);
              }
              return longest;
            }"""
        )
        assert took < 2_000, "a frame in ms"
        expect(page.get_by_text("The very last line.")).to_be_visible()


def test_a_reader_who_scrolled_up_is_left_there(browser: Browser, served: Served) -> None:
    replies = [
        {"text": f"Part {n}.\n\n" + "line\n\n" * 30, "calls": [call("Grep", pattern=f"line {n}")]} for n in range(4)
    ]
    session = served.start([*replies, {"text": "Slow. " * 30, "pause": 0.1}, {"text": "x"}], "Go", state="running")
    with reading(browser, served, PHONE, session=session) as reader:
        page = reader.page
        expect(page.locator(".item-live")).to_contain_text("Slow.")
        page.locator(".scroller").evaluate("e => { e.scrollTop -= 900 }")
        expect(page.get_by_role("button", name="Newest")).to_be_visible()
        top = page.locator(".scroller").evaluate("e => e.scrollTop")
        served.until(session, "done")
        page.wait_for_timeout(300)
        assert abs(page.locator(".scroller").evaluate("e => e.scrollTop") - top) < 3
        page.get_by_role("button", name="Newest").click()
        expect(page.get_by_role("button", name="Newest")).to_be_hidden()
        expect(page.locator(".turn-end")).to_be_in_viewport()


def test_a_lost_connection_is_reported_and_caught_up_without_doubling(browser: Browser, served: Served) -> None:
    replies = [{"text": f"Part {n}.", "calls": [call("Grep", pattern=f"line {n}")]} for n in range(6)]
    slow = {"text": "Nearly there. " * 15, "pause": 0.2}
    session = served.start(
        [*replies, {**slow, "calls": [call("Glob", pattern="*")]}, {"text": "Over."}], state="running"
    )
    with reading(browser, served, DESK, session=session) as reader:
        page = reader.page
        expect(page.get_by_text("Part 5.")).to_be_visible()
        reader.context.set_offline(True)
        expect(page.get_by_text("Not connected. Trying again")).to_be_visible()
        served.until(session, "done")
        assert page.get_by_text("Over.").count() == 0
        reader.context.set_offline(False)
        expect(page.get_by_text("Over.")).to_be_visible()
        expect(page.get_by_text("Not connected")).to_have_count(0)
        texts = page.locator(".item-answer").all_inner_texts()
        assert len(texts) == len(set(texts)) == 8, texts


def test_a_server_that_starts_again_is_found(browser: Browser, served: Served) -> None:
    session = served.start([{"text": "Before."}, {"text": "After."}], state="done")
    with reading(browser, served, DESK, session=session) as reader:
        page = reader.page
        expect(page.get_by_text("Before.")).to_be_visible()
        served.stop()
        expect(page.get_by_text("Not connected. Trying again")).to_be_visible()
        served.run()
        expect(page.get_by_text("Not connected")).to_have_count(0)
        page.get_by_label("Message", exact=True).fill("and now")
        page.get_by_role("button", name="Send").click()
        expect(page.get_by_text("After.")).to_be_visible()


def test_a_killed_server_and_a_killed_worker_lose_nothing(browser: Browser, tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        slow = {"text": "On and on. " * 400, "pause": 0.1}
        session = served.start([{"text": "Begun.", "calls": [call("Grep", pattern="line 1")]}, slow], state="running")
        with reading(browser, served, PHONE, session=session) as reader:
            page = reader.page
            expect(page.locator(".item-live")).to_contain_text("On and on.")
            served.kill()
            expect(page.get_by_text("Not connected. Trying again")).to_be_visible()
            served.run()
            expect(page.get_by_text("Not connected")).to_have_count(0)
            expect(page.locator(".item-live")).to_contain_text("On and on.")
            (worker,) = served.workers()
            os.kill(worker, signal.SIGKILL)
            expect(page.get_by_role("button", name="Resume")).to_be_visible()
            expect(page.get_by_text("Begun.")).to_have_count(1)
            page.get_by_role("button", name="Resume").click()
            expect(page.locator(".item-live")).to_contain_text("On and on.")
            page.get_by_role("button", name="Interrupt").click()
            expect(page.get_by_text("Interrupted. Say what to do instead, or continue.").last).to_be_visible()


def test_changes_are_side_by_side_where_there_is_room(browser: Browser, served: Served) -> None:
    edit = {"calls": [call("Edit", file_path="b.py", old_string="x = 1", new_string="x = 2\ny = 3")]}
    replies = [{"calls": [call("Read", file_path="b.py")]}, edit, {"text": "Done."}]
    session = served.start(replies, "Change it", state="done", mode="acceptEdits")
    for width, beside in ((1280, True), (768, False), (360, False)):
        with reading(browser, served, (width, 800), session=session) as reader:
            reader.page.get_by_role("button", name="More about this session").click()
            reader.page.get_by_role("button", name="Changes", exact=True).click()
            dialog = reader.page.get_by_role("dialog")
            expect(dialog.locator(".added")).to_have_count(2)
            old, new = (dialog.locator(f"tr.{kind}").first.bounding_box() for kind in ("removed", "added"))
            assert old is not None and new is not None
            assert (old["y"] == new["y"], old["x"] < new["x"]) == (beside, beside)
            assert reader.page.evaluate("document.documentElement.scrollWidth") == width
            assert reader.axe() == []


def test_changes_are_shown_and_undone_after_a_preview(browser: Browser, served: Served, size: tuple[int, int]) -> None:
    write = {"calls": [call("Write", file_path="undo-me.txt", content="one\ntwo\n")]}
    session = served.start([write, {"text": "Written."}], "Write it", state="done", mode="acceptEdits")
    assert (served.work / "undo-me.txt").exists()
    with reading(browser, served, size, session=session) as reader:
        page = reader.page
        more = page.get_by_role("button", name="More about this session")
        more.click()
        page.get_by_role("button", name="Changes").click()
        dialog = page.get_by_role("dialog")
        expect(dialog.locator(".added .text")).to_have_text(["one", "two"])
        assert reader.axe() == []
        page.keyboard.press("Escape")
        more.click()
        page.get_by_role("button", name="Undo…").click()
        expect(dialog.get_by_label("Write it")).to_be_checked()
        expect(dialog.get_by_text("undo-me.txt")).to_be_visible()
        assert reader.axe() == []
        dialog.get_by_role("button", name="Undo", exact=True).click()
        expect(page.get_by_text("Undone: 1 file changed.")).to_be_visible()
    wait_until(lambda: not (served.work / "undo-me.txt").exists())
