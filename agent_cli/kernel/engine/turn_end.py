"""What happens when the model stops calling tools, before the turn may end.

An answer that announces a call without making it gets a reminder: models announce a call, then stop. Small ones also
describe it in a sentence, call a tool that does not exist, write the result themselves, answer about a file that they
have not read, break off, or repeat the same text. These checks are conservative: a false alarm bothers a model that is
done or was asked to wait; a miss only leaves things as they are.

The command of the setting `after_turn` runs when a turn that changed files is about to end. A failure goes back to the
model, a limited number of times; then the turn ends with a warning.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Sequence
from typing import TYPE_CHECKING

from agent_cli.kernel.engine.progress import goal_of, is_question
from agent_cli.kernel.engine.turn import Turn
from agent_cli.kernel.events import Event, HookFinished, HookStarted, Noted, Warned
from agent_cli.kernel.messages import AssistantMessage, Message, ToolMessage
from agent_cli.kernel.results import Check
from agent_tools.base import Steps
from agent_tools.cancel import CancelledError
from agent_tools.lazy import lazy_imports
from agent_tools.requirements import find_bash
from agent_tools.shell.state import ShellState, command_env
from agent_tools.text import HeadTail, counted, shorten

if TYPE_CHECKING:
    from agent_tools.shell.process import ExitInfo

with lazy_imports():
    from agent_cli.kernel.engine import checks
    from agent_tools.shell import process

ANNOUNCED = "<reminder>\nYou said what you would do but made no call. Make the call now, or answer.\n</reminder>"
DESCRIBED = "<reminder>\nYou described a call but did not make it. Make it now, with one of {tools}.\n</reminder>"
UNFINISHED = "<reminder>\nYour answer breaks off. Make the next call, or finish the answer.\n</reminder>"
LOOPED = (
    "<reminder>\nYou repeated the same text until your answer was ended. Make one tool call now, or answer in a few "
    "lines.\n</reminder>"
)
IMAGINED = "<reminder>\nOnly tools give results; you wrote one yourself. Make the call and wait.\n</reminder>"
REPEATED = (
    "<reminder>\nYou repeated a message of the program. The user wants the task done: make the next call, with one of "
    "{tools}.\n</reminder>"
)
UNCHANGED = (
    "<reminder>\nYour last {tool} failed, and no file has been changed. Make the change with another call, or say "
    "plainly that you could not.\n</reminder>"
)
UNRUN = "<reminder>\nYou wrote a command but did not run it. Run it with a tool call, then answer.\n</reminder>"
_MAX_ANNOUNCEMENT_CHARS = 400
# How many times a turn is continued after a failed edit: a model may fail forever.
_MAX_FAILED_EDIT_NUDGES = 2
_ACTIONS = (
    "add|analy[sz]e|apply|call|change|check|continue|correct|create|delete|edit|examine|execute|explore|find|fix|gather"
    "|get|go ahead|grep|implement|inspect|install|investigate|list|locate|look|modify|move|open|proceed|read|remove"
    "|rename|replace|review|rewrite|run|scan|search|see|start|test|try|update|use|verify|view|write"
)
_LINK = r"(?:now|next|first|then|so|ok|okay|sure|alright|great|good|certainly|of course|to [^.,]{3,80})[,.!:]*\s+"
# Texts, which `re` compiles when they are first used: few turns need one.
_INTENTION = (
    rf"(?i)(?:{_LINK})*(?:I['\u2019]ll|I will|I(?: a|['\u2019])m going to|let me|let['\u2019]s|I need to)\s+"
    rf"(?:(?:now|first|then|next|also|just|quickly|need to|have to|start by|begin by|take a|have a)\s+)*"
    rf"(?:{_ACTIONS})(?:ing)?\b"
)
_SENTENCE_END = r"(?<=[.!?:\u2026])\s+"
# The model waits for somebody or something, or speaks about later.
_CONDITIONAL = (
    r"(?i)(?<!see )(?<!check )\bif\b"
    r"|\b(?:when|once|unless|whenever|until|after|should you|let me know|tell me|please|happy to|glad to|wait|waiting"
    r"|later|tomorrow|next time|from now on|in (?:the )?future|would|could|not|never|can['\u2019]?t"
    r"|don['\u2019]t|unable)\b"
    r"|\bbefore (?:I|we|you)\b"
)
# The user wants words, or no action yet.
_WORDS_WANTED = (
    r"(?i)(?:\A|[.!?;:\n])\s*(?:(?:please|can you|could you)\s+)?(?:what|which|how|why|who|where|when|would|should"
    r"|will|are|is|explain|describe|outline|plan|propose|suggest|say|reply|answer|repeat|write me)\b"
    r"|\bplans?\b|\bdo not\b|\bdon['\u2019]t\b|\bwithout\b|\bbefore you\b|\bwait\b|\bjust (?:say|tell|answer)\b"
)

_CALL_OF_ANY = r"\s*(?:```(?:json)?\s*)?\{+\s*\"name\"\s*:\s*\"[\w.-]+\"\s*,\s*\"(?:arguments|parameters)\""
_SHELL_FENCE = r"(?m)^```(?:bash|sh|shell|console)[ \t]*$"
_HOW_TO = r"(?i)\bhow\b|\b(?:show|give|tell|write) me\b|\bcommand\b|\bscript\b|\bexplain\b"


def is_announcement(answer: str, request: str) -> bool:
    """Return True if an answer to a request ends by announcing what the model will do."""
    text = answer.strip()
    if not text or len(text) > _MAX_ANNOUNCEMENT_CHARS or "```" in text or text.endswith("?"):
        return False
    if re.search(_CONDITIONAL, text) or re.search(_WORDS_WANTED, request):
        return False
    return re.match(_INTENTION, re.split(_SENTENCE_END, text)[-1].lstrip("*_ ")) is not None


def describes_call(answer: str, tools: Iterable[str]) -> bool:
    """Return True if an answer describes a call.

    It is a call of an unknown tool, tells the user to use a tool, or has arguments in JSON near a tool's name.
    """
    names = "|".join(tools)
    if re.match(_CALL_OF_ANY, answer) or re.search(rf"\b(?:[Uu]se|[Rr]un|[Cc]all) (?:a |the )?`?(?:{names})\b", answer):
        return True
    return bool(re.search(r"\{\s*\\?\"\w+\\?\"\s*:", answer)) and bool(re.search(rf"\b(?:{names})\b", answer))


def imagines_result(answer: str) -> bool:
    """Return True if an answer contains a tool result in the tags of a chat template, which only tools write."""
    return "<tool_response>" in answer or "<|tool_response|>" in answer


def breaks_off(answer: str) -> bool:
    """Return True if an answer ends where something should follow."""
    return answer.rstrip("*_ \n").endswith(":")


def writes_command(answer: str, request: str) -> bool:
    """Return True if an answer shows a shell command in a fence, and the request does not ask how to do something."""
    return bool(re.search(_SHELL_FENCE, answer)) and not re.search(_HOW_TO, request)


def repeats_message(answer: str, history: Iterable[Message]) -> bool:
    """Return True if an answer only repeats the error or the reminder that the model has just read."""
    last = next((m for m in reversed(list(history)) if not isinstance(m, AssistantMessage)), None)
    if last is None or not (last.is_error if isinstance(last, ToolMessage) else last.text.startswith("<reminder>")):
        return False
    text = " ".join(answer.strip("`* \n").split())
    return bool(text) and text in " ".join(last.text.split())


def failed_edit(turn: Turn) -> str:
    """Return the tool of the turn's last call if that was a failed edit and no file was changed before; else ""."""
    if turn.checks.wrote or not turn.actions or turn.actions[-1].outcome != "failed":
        return ""
    last = next(m for m in reversed(turn.history) if isinstance(m, ToolMessage))
    tool = turn.deps.tools.get(last.name)
    changes = tool is not None and tool.changes_files and turn.nudges.get("failed_edit", 0) < _MAX_FAILED_EDIT_NUDGES
    return last.name if changes else ""


