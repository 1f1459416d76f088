"""Keys by chance: each character that is typed or pasted ends in one place, and only an Enter of the user sends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Any

from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from agent_cli import ApprovalQuestion
from agent_cli.kernel.runtime.edit_call import EditableCall
from agent_cli.shells.terminal.app.question_panel import OpenDialog
from agent_cli.shells.terminal.dialogs.approval import approval_dialog
from agent_cli.shells.terminal.dialogs.model import Dialog
from agent_cli.shells.terminal.dialogs.questions import plan_dialog, question_dialog
from agent_tools.cancel import CancelledError
from tests.support.hypothesis_examples import examples
from tests.support.terminal_stage import REQUEST, Stage, asked_plan, play

OPTIONS = [{"label": "Red"}, {"label": "Blue"}, {"label": "Green"}]
# Where the keys are pressed: in the input line of a session that does nothing (None) or works (""), and at questions.
PLACES: dict[str, Callable[[], Dialog] | None] = {
    "idle": None,
    "busy": None,
    "approval": lambda: approval_dialog(ApprovalQuestion(REQUEST, EditableCall("Bash", {"command": "touch a"}))),
    "question": lambda: question_dialog({"question": "Which?", "options": OPTIONS}),
    "several": lambda: question_dialog({"question": "Which?", "options": OPTIONS, "multiSelect": True}),
    "words": lambda: question_dialog({"question": "Why?", "options": []}),
    "plan": lambda: plan_dialog(asked_plan({"plan": "1. Touch it"})),
}
# `*` stands for a character that is not used twice, so that it can be found again.
TYPED = [
    "*",
    "* ",
    "**",
    "y*",
    "2*",
    "1/*",
    "/todos *",
    "2/todos *",
    "!*",
    "2 !*",
    "y",
    "n",
    "1",
    "2",
    "3",
    " ",
    "r",
    "22",
]
PASTED = [
    "*",
    "y*",
    "*\n*",
    "y\n*",
    "*\n\ny",
    "\n*",
    "1\n2\n*",
    "*\n*\n*\n*\n*\n*",
    "\t*\n\t*",
    "*" * 70 + "\n*",
    "2 !*\n*",
]
KEYS = st.one_of(
    st.tuples(st.just("type"), st.sampled_from(TYPED)),
    st.tuples(st.just("enter"), st.sampled_from(["\r", "\x1b[13;1u", "\x1b[27;1;13~"])),
    st.tuples(st.just("paste"), st.sampled_from(PASTED)),
    st.tuples(st.just("paste unmarked"), st.sampled_from([text for text in PASTED if "\n" in text])),
    st.tuples(st.just("program"), st.sampled_from(["*\r", "* *\r", "y*\r", "1\r", "2/todos *\r"])),
    st.tuples(st.just("key"), st.sampled_from(["\t", "\x1b[B", "\x1b[D", "\x1b[27u", "\x1b[Z"])),
    st.tuples(st.just("wait"), st.sampled_from([0.1, 0.5, 1.0, 5.0])),
)


class Hands:
    """What a user does, and which characters that was."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._fresh = map(chr, count(0x3B1))
        self.typed: Counter[str] = Counter()

    def _spell(self, text: str) -> str:
        spelled = "".join(next(self._fresh) if char == "*" else char for char in text)
        self.typed.update(char for char in spelled if _is_marked(char))
        return spelled

    def do(self, kind: str, what: Any) -> None:
        stage = self._stage
        match kind:
            case "type":
                for key in self._spell(what):
                    stage.press(key)
            case "paste":
                stage.press(f"\x1b[200~{self._spell(what)}\x1b[201~")
            case "paste unmarked":
                stage.press(self._spell(what).replace("\n", "\r"))
            case "program":
                stage.press(self._spell(what))
            case "wait":
                stage.rest()
                stage.now += what
            case _:
                stage.press(what)
        stage.rest()


def _is_marked(char: str) -> bool:
    return 0x3B1 <= ord(char) < 0x2000


def _messages(stage: Stage) -> list[str]:
    return [*stage.session.sent, *stage.live.queued]


def _places(stage: Stage, answers: list[Any]) -> list[str]:
    """All texts in which a character may be."""
    line, unsent = stage.live.line, stage.live.questions._unsent_replies.values()
    lines = [line.text, line.draft] if line.replying else [line.draft]
    return [*lines, *unsent, *_messages(stage), *stage.session.asides, *map(str, answers)]


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(place=st.sampled_from(sorted(PLACES)), actions=st.lists(KEYS, min_size=1, max_size=7))
def test_every_character_ends_in_one_place_and_only_enter_sends(place: str, actions: list[tuple[str, Any]]) -> None:
    answers: list[Any] = []
    dialog = PLACES[place]
    note(f"{place}: {actions}")

    def story(stage: Stage) -> None:
        def job(text: str) -> None:
            if dialog is None or text != "go":
                return
            ask = OpenDialog(dialog())
            stage.live.bridge.emit(ask)
            try:
                answers.append(ask.waiting.wait())
            except CancelledError:
                answers.append("")

        stage.session.job = job
        stage.session.knows = lambda command: False  # Esc twice sends /rewind
        if place != "idle":
            stage.press("go\r")
            stage.until(lambda: stage.session.sent)
            stage.until(lambda: dialog is None or stage.live.questions.ask is not None)
        hands = Hands(stage)
        for kind, what in actions:
            before, by_hand = len(_messages(stage)), stage.live.app.reader._by_hand
            hands.do(kind, what)
            # Few keys with one Enter that end a line begun by hand are typed, on a slow connection.
            ahead = kind == "paste unmarked" and by_hand and what.count("\n") == 1 and len(what) < 10
            sends = kind in ("enter", "program") or ahead
            assert len(_messages(stage)) <= before + sends, f"{kind} {what!r} sent {_messages(stage)}"
            assert Counter(filter(_is_marked, "".join(_places(stage, answers)))) == hands.typed, _places(stage, answers)

    play(story)
