"""The pictures in the README: what the program draws now, and their renderer keeps what a screen shows."""

from __future__ import annotations

from xml.etree import ElementTree

import pyte
import pytest

from docs.picture import COLUMNS, HEIGHT, MARGIN, PAPERS, TITLE, WIDTH, look_of, play, svg, target
from tests.support.fork_server import ROOT
from tests.support.pty_screen import StyledScreen
from tests.support.whole_screens import row_of

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("look", PAPERS)
def test_the_picture_is_what_the_program_draws(look: str) -> None:
    """`make picture` draws it anew."""
    picture = target(look).read_text("utf-8")
    words = [text.text or "" for text in ElementTree.fromstring(picture).iter(f"{SVG}text")]
    # The changed words are runs of their own.
    assert "full*discount//100" in "".join("".join(words).split())
    assert svg(play(look), COLUMNS, PAPERS[look], TITLE) == picture


def test_the_readme_shows_both() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    assert '<source media="(prefers-color-scheme: dark)" srcset="docs/demo-dark.svg">' in readme
    assert 'src="docs/demo-light.svg"' in readme


def test_the_renderer_keeps_text_places_and_looks() -> None:
    screen = StyledScreen(20, 3, history=0)
    stream = pyte.Stream(screen)
    stream.feed(
        "\x1b[1;31mA <b>\x1b[0m  漢字\x1b[2;33m dim\x1b[0m \r\n\x1b[7m on \x1b[0m\x1b[48;2;1;2;3;32mgo  \x1b[0m"
    )
    rows = [row_of([screen.buffer[y][x] for x in range(20)], ()) for y in range(3)]
    assert [row.text for row in rows] == ["A <b>  漢字 dim", " on go  ", ""]
    paper = PAPERS["dark"]
    root = ElementTree.fromstring(svg(rows, 20, paper, "a & b"))
    assert root.findtext(f"{SVG}title") == "a & b"
    texts = [
        (
            text.text,
            round((float(text.attrib["x"]) - MARGIN) / WIDTH),
            text.attrib.get("class", ""),
            text.attrib["fill"],
        )
        for text in root.iter(f"{SVG}text")
    ]
    assert texts == [
        ("A <b>", 0, "b", paper.colors["red"]),
        ("漢字", 7, "", paper.ink),
        ("dim", 12, "d", paper.colors["brown"]),
        ("on", 1, "", paper.background),
        ("go", 4, "", paper.colors["green"]),
    ]
    grounds = [(r.attrib["fill"], r.attrib["width"], r.attrib["y"]) for r in root.iter(f"{SVG}rect") if "x" in r.attrib]
    y = str(MARGIN + HEIGHT)
    assert grounds == [(paper.ink, f"{4 * WIDTH:g}", y), ("#010203", f"{4 * WIDTH:g}", y)]


def test_dim_is_not_taken_from_a_colour() -> None:
    screen = StyledScreen(10, 1, history=0)
    pyte.Stream(screen).feed("\x1b[38;2;2;2;2ma\x1b[2mb\x1b[22;31mc\x1b[0md")
    styles = row_of([screen.buffer[0][x] for x in range(10)], ()).styles
    assert styles == ("020202", "dim 020202", "red", "")
    assert look_of("dim 020202 on brightred", PAPERS["light"]) == (
        "#020202",
        PAPERS["light"].colors["brightred"],
        ["d"],
    )
