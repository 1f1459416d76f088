"""The transcript of a session in Claude Code's format: write it when needed, and resume sessions from one."""

from __future__ import annotations

import _thread  # `threading` costs a one-shot run a millisecond
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from agent_cli.config.config import Config
from agent_cli.config.schema import Settings
from agent_cli.kernel.events import Event
from agent_cli.kernel.run_environment import RunEnvironment
from agent_cli.kernel.session.files import (
    move_beside_transcript,
    projects_folder,
    transcript_folder,
    transcript_note,
)
from agent_cli.kernel.session.log import SessionLog
from agent_cli.kernel.session.records import Header, Restored, SessionNotFoundError
from agent_cli.kernel.session.store import SessionStore
from agent_cli.kernel.session.transcripts.entries import (
    find_transcripts,
    is_session_id,
    project_folder,
    subagent_path,
)
from agent_cli.kernel.version import __version__
from agent_tools.fs.own_files import write_own
from agent_tools.lazy import lazy_imports
from agent_tools.text import shorten

if TYPE_CHECKING:
    from agent_cli.kernel.session.transcripts.writer import Mirror, TranscriptWriter

with lazy_imports():
    from agent_cli.kernel.session.transcripts import entries, reader, writer  # only if a transcript is needed


class SessionTranscript:
    """The transcript of a session, written once it is needed.

    mirror: called with the path and the entries of each write.
    """

    def __init__(
        self,
        log: SessionLog,
        header: Header,
        run_env: RunEnvironment,
        warn: Callable[[str], None],
        mirror: Mirror | None,
        *,
        at_once: bool,
        for_host: bool,
    ) -> None:
        """at_once: write it from the first event on, where readers of Claude Code's transcripts look; otherwise in our
        own folder, from the first call of `wanted` on. for_host: the program that drives the session reads it.
        """
        folder = project_folder(run_env.env, run_env.home, run_env.cwd) if at_once else transcript_folder(log.path)
        self.path = folder / f"{header.session_id}.jsonl"
        self._mirror = mirror
        self._log = log
        self._header = header
        self._run_env = run_env
        self._warn = warn
        self._at_once, self._for_host = at_once, for_host
        self._writer: TranscriptWriter | None = None
        # The log is to be moved to where a host deletes it with the transcript.
        self._moves = False
        # While the transcript catches up with the log, an event must be in both or in neither.
        self._lock = _thread.RLock()

    def wanted(self) -> Path:
        """Return the path of the transcript, which is up to date from now on. Safe from any thread."""
        with self._lock:
            if self._writer is None:
                header = self._header
                about = entries.EntryContext(header.session_id, str(self._run_env.cwd), header.branch, __version__)
                self._writer = writer.TranscriptWriter(self._log, self.path, about, self._warn, self._mirror)
                if self._at_once and not self.path.exists():
                    self._note()
                self._writer.begin()
        return self.path

    def _note(self) -> None:
        """Note where the transcript is, so that it is deleted with the session."""
        try:
            write_own(
                transcript_note(self._log.path), f"{self.path}\n{'host' if self._for_host else ''}".encode(), 0o600
            )
        except OSError:
            return  # the log has said so
        self._moves = self._for_host

    def of_subagent(self, call_id: str) -> str:
        """Return the path of the transcript of a call's sub-agent."""
        return str(subagent_path(self.wanted(), call_id))

    def record(self, event: Event) -> None:
        """Record an event in the log, then in the transcript."""
        with self._lock:
            if self._at_once and self._writer is None:
                self.wanted()
            self._log.record(event)
            if self._moves:
                self._moves = False
                with suppress(OSError):  # it is deleted at the next start then
                    move_beside_transcript(self._log.path, self.path)
            if self._writer is not None:
                self._writer(event)


def make_transcript(
    config: Config,
    settings: Settings,
    run_env: RunEnvironment,
    header: Header,
    log: SessionLog,
    warn: Callable[[str], None],
    mirror: Mirror | None,
    *,
    attended: bool,
) -> SessionTranscript | None:
    """Return the transcript of a saved session; None if the settings turn it off.

    mirror: called with the path and the entries of each write, if the options want it. attended: a user is present.
    """
    at_once = settings.transcript == "claude" or config.hosted
    if settings.transcript == "auto" and not attended and not config.bare:
        at_once = at_once or os.path.isdir(projects_folder(run_env.env, run_env.home))  # noqa: PTH112 - costs pathlib
    if settings.transcript == "off" and not at_once:
        return None
    mirror = mirror if config.mirror else None
    if config.hosted:
        SessionStore.at(log.path.parent).remove_deleted()
    return SessionTranscript(log, header, run_env, warn, mirror, at_once=at_once, for_host=config.hosted)


def read_foreign(config: Config, run_env: RunEnvironment) -> Restored | None:
    """Return the session to resume, read from a transcript of Claude Code; None if there is none with that ID.

    Raises SessionNotFoundError if it cannot be read, or if it belongs to another folder and is not forked.
    """
    path = find_foreign(config.resume or "", run_env, anywhere=config.fork)
    return reader.read_transcript(path, path.stem) if path is not None else None


def find_foreign(text: str, run_env: RunEnvironment, *, anywhere: bool) -> Path | None:
    """Return the transcript of the session with this ID; see `read_foreign`."""
    if not is_session_id(text):
        return None
    here = project_folder(run_env.env, run_env.home, run_env.cwd)
    found = sorted(find_transcripts(run_env.env, run_env.home, text), key=lambda path: path.parent != here)
    if not found or found[0].parent == here or anywhere:
        return found[0] if found else None
    where = shorten(reader.working_directory(found[0]) or found[0].parent.name)
    raise SessionNotFoundError(
        f"Session {text} belongs to {where}: resume it there; agent --resume {text} --fork-session copies it here"
    )


def message_counts(header: Header, restored: Restored | None, log: SessionLog | None) -> dict[str, int]:
    """Return the number of messages that the log has at the start, by scope."""
    if restored is None:
        return {}
    copied = log is not None and (bool(restored.uuids) or header.session_id != restored.header.session_id)
    return {"": len(restored.history)} if copied else restored.counts
