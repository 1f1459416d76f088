"""The session itself: what there is, leaving, beginning anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_cli.terminal.slash import REGISTRY, Leave, slash
from agent_tools.clipping import counted, shorten
from agent_tools.shell_notes import clock

if TYPE_CHECKING:
    from agent_cli.terminal.repl import Repl


@slash("help", "this list", aside=True)
def _help(repl: Repl, words: str) -> None:
    for _, command in sorted(REGISTRY.items()):
        repl.say(f"  /{command.name} {command.usage}".ljust(22) + command.help)
    for name, own in repl.agent.commands.items():
        repl.say(f"  /{name} {own.hint}".ljust(22) + (own.description or str(getattr(own, "path", ""))))
    repl.say("  Ctrl-C interrupts a turn, Ctrl-D leaves.")


@slash("exit", "leave", aside=True)
def _exit(repl: Repl, words: str) -> None:
    raise Leave


@slash("clear", "start a new session here")
def _clear(repl: Repl, words: str) -> None:
    running = sum(job.running for job in repl.agent.conversation.kit.context.jobs.all())
    repl.start_over()
    ended = f" {counted(running, 'background command')} ended." if running else ""
    repl.say(f"A new session; the old one is kept.{ended}")


@slash("jobs", "background commands", aside=True)
def _jobs(repl: Repl, words: str) -> None:
    jobs = repl.agent.conversation.kit.context.jobs.all()
    for job in jobs:
        repl.say(f"  {job.id}  {job.state}, {clock(job.elapsed)}  {shorten(job.command)}")
    if not jobs:
        repl.say("There are no background commands.")
