"""`agent sessions rm`: sessions removed for good, after a question."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from agent_cli.commands.which import find_sessions, log_of
from agent_cli.headless.printing import print_notice
from agent_cli.place import UsageError
from agent_cli.session.ages import age, size
from agent_cli.session.glance import Glance, glance
from agent_cli.session.log import SessionBusyError, SessionLog
from agent_cli.session.plans import take_plan
from agent_cli.session.store import SessionStore
from agent_tools.clipping import counted, shorten

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_SHOWN = 10


def remove_sessions(texts: Sequence[str], *, older_than: str, every: bool, yes: bool) -> int:
    """Remove those that are named, or those that were not changed for a time; the exit code. Raises UsageError."""
    if bool(texts) == bool(older_than):
        raise UsageError("Say which sessions: their IDs, or --older-than 30d.")
    if older_than:
        before = datetime.now(UTC) - read_time(older_than)
        chosen = [g for g in find_sessions(every) if _changed(g) < before]
    else:
        paths = list(dict.fromkeys(log_of(text, every) for text in texts))
        # What cannot be read can be removed by its ID too.
        chosen = [glance(path) or Glance(path.stem, path) for path in paths]
    if not chosen:
        print_notice(f"No session is older than {older_than}.")
        return 0
    _ask(chosen, yes=yes)
    kept = [problem for g in chosen if (problem := _remove(g))]
    for problem in kept:
        print_notice(problem)
    removed = len(chosen) - len(kept)
    print_notice(f"{counted(removed, 'session')} removed.")
    return 1 if kept else 0


def read_time(text: str) -> timedelta:
    """A length of time as people write it: 90m, 12h, 30d, 4w. Raises UsageError."""
    found = re.fullmatch(r"(\d{1,6})([mhdw])", text.strip().lower())
    if found is None:
        raise UsageError(f"--older-than: {shorten(text, 40)} is no time; write 12h, 30d or 4w.")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def _changed(g: Glance) -> datetime:
    try:
        return datetime.fromisoformat(g.updated)
    except ValueError:
        return datetime.fromtimestamp(g.path.stat().st_mtime, UTC)


def _ask(chosen: Sequence[Glance], *, yes: bool) -> None:
    """Have the user agree. Raises UsageError where they do not, or nobody is there."""
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            f"{counted(len(chosen), 'session')} would be removed for good; --yes says so without a question."
        )
    now = datetime.now(UTC)
    for g in chosen[:_SHOWN]:
        print_notice(f"  {g.session_id[:8]}  {age(g.updated, now):>4}  {size(g.size):>5}  {shorten(g.title, 60)}")
    if len(chosen) > _SHOWN:
        print_notice(f"  and {len(chosen) - _SHOWN} more")
    what = "this session" if len(chosen) == 1 else f"these {len(chosen)} sessions"
    sys.stderr.write(f"Remove {what} for good? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError("Nothing was removed.")


def _remove(g: Glance) -> str:
    """Remove one with all files that belong to it; "" or why it is still there."""
    store = SessionStore.at(g.path.parent)
    log = SessionLog(g.path, lambda text: None, os.environ)
    try:
        log.acquire()
        for path in reversed(store.files(g.session_id)):
            path.unlink(missing_ok=True)
        take_plan(store.folder, g.session_id)
        # Without them the contents go with the next clean-up of the snapshots.
        snapshots = store.folder.parent.parent / "snapshots" / store.folder.name
        (snapshots / "sessions" / f"{g.session_id}.records").unlink(missing_ok=True)
    except SessionBusyError:
        return f"Session {g.session_id[:8]} is open in another process and was not removed."
    except OSError as error:
        return f"Session {g.session_id[:8]} was not removed: {error.strerror or error}."
    finally:
        log.close()
    _drop_if_empty(store.folder)
    return ""


def _drop_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()
