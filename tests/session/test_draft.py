"""What was typed and not sent survives: whole or not at all, for its owner alone, and for one session only."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from agent_cli.kernel.session.store import SessionStore
from agent_cli.shells.terminal.app.drafts import Draft, DraftFile, claim_orphan
from tests.support.file_faults import fill, mount_small, own_mounts
from tests.support.fork_server import ROOT

TYPE = """
import os, sys
from pathlib import Path
from agent_cli.shells.terminal.app.drafts import DraftFile
drafts = DraftFile(Path(sys.argv[1]), sys.argv[2])
for n in range(10_000):
    drafts.save("word " * (n % 50 + 1), ["queued"])
    if n == 20:
        print("typing", flush=True)
"""


def test_what_is_kept_comes_back_and_goes(tmp_path: Path) -> None:
    folder = tmp_path / "state/sessions/project"
    drafts = DraftFile(folder, "s-1")
    assert not drafts.load()
    assert drafts.save("half a sen", ["and then\nthe tests"])
    found = DraftFile(folder, "s-1").load()
    assert (found.text, found.queue, found.pid) == ("half a sen", ("and then\nthe tests",), os.getpid())
    assert drafts.path.stat().st_mode & 0o777 == 0o600 and folder.stat().st_mode & 0o777 == 0o700
    assert not DraftFile(folder, "s-2").load()
    assert drafts.save("", [])
    assert not drafts.load() and not list(folder.iterdir())
    assert drafts.clear()


@given(st.text(), st.lists(st.text(), max_size=3))
def test_any_text(tmp_path_factory: object, text: str, queue: list[str]) -> None:
    folder = tmp_path_factory.mktemp("d")  # type: ignore[attr-defined]
    assert DraftFile(folder, "s").save(text, queue)
    found = DraftFile(folder, "s").load()
    assert (found.text, found.queue) == ((text, tuple(queue)) if text or queue else ("", ()))


def test_the_same_is_not_written_again(tmp_path: Path) -> None:
    drafts = DraftFile(tmp_path, "s")
    drafts.save("x")
    drafts.path.unlink()
    assert drafts.save("x") and not drafts.path.exists()
    assert drafts.save("y") and drafts.path.exists()


def test_a_full_disk_keeps_the_draft_before(tmp_path: Path) -> None:
    with own_mounts():
        mount_small(tmp_path / "disk", "64k")
        drafts = DraftFile(tmp_path / "disk", "s")
        assert drafts.save("kept")
        rest = fill(tmp_path / "disk")
        assert not drafts.save("x" * 9_999)
        assert drafts.load().text == "kept" and len(list((tmp_path / "disk").iterdir())) == 2
        rest.unlink()
        assert drafts.save("x" * 9_999) and drafts.load().text == "x" * 9_999


def test_garbage_is_no_draft(tmp_path: Path) -> None:
    for garbage in (b"", b"\0" * 9, b"[]", b'{"type":"Draft","text":1}'):
        (tmp_path / "s.draft").write_bytes(garbage)
        assert DraftFile(tmp_path, "s").load() == Draft() and claim_orphan(tmp_path) == Draft()
    assert claim_orphan(tmp_path / "none") == Draft()


def test_a_new_session_takes_up_what_a_killed_one_left_and_only_once(tmp_path: Path) -> None:
    mine = DraftFile(tmp_path, "mine")
    mine.save("of a session that runs")
    typing = subprocess.Popen(
        [sys.executable, "-c", TYPE, str(tmp_path), "other"],
        env={"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tools'}"},
        stdout=subprocess.PIPE,
    )
    assert typing.stdout is not None and typing.stdout.readline() == b"typing\n"
    typing.kill()
    typing.communicate()
    found = claim_orphan(tmp_path)
    assert found.session_id == "other" and found.queue == ("queued",) and set(found.text.split()) == {"word"}
    assert claim_orphan(tmp_path) == Draft() and mine.load()


def test_the_files_of_a_session(tmp_path: Path) -> None:
    store = SessionStore(tmp_path, Path("/project"))
    DraftFile(store.folder, "s-1").save("x")
    assert store.session("s-1").files() == [store.path("s-1"), store.folder / "s-1.draft"]
    # What a kill in the middle of mending leaves has all that was said.
    (store.folder / "s-1.mending").write_bytes(b"half")
    assert store.folder / "s-1.mending" in store.session("s-1").files()
