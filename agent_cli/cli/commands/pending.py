"""List what is waiting for your decision in this project, and the commands to answer it.

Also the commands approve, reject, answer, and resume, which continues an interrupted turn.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

import typer

from agent_cli import MODES, Approver, Asker, Session, SessionNotFoundError, SessionStore, UsageError, find_environment
from agent_cli.cli import completion
from agent_cli.cli.app import AsJson, Calls, EveryCall, OutputFormat, SessionArgument, Verbose
from agent_cli.cli.help import examples, one_of
from agent_cli.cli.run_options import RunOptions, session_config
from agent_cli.console import echo, local_time, print_json, print_warning
from agent_cli.kernel.events import RuleScope
from agent_cli.shells.headless.output import SUSPENDED
from agent_cli.shells.headless.pending import decide_commands, headline, pending_question_lines, print_pending
from agent_cli.shells.terminal.dialogs.questions import review_diffs, review_lines
from agent_tools.edit.diff import diff_parts
from agent_tools.lazy import lazy_imports
from agent_tools.lookalikes import describe_lookalikes, escape_lookalikes
from agent_tools.plan import plan_text
from agent_tools.record import from_json
from agent_tools.results import Diff
from agent_tools.text import escape_controls, one_line, parse_number, short_age, shorten

if TYPE_CHECKING:
    from agent_cli.shells.headless.run import FailOnQuestion

with lazy_imports():
    from agent_cli.cli import decide_calls, run  # the engine, which the list does not need

_MAX_CHARS = 400
_SCOPES = get_args(RuleScope)

app = typer.Typer(add_completion=False)
shared = typer.Typer()


@app.command(epilog=examples("agent pending", "agent pending --all"))
def pending(
    everywhere: Annotated[bool, typer.Option("--all", help="Look in all projects.")] = False, as_json: AsJson = False
) -> int:
    run_env = find_environment(os.environ)
    own = SessionStore.of(run_env)
    stores = [own]
    if everywhere:
        stores += [store for store in SessionStore.everywhere(run_env.env) if store.folder != own.folder]
    found: list[dict[str, Any]] = []
    names = []
    for store in stores:
        for session_id, items in store.pending().items():
            stored = store.session(session_id)
            found.append(
                {"session_id": session_id, "root": stored.root, "host": stored.host or None,
                 "open_in": stored.holder() or None, "pending": items}
            )  # fmt: skip
            names.append(store.short(session_id))
    if as_json:
        print_json(found)
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
    where = f" in {escape_controls(session['root'])}" if with_root and session["root"] else ""
    opened = session["open_in"]
    note = f" (open in {opened}: answer it there)" if opened else ""
    host = f" of {session['host']}" if session["host"] else ""
    yield f"session {session_id}{host}{where}, asked {short_age(first['asked_at'], datetime.now(UTC))} ago{note}"
    if first["request"]:
        yield f"  request: {_shorten(first['request'])}"
    text = ""
    for item in items:
        if item["said"] and item["said"] != text:
            text = item["said"]
            yield f"  assistant: {_shorten(text)}"
        yield f"  {_KINDS[item['kind']]}: {headline(item)}"
        for line in _details(item):
            yield f"      {line}"
    if opened:
        return
    commands = decide_commands(name, items)
    if not commands:
        yield f"  expired {local_time(first['expires_at'])}; ask for a new plan: agent --resume {name}"
    for command in commands:
        yield f"  > {command}"


_KINDS = {"approval": "call", "plan": "plan", "review": "review", "question": "question"}


def _shorten(text: str) -> str:
    return escape_controls(shorten(" ".join(text.split()), _MAX_CHARS))


def _details(item: dict[str, Any]) -> list[str]:
    if item["kind"] == "plan":
        return escape_controls(plan_text(item["plan"])).splitlines()
    if item["kind"] == "review":
        review = item["review"]
        diffs = [
            (f"  {one_line(d.path)} (+{d.added} -{d.removed})", *d.patch.splitlines())
            for d in review_diffs(review).files
        ]
        return [*review_lines(review)[1:], *chain.from_iterable(diffs)]
    if item["kind"] == "question":
        return pending_question_lines(item["questions"])
    preview = item["preview"] or {}
    targets = [e["target"] for e in item["effects"] if e["kind"] != "state"]
    effects = [f"{e['kind']} {escape_lookalikes(e['target'])}" for e in item["effects"] if e["kind"] != "state"]
    lookalikes = describe_lookalikes(item["summary"], *targets)
    rule = [f"rule {escape_lookalikes(item['rule'])}"] if item["rule"] else []
    facts = [escape_lookalikes(fact) for fact in (*([lookalikes] if lookalikes else []), *item["facts"])]
    why = f"asked because it {item['reason']}"
    return [*effects, f"in {item['cwd']}", *_changes(preview.get("files", (preview,))), why, *rule, *facts]


def _changes(diffs: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of a preview; several parts of a change are numbered, for `agent approve --hunks`."""
    parts = [diff_parts(from_json(Diff, d)) if "patch" in d else [str(d.get("text", ""))] for d in diffs]
    number = 0
    for diff, found in zip(diffs, parts, strict=True):
        if len(diffs) > 1:
            yield one_line(diff["path"])
        for part in found:
            number += 1
            head, *lines = part.splitlines() or [""]
            yield f"{head} (hunk {number})" if sum(map(len, parts)) > 1 else head
            yield from lines


