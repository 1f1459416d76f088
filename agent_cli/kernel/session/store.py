"""The state folder: find, list, load and delete the sessions of a project; write crash reports.

A crash report is the traceback of an unexpected exception, without secrets, in a file that only the user can read.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from binascii import crc32
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from agent_cli.kernel.events import MessageAdded, SessionNamed
from agent_cli.kernel.messages import ToolMessage, pending_calls
from agent_cli.kernel.redact import Redactor
from agent_cli.kernel.session.files import (
    archive_mark,
    damaged_copies,
    decode_record,
    draft_file,
    logs_in,
    open_log,
    owner_file,
    read_log,
    repair_file,
    results_files,
    results_size,
    transcript_elsewhere,
    transcript_files,
    transcript_note,
)
from agent_cli.kernel.session.log import SessionBusyError, SessionLog
from agent_cli.kernel.session.records import Header, Restored, SessionInfo, SessionNotFoundError
from agent_cli.kernel.version import __version__
from agent_tools.fs.safe_files import read_start, write_atomic
from agent_tools.lazy import lazy_imports
from agent_tools.text import escape_controls

with lazy_imports():
    from agent_cli.kernel.session import pending_plans, restore, stages, timeline


def remove_session(path: Path) -> str:
    """Remove the session with this log and all its files. Return "", or why it is still there."""
    store, session_id = SessionStore.at(path.parent), path.stem
    log = SessionLog(path, lambda text: None, os.environ)
    try:
        log.acquire()
        elsewhere, _ = transcript_elsewhere(path)
        files = store.files(session_id)
        if elsewhere is not None:
            elsewhere.unlink(missing_ok=True)
            shutil.rmtree(elsewhere.with_suffix(""), ignore_errors=True)
        for file in reversed(files):
            file.rmdir() if file.is_dir() and not file.is_symlink() else file.unlink(missing_ok=True)
        pending_plans.claim_plan(store.folder, session_id)
        # Without this reference, the next pruning of the checkpoints deletes the contents.
        snapshots = store.folder.parent.parent / "snapshots" / store.folder.name
        (snapshots / "sessions" / f"{session_id}.records").unlink(missing_ok=True)
        if (copy := stages.find_stage(stages.stages_folder(store.folder), session_id)) is not None:
            stages.remove_copy(copy)
    except SessionBusyError:
        return f"Session {session_id[:8]} is open in another process and was not removed."
    except OSError as error:
        return f"Session {session_id[:8]} was not removed: {error.strerror or error}."
    finally:
        log.close()
    with suppress(OSError):  # other sessions are left
        store.folder.rmdir()
    return ""


def remove_deleted(folder: Path) -> None:
    """Remove the sessions whose transcript a host has deleted, which is how the Agent SDK deletes a session."""
    for note in folder.glob("*.elsewhere"):
        if is_deleted(log := note.with_suffix(".jsonl")):
            remove_session(log)


# Claude Code removes transcripts that were not used for 30 days, which must not end a session whose log is still here.
_MAX_DELETED_AGE_SECONDS = 20 * 86_400


def is_deleted(log: Path) -> bool:
    """Return True if a host wanted a transcript of this session, used lately, and has deleted it."""
    path, for_host = transcript_elsewhere(log)
    if path is None or not for_host or not path.parent.is_dir() or path.exists():
        return False
    try:
        return time.time() - log.stat().st_mtime < _MAX_DELETED_AGE_SECONDS
    except OSError:
        return True


def state_folder(env: Mapping[str, str]) -> Path:
    """Return AGENT_STATE_DIR, else the platform's state directory (on Linux, XDG_STATE_HOME or ~/.local/state)."""
    if chosen := env.get("AGENT_STATE_DIR"):
        return Path(chosen)
    if str(sys.platform) == "linux":
        # Same answer as platformdirs (checked by a test), whose import costs 22 ms.
        base = env.get("XDG_STATE_HOME", "").strip()
        return (Path(base) if base.startswith("/") else Path(os.path.expanduser("~")) / ".local/state") / "agent"
    import platformdirs

    return Path(platformdirs.user_state_dir("agent", appauthor=False))


def schedules_folder(state: Path) -> Path:
    """Return the folder of `agent every`, which exists once there was a schedule."""
    return state / "schedules"


# No header is longer.
_MAX_HEADER_BYTES = 1 << 20
_MAX_FORKS = 10