def after_repetition(turn: Turn) -> Generator[Event, None, str]:
    """Ask for another answer after one that repeated the same text; the second time, end the turn."""
    if turn.nudges.get("looped"):
        turn.budget.stop("repetition")
    turn.nudges["looped"] = 1
    yield Warned("The model repeated the same text; its answer was ended.")
    return LOOPED


def ask(turn: Turn, answer: AssistantMessage) -> Generator[Event, None, str | None]:
    """Ask, once, for the call that the answer announces or should have made."""
    if not turn.options.tools or turn.deps.policy.mode == "plan":
        return None
    if turn.deps.context.small_model and (more := (yield from _remind_small_model(turn, answer))):
        return more
    if turn.nudges.get("announced"):
        return None
    if not is_announcement(answer.text, goal_of(turn.history)):
        return None
    turn.nudges["announced"] = 1
    yield Noted("The model said what it would do but made no call; asking for it.")
    return ANNOUNCED


def _remind_small_model(turn: Turn, answer: AssistantMessage) -> Generator[Event, None, str | None]:
    """Ask a small model for a call in place of words; again only after it made calls since."""
    calls = len(turn.actions) + 1
    if turn.nudges.get("in_words", 0) >= calls:
        return None
    names = [spec.name for spec in turn.options.tools]
    if imagines_result(answer.text):
        problem, more = "wrote a result itself; asking for the call", IMAGINED
    elif repeats_message(answer.text, turn.history):
        problem = "repeated a message as its answer; asking it to continue"
        more = REPEATED.format(tools=", ".join(names))
    elif describes_call(answer.text, names):
        problem, more = "described a call but did not make it; asking for it", DESCRIBED.format(tools=", ".join(names))
    elif re.match(_INTENTION, re.split(_SENTENCE_END, answer.text.strip())[-1]):
        problem, more = "said what it would do but made no call; asking for it", ANNOUNCED
    elif breaks_off(answer.text):
        problem, more = "broke off; asking it to continue", UNFINISHED
    elif tool := failed_edit(turn):
        turn.nudges["failed_edit"] = turn.nudges.get("failed_edit", 0) + 1
        problem, more = f"ended after a failed {tool}; asking it to try again", UNCHANGED.format(tool=tool)
    elif not turn.actions and writes_command(answer.text, goal_of(turn.history)):
        problem, more = "wrote a command but did not run it; asking for it", UNRUN
    else:
        return None
    turn.nudges["in_words"] = calls
    turn.must_call = more != UNFINISHED
    yield Noted(f"The model {problem}.")
    return more


