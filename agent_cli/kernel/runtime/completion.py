"""What the input line completes: commands after `/`, their arguments, and workspace files after `@`."""

from __future__ import annotations

import heapq
import os
import re
import threading
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path

from agent_tools.base import ToolContext
from agent_tools.process.child import run_child
from agent_tools.record import Value
from agent_tools.search.ripgrep import find_rg, walk_files
from agent_tools.secret_patterns import without_secrets
from agent_tools.text import escape_controls, one_line

MAX_ENTRIES, MAX_FILES = 50, 100_000
_MENTION = re.compile(r"""(?:^|(?<=\s))@(?:"([^"\n]*)|([^\s@"]*))$""")
_COMMAND = re.compile(r"/([\w:.-]*)$")
_MAX_LIST_BYTES = 64 << 20
# Folders of generated files, which nobody mentions.
_CACHES = re.compile(r"(?:^|/)(?:__pycache__|node_modules|\.(?:mypy|pytest|ruff)_cache|\.tox|\.nox)/")
_UNTYPED = re.compile(r'[^\S ]|"')
_ARGUMENT = re.compile(r"/([\w:.-]+) ([^\n@]*)")
# An argument value and its description.
ArgumentValue = tuple[str, str]


class CommandEntry(Value):
    """A slash command for the menu.

    usage: its arguments; those without brackets are required.
    values: returns the values of its argument.
    strict: the argument is one of these values.
    """

    name: str
    help: str = ""
    usage: str = ""
    aliases: tuple[str, ...] = ()
    values: Callable[[], Iterable[ArgumentValue]] | None = None
    strict: bool = False

    @property
    def needs_words(self) -> bool:
        """Return True if it does nothing without an argument."""
        return bool(self.usage) and not self.usage.startswith("[")


class Completion(Value):
    """An entry of the menu.

    start: start of the text that it replaces, up to the cursor.
    index: index of an option to pick.
    runs: with it the line is complete, so that Enter runs it.
    first: Enter accepts it even if no key has selected it.
    """

    text: str
    help: str = ""
    start: int = 0
    index: int = 0
    runs: bool = False
    first: bool = False


def complete(before: str, commands: Iterable[CommandEntry], files: Callable[[], tuple[str, ...]]) -> list[Completion]:
    """Return the completions for the text before the cursor, best first. commands: in the order of the menu."""
    if match := _COMMAND.fullmatch(before):
        return _names(match[1].lower(), commands)[:MAX_ENTRIES]
    if match := _ARGUMENT.fullmatch(before):
        return _values(match[1], match[2], match.start(2), commands)[:MAX_ENTRIES]
    if match := _MENTION.search(before):
        typed = match[1] or match[2] or ""
        return [
            Completion(f'@"{name}" ' if " " in name else f"@{name} ", "", match.start())
            for name in fuzzy_matches(typed, files())
            if name != typed or " " in name
        ]
    return []


def _names(typed: str, commands: Iterable[CommandEntry]) -> list[Completion]:
    """Return the commands that match the typed letters: the exact name, those that begin with them, the others."""
    found: list[tuple[int, Completion]] = []
    for entry in commands:
        low = entry.name.lower()
        row = Completion(f"/{entry.name} ", entry.help, runs=not entry.needs_words, first=True)
        if low.startswith(typed):
            found.append((0 if low == typed else 1, row))
        elif typed and (alias := next((a for a in entry.aliases if a.startswith(typed)), "")):
            also = row.replace(text=f"/{alias} ", help=f"/{entry.name}: {row.help}")
            found.append((0 if alias == typed else 2, also))
        elif len(typed) > 1 and typed in low:
            found.append((3, row))
    return [row for _, row in sorted(found, key=lambda pair: pair[0])]


def _values(name: str, typed: str, start: int, commands: Iterable[CommandEntry]) -> list[Completion]:
    """Return the argument values that begin with the typed text, else those that contain it."""
    entry = next((e for e in commands if name in (e.name, *e.aliases)), None)
    if entry is None or entry.values is None:
        return []
    low = typed.lower()
    every = [(value, text) for value, text in entry.values() if value != typed or text]
    fitting = [pair for pair in every if pair[0].lower().startswith(low)]
    fitting = fitting or [pair for pair in every if all(w in " ".join(pair).lower() for w in low.split())]
    first = entry.strict and bool(typed)
    return [Completion(value, text, start, runs=not value.endswith(" "), first=first) for value, text in fitting]


