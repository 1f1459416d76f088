"""Memory files: find those that apply, read them with their imports, and build one text for the system prompt.

The user's own come first (`~/.claude`, `~/.config/agent`, `~/.agent`), then the project's from the workspace root down
to the working directory; in each folder AGENTS.md and CLAUDE.md, in the folder itself or in its `.agent` or `.claude`,
then the `.local` ones. Links to a file and files with the same text are read once; files in subfolders when something
below them is used (`NestedMemory`).

A project's imports have to be inside the project, with links followed; files outside need the user's consent
(`permissions/trust.py`), and what looks like a secret is never imported. Whatever is cut or left out is reported.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from agent_cli.config.prompts import split_front_matter
from agent_cli.kernel.run_environment import read_project
from agent_tools.base import ToolContext
from agent_tools.fs.safe_files import NotRegularFileError, read_start, resolve_inside
from agent_tools.lazy import lazy_imports
from agent_tools.record import Value
from agent_tools.text import counted, one_line

with lazy_imports():
    from agent_cli.knowledge import memory_imports  # few projects have any

MAX_NESTED_BYTES = 64 * 1024
MARK = '<project_memory path="'
# Content below these folders was written by third parties, for others.
FOREIGN_FOLDERS = frozenset((".git", "node_modules", "site-packages", ".venv", "venv"))


class NestedMemory:
    """The memory files sent in one conversation, in addition to `memory`, those of its start."""

    def __init__(self, sources: Sources, memory: Memory) -> None:
        self._sources = sources
        self._start = memory
        self._reader = MemoryReader(sources, MAX_NESTED_BYTES, [os.path.realpath(f.path) for f in memory.files])
        self._folders = set(folders_between(sources.root, sources.cwd))
        self._touched: set[str] = set()
        self._rules = list(memory.on_touch)
        self._sent: set[str] = set()

    @property
    def files(self) -> tuple[MemoryFile, ...]:
        """The files added since the start."""
        return tuple(self._reader.files)

    def all_texts(self) -> list[str]:
        """Return the texts of all added files, for a history that no longer contains them."""
        return [_text(file) for file in self._reader.files if file.text]

    def nested(self) -> NestedMemory:
        """Return the object for a sub-agent, which gets only the initial memory."""
        return NestedMemory(self._sources, self._start)

    def mark_sent(self, texts: Iterable[str]) -> None:
        """Mark the files in the messages of a restored conversation as sent."""
        for text in texts:
            if text.startswith(MARK):
                self._sent.add(text[len(MARK) :].partition('"')[0])

    def notices(self, ctx: ToolContext) -> list[str]:
        """Return the texts of memory files near what was used since the last call."""
        touched = [path for path in ctx.seen if path not in self._touched]
        self._touched.update(touched)
        before, skipped = len(self._reader.files), len(self._reader.skipped)
        for path in touched:
            self._read_folder(Path(path).parent, ctx)
            self._read_rules(Path(path))
        if ctx.workspace.cwd not in self._folders:
            self._read_folder(ctx.workspace.cwd, ctx)
        # The model already knows a file that it has read or written.
        new = [f for f in self._reader.files[before:] if f.text and os.path.realpath(f.path) not in ctx.seen]
        limit = f"{MAX_NESTED_BYTES // 1024} KiB"
        out = [s.path for s in self._reader.skipped[skipped:] if s.why == FULL]
        full = [f"(The memory file {name} was left out: {FULL} than {limit}. Read it.)" for name in out]
        return [*(_text(file) for file in new if _name(file) not in self._sent), *full]

    def _read_folder(self, folder: Path, ctx: ToolContext) -> None:
        """Read the memory files of a folder and of its parents inside the workspace."""
        root = next((r for r in ctx.workspace.roots if folder.is_relative_to(r)), None)
        if root is None or folder in self._folders:
            return
        for step in folders_between(root, folder):
            if step.name in FOREIGN_FOLDERS:
                return
            if step not in self._folders:
                self._folders.add(step)
                where = self._reader_name(step)
                self._reader.read_existing(memory_names(step, self._sources.names), f"for what is below {where}", root)

    def _reader_name(self, folder: Path) -> str:
        root = self._sources.root
        return f"{folder.relative_to(root)}/" if folder.is_relative_to(root) else f"{folder}/"

    def _read_rules(self, path: Path) -> None:
        """Read the rules that apply to this file."""
        if not self._rules or not path.is_relative_to(self._sources.root):
            return
        name = path.relative_to(self._sources.root).as_posix()
        for rule in [r for r in self._rules if memory_imports.matches_rule(r[1], name)]:
            self._rules.remove(rule)
            by_user = any(rule[0].is_relative_to(folder) for folder in self._sources.user_folders)
            self._reader.read(rule[0], f"a rule for {name}", None if by_user else self._sources.root, head=True)


def _name(file: MemoryFile) -> str:
    return file.shown.replace('"', "'")


def _text(file: MemoryFile) -> str:
    why = f"They are {file.why}." if file.by else f"They are for what you just touched: {file.why}."
    return f'{MARK}{_name(file)}">\n{file.text}\n</project_memory>\nInstructions of the user for work here. {why}'


MAX_BYTES = 64 * 1024
MAX_FILES = 100
MAX_DEPTH = 5
_AGENT_FOLDERS = (".agent", ".claude")
_HEADING = "# Project memory\nInstructions of the user for work here. They override your defaults."


class Sources(Value):
    """Search paths of memory files.

    user_folders: the folders with the user's own files, strongest last.
    outside: files outside the project that its files may import.
    readable: returns True if a file's content may be shown without asking.
    project: False if the project's files are not read.
    """

    cwd: Path
    root: Path
    names: tuple[str, ...] = ("AGENTS.md", "CLAUDE.md")
    home: Path | None = None
    user_folders: tuple[Path, ...] = ()
    outside: tuple[str, ...] = ()
    readable: Callable[[Path], bool] | None = None
    project: bool = True

    def load(self) -> Memory:
        """Load everything that applies from the start. Raises UsageError while a command keeps changing it."""
        return read_project(self.root, lambda: _load(self))


class MemoryFile(Value):
    """A file that was read.

    shown: its name for the model.
    size: its bytes.
    cut: how many of them were left out.
    by: the file that imports it.
    depth: the number of imports that led to it.
    """

    path: Path
    shown: str
    why: str
    text: str
    size: int
    cut: int = 0
    by: str = ""
    depth: int = 0


class Skipped(Value):
    """A file that was not read, and why."""

    path: str
    why: str
    by: str = ""


class Memory(Value):
    """The loaded files, in the order of the prompt.

    on_touch: rules that apply once a file of their `paths` is used.
    main_files: the main file of the user and of the project, even if it does not exist yet.
    """

    files: tuple[MemoryFile, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    on_touch: tuple[tuple[Path, tuple[str, ...]], ...] = ()
    main_files: tuple[tuple[str, str], ...] = ()

    def block(self) -> str:
        """Return the text for the system prompt; "" if there is none."""
        parts = [f"## {f.shown}{f' (imported by {f.by})' if f.by else ''}\n{f.text}" for f in self.files if f.text]
        if out := [s.path for s in self.skipped if s.why == FULL]:
            parts.append(f"(left out, as all memory files together may have {MAX_BYTES // 1024} KiB: {', '.join(out)})")
        return "\n\n".join([_HEADING, *parts]) if parts else ""

    @property
    def cuts(self) -> tuple[str, ...]:
        """Warnings for the user about files that did not fit, a phrase each."""
        cut = [f"{f.shown} was cut by {f.cut:,} bytes" for f in self.files if f.cut]
        return (*cut, *(f"{s.path} was left out" for s in self.skipped if s.why == FULL))

    def described(self, added: tuple[MemoryFile, ...] = ()) -> list[str]:
        """Describe the loaded and the skipped files for the user, with those that were added later."""
        every = [*self.files, *added]
        if not every:
            rows = ["No memory files here. /init in a session writes a first AGENTS.md; `#note` adds to it."]
        else:
            size = sum(len(f.text.encode()) for f in every)
            about = sum(estimate_tokens(f.text) for f in every)
            rows = [f"{counted(len(every), 'memory file')}, {size:,} of {MAX_BYTES:,} bytes, about {about:,} tokens"]
        names = [f"{'  ' * f.depth}{f.shown}" for f in every]
        width = max(map(len, names), default=0)
        for file, name in zip(every, names, strict=True):
            cut = f"; cut by {file.cut:,} bytes" if file.cut else ""
            rows.append(f"  {name:<{width}}  {file.size:>7,} bytes  {file.why}{cut}")
        for path, patterns in self.on_touch:
            rows.append(f"  {one_line(str(path))}: applies once a file that matches {', '.join(patterns)} is used")
        if self.skipped:
            rows.append("not loaded:")
        for skipped in self.skipped:
            rows.append(f"  {f'@{skipped.path} in {skipped.by}' if skipped.by else skipped.path}: {skipped.why}")
        return [one_line(line) for line in rows]

    def data(self) -> dict[str, Any]:
        """Return the same as JSON data; imported files are nested below the importing one."""
        top: list[dict[str, Any]] = []
        above: list[dict[str, Any]] = []
        for file in self.files:
            entry = {
                "path": str(file.path), "name": file.shown, "why": file.why, "bytes": file.size, "cut": file.cut,
                "tokens": estimate_tokens(file.text), "imports": [],
            }  # fmt: skip
            del above[file.depth :]
            (above[-1]["imports"] if above else top).append(entry)
            above.append(entry)
        return {
            "files": top,
            "bytes": sum(len(f.text.encode()) for f in self.files),
            "limit": MAX_BYTES,
            "waiting": [{"path": str(path), "paths": list(patterns)} for path, patterns in self.on_touch],
            "skipped": [{"path": s.path, "why": s.why, "by": s.by} for s in self.skipped],
        }


FULL = "the limit for all memory files is reached"
SECRET = "looks like a secret, or a rule keeps it from being read"


def user_folders(home: Path | None, config: str) -> tuple[Path, ...]:
    """Return the user's folders, strongest last. config: $XDG_CONFIG_HOME."""
    if home is None:
        return ()
    base = Path(config) if config.startswith("/") else home / ".config"
    return (home / ".claude", base / "agent", home / ".agent")


