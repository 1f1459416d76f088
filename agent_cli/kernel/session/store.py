"""Sessions on disk: find, list, load, change and remove those of a project; the state folder; crash reports.

A crash report is the traceback of an unexpected exception, without secrets, in a file that only the user can read.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from binascii import crc32
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_cli.kernel.events import MessageAdded, SessionNamed
from agent_cli.kernel.messages import ToolMessage, pending_calls
from agent_cli.kernel.redact import Redactor
from agent_cli.kernel.run_environment import RunEnvironment
from agent_cli.kernel.session import files
from agent_cli.kernel.session.log import SessionBusyError, SessionLog
from agent_cli.kernel.session.records import Header, Restored, SessionInfo, SessionNotFoundError
from agent_cli.kernel.version import __version__
from agent_tools.fs.safe_files import read_start, write_atomic
from agent_tools.lazy import lazy_imports
from agent_tools.text import escape_controls

if TYPE_CHECKING:
    from agent_cli.kernel.session.files import LogLine, LogTail
    from agent_cli.kernel.session.pending_plans import WaitingPlan
    from agent_cli.kernel.session.summary import SessionSummary
    from agent_cli.kernel.session.timeline import TurnSummary
    from agent_cli.kernel.session.view import SessionView

with lazy_imports():
    from agent_cli.kernel.session import pending_plans, restore, search, stages, summary, timeline, view


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


_MAX_FORKS = 10


class SessionStore:
    """The sessions of one project: a folder of `<session id>.jsonl` files."""

    def __init__(self, state: Path, root: Path) -> None:
        text = str(root)
        slug = "-".join("".join([c if c.isascii() and c.isalnum() else " " for c in text]).split())[-60:]
        self.folder = state / "sessions" / f"{slug}-{crc32(os.fsencode(text)):08x}"

    @classmethod
    def of(cls, run_env: RunEnvironment) -> SessionStore:
        """Return the store of the project in which a run happens."""
        return cls(state_folder(run_env.env), run_env.root)

    @classmethod
    def at(cls, folder: Path) -> SessionStore:
        """Return the store for a session directory whose project is unknown."""
        store = cls.__new__(cls)
        store.folder = folder
        return store

    @classmethod
    def everywhere(cls, env: Mapping[str, str]) -> list[SessionStore]:
        """Return the stores of all projects."""
        return [cls.at(folder) for folder in summary.project_folders(state_folder(env))]

    def path(self, session_id: str) -> Path:
        return self.folder / f"{session_id}.jsonl"

    def session(self, session_id: str) -> StoredSession:
        """Return the session with this ID, which may not exist yet."""
        return StoredSession(self.path(session_id))

    def sessions(self) -> list[StoredSession]:
        """Return the sessions, the latest changed first."""
        return [StoredSession(path) for path in summary.session_files(self.folder)]

    def summaries(self) -> Iterator[SessionSummary]:
        """Yield what lists show of the sessions, the latest changed first."""
        return summary.summarize_sessions(self.folder)

    @staticmethod
    def all_summaries(env: Mapping[str, str]) -> list[SessionSummary]:
        """Return what lists show of the sessions of all projects, the latest changed first."""
        return summary.summaries_of_all_projects(state_folder(env))

    def ids(self) -> list[str]:
        """Return session ids, the latest changed first."""
        # A process that ended before it wrote a record leaves an empty file.
        found = [(state.st_mtime_ns, path.stem) for state, path in files.logs_in(self.folder) if state.st_size]
        return [name for _, name in sorted(found, reverse=True)]

    def latest(self, *, of_hosts: bool = False) -> str:
        """Return the id of the session changed last. Raises SessionNotFoundError.

        of_hosts: it may be one of another program.
        """
        for session_id in self.ids():
            found = self.session(session_id)
            if found.has_begun and (of_hosts or not found.host):
                return session_id
        raise SessionNotFoundError("There is no earlier session in this project.")

    def copied_from(self, header: Header) -> list[str]:
        """Return the sessions that this one was forked from, the nearest first."""
        found: list[str] = []
        origin = header.forked_from
        while origin and origin not in found and len(found) < _MAX_FORKS:
            found.append(origin)
            origin = self.session(origin).header.get("forked_from", "")
        return found

    def find(self, text: str, *, anywhere: bool = False) -> StoredSession:
        """Return the one session whose ID begins with a text, or that fits it by its name or its words.

        anywhere: also accept an ID from another project.

        Raises SessionNotFoundError, with what was `found` if several fit.
        """
        return StoredSession(search.one_session(self.folder, text, anywhere=anywhere))

    @staticmethod
    def find_in_all(env: Mapping[str, str], text: str) -> StoredSession:
        """Return the one session of any project that fits; with "", the latest. Raises SessionNotFoundError."""
        return StoredSession(search.find_in_all(state_folder(env), text))

    def find_id(self, start: str) -> str:
        """Return the one session whose id begins with `start`. Raises SessionNotFoundError."""
        found = [i for i in self.ids() if i.startswith(start.lower())]
        if len(found) != 1:
            how = "No session" if not found else f"{len(found)} sessions"
            raise SessionNotFoundError(
                f"{how} of this project begin{'s' if not found else ''} with {start}. See: agent sessions list"
            )
        return found[0]

    def elsewhere(self, start: str) -> list[StoredSession]:
        """Return the sessions of other projects whose ID begins so."""
        paths = search.other_sessions(self.folder)
        return [StoredSession(path) for path in paths if path.stem.startswith(start.lower())]

    def is_reference(self, text: str) -> bool:
        """Return True if a text looks like an ID or is the name of a session here, so it is no message."""
        name = text.strip().lower()
        return search.is_id_like(text) or any(each.name.lower() == name for each in self.summaries() if each.name)

    @staticmethod
    def is_id(text: str, *, whole: bool = False) -> bool:
        """Return True if a text looks like a session's ID or the beginning of one. whole: it must be all of it."""
        return summary.is_id(text) if whole else search.is_id_like(text)

    def short(self, session_id: str) -> str:
        """Return the shortest prefix of an ID, of at least 8 characters, that is unique in this project."""
        start = session_id[:8]
        return start if sum(i.startswith(start) for i in self.ids()) <= 1 else session_id

    def pending(self) -> dict[str, list[dict[str, Any]]]:
        """Return the decisions that sessions wait for, by session ID, the most recently changed session first."""
        found = {}
        for glanced in self.summaries():
            # Most sessions have ended, which their summary shows without loading them.
            restored = StoredSession(glanced.path).load_if_any() if glanced.ended in ("waiting", "open") else None
            if restored is not None and (items := restored.pending()):
                found[glanced.session_id] = items
        return found

    def save_plan(self, session_id: str, call_id: str, plan: dict[str, Any]) -> None:
        """Save the plan that awaits approval, replacing an earlier one. An unwritable folder is ignored."""
        pending_plans.save_plan(self.folder, pending_plans.WaitingPlan(session_id, call_id, plan, time.time()))

    def claim_plan(self, session_id: str | None = None) -> WaitingPlan | None:
        """Remove and return the plan that awaits approval, exclusively; None if there is none.

        session_id: only that session's.
        """
        return pending_plans.claim_plan(self.folder, session_id)

    def remove_deleted(self) -> None:
        """Remove the sessions whose transcript a host has deleted, which is how the Agent SDK deletes a session."""
        for note in self.folder.glob("*.elsewhere"):
            if (found := StoredSession(note.with_suffix(".jsonl"))).is_deleted:
                found.remove()


