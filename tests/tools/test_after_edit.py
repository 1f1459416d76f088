"""The user's formatter or linter after an edit: when it runs, what the model is told, and what it cannot break."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from agent_tools.base import ToolResult
from agent_tools.results import Diff, Diffs
from tests.support.tool_bench import TOOLS, Bench

UPPER = "tr a-z A-Z < {file} > {file}.new && cat {file}.new > {file} && rm {file}.new"


def after(bench: Bench, table: dict[str, str]) -> None:
    bench.ctx.settings["after_edit"] = table


def edited(bench: Bench, name: str, old: str = "one", new: str = "1one") -> ToolResult:
    bench("Read", file_path=name)
    return bench("Edit", file_path=name, old_string=old, new_string=new)


def test_what_it_changed_is_reported_and_the_next_edit_fits(bench: Bench) -> None:
    path = bench.file("a.txt", "one\ntwo\n")
    after(bench, {"*.txt": UPPER})
    result = edited(bench, "a.txt")
    assert path.read_text() == "1ONE\nTWO\n"
    assert result.text == (
        "Edited a.txt (+1 -1). It now reads:\n1\t1ONE\n2\tTWO\n"
        "[The commands of after_edit changed a.txt (+2 -2); edit the current content:]\n"
        "@@ -1,2 +1,2 @@\n-1one\n-two\n+1ONE\n+TWO"
    )
    assert result.display == Diff("a.txt", "@@ -1,2 +1,2 @@\n-one\n-two\n+1ONE\n+TWO", 2, 2)
    bench("Edit", file_path="a.txt", old_string="1ONE", new_string="X")
    assert path.read_text() == "X\nTWO\n"


def test_one_that_succeeds_in_silence_is_not_mentioned(bench: Bench) -> None:
    bench.file("a.txt", "one\n")
    plain = edited(bench, "a.txt", "one", "two").text
    bench.file("a.txt", "one\n")
    after(bench, {"*.txt": "touch ran; true {file}", "*.py": "touch wrong"})
    assert edited(bench, "a.txt", "one", "two").text == plain
    assert (bench.root / "ran").exists() and not (bench.root / "wrong").exists()


def test_what_a_linter_says_is_reported_and_the_edit_stands(bench: Bench) -> None:
    path = bench.file("a.txt", "one\n")
    after(bench, {"*.txt": "echo checking; echo {file}:1: bad >&2; exit 3"})
    result = edited(bench, "a.txt")
    assert not result.is_error and path.read_text() == "1one\n"
    assert result.text.endswith(
        f"\n[after_edit: `echo checking; echo {path}:1: bad >&2; exit 3` failed with exit code 3]"
        f"\nchecking\n{path}:1: bad"
    )
    assert "".join(bench.progress) == f"checking\n{path}:1: bad\n"
    after(bench, {"*.txt": "echo a warning"})
    assert edited(bench, "a.txt").text.endswith("\n[after_edit: `echo a warning`]\na warning")


@pytest.mark.parametrize(
    ("pattern", "name", "runs"),
    [
        ("*.py", "a.py", True),
        ("*.py", "deep/er/a.py", True),
        ("*.py", "a.pyc", False),
        ("src/**/*.ts", "src/a/b.ts", True),
        ("src/**/*.ts", "other/src/b.ts", False),
        ("*.{js,ts}", "x/b.ts", True),
        ("*", "Makefile", True),
    ],
)
def test_globs_choose_by_name_or_by_path(bench: Bench, pattern: str, name: str, runs: bool) -> None:
    after(bench, {pattern: "touch ran"})
    bench("Write", file_path=name, content="x\n")
    assert (bench.root / "ran").exists() == runs


def test_every_glob_that_fits_counts_in_order_and_a_bad_one_is_reported(bench: Bench) -> None:
    after(bench, {"*.txt": "echo first >> log", "{a": "echo never", "a*": "echo second >> log"})
    found = bench("Write", file_path="a.txt", content="x\n").text
    assert (bench.root / "log").read_text() == "first\nsecond\n"
    assert "[after_edit: Invalid pattern '{a'" in found


@pytest.mark.parametrize(
    "name", ["it's $(touch evil).txt", "-rf.txt", "a b;touch evil.txt", "new\nline.txt", '"q".txt']
)
def test_the_path_is_one_word_whatever_it_is(bench: Bench, name: str) -> None:
    after(bench, {"*.txt": "printf %s {file} > seen; pwd > where"})
    bench("Write", file_path=name, content="x\n")
    assert (bench.root / "seen").read_text() == str(bench.root / name)
    assert (bench.root / "where").read_text() == f"{bench.root}\n"
    assert not (bench.root / "evil").exists()


def test_it_runs_in_the_environment_of_commands(bench: Bench) -> None:
    bench.ctx.env["MY_API_KEY"] = "secret"
    after(bench, {"*": 'echo "<$MY_API_KEY>" > env'})
    bench("Write", file_path="a", content="x\n")
    assert (bench.root / "env").read_text() == "<>\n"


def test_write_and_multi_edit_run_it_for_each_file(bench: Bench) -> None:
    after(bench, {"*.txt": UPPER})
    made = bench("Write", file_path="a.txt", content="one\n")
    assert made.text.startswith("Created a.txt (1 line).\n[The commands of after_edit changed a.txt (+1 -1)")
    assert isinstance(made.display, Diff) and made.display.patch == "@@ -0,0 +1 @@\n+ONE" and made.display.created
    bench.file("b.txt", "two\n")
    bench.file("c.py", "three\n")
    for name in ("b.txt", "c.py"):
        bench("Read", file_path=name)
    edits = [
        {"file_path": name, "old_string": old, "new_string": old + "!"}
        for name, old in (("a.txt", "ONE"), ("b.txt", "two"), ("c.py", "three"))
    ]
    result = bench("MultiEdit", edits=edits)
    assert (bench.root / "b.txt").read_text() == "TWO!\n" and (bench.root / "c.py").read_text() == "three!\n"
    assert "changed b.txt (+1 -1)" in result.text and "changed a.txt" not in result.text
    assert "Edited b.txt (+1 -1). It now reads:\n1\tTWO!" in result.text
    assert isinstance(result.display, Diffs) and result.display.files[1].patch.endswith("+TWO!")


def test_a_long_story_is_cut(bench: Bench) -> None:
    bench.file("a.txt", "one\n" * 5_000)
    after(bench, {"*.txt": f"seq 100000; {UPPER}"})
    bench("Read", file_path="a.txt")
    found = bench("Edit", file_path="a.txt", old_string="one", new_string="two", replace_all=True).text
    assert len(found) < 12_000
    assert "bytes cut here; run it to see all" in found and "more lines of this diff not shown" in found


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("rm {file}", "left a.txt missing"),
        ("printf 'a\\0b' > {file}", "left a.txt not a text file"),
        ("rm {file}; mkdir {file}", "is a directory"),
        ("kill -9 $$", "was killed by signal 9"),
        ("no-such-formatter {file}", "no-such-formatter: command not found"),
    ],
)
def test_whatever_it_does_the_edit_is_reported(bench: Bench, command: str, words: str) -> None:
    bench.file("a.txt", "one\n")
    after(bench, {"*.txt": command})
    result = edited(bench, "a.txt")
    assert result.text.startswith("Edited a.txt (+1 -1).") and not result.is_error
    assert words in result.text


def test_one_that_undoes_the_edit_is_reported(bench: Bench) -> None:
    bench.file("a.txt", "one\n")
    after(bench, {"*.txt": "echo one > {file}"})
    assert edited(bench, "a.txt").text == (
        "Edited a.txt (+1 -1).\n[The commands of after_edit changed a.txt (+1 -1); edit the current content:]\n"
        "@@ -1 +1 @@\n-1one\n+one"
    )


def test_one_that_hangs_is_ended_with_the_turn_and_the_edit_stands(bench: Bench) -> None:
    path = bench.file("a.txt", "one\n")
    after(bench, {"*.txt": "echo started; sleep 60"})
    bench("Read", file_path="a.txt")
    args: Any = bench.args("Edit", {"file_path": "a.txt", "old_string": "one", "new_string": "two"})
    steps = TOOLS["Edit"].run(args, bench.ctx)
    assert not isinstance(steps, ToolResult)
    assert next(steps).text.startswith("started")
    began = time.monotonic()
    threading.Timer(0.05, bench.ctx.cancel.cancel).start()
    with pytest.raises(StopIteration) as stop:
        while True:
            next(steps)
    assert time.monotonic() - began < 10
    assert "[after_edit: `echo started; sleep 60` was interrupted]" in stop.value.value.text
    assert path.read_text() == "two\n"


def test_nothing_runs_after_an_edit_that_fails(bench: Bench) -> None:
    bench.file("a.txt", "one\n")
    after(bench, {"*": "touch ran"})
    bench("Read", file_path="a.txt")
    bench.fails("Edit", file_path="a.txt", old_string="zzz", new_string="y")
    bench.fails("MultiEdit", file_path="a.txt", edits=[{"old_string": "zzz", "new_string": "y"}])
    bench("Write", file_path="a.txt", content="one\n")
    assert not (bench.root / "ran").exists()


def test_its_memory_is_bounded(bench: Bench) -> None:
    (bench.root / "a.txt").write_text("one\n")
    bench.ctx.settings["after_edit"] = {"*": "ulimit -Sd"}
    assert "\n8388608" in edited(bench, "a.txt").text
