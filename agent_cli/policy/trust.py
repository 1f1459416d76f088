"""Trusted repositories: checked at the start, stored by resolved path and by the files that would take effect.

A new repository is untrusted. The user's approval is stored in one file of theirs, with a fingerprint of each file that
would run or widen something; when one of them changes, the approval is void. Repositories nested in a trusted one are
separate.

A scan finds these files and describes them in words, and lists files outside the project that its memory would import.
Nothing is run, links out of the repository are not followed, and nothing beyond the limits is read: a repository that
exceeds them cannot be fingerprinted, so trust in it cannot be stored.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from agent_cli.kernel.redact import shown_variable
from agent_cli.kernel.rules import Trust
from agent_cli.kernel.user_text import decode_user_text, load_user_json
from agent_cli.policy.git_inspection import inspect_repository
from agent_tools.base import ToolError
from agent_tools.fs.protected_names import has_leftover
from agent_tools.fs.safe_files import (
    NotRegularFileError,
    changing,
    read_regular,
    read_start,
    resolve_inside,
    write_atomic,
)
from agent_tools.lazy import lazy_imports
from agent_tools.record import DecodeError, Value, from_json
from agent_tools.sandbox.conditions import ChangingSettingsError
from agent_tools.sandbox.steady import read_steadily
from agent_tools.text import utc_stamp

with lazy_imports():
    from agent_cli.knowledge import memory_imports  # few projects have any
    from agent_tools.fs import paths  # only where memory files or settings name globs

MAX_FILE_BYTES = 4 << 20
MAX_TOTAL_BYTES = 32 << 20
MAX_ENTRIES = 2000
MAX_DEPTH = 12
GIT = ".git/config"
OUTSIDE = "imports from outside the project"
_SETTINGS = (".agentrc", ".agentrc.local", ".mcp.json")
_CLAUDE_SETTINGS = (".claude/settings.json", ".claude/settings.local.json")
# Directories of commands and the like, by their label.
_GROUPS = {
    "commands": (".agent/commands", ".claude/commands"),
    "agents": (".agent/agents", ".claude/agents"),
    "skills": (".agent/skills", ".claude/skills", ".agents/skills"),
    "output styles": (".agent/output-styles", ".claude/output-styles"),
    "hook scripts": (".agent/hooks", ".claude/hooks"),
}
_MAX_LISTED = 20
_MEMORY = (
    "AGENTS.md", ".agent/AGENTS.md", ".claude/AGENTS.md", "CLAUDE.md", ".agent/CLAUDE.md", ".claude/CLAUDE.md",
    "AGENTS.local.md", "CLAUDE.local.md",
)  # fmt: skip


class Scan:
    """The files of one repository that would take effect.

    complete: False if the limits were exceeded.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.complete = True
        self.files: list[str] = []
        self.links_outside: list[str] = []
        self._visited = 0
        self.git = inspect_repository(root)
        self.outside = self._outside()
        self.files += [n for n in _SETTINGS if os.path.lexists(root / n) and not has_leftover(root / n)]
        self._walk(".agent", 0)
        self.files = [name for name in self.files if not _is_memory(name)]
        claude_ignored = self._leads_out(".claude")
        settings = [".claude"] if claude_ignored else [n for n in _CLAUDE_SETTINGS if os.path.lexists(root / n)]
        for name in (*_SETTINGS, *([] if claude_ignored else settings)):
            self._leads_out(name)
        self.files += settings
        for folders in _GROUPS.values():
            for folder in folders[1:]:
                if not (claude_ignored and folder.startswith(".claude/")):
                    self._walk(folder, 0)

    def _leads_out(self, path: str) -> bool:
        """Return True if a link leads out of the repository; such a path is ignored."""
        try:
            resolve_inside(self.root / path, self.root)
        except NotRegularFileError:
            self.links_outside.append(path)
            return True
        except OSError:
            pass
        return False

    def _outside(self) -> tuple[str, ...]:
        """Return the paths outside the repository that its memory would import."""
        return outside_imports(self.root, [name for name in _MEMORY if os.path.lexists(self.root / name)])

    def _walk(self, path: str, depth: int, above: tuple[tuple[int, int], ...] = ()) -> None:
        """Add a file, or everything below a directory. A link to a directory inside the repository counts as both.

        above: the directories on the path so far; a link back to one of them is not followed. A directory with
            two names counts twice.
        """
        self._visited += 1
        if depth > MAX_DEPTH or self._visited > MAX_ENTRIES:
            self.complete = False
            return
        try:
            link = stat.S_ISLNK(os.lstat(self.root / path).st_mode)
            state = os.lstat(resolve_inside(self.root / path, self.root))
        except (FileNotFoundError, NotADirectoryError):
            state, link = None, os.path.lexists(self.root / path)
        except NotRegularFileError:
            state, link = None, True
            self.links_outside.append(path)
        except OSError:
            state, link = None, True
        folder = state is not None and stat.S_ISDIR(state.st_mode)
        if link or (state is not None and not folder):
            self.files.append(path)
        if state is None or not folder or (here := (state.st_dev, state.st_ino)) in above:
            return
        for name in self._names(path):
            self._walk(f"{path}/{name}", depth + 1, (*above, here))

    def _names(self, folder: str) -> list[str]:
        """Return the sorted names in a directory of the repository, limited to the number that is ever examined."""
        found = []
        try:
            with os.scandir(resolve_inside(self.root / folder, self.root)) as entries:
                for entry in entries:
                    found.append(entry.name)
                    if len(found) > MAX_ENTRIES:
                        break
        except OSError:
            pass
        return sorted(found)

    def needs_trust(self) -> tuple[str, ...]:
        """Return what would take effect besides the settings, a phrase each; () if nothing would."""
        phrases = []
        for word, folders in _GROUPS.items():
            files = [f for f in self.files if f not in self.links_outside]
            below = [f.removeprefix(f"{d}/") for f in files for d in folders if f.startswith(f"{d}/")]
            # A skill is a directory; for the others only the file's stem matters.
            names = [n.partition("/")[0] if word == "skills" else n.rpartition(".")[0] or n for n in below]
            if names:
                phrases.append(f"{word}: {_join(names)}")
        phrases += self._from_json()
        grouped = tuple(f"{d}/" for folders in _GROUPS.values() for d in folders)
        shown = (*grouped, *self.links_outside)
        if others := [f for f in self.files if f.startswith(".agent/") and not f.startswith(shown)]:
            phrases.append(f"files: {_join(others)}")
        if self.links_outside:
            phrases.append(f"links that point outside, which are ignored: {_join(self.links_outside)}")
        if git := self.git.needs_trust:
            phrases.append(f"git settings and files that may run programs or lead elsewhere: {_join(list(git))}")
        if self.outside:
            phrases.append(f"memory from outside the project: {_join(list(self.outside))}")
        return tuple(phrases)

    def _from_json(self) -> list[str]:
        """Return phrases for the MCP servers and environment in JSON files; hooks are among the settings."""
        phrases = []
        for file in self.files:
            if file == ".mcp.json":
                wanted = {"mcpServers": "MCP servers"}
            elif file.startswith(".claude/settings"):
                wanted = {"env": "environment"}
            else:
                continue
            table = _read_json(self.root / file, self.root)
            if table is None:
                phrases.append(f"{file}, which cannot be read")
                continue
            for key, word in wanted.items():
                if not (value := table.get(key)):
                    continue
                if key == "env" and isinstance(value, dict):
                    # All of them: each may lead requests elsewhere.
                    phrases.append(
                        f"{word} ({file}): {', '.join(shown_variable(str(n), str(v)) for n, v in value.items())}"
                    )
                    continue
                names = [str(n) for n in value] if isinstance(value, dict | list) else [str(value)]
                phrases.append(f"{word} ({file}): {_join(names)}")
        return phrases

    def marks(self) -> dict[str, str]:
        """Return what tells whether a file was changed or replaced, by its name, without reading it."""
        found = {}
        for file in self.files:
            try:
                state = os.lstat(self.root / file)
                found[file] = f"{state.st_ino} {state.st_mtime_ns} {state.st_size}"
            except OSError:
                found[file] = ""
        return found

    def fingerprints(self) -> dict[str, str]:
        """Return each file's fingerprint, with one for git's configuration; may set `complete` to False."""
        from hashlib import blake2b  # loads OpenSSL, which most runs do not need

        found = {}
        left = MAX_TOTAL_BYTES
        for file in self.files:
            link = _link_prefix(self.root / file)
            try:
                data = read_regular(self.root / file, min(MAX_FILE_BYTES, left), self.root)
            except OSError as error:
                found[file] = f"{link}unreadable: {error.strerror or error}"
                # An unreadable file cannot take effect either, unless it is only too large here.
                self.complete = self.complete and not str(error).startswith("has more")
                continue
            left -= len(data)
            found[file] = link + blake2b(data, digest_size=16).hexdigest()
        if git := self.git.contents:
            text = "\n".join(git).encode("utf-8", "surrogateescape")
            found[GIT] = blake2b(text, digest_size=16).hexdigest()
        if self.outside:
            found[OUTSIDE] = blake2b(
                "\n".join(self.outside).encode("utf-8", "surrogateescape"), digest_size=16
            ).hexdigest()
        return found


