"""From options to a front end: one-shot, or the REPL."""

from __future__ import annotations

import os
import sys
from typing import Any

from agent_cli.__main__ import COMMANDS
from agent_cli.assembly import Agent, build
from agent_cli.config.commands import split_call
from agent_cli.config.schema import Settings
from agent_cli.core.answers import Approver, Asker, Defer, later
from agent_cli.core.messages import ToolMessage
from agent_cli.engine.drive import Conversation
from agent_cli.headless.exits import SUSPENDED
from agent_cli.headless.result import pending_item
from agent_cli.headless.run import (
    Asked,
    FailOnQuestion,
    Misuse,
    Report,
    decide_alone,
    deny,
    run,
    say,
    tell_pending,
)
from agent_cli.options import RunOptions
from agent_cli.place import Mistake, find_place, read_settings
from agent_cli.session.plans import expired_at, feedback_block, is_expired, take_plan
from agent_cli.session.store import SessionStore, close_call, state_folder
from agent_tools.base import ToolError
from agent_tools.clipping import one_line
from agent_tools.lent import Prompted


def start(options: RunOptions, typed: list[str]) -> int:
    """Run as asked; the exit code. `typed` is the command line as it was written. Raises Mistake."""
    if not options.print:
        _question_lone_word(options, typed)
    if options.worktree is not None or (options.resume is not None and not options.print):
        from agent_cli.entering import entered  # few runs have a choice to make before they begin

        return entered(options, _go)
    return _go(options)


def _go(options: RunOptions) -> int:
    if not options.print:
        from agent_cli.terminal.repl import run_repl

        return run_repl(options)
    return one_shot(options)


def one_shot(options: RunOptions) -> int:
    """`agent -p`."""
    place = find_place(os.environ)
    layers = read_settings(options, place)
    for text in layers.ignored:
        say(f"agent: {one_line(text)}.")
    approver, asker, fails = unattended(options.on_ask)
    asked = asked_of(options, layers.settings()).but(fails=fails)
    built: list[Agent] = []

    def begin() -> tuple[Conversation, Report]:
        agent = build(options, place, layers, approver, lambda text: say(f"agent: {text}"), asker=asker)
        built.append(agent)
        _refuse_if_waiting(agent)
        _take_up_plan(agent)
        _question_commands(agent)
        return agent.conversation, report_of(agent)

    try:
        return run(asked, begin)
    except Misuse as error:
        raise Mistake(str(error)) from None
    except StillWaiting as waiting:
        tell_pending(waiting.session_id, waiting.items)
        return SUSPENDED
    finally:
        for agent in built:
            agent.close()


class StillWaiting(Exception):
    """The session waits for a person; a new message cannot go before that."""

    def __init__(self, session_id: str, items: list[dict[str, Any]]) -> None:
        super().__init__(session_id)
        self.session_id = session_id
        self.items = items


def _refuse_if_waiting(agent: Agent) -> None:
    """A plan that waits is answered by the message; any other open call has to be decided first."""
    waiting = agent.restored.waiting if agent.restored else None
    if waiting is not None and waiting.decided and not waiting.undecided:
        from agent_cli.waiting import decided_items

        raise StillWaiting(agent.header.session_id, decided_items(waiting))
    if waiting is None or not waiting.undecided:
        return
    folder = SessionStore(state_folder(agent.place.env), agent.place.root).folder
    only_a_plan = all(i in waiting.questions and waiting.questions[i].kind == "plan" for i in waiting.undecided)
    if not only_a_plan:
        items = [pending_item(waiting.requests.get(i) or waiting.questions[i]) for i in waiting.undecided]
        raise StillWaiting(agent.header.session_id, items)
    take_plan(folder, agent.header.session_id)
    if expired_at(waiting.asked_at, agent.settings.plan_ttl):
        agent.conversation.closing = f"The plan expired: nobody answered within {agent.settings.plan_ttl} minutes."
        return
    plan = waiting.questions[waiting.undecided[0]].data
    agent.conversation.closing = "The user answered in words; see their next message."
    agent.conversation.frame = lambda text: feedback_block(plan, text)


