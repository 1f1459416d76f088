"""Glob and Grep where names, ages and permissions are out of the ordinary, each against what it must be."""

from __future__ import annotations

import os

import pytest

from agent_tools.fs.paths import compile_glob, matches_hidden
from tests.support.tool_bench import Bench

ODD = (
    b"two\nlines.py", b"bad\xff.py", "a\u00e9.py".encode(), b"[x].py", b"q{1}.py", b"-dash.py", b"w space.py",
    b"UP.PY", b"x.pyc", b"sub/deep/one.ts", b"sub/deep/two.py", b"sub/.hid.py", b"sub/.h/in.py", b"sub/list.log",
)  # fmt: skip
PATTERNS = (
    "*", "**", "**/*", "*.py", "**/*.py", "[a-u]*.py", "[!a-u]*.py", "[[]x].py", "\\[x\\].py", "bad?.py", "a?.py",
    "*.{py,pyc}", "{*.py,*.pyc}", "*{.py,.pyc}", "*.{py,{ts,log}}", "*.PY", "sub/**", "sub/*", "sub/**/*.py",
    "**/deep/*", "s*/**/t*", "{sub/deep/one,x}.{ts,pyc}", "two*", "**/*s*", "q\\{1\\}.py", "*.", "w* space.py",
    "sub/d**y", "",
)  # fmt: skip


def odd_tree(bench: Bench) -> list[str]:
    """Files with odd names, three of each age; their names, the newest first, hidden and ignored ones left out."""
    bench.file(".gitignore", "*.log\n!.hid.py\n")
    for number, name in enumerate(ODD):
        path = bench.file(os.fsdecode(name), "needle\n")
        os.utime(path, (1_000 + number // 3, 1_000 + number // 3))
    for link, target in (("loop", "loop"), ("self", "."), ("gone", "nowhere"), ("link.py", "UP.PY")):
        (bench.root / link).symlink_to(target)
    plain = [os.fsdecode(n) for n in ODD if b"/." not in n and not n.endswith(b".log")]
    return sorted(plain, key=lambda n: (-os.lstat(f"{bench.root}/{n}").st_mtime, n))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_what_is_left_to_ripgrep_changes_no_answer(bench: Bench, pattern: str) -> None:
    every = odd_tree(bench)
    if not pattern:
        assert "is empty" in bench.fails("Glob", pattern=pattern)
        return
    fits = compile_glob(pattern).match
    wanted = [bench.ctx.workspace.spell(bench.root / name) for name in every if fits(name)]
    found = bench("Glob", pattern=pattern).text
    assert found.splitlines() == wanted if wanted else found.startswith("No file matches")


def test_a_name_of_several_lines_is_one_name(bench: Bench) -> None:
    odd_tree(bench)
    bench.file("late", b"needle\n" + b"-" * 200_000 + b"\n\0")
    bench.file("bin", b"needle\nneedle\0\n")
    counts = bench("Grep", pattern="needle", output_mode="count").text.splitlines()
    assert "two\\nlines.py:1" in counts and not [line for line in counts if "binary" in line]
    content = bench("Grep", pattern="needle", output_mode="content", head_limit=50).text
    assert "two\\nlines.py:1:needle" in content and "stopped searching" not in content


@pytest.mark.parametrize(
    ("pattern", "asks"),
    [
        (".github/**", True), ("**/.env", True), ("{a,.b}/c", True), ("{.a,b}", True), ("x/{.a,b}", True),
        ("*{.py,.pyc}", False), ("../x", False), ("./x", False), ("a.b/c.d", False), ("*.{py,ts}", False),
    ],
)  # fmt: skip
def test_which_patterns_ask_for_hidden_files(pattern: str, asks: bool) -> None:
    assert matches_hidden(pattern) is asks


def test_a_hundred_of_one_age_are_the_first_by_name(bench: Bench) -> None:
    for n in range(250):
        os.utime(bench.file(f"f{n:03}.txt"), (5, 5))
    os.utime(bench.file("newer.txt"), (6, 6))
    lines = bench("Glob", pattern="*.txt").text.splitlines()
    assert lines[:3] == ["newer.txt", "f000.txt", "f001.txt"] and lines[99] == "f098.txt"
    assert lines[100].startswith("[151 older")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may look everywhere")
def test_a_folder_that_cannot_be_opened_is_reported(bench: Bench) -> None:
    bench.file("closed/a.txt", "needle\n")
    bench.file("b.txt", "needle\n")
    (bench.root / "closed").chmod(0)
    try:
        assert bench("Glob", pattern="*.txt").text.startswith("b.txt\n[not everything could be looked at: ")
        assert "[not everything could be searched: " in bench("Grep", pattern="needle").text
    finally:
        (bench.root / "closed").chmod(0o700)


def test_files_that_may_not_be_read_are_left_out_and_counted(bench: Bench) -> None:
    bench.file("src/a.py", "needle\n")
    bench.file("src/c.ts", "needle gamma\n")
    bench.ctx.readable = lambda path: not str(path).endswith(".ts")
    note = "[1 file not searched: reading needs the user's approval, or a rule denies it]"
    assert bench("Grep", pattern="needle").text == f"src/a.py\n{note}"
    assert bench("Grep", pattern="gamma", output_mode="count").text.startswith("No matches for 'gamma'.")


def test_a_bad_glob_is_not_called_a_bad_pattern(bench: Bench) -> None:
    assert bench.fails("Grep", pattern="x", glob="{").startswith("Invalid glob: error parsing glob '{'")
