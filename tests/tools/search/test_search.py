"""Glob, Grep and LS over real trees, with ripgrep and without."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from agent_cli.kernel.result_words import short_result
from agent_tools.base import Effect, ToolError
from agent_tools.cancel import CancelledError
from agent_tools.fs.paths import compile_glob, split_base
from tests.support.tool_bench import TOOLS, Bench


@pytest.fixture
def tree(bench: Bench) -> Bench:
    bench.file(".gitignore", "*.log\nvendor/\n")
    bench.file("src/a.py", "import os\n\ndef alpha():\n    return 'needle'\n")
    bench.file("src/deep/b.py", "def beta():\n    pass  # Needle\n")
    bench.file("src/c.ts", "const needle = 1;\nconst gamma = needle;\n")
    bench.file("vendor/lib.py", "needle\n")
    bench.file("debug.log", "needle\n")
    bench.file(".github/ci.yml", "needle: true\n")
    for age, name in enumerate(("src/c.ts", "src/a.py", "src/deep/b.py")):
        os.utime(bench.root / name, (1_000_000 - age, 1_000_000 - age))
    return bench


def test_glob_gives_the_newest_first_and_leaves_out_what_is_ignored(tree: Bench) -> None:
    assert tree("Glob", pattern="**/*.py").text == "src/a.py\nsrc/deep/b.py"
    assert tree("Glob", pattern="src/**/*.{py,ts}").text == "src/c.ts\nsrc/a.py\nsrc/deep/b.py"
    assert tree("Glob", pattern="*.py", path="src/deep").text == "src/deep/b.py"
    assert tree("Glob", pattern="src/*.py").text == "src/a.py"
    assert tree("Glob", pattern="[ab].py").text == "src/a.py\nsrc/deep/b.py"


def test_a_pattern_is_shown_as_it_was_written(tree: Bench) -> None:
    assert tree("Grep", pattern=r"Choice\(").text.startswith(r"No matches for 'Choice\('.")
    assert tree("Glob", pattern=r"\[x\].py").text.startswith(r"No file matches '\[x\].py' in '.'")


def test_glob_shows_hidden_files_only_when_they_are_named(tree: Bench) -> None:
    assert "ci.yml" not in tree("Glob", pattern="**/*").text
    assert tree("Glob", pattern=".github/**").text == ".github/ci.yml"
    assert tree("Glob", pattern="**/.gitignore").text == ".gitignore"


def test_glob_without_a_hit_says_where_it_looked(tree: Bench) -> None:
    result = tree("Glob", pattern="*.rs")
    assert result.text.startswith("No file matches '*.rs' in '.'. **") and not result.is_error


@pytest.mark.parametrize("with_rg", [True, False])
def test_grep_without_a_hit_names_the_files_whose_names_match(
    tree: Bench, with_rg: bool, request: pytest.FixtureRequest
) -> None:
    if not with_rg:
        request.getfixturevalue("without_rg")
    for folder in ("src", "src/deep", "lib/x", "lib/y", "lib/z", "vendor"):
        tree.file(f"{folder}/Settings.toml", "x = 1\n")
    if not with_rg:
        (tree.root / "vendor/Settings.toml").unlink()

    def names(**arguments: Any) -> str:
        return tree("Grep", **arguments).text.partition("Files with such a name: ")[2].partition("\n")[0]

    assert names(pattern="settings") == (
        "src/Settings.toml, lib/x/Settings.toml, lib/y/Settings.toml, lib/z/Settings.toml, src/deep/Settings.toml"
    )
    assert names(pattern=r"^b\.py$") == names(pattern="src/deep/b.p") == "src/deep/b.py"
    assert names(pattern="settings", path="src/deep") == "src/deep/Settings.toml"
    assert names(pattern="settings", glob="*.py") == names(pattern="src/a.py", path="src/a.py") == ""
    assert names(pattern="nowhere") == names(pattern=r"(se(t+)+)+ings\(") == names(pattern="x") == ""
    tree.file("more/Settings.toml", "x = 1\n")
    assert names(pattern="settings").endswith(", and 1 more")


def test_glob_is_capped_with_a_note(bench: Bench) -> None:
    for n in range(130):
        bench.file(f"f{n}.txt")
    lines = bench("Glob", pattern="*.txt").text.splitlines()
    assert len(lines) == 101 and lines[-1].startswith("[30 older")


def test_glob_effects_name_the_directory_that_is_really_searched(tree: Bench, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "x.py").touch()
    (tree.root / "link").symlink_to(tmp_path / "out")

    def effect(**arguments: str) -> tuple[Effect, ...]:
        return TOOLS["Glob"].effects(tree.args("Glob", arguments), tree.ctx)

    outside = (Effect("read", str(tmp_path / "out")),)
    assert effect(pattern="link/*.py") == outside
    assert effect(pattern="*.py", path="link") == outside
    assert effect(pattern=f"{tmp_path}/out/*.py") == outside
    assert effect(pattern="../out/*.py") == outside
    assert effect(pattern="*.py", path="..") == (Effect("read", str(tmp_path)),)
    assert tree("Glob", pattern="../out/*.py").text == str(tmp_path / "out" / "x.py")
    assert "'..' is only allowed" in tree.fails("Glob", pattern="*/../../x")


@pytest.mark.parametrize(
    ("pattern", "fits", "not_"),
    [
        ("*.py", ["a.py", "x/y/a.py"], ["a.pyc", "a.py/x"]),
        ("src/*.py", ["src/a.py"], ["src/x/a.py", "lib/src/a.py"]),
        ("src/**", ["src/a", "src/x/y"], ["src", "lib/src/a"]),
        ("**/test_*.py", ["test_a.py", "x/y/test_b.py"], ["x/atest_.py"]),
        ("a/**/b", ["a/b", "a/x/y/b"], ["ab", "a/xb"]),
        ("{a,b/**}/c", ["a/c", "b/x/c"], ["c"]),
        ("f[!0-9].t?t", ["fa.txt"], ["f1.txt", "fa.tt"]),
        ("a+(b).txt", ["a+(b).txt"], ["aab.txt"]),
        ("[broken", ["[broken"], ["b"]),
    ],
)
def test_patterns_mean_what_the_shell_means(pattern: str, fits: list[str], not_: list[str]) -> None:
    compiled = compile_glob(pattern)
    assert [p for p in fits if not compiled.match(p)] == []
    assert [p for p in not_ if compiled.match(p)] == []


def test_a_pattern_that_cannot_be_read_is_reported_to_be_so(bench: Bench) -> None:
    assert "Invalid pattern '{a'" in bench.fails("Glob", pattern="{a")


def test_the_fixed_beginning_of_a_pattern_is_a_directory() -> None:
    assert split_base("src/**/*.py") == ("src", "**/*.py")
    assert split_base("/abs/x/*.py") == ("/abs/x", "*.py")
    assert split_base("*.py") == ("", "*.py")
    assert split_base("src/a.py") == ("src", "a.py")
    assert split_base("/*.py") == ("/", "*.py")


def test_grep_lists_files_newest_first(tree: Bench) -> None:
    assert tree("Grep", pattern="needle").text == "src/c.ts\nsrc/a.py"
    assert tree("Grep", pattern="needle", **{"-i": True}).text == "src/c.ts\nsrc/a.py\nsrc/deep/b.py"
    assert tree("Grep", pattern="needle", glob="**/*.py").text == "src/a.py"
    assert tree("Grep", pattern="needle", type="ts").text == "src/c.ts"
    assert tree("Grep", pattern="needle", path="src/c.ts").text == "src/c.ts"
    assert tree("Grep", pattern="needle", glob=".github/*").text == ".github/ci.yml"


def test_grep_shows_lines_with_context(tree: Bench) -> None:
    content = {"output_mode": "content", "pattern": "needle"}
    assert tree("Grep", **content).text == (
        "src/a.py:4:    return 'needle'\nsrc/c.ts:1:const needle = 1;\nsrc/c.ts:2:const gamma = needle;"
    )
    assert tree("Grep", **content, path="src/a.py", **{"-B": 1, "-n": False}).text == (
        "def alpha():\n    return 'needle'"
    ), "the only file searched is not repeated"
    assert tree("Grep", **content, path="src/a.py", **{"-B": 1}).text == "3-def alpha():\n4:    return 'needle'"
    assert tree("Grep", **content, glob="*.py", **{"-C": 1}).text == (
        "src/a.py-3-def alpha():\nsrc/a.py:4:    return 'needle'"
    )


def test_grep_counts_and_pages(tree: Bench) -> None:
    counted = tree("Grep", pattern="needle", output_mode="count").text
    assert counted == "src/a.py:1\nsrc/c.ts:2\n[3 matches in 2 files]"
    page = tree("Grep", pattern="needle", output_mode="content", head_limit=1, offset=1).text
    assert page == "src/c.ts:1:const needle = 1;\n[1 more line; continue with offset=2, or narrow the search]"
    assert "past the last of 2 files" in tree("Grep", pattern="needle", offset=9).text


def test_grep_over_lines(tree: Bench) -> None:
    assert tree("Grep", pattern=r"alpha.*return", multiline=True).text == "src/a.py"
    assert "Set multiline" in tree.fails("Grep", pattern="a\\nb")


def test_grep_explains_a_pattern_it_cannot_use(tree: Bench) -> None:
    found = tree.fails("Grep", pattern="foo(")
    assert "unclosed group" in found and "Escape literal" in found
    assert "no file type 'pyx'" in tree.fails("Grep", pattern="x", type="pyx")
    assert "does not exist" in tree.fails("Grep", pattern="x", path="nowhere")
    assert "cannot be negative" in tree.fails("Grep", pattern="x", **{"-A": -1})
    os.mkfifo(tree.root / "pipe")
    assert "a named pipe" in tree.fails("Grep", pattern="x", path="pipe")
    assert tree("Grep", pattern="nothing-like-this").text.startswith("No matches")
    assert tree("Grep", pattern="--files").text.startswith("No matches")


def test_grep_survives_odd_files(bench: Bench) -> None:
    bench.file("with:colon-1.txt", "hit\n")
    bench.file("two\nlines.txt", "hit\n")
    bench.file("min.js", "hit" + "x" * 100_000 + "\n")
    bench.file("esc.txt", "hit \x1b[31mred\x1b[0m \x07\n")
    bench.file("bin", b"hit\0hit\n")
    (bench.root / "loop").symlink_to("loop")
    os.mkfifo(bench.root / "pipe")
    text = bench("Grep", pattern="hit", output_mode="content").text
    assert "with:colon-1.txt:1:hit" in text and "esc.txt:1:hit red \\x07" in text and len(text) < 2_000
    assert "two\\nlines.txt" in bench("Grep", pattern="hit").text


def test_a_user_configuration_of_ripgrep_changes_nothing(tree: Bench) -> None:
    config = tree.file("rgrc", "--files-without-match\n")
    tree.ctx.env["RIPGREP_CONFIG_PATH"] = str(config)
    assert "src/a.py" in tree("Grep", pattern="needle").text


def test_without_ripgrep_the_answers_are_the_same_and_it_is_reported(tree: Bench, without_rg: None) -> None:
    note = "\n[ripgrep is not installed: the search was slow and ignored .gitignore]"
    assert tree("Grep", pattern="needle", glob="*.ts").text == "src/c.ts" + note
    assert tree("Grep", pattern="needle", type="py", path="src").text == "src/a.py", "it is said once"
    assert tree("Grep", pattern="NEEDLE", path="src/deep", output_mode="content", **{"-i": True, "-B": 1}).text == (
        "src/deep/b.py-1-def beta():\nsrc/deep/b.py:2:    pass  # Needle"
    )
    assert tree("Grep", pattern="alpha.*return", multiline=True).text == "src/a.py"
    assert tree("Grep", pattern="needle", output_mode="count", path="src/c.ts").text.startswith("src/c.ts:2\n")
    assert "Invalid pattern" in tree.fails("Grep", pattern="foo(")
    (tree.root / "src/link.py").symlink_to("a.py")
    assert tree("Glob", pattern="src/**/*.py").text == "src/a.py\nsrc/deep/b.py"
    nested = tree.ctx.nested()
    assert nested.once(note.strip()) == "", "nor to a sub-agent"


def test_an_interrupted_search_ends(tree: Bench) -> None:
    tree.ctx.cancel.cancel()
    for name in ("Grep", "Glob"):
        with pytest.raises(CancelledError):
            tree(name, pattern="needle")


def test_ls_is_a_tree_with_the_heavy_directories_closed(tree: Bench) -> None:
    tree.file("node_modules/x/y.js")
    tree.file("odd\nname")
    (tree.root / "link").symlink_to("src")
    assert tree("LS", path=".").text.splitlines() == [
        "./",
        "  .gitignore",
        "  debug.log",
        "  link -> src",
        "  odd\\nname",
        "  .github/",
        "    ci.yml",
        "  node_modules/ ...",
        "  src/",
        "    a.py",
        "    c.ts",
        "    deep/",
        "      b.py",
        "  vendor/",
        "    lib.py",
        "[1 directories not opened; LS one of them, or Glob, to see more]",
    ]
    assert "a.py" not in tree("LS", path="src", ignore=["*.py"]).text
    assert "deep" not in tree("LS", path="src", ignore=["deep"]).text


def test_ls_is_bounded(bench: Bench) -> None:
    for d in range(40):
        for n in range(80):
            bench.file(f"d{d:02}/f{n:02}")
    lines = bench("LS", path=".").text.splitlines()
    assert len(lines) < 300 and "    [70 more entries]" in lines and "  d39/ ..." in lines
    (bench.root / "none").mkdir()
    assert bench("LS", path="none").text == "none/\n(empty)"


def test_ls_of_what_is_no_directory(bench: Bench) -> None:
    bench.file("file")
    assert "is a file" in bench.fails("LS", path="file")
    assert "Near it: file" in bench.fails("LS", path="flie")


def test_a_cancelled_listing_ends(bench: Bench) -> None:
    bench.ctx.cancel.cancel()
    with pytest.raises((CancelledError, ToolError)):
        bench("LS", path=".")


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ({"-C": 2, "path": "src/a.py"}, "1 found"),
        ({"head_limit": 1}, "3 found"),
        ({"output_mode": "count"}, "3 found"),
        ({"output_mode": "files_with_matches"}, "2 found"),
    ],
)
def test_the_number_found_is_that_of_the_matches(tree: Bench, more: dict[str, Any], found: str) -> None:
    arguments = {"output_mode": "content", "pattern": "needle", **more}
    assert short_result(tree("Grep", **arguments).display) == found


@pytest.mark.parametrize("with_rg", [True, False])
def test_a_match_in_a_line_of_megabytes_is_shown_with_its_place(
    bench: Bench, request: pytest.FixtureRequest, with_rg: bool
) -> None:
    if not with_rg:
        request.getfixturevalue("without_rg")
    bench.file("a.js", "first\n" + "é" * 1_000_000 + "NEEDLE" + "y" * 999_994 + "\nlast needle\n")
    text = bench("Grep", pattern="needle", output_mode="content", **{"-i": True}).text
    assert "a.js:2:… " in text and "éNEEDLEy" in text
    assert " … [column 1,000,001 of 2,000,000 characters in this line]\na.js:3:last needle" in text
    assert len(text) < 1_000
    alone = bench("Grep", pattern="x?NEEDLE", path="a.js", output_mode="content", **{"-C": 1}).text
    assert "1-first\n2:… éé" in alone and "[column 1,000,001 of" in alone


def test_a_long_line_of_context_does_not_state_a_false_length(bench: Bench) -> None:
    bench.file("a.js", "x" * 100_000 + "\nNEEDLE\n")
    text = bench("Grep", pattern="NEEDLE", output_mode="content", **{"-B": 1}).text
    assert "xxx … [the rest of this long line is not shown]\n" in text and "more characters" not in text


def test_a_line_of_which_a_search_shows_a_part_was_not_read(bench: Bench) -> None:
    bench.file("a.js", "x" * 5_000 + "NEEDLE\n")
    bench("Grep", pattern="NEEDLE", output_mode="content")
    assert "not read" in bench.fails("Write", file_path="a.js", content="y\n")


def test_ls_of_a_large_tree_shows_few_names_of_each_nested_folder(bench: Bench) -> None:
    for n in range(70):
        bench.file(f"fonts/f{n:02}.ttf")
        bench.file(f"skills/s{n:02}/SKILL.md")
    bench.file("tools/run.py")
    text = bench("LS", path=".").text
    assert "    f09.ttf\n    [60 more entries]" in text and "    [60 more entries]\n  tools/\n    run.py" in text
    assert len(text) < 1_000
    whole = bench("LS", path="fonts").text
    assert "f59.ttf\n  [10 more entries]" in whole


def test_ls_shows_a_small_tree_whole(bench: Bench) -> None:
    for n in range(40):
        bench.file(f"src/m{n:02}.py")
    assert "m39.py" in bench("LS", path=".").text
