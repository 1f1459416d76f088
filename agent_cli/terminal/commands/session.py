"""The session itself: what there is, leaving, beginning anew.

Sessions as the user sees them: others to go on with, a copy of this one, its name, what it leaves behind.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from agent_cli.core.events import SessionNamed
from agent_cli.core.messages import AssistantMessage
from agent_cli.core.place import UsageError
from agent_cli.runtime.titles import clean_name
from agent_cli.session.records import SessionNotFoundError
from agent_cli.session.store import SessionStore, state_folder
from agent_cli.terminal.commands.registry import REGISTRY, ExitRequestedError, slash
from agent_cli.terminal.dialogs.session_picker import row
from agent_cli.terminal.render.ansi import to_clipboard
from agent_tools.shell.jobs import Jobs, clock_duration
from agent_tools.text import counted, shorten

if TYPE_CHECKING:
    from agent_cli.session.summary import SessionSummary
    from agent_cli.terminal.repl import Repl


@slash("help", "this list", aside=True)
def _help(repl: Repl, words: str) -> None:
    ours = [(f"/{command.name} {command.usage}", command.help) for _, command in sorted(REGISTRY.items())]
    theirs = repl.agent.commands.items()
    own = [(f"/{name} {own.hint}", own.description or str(getattr(own, "path", ""))) for name, own in theirs]
    for usage, text in (*ours, *own, *repl.keys):
        repl.say(f"  {usage:<19} {text}" if len(usage) < 20 else f"  {usage}  {text}")


@slash("exit", "leave", aside=True)
def _exit(repl: Repl, words: str) -> None:
    raise ExitRequestedError


@slash("clear", "start a new session here")
def _clear(repl: Repl, words: str) -> None:
    running = sum(job.running for job in repl.agent.conversation.kit.context.state(Jobs).all())
    repl.start_over()
    ended = f" {counted(running, 'background command')} ended." if running else ""
    repl.say(f"A new session; the old one is saved.{ended}")


@slash("jobs", "background commands", aside=True)
def _jobs(repl: Repl, words: str) -> None:
    jobs = repl.agent.conversation.kit.context.state(Jobs).all()
    for job in jobs:
        repl.say(f"  {job.id}  {job.state}, {clock_duration(job.elapsed)}  {shorten(job.command)}")
    if not jobs:
        repl.say("There are no background commands.")


# What reads and writes sessions is loaded by the first command that does: this module comes before the prompt.

_LISTED = 15
_OFFERED = 200
_WIDTH = 90


def _store(repl: Repl) -> SessionStore:
    return SessionStore(state_folder(repl.place.env), repl.place.root)


@slash("sessions", "the latest sessions of this project", aside=True)
def _sessions(repl: Repl, words: str) -> None:
    from agent_cli.session.summary import glances

    found = list(glances(_store(repl).folder))
    now = datetime.now(UTC)
    for g in found[:_LISTED]:
        mark = "*" if g.session_id == repl.agent.header.session_id else " "
        repl.say(f" {mark} {g.session_id[:8]}  {row(g, _WIDTH, now).rstrip()}")
    more = f"{len(found) - _LISTED} more in agent sessions list; " if len(found) > _LISTED else ""
    repl.say(f"{more}/resume continues one." if found else "There are no sessions of this project yet.")


@slash("resume", "resume another session", "[ID or words]")
def _resume(repl: Repl, words: str) -> None:
    from agent_cli.session.search import SeveralSessionsError, find_session
    from agent_cli.session.summary import glances

    here = repl.agent.header.session_id
    store = _store(repl)
    try:
        if words:
            session_id = find_session(store, words).stem
        else:
            session_id = _choose(repl, [g for g in glances(store.folder) if g.session_id != here])
    except SeveralSessionsError as several:
        session_id = _choose(repl, several.found)
    except SessionNotFoundError as error:
        repl.say(str(error))
        return
    if session_id == here:
        repl.say("That is the session you are in.")
    elif session_id:
        repl.go_on_with(session_id)


def _choose(repl: Repl, found: list[SessionSummary]) -> str:
    """The ID of the session that the user picks; empty for none."""
    if not found:
        repl.say("There is no other session in this project.")
        return ""
    now = datetime.now(UTC)
    options = [(f"{g.session_id[:8]}  {row(g, _WIDTH, now).rstrip()}", "") for g in found[:_OFFERED]]
    place = repl.choose("Which session?", options)
    return found[place].session_id if place is not None else ""


@slash("fork", "continue in a copy of this session", "[NAME]")
def _fork(repl: Repl, words: str) -> None:
    if not (repl.agent.settings.save_sessions and repl.agent.conversation.history):
        repl.say("There is nothing to copy: this session has no record on disk.")
        return
    old = repl.fork()
    if name := clean_name(words):
        repl.agent.rename(SessionNamed(name))
    repl.say(f"In a copy of this session; the other one: agent --resume {old[:8]}")


@slash("rename", "give this session a name", "NAME", aside=True)
def _rename(repl: Repl, words: str) -> None:
    if name := clean_name(words):
        repl.agent.rename(SessionNamed(name))
    repl.say(f"This session is called {repl.agent.name}." if repl.agent.name else "This session has no name.")


@slash("export", "write this session as markdown, HTML or JSON, by the file's name", "[FILE]", aside=True)
def _export(repl: Repl, words: str) -> None:
    from agent_cli.session.export.formats import document, format_of, write_document

    log = _store(repl).path(repl.agent.header.session_id)
    if not log.exists():
        repl.say("There is nothing to export: this session has no record on disk.")
        return
    path = repl.place.cwd / os.path.expanduser(words) if words else _free(repl.place.cwd, f"session-{log.stem[:8]}")
    try:
        made = document(log, format_of(path.name) or "markdown")
        try:
            write_document(path, made, replace=False)
        except FileExistsError:
            if not repl.confirm(f"{path.name} exists already. Replace it?"):
                return
            write_document(path, made, replace=True)
    except SessionNotFoundError as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"Cannot write {path}: {error.strerror or error}.") from None
    repl.say(f"This session is in {path}.")


def _free(folder: Path, name: str) -> Path:
    """A name that nothing has yet."""
    numbers = ("", *(f"-{n}" for n in range(2, 1000)))
    names = (folder / f"{name}{n}.md" for n in numbers)
    return next((path for path in names if not path.exists()), folder / f"{name}.md")


@slash("copy", "copy the last answer, as it was written, to the clipboard", aside=True)
def _copy(repl: Repl, words: str) -> None:
    history = repl.agent.conversation.history
    text = next((m.text for m in reversed(history) if isinstance(m, AssistantMessage) and m.text.strip()), "")
    if not text:
        repl.say("There is no answer yet.")
        return
    sequence = to_clipboard(text.strip("\n"))
    if sequence is None:
        repl.say("The answer is larger than the clipboard of a terminal takes; /export writes it to a file.")
    elif repl.send_sequence(sequence):
        repl.say(f"Copied: {counted(len(text), 'character')}.")
    else:
        repl.say("There is no terminal here whose clipboard could take it.")
