"""Faults of files and disks through the whole engine: every call gets exactly one result, and the turn goes on."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from agent_cli.kernel.events import ToolFinished
from agent_cli.kernel.messages import AssistantMessage
from agent_cli.kernel.results import Complete
from tests.support.file_faults import fill, make_read_only, mount_small, own_mounts, unprivileged, within
from tests.support.scripts import call
from tests.support.turns import World

READ = call("Read", file_path="a.txt")
EDIT = call("Edit", file_path="a.txt", old_string="hello", new_string="bye")
WELL = call("Bash", command="true")


def story(root: Path, *rounds: list[dict[str, Any]]) -> World:
    """A turn with these rounds of calls, held to its end; each call must have its one result, in order."""
    world = World(root, [*({"calls": calls} for calls in rounds), {"text": "Done."}], mode="bypassPermissions")
    with within(30):
        result = world.turn()
    assert isinstance(result, Complete) and result.text == "Done."
    called = [c.id for m in world.history if isinstance(m, AssistantMessage) for c in m.calls]
    assert [r.call_id for r in world.results] == called and len(set(called)) == len(called)
    assert len(world.of(ToolFinished)) == len(called)
    assert not [r.text for r in world.results if "Traceback" in r.text or "Errno" in r.text or "Error:" in r.text]
    return world


def test_a_disk_that_is_full_and_then_not(tmp_path: Path) -> None:
    with own_mounts():
        disk = tmp_path / "disk"
        mount_small(disk, "64k")
        (disk / "a.txt").write_text("hello\n")
        rest = fill(disk)
        write = call("Write", file_path="new/b.txt", content="x\n")
        world = story(disk, [READ], [EDIT, write], [call("Bash", command=f"rm {rest.name}")], [EDIT, write])
        assert [r.is_error for r in world.results] == [False, True, True, False, False, False]
        assert all("the disk is full" in r.text for r in world.results[1:3])
        assert (disk / "a.txt").read_text() == "bye\n"
        assert sorted(p.name for p in disk.iterdir()) == ["a.txt", "new"]


def test_a_read_only_file_system(tmp_path: Path) -> None:
    with own_mounts():
        disk = tmp_path / "disk"
        mount_small(disk, "64k")
        (disk / "a.txt").write_text("hello\n")
        make_read_only(disk)
        world = story(disk, [READ, call("Grep", pattern="hello")], [EDIT], [call("Bash", command="echo x > a.txt")])
        assert [r.is_error for r in world.results] == [False, False, True, True]
        assert "the file system is read-only" in world.results[2].text
        assert (disk / "a.txt").read_text() == "hello\n"


def test_what_would_hang_a_reader(root: Path) -> None:
    os.mkfifo(root / "pipe")
    os.truncate(root / "a.txt", 1 << 30)
    (root / "circle").symlink_to("circle")
    names = ("pipe", "a.txt", "circle")
    world = story(
        root,
        [call("Read", file_path=n) for n in names],
        # Many failures one after another would end the turn.
        [WELL, *(call("Grep", pattern="x", path=n) for n in ("pipe", "circle"))],
        [WELL, *(call("Write", file_path=n, content="x") for n in names)],
        [WELL, call("Bash", command="cat pipe", timeout=200), call("LS", path="."), call("Glob", pattern="*")],
    )
    failed = [r.text for r in world.results if r.is_error]
    assert len(failed) == 8
    assert "still running after 0.2 s, now in the background as b1" in world.results[-3].text
    world.deps.context.close()


def test_odd_names_and_odd_characters(root: Path) -> None:
    bad = os.fsdecode(b"bad\xff\n.txt")
    (root / bad).write_text("hello\n")
    world = story(
        root,
        [call("Read", file_path=bad), call("Grep", pattern="hello"), call("Glob", pattern="bad*")],
        [call("Edit", file_path=bad, old_string="hello", new_string="bye")],
        [call("Grep", pattern="\ud800"), call("Bash", command="echo \ud800"), call("Read", file_path="\ud800")],
        [WELL, call("WebFetch", url="http://\ud800.example/\ud800"), call("Task", prompt="\ud800")],
        [WELL, call("Read", file_path="n" * 300), call("Glob", pattern="*", path="n/" * 3_000)],
    )
    assert [r.is_error for r in world.results] == [False] * 4 + [True] * 3 + [False, True, True] * 2
    assert (root / bad).read_text() == "bye\n"


def test_the_workspace_itself_is_gone(root: Path) -> None:
    code = "import os, shutil; shutil.rmtree('.', True); os.rmdir(f'../{os.path.basename(os.getcwd())}')"
    remove = call("Bash", command=f'{sys.executable} -c "{code}"')
    rounds = [READ], [remove], [READ, call("Glob", pattern="*"), call("LS", path=".")], [call("Bash", command="pwd")]
    world = story(root, *rounds)
    assert [r.is_error for r in world.results] == [False, False, True, True, True, True], world.results
    assert "no longer exists" in world.results[-1].text


def test_a_closed_folder(tmp_path: Path) -> None:
    with own_mounts():
        # Beside the folders of pytest, which nobody else may enter.
        root = Path("/mnt")
        mount_small(root, "64k")
        root.chmod(0o755)
        (root / "closed").mkdir(mode=0)
        (root / "a.txt").write_text("hello\n")
        closed = {"path": "closed"}
        looks = [call("LS", **closed), call("Glob", pattern="*", **closed), call("Grep", pattern="x", **closed)]
        with unprivileged():
            world = story(root, [READ], looks, [WELL, EDIT, call("Write", file_path="closed/x", content="x")])
        assert [r.is_error for r in world.results] == [False, *[True] * 3, False, *[True] * 2]
        assert all("permission denied" in r.text for r in world.results if r.is_error)
