"""What a repository's git folder brings, found before git is used: by table, and by chance against git's own parser."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from random import Random

import pytest

from agent_cli.policy import git_inspection
from agent_cli.policy.git_inspection import (
    Entry,
    NotParsedError,
    git_folders,
    inspect_repository,
    is_harmless_entry,
    may_start_in_reads,
    parse_git_config,
    parse_simple_config,
    parse_with_git,
)
from agent_cli.policy.git_use import NotUsableError, git_to_read
from tests.support.hostile.git_configurations import HARMLESS, HIDDEN, HOSTILE
from tests.support.program import clean_env
from tests.support.repositories import git

CONFIGS = int(os.environ.get("FUZZ_CONFIGS", "150"))
SEED = int(os.environ.get("FUZZ_SEED", "1"))


def with_config(folder: Path, config: str | bytes) -> Path:
    (folder / ".git").mkdir(parents=True, exist_ok=True)
    (folder / ".git/config").write_bytes(config.encode() if isinstance(config, str) else config)
    return folder


def listed(file: Path) -> list[Entry] | None:
    """The entries of a file as the installed git lists them; None where it refuses the file."""
    done = subprocess.run(
        ["git", "config", "--file", str(file), "--no-includes", "--list", "-z"],
        cwd="/",
        capture_output=True,
        check=False,
    )
    if done.returncode:
        return None
    rows = [row.decode("utf-8", "surrogateescape").partition("\n") for row in done.stdout.split(b"\0")[:-1]]
    return [(key, value if has else None) for key, has, value in rows]


def test_there_are_sixty_and_more() -> None:
    assert len(HOSTILE) >= 100
    assert len(HIDDEN) >= 30


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_configuration_is_not_plain_and_git_is_not_used(tmp_path: Path, name: str) -> None:
    root = with_config(tmp_path, HOSTILE[name])
    assert inspect_repository(root).needs_trust, name
    for use in ("plain", "unknown"):
        with pytest.raises(NotUsableError):
            git_to_read(root, os.environ, use)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", HIDDEN)
def test_a_hidden_filter_is_one_that_git_would_run(tmp_path: Path, name: str) -> None:
    """The table above is about something: git reads the filter, and a status starts it unless it is kept from that."""
    root = tmp_path / "work"
    root.mkdir()
    git(root, "init", "-q")
    entries = parse_git_config(HOSTILE[name], root)
    assert any(key.startswith("filter.") and key.endswith(".clean") for key, _ in entries)
    found = listed(with_config(root, HOSTILE[name]) / ".git/config")
    assert entries == found


@pytest.mark.parametrize("config", HARMLESS)
def test_a_harmless_configuration_is_plain(tmp_path: Path, config: str) -> None:
    assert inspect_repository(with_config(tmp_path, config)).needs_trust == ()


@pytest.mark.parametrize(
    "config", [b"\0\xff" * 99, b"[core\n", b"[core]\n\t= x\n", b"x" * (1 << 19), b'[a "b]\n', b'[core]\n\tx = "y\n']
)
def test_a_configuration_that_git_cannot_read_is_not_plain(tmp_path: Path, config: bytes) -> None:
    assert "cannot be checked" in "".join(inspect_repository(with_config(tmp_path, config)).needs_trust)


def test_without_git_only_the_obvious_is_plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert inspect_repository(with_config(tmp_path / "a", "[core]\n\tbare = false\n")).needs_trust == ()
    assert inspect_repository(with_config(tmp_path / "b", "[core]\n\tbare = false # no\n")).needs_trust == (
        "config that cannot be checked: git is not installed",
    )


def test_a_git_of_the_repository_parses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evil = tmp_path / "bin/git"
    evil.parent.mkdir()
    evil.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    evil.chmod(0o755)
    monkeypatch.setenv("PATH", f"{evil.parent}:bin:.:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    assert inspect_repository(with_config(tmp_path, "[core] # x\n\tpager = x\n")).needs_trust == ("core.pager = x",)
    assert not (tmp_path / "ran").exists()


def test_what_git_writes_itself_needs_no_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening an ordinary clone starts no process."""
    main, copy = tmp_path / "main", tmp_path / "copy"
    main.mkdir()
    git(main, "init", "-q", "-b", "main")
    git(main, "config", "user.name", "Ann Example")
    git(main, "config", "user.email", "ann@example.org")
    git(main, "commit", "-qm", "x", "--allow-empty")
    git(tmp_path, "clone", "-q", str(main), str(copy))
    git(copy, "checkout", "-qb", "feature/x", "--track", "origin/main")
    git(copy, "remote", "add", "fork", "git@example.org:ann/a.git")

    def never(data: bytes, root: Path) -> list[Entry]:
        raise AssertionError(data)

    monkeypatch.setattr(git_inspection, "parse_with_git", never)
    assert inspect_repository(main).needs_trust == inspect_repository(copy).needs_trust == ()


_PIECES = (
    "[core]", '[filter "evil"]', "[filter.evil]", '[diff "a b"]', '[Remote "o"]', "[x-y]", '[a.b "c"]', "[", "]", '"',
    "\\", "\\\\", '\\"', "\\n", "#", ";", "=", " = ",
    *"clean fsmonitor pager url a B 7 ./evil.sh - . \ufeff \x0b \x0c \x1c é * +refs/*:x true \"q\"".split(" "),
    " ", "\t", "\n", "\r\n", "\r", "\n\n", "\n\t", "\0", "\u2028", "\u0085", "x y", "clean = ./evil.sh\n",
    "\tfsmonitor = x\n", "# x \\\n", "; y\n", "x = y # \\\n", "[a] [b]\n",
)  # fmt: skip


