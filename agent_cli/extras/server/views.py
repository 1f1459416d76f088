"""Sessions as the server shows them, read from their logs and task folders; cached by the files' time and size.

A session belongs to a project if its folder is one of those that the settings allow, or if the server started it there.
"""

from __future__ import annotations

import os
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from agent_cli import (
    ApprovalQuestion,
    ApprovalRequested,
    QuestionAsked,
    Restored,
    RunEnvironment,
    SessionStore,
    SessionSummary,
    SessionView,
    StoredSession,
    TurnFinished,
    UserMessage,
)
from agent_cli.extras.server.decisions import find_decision, question_binding
from agent_cli.extras.server.live_view import LiveView
from agent_cli.extras.server.pool import Pool
from agent_cli.extras.server.questions import question_form
from agent_cli.extras.server.tasks import ServerTask, TaskStore
from agent_cli.extras.server.words import head_facts, list_facts, usage_rows
from agent_cli.kernel.runtime.pending import saved_environment
from agent_cli.kernel.session.files import LogLine
from agent_cli.kernel.session.pending_items import has_expired
from agent_cli.kernel.session.store import state_folder
from agent_cli.models.catalog import ModelInfo
from agent_tools.fs.workspace import Workspace
from agent_tools.record import to_json
from agent_tools.text import one_line, shorten

T = TypeVar("T")
# Time and size of a file.
Mark = tuple[int, int]
_MAX_CACHED, _MAX_LIVE = 4_000, 32
# The states, in the order of the list.
STATES = ("waiting", "running", "queued", "interrupted", "failed", "done", "idle")
# Fields of records that clients do not get: the system prompt, the settings of a turn, its state.
_PRIVATE_FIELDS = {"Header": ("system",), "TurnStarted": ("saved",), "TurnPaused": ("kept",), "Checkpoint": ("kept",)}


