"""The session that a command is about: of this project, or of any."""

from __future__ import annotations

import os
from pathlib import Path

from agent_cli.place import UsageError, find_place
from agent_cli.session.finding import SeveralSessionsError, find_session, is_id_like, meant_by
from agent_cli.session.glance import Glance, everywhere, glances
from agent_cli.session.records import SessionNotFoundError
from agent_cli.session.store import SessionStore, state_folder
from agent_tools.clipping import counted, shorten


def find_sessions(every: bool) -> list[Glance]:
    """The sessions of this project, or of all; the latest first."""
    place = find_place(os.environ)
    state = state_folder(place.env)
    return everywhere(state) if every else list(glances(SessionStore(state, place.root).folder))


def log_of(text: str, every: bool) -> Path:
    """The log of the session that is meant; nothing said means the latest. Raises UsageError."""
    place = find_place(os.environ)
    state = state_folder(place.env)
    store = SessionStore(state, place.root)
    try:
        if not every:
            return find_session(store, text) if text else store.path(store.latest())
        found = everywhere(state)
        if not found:
            raise SessionNotFoundError("There are no sessions yet.")
        if text:
            ids = [g for g in found if is_id_like(text) and g.session_id.startswith(text.lower())]
            found = ids or meant_by(found, text)
        if len(found) > 1 and text:
            raise SeveralSessionsError(f"{counted(len(found), 'session')} fit {shorten(text, 60)!r}.", found)
        if not found:
            raise SessionNotFoundError(
                f"No session fits {shorten(text, 60)!r}. See: agent sessions list --all-projects"
            )
        return found[0].path
    except SessionNotFoundError as error:
        raise UsageError(str(error)) from None
