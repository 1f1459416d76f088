"""The directories of a conversation: resolve paths, check that they are inside, format them for display.

A path is resolved through all its symbolic links once, before the call is approved; the resolved path is then opened
without following links (see `files.py`).
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from agent_tools.lazy import lazy_imports
from agent_tools.record import Protocol
from agent_tools.results import ToolError
from agent_tools.shell.output_file import Scratch
from agent_tools.text import one_line

with lazy_imports():
    from agent_tools.fs import files  # no run without calls opens any

MAX_FILE_BYTES = 50_000_000


# The first name of a path, as shells of several systems read it. Names such as $userId are those of files.
_VARIABLE = r"(?:\$(?:([A-Z_][A-Z0-9_]*)|\{(\w+)\}|\([^/]*\)|env:\w+)|%[A-Za-z_]\w*%)(?=[/\\]|\Z)"


class ResolvedPath(str):
    """A path argument as written, with the absolute `path` that it resolved to."""

    path: Path

    def __new__(cls, text: str, path: Path) -> ResolvedPath:
        self = super().__new__(cls, text)
        self.path = path
        return self


class OpenBuffers(Protocol):
    """The files that an editor has open, with changes that it has not saved."""

    def current(self, path: Path, saved: bytes) -> bytes:
        """Return the content in the editor; `saved`, the content on disk, if the editor has no other."""

    def write(self, path: Path, data: bytes) -> bool:
        """Write the file in the editor; return False if it has to be written to disk."""


class SessionTemporaryFiles(Protocol):
    """The temporary files that a session shares with the commands in its sandbox."""

    def owns(self, path: Path | str) -> bool:
        """Return True if a path without links is one of them."""

    def is_free(self, path: Path | str) -> bool:
        """Return True if a path that does not exist would be one of them."""

    def wrote(self, path: Path | str) -> None:
        """Take what a tool just wrote at a path that was free or the session's."""

    def spelled(self, path: Path | str) -> str:
        """Return the path under which commands know one; other paths unchanged."""

    def name_in(self, text: str) -> None:
        """Share those that a text names."""