def filter_options(typed: str, options: Iterable[tuple[str, str]]) -> list[Completion]:
    """Return the options whose label or description contains every typed word, in their order."""
    words = typed.lower().split()
    return [
        Completion(one_line(label), one_line(text), 0, index)
        for index, (label, text) in enumerate(options)
        if all(word in f"{label} {text}".lower() for word in words)
    ]


def fuzzy_matches(typed: str, names: Iterable[str]) -> list[str]:
    """Return the names that contain the typed letters in order.

    Best first: base name starts with them, base name contains them, path starts with or contains them, the rest; short
    names first.
    """
    known = tuple(names)
    if not typed:
        return list(_shallowest(known))
    letters = re.compile(".*?".join(re.escape(c) for c in typed), re.IGNORECASE | re.DOTALL)
    low = typed.lower()
    paths, bases = _lowered(known)
    # One after the other, as the first ones are usually enough: this runs for each key, over up to 100,000 names.
    ranks: tuple[Callable[[], list[str]], ...] = (
        lambda: [name for name, base in zip(known, bases, strict=True) if base.startswith(low)],
        lambda: [name for name, base in zip(known, bases, strict=True) if low in base],
        lambda: [name for name, path in zip(known, paths, strict=True) if path.startswith(low)],
        lambda: [name for name, path in zip(known, paths, strict=True) if low in path],
        lambda: [name for name in known if letters.search(name)],
    )
    found: dict[str, None] = {}
    for fits in ranks:
        found |= dict.fromkeys(heapq.nsmallest(2 * MAX_ENTRIES, fits(), key=lambda name: (len(name), name)))
        if len(found) >= MAX_ENTRIES:
            break
    return list(found)[:MAX_ENTRIES]


@lru_cache(1)
def _lowered(names: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Return the paths and the base names, in lower case."""
    paths = [name.lower() for name in names]
    return paths, [path.rpartition("/")[2] for path in paths]


@lru_cache(1)
def _shallowest(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(heapq.nsmallest(MAX_ENTRIES, names, key=lambda n: (n.count("/"), n)))


class FileNames:
    """Workspace files that are not ignored, listed in the background on first use and after `mark_stale`."""

    def __init__(self, root: Path, ctx: ToolContext, ready: Callable[[], None]) -> None:
        self._root, self._ctx, self._ready = root, ctx, ready
        self._names: tuple[str, ...] = ()
        self._is_reading = self._is_fresh = False

    def __call__(self) -> tuple[str, ...]:
        """Return the names known so far."""
        if not self._is_fresh and not self._is_reading:
            self._is_reading = True
            threading.Thread(target=self._read, daemon=True).start()
        return self._names

    def mark_stale(self) -> None:
        """Mark the names as stale; they are used until the new ones have been read."""
        self._is_fresh = False

    def _read(self) -> None:
        self._names, self._is_fresh, self._is_reading = mentionable_files(self._root, self._ctx), True, False
        self._ready()


def mentionable_files(root: Path, ctx: ToolContext) -> tuple[str, ...]:
    """Return the files below a folder that are not ignored, and whose names can be typed."""
    found = (n for n in _list_files(root, ctx)[:MAX_FILES] if escape_controls(n) == n and not _UNTYPED.search(n))
    return tuple(name for name in found if not _CACHES.search(name))


def _list_files(root: Path, ctx: ToolContext) -> list[str]:
    rg = find_rg(ctx)
    if rg is None:
        fresh = ToolContext(ctx.workspace, env=ctx.env)
        return [name for name, _ in zip(walk_files(root, False, fresh), range(MAX_FILES), strict=False)]
    env = {k: v for k, v in without_secrets(ctx.env).items() if k != "RIPGREP_CONFIG_PATH"}
    command = [rg, "--no-config", "--files", "--hidden", "--glob=!.git", "--no-require-git", "--null"]
    try:
        done = run_child(command, seconds=20, most=_MAX_LIST_BYTES, cwd=root, env=env)
    except (OSError, TimeoutError, OverflowError):
        return []
    return [os.fsdecode(name).removeprefix("./") for name in done.out.split(b"\0") if name]