def _take_up_plan(agent: Agent) -> None:
    """With `plan_review_fresh`: the first message of a new session answers the plan that waits in the project."""
    if agent.restored is not None or not agent.settings.plan_review_fresh:
        return
    store = SessionStore(state_folder(agent.place.env), agent.place.root)
    plan = take_plan(store.folder)
    if plan is None:
        return
    text = f"The plan was taken up by session {agent.header.session_id}."
    close_call(store, plan.session_id, ToolMessage(plan.call_id, "ExitPlanMode", text, is_error=True))
    if not is_expired(plan.created, agent.settings.plan_ttl):
        agent.conversation.frame = lambda words: feedback_block(plan.plan, words)


def unattended(on_ask: str) -> tuple[Approver, Asker, FailOnQuestion | None]:
    """Who answers where no person is: nobody (deny), somebody later (suspend), or the run fails."""
    if on_ask == "suspend":
        return (lambda request: Defer()), later, None
    if on_ask == "fail":
        fails = FailOnQuestion()
        return fails, fails, fails
    return deny, decide_alone, None


def asked_of(options: RunOptions, settings: Settings) -> Asked:
    """How a one-shot run was asked for."""
    return Asked(
        prompt=options.prompt,
        output_format=options.output_format,
        input_format=options.input_format,
        partial=options.include_partial_messages,
        hook_events=options.include_hook_events,
        verbose=options.verbose,
        structured=options.json_schema is not None,
        fail_on_denied=options.fail_on_denied,
        fail_on_degraded=options.fail_on_degraded,
        fail_on_unfinished=options.fail_on_unfinished,
        stdin_limit=settings.stdin_limit,
        stdin_wait=settings.stdin_wait,
    )


def report_of(agent: Agent) -> Report:
    """What the result and the first line of stream-json say about a session."""
    settings, place = agent.settings, agent.place
    return Report(
        session_id=agent.header.session_id,
        model=agent.model.name,
        key_source=agent.model.key_source,
        cwd=str(place.cwd),
        tools=tuple(agent.conversation.kit.tools),
        mode=settings.permissions.mode,
        memory=tuple(str(f.path) for f in agent.memory.files),
        agents=agent.conversation.kit.agents,
        commands=agent.commands,
        skills=tuple(agent.added.skills),
        plugins=settings.plugins,
        servers=agent.mcp.states() if agent.mcp is not None else (),
        folder=SessionStore(state_folder(place.env), place.root).folder if settings.save_sessions else None,
        windows=(agent.info.context_window, agent.info.max_output) if agent.info else (None, None),
    )


def _question_commands(agent: Agent) -> None:
    """Let a message that names a command of sessions, or nearly one that is there, be refused instead of sent."""
    conversation = agent.conversation
    expand = conversation.expand

    def looked_at(text: str) -> str | Prompted:
        name, _ = split_call(text)
        if text.startswith("/") and name not in agent.commands:
            import difflib

            from agent_cli.terminal.commands import REGISTRY

            if name in REGISTRY:
                raise ToolError(f"/{name} is a command of sessions, and does nothing with -p.")
            if near := difflib.get_close_matches(name, agent.commands, 1, 0.75):
                raise ToolError(f"There is no /{name}; did you mean /{near[0]}?")
        return expand(text)

    conversation.expand = looked_at


def _question_lone_word(options: RunOptions, typed: list[str]) -> None:
    """A lone word close to a command is asked about before it costs anything. Raises Mistake where nobody is there."""
    if len(options.prompt) != 1 or "--" in typed:
        return
    word = options.prompt[0]
    import difflib

    near = [word] if word in COMMANDS else difflib.get_close_matches(word, COMMANDS, 1, 0.7)
    if not near or any(c.isspace() for c in word):
        return
    hint = f"`{word}` looks like the command `agent {near[0]}`; to send it as a prompt, write: agent -- {word}"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise Mistake(hint)
    sys.stderr.write(f"{hint}\nSend it as a prompt now? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise Mistake("Nothing was sent.")
