"""Commands about the session: exit, clear, its state, background jobs, and the user's own `!` commands.

Also: resuming other sessions, forks, names, exports and the clipboard; checks, and bug reports.

A `!command` runs as in the shell tool, with the same working directory and exports, but without approval and sandbox,
since the user typed it. Its output goes to the model with the next message; `!!command` hides it.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from rich.text import Text

from agent_cli import (
    ApprovalRequested,
    AssistantMessage,
    SessionNotFoundError,
    SessionSummary,
    ToolFinished,
    ToolProgress,
    ToolRequested,
    ToolStarted,
    UsageError,
    __version__,
)
from agent_cli.config.schema import Settings
from agent_cli.kernel.redact import Redactor
from agent_cli.kernel.session.store import state_folder
from agent_cli.kernel.version import PACKAGE
from agent_cli.shells.terminal.dialogs.session_picker import session_row
from agent_cli.shells.terminal.dialogs.view import View, ViewAction, ViewItem, prose_lines
from agent_cli.shells.terminal.render.ansi import clipboard_sequence
from agent_cli.shells.terminal.render.console import styled
from agent_cli.shells.terminal.slash import ExitRequestedError, SlashContext, builtin_commands, slash
from agent_tools.base import Progress, Steps, ToolError, ToolResult
from agent_tools.cancel import CancelledError, CancelToken
from agent_tools.fs.safe_files import private_folder
from agent_tools.lazy import lazy_imports
from agent_tools.registry import SHELL
from agent_tools.sandbox.runner import SandboxRunner
from agent_tools.shell.jobs import Job, Jobs, clock_duration
from agent_tools.text import counted, escape_controls, one_line, shorten

with lazy_imports():
    from agent_cli.doctor import report as doctor_report  # 400 modules, for this command alone
    from agent_cli.kernel.session import export
    from agent_cli.takeover import stores  # only for sessions of other agents

_STOP = ("kill", "stop")
# Bytes at the end of the output from which the last rows are taken.
_TAIL_BYTES = 20_000


def _jobs_of(ctx: SlashContext) -> Jobs:
    return ctx.agent.tool_context.state(Jobs)


def _agents_of(ctx: SlashContext) -> list[Any]:
    """Return the sub-agents in the background that have not ended."""
    return ctx.agent.background.open if ctx.agent.background is not None else []


def _values(ctx: SlashContext) -> Iterable[tuple[str, str]]:
    jobs, agents = _jobs_of(ctx).all(), _agents_of(ctx)
    yield from ((job.id, _describe_job(job)) for job in jobs)
    yield from ((agent.name, _describe_agent(agent)) for agent in agents)
    yield from ((f"kill {job.id}", f"end it: {shorten(job.command, 60)}") for job in jobs if job.running)
    yield from ((f"kill {agent.name}", f"end it: {shorten(agent.task, 60)}") for agent in agents)


@slash("jobs", "show background jobs and sub-agents, watch, end them", "[ID | kill ID | log ID]",
       aside=True, values=_values, strict=True, aliases=("bashes", "tasks", "ps"))  # fmt: skip
def _list_jobs(ctx: SlashContext, words: str) -> None:
    jobs, agents = _jobs_of(ctx), {agent.name: agent for agent in _agents_of(ctx)}
    verb, _, job_id = words.partition(" ")
    every = job_id.strip() == "all"
    try:
        if verb in _STOP and (every or job_id.strip() in agents):
            _stop(ctx, [*agents.values()] if every else [agents[job_id.strip()]])
            if every and jobs.all():
                _end(ctx, list(jobs.all()))
        elif verb in _STOP:
            _end(ctx, [jobs.find(job_id.strip())])
        elif verb == "log":
            _log(ctx, jobs.find(job_id.strip()))
        elif words in agents:
            _go_on(ctx, agents[words])
        elif words:
            _watch(ctx, jobs.find(words))
        elif not jobs.all() and not agents:
            ctx.say("There are no background jobs.")
        else:
            _pick(ctx, [*agents.values(), *jobs.all()])
    except ToolError as error:
        ctx.say(str(error))


def _pick(ctx: SlashContext, jobs: Sequence[Any]) -> None:
    """Let the user pick a job and an action."""
    if not ctx.has_menus:
        for job in jobs:
            name, about = (job.id, _describe_job(job)) if isinstance(job, Job) else (job.name, _describe_agent(job))
            ctx.say(f"  {name}  {about}")
        return

    def item(job: Any) -> ViewItem:
        if isinstance(job, Job):
            return ViewItem(job.id, _describe_job(job), detail=partial(_job_lines, job), live=True,
                            mark="●" if job.running else " ", style="good")  # fmt: skip
        return ViewItem(job.name, _describe_agent(job), detail=partial(_agent_rows, job), live=True,
                        mark="●", style="good")  # fmt: skip

    def runs(index: int) -> bool:
        return bool(jobs[index].running if isinstance(jobs[index], Job) else jobs[index].open)

    actions = (
        ViewAction("w", "watch below the input", lambda index: isinstance(jobs[index], Job) and runs(index)),
        ViewAction("x", "end", runs),
    )
    left = ctx.show_view(View("Jobs", items=tuple(map(item, jobs)), actions=actions))
    if left is None:
        return
    job = jobs[left.index]
    if not isinstance(job, Job):
        _stop(ctx, [job])
    elif left.key == "w":
        _watch(ctx, job)
    else:
        _end(ctx, [job])


def _describe_agent(agent: Any) -> str:
    return f"{'waits for your answer' if agent.asked else agent.state}  {shorten(agent.task, 60)}"


def _agent_rows(agent: Any, width: int) -> list[Text]:
    """Draw what a sub-agent was asked to do, and what it asks."""
    asked = [a.summary if isinstance(a, ApprovalRequested) else "a question" for a in [*agent.asked.values()]]
    rows = [*prose_lines(one_line(agent.task), width, "tool"), styled(_describe_agent(agent), "dim"), Text()]
    rows += [row for text in asked for row in prose_lines(f"Its question: {text}", width)]
    return [*rows, *prose_lines(f"@{agent.name} TEXT gives it a message.", width)]


def _go_on(ctx: SlashContext, agent: Any) -> None:
    """Let a sub-agent go on that stopped, or ask again what it asks."""
    if agent.state == "running":
        ctx.say(f"{agent.name}: {_describe_agent(agent)}. @{agent.name} TEXT gives it a message.")
    else:
        ctx.agent.resume_agents()


def _stop(ctx: SlashContext, agents: Sequence[Any]) -> None:
    """End sub-agents in the background; the model learns it with the next message."""
    if ctx.agent.background is not None:
        for name in ctx.agent.background.stop(agents):
            ctx.say(f"{name} ended.")


def _job_lines(job: Job, width: int) -> list[Text]:
    """Draw the command of a job and the end of its output, the latest first to be seen."""
    output = escape_controls(job.latest(_TAIL_BYTES)).rstrip("\n")
    command = prose_lines(one_line(job.command), width, "tool")
    return [*command, styled(_describe_state(job), "dim"), Text(), *prose_lines(output or "(no output yet)", width)]


def _describe_state(job: Job) -> str:
    return f"{job.state}, {clock_duration(job.elapsed)}"


def _describe_job(job: Job) -> str:
    return f"{_describe_state(job)}  {shorten(job.command, 60)}"


def _watch(ctx: SlashContext, job: Job) -> None:
    """Show the end of the output while it grows."""

    def rows(width: int, room: int) -> list[str]:
        lines = escape_controls(job.latest(_TAIL_BYTES)).rstrip("\n").split("\n")
        latest = [line for line in lines[-max(room - 2, 1) :] if line or len(lines) > 1]
        end = f"Esc closes · /jobs log {job.id}: all of it" + (f" · /jobs kill {job.id}" if job.running else "")
        return [
            f"  {job.id}  {_describe_job(job)}",
            *(f"  │ {line}" for line in latest or ["(no output yet)"]),
            f"  {end}",
        ]

    ctx.watch(rows)


def _log(ctx: SlashContext, job: Job) -> None:
    output = job.output()
    if output:
        ctx.page(output, f"{job.id}: {one_line(job.command)}")
    else:
        ctx.say(f"{job.id} has no output yet.")


def _end(ctx: SlashContext, jobs: Sequence[Job]) -> None:
    running = [job for job in jobs if job.running]
    for job in running:
        job.stop()
    for job in running:
        job.end()
        ctx.say(f"{job.id} ended after {clock_duration(job.elapsed)}.")
    if not running:
        ctx.say(f"{jobs[0].id} has ended: {jobs[0].state}." if len(jobs) == 1 else "No background job is running.")


@slash("exit", "leave", aside=True, aliases=("quit", "q"))
def _exit(ctx: SlashContext, words: str) -> None:
    raise ExitRequestedError


@slash("clear", "start a new session", aliases=("new", "reset"))
def _clear(ctx: SlashContext, words: str) -> None:
    running = sum(job.running for job in ctx.agent.tool_context.state(Jobs).all())
    agents = ", ".join(ctx.agent.agents_at_work)
    ctx.start_new_session()
    ended = f" {counted(running, 'background job')} ended." if running else ""
    ended += f" {agents} stopped, and will continue there." if agents else ""
    ctx.say(f"New session (previous one: /resume).{ended}")


_MAX_LISTED = 15
_MAX_OFFERED = 200
# Sessions offered as the argument of /resume.
_MAX_COMPLETED = 20
_MAX_WIDTH = 120


def _width(taken: int) -> int:
    """Return the columns for a row of a list. taken: columns used otherwise."""
    return min(_MAX_WIDTH, shutil.get_terminal_size().columns) - taken


@slash("sessions", "list recent sessions of this project", aside=True)
def _sessions(ctx: SlashContext, words: str) -> None:
    found = list(ctx.agent.store.summaries())
    now = datetime.now(UTC)
    width = _width(15)
    for g in found[:_MAX_LISTED]:
        mark = "*" if g.session_id == ctx.agent.session_id else " "
        ctx.say(f"  {mark} {g.session_id[:8]}  {session_row(g, width, now, found[:_MAX_LISTED]).rstrip()}")
    more = f"{len(found) - _MAX_LISTED} more: agent sessions list. " if len(found) > _MAX_LISTED else ""
    ctx.say(f"{more}/resume opens one." if found else "There are no sessions of this project yet.")


def _session_values(ctx: SlashContext) -> Iterator[tuple[str, str]]:
    here = ctx.agent.session_id
    others = (g for g in ctx.agent.store.summaries() if g.session_id != here)
    for g in islice(others, _MAX_COMPLETED):
        yield g.session_id[:8], g.title


@slash("resume", "resume another session", "[ID | NAME | TEXT | @PROGRAM]", values=_session_values)
def _resume(ctx: SlashContext, words: str) -> None:
    here = ctx.agent.session_id
    store = ctx.agent.store
    try:
        if words.startswith(stores.MARK):
            taken = stores.take_over_named(ctx.run_env, words)
            ctx.say(taken.sentence)
            session_id = taken.session_id
        elif words:
            session_id = store.find(words).session_id
        else:
            session_id = _choose(ctx, [g for g in store.summaries() if g.session_id != here])
    except SessionNotFoundError as error:
        if not error.found:
            ctx.say(str(error))
            return
        session_id = _choose(ctx, error.found)
    if session_id == here:
        ctx.say("That is the session you are in.")
    elif session_id:
        ctx.resume(session_id)


def _choose(ctx: SlashContext, found: Sequence[SessionSummary]) -> str:
    """Return the ID of the session that the user picks; "" for none."""
    if not found:
        ctx.say("There is no other session in this project.")
        return ""
    now = datetime.now(UTC)
    width = shutil.get_terminal_size().columns - 13
    listed = found[:_MAX_OFFERED]
    items = (ViewItem(f"{g.session_id[:8]}  {session_row(g, width, now, listed).rstrip()}") for g in listed)
    left = ctx.pick_from(View("Which session?", items=tuple(items), actions=(ViewAction("enter", "resume"),)))
    return found[left.index].session_id if left is not None else ""


@slash("continue", "continue what the last turn left unfinished")
def continue_(ctx: SlashContext, rest: str) -> None:
    ctx.run_turn(" ".join(filter(None, (ctx.proposal or "continue", rest))))


@slash("fork", "continue in a copy of this session", "[NAME]", aliases=("branch",))
def _fork(ctx: SlashContext, words: str) -> None:
    if not (ctx.agent.settings.save_sessions and ctx.agent.history):
        ctx.say("There is nothing to copy: this session has no record on disk.")
        return
    old = ctx.fork()
    ctx.agent.rename(words, tidy=True)
    ctx.say(f"In a copy of this session; the other one: agent --resume {old[:8]}")


@slash("rename", "name this session", "[NAME]", aside=True, values=lambda ctx: filter(None, [ctx.agent.name]))
def _rename(ctx: SlashContext, words: str) -> None:
    if not words and ctx.has_menus:
        words = ctx.ask("Name of this session", lambda text: text, ctx.agent.name) or ""
    ctx.agent.rename(words, tidy=True)
    ctx.say(f"This session is called {ctx.agent.name}." if ctx.agent.name else "This session has no name.")


@slash("export", "export this session to a file (.md, .html or .json)", "[FILE]", aside=True)
def _export(ctx: SlashContext, words: str) -> None:
    log = ctx.agent.stored.path
    if not log.exists():
        ctx.say("There is nothing to export: this session has no record on disk.")
        return
    path = (
        ctx.run_env.cwd / os.path.expanduser(words)
        if words
        else _unused_path(ctx.run_env.cwd, f"session-{log.stem[:8]}")
    )
    try:
        made = export.document(log, export.format_of(path.name) or "markdown")
        try:
            export.write_document(path, made, replace=False)
        except FileExistsError:
            if not ctx.confirm(f"{path.name} exists already. Replace it?", grave=True):
                return
            export.write_document(path, made, replace=True)
    except SessionNotFoundError as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"Cannot write {path}: {error.strerror or error}.") from None
    ctx.say(f"This session is in {path}.")


def _unused_path(folder: Path, name: str) -> Path:
    """Return an unused file name."""
    numbers = ("", *(f"-{n}" for n in range(2, 1000)))
    names = (folder / f"{name}{n}.md" for n in numbers)
    return next((path for path in names if not path.exists()), folder / f"{name}.md")


@slash("copy", "copy the last answer to the clipboard", aside=True)
def _copy(ctx: SlashContext, words: str) -> None:
    history = ctx.agent.history
    text = next((m.text for m in reversed(history) if isinstance(m, AssistantMessage) and m.text.strip()), "")
    if not text:
        ctx.say("There is no answer yet.")
        return
    sequence = clipboard_sequence(text.strip("\n"))
    if sequence is None:
        ctx.say("The answer is too large for the clipboard of a terminal; /export writes it to a file.")
    elif ctx.send_sequence(sequence):
        ctx.say(f"Copied: {counted(len(text), 'character')}.")
    else:
        ctx.say("This front end has no terminal whose clipboard could be used.")


BANG_CALL_ID = "!"


def run_bang(ctx: SlashContext, text: str) -> None:
    """Run the command after the `!` and show it as a call."""
    hidden = text.startswith("!!")
    command = text.removeprefix("!!" if hidden else "!").strip()
    conversation = ctx.agent
    context = ctx.agent.tool_context
    context.cancel = CancelToken()
    ctx.show_event(ToolRequested(BANG_CALL_ID, SHELL.name, {"command": command}, f"! {command}"))
    ctx.show_event(ToolStarted(BANG_CALL_ID, SHELL.name))
    try:
        args = SHELL.read({"command": command, "dangerouslyDisableSandbox": True})
        outcome = SHELL.run(args, context)
        if isinstance(outcome, ToolResult):
            result = outcome
        else:
            for step in (steps := Steps(outcome)):
                if isinstance(step, Progress):
                    ctx.show_event(ToolProgress(BANG_CALL_ID, step.text))
            result = steps.result
    except ToolError as error:
        result = ToolResult(str(error), is_error=True)
    except CancelledError:
        result = ToolResult("[interrupted by the user]", is_error=True)
    ctx.show_event(ToolFinished(BANG_CALL_ID, SHELL.name, result.is_error, 0, result.display))
    if result.display is None:
        ctx.say(f"  {result.text}")
    if not hidden:
        conversation.inbox.append(f"<user_command>\n$ {command}\n{result.text}\n</user_command>")


_SHOWN_KEYS = frozenset(("model", "small_model", "transport", "effort", "permissions.mode", "sandbox.mode", "stream"))


@slash("status", "show model, mode, sandbox, trust, session and folders", aside=True, aliases=("about",))
def _status(ctx: SlashContext, words: str) -> None:
    for name, text in status(ctx):
        ctx.say(f"  {name:<10} {one_line(text)}")


def status(ctx: SlashContext) -> Iterator[tuple[str, str]]:
    """Yield the facts as (name, text)."""
    agent, conversation = ctx.agent, ctx.agent
    context, options = agent.tool_context, conversation.options
    model, trust, settings = agent.model, ctx.layers.trust, agent.settings
    yield "version", f"agent {__version__}"
    where = f" at {hide_passwords(model.base_url)}" if model.base_url else ""
    yield "model", f"{options.label} ({model.wire}{where}; key: {model.key_source})"
    yield "effort", options.effort_label
    yield "mode", agent.policy.mode
    sandbox = context.supplied(SandboxRunner)
    yield "sandbox", settings.sandbox.mode if sandbox is None else sandbox.sandbox.text()
    yield "trust", trust.label
    if managed := ctx.layers.managed.lines():
        yield "policy", f"{ctx.layers.managed.origin}: {'; '.join(managed)}"
    yield "settings", ", ".join(ctx.layers.read) or "no file has any"
    kept = agent.stored.path
    yield "session", f"{agent.session_id} ({kept if settings.save_sessions else 'not kept'})"
    yield "folder", str(context.workspace.cwd)
    yield "workspace", ", ".join(map(str, context.workspace.roots))
    used, window = ctx.context_tokens, agent.context.size
    yield "context", f"{used:,} tokens" + (f" of {window:,} ({100 * used // window}%)" if window else "")
    memory = [f.shown for f in agent.memory.files]
    yield "memory", ", ".join(memory) or "no memory files"


@slash("doctor", "check the installation and the settings")
def _doctor(ctx: SlashContext, words: str) -> None:
    findings, _ = doctor_report.collect_findings(ctx.run_env, ctx.layers, [], builtin_commands())
    ctx.page(doctor_report.format_findings(findings), "Doctor")


@slash("bug", "write a bug report (no keys, no conversation)", "[TEXT]", aliases=("feedback",))
def _bug(ctx: SlashContext, words: str) -> None:
    folder = state_folder(ctx.run_env.env) / "reports"
    path = folder / f"bug-{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(2).hex()}.md"
    text = bug_report(ctx, words)
    try:
        private_folder(folder)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        ctx.say(f"The report cannot be written to {path}: {error.strerror or error}.")
        return
    ctx.say(f"The report is in {path}. Nothing was sent: read it, add what happened, and remove what is private.")
    ctx.say(f"Send it to {issue_tracker() or 'the maintainers of your installation'}.")


def bug_report(ctx: SlashContext, words: str) -> str:
    """Return a bug report: versions, settings by name, the last error; no conversation, no keys."""
    import platform  # takes a millisecond, and this file is loaded at every start

    agent = ctx.agent
    failure = getattr(agent.last, "failure", None)
    sets = [f"- {key} ({source}){_public_value(agent.settings, key)}" for key, source in ctx.layers.origins.items()]
    lines = [
        "# Report",
        "",
        words or "(what did you do, what did you expect, and what happened?)",
        "",
        "## Program",
        f"- agent {__version__}, Python {platform.python_version()}, {platform.platform()}",
        f"- terminal: {ctx.run_env.env.get('TERM', '')} {ctx.run_env.env.get('TERM_PROGRAM', '')}".rstrip(),
        f"- model: {agent.label} ({agent.model.wire})",
        f"- mode: {agent.policy.mode}, sandbox: {agent.settings.sandbox.mode}",
        f"- trust: {ctx.layers.trust.label}",
        f"- messages: {len(agent.history)}, front end: {type(ctx).__name__}, {sys.platform}",
        "",
        "## Settings that differ from the defaults",
        *(sets or ["none"]),
        "",
        "## Last error",
        f"{failure.kind}: {failure.message}" if failure else "none in this session",
        *(
            ["", "## Warnings at the start", *(f"- {text}" for text in ctx.layers.ignored)]
            if ctx.layers.ignored
            else []
        ),
    ]
    text = Redactor(ctx.run_env.env)("\n".join(hide_passwords(line) for line in lines))
    return f"{text.replace(str(ctx.run_env.home), '~') if ctx.run_env.home else text}\n"


def _public_value(settings: Settings, key: str) -> str:
    """Format the value of a setting that cannot be private; "" for others."""
    if key not in _SHOWN_KEYS:
        return ""
    value: object = settings
    for name in key.split("."):
        value = getattr(value, name)
    return f" = {value}"


def hide_passwords(text: str) -> str:
    """Remove the credentials from URLs in a text."""
    return re.sub(r"(://)[^/\s@]+@", r"\1***@", text)


def issue_tracker() -> str:
    """Return the issue tracker of the package; "" if it names none."""
    from importlib.metadata import PackageNotFoundError, metadata

    try:
        urls = metadata(PACKAGE).get_all("Project-URL") or []
    except PackageNotFoundError:
        return ""
    named = dict(entry.split(", ", 1) for entry in urls if ", " in entry)
    wanted = ("issues", "bug tracker", "tracker", "issue tracker", "repository", "source", "homepage")
    return next((url for word in wanted for name, url in named.items() if name.lower() == word), "")
