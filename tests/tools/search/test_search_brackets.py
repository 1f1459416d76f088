"""Names with brackets and braces, as web frameworks use them, are found by Glob and by the glob of Grep."""

from __future__ import annotations

import pytest

from agent_tools.fs.paths import as_names, compile_glob
from agent_tools.search import ripgrep
from tests.support.tool_bench import Bench

FILES = (
    "app/[id]/page.tsx",
    "app/[id]/edit/page.tsx",
    "app/i/page.tsx",
    "app/[...slug]/page.tsx",
    "app/[[...slug]]/page.tsx",
    "app/[user-id]/page.tsx",
    "app/(group)/page.tsx",
    "app/@modal/(.)photo/[id]/page.tsx",
    "app/{x}/a.ts",
    "app/x/a.ts",
    "b/deep/[slug]/c/d.ts",
    "routes/[lang=lang]/+page.svelte",
    "z/{a,b}.txt",
    "z/a.txt",
    "[id].tsx",
    "src/one.c",
    "src/deep/src/two.h",
)


@pytest.fixture(params=["ripgrep", "without"])
def tree(request: pytest.FixtureRequest, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    if request.param == "without":
        monkeypatch.setattr(ripgrep, "find_rg", lambda ctx: None)
    elif ripgrep.find_rg(bench.ctx) is None:
        pytest.skip("NOT TESTED: there is no ripgrep here")
    for name in FILES:
        bench.file(name, "needle\n")
    return bench


def lines(text: str) -> list[str]:
    return sorted(line for line in text.split("\n") if not line.startswith("[ripgrep"))


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("app/[id]/page.tsx", ["app/[id]/page.tsx"]),
        ("app/[id]/*.tsx", ["app/[id]/page.tsx"]),
        ("app/[id]/**", ["app/[id]/edit/page.tsx", "app/[id]/page.tsx"]),
        ("app/[id]/*.{ts,tsx}", ["app/[id]/page.tsx"]),
        ("**/[slug]/**", ["b/deep/[slug]/c/d.ts"]),
        ("**/[slug]/*/*.ts", ["b/deep/[slug]/c/d.ts"]),
        ("app/[...slug]/page.tsx", ["app/[...slug]/page.tsx"]),
        ("app/[[...slug]]/page.tsx", ["app/[[...slug]]/page.tsx"]),
        ("app/[[...slug]]/*", ["app/[[...slug]]/page.tsx"]),
        ("app/[user-id]/*", ["app/[user-id]/page.tsx"]),
        ("app/(group)/*", ["app/(group)/page.tsx"]),
        ("app/@modal/**/[id]/page.tsx", ["app/@modal/(.)photo/[id]/page.tsx"]),
        ("routes/[lang=lang]/*", ["routes/[lang=lang]/+page.svelte"]),
        ("app/{x}/*", ["app/{x}/a.ts"]),
        ("z/{a,b}.txt", ["z/a.txt", "z/{a,b}.txt"]),
        ("[id].tsx", ["[id].tsx"]),
        # What is no name is a choice.
        ("app/[hij]/page.tsx", ["app/i/page.tsx"]),
        ("src/**/*.[ch]", ["src/deep/src/two.h", "src/one.c"]),
        ("**/src/*.[ch]", ["src/deep/src/two.h", "src/one.c"]),
        ("*.{c,h}", ["src/deep/src/two.h", "src/one.c"]),
        ("app/[!a-h]/page.tsx", ["app/i/page.tsx"]),
        ("app/{i,j}/page.tsx", ["app/i/page.tsx"]),
    ],
)
def test_names_with_brackets_are_found_first(tree: Bench, pattern: str, found: list[str]) -> None:
    assert lines(tree("Glob", pattern=pattern).text) == found
    assert lines(tree("Grep", pattern="needle", glob=pattern).text) == found


@pytest.mark.parametrize("start", ["./", "{root}/"])
def test_a_pattern_may_name_the_folder_in_which_it_is_searched(tree: Bench, start: str) -> None:
    pattern = f"{start.format(root=tree.root)}app/[id]/*.tsx"
    for arguments in ({}, {"path": "."}):
        assert lines(tree("Glob", pattern=pattern, **arguments).text) == ["app/[id]/page.tsx"]
        assert lines(tree("Grep", pattern="needle", glob=pattern, **arguments).text) == ["app/[id]/page.tsx"]
    said = tree("Grep", pattern="needle", glob="app/[id]/*.tsx", path="app").text
    assert "The glob is relative to app." in said


def test_a_folder_of_brackets_is_searched(tree: Bench) -> None:
    assert lines(tree("Glob", pattern="*.tsx", path="app/[id]").text) == [
        "app/[id]/edit/page.tsx",
        "app/[id]/page.tsx",
    ]
    assert lines(tree("Grep", pattern="needle", path="app/[id]", glob="page.*").text) == [
        "app/[id]/edit/page.tsx",
        "app/[id]/page.tsx",
    ]
    assert "app/" not in tree("LS", path=".", ignore=["app/[id]", "app"]).text


def test_an_empty_result_says_how_brackets_were_read(tree: Bench) -> None:
    said = tree("Glob", pattern="app/[zq]/page.tsx").text
    assert "No file matches" in said and "Brackets and braces were also read as names" in said
    assert "Brackets" not in tree("Glob", pattern="app/*/nothing.tsx").text


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("app/[id]/*.{ts,tsx}", r"app/\[id\]/*.{ts,tsx}"),
        ("[[...slug]]", r"\[\[...slug\]\]"),
        ("{x}/a", r"\{x\}/a"),
        ("{[a]}", r"\{\[a\]\}"),
        (r"\[a\]", ""),
        ("*.{a,b}", ""),
        ("{a", ""),
        ("plain", ""),
    ],
)
def test_globs_as_names(pattern: str, names: str) -> None:
    assert as_names(pattern) == names


@pytest.mark.parametrize("pattern", ["[a&&b]", "[a--b]", "[~~]", "[z-a]", "[[:alpha:]]", "[]a]", "[^]", "[a||b]"])
@pytest.mark.filterwarnings("error")
def test_odd_bracket_expressions_are_read(pattern: str) -> None:
    assert compile_glob(pattern).match(pattern)
