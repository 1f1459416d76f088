"""From options to a front end: one-shot, or the REPL."""

from __future__ import annotations

import os
import sys

from agent_cli.__main__ import COMMANDS
from agent_cli.assembly import Agent, build
from agent_cli.config.prompts import memory_paths
from agent_cli.engine.drive import Conversation
from agent_cli.headless.run import Asked, Misuse, Report, deny, run, say
from agent_cli.options import RunOptions
from agent_cli.place import Mistake, find_place, read_settings


def start(options: RunOptions, typed: list[str]) -> int:
    """Run as asked; the exit code. `typed` is the command line as it was written. Raises Mistake."""
    if not options.print:
        _question_lone_word(options, typed)
        from agent_cli.terminal.repl import run_repl

        return run_repl(options)
    return one_shot(options)


def one_shot(options: RunOptions) -> int:
    """`agent -p`."""
    place = find_place(os.environ)
    layers = read_settings(options, place)
    settings = layers.settings()
    for text in layers.ignored:
        say(f"agent: {text}; name the file with --settings if it is yours.")
    asked = Asked(
        prompt=options.prompt,
        output_format=options.output_format,
        input_format=options.input_format,
        partial=options.include_partial_messages,
        verbose=options.verbose,
        structured=options.json_schema is not None,
        fail_on_denied=options.fail_on_denied,
        fail_on_degraded=options.fail_on_degraded,
        stdin_limit=settings.stdin_limit,
        stdin_wait=settings.stdin_wait,
    )
    built: list[Agent] = []

    def begin() -> tuple[Conversation, Report]:
        agent = build(options, place, layers, deny, lambda text: say(f"agent: {text}"))
        built.append(agent)
        return agent.conversation, report_of(agent, options.bare)

    try:
        return run(asked, begin)
    except Misuse as error:
        raise Mistake(str(error)) from None
    finally:
        for agent in built:
            agent.close()


def report_of(agent: Agent, bare: bool) -> Report:
    """What the result and the first line of stream-json say about a session."""
    settings, place = agent.settings, agent.place
    memory = () if bare else memory_paths(place.cwd, place.root, settings.memory_files, place.home)
    return Report(
        session_id=agent.header.session_id,
        model=agent.model.name,
        key_source=agent.model.key_source,
        cwd=str(place.cwd),
        tools=tuple(agent.conversation.kit.tools),
        mode=settings.permissions.mode,
        memory=tuple(str(p) for p in memory),
        windows=(agent.info.context_window, agent.info.max_output) if agent.info else (None, None),
    )


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
