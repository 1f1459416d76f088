"""Completions for the input line: commands after `/`, workspace files after `@`."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from agent_tools.base import ToolContext
from agent_tools.process.child import run_child
from agent_tools.record import Value
from agent_tools.search.ripgrep import find_rg, walk_files
from agent_tools.secret_patterns import without_secrets
from agent_tools.text import escape_controls, one_line

MOST, FILES = 50, 100_000
_MENTION = re.compile(r"(?:^|(?<=\s))@([^\s@]*)$")
_COMMAND = re.compile(r"/([\w:.-]*)$")
_LISTED = 64 << 20
_ARGUMENT = re.compile(r"/([\w:.-]+) ([^\s@]*)")


class Completion(Value):
    """An entry of the menu.

    start: where it is inserted, up to the cursor.
    place: index of an option to pick.
    """

    text: str
    help: str = ""
    start: int = 0
    place: int = 0


def complete(
    before: str,
    commands: Iterable[tuple[str, str]],
    files: Callable[[], tuple[str, ...]],
    values: Callable[[str], Iterable[str]] = lambda command: (),
) -> list[Completion]:
    """Return the completions for the text before the cursor, best first. values: arguments of a command."""
    if match := _COMMAND.fullmatch(before):
        typed = match[1].lower()
        names = [(name, text) for name, text in commands if typed in name.lower()]
        names.sort(key=lambda pair: (not pair[0].lower().startswith(typed), pair[0]))
        return [Completion(f"/{name} ", text) for name, text in names if f"/{name}" != before][:MOST]
    if match := _ARGUMENT.fullmatch(before):
        typed, start = match[2].lower(), match.start(2)
        fitting = [value for value in values(match[1]) if value.lower().startswith(typed) and value != match[2]]
        return [Completion(value, "", start) for value in fitting[:MOST]]
    if match := _MENTION.search(before):
        start = match.start(1) - 1
        return [Completion(f"@{name} ", "", start) for name in fuzzy_matches(match[1], files()) if name != match[1]]
    return []


def narrowed(typed: str, options: Iterable[tuple[str, str]]) -> list[Completion]:
    """Return the options whose label or description contains every typed word, in their order."""
    words = typed.lower().split()
    return [
        Completion(one_line(label), one_line(text), 0, place)
        for place, (label, text) in enumerate(options)
        if all(word in f"{label} {text}".lower() for word in words)
    ]


def fuzzy_matches(typed: str, names: Iterable[str]) -> list[str]:
    """Return the names that contain the typed letters in order.

    Best first: base name starts with them, base name contains them, path starts with or contains them, the rest; short
    names first.
    """
    if not typed:
        return sorted(names, key=lambda n: (n.count("/"), n))[:MOST]
    letters = re.compile(".*?".join(re.escape(c) for c in typed), re.IGNORECASE | re.DOTALL)
    low = typed.lower()

    def rank(name: str) -> tuple[int, int, str]:
        path = name.lower()
        base = path.rpartition("/")[2]
        fits = (base.startswith(low), low in base, path.startswith(low), low in path, True)
        return fits.index(True), len(name), name

    return sorted((n for n in names if letters.search(n)), key=rank)[:MOST]


class FileNames:
    """Workspace files that are not ignored, listed in the background on first use and after `forget`."""

    def __init__(self, root: Path, ctx: ToolContext, ready: Callable[[], None]) -> None:
        self._root, self._ctx, self._ready = root, ctx, ready
        self._names: tuple[str, ...] = ()
        self._reading = self._fresh = False

    def __call__(self) -> tuple[str, ...]:
        """Return the names known so far."""
        if not self._fresh and not self._reading:
            self._reading = True
            threading.Thread(target=self._read, daemon=True).start()
        return self._names

    def forget(self) -> None:
        """Mark the names as stale; they are used until they have been read again."""
        self._fresh = False

    def _read(self) -> None:
        found = tuple(
            name for name in self._list()[:FILES] if escape_controls(name) == name and not re.search(r"\s", name)
        )
        self._names, self._fresh, self._reading = found, True, False
        self._ready()

    def _list(self) -> list[str]:
        rg = find_rg(self._ctx)
        if rg is None:
            fresh = ToolContext(self._ctx.workspace, env=self._ctx.env)
            return [name for name, _ in zip(walk_files(self._root, False, fresh), range(FILES), strict=False)]
        env = {k: v for k, v in without_secrets(self._ctx.env).items() if k != "RIPGREP_CONFIG_PATH"}
        command = [rg, "--no-config", "--files", "--hidden", "--glob=!.git", "--null"]
        try:
            done = run_child(command, seconds=20, most=_LISTED, cwd=self._root, env=env)
        except (OSError, TimeoutError, OverflowError):
            return []
        return [os.fsdecode(name).removeprefix("./") for name in done.out.split(b"\0") if name]
