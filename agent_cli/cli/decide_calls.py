"""Decide pending calls from any terminal and continue their turn: for `agent approve`, `reject` and `answer`."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agent_cli import (
    MODES,
    Approver,
    Asker,
    QuestionReply,
    Restored,
    RunEnvironment,
    Session,
    SessionNotFoundError,
    SessionStore,
    StoredSession,
    UsageError,
    UserDecision,
    find_environment,
)
from agent_cli.cli.run import headless_approver, headless_options, session_report
from agent_cli.cli.run_options import RunOptions, session_config
from agent_cli.console import echo, print_notice, print_warning
from agent_cli.kernel.decisions import Level
from agent_cli.kernel.events import RuleScope
from agent_cli.kernel.runtime.environment import check_mode
from agent_cli.kernel.runtime.pending import record_host_decisions
from agent_cli.kernel.runtime.user_decision import DecisionWord
from agent_cli.kernel.session.records import WaitingTurn
from agent_cli.shells.headless.output import SUSPENDED, USAGE
from agent_cli.shells.headless.pending import decide_commands, headline, print_pending, report_expired
from agent_cli.shells.headless.run import FailOnQuestion, HeadlessOptions, resume_headless
from agent_tools.base import Effect
from agent_tools.plan import plan_file
from agent_tools.record import Value
from agent_tools.registry import BUILTIN
from agent_tools.text import counted, escape_controls, shorten


class PendingDecision(Value):
    """The user's decision.

    word: "approve", "reject", "answer" or "undo".
    every: it applies to all open calls.
    texts: words of an answer, as given.
    text: words for the model.
    mode: the permission mode to continue in.
    rule, scope, hunks, arguments: as in `UserDecision`.
    """

    word: DecisionWord
    every: bool = False
    text: str = ""
    texts: tuple[str, ...] = ()
    mode: str = ""
    rule: str = ""
    scope: RuleScope = "session"
    hunks: tuple[int, ...] | None = None
    arguments: dict[str, Any] | None = None


class Target(Value):
    """The requested session, its location, and the remaining words."""

    run_env: RunEnvironment
    session_id: str
    words: tuple[str, ...]

    @property
    def stored(self) -> StoredSession:
        """The session on disk."""
        return SessionStore.of(self.run_env).session(self.session_id)

    def load(self) -> Restored:
        """Load the session. Raises UsageError."""
        try:
            return self.stored.load()
        except SessionNotFoundError as error:
            raise UsageError(str(error)) from None


def decide_calls(words: Sequence[str], decision: PendingDecision, options: RunOptions) -> int:
    """Decide calls of a session and, after the last one, continue its turn; return the exit code. Raises UsageError.

    words: a session (its ID or the beginning of it) and calls, both optional; for "answer" then the words of it.
    """
    run_env = find_environment(os.environ)
    if decision.mode:
        check_mode(decision.mode, run_env.env)
        # It is on this command line, which is where the mode has to be allowed.
        options = options.replace(allow_dangerously_skip_permissions=decision.mode == "bypassPermissions")
    target = find_target(tuple(words), run_env, answer=decision.word == "answer")
    calls, decision = _calls_and_words(target, decision)
    found = target.load()
    if found.header.host:
        return _decide_for_host(target, found, calls, decision)
    shown = _undecided_bindings(found.waiting)
    fails: list[FailOnQuestion | None] = []

    def answering(on_ask: str) -> tuple[Approver, Asker]:
        approver, asker, failing = headless_approver(on_ask)
        fails.append(failing)
        return approver, asker

    config = session_config(options).replace(resume=target.session_id)
    agent = Session.open(config, target.run_env, answering, print_warning, as_saved="always")
    asked = headless_options(options, agent.settings).replace(
        structured=agent.structured, fails=fails[-1], progress=True
    )
    try:
        return _decide(agent, calls, decision, asked, shown)
    finally:
        agent.close()


def _decide_for_host(target: Target, found: Restored, calls: tuple[str, ...], decision: PendingDecision) -> int:
    """Record a decision about calls of another program, whose hook waits for it. Raises UsageError."""
    items = found.pending()
    open_calls = tuple(item["call_id"] for item in items if "decided" not in item)
    if not open_calls:
        raise UsageError(f"{found.header.host} does not wait for you in session {target.session_id}.")
    if wrong := next((call for call in calls if call not in open_calls), ""):
        raise UsageError(f"{escape_controls(wrong)} is not waiting in session {target.session_id}.")
    given = {name: getattr(decision, name) for name in ("rule", "scope", "mode", "hunks", "arguments")}
    requests = found.waiting.requests if found.waiting is not None else {}
    host = record_host_decisions(
        target.stored.path,
        [
            UserDecision(call, requests[call].binding, decision.word, decision.text, **given)
            for call in calls or open_calls
        ],
    )
    echo(f"{'Approved' if decision.word == 'approve' else 'Rejected'}: {host} goes on.")
    return 0


def find_target(words: tuple[str, ...], run_env: RunEnvironment, *, answer: bool = False) -> Target:
    """Return the session that the words name, or the one that waits. Raises UsageError.

    A session is named by its ID or at least four characters of its beginning, one of another project, too.
    answer: only the first word may be a call; else all are.
    """
    store = SessionStore.of(run_env)
    if words and store.is_id(words[0]):
        here = [each for each in store.sessions() if each.session_id.startswith(words[0].lower())]
        found = here or store.elsewhere(words[0])
        if len(found) > 1:
            raise UsageError(
                f"{len(found)} sessions begin with {words[0]}: give more of the ID. See: agent pending --all"
            )
        if found:
            return Target(_session_environment(found[0], run_env), found[0].session_id, words[1:])
        if len(words[0]) == 36:
            raise UsageError(f"No session matches {words[0]}. See: agent pending --all")
    waiting = store.pending()
    if not waiting:
        raise UsageError("Nothing waits for you in this project. For other projects: agent pending --all")
    calls = words[:1] if answer else words
    named = {s: items for s, items in waiting.items() if set(calls) <= {item["call_id"] for item in items}}
    if not answer and not named:
        raise UsageError(
            f"{escape_controls(' '.join(calls))}: neither a session nor a call that waits here. See: agent pending"
        )
    found_here = named if calls and named else waiting
    if len(found_here) > 1:
        print_notice(_list_sessions(found_here, store))
        raise UsageError(f"{len(found_here)} sessions wait for you: name one of them.")
    return Target(run_env, next(iter(found_here)), words)


def _list_sessions(found: dict[str, list[dict[str, Any]]], store: SessionStore) -> str:
    """List waiting sessions, one line each, with the commands that decide them."""
    lines = []
    for session_id, items in found.items():
        request = escape_controls(shorten(" ".join(items[0]["request"].split()), 400))
        lines.append(f"session {session_id[:8]}: {request or counted(len(items), 'call')}")
        lines += [f"  waiting: {headline(item)}" for item in items]
        lines += [f"  > {command}" for command in decide_commands(store.short(session_id), items)]
    return "\n".join(lines)


def _session_environment(session: StoredSession, run_env: RunEnvironment) -> RunEnvironment:
    """Return where a session belongs, which may be another project."""
    root = session.root
    if not root or session.path.parent == SessionStore.of(run_env).folder:
        return run_env
    return run_env.replace(cwd=Path(root), root=Path(root))


def _calls_and_words(target: Target, decision: PendingDecision) -> tuple[tuple[str, ...], PendingDecision]:
    """Return the named calls; what follows them is an answer. Raises UsageError."""
    if decision.word != "answer":
        return target.words, decision
    restored = target.load()
    undecided = restored.waiting.undecided if restored.waiting else ()
    calls: tuple[str, ...] = ()
    texts = target.words
    if texts and texts[0] in undecided:
        calls, texts = texts[:1], texts[1:]
    if not texts or not " ".join(texts).strip():
        short = target.stored.store.short(target.session_id)
        commands = decide_commands(short, restored.pending())
        raise UsageError(f"An answer is missing. Write for example: {'; '.join(commands) or 'agent answer TEXT'}")
    return calls, decision.replace(texts=texts)


def _decide(
    agent: Session,
    calls: tuple[str, ...],
    decision: PendingDecision,
    asked: HeadlessOptions,
    shown: Mapping[str, object],
) -> int:
    """Decide pending calls, if they are the ones that were pending before the session was locked (`shown`)."""
    waiting = agent.restored.waiting if agent.restored else None
    session_id = agent.session_id
    now = _undecided_bindings(waiting)
    if any(shown.get(call) != what for call, what in now.items()) or (shown and waiting is None):
        return _report_decided(agent, now)
    # A decision of a process that ended before carrying it out can be made again.
    candidates = (waiting.undecided or waiting.decided) if waiting is not None else ()
    if agent.restored is None or waiting is None or not candidates:
        raise UsageError(f"Nothing waits for you in session {session_id}.")
    if not waiting.undecided and not calls and decision.replace(every=False) == PendingDecision("approve"):
        return resume_waiting(agent, asked)
    chosen = _choose_calls(agent, waiting, candidates, calls, decision)
    if len(chosen) > 1 and (decision.hunks is not None or decision.arguments is not None):
        raise UsageError("Hunks and arguments belong to one call: name it.")
    if waiting.expired(agent.settings.plan_ttl) and any(
        _waiting_kind(waiting, call) == "plan" for call in waiting.undecided
    ):
        return _expire(agent, waiting, asked)
    # Everything is checked before anything is decided.
    agent.decide(waiting, [_decision_about(agent, waiting, call, decision) for call in chosen])
    if waiting.undecided:
        print_pending(session_id, agent.restored.pending(), agent.store.folder)
        return SUSPENDED
    return resume_waiting(agent, asked)


def _undecided_bindings(waiting: WaitingTurn | None) -> dict[str, object]:
    """Return the binding of each undecided call: it changes if what the user is shown changes."""
    if waiting is None:
        return {}
    requests = {i: asked.binding for i, asked in waiting.requests.items()}
    return {i: requests.get(i, waiting.questions.get(i)) for i in waiting.undecided}


def _report_decided(agent: Session, now: Mapping[str, object]) -> int:
    """Report that another process has already decided, and list what is pending now."""
    print_notice("Another process has decided this in the meantime; nothing was changed here.")
    if not now or agent.restored is None:
        return USAGE
    print_pending(agent.session_id, agent.restored.pending(), agent.store.folder)
    return SUSPENDED


def _waiting_kind(waiting: WaitingTurn, call: str) -> str:
    """Return "approval", "questions", "plan" or "review"."""
    return waiting.questions[call].kind if call in waiting.questions else "approval"


def _choose_calls(
    agent: Session, waiting: WaitingTurn, undecided: tuple[str, ...], calls: tuple[str, ...], decision: PendingDecision
) -> tuple[str, ...]:
    """Return the calls that the decision applies to. Raises UsageError, after listing the pending ones, if unclear."""
    assert agent.restored is not None
    session_id = agent.session_id
    if wrong := next((call for call in calls if call not in undecided), ""):
        print_pending(session_id, agent.restored.pending(), agent.store.folder)
        raise UsageError(f"{escape_controls(wrong)} is not waiting in session {session_id}.")
    if decision.every:
        # A question needs an answer in words, so approving all calls leaves it pending.
        every = tuple(c for c in undecided if decision.word == "reject" or _waiting_kind(waiting, c) != "questions")
        if not every:
            raise UsageError("Only questions are waiting; answer them with: agent answer. See: agent pending")
        return every
    if calls or len(undecided) == 1:
        return calls or undecided
    if decision.word == "answer":
        questions = [call for call in undecided if _waiting_kind(waiting, call) != "approval"]
        if len(questions) == 1:
            return tuple(questions)
    print_pending(session_id, agent.restored.pending(), agent.store.folder)
    more = "" if decision.word == "answer" else ", or use --all"
    raise UsageError(f"{len(undecided)} calls are waiting: name one{more}.")


def _decision_about(agent: Session, waiting: WaitingTurn, call: str, decision: PendingDecision) -> UserDecision:
    """Return the decision about one call. Raises UsageError, with the command to use instead where there is one."""
    kind, word, text = _waiting_kind(waiting, call), decision.word, decision.text
    short = agent.store.short(agent.session_id)
    short += f" {call}" if len(waiting.undecided) > 1 else ""
    if kind == "approval" and word == "answer":
        raise UsageError(f"{call} is a call that waits for approval: agent approve {short}, or agent reject {short}")
    if kind == "questions" and word == "approve":
        raise UsageError(f"{call} is a question: agent answer {short} TEXT")
    if word == "undo" and kind != "review":
        raise UsageError(f"{call} is no review, so there is nothing to undo: agent reject {short}")
    if word == "answer" and kind == "questions":
        return UserDecision(call, "", word, answers=decision.texts)
    if word == "answer":
        text = " ".join(decision.texts)
        if text.strip(" .!").lower() in ("n", "no"):
            raise UsageError(f"To end the work: agent reject {short}. To request changes: agent answer {short} TEXT")
        if QuestionReply.is_assent(text):
            word, text = "approve", ""
    if word == "approve" and kind == "plan":
        _check_writes(agent, waiting, waiting.questions[call].data, decision.mode, short)
    given = {name: getattr(decision, name) for name in ("rule", "scope", "mode", "hunks", "arguments")}
    return UserDecision(call, "", word, text, **given)


def _check_writes(agent: Session, waiting: WaitingTurn, plan: dict[str, Any], mode: str, short: str) -> None:
    """Warn if the writes of a plan would be denied in the mode it continues in.

    Raises UsageError if no mode was chosen.
    """
    policy = copy.copy(agent.policy)
    policy.mode = next((m for m in MODES if m == mode), "default" if policy.mode == "plan" else policy.mode)
    if policy.mode == "plan":
        raise UsageError(f"In plan mode nothing can be changed: agent approve {short} --mode acceptEdits")
    workspace = agent.tool_context.workspace
    # For a plan without file names, check an arbitrary one.
    files = (*plan.get("files_to_create", ()), *plan.get("files_to_modify", ()))
    named = [plan_file(str(item))[0] for item in files] or ["a-new-file"]
    refused_from = Level.DENY if waiting.saved.get("on_ask") == "suspend" else Level.ASK
    paths = [os.path.normpath(workspace.cwd / os.path.expanduser(str(name))) for name in named]
    writer = next(tool.name for tool in BUILTIN if tool.replaces_file)
    if not (denied := [p for p in paths if policy.decide(writer, (Effect("write", p),)).level >= refused_from]):
        return
    why = f"in the mode {policy.mode} its writes would be denied ({escape_controls(denied[0])})"
    if not mode:
        raise UsageError(f"The plan was not approved: {why}. Name a mode: agent approve {short} --mode acceptEdits")
    print_warning(f"warning: {why}")


def _expire(agent: Session, waiting: WaitingTurn, asked: HeadlessOptions) -> int:
    """Close a turn whose plan has expired."""
    as_json = asked.output_format != "text"
    return report_expired(agent.session_id, agent.expire_plan(), waiting, as_json=as_json, structured=asked.structured)


def resume_waiting(agent: Session, asked: HeadlessOptions) -> int:
    """Run the turn of a reopened session to its end, with what was decided. Raises UsageError if it has ended."""
    restored = agent.restored
    turn = (restored.waiting or restored.interrupted) if restored is not None else None
    session_id = agent.session_id
    if restored is None or turn is None:
        raise UsageError(
            f"There is nothing to resume in session {session_id}: its last turn has ended. "
            f"To send a message: agent -p --resume {session_id[:8]} PROMPT"
        )
    agent.store.claim_plan(agent.session_id)
    if restored.waiting is None:
        agent.pick_up()
    return resume_headless(asked, agent, session_report(agent), turn.spent, turn.by_model)
