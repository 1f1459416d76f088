"""The tasks of the server on disk: for each session that it runs, a folder with its configuration and its inbox.

`task.json` holds what never changes: folder, configuration, who started it. `inbox.jsonl` holds the requests of users,
one per line, synced before a request is acknowledged; `taken` lists the entries that the worker has carried out. A
running worker holds a lock on `lock` and writes the answer being streamed to `live.jsonl`.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent_cli import Config, SessionStore
from agent_cli.kernel.session.files import sync_folder
from agent_tools.fs.safe_files import append_synced, open_regular, private_folder, read_regular, write_atomic
from agent_tools.record import DecodeError, Value, from_json, to_json
from agent_tools.text import new_uuid, utc_stamp

_MAX_FILE_BYTES = 64 << 20


class TaskSpec(Value, tag="ServerTask"):
    """The facts of a task that never change.

    root: root of the workspace, which determines where the session is stored.
    project: folder whose settings it was started with.
    title: first words of its prompt.
    user: name of the token that started it.
    worktree: it has its own worktree. stage: its turns are staged.
    """

    session_id: str
    cwd: str
    root: str
    project: str
    title: str
    created: str
    user: str
    config: Config = Config()
    worktree: bool = False
    stage: bool = False


def _config_of(options: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration of a task of an earlier version, which stored options of the command line."""
    names = {"model": "model", "permission_mode": "mode", "allow_dangerously_skip_permissions": "allow_bypass",
             "name": "name", "settings": "settings", "on_ask": "on_ask"}  # fmt: skip
    found = {new: options[old] for old, new in names.items() if old in options}
    limits = {"max_budget_usd": "max_cost", "max_turns": "max_rounds"}
    overrides = {new: options[old] for old, new in limits.items() if options.get(old) is not None}
    return {**found, "overrides": overrides}


class InboxEntry(Value, tag="Entry"):
    """A request of a user.

    kind: "message", "decision", "interrupt", "resume" or "expire"; "rewind" goes back in the conversation, "note" tells
    the model what the user did, "options" changes the model or the mode, "open" makes the session of a copy, "propose"
    asks for a message of a commit.
    text: message or note; comment on a decision.
    how: "steer" sends a message to the running turn, "queue" after it.
    data: `uploads` of a message, by ID; `UserVerdict` of a decision; number of messages kept by a rewind; `model` and
        `mode` of options.
    """

    id: str
    kind: str
    user: str
    time: str
    text: str = ""
    how: str = "queue"
    data: dict[str, Any] = {}  # noqa: RUF012 - never changed


