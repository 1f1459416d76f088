"""Undo while a folder, or a file, is swapped for a link: nothing outside is kept in a snapshot, or put back to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent_cli.kernel.messages import UserMessage
from agent_cli.undo import undo
from agent_cli.undo.git_store import oid_of
from agent_cli.undo.recorder import Recorder
from agent_cli.undo.scanner import SizeLimits
from agent_cli.undo.store import Store, StoreConfig
from agent_cli.undo.undo import UndoManager, restore_files
from agent_cli.undo.undo_plan import FileState, Item
from agent_tools.base import Effect
from tests.support.link_swaps import SECRET, SwapWorkspace

NAMES = ("a.txt", "sub/b.txt", "n.ipynb")


@pytest.fixture
def where(ground: SwapWorkspace, tmp_path: Path) -> StoreConfig:
    home, state = str(tmp_path / "home"), tmp_path / "state/snapshots/p"
    return StoreConfig(state, (ground.root,), os.environ["PATH"], home, "s", SizeLimits())


def outside_in(store: Store, ground: SwapWorkspace) -> list[Path]:
    """The files of outside whose content the store has."""
    contents = {p: oid_of(p.read_bytes()) for p in ground.outside.rglob("*") if p.is_file() and SECRET in p.read_text()}
    kept = store.git.have(contents.values())
    return [path for path, oid in contents.items() if oid in kept]


@pytest.mark.parametrize("victim", ["d", "d/a.txt"])
def test_what_is_kept_before_a_write(way: str, ground: SwapWorkspace, where: StoreConfig, victim: str) -> None:
    recorder = Recorder(where, str, lambda: "m")
    recorder.turn([UserMessage("go")], new=True)
    effects = [Effect("write", str(ground.root / "d" / name)) for name in NAMES]
    calls = 0
    with ground.swapper(victim) as swapper:
        while swapper.running:
            calls += 1
            recorder.before(f"c{calls}", "Write", "Write", effects, str(ground.root))
            recorder.after(f"c{calls}")
    recorder.before("last", "Write", "Write", effects, str(ground.root))
    assert not outside_in(recorder.store, ground)
    assert oid_of(b"needle\n") in recorder.store.git.have([oid_of(b"needle\n")])
    print(f"{calls} calls")


@pytest.mark.parametrize("victim", ["d", "d/a.txt"])
def test_what_is_put_back(way: str, ground: SwapWorkspace, where: StoreConfig, victim: str) -> None:
    store = Store(where)
    states = [FileState(store.git.keep(text), 0o644) for text in (b"needle\n", b"changed\n")]
    path = ground.root / "d/a.txt"
    tried = done = 0
    with ground.swapper(victim) as swapper:
        while swapper.running:
            now, want = states if done % 2 == 0 else states[::-1]
            tried += 1
            done += not restore_files(store, [Item(str(path), want, now, "ready")])
    now, want = states if path.read_bytes() == b"needle\n" else states[::-1]
    assert not restore_files(store, [Item(str(path), want, now, "ready")])
    ground.assert_untouched()
    assert not list(ground.root.rglob(".agent-*")), "temporary files stay behind"
    print(f"{tried} tried, {done} done")


def test_a_whole_undo(way: str, ground: SwapWorkspace, where: StoreConfig) -> None:
    """A write and its undo, again and again."""
    recorder, undoing = Recorder(where, str, lambda: "m"), UndoManager(Store(where))
    path = ground.root / "d/a.txt"
    turn = 0
    with ground.swapper("d") as swapper:
        while swapper.running:
            turn += 1
            recorder.turn([UserMessage("go")] * turn, new=True)
            recorder.before(f"c{turn}", "Write", "Write", [Effect("write", str(path))], str(ground.root))
            ground.call("Write", file_path="d/a.txt", content=f"needle {turn}\n")
            recorder.after(f"c{turn}")
            if (number := recorder.number) is not None:
                undoing.undo([number], undoing.plan([number]).of("ready", "ask"))
    ground.assert_untouched()
    assert not outside_in(undoing.store, ground)


def test_the_folder_is_swapped_right_before_a_file_is_put_back(
    way: str, ground: SwapWorkspace, where: StoreConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(where)
    now, want = (FileState(store.git.keep(text), 0o644) for text in (b"needle\n", b"changed\n"))
    path = ground.root / "d/a.txt"
    really = undo._make

    def late(*given: object) -> None:
        really(*given)  # type: ignore[arg-type]
        ground.swap("d")

    monkeypatch.setattr(undo, "_make", late)
    failed = restore_files(store, [Item(str(path), want, now, "ready")])
    assert failed == {str(path): "changed a moment ago"}
    assert (ground.root / "d.aside/a.txt").read_text() == "needle\n"
    ground.assert_untouched()
    # Once more, with the link in place from the beginning.
    assert "is a link now" in restore_files(store, [Item(str(path), want, now, "ready")])[str(path)]
    ground.assert_untouched()


def test_what_a_link_leads_to_is_not_kept(way: str, ground: SwapWorkspace, where: StoreConfig) -> None:
    """A link that a call names is kept as a link; what lies behind one on the way is not kept."""
    ground.swap("d/a.txt")
    ground.swap("d/sub")
    store = Store(where)
    (shot,) = store.shots([str(ground.root / "d/a.txt"), str(ground.root / "d/sub/b.txt")], whole=False)
    assert "120000 blob" in store.git.run("ls-tree", "-r", shot.tree).decode()
    assert str(ground.root / "d/sub/b.txt") in shot.skipped
    assert not outside_in(store, ground)