def plain_config(random: Random) -> str:
    """Lines as git writes them."""
    lines = []
    for _ in range(random.randrange(1, 4)):
        lines.append(random.choice(("[core]", '[remote "o"]', "[user]", "[X]", '[branch "a/b c"]')))
        for _ in range(random.randrange(3)):
            name = random.choice("abcXyz") + random.choice(("", "-k", "9"))
            lines.append(f"\t{name} = {random.choice(('x', 'a b', '+r/*:q', '[y]', '!x', '{}'))}")
    return "".join(f"{line}\n" for line in lines)


def some_config(random: Random) -> bytes:
    """By chance; half of them near what is plain, with at most one thing changed."""
    if random.random() < 0.5:
        base = plain_config(random)
        if random.random() < 0.3:
            return base.encode()
        at = random.randrange(len(base) + 1)
        return (base[:at] + random.choice(_PIECES) + base[at + random.randrange(2) :]).encode()
    return "".join(random.choice(_PIECES) for _ in range(random.randrange(1, 16))).encode()


@pytest.mark.timeout(120 + CONFIGS / 4)
def test_by_chance_it_is_read_as_git_reads_it(tmp_path: Path) -> None:
    """What is taken for obvious has just the entries that git lists; all else is what git says, or not plain."""
    random = Random(SEED)
    file = tmp_path / "config"
    taken = 0
    for _ in range(CONFIGS):
        data = some_config(random)
        file.write_bytes(data)
        truth, easy = listed(file), parse_simple_config(data)
        if easy is not None:
            taken += 1
            assert easy == truth, data
        try:
            by_git = parse_with_git(data, tmp_path)
        except NotParsedError:
            by_git = None
        assert by_git == truth, data
    assert taken > CONFIGS / 20


def test_pointers_have_to_lead_back(tmp_path: Path) -> None:
    main = tmp_path / "main"
    main.mkdir()
    git(main, "init", "-q", "-b", "main")
    git(main, "-c", "user.name=a", "-c", "user.email=b", "commit", "-qm", "x", "--allow-empty")
    git(main, "worktree", "add", "-q", "../tree")
    tree = tmp_path / "tree"
    assert inspect_repository(tree).needs_trust == ()
    assert git_folders(tree) == [main / ".git", main / ".git/worktrees/tree"]
    git(main, "config", "core.pager", "x")
    assert inspect_repository(tree).needs_trust == ("core.pager = x",)
    git(main, "config", "--unset", "core.pager")
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    for target in (main / ".git", main / ".git/worktrees/tree"):
        (foreign / ".git").write_text(f"gitdir: {target}\n")
        assert inspect_repository(foreign).needs_trust == (f".git leads to {target}, which does not lead back",)
    (foreign / ".git").unlink()
    (foreign / ".git").symlink_to(main / ".git")
    assert inspect_repository(foreign).needs_trust == (f".git is a link to {main}/.git",)


def test_a_submodule_is_where_its_repository_says(tmp_path: Path) -> None:
    main = tmp_path / "main"
    inner = main / ".git/modules/sub"
    inner.mkdir(parents=True)
    (main / "sub").mkdir()
    (main / "sub/.git").write_text("gitdir: ../.git/modules/sub\n")
    (inner / "config").write_text("[core]\n\tworktree = ../../../sub\n")
    assert inspect_repository(main / "sub").needs_trust == ()
    (inner / "config").write_text("[core]\n\tworktree = ../../..\n")
    assert len(inspect_repository(main / "sub").needs_trust) == 2


@pytest.mark.parametrize("pointer", ["", "gitdir: \0\n", "x" * 9000, "gitdir:\n"])
def test_a_pointer_to_nothing_is_no_repository(tmp_path: Path, pointer: str) -> None:
    (tmp_path / ".git").write_text(pointer)
    assert inspect_repository(tmp_path).checkout is None
    assert git_folders(tmp_path) == []


def test_reads_may_pass_what_never_starts_in_them() -> None:
    for key in ("core.pager", "core.hookspath", "alias.x", "gpg.program", "credential.helper", "remote.o.url"):
        assert not is_harmless_entry(key, "x::y")
        assert not may_start_in_reads(key)
    for key in (
        "filter.x.clean",
        "diff.external",
        "diff.x.textconv",
        "include.path",
        "core.worktree",
        "new.key",
        "format.pretty",
    ):
        assert may_start_in_reads(key)


def test_another_users_repository_is_not_plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = with_config(tmp_path / "work", "")
    env = clean_env(tmp_path / "home")
    monkeypatch.setenv("HOME", env["HOME"])
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 4321)
    assert inspect_repository(root).needs_trust == (f"{root}/.git, which belongs to another user",)
    (tmp_path / "home/.gitconfig").write_text(f"[safe]\n\tdirectory = {root}\n")
    assert inspect_repository(root).needs_trust == ()
    (tmp_path / "home/.gitconfig").write_text(f"[safe]\n\tdirectory = {root}\n\tdirectory =\n\tdirectory = /x/*\n")
    assert inspect_repository(root).needs_trust
