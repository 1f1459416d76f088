"""Open, resume, fork or create the session of a run, with its fixed header.

User errors are `UsageError`s: one sentence, exit 2.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_cli.config.config import Config
from agent_cli.config.prompts import git_branch
from agent_cli.config.schema import Settings
from agent_cli.kernel.engine.conversation import Listener
from agent_cli.kernel.engine.types import SessionOrigin
from agent_cli.kernel.events import Event, Rewound, SessionNamed
from agent_cli.kernel.run_environment import RunEnvironment, StagedSessionError, UsageError
from agent_cli.kernel.session.log import SessionBusyError, SessionLog
from agent_cli.kernel.session.records import Header, Restored, SessionNotFoundError
from agent_cli.kernel.session.store import SessionStore, StoredSession, state_folder
from agent_cli.kernel.version import __version__
from agent_cli.models.resolve import ResolvedModel
from agent_tools.base import Tool
from agent_tools.lazy import lazy_imports
from agent_tools.record import Value
from agent_tools.text import new_uuid, shorten

if TYPE_CHECKING:
    from agent_cli.kernel.message_ids import MessageIds
    from agent_cli.kernel.runtime.transcripts import SessionTranscript
    from agent_cli.knowledge.memory import Memory
    from agent_cli.models.debug import DebugLog

with lazy_imports():
    from agent_cli.kernel.runtime import transcripts  # only to resume a session that is not ours
    from agent_cli.kernel.session import (
        pending_plans,
    )
    from agent_cli.kernel.session.transcripts import entries  # only to resume at an earlier message

# Seconds to wait for another process that has the session open, which may be about to end.
LOCK_WAIT_SECONDS = 5.0
# The same if a user is present.
ATTENDED_LOCK_WAIT_SECONDS = 2.0

MAX_TITLE_CHARS = 80
# Settings that replace the prompt of a resumed session.
_PROMPTS = {"system_prompt", "append_system_prompt"}


class SessionInUseError(UsageError):
    """Another process has the session open. where: a sentence that says which one."""

    def __init__(self, text: str, where: str) -> None:
        super().__init__(text)
        self.where = where


class OpenedSession(Value):
    """The session that a run resumes, read under its lock; without one, both are None.

    log: None also for a session that is not saved, or is copied.
    config: of the run, which may copy the session although the user did not ask for it.
    """

    config: Config
    log: SessionLog | None = None
    restored: Restored | None = None

    def close(self) -> None:
        """Release the session."""
        if self.log is not None:
            self.log.close()


def model_name(config: Config, settings: Settings, restored: Restored | None) -> str | None:
    """Return the model of the command line, else the session's last one, else that of the settings."""
    if config.model or restored is None:
        return settings.model
    return restored.model or settings.model


def require_stage(config: Config, run_env: RunEnvironment) -> None:
    """Raise StagedSessionError if a run resumes a session that works in a stage, before it reads any input."""
    if not config.resumes or config.fork or run_env.stage is not None:
        return
    state = state_folder(run_env.env)
    if not os.path.isdir(state / "stages"):  # noqa: PTH112 - usually there is none
        return
    with suppress(SessionNotFoundError):  # said when the session is opened
        _require_stage(_resolve_session(config, SessionStore(state, run_env.root)))


def _require_stage(session: StoredSession) -> None:
    """Raise StagedSessionError if a session works in a stage."""
    if (found := session.stage_folder) is not None:
        raise StagedSessionError(found, session.session_id)


def read_session(
    config: Config,
    settings: Settings,
    store: SessionStore,
    warn: Callable[[str], None],
    patience: float = LOCK_WAIT_SECONDS,
    run_env: RunEnvironment | None = None,
) -> tuple[SessionLog | None, Restored | None]:
    """Open the session that the configuration resumes: lock it, then read it. Raises UsageError.

    Without such a session, a transcript of Claude Code with that ID is read; it has no log yet.

    patience: seconds to wait for another process that has it open.
    run_env: where to look for that transcript; None: nowhere.
    """
    log = None
    named = config.name_of
    if config.latest and config.resume:
        latest, one = named("latest"), named("resume")
        raise UsageError(f"{latest} resumes the latest session, {one} the one that it names: give one of them.")
    if config.session_id and not config.fork and (config.latest or config.resume):
        resumed, new = f"{named('latest')} or {named('resume')}", named("session_id")
        raise UsageError(f"{new} is the ID of a new session: with {resumed} add {named('fork')}.")
    if config.resume_at is not None and not (config.resumes):
        raise UsageError(f"{named('resume_at')} needs the session: give {named('resume')} and its ID.")
    if config.resume_without is not None and config.resume_at is None:
        raise UsageError(f"{named('resume_without')} needs {named('resume_at')}, after which the turn is dropped.")
    try:
        if not config.resume and not config.latest:
            return None, None
        try:
            found = _resolve_session(config, store)
        except SessionNotFoundError:
            foreign = transcripts.read_foreign(config, run_env) if run_env is not None and config.resume else None
            if foreign is None:
                raise
            return None, _cut(config, foreign, foreign.uuids)
        if host := found.host:
            raise UsageError(
                f"Session {found.session_id[:8]} is one of {host}, which only asks here: continue it there."
            )
        if run_env is not None and run_env.stage is None and not config.fork:
            _require_stage(found)
        if settings.save_sessions and not config.fork:
            log = SessionLog(found.path, warn, os.environ)
            log.acquire(patience)
        restored = found.load()
        if config.resume_at is not None:
            restored = _cut(config, restored, entries.uuids_in(found.path, found.session_id), found)
    except (SessionNotFoundError, SessionBusyError) as error:
        if log is not None:
            log.close()
        if isinstance(error, SessionBusyError):
            raise SessionInUseError(str(error), error.where) from None
        raise UsageError(str(error)) from None
    if log is not None:
        log.continue_from(restored.seq, restored.parent)
        if config.resume_at is not None:
            log.record(Rewound(len(restored.history), restored.plan))
    if restored.bad:
        what = "1 damaged record" if restored.bad == 1 else f"{restored.bad} damaged records"
        backup = f"; the original file {log.mend(restored)}" if log is not None else ""
        warn(f"{what} of this session skipped{backup}.")
    return log, restored


