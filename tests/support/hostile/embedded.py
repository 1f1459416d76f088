"""Repositories inside a repository, each with a configuration that starts a program when git enters it.

The outer repository is plain: only what is embedded is hostile. Each is a submodule in the index and in the last
commit, its files differ from its own index, and it is entered by `git add --all` and `git status`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from tests.support.hostile.settings import put
from tests.support.repositories import git

Variant = Callable[[Path, str], None]
VARIANTS: dict[str, Variant] = {}


def variant(build: Variant) -> Variant:
    """Add a variant: a function of the inner repository and the program that must not run."""
    VARIANTS[build.__name__] = build
    return build


def embed(root: Path, evil: str, names: tuple[str, ...] = ()) -> None:
    """Add the inner repositories (all, or those named) to the repository at `root`; `evil` is the program."""
    put(root / "a.txt", "one\n")
    for name in names or VARIANTS:
        make_inner(root / name, evil, VARIANTS[name])
    # By plumbing, as `git add` might run what it is to find later.
    for name in names or VARIANTS:
        commit = git(root / name, "rev-parse", "HEAD").strip()
        git(root, "update-index", "--add", "--cacheinfo", f"160000,{commit},{name}")
    git(root, "add", "a.txt")
    git(root, "commit", "-qm", "embedded")
    put(root / "a.txt", "two\n")
    put(root / "new.txt", "new\n")


def make_inner(inner: Path, evil: str, build: Variant) -> None:
    inner.mkdir(parents=True)
    git(inner, "init", "-q", "-b", "main")
    put(inner / ".gitattributes", "* filter=evil diff=evil merge=evil\n")
    put(inner / "f.txt", "one\n")
    git(inner, "add", "-A")
    git(inner, "commit", "-qm", "one")
    change(inner / "f.txt")
    put(inner / "untracked.txt", "new\n")
    build(inner, evil)


def change(file: Path) -> None:
    """Change a file so that git has to read it: of the same size, and at another time."""
    put(file, "two\n")
    os.utime(file, (1, 1))


def configure(inner: Path, *pairs: str) -> None:
    for pair in pairs:
        key, _, value = pair.partition("=")
        git(inner, "config", key, value)


@variant
def clean_filter(inner: Path, evil: str) -> None:
    configure(inner, f"filter.evil.clean={evil}")


@variant
def filter_process(inner: Path, evil: str) -> None:
    configure(inner, f"filter.evil.process={evil}", "filter.evil.required=true")


@variant
def file_system_monitor(inner: Path, evil: str) -> None:
    configure(inner, f"core.fsmonitor={evil}")


@variant
def hooks_elsewhere(inner: Path, evil: str) -> None:
    for name in ("post-index-change", "fsmonitor-watchman", "post-checkout", "reference-transaction"):
        put(inner / "hooks" / name, f"#!/bin/sh\nexec {evil}\n").chmod(0o755)
    configure(inner, f"core.hooksPath={inner}/hooks", f"filter.evil.clean={evil}")


@variant
def pager_and_diffs(inner: Path, evil: str) -> None:
    configure(
        inner, f"core.pager={evil}", f"pager.status={evil}", f"diff.external={evil}", f"diff.evil.textconv={evil}",
        f"diff.evil.command={evil}", f"filter.evil.clean={evil}",
    )  # fmt: skip


@variant
def promisor_with_a_helper(inner: Path, evil: str) -> None:
    blob = git(inner, "rev-parse", "HEAD:f.txt").strip()
    (inner / ".git/objects" / blob[:2] / blob[2:]).unlink()
    configure(
        inner, "core.repositoryFormatVersion=1", "extensions.partialClone=origin", f"remote.origin.url=ext::{evil} %S",
        "remote.origin.promisor=true", "protocol.ext.allow=always", f"core.sshCommand={evil}",
        f"credential.helper={evil}", f"filter.evil.clean={evil}",
    )  # fmt: skip


@variant
def included_configuration(inner: Path, evil: str) -> None:
    put(inner / "more", f'[filter "evil"]\n\tclean = {evil}\n[core]\n\tfsmonitor = {evil}\n')
    configure(inner, f"include.path={inner}/more")


@variant
def conditional_include(inner: Path, evil: str) -> None:
    put(inner / "more", f'[filter "evil"]\n\tclean = {evil}\n')
    configure(inner, f"includeIf.gitdir:**.path={inner}/more")


@variant
def configuration_of_the_worktree(inner: Path, evil: str) -> None:
    configure(inner, "extensions.worktreeConfig=true")
    put(inner / ".git/config.worktree", f'[filter "evil"]\n\tclean = {evil}\n')


@variant
def attributes_in_its_git_folder(inner: Path, evil: str) -> None:
    put(inner / ".git/info/attributes", "* filter=hidden\n")
    configure(inner, f"filter.hidden.clean={evil}")


@variant
def git_file_that_points_elsewhere(inner: Path, evil: str) -> None:
    configure(inner, f"filter.evil.clean={evil}", f"core.fsmonitor={evil}")
    shutil.move(inner / ".git", inner.parent / f"{inner.name}.data")
    put(inner / ".git", f"gitdir: ../{inner.name}.data\n")


@variant
def work_tree_elsewhere(inner: Path, evil: str) -> None:
    configure(inner, f"core.worktree={inner}", f"filter.evil.clean={evil}")


@variant
def repository_in_a_repository(inner: Path, evil: str) -> None:
    make_inner(inner / "deep", evil, VARIANTS["clean_filter"])
    commit = git(inner / "deep", "rev-parse", "HEAD").strip()
    git(inner, "update-index", "--add", "--cacheinfo", f"160000,{commit},deep")
    git(inner, "commit", "-qm", "deep")
    change(inner / "deep/f.txt")


@variant
def declared_submodule(inner: Path, evil: str) -> None:
    """The work tree says how far git is to look into it."""
    configure(inner, f"filter.evil.clean={evil}")
    name = inner.name
    lines = f'[submodule "{name}"]\n\tpath = {name}\n\turl = ext::{evil}\n\tignore = none\n'
    put(inner.parent / ".gitmodules", lines)
