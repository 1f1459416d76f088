"""Snapshots: the first one and one of an unchanged tree of 10,000 files, beside what git itself takes there."""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from agent_cli.undo.scanner import SizeLimits
from agent_cli.undo.store import Store, StoreConfig
from benchmarks.measure import BenchmarkError
from benchmarks.searching import in_turn
from benchmarks.stage import Stage
from benchmarks.table import Row

FILES, PER_FOLDER = 10_000, 100
DAY_AGO = 86_400
TIMES = 2
# Files as young as this are looked at one by one: the index counts in whole seconds.
AGE = 2.1


def snapshots(stage: Stage, runs: int) -> Iterator[Row]:
    """Both kinds of snapshot in a repository; the floors are `git status` and `git stash create`."""
    tree = stage.home / "kept"
    _grow(tree)
    _git(tree, "status")
    time.sleep(AGE)
    folder = stage.home / "snapshots"
    count = 0

    def first() -> None:
        nonlocal count
        count += 1
        _store(folder / str(count), tree).shots()

    def stash() -> None:
        _git(tree, "stash", "create")

    store = _store(folder / "lasting", tree)
    store.shots()
    edited = tree / "folder3/file7.py"
    status = lambda: _git(tree, "status", "--porcelain")  # noqa: E731
    ours, floor = in_turn(first, status, max(3, runs))
    yield _row(f"first snapshot, {FILES:,} files, beside git status", ours, floor)
    ours, floor = in_turn(store.shots, status, max(5, runs))
    yield _row("… of the unchanged tree", ours, floor, f"< {TIMES}x git status", ours < TIMES * floor)

    def change() -> None:
        edited.write_text(f"{random.random()}\n")
        store.shots()

    ours, floor = in_turn(change, stash, max(5, runs))
    yield _row("… with one file changed, beside git stash create", ours, floor)


def _row(what: str, ours: float, floor: float, goal: str = "", met: bool | None = None) -> Row:
    return Row("snapshots", what, ours * 1000, "ms", goal, met, floor * 1000)


def _store(folder: Path, tree: Path) -> Store:
    return Store(StoreConfig(folder / "p", (tree,), os.environ["PATH"], str(tree.parent), "bench", SizeLimits()))


def _git(tree: Path, *words: str) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(tree.parent), "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words],
        cwd=tree,
        env=env,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        raise BenchmarkError(f"git {words[0]}: {done.stderr.decode('utf-8', 'replace')[-300:]}")


def _grow(tree: Path) -> None:
    chance = random.Random(3)
    for number in range(0, FILES, PER_FOLDER):
        folder = tree / f"folder{number // PER_FOLDER}"
        folder.mkdir(parents=True)
        for n in range(PER_FOLDER):
            file = folder / f"file{n}.py"
            file.write_text(f"# {number} {n}\n" + "value = 1\n" * chance.randrange(10, 300))
            # Files as young as the index are read again each time, by git as well.
            os.utime(file, (file.stat().st_atime - DAY_AGO, file.stat().st_mtime - DAY_AGO))
    _git(tree, "init", "-q")
    _git(tree, "add", "-A")
    _git(tree, "commit", "-qm", "all")
