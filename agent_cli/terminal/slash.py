"""Slash commands: a function under a decorator; /help reads the same registry."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from agent_cli.config.commands import split_call
from agent_cli.core.modes import MODES
from agent_tools.clipping import counted, shorten
from agent_tools.display import TodoItem
from agent_tools.shell_notes import clock
from agent_tools.values import Value

if TYPE_CHECKING:
    from agent_cli.terminal.repl import Repl

Handler = Callable[["Repl", str], None]


class Leave(Exception):
    """End the session."""


class Slash(Value):
    """A command: its name, its arguments in help, what it does in one line."""

    name: str
    usage: str
    help: str
    run: Handler


REGISTRY: dict[str, Slash] = {}


def slash(name: str, text: str, usage: str = "") -> Callable[[Handler], Handler]:
    """Register a command under `/name`."""

    def register(handler: Handler) -> Handler:
        REGISTRY[name] = Slash(name, usage, text, handler)
        return handler

    return register


def run_slash(repl: Repl, line: str) -> None:
    """Run `/name words`, ours before the person's own. Raises Leave; an unknown name is said, with the nearest one."""
    name, _, rest = line[1:].partition(" ")
    command = REGISTRY.get(name)
    if command is None:
        own = repl.agent.commands
        if split_call(line)[0] in own:
            repl.take_turn(line)
            return
        import difflib

        near = difflib.get_close_matches(name, [*REGISTRY, *own], 1)
        repl.say(f"There is no /{name}" + (f"; did you mean /{near[0]}?" if near else ". See /help."))
        return
    command.run(repl, rest.strip())


@slash("help", "this list")
def _help(repl: Repl, words: str) -> None:
    for command in REGISTRY.values():
        repl.say(f"  /{command.name} {command.usage}".ljust(22) + command.help)
    for name, own in repl.agent.commands.items():
        repl.say(f"  /{name} {own.hint}".ljust(22) + (own.description or str(own.path)))
    repl.say("  Ctrl-C interrupts a turn, Ctrl-D leaves.")


@slash("exit", "leave")
def _exit(repl: Repl, words: str) -> None:
    raise Leave


@slash("clear", "start a new session here")
def _clear(repl: Repl, words: str) -> None:
    running = sum(job.running for job in repl.agent.conversation.kit.context.jobs.all())
    repl.start_over()
    ended = f" {counted(running, 'background command')} ended." if running else ""
    repl.say(f"A new session; the old one is kept.{ended}")


@slash("model", "show or change the model", "[NAME]")
def _model(repl: Repl, words: str) -> None:
    if words:
        repl.switch_model(words)
    repl.say(f"model: {repl.agent.conversation.options.label}")


@slash("mode", "show or change the permission mode", "[MODE]")
def _mode(repl: Repl, words: str) -> None:
    if words and words not in MODES:
        repl.say(f"{words} is none of {', '.join(MODES)}.")
        return
    if words:
        repl.switch_mode(words)
    repl.say(f"mode: {repl.agent.conversation.kit.policy.mode}")


@slash("cost", "tokens and dollars of this session")
def _cost(repl: Repl, words: str) -> None:
    used = repl.show.usage
    cost = f"${used.cost:.4f}" if used.reliable else "unknown (no price for this model)"
    repl.say(f"{used.input} tokens in ({used.cache_read} from cache), {used.output} out; cost {cost}")


@slash("jobs", "background commands")
def _jobs(repl: Repl, words: str) -> None:
    jobs = repl.agent.conversation.kit.context.jobs.all()
    for job in jobs:
        repl.say(f"  {job.id}  {job.state}, {clock(job.elapsed)}  {shorten(job.command)}")
    if not jobs:
        repl.say("There are no background commands.")


@slash("todos", "the plan; change it: add TEXT, drop N, done N, first N", "[CHANGE]")
def _todos(repl: Repl, words: str) -> None:
    conversation = repl.agent.conversation
    if words:
        try:
            conversation.change_plan(changed_plan(conversation.kit.context.plan, words))
        except ValueError as error:
            repl.say(str(error))
    repl.show_plan()


def changed_plan(plan: tuple[TodoItem, ...], words: str) -> tuple[TodoItem, ...]:
    """The plan after `add TEXT`, `drop N`, `done N` or `first N` (N from 1). Raises ValueError with a sentence."""
    verb, _, rest = words.partition(" ")
    rest = rest.strip()
    if verb == "add" and rest:
        return (*plan, TodoItem(rest))
    if verb not in ("drop", "done", "first"):
        raise ValueError("Say: add TEXT, drop N, done N, or first N.")
    if not rest.isdigit() or not 1 <= int(rest) <= len(plan):
        raise ValueError(f"There is no step {rest or '(none named)'}; the plan has {len(plan)}.")
    index = int(rest) - 1
    others = plan[:index] + plan[index + 1 :]
    if verb == "drop":
        return others
    if verb == "first":
        return (plan[index], *others)
    return (*plan[:index], plan[index].but(status="completed"), *plan[index + 1 :])
