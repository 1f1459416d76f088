"""Continue a turn that was interrupted, or whose calls are all decided, as with -p."""

from __future__ import annotations

import os

import typer

from agent_cli.cli.decide_calls import resume_waiting
from agent_cli.cli.parameters import OutputFormat, Session, Verbose
from agent_cli.cli.run import headless_approver, headless_options
from agent_cli.config.run_options import RunOptions
from agent_cli.core.decisions import Approver, Asker
from agent_cli.core.place import UsageError
from agent_cli.headless.pending import tell_pending
from agent_cli.headless.printing import print_notice
from agent_cli.headless.result import SUSPENDED
from agent_cli.headless.run import FailOnQuestion
from agent_cli.runtime.environment import find_place
from agent_cli.runtime.pending import pending_of, project_store, reopen
from agent_cli.session.records import SessionNotFoundError

app = typer.Typer(add_completion=False)


@app.command("resume")
def resume_session(session: Session = "", output_format: OutputFormat = "text", verbose: Verbose = False) -> int:
    place = find_place(os.environ)
    store = project_store(place)
    try:
        session_id = store.find(session) if session else store.latest()
    except SessionNotFoundError as error:
        raise UsageError(str(error)) from None
    fails: list[FailOnQuestion | None] = []

    def answering(on_ask: str) -> tuple[Approver, Asker]:
        approver, asker, failing = headless_approver(on_ask)
        fails.append(failing)
        return approver, asker

    options = RunOptions(print=True, output_format=output_format, verbose=verbose)
    agent = reopen(session_id, place, options, answering, lambda line: print_notice(f"agent: {line}"))
    asked = headless_options(options, agent.settings).replace(structured=agent.structured, fails=fails[-1])
    try:
        waiting = agent.restored.waiting if agent.restored else None
        if agent.restored is not None and waiting is not None and waiting.undecided:
            tell_pending(session_id, pending_of(agent.restored), store.folder)
            return SUSPENDED
        return resume_waiting(agent, asked)
    finally:
        agent.close()
