"""What the application asks a user: a body for the scrollback, a bar, and what each key means.

The meaning of keys and words is that of the line front end: `answer_to`, `read_verdict`, `chosen`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from agent_cli.core.approvals import Approve, EditedCall, QuestionReply, Reject
from agent_cli.core.events import ApprovalRequested
from agent_cli.terminal.app.worker import PendingReply
from agent_cli.terminal.dialogs.base import Option
from agent_cli.terminal.dialogs.edit_call import Changeable, Hunk
from agent_cli.terminal.dialogs.lines import (
    answer_to,
    asked_lines,
    chosen,
    plan_lines,
    question_lines,
    read_plan,
    read_plan_verdict,
    read_review,
    review_diffs,
    review_lines,
)
from agent_cli.terminal.render.console import prose, styled
from agent_cli.terminal.render.diff import display_lines
from agent_tools.plan import plan_for_editor
from agent_tools.record import Value

Body = Callable[[Console], Iterator[Text]]
# Every key that may answer a question: only these are bound.
KEYS = "yaAdehnruw123456789"


class GiveAnswer(Value):
    """The answer, at once."""

    answer: Any


class TextInput(Value):
    """A line of input first. read: what the words mean; None: not enough, ask on."""

    label: str
    read: Callable[[str], Any]
    text: str = ""


class InEditor(Value):
    """The user's editor first, on this text. read: as in `Words`; where it raises ValueError, as in `edited_as`."""

    text: str
    read: Callable[[str], Any]


class Pick(Value):
    """A menu; what is typed narrows it. read: what the place of an option means."""

    label: str
    options: tuple[Option, ...]
    read: Callable[[int], Any]


Act = GiveAnswer | TextInput | InEditor


class Dialog:
    """One open question. keys: what a single key means. free: without a key the input line is the answer at once.

    own: the user's own command asks, so that the line is free for it. Such a question may be answered with nothing.
    """

    def __init__(
        self, bar: str, keys: dict[str, Act], body: Body, free: TextInput | Pick | None = None, *, own: bool = False
    ) -> None:
        assert set(keys) <= set(KEYS), f"no key is bound for one of {', '.join(keys)}"
        self.bar = bar
        self.keys = keys
        self.body = body
        self.free = free
        self.own = own
        self.waiting = PendingReply()

    @property
    def short(self) -> str:
        """The bar where there is no room for it."""
        return f"? [{'/'.join(self.keys) or 'Enter/Esc'}]"


def approval(request: ApprovalRequested, change: Changeable) -> Dialog:
    """The question before a call. change: what of it the user may change."""
    keys: dict[str, Act] = {"y": GiveAnswer(answer_to(request, "y")), "n": GiveAnswer(answer_to(request, "n"))}
    words = ["y yes"]
    if request.always:
        keys["a"] = GiveAnswer(answer_to(request, "a"))
        words.append("a this session")
    if request.keeps:
        keys["A"] = GiveAnswer(answer_to(request, "A"))
        words.append("A always")
    if change.name:
        in_line = TextInput(f"{change.name}> ", change.edited, change.text)
        keys["e"] = in_line if change.in_line else InEditor(change.text, change.edited)
        words.append("e edit")
    if change.hunks:
        keys["h"] = GiveAnswer(ByHunk())
        words.append(f"h its {len(change.hunks)} parts one by one")
    keys["r"] = TextInput("no, because> ", lambda why: Reject(why.strip()) if why.strip() else None)
    bar = f"? Allow it? [{' · '.join((*words, 'n no', 'r no, because'))}]"
    return Dialog(bar, keys, lambda console: question_lines(request, console))


def question_dialog(asked: dict[str, Any]) -> Dialog:
    """One question of the model's: a menu with room for one's own words, or the words alone. The answer is a text."""
    options = asked.get("options", [])
    several = bool(asked.get("multiSelect")) or len(options) > 9
    keys: dict[str, Act] = {str(n): GiveAnswer(chosen(str(n), options)) for n in range(1, min(len(options), 9) + 1)}
    own = TextInput("answer> ", lambda words: chosen(words.strip(), options) if words.strip() else None)
    keys |= {"r": own, "n": GiveAnswer(chosen("", options))}
    numbers = f"1-{min(len(options), 9)} choose · " if options else ""
    say = "r several, by number, or your own words" if several else "r your own words"
    return Dialog(
        f"? Your answer? [{numbers}{say} · n none]",
        keys,
        lambda console: asked_lines(asked, console),
        None if options else own,
    )


def confirmation(text: str) -> Dialog:
    """A yes or no for a command of the user's."""
    keys: dict[str, Act] = {"y": GiveAnswer(True), "n": GiveAnswer(False)}
    return Dialog("? [y yes · n no]", keys, lambda console: prose(f"? {text}", console, "ask"), own=True)


