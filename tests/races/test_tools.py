"""Every tool for files while its folder, or its file, is swapped for a link: nothing outside is changed or shown."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from tests.support.link_swaps import NEW, OUTSIDE, READS, SECRET, WRITES, SwapWorkspace

BELOW: dict[str, dict[str, Any]] = {
    "LS": {"path": "d"},
    "Glob": {"pattern": "d/**"},
    "Grep": {"pattern": OUTSIDE, "path": "d"},
}


def race(ground: SwapWorkspace, victim: str, call: Callable[[int], str]) -> None:
    """Calls while `victim` is swapped; then one more, which must work, of what is there then."""
    numbers = count()
    shown = 0
    with ground.swapper(victim) as swapper:
        while swapper.running:
            shown += SECRET in call(next(numbers))
    ground.call("Read", file_path=victim)
    quiet = ground.done
    call(next(numbers))
    print(f"{ground.tried} calls, {ground.done} done, {shown} showed what is outside")
    assert ground.done == quiet + 1, "it does not work without a race"
    ground.assert_untouched()
    assert not shown
    assert not list(ground.root.rglob(".agent-*")), "temporary files stay behind"


@pytest.mark.parametrize("victim", ["d", "file"])
@pytest.mark.parametrize("tool", WRITES)
def test_a_file_is_changed(way: str, ground: SwapWorkspace, tool: str, victim: str) -> None:
    victim = "d" if victim == "d" else "d/n.ipynb" if tool == "NotebookEdit" else "d/a.txt"
    race(ground, victim, lambda n: ground.call(tool, **WRITES[tool](n)))


@pytest.mark.parametrize("tool", NEW)
def test_a_file_is_created(way: str, ground: SwapWorkspace, tool: str) -> None:
    race(ground, "d", lambda n: ground.call(tool, **NEW[tool](n)))


@pytest.mark.parametrize("victim", ["d", "file"])
@pytest.mark.parametrize("tool", READS)
def test_a_file_is_shown(way: str, ground: SwapWorkspace, tool: str, victim: str) -> None:
    victim = "d" if victim == "d" else "d/n.ipynb" if tool == "NotebookRead" else "d/a.txt"
    race(ground, victim, lambda n: ground.call(tool, **READS[tool]))


@pytest.mark.parametrize("tool", BELOW)
def test_a_folder_is_looked_through(searcher: str, ground: SwapWorkspace, tool: str) -> None:
    race(ground, "d", lambda n: ground.call(tool, **BELOW[tool]))
