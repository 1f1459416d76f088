"""What the model has seen of a file, and what changed in it since: by every tool that shows or changes one."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_cli.kernel.events import FilesSeen, ToolFinished
from agent_cli.knowledge.template import with_files
from agent_tools.base import ToolError
from agent_tools.fs import read_state
from agent_tools.record import from_json, to_json
from agent_tools.sandbox.conditions import SandboxLimits
from tests.support.sandboxes import SandboxedBench
from tests.support.scripts import call
from tests.support.tool_bench import Bench
from tests.support.turns import World

LINES = "".join(f"line {n}\n" for n in range(1, 31))
Look = Callable[[Bench, Callable[..., str]], Any]

# How the model looks at a.txt, and whether it then knows all of it, some lines with line 7, or nothing.
LOOKS: dict[str, tuple[Look, str]] = {
    "nothing": (lambda bench, run: None, "nothing"),
    "Read": (lambda bench, run: bench("Read", file_path="a.txt"), "all"),
    "a part by Read": (lambda bench, run: bench("Read", file_path="a.txt", offset=5, limit=6), "lines"),
    "Grep": (lambda bench, run: bench("Grep", pattern="line 7$", path="a.txt", output_mode="content"), "found"),
    "the names by Grep": (lambda bench, run: bench("Grep", pattern="line 7$"), "nothing"),
    "cat": (lambda bench, run: run("cat a.txt"), "all"),
    "sed": (lambda bench, run: run("sed -n 5,9p a.txt"), "lines"),
    "grep": (lambda bench, run: run("grep -n 'line 7' a.txt"), "found"),
    "wc": (lambda bench, run: run("wc a.txt"), "nothing"),
    "Write": (lambda bench, run: bench("Write", file_path="b.txt", content=LINES), "another file"),
    "an attachment": (lambda bench, run: mention(bench, "@a.txt"), "all"),
    "an attached part": (lambda bench, run: mention(bench, "@a.txt:5-9"), "lines"),
    "a patch": (lambda bench, run: bench("apply_patch", patch=patch("line 9", "line 9 ")), "lines"),
}  # fmt: skip


def mention(bench: Bench, text: str) -> None:
    bench.ctx.mark_mentions_read(with_files(text, bench.ctx))


def patch(old: str, new: str) -> str:
    return f"*** Begin Patch\n*** Update File: a.txt\n@@\n-{old}\n+{new}\n*** End Patch"


def edit(old: str, new: str) -> dict[str, dict[str, Any]]:
    """The same change, by each tool that changes a part of a file."""
    return {
        "Edit": {"file_path": "a.txt", "old_string": f"{old}\n", "new_string": f"{new}\n"},
        "MultiEdit": {"edits": [{"file_path": "a.txt", "old_string": f"{old}\n", "new_string": f"{new}\n"}]},
        "apply_patch": {"patch": patch(old, new)},
    }


SEEN_WITH = {"a part by Read": "Read", "cat": "Bash", "sed": "Bash", "a patch": "apply_patch", "Read": "Read"}
EDITORS = tuple(edit("", ""))


@pytest.fixture(params=["outside the sandbox", "in the sandbox"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Bench, Callable[..., str]]]:
    house = SandboxedBench(tmp_path, SandboxLimits())
    outside = request.param == "outside the sandbox"
    path = house.bench.file("a.txt", LINES)
    os.utime(path, (1_700_000_000, 1_700_000_000))
    yield house.bench, lambda line: house(line, dangerouslyDisableSandbox=outside)
    house.bench.ctx.close()


@pytest.mark.parametrize("look", LOOKS)
def test_was_it_seen(place: tuple[Bench, Callable[..., str]], look: str) -> None:
    bench, run = place
    how, known = LOOKS[look]
    how(bench, run)
    if known in ("nothing", "another file"):
        for tool in ("Edit", "MultiEdit"):
            assert "was not read in this conversation" in bench.fails(tool, **edit("line 7", "seven")[tool])
        assert "was not read in this conversation" in bench.fails("Write", file_path="a.txt", content="x\n")
        # A patch quotes the lines that it changes.
        bench("apply_patch", **edit("line 7", "seven")["apply_patch"])
        return
    if known != "all":
        assert "a.txt" in bench.fails("Write", file_path="a.txt", content="x\n")
    for old, tool in zip(("line 7", "seven", "eight"), EDITORS, strict=True):
        new = {"line 7": "seven", "seven": "eight", "eight": "nine"}[old]
        said = bench(tool, **edit(old, new)[tool]).text
        assert "It now reads:" in said and (tool == "MultiEdit" or said.startswith("Edited a.txt (+1 -1). "))
    if known == "all":
        bench("Write", file_path="a.txt", content="x\n")


@pytest.mark.parametrize("tool", [*EDITORS, "Write"])
@pytest.mark.parametrize("look", [name for name, (_, known) in LOOKS.items() if known in ("all", "lines")])
def test_did_it_change_since(place: tuple[Bench, Callable[..., str]], look: str, tool: str) -> None:
    """An edit that fits is made; one that does not, and a Write, is refused. Both tell what changed, once."""
    bench, run = place
    LOOKS[look][0](bench, run)
    path = bench.root / "a.txt"
    path.write_text(path.read_text().replace("line 20\n", "twenty\n"))
    by = f" with {SEEN_WITH[look]}" if look in SEEN_WITH else ""
    told = (
        f"[a.txt has changed since you last saw it{by} (+1 -1), by the user, a formatter or a command:]\n"
        "@@ -17,7 +17,7 @@"
    )
    if tool == "Write":
        said = bench.fails("Write", file_path="a.txt", content="x\n")
        assert told in said and "-line 20\n+twenty" in said and "twenty\n" in path.read_text()
        if LOOKS[look][1] == "all":
            assert "Line 20 is new to you." in said
            bench("Write", file_path="a.txt", content="x\n")
        return
    assert told in bench(tool, **edit("line 7", "seven")[tool]).text
    assert "since you last saw" not in bench(tool, **edit("seven", "line 7")[tool]).text
    path.write_text(path.read_text().replace("line 7\n", "sieben\n"))
    said = bench.fails(tool, **edit("line 7", "seven")[tool])
    assert "not found" in said and "-line 7\n+sieben" in said
    assert "sieben\n" in path.read_text()
    assert "since you last saw" not in bench(tool, **edit("sieben", "seven")[tool]).text


@pytest.mark.parametrize("tool", ["Edit", "MultiEdit"])
@pytest.mark.parametrize("look", ["Grep", "grep"])
def test_did_it_change_since_a_search_showed_it(place: tuple[Bench, Callable[..., str]], look: str, tool: str) -> None:
    """A search keeps no text of the whole file, so the model learns only that it changed."""
    bench, run = place
    LOOKS[look][0](bench, run)
    path, by = bench.root / "a.txt", {"grep": "Bash"}.get(look, look)
    told = f"[a.txt may have changed since you saw lines of it with {by}; read the rest again.]"
    path.write_text(LINES.replace("line 7\n", "sieben\n"))
    said = bench.fails(tool, **edit("line 7", "seven")[tool])
    assert "not found" in said and told in said and "sieben\n" in path.read_text()
    path.write_text(LINES.replace("line 20\n", "twenty\n"))
    assert told in bench(tool, **edit("line 7", "seven")[tool]).text
    assert "twenty\n" in path.read_text() and "seven\n" in path.read_text()


def test_all_places_of_a_text_are_replaced_only_if_a_search_showed_all(bench: Bench) -> None:
    path = bench.file("a.txt", "def f(old):\n    return old\nold = f(1)\n")
    os.utime(path, (1_700_000_000, 1_700_000_000))
    change = {"file_path": "a.txt", "old_string": "old", "new_string": "new", "replace_all": True}
    bench("Grep", pattern="return|old =", path="a.txt", output_mode="content")
    for more in ({"edits": [change]}, change):
        assert "was not read" in bench.fails("MultiEdit" if "edits" in more else "Edit", **more)
    bench("Grep", pattern="old", path="a.txt", output_mode="content")
    assert "3 places (lines 1, 2, 3)" in bench.fails("Edit", **change | {"replace_all": False})
    assert "in 3 places" in bench("Edit", **change).text


@pytest.mark.parametrize("look", [name for name, (_, known) in LOOKS.items() if known in ("all", "lines")])
def test_was_it_seen_once_the_results_are_gone(place: tuple[Bench, Callable[..., str]], look: str) -> None:
    """As after clearing and compaction: a part may be edited, the whole not replaced before it is read again."""
    bench, run = place
    LOOKS[look][0](bench, run)
    read_state.forget_hidden(bench.ctx, ())
    said = bench.fails("Write", file_path="a.txt", content="x\n")
    assert "are no longer in the conversation" in said or "were not shown" in said
    for old, new, tool in zip(("line 7", "seven", "eight"), ("seven", "eight", "nine"), EDITORS, strict=True):
        bench(tool, **edit(old, new)[tool])
    bench("Read", file_path="a.txt")
    bench("Write", file_path="a.txt", content="x\n")


@pytest.mark.parametrize("look", [name for name, (_, known) in LOOKS.items() if known in ("all", "lines")])
def test_was_it_seen_in_a_resumed_session(place: tuple[Bench, Callable[..., str]], look: str) -> None:
    bench, run = place
    LOOKS[look][0](bench, run)
    again = Bench(bench.root)
    again.ctx.seen |= from_json(FilesSeen, to_json(FilesSeen(bench.ctx.seen))).seen
    if LOOKS[look][1] == "lines":
        assert "were not shown" in again.fails("Write", file_path="a.txt", content="x\n")
    again("Edit", **edit("line 7", "seven")["Edit"])
    if LOOKS[look][1] == "all":
        again("Write", file_path="a.txt", content="x\n")


def test_where_is_this_path(place: tuple[Bench, Callable[..., str]], tmp_name: str) -> None:
    """In /tmp, which a sandbox shares with the tools for files; beside the folder of a `cd`; and by a link."""
    bench, run = place
    bench("Write", file_path=f"{tmp_name}/a.txt", content=LINES)
    assert "line 7" in run(f"cat {tmp_name}/a.txt")
    for old, new, tool in zip(("line 7", "seven", "eight"), ("seven", "eight", "nine"), EDITORS, strict=True):
        named = json.dumps(edit(old, new)[tool]).replace("a.txt", f"{tmp_name}/a.txt")
        bench(tool, **json.loads(named))
        assert f"{new}\n" in run(f"cat {tmp_name}/a.txt")
    run(f"echo made > {tmp_name}/b.txt; cd {tmp_name}")
    for tool, args in [
        ("Read", {"file_path": "b.txt"}),
        ("Read", {"file_path": f"{tmp_name}/b.txt"}),
        ("Grep", {"pattern": "made", "path": ".", "output_mode": "content"}),
    ]:
        assert "made" in bench(tool, **args).text
    for tool, args in [("Glob", {"pattern": "*.txt", "path": tmp_name}), ("LS", {"path": tmp_name})]:
        assert "b.txt" in bench(tool, **args).text
    (bench.root / "link.txt").symlink_to("a.txt")
    bench("Read", file_path=str(bench.root / "link.txt"))
    bench("Write", file_path=str(bench.root / "a.txt"), content="x\n")


def test_a_difference_too_long_to_show_is_no_reading(bench: Bench) -> None:
    path = bench.file("a.txt", LINES)
    bench("Read", file_path="a.txt")
    path.write_text(LINES + "".join(f"more {n}\n" for n in range(200)))
    said = bench.fails("Write", file_path="a.txt", content="x\n")
    assert "more lines of this diff not shown; read the file to see it]" in said
    assert "has changed since you last saw it" in bench.fails("Write", file_path="a.txt", content="x\n")


def test_a_change_of_a_file_that_is_too_large_to_keep_is_named(bench: Bench) -> None:
    path = bench.file("a.txt", LINES + "x" * 40 * 60_000)
    bench("Read", file_path="a.txt", limit=10)
    path.write_text("first\n" + path.read_text())
    said = bench("Edit", **edit("line 7", "seven")["Edit"]).text
    assert "the difference is not known. Read it before" in said


def _notebook(*cells: tuple[str, str]) -> str:
    shown = [{"cell_type": "raw", "id": name, "metadata": {}, "source": source} for name, source in cells]
    return json.dumps({"cells": shown, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)


@pytest.mark.parametrize("seen", ["read", "edited"])
def test_a_cell_that_others_left_alone_is_edited_in_a_notebook_that_changed(bench: Bench, seen: str) -> None:
    path = bench.file("n.ipynb", _notebook(("a", "1"), ("b", "2"), ("c", "3")))
    bench("Read", file_path="n.ipynb")
    if seen == "edited":
        bench("NotebookEdit", notebook_path="n.ipynb", cell_id="c", new_source="drei")
    path.write_text(path.read_text().replace('"2"', '"two"'))
    told = bench("NotebookEdit", notebook_path="n.ipynb", cell_id="a", new_source="one").text
    assert "[n.ipynb has changed since you last saw it with Read (+1 -1)" in told and '+   "source": "two"' in told
    again = bench("NotebookEdit", notebook_path="n.ipynb", cell_id="b", new_source="zwei").text
    assert "since you last saw" not in again, "the difference was told"
    assert [cell["source"] for cell in json.loads(path.read_text())["cells"]][:2] == ["one", "zwei"]


@pytest.mark.parametrize("mode", ["replace", "insert", "delete"])
@pytest.mark.parametrize(
    ("cell", "now"),
    [("b", [("a", "1"), ("b", "two")]), ("b", [("a", "1")]), ("cell-0", [("z", "0"), ("a", "1"), ("b", "2")])],
    ids=["changed", "deleted", "moved"],
)
def test_a_cell_that_others_changed_is_not_edited_before_the_difference_was_told(
    bench: Bench, cell: str, now: list[tuple[str, str]], mode: str
) -> None:
    path = bench.file("n.ipynb", _notebook(("a", "1"), ("b", "2")))
    bench("Read", file_path="n.ipynb")
    path.write_text(_notebook(*now))
    said = bench.fails("NotebookEdit", notebook_path="n.ipynb", cell_id=cell, new_source="x", edit_mode=mode)
    assert path.read_text() == _notebook(*now)
    assert "changed since it was last read: nothing was changed." in said and "\n@@ " in said
    bench("NotebookEdit", notebook_path="n.ipynb", cell_id=now[-1][0], new_source="x")


def test_a_notebook_whose_earlier_content_is_not_known_is_read_again(bench: Bench) -> None:
    path = bench.file("n.ipynb", _notebook(("a", "1"), ("b", "x" * 3_000_000)))
    bench("Read", file_path="n.ipynb", limit=2)
    path.write_text(_notebook(("a", "2"), ("b", "x" * 3_000_000)))
    said = bench.fails("NotebookEdit", notebook_path="n.ipynb", cell_id="a", new_source="z")
    assert "changed since it was last read. Read it again" in said


def test_all_bad_parts_of_a_change_are_reported_with_the_text_nearest_to_each(bench: Bench) -> None:
    bench.file("a.py", "def f():\n    x = 1\n    return x\n\ndef g():\n    y = 2\n    return y\n")
    bench.file("b.py", "z = 3\n")
    for name in ("a.py", "b.py"):
        bench("Read", file_path=name)
    wrong = (("a.py", "    x = 9", 2), ("a.py", "    y = 9", 6), ("b.py", "z = 9", 1))
    edits = [{"file_path": name, "old_string": old, "new_string": "q"} for name, old, _ in wrong]
    text = "\n".join(
        f"*** Update File: {name}\n" + "\n".join(f"@@\n-{old}\n+q" for of, old, _ in wrong if of == name)
        for name in ("a.py", "b.py")
    )
    for said in (
        bench.fails("MultiEdit", edits=edits),
        bench.fails("apply_patch", patch=f"*** Begin Patch\n{text}\n*** End Patch"),
    ):
        for _, old, line in wrong:
            assert f"The most similar place is line {line}." in said and old in said
        assert "No file was changed." in said or "nothing was changed" in said


@pytest.mark.parametrize(
    ("content", "new", "there"),
    [
        ("def f():\n    x = 1\n", "    x = 1\n", True),
        ("def f():\n    x = 1\n", "x = 1", True),
        ("def f():\r\n    x = 1\r\n    y = 2\r\n", "    x = 1\n    y = 2\n", True),
        ("def f():\n    x = 1\n", "        x = 1\n", False),
        ("def f():\n    x = 1\n", "\tx = 1\n", False),
        ("def f():\n    xx = 10\n", "x = 1", False),
        ("def f():\n    x = 1 \n", "    x = 1\n    y = 2\n", False),
    ],
)
def test_a_text_is_already_there_only_with_its_own_white_space(
    bench: Bench, content: str, new: str, there: bool
) -> None:
    bench.file("a.py", content)
    bench("Read", file_path="a.py")
    said = bench.fails("Edit", file_path="a.py", old_string="    q = 0\n", new_string=new)
    assert ("is already at line 2" in said) == there


def test_what_a_refusal_told_counts_from_the_next_answer_on(root: Path) -> None:
    """Also in the log, so that a resumed session knows it."""
    (root / "a.txt").write_text(LINES)
    write = call("Write", file_path="a.txt", content="x\n")
    change = call("Bash", command="sed -i 's/line 7/seven/' a.txt")
    wrong = call("Edit", file_path="a.txt", old_string="line 77", new_string="x")
    replies = [{"calls": [call("Read", file_path="a.txt"), change]}, {"calls": [write, wrong]}, {"calls": [write]},
               {"text": "Done."}]  # fmt: skip
    world = World(root, replies, mode="bypassPermissions")
    world.turn()
    said = [m.text for m in world.results[2:]]
    assert "Line 7 is new to you." in said[0] and "-line 7\n+seven" in said[0]
    assert "[a.txt has changed since you last saw it: see the difference above.]" in said[1] and "@@" not in said[1]
    assert said[2] == "Wrote a.txt (+1 -30)."
    [seen] = [event.seen for event in world.of(FilesSeen)]
    version = read_state.fingerprint(LINES.replace("line 7", "seven").encode())
    assert seen[str(root / "a.txt")] == f"{version} 1-6@Read:call-1-1,7-7@Write:call-2-1,8-30@Read:call-1-1/30"
    assert world.names.index("FilesSeen") < world.events.index(world.of(ToolFinished)[-1])


def test_a_patch_whose_file_was_not_read_and_changed_meanwhile_is_left_alone(bench: Bench) -> None:
    path = bench.file("a.txt", LINES)
    args = bench.args("apply_patch", {"patch": patch("line 7", "seven")})
    path.write_text("other\n")
    with pytest.raises(ToolError, match="not found"):
        bench("apply_patch", patch=args.patch)
