"""Handlers that change something. A request is on disk before it is acknowledged."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from starlette.requests import Request

from agent_cli import (
    MODES,
    ApprovalRequested,
    Config,
    QuestionAsked,
    StoredSession,
    UsageError,
    UserDecision,
    UserMessage,
    read_settings,
)
from agent_cli.extras.server.commands import check_command
from agent_cli.extras.server.decisions import changes_plan, find_decision, question_binding
from agent_cli.extras.server.guard import AccessToken, RequestRefusedError
from agent_cli.extras.server.hub import Hub
from agent_cli.extras.server.queries import (
    checkpoints_of,
    current_entry,
    session_environment,
    session_log,
    session_not_found,
    token_of,
)
from agent_cli.extras.server.schemas import (
    DecisionBody,
    DecisionFields,
    EmptyBody,
    MessageBody,
    StartBody,
    UndoBody,
)
from agent_cli.extras.server.tasks import InboxEntry, ServerTask, TaskSpec, new_entry
from agent_cli.extras.server.uploads import check_uploads, claim_uploads
from agent_cli.kernel.runtime.environment import check_mode
from agent_cli.kernel.runtime.models import ReachableModels
from agent_cli.kernel.runtime.pending import record_host_decisions
from agent_tools.process.child import CompletedChild, run_child
from agent_tools.record import to_json
from agent_tools.text import new_uuid, one_line, short_path, shorten, utc_stamp

# Seconds that git may take to make a worktree.
_WORKTREE_SECONDS = 300.0


async def start_session(hub: Hub, request: Request, body: StartBody) -> dict[str, Any]:
    """Start a session; it is on disk when this returns."""
    task = await start_task(hub, body, token_of(request).name)
    return await current_entry(hub, task.session_id)


async def start_task(hub: Hub, body: StartBody, user: str) -> ServerTask:
    """Create a task, and wake a worker for it."""
    project = hub.views.find_project(body.project)
    if project is None:
        known = shorten(", ".join(p.folder.name for p in hub.views.projects.values()), 200)
        why = f"There is no project {shorten(body.project, 40)} on this server. It has: {known}."
        raise RequestRefusedError(404, "project", why)
    folder = _folder_in(project.folder, body.folder)
    check_mode_allowed(hub, body.mode or "")
    if body.stage and body.worktree:
        raise RequestRefusedError(400, "stage", "A session works in a stage or in a worktree, not in both.")
    budget = {"max_cost": body.budget.cost, "max_rounds": body.budget.rounds, "max_seconds": body.budget.seconds}
    config = Config(
        model=body.model or None,
        mode=body.mode or None,
        allow_bypass=hub.options.bypass,
        name=one_line(body.name) if body.name else None,
        overrides={name: value for name, value in budget.items() if value},
        on_ask="suspend",
    )
    session_id = new_uuid()
    cwd = folder
    check_uploads(hub, body.uploads)
    await asyncio.to_thread(lambda: check_command(hub, hub.run_env(folder), body.prompt))
    try:
        await asyncio.to_thread(check_session_model, hub, folder, config)
        if body.worktree:
            cwd = await _make_worktree(hub, folder, f"s{session_id[:8]}")
        root = hub.run_env(cwd).root
    except UsageError as error:
        raise RequestRefusedError(409, "settings", str(error)) from None
    title = UserMessage(body.prompt).title
    spec = TaskSpec(
        session_id,
        str(cwd),
        str(root),
        str(project.folder),
        title,
        utc_stamp(),
        user,
        config,
        body.worktree,
        body.stage,
    )
    first = new_entry("message", user, body.prompt, data=_with(body.uploads))
    try:
        task = hub.tasks.create(spec, first)
        claim_uploads(hub, body.uploads, task)
    except OSError as error:
        raise storage_error(error) from None
    hub.pool.wake(task)
    return task


def _folder_in(project: Path, folder: str) -> Path:
    """Return a folder inside a project, links resolved; refuse any other."""
    if "\0" in folder:
        raise RequestRefusedError(400, "folder", "A path has no NUL.")
    try:
        path = Path(os.path.realpath(project / folder))
        inside = path == project or project in path.parents
        if not inside or not path.is_dir():
            raise RequestRefusedError(403 if not inside else 404, "folder", "The folder is not inside the project.")
    except (OSError, ValueError):
        raise RequestRefusedError(400, "folder", "The folder cannot be used.") from None
    return path


def check_mode_allowed(hub: Hub, mode: str) -> None:
    """Refuse a permission mode that does not exist, or that this server does not allow."""
    if mode and mode not in MODES:
        raise RequestRefusedError(400, "mode", f"mode: expected one of {', '.join(MODES)}.")
    if mode == "bypassPermissions":
        if not hub.options.bypass:
            raise RequestRefusedError(403, "mode", "bypassPermissions needs agent serve --allow-bypass.")
        try:
            check_mode(mode, hub.env)
        except UsageError as error:
            raise RequestRefusedError(403, "mode", str(error)) from None


def check_session_model(hub: Hub, folder: Path, config: Config) -> None:
    """Raise UsageError if a session there would have no model to work with."""
    run_env = hub.run_env(folder)
    settings = read_settings(config, run_env).settings()
    ReachableModels(run_env, settings).choose(config.model or settings.model)


async def _make_worktree(hub: Hub, folder: Path, name: str) -> Path:
    """Return the folder of a new worktree. Raises UsageError."""
    command = [sys.executable, "-P", "-m", "agent_cli.extras.server.worker", "--worktree", str(folder), name]

    def make() -> CompletedChild:
        # A process of its own: entering a worktree changes the working directory.
        return run_child(command, seconds=_WORKTREE_SECONDS, memory=None, cwd="/", env=dict(hub.env))

    try:
        done = await asyncio.to_thread(make)
    except (OSError, TimeoutError, OverflowError):
        raise UsageError("The worktree could not be made in time.") from None
    if done.code:
        text = done.err.decode("utf-8", "replace").strip().splitlines()
        raise UsageError(text[-1].removeprefix("agent: ") if text else "The worktree cannot be made.")
    return Path(done.out.decode("utf-8", "surrogateescape").strip())


def storage_error(error: OSError) -> RequestRefusedError:
    return RequestRefusedError(507, "disk", f"This cannot be stored: {error.strerror or error}.")


def find_task(hub: Hub, session_id: str, user: str) -> ServerTask:
    """Return the task of a session; make one for a session of another front end that is not open there."""
    log = session_log(hub, session_id)
    entry = hub.views.entry(session_id)
    if entry is None:
        raise session_not_found(session_id)
    if entry["elsewhere"]:
        raise RequestRefusedError(409, "busy", f"{entry['elsewhere']} Close it there first.")
    if (task := hub.views.task(session_id)) is not None:
        return task
    if host := entry["host"]:
        raise RequestRefusedError(409, "host", f"This is a session of {host}, which only asks here: continue it there.")
    restored = hub.views.restored(log)
    if restored is None:
        raise session_not_found(session_id)
    header = restored.header
    project = hub.views.project_of(Path(header.root))
    spec = TaskSpec(
        session_id, header.cwd, header.root, str(project.folder if project else header.root), entry["title"],
        restored.created, user, Config(on_ask="suspend"),
    )  # fmt: skip
    return hub.tasks.create(spec)


def store_entry(hub: Hub, task: ServerTask, entry: InboxEntry) -> None:
    """Store what was asked for."""
    try:
        task.add(entry)
    except OSError as error:
        raise storage_error(error) from None


async def send_message(hub: Hub, request: Request, body: MessageBody) -> dict[str, Any]:
    """Send a message: to the running turn, or after it."""
    session_id, user = request.path_params["id"], token_of(request).name
    detail = await hub.detail(session_id)
    if detail is None:
        raise session_not_found(session_id)
    task = find_task(hub, session_id, user)
    running = session_id in hub.pool.running
    text = body.whole()
    if not text and not body.uploads:
        raise RequestRefusedError(422, "body", "text: the message is empty.")
    check_uploads(hub, body.uploads)
    run_env = await asyncio.to_thread(session_environment, hub, session_id)
    # Neither a command nor a file can join a running turn.
    joins = not await asyncio.to_thread(check_command, hub, run_env, text) and not body.uploads
    entry = new_entry("message", user, text, body.how if running and joins else "queue", _with(body.uploads))
    claim_uploads(hub, body.uploads, task)
    if detail["archived"]:
        StoredSession(session_log(hub, session_id)).archive(archived=False)
    store_entry(hub, task, entry)
    if detail["state"] == "waiting":
        hub.notify_changed(session_id)  # it is sent after the turn that the decision resumes
    else:
        hub.pool.wake(task)
    return {"id": entry.id}


def _with(uploads: list[str]) -> dict[str, Any]:
    """Return the data of a message that brings files."""
    return {"uploads": uploads} if uploads else {}


async def take_back_message(hub: Hub, request: Request) -> dict[str, Any]:
    """Take back a message that no turn has taken yet."""
    session_id, message_id = request.path_params["id"], request.path_params["message"]
    session_log(hub, session_id)
    task = hub.views.task(session_id)
    entries = task.open_entries() if task is not None else []
    entry = next((each for each in entries if each.kind == "message" and each.id == message_id), None)
    if task is None or entry is None:
        raise RequestRefusedError(404, "message", "No such message waits in this session.")
    if entry.how == "steer" and session_id in hub.pool.running:
        raise RequestRefusedError(409, "sent", "The message is on its way to the model.")
    try:
        task.mark_done(message_id)
    except OSError as error:
        raise storage_error(error) from None
    hub.notify_changed(session_id)
    return {"id": message_id}


async def interrupt_turn(hub: Hub, request: Request, body: EmptyBody) -> dict[str, Any]:
    """Stop the running turn, or remove the session from the queue."""
    session_id, user = request.path_params["id"], token_of(request).name
    session_log(hub, session_id)
    task = hub.views.task(session_id)
    entry = new_entry("interrupt", user)
    if task is not None and session_id in hub.pool.running:
        store_entry(hub, task, entry)
    elif task is not None and hub.pool.remove_queued(session_id):
        task.fail("Interrupted before it began.")
    else:
        raise RequestRefusedError(409, "idle", "Nothing runs in this session.")
    hub.notify_changed(session_id)
    return {"id": entry.id}


async def resume_turn(hub: Hub, request: Request, body: EmptyBody) -> dict[str, Any]:
    """Continue a turn that was cut off."""
    session_id, user = request.path_params["id"], token_of(request).name
    detail = await hub.detail(session_id)
    if detail is None:
        raise session_not_found(session_id)
    restored = await asyncio.to_thread(hub.views.restored, session_log(hub, session_id))
    ready = restored is not None and (restored.interrupted is not None or restored.waiting is not None)
    if session_id in hub.pool.running or not ready or detail["state"] == "waiting":
        raise RequestRefusedError(409, "idle", "There is nothing to resume: the last turn has ended, or runs.")
    task = find_task(hub, session_id, user)
    entry = new_entry("resume", user)
    store_entry(hub, task, entry)
    hub.pool.wake(task)
    return {"id": entry.id}


async def decide(hub: Hub, request: Request, body: DecisionBody) -> dict[str, Any]:
    """Decide about one call, question, plan or review."""
    return await _decide(hub, request, body, body.verdict)


async def approve(hub: Hub, request: Request, body: DecisionFields) -> dict[str, Any]:
    return await _decide(hub, request, body, "approve")


async def reject(hub: Hub, request: Request, body: DecisionFields) -> dict[str, Any]:
    return await _decide(hub, request, body, "reject")


async def answer(hub: Hub, request: Request, body: DecisionFields) -> dict[str, Any]:
    return await _decide(hub, request, body, "answer")


async def _decide(hub: Hub, request: Request, body: DecisionFields, word: Any) -> dict[str, Any]:
    verdict = UserDecision(body.call_id, body.binding, word, body.text, **body.fields())
    return await decide_call(hub, request.path_params["id"], verdict, token_of(request))


async def decide_call(hub: Hub, session_id: str, verdict: UserDecision, token: AccessToken) -> dict[str, Any]:
    """Store a decision; wake a worker once none is missing. The first decision about a call wins."""
    user = token.name
    if _host_of(hub, session_id):
        return await _decide_for_host(hub, session_id, verdict, token)
    # From here to the stored decision there is no await, so no other decision.
    path, task = await check_decision(hub, session_id, verdict, token)
    store_entry(hub, task, new_entry("decision", user, verdict.text, data=to_json(verdict)))
    left = sum("decided" not in item for item in hub.views.pending_items(path, task))
    if left:
        hub.notify_changed(session_id)
    else:
        hub.pool.wake(task)
    return {"call_id": verdict.call_id, "decided": f"{verdict.past} by {user}", "decided_by": user, "left": left}


def _host_of(hub: Hub, session_id: str) -> str:
    """Return the other program whose session this is (`agent gate`); "" for our own."""
    return StoredSession(session_log(hub, session_id)).host


async def _decide_for_host(hub: Hub, session_id: str, verdict: UserDecision, token: AccessToken) -> dict[str, Any]:
    """Record a decision for the hook of another program, which waits for it."""
    path = session_log(hub, session_id)
    await hub.detail(session_id)
    asked = hub.views.question(path, verdict.call_id)
    if asked is None:
        raise await _already_closed(hub, session_id, verdict.call_id)
    if question_binding(asked) != verdict.binding:
        raise RequestRefusedError(409, "changed", "The question has changed since you saw it: look at it again.")
    if not token.may("start"):
        _check_only_decides(asked, verdict, token)
    try:
        await asyncio.to_thread(record_host_decisions, path, [verdict], token.name)
    except UsageError as error:
        raise RequestRefusedError(422, "decision", str(error)) from None
    hub.notify_changed(session_id)
    made = f"{verdict.past} by {token.name}"
    return {"call_id": verdict.call_id, "decided": made, "decided_by": token.name, "left": 0}


async def check_decision(
    hub: Hub, session_id: str, verdict: UserDecision, token: AccessToken
) -> tuple[Path, ServerTask]:
    """Return the log and the task of the session if a decision can be honoured. Raises RequestRefusedError."""
    user = token.name
    path = session_log(hub, session_id)
    # Load the session on a thread first; what follows does not wait for anything.
    await hub.detail(session_id)
    asked = hub.views.question(path, verdict.call_id)
    task = find_task(hub, session_id, user)
    items = hub.views.pending_items(path, task)
    if asked is None or all(item["call_id"] != verdict.call_id for item in items):
        raise await _already_closed(hub, session_id, verdict.call_id)
    if (earlier := find_decision(asked, task.open_entries())) is not None:
        raise _already_decided(earlier[0].user, earlier[1].past)
    if question_binding(asked) != verdict.binding:
        raise RequestRefusedError(409, "changed", "The question has changed since you saw it: look at it again.")
    check_mode_allowed(hub, verdict.mode)
    if not token.may("start"):
        _check_only_decides(asked, verdict, token)
    if isinstance(asked, QuestionAsked) and any(i["expired"] for i in items if i["call_id"] == verdict.call_id):
        store_entry(hub, task, new_entry("expire", user))
        hub.pool.wake(task)
        raise RequestRefusedError(409, "expired", _expiry_reason(hub, path))
    try:
        verdict.answer_to(asked, hub.views.workspace(path), user)
    except UsageError as error:
        raise RequestRefusedError(422, "decision", str(error)) from None
    return path, task


def _check_only_decides(asked: ApprovalRequested | QuestionAsked, verdict: UserDecision, token: AccessToken) -> None:
    """Refuse more than the question offers: other arguments or another plan are other work."""
    what = ""
    offers_mode = asked.edits if isinstance(asked, ApprovalRequested) else asked.kind == "plan"
    if isinstance(asked, ApprovalRequested) and verdict.arguments not in (None, asked.arguments):
        what = "to change what runs"
    elif isinstance(asked, QuestionAsked) and changes_plan(asked, verdict):
        what = "to edit a plan"
    elif verdict.scope != "session":
        what = f"to save a rule for the {verdict.scope}"
    elif verdict.mode not in ("", "acceptEdits" if offers_mode else ""):
        what = f"the mode {verdict.mode}"
    if what:
        raise RequestRefusedError(403, "role", f"{token.name} has the role {token.role}, and {what} needs start.")


def _expiry_reason(hub: Hub, path: Path) -> str:
    restored = hub.views.restored(path)
    waiting = restored.waiting if restored is not None else None
    return f"{waiting.expired(waiting.plan_ttl) if waiting is not None else 'The plan expired.'} Ask for a new one."


async def _already_closed(hub: Hub, session_id: str, call_id: str) -> RequestRefusedError:
    """Return the refusal of a decision about a call that is not open: who decided it, if anybody did."""
    detail = await hub.detail(session_id)
    for made in reversed((detail or {}).get("decisions", [])):
        if made["call_id"] == call_id:
            return _already_decided(made["user"] or "a user of the terminal", made["decision"])
    if (task := hub.views.task(session_id)) is not None:
        for entry in reversed(task.entries()):
            if entry.kind == "decision" and entry.data.get("call_id") == call_id:
                return _already_decided(entry.user, str(entry.data.get("verdict", "")))
    return RequestRefusedError(404, "call", f"No call {shorten(call_id, 60)} waits for a decision in this session.")


def _already_decided(user: str, word: str) -> RequestRefusedError:
    past = {"approve": "approved", "reject": "rejected", "answer": "answered", "revise": "sent back"}.get(word, word)
    return RequestRefusedError(
        409, "decided", f"{user} has decided this already: {past}.", decided_by=user, decision=past
    )


async def undo_turns(hub: Hub, request: Request, body: UndoBody) -> dict[str, Any]:
    """Undo a turn and all after it."""
    session_id, user = request.path_params["id"], token_of(request).name
    session_log(hub, session_id)
    if session_id in hub.pool.running or session_id in hub.pool.queued:
        raise RequestRefusedError(409, "running", "The session is at work: interrupt it first.")
    # The model of another program cannot be told.
    task = None if _host_of(hub, session_id) and not body.conversation else find_task(hub, session_id, user)
    root = (await asyncio.to_thread(session_environment, hub, session_id)).root

    def apply() -> tuple[dict[str, Any], int]:
        work = checkpoints_of(hub, session_id)
        undoable = [step.turn for step in work.steps() if not step.undone]
        chosen = [turn for turn in undoable if turn.turn >= body.point]
        if body.point not in [turn.turn for turn in undoable]:
            raise RequestRefusedError(404, "point", "That turn is not one that can be undone.")
        plan = work.plan([turn.turn for turn in chosen])
        ready = plan.of("ready")
        failed = work.undo([turn.turn for turn in chosen], ready)
        near = {item.path: short_path(item.path, root) for item in plan.items}
        done = [item for item in ready if item.path not in failed]
        skipped = [{"path": near[i.path], "reason": i.why} for i in plan.items if i not in ready]
        skipped += [{"path": near[path], "reason": why} for path, why in failed.items()]
        return {
            "restored": [near[item.path] for item in done if item.want is not None],
            "deleted": [near[item.path] for item in done if item.want is None],
            "skipped": skipped,
        }, chosen[0].messages

    try:
        made, messages = await asyncio.to_thread(apply)
    except UsageError as error:
        raise RequestRefusedError(409, "undo", str(error)) from None
    names = [*made["restored"], *made["deleted"]]
    if task is None:
        pass
    elif body.conversation:
        store_entry(hub, task, new_entry("rewind", user, data={"messages": messages}))
        hub.pool.wake(task)
    elif names:
        store_entry(hub, task, new_entry("note", user, UserMessage.about_undo(names)))
    with suppress(KeyError):
        hub.notify_changed(session_id)
    return made