# Words for a failure, for what only sounds like one, for one that is over, and for one that is not.
_FAILURE = (
    r"(?i)\bfail|\berrors?\b|\bbroken\b|\bbreaks\b|\bred\b|\bunsuccessful|\bcrash|\btime[sd]? out\b|\bcomplain"
    r"|\b(?:do|does|did|not|never|cannot|can['\u2019]t|could(?:n['\u2019]t)?)\b.{0,20}\b(?:pass(?:es|ed|ing)?|build|compile)\b"
    r"|\b(?:do|does|did)n['\u2019]t (?:pass|build|compile)\b|\bnot (?:green|passing)\b"
    r"|\b(?:exit(?:ed|s)?|return(?:ed|s)?)(?: with)?(?: (?:code|status))? [1-9]|\breports? [1-9]\d* "
    # In German, French, Spanish, Portuguese, Italian, Dutch, Polish, Russian, Chinese, Japanese and Korean.
    r"|fehl(?:er|schl|geschl)|\bschl[a\u00e4]g\w+ .{0,40}fehl|\b\u00e9cho|\bfall[aoi]|\bno pasan?\b|\bfalh"
    r"|\bn\u00e3o passa|\b(?:slaag\w*|slagen) niet|\bfa(?:alt|len)\b|\bnie (?:przecho|powi)"
    r"|\u043d\u0435 \u043f\u0440\u043e\u0445\u043e\u0434|\u043f\u0430\u0434\u0430[\u0435\u044e]\u0442"
    r"|\u5931[\u6557\u8d25]|(?:\u6ca1\u6709|\u672a)\u901a\u8fc7|\u901a(?:\u308a\u307e\u305b\u3093|\u3089\u306a)"
    r"|\uc2e4\ud328"
)
_NO_FAILURE = (
    r"(?i)\b(?:error|failure|fail(?:ed|ing)?|exit code \d+)[ -](?:handl\w+|messages?|paths?|cases?|codes?|logging"
    r"|requests?|links?|pages?|types?|class(?:es)?|responses?|states?|modes?|reports?)\b"
    r"|\b(?:rais|throw|return|log|catch|handl|show|print)\w* (?:\w+ ){0,3}?(?:errors?|failures?)\b"
)
_OVER = (
    r"(?i)\b(?:fix(?:ed|es)?|repaired|resolved|mended|corrected|replaced|removed|no longer|now pass(?:es)?|behoben)\b"
    r"|\b(?:no|zero|0|without(?: any)?|any|keine?|sans|ohne|sin)\s+(?:\w+\s+)?(?:fail|error|fehler|erreur)"
)
_REMAINS = (
    r"(?i)\b(?:still|except|but|however|remain\w*|unrelated|pre-?existing|expected|cannot|can['\u2019]t"
    r"|could(?: not|n['\u2019]t))\b"
)
_PASSES = r"(?i)\b(?:pass(?:es|ed|ing)?|succeed(?:s|ed)?|works?|green)\b"
_NAMED_FAILURE = r"(?m)(?:\bFAILED|\bFAIL:?|\bERROR:?|\bnot ok \d+ -|[\u2715\u2717\u00d7])\s+(\S{4,})"
WHOLE_ANSWER = "Then give your whole answer again: only your last message is shown."


