"""Repositories made with git that want a program run, somebody contacted, or something outside read.

Each builder gets a repository with a commit and a changed file that every filter and diff driver covers. PLAIN names
those that bring nothing: git may be used on them, and must still run nothing.
"""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.hostile.git_configurations import ENTRIES, HIDDEN
from tests.support.hostile.settings import Builder, link, marker, pipe, program, put, sparse
from tests.support.repositories import git

GIT_REPOSITORIES: dict[str, Builder] = {}
PLAIN: set[str] = set()
_WHO = ("-c", "user.name=a", "-c", "user.email=b")


def make(name: str, root: Path) -> Path:
    """Make the repository of a name in the folder `root`; where to work in it."""
    root.mkdir(parents=True, exist_ok=True)
    begin(root)
    return GIT_REPOSITORIES[name](root) or root


def begin(root: Path) -> None:
    git(root, "init", "-q", "-b", "main")
    put(root / ".gitattributes", "* filter=evil diff=evil merge=evil\n")
    put(root / "sub/.gitattributes", "* filter=evil diff=evil\n")
    put(root / "a.txt", "one\n")
    put(root / "sub/b.txt", "one\n")
    git(root, "add", ".")
    git(root, *_WHO, "commit", "-qm", "one")
    put(root / "a.txt", "two\n")
    put(root / "sub/b.txt", "two!\n")


def entry(build: Builder) -> Builder:
    GIT_REPOSITORIES[build.__name__] = build
    return build


def plain(build: Builder) -> Builder:
    PLAIN.add(build.__name__)
    return entry(build)


def config(root: Path, text: str | bytes, name: str = ".git/config") -> None:
    with (root / name).open("ab") as file:
        file.write(text.encode() if isinstance(text, str) else text)


def _by_table(name: str, text: bytes) -> None:
    def build(root: Path) -> None:
        evil = str(program(root, "evil.sh"))
        put(root / "hooks/post-index-change", f"#!/bin/sh\n{evil}\n").chmod(0o755)
        put(root.parent / "more", f'[filter "evil"]\n\tclean = {evil}\n')
        # A byte order mark counts at the beginning only.
        before = b"" if text.startswith("\ufeff".encode()) else (root / ".git/config").read_bytes()
        (root / ".git/config").write_bytes(before + text.replace(b"./evil.sh", evil.encode()))

    GIT_REPOSITORIES[f"config: {name}"] = build


for hidden, content in list(HIDDEN.items())[:18]:
    _by_table(hidden, content.replace(b"clean = ./ev\\", b"clean = ./ev\\"))
for section, line in ENTRIES[:44]:
    _by_table(f"{section} {line}".replace("/", "_"), f"[{section}]\n\t{line}\n".encode())


@entry
def config_of_a_worktree(root: Path) -> None:
    git(root, "config", "extensions.worktreeConfig", "true")
    put(root / ".git/config.worktree", f'[filter "evil"]\n\tclean = {program(root, "evil.sh")}\n')


@entry
def config_that_is_a_link(root: Path) -> None:
    put(root / "config", f'[filter "evil"]\n\tclean = {program(root, "evil.sh")}\n')
    (root / ".git/config").unlink()
    link(root / ".git/config", "../config")


@plain
def hooks_of_all_kinds(root: Path) -> None:
    for name in ("post-index-change", "post-checkout", "pre-commit", "reference-transaction", "fsmonitor-watchman"):
        program(root, f".git/hooks/{name}")


@entry
def submodule_with_a_filter(root: Path) -> None:
    begin_inner(root / "inner")
    git(root, "add", "inner")
    put(root / ".gitmodules", '[submodule "inner"]\n\tpath = inner\n\turl = ext::x\n\tignore = none\n\tupdate = !x\n')
    git(root, "add", ".gitmodules")
    git(root, *_WHO, "commit", "-qm", "inner")
    put(root / "inner/a.txt", "three\n")
    PLAIN.add("submodule_with_a_filter")


@entry
def submodule_in_a_submodule(root: Path) -> None:
    (root / "outer").mkdir()
    begin(root / "outer")
    begin_inner(root / "outer/inner")
    for folder, name in ((root / "outer", "inner"), (root, "outer")):
        git(folder, "add", name)
        git(folder, *_WHO, "commit", "-qm", "inner")
    put(root / "outer/inner/a.txt", "three\n")
    PLAIN.add("submodule_in_a_submodule")


@plain
def nested_repository_with_a_monitor(root: Path) -> None:
    begin_inner(root / "inner")


def begin_inner(inner: Path) -> None:
    inner.mkdir()
    begin(inner)
    evil = program(inner, "evil.sh")
    config(
        inner, f'[core]\n\tfsmonitor = {evil}\n[filter "evil"]\n\tclean = {evil}\n[diff "evil"]\n\ttextconv = {evil}\n'
    )


@entry
def linked_worktree_with_a_filter(root: Path) -> Path:
    git(root, "worktree", "add", "-q", "tree")
    config(root, f'[filter "evil"]\n\tclean = {program(root, "evil.sh")}\n')
    put(root / "tree/a.txt", "three\n")
    return root / "tree"


@entry
def pointer_to_a_repository_of_the_user(root: Path) -> None:
    (root.parent / "own").mkdir()
    begin(root.parent / "own")
    (root / ".git").rename(root / "git")
    put(root / ".git", f"gitdir: {root.parent}/own/.git\n")


