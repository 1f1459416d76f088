"""The apply_patch tool: reading patches, finding places, all or nothing; and in the program, on both of its wires."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_tools.edit.apply_patch import apply_hunks, parse_patch
from tests.support.hypothesis_examples import examples
from tests.support.model_server import Call, ModelServer, Reply
from tests.support.program import agent
from tests.support.tool_bench import Bench

BEGIN, END = "*** Begin Patch\n", "*** End Patch\n"


def patched(root: Path, patch: str) -> str:
    return Bench(root)("apply_patch", patch=patch).text


def refused(root: Path, patch: str) -> str:
    before = {p: p.read_bytes() for p in root.rglob("*") if p.is_file()}
    found = Bench(root).fails("apply_patch", patch=patch)
    assert before == {p: p.read_bytes() for p in root.rglob("*") if p.is_file()}
    return found


def update(old: str, body: str) -> str:
    [part] = parse_patch(f"{BEGIN}*** Update File: a\n{body}{END}")
    return apply_hunks(old, part.hunks)[0]


def test_all_kinds_in_one_patch(root: Path) -> None:
    (root / "a.py").write_text("def one():\n    return 1\n\n\ndef two():\n    return 1\n")
    (root / "old.txt").write_text("gone\n")
    (root / "moved.txt").write_text("x\ny\n")
    result = patched(
        root,
        f"{BEGIN}*** Update File: a.py\n@@ def two():\n-    return 1\n+    return 2\n"
        "*** Add File: sub/new.txt\n+hello\n"
        f"+\n*** Delete File: old.txt\n*** Update File: moved.txt\n*** Move to: sub/there.txt\n x\n-y\n+z\n{END}",
    )
    assert (root / "a.py").read_text() == "def one():\n    return 1\n\n\ndef two():\n    return 2\n"
    assert (root / "sub/new.txt").read_text() == "hello\n\n" and (root / "sub/there.txt").read_text() == "x\nz\n"
    assert not (root / "old.txt").exists() and not (root / "moved.txt").exists()
    for text in ("Changed 5 files.", "Edited a.py (+1 -1). It now reads:", "Created sub/new.txt", "Deleted old.txt."):
        assert text in result


@pytest.mark.parametrize(
    ("old", "body", "new"),
    [
        ("a\nb\nc\n", " a\n-b\n+B\n c\n", "a\nB\nc\n"),
        ("a\nb", "-b\n+B\n", "a\nB"),
        ("a\r\nb\r\n", "-b\n+B\n+C\n", "a\r\nB\r\nC\r\n"),
        ("x\nf:\n  y\ng:\n  y\n", "@@ g:\n-  y\n+  z\n", "x\nf:\n  y\ng:\n  z\n"),
        ("c A:\n f:\n  y\nc B:\n f:\n  y\n", "@@ c B:\n@@  f:\n-  y\n+  z\n", "c A:\n f:\n  y\nc B:\n f:\n  z\n"),
        ("y\nm\ny\nm\n", "-y\n+z\n m\n y\n", "z\nm\ny\nm\n"),
        ("y\nm\ny\n", "*** End of File\n".join(("-y\n+z\n", "")), "y\nm\nz\n"),
        ("a\nb\n", "@@ a\n+new\n", "a\nnew\nb\n"),
        ("a\nb\n", "+end\n", "a\nb\nend\n"),
        ("", "+only\n", "only\n"),
        ("f(x)  \ng\n", "-f(x)\n+f(y)\n g\n", "f(y)\ng\n"),
        ("a\n\nb\n", " a\n\n-b\n+c\n", "a\n\nc\n"),
        ("a\nb\n", "@@ -1,2 +1,2 @@\n a\n-b\n+c\n", "a\nc\n"),
        ("p\nq\nr\ns\n", "-p\n+P\n q\n@@\n r\n-s\n+S\n", "P\nq\nr\nS\n"),
        ("def f():\n  1\n", "@@ def f():\n def f():\n-  1\n+  2\n", "def f():\n  2\n"),
    ],
)
def test_places(old: str, body: str, new: str) -> None:
    assert update(old, body) == new


@pytest.mark.parametrize(
    ("patch", "text"),
    [
        ("hello", "A patch begins with"),
        (f"{BEGIN}{END}", "The patch is empty"),
        (f"{BEGIN}*** Update File: a.txt\n{END}", "The patch of a.txt has no changes"),
        (f"{BEGIN}*** Update File: a.txt\nnope\n{END}", "Line 2 of the patch, in a.txt, is 'nope'"),
        (f"{BEGIN}*** Update File: a.txt\n-three\n+x\n{END}", "a.txt: change 1 of 1: the old text was not found"),
        (f"{BEGIN}*** Update File: a.txt\n-two\n+x\n{END}", "the old text matches 2 places (lines 2, 3). Add"),
        (f"{BEGIN}*** Update File: a.txt\n@@ nowhere\n-one\n+x\n{END}", "there is no line 'nowhere'"),
        (f"{BEGIN}*** Update File: none.txt\n-two\n+x\n{END}", "none.txt does not exist"),
        (f"{BEGIN}*** Add File: a.txt\n+x\n{END}", "exists already"),
        (f"{BEGIN}*** Add File: b.txt\nx\n{END}", 'must begin with "+"'),
        (f"{BEGIN}*** Delete File: a.txt\n-x\n{END}", "nothing may follow the deletion"),
        (f"{BEGIN}*** Delete File: a.txt\n*** Update File: ./a.txt\n-one\n+x\n{END}", "named twice"),
        (f"{BEGIN}*** Update File: a.txt\n*** Move to: c.txt\n{END}", "c.txt exists already"),
        (f"{BEGIN}*** Add File: n.txt\n+x\n*** Update File: a.txt\n-three\n+x\n{END}", "No file was changed."),
    ],
)
def test_what_cannot_be_applied_changes_nothing(root: Path, patch: str, text: str) -> None:
    (root / "a.txt").write_text("one\ntwo\ntwo\n")
    (root / "c.txt").write_text("c\n")
    assert text in refused(root, patch)


@pytest.mark.parametrize("around", ["{}", "```\n{}```", "apply_patch <<'EOF'\n{}EOF\n", "{}\n\n"])
def test_what_models_put_around_a_patch(root: Path, around: str) -> None:
    (root / "a.txt").write_text("one\n")
    patched(root, around.format(f"{BEGIN}*** Update File: a.txt\n-one\n+two\n{END}"))
    assert (root / "a.txt").read_text() == "two\n"


def test_line_numbers_in_messages_are_those_of_the_file(root: Path) -> None:
    (root / "a.txt").write_text("a\nb\nc\nx\ny\nx\n")
    found = refused(root, f"{BEGIN}*** Update File: a.txt\n-b\n+B\n@@\n-x\n+X\n{END}")
    assert "change 2 of 2" in found and "(lines 4, 6)" in found and "or name a line above with @@" in found


LINES = st.lists(st.sampled_from(["a", "b", "  c", "", "+x", "-y", " @@", "@@ z", "*** q", "é"]), max_size=12)


@settings(max_examples=examples(300))
@given(LINES, LINES)
def test_a_diff_of_any_two_texts_as_a_patch_gives_the_second(old: list[str], new: list[str]) -> None:
    if old == new:
        return
    body = [line for line in difflib.ndiff([f"{x}\n" for x in old], [f"{x}\n" for x in new]) if line[0] != "?"]
    patch = "".join(line[0] + line[2:] for line in body)
    before, after = ("".join(f"{x}\n" for x in lines) for lines in (old, new))
    assert update(before, patch) == after


def test_gpt_models_get_it_in_place_of_edit_and_others_do_not(work: Path) -> None:
    (work / "a.txt").write_text("one\n")
    patch = f"{BEGIN}*** Update File: a.txt\n-one\n+two\n{END}"
    for model, trained in (("gpt-5.6", True), ("gpt-4o", False)):
        calls = (Call("apply_patch", {"patch": patch}),) if trained else ()
        with ModelServer([Reply(calls=calls), Reply(text="Done.")] if trained else [Reply(text="Done.")]) as server:
            env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url}
            done = agent(["-p", "--model", f"openai/{model}", "--permission-mode", "acceptEdits", "go"], work, env)
            assert done.returncode == 0, done.stderr
        names = {t.get("name") or t["function"]["name"] for t in server.requests[0].body["tools"]}
        assert ("apply_patch" in names, "Edit" in names, "Write" in names) == (trained, not trained, True)
    assert (work / "a.txt").read_text() == "two\n"
    # And its deletions can be undone.
    assert agent(["undo", "--yes"], work).returncode in (0, 2)


def test_a_call_of_the_tool_that_it_replaces_is_told_so(work: Path) -> None:
    (work / "a.txt").write_text("one\n")
    call = Call("Edit", {"file_path": "a.txt", "old_string": "one", "new_string": "two"})
    with ModelServer([Reply(calls=(call,)), Reply(text="Done.")]) as server:
        env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url}
        agent(["-p", "--model", "openai/gpt-5.6", "--permission-mode", "acceptEdits", "go"], work, env)
    assert b"There is no tool named 'Edit': apply_patch is in its place. The tools are: Read," in server.requests[1].raw


def test_rules_about_edits_hold_for_it(work: Path) -> None:
    (work / "secret.txt").write_text("one\n")
    patch = f"{BEGIN}*** Delete File: secret.txt\n{END}"
    with ModelServer([Reply(calls=(Call("apply_patch", {"patch": patch}),)), Reply(text="Done.")]) as server:
        env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url}
        flags = ["--permission-mode", "acceptEdits", "--disallowedTools", "Edit(secret.txt)"]
        agent(["-p", "--model", "openai/gpt-5.6", *flags, "go"], work, env)
    assert (work / "secret.txt").exists()