def failing_check(turn: Turn, answer: str) -> Generator[Event, None, str | None]:
    """Tell the model, once, which test and build commands of this turn failed without its answer saying so.

    An answer that asks something is final. A program that is not installed is not reported: one more round would not
    change that.
    """
    if not turn.checks.failed or turn.nudges.get("verify") or is_question(answer):
        return None
    silent = _unmentioned(turn.checks.failed, answer, turn.history)
    if not silent:
        return None
    turn.nudges["verify"] = 1
    named = "; ".join(f"`{check.command}` ({check.ending})" for check in silent)
    yield Noted(f"The answer does not mention a failed check: {named}; asking the model about it.")
    return (
        "<reminder>\nYour answer does not mention a check that you ran and that failed: "
        f"{'; '.join(map(str, silent))}. Find the cause, fix it and run the check again. If this is expected or cannot "
        "be fixed here, say so plainly in your answer.\n</reminder>"
    )


def _unmentioned(failed: Sequence[Check], answer: str, history: Iterable[Message]) -> list[Check]:
    """Return the failed checks that an answer does not mention. One that only says that something fails means all."""
    if not names_failure(answer, history):
        return list(failed)
    named = [check for check in failed if any(name in answer for name in (check.command, *check.programs))]
    return [check for check in failed if check not in named] if named else []


def for_whole_answer(turn: Turn, message: str, answer: str) -> str:
    """Return a message that continues the turn after an answer, and asks for that again if only the last is shown."""
    if turn.deps.attended and not turn.deps.depth:
        return message
    turn.unrepeated = turn.cut_text + answer
    return re.sub(r"(\n</\w+>)?\s*\Z", lambda end: f"\n{WHOLE_ANSWER}{end[1] or ''}", message, count=1)


def names_failure(answer: str, history: Iterable[Message]) -> bool:
    """Return True if an answer says that something fails, and not only that it was fixed."""
    results = [m.text for m in history if isinstance(m, ToolMessage)][-3:]
    failed = {name.rpartition("::")[2].rstrip(":,") for text in results for name in re.findall(_NAMED_FAILURE, text)}
    for sentence in re.split(r"(?<=[.!?\u3002;])\s+|\n", answer):
        named = any(name in sentence for name in failed) and not re.search(_PASSES, sentence)
        says = named or re.search(_FAILURE, re.sub(_NO_FAILURE, " ", sentence))
        if says and (not re.search(_OVER, sentence) or re.search(_REMAINS, sentence)):
            return True
    return False


