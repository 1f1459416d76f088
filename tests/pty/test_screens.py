"""Whole screens of the program, stored as text in `screens/` and reviewed like code; `make screens` writes them anew.

Beside the stored ones, every screen is held to rules that any design has to keep.
"""

from __future__ import annotations

import re
from contextlib import closing

import pytest

from tests.pty.scenes import SCENES, Scene, rooms
from tests.support.pty_screen import Drawn
from tests.support.whole_screens import SCREENS, VIEWS, Stored, faults, hold, missing


@pytest.mark.parametrize("scene", SCENES, ids=[scene.name for scene in SCENES])
def test_the_screens_of(scene: Scene) -> None:
    stored = Stored(scene.name)
    diffs: list[str] = []
    broken: list[str] = []
    wide = ""
    # From the widest: its words tell what a narrow window has broken.
    for view in sorted(VIEWS, key=lambda view: -view.columns):
        with rooms(view) as room, closing(scene.play(room)) as play:  # type: ignore[type-var]
            screen = next(play)
            diffs.append(hold(screen, stored, view, hurry=any(diffs)))
            wide = wide or screen.text()
            found = [*faults(screen, (wide, *scene.texts)), *_unseen(screen, scene)]
            broken += [f"{scene.name} at {view.size}, {view.look}: {fault}" for fault in found]
            next(play, None)
    assert not any(diffs), "\n".join(
        ["The screens have changed; `make screens` stores them as they are now.", *filter(None, diffs)]
    )
    assert not broken, "\n".join(broken)


def _unseen(screen: Drawn, scene: Scene) -> list[str]:
    visible = screen.visible()
    found = [f"{text!r} is not in the window:\n{visible}" for text in missing(screen, scene.shown)]
    gone = (choice for choice in scene.choices if not re.search(choice, visible, re.IGNORECASE))
    return found + [f"the choice {choice!r} is not in the window:\n{visible}" for choice in gone]


def test_nothing_else_is_stored() -> None:
    names = {scene.name for scene in SCENES}
    sizes = {view.size for view in VIEWS}
    stored = {(path.parent.name, path.stem) for path in SCREENS.rglob("*.txt")}
    assert stored == {(size, name) for size in sizes for name in names}
