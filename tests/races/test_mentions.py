"""A mentioned file while its folder, or itself, is swapped for a link: nothing outside is shown."""

from __future__ import annotations

import pytest

from agent_cli.knowledge import template
from agent_cli.knowledge.template import with_files
from tests.support.link_swaps import SECRET, SwapWorkspace


@pytest.mark.parametrize("victim", ["d", "d/a.txt"])
def test_a_mentioned_file(way: str, ground: SwapWorkspace, victim: str) -> None:
    shown = with_files("@d/a.txt", ground.ctx)
    assert "needle" in shown
    with ground.swapper(victim) as swapper:
        while swapper.running:
            assert SECRET not in with_files("@d/a.txt", ground.ctx)


@pytest.mark.parametrize("victim", ["d", "d/a.txt"])
def test_it_is_elsewhere_when_it_is_read(
    way: str, ground: SwapWorkspace, victim: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = template._content

    def late(*given: object) -> tuple[str, str]:
        ground.swap(victim)
        return really(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(template, "_content", late)
    shown = with_files("@d/a.txt", ground.ctx)
    assert SECRET not in shown and "changed after it was checked" in shown