@entry
def pointer_that_is_a_pipe(root: Path) -> None:
    (root / ".git").rename(root / "git")
    pipe(root / ".git")


@entry
def folder_that_is_a_link(root: Path) -> None:
    (root / ".git").rename(root.parent / "git")
    link(root / ".git", root.parent / "git")


@entry
def common_folder_elsewhere(root: Path) -> None:
    (root / "x").mkdir()
    begin_inner(root / "x/inner")
    put(root / ".git/commondir", "../x/inner/.git\n")


@entry
def head_as_a_pipe(root: Path) -> None:
    (root / ".git/HEAD").unlink()
    pipe(root / ".git/HEAD")


@entry
def head_of_300_megabytes(root: Path) -> None:
    with (root / ".git/HEAD").open("r+b") as file:
        file.truncate(300 << 20)


@entry
def config_as_a_pipe(root: Path) -> None:
    (root / ".git/config").unlink()
    pipe(root / ".git/config")


@entry
def config_without_end(root: Path) -> None:
    sparse(root / ".git/config")


@entry
def index_as_a_pipe(root: Path) -> None:
    (root / ".git/index").unlink()
    pipe(root / ".git/index")


@entry
def references_as_a_pipe(root: Path) -> None:
    pipe(root / ".git/packed-refs")


@entry
def excludes_as_a_pipe(root: Path) -> None:
    (root / ".git/info/exclude").unlink(missing_ok=True)
    pipe(root / ".git/info/exclude")


@entry
def branch_as_a_pipe(root: Path) -> None:
    (root / ".git/refs/heads/main").unlink()
    pipe(root / ".git/refs/heads/main")


@plain
def ignore_file_as_a_pipe(root: Path) -> None:
    pipe(root / "sub/.gitignore")


@entry
def objects_of_somebody_else(root: Path) -> None:
    (root.parent / "own").mkdir()
    begin(root.parent / "own")
    put(root / ".git/objects/info/alternates", f"{root.parent}/own/.git/objects\n")


@entry
def objects_that_are_a_link(root: Path) -> None:
    (root / ".git/objects").rename(root.parent / "objects")
    link(root / ".git/objects", root.parent / "objects")


@entry
def references_that_are_a_link(root: Path) -> None:
    (root / ".git/refs").rename(root.parent / "refs")
    link(root / ".git/refs", root.parent / "refs")


@plain
def names_that_look_like_options(root: Path) -> None:
    evil = program(root, "evil.sh")
    for name in ("-c", "--upload-pack=x", f"--ext-diff={evil.name}", "a\nb", "\x1b[2J", ":(attr:filter)", "'$(x)'"):
        put(root / name, "x\n")


@entry
def partial_clone_that_would_run_a_helper(root: Path) -> None:
    evil = program(root, "evil.sh")
    promisor(root, f"\turl = ext::{evil} %S\n")


@entry
def partial_clone_with_a_program_to_upload(root: Path) -> None:
    evil = program(root, "evil.sh")
    promisor(root, f"\turl = {root}/elsewhere\n\tuploadpack = {evil}\n")


@plain
def partial_clone_from_the_network(root: Path) -> None:
    promisor(root, "\turl = https://127.0.0.1:1/x.git\n")


def promisor(root: Path, lines: str) -> None:
    """Objects are missing, and the configuration says where to fetch them."""
    extension = "\trepositoryformatversion = 1\n[extensions]\n\tpartialClone = origin\n"
    config(root, f'[core]\n{extension}[remote "origin"]\n{lines}\tpromisor = true\n\tpartialclonefilter = blob:none\n')
    blob = git(root, "rev-parse", "HEAD:a.txt").strip()
    (root / ".git/objects" / blob[:2] / blob[2:]).unlink()


@plain
def addresses_of_large_files(root: Path) -> None:
    """The user's own filter covers it all, and would ask a server that the repository names."""
    evil = program(root.parent, "own.sh")
    put(root.parent / "home/.gitconfig", f'[filter "evil"]\n\tclean = {evil}\n\tsmudge = {evil}\n\trequired = true\n')
    put(root / ".lfsconfig", "[lfs]\n\turl = http://127.0.0.1:1/\n")


@plain
def repository_above_with_a_monitor(root: Path) -> None:
    """Git skips a `.git` that is none of its own, and goes up."""
    for path in sorted((root / ".git").rglob("*"), reverse=True):
        path.unlink() if not path.is_dir() else path.rmdir()
    above = root.parent
    git(above, "init", "-q", "-b", "main")
    config(above, f"[core]\n\tfsmonitor = {program(above, 'above.sh').rename(above / 'evil.sh')}\n")


@plain
def head_that_leads_out(root: Path) -> None:
    put(root / ".git/HEAD", "ref: refs/heads/../../../../../../etc/passwd\n")


@plain
def index_that_is_damaged(root: Path) -> None:
    put(root / ".git/index", b"DIRC" + os.urandom(200))


@plain
def index_that_is_split(root: Path) -> None:
    git(root, "update-index", "--split-index")


@entry
def bare_repository_to_work_in(root: Path) -> Path:
    inner = root / "docs"
    inner.mkdir()
    git(inner, "init", "-q", "--bare")
    config(inner, f"\tworktree = .\n\tfsmonitor = {program(root, 'evil.sh')}\n", "config")
    PLAIN.add("bare_repository_to_work_in")
    return inner


__all__ = ["GIT_REPOSITORIES", "PLAIN", "make", "marker"]