def _load(sources: Sources) -> Memory:
    reader = MemoryReader(sources, MAX_BYTES)
    for folder in sources.user_folders:
        # A path among the names is relative to the project; here it could lead anywhere.
        reader.read_existing((folder / n for n in sources.names if "/" not in n), "yours, for every project", None)
        reader.read_rules(folder / "rules", "your rule", None)
    for folder in folders_between(sources.root, sources.cwd) if sources.project else ():
        where = "the project's" if folder == sources.root else f"the project's, for {folder.name}/"
        reader.read_existing(memory_names(folder, sources.names), where, sources.root)
        if folder == sources.root:
            for agent_folder in _AGENT_FOLDERS:
                reader.read_rules(folder / agent_folder / "rules", "a rule of the project", sources.root)
    return reader.memory().replace(main_files=tuple(_find_main_files(sources)))


def _find_main_files(sources: Sources) -> Iterator[tuple[str, str]]:
    name = sources.names[0] if sources.names else "AGENTS.md"
    if sources.user_folders:
        yield "user", str(sources.user_folders[-1] / name)
    if sources.project:
        found = (path for path in memory_names(sources.root, sources.names) if os.path.lexists(path))
        yield "project", str(next(found, sources.root / name))


def folders_between(root: Path, folder: Path) -> list[Path]:
    """Return the folders from `root` down to `folder`; `root` alone if that is not below it."""
    if folder == root or root not in folder.parents:
        return [root]
    steps = folder.relative_to(root).parts
    return [root, *(root.joinpath(*steps[: i + 1]) for i in range(len(steps)))]