# Claude Code removes transcripts that were not used for 30 days, which must not end a session whose log is still here.
_MAX_DELETED_AGE_SECONDS = 20 * 86_400


class StoredSession:
    """A session on disk, by the path of its log, which may not exist yet. It is read when something is asked for.

    Nearly all raise OSError if it cannot be read, and SessionNotFoundError if nothing can be made of it.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.session_id = path, path.stem

    @property
    def draft(self) -> Path:
        """The file with the text of the input line and the queued messages, which may not exist."""
        return files.draft_file(self.path)

    @property
    def store(self) -> SessionStore:
        """The sessions of its project."""
        return SessionStore.at(self.path.parent)

    def read(self) -> bytes:
        """Return its log. Raises OSError, also if it is no regular file or too large."""
        return files.read_log(self.path)

    def records(self) -> list[LogLine]:
        """Return the valid records of its log, in order. Raises OSError."""
        with files.open_log(self.path) as file:
            return files.sort_records(list(files.read(file)))

    def tail(self) -> LogTail:
        """Return a reader of the records that come from now and before, which tells what is new since its last read."""
        return files.LogTail(self.path)

    def load(self, keep: int | None = None) -> Restored:
        """Load it. Raises SessionNotFoundError if nothing of it can be read.

        keep: load it as if it had been rewound to this many messages.
        """
        try:
            with files.open_log(self.path) as file:
                return restore.restore(file, self.session_id, keep)
        except OSError as error:
            raise SessionNotFoundError(f"Cannot read session {self.session_id}: {error.strerror or error}.") from None

    def load_if_any(self) -> Restored | None:
        """Load it; return None if nothing of it can be read."""
        with suppress(SessionNotFoundError):
            return self.load()
        return None

    def view(self) -> SessionView:
        """Return the session as its events tell it. Raises OSError."""
        return view.SessionView.of_log(self.read())

    def turns(self) -> list[TurnSummary]:
        """Return its turns, in order. Raises OSError."""
        return timeline.build_timeline(self.read())

    def summary(self) -> SessionSummary | None:
        """Return what lists show of it, from a glance at its log; None if that has no record."""
        return summary.summarize_session(self.path)

    def info(self) -> SessionInfo:
        """Return its entry in lists, for `--json`. Raises OSError, SessionNotFoundError."""
        data = self.read()
        session, turns = restore.restore(data, self.session_id), timeline.build_timeline(data)
        calls = [c for t in turns for c in t.calls]
        return SessionInfo(
            session_id=self.session_id,
            cwd=session.header.cwd,
            model=session.header.model,
            first_message=" ".join(turns[0].query.split())[:80] if turns else "",
            query=turns[-1].query if turns else "",
            stage=session.stage,
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
            size=len(data) + files.results_size(self.path),
        )

    @property
    def header(self) -> dict[str, Any]:
        """The fields of its header; {} if that cannot be read."""
        return files.read_header(self.path)

    @property
    def root(self) -> str:
        """The folder of its project; "" if that cannot be read."""
        return str(self.header.get("root", ""))

    @property
    def host(self) -> str:
        """The other program whose session this is; "" for our own."""
        with suppress(OSError):
            if b'"host":' in read_start(self.path, files.MAX_HEADER_BYTES).partition(b"\n")[0]:
                return str(self.header.get("host", ""))
        return ""

    @property
    def has_begun(self) -> bool:
        """True if its file contains more than part of its first record."""
        try:
            start = read_start(self.path, files.MAX_HEADER_BYTES)
        except OSError:
            return True
        # The line feed does not decide: other programs may have replaced it.
        return not start.startswith(b'{"v":1,"seq":1,') or b',"crc":' in start or len(start) == files.MAX_HEADER_BYTES

    def excerpt(self, words: Sequence[str]) -> str:
        """Return an excerpt around the first of the words if it contains all of them; else "".

        words: in lower case. Names and messages are searched, with results of tools, and not the system prompt.
        """
        return search.contains_text(self.path, words)

    def holder(self, *, noted: bool = False) -> str:
        """Describe the process that has it open; "" for none. noted: look only where a process left a note of that."""
        if (noted and not files.owner_file(self.path).exists()) or not files.is_open(self.path):
            return ""
        return files.holder(self.path) or "another process"

    @property
    def stage_folder(self) -> Path | None:
        """The folder of the copy of the project in which it works; None for none."""
        if not os.path.isdir(self.path.parents[2] / "stages"):  # noqa: PTH112 - usually there is none
            return None
        return stages.find_stage(stages.stages_folder(self.path.parent), self.session_id)

    def files(self) -> list[Path]:
        """Return all its files: the log first, then copies of a damaged log, the owner file, the draft, and the
        folders of results and transcript, each before its contents.
        """
        path = self.path
        beside = [*files.damaged_copies(path), files.repair_file(path), files.owner_file(path), files.draft_file(path)]
        beside += [files.archive_mark(path), files.transcript_note(path)]
        found = [path, *(each for each in beside if os.path.lexists(each))]
        return [*found, *files.results_files(path), *files.transcript_files(path)]

    def rename(self, name: str) -> str:
        """Give it a name. Return "", or why it has not got it."""
        log = SessionLog(self.path, lambda text: None, os.environ)
        try:
            log.acquire()
            session = self.load()
            log.continue_from(session.seq, session.parent)
            log.record(SessionNamed(name))
            return log.warning
        except SessionBusyError:
            return f"Session {self.session_id[:8]} is open in another process."
        except SessionNotFoundError:
            return f"Session {self.session_id[:8]} has not begun yet."
        finally:
            log.close()

    @property
    def archived(self) -> bool:
        """True if it is marked as archived."""
        return os.path.lexists(files.archive_mark(self.path))

    def archive(self, *, archived: bool = True) -> None:
        """Mark it as archived, or remove the mark. Raises OSError."""
        mark = files.archive_mark(self.path)
        if archived:
            mark.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            mark.touch(0o600)
        else:
            mark.unlink(missing_ok=True)

    def close_call(self, call_id: str, text: str) -> None:
        """Answer an open call with an error, unless the session is in use or gone."""
        log = SessionLog(self.path, lambda text: None, os.environ)
        try:
            log.acquire()
            session = self.load()
        except (SessionBusyError, SessionNotFoundError):
            log.close()
            return
        log.continue_from(session.seq, session.parent)
        for call in pending_calls(session.history):
            if call.id == call_id:
                log.record(MessageAdded(ToolMessage(call.id, call.name, text, is_error=True)))
        log.close()

    @property
    def is_deleted(self) -> bool:
        """True if a host wanted a transcript of this session, used lately, and has deleted it."""
        path, for_host = files.transcript_elsewhere(self.path)
        if path is None or not for_host or not path.parent.is_dir() or path.exists():
            return False
        try:
            return time.time() - self.path.stat().st_mtime < _MAX_DELETED_AGE_SECONDS
        except OSError:
            return True

    def remove(self) -> str:
        """Remove it with all its files. Return "", or why it is still there."""
        folder, session_id = self.path.parent, self.session_id
        log = SessionLog(self.path, lambda text: None, os.environ)
        try:
            log.acquire()
            elsewhere, _ = files.transcript_elsewhere(self.path)
            own = self.files()
            if elsewhere is not None:
                elsewhere.unlink(missing_ok=True)
                shutil.rmtree(elsewhere.with_suffix(""), ignore_errors=True)
            for file in reversed(own):
                file.rmdir() if file.is_dir() and not file.is_symlink() else file.unlink(missing_ok=True)
            pending_plans.claim_plan(folder, session_id)
            # Without this reference, the next pruning of the checkpoints deletes the contents.
            snapshots = folder.parent.parent / "snapshots" / folder.name
            (snapshots / "sessions" / f"{session_id}.records").unlink(missing_ok=True)
            if (copy := self.stage_folder) is not None:
                stages.remove_copy(copy)
        except SessionBusyError:
            return f"Session {session_id[:8]} is open in another process and was not removed."
        except OSError as error:
            return f"Session {session_id[:8]} was not removed: {error.strerror or error}."
        finally:
            log.close()
        with suppress(OSError):  # other sessions are left
            folder.rmdir()
        return ""


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
