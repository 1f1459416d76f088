"""The picture of a session in the README: `make picture` runs the program with a scripted model and draws its screen.

A tool for those who work on this program: it needs the development tools (pyte reads the screen). What is drawn is what
the program wrote; only the words of the model are from a script.
"""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

import pyte
from pyte.screens import Char

from tests.support.pty_screen import Drawn
from tests.support.scripts import call, script

TARGET = Path(__file__).with_name("session.svg")
COLUMNS, ROWS = 96, 60
WIDTH, HEIGHT, MARGIN = 8.4, 18, 16
PAPER, INK = "#1b1e24", "#d5d8de"
# Names of pyte's colours, and the one for text that is dim.
COLORS = {
    "black": "#5c6370",
    "red": "#e06c75",
    "green": "#8fc379",
    "brown": "#dcb46a",
    "blue": "#6cb2f0",
    "magenta": "#c88ae0",
    "cyan": "#5cbcc4",
    "white": INK,
    "dim": "#8b919c",
}


class Run(NamedTuple):
    """Text of one look. at, cells: where it begins and how wide it is; bg: only where it is reversed."""

    at: int
    cells: int
    text: str
    color: str = ""
    bold: bool = False
    italic: bool = False
    underlined: bool = False
    reversed: bool = False


def svg(rows: Sequence[Sequence[Run]], columns: int, title: str) -> str:
    """The rows as an SVG: text that can be selected, each run held to its cells whatever the font is."""
    width, height = columns * WIDTH + 2 * MARGIN, len(rows) * HEIGHT + 2 * MARGIN
    colors = "".join(f".{name}{{fill:{value}}}" for name, value in COLORS.items())
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" role="img">',
        f"<title>{escape(title)}</title>",
        "<style>text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;"
        f"fill:{INK};white-space:pre}}.b{{font-weight:bold}}.i{{font-style:italic}}.u{{text-decoration:underline}}"
        f".paper{{fill:{PAPER}}}{colors}</style>",
        f'<rect width="{width:g}" height="{height:g}" rx="8" class="paper"/>',
    ]
    for number, row in enumerate(rows):
        for run in row:
            lines += _drawn(run, number)
    return "\n".join([*lines, "</svg>", ""])


def _drawn(run: Run, row: int) -> Iterator[str]:
    x, y, wide = f"{MARGIN + run.at * WIDTH:g}", MARGIN + row * HEIGHT, f"{run.cells * WIDTH:g}"
    color = run.color
    if run.reversed:
        yield f'<rect x="{x}" y="{y}" width="{wide}" height="{HEIGHT}" class="{color or "white"}"/>'
        color = "paper"
    looks = [color, *(name for name, on in (("b", run.bold), ("i", run.italic), ("u", run.underlined)) if on)]
    names = f' class="{" ".join(filter(None, looks))}"' if any(looks) else ""
    yield f'<text x="{x}" y="{y + 13}" textLength="{wide}"{names} xml:space="preserve">{escape(run.text)}</text>'


def runs(cells: Iterable[Char]) -> list[Run]:
    """A row of a screen as runs, without blanks that show nothing. A wide character is one cell and an empty one."""
    placed = list(enumerate(cells))
    found = []
    for look, group in groupby(placed, key=lambda pair: pair[1]._replace(data="")):
        part = list(group)
        text = "".join(char.data for _, char in part)
        if look.reverse or look.underscore:
            stripped, at, wide = text, part[0][0], len(part)
        else:
            stripped = text.strip(" ")
            before = len(text) - len(text.lstrip(" "))
            at, wide = part[0][0] + before, len(part) - before - (len(text) - len(text.rstrip(" ")))
        if stripped:
            color = look.fg if look.fg in COLORS else look.fg.removeprefix("bright")
            looks = (look.bold, look.italics, look.underscore, look.reverse)
            found.append(Run(at, wide, stripped, color if color in COLORS else "", *looks))
    return found


class DimScreen(pyte.HistoryScreen):
    """A screen that keeps what is dim apart, which pyte does not."""

    def select_graphic_rendition(self, *attrs: int, **kwargs: Any) -> None:
        super().select_graphic_rendition(*attrs, **kwargs)
        if 2 in attrs:
            self.cursor.attrs = self.cursor.attrs._replace(fg="dim")


PLAN = ("Run the tests", "Repair the cause", "Run the tests again")
CODE = '''"""Titles as parts of addresses."""


def slug(title):
    return title.lower().replace(" ", "-")
'''
TEST = """import unittest

from slug import slug


class SlugTest(unittest.TestCase):
    def test_words(self):
        self.assertEqual(slug("Hello World"), "hello-world")

    def test_blanks(self):
        self.assertEqual(slug("Hello   World"), "hello-world")
"""


def _plan(done: int) -> dict[str, Any]:
    states = ["completed"] * done + ["in_progress"] + ["pending"] * (len(PLAN) - done - 1)
    steps = [{"content": p, "status": s, "activeForm": p} for p, s in zip(PLAN, states, strict=True)]
    return call("TodoWrite", todos=steps)


REPLIES: list[dict[str, Any]] = [
    {"text": "I will run the tests first.", "calls": [_plan(0), call("Bash", command="python3 -m unittest -q")]},
    {"calls": [_plan(1), call("Read", file_path="slug.py")]},
    {
        "text": "`replace` makes a dash of **each** blank, so three blanks become three dashes:\n\n"
        '```python\n>>> "Hello   World".replace(" ", "-")\n\'Hello---World\'\n```\n\n'
        "Splitting at any run of blanks and joining the words repairs it.",
        "calls": [
            call(
                "Edit",
                file_path="slug.py",
                old_string='return title.lower().replace(" ", "-")',
                new_string='return "-".join(title.lower().split())',
            )
        ],
    },
]


def session() -> list[list[Run]]:
    """Run the program until it asks about the edit, with a message waiting; the rows of its screen."""
    with tempfile.TemporaryDirectory() as home, contextlib.ExitStack() as stack:
        project = Path(home) / "slugs"
        project.mkdir()
        (project / "slug.py").write_text(CODE)
        (project / "test_slug.py").write_text(TEST)
        subprocess.run(["git", "init", "-q", "-b", "main"], cwd=project, check=True)
        script(project / "fix.toml", REPLIES)
        args = ["--model", "scripted:fix.toml", "--allowedTools", "Bash(python3 -m unittest:*)"]
        screen = stack.enter_context(Drawn(args, project, COLUMNS, ROWS, HOME=home))
        screen.screen = DimScreen(COLUMNS, ROWS, history=1000)
        screen._stream = pyte.ByteStream(screen.screen)
        screen.ready()
        screen.line("One of the tests fails. Find out why and fix it.")
        screen.wait("Enter choose")
        screen.line("then write a line for the changelog")
        screen.wait("queued: then write")
        screen.rest(0.3)
        buffer = screen.screen.buffer
        drawn = [runs(buffer[y][x] for x in range(COLUMNS)) for y in range(ROWS)]
        rows = [[_elsewhere(run, home) for run in row] for row in drawn]
    while rows and not rows[-1]:
        rows.pop()
    return rows


def _elsewhere(run: Run, home: str) -> Run:
    """The temporary folder is called as a home would be: the one thing that is not as it was drawn."""
    text = run.text.replace(home, "/home/ada")
    return run._replace(text=text, cells=run.cells - len(run.text) + len(text))


if __name__ == "__main__":
    TARGET.write_text(svg(session(), COLUMNS, "A session of agent in a terminal"), "utf-8")