def _is_memory(name: str) -> bool:
    """Return True if a file is memory, which is text for the model: it is read without trust and may change freely."""
    return name in (".agent/AGENTS.md", ".agent/CLAUDE.md") or (name.startswith(".agent/rules/") and name[-3:] == ".md")


def _link_prefix(path: Path) -> str:
    """Return the target of a link, for a fingerprint; "" if it is no link."""
    try:
        return f"link to {path.readlink()}: "
    except OSError:
        return ""


def _read_json(path: Path, root: Path) -> dict[str, object] | None:
    try:
        data = load_user_json(decode_user_text(read_regular(path, MAX_FILE_BYTES, root)))
    except (OSError, ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def _join(names: list[str]) -> str:
    """Join names, at most _MAX_LISTED of them; the rest are counted."""
    unique = list(dict.fromkeys(names))
    more = f" and {len(unique) - _MAX_LISTED} more" if len(unique) > _MAX_LISTED else ""
    return ", ".join(n if len(n) <= 200 else f"{n[:200]}... (cut)" for n in unique[:_MAX_LISTED]) + more


_MAX_MEMORY_BYTES = 64 * 1024
_MAX_IMPORT_DEPTH = 5


def outside_imports(root: Path, names: Iterable[str]) -> tuple[str, ...]:
    """Return the outside paths that these project files import, sorted; `~` is not expanded."""
    found: set[str] = set()
    seen: set[Path] = set()
    waiting = [(root / name, 0) for name in names]
    while waiting and len(seen) < memory_imports.MAX_IMPORTS:
        path, depth = waiting.pop(0)
        try:
            real = resolve_inside(path, root)
            if real in seen:
                continue
            seen.add(real)
            data = read_start(real, _MAX_MEMORY_BYTES)
        except OSError:
            continue
        if b"@" not in data or b"\0" in data:
            continue
        for name in memory_imports.find_imports(data.decode("utf-8", "replace")):
            target = memory_imports.resolve_anchor(name, path.parent)
            if memory_imports.leads_outside(target, root):
                found.add(target)
            elif depth < _MAX_IMPORT_DEPTH and Path(target).is_relative_to(root):
                waiting.append((Path(target), depth + 1))
    return tuple(sorted(found))


NAME = "trust.json"
MAX_STORE_BYTES = 8 << 20
# Increase it when more of a repository takes effect than before: older approvals do not cover that.
VERSION = 2


class TrustRecord(Value):
    """The user's answer.

    when: time of the answer.
    files: fingerprints by path.
    """

    when: str
    files: dict[str, str]


def _record(files: Mapping[str, str]) -> TrustRecord:
    return TrustRecord(utc_stamp(), dict(files))


def _entries(records: Mapping[str, TrustRecord]) -> dict[str, Any]:
    return {root: {"when": record.when, "files": record.files} for root, record in sorted(records.items())}


def check_owner(file: Path) -> None:
    """Raise PermissionError, with the reason, if another user could have written the file."""
    for path, writable in ((file, stat.S_IWGRP | stat.S_IWOTH), (file.parent, stat.S_IWOTH)):
        state = path.stat()
        if state.st_mode & writable and not state.st_mode & stat.S_ISVTX:
            raise PermissionError(f"can be written by others than you ({path})")
        if hasattr(os, "geteuid") and state.st_uid not in (os.geteuid(), 0):
            raise PermissionError(f"belongs to somebody else ({path})")


class TrustStore:
    """The file of repositories that are trusted, and of those that the user declined to trust.

    problem: why its content is ignored; "" if it is used.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self._read()

    def _read(self) -> None:
        self.problem = ""
        self.agreed: dict[str, TrustRecord] = {}
        self.declined: dict[str, TrustRecord] = {}
        try:
            check_owner(self.path)
            data = json.loads(read_regular(self.path, MAX_STORE_BYTES))
            if data["version"] == VERSION:
                self.agreed = {root: from_json(TrustRecord, entry) for root, entry in data["trusted"].items()}
                self.declined = {r: from_json(TrustRecord, entry) for r, entry in data.get("declined", {}).items()}
        except (FileNotFoundError, NotADirectoryError):
            pass
        except (OSError, ValueError, RecursionError, LookupError, TypeError, AttributeError, DecodeError) as error:
            why = str(error) if isinstance(error, PermissionError) else "is damaged"
            if isinstance(error, OSError) and error.strerror:
                why = f"cannot be read ({error.strerror})"
            self.problem = f"{self.path} {why}, so the trust stored in it is ignored"

    def remember(self, root: Path, files: Mapping[str, str]) -> None:
        """Trust `root` as it is. Raises OSError if that cannot be saved."""
        with self._changing():
            self.agreed[str(root)] = _record(files)
            self.declined.pop(str(root), None)

    def decline(self, root: Path, files: Mapping[str, str]) -> None:
        """Remember that the user does not trust `root` as it is. Raises OSError if that cannot be saved."""
        with self._changing():
            self.declined[str(root)] = _record(files)

    def is_declined(self, root: Path, files: Mapping[str, str]) -> bool:
        """Return True if the user declined to trust `root` with exactly these files."""
        found = self.declined.get(str(root))
        return found is not None and found.files == files

    def forget(self, root: Path) -> bool:
        """Revoke trust; return True if there was any. Raises OSError if that cannot be saved."""
        self._read()
        if str(root) not in self.agreed:
            return False
        with self._changing():
            self.agreed.pop(str(root), None)
        return True

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Read the file again, as others may have changed it, and write it after the block. Raises OSError."""
        with changing(self.path):
            self._read()
            yield
            found = {"version": VERSION, "trusted": _entries(self.agreed), "declined": _entries(self.declined)}
            write_atomic(self.path, json.dumps(found, indent=1).encode("ascii"))
            self.problem = ""


def evaluate_trust(
    root: Path, folder: Path, patterns: Iterable[str], home: Path | None, *, by_flag: bool
) -> tuple[Trust, str]:
    """Return the trust state of the repository at `root`, and a problem to report, or "".

    folder: directory of the trust file.
    patterns: the user's setting `trusted`.
    by_flag: `--trust` was given.

    Trust in a surrounding repository does not extend to it. Raises ValueError for an invalid pattern.
    """
    scan = Scan(root)
    needs_trust = scan.needs_trust()
    if by_flag:
        return Trust(str(root), "trusted", "--trust, for this run", needs_trust, outside=scan.outside), ""
    if pattern := next((p for p in patterns if trusts_folder(p, root, home)), None):
        return Trust(str(root), "trusted", f"the setting trusted ({pattern})", needs_trust, outside=scan.outside), ""
    store = TrustStore(folder)
    agreed = store.agreed.get(str(root))
    if agreed is None:
        state: Literal["untrusted", "plain"] = "untrusted" if needs_trust else "plain"
        return Trust(str(root), state, "", needs_trust, seen=scan.marks()), store.problem
    files = scan.fingerprints()
    if files == agreed.files and scan.complete:
        return Trust(str(root), "trusted", f"your yes of {agreed.when[:10]}", needs_trust, outside=scan.outside), ""
    return Trust(str(root), "changed", "", needs_trust, _changes(agreed.files, files)), ""


def _changes(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """Return the files that differ, each marked new, gone or changed."""
    words = []
    for name in sorted({*before, *now}):
        if name not in before:
            words.append(f"{name} (new)")
        elif name not in now:
            words.append(f"{name} (gone)")
        elif before[name] != now[name]:
            words.append(f"{name} (changed)")
    return tuple(words) or ("too many files to check",)


def trusts_folder(pattern: str, root: Path, home: Path | None) -> bool:
    """Return True if a pattern of the setting `trusted` matches this directory. Raises ValueError if it is invalid."""
    if pattern.startswith("~/") and home is not None:
        pattern = f"{home}{pattern[1:]}"
    elif pattern.startswith("~/"):
        return False
    if not pattern.startswith("/"):
        raise ValueError(f"{pattern!r} is not a path from / or ~/, for example ~/src/*")
    base, rest = paths.split_base(pattern.rstrip("/"))
    try:
        found = paths.compile_glob(rest, anywhere=False)
    except ToolError as error:
        raise ValueError(str(error)) from None
    real = Path(os.path.realpath(base))
    return root != real and root.is_relative_to(real) and found.match(root.relative_to(real).as_posix()) is not None


def fingerprints(root: Path) -> dict[str, str] | None:
    """Return the fingerprint of each file that would take effect; None if there are too many, or they keep changing."""

    def read() -> dict[str, str] | None:
        scan = Scan(root)
        files = scan.fingerprints()
        return files if scan.complete else None

    try:
        return read_steadily(root, read)
    except ChangingSettingsError:
        return None


def grant_trust(root: Path, folder: Path, shown: dict[str, str] | None) -> str:
    """Save the user's trust in `root` as shown to them; return "" or why that could not be saved."""
    if shown is None:
        return "it has too many files to check"
    if fingerprints(root) != shown:
        return "it changed while you were being asked"
    try:
        TrustStore(folder).remember(root, shown)
    except OSError as error:
        return f"it cannot be saved: {error.strerror or error}"
    return ""


def keep_trust(root: Path, folder: Path, change: Callable[[], None]) -> None:
    """Change a project file on behalf of this program, such as a rule saved there, without losing trust.

    Trust that was stored and valid before is renewed; otherwise the change creates none.
    """
    agreed = TrustStore(folder).agreed.get(str(root))
    held = agreed is not None and fingerprints(root) == agreed.files
    change()
    if held:
        grant_trust(root, folder, fingerprints(root))