def pick_dialog(text: str, options: Sequence[Option]) -> Dialog:
    """A choice for a command of the user's; the answer is the place of an option, or None."""
    menu = Pick("> ", tuple(options), lambda place: place)
    bar = "? type to narrow it down · up, down and Enter choose · Esc none"
    return Dialog(bar, {}, lambda console: prose(f"? {text}", console, "ask"), menu, own=True)


def words_for(label: str, text: str = "") -> Dialog:
    """A line of words for a command of the user's; the answer is a text, or None."""
    words = TextInput(label, lambda typed: typed.strip() or None, text)
    return Dialog("? Enter sends · Esc goes back", {}, lambda console: iter(()), words, own=True)


class ByHunk(Value):
    """Show the hunks of the change one by one."""


class Rest(Value):
    """The answer to a hunk, and to all after it."""

    take: bool


def hunk_question(hunk: Hunk, number: int, of: int) -> Dialog:
    """Whether one part of a change is made. The answer is True, False, or a `Rest`."""
    keys: dict[str, Act] = {
        "y": GiveAnswer(True),
        "n": GiveAnswer(False),
        "a": GiveAnswer(Rest(True)),
        "d": GiveAnswer(Rest(False)),
    }

    def body(console: Console) -> Iterator[Text]:
        yield styled(f"? Part {number} of {of}", "ask")
        yield from display_lines(hunk.diff, whole=True)

    return Dialog("? Take this part? [y yes · n no · a all the rest · d none of the rest]", keys, body)


class Rewritten(Value):
    """The plan as the user has edited it; it is put to them again."""

    plan: dict[str, Any]


def plan(data: dict[str, Any], edited: dict[str, Any] | None = None, ttl: int = 0) -> Dialog:
    """A plan to approve, as it is or as the user has edited it. The answer is a `Reply`, or the plan `Rewritten`.

    ttl: minutes that it may wait; 0 for ever.
    """

    def approved(words: str) -> QuestionReply:
        return read_plan_verdict(words).but(plan=edited or {})

    def rewritten(text: str) -> Rewritten | None:
        changed = read_plan(text)
        return Rewritten(changed) if changed is not None else None

    def body(console: Console) -> Iterator[Text]:
        for line in plan_lines(edited or data, ttl):
            yield from prose(line, console)

    keys: dict[str, Act] = {
        "y": GiveAnswer(approved("y")),
        "a": GiveAnswer(approved("y acceptEdits")),
        "w": TextInput("yes, and> ", lambda words: approved(f"y {words}".strip())),
        "e": InEditor(plan_for_editor(edited or data), rewritten),
        "r": TextInput("change> ", lambda words: QuestionReply("revise", words.strip()) if words.strip() else None),
        "n": GiveAnswer(read_plan_verdict("n")),
    }
    return Dialog(
        "? Approve this plan? [y yes · a yes, and accept edits · w yes, with words · e edit it · r change it · n no, "
        "end here]",
        keys,
        body,
    )


def review(data: dict[str, Any]) -> Dialog:
    """What was done, before the work goes on. The answer is a `Reply`."""

    def body(console: Console) -> Iterator[Text]:
        for line in review_lines(data):
            yield from prose(line, console)
        yield from display_lines(review_diffs(data), whole=True)

    keys: dict[str, Act] = {
        "y": GiveAnswer(read_review("y")),
        "u": TextInput("undone; now> ", lambda words: read_review(f"u {words}")),
        "w": TextInput("go on, and> ", lambda words: read_review(f"y {words}")),
        "r": TextInput("change> ", lambda words: QuestionReply("revise", words.strip()) if words.strip() else None),
        "n": GiveAnswer(read_review("n")),
    }
    return Dialog(
        "? Go on? [y yes · w yes, with words · r change something first · u undo this · n no, end here]", keys, body
    )


def answer_line(answer: Any) -> str:
    """An answer as a line for the scrollback."""
    match answer:
        case bool() | Rest():
            return "yes" if answer is True or answer == Rest(True) else "no"
        case ByHunk():
            return "part by part"
        case Approve(rule="", scope=_):
            return "yes"
        case Approve(rule=rule, scope=scope):
            return f"yes, and always for {rule}, {'kept for this project' if scope == 'project' else 'in this session'}"
        case Reject(reason=reason):
            return f"no, because: {reason}" if reason else "no"
        case EditedCall():
            return "yes, changed"
        case Rewritten():
            return "edited"
        case QuestionReply(verdict=verdict, text=text):
            words = {"approve": "yes", "cancel": "no", "revise": "change it", "undo": "undo it", "answer": "answer"}[
                verdict
            ]
            return f"{words}: {text}" if text else words
    return str(answer)
