"""Commands about the session: help, exit, clear, jobs.

Also other sessions to resume, forks, the session's name, exports and the clipboard.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from agent_cli.core.events import SessionNamed
from agent_cli.core.messages import AssistantMessage
from agent_cli.core.place import UsageError
from agent_cli.runtime.titles import sanitize_title
from agent_cli.session.records import SessionNotFoundError
from agent_cli.session.store import SessionStore, state_folder
from agent_cli.session.summary import SessionSummary, glances
from agent_cli.terminal.dialogs.session_picker import row
from agent_cli.terminal.render.ansi import to_clipboard
from agent_cli.terminal.slash import REGISTRY, ExitRequestedError, SlashContext, slash
from agent_tools.lazy import lazy_imports
from agent_tools.shell.jobs import Jobs, clock_duration
from agent_tools.text import counted, shorten

with lazy_imports():
    from agent_cli.session import export, search


@slash("help", "this list", aside=True)
def _help(ctx: SlashContext, words: str) -> None:
    ours = [(f"/{command.name} {command.usage}", command.help) for _, command in sorted(REGISTRY.items())]
    theirs = ctx.agent.commands.items()
    own = [(f"/{name} {own.hint}", own.description or str(getattr(own, "path", ""))) for name, own in theirs]
    for usage, text in (*ours, *own, *ctx.keys):
        ctx.say(f"  {usage:<19} {text}" if len(usage) < 20 else f"  {usage}  {text}")


@slash("exit", "leave", aside=True)
def _exit(ctx: SlashContext, words: str) -> None:
    raise ExitRequestedError


@slash("clear", "start a new session here")
def _clear(ctx: SlashContext, words: str) -> None:
    running = sum(job.running for job in ctx.agent.conversation.deps.context.state(Jobs).all())
    ctx.start_new_session()
    ended = f" {counted(running, 'background command')} ended." if running else ""
    ctx.say(f"A new session; the old one is saved.{ended}")


@slash("jobs", "background commands", aside=True)
def _jobs(ctx: SlashContext, words: str) -> None:
    jobs = ctx.agent.conversation.deps.context.state(Jobs).all()
    for job in jobs:
        ctx.say(f"  {job.id}  {job.state}, {clock_duration(job.elapsed)}  {shorten(job.command)}")
    if not jobs:
        ctx.say("There are no background commands.")


_LISTED = 15
_OFFERED = 200
_WIDTH = 90


def _store(ctx: SlashContext) -> SessionStore:
    return SessionStore(state_folder(ctx.place.env), ctx.place.root)


@slash("sessions", "the latest sessions of this project", aside=True)
def _sessions(ctx: SlashContext, words: str) -> None:
    found = list(glances(_store(ctx).folder))
    now = datetime.now(UTC)
    for g in found[:_LISTED]:
        mark = "*" if g.session_id == ctx.agent.header.session_id else " "
        ctx.say(f" {mark} {g.session_id[:8]}  {row(g, _WIDTH, now).rstrip()}")
    more = f"{len(found) - _LISTED} more in agent sessions list; " if len(found) > _LISTED else ""
    ctx.say(f"{more}/resume continues one." if found else "There are no sessions of this project yet.")


@slash("resume", "resume another session", "[ID or words]")
def _resume(ctx: SlashContext, words: str) -> None:
    here = ctx.agent.header.session_id
    store = _store(ctx)
    try:
        if words:
            session_id = search.find_session(store, words).stem
        else:
            session_id = _choose(ctx, [g for g in glances(store.folder) if g.session_id != here])
    except search.SeveralSessionsError as several:
        session_id = _choose(ctx, several.found)
    except SessionNotFoundError as error:
        ctx.say(str(error))
        return
    if session_id == here:
        ctx.say("That is the session you are in.")
    elif session_id:
        ctx.resume(session_id)


def _choose(ctx: SlashContext, found: list[SessionSummary]) -> str:
    """Return the ID of the session that the user picks; "" for none."""
    if not found:
        ctx.say("There is no other session in this project.")
        return ""
    now = datetime.now(UTC)
    options = [(f"{g.session_id[:8]}  {row(g, _WIDTH, now).rstrip()}", "") for g in found[:_OFFERED]]
    place = ctx.choose("Which session?", options)
    return found[place].session_id if place is not None else ""


@slash("fork", "continue in a copy of this session", "[NAME]")
def _fork(ctx: SlashContext, words: str) -> None:
    if not (ctx.agent.settings.save_sessions and ctx.agent.conversation.history):
        ctx.say("There is nothing to copy: this session has no record on disk.")
        return
    old = ctx.fork()
    if name := sanitize_title(words):
        ctx.agent.rename(SessionNamed(name))
    ctx.say(f"In a copy of this session; the other one: agent --resume {old[:8]}")


@slash("rename", "give this session a name", "NAME", aside=True)
def _rename(ctx: SlashContext, words: str) -> None:
    if name := sanitize_title(words):
        ctx.agent.rename(SessionNamed(name))
    ctx.say(f"This session is called {ctx.agent.name}." if ctx.agent.name else "This session has no name.")


@slash("export", "write this session as markdown, HTML or JSON, by the file's name", "[FILE]", aside=True)
def _export(ctx: SlashContext, words: str) -> None:
    log = _store(ctx).path(ctx.agent.header.session_id)
    if not log.exists():
        ctx.say("There is nothing to export: this session has no record on disk.")
        return
    path = ctx.place.cwd / os.path.expanduser(words) if words else _free(ctx.place.cwd, f"session-{log.stem[:8]}")
    try:
        made = export.document(log, export.format_of(path.name) or "markdown")
        try:
            export.write_document(path, made, replace=False)
        except FileExistsError:
            if not ctx.confirm(f"{path.name} exists already. Replace it?"):
                return
            export.write_document(path, made, replace=True)
    except SessionNotFoundError as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"Cannot write {path}: {error.strerror or error}.") from None
    ctx.say(f"This session is in {path}.")


def _free(folder: Path, name: str) -> Path:
    """Return an unused file name."""
    numbers = ("", *(f"-{n}" for n in range(2, 1000)))
    names = (folder / f"{name}{n}.md" for n in numbers)
    return next((path for path in names if not path.exists()), folder / f"{name}.md")


@slash("copy", "copy the last answer, as it was written, to the clipboard", aside=True)
def _copy(ctx: SlashContext, words: str) -> None:
    history = ctx.agent.conversation.history
    text = next((m.text for m in reversed(history) if isinstance(m, AssistantMessage) and m.text.strip()), "")
    if not text:
        ctx.say("There is no answer yet.")
        return
    sequence = to_clipboard(text.strip("\n"))
    if sequence is None:
        ctx.say("The answer is larger than the clipboard of a terminal takes; /export writes it to a file.")
    elif ctx.send_sequence(sequence):
        ctx.say(f"Copied: {counted(len(text), 'character')}.")
    else:
        ctx.say("There is no terminal here whose clipboard could take it.")
