"""`agent demo` in the real interface: it plays by itself, a key skips, and its one question is the user's."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.support.pty_screen import GRAVE_REST, Drawn

SLOW = "0.001"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("work", "tmp"):
        (tmp_path / name).mkdir()
    return tmp_path / "work"


def demo(folder: Path, *args: str, speed: str = "0", **env: str) -> Drawn:
    given = {"TMPDIR": str(folder.parent / "tmp"), "PATH": "/usr/bin:/bin", **env}
    return Drawn(["demo", "--speed", speed, *args], folder, 80, 24, **given)


def at_the_question(screen: Drawn) -> None:
    screen.until(lambda: screen.screen.title.startswith("? "), "the question")
    # The guard against accidental keys.
    screen.rest()


def ended(screen: Drawn, folder: Path) -> str:
    """What is left on the screen; nothing is left of the demo anywhere else."""
    text = screen.end()
    assert b"\x1b[?2004l" in screen.raw
    assert "agent_cli/" not in text
    assert "/todos" not in text
    left = [*folder.iterdir(), *(folder.parent / "tmp").iterdir(), *(folder.parent / "home").iterdir()]
    assert left == []
    return " ".join(text.split())


def test_it_plays_in_the_interface_and_the_user_allows_the_edit(folder: Path) -> None:
    with demo(folder) as screen:
        at_the_question(screen)
        window = screen.visible()
        assert "full * discount // 100" in window
        assert "Make this change to" in window
        assert "FAILED (failures=1)" in screen.text()
        screen.type("y")
        text = ended(screen, folder)
        assert screen.modes() == screen.modes_before
    assert screen.child.returncode == 0
    assert "Checked once more, without the agent: 4 tests ran and all pass." in text
    assert "To use it on your own code: `agent` is not on your PATH yet: pipx install ." in text
    assert "uv tool install ." in text
    assert "ANTHROPIC_API_KEY" in text


def test_how_to_install_it_is_left_out_where_it_is_on_the_path(folder: Path) -> None:
    found = folder.parent / "bin"
    found.mkdir()
    (found / "agent").write_text("#!/bin/sh\n")
    (found / "agent").chmod(0o755)
    with demo(folder, "--yes", PATH=f"{found}:/usr/bin:/bin") as screen:
        text = ended(screen, folder)
    assert "all pass. To use it on your own code: A model" in text


@pytest.mark.parametrize("keys", ["n", "\x1b"])
def test_a_refusal_ends_it_in_words(folder: Path, keys: str) -> None:
    with demo(folder) as screen:
        at_the_question(screen)
        screen.type(keys)
        text = ended(screen, folder)
    assert screen.child.returncode == 0
    assert "the tests still fail. Try again: agent demo" in text
    assert keys != "n" or "Nothing was changed, so I stop here." in text


def test_an_edit_that_does_not_repair_it_ends_in_words_of_its_own(folder: Path) -> None:
    with demo(folder, EDITOR="sed -i s/100/50/") as screen:
        at_the_question(screen)
        screen.type("e")
        # What was edited is asked about again.
        screen.wait("discount // 50")
        screen.rest(GRAVE_REST)
        screen.type("y")
        text = ended(screen, folder)
    assert screen.child.returncode == 1
    assert "I only know one way through this demo" in text
    assert "expects" not in text
    assert "The demo did not go as planned; the tests still fail." in text


@pytest.mark.parametrize(("key", "status"), [("\x1b", 0), ("\x04", 0), ("\x03", 130)])
def test_a_key_ends_it_at_any_time(folder: Path, key: str, status: int) -> None:
    with demo(folder, speed=SLOW) as screen:
        screen.wait("Space: next")
        screen.type(key)
        text = ended(screen, folder)
    assert screen.child.returncode == status
    assert ("you ended it" in text) == (status == 0)


@pytest.mark.parametrize("key", [" ", "\r"])
def test_a_key_shows_the_next_part_and_others_do_nothing(folder: Path, key: str) -> None:
    with demo(folder, speed=SLOW) as screen:
        screen.wait("Space: next")
        screen.type("x")
        pressed = time.monotonic()
        screen.type(key)

        def there() -> bool:
            nonlocal pressed
            # What comes after a key needs a moment; at the question keys are the user's.
            if time.monotonic() - pressed > 2.0:
                pressed = time.monotonic()
                screen.type(key)
            return "failures=1" in screen.text()

        screen.until(there, "the test that fails")
        assert "x" not in screen.input_line()
        for words in ("> One test of this project fails.", "I will look", "This is my plan"):
            assert words in screen.text()
        screen.type("\x1b")
        assert "queued" not in ended(screen, folder)
