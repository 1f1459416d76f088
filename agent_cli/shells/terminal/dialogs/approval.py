"""Ask the user to approve a call, whole or hunk by hunk: the dialogs, whose answers are the user's decisions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from agent_cli import Answer, ApprovalQuestion, ApprovalRequested, Defer, QuestionAsked, UsageError, UserDecision
from agent_cli.kernel.runtime.user_decision import DecisionWord
from agent_cli.shells.terminal.dialogs.model import (
    Block,
    Choice,
    Dialog,
    DiffBlock,
    Fact,
    GiveAnswer,
    InEditor,
    Put,
    ShellCommand,
    TextInput,
    Verbatim,
)
from agent_tools.fs.workspace import Workspace
from agent_tools.lookalikes import describe_lookalikes, escape_lookalikes
from agent_tools.record import Value
from agent_tools.registry import TraitsOf, tool_traits
from agent_tools.results import Diff
from agent_tools.text import one_line

YES, NO = ("y", "yes"), ("n", "no", "")
# Lines that select a lasting approval, by its key.
_NAMES = {"S": ("S",), "s": ("s", "all"), "a": ("a", "always"), "A": ("A", "Always", "ALWAYS"), "x": ("x",)}
_ALWAYS_NOT_OFFERED = '"always" is not offered for this call. Answer y to allow it once.'


class ReviewHunks(Value):
    """The answer that requests a review hunk by hunk, which makes the decision."""


class AskTogether(Value):
    """The answer that asks about this call and those behind it that are alike, all shown."""


class SkippedHunk(Value):
    """The answer that skips a hunk, and why."""

    why: str


class RemainingHunks(Value):
    """The answer for a hunk and all hunks after it."""

    take: bool


T = TypeVar("T")


def ask_until_valid(ask: Callable[[str], UserDecision | Defer], take: Callable[[UserDecision], T]) -> T | Defer:
    """Ask until the decision can be carried out, and return what `take` makes of it.

    ask: is given why the last decision was refused, "" at first.
    """
    refused = ""
    while True:
        decision = ask(refused)
        if isinstance(decision, Defer):
            return decision
        try:
            return take(decision)
        except UsageError as why:
            refused = str(why)


def ask_approval(
    request: ApprovalRequested,
    put: Put,
    workspace: Workspace,
    traits_of: TraitsOf = tool_traits,
    *,
    about: str = "",
    alike: Sequence[ApprovalRequested] = (),
    agree: Callable[[DecisionWord], None] = lambda verdict: None,
    put_call: Put | None = None,
) -> Answer:
    """Ask about a call.

    put_call: asks the question about the whole call, where it is asked elsewhere as well.
    about: for whom it is made, and its place among the calls of the answer.
    alike: the calls behind it that can be answered with it; agree: takes the verdict about all of them.
    """

    def ask(refused: str) -> UserDecision | Defer:
        question = ApprovalQuestion.of(request, workspace, traits_of)
        dialog = approval_dialog(question, len(alike))
        dialog = dialog.replace(
            about=" · ".join(filter(None, (one_line(about), dialog.about))),
            warnings=(*filter(None, (refused,)), *dialog.warnings),
        )
        decision: UserDecision | Defer | ReviewHunks | AskTogether = (put_call or put)(dialog)
        if isinstance(decision, AskTogether):
            verdict: DecisionWord | Defer | None = put(together_dialog((request, *alike)))
            if verdict is None:
                return ask(refused)
            if isinstance(verdict, Defer):
                return verdict
            agree(verdict)
            return decided(request, verdict)
        return _ask_hunks(question, put) if isinstance(decision, ReviewHunks) else decision

    return ask_until_valid(ask, lambda decision: decision.answer_to(request, workspace, traits_of=traits_of))


def are_alike(request: ApprovalRequested, other: ApprovalRequested) -> bool:
    """Return True if two calls do the same kind of thing, and nothing that the user is warned of."""
    kinds = [sorted({effect.kind for effect in r.effects}) for r in (request, other)]
    return (
        request.tool == other.tool
        and kinds[0] == kinds[1]
        and not any(ApprovalQuestion(r).grave for r in (request, other))
    )


def together_dialog(requests: Sequence[ApprovalRequested]) -> Dialog:
    """Build the question about several calls, all of which it shows.

    The answer is the verdict about all, or None for one question after the other.
    """
    count = len(requests)
    body: list[Block] = []
    for number, request in enumerate(requests, 1):
        question = ApprovalQuestion(request)
        about = f" · {question.about}" if question.about else ""
        body += [Verbatim(f"{number} of {count}: {question.title}{about}", "tool"), *_effect_blocks(question)]
    verdicts: tuple[DecisionWord, DecisionWord] = ("approve", "reject")
    return Dialog(
        Verbatim(f"{count} calls"),
        tuple(body),
        question="Allow all?",
        asks=f"Allow all {count}?",
        choices=(
            Choice("y", f"Yes, all {count}", GiveAnswer(verdicts[0]), YES, "yes"),
            Choice("o", "One by one", GiveAnswer(None), ("o",), "one by one"),
            Choice("n", "No, none of them", GiveAnswer(verdicts[1]), NO, "no"),
        ),
        reported=True,
    )


def _ask_hunks(question: ApprovalQuestion, put: Put) -> UserDecision | Defer:
    """Ask about each hunk of a change and return the decision about the call."""
    request, hunks = question.request, question.change.hunks
    kept: list[int] = []
    comments: list[str] = []
    rest: RemainingHunks | None = None
    for number, hunk in enumerate(hunks, 1):
        answer = rest.take if rest else put(hunk_dialog(hunk.diff, number, len(hunks), grave=question.grave))
        if isinstance(answer, Defer):
            return answer
        if isinstance(answer, RemainingHunks):
            rest, answer = answer, answer.take
        if isinstance(answer, SkippedHunk):
            comments.append(str(question.hunk_comment(number - 1, answer.why)))
        elif answer:
            kept.append(number - 1)
    said = "\n".join(comments)
    return decided(request, "approve", said).replace(hunks=tuple(kept)) if kept else decided(request, "reject", said)


def decided(asked: ApprovalRequested | QuestionAsked, verdict: DecisionWord, text: str = "") -> UserDecision:
    """Return a decision about the question that is shown."""
    return UserDecision(asked.call_id, "", verdict, text.strip())


def words_for(label: str, decision: UserDecision) -> TextInput:
    """Return the line that takes the words to go with a decision."""
    return TextInput(label, lambda words: decision.replace(text=words.strip()) if words.strip() else None)


def approval_dialog(question: ApprovalQuestion, alike: int = 0) -> Dialog:
    """Build the approval dialog of a call. It shows the whole call, as nothing unseen may be approved.

    alike: number of calls behind it that can be answered with it.
    """
    request = question.request
    lookalikes = describe_lookalikes(request.summary, *(e.target for e in request.effects))
    return Dialog(
        Verbatim(question.title, "ask"),
        tuple(_effect_blocks(question)),
        tuple(map(Fact, question.facts())),
        "Allow?",
        tuple(_choices(question, alike)),
        TextInput("no, because> ", lambda words: _parse_rejection(request, words), hint="or say why not"),
        about=question.about,
        warnings=(*([lookalikes] if lookalikes else []), *request.warnings),
        asks=question.sentence,
        grave=question.grave,
        reported=True,
        # Leaving a question must not drop a turn's work.
        escape="r" if question.staged else "n",
    )


def _choices(question: ApprovalQuestion, alike: int) -> Iterator[Choice]:
    request, change = question.request, question.change
    approve, reject = decided(request, "approve"), decided(request, "reject")
    yes, no_label = question.answers(("Yes", "No"))
    yield Choice("y", yes, GiveAnswer(approve), YES, "yes", why="this once", comment=words_for("yes, and> ", approve))
    if alike:
        others = f"{'the other one' if alike == 1 else f'the {alike} others'} like it"
        yield Choice("t", f"Show {others}, and answer together", GiveAnswer(AskTogether()), ("t",), "together")
    for number, offer in enumerate(question.lasting()):
        edits = offer.decision.mode == "acceptEdits"
        yield Choice(
            offer.key,
            f"Yes, and {offer.says}",
            GiveAnswer(offer.decision),
            _NAMES[offer.key],
            offer.words,
            why=offer.why,
            detail="Shift-Tab" if edits else "",
            comment=words_for("yes, and> ", offer.decision) if edits else None,
            mode_key=edits,
            rare=number > 0,
        )
    no = words_for("no, because> ", reject)
    why = "the model learns it; after a comment (Tab), the other calls of its answer are skipped"
    if question.staged:
        why = "the files stay in the state folder for 14 days; with a comment (Tab), the model continues in the copy"
    detail = "Tab: say what to do instead"
    names = NO[:2] if question.staged else NO  # an empty line must not drop a turn's work
    yield Choice("n", no_label, GiveAnswer(reject), names, no_label.lower(), detail=detail, why=why, comment=no)
    if change.name:

        def edited(text: str) -> UserDecision | None:
            arguments = change.edited(text)
            return decided(request, "edit").replace(arguments=arguments) if arguments is not None else None

        in_line = TextInput(f"{change.name}> ", edited, change.text)
        edit = in_line if change.single_line else InEditor(change.text, edited, change.suffix)
        yield Choice("e", "edit", edit, ("e", "edit"), listed=False)
    if change.hunks:
        hunks = f"{len(change.hunks)} hunks"
        yield Choice("h", f"review {hunks}", GiveAnswer(ReviewHunks()), ("h",), hunks, listed=False)
    yield Choice("r", "send back" if question.staged else "no, because", no, listed=False)


def _parse_rejection(request: ApprovalRequested, words: str) -> UserDecision | None:
    """Read a line that names no choice. Raises ValueError for "always", if it is not offered."""
    if words.lower() in ("a", "always"):
        raise ValueError(_ALWAYS_NOT_OFFERED)
    return decided(request, "reject", words) if words.strip() else None


def _effect_blocks(question: ApprovalQuestion) -> Iterator[Block]:
    """Yield the effects of a call that its title does not already state."""
    request = question.request
    yield from (ShellCommand(effect.target) for effect in request.effects if effect.kind == "run")
    yield from (Verbatim(f"  {line}", "dim") for line in question.effects())
    if request.preview is not None:
        single = isinstance(request.preview, Diff) and escape_lookalikes(request.preview.path) in question.title
        yield DiffBlock(request.preview, titled=single)


def hunk_dialog(hunk: Diff, number: int, of: int, *, grave: bool = False) -> Dialog:
    """Build the question about one hunk of a change. grave: the change is.

    The answer is True, False, a `SkippedHunk` or `RemainingHunks`.
    """
    left = of - number + 1
    where = f"hunk {number} of {of} of {escape_lookalikes(hunk.path)}"

    def told(answer: bool | SkippedHunk | RemainingHunks) -> str:
        if isinstance(answer, SkippedHunk):
            return f"✗ skipped {where}: {one_line(answer.why)}"
        if isinstance(answer, RemainingHunks):
            return "" if answer.take else f"✗ skipped {where}{' and those behind it' if left > 1 else ''}"
        return "" if answer else f"✗ skipped {where}"

    why = TextInput("skip, because> ", lambda words: SkippedHunk(words.strip()) if words.strip() else None)
    rest = (
        Choice("a", f"Apply all {left} hunks that are left", GiveAnswer(RemainingHunks(True)), ("a",), "all the rest"),
        Choice("d", f"Skip all {left} hunks that are left", GiveAnswer(RemainingHunks(False)), ("d",), "skip the rest"),
    )
    return Dialog(
        Verbatim(f"Hunk {number} of {of} · {escape_lookalikes(hunk.path)}", "ask"),
        (DiffBlock(hunk, titled=True),),
        question="Apply this hunk?",
        asks=f"Apply hunk {number} of {of} to {escape_lookalikes(hunk.path)}?",
        choices=(
            Choice("y", "Yes, apply this hunk", GiveAnswer(True), YES, "yes"),
            Choice("n", "No, skip it", GiveAnswer(False), ("n", "no"), "no", comment=why),
            *(rest if left > 1 else ()),
        ),
        escape="d" if left > 1 else "n",
        told=told,
        grave=grave,
    )
