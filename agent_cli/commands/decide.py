"""`agent pending`, `approve`, `reject` and `answer`: what waits for a person, and their decisions from any terminal."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import chain
from typing import Any

from agent_cli.assembly import Agent
from agent_cli.commands.output import put, put_json
from agent_cli.commands.resume import carry_on
from agent_cli.core.answers import Approver, Asker
from agent_cli.headless.exits import SUSPENDED
from agent_cli.headless.run import Asked, FailOnQuestion, say, tell_pending
from agent_cli.options import RunOptions
from agent_cli.place import Mistake, Place, find_place
from agent_cli.session.plans import expired_at
from agent_cli.session.records import NoSession
from agent_cli.start import asked_of, unattended
from agent_cli.terminal.reviewing import review_lines
from agent_cli.waiting import (
    decide,
    decided_items,
    load,
    opened_in,
    pending_items,
    pending_sessions,
    project_store,
    reopen,
)
from agent_tools.inert import inert
from agent_tools.plan import plan_text


def list_pending(as_json: bool) -> int:
    """Everything in this project that waits for a person."""
    store = project_store(find_place(os.environ))
    found = pending_sessions(store)
    if as_json:
        put_json([{"session_id": s, "open_in": opened_in(store, s) or None, "pending": i} for s, i in found.items()])
        return 0
    if not found:
        put("Nothing waits for a person here.")
    for session_id, items in found.items():
        where = opened_in(store, session_id)
        put(f"session {session_id}{f'  (open in {where}: answer it there)' if where else ''}")
        for item in items:
            if "decided" in item:
                go_on = "" if where else f": agent resume {session_id[:8]}"
                put(f"  {item['call_id']}  {item['summary']} ({item['decided']}{go_on})")
                continue
            put(f"  {item['call_id']}  {item['kind']}: {item['summary']}")
            for line in _details(item):
                put(f"      {line}")
    return 0


def _details(item: dict[str, Any]) -> list[str]:
    if item["kind"] == "plan":
        return plan_text(item["plan"]).splitlines()
    if item["kind"] == "review":
        return review_lines(item["review"])[1:]
    if item["kind"] == "question":
        return [f"- {o['label']}" for q in item["questions"] for o in q.get("options", ())]
    preview = item["preview"] or {}
    effects = [f"{e['kind']} {e['target']}" for e in item["effects"] if e["kind"] != "state"]
    diffs = preview.get("files", (preview,))
    changes = [([d["path"]] if len(diffs) > 1 else []) + _shown(d).splitlines() for d in diffs]
    facts = [inert(fact) for fact in item["facts"]]
    return [*effects, f"in {item['cwd']}", *chain.from_iterable(changes), f"asked because it {item['reason']}", *facts]


def _shown(preview: dict[str, Any]) -> str:
    return str(preview.get("patch", preview.get("text", "")))


def decide_calls(
    words: Sequence[str], decision: str, options: RunOptions, *, every: bool, text: str = "", mode: str = ""
) -> int:
    """Decide calls of a session and, when the last is decided, go on with its turn; the exit code. Raises Mistake.

    words: a session (its ID or the beginning) and calls, both optional; without a call, just one may be waiting.
    """
    place = find_place(os.environ)
    session_id, calls = _session_and_calls(list(words), place)
    fails: list[FailOnQuestion | None] = []

    def answering(on_ask: str) -> tuple[Approver, Asker]:
        approver, asker, failing = unattended(on_ask)
        fails.append(failing)
        return approver, asker

    agent = reopen(session_id, place, options, answering, lambda line: say(f"agent: {line}"))
    asked = asked_of(options, agent.settings).but(structured=agent.structured, fails=fails[-1])
    try:
        return _decide(agent, calls, decision, asked, every=every, text=text, mode=mode)
    finally:
        agent.close()


def _decide(agent: Agent, calls: list[str], decision: str, asked: Asked, *, every: bool, text: str, mode: str) -> int:
    waiting = agent.restored.waiting if agent.restored else None
    session_id = agent.header.session_id
    # What was decided by a process that ended before it could carry that out can be decided anew.
    candidates = (waiting.undecided or waiting.decided) if waiting is not None else ()
    if waiting is None or not candidates:
        raise Mistake(f"Nothing waits for a person in session {session_id}.")
    chosen = list(candidates) if every else calls
    if not chosen and not waiting.undecided and decision == "approve":
        return carry_on(agent, asked)
    if not chosen and len(candidates) > 1:
        tell_pending(session_id, [*pending_items(waiting), *decided_items(waiting)])
        raise Mistake(f"{len(candidates)} calls are waiting: name one, or use --all.")
    for call_id in chosen or candidates:
        if call_id not in candidates:
            tell_pending(session_id, pending_items(waiting))
            raise Mistake(f"{call_id} is not waiting in session {session_id}.")
    ttl = agent.settings.plan_ttl
    for call_id in chosen or list(candidates):
        plan = call_id in waiting.questions and waiting.questions[call_id].kind == "plan"
        if plan and expired_at(waiting.asked_at, ttl):
            decide(agent, call_id, "answer", text=f"The plan expired: nobody answered within {ttl} minutes.")
            say(f"The plan had waited for more than {ttl} minutes and has expired.")
        else:
            decide(agent, call_id, decision, text=text, mode=mode)
    if waiting.undecided:
        tell_pending(session_id, pending_items(waiting))
        return SUSPENDED
    return carry_on(agent, asked)


def _session_and_calls(words: list[str], place: Place) -> tuple[str, list[str]]:
    """The first word is a session where one begins with it; the default is the latest one that waits."""
    store = project_store(place)
    if words and len(words[0]) >= 4:
        try:
            return store.find(words[0]), words[1:]
        except NoSession:
            pass
    try:
        latest = store.latest()
    except NoSession as error:
        raise Mistake(str(error)) from None
    if load(latest, place).waiting is None and words:
        raise Mistake(f"{inert(words[0])} is neither a session here nor a call that waits in the latest one.")
    return latest, words
