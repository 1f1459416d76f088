"""What the user decides in the terminal, by keys or by lines, is what reaches the model, the rules and the log."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

from agent_cli.kernel.decisions import Answer
from agent_cli.kernel.events import EDITED, ApprovalRequested, ApprovalResolved, QuestionAnswered
from agent_cli.shells.terminal.dialogs.approval import ask_approval
from agent_cli.shells.terminal.dialogs.lines import LineDialogs
from agent_cli.shells.terminal.dialogs.model import Dialog, GiveAnswer, InEditor, TextInput
from agent_cli.shells.terminal.dialogs.questions import ask_question
from agent_tools.fs.workspace import Workspace
from tests.support.decisions import DecidedCall, DecidedQuestion
from tests.support.hypothesis_examples import examples
from tests.support.scripts import call
from tests.support.turns import World

WORDS = "mind the tabs"
EXAMPLES = settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
# What a key decides, besides the words that may go with it.
CALL_KEYS: dict[str, dict[str, Any]] = {
    "y": {"verdict": "approve"},
    "s": {"verdict": "approve", "mode": "acceptEdits"},
    "a": {"verdict": "approve", "rule": "always"},
    "A": {"verdict": "approve", "rule": "always", "scope": "project"},
    "x": {"verdict": "approve", "rule": "exact"},
    "n": {"verdict": "reject"},
    "r": {"verdict": "reject"},
}
# What a line decides.
CALL_LINES: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("y", "YES"), CALL_KEYS["y"]),
    **dict.fromkeys(("s", "all"), CALL_KEYS["s"]),
    **dict.fromkeys(("a", "always"), CALL_KEYS["a"]),
    **dict.fromkeys(("A", "Always"), CALL_KEYS["A"]),
    "x": CALL_KEYS["x"],
    **dict.fromkeys(("n", "No", ""), CALL_KEYS["n"]),
    WORDS: {"verdict": "reject", "text": WORDS},
}


def press(key: str, words: str = "") -> Callable[[Dialog], Any]:
    """What a key in the application answers: with words behind Tab, in the line that it opens, or in the editor."""

    def put(dialog: Dialog) -> Any:
        choice = dialog.by_key(key)
        assert choice is not None, (key, dialog.title)
        if words and choice.comment is not None:
            return choice.comment.read(words)
        if isinstance(choice.act, GiveAnswer):
            return choice.act.answer
        assert isinstance(choice.act, TextInput | InEditor)
        return choice.act.read(words)

    return put


def typed(*lines: str) -> Callable[[Dialog], Any]:
    """What the plain front end answers to these lines."""
    left: Iterator[str] = iter(lines)
    return LineDialogs(Console(file=io.StringIO(), width=80), lambda label: next(left)).put


def in_order(*puts: Callable[[Dialog], Any]) -> Callable[[Dialog], Any]:
    """The next answer for each dialog."""
    left = iter(puts)
    return lambda dialog: next(left)(dialog)


def ask(put: Callable[[Dialog], Any]) -> Callable[[ApprovalRequested, Workspace], Answer]:
    return lambda request, workspace: ask_approval(request, put, workspace)


def check(found: DecidedCall, expected: dict[str, Any]) -> None:
    rules = {"always": found.always, "exact": found.exact}
    found.check(**{**expected, "rule": rules.get(expected.get("rule", ""), "")})


@EXAMPLES
@given(key=st.sampled_from(sorted(CALL_KEYS)), words=st.sampled_from(["", WORDS, "y", "acceptEdits"]))
def test_every_key_at_a_call(tmp_path_factory: pytest.TempPathFactory, key: str, words: str) -> None:
    if key == "r" and not words:
        return  # the question stays open
    takes_words = key in "ysnr"
    found = DecidedCall(tmp_path_factory.mktemp("w"), ask(press(key, words if takes_words else "")))
    check(found, {**CALL_KEYS[key], "text": words if takes_words else ""})


@EXAMPLES
@given(line=st.sampled_from(sorted(CALL_LINES)))
def test_every_line_at_a_call(tmp_path_factory: pytest.TempPathFactory, line: str) -> None:
    check(DecidedCall(tmp_path_factory.mktemp("w"), ask(typed(line))), CALL_LINES[line])


@EXAMPLES
@given(by_lines=st.booleans(), answers=st.lists(st.sampled_from(["y", "n", WORDS, "a", "d"]), min_size=2, max_size=2))
def test_every_choice_of_hunks(tmp_path_factory: pytest.TempPathFactory, by_lines: bool, answers: list[str]) -> None:
    if answers[1] in "ad" and answers[0] not in "ad":
        answers = [answers[0], {"a": "y", "d": "n"}[answers[1]]]  # offered where hunks are left
    if by_lines:
        answers = ["n" if answer == WORDS else answer for answer in answers]
        put = typed("h", *answers)
    else:
        put = in_order(press("h"), *(press("n", WORDS) if a == WORDS else press(a) for a in answers))
    made = [answers[0] in "ya", answers[0] == "a" or (answers[0] != "d" and answers[1] in "ya")]
    hunks = tuple(at for at in (0, 1) if made[at])
    skipped = answers[:1] if answers[0] in "ad" else answers
    said = [
        f"On a.txt:{first}: {WORDS}" for answer, first in zip(skipped, ("1", "27"), strict=False) if answer == WORDS
    ]
    found = DecidedCall(tmp_path_factory.mktemp("w"), ask(put))
    found.check("approve" if hunks else "reject", "\n".join(said), hunks=hunks or (0, 1))


def test_an_edited_call_is_asked_about_again(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    edit = call("Edit", file_path="a.txt", old_string="one", new_string="two")
    put = in_order(press("e", "three"), press("y", WORDS))
    world = World(tmp_path, [{"calls": [call("Read", file_path="a.txt")]}, {"calls": [edit]}, {"text": "Done."}])
    world.deps = world.deps.replace(approver=lambda asked: ask(put)(asked, world.deps.context.workspace))
    world.turn()
    changed = {"file_path": "a.txt", "old_string": "one", "new_string": "three"}
    first, second = world.of(ApprovalResolved)[1:]
    assert (first.decision, first.reason, first.arguments) == ("reject", EDITED, changed)
    assert (second.decision, second.reason, second.arguments) == ("approve", WORDS, None)
    assert [asked.arguments for asked in world.of(ApprovalRequested)][1:] == [changed]
    assert (tmp_path / "a.txt").read_text() == "three\n"
    assert f"said: {WORDS}" in world.results[-1].text


PLAN_KEYS: dict[tuple[str, str], dict[str, Any]] = {
    ("y", ""): {"verdict": "approve"},
    ("y", WORDS): {"verdict": "approve", "text": WORDS},
    ("w", WORDS): {"verdict": "approve", "text": WORDS},
    ("y", "acceptEdits be quick"): {"verdict": "approve", "mode": "acceptEdits", "text": "be quick"},
    ("a", ""): {"verdict": "approve", "mode": "acceptEdits"},
    ("a", WORDS): {"verdict": "approve", "mode": "acceptEdits", "text": WORDS},
    ("r", WORDS): {"verdict": "revise", "text": WORDS},
    ("n", ""): {"verdict": "cancel"},
}
PLAN_LINES: dict[str, dict[str, Any]] = {
    "y": {"verdict": "approve"},
    "looks good": {"verdict": "approve"},
    f"y {WORDS}": {"verdict": "approve", "text": WORDS},
    f"y acceptEdits {WORDS}": {"verdict": "approve", "mode": "acceptEdits", "text": WORDS},
    "a": {"verdict": "approve", "mode": "acceptEdits"},
    WORDS: {"verdict": "revise", "text": WORDS},
    "n": {"verdict": "cancel"},
    "": {"verdict": "cancel"},
}


def rewrite(dialog: Dialog) -> Any:
    choice = dialog.by_key("e")
    assert choice is not None and isinstance(choice.act, InEditor)
    return choice.act.read(choice.act.text.replace("Make it.", "Make it small."))


@EXAMPLES
@given(how=st.one_of(st.sampled_from(sorted(PLAN_KEYS)), st.sampled_from(sorted(PLAN_LINES))), edited=st.booleans())
def test_every_decision_about_a_plan(
    tmp_path_factory: pytest.TempPathFactory, how: str | tuple[str, str], edited: bool
) -> None:
    expected = PLAN_LINES[how] if isinstance(how, str) else PLAN_KEYS[how]
    answer = typed(how) if isinstance(how, str) else press(*how)
    put = in_order(rewrite, answer) if edited else answer
    found = DecidedQuestion(tmp_path_factory.mktemp("w"), "plan", lambda asked, files: ask_question(asked, put, files))
    [record] = found.world.of(QuestionAnswered)
    assert record.plan.get("plan", "") == ("Make it small." if edited and expected["verdict"] == "approve" else "")
    found.check(**expected, plan=record.plan or None)


@EXAMPLES
@given(
    one=st.sampled_from([("1", "red"), ("2", "blue"), ("Blue", "blue"), (WORDS, WORDS), ("n", "(no answer)")]),
    several=st.sampled_from([("1", "1"), ("1, 2", "1, 2"), ("3", "8"), ("8", "8"), ("2,3", "2, 8"), (WORDS, WORDS)]),
    by_lines=st.booleans(),
)
def test_every_answer_to_questions(
    tmp_path_factory: pytest.TempPathFactory, one: tuple[str, str], several: tuple[str, str], by_lines: bool
) -> None:
    if by_lines:
        put = typed("" if one[0] == "n" else one[0], several[0])
    else:
        marks = [int(word) - 1 for word in several[0].replace(",", " ").split() if word in "123"]
        first = press(one[0]) if len(one[0]) == 1 else press("r", one[0])
        second = (lambda dialog: dialog.several(tuple(marks))) if marks else press("r", several[0])
        put = in_order(first, second)
        labels = ", ".join(["1", "2", "8"][mark] for mark in marks)
        several = several[0], labels or several[1]
    found = DecidedQuestion(tmp_path_factory.mktemp("w"), "questions", lambda a, files: ask_question(a, put, files))
    found.check("answer", f"Which? -> {one[1]}\nWhich ones? -> {several[1]}")
