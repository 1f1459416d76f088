"""Trusted repositories: checked at start, and stored by resolved path and by the files that would take effect.

A new repository is untrusted. The user's approval is stored in one file of theirs, with a fingerprint of each file that
would run or widen something; when one of them changes, the approval is void. Repositories nested in a trusted one are
separate.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from agent_cli.core.trust import Trust
from agent_cli.permissions.trust_scan import Scan
from agent_tools.base import ToolError
from agent_tools.fs.glob_patterns import compile_glob, split_base
from agent_tools.fs.private import write_whole
from agent_tools.fs.safe_read import read_regular
from agent_tools.record import DecodeError, Value, from_json

NAME = "trust.json"
LIMIT = 8 << 20
# Increase it when more of a repository takes effect than before: older approvals do not cover that.
VERSION = 1


class TrustRecord(Value):
    """An approval: its time, and the approved files with their fingerprints."""

    when: str
    files: dict[str, str]


class TrustStore:
    """The file of trusted repositories. problem: why its content is ignored; "" if it is not."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self.problem = ""
        self.agreed: dict[str, TrustRecord] = {}
        try:
            self._check()
            data = json.loads(read_regular(self.path, LIMIT))
            if data["version"] == VERSION:
                self.agreed = {root: from_json(TrustRecord, entry) for root, entry in data["trusted"].items()}
        except (FileNotFoundError, NotADirectoryError):
            pass
        except (OSError, ValueError, RecursionError, LookupError, TypeError, AttributeError, DecodeError) as error:
            why = str(error) if isinstance(error, PermissionError) else "is damaged"
            self.problem = f"{self.path} {why}, so no repository is trusted by it"

    def _check(self) -> None:
        """Raise PermissionError, with the reason, if another user could have written the file."""
        for path, writable in ((self.path, stat.S_IWGRP | stat.S_IWOTH), (self.path.parent, stat.S_IWOTH)):
            state = path.stat()
            if state.st_mode & writable and not state.st_mode & stat.S_ISVTX:
                raise PermissionError(f"can be written by others than you ({path})")
            if hasattr(os, "geteuid") and state.st_uid not in (os.geteuid(), 0):
                raise PermissionError(f"belongs to somebody else ({path})")

    def remember(self, root: Path, files: Mapping[str, str]) -> None:
        """Trust `root` as it is. Raises OSError if that cannot be saved."""
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self.agreed[str(root)] = TrustRecord(when, dict(files))
        self._write()

    def forget(self, root: Path) -> bool:
        """Revoke trust; return True if there was any. Raises OSError if that cannot be saved."""
        if self.agreed.pop(str(root), None) is None:
            return False
        self._write()
        return True

    def _write(self) -> None:
        entries = {root: {"when": a.when, "files": a.files} for root, a in sorted(self.agreed.items())}
        data = json.dumps({"version": VERSION, "trusted": entries}, indent=1).encode("ascii")
        write_whole(self.path, data)
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
    brings = scan.brings()
    if by_flag:
        return Trust(str(root), "trusted", "--trust, for this run", brings, outside=scan.outside), ""
    if pattern := next((p for p in patterns if trusts_folder(p, root, home)), None):
        return Trust(str(root), "trusted", f"the setting trusted ({pattern})", brings, outside=scan.outside), ""
    store = TrustStore(folder)
    agreed = store.agreed.get(str(root))
    if agreed is None:
        return Trust(str(root), "untrusted" if brings else "plain", "", brings), store.problem
    files = scan.fingerprints()
    if files == agreed.files and scan.complete:
        return Trust(str(root), "trusted", f"your yes of {agreed.when[:10]}", brings, outside=scan.outside), ""
    return Trust(str(root), "changed", "", brings, _changes(agreed.files, files)), ""


def _changes(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """Return what differs, a file with a word each."""
    words = []
    for name in sorted({*before, *now}):
        if name not in before:
            words.append(f"{name} (new)")
        elif name not in now:
            words.append(f"{name} (gone)")
        elif before[name] != now[name]:
            words.append(f"{name} (changed)")
    return tuple(words) or ("more files than can be checked",)


def trusts_folder(pattern: str, root: Path, home: Path | None) -> bool:
    """Return True if a pattern of the setting `trusted` matches this directory. Raises ValueError if it is invalid."""
    if pattern.startswith("~/") and home is not None:
        pattern = f"{home}{pattern[1:]}"
    elif pattern.startswith("~/"):
        return False
    if not pattern.startswith("/"):
        raise ValueError(f"{pattern!r} is not a path from / or ~/, for example ~/src/*")
    base, rest = split_base(pattern.rstrip("/"))
    try:
        found = compile_glob(rest, anywhere=False)
    except ToolError as error:
        raise ValueError(str(error)) from None
    real = Path(os.path.realpath(base))
    return root != real and root.is_relative_to(real) and found.match(root.relative_to(real).as_posix()) is not None


def fingerprints(root: Path) -> dict[str, str] | None:
    """Return the fingerprint of each file that would take effect; None if there are too many."""
    scan = Scan(root)
    files = scan.fingerprints()
    return files if scan.complete else None


def grant_trust(root: Path, folder: Path, shown: dict[str, str] | None) -> str:
    """Save the user's trust in `root` as shown to them; return "" or why that could not be saved."""
    if shown is None:
        return "it brings more files than can be checked"
    if fingerprints(root) != shown:
        return "it changed while you were asked"
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
