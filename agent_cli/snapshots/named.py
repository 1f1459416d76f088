"""The files that a call names, beside those that a snapshot of its folder has: written ones, and what it would destroy.

An ignored file is in no snapshot of the folder, nor is one outside of it. Where a call writes it, where a command names
it, or where a destructive command takes the folder it is in, it is kept all the same, within bounds.
"""

from __future__ import annotations

import glob
import os
import stat
import time
from collections.abc import Iterable, Iterator
from itertools import islice

from agent_cli.permission.destructive import Danger, dangers
from agent_cli.permission.shell import analyse
from agent_cli.permission.shell_values import Part, Word
from agent_cli.snapshots.scan import MOST_BELOW, Bounds
from agent_tools.base import Effect
from agent_tools.clipping import counted
from agent_tools.values import Value

_MOST_NAMED = 200
_WALK_SECONDS = 0.3
_TAKEN = ("delete", "tree", "overwrite", "attributes")
_ELSEWHERE = {"stash": "stash entries", "branch": "branches", "push": "pushes", "unpush": "pushes"}


class Named(Value):
    """Absolute paths of files. short: folders whose files are not listed, each with why. elsewhere: what a command
    destroys that is no file. cleans: folders in which a `git clean` deletes ignored files. history: what is deleted of
    git's own folders."""

    files: tuple[str, ...] = ()
    short: tuple[tuple[str, str], ...] = ()
    elsewhere: tuple[str, ...] = ()
    cleans: tuple[str, ...] = ()
    history: tuple[str, ...] = ()


def target_files(effects: Iterable[Effect], cwd: str, home: str, roots: tuple[str, ...], bounds: Bounds) -> Named:
    """What the effects of a call name. Never raises for a command that cannot be read."""
    files: dict[str, None] = {}
    short: dict[str, str] = {}
    elsewhere: list[str] = []
    cleans: list[str] = []
    history: list[str] = []
    for effect in effects:
        if effect.kind == "write":
            files[effect.target] = None
        elif effect.kind == "run":
            analysis = analyse(effect.target, cwd, home)
            found = dangers(analysis)
            for part in analysis.parts:
                for path in _words(part, roots):
                    files[path] = None
            for danger in found:
                if danger.kind in _ELSEWHERE:
                    elsewhere.append(_ELSEWHERE[danger.kind])
                elif danger.kind == "clean" and {"x", "X"} & danger.flags:
                    cleans += danger.part.cwds or ()
                elif danger.kind in _TAKEN:
                    for target in _targets(danger):
                        below, why, gits = _below(target, bounds)
                        history += gits if danger.kind in ("delete", "tree") and not _chooses(danger) else []
                        if why:
                            short[target] = why
                        files.update(dict.fromkeys(below))
    told = (tuple(dict.fromkeys(found)) for found in (elsewhere, cleans, history))
    return Named(tuple(files), tuple(short.items()), *told)


def _words(part: Part, roots: tuple[str, ...]) -> Iterator[str]:
    """The files in the folders worked in that a simple command names, and those anywhere that it is redirected to."""
    words = [w for w in part.words[1:] if not w.why and not w.pattern]
    written = [r.target for r in part.redirects if not r.why and r.kind not in ("read", "network")]
    for start in part.cwds or ():
        for word in islice(words, _MOST_NAMED):
            text = word.text.partition("=")[2] if word.text.startswith("-") else word.text
            path = os.path.normpath(os.path.join(start, text)) if text and "\0" not in text else ""
            if path and any(path.startswith(f"{r.rstrip('/')}/") for r in roots) and _is_file(path):
                yield _real(path)
        for target in written:
            path = _real(os.path.normpath(os.path.join(start, target)))
            if target and "\0" not in target and not path.startswith(("/dev/", "/proc/")) and not _is_folder(path):
                yield path


def _targets(danger: Danger) -> Iterator[str]:
    for start in danger.part.cwds or ():
        for word in danger.words:
            yield from _expanded(word, os.path.normpath(os.path.join(start, danger.folder)))


def _expanded(word: Word, cwd: str) -> list[str]:
    if word.why or "\0" in word.text:
        return []
    whole = os.path.join(glob.escape(cwd), word.text)
    matches = list(islice(glob.iglob(whole), MOST_BELOW)) if word.pattern else []
    return [os.path.normpath(m) for m in matches] or [os.path.normpath(os.path.join(cwd, word.text))]


def _chooses(danger: Danger) -> bool:
    """Whether a `find` deletes only what fits its conditions."""
    return "~" in danger.flags and any(w.text[:1] == "-" and w.text != "-delete" for w in danger.part.words)


def _below(target: str, bounds: Bounds) -> tuple[list[str], str, list[str]]:
    """The files at and below a path, links not followed; why that is not all of them; and git's own folders there."""
    if ".git" in target.split("/"):
        return [], "", [target] if os.path.lexists(target) else []
    if not _is_folder(target):
        return ([_real(target)] if os.path.lexists(target) else []), "", []
    found: list[str] = []
    gits: list[str] = []
    size = 0
    until = time.monotonic() + _WALK_SECONDS
    for here, folders, names in os.walk(target):
        gits += [os.path.join(here, f) for f in folders if f == ".git"]
        folders[:] = [f for f in folders if f != ".git"]
        for name in names:
            path = os.path.join(here, name)
            try:
                size += os.lstat(path).st_size
            except OSError:
                continue
            found.append(_real(path))
        if len(found) > MOST_BELOW:
            return [], f"more than {counted(MOST_BELOW, 'file')}", gits
        if size > bounds.total:
            return [], f"more than {bounds.total / 1e6:.0f} MB", gits
        if time.monotonic() > until:
            return [], "too many to look through", gits
    return found, "", gits


def _real(path: str) -> str:
    """The path with the links of its folders followed, and itself not."""
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))  # noqa: PTH120


def _is_file(path: str) -> bool:
    try:
        mode = os.lstat(path).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(mode) or stat.S_ISLNK(mode)


def _is_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False
