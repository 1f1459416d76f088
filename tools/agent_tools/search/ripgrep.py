"""Finding and running ripgrep, and walking a tree without it.

What a search found: reading ripgrep's output, its order, and one line of it for the model.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any

from agent_tools.base import ToolContext, ToolError
from agent_tools.fs.files import failed
from agent_tools.fs.ignore_files import find_obstacle, known_obstacle
from agent_tools.fs.nofollow import open_below, open_directory, state_below
from agent_tools.process.child import follow, kill_group, start_child
from agent_tools.secret_patterns import without_secrets
from agent_tools.text import sanitize_output, shorten

WITHOUT = "[ripgrep is not installed: searched without it, slowly, and .gitignore was not read]"
# Directories that hold what others made; without ripgrep there is no .gitignore to say so.
HEAVY = frozenset(("node_modules", "__pycache__", "site-packages", "venv", "target", "dist", "build"))
MOST = 20_000_000
_MOST_WALKED = 5_000
_MOMENT = 1.0
# A search of the largest trees from a cold disk.
SECONDS = 120.0


def find_rg(ctx: ToolContext) -> str | None:
    """The ripgrep that came with this program, else the first on the PATH of commands."""
    places = [os.path.dirname(sys.executable)]  # noqa: PTH120
    places += [p for p in ctx.env.get("PATH", os.defpath).split(os.pathsep) if p.startswith("/")]
    return next((rg for p in places if os.access(rg := f"{p}/rg", os.X_OK)), None)


class RipgrepRun:
    """What ripgrep printed. cut: it was stopped because that was too much."""

    def __init__(self, out: bytes, errors: str, code: int, cut: bool) -> None:
        self.out, self.errors, self.code, self.cut = out, errors, code, cut


def run_rg(
    rg: str,
    arguments: list[str],
    directory: int,
    ctx: ToolContext,
    seconds: float = SECONDS,
    files: Sequence[int] = (),
) -> RipgrepRun:
    """Run ripgrep in an open directory, free of the user's configuration, for so long at most.

    files: descriptors that it may read as /dev/fd/N. Raises ToolError where it cannot be started or does
    not come to its end, Cancelled when the turn is interrupted.
    """
    import subprocess
    from signal import SIGKILL

    top = _name_of(directory)
    if why := known_obstacle(top):
        raise ToolError(f"Nothing can be searched here: {why}.")
    env = {k: v for k, v in without_secrets(ctx.env).items() if k != "RIPGREP_CONFIG_PATH"}
    try:
        process = start_child(
            [rg, "--no-config", "--color=never", *arguments],
            **_in_directory(directory),
            pass_fds=files,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except (OSError, subprocess.SubprocessError) as error:  # the directory is closed or gone, or ripgrep is
        raise ToolError(f"The search could not be started: {getattr(error, 'strerror', None) or error}.") from None
    except ValueError:
        raise ToolError("The search contains a NUL or half a surrogate pair. Write \\x00 or . in its place.") from None
    forget = ctx.cancel.on_cancel(lambda: kill_group(process, SIGKILL))
    try:
        done = follow(process, b"", seconds, MOST - 1, lambda: find_obstacle(top))
    finally:
        forget()
    ctx.cancel.check()
    cut = done.cause == "output"
    if done.cause == "time-out":
        raise ToolError(f"The search took more than {seconds:g} s. Give a narrower path or glob.")
    if not cut and (done.cause or process.returncode < 0):
        why = done.cause or find_obstacle(top)
        said = f"it needs too much memory, for a file with a line of some GB ({plainly(_text(done.err))})"
        raise ToolError(f"Nothing can be searched here: {why}." if why else f"The search was ended: {said}.")
    return RipgrepRun(done.out[:MOST], _text(done.err), process.returncode, cut)


def _text(errors: bytes) -> str:
    return errors[:20_000].decode("utf-8", "replace")


def _name_of(directory: int) -> str:
    """Where an open directory is; "/" where the system does not tell."""
    try:
        return os.readlink(f"/proc/self/fd/{directory}")  # noqa: PTH115
    except OSError:
        return "/"


def _in_directory(directory: int) -> dict[str, Any]:
    """What has a child begin in an open directory, whatever its name leads to by now."""
    if os.access("/proc/self/fd", os.X_OK):
        return {"cwd": f"/proc/self/fd/{directory}"}
    return {"preexec_fn": partial(os.fchdir, directory)}


def files_named(name: str, top: Path, ctx: ToolContext) -> list[str]:
    """Relative paths of the files of this name below `top` that are not ignored, as far as a moment suffices.

    None of them where the search did not come to its end. Raises CancelledError when the turn is interrupted.
    """
    rg = find_rg(ctx)
    try:
        if rg is None:
            names = list(islice(walk_files(top, False, ctx), _MOST_WALKED + 1))
            return [n for n in names if n.rpartition("/")[2] == name] if len(names) <= _MOST_WALKED else []
        # A file type of our own: unlike --glob it brings back nothing that .gitignore leaves out.
        plain = re.sub(r"[][*?{}\\!]", r"\\\g<0>", name)
        options = ["--files", "--null", "--no-require-git", f"--type-add=wanted:{plain}", "--type=wanted"]
        with search_root(top) as directory:
            ran = run_rg(rg, options, directory, ctx, _MOMENT)
    except ToolError:
        return []
    if ran.cut or ran.code not in (0, 1):
        return []
    return [found for found in os.fsdecode(ran.out).split("\0")[:-1] if found.rpartition("/")[2] == name]


def plainly(errors: str, directory: int = -1) -> str:
    """What ripgrep could not open, on one line and without what only its programmers need.

    directory: where it ran; names that do not lead to anything there without a link are left out.
    """
    lines = (re.sub(r"IO error for operation on .*?: | \(os error \d+\)$", "", e) for e in errors.splitlines())
    plain = [line.removeprefix("rg: ") for line in lines]
    if directory >= 0:
        plain = [line for line in plain if not line.startswith("./") or _is_there(directory, line)]
    return shorten("; ".join(line.removeprefix("./") for line in plain), 200) or "it changed meanwhile"


def _is_there(directory: int, line: str) -> bool:
    """Whether what a message like "./a/b: Permission denied" is about is below an open directory."""
    try:
        state_below(directory, line.removeprefix("./").rpartition(": ")[0])
    except OSError:
        return False
    return True


@contextmanager
def search_root(top: Path) -> Iterator[int]:
    """A descriptor of the directory at a resolved path, while it is needed. Raises ToolError where it is closed."""
    try:
        directory = open_directory(top)
    except OSError as error:
        raise failed(top, error) from None
    try:
        try:
            os.stat(".", dir_fd=directory)
        except OSError as error:
            raise failed(top, error) from None
        yield directory
    finally:
        os.close(directory)


def walk_files(top: Path, hidden: bool, ctx: ToolContext) -> Iterator[str]:
    """Relative paths of the regular files below `top`, links not followed, for when there is no ripgrep.

    Raises ToolError where `top` cannot be opened, Cancelled when the turn is interrupted.
    """

    waiting = [""]
    with search_root(top) as start:
        while waiting:
            ctx.cancel.check()
            place = waiting.pop()
            try:
                folders, names = _entries(start, place, hidden)
            except OSError as error:
                if not place:
                    raise failed(top, error) from None
                continue
            yield from (f"{place}{name}" for name in names)
            waiting += [f"{place}{name}/" for name in reversed(folders)]


def _entries(start: int, place: str, hidden: bool) -> tuple[list[str], list[str]]:
    """The folders and the regular files in one directory below `start`, those that are looked at."""
    directory = open_below(start, place, listed=True)
    try:
        with os.scandir(directory) as entries:
            shown = sorted((e for e in entries if hidden or e.name[0] != "."), key=lambda e: e.name)
            folders = [e.name for e in shown if e.name not in HEAVY | {".git"} and e.is_dir(follow_symlinks=False)]
            return folders, [e.name for e in shown if e.is_file(follow_symlinks=False)]
    finally:
        os.close(directory)


# The path relative to where the search began, and what follows it: "", a count, "12:a match", "12-context", or GAP.
Hit = tuple[bytes, bytes]
GAP = b"--"
_NUMBER = r"(\d+)([:-])"
_BINARY = rb": (?:WARNING: stopped searching binary file after match|binary file matches) \(found .* offset \d+\)$"


def parse_hits(out: bytes, mode: str) -> list[Hit]:
    """Hits from ripgrep's output with --null. Output that was cut off loses its last, partial line."""
    if mode == "files_with_matches":
        return [(path, b"") for path in out.split(b"\0")[:-1]]
    hits: list[Hit] = []
    here = begun = b""
    for line in out.split(b"\n")[:-1]:
        path, nul, rest = line.partition(b"\0")
        if nul:
            here = begun + path if begun else path
            begun = b""
            hits.append((here, rest))
        elif line == GAP and not begun:
            hits.append((here, GAP))
        elif not re.search(_BINARY, line):
            # The beginning of a name with a newline in it: every other line has a NUL.
            begun += line + b"\n"
    return hits


def ordered(hits: list[Hit], mode: str, top: Path) -> list[Hit]:
    """Files by their last change, the newest first; lines and counts by the name of their file."""
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
    """The path in a hit, relative to where the search began."""
    return os.fsdecode(raw).removeprefix("./")


def paths_of(hits: list[Hit]) -> dict[bytes, str]:
    """For each file of the hits its path as text; decoded in one go, as there may be tens of thousands."""
    files = list(dict.fromkeys(hit[0] for hit in hits))
    names = os.fsdecode(b"\0".join(files)).split("\0")
    return {raw: name[2:] if name.startswith("./") else name for raw, name in zip(files, names, strict=False)}


def hit_line(hit: Hit, name: str, mode: str, numbers: bool) -> str:
    """A hit as the model reads it, its file called `name`."""
    if mode == "files_with_matches":
        return name
    text = hit[1].decode("utf-8", "replace").rstrip("\r")
    if mode == "count":
        return f"{name}:{text}"
    found = re.match(_NUMBER, text)
    if found is None:
        return "--"
    number = found[0] if numbers else ""
    return f"{name}{found[2]}{number}{sanitize_output(text[found.end() :])}"