class Workspace:
    """The directories of a conversation, and the only way its tools read and replace files.

    root: directory of the project.
    extra: further directories that count as inside.
    cwd: base of relative paths and directory of commands; may change during a conversation.
    start: the initial cwd.
    home: replaces ~; by default taken from the environment.
    scratch: outputs of commands, readable by tools.
    skill_folders: folders of skills outside the workspace, readable by tools.
    offered: returns True if the model has the tool of this name.
    buffers: the editor that files inside are read from and written to; None without one.
    temporary_files: returns the session's temporary files if a path may be one of them, else None.
    """

    def __init__(
        self,
        root: Path,
        extra: tuple[Path, ...] = (),
        cwd: Path | None = None,
        *,
        home: str = "",
        skill_folders: tuple[Path, ...] = (),
    ) -> None:
        self.root = Path(os.path.realpath(root))
        self.roots = (self.root, *(Path(os.path.realpath(e)) for e in extra))
        self.cwd = self.start = Path(os.path.realpath(cwd)) if cwd else self.root
        self._home = home
        self.scratch = Scratch()
        self.skill_folders = skill_folders
        self.offered: Callable[[str], bool] = lambda name: True
        self.buffers: OpenBuffers | None = None
        self.temporary_files: Callable[[str], SessionTemporaryFiles | None] = lambda path: None

    def widen(self, folder: Path) -> None:
        """Add a directory that counts as inside to this workspace and later copies of it."""
        self.roots = (*self.roots, Path(os.path.realpath(folder)))

    def copy(self) -> Workspace:
        """Return a workspace with the same directories and its own working directory."""
        other = Workspace.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def resolve(self, text: str) -> Path:
        """Resolve `text` to an absolute path without symbolic links; it need not exist.

        A `ResolvedPath` is not resolved again. ~, $HOME and $PWD at the start mean these folders, unless there is a
        file of that name. Raises ToolError for text that cannot be a path, for other variables, and for circular links.
        """
        if isinstance(text, ResolvedPath):
            return text.path
        if not text or "\0" in text:
            raise ToolError("The path contains a NUL character." if text else "The path is empty.")
        try:
            os.fsencode(text)
        except UnicodeEncodeError:
            raise ToolError("The path contains characters that no file name can have.") from None
        text = self._without_variable(text)
        if self._home and (text == "~" or text.startswith("~/")):
            text = self._home + text[1:]
        # Not Path.expanduser, which raises where there is no home.
        absolute = self.cwd / os.path.expanduser(text)
        try:
            return Path(os.path.realpath(absolute, strict=True))
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENAMETOOLONG):
                raise files.os_error(text, error) from None
        real = _resolve_real(absolute)
        if (temporary := self._temporary(real)) is not None:
            temporary.name_in(str(real))
            real = _resolve_real(absolute)
        return real

    def _temporary(self, path: Path) -> SessionTemporaryFiles | None:
        """Return the session's temporary files if a resolved path outside may be one of them."""
        return None if is_within(path, self.roots) else self.temporary_files(str(path))

    def is_temporary(self, path: Path) -> bool:
        """Return True if a resolved path is a temporary file of the session, or would be one if it were written."""
        temporary = self._temporary(path)
        return temporary is not None and (temporary.owns(path) or temporary.is_free(path))

    def owns_temporary(self, path: Path) -> bool:
        """Return True if a resolved path is a temporary file or directory of the session."""
        temporary = self._temporary(path)
        return temporary is not None and temporary.owns(path)

    def may_work_in(self, path: Path) -> bool:
        """Return True if commands may start in a directory: it is inside, or a temporary one of the session."""
        if (temporary := self._temporary(path)) is not None:
            temporary.name_in(str(path))
        # os.path, not Path: its methods raise where a parent is closed.
        return os.path.isdir(path) and (self.inside(path) or self.owns_temporary(Path(real_path(path))))  # noqa: PTH112

    def _without_variable(self, text: str) -> str:
        """Return a path with the variable replaced that it begins with. Raises ToolError for an unknown one."""
        found = re.match(_VARIABLE, text) if text[0] in "$%" else None
        if found is None or os.path.lexists(self.cwd / text[: found.end()]):
            return text
        name, rest = found[1] or found[2], text[found.end() :]
        if name in ("HOME", "PWD"):
            return f"{'~' if name == 'HOME' else self.cwd}{rest}"
        raise ToolError(
            f"{one_line(found[0])} at the start of a path is not replaced by its value here. Give the path itself; "
            "~ is the home directory."
        )

    def resolved(self, text: str) -> ResolvedPath:
        """Return the text together with its resolved path. Raises ToolError as `resolve`."""
        return ResolvedPath(text, self.resolve(text))

    def inside(self, path: Path | str) -> bool:
        """Return True if `path`, with its links resolved, is in one of the directories; False if that is unknown."""
        try:
            real = os.path.realpath(path)
        except OSError:  # a link that came or went meanwhile, or of another user's process
            return False
        return is_within(real, self.roots)

    def advice(self, tools: str, text: str, shell: str = "") -> str:
        """Return " " and the text with {} replaced by the offered tools; "" if none is offered.

        shell: the program to run with Bash if none of the tools is offered.
        """
        there = [name for name in tools.split() if self.offered(name)]
        if not there and shell and self.offered("Bash"):
            there = [f"Bash with {shell}"]
        return f" {text.format(' or '.join(there))}" if there else ""

    def advised(self, error: files.UnusableFileError) -> ToolError:
        """Return the error with its advice, if the model has the tools for it."""
        return ToolError(f"{error}{self.advice(error.tools, error.advice, error.shell)}")

    def may_read(self, path: Path | str) -> bool:
        """Return True if `path` is inside, a saved output of a command, a file of a skill, or a temporary file."""
        real = Path(real_path(path))
        known = self.inside(real) or self.scratch.contains(real) or self.of_skill(real)
        return known or self.owns_temporary(real)

    def of_skill(self, real: Path) -> bool:
        """Return True if a resolved path is in the folder of a skill."""
        return any(real.is_relative_to(folder) for folder in self.skill_folders)

    def show(self, path: Path | str) -> str:
        """Format `path` for the user, on one line: relative to the root if it is inside."""
        return one_line(self._relative_to(Path(path), self.root))

    def spell(self, path: Path | str) -> str:
        """Format `path` for the model, on one line: the shortest form that `resolve` understands."""
        return one_line(self._relative_to(Path(path), self.cwd))

    def _relative_to(self, path: Path, start: Path) -> str:
        return str(path.relative_to(start)) if path.is_relative_to(start) else self.as_commands_see(path)

    def as_commands_see(self, path: Path | str) -> str:
        """Return the path of a file for commands: that of a temporary one may be in the session's folder meanwhile."""
        temporary = self._temporary(Path(path))
        return str(path) if temporary is None else temporary.spelled(path)

    def read(self, path: Path, limit: int = MAX_FILE_BYTES) -> bytes:
        """Read the regular file at a resolved path, at most `limit` bytes. Raises ToolError."""
        try:
            saved = files.read_file(path, limit)
        except files.UnusableFileError as error:
            raise self.advised(error) from None
        return saved if self.buffers is None or not self.inside(path) else self.buffers.current(path, saved)

    def read_if_there(self, path: Path) -> bytes | None:
        """Read as `read` does, but return None for a missing file."""
        return self.read(path) if files.exists(path) else None

    def replace(self, path: Path, data: bytes, before: bytes | None) -> None:
        """Write the file at a resolved path atomically; see `files.replace_file`.

        If there is an editor, it writes the file; in any case the disk has `data` afterwards.
        """
        try:
            if self.buffers is not None and self.inside(path):
                before = self._replace_in_editor(self.buffers, path, data, before)
                if before == data:
                    return
            temporary = self._temporary(path)
            shared = temporary is not None and (temporary.owns(path) or temporary.is_free(path))
            files.replace_file(path, data, before)
            if temporary is not None and shared:
                temporary.wrote(path)
        except files.UnusableFileError as error:
            raise self.advised(error) from None

    def _replace_in_editor(self, buffers: OpenBuffers, path: Path, data: bytes, before: bytes | None) -> bytes | None:
        """Write the file in the editor if it can; return the content on disk afterwards. Raises ToolError."""
        # Reading follows no link, so neither will the editor.
        saved = files.read_file(path, MAX_FILE_BYTES) if files.exists(path) else None
        if (saved if saved is None else buffers.current(path, saved)) != before:
            raise files.changed_meanwhile_error(path)
        if not buffers.write(path, data):
            return saved
        return files.read_file(path, MAX_FILE_BYTES) if files.exists(path) else None

    def save_buffers(self, paths: Iterable[Path]) -> None:
        """Save an editor's unsaved changes of these files, for a snapshot to include them. Raises ToolError."""
        if self.buffers is None:
            return
        for path in paths:
            if not self.inside(path) or not files.exists(path):
                continue
            saved = files.read_file(path, MAX_FILE_BYTES)
            current = self.buffers.current(path, saved)
            if current != saved:
                self.replace(path, current, current)

    def remove(self, path: Path, expected: bytes) -> None:
        """Remove the file at a resolved path if its content is still `expected`. Raises ToolError."""
        files.remove_file(path, expected)

    def remove_empty(self, directories: Iterable[Path]) -> None:
        """Remove the directories at resolved paths, in this order, that are empty."""
        for path in directories:
            files.remove_empty(path)


