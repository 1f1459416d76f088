"""Find and run ripgrep, parse and format its output, and walk a tree without it.

Also verifies that files found by a search belong to the tree that it was allowed to search. ripgrep lists folders and
opens files by name. While it runs, another process can replace a folder or a file with a link that leads elsewhere.
Every such change updates the change time of a folder on the path.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any

from agent_tools.base import ToolContext, ToolError
from agent_tools.fs.files import open_below, open_directory, resolved_path_error, stat_below
from agent_tools.fs.safe_files import find_obstacle, known_obstacle
from agent_tools.process.child import kill_group, read_until_exit, start_child
from agent_tools.secret_patterns import without_secrets
from agent_tools.text import cut_around, sanitize_output, shorten

# File system clocks may be off from ours, or coarse, by this many nanoseconds.
_CLOCK_TOLERANCE_NS = 2_000_000_000
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

# Identity of a folder and its ctime, which programs cannot set.
_FolderIdentity = tuple[int, int, int]


class UnchangedFiles:
    """Tells which names below an open directory have led to the same files since this object was created."""

    def __init__(self, top: int) -> None:
        self.top = top
        self._since = time.time_ns() - _CLOCK_TOLERANCE_NS

    def files(self, names: Iterable[str]) -> set[str]:
        """Return the relative paths that lead to regular files through folders that have not changed."""
        below: dict[str, list[str]] = {}
        for name in names:
            below.setdefault(name.rpartition("/")[0], []).append(name)
        ways = {folder: _parents(folder) for folder in below}
        places = dict.fromkeys(place for way in ways.values() for place in way)
        # Twice: a folder is verified only if all folders above it have stayed unchanged.
        first = {place: self._identity(place) for place in places}
        there = {folder: self._regular_files(folder, some) for folder, some in below.items()}
        again = {place: self._identity(place) for place in places}
        old = {place for place, mark in first.items() if mark and mark == again[place] and mark[2] < self._since}
        return {name for folder, some in there.items() if old.issuperset(ways[folder]) for name in some}

    @contextmanager
    def opened(self, names: Mapping[bytes, str]) -> Iterator[dict[int, bytes]]:
        """Open the regular files among relative paths without following links; yield descriptor to name, in batches."""
        files: dict[int, bytes] = {}
        try:
            for key, name in names.items():
                with suppress(OSError):
                    files[_open_file(self.top, name)] = key
            yield files
        finally:
            for descriptor in files:
                os.close(descriptor)

    def _identity(self, place: str) -> _FolderIdentity | None:
        """Return the identity of a folder; None if it does not exist or a link leads to it."""
        with suppress(OSError):
            directory = open_below(self.top, place)
            state = os.fstat(directory)
            os.close(directory)
            return state.st_dev, state.st_ino, state.st_ctime_ns
        return None

    def _regular_files(self, folder: str, names: list[str]) -> list[str]:
        """Return the names in a folder that are regular files."""
        found = []
        with suppress(OSError):
            directory = open_below(self.top, folder)
            for name in names:
                with suppress(OSError):
                    state = os.stat(name[len(folder) + 1 if folder else 0 :], dir_fd=directory, follow_symlinks=False)
                    found += [name] if stat.S_ISREG(state.st_mode) else []
            os.close(directory)
        return found


def _parents(folder: str) -> list[str]:
    """Return the folders that lead to a relative path, itself included, starting with ""."""
    parts = folder.split("/") if folder else []
    return ["/".join(parts[:n]) for n in range(len(parts) + 1)]


def _open_file(top: int, name: str) -> int:
    folder, _, last = name.rpartition("/")
    directory = open_below(top, folder)
    try:
        if not stat.S_ISREG(os.stat(last, dir_fd=directory, follow_symlinks=False).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        return os.open(last, _READ_FLAGS, dir_fd=directory)
    finally:
        os.close(directory)


RG_MISSING = "[ripgrep is not installed: the search was slow and ignored .gitignore]"
# Skipped when ripgrep is missing, since .gitignore is not read then.
GENERATED_FOLDERS = frozenset(("node_modules", "__pycache__", "site-packages", "venv", "target", "dist", "build"))
MAX_OUTPUT_BYTES = 20_000_000
_MAX_WALKED_FILES = 5_000
_SHORT_SECONDS = 1.0
# Enough to search the largest trees on a cold disk.
TIMEOUT_SECONDS = 120.0


def find_rg(ctx: ToolContext) -> str | None:
    """Return the ripgrep installed with this program, else the first on the PATH of commands, else None."""
    places = [os.path.dirname(sys.executable)]  # noqa: PTH120
    places += [p for p in ctx.env.get("PATH", os.defpath).split(os.pathsep) if p.startswith("/")]
    return next((rg for p in places if os.access(rg := f"{p}/rg", os.X_OK)), None)


class RipgrepRun:
    """Output of a ripgrep run. cut: it was stopped because there was too much."""

    def __init__(self, out: bytes, errors: str, code: int, cut: bool) -> None:
        self.out, self.errors, self.code, self.cut = out, errors, code, cut


def run_rg(
    rg: str,
    arguments: list[str],
    directory: int,
    ctx: ToolContext,
    seconds: float = TIMEOUT_SECONDS,
    files: Sequence[int] = (),
) -> RipgrepRun:
    """Run ripgrep in an open directory, without the user's configuration, for at most `seconds`.

    files: descriptors that it may read as /dev/fd/N.
    Raises ToolError if it cannot be started or does not finish, CancelledError when the turn is interrupted.
    """
    import subprocess
    from signal import SIGKILL

    top = _path_of_descriptor(directory)
    if why := known_obstacle(top):
        raise ToolError(f"Cannot search here: {why}.")
    env = {k: v for k, v in without_secrets(ctx.env).items() if k != "RIPGREP_CONFIG_PATH"}
    try:
        process = start_child(
            [rg, "--no-config", "--color=never", *arguments],
            **_popen_directory(directory),
            pass_fds=files,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except (OSError, subprocess.SubprocessError) as error:  # the directory is closed or gone, or ripgrep is
        raise ToolError(f"The search could not be started: {getattr(error, 'strerror', None) or error}.") from None
    except ValueError:
        raise ToolError("The search contains a NUL or half a surrogate pair. Write \\x00 or . instead.") from None
    forget = ctx.cancel.on_cancel(lambda: kill_group(process, SIGKILL))
    try:
        done = read_until_exit(process, b"", seconds, MAX_OUTPUT_BYTES - 1, lambda: find_obstacle(top))
    finally:
        forget()
    ctx.cancel.check()
    cut = done.cause == "output"
    if done.cause == "time-out":
        raise ToolError(f"The search took more than {seconds:g} s. Give a narrower path or glob.")
    if not cut and (done.cause or process.returncode < 0):
        why = done.cause or find_obstacle(top)
        text = f"it needs too much memory, for a file with a line of some GB ({clean_errors(_text(done.err))})"
        raise ToolError(f"Cannot search here: {why}." if why else f"The search was killed: {text}.")
    return RipgrepRun(done.out[:MAX_OUTPUT_BYTES], _text(done.err), process.returncode, cut)


def _text(errors: bytes) -> str:
    return errors[:20_000].decode("utf-8", "replace")


def _path_of_descriptor(directory: int) -> str:
    """Return the path of an open directory; "/" if the system does not provide it."""
    try:
        return os.readlink(f"/proc/self/fd/{directory}")  # noqa: PTH115
    except OSError:
        return "/"


def _popen_directory(directory: int) -> dict[str, Any]:
    """Return Popen options that start a child in an open directory, whatever its name leads to by now."""
    if os.access("/proc/self/fd", os.X_OK):
        return {"cwd": f"/proc/self/fd/{directory}"}
    return {"preexec_fn": partial(os.fchdir, directory)}


def files_named(name: str, top: Path, ctx: ToolContext) -> list[str]:
    """Return relative paths of the files with this name below `top`, without ignored ones. Has a short time limit.

    Returns [] if the search did not finish. Raises CancelledError when the turn is interrupted.
    """
    # A custom file type: unlike --glob, it does not include files that .gitignore excludes.
    plain = re.sub(r"[][*?{}\\!]", r"\\\g<0>", name)
    names = _list_files(top, [f"--type-add=wanted:{plain}", "--type=wanted"], ctx)
    return [found for found in names if found.rpartition("/")[2] == name]


def files_matching(pattern: str, top: Path, ctx: ToolContext) -> list[str]:
    """Return relative paths of the files whose name matches a simple regular expression, the nearest first.

    Like `files_named`. Of a pattern with a slash, the path has to match. Returns [] for one that Python reads otherwise
    than ripgrep, or slowly.
    """
    if re.search(r"[](){}[]|\\[^\W_]|(?:[*+].*){3}", pattern):
        return []
    try:
        search = re.compile(pattern, re.IGNORECASE).search
    except re.error:
        return []
    found = [name for name in _list_files(top, [], ctx) if search(name if "/" in pattern else name.rpartition("/")[2])]
    return sorted(found, key=lambda name: (name.count("/"), name))


def _list_files(top: Path, options: list[str], ctx: ToolContext) -> list[str]:
    """Return relative paths of the files below `top`, without ignored ones; [] if it takes long."""
    rg = find_rg(ctx)
    try:
        if rg is None:
            names = list(islice(walk_files(top, False, ctx), _MAX_WALKED_FILES + 1))
            return names if len(names) <= _MAX_WALKED_FILES else []
        with search_root(top) as directory:
            ran = run_rg(rg, ["--files", "--null", "--no-require-git", *options], directory, ctx, _SHORT_SECONDS)
    except ToolError:
        return []
    return os.fsdecode(ran.out).split("\0")[:-1] if not ran.cut and ran.code in (0, 1) else []


def clean_errors(errors: str, directory: int = -1) -> str:
    """Format ripgrep's errors on one line, without internal details.

    directory: where it ran; names that no longer exist there, or are reached through a link, are dropped.
    """
    lines = (re.sub(r"IO error for operation on .*?: | \(os error \d+\)$", "", e) for e in errors.splitlines())
    plain = [line.removeprefix("rg: ") for line in lines]
    if directory >= 0:
        plain = [line for line in plain if not line.startswith("./") or _exists_below(directory, line)]
    return shorten("; ".join(line.removeprefix("./") for line in plain), 200) or "it changed in the meantime"


def _exists_below(directory: int, line: str) -> bool:
    """Return True if the path of a message like "./a/b: Permission denied" exists below an open directory."""
    try:
        stat_below(directory, line.removeprefix("./").rpartition(": ")[0])
    except OSError:
        return False
    return True


@contextmanager
def search_root(top: Path) -> Iterator[int]:
    """Open the directory at a resolved path, and close it at the end. Raises ToolError if it is not accessible."""
    try:
        directory = open_directory(top)
    except OSError as error:
        raise resolved_path_error(top, error) from None
    try:
        try:
            os.stat(".", dir_fd=directory)
        except OSError as error:
            raise resolved_path_error(top, error) from None
        yield directory
    finally:
        os.close(directory)


def walk_files(top: Path, hidden: bool, ctx: ToolContext) -> Iterator[str]:
    """Yield relative paths of the regular files below `top` without following links, for use without ripgrep.

    Raises ToolError if `top` cannot be opened, CancelledError when the turn is interrupted.
    """

    waiting = [""]
    with search_root(top) as start:
        while waiting:
            ctx.cancel.check()
            place = waiting.pop()
            try:
                folders, names = _list_folder(start, place, hidden)
            except OSError as error:
                if not place:
                    raise resolved_path_error(top, error) from None
                continue
            yield from (f"{place}{name}" for name in names)
            waiting += [f"{place}{name}/" for name in reversed(folders)]


def _list_folder(start: int, place: str, hidden: bool) -> tuple[list[str], list[str]]:
    """Return the folders and regular files to search in one directory below `start`."""
    directory = open_below(start, place, readable=True)
    try:
        with os.scandir(directory) as entries:
            shown = sorted((e for e in entries if hidden or e.name[0] != "."), key=lambda e: e.name)
            folders = [
                e.name for e in shown if e.name not in GENERATED_FOLDERS | {".git"} and e.is_dir(follow_symlinks=False)
            ]
            return folders, [e.name for e in shown if e.is_file(follow_symlinks=False)]
    finally:
        os.close(directory)


# The path relative to the start of the search, and the rest: "", a count, "12:a match", "12-context", or GAP.
Hit = tuple[bytes, bytes]
GAP = b"--"
_NUMBER = r"(\d+)([:-])"
_BINARY = rb": (?:WARNING: stopped searching binary file after match|binary file matches) \(found .* offset \d+\)$"


def parse_hits(out: bytes, mode: str) -> list[Hit]:
    """Parse ripgrep's output with --null. A last line that was cut off is dropped."""
    if mode == "files_with_matches":
        return [(path, b"") for path in out.split(b"\0")[:-1]]
    hits: list[Hit] = []
    here = unfinished = b""
    for line in out.split(b"\n")[:-1]:
        path, nul, rest = line.partition(b"\0")
        if nul:
            here = unfinished + path if unfinished else path
            unfinished = b""
            hits.append((here, rest))
        elif line == GAP and not unfinished:
            hits.append((here, GAP))
        elif not re.search(_BINARY, line):
            # Start of a name with a newline in it: every other line has a NUL.
            unfinished += line + b"\n"
    return hits


