"""Whole screens of the program, stored as text in `screens/` and reviewed like code; `make screens` writes them anew.

Beside the stored ones, every screen is held to rules that any design has to keep.
"""

from __future__ import annotations

import re
from contextlib import closing

import pyte
import pytest

from tests.pty.scenes import SCENES, Scene, rooms
from tests.pty.view_scenes import VIEW_SCENES
from tests.support.hypothesis_examples import cases
from tests.support.pty_screen import Drawn, StyledScreen
from tests.support.whole_screens import SCREENS, UPDATE, VIEWS, Stored, faults, hold, missing

ALL_SCENES = (*SCENES, *VIEW_SCENES)
# Scenes that do not keep the rules yet. One that does has to go.
KNOWN: set[str] = set()
# Those in which what is too wide or too high shows; the one between them adds little.
SOME_VIEWS = tuple(view for view in VIEWS if view.look == "dark" and view.columns != 100)


@pytest.mark.parametrize("scene", ALL_SCENES, ids=[scene.name for scene in ALL_SCENES])
def test_the_screens_of(scene: Scene) -> None:
    stored = Stored(scene.name)
    diffs: list[str] = []
    broken: list[str] = []
    wide = ""
    # Every scene in three sizes; every eighth in all, and in other colours. With EXAMPLES=all, every scene in all.
    views = VIEWS if UPDATE else cases(VIEWS, VIEWS if scene in ALL_SCENES[::8] else SOME_VIEWS)
    # From the widest: its words tell what a narrow window has broken.
    for view in sorted(views, key=lambda view: -view.columns):
        with rooms(view) as room, closing(scene.play(room)) as play:  # type: ignore[type-var]
            screen = next(play)
            diffs.append(hold(screen, stored, view, hurry=any(diffs)))
            wide = wide or screen.text()
            if scene.code:
                screen.screen.overrun.clear()
            found = [*faults(screen.screen, (wide, *scene.texts)), *_unseen(screen, scene)]
            if scene.name.startswith("view_") or scene.name == "jobs":
                found = [fault for fault in found if "blank rows" not in fault]
            broken += [f"{scene.name} at {view.size}, {view.look}: {fault}" for fault in found]
            next(play, None)
    assert not any(diffs), "\n".join(
        ["The screens have changed; `make screens` stores them as they are now.", *filter(None, diffs)]
    )
    if scene.name in KNOWN:
        assert broken, f"{scene.name} has no faults any more: take it out of KNOWN"
    else:
        assert not broken, "\n".join(broken)


def _unseen(screen: Drawn, scene: Scene) -> list[str]:
    visible, text = screen.visible(), screen.text()
    # What a question is about may have been scrolled away, but was written before it.
    found = [f"{words!r} is not on the screen:\n{text}" for words in missing(text, scene.shown)]
    gone = (choice for choice in scene.choices if not re.search(choice, visible, re.IGNORECASE))
    return found + [f"the choice {choice!r} is not in the window:\n{visible}" for choice in gone]


def test_nothing_else_is_stored() -> None:
    names = {scene.name for scene in ALL_SCENES}
    sizes = {view.size for view in VIEWS}
    stored = {(path.parent.name, path.stem) for path in SCREENS.rglob("*.txt")}
    assert stored == {(size, name) for size in sizes for name in names}


def drawn(text: str, columns: int = 20) -> StyledScreen:
    screen = StyledScreen(columns, 6, history=0)
    pyte.Stream(screen).feed(text.replace("\n", "\r\n"))
    return screen


def test_a_screen_without_a_fault() -> None:
    assert faults(drawn("the title of a page\nis a slug, in words\n\nand more"), ["title page slug words"]) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("one\n\n\ntwo", "two blank rows: 2 and 3"),
        ("this one is wider than the window", "wider than the window"),
        ("it has a new separa\ntor", "breaks 'separator'"),
        ("it has a new separa", "breaks 'separator'"),
    ],
)
def test_the_faults_of_a_screen(text: str, message: str) -> None:
    found = faults(drawn(text), ["The separator of a title."])
    assert any(message in fault for fault in found), found


def test_what_is_wrapped_is_there_and_what_is_scrolled_away_is_not() -> None:
    assert missing("  │ python3 -m\n  │ unittest", ["python3 -m unittest"]) == []
    assert missing("unittest", ["python3 -m unittest"]) == ["python3 -m unittest"]
