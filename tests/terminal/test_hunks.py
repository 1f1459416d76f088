"""A change taken in parts: what is kept is made exactly, whichever tool proposed it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from agent_cli.kernel.decisions import Approve, Defer, EditedCall, Reject
from agent_cli.kernel.runtime.edit_call import Hunk, hunks_of, take_hunks
from agent_cli.shells.terminal.dialogs.approval import (
    RemainingHunks,
    ReviewHunks,
    SkippedHunk,
    ask_approval,
    hunk_dialog,
)
from agent_cli.shells.terminal.dialogs.model import Dialog
from agent_tools.base import ToolContext
from agent_tools.fs.encoding import split_lines
from agent_tools.fs.workspace import Workspace
from agent_tools.registry import BUILTIN
from agent_tools.results import Diff, Diffs
from tests.support.hypothesis_examples import examples
from tests.support.terminal_stage import REQUEST, decision

TOOLS: dict[str, Any] = {tool.name: tool for tool in BUILTIN}
LINES = st.lists(st.sampled_from(["a", "b", "", "  c", "d", "é"]), min_size=40, max_size=90)


def proposed(folder: Path, tool: str, arguments: dict[str, Any]) -> tuple[list[Hunk], ToolContext]:
    ctx = ToolContext(Workspace(folder), require_read_first=False)
    args = TOOLS[tool].read(arguments)
    return hunks_of(tool, TOOLS[tool].preview(args, ctx), ctx.workspace), ctx


def make(tool: str, arguments: dict[str, Any], ctx: ToolContext) -> None:
    outcome = TOOLS[tool].run(TOOLS[tool].read(arguments), ctx)
    if not hasattr(outcome, "text"):
        for _ in outcome:
            pass


def by_hand(lines: list[str], kept: list[Hunk]) -> str:
    for hunk in sorted(kept, key=lambda h: -h.first):
        lines[hunk.first : hunk.first + len(hunk.old)] = hunk.new
    return "".join(lines)


@settings(max_examples=examples(150), deadline=None)
@given(
    LINES, st.data(), st.sampled_from(["\n", "\r\n"]), st.booleans(), st.sampled_from(["Write", "Edit", "MultiEdit"])
)
def test_what_is_kept_of_a_change_is_exactly_that(
    lines: list[str], data: Any, newline: str, ended: bool, tool: str
) -> None:
    changed = list(lines)
    for place in data.draw(st.sets(st.integers(0, len(lines) - 1), min_size=2, max_size=6)):
        changed[place] = data.draw(st.sampled_from(["new", "newer\nstill", "x"]))
    assume(changed != lines)
    before, after = ((newline.join(side) + newline * ended) for side in (lines, changed))
    after = after.replace("newer\n", f"newer{newline}")
    with tempfile.TemporaryDirectory() as name:
        file = Path(name).resolve() / "f.txt"
        file.write_bytes(before.encode())
        edit = {"file_path": str(file), "old_string": before, "new_string": after}
        arguments: dict[str, Any] = {
            "Write": {"file_path": str(file), "content": after}, "Edit": edit, "MultiEdit": {"edits": [edit]},
        }[tool]  # fmt: skip
        hunks, ctx = proposed(file.parent, tool, arguments)
        event(f"{min(len(hunks), 3)} hunks")
        if not hunks:
            return
        kept = [hunk for hunk in hunks if data.draw(st.booleans())]
        if kept:
            changed_arguments, note = take_hunks(kept, hunks, arguments, ctx.workspace)
            expected = by_hand(split_lines(before), kept)
            make(tool, changed_arguments, ctx)
            assert file.read_bytes().decode() == expected
            assert all(hunk.patch in note for hunk in hunks if hunk not in kept)


def test_an_edit_of_every_place_may_be_made_in_some_of_them(tmp_path: Path) -> None:
    file = tmp_path / "f.py"
    file.write_text("".join(f"line {n} {'x' if n in (3, 20, 40) else 'y'}\n" for n in range(50)))
    arguments = {"file_path": "f.py", "old_string": " x\n", "new_string": " z\n", "replace_all": True}
    hunks, ctx = proposed(tmp_path, "Edit", arguments)
    assert len(hunks) == 3
    taken, note = take_hunks([hunks[0], hunks[2]], hunks, arguments, ctx.workspace)
    make("Edit", taken, ctx)
    text = file.read_text()
    assert "line 3 z" in text and "line 20 x" in text and "line 40 z" in text
    assert "took 2 of the 3 parts" in note and "-line 20 x" in note


def test_parts_of_several_files(tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("one\ntwo\n")
    edits = [{"file_path": n, "old_string": "one", "new_string": "1"} for n in ("a.txt", "b.txt")]
    hunks, ctx = proposed(tmp_path, "MultiEdit", {"edits": edits})
    make("MultiEdit", take_hunks(hunks[1:], hunks, {"edits": edits}, ctx.workspace)[0], ctx)
    assert (tmp_path / "a.txt").read_text() == "one\ntwo\n" and (tmp_path / "b.txt").read_text() == "1\ntwo\n"


def test_one_part_a_new_file_and_a_stale_diff_are_offered_whole(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    workspace = Workspace(tmp_path)
    assert not proposed(tmp_path, "Write", {"file_path": "a.txt", "content": "1\ntwo\n"})[0]
    assert not proposed(tmp_path, "Write", {"file_path": "new.txt", "content": "1\n"})[0]
    stale = Diff("a.txt", "@@ -1,1 +1,1 @@\n-other\n+1\n@@ -9,1 +9,1 @@\n-nine\n+9", 2, 2)
    assert not hunks_of("Edit", Diffs((stale,)), workspace)


@pytest.mark.parametrize(("line", "new"), [("y", "new y"), ("y", "y\r\nand more"), ("z", "and\r\nz")])
def test_a_part_at_a_last_line_without_an_end_keeps_the_line_ends(tmp_path: Path, line: str, new: str) -> None:
    before = "\r\n".join(["x", *"abcdefghijklm", "y", "z"])
    (tmp_path / "a.txt").write_bytes(before.encode())
    arguments = {"file_path": "a.txt", "content": before.replace("x", "new x", 1).replace(line, new)}
    hunks, ctx = proposed(tmp_path, "Write", arguments)
    assert len(hunks) == 2
    assert take_hunks(hunks[1:], hunks, arguments, ctx.workspace)[0]["content"] == before.replace(line, new)


def test_a_hunk_is_skipped_with_words(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"{number}\n" for number in range(30)))
    edits = [{"file_path": "a.txt", "old_string": f"\n{n}\n", "new_string": f"\nx{n}\n"} for n in (5, 15, 25)]
    arguments = {"edits": edits}
    tool = TOOLS["MultiEdit"]
    preview = tool.preview(tool.read(arguments), ToolContext(Workspace(tmp_path), require_read_first=False))
    request = REQUEST.replace(tool="MultiEdit", preview=preview, arguments=arguments, cwd=str(tmp_path))

    def asked(*answers: Any) -> Any:
        left = iter((ReviewHunks(), *answers))
        return ask_approval(request, lambda dialog: next(left), Workspace(tmp_path))

    answer = asked(True, SkippedHunk("not yet"), True)
    assert isinstance(answer, EditedCall) and answer.settled
    assert answer.comment == "On a.txt:13: not yet"
    assert "took 2 of the 3 parts" in answer.note and "-15" in answer.note
    assert asked(True, RemainingHunks(True)) == Approve()
    assert asked(False, SkippedHunk("not yet"), False) == Reject("On a.txt:13: not yet")
    assert asked(True, Defer()) == Defer()


def test_hunks_of_a_file_that_changes_meanwhile_are_asked_about_again(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("".join(f"{number}\n" for number in range(30)))
    arguments = {"edits": [{"file_path": "a.txt", "old_string": f"\n{n}\n", "new_string": "\nx\n"} for n in (5, 25)]}
    tool = TOOLS["MultiEdit"]
    preview = tool.preview(tool.read(arguments), ToolContext(Workspace(tmp_path), require_read_first=False))
    request = REQUEST.replace(tool="MultiEdit", preview=preview, arguments=arguments, cwd=str(tmp_path))
    shown: list[Dialog] = []

    def put(dialog: Dialog) -> Any:
        shown.append(dialog)
        if len(shown) == 3:
            file.write_text("else\n")
        return [ReviewHunks(), True, False, decision("reject")][len(shown) - 1]

    assert ask_approval(request, put, Workspace(tmp_path)) == Reject()
    assert shown[3].warnings[0] == "hunks: this call has none, or its file has changed since it was shown."
    assert shown[0].by_key("h") is not None and shown[3].by_key("h") is None


def test_the_last_hunk_has_no_rest_to_be_asked_about() -> None:
    hunk = Hunk("a.txt", 0, ("a\n",), ("b\n",), "@@ -1 +1 @@\n-a\n+b")
    assert [choice.key for choice in hunk_dialog(hunk.diff, 2, 2).choices] == ["y", "n"]
    assert hunk_dialog(hunk.diff, 1, 2).choices[2].label == "Apply all 2 hunks that are left"
    typed = hunk_dialog(hunk.diff, 1, 2).choices[1].comment
    assert typed is not None and typed.read(" not yet ") == SkippedHunk("not yet") and typed.read(" ") is None