def memory_names(folder: Path, names: Sequence[str]) -> Iterator[Path]:
    """Yield the paths at which a folder's memory files may be, the local ones last."""
    names = [n for n in names if not n.startswith("/") and ".." not in n.split("/")]
    for name in names:
        yield folder / name
        for agent_folder in _AGENT_FOLDERS:
            yield folder / agent_folder / name
    for name in names:
        stem, dot, ending = name.rpartition(".")
        yield folder / (f"{stem}.local.{ending}" if dot else f"{name}.local")


class MemoryReader:
    """Reads memory files with their imports, up to `limit` bytes in all; nothing twice."""

    def __init__(self, sources: Sources, limit: int, known: Iterable[str] = ()) -> None:
        self._sources = sources
        self._limit = limit
        self._left = limit
        self.files: list[MemoryFile] = []
        self.skipped: list[Skipped] = []
        self._on_touch: list[tuple[Path, tuple[str, ...]]] = []
        # Resolved paths and texts, each with the name of its first occurrence.
        self._paths: dict[str, str] = dict.fromkeys(known, "")
        self._texts: dict[str, str] = {}

    def memory(self) -> Memory:
        return Memory(tuple(self.files), tuple(self.skipped), tuple(self._on_touch))

    def read_existing(self, paths: Iterable[Path], why: str, within: Path | None) -> None:
        """Read the files that exist. within: the folder that they must be in, with links followed."""
        for path in paths:
            if os.path.lexists(path):
                self.read(path, why, within)

    def read_rules(self, folder: Path, why: str, within: Path | None) -> None:
        """Read the markdown files below a folder of rules; those with `paths` apply once a matching file is used."""
        if not os.path.lexists(folder):
            return
        for path, patterns in memory_imports.find_rules(folder, within):
            if patterns:
                self._on_touch.append((path, patterns))
            else:
                self.read(path, why, within, head=True)

    def read(
        self, path: Path, why: str, within: Path | None, by: MemoryFile | None = None, *, head: bool = False
    ) -> None:
        """Read one file, then its imports. head: it may begin with front matter, which is dropped."""
        shown, importer = self._shown(path), by.shown if by else ""
        try:
            real = str(path if within is None else resolve_inside(path, within))
            real = os.path.realpath(real) if within is None else real
            if real in self._paths:
                if by is None and (same := self._paths[real]) and same != shown:
                    self.skipped.append(Skipped(shown, f"is the same file as {same}"))
                return
            if len(self.files) >= MAX_FILES:
                raise NotRegularFileError(f"is beyond {MAX_FILES} files")
            if real != str(path) and not self._may_show(real):
                raise NotRegularFileError(SECRET)
            data = read_start(real, self._left + 1)
            size = Path(real).stat().st_size
        except OSError as error:
            self._skip(
                shown, str(error) if isinstance(error, NotRegularFileError) else error.strerror or str(error), importer
            )
            return
        if b"\0" in data:
            self._skip(shown, "is not text", importer)
            return
        text = data[: self._left].decode("utf-8", "replace").removeprefix("\ufeff").strip()
        text = split_front_matter(text)[1].strip() if head else text
        if text in self._texts and text and len(data) <= self._left:
            self._paths[real] = self._texts[text]
            self._skip(shown, f"has the same text as {self._texts[text]}", importer)
            return
        self._paths[real] = shown
        if not self._left and data:
            self._skip(shown, FULL, importer)
            return
        cut = max(0, size - self._left) if len(data) > self._left else 0
        self._left = max(0, self._left - len(data))
        if cut:
            text += f"\n(cut here: memory files together may have {self._limit // 1024} KiB)"
        self._texts[text] = shown
        depth = by.depth + 1 if by else 0
        file = MemoryFile(path, shown, why, text, max(size, len(data)), cut, importer, depth)
        self.files.append(file)
        self._read_imports(file, within)

    def _read_imports(self, file: MemoryFile, within: Path | None) -> None:
        if "@" not in file.text:
            return
        for name in memory_imports.find_imports(file.text):
            where = memory_imports.resolve_anchor(name, file.path.parent)
            text = file.shown if memory_imports.is_path(name) else ""
            if file.depth >= MAX_DEPTH:
                self._left_out(name, f"is more than {MAX_DEPTH} imports deep", text)
            elif within is None or Path(where).is_relative_to(within):
                self._import(name, Path(self._at_home(where)), file, within, text)
            elif where in self._sources.outside:
                path = Path(self._at_home(where))
                # Imports of an outside file must be in the same folder.
                self._import(name, path, file, Path(os.path.realpath(path.parent)), text)
            else:
                self._left_out(name, "is outside the project, and you have not approved it", text)

    def _import(self, name: str, path: Path, file: MemoryFile, within: Path | None, text: str) -> None:
        """Follow one import. text: the importing file if this is certainly a path, so that a failure is reported."""
        root = self._sources.root
        if within is None and path.is_relative_to(root):
            # A user's file imports one of the project, whose own imports must stay in the project.
            within = root
        if within is not None and within != root:
            path = Path(os.path.realpath(path))
        try:
            real = path if within is None else resolve_inside(path, within)
        except (FileNotFoundError, NotADirectoryError):
            real = None
        except OSError as error:
            self._left_out(name, str(error) if isinstance(error, NotRegularFileError) else error.strerror or "", text)
            return
        if real is None or not os.path.isfile(real):  # noqa: PTH113 - the method raises where a parent is closed
            self._left_out(name, "is not there", text)
        elif not self._may_show(os.path.realpath(real)):
            self._skip(name, SECRET, file.shown)
        else:
            self.read(path, f"imported by {file.shown}", within, file)

    def _may_show(self, real: str) -> bool:
        return self._sources.readable is None or self._sources.readable(Path(real))

    def _left_out(self, name: str, why: str, text: str) -> None:
        if text:
            self._skip(name, why, text)

    def _at_home(self, place: str) -> str:
        home = self._sources.home
        return f"{home}{place[1:]}" if place.startswith("~/") and home is not None else place

    def _skip(self, shown: str, why: str, by: str) -> None:
        self.skipped.append(Skipped(one_line(shown), why, by))

    def _shown(self, path: Path) -> str:
        """Return a path for the prompt: relative to the workspace root, or to `~`."""
        root, home = self._sources.root, self._sources.home
        if root in path.parents:
            return one_line(str(path.relative_to(root)))
        if home is not None and home in path.parents:
            return one_line(f"~/{path.relative_to(home)}")
        return one_line(str(path))


def estimate_tokens(text: str) -> int:
    """Return the approximate number of tokens of a text."""
    return (len(text.encode("utf-8", "replace")) + 3) // 4
