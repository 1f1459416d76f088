"""The directories a conversation works in: which path a word means, whether it is inside, how it is shown.

A path is resolved through all its symbolic links once, before anything is decided about it, and the resolved path is
what is then opened, with no link followed (see `nofollow.py`).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from agent_tools.fs.encoding import fingerprint
from agent_tools.fs.files import UnusableFileError, exists, problem, read_file, remove_empty, remove_file, replace_file
from agent_tools.results import ToolError
from agent_tools.shell.output_file import Scratch
from agent_tools.text import one_line

__all__ = ["LIMIT", "ResolvedPath", "Workspace", "fingerprint"]

LIMIT = 50_000_000


class ResolvedPath(str):
    """The text of an argument that names a path, with the absolute path that it meant when it was resolved."""

    path: Path

    def __new__(cls, text: str, path: Path) -> ResolvedPath:
        self = super().__new__(cls, text)
        self.path = path
        return self


class Workspace:
    """Where a conversation works, and the only way its tools read and replace files.

    root: the directory of the project. extra: further directories that count as inside. cwd: where relative
    paths start and commands run; it may move during a conversation. start: where it was at first. scratch: outputs of
    commands, for reading. home: what ~ means; by default what the environment says. lent: folders outside that may be
    read: of skills. offered: whether the model has the tool of this name.
    """

    def __init__(self, root: Path, extra: tuple[Path, ...] = (), cwd: Path | None = None, *, home: str = "") -> None:
        self.root = Path(os.path.realpath(root))
        self.roots = (self.root, *(Path(os.path.realpath(e)) for e in extra))
        self.cwd = self.start = Path(os.path.realpath(cwd)) if cwd else self.root
        self._home = home
        self.scratch = Scratch()
        self.skill_folders: tuple[Path, ...] = ()
        self.offered: Callable[[str], bool] = lambda name: True

    def widen(self, folder: Path) -> None:
        """Let one more directory count as inside, for this workspace and those that are copied from it later."""
        self.roots = (*self.roots, Path(os.path.realpath(folder)))

    def copy(self) -> Workspace:
        """The same directories, with a working directory that moves by itself."""
        other = Workspace.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def resolve(self, text: str) -> Path:
        """The absolute path that `text` means, every symbolic link followed; it need not exist.

        What was resolved before stays what it was: `Resolved`. Raises ToolError for a text that cannot be a path, and
        for links in a circle.
        """
        if isinstance(text, ResolvedPath):
            return text.path
        if not text or "\0" in text:
            raise ToolError("The path contains a NUL character." if text else "The path is empty.")
        try:
            os.fsencode(text)
        except UnicodeEncodeError:
            raise ToolError("The path contains characters that no file name can have.") from None
        if self._home and (text == "~" or text.startswith("~/")):
            text = self._home + text[1:]
        # Not Path.expanduser, which raises where there is no home.
        absolute = self.cwd / os.path.expanduser(text)
        try:
            return Path(os.path.realpath(absolute, strict=True))
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENAMETOOLONG):
                raise problem(text, error) from None
        return _real(absolute)

    def resolved(self, text: str) -> ResolvedPath:
        """The text with the path that it means now. Raises ToolError as `resolve`."""
        return ResolvedPath(text, self.resolve(text))

    def inside(self, path: Path | str) -> bool:
        """Whether `path` lies in one of the directories, by components, after following links.

        Raises ToolError where links come and go meanwhile.
        """
        real = _real(path)
        return any(real.is_relative_to(root) for root in self.roots)

    def advice(self, tools: str, text: str) -> str:
        """The text after a blank, with those of the tools that are offered in place of {}; "" where none is."""
        there = [name for name in tools.split() if self.offered(name)]
        return f" {text.format(' or '.join(there))}" if there else ""

    def advised(self, error: UnusableFileError) -> ToolError:
        """The error with the advice that can be followed here."""
        return ToolError(f"{error}{self.advice(error.tools, error.advice)}")

    def may_read(self, path: Path | str) -> bool:
        """Whether `path` is inside, an output of a command that was kept for reading, or a file of a skill."""
        real = _real(path)
        return self.inside(real) or self.scratch.holds(real) or self.of_skill(real)

    def of_skill(self, real: Path) -> bool:
        """Whether a resolved path lies in the folder of a skill."""
        return any(real.is_relative_to(folder) for folder in self.skill_folders)

    def show(self, path: Path | str) -> str:
        """`path` for a user, on one line: relative to the root where it is inside."""
        return one_line(_below(Path(path), self.root))

    def spell(self, path: Path | str) -> str:
        """`path` for the model, on one line: the shortest form that `resolve` understands."""
        return one_line(_below(Path(path), self.cwd))

    def read(self, path: Path, limit: int = LIMIT) -> bytes:
        """The bytes of the regular file at a resolved path, at most `limit`. Raises ToolError for all else."""
        try:
            return read_file(path, limit)
        except UnusableFileError as error:
            raise self.advised(error) from None

    def read_if_there(self, path: Path) -> bytes | None:
        """As `read`, but None where nothing has that path."""
        return self.read(path) if exists(path) else None

    def replace(self, path: Path, data: bytes, before: bytes | None) -> None:
        """Write the file at a resolved path, whole or not at all; see `files.replace_file`."""
        try:
            replace_file(path, data, before)
        except UnusableFileError as error:
            raise self.advised(error) from None

    def remove(self, path: Path, held: bytes) -> None:
        """Remove the file at a resolved path, which must still hold `held`. Raises ToolError."""
        remove_file(path, held)

    def remove_empty(self, directories: Iterable[Path]) -> None:
        """Remove directories at resolved paths, in this order, as far as nothing is in them."""
        for path in directories:
            remove_empty(path)


def _real(path: Path | str) -> Path:
    try:
        return Path(os.path.realpath(path))
    except OSError:  # a link that came or went meanwhile
        raise ToolError(f"{one_line(str(path))} changed while it was looked at. Try again.") from None


def _below(path: Path, start: Path) -> str:
    return str(path.relative_to(start)) if path.is_relative_to(start) else str(path)