class SessionStore:
    """The sessions of one project: a folder of `<session id>.jsonl` files."""

    def __init__(self, state: Path, root: Path) -> None:
        text = str(root)
        slug = "-".join("".join([c if c.isascii() and c.isalnum() else " " for c in text]).split())[-60:]
        self.folder = state / "sessions" / f"{slug}-{crc32(os.fsencode(text)):08x}"

    @classmethod
    def at(cls, folder: Path) -> SessionStore:
        """Return the store for a session directory whose project is unknown."""
        store = cls.__new__(cls)
        store.folder = folder
        return store

    def path(self, session_id: str) -> Path:
        return self.folder / f"{session_id}.jsonl"

    def ids(self) -> list[str]:
        """Return session ids, the latest changed first."""
        # A process that ended before it wrote a record leaves an empty file.
        files = [(state.st_mtime_ns, path.stem) for state, path in logs_in(self.folder) if state.st_size]
        return [name for _, name in sorted(files, reverse=True)]

    def latest(self, *, of_hosts: bool = False) -> str:
        """Return the id of the session changed last. Raises SessionNotFoundError.

        of_hosts: it may be one of another program.
        """
        for session_id in self.ids():
            if self._has_begun(session_id) and (of_hosts or not self.host_of(session_id)):
                return session_id
        raise SessionNotFoundError("There is no earlier session in this project.")

    def _has_begun(self, session_id: str) -> bool:
        """Return True if a file contains more than part of its first record."""
        try:
            start = read_start(self.path(session_id), _MAX_HEADER_BYTES)
        except OSError:
            return True
        # The line feed does not decide: other programs may have replaced it.
        return not start.startswith(b'{"v":1,"seq":1,') or b',"crc":' in start or len(start) == _MAX_HEADER_BYTES

    def host_of(self, session_id: str) -> str:
        """Return the other program whose session this is; "" for our own."""
        try:
            start = read_start(self.path(session_id), _MAX_HEADER_BYTES).partition(b"\n")[0]
        except OSError:
            return ""
        record = decode_record(start) if b'"host":' in start else None
        return str(record["data"].get("host", "")) if record is not None and record["type"] == "Header" else ""

    def files(self, session_id: str) -> list[Path]:
        """Return all files of a session: the log first, then copies of a damaged log, the owner file, the draft, and
        the folders of results and transcript, each before its contents.
        """
        path = self.path(session_id)
        beside = [*damaged_copies(path), repair_file(path), owner_file(path), draft_file(path), archive_mark(path)]
        beside.append(transcript_note(path))
        files = [path, *(each for each in beside if os.path.lexists(each))]
        return [*files, *results_files(path), *transcript_files(path)]

    def copied_from(self, header: Header) -> list[str]:
        """Return the sessions that this one was forked from, the nearest first."""
        found: list[str] = []
        origin = header.forked_from
        while origin and origin not in found and len(found) < _MAX_FORKS:
            found.append(origin)
            try:
                first = read_start(self.path(origin), _MAX_HEADER_BYTES).partition(b"\n")[0]
            except OSError:
                break
            record = decode_record(first) or {}
            origin = record.get("data", {}).get("forked_from", "")
        return found

    def find(self, start: str) -> str:
        """Return the one session whose id begins with `start`. Raises SessionNotFoundError."""
        found = [i for i in self.ids() if i.startswith(start.lower())]
        if len(found) != 1:
            how = "No session" if not found else f"{len(found)} sessions"
            raise SessionNotFoundError(
                f"{how} of this project begin{'s' if not found else ''} with {start}. See: agent sessions list"
            )
        return found[0]

    def short(self, session_id: str) -> str:
        """Return the shortest prefix of an ID, of at least 8 characters, that is unique in this project."""
        start = session_id[:8]
        return start if sum(i.startswith(start) for i in self.ids()) <= 1 else session_id

    def load(self, session_id: str, keep: int | None = None) -> Restored:
        """Load a session. Raises SessionNotFoundError if nothing of it can be read.

        keep: load it as if it had been rewound to this many messages.
        """
        try:
            with open_log(self.path(session_id)) as file:
                return restore.restore(file, session_id, keep)
        except OSError as error:
            raise SessionNotFoundError(f"Cannot read session {session_id}: {error.strerror or error}.") from None

    def list(self) -> Iterator[SessionInfo]:
        """Yield all sessions of the project, the latest changed first; skip unreadable ones."""
        for session_id in self.ids():
            try:
                data = read_log(self.path(session_id))
                session = restore.restore(data, session_id)
            except (SessionNotFoundError, OSError):
                continue
            yield info_of(session_id, session, data, results_size(self.path(session_id)))


