"""What was written above stays as it is: nothing missing, nothing twice, nothing torn, however the window changes."""

from __future__ import annotations

import re
import shutil
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.pty.tmux_session import PATIENCE, Tmux
from tests.support.scripts import call, script

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="NOT TESTED: there is no tmux")

LINES = 1_000
# What is below the text has room in each of them.
SIZES = [(80, 24), (120, 35), (45, 18), (100, 30), (60, 20), (110, 14), (52, 33), (90, 25)]


def numbered(count: int) -> list[str]:
    """Lines with wide characters, marks that combine, and more columns than the window has."""
    more = ["plain", "宽字符" * 6, "👍🏽 ok 👨‍👩‍👧", "x" * 190, "Ünïcödé é à"]
    return [f"<{n:04}> {more[n % len(more)]} </{n:04}>" for n in range(count)]


def not_once(text: str, count: int) -> list[str]:
    """The numbered lines that are missing or there twice, with what stands around them."""
    begun = Counter(re.findall(r"<(\d{4})>", text))
    wrong = [f"{n:04}" for n in range(count) if begun[f"{n:04}"] != 1]
    return [part for n in wrong for part in (f"{n}: {begun[n]}", *re.findall(rf".{{,200}}<{n}>.{{,200}}", text, re.S))]


def wait_for_line(tmux: Tmux, number: int) -> None:
    end = time.monotonic() + PATIENCE
    while not any(int(n) >= number for n in re.findall(r"<(\d{4})>", tmux.screen())):
        assert time.monotonic() < end, tmux.screen()
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.parametrize("resizes", [False, True])
def test_a_thousand_lines_are_all_there_once(work: Path, resizes: bool) -> None:
    lines = numbered(LINES)
    text = "```\n" + "\n".join(lines) + "\n```\n\nThat is all.\n"
    model = script(work / "s.toml", [{"text": text, "pause": 0.001}])
    with Tmux(["--model", model], work) as tmux:
        tmux.wait("/help lists")
        tmux.type("go")
        tmux.keys("Enter")
        # In the same read as the Enter it would be a paste.
        wait_for_line(tmux, 1)
        tmux.type("a draft that stays")
        for number, size in enumerate(SIZES if resizes else ()):
            wait_for_line(tmux, (number + 1) * 100)
            tmux.resize_at_rest(*size)
        tmux.wait("That is all.")
        tmux.wait("✓")
        history = tmux.history()
        assert "a draft that stays" in "\n".join(history[-40:])
    whole = [line.strip() for line in history if "</" in line]
    assert not_once("\n".join(history), LINES) == []
    numbers = [int(match[1]) for line in whole if (match := re.match(r"<(\d{4})>", line))]
    assert numbers == sorted(numbers)
    # A line of code that is wider than the window is wrapped at a space.
    joined = re.sub(r"\s+(?!<\d)", " ", "\n".join(line.strip() for line in history))
    torn = [n for n in range(LINES) if not re.search(rf"<{n:04}> [^<]*</{n:04}>", joined)]
    assert torn == []


def test_nothing_of_the_input_stays_when_the_session_ends_while_the_window_changes(work: Path) -> None:
    """The rules above and below the input wrap in the narrow window, before anything is drawn for it."""
    model = script(work / "s.toml", [{"text": "Hello."}])
    with Tmux(["--model", model], work) as tmux:
        tmux.wait("/help lists")
        tmux.type("go")
        tmux.keys("Enter")
        tmux.wait("✓")
        tmux.wait("asks before changes")
        tmux.resize(30, 20)
        tmux.keys("C-d")
        tmux.wait("agent --resume")
        assert "──" not in "\n".join(tmux.history())


def test_old_rows_of_a_question_do_not_come_back_when_the_window_grows_again(work: Path) -> None:
    """A narrower window moves the first rows above the screen, and a taller one shows them again."""
    lines = "\n".join(f"line_{n} = 'some text that is wider than the narrow window, {n}'" for n in range(8))
    text = "\n\n".join(f"Paragraph {n}." for n in range(6))
    write = {"text": text, "calls": [call("Write", file_path="b.py", content=lines)]}
    with Tmux(["--model", script(work / "s.toml", [write]), "--", "go"], work, 60, 30) as tmux:
        tmux.wait("↑↓ Enter")
        for columns, rows in ((100, 30), (60, 30), (130, 40)):
            tmux.resize(columns, rows)
            rule = "─" * (columns - 1)
            tmux.until(lambda rule=rule: rule in tmux.screen().split("\n"), f"the rule of {columns} columns")  # type: ignore[misc]
            tmux.wait("↑↓ Enter")
            shown = tmux.screen()
            assert shown.count("Create b.py?") == 1 and len(re.findall("^─+$", shown, re.M)) == 1, shown
