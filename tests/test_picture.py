"""The picture in the README: well-formed, drawn by docs/picture.py, and its renderer keeps what a screen shows."""

from __future__ import annotations

from xml.etree import ElementTree

import pyte

from docs.picture import COLORS, COLUMNS, HEIGHT, MARGIN, TARGET, WIDTH, DimScreen, Run, runs, svg

SVG = "{http://www.w3.org/2000/svg}"


def read(picture: str) -> list[list[Run]]:
    """The runs that a picture was drawn from."""
    root = ElementTree.fromstring(picture)
    rows: list[list[Run]] = [[] for _ in range(round((float(root.attrib["viewBox"].split()[3]) - 2 * MARGIN) / HEIGHT))]
    reverses = {(r.attrib["x"], r.attrib["y"]): r.attrib["class"] for r in root.iter(f"{SVG}rect") if "x" in r.attrib}
    for text in root.iter(f"{SVG}text"):
        x, y = text.attrib["x"], int(text.attrib["y"]) - 13
        under = reverses.get((x, str(y)), "")
        looks = text.attrib.get("class", "").split()
        color = under.replace("white", "") if under else next((name for name in looks if name in COLORS), "")
        cells = round(float(text.attrib["textLength"]) / WIDTH)
        marks = [name in looks for name in "biu"]
        run = Run(round((float(x) - MARGIN) / WIDTH), cells, text.text or "", color, *marks, bool(under))
        rows[(y - MARGIN) // HEIGHT].append(run)
    return rows


def test_the_picture_is_what_the_renderer_makes_of_its_text() -> None:
    picture = TARGET.read_text("utf-8")
    rows = read(picture)
    title = ElementTree.fromstring(picture).findtext(f"{SVG}title", "")
    assert svg(rows, COLUMNS, title) == picture
    text = "\n".join(" ".join(run.text for run in row) for row in rows)
    assert all(words in text for words in ("? Edit slug.py", "queued: ", "esc to interrupt", "▸ Repair the cause"))


def test_the_renderer_keeps_text_places_and_looks() -> None:
    screen = DimScreen(20, 3)
    stream = pyte.Stream(screen)
    stream.feed("\x1b[1;31mA <b>\x1b[0m  漢字\x1b[2m dim\x1b[0m \r\n\x1b[7m on \x1b[0m\x1b[32mgo\x1b[0m")
    rows = [runs(screen.buffer[y][x] for x in range(20)) for y in range(3)]
    assert rows == [
        [Run(0, 5, "A <b>", "red", bold=True), Run(7, 4, "漢字"), Run(12, 3, "dim", "dim")],
        [Run(0, 4, " on ", reversed=True), Run(4, 2, "go", "green")],
        [],
    ]
    assert read(svg(rows, 20, "a & b")) == rows
