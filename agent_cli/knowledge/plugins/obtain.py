"""Copy the files of a plugin or marketplace to this machine: from a folder, a git repository or a zip file.

Nothing in them is run. A repository gets no work tree: git fetches one commit into an empty store, with nothing but its
own configuration, and packs it as a zip, so that every archive passes the same checks: no path that leads out, no
links, no more than the limits.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import stat
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from agent_cli.kernel.run_environment import RunEnvironment, UsageError
from agent_cli.knowledge.plugins.manifest import Plugin, PluginError, read_plugin
from agent_cli.knowledge.plugins.store import (
    FOLDER,
    MAX_FILE_BYTES,
    MAX_FILES,
    MAX_TOTAL_BYTES,
    PluginStore,
    fingerprint_folder,
    plugin_files,
)
from agent_tools.cancel import CancelToken
from agent_tools.fs.safe_files import open_stream, private_folder, read_regular
from agent_tools.lazy import lazy_imports
from agent_tools.net.urls import split_url
from agent_tools.process import guarded_git
from agent_tools.record import Value
from agent_tools.results import ToolError
from agent_tools.text import shorten

with lazy_imports():
    from agent_tools.net import web_client  # only for an address


def load_given(text: str, called: str, run_env: RunEnvironment) -> Plugin:
    """Load a plugin from a folder or zip file. Raises UsageError. called: what the caller calls the plugin."""
    try:
        source = parse_source(text, run_env.cwd)
        if source.kind == "git":
            raise PluginError(f"{text} is neither a folder nor a zip file; agent plugin add takes repositories")
        folder = Path(source.location)
        if source.kind == "zip":
            folder = _unpack(folder, run_env.home, run_env.env)
        return _read(folder, source.location, run_env)
    except (PluginError, OSError) as error:
        raise UsageError(f"{called}: {error}") from None


def load_from(address: str, called: str, run_env: RunEnvironment) -> Plugin:
    """Load a plugin from the address of a zip file. Raises UsageError. called: what the caller calls the plugin."""
    try:
        data = _download(address, run_env.env)
        if run_env.home is None:
            raise PluginError(f"{address} cannot be unpacked without a home folder")
        name = urlsplit(address).path.rpartition("/")[2].removesuffix(".zip") or "plugin"
        name = re.sub(r"[^\w.-]", "-", name)
        target = PluginStore(run_env.home).folder / "unpacked" / f"{name}-{hashlib.sha256(data).hexdigest()[:16]}"
        _put(target, lambda fresh: extract_zip(io.BytesIO(data), fresh, [], unwrap=True))
        return _read(target, address, run_env)
    except (PluginError, ToolError, OSError) as error:
        raise UsageError(f"{called}: {error}") from None


def _download(address: str, env: Mapping[str, str]) -> bytes:
    """Return the file at an address. Raises PluginError or ToolError."""
    client = web_client.WebClient(web_client.WebLimits(MAX_TOTAL_BYTES, _FETCH_SECONDS), env, None, CancelToken())
    url = split_url(address)
    for _ in range(_MAX_REDIRECTS):
        answer = client.get(url)
        if isinstance(answer, web_client.WebResponse):
            if answer.status != 200 or answer.cut:
                raise PluginError(f"{address}: {answer.cut or f'the server answers {answer.status}'}")
            return answer.body
        if url.scheme == "https" and not answer.target.startswith("https://"):
            raise PluginError(f"{address} leads to {shorten(answer.target, 80)}, which is not encrypted")
        url = split_url(answer.target)  # such as the server of a release's files
    raise PluginError(f"{address} redirects more than {_MAX_REDIRECTS} times")


def _read(folder: Path, source: str, run_env: RunEnvironment) -> Plugin:
    """Return the plugin in a folder. Raises PluginError or OSError."""
    base = (run_env.home or folder) / FOLDER / "data"
    plugin = read_plugin(folder, base / "unnamed", None, source)
    plugin = read_plugin(folder, base / plugin.name, None, source)
    if plugin.hooks or plugin.servers:
        private_folder(plugin.data)
    return plugin


def _unpack(file: Path, home: Path | None, env: Mapping[str, str]) -> Path:
    """Return the folder of an archive's files, unpacked again only when it changes. Raises PluginError or OSError."""
    if home is None:
        raise PluginError(f"{file} cannot be unpacked without a home folder")
    state = os.stat(file)  # noqa: PTH116
    target = PluginStore(home).folder / "unpacked" / f"{file.stem}-{state.st_size}-{state.st_mtime_ns}"
    _put(target, lambda fresh: obtain(parse_source(str(file), file.parent), fresh, env, []))
    return target


