"""Draw the pictures of docs/web.md, from the page as it is now: `make web-pictures`.

With a folder, every view is drawn into it, at each width and in both themes, to be looked at.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, Page, expect

from tests.support.fork_server import ROOT
from tests.support.repositories import git
from tests.support.scripts import bash, call
from tests.support.web_page import DESK, PHONE, Served, chromium, reading, serving

OUT = ROOT / "docs" / "images"
BASKET = '''"""A shopping basket."""

DISCOUNT = 10


def total(prices, discount=DISCOUNT):
    """The sum in cents, less a discount in percent."""
    full = sum(prices)
    return full - discount


def count(prices):
    """How many things are in the basket."""
    return len(prices)


def cheapest(prices):
    return min(prices)
'''
EDITS = [
    {"old_string": "    return full - discount\n", "new_string": "    return full - full * discount // 100\n"},
    {"old_string": "    return min(prices)\n", "new_string": "    return min(prices, default=0)\n"},
]
SAID = """The discount is taken off **as if it were cents**, and an empty basket fails:

| call | now | expected |
|---|--:|--:|
| `total([2000])` | 1990 | 1800 |
| `cheapest([])` | `ValueError` | 0 |

I will correct both in `basket.py`, and run the tests again."""


def _todos(done: int) -> dict[str, Any]:
    steps = ["Run the tests", "Find the cause", "Correct basket.py", "Run the tests again"]
    doing = ["Running the tests", "Finding the cause", "Correcting basket.py", "Running the tests again"]
    states = ["completed"] * done + ["in_progress"] + ["pending"] * len(steps)
    items = [{"content": s, "activeForm": a, "status": w} for s, a, w in zip(steps, doing, states, strict=False)]
    return call("TodoWrite", todos=items)


def _sessions(served: Served) -> str:
    (served.work / "basket.py").write_text(BASKET)
    git(served.work, "add", ".")
    git(served.work, "commit", "-q", "-m", "basket")
    served.start([{"text": "The README now says how to install it."}], "Say in the README how to install it", "done")
    served.start([], "Find out why the nightly build is slow", "failed")
    plan = "# A cache for prices\n\n1. Add `cache.py` with a bounded cache\n2. Use it in `basket.py`\n3. Test both"
    asked = call(
        "ExitPlanMode", plan=plan, files_to_create=["cache.py"], files_to_modify=["basket.py"], tests=["pytest"]
    )
    served.start([{"calls": [asked]}, {"text": "x"}], "Plan a cache for the prices", mode="plan")
    replies = [
        {"text": "I will look at the code and its tests first.", "calls": [_todos(0), call("Glob", pattern="*.py")]},
        bash("false # python3 -m unittest"),
        {"calls": [call("Read", file_path="basket.py"), _todos(2)]},
        {"text": SAID, "calls": [call("MultiEdit", file_path="basket.py", edits=EDITS)]},
        {"text": "Done."},
    ]
    return served.start(replies, "Ten percent off 20.00 gives 19.90. Find out why and correct it")


def _shoot(page: Page, name: str) -> None:
    page.wait_for_timeout(400)
    # 64 colours show all there is to see, in a third of the bytes.
    Image.open(BytesIO(page.screenshot())).quantize(64, dither=Image.Dither.NONE).save(
        OUT / f"{name}.png", optimize=True
    )
    print(OUT / f"{name}.png")


def _every_view(page: Page, served: Served, session: str, changed: str, shoot: Callable[[str], None]) -> None:
    """Go through the views of the page. session: it waits. changed: it has changed files."""
    shoot("list")
    page.goto(served.link(session))
    expect(page.locator(".question-title")).to_be_visible()
    shoot("question")
    page.goto(served.link(changed))
    expect(page.locator(".answer").last).to_contain_text("12 percent")
    for choice in ("Changes", "Commit and ship…", "Undo…"):
        page.get_by_role("button", name="More about this session").click()
        if choice == "Changes":
            shoot("menu")
        page.get_by_role("button", name=choice, exact=True).click()
        page.locator("dialog .dialog-body > div > *").first.wait_for()
        shoot(choice.split()[0].strip("…").lower())
        page.keyboard.press("Escape")
    page.get_by_label("Message", exact=True).fill("/")
    page.get_by_label("Message", exact=True).press_sequentially("c")
    expect(page.get_by_role("option").first).to_be_visible()
    shoot("commands")
    page.goto("about:blank")
    page.goto(f"http://127.0.0.1:{served.port}/#/board")
    expect(page.locator(".row").first).to_be_visible()
    shoot("board")
    page.keyboard.press("n")
    expect(page.get_by_role("dialog", name="New task")).to_be_visible()
    shoot("start")


def _draw_all(folder: Path, browser: Browser, served: Served, session: str, changed: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for size in (PHONE, (768, 1024), DESK):
        for dark in (False, True):
            with reading(browser, served, size, dark=dark) as reader:
                expect(reader.page.locator(".row")).to_have_count(5)

                def shoot(name: str, page: Page = reader.page, end: str = f"{size[0]}{'-dark' * dark}") -> None:
                    page.wait_for_timeout(300)
                    page.screenshot(path=folder / f"{name}-{end}.png")

                _every_view(reader.page, served, session, changed, shoot)


def main() -> int:
    OUT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, chromium() as browser, serving(Path(folder), "shop") as served:
        session = _sessions(served)
        if len(sys.argv) > 1:
            for name in ("user.name", "user.email"):
                git(served.work, "config", name, "ann@example.org")
            edit = call("Edit", file_path="basket.py", old_string="DISCOUNT = 10", new_string="DISCOUNT = 12")
            new = call("Write", file_path="rates.py", content="RATES = {1: 12}\n")
            first = {"text": "Ten becomes twelve.", "calls": [call("Read", file_path="basket.py")]}
            more = [first, {"calls": [edit, new]}, {"text": "Done: the discount is 12 percent."}]
            changed = served.start(more, "Raise the discount to twelve percent", "done", mode="acceptEdits")
            _draw_all(Path(sys.argv[1]), browser, served, session, changed)
            return 0
        for name, size, dark in (("web-desk", DESK, False), ("web-desk-dark", DESK, True), ("web-phone", PHONE, False)):
            with reading(browser, served, size, dark=dark) as reader:
                expect(reader.page.locator(".row")).to_have_count(4)
                if size == PHONE:
                    _shoot(reader.page, f"{name}-list")
                reader.page.goto(served.link(session))
                expect(reader.page.locator(".item-call").last).to_be_visible()
                _shoot(reader.page, name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
