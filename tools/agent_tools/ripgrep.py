"""Finding and running ripgrep, and walking a tree without it."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from agent_tools.base import ToolContext, ToolError
from agent_tools.clipping import shorten
from agent_tools.files import problem
from agent_tools.key_shapes import without_secrets

if TYPE_CHECKING:
    import subprocess

WITHOUT = "[ripgrep is not installed: searched without it, slowly, and .gitignore was not read]"
# Directories that hold what others made; without ripgrep there is no .gitignore to say so.
HEAVY = frozenset(("node_modules", "__pycache__", "site-packages", "venv", "target", "dist", "build"))
MOST = 20_000_000
_MOST_WALKED = 5_000
_MOMENT = 1.0


def find_rg(ctx: ToolContext) -> str | None:
    """The ripgrep that came with this program, else the first on the PATH of commands."""
    places = [os.path.dirname(sys.executable)]  # noqa: PTH120
    places += [p for p in ctx.env.get("PATH", os.defpath).split(os.pathsep) if p.startswith("/")]
    return next((rg for p in places if os.access(rg := f"{p}/rg", os.X_OK)), None)


class Ran:
    """What ripgrep printed. cut: it was stopped because that was too much."""

    def __init__(self, out: bytes, errors: str, code: int, cut: bool) -> None:
        self.out, self.errors, self.code, self.cut = out, errors, code, cut


def run_rg(rg: str, arguments: list[str], directory: Path, ctx: ToolContext, seconds: float | None = None) -> Ran:
    """Run ripgrep in `directory`, free of the user's configuration, for so long at most. Raises ToolError where it
    cannot be started, Cancelled when the turn is interrupted."""
    import subprocess
    from threading import Timer

    env = {k: v for k, v in without_secrets(ctx.env).items() if k != "RIPGREP_CONFIG_PATH"}
    try:
        process = subprocess.Popen(
            [rg, "--no-config", "--color=never", *arguments],
            cwd=directory,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:  # the directory is closed or gone, or ripgrep is
        raise problem(error.filename or rg, error) from None
    except ValueError:
        raise ToolError("The search contains a NUL or half a surrogate pair. Write \\x00 or . in its place.") from None
    forget = ctx.cancel.on_cancel(process.kill)
    timer = Timer(seconds, process.kill) if seconds else None
    if timer is not None:
        timer.start()
    try:
        out, errors, cut = _collect(process)
    finally:
        if timer is not None:
            timer.cancel()
        forget()
        process.kill()
        process.wait()
    ctx.cancel.check()
    return Ran(out, errors, process.returncode, cut)


def files_named(name: str, top: Path, ctx: ToolContext) -> list[str]:
    """Relative paths of the files of this name below `top` that are not ignored, as far as a moment suffices.

    None of them where the search did not come to its end. Raises Cancelled when the turn is interrupted.
    """
    rg = find_rg(ctx)
    try:
        if rg is None:
            names = list(islice(walk(top, False, ctx), _MOST_WALKED + 1))
            return [n for n in names if n.rpartition("/")[2] == name] if len(names) <= _MOST_WALKED else []
        # A file type of our own: unlike --glob it brings back nothing that .gitignore leaves out.
        plain = re.sub(r"[][*?{}\\!]", r"\\\g<0>", name)
        options = ["--files", "--null", "--no-require-git", f"--type-add=wanted:{plain}", "--type=wanted"]
        ran = run_rg(rg, options, top, ctx, _MOMENT)
    except ToolError:
        return []
    if ran.cut or ran.code not in (0, 1):
        return []
    return [found for found in os.fsdecode(ran.out).split("\0")[:-1] if found.rpartition("/")[2] == name]


def plainly(errors: str) -> str:
    """What ripgrep could not open, on one line and without what only its programmers need."""
    lines = (re.sub(r"IO error for operation on .*?: | \(os error \d+\)$", "", e) for e in errors.splitlines())
    return shorten("; ".join(line.removeprefix("rg: ").removeprefix("./") for line in lines), 200)


def _collect(process: subprocess.Popen[bytes]) -> tuple[bytes, str, bool]:
    assert process.stdout is not None and process.stderr is not None
    from threading import Thread

    errors: list[bytes] = []
    # Drained on the side: a full pipe of warnings must not stop the search.
    side = Thread(target=lambda: errors.extend(iter(lambda: process.stderr.read(65_536), b"")), daemon=True)  # type: ignore[union-attr]
    side.start()
    with process.stdout, process.stderr:
        out = process.stdout.read(MOST)
        cut = len(out) == MOST
        if cut:
            process.kill()
        side.join()
        process.wait()
    return out, b"".join(errors)[:20_000].decode("utf-8", "replace"), cut


def walk(top: Path, hidden: bool, ctx: ToolContext) -> Iterator[str]:
    """Relative paths of the regular files below `top`, links not followed, for when there is no ripgrep.

    Raises ToolError where `top` cannot be opened, Cancelled when the turn is interrupted.
    """

    def unopened(error: OSError) -> None:
        if error.filename == str(top):
            raise problem(top, error) from None

    for directory, below, names in os.walk(top, onerror=unopened):
        ctx.cancel.check()
        below[:] = sorted(d for d in below if d != ".git" and d not in HEAVY and (hidden or d[0] != "."))
        prefix = os.path.relpath(directory, top)
        for name in sorted(names):
            if (hidden or name[0] != ".") and _is_regular(f"{directory}/{name}"):
                yield name if prefix == "." else f"{prefix}/{name}"


def _is_regular(path: str) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False