def info_of(session_id: str, session: Restored, data: bytes, beside: int = 0) -> SessionInfo:
    """Return the entry of a session in lists, for `--json`.

    beside: bytes of its results on disk.
    """
    turns = timeline.build_timeline(data)
    calls = [c for t in turns for c in t.calls]
    return SessionInfo(
        session_id=session_id,
        cwd=session.header.cwd,
        model=session.header.model,
        first_message=" ".join(turns[0].query.split())[:80] if turns else "",
        query=turns[-1].query if turns else "",
        stage=timeline.stage_of(session),
        messages=len(session.history),
        cost=session.usage.cost,
        plan=session.plan,
        pending=tuple(c.summary for c in calls if not c.outcome),
        completed=tuple(c.summary for c in calls if c.outcome == "done"),
        created=session.created,
        updated=session.updated,
        name=session.name,
        branch=session.header.branch,
        root=session.header.root,
        size=len(data) + beside,
    )


def close_stored_call(store: SessionStore, session_id: str, call_id: str, text: str) -> None:
    """Answer an open call of another session with an error, unless that session is in use or gone."""
    log = SessionLog(store.path(session_id), lambda text: None, os.environ)
    try:
        log.acquire()
        session = store.load(session_id)
    except (SessionBusyError, SessionNotFoundError):
        log.close()
        return
    log.continue_from(session.seq, session.parent)
    for call in pending_calls(session.history):
        if call.id == call_id:
            log.record(MessageAdded(ToolMessage(call.id, call.name, text, is_error=True)))
    log.close()


def rename_session(path: Path, name: str) -> str:
    """Give the session with this log a name. Return "", or why it has not got it."""
    log = SessionLog(path, lambda text: None, os.environ)
    try:
        log.acquire()
        session = SessionStore.at(path.parent).load(path.stem)
        log.continue_from(session.seq, session.parent)
        log.record(SessionNamed(name))
        return log.warning
    except SessionBusyError:
        return f"Session {path.stem[:8]} is open in another process."
    except SessionNotFoundError:
        return f"Session {path.stem[:8]} has not begun yet."
    finally:
        log.close()


def archive_session(path: Path, *, archived: bool) -> None:
    """Mark the session with this log as archived, or remove the mark. Raises OSError."""
    mark = archive_mark(path)
    if archived:
        mark.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        mark.touch(0o600)
    else:
        mark.unlink(missing_ok=True)


def is_archived(path: Path) -> bool:
    """Return True if the session with this log is archived."""
    return os.path.lexists(archive_mark(path))


_MAX_REPORTS = 20
# A recursive traceback repeats itself, and a message may contain a whole file.
_MAX_CHARS = 100_000


def write_crash_report(error: BaseException, env: Mapping[str, str]) -> str:
    """Write an exception to `<state>/crashes/` and return the file's path, or "" if that failed. Never raises.

    The traceback has lines of code and the message, but no values of variables; secrets are removed. Only the latest
    reports are left.
    """
    import traceback  # 5 ms, only for a bug

    try:
        folder = state_folder(env) / "crashes"
        text = "".join(traceback.format_exception(error))
        if len(text) > _MAX_CHARS:
            text = f"{text[: _MAX_CHARS // 2]}\n[...]\n{text[-_MAX_CHARS // 2 :]}"
        path = folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(2).hex()}.txt"
        message = f"agent {__version__}, Python {'.'.join(map(str, sys.version_info[:3]))}\n\n{text}"
        write_atomic(path, escape_controls(Redactor(env)(message)).encode("utf-8", "replace"), sync=False)
        _delete_old(folder)
    except Exception:  # noqa: BLE001 - a failing report must not hide the exception
        return ""
    return str(path)


def _delete_old(folder: Path) -> None:
    reports = sorted(folder.glob("*.txt"), key=lambda path: path.stat().st_mtime_ns)
    for old in reports[:-_MAX_REPORTS]:
        with suppress(OSError):
            old.unlink()
