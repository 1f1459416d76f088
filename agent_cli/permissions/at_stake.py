"""What a command line would destroy, as marks to compare later: whether it is still what a question showed.

Files are told apart by size, time and number, which costs no reading. Git is asked as for the facts of a question.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from agent_cli.permissions.destructive import Danger, dangers
from agent_cli.permissions.git.use import Use
from agent_cli.permissions.impact import GitReader, expand_words
from agent_cli.permissions.shell.analysis import analyse

# A tree with more is compared as far as this goes.
_MOST = 5_000
_SECONDS = 2.0
_FILES = ("delete", "tree", "overwrite", "attributes")


def at_stake(command: str, cwd: str, home: str, git: GitReader) -> dict[str, str]:
    """A mark for each file, and each ref of git, that a command line would take or replace. Never raises."""
    marks: dict[str, str] = {}
    for danger in dangers(analyse(command, cwd, home)):
        for place in danger.part.cwds or ():
            try:
                for name, mark in _marks(danger, os.path.normpath(os.path.join(place, danger.folder)), git):
                    if len(marks) < _MOST:
                        marks[name] = mark
            except (OSError, LookupError, ValueError):
                continue
    return marks


def reader(root: str, env: Mapping[str, str], use: Use) -> GitReader:
    """What asks git here, with the time that comparing may take."""
    return GitReader(root, env, use, _SECONDS)


def _marks(danger: Danger, cwd: str, git: GitReader) -> Iterator[tuple[str, str]]:
    if danger.kind in _FILES:
        for path in expand_words(danger.words, cwd):
            yield path, _mark(path)
            # What a link leads to is what an overwriting command changes.
            if danger.kind == "overwrite" and Path(path).is_symlink():
                yield os.path.realpath(path), _mark(os.path.realpath(path))
            if danger.kind in ("tree", "attributes"):
                yield from _below(path)
    elif danger.kind in ("restore", "reset", "clean"):
        top = git.ask(cwd, "rev-parse", "--show-toplevel").rstrip("\n")
        yield "HEAD", git.ask(cwd, "rev-parse", "HEAD").strip()
        names = git.ask(top, "status", "--porcelain", "-z", "--no-renames", "--untracked-files=all")
        for entry in names.split("\0"):
            if len(entry) > 3 and (danger.kind == "clean" or not entry.startswith("??")):
                path = os.path.join(top, entry[3:])
                yield path, f"{entry[:2]} {_mark(path)}"
    else:
        refs = "refs/stash" if danger.kind == "stash" else "refs/heads" if danger.kind == "branch" else "refs"
        yield refs, git.ask(cwd, "for-each-ref", "--format=%(objectname) %(refname)", refs)


def _below(path: str) -> Iterator[tuple[str, str]]:
    if Path(path).is_symlink():
        return
    count = 0
    for here, folders, files in os.walk(path):
        folders.sort()
        for name in sorted(files):
            count += 1
            if count > _MOST:
                return
            inner = os.path.join(here, name)
            yield inner, _mark(inner)


def _mark(path: str) -> str:
    try:
        state = os.lstat(path)
    except (OSError, ValueError):
        return "nothing"
    if stat.S_ISDIR(state.st_mode):
        return "directory"
    return f"{state.st_mode} {state.st_size} {state.st_mtime_ns} {state.st_ino}"