_HEAD_CHARS, _TAIL_CHARS = 2_000, 6_000
_AFTER_TURN = "after_turn"
# How often a failure of the command is sent back to the model, and how long the command may take.
MAX_TRIES = 3
TIMEOUT_SECONDS = 600.0


def run_after_turn(turn: Turn) -> Generator[Event, None, str | None]:
    """Run the command; return a message for the model if it fails, None if the turn may end. Raises CancelledError."""
    command, times = turn.options.after_turn, turn.nudges.get(_AFTER_TURN, 0)
    if _passed_already(turn, command):
        return None
    yield HookStarted(f"{_AFTER_TURN}-{times + 1}", _AFTER_TURN, _AFTER_TURN, command)
    try:
        ending, output = _run(turn, command)
    except OSError as error:
        yield Warned(f"after_turn: `{shorten(command)}` could not be started: {error.strerror or error}.")
        return None
    code = ending.code if ending.cause == "exit" else None
    outcome = "cancelled" if code is None else "success" if code == 0 else "error"
    how, check = "" if code == 0 else _describe_end(ending), _check_result(turn, command, code)
    yield HookFinished(
        _AFTER_TURN, command, code, round(ending.seconds * 1000), f"{_AFTER_TURN}-{times + 1}", _AFTER_TURN,
        _AFTER_TURN, outcome,  # type: ignore[arg-type]
        how, output[-4_000:], check=check,
    )  # fmt: skip
    if ending.cause == "interrupted":
        raise CancelledError
    turn.checks.record(check)
    turn.nudges["verify"] = 1
    if code == 0:
        return None
    if times >= MAX_TRIES:
        yield Warned(
            f"after_turn: `{shorten(command)}` still {how}; it went back to the model {counted(times, 'time')}."
        )
        return None
    turn.nudges[_AFTER_TURN] = times + 1
    return (
        f"<hook_feedback>\nFiles were changed in this turn, so `{command}` was run. It {how}:\n\n{output}\n\n"
        f"Fix what it found. If that cannot be done here, say plainly why.\n</hook_feedback>"
    )


def _check_result(turn: Turn, command: str, code: int | None) -> Check:
    """Return the command as a check of the work: judged by its exit code, unless a check in it can fail unnoticed."""
    line = " ".join(command.split())[: checks.MAX_COMMAND_CHARS]
    return checks.evaluate_check(command, code, more=turn.deps.verify) or Check(line, code)


def _passed_already(turn: Turn, command: str) -> bool:
    """Return True if the model itself ran the same command, it passed, and nothing changed since."""
    line = " ".join(command.split())
    # Of a longer command only the beginning is recorded, which another one may share.
    same = len(line) < checks.MAX_COMMAND_CHARS and any(c.passed and c.command == line for c in turn.checks.ran)
    return same and not turn.checks.changed_since


def _run(turn: Turn, command: str) -> tuple[ExitInfo, str]:
    """Run the command in the workspace root. Raises OSError."""
    context = turn.deps.context
    bash = find_bash(context)
    if bash is None:
        raise OSError("there is no bash")
    env, _ = command_env(context)
    output_buffer = HeadTail(_HEAD_CHARS, _TAIL_CHARS)
    argv = [bash, "--noprofile", "--norc", "-c", command]
    env = context.state(ShellState).applied(env)
    running = process.run_process(argv, context.workspace.root, env, TIMEOUT_SECONDS, context.cancel, output_buffer)
    return Steps(running).finish(), output_buffer.text("run it to see all").strip("\n")


def _describe_end(ending: ExitInfo) -> str:
    if ending.cause == "time-out":
        return f"was ended after {ending.seconds:.0f} s"
    if ending.cause == "interrupted":
        return "was interrupted"
    return f"was ended by signal {-ending.code}" if ending.code < 0 else f"failed with exit code {ending.code}"
