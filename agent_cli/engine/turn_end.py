"""What may keep a turn from ending: an answer that only announces an action, and a failure of the command `after_turn`.

The check of the answer is conservative: a false alarm asks a model that is done, or was told to wait; a miss only
leaves things as they are. Small models also describe a call in a sentence, or answer about a file that they have not
looked at.

The command of the setting `after_turn` runs when a turn that changed files is about to end. A failure goes back to the
model, a limited number of times; then the turn ends with a warning.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from agent_cli.core.events import Event, HookFinished, HookStarted, Warned
from agent_cli.core.results import Check
from agent_cli.engine.progress import goal_of
from agent_cli.engine.turn import Turn
from agent_tools.base import ToolError
from agent_tools.cancel import CancelledError
from agent_tools.lazy import lazy_imports
from agent_tools.shell.bash import find_bash
from agent_tools.shell.state import ShellState, command_env
from agent_tools.text import HeadTail, counted, shorten

if TYPE_CHECKING:
    from agent_tools.shell.process import ExitInfo

with lazy_imports():
    from agent_cli.engine import checks
    from agent_tools.shell import process

_LONGEST = 400
_ACTIONS = (
    "add|analy[sz]e|apply|call|change|check|continue|correct|create|delete|edit|examine|execute|explore|find|fix|gather"
    "|get|go ahead|grep|implement|inspect|install|investigate|list|locate|look|modify|move|open|proceed|read|remove"
    "|rename|replace|review|rewrite|run|scan|search|see|start|test|try|update|use|verify|view|write"
)
_LINK = r"(?:now|next|first|then|so|ok|okay|sure|alright|great|good|certainly|of course|to [^.,]{3,80})[,.!:]*\s+"
_INTENTION = re.compile(
    rf"(?:{_LINK})*(?:I['\u2019]ll|I will|I(?: a|['\u2019])m going to|let me|let['\u2019]s|I need to)\s+"
    rf"(?:(?:now|first|then|next|also|just|quickly|start by|begin by|take a|have a)\s+)*(?:{_ACTIONS})(?:ing)?\b",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?<=[.!?:\u2026])\s+")
# It waits for somebody or something, or speaks about later.
_CONDITIONAL = re.compile(
    r"(?<!see )(?<!check )\bif\b"
    r"|\b(?:when|once|unless|whenever|until|after|should you|let me know|tell me|please|happy to|glad to|wait|waiting"
    r"|later|tomorrow|next time|from now on|in (?:the )?future|would|could|not|never|can['\u2019]?t"
    r"|don['\u2019]t|unable)\b"
    r"|\bbefore (?:I|we|you)\b",
    re.IGNORECASE,
)
# The user wants words, or no action yet.
_WORDS_WANTED = re.compile(
    r"(?:\A|[.!?;:\n])\s*(?:(?:please|can you|could you)\s+)?(?:what|which|how|why|who|where|when|would|should|will|are"
    r"|is|explain|describe|outline|plan|propose|suggest|say|reply|answer|repeat|write me)\b"
    r"|\bplans?\b|\bdo not\b|\bdon['\u2019]t\b|\bwithout\b|\bbefore you\b|\bwait\b|\bjust (?:say|tell|answer)\b",
    re.IGNORECASE,
)


def is_announcement(answer: str, request: str) -> bool:
    """Return True if an answer to a request ends with what the model is about to do."""
    text = answer.strip()
    if not text or len(text) > _LONGEST or "```" in text or text.endswith("?"):
        return False
    if _CONDITIONAL.search(text) or _WORDS_WANTED.search(request):
        return False
    return _INTENTION.match(_SENTENCE_END.split(text)[-1].lstrip("*_ ")) is not None


def describes_call(answer: str, tools: Iterable[str]) -> bool:
    """Return True if an answer names one of the tools and has a JSON object with arguments beside it."""
    return bool(re.search(r"\{\s*\\?\"\w+\\?\"\s*:", answer)) and any(re.search(rf"\b{t}\b", answer) for t in tools)


def named_files(request: str) -> Iterator[str]:
    """Yield what may be a file in a request: words with a dot inside, without their quotes."""
    for found in re.finditer(r"[\w~/-][\w./~-]*\.\w+", request):
        yield found[0]


_HEAD, _TAIL = 2_000, 6_000
_NAME = "after_turn"


def unread_file(turn: Turn) -> str:
    """Return the first file that the request names and the model has not seen; "" for none."""
    context = turn.deps.context
    for name in named_files(goal_of(turn.history)):
        with suppress(ToolError, OSError):
            path = context.workspace.resolve(name)
            if path.is_file() and str(path) not in context.seen:
                return name
    return ""


def failing(turn: Turn) -> Generator[Event, None, str | None]:
    """Run the command; return a message for the model if it fails, None if the turn may end. Raises CancelledError."""
    command, times = turn.options.after_turn, turn.nudges.get(_NAME, 0)
    if _passed_already(turn, command):
        return None
    yield HookStarted(f"{_NAME}-{times + 1}", _NAME, _NAME, command)
    try:
        ending, output = _run(turn, command)
    except OSError as error:
        yield Warned(f"after_turn: `{shorten(command)}` could not be started: {error.strerror or error}.")
        return None
    code = ending.code if ending.cause == "exit" else None
    outcome = "cancelled" if code is None else "success" if code == 0 else "error"
    how = "" if code == 0 else _how(ending)
    yield HookFinished(
        _NAME, command, code, round(ending.seconds * 1000), f"{_NAME}-{times + 1}", _NAME, "after_turn",
        outcome,  # type: ignore[arg-type]
        how, output[-4_000:],
    )  # fmt: skip
    if ending.cause == "interrupted":
        raise CancelledError
    turn.checks.last, turn.checks.changed_since = _outcome(turn, command, code), False
    turn.nudges["verify"] = 1
    if code == 0:
        return None
    if times >= turn.options.after_turn_tries:
        yield Warned(
            f"after_turn: `{shorten(command)}` still {how}; it went back to the model {counted(times, 'time')}."
        )
        return None
    turn.nudges[_NAME] = times + 1
    return (
        f"<hook_feedback>\nFiles were changed in this turn, so `{command}` was run. It {how}:\n\n{output}\n\n"
        "Fix what it found. If that cannot be done here, say plainly why.\n</hook_feedback>"
    )


def _outcome(turn: Turn, command: str, code: int | None) -> Check:
    """Return what the command says about the work: by its exit code, unless a check in it may fail without that."""
    return checks.judge(command, code, more=turn.deps.verify) or Check(" ".join(command.split())[:120], code)


def _passed_already(turn: Turn, command: str) -> bool:
    """Return True if the model itself ran the same command, it passed, and nothing changed since."""
    last = turn.checks.last
    same = last is not None and last.passed and last.command == " ".join(command.split())[:120]
    return same and not turn.checks.changed_since


def _run(turn: Turn, command: str) -> tuple[ExitInfo, str]:
    """Run the command in the workspace root. Raises OSError."""
    context = turn.deps.context
    bash = find_bash(context)
    if bash is None:
        raise OSError("there is no bash")
    env, _ = command_env(context)
    kept = HeadTail(_HEAD, _TAIL)
    argv = [bash, "--noprofile", "--norc", "-c", command]
    env = context.state(ShellState).applied(env)
    running = process.run_process(
        argv, context.workspace.root, env, turn.options.after_turn_timeout, context.cancel, kept
    )
    try:
        while True:
            next(running)
    except StopIteration as stop:
        return stop.value, kept.text("run it to see all").strip("\n")


def _how(ending: ExitInfo) -> str:
    if ending.cause == "time-out":
        return f"was ended after {ending.seconds:.0f} s"
    if ending.cause == "interrupted":
        return "was interrupted"
    return f"was ended by signal {-ending.code}" if ending.code < 0 else f"failed with exit code {ending.code}"
