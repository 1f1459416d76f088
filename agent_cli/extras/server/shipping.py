"""Ship the changes of a session: a commit, a push, a pull request. Each is a step with its own facts and its approval.

An approval names what was shown by its binding; if that has changed since, the step is refused and shown again.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from starlette.requests import Request

from agent_cli import Config, RunEnvironment, UsageError, read_settings
from agent_cli.extras.server.actions import find_task, store_entry
from agent_cli.extras.server.drawing import with_rows
from agent_cli.extras.server.guard import RequestRefusedError
from agent_cli.extras.server.hub import Hub
from agent_cli.extras.server.managing import idle_log
from agent_cli.extras.server.queries import checkpoints_of, session_environment, session_log, token_of
from agent_cli.extras.server.schemas import EmptyBody, ShipBody
from agent_cli.extras.server.tasks import new_entry
from agent_cli.git.commit import (
    CommitChoice,
    CommitDraft,
    SessionChanges,
)
from agent_cli.git.push import PushPlan, find_gh
from agent_cli.git.repository import FileStatus, Repository
from agent_cli.kernel.runtime.environment import git_would_start
from agent_tools.cancel import CancelToken
from agent_tools.fs.safe_files import read_regular
from agent_tools.lookalikes import escape_lookalikes
from agent_tools.text import counted, one_line, shorten

# Time limit for a proposed message, and how often it is looked for.
_PROPOSAL_SECONDS, _POLL_SECONDS = 90.0, 0.1
# Lines of changes to choose from; files after them are committed whole.
_MAX_SHOWN_LINES = 5_000
Step = dict[str, Any]
_TITLES = {"commit": "Commit", "push": "Push", "pull_request": "Open a pull request"}


async def get_ship(hub: Hub, request: Request) -> dict[str, Any]:
    """Return the steps with their facts."""
    session_id = request.path_params["id"]
    session_log(hub, session_id)

    def steps() -> list[Step]:
        try:
            return Shipping(hub, session_id).steps()
        except RequestRefusedError as refused:
            return [_step(name, title, why=str(refused)) for name, title in _TITLES.items()]

    return {"steps": await asyncio.to_thread(steps)}


async def ship(hub: Hub, request: Request, body: ShipBody) -> dict[str, Any]:
    """Take an approved step."""
    session_id, user = request.path_params["id"], token_of(request).name
    idle_log(hub, session_id)
    task = find_task(hub, session_id, user)
    done, note, url = await asyncio.to_thread(lambda: Shipping(hub, session_id).take(body))
    store_entry(hub, task, new_entry("note", user, f"<commit>\nThe user {note}\n</commit>"))
    hub.notify_changed(session_id)
    return {"done": done, "url": url}


async def propose(hub: Hub, request: Request, body: EmptyBody) -> dict[str, Any]:
    """Let the model propose a message for the commit."""
    session_id, user = request.path_params["id"], token_of(request).name
    idle_log(hub, session_id)
    task = find_task(hub, session_id, user)
    entry = new_entry("propose", user)
    store_entry(hub, task, entry)
    hub.pool.wake(task)
    try:
        async with asyncio.timeout(_PROPOSAL_SECONDS):
            while True:
                await asyncio.sleep(_POLL_SECONDS)
                try:
                    found = json.loads(read_regular(task.proposal, 1 << 20))
                except (OSError, ValueError):
                    found = {}
                # Its worker has the session until it has ended, and the next step needs it.
                if found.get("id") == entry.id and session_id not in hub.pool.running:
                    break
                if task.failure:
                    raise RequestRefusedError(409, "message", task.failure)
    except TimeoutError:
        raise RequestRefusedError(409, "message", "The model proposed no message in time.") from None
    if found["why"]:
        raise RequestRefusedError(409, "message", found["why"])
    return {"text": found["text"]}


class Shipping:
    """The steps of one session. Raises RequestRefusedError where there is no repository."""

    def __init__(self, hub: Hub, session_id: str) -> None:
        self._hub, self._id = hub, session_id
        self._run_env: RunEnvironment = session_environment(hub, session_id)
        try:
            self._repo = Repository(self._run_env.root, self._run_env.env)
            self._starts = git_would_start(self._run_env, read_settings(Config(), self._run_env, []))
        except UsageError as error:
            raise RequestRefusedError(409, "git", str(error)) from None

    def steps(self) -> list[Step]:
        """Return every step; one that is not possible now says why."""
        made = {"commit": self._commit, "push": self._push, "pull_request": self._pull}
        return [_tried(made[name], name, title) for name, title in _TITLES.items()]

    def take(self, body: ShipBody) -> tuple[str, str, str]:
        """Take a step as it was shown; return what was done, the same for the model, and an address."""
        try:
            step = {"commit": self._commit, "push": self._push, "pull_request": self._pull}[body.step]()
            if step["binding"] != body.binding:
                why = "This has changed since you saw it: look at it again."
                raise RequestRefusedError(409, "changed", why)
            text, title = body.text.strip(), one_line(body.title.strip())
            if body.hunks is not None and body.step != "commit":
                raise RequestRefusedError(422, "hunks", f"hunks: a {body.step.replace('_', ' ')} has none.")
            if body.step == "push":
                return self._do_push(PushPlan.of(self._repo))
            if body.step == "pull_request":
                plan = PushPlan.of(self._repo)
                url = plan.open_pull_request(self._repo, title or step["subject"], text, self._run_env.env)
                return f"Opened {url}", f"opened the pull request {url}", url
            return self._do_commit(step, text or step["text"], body.hunks)
        except UsageError as error:
            raise RequestRefusedError(409, "git", str(error)) from None

    def _warnings(self) -> list[str]:
        if not self._starts:
            return []
        return [f"This project is not trusted. git would start {one_line(shorten(self._starts, 300))}."]

    def choice(self) -> CommitChoice:
        """Return the files that the session changed. Raises UsageError."""
        repo = self._repo
        repo.check()
        did = SessionChanges.of(checkpoints_of(self._hub, self._id))
        return did.choose(repo.changes(), repo)

    def _commit(self) -> Step:
        repo, choice = self._repo, self.choice()
        take = choice.take
        if not take:
            raise UsageError("Nothing to commit: no file of this session differs from the last commit.")
        if unmerged := [change.path for change in take if change.unmerged]:
            raise UsageError(f"Resolve the conflicts first: {shorten(', '.join(unmerged), 200)}.")
        counts = repo.counts(take)
        facts = [f"{path}: {note}" for path, note in choice.notes.items()]
        facts += [
            f"{change.path} is staged in part, and all of it is committed" for change in take if change.partly_staged
        ]
        if choice.staged:
            facts.append(f"Stays staged: {shorten(', '.join(choice.staged), 200)}")
        if choice.outside:
            facts.append(f"Changed outside of this repository: {shorten(', '.join(choice.outside), 200)}")
        where = repo.branch or "no branch, as HEAD is detached"
        hunks = _hunks(repo, take, counts)
        step = _step(
            "commit", f"Commit {counted(len(take), 'file')} to {where}",
            items=[_file_line(repo, change, counts.get(change.path, (0, 0))) for change in take],
            facts=facts, warnings=self._warnings(), text=CommitDraft(repo, take).plain, button="Commit",
            bound=[repo.branch, *repo.lines("rev-parse", "HEAD"), _marks(repo, take), [h["patch"] for h in hunks]],
        )  # fmt: skip
        return step | {"hunks": hunks}

    def _do_commit(self, step: Step, message: str, chosen: list[int] | None) -> tuple[str, str, str]:
        take, parts = self.choice().take, {}
        if chosen is not None:
            if not chosen or not {*chosen} <= {hunk["index"] for hunk in step["hunks"]}:
                raise RequestRefusedError(422, "hunks", "hunks: choose at least one of those that are shown.")
            of_file = {c.path: [h["index"] for h in step["hunks"] if h["file"] == c.path] for c in take}
            take = tuple(c for c in take if {*of_file[c.path]} & {*chosen})
            # The place of a change in its file, for the files of which something is left out.
            parts = {
                path: [place for place, index in enumerate(indexes) if index in chosen]
                for path, indexes in of_file.items()
                if not {*indexes} <= {*chosen}
            }
            parts = {c.path: parts[c.path] for c in take if c.path in parts}
        if parts:
            name, subject = self._repo.commit_hunks(take, parts, message, cancel=CancelToken())
        else:
            name, subject = self._repo.commit(take, message, hooks=True, cancel=CancelToken())
        files = shorten(", ".join(f"{c.path} (in part)" if c.path in parts else c.path for c in take), 1_000)
        return f"Committed {name}: {subject}", SessionChanges.commit_words(files, name, subject), ""

    def _push(self) -> Step:
        plan = PushPlan.of(self._repo)
        if not plan.commits:
            raise UsageError(f"Nothing to push: {plan.remote} has every commit of {plan.branch}.")
        warnings = self._warnings()
        if plan.branch == plan.base:
            warnings.append(f"{plan.branch} is the default branch of {plan.remote}.")
        facts = [f"To {plan.url}", *([] if plan.there else [f"The branch {plan.branch} is new there"])]
        return _step(
            "push", f"Push {counted(len(plan.commits), 'commit')} to {plan.remote}/{plan.branch}",
            items=list(plan.commits), facts=facts, warnings=warnings, button="Push", bound=_bound(plan),
        )  # fmt: skip

    def _do_push(self, plan: PushPlan) -> tuple[str, str, str]:
        plan.push(self._repo)
        return f"Pushed to {plan.remote}/{plan.branch}", f"pushed {plan.branch} to {plan.remote}", ""

    def _pull(self) -> Step:
        gh = find_gh(self._run_env.env, self._repo.top)
        plan = PushPlan.of(self._repo)
        if plan.commits or not plan.there:
            raise UsageError("Push the branch first.")
        if plan.branch == plan.base:
            raise UsageError(f"{plan.branch} is the default branch: a pull request needs another one.")
        base = f"{plan.remote}/{plan.base}" if plan.base else ""
        log = ("log", "--no-show-signature", "-50", "HEAD", "--not", base or f"{plan.there}~1")
        commits = self._repo.lines(*log, "--format=%h %s")
        subjects = self._repo.lines(*log, "--reverse", "--format=%s")
        body = "\n".join(f"- {subject}" for subject in subjects) if len(subjects) > 1 else ""
        return _step(
            "pull_request", f"Open a pull request for {plan.branch}", items=commits,
            facts=[f"At {plan.url}", f"Into {plan.base or 'the default branch'}", f"With {gh}"],
            warnings=self._warnings(), subject=subjects[0] if subjects else plan.branch, text=body,
            button="Open the pull request", bound=[gh, *_bound(plan)],
        )  # fmt: skip


def _tried(make: Callable[[], Step], name: str, title: str) -> Step:
    try:
        return make()
    except UsageError as error:
        return _step(name, title, why=str(error))


def _step(
    name: str, title: str, *, why: str = "", items: Sequence[str] = (), facts: Sequence[str] = (),
    warnings: Sequence[str] = (), subject: str = "", text: str = "", button: str = "", bound: Any = None,
) -> Step:  # fmt: skip
    """Return a step. why: it is not possible now. items: files or commits. subject, text: what is written, to edit."""
    shown = {
        "step": name, "title": title, "why": why, "items": list(items), "facts": list(facts),
        "warnings": list(warnings), "subject": subject, "text": text, "button": button, "hunks": [],
    }  # fmt: skip
    escaped = {
        key: [escape_lookalikes(one_line(line)) for line in value] if isinstance(value, list) else value
        for key, value in shown.items()
    }
    binding = blake2b(json.dumps([escaped, bound], sort_keys=True).encode(), digest_size=12).hexdigest()
    return {**escaped, "binding": binding}


def _bound(plan: PushPlan) -> list[str]:
    return [plan.remote, plan.url, plan.branch, plan.head, plan.there]


def _file_line(repo: Repository, change: FileStatus, lines: tuple[int, int] | None) -> str:
    size = "no text" if lines is None else f"+{lines[0]} -{lines[1]}"
    kind = "new, " if change.new else "" if os.path.lexists(repo.top / change.path) else "deleted, "
    return f"{change.path} ({kind}{size})"


def _hunks(
    repo: Repository, take: Sequence[FileStatus], counts: Mapping[str, tuple[int, int] | None]
) -> list[dict[str, Any]]:
    """Return what can be chosen of the files: their hunks, or one entry for a file without text or with much."""
    found: list[dict[str, Any]] = []
    room = _MAX_SHOWN_LINES
    for change in take:
        lines = counts.get(change.path, (0, 0))
        room -= sum(lines or ())
        hunks = repo.hunks(change) if lines is not None and room >= 0 else []
        for patch in hunks or [""]:
            signs = [line[:1] for line in patch.split("\n")]
            added, removed = (signs.count("+"), signs.count("-")) if patch else lines or (0, 0)
            path = escape_lookalikes(one_line(change.path))
            shown = {"path": path, "added": added, "removed": removed, "patch": escape_lookalikes(patch)}
            found.append({"index": len(found), "file": change.path, **with_rows(shown)})
    return found


def _marks(repo: Repository, take: Sequence[FileStatus]) -> list[list[Any]]:
    """Return what tells whether a file was changed while the user decided."""
    found: list[list[Any]] = []
    for change in take:
        try:
            state = (repo.top / change.path).lstat()
            found.append([change.path, state.st_mtime_ns, state.st_size, state.st_mode])
        except OSError:
            found.append([change.path])
    return found
