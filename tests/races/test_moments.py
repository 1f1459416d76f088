"""A swap at the worst moment: between the decision and the call, while a file is written, while ripgrep runs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from agent_tools.fs import files
from agent_tools.search import ripgrep
from agent_tools.search.ripgrep import UnchangedFiles, find_rg
from tests.support.link_swaps import NEW, OUTSIDE, READS, SECRET, WRITES, SwapWorkspace
from tests.support.program import agent
from tests.support.scripts import call, script

CHANGED = "changed after it was checked"


@pytest.mark.parametrize("tool", WRITES)
@pytest.mark.parametrize("victim", ["d", "file"])
def test_a_file_to_be_changed_is_one_elsewhere_by_then(way: str, ground: SwapWorkspace, tool: str, victim: str) -> None:
    victim = "d" if victim == "d" else "d/n.ipynb" if tool == "NotebookEdit" else "d/a.txt"
    found = ground.call(tool, lambda: ground.swap(victim), **WRITES[tool](0))
    assert CHANGED in found and ("\n" not in found or tool == "MultiEdit")
    assert ground.done == 0
    ground.assert_untouched()


@pytest.mark.parametrize("tool", NEW)
def test_a_file_to_be_created_would_be_elsewhere_by_then(way: str, ground: SwapWorkspace, tool: str) -> None:
    found = ground.call(tool, lambda: ground.swap("d"), **NEW[tool](0))
    assert CHANGED in found
    ground.assert_untouched()


@pytest.mark.parametrize("tool", ["Read", "NotebookRead"])
@pytest.mark.parametrize("victim", ["d", "file"])
def test_a_file_to_be_read_is_one_elsewhere_by_then(way: str, ground: SwapWorkspace, tool: str, victim: str) -> None:
    victim = "d" if victim == "d" else "d/n.ipynb" if tool == "NotebookRead" else "d/a.txt"
    found = ground.call(tool, lambda: ground.swap(victim), **READS[tool])
    assert CHANGED in found and SECRET not in found


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("LS", {"path": "d"}),
        ("Glob", {"pattern": "d/**"}),
        ("Glob", {"pattern": "*.txt", "path": "d"}),
        ("Grep", {"pattern": "needle", "path": "d"}),
        ("Grep", {"pattern": "needle", "path": "d/a.txt"}),
    ],
)
def test_a_folder_to_be_looked_through_is_elsewhere_by_then(
    way: str, searcher: str, ground: SwapWorkspace, tool: str, arguments: dict[str, Any]
) -> None:
    found = ground.call(tool, lambda: ground.swap("d"), **arguments)
    assert CHANGED in found and SECRET not in found


def test_where_a_path_is_missing_no_names_of_elsewhere_are_reported(way: str, ground: SwapWorkspace) -> None:
    found = ground.call("Read", lambda: ground.swap("d"), file_path=f"d/{SECRET}.tx")
    assert SECRET not in found.replace(f"d/{SECRET}.tx", "")


def test_the_folder_becomes_another_while_the_file_is_written(
    way: str, ground: SwapWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = files._write_temporary

    def late(*given: Any) -> None:
        really(*given)
        ground.swap("d")

    monkeypatch.setattr(files, "_write_temporary", late)
    found = ground.call("Write", file_path="d/a.txt", content="needle changed\n")
    assert f"{CHANGED}: its folder was replaced by another one. Nothing was written." in found
    assert (ground.root / "d.aside/a.txt").read_text() == "needle\n"
    assert sorted(p.name for p in (ground.root / "d.aside").iterdir()) == ["a.txt", "n.ipynb", "sub"]
    ground.assert_untouched()


def swapped_under_ripgrep(ground: SwapWorkspace, monkeypatch: pytest.MonkeyPatch, *, back: bool) -> None:
    """ripgrep finds the link; back: when it has ended, everything is as it was."""
    rg = find_rg(ground.ctx)
    d, link = ground.root / "d", ground.root.parent / "link"
    link.symlink_to(ground.outside)
    away, home = f"mv {d} {d}.aside && mv {link} {d}", f"mv {d} {link} && mv {d}.aside {d}"
    shim = ground.root.parent / "rg"
    # Only the first time: what is searched once more is not disturbed.
    first = f'[ -e {shim}.ran ] && exec {rg} "$@"; : > {shim}.ran'
    shim.write_text(f'#!/bin/sh\n{first}\n{away}\n{rg} --follow "$@"\ncode=$?\n{home if back else ":"}\nexit $code\n')
    shim.chmod(0o755)
    monkeypatch.setattr("agent_tools.search.ripgrep.find_rg", lambda ctx: str(shim))


@pytest.mark.parametrize("back", [True, False])
@pytest.mark.parametrize(
    ("mode", "lines"),
    [
        ("content", ["d/a.txt:1:needle", "d/sub/b.txt:1:needle"]),
        ("count", ["d/a.txt:1", "d/sub/b.txt:1"]),
        ("files_with_matches", ["d/a.txt", "d/sub/b.txt"]),
    ],
)
def test_what_ripgrep_finds_elsewhere_is_not_shown(
    way: str, ground: SwapWorkspace, monkeypatch: pytest.MonkeyPatch, mode: str, lines: list[str], back: bool
) -> None:
    swapped_under_ripgrep(ground, monkeypatch, back=back)
    found = ground.call("Grep", pattern=f"needle|{OUTSIDE}", glob="*.txt", output_mode=mode)
    shown = [line for line in found.splitlines() if line.startswith("d/")]
    assert sorted(shown) == (lines if back else [])
    assert SECRET not in found
    assert "[3 files skipped: changed during the search]" in found


def test_a_match_that_is_only_elsewhere_is_not_reported(ground: SwapWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
    swapped_under_ripgrep(ground, monkeypatch, back=True)
    assert "d/" not in ground.call("Grep", pattern=OUTSIDE)


@pytest.mark.parametrize("back", [True, False])
def test_names_that_ripgrep_lists_elsewhere_are_not_shown(
    way: str, ground: SwapWorkspace, monkeypatch: pytest.MonkeyPatch, back: bool
) -> None:
    swapped_under_ripgrep(ground, monkeypatch, back=back)
    found = ground.call("Glob", pattern="d/**/*.txt" if back else "**/*.txt")
    assert SECRET not in found
    assert sorted(line for line in found.splitlines() if line.startswith("d/")) == (
        ["d/a.txt", "d/sub/b.txt"] if back else []
    )


def test_a_tree_at_rest_is_searched_once(ground: SwapWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = []
    really = ripgrep.run_rg
    monkeypatch.setattr(ripgrep, "run_rg", lambda *given, **more: ran.append(given) or really(*given, **more))  # type: ignore[func-returns-value]
    assert "d/a.txt" in ground.call("Grep", pattern="needle")
    assert len(ran) == 2, "made a moment ago, it is looked at twice"
    monkeypatch.setattr("agent_tools.search.ripgrep._CLOCK_TOLERANCE_NS", -(10**15))
    assert "d/a.txt" in ground.call("Grep", pattern="needle")
    assert len(ran) == 3


def test_what_is_at_rest(ground: SwapWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
    (ground.root / "link").symlink_to(ground.outside)
    top = os.open(ground.root, os.O_RDONLY)
    names = ["d/a.txt", "d/sub/b.txt", "link/a.txt", "d/none", "d/none/a", "d", "none/../d/a.txt"]
    assert UnchangedFiles(top).files(names) == set()
    monkeypatch.setattr("agent_tools.search.ripgrep._CLOCK_TOLERANCE_NS", -(10**15))
    assert UnchangedFiles(top).files(names) == {"d/a.txt", "d/sub/b.txt"}
    os.close(top)


def test_a_hook_runs_between_the_decision_and_the_call(tmp_path: Path) -> None:
    """In the real program: what a hook, or anything else, swaps while it runs is not written through."""
    work, outside = tmp_path / "work", tmp_path / "outside"
    for folder in (work / "d", outside, work / ".git"):
        folder.mkdir(parents=True)
    settings = tmp_path / "home/.claude/settings.json"
    settings.parent.mkdir(parents=True)
    hook = {"type": "command", "command": f"mv {work}/d {work}/e && ln -s {outside} {work}/d"}
    settings.write_text(json.dumps({"hooks": {"PreToolUse": [{"matcher": "Write", "hooks": [hook]}]}}))
    model = script(
        tmp_path / "script", [{"calls": [call("Write", file_path="d/a.txt", content="x")]}, {"text": "as you see"}]
    )
    done = agent(["-p", "--model", model, "--permission-mode", "acceptEdits", "--output-format", "stream-json",
                  "--verbose", "go"], work)  # fmt: skip
    assert CHANGED in done.stdout, done.stdout + done.stderr
    assert list(outside.iterdir()) == [] and list((work / "e").iterdir()) == []
