"""Draw the pictures of docs/web.md, from the page as it is now: `make web-pictures`."""

from __future__ import annotations

import sys
import tempfile
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Page, expect

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


def main() -> int:
    OUT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, chromium() as browser, serving(Path(folder), "shop") as served:
        session = _sessions(served)
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