class ServerTask:
    """One task folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._spec: TaskSpec | None = None
        self._entries: tuple[int, list[InboxEntry]] = (-1, [])
        self._done: tuple[int, frozenset[str]] = (-1, frozenset())
        self._lock = -1

    @property
    def session_id(self) -> str:
        return self.folder.name

    @property
    def live(self) -> Path:
        """File of the answer being streamed."""
        return self.folder / "live.jsonl"

    @property
    def uploads(self) -> Path:
        """Folder of the files that its messages bring."""
        return self.folder / "uploads"

    @property
    def proposal(self) -> Path:
        """File of the message that the model proposed for a commit."""
        return self.folder / "proposal.json"

    @property
    def errors(self) -> Path:
        """File with the standard error of the worker."""
        return self.folder / "worker.log"

    @property
    def spec(self) -> TaskSpec:
        """Raises OSError, DecodeError or ValueError if it cannot be read."""
        if self._spec is None:
            data = json.loads(read_regular(self.folder / "task.json", _MAX_FILE_BYTES))
            if "options" in data:
                data["config"] = _config_of(data.pop("options"))
            spec: TaskSpec = from_json(TaskSpec, data)
            self._spec = spec
        return self._spec

    def log(self, state: Path) -> Path:
        """Return the path of the session's log."""
        return SessionStore(state, Path(self.spec.root)).path(self.session_id)

    def add(self, entry: InboxEntry) -> None:
        """Append to the inbox; it is on disk on return. Raises OSError."""
        line = json.dumps(to_json(entry), separators=(",", ":")).encode("ascii") + b"\n"
        append_synced(self.folder / "inbox.jsonl", line)

    def entries(self) -> list[InboxEntry]:
        """Return all entries of the inbox, in order."""
        # Threads share what was read, so what this one returns is no second look at it.
        known, found = self._entries
        size, data = self._read("inbox.jsonl", known)
        if data is not None:
            found = []
            for line in data.splitlines():
                with suppress(ValueError, DecodeError):  # one that was cut off was never acknowledged
                    found.append(from_json(InboxEntry, json.loads(line)))
            self._entries = size, found
        return found

    def done_ids(self) -> frozenset[str]:
        """Return the IDs of the entries that were carried out."""
        known, found = self._done
        size, data = self._read("taken", known)
        if data is not None:
            found = frozenset(data.decode("ascii", "replace").split())
            self._done = size, found
        return found

    def open_entries(self) -> list[InboxEntry]:
        """Return the entries that were not carried out yet."""
        done = self.done_ids()
        return [entry for entry in self.entries() if entry.id not in done]

    @property
    def config(self) -> Config:
        """The configuration of its next turn: as it was started, with the model and the mode that were chosen since."""
        return self.spec.config.replace(**self.chosen)

    @property
    def chosen(self) -> dict[str, str]:
        """The model and the mode that were chosen since it was started."""
        found: dict[str, str] = {}
        for entry in self.entries():
            if entry.kind == "options":
                found |= entry.data
        return found

    def mark_done(self, *ids: str) -> None:
        """Record that entries were carried out. Raises OSError."""
        if ids:
            append_synced(self.folder / "taken", "".join(f"{i}\n" for i in ids).encode("ascii"))

    def fail(self, why: str) -> None:
        """Record why the worker cannot carry out the open entries, and close them; "" removes the record."""
        path = self.folder / "failure"
        if why:
            write_atomic(path, why.encode())
            self.mark_done(*(entry.id for entry in self.open_entries()))
        else:
            with suppress(OSError):
                path.unlink()

    @property
    def failure(self) -> str:
        """Why the latest worker could not carry out what was asked for; "" if it could."""
        try:
            return read_regular(self.folder / "failure", _MAX_FILE_BYTES).decode("utf-8", "replace")
        except OSError:
            return ""

    def _read(self, name: str, known: int) -> tuple[int, bytes | None]:
        """Return the size of a file that only grows, and its bytes if that is not the known size."""
        path = self.folder / name
        try:
            size = path.stat().st_size
            return size, None if size == known else read_regular(path, _MAX_FILE_BYTES)
        except OSError:
            return 0, None if known == 0 else b""

    def acquire(self) -> bool:
        """Lock the task for this worker; False if another has it."""
        fd = open_regular(self.folder / "lock", os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            return False
        self._lock = fd
        return True

    def release(self) -> None:
        """Unlock the task, for another worker."""
        os.close(self._lock)

    def is_running(self) -> bool:
        """Return True if a worker has the task."""
        try:
            fd = open_regular(self.folder / "lock")
        except OSError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(fd)
        return False


class TaskStore:
    """The tasks of a state folder. Nobody but this server adds any."""

    def __init__(self, state: Path) -> None:
        self.folder = state / "serve" / "tasks"
        self._tasks: dict[str, ServerTask] = {}
        with suppress(OSError):
            for name in sorted(os.listdir(self.folder)):  # noqa: PTH208 - names are enough
                if not SessionStore.is_id(name, whole=True):
                    continue
                self._tasks[name] = ServerTask(self.folder / name)

    def create(self, spec: TaskSpec, first: InboxEntry | None = None) -> ServerTask:
        """Write a new task; it is on disk on return. Raises OSError."""
        private_folder(self.folder)
        task = ServerTask(self.folder / spec.session_id)
        fresh = self.folder / f"{spec.session_id}.new"
        private_folder(fresh)
        write_atomic(fresh / "task.json", json.dumps(to_json(spec)).encode("ascii"))
        if first is not None:
            ServerTask(fresh).add(first)
        # A folder with a session's name is whole.
        fresh.rename(task.folder)
        sync_folder(self.folder)
        self._tasks[spec.session_id] = task
        return task

    def remove(self, session_id: str) -> None:
        """Forget a task that no worker has, with its folder. Raises OSError."""
        if (task := self._tasks.get(session_id)) is not None:
            # A folder without a session's name is no task, should this be cut off.
            gone = task.folder.rename(self.folder / f"{session_id}.old")
            del self._tasks[session_id]
            shutil.rmtree(gone)

    def get(self, session_id: str) -> ServerTask | None:
        """Return the task of a session; None if the server does not run it."""
        return self._tasks.get(session_id)

    def all(self) -> Iterator[ServerTask]:
        """Yield every task that can be read."""
        for task in list(self._tasks.values()):
            with suppress(OSError, DecodeError, ValueError):
                _ = task.spec
                yield task


def new_entry(
    kind: str, user: str, text: str = "", how: str = "queue", data: Mapping[str, Any] | None = None
) -> InboxEntry:
    """Return a new entry, made now."""
    return InboxEntry(new_uuid(), kind, user, utc_stamp(), text, how, dict(data or {}))
