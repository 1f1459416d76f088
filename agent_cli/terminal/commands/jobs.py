"""/jobs: the commands that run in the background, their output, and their end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agent_cli.terminal.slash import SlashContext, slash
from agent_tools.base import ToolError
from agent_tools.shell.jobs import Job, Jobs, clock_duration
from agent_tools.text import escape_controls, one_line, shorten

_STOP = ("kill", "stop")
# Bytes of the end of the output that are looked at for the last rows.
_LATEST = 20_000


def _jobs_of(ctx: SlashContext) -> Jobs:
    return ctx.agent.conversation.deps.context.state(Jobs)


def _values(ctx: SlashContext) -> Iterable[tuple[str, str]]:
    jobs = _jobs_of(ctx).all()
    yield from ((job.id, _about(job)) for job in jobs)
    yield from ((f"kill {job.id}", f"end it: {shorten(job.command, 60)}") for job in jobs if job.running)


@slash("jobs", "show background jobs, watch their output, end them", "[ID | kill ID | log ID]", aside=True,
       values=_values, strict=True, aliases=("bashes", "tasks", "ps"))  # fmt: skip
def _list_jobs(ctx: SlashContext, words: str) -> None:
    jobs = _jobs_of(ctx)
    verb, _, job_id = words.partition(" ")
    try:
        if verb in _STOP:
            _end(ctx, [jobs.find(job_id.strip())] if job_id.strip() != "all" else list(jobs.all()))
        elif verb == "log":
            _log(ctx, jobs.find(job_id.strip()))
        elif words:
            _watch(ctx, jobs.find(words))
        elif not jobs.all():
            ctx.say("There are no background jobs.")
        else:
            _pick(ctx, jobs.all())
    except ToolError as error:
        ctx.say(str(error))


def _pick(ctx: SlashContext, jobs: Sequence[Job]) -> None:
    """Let the user pick a job and what to do with it."""
    if not ctx.has_menus:
        for job in jobs:
            ctx.say(f"  {job.id}  {_about(job)}")
        return
    place = ctx.choose("Jobs", [(job.id, _about(job)) for job in jobs], quiet=True)
    if place is None:
        return
    job = jobs[place]
    actions = [("watch", "its latest output, until Esc"), ("log", "all of its output, in the pager")]
    actions += [("end", "stop it and what it started")] if job.running else []
    action = ctx.choose(f"{job.id}, {_about(job)}", actions, quiet=True)
    if action is not None:
        (_watch, _log, lambda ctx, job: _end(ctx, [job]))[action](ctx, job)


def _about(job: Job) -> str:
    return f"{job.state}, {clock_duration(job.elapsed)}  {shorten(job.command, 60)}"


def _watch(ctx: SlashContext, job: Job) -> None:
    """Show the end of the output as it comes."""

    def rows(width: int, room: int) -> list[str]:
        lines = escape_controls(job.latest(_LATEST)).rstrip("\n").split("\n")
        latest = [line for line in lines[-max(room - 2, 1) :] if line or len(lines) > 1]
        end = f"Esc closes · /jobs log {job.id}: all of it" + (f" · /jobs kill {job.id}" if job.running else "")
        return [f"  {job.id}  {_about(job)}", *(f"  │ {line}" for line in latest or ["(no output yet)"]), f"  {end}"]

    ctx.watch(rows)


def _log(ctx: SlashContext, job: Job) -> None:
    output = job.output()
    ctx.page(f"{job.id}: {one_line(job.command)}\n{output}" if output else f"{job.id} has no output yet.")


def _end(ctx: SlashContext, jobs: Sequence[Job]) -> None:
    running = [job for job in jobs if job.running]
    for job in running:
        job.stop()
    for job in running:
        job.end()
        ctx.say(f"{job.id} ended after {clock_duration(job.elapsed)}.")
    if not running:
        ctx.say(f"{jobs[0].id} has ended: {jobs[0].state}." if len(jobs) == 1 else "No background job is running.")