def is_within(path: Path | str, parents: Iterable[Path | str]) -> bool:
    """Return True if an absolute path is one of the parents or inside one. Compares text, as there are hundreds."""
    return f"{path}/".startswith(tuple([f"{parent}/" if len(f"{parent}") > 1 else "/" for parent in parents]))


# Links whose target depends on the process that follows them.
_OF_PROCESS = r"/proc/(?:self|thread-self|\d+)(?:/task/\d+)?/(?:cwd|root|exe|fd|map_files)(?=/|\Z)"
_MAX_LINKS = 40


def of_process(path: str) -> bool:
    """Return True if a path from `real_path` means another file in each process that opens it."""
    return path.startswith("/proc/") and re.match(_OF_PROCESS, path) is not None


def real_path(path: Path | str) -> str:
    """Resolve symbolic links where they can be read: /proc has links that raise PermissionError.

    Links such as /proc/self/cwd are kept, since for a command they lead elsewhere than for this program.
    """
    whole = os.path.abspath(path)  # noqa: PTH100 - a path may be text
    try:
        real = os.path.realpath(path)
    except OSError:
        folder, name = os.path.split(whole)
        return os.path.join(real_path(folder), name) if name else folder
    # Without a link there is nothing to look for; with one, it may have led through /proc.
    return real if real == whole and not of_process(whole) else _outside_proc(path, real)


def _outside_proc(path: Path | str, real: str) -> str:
    """Return `real`, the resolved path, or where in /proc the way there depends on the process."""
    at, links = "/", 0
    text = os.fspath(path)
    pieces = (text if text.startswith("/") else f"{Path.cwd()}/{text}").split("/")[::-1]
    while pieces:
        piece = pieces.pop()
        if piece in ("", "."):
            continue
        if piece == "..":
            at = os.path.dirname(at)  # noqa: PTH120
            continue
        at = os.path.join(at, piece)
        if of_process(at):
            rest = "/".join(pieces[::-1])
            if at.endswith("/root") and not re.match(r"/proc/\d", at):
                return real_path(f"/{rest}")
            return os.path.join(at, rest) if rest else at
        if at in ("/proc/self", "/proc/thread-self"):
            continue
        try:
            target = os.readlink(at)  # noqa: PTH115 - as text
        except OSError:
            continue
        links += 1
        if links > _MAX_LINKS:
            break
        pieces += target.split("/")[::-1]
        at = "/" if target.startswith("/") else os.path.dirname(at)  # noqa: PTH120
    return real


def _resolve_real(path: Path | str) -> Path:
    try:
        return Path(os.path.realpath(path))
    except OSError:  # a link that came or went meanwhile
        raise ToolError(f"{one_line(str(path))} changed while it was being checked. Try again.") from None
