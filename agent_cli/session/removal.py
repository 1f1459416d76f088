"""Deleting a session with all that belongs to it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from agent_cli.session.log import SessionBusyError, SessionLog
from agent_cli.session.pending_plans import claim_plan
from agent_cli.session.store import SessionStore


def remove_session(path: Path) -> str:
    """Remove the session with this log, and all its files; return "" or why it is still there."""
    store, session_id = SessionStore.at(path.parent), path.stem
    log = SessionLog(path, lambda text: None, os.environ)
    try:
        log.acquire()
        for file in reversed(store.files(session_id)):
            file.rmdir() if file.is_dir() and not file.is_symlink() else file.unlink(missing_ok=True)
        claim_plan(store.folder, session_id)
        # Without references the contents go with the next pruning of the checkpoints.
        snapshots = store.folder.parent.parent / "snapshots" / store.folder.name
        (snapshots / "sessions" / f"{session_id}.records").unlink(missing_ok=True)
    except SessionBusyError:
        return f"Session {session_id[:8]} is open in another process and was not removed."
    except OSError as error:
        return f"Session {session_id[:8]} was not removed: {error.strerror or error}."
    finally:
        log.close()
    with suppress(OSError):  # other sessions are left
        store.folder.rmdir()
    return ""
