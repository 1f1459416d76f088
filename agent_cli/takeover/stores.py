"""Find the sessions of other programs, and take them over as sessions of ours.

The source is only read. The ID of the new session follows from what was read, so that the same conversation is not
taken over twice; one that has grown since becomes another session.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

from agent_cli.kernel.events import Event, SessionNamed
from agent_cli.kernel.messages import UserMessage
from agent_cli.kernel.run_environment import RunEnvironment, UsageError
from agent_cli.kernel.session.log import SessionLog
from agent_cli.kernel.session.records import Header, SessionNotFoundError
from agent_cli.kernel.session.store import SessionStore
from agent_cli.takeover import claude, codex, convert, gemini, opencode
from agent_cli.takeover.form import ForeignSession, FoundSession
from agent_tools.record import Value, to_json
from agent_tools.text import counted, shorten


class ForeignProgram(Value):
    """A program whose sessions can be taken over. find: yields those below a folder. read: reads one."""

    name: str
    find: Callable[[Mapping[str, str], Path | None, Path | None], Iterator[FoundSession]]
    read: Callable[[FoundSession, Mapping[str, str], Path | None], ForeignSession]


PROGRAMS = {
    "claude": ForeignProgram("Claude Code", claude.find_claude, claude.read_claude),
    "codex": ForeignProgram("Codex", codex.find_codex, codex.read_codex),
    "gemini": ForeignProgram("Gemini CLI", gemini.find_gemini, gemini.read_gemini),
    "opencode": ForeignProgram("OpenCode", opencode.find_opencode, opencode.read_opencode),
}
MARK = "@"
_MAX_TITLE_CHARS = 80


class TakenOver(Value):
    """A session that was taken over. new: False if it had been before, and has not changed since.

    messages: how many it has. earlier: the session that it was taken over as when it was shorter; "" for none.
    """

    session_id: str
    found: FoundSession
    messages: int = 0
    new: bool = True
    earlier: str = ""
    notes: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """What happened, for the user."""
        name, short = shown_name(self.found.program), self.session_id[:8]
        what = f"the session {self.found.session_id[:16]} of {name}"
        if not self.new:
            return f"{short} is {what}, taken over before."
        again = f" It was shorter when it was taken over as {self.earlier[:8]}." if self.earlier else ""
        more = "".join(f" {note}" for note in self.notes)
        return f"{short} continues {what}: {counted(self.messages, 'message')}.{again}{more}"


def shown_name(program: str) -> str:
    """Return what a program is called."""
    return PROGRAMS[program].name


def foreign_sessions(run_env: RunEnvironment, programs: Iterable[str] = PROGRAMS, *, every: bool) -> list[FoundSession]:
    """Return the sessions of these programs in this project, the latest first. every: those of all folders."""
    root = None if every else Path(os.path.realpath(run_env.root))
    # Transcripts of our own sessions may be among those of Claude Code.
    own = {each.session_id for store in SessionStore.everywhere(run_env.env) for each in store.sessions()}
    sessions = (f for program in programs for f in PROGRAMS[program].find(run_env.env, run_env.home, root))
    found = [session for session in sessions if session.session_id not in own]
    return sorted(found, key=lambda session: session.updated, reverse=True)


def foreign_session_rows(
    run_env: RunEnvironment, programs: Iterable[str] = PROGRAMS, *, every: bool
) -> list[dict[str, str]]:
    """Return the sessions of `foreign_sessions` as JSON data, with the session of ours that each was taken over as."""
    ours = taken_over(SessionStore.of(run_env))
    return [
        {
            "program": found.program,
            "name": shown_name(found.program),
            "source_id": found.session_id,
            "cwd": found.cwd,
            "title": found.title,
            "updated": found.updated,
            "taken_over_as": ours.get(f"{found.program} {found.session_id}", ""),
        }
        for found in foreign_sessions(run_env, programs, every=every)
    ]


def choose_session(run_env: RunEnvironment, programs: Iterable[str], start: str, *, every: bool) -> FoundSession:
    """Return the latest session of these programs, or the one whose ID begins so. Raises UsageError."""
    programs = tuple(programs)
    sessions = foreign_sessions(run_env, programs, every=every)
    found = [session for session in sessions if session.session_id.startswith(start)]
    if found and (not start or len({session.session_id for session in found}) == 1):
        return found[0]
    names = shown_name(programs[0]) if len(programs) == 1 else "another agent"
    if found:
        raise UsageError(f"{len(found)} sessions of {names} begin with {shorten(start, 40)}: give more of the ID.")
    which = f" begins with {shorten(start, 40)}" if start else ""
    where = "here" if every else f"in {run_env.root}"
    raise UsageError(f"No session of {names} {where}{which}. See: agent sessions import --list --all-projects")


def read_programs(name: str) -> tuple[str, ...]:
    """Return the programs that a name means; "" for all. Raises UsageError."""
    if name and name not in PROGRAMS:
        raise UsageError(f"Sessions of {shorten(name, 40)} cannot be taken over. There are {', '.join(PROGRAMS)}.")
    return (name,) if name else tuple(PROGRAMS)


def take_over_named(run_env: RunEnvironment, text: str) -> TakenOver:
    """Take over the session that `@claude`, `@` or `@claude:ID` means. Raises UsageError."""
    name, _, start = text.removeprefix(MARK).partition(":")
    return take_over(run_env, choose_session(run_env, read_programs(name), start, every=bool(start)))


def take_over(run_env: RunEnvironment, found: FoundSession) -> TakenOver:
    """Write a session of ours with the conversation of one of another program. Raises UsageError."""
    source = PROGRAMS[found.program]
    try:
        session = source.read(found, run_env.env, run_env.home)
    except SessionNotFoundError as error:
        raise UsageError(str(error)) from None
    messages = convert.our_messages(session)
    if not any(isinstance(message, UserMessage) for message in messages):
        raise UsageError(f"There is no message in the session {found.session_id} ({found.path}).")
    store = SessionStore.of(run_env)
    origin = f"{found.program} {found.session_id}"
    session_id = _session_id(origin, session)
    if store.path(session_id).exists():
        return TakenOver(session_id, session.found, new=False)
    earlier = taken_over(store).get(origin, "")
    files = convert.KnownFiles(session, messages, Path(os.path.realpath(run_env.root)))
    plan = convert.our_plan(session, messages)
    events = convert.our_events(messages, files, plan, convert.origin_note(session, source.name, files))
    header = Header(session_id, str(run_env.cwd), str(run_env.root), "", "", (), "", taken_from=origin)
    named = shorten(" ".join(session.found.title.split()), _MAX_TITLE_CHARS) if session.named else ""
    _write(store.path(session_id), header, [*events, *([SessionNamed(named)] if named else [])], run_env)
    damaged = f"{counted(session.damaged, 'line')} of its file could not be read." if session.damaged else ""
    changed = f"{counted(len(files.changed), 'file')} changed since." if files.changed else ""
    notes = tuple(filter(None, (damaged, changed)))
    return TakenOver(session_id, session.found, len(messages), True, earlier, notes)


def _write(path: Path, header: Header, events: Iterable[Event], run_env: RunEnvironment) -> None:
    """Write a whole log, or none. Raises UsageError."""
    problems: list[str] = []
    part = path.with_suffix(".part")
    log = SessionLog(part, problems.append, run_env.env)
    try:
        part.unlink(missing_ok=True)
        log.create(header)
        log.record_all(events)
        log.close()
        if problems:
            raise UsageError(problems[0])
        part.rename(path)
    except OSError as error:
        raise UsageError(f"The session cannot be saved in {path.parent}: {error.strerror or error}.") from None
    finally:
        log.close()
        with suppress(OSError):
            part.unlink(missing_ok=True)


def taken_over(store: SessionStore) -> dict[str, str]:
    """Return the sessions of a project that were taken over, the latest of each: "claude ID" to ours."""
    origins = ((each.header.get("taken_from"), each.session_id) for each in reversed(store.sessions()))
    return {origin: session_id for origin, session_id in origins if origin}


def _session_id(origin: str, session: ForeignSession) -> str:
    """Return the ID that follows from a conversation."""
    hashed = blake2b(origin.encode(), digest_size=16)
    for message in session.messages:
        hashed.update(repr(to_json(message)).encode("utf-8", "surrogatepass"))
    digits = hashed.hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-8{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"
