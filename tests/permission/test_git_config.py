"""Programs that a repository's git configuration names, found without starting git."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_cli.permission.git_config import git_folders, programs


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[core]\n\tfsmonitor = ./x.sh\n", "core.fsmonitor = ./x.sh"),
        ("[CORE] FSMonitor=./x.sh\n", "CORE.FSMonitor = ./x.sh"),
        ("[core]\n\thooksPath = .husky\n", "core.hooksPath = .husky"),
        ("[core]\npager = less\\\n -R\n", "core.pager = less -R"),
        ('[diff "x"]\n\ttextconv = sh\n', "diff.x.textconv = sh"),
        ("[diff.x]\n\ttextconv = sh\n", "diff.x.textconv = sh"),
        ("[diff]\n\texternal = sh\n", "diff.external = sh"),
        ('[filter "x]"]\n\tclean = sh\n', "filter.x].clean = sh"),
        ("[include]\n\tpath = ../x\n", "include.path = ../x"),
        ('[includeIf "gitdir:/"]\n\tpath = ../x\n', "includeIf.gitdir:/.path = ../x"),
        ('[credential "https://x"]\n\thelper = !sh\n', "credential.https://x.helper = !sh"),
        ("[alias]\n\tst = !sh\n", "alias.st = !sh"),
        ('[submodule "a"]\n\tupdate = !sh\n', "submodule.a.update = !sh"),
        ("[gpg]\n\tprogram = sh\n", "gpg.program = sh"),
        ("[core]\n\tsshCommand = sh\n", "core.sshCommand = sh"),
    ],
)
def test_a_program_is_found(tmp_path: Path, text: str, found: str) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/config").write_text(text)
    assert programs(tmp_path) == (found,)


@pytest.mark.parametrize(
    "text",
    [
        "", "[core]\n\tbare = false\n\tfsmonitor = true\n", "[alias]\n\tst = status\n", '[remote "o"]\n\turl = sh\n',
        "[core]\n\tworktree = ../../x\n", "; fsmonitor = x\n", '[submodule "a"]\n\tupdate = rebase\n', "\0\xff" * 99,
        '[branch "core.fsmonitor"]\n\tmerge = x\n',
    ],
)  # fmt: skip
def test_nothing_is_found_where_nothing_is_run(tmp_path: Path, text: str) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/config").write_text(text)
    assert programs(tmp_path) == ()


def test_the_configuration_of_worktrees_and_submodules_is_found(tmp_path: Path) -> None:
    main, tree = tmp_path / "main/.git", tmp_path / "tree"
    (main / "worktrees/tree").mkdir(parents=True)
    tree.mkdir()
    (tree / ".git").write_text(f"gitdir: {main}/worktrees/tree\n")
    (main / "worktrees/tree/commondir").write_text("../..\n")
    (main / "config").write_text("[core]\n\tpager = x\n")
    (main / "worktrees/tree/config.worktree").write_text("[core]\n\tfsmonitor = y\n")
    assert git_folders(tree) == [main, main / "worktrees/tree"]
    assert programs(tree) == ("core.pager = x", "core.fsmonitor = y")


def test_what_cannot_be_checked_is_named(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/config").symlink_to("/dev/zero")
    assert programs(tmp_path) == ("config that cannot be checked: is not a regular file",)


@pytest.mark.parametrize("pointer", ["", "gitdir: /dev/zero\n", "gitdir: \0\n", "x" * 9000, "gitdir: .git\n"])
def test_odd_pointers_are_harmless(tmp_path: Path, pointer: str) -> None:
    (tmp_path / ".git").write_text(pointer)
    assert programs(tmp_path) == ()