def _put(target: Path, unpack: Callable[[Path], object]) -> None:
    """Unpack files into a folder that is not there yet, as a whole."""
    if not target.is_dir():
        private_folder(target.parent)
        fresh = target.with_name(f"{target.name}.{os.urandom(4).hex()}")
        unpack(fresh)
        fingerprint_folder(fresh)
        fresh.rename(target)


_FETCH_SECONDS = 300.0
_MAX_REDIRECTS = 5
_GITHUB_NAME = r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*"
_REMOTE = r"(https://|ssh://|git://|file://|[\w.-]+@[\w.-]+:)\S+"


class PluginSource(Value):
    """Where files come from.

    kind: "folder", "zip" or "git".
    ref: branch, tag or commit; "" for the default.
    path: a folder in it.
    """

    kind: str
    location: str
    ref: str = ""
    path: str = ""

    def __str__(self) -> str:
        ref = f"#{self.ref}" if self.ref else ""
        return f"{self.location}{ref}{f' ({self.path})' if self.path else ''}"


def parse_source(text: str, cwd: Path) -> PluginSource:
    """Parse what the user names: a folder, a zip file, a git address, or OWNER/NAME on GitHub; `#REF` may follow.

    Raises PluginError.
    """
    path = Path(cwd, os.path.expanduser(text))
    if os.path.isdir(path):  # noqa: PTH112 - the method raises where a parent is closed
        return PluginSource("folder", os.path.realpath(path))
    if text.endswith(".zip") and not re.fullmatch(_REMOTE, text):
        return PluginSource("zip", os.path.realpath(path))
    location, _, ref = text.partition("#")
    if ref.startswith("-") or location.startswith("-"):
        raise PluginError(f"{shorten(text, 80)} is not a source of plugins")
    if re.fullmatch(_REMOTE, location):
        return PluginSource("git", location, ref)
    if re.fullmatch(_GITHUB_NAME, location):
        return PluginSource("git", f"https://github.com/{location}.git", ref)
    raise PluginError(
        f"{shorten(text, 80)} is neither a folder nor a zip file, an address for git, or OWNER/NAME of GitHub"
    )


def obtain(source: PluginSource, target: Path, env: Mapping[str, str], left_out: list[str]) -> str:
    """Copy the files of a source into a new folder. Return the commit, if there is one. Raises PluginError.

    left_out: collects the files that were skipped, with the reason.
    """
    try:
        if source.kind == "folder":
            _copy(Path(source.location) / source.path, target, left_out)
            return ""
        if source.kind == "zip":
            with open_stream(source.location, MAX_TOTAL_BYTES) as file:
                extract_zip(file, target, left_out, unwrap=True)
            return ""
        return _from_git(source, target, env, left_out)
    except OSError as error:
        raise PluginError(f"{source}: {error.strerror or error}") from None


def _copy(folder: Path, target: Path, left_out: list[str]) -> None:
    if not folder.is_dir():
        raise PluginError(f"{folder} is not a folder")
    names = plugin_files(folder)
    if not names:
        raise PluginError(f"{folder} is empty; it may be a submodule of git, whose files are elsewhere")
    for name in names:
        path = folder / name
        if path.is_symlink() or not path.is_file():
            left_out.append(f"{name}: it is a link or no regular file")
            continue
        data = read_regular(path, MAX_FILE_BYTES, Path(os.path.realpath(folder)))
        _write_file(target / name, data, runs=bool(path.stat().st_mode & stat.S_IXUSR))


