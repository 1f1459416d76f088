"""Open, resume, fork or create the session of a run, with its fixed header.

User errors are `UsageError`s: one sentence, exit 2.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_cli.config.prompts import git_branch
from agent_cli.config.run_options import PICK_SESSION, RunOptions
from agent_cli.config.schema import Settings
from agent_cli.core.events import Event, Rewound, SessionNamed
from agent_cli.core.messages import new_uuid
from agent_cli.core.run_environment import RunEnvironment, UsageError
from agent_cli.core.version import __version__
from agent_cli.engine.conversation import Listener
from agent_cli.engine.types import SessionOrigin
from agent_cli.providers.resolve import ResolvedModel
from agent_cli.session.log import SessionBusyError, SessionLog
from agent_cli.session.records import Header, Restored, SessionNotFoundError
from agent_cli.session.store import SessionStore
from agent_tools.base import Tool
from agent_tools.lazy import lazy_imports
from agent_tools.record import Value
from agent_tools.text import shorten

if TYPE_CHECKING:
    from agent_cli.core.message_ids import MessageIds
    from agent_cli.providers.debug import DebugLog
    from agent_cli.runtime.transcripts import SessionTranscript

with lazy_imports():
    from agent_cli.runtime import transcripts  # only to resume a session that is not ours
    from agent_cli.session import (
        pending_plans,
        search,  # only to resume a named session
    )
    from agent_cli.session.transcripts import entries  # only to resume at an earlier message

# Seconds to wait for another process that has the session open, which may be about to end.
LOCK_WAIT_SECONDS = 5.0
# The same if a user is present.
ATTENDED_LOCK_WAIT_SECONDS = 2.0

MAX_TITLE_CHARS = 80


class SessionInUseError(UsageError):
    """Another process has the session open. where: a sentence that says which one."""

    def __init__(self, text: str, where: str) -> None:
        super().__init__(text)
        self.where = where


class OpenedSession(Value):
    """The session that a run resumes, read under its lock; without one, both are None.

    log: None also for a session that is not saved, or is copied.
    options: of the run, which may copy the session although the user did not ask for it.
    """

    options: RunOptions
    log: SessionLog | None = None
    restored: Restored | None = None

    def close(self) -> None:
        """Release the session."""
        if self.log is not None:
            self.log.close()


def model_name(options: RunOptions, settings: Settings, restored: Restored | None) -> str | None:
    """Return the model of the command line, else the session's last one, else that of the settings."""
    if options.model or restored is None:
        return settings.model
    return restored.model or settings.model


def open_session(
    options: RunOptions,
    settings: Settings,
    store: SessionStore,
    warn: Callable[[str], None],
    patience: float = LOCK_WAIT_SECONDS,
    run_env: RunEnvironment | None = None,
) -> tuple[SessionLog | None, Restored | None]:
    """Open the session that the options resume: lock it, then read it. Raises UsageError.

    Without such a session, a transcript of Claude Code with that ID is read; it has no log yet.

    patience: seconds to wait for another process that has it open.
    run_env: where to look for that transcript; None: nowhere.
    """
    log = None
    if options.continue_ and options.resume:
        raise UsageError("--continue resumes the latest session, --resume the one that it names: give one of them.")
    if options.session_id and not options.fork_session and (options.continue_ or options.resume):
        raise UsageError("--session-id is the ID of a new session: with --continue or --resume add --fork-session.")
    if options.resume_session_at is not None and not (options.resume or options.continue_):
        raise UsageError("--resume-session-at needs the session: give --resume and its ID.")
    if options.resume_drops_turn is not None and options.resume_session_at is None:
        raise UsageError("--resume-drops-turn needs --resume-session-at, after which the turn is dropped.")
    try:
        if options.resume == PICK_SESSION:
            raise UsageError("--resume needs a session's ID, name or text here. See: agent sessions list")
        if not options.resume and not options.continue_:
            return None, None
        try:
            path = _resolve_session(options, store)
        except SessionNotFoundError:
            foreign = transcripts.read_foreign(options, run_env) if run_env is not None and options.resume else None
            if foreign is None:
                raise
            return None, _cut(options, foreign, foreign.uuids)
        store, session_id = SessionStore.at(path.parent), path.stem
        if settings.save_sessions and not options.fork_session:
            log = SessionLog(store.path(session_id), warn, os.environ)
            log.acquire(patience)
        restored = store.load(session_id)
        if options.resume_session_at is not None:
            restored = _cut(options, restored, entries.uuids_in(path, session_id), store)
    except (SessionNotFoundError, SessionBusyError) as error:
        if log is not None:
            log.close()
        if isinstance(error, SessionBusyError):
            raise SessionInUseError(str(error), error.where) from None
        raise UsageError(str(error)) from None
    if log is not None:
        log.continue_from(restored.seq, restored.parent)
        if options.resume_session_at is not None:
            log.record(Rewound(len(restored.history), restored.plan))
    if restored.bad:
        what = "1 damaged record" if restored.bad == 1 else f"{restored.bad} damaged records"
        backup = f"; the original file {log.mend(restored)}" if log is not None else ""
        warn(f"{what} of this session skipped{backup}.")
    return log, restored


