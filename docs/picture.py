"""The picture in the README, on dark and on light paper: `make picture` plays `agent demo` and draws its question.

A tool for those who work on this program: it needs the development tools (pyte reads the screen). What is drawn is what
the program wrote. Only durations and the name of the temporary folder stand still.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

from wcwidth import wcswidth

from tests.support.pty_screen import Drawn
from tests.support.whole_screens import Row, View, rows_of, runs_of

COLUMNS, ROWS = 88, 52
WIDTH, HEIGHT, MARGIN = 8.4, 18, 16
TITLE = "agent demo: the tests fail, the cause is found, and the agent asks before its edit"


class Paper(NamedTuple):
    """What a picture is drawn on. colors: by pyte's names."""

    background: str
    ink: str
    colors: dict[str, str]


_NAMES = ("black", "red", "green", "brown", "blue", "magenta", "cyan", "white")


def _colors(usual: str, bright: str) -> dict[str, str]:
    names = [*_NAMES, *(f"bright{name}" for name in _NAMES)]
    return dict(zip(names, [*usual.split(), *bright.split()], strict=True))


PAPERS = {
    "dark": Paper("#1b1e24", "#d5d8de", _colors(
        "#5c6370 #e06c75 #8fc379 #dcb46a #6cb2f0 #c88ae0 #5cbcc4 #d5d8de",
        "#7f8896 #ef8891 #a8d795 #ebcb8b #8cc5f5 #d7a5ea #7ed0d7 #f2f4f8",
    )),
    "light": Paper("#fbfbfa", "#2b2f36", _colors(
        "#2b2f36 #c22f3d #2c7a35 #8a6100 #1f5fb8 #8a35a8 #10707a #6b717c",
        "#5c6370 #d64553 #388e42 #a57400 #2f74d0 #a04ac0 #1a848f #9aa0aa",
    )),
}  # fmt: skip
MASKS = (
    (re.compile(r"agent-demo-\w{8}"), "agent-demo-4k7x2m9p"),
    (re.compile(r"\b\d+\.\d{3}s\b"), "0.001s"),
    (re.compile(r"(?<![.\d])\d+(\.\d)?s\b|\b\d+ ms\b|\b\d+m \d\ds\b"), "0.2s"),
    (re.compile(r"^\S(?= .*\besc\b)|[\u2801-\u28ff]"), "*"),
)


def target(look: str) -> Path:
    """Return the file of a picture."""
    return Path(__file__).with_name(f"demo-{look}.svg")


def svg(rows: Sequence[Row], columns: int, paper: Paper, title: str) -> str:
    """Return rows as an SVG: text that can be selected, each run held to its cells whatever the font is."""
    width, height = columns * WIDTH + 2 * MARGIN, len(rows) * HEIGHT + 2 * MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" role="img">',
        f"<title>{escape(title)}</title>",
        "<style>text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;"
        "white-space:pre}.b{font-weight:bold}.i{font-style:italic}.u{text-decoration:underline}"
        ".s{text-decoration:line-through}.d{opacity:.62}</style>",
        f'<rect width="{width:g}" height="{height:g}" rx="8" fill="{paper.background}"/>',
    ]
    for number, row in enumerate(rows):
        lines += drawn_row(row, number, paper)
    return "\n".join([*lines, "</svg>", ""])


def drawn_row(row: Row, number: int, paper: Paper) -> Iterator[str]:
    """Yield the elements of a row: the background of a run where it has one, then its text."""
    y = MARGIN + number * HEIGHT
    for at, style, text in runs_of(row):
        ink, ground, looks = look_of(style, paper)
        x, cells = MARGIN + wcswidth(row.text[:at]) * WIDTH, wcswidth(text)
        if ground:
            yield f'<rect x="{x:g}" y="{y}" width="{cells * WIDTH:g}" height="{HEIGHT}" fill="{ground}"/>'
        shown = text.strip(" ")
        if not shown:
            continue
        x += (len(text) - len(text.lstrip(" "))) * WIDTH
        names = f' class="{" ".join(looks)}"' if looks else ""
        yield (
            f'<text x="{x:g}" y="{y + 13}" textLength="{wcswidth(shown) * WIDTH:g}" fill="{ink}"{names}'
            f' xml:space="preserve">{escape(shown)}</text>'
        )


_CLASSES = {"bold": "b", "italic": "i", "underline": "u", "strike": "s", "dim": "d"}


def look_of(style: str, paper: Paper) -> tuple[str, str, list[str]]:
    """Return the colour of a style, that of its background or "", and the classes of its text."""
    words = style.split()
    under = words.pop() if words[-2:-1] == ["on"] else ""
    ink, ground, looks, reverse = paper.ink, _color(under, paper), [], False
    for word in words[:-1] if under else words:
        if word in _CLASSES:
            looks.append(_CLASSES[word])
        elif word == "reverse":
            reverse = True
        else:
            ink = _color(word, paper)
    return (ground or paper.background, ink, looks) if reverse else (ink, ground, looks)


def _color(name: str, paper: Paper) -> str:
    return paper.colors.get(name) or (f"#{name}" if name else "")


def play(look: str) -> list[Row]:
    """Play the demo until it asks; return the rows of its window."""
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home) / "work"
        folder.mkdir()
        view = View(COLUMNS, ROWS, look)
        # What the terminal answers about its background may come too late for the first lines.
        env = {**view.env, "TMPDIR": "/tmp", "COLORFGBG": "0;15" if look == "light" else "15;0"}
        with Drawn(["demo", "--speed", "0"], folder, COLUMNS, ROWS, **env) as screen:
            screen.background = "rgb:fbfb/fbfb/fafa" if look == "light" else "rgb:1b1b/1e1e/2424"
            screen.until(lambda: screen.screen.title.startswith("? "), "the question")
            screen.rest(0.5)
            return rows_of(screen, MASKS)


if __name__ == "__main__":
    for name, sheet in PAPERS.items():
        target(name).write_text(svg(play(name), COLUMNS, sheet, TITLE), "utf-8")
