"""The session itself: what there is, leaving, beginning anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_cli.terminal.slash import REGISTRY, ExitRequestedError, slash
from agent_tools.clipping import counted, shorten
from agent_tools.shell_notes import clock_duration

if TYPE_CHECKING:
    from agent_cli.terminal.repl import Repl


@slash("help", "this list", aside=True)
def _help(repl: Repl, words: str) -> None:
    ours = [(f"/{command.name} {command.usage}", command.help) for _, command in sorted(REGISTRY.items())]
    theirs = repl.agent.commands.items()
    own = [(f"/{name} {own.hint}", own.description or str(getattr(own, "path", ""))) for name, own in theirs]
    for usage, text in (*ours, *own, *repl.keys):
        repl.say(f"  {usage:<19} {text}" if len(usage) < 20 else f"  {usage}  {text}")


@slash("exit", "leave", aside=True)
def _exit(repl: Repl, words: str) -> None:
    raise ExitRequestedError


@slash("clear", "start a new session here")
def _clear(repl: Repl, words: str) -> None:
    running = sum(job.running for job in repl.agent.conversation.kit.context.jobs.all())
    repl.start_over()
    ended = f" {counted(running, 'background command')} ended." if running else ""
    repl.say(f"A new session; the old one is saved.{ended}")


@slash("jobs", "background commands", aside=True)
def _jobs(repl: Repl, words: str) -> None:
    jobs = repl.agent.conversation.kit.context.jobs.all()
    for job in jobs:
        repl.say(f"  {job.id}  {job.state}, {clock_duration(job.elapsed)}  {shorten(job.command)}")
    if not jobs:
        repl.say("There are no background commands.")