def _cut(
    config: Config, restored: Restored, uuids: Sequence[tuple[str, ...]], stored: StoredSession | None = None
) -> Restored:
    """Return the session up to the message of `Config.resume_at`. Raises SessionNotFoundError.

    stored: where it is, if it has a log.
    """
    if config.resume_at is None:
        return restored
    count = entries.messages_to_keep(restored.history, uuids, config.resume_at, config.resume_without)
    if stored is not None:
        return stored.load(count)
    return restored.replace(history=restored.history[:count], uuids=restored.uuids[:count])


def _resolve_session(config: Config, store: SessionStore) -> StoredSession:
    """Return the session to resume. Raises SessionNotFoundError."""
    if not config.resume:
        return store.session(store.latest())
    found = store.find(config.resume, anywhere=config.fork)
    if found.is_deleted:
        found.remove()
        raise SessionNotFoundError(f"Session {found.session_id} was deleted by the program that ran it")
    return found


def make_header(
    config: Config,
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
    session_id = _session_id(config)
    if restored is not None and not restored.rebuilt:
        old = restored.header
        changed = {}
        if not config.overrides.keys().isdisjoint(_PROMPTS):
            changed["system"] = system()
        if config.fork:
            changed |= {"session_id": session_id, "forked_from": old.session_id, "schedule": ""}
            if old.root != str(run_env.root):
                # The session belongs to another project, so its environment does not apply.
                changed |= {"cwd": str(run_env.cwd), "root": str(run_env.root), "branch": git_branch(run_env.root)}
                changed["system"] = system()
        return old.replace(**changed)
    names = tuple(t.name for t in tools)
    origin = ""
    if restored is not None and config.fork:
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
        schedule=config.schedule,
        taken_from=restored.header.taken_from if restored is not None else "",
    )


def _session_id(config: Config) -> str:
    chosen = config.session_id
    if chosen is None:
        return new_uuid()
    bare = chosen.replace("-", "").lower()
    if len(bare) != 32 or any(c not in "0123456789abcdef" for c in bare):
        raise UsageError(f"{config.name_of('session_id')}: {chosen} is not a UUID.")
    return f"{bare[:8]}-{bare[8:12]}-{bare[12:16]}-{bare[16:20]}-{bare[20:]}"


def new_log(
    config: Config,
    settings: Settings,
    store: SessionStore,
    header: Header,
    restored: Restored | None,
    warn: Callable[[str], None],
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
        new, resume = config.name_of("session_id"), config.name_of("resume")
        raise UsageError(f"{new}: session {header.session_id} exists already; resume it with {resume}.") from None
    return log


def session_origin(config: Config, settings: Settings, restored: Restored | None) -> SessionOrigin:
    """Return how the session begins, for its Setup and SessionStart hooks."""
    if restored is None:
        return SessionOrigin("startup", config.setup)
    source = "fork" if config.fork else "resume" if restored.history else "startup"
    idle_since = pending_plans.seconds_of(restored.updated) if restored.updated else None
    return SessionOrigin(source, config.setup, idle_since, 3600 if settings.cache_ttl == "1h" else 300)


def memory_facts(memory: Memory, run_env: RunEnvironment) -> tuple[tuple[str, str, str], ...]:
    """Return the memory files that were read, for hooks: path, whose they are, and the file that imports each."""

    def whose(path: Path) -> str:
        if not path.is_relative_to(run_env.root):
            return "User"
        return "Local" if path.stem.endswith(".local") else "Project"

    return tuple((str(file.path), whose(file.path), file.by) for file in memory.files)


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
    telemetry: Listener | None = None,
) -> Listener:
    """Return a function that records the events of a session in its log, transcript and debug log, and passes them on
    to its telemetry.

    unsaved: receives the events of a session that is not saved.
    """
    record: Listener = log.record if log is not None else unsaved or _discard
    if transcript is not None:
        record = transcript.record
    if ids is None and debug_log is None and telemetry is None:
        return record

    def counted(event: Event) -> None:
        if ids is not None:
            ids.observe(event)
        if debug_log is not None:
            debug_log.event(event)
        record(event)
        if telemetry is not None:
            telemetry(event)

    return counted


def _discard(event: Event) -> None:
    """Record nothing, for a session that is not saved."""
