"""`agent pending`: everything that waits for the user, with what they need to know to decide it.

`agent resume`: a turn that was interrupted, or whose calls are all decided, continued without a terminal.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import chain
from typing import Any

from agent_cli.cli.run import asked_of, report_of, unattended
from agent_cli.config.run_options import RunOptions
from agent_cli.core.approvals import Approver, Asker
from agent_cli.core.place import UsageError
from agent_cli.headless.output import echo, put_json
from agent_cli.headless.pending import (
    decide_commands,
    headline,
    pending_plan_lines,
    pending_question_lines,
    shown_time,
    tell_pending,
)
from agent_cli.headless.printing import print_notice
from agent_cli.headless.result import SUSPENDED
from agent_cli.headless.run import FailOnQuestion, HeadlessOptions, resume_headless
from agent_cli.runtime.builder import Agent
from agent_cli.runtime.environment import find_place
from agent_cli.runtime.pending import opened_in, pending_of, pending_sessions, project_store, reopen
from agent_cli.session.pending_plans import take_plan
from agent_cli.session.records import SessionNotFoundError
from agent_cli.session.search import root_of
from agent_cli.session.store import SessionStore, state_folder
from agent_cli.session.summary import age, project_folders
from agent_cli.terminal.dialogs.lines import review_text
from agent_tools.lookalikes import named_lookalikes, visible
from agent_tools.text import counted, inert, shorten

_WORDS = 400


def list_pending(*, everywhere: bool, as_json: bool) -> int:
    """What waits in this project, or in all of them, the latest changed session first; the exit code."""
    place = find_place(os.environ)
    own = project_store(place)
    stores = [own]
    if everywhere:
        folders = project_folders(state_folder(place.env))
        stores += [SessionStore.at(folder) for folder in folders if folder != own.folder]
    found: list[dict[str, Any]] = []
    names = []
    for store in stores:
        for session_id, items in pending_sessions(store).items():
            root, where = root_of(store.path(session_id)), opened_in(store, session_id)
            found.append({"session_id": session_id, "root": root, "open_in": where or None, "pending": items})
            names.append(store.short(session_id))
    if as_json:
        put_json(found)
        return 0
    if not found:
        where = "in any project" if everywhere else "in this project; agent pending --all looks in all of them"
        echo(f"Nothing waits for you {where}.")
    for session, name in zip(found, names, strict=True):
        echo("\n".join(_session_lines(session, name, with_root=everywhere)))
    return 0


def _session_lines(session: dict[str, Any], name: str, *, with_root: bool) -> Iterator[str]:
    session_id, items = session["session_id"], session["pending"]
    first = items[0]
    where = f" in {inert(session['root'])}" if with_root and session["root"] else ""
    opened = session["open_in"]
    held = f" (open in {opened}: answer it there)" if opened else ""
    yield f"session {session_id}{where}, asked {age(first['asked_at'], datetime.now(UTC))} ago{held}"
    if first["request"]:
        yield f"  request: {_in_short(first['request'])}"
    said = ""
    for item in items:
        if item["said"] and item["said"] != said:
            said = item["said"]
            yield f"  assistant: {_in_short(said)}"
        yield f"  {_KINDS[item['kind']]}: {headline(item)}"
        for line in _details(item):
            yield f"      {line}"
    if opened:
        return
    commands = decide_commands(name, items)
    if not commands:
        yield f"  expired {shown_time(first['expires_at'])}; ask for a new plan: agent --resume {name}"
    for command in commands:
        yield f"  > {command}"


_KINDS = {"approval": "call", "plan": "plan", "review": "review", "question": "question"}


def _in_short(text: str) -> str:
    return inert(shorten(" ".join(text.split()), _WORDS))


def _details(item: dict[str, Any]) -> list[str]:
    if item["kind"] == "plan":
        return pending_plan_lines(item)
    if item["kind"] == "review":
        return review_text(item["review"])[1:]
    if item["kind"] == "question":
        return pending_question_lines(item["questions"])
    preview = item["preview"] or {}
    targets = [e["target"] for e in item["effects"] if e["kind"] != "state"]
    effects = [f"{e['kind']} {visible(e['target'])}" for e in item["effects"] if e["kind"] != "state"]
    odd = named_lookalikes(item["summary"], *targets)
    diffs = preview.get("files", (preview,))
    changes = [([d["path"]] if len(diffs) > 1 else []) + _shown(d).splitlines() for d in diffs]
    facts = [visible(fact) for fact in (*([odd] if odd else []), *item["facts"])]
    return [*effects, f"in {item['cwd']}", *chain.from_iterable(changes), f"asked because it {item['reason']}", *facts]


def _shown(preview: dict[str, Any]) -> str:
    return str(preview.get("patch", preview.get("text", "")))


def sessions_listed(found: dict[str, list[dict[str, Any]]], store: SessionStore) -> str:
    """Sessions that wait, in one line each, with the commands that decide them."""
    lines = []
    for session_id, items in found.items():
        lines.append(f"session {session_id[:8]}: {_in_short(items[0]['request']) or counted(len(items), 'call')}")
        lines += [f"  waiting: {headline(item)}" for item in items]
        lines += [f"  > {command}" for command in decide_commands(store.short(session_id), items)]
    return "\n".join(lines)


def resume_session(start: str, options: RunOptions) -> int:
    """Continue the last turn of a session; the exit code. Raises UsageError where there is nothing to continue.

    start: the session's ID or the beginning of it; empty for the latest.
    """
    place = find_place(os.environ)
    store = project_store(place)
    try:
        session_id = store.find(start) if start else store.latest()
    except SessionNotFoundError as error:
        raise UsageError(str(error)) from None
    fails: list[FailOnQuestion | None] = []

    def answering(on_ask: str) -> tuple[Approver, Asker]:
        approver, asker, failing = unattended(on_ask)
        fails.append(failing)
        return approver, asker

    agent = reopen(session_id, place, options, answering, lambda line: print_notice(f"agent: {line}"))
    asked = asked_of(options, agent.settings).but(structured=agent.structured, fails=fails[-1])
    try:
        waiting = agent.restored.waiting if agent.restored else None
        if agent.restored is not None and waiting is not None and waiting.undecided:
            tell_pending(session_id, pending_of(agent.restored), store.folder)
            return SUSPENDED
        return carry_on(agent, asked)
    finally:
        agent.close()


def carry_on(agent: Agent, asked: HeadlessOptions) -> int:
    """Run the turn of a reopened session to its end, with what was decided. Raises UsageError where it has ended."""
    restored = agent.restored
    turn = (restored.waiting or restored.interrupted) if restored is not None else None
    session_id = agent.header.session_id
    if restored is None or turn is None:
        raise UsageError(
            f"There is nothing to resume in session {session_id}: its last turn has ended. "
            f"To send a message: agent -p --resume {session_id[:8]} WORDS"
        )
    take_plan(project_store(agent.place).folder, session_id)
    if restored.waiting is None:
        agent.conversation.pick_up()
    return resume_headless(asked, agent.conversation, report_of(agent), turn.spent, turn.by_model)
