"""Memory files of subfolders, sent to the model once when it first uses a file near them, at the next round.

The context tells which files were read or changed, and the folder that commands start in. A message of the conversation
contains the text, so a resumed session knows what the model has already received.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from agent_cli.memory.files import FULL, Memory, MemoryFile, MemoryReader, Sources, between, memory_names
from agent_cli.memory.imports import fits
from agent_tools.base import ToolContext

ROOM = 64 * 1024
MARK = '<project_memory path="'
# Content below these was written by third parties, for others.
_FOREIGN = frozenset((".git", "node_modules", "site-packages", ".venv", "venv"))


class NestedMemory:
    """The memory files sent in one conversation. `memory`: those of its start."""

    def __init__(self, sources: Sources, memory: Memory) -> None:
        self._sources = sources
        self._start = memory
        self._reader = MemoryReader(sources, ROOM, [os.path.realpath(f.path) for f in memory.files])
        self._folders = set(between(sources.root, sources.cwd))
        self._touched: set[str] = set()
        self._rules = list(memory.on_touch)
        self._sent: set[str] = set()

    @property
    def files(self) -> tuple[MemoryFile, ...]:
        """The files added since the start."""
        return tuple(self._reader.files)

    def all_texts(self) -> list[str]:
        """Return the texts of all added files, for a history from which they were cut."""
        return [_text(file) for file in self._reader.files if file.text]

    def nested(self) -> NestedMemory:
        """Return the object for a sub-agent, which gets the initial memory only."""
        return NestedMemory(self._sources, self._start)

    def mark_sent(self, texts: Iterable[str]) -> None:
        """Mark the files in the messages of a restored conversation as sent."""
        for text in texts:
            if text.startswith(MARK):
                self._sent.add(text[len(MARK) :].partition('"')[0])

    def notices(self, ctx: ToolContext) -> list[str]:
        """Return texts for the model: memory files near what was used since the last call."""
        touched = [path for path in ctx.seen if path not in self._touched]
        self._touched.update(touched)
        before, skipped = len(self._reader.files), len(self._reader.skipped)
        for path in touched:
            self._look(Path(path).parent, ctx)
            self._match(Path(path))
        if ctx.workspace.cwd not in self._folders:
            self._look(ctx.workspace.cwd, ctx)
        # The model already knows a file that it read or wrote itself.
        new = [f for f in self._reader.files[before:] if f.text and os.path.realpath(f.path) not in ctx.seen]
        out = [s.path for s in self._reader.skipped[skipped:] if s.why == FULL]
        full = [f"(The memory file {name} was left out: {FULL} than {ROOM // 1024} KiB. Read it.)" for name in out]
        return [*(_text(file) for file in new if _name(file) not in self._sent), *full]

    def _look(self, folder: Path, ctx: ToolContext) -> None:
        """Read the memory files of a folder and of its parents inside the workspace."""
        root = next((r for r in ctx.workspace.roots if folder.is_relative_to(r)), None)
        if root is None or folder in self._folders:
            return
        for step in between(root, folder):
            if step.name in _FOREIGN:
                return
            if step not in self._folders:
                self._folders.add(step)
                where = self._reader_name(step)
                self._reader.take_all(memory_names(step, self._sources.names), f"for what is below {where}", root)

    def _reader_name(self, folder: Path) -> str:
        root = self._sources.root
        return f"{folder.relative_to(root)}/" if folder.is_relative_to(root) else f"{folder}/"

    def _match(self, path: Path) -> None:
        """Read the rules that apply to this file."""
        if not self._rules or not path.is_relative_to(self._sources.root):
            return
        name = path.relative_to(self._sources.root).as_posix()
        for rule in [r for r in self._rules if fits(r[1], name)]:
            self._rules.remove(rule)
            own = any(rule[0].is_relative_to(folder) for folder in self._sources.own)
            self._reader.take(rule[0], f"a rule for {name}", None if own else self._sources.root, head=True)


def _name(file: MemoryFile) -> str:
    return file.shown.replace('"', "'")


def _text(file: MemoryFile) -> str:
    why = f"They are {file.why}." if file.by else f"They are for what you just touched: {file.why}."
    return f'{MARK}{_name(file)}">\n{file.text}\n</project_memory>\nInstructions of the user for work here. {why}'
