"""Files as young as an index are looked at one by one, since git may not see what changes within a second: for as long
as they are young, and no longer."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

from agent_cli.undo.scanner import SizeLimits
from agent_cli.undo.store import Store, StoreConfig


def test_only_while_they_are_young(tmp_path: Path) -> None:
    work = tmp_path / "work"
    subprocess.run(["git", "init", "-q", str(work)], check=True)
    for name in ("a", "b"):
        (work / name).write_text(f"{name}\n")
    store = Store(StoreConfig(tmp_path / "kept", (work,), os.environ["PATH"], str(tmp_path), "s", SizeLimits()))
    [before] = store.shots()
    assert young(tmp_path) == ["a", "b"]
    (work / "a").chmod(0o600)
    [changed] = store.shots()
    assert changed.perms != before.perms
    while int(time.time()) - 1 <= (work / "a").stat().st_ctime:
        time.sleep(0.02)
    assert store.shots() == (changed,)
    assert young(tmp_path) == []
    (work / "b").chmod(0o600)
    assert store.shots()[0].perms != changed.perms


def young(folder: Path) -> list[str]:
    found: list[Any] = [json.loads(path.read_bytes()) for path in (folder / "kept").rglob("*.json")]
    [state] = [state for state in found if "young" in state]
    return sorted(state["young"])
