"""`agent resume`: a turn that was interrupted, or whose calls are all decided, continued without a terminal."""

from __future__ import annotations

import os

from agent_cli.assembly import Agent
from agent_cli.core.answers import Approver, Asker
from agent_cli.headless.exits import SUSPENDED
from agent_cli.headless.pending import tell_pending
from agent_cli.headless.printing import print_notice
from agent_cli.headless.run import FailOnQuestion, HeadlessOptions, resume_headless
from agent_cli.options import RunOptions
from agent_cli.place import UsageError, find_place
from agent_cli.session.plans import take_plan
from agent_cli.session.records import SessionNotFoundError
from agent_cli.start import asked_of, report_of, unattended
from agent_cli.waiting import pending_of, project_store, reopen


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