def _write_file(path: Path, data: bytes, *, runs: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o700 if runs else 0o600), "wb") as f:
        f.write(data)


def extract_zip(file: IO[bytes], target: Path, left_out: list[str], *, unwrap: bool = False) -> None:
    """Unpack an archive into a new folder. Raises PluginError.

    unwrap: drop a top folder that contains everything.
    """
    import zipfile

    try:
        with zipfile.ZipFile(file) as archive:
            entries = [entry for entry in archive.infolist() if not entry.is_dir()]
            if len(entries) > MAX_FILES or sum(entry.file_size for entry in entries) > MAX_TOTAL_BYTES:
                raise PluginError(f"the archive is too large: {MAX_FILES:,} files, {MAX_TOTAL_BYTES >> 20} MiB at most")
            top = _single_folder([entry.filename for entry in entries]) if unwrap else ""
            left = MAX_TOTAL_BYTES
            for entry in entries:
                name = entry.filename
                parts = name.split("/")
                if name.startswith("/") or "\\" in name or any(p in ("", ".", "..") for p in parts):
                    raise PluginError(f"the archive has the path {shorten(name, 80)!r}, which leads elsewhere")
                mode = entry.external_attr >> 16
                if stat.S_ISLNK(mode) or (mode and stat.S_IFMT(mode) not in (0, stat.S_IFREG)):
                    left_out.append(f"{name}: it is a link or no regular file")
                    continue
                with archive.open(entry) as packed:
                    # The listed size may be wrong; the unpacked bytes count.
                    data = packed.read(min(MAX_FILE_BYTES, left) + 1)
                if len(data) > min(MAX_FILE_BYTES, left):
                    raise PluginError(f"{shorten(name, 80)} has more than {MAX_FILE_BYTES >> 20} MiB")
                left -= len(data)
                _write_file(target / name.removeprefix(top), data, runs=bool(mode & stat.S_IXUSR))
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, ValueError) as error:
        raise PluginError(f"the archive cannot be read: {error}") from None
    except FileExistsError:
        raise PluginError("the archive has a file twice") from None


def _single_folder(names: list[str]) -> str:
    """Return the folder that contains all files, as in GitHub's archives; "" if there is none."""
    tops = {name.partition("/")[0] for name in names}
    top = f"{next(iter(tops))}/" if len(tops) == 1 else ""
    return top if top and all(name.startswith(top) for name in names) and not top.startswith(".") else ""


def _from_git(source: PluginSource, target: Path, env: Mapping[str, str], left_out: list[str]) -> str:
    """Fetch one commit and unpack it. Raises PluginError."""
    try:
        program = guarded_git.find_git(env.get("PATH", os.defpath), str(target))
        with tempfile.TemporaryDirectory() as folder:
            git = guarded_git.fetching_git(program, folder, env)
            git.run("init", "--quiet", "--bare", folder)
            git.run(
                "fetch",
                "--quiet",
                "--depth=1",
                "--no-tags",
                source.location,
                source.ref or "HEAD",
                seconds=_FETCH_SECONDS,
            )
            commit = git.run("rev-parse", "--verify", "FETCH_HEAD^{commit}").decode().strip()
            tree = f"{commit}:{source.path.strip('/')}" if source.path else commit
            packed = Path(folder) / "files.zip"
            # The tree, not the commit, so that nothing of the history gets into the files.
            git.run("archive", "--format=zip", f"--output={packed}", tree, most=1 << 20, seconds=_FETCH_SECONDS)
            with open_stream(packed, MAX_TOTAL_BYTES) as file:
                extract_zip(file, target, left_out)
            return commit
    except guarded_git.GitError as error:
        raise PluginError(f"{source}: {error}") from None