def sort_hits(hits: list[Hit], mode: str, top: Path) -> list[Hit]:
    """Sort files by modification time, newest first; lines and counts by file name."""
    if mode != "files_with_matches":
        return sorted(hits, key=itemgetter(0))
    start = os.fsencode(top) + b"/"

    def age(hit: Hit) -> tuple[int, bytes]:
        try:
            return (-os.stat(start + hit[0]).st_mtime_ns, hit[0])  # noqa: PTH116 - thousands of them
        except OSError:
            return (0, hit[0])

    return sorted(hits, key=age)


def path_of(raw: bytes) -> str:
    """Decode the path of a hit, relative to the start of the search."""
    return os.fsdecode(raw).removeprefix("./")


def paths_of(hits: list[Hit]) -> dict[bytes, str]:
    """Map each file of the hits to its path as text. Decodes all at once, as there may be tens of thousands."""
    files = list(dict.fromkeys(hit[0] for hit in hits))
    names = os.fsdecode(b"\0".join(files)).split("\0")
    return {raw: name[2:] if name.startswith("./") else name for raw, name in zip(files, names, strict=False)}


def hit_line(hit: Hit, name: str, mode: str, numbers: bool, alone: bool = False) -> str:
    """Format a hit for the model, with `name` for its file. alone: omit the name of the only file searched."""
    if mode == "files_with_matches":
        return name
    text = hit[1].decode("utf-8", "replace").rstrip("\r")
    if mode == "count":
        return f"{name}:{text}"
    found = re.match(_NUMBER, text)
    if found is None:
        return "--"
    number = found[0] if numbers else ""
    return f"{'' if alone else name + found[2]}{number}{sanitize_output(text[found.end() :])}"