def _hunk_indexes(text: str | None) -> tuple[int, ...] | None:
    """Return the indexes of hunks that are numbered from 1. Raises typer.BadParameter."""
    if text is None:
        return None
    numbers = [parse_number(word) for word in text.replace(",", " ").split()]
    if not numbers or 0 in numbers:
        raise typer.BadParameter(f"--hunks: expected the numbers of hunks from 1, such as 1,3, not {text!r}.")
    return tuple(number - 1 for number in numbers)


def _arguments(text: str | None) -> dict[str, Any] | None:
    """Return the arguments of a call. Raises typer.BadParameter."""
    if text is None:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise typer.BadParameter("--arguments: expected a JSON object.")
    return found


@shared.command(epilog=examples("agent approve", "agent approve 1a2b3c4d --all", "agent approve --hunks 1,3"))
def approve(
    words: Calls = None,
    every: EveryCall = False,
    mode: Annotated[
        str,
        typer.Option(
            "--mode",
            metavar="MODE",
            autocompletion=completion.one_of_choices(MODES),
            help=f"For a call or a plan: the permission mode to continue in: {one_of(MODES)}.",
        ),
    ] = "",
    text: Annotated[str, typer.Option("--with", metavar="TEXT", help="A comment for the model.")] = "",
    rule: Annotated[
        str,
        typer.Option("--rule", metavar="RULE", help="Allow such calls from now on, with a rule from the question."),
    ] = "",
    scope: Annotated[
        str,
        typer.Option(
            "--scope",
            metavar="SCOPE",
            autocompletion=completion.one_of_choices(_SCOPES),
            help=f"How long the rule holds: {one_of(_SCOPES)}.",
        ),
    ] = "session",
    hunks: Annotated[
        str | None,
        typer.Option("--hunks", metavar="NUMBERS", help="Apply only these hunks of a change, counted from 1: 1,3."),
    ] = None,
    arguments: Annotated[
        str | None, typer.Option("--arguments", metavar="JSON", help="Run the call with these arguments instead.")
    ] = None,
    output_format: OutputFormat = "text",
    verbose: Verbose = False,
) -> int:
    for value, known in ((mode or MODES[0], MODES), (scope, _SCOPES)):
        if value not in known:
            raise typer.BadParameter(f"{value} is not one of {', '.join(known)}.")
    options = RunOptions(print=True, output_format=output_format, verbose=verbose)
    decision = decide_calls.PendingDecision(
        "approve", every, text, (), mode, rule, cast(Any, scope), _hunk_indexes(hunks), _arguments(arguments)
    )
    return decide_calls.decide_calls(words or (), decision, options)


@shared.command(epilog=examples('agent reject --why "use pytest instead"', "agent reject 1a2b3c4d --all"))
def reject(
    words: Calls = None,
    every: EveryCall = False,
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="Reason, for the model.")] = "",
    undo: Annotated[bool, typer.Option("--undo", help="At a review: undo the changes.")] = False,
    output_format: OutputFormat = "text",
    verbose: Verbose = False,
) -> int:
    options = RunOptions(print=True, output_format=output_format, verbose=verbose)
    return decide_calls.decide_calls(
        words or (), decide_calls.PendingDecision("undo" if undo else "reject", every=every, text=why), options
    )


@shared.command(epilog=examples("agent answer 2", 'agent answer "keep the old name"'))
def answer(
    words: Annotated[
        list[str], typer.Argument(metavar="[SESSION] [CALL] ANSWER...", help="Number of an option, or a text.")
    ],
    output_format: OutputFormat = "text",
    verbose: Verbose = False,
) -> int:
    options = RunOptions(print=True, output_format=output_format, verbose=verbose)
    return decide_calls.decide_calls(words, decide_calls.PendingDecision("answer"), options)


@shared.command("resume", epilog=examples("agent resume", "agent resume 1a2b3c4d --output-format json"))
def resume_session(
    session: SessionArgument = "", output_format: OutputFormat = "text", verbose: Verbose = False
) -> int:
    run_env = find_environment(os.environ)
    store = SessionStore.of(run_env)
    try:
        session_id = store.find_id(session) if session else store.latest()
    except SessionNotFoundError as error:
        raise UsageError(str(error)) from None
    fails: list[FailOnQuestion | None] = []

    def answering(on_ask: str) -> tuple[Approver, Asker]:
        approver, asker, failing = run.headless_approver(on_ask)
        fails.append(failing)
        return approver, asker

    options = RunOptions(print=True, output_format=output_format, verbose=verbose)
    config = session_config(options).replace(resume=session_id)
    agent = Session.open(config, run_env, answering, print_warning, as_saved="always")
    asked = run.headless_options(options, agent.settings).replace(structured=agent.structured, fails=fails[-1])
    try:
        waiting = agent.restored.waiting if agent.restored else None
        if agent.restored is not None and waiting is not None and waiting.undecided:
            print_pending(session_id, agent.restored.pending(), store.folder)
            return SUSPENDED
        return decide_calls.resume_waiting(agent, asked)
    finally:
        agent.close()
