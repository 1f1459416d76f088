"""Memory files in real folders: which count, what they import, how far that goes, and what is said of the rest."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_cli.knowledge.memory import FULL, MAX_BYTES, MAX_DEPTH, Memory, Sources, user_folders
from tests.support.hypothesis_examples import examples


def put(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def load(root: Path, cwd: str = ".", home: Path | None = None, config: str = "", **more: object) -> Memory:
    real = Path(os.path.realpath(root))
    sources = Sources(Path(os.path.realpath(root / cwd)), real, home=home, user_folders=user_folders(home, config))
    return sources.replace(**more).load()


def names(memory: Memory) -> list[str]:
    return [f.shown for f in memory.files]


def why(memory: Memory) -> dict[str, str]:
    return {s.path: s.why for s in memory.skipped}


def test_the_persons_own_come_first_then_from_the_root_down(tmp_path: Path, root: Path) -> None:
    home = tmp_path / "home"
    for place in (".claude/CLAUDE.md", ".config/agent/AGENTS.md", ".agent/AGENTS.md"):
        put(home / place, place)
    for place in ("AGENTS.md", "CLAUDE.md", "AGENTS.local.md", ".claude/CLAUDE.md", "a/b/CLAUDE.md", "c/AGENTS.md"):
        put(root / place, f"at {place}")
    memory = load(root, "a/b", home)
    assert names(memory) == [
        "~/.claude/CLAUDE.md", "~/.config/agent/AGENTS.md", "~/.agent/AGENTS.md",
        "AGENTS.md", "CLAUDE.md", ".claude/CLAUDE.md", "AGENTS.local.md", "a/b/CLAUDE.md",
    ]  # fmt: skip
    assert memory.block().startswith("# Project memory\n")
    assert "## a/b/CLAUDE.md\nat a/b/CLAUDE.md" in memory.block()


def test_xdg_config_home_moves_the_persons_folder(tmp_path: Path, root: Path) -> None:
    put(tmp_path / "xdg/agent/AGENTS.md", "moved")
    assert [f.text for f in load(root, home=tmp_path / "home", config=str(tmp_path / "xdg")).files] == ["moved"]


@pytest.mark.parametrize("kind", ["link", "copy", "import"])
def test_two_names_for_the_same_are_read_once(root: Path, kind: str) -> None:
    put(root / "AGENTS.md", "Be kind.\n")
    if kind == "link":
        (root / "CLAUDE.md").symlink_to("AGENTS.md")
    else:
        put(root / "CLAUDE.md", "Be kind.\n" if kind == "copy" else "@AGENTS.md\n")
    memory = load(root)
    assert memory.block().count("Be kind.") == 1
    assert kind == "import" or "AGENTS.md" in why(memory)["CLAUDE.md"]


def test_imports_follow_the_folder_of_the_file_they_stand_in(root: Path) -> None:
    put(root / "AGENTS.md", "Read @docs/a.md, then @ada and @types/node.\n")
    put(root / "docs/a.md", "More in @b.md and @../top.txt\n")
    put(root / "docs/b.md", "b")
    put(root / "top.txt", "top")
    memory = load(root)
    assert [(f.shown, f.by, f.depth) for f in memory.files] == [
        ("AGENTS.md", "", 0), ("docs/a.md", "AGENTS.md", 1), ("docs/b.md", "docs/a.md", 2), ("top.txt", "docs/a.md", 2),
    ]  # fmt: skip
    assert not memory.skipped


def test_circles_end_and_too_deep_is_reported(root: Path) -> None:
    put(root / "AGENTS.md", "@1.md")
    for n in range(1, 9):
        put(root / f"{n}.md", f"@AGENTS.md @{n + 1}.md @{n}.md")
    memory = load(root)
    assert names(memory) == ["AGENTS.md", *(f"{n}.md" for n in range(1, MAX_DEPTH + 1))]
    assert why(memory)[f"{MAX_DEPTH + 1}.md"] == f"is more than {MAX_DEPTH} imports deep"


def test_what_is_not_there_or_no_text_is_reported(root: Path) -> None:
    put(root / "AGENTS.md", "@gone.md @docs.md @bin.md @pipe.md")
    (root / "docs.md").mkdir()
    put(root / "bin.md", b"a\0b")
    os.mkfifo(root / "pipe.md")
    assert why(load(root)) == {
        "gone.md": "is not there", "docs.md": "is not there", "bin.md": "is not text", "pipe.md": "is not there",
    }  # fmt: skip


@pytest.mark.parametrize("way", ["../secret.md", "{out}", "~/secret.md", "inner.md"])
def test_a_projects_file_imports_nothing_from_outside(tmp_path: Path, root: Path, way: str) -> None:
    secret = put(tmp_path / "secret.md", "the secret")
    (root / "inner.md").symlink_to(secret)
    put(root / "AGENTS.md", f"@{way.format(out=secret)}")
    memory = load(root, home=tmp_path)
    assert "the secret" not in memory.block()
    assert len(memory.skipped) == 1


def test_what_the_person_agreed_to_is_imported_with_what_stands_beside_it(tmp_path: Path, root: Path) -> None:
    shared = put(tmp_path / "shared/team.md", "team @more.md @../secret.md @~/home.md")
    put(tmp_path / "shared/more.md", "more")
    put(tmp_path / "secret.md", "secret")
    put(tmp_path / "home.md", "home")
    put(root / "AGENTS.md", f"@../shared/team.md @{tmp_path}/secret.md")
    memory = load(root, home=tmp_path, outside=(str(shared),))
    assert [f.text.split()[0] for f in memory.files] == ["@../shared/team.md", "team", "more"]


def test_the_persons_own_file_may_import_from_anywhere_but_gives_that_to_no_project(tmp_path: Path, root: Path) -> None:
    home = tmp_path / "home"
    put(home / "notes/a.md", "note a")
    put(home / ".agent/AGENTS.md", f"@~/notes/a.md @{root}/theirs.md")
    put(root / "theirs.md", "theirs @~/notes/b.md")
    put(home / "notes/b.md", "note b")
    memory = load(root, home=home)
    assert names(memory) == ["~/.agent/AGENTS.md", "~/notes/a.md", "theirs.md"]


def test_what_looks_like_a_secret_is_not_imported(root: Path) -> None:
    put(root / "AGENTS.md", "@.env @keys.md")
    put(root / ".env", "KEY=1")
    put(root / "keys.md", "KEY=2")
    memory = load(root, readable=lambda path: path.name not in (".env", "keys.md"))
    assert "KEY" not in memory.block()
    assert "secret" in why(memory)["keys.md"]


def test_a_link_to_a_secret_is_not_memory(root: Path) -> None:
    put(root / ".env", "KEY=1")
    (root / "CLAUDE.md").symlink_to(".env")
    memory = load(root, readable=lambda path: path.name != ".env")
    assert not memory.files and "secret" in why(memory)["CLAUDE.md"]


def test_a_link_out_of_the_workspace_is_not_memory(tmp_path: Path, root: Path) -> None:
    put(tmp_path / "secret.md", "secret")
    (root / "AGENTS.md").symlink_to(tmp_path / "secret.md")
    memory = load(root)
    assert not memory.files
    assert "leads out" in why(memory)["AGENTS.md"]


def test_names_in_the_settings_lead_nowhere_else(tmp_path: Path, root: Path) -> None:
    secret = put(tmp_path / "secret.md", "secret")
    (tmp_path / "home/.agent").mkdir(parents=True)
    put(root / "docs/agents.md", "In a folder.")
    names = ("docs/agents.md", str(secret), "../secret.md", "../../secret.md", "/dev/zero")
    memory = load(root, home=tmp_path / "home", names=names)
    assert [f.text for f in memory.files] == ["In a folder."]


def test_all_together_are_bounded_and_the_rest_is_named(root: Path) -> None:
    put(root / "AGENTS.md", "a" * (MAX_BYTES - 10))
    put(root / "CLAUDE.md", "b" * 1000)
    put(root / "CLAUDE.local.md", "c")
    memory = load(root)
    assert [f.cut for f in memory.files] == [0, 990]
    assert why(memory)["CLAUDE.local.md"] == FULL
    assert "(cut here: memory files together may have 64 KiB)" in memory.block()
    assert "(left out, as all memory files together may have 64 KiB: CLAUDE.local.md)" in memory.block()
    assert memory.cuts == ("CLAUDE.md was cut by 990 bytes", "CLAUDE.local.md was left out")


def test_rules_in_files_of_their_own_hold_always_or_for_paths(tmp_path: Path, root: Path) -> None:
    put(root / ".claude/rules/style.md", "Tabs.")
    put(root / ".claude/rules/py/types.md", '---\npaths:\n  - "**/*.py"\n---\nTypes.')
    put(tmp_path / "outside/evil.md", "Evil.")
    (root / ".claude/rules/linked").symlink_to(tmp_path / "outside")
    (root / ".claude/rules/out.md").symlink_to(tmp_path / "outside/evil.md")
    memory = load(root)
    assert [f.text for f in memory.files] == ["Tabs."]
    assert [(path.name, patterns) for path, patterns in memory.on_touch] == [("types.md", ("**/*.py",))]


links = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=40)


@settings(max_examples=examples(60), deadline=None)
@given(links, st.lists(st.integers(0, 30_000), min_size=8, max_size=8))
def test_whatever_imports_what_each_file_is_read_once_and_the_bound_holds(
    edges: list[tuple[int, int]], sizes: list[int]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(os.path.realpath(name))
        for n, size in enumerate(sizes):
            targets = " ".join(f"@{b}.md" for a, b in edges if a == n)
            (root / f"{n}.md").write_text(f"{targets} {n} {'x' * size}")
        (root / "AGENTS.md").symlink_to("0.md")
        memory = load(root)
    assert len(set(names(memory))) == len(memory.files)
    assert all(f.depth <= MAX_DEPTH for f in memory.files)
    assert sum(len(f.text.encode()) for f in memory.files) <= MAX_BYTES + 60 * len(memory.files)
    text = " ".join(memory.cuts)
    assert all(f.shown in text for f in memory.files if f.cut)