# How ripgrep marks a line of which it shows only the beginning.
_CUT = rb" \[\.\.\. (?:omitted end of long line|\d+ more match(?:es)?)\]$"
MAX_LONG_LINE_BYTES = 64 << 20
_AROUND_CHARS = 200


def is_cut(hit: Hit) -> bool:
    """Return True if only the beginning of the line is there."""
    return hit[1].endswith(b"]") and re.search(_CUT, hit[1]) is not None


def without_cut(hit: Hit) -> Hit:
    """Return a hit with our own note in place of ripgrep's."""
    return (hit[0], re.sub(_CUT, " … [the rest of this long line is not shown]".encode(), hit[1]))


def around_match(line: str, start: int, end: int) -> str:
    """Return the text around a match in a long line."""
    return cut_around(line, start, end, _AROUND_CHARS)


def line_around(descriptor: int, column: int, offset: int) -> str:
    """Return what `around_match` does for a match in a file. column, offset: of the match in line and file, in bytes.

    Returns "" if the file cannot be read or the line is too long even for that.
    """
    with suppress(OSError):
        line, end, _ = os.pread(descriptor, MAX_LONG_LINE_BYTES, offset - column + 1).partition(b"\n")
        if end or len(line) < MAX_LONG_LINE_BYTES:
            start = len(line[: column - 1].decode("utf-8", "replace"))
            return around_match(line.decode("utf-8", "replace").rstrip("\r"), start, start)
    return ""


def is_match(hit: Hit) -> bool:
    """Return True if a line of content matches, False if it is context or a gap."""
    found = re.match(_NUMBER.encode(), hit[1])
    return found is not None and found[2] == b":"
