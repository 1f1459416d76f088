"""The control requests about files of the workspace."""

from __future__ import annotations

import base64
import os
from pathlib import Path

from agent_cli.host.channel import Fields
from agent_cli.host.control_table import ControlError, ControlTable, OpenSession
from agent_cli.runtime.checkpoints import undo_manager
from agent_tools.fs.encoding import fingerprint
from agent_tools.fs.safe_files import open_regular
from agent_tools.results import Diff

FILE_CONTROLS = ControlTable()
_MOST_READ = 1 << 20


@FILE_CONTROLS.answers("rewind_files")
def _rewind_files(session: OpenSession, fields: Fields) -> Fields:
    """Restore the files as they were before a message of the user, as far as no file changed since."""
    agent = session.agent
    at = session.messages.get(str(fields["user_message_id"]))
    if at is None:
        return {"canRewind": False, "error": "No file checkpoint found for this message."}
    work = undo_manager(agent.place, agent.settings, agent.header.session_id)
    turns = work.from_message(at)
    plan = work.plan(turns)
    items = plan.of("ready", "ask")
    diffs: list[Diff] = work.diffs(turns)
    answer: Fields = {
        "canRewind": True,
        "filesChanged": [i.path for i in items],
        "insertions": sum(d.removed for d in diffs),
        "deletions": sum(d.added for d in diffs),
    }
    if fields.get("dry_run"):
        return answer
    failed = work.undo(turns, items)
    if failed:
        answer["error"] = "; ".join(f"{path}: {why}" for path, why in failed.items())
    return answer


def _in_workspace(session: OpenSession, fields: Fields) -> Path:
    workspace = session.agent.conversation.deps.context.workspace
    path = workspace.resolve(str(fields["path"]))
    if not any(path.is_relative_to(root) for root in workspace.roots):
        raise ControlError(f"{fields['path']} is outside the workspace.")
    return path


@FILE_CONTROLS.answers("read_file")
def _read_file(session: OpenSession, fields: Fields) -> Fields:
    """Return a file of the workspace, for a host that shows it."""
    path = _in_workspace(session, fields)
    most = int(fields.get("max_bytes") or _MOST_READ)
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise ControlError(f"{fields['path']} cannot be read: {error.strerror}") from None
    shown, found = data[:most], {"absPath": str(path), "truncated": len(data) > most}
    if fields.get("encoding") == "base64":
        return {"contents": base64.b64encode(shown).decode(), "encoding": "base64", **found}
    text = shown.decode("utf-8", "replace")
    return {"contents": text, "lossy": text.encode() != shown, **found}


@FILE_CONTROLS.answers("seed_read_state")
def _seed_read(session: OpenSession, fields: Fields) -> Fields:
    """Count a file as read, unless it changed since `mtime`, in milliseconds."""
    path = _in_workspace(session, fields)
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            changed = int(os.fstat(file.fileno()).st_mtime * 1000) > int(fields["mtime"])
            data = b"" if changed else file.read()
    except OSError as error:
        raise ControlError(f"{fields['path']} cannot be read: {error.strerror}") from None
    if not changed:
        session.agent.conversation.deps.context.seen[str(path)] = fingerprint(data)
    return {}