def _cut(
    options: RunOptions, restored: Restored, uuids: Sequence[tuple[str, ...]], store: SessionStore | None = None
) -> Restored:
    """Return the session up to the message of --resume-session-at. Raises SessionNotFoundError.

    store: of its log, if it has one.
    """
    if options.resume_session_at is None:
        return restored
    count = entries.messages_to_keep(restored.history, uuids, options.resume_session_at, options.resume_drops_turn)
    if store is not None:
        return store.load(restored.header.session_id, count)
    return restored.replace(history=restored.history[:count], uuids=restored.uuids[:count])


def _resolve_session(options: RunOptions, store: SessionStore) -> Path:
    """Return the log of the session to resume. Raises SessionNotFoundError."""
    if not options.resume:
        return store.path(store.latest())
    return search.find_session(store, options.resume, anywhere=options.fork_session)


def make_header(
    options: RunOptions,
    run_env: RunEnvironment,
    model: ResolvedModel,
    tools: list[Tool[Any]],
    restored: Restored | None,
    system: Callable[[], str],
    *,
    answered: bool,
    small: bool,
) -> Header:
    """Return the session's fixed header. A resumed session has its old prompt, which the provider may have cached.

    system: returns the system prompt; called if a new one is needed.
    answered: somebody answers questions.
    small: the prompt and tools are those of small models.
    """
    session_id = _session_id(options.session_id)
    if restored is not None and not restored.rebuilt:
        old = restored.header
        changed = {}
        if options.system_prompt is not None or options.append_system_prompt is not None:
            changed["system"] = system()
        if options.fork_session:
            changed |= {"session_id": session_id, "forked_from": old.session_id}
            if old.root != str(run_env.root):
                # The session belongs to another project, so its environment does not apply.
                changed |= {"cwd": str(run_env.cwd), "root": str(run_env.root), "branch": git_branch(run_env.root)}
                changed["system"] = system()
        return old.replace(**changed)
    names = tuple(t.name for t in tools)
    origin = ""
    if restored is not None and options.fork_session:
        origin = restored.header.session_id
    elif restored is not None:
        session_id = restored.header.session_id
    return Header(
        session_id,
        str(run_env.cwd),
        str(run_env.root),
        model.name,
        system(),
        names,
        __version__,
        forked_from=origin,
        branch=git_branch(run_env.root),
        answered=answered,
        small=small,
    )


def _session_id(chosen: str | None) -> str:
    if chosen is None:
        return new_uuid()
    bare = chosen.replace("-", "").lower()
    if len(bare) != 32 or any(c not in "0123456789abcdef" for c in bare):
        raise UsageError(f"--session-id: {chosen} is not a UUID.")
    return f"{bare[:8]}-{bare[8:12]}-{bare[12:16]}-{bare[16:20]}-{bare[20:]}"


def new_log(
    settings: Settings, store: SessionStore, header: Header, restored: Restored | None, warn: Callable[[str], None]
) -> SessionLog | None:
    """Create the log of a new session or a fork; None if it is not saved. Raises UsageError."""
    if not settings.save_sessions:
        return None
    log = SessionLog(store.path(header.session_id), warn, os.environ)
    try:
        log.create(header, restored)
        if restored is not None and restored.name:
            log.record(SessionNamed(f"{restored.name} (copy)" if header.forked_from else restored.name))
    except FileExistsError:
        raise UsageError(
            f"--session-id: session {header.session_id} exists already; resume it with --resume."
        ) from None
    return log


def session_origin(options: RunOptions, settings: Settings, restored: Restored | None) -> SessionOrigin:
    """Return how the session begins, for its Setup and SessionStart hooks."""
    setup = "init" if options.init else "maintenance" if options.maintenance else ""
    if restored is None:
        return SessionOrigin("startup", setup)
    source = "fork" if options.fork_session else "resume" if restored.history else "startup"
    idle_since = pending_plans.seconds_of(restored.updated) if restored.updated else None
    return SessionOrigin(source, setup, idle_since, 3600 if settings.cache_ttl == "1h" else 300)


def sanitize_title(text: str) -> str:
    """Return a title on one line, truncated and without surrounding quotes; it may be empty."""
    line = next((line for line in text.strip().splitlines() if line.strip()), "")
    return shorten(" ".join(line.split()).strip("\"'`*#").strip(), MAX_TITLE_CHARS)


def session_recorder(
    log: SessionLog | None,
    transcript: SessionTranscript | None,
    ids: MessageIds | None,
    debug_log: DebugLog | None,
    unsaved: Listener | None = None,
) -> Listener:
    """Return a function that records the events of a session in its log, transcript and debug log.

    unsaved: receives the events of a session that is not saved.
    """
    record: Listener = log.record if log is not None else unsaved or _discard
    if transcript is not None:
        record = transcript.record
    if ids is None and debug_log is None:
        return record

    def counted(event: Event) -> None:
        if ids is not None:
            ids.observe(event)
        if debug_log is not None:
            debug_log.event(event)
        record(event)

    return counted


def _discard(event: Event) -> None:
    """Record nothing, for a session that is not saved."""