class ServedProject:
    """A folder in which sessions may be started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = folder.name or str(folder)
        self.id = blake2b(os.fsencode(folder), digest_size=6).hexdigest()


class Views:
    """The sessions of the projects."""

    def __init__(self, env: Mapping[str, str], projects: list[ServedProject], tasks: TaskStore, pool: Pool) -> None:
        self.env, self.state = env, state_folder(env)
        self.projects = {project.id: project for project in projects}
        self.tasks, self.pool = tasks, pool
        self._summaries: OrderedDict[Path, tuple[Mark, SessionSummary | None]] = OrderedDict()
        self._pending: OrderedDict[Path, tuple[Mark, Restored | None]] = OrderedDict()
        self._live: OrderedDict[Path, LiveView] = OrderedDict()
        self._lock = Lock()

    def find_project(self, given: str) -> ServedProject | None:
        """Return a project by its ID, the path of its folder, or its name if no other has it; None for any other."""
        if found := self.projects.get(given):
            return found
        named = [p for p in self.projects.values() if given in (str(p.folder), p.folder.name)]
        return next((p for p in named if str(p.folder) == given), named[0] if len(named) == 1 else None)

    def project_of(self, path: Path) -> ServedProject | None:
        """Return the project that a folder is in; None if it is in none."""
        inside = [p for p in self.projects.values() if path == p.folder or p.folder in path.parents]
        return max(inside, key=lambda p: len(p.folder.parts), default=None)

    def session_log(self, session_id: str) -> Path | None:
        """Return the log of a session of the projects, which may not exist yet; None for any other."""
        if not SessionStore.is_id(session_id, whole=True):
            return None
        if (task := self.task(session_id)) is not None:
            return task.log(self.state)
        for project in self.projects.values():
            path = SessionStore(self.state, project.folder).path(session_id)
            if path.is_file():
                return path
        return None

    def task(self, session_id: str) -> ServerTask | None:
        """Return the task of a session, if it is in an allowed project."""
        task = self.tasks.get(session_id)
        if task is None:
            return None
        with suppress(OSError, ValueError):
            return task if self.project_of(Path(task.spec.project)) is not None else None
        return None

    def all_sessions(self) -> list[dict[str, Any]]:
        """Return all sessions as lists show them: by state, then the latest changed first."""
        found = {}
        for project in self.projects.values():
            for stored in SessionStore(self.state, project.folder).sessions():
                if (entry := self.entry(stored.session_id, stored.path)) is not None:
                    found[stored.session_id] = entry
        for task in self.tasks.all():
            if task.session_id not in found and (entry := self.entry(task.session_id)) is not None:
                found[task.session_id] = entry
        listed = sorted(found.values(), key=lambda entry: str(entry["updated"]), reverse=True)
        return sorted(listed, key=lambda entry: min(STATES.index(entry["state"]), 3))

    def search(self, sessions: list[dict[str, Any]], words: list[str], *, messages: bool) -> list[dict[str, Any]]:
        """Return the sessions that have all the words, in lower case, in what a list shows, or in their messages."""
        found = []
        for each in sessions:
            if all(word in f"{each['title']} {each['id']} {each['model']} {each['branch']}".lower() for word in words):
                found.append(each)
            elif (
                messages and (path := self.session_log(each["id"])) and (excerpt := StoredSession(path).excerpt(words))
            ):
                found.append(each | {"excerpt": one_line(excerpt)})
        return found

    def entry(self, session_id: str, path: Path | None = None) -> dict[str, Any] | None:
        """Return a session as a list shows it; None if there is none."""
        path = path or self.session_log(session_id)
        if path is None:
            return None
        task = self.task(session_id)
        seen = self._summary(path)
        if seen is None and task is None:
            return None
        # The header of a damaged log may be lost; the log still lies with its project.
        folder = task.spec.cwd if task else (seen.cwd if seen else "") or self._project_of_log(path)
        project = self.project_of(Path(task.spec.project if task else folder))
        if project is None:
            return None
        undecided = self._undecided(path, seen, task)
        left = len(undecided)
        elsewhere = self._other_holder(path, session_id)
        state = self._state(session_id, seen, task, left, elsewhere)
        failure = task.failure if task else ""
        title = seen.title if seen and (seen.name or seen.first) else task.spec.title if task else ""
        found = {
            "id": session_id,
            "title": title or "Untitled",
            "project": project.id,
            "folder": folder,
            "worktree": bool(task and task.spec.worktree),
            "branch": seen.branch if seen else "",
            "state": state,
            "mode": (task.config.mode or "") if task else "",
            "model": _shown_model(seen, task),
            "host": seen.host if seen else "",
            "archived": StoredSession(path).archived,
            "excerpt": "",
            "created": task.spec.created if task else seen.created if seen else "",
            "updated": max(seen.updated if seen else "", task.spec.created if task else ""),
            "messages": seen.messages if seen else 0,
            "cost": round(seen.cost, 6) if seen else 0.0,
            "cost_known": seen.reliable if seen else True,
            "pending": left,
            "asks": undecided[0]["form"]["title"] if undecided else "",
            "elsewhere": elsewhere,
            "outcome": seen.ended if seen and seen.ended in ("done", "failed", "interrupted") else "",
            "error": failure,
        }  # fmt: skip
        return found | {"facts": list_facts(found, project.name)}

    def _project_of_log(self, path: Path) -> str:
        stores = (p for p in self.projects.values() if SessionStore(self.state, p.folder).folder == path.parent)
        return str(next((p.folder for p in stores), ""))

    def _state(
        self, session_id: str, seen: SessionSummary | None, task: ServerTask | None, left: int, elsewhere: str
    ) -> str:
        if session_id in self.pool.queued:
            return "queued"
        if session_id in self.pool.running or (elsewhere and seen is not None and seen.ended == "open"):
            return "running"
        if task is not None and task.failure:
            return "failed"
        if left:
            return "waiting"
        if seen is None:
            return "queued" if task is not None and task.open_entries() else "idle"
        return {"waiting": "interrupted", "open": "interrupted"}.get(
            seen.ended, seen.ended if seen.messages else "idle"
        )

    def _other_holder(self, path: Path, session_id: str) -> str:
        """Describe another process, such as a terminal, that has the session open; "" for none, or our worker."""
        if session_id in self.pool.running or not (holder := StoredSession(path).holder(noted=True)):
            return ""
        task = self.tasks.get(session_id)
        return f"It is open in {holder}." if task is None or not task.is_running() else ""

    def _summary(self, path: Path) -> SessionSummary | None:
        return _cached(self._summaries, path, StoredSession(path).summary, _MAX_CACHED)

    def restored(self, path: Path) -> Restored | None:
        """Return a session as its log has it; None if there is none."""
        return _cached(self._pending, path, StoredSession(path).load_if_any, 16)

    def live(self, path: Path) -> LiveView:
        """Return the view of a session, which grows with its log."""
        with self._lock:
            if (found := self._live.get(path)) is None:
                task = self.tasks.get(path.stem)
                found = self._live[path] = LiveView(path, task.live if task is not None else None)
            self._live.move_to_end(path)
            while len(self._live) > _MAX_LIVE:
                self._live.popitem(last=False)
            return found

    def _undecided(self, path: Path, seen: SessionSummary | None, task: ServerTask | None) -> list[dict[str, Any]]:
        """Return the questions whose decisions are missing."""
        running = path.stem in self.pool.running
        if seen is None or seen.ended not in (("waiting",) if running else ("waiting", "open")):
            return []
        return [item for item in self.pending_items(path, task) if "decided" not in item]

    def pending_items(self, path: Path, task: ServerTask | None) -> list[dict[str, Any]]:
        """Return what waits for a decision in a session, with all that a question shows.

        While it is at work, only its sub-agents in the background wait.
        """
        restored = self.restored(path)
        if restored is None or restored.waiting is None:
            return []
        running = path.stem in self.pool.running
        waiting, entries = restored.waiting, task.open_entries() if task is not None else []
        workspace = self.workspace(path)
        items = []
        for item in restored.pending():
            asked = waiting.requests.get(item["call_id"]) or waiting.questions.get(item["call_id"])
            if asked is None or (running and not item["agent_name"]):
                continue
            put: ApprovalQuestion | QuestionAsked
            if isinstance(asked, QuestionAsked):
                put = asked
            else:
                # Another program does not change its calls.
                put = ApprovalQuestion(asked) if restored.header.host else ApprovalQuestion.of(asked, workspace)
                item |= _approval_fields(put)
            item["binding"] = question_binding(asked)
            item["expired"] = has_expired(item)
            item["form"] = question_form(put, item | {"host": restored.header.host})
            if (found := find_decision(asked, entries)) is not None:
                item["decided"] = f"{found[1].past} by {found[0].user}"
                item["decided_by"] = found[0].user
            items.append(item)
        return items

    def workspace(self, path: Path) -> Workspace:
        """Return the folders of a session that waits. Raises UsageError if they no longer exist."""
        restored = self.restored(path)
        assert restored is not None
        header, saved = restored.header, restored.waiting.saved if restored.waiting is not None else {}
        run_env = saved_environment(saved, RunEnvironment(Path(header.cwd), Path(header.root), None, self.env))
        return Workspace(run_env.root, cwd=run_env.cwd)

    def question(self, path: Path, call_id: str) -> ApprovalRequested | QuestionAsked | None:
        """Return the open question about a call; None if there is none."""
        restored = self.restored(path)
        waiting = restored.waiting if restored is not None else None
        if waiting is None or call_id not in waiting.undecided:
            return None
        return waiting.requests.get(call_id) or waiting.questions.get(call_id)

    def detail(self, session_id: str) -> dict[str, Any] | None:
        """Return a session with its plan, questions, queue and usage; None if there is none."""
        path = self.session_log(session_id)
        entry = self.entry(session_id, path) if path is not None else None
        if path is None or entry is None:
            return None
        task = self.task(session_id)
        restored = self.restored(path)
        entries = task.open_entries() if task is not None else []
        live = self.live(path)
        with live.lock:
            turn = _last_turn(live.view)
        queued = [
            {"id": e.id, "text": e.text, "how": e.how, "user": e.user}
            for e in entries
            if e.kind == "message" and e.id not in turn["messages"]
        ]
        usage = restored.usage if restored is not None else None
        found = entry | {
            "mode": (task.chosen.get("mode") if task is not None else "") or turn["mode"] or entry["mode"],
            "query": turn["query"] or (entry["title"] if task is not None else ""),
            "plan": turn["plan"],
            "agents": turn["agents"] if session_id in self.pool.running or entry["elsewhere"] else [],
            "pending_items": self.pending_items(path, task),
            "queued": queued,
            "usage": to_json(usage) if usage is not None else {},
            "tokens": restored.tokens if restored is not None else 0,
            "window": _context_window(entry["model"]),
            "answer": turn["answer"],
            "outcome": turn["outcome"] or entry["outcome"],
            "changed_files": turn["changed"],
            "decisions": turn["decisions"],
        }
        project = self.projects[entry["project"]].name
        return found | {"head": head_facts(found, project), "usage_rows": usage_rows(found)}

    def counts(self, listed: list[dict[str, Any]]) -> dict[str, int]:
        """Return how many sessions are in each state, and how many are archived."""
        counted = Counter("archived" if entry["archived"] else entry["state"] for entry in listed)
        return {state: counted[state] for state in (*STATES, "archived")}


def _shown_model(seen: SessionSummary | None, task: ServerTask | None) -> str:
    """Return the model that a session used last, or will use if another was chosen since."""
    chosen = task.chosen.get("model", "") if task is not None else ""
    return chosen or (seen.model if seen else "") or ((task.spec.config.model or "") if task is not None else "")


def _approval_fields(question: ApprovalQuestion) -> dict[str, Any]:
    """Return what a question about a call shows besides what lists do."""
    asked = question.request
    return {
        "warnings": list(asked.warnings),
        "always": asked.always,
        "exact": asked.exact,
        "grants": asked.grants,
        "can_save": asked.keeps,
        "save_trusts": asked.trusts,
        "scheduled": asked.scheduled,
        "edits": asked.edits,
        "arguments": asked.arguments,
        "description": str(asked.arguments.get("description", "")),
        "hunks": [
            {"index": at, "path": hunk.path, "patch": hunk.patch} for at, hunk in enumerate(question.change.hunks)
        ],
    }


def _cached(cache: OrderedDict[Path, tuple[Mark, T]], path: Path, make: Callable[[], T], limit: int) -> T | None:
    """Return `make()` for a file, cached while its time and size stay the same; None if there is no file."""
    try:
        stat = path.stat()
    except OSError:
        return None
    mark = stat.st_mtime_ns, stat.st_size
    if (found := cache.get(path)) is None or found[0] != mark:
        found = cache[path] = (mark, make())
        if len(cache) > limit:
            cache.popitem(last=False)
    return found[1]


def read_lines(path: Path) -> list[LogLine]:
    """Return the records of a log, in order; none if it cannot be read."""
    try:
        return StoredSession(path).records()
    except OSError:
        return []


def public_event(line: LogLine) -> dict[str, Any]:
    """Return a record as clients get it: without the fields that only the program needs."""
    data = line.data
    for name in _PRIVATE_FIELDS.get(line.type, ()):
        data.pop(name, None)
    return {"seq": line.seq, "time": line.time, "type": line.type, "data": data}


def _last_turn(view: SessionView) -> dict[str, Any]:
    """Return the query, mode, answer, outcome and decisions of the last turn, the plan, and the files that changed.

    messages: IDs of the messages that are in the log.
    """
    said = view.messages
    asked = [m.words for each in said if isinstance(m := each.message, UserMessage) and m.from_user]
    queries = [text for text in asked if text]
    calls = list(view.all_calls())
    decided = [call for call in calls if call.by == "person" and call.decision not in ("", "defer")]
    done = view.turn.finished if view.turn is not None and not view.turn.resumed else None
    return {
        "query": shorten(queries[-1], 2_000) if queries else "",
        "mode": view.turn.mode if view.turn is not None else "",
        "answer": done.text if done is not None else "",
        "outcome": describe_outcome(done) if done is not None else "",
        "changed": list(dict.fromkeys(diff.path for call in calls for diff in call.diffs if diff.path)),
        "decisions": [
            {"call_id": call.call_id, "decision": call.decision, "user": call.user, "time": call.decided}
            for call in sorted(decided, key=lambda call: call.decided)
        ],
        # A client draws progress from the status, which a record leaves out if it is the usual one.
        "plan": [to_json(item) | {"status": item.status} for item in view.plan],
        "agents": view.background_lines(),
        "messages": {uuid for each in said for uuid in each.uuids},
    }


def _context_window(model: str) -> int | None:
    """Return the context window of a model in tokens; None if it is not known."""
    known = ModelInfo.named(model)
    return known.context_window if known is not None else None


def describe_outcome(done: TurnFinished) -> str:
    """Return how a turn ended, in the words of `agent -p`."""
    if done.degraded:
        return "degraded"
    if done.result == "Suspended":
        return "suspended"
    if done.result == "MaxIterations":
        return "limit"
    if done.diagnostics.terminal_reason in ("cancelled", "interrupted"):
        return "interrupted"
    return "failed" if done.result == "Failed" else "done"
