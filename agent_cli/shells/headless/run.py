"""Run one task without a terminal: read the prompt and standard input, run the turns, print the answer."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from agent_cli import ApprovalRequested, Complete, Event, QuestionAsked, SessionStore, Suspended, TurnResult, Usage
from agent_cli.console import print_line, print_notice, print_text
from agent_cli.kernel.results import Spent, empty_end
from agent_cli.shells.headless.input import NotTextError, compose_prompt, read_stdin
from agent_cli.shells.headless.output import (
    FAILED,
    Outcome,
    ProgressPrinter,
    RunListener,
    exit_code,
    failure_hint,
    outcome_of,
)
from agent_tools.base import ToolError
from agent_tools.cancel import CancelledError
from agent_tools.lazy import lazy_imports
from agent_tools.process.child import StopSignals
from agent_tools.record import Protocol, Value
from agent_tools.results import Media
from agent_tools.text import escape_controls, shorten

if TYPE_CHECKING:
    from agent_cli import LiveSession, Session
    from agent_cli.kernel.message_ids import MessageIds
    from agent_cli.shells.headless.stream_json import StreamJson

with lazy_imports():
    from agent_cli.kernel.session import live, pending_items
    from agent_cli.shells.headless import (
        denials,  # few runs have any
        result_object,  # with its tables of words
        stream_json,  # with its table of events
    )
    from agent_cli.shells.headless import pending as headless_pending  # few runs are suspended
    from agent_tools.shell import jobs  # for stream-json


TurnStep = Callable[[Callable[[Event], None]], TurnResult]


class RunReport(Value, tag="Report"):
    """The facts about a session that a one-shot run reports.

    key_source: where the model's key comes from.
    memory: paths of the loaded memory files. main_memory_files: see `Memory.main_files`.
    windows: the model's context window and longest output, in tokens.
    plugins: name and path of each. servers: name and status of each MCP server.
    folder: where the session is saved; None if it is not.
    plan_ttl: seconds until a plan expires; 0 for never.
    ids: gives messages their UUIDs.
    """

    session_id: str
    model: str
    key_source: str
    cwd: str
    tools: tuple[str, ...]
    mode: str
    memory: tuple[str, ...]
    main_memory_files: tuple[tuple[str, str], ...]
    windows: tuple[int | None, int | None]
    agents: Collection[str] = ()
    commands: Collection[str] = ()
    skills: tuple[str, ...] = ()
    plugins: tuple[tuple[str, str], ...] = ()
    output_style: str = "default"
    servers: tuple[tuple[str, str], ...] = ()
    folder: Path | None = None
    plan_ttl: int = 0
    ids: MessageIds | None = None


class FailOnQuestion:
    """Approver and asker of `--on-ask fail`: every question ends the turn. needed: what the user was needed for."""

    def __init__(self) -> None:
        self.needed: list[str] = []

    def __call__(self, asked: ApprovalRequested | QuestionAsked) -> Any:
        self.needed.append(asked.summary if isinstance(asked, ApprovalRequested) else "a question of the model")
        raise CancelledError


class RunReporter(Protocol):
    """Receives the events of a run, and the result of each turn as `--output-format json` prints it."""

    def __call__(self, event: Event) -> None: ...

    def finish(self, result: dict[str, Any]) -> None: ...


# Bytes of standard input that are read, and how long a pipe may stay silent where there is a prompt.
_MAX_STDIN_BYTES = 1_048_576
_STDIN_WAIT_SECONDS = 30.0
# Turns that hooks in the background may start.
_MAX_REPORTS = 10


class HeadlessOptions(Value):
    """Options of a headless run.

    prompt: words of the prompt.
    partial: write answers while they stream.
    structured: a structured answer is requested.
    fails: set with `--on-ask fail`.
    last_message: a file to write the answer to as well.
    hook_events: also write lines about hooks.
    progress: also write lines about running calls.
    replay: write the host's messages back to it.
    subagent_text: also write the text of sub-agents.
    reports: writes the reports of `--report`.
    in_copy: the run works in a copy that is deleted at its end.
    ide: what is selected in the editor of the workspace goes with the prompt.
    """

    prompt: tuple[str, ...]
    output_format: str
    input_format: str
    partial: bool
    verbose: bool
    structured: bool
    fail_on_denied: bool
    fail_on_degraded: bool
    fail_on_unfinished: bool
    fails: FailOnQuestion | None = None
    last_message: str = ""
    hook_events: bool = False
    progress: bool = False
    replay: bool = False
    subagent_text: bool = False
    reports: RunReporter | None = None
    in_copy: bool = False
    ide: bool = False


class HeadlessUsageError(Exception):
    """Invalid options or input of a headless run; the exit code is 2."""


class InputMessage(Value):
    """One message from the user."""

    text: str
    media: tuple[Media, ...] = ()
    uuid: str = ""


def read_message(options: HeadlessOptions) -> str:
    """Return the message of the run: its arguments, joined with standard input. Raises HeadlessUsageError."""
    if options.last_message:
        _check_answer_file(Path(options.last_message))
    words = [w for w in options.prompt if w != "-"]
    to_the_end = not words or "-" in options.prompt
    try:
        piped = read_stdin(0, _MAX_STDIN_BYTES, None if to_the_end else _STDIN_WAIT_SECONDS, print_notice)
    except NotTextError as error:
        raise HeadlessUsageError(str(error)) from None
    if piped.cut:
        print_notice(f"Standard input was cut after {_MAX_STDIN_BYTES} bytes; name a longer file instead.")
    if not (" ".join(words).strip() or piped.text.strip()):
        raise HeadlessUsageError("There is no prompt: give it as an argument or on standard input.")
    return compose_prompt(" ".join(words), piped, _MAX_STDIN_BYTES)


def run_headless(
    options: HeadlessOptions,
    start: Callable[[], tuple[Session, RunReport]],
    command: Callable[[Session, str, Callable[[Event], None]], str | None],
    *,
    resumes: bool,
) -> int:
    """Run the task; return the exit code.

    start: builds the agent; called once the input is known to be valid.
    command: runs a message that is a command of the session, and returns the text to print; None for other messages.
    resumes: the session is resumed: no message is needed if a hook suspended its turn, which is resumed first.
    """
    text, missing = "", None
    try:
        text = read_message(options)
    except HeadlessUsageError as error:
        missing = error
        if not resumes:
            raise
    agent, report = start()
    before = agent.deferred_step() if resumes else None
    if missing is not None and before is None:
        raise missing

    def turn(show: Callable[[Event], None]) -> TurnResult:
        answer = command(agent, text, show)
        if answer is not None:
            return without_model(answer)
        media = agent.attachments.mentioned(text) if "@" in text else ()
        editor = ""
        if options.ide:
            if problem := agent.ide.require():
                print_notice(problem)
            attached = agent.ide.attach()
            editor = attached.block
            if attached.said:
                print_notice(attached.said)
        return with_reports(agent, agent.send(text, show, media, append=editor), show)

    try:
        if before is None:
            return run_and_report(options, agent, report, turn)
        return run_and_report(options, agent, report, before if missing is not None else _run_both(before, turn))
    except ToolError as error:
        raise HeadlessUsageError(str(error)) from None


def with_reports(agent: Session, result: TurnResult, show: Callable[[Event], None]) -> TurnResult:
    """Continue with what hooks in the background report, and return one result; bounded."""
    for _ in range(_MAX_REPORTS):
        if not isinstance(result, Complete) or not (reports := agent.wait_for_reports()):
            break
        then = agent.send(reports, show, verbatim=True)
        result = then.replace(end=then.end.replace(usage=result.end.usage + then.end.usage))
    return result


def without_model(text: str) -> Complete:
    """Return the result of a message that needed no model call."""
    return Complete(empty_end("completed", "end_turn"), text)


def _run_both(first: TurnStep, then: TurnStep) -> TurnStep:
    """Return a step that runs the second turn after the first is complete, and returns one result for both."""

    def run(show: Callable[[Event], None]) -> TurnResult:
        before = first(show)
        if not isinstance(before, Complete):
            return before
        result = then(show)
        return result.replace(end=result.end.replace(usage=before.end.usage + result.end.usage))

    return run


def resume_headless(
    options: HeadlessOptions, agent: Session, report: RunReport, spent: Spent, by_model: Mapping[str, Usage]
) -> int:
    """Resume a suspended turn, and report on it like on any run. by_model: usage of its earlier parts."""
    return run_and_report(options, agent, report, lambda show: agent.resume(show, spent), by_model)


def run_and_report(
    options: HeadlessOptions,
    agent: Session,
    report: RunReport,
    turn: TurnStep,
    by_model: Mapping[str, Usage] | None = None,
) -> int:
    """Run a turn and report on it; return the exit code. by_model: as in `resume_headless`."""
    watch = StopSignals(agent.interrupt)
    progress = ProgressPrinter(print_notice, options.verbose, denials=options.output_format != "text")
    # With `json` and `verbose` the lines are one array, printed at the end.
    array: list[dict[str, Any]] | None = [] if options.output_format == "json" and options.verbose else None
    stream: StreamJson | None = None
    if options.output_format == "stream-json" or array is not None:
        stream = open_lines(options, agent, report, print_line if array is None else array.append)
    shows = [stream.show] if stream is not None else []
    shows += [progress.show] if stream is None or array is not None else []
    view = None
    if options.verbose or options.output_format != "text" or options.reports is not None:
        view = live.LiveSession()
        view.models = dict(by_model or {})
    listener = RunListener(*shows, view=view, pieces=options.partial or options.verbose)

    def show(event: Event) -> None:
        if watch.caught:
            agent.interrupt()  # a signal before the turn began
        listener(event)
        if options.reports is not None:
            options.reports(event)

    with watch:
        if stream is not None:
            announce_turn(stream, options, report)
        try:
            result = turn(show)
        except ToolError as error:
            if not watch.caught:
                raise
            print_notice(str(error))
            return 128 + watch.caught
        pending: list[dict[str, Any]] = []
        if isinstance(result, Suspended):
            pending = open_decisions(listener.view, agent, report)
        if agent.mcp is not None:
            agent.mcp.report_changes()
        servers = agent.mcp.outcome() if agent.mcp is not None else []
        code = finish(options, report, result, listener.view, stream, watch.caught, pending, servers=servers)
    if stream is not None:
        stream.close()
    if array is not None:
        print_line(array)
    for why, jobs in (
        ("Stopped, since it was still running in the background", agent.tool_context.unfinished()),
        ("Still running, since it has detached itself", agent.tool_context.outliving()),
    ):
        for job_id, name in jobs.items():
            print_notice(f"{why} ({job_id}): {escape_controls(shorten(name, 200))}")
    return code


def open_decisions(view: LiveSession | None, agent: Session, report: RunReport) -> list[dict[str, Any]]:
    """Return what waits for the user, as JSON data."""
    asked = [call.question for call in view.asked if call.question is not None] if view is not None else []
    histories = agent.history, agent.nested_histories
    return pending_items.pending_items(asked, *histories, plan_ttl=report.plan_ttl, names=agent.agent_names)


def open_lines(
    options: HeadlessOptions, agent: Session, report: RunReport, write: Callable[[dict[str, Any]], None]
) -> StreamJson:
    """Return the listener that writes the JSON lines of a run."""
    if options.partial:
        agent.options = agent.options.replace(pieces=True)
    return stream_json.StreamJson(
        write, report.session_id, report.model, options.partial, options.hook_events, cwd=report.cwd,
        subagent_text=options.subagent_text, states=bool(os.environ.get("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS")),
        jobs=lambda: agent.tool_context.state(jobs.Jobs).all(), progress=options.progress, ids=report.ids,
    )  # fmt: skip


def announce_turn(
    stream: StreamJson, options: HeadlessOptions, report: RunReport, line: Mapping[str, Any] = MappingProxyType({})
) -> None:
    """Write the first line of a turn, and the message that it answers if that is requested."""
    stream.state("running")
    stream.init(
        cwd=report.cwd,
        tools=report.tools,
        permissionMode=report.mode,
        slash_commands=list(report.commands),
        skills=report.skills,
        plugins=[{"name": name, "path": path} for name, path in report.plugins],
        output_style=report.output_style,
        apiKeySource=report.key_source,
        agents=list(report.agents),
        mcp_servers=[{"name": name, "status": status} for name, status in report.servers],
        memory_paths=dict(report.main_memory_files),
        memory_files=report.memory,
    )
    if line and options.replay:
        stream.replay(line)


def finish(
    options: HeadlessOptions,
    report: RunReport,
    result: TurnResult,
    view: LiveSession | None,
    stream: StreamJson | None,
    caught: int,
    pending: list[dict[str, Any]],
    line: Mapping[str, Any] = MappingProxyType({}),
    servers: Sequence[dict[str, str]] = (),
    earlier: Usage | None = None,
) -> int:
    """Print the result of a turn in the output format; return the exit code.

    caught: the number of a signal that interrupted the run; 0 for none.
    pending: open decisions.
    line: the host's message, as JSON.
    servers: how each MCP server stands.
    view: the session; None if it only had an answer.
    earlier: usage of the run's earlier turns.
    """
    outcome = outcome_of(
        result,
        fail_on_denied=options.fail_on_denied,
        # A host sees the denials, and its session goes on.
        fail_unattended=options.input_format != "stream-json",
        fail_on_unfinished=options.fail_on_unfinished,
    )
    if options.fails is not None and options.fails.needed:
        outcome = "failed"
        needed = escape_controls(", ".join(options.fails.needed))
        advice = "Allow it with --allowedTools, or let the run wait for a decision with --on-ask suspend."
        print_notice(f"Failed: the user is needed for: {needed}. {advice}")
    if options.structured and isinstance(result, Complete) and result.return_value is None and outcome != "degraded":
        outcome = "failed"
        print_notice("The model gave no answer that matches the JSON schema; try again, or another model.")
    resume = " Continue with: agent -c" if report.folder is not None and not options.in_copy else ""
    written = not options.last_message or _write_answer(options.last_message, result)
    fields: dict[str, Any] = {}
    if options.output_format != "text" or options.reports is not None:
        fields = result_object.result_object(
            result, outcome, report.session_id, view or live.LiveSession(), report.windows,
            structured=options.structured, pending=pending, earlier=earlier,
        )  # fmt: skip
    if servers and fields:
        fields["mcp_servers"] = list(servers)
    if options.reports is not None:
        options.reports.finish(fields)
    if options.output_format == "text":
        _print_as_text(result, outcome, resume, view)
    else:
        fields |= {"origin": line["origin"]} if isinstance(line.get("origin"), dict) else {}
        fields |= {"user_message_uuid": line["uuid"]} if line.get("uuid") else {}
        if stream is None:
            print_line(fields)
        else:
            if (failure := result_object.api_failure(result)) is not None:
                stream.failed(failure, fields["result"])
            if options.input_format != "stream-json":
                stream.close()
            stream.line(fields)
            stream.state("idle")
    _print_next_steps(result, outcome, resume)
    if outcome == "suspended":
        in_text = options.output_format == "text"
        headless_pending.print_pending(report.session_id, pending, report.folder, plan_on_stdout=in_text)
        if report.folder is not None and pending and pending[0]["kind"] == "plan":
            SessionStore.at(report.folder).save_plan(report.session_id, pending[0]["call_id"], pending[0]["plan"])
    code = exit_code(outcome, fail_on_degraded=options.fail_on_degraded, signal_number=caught)
    return code if written else code or FAILED


def _print_as_text(result: TurnResult, outcome: Outcome, resume: str, view: LiveSession | None) -> None:
    """Print the answer, or why there is none, and the calls that were denied."""
    text = getattr(result, "text", "")
    if outcome == "interrupted":
        print_notice(f"Interrupted.{resume}")
    elif outcome in ("failed", "retryable", "differs", "unpriced"):
        if message := text if outcome != "differs" else result.failure.message:  # type: ignore[union-attr]
            hint = failure_hint(getattr(result, "failure", None))
            print_notice(f"{message} {hint}".rstrip())
    elif isinstance(result, Complete) and result.return_value is not None:
        print_line(result.return_value)
    elif text:
        print_text(text if text.endswith("\n") else f"{text}\n")
    if result.end.denials:
        for line in denials.denial_lines(result.end.denials, view.all_calls() if view is not None else ()):
            print_notice(line)


def _print_next_steps(result: TurnResult, outcome: Outcome, resume: str) -> None:
    """Print why the task may be incomplete, and how to continue it."""
    if isinstance(result, Complete) and result.plan_unfinished:
        print_notice("The plan has open steps." + (f"{resume} -p 'continue the plan'" if resume else ""))
    if outcome == "degraded":
        print_notice(f"The model failed after tools had run: {result.failure.message}")  # type: ignore[union-attr]
    elif outcome == "limit":
        print_notice(f"Stopped by a limit ({result.end.diagnostics.terminal_reason}).{resume}")


def _check_answer_file(path: Path) -> None:
    """Raise HeadlessUsageError if the file of --output-last-message cannot be written, before anything costs money."""
    why = ""
    if path.is_dir():
        why = "is a folder"
    elif not path.absolute().parent.is_dir():
        why = "cannot be written: its folder does not exist"
    elif not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
        why = "cannot be written"
    if why:
        raise HeadlessUsageError(f"--output-last-message: {path} {why}.")


def _write_answer(path: str, result: TurnResult) -> bool:
    """Write the answer of a turn to a file; return False, and say why, if that fails."""
    value = result.return_value if isinstance(result, Complete) else None
    text = getattr(result, "text", "") if value is None else json.dumps(value, ensure_ascii=False)
    try:
        Path(path).write_text(text and f"{text.rstrip()}\n", encoding="utf-8")
    except OSError as error:
        print_notice(f"The answer cannot be written to {path}: {error.strerror}")
        return False
    return True
