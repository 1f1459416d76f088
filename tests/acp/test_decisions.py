"""What the user decides in an editor is what reaches the model, the rules and the log; nothing else is a yes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_cli.kernel.events import ApprovalResolved, QuestionAnswered
from agent_cli.shells.acp.questions import EditorQuestions
from agent_cli.shells.terminal.dialogs.approval import ask_approval
from agent_cli.shells.terminal.dialogs.model import Put
from agent_cli.shells.terminal.dialogs.questions import ask_question
from agent_tools.cancel import CancelToken
from tests.support.decisions import DecidedCall, DecidedQuestion
from tests.support.hypothesis_examples import examples

WORDS = "mind the tabs"
EXAMPLES = settings(max_examples=examples(120), deadline=None, suppress_health_check=list(HealthCheck))


class Editor:
    """An editor whose user takes these options and gives these texts, in order; None declines a form.

    forms: it can show them. offered: the options of each request.
    """

    def __init__(self, options: list[str], texts: list[Any], *, forms: bool) -> None:
        self._options, self._texts, self._forms = options, texts, forms
        self.offered: list[dict[str, str]] = []

    def offers(self, *keys: str) -> bool:
        return self._forms and keys == ("elicitation", "form")

    def request(self, method: str, params: Mapping[str, Any], cancel: CancelToken) -> dict[str, Any]:
        if method == "elicitation/create":
            text = self._texts.pop(0)
            return {"action": "decline"} if text is None else {"action": "accept", "content": {"answer": text}}
        self.offered.append({option["optionId"]: option["kind"] for option in params["options"]})
        return {"outcome": {"outcome": "selected", "optionId": self._options.pop(0)}}

    def put(self) -> Put:
        questions = EditorQuestions(self, "s1", lambda text: None)  # type: ignore[arg-type]
        return lambda dialog: questions.put(dialog, CancelToken())


CALL_OPTIONS: dict[str, dict[str, Any]] = {
    "y": {"verdict": "approve"},
    "s": {"verdict": "approve", "mode": "acceptEdits"},
    "a": {"verdict": "approve", "rule": "always"},
    "A": {"verdict": "approve", "rule": "always", "scope": "project"},
    "x": {"verdict": "approve", "rule": "exact"},
    "n": {"verdict": "reject"},
}


@EXAMPLES
@given(
    key=st.sampled_from([*CALL_OPTIONS, "r", "e", "h", "Y", "allow_always", ""]),
    text=st.sampled_from([None, WORDS, "y"]),
    forms=st.booleans(),
)
def test_every_option_of_a_call(
    tmp_path_factory: pytest.TempPathFactory, key: str, text: str | None, forms: bool
) -> None:
    editor = Editor([key], [text], forms=forms)
    put = editor.put()
    found = DecidedCall(tmp_path_factory.mktemp("w"), lambda request, files: ask_approval(request, put, files))
    assert set(editor.offered[0]) == {*CALL_OPTIONS, *("r" if forms else "")}
    assert {k for k, kind in editor.offered[0].items() if kind == "allow_always"} == {*"saAx"}
    if key in CALL_OPTIONS:
        expected = CALL_OPTIONS[key]
        rules = {"always": found.always, "exact": found.exact}
        found.check(**{**expected, "rule": rules.get(expected.get("rule", ""), "")})
    elif key == "r" and forms:
        found.check("reject", text or "")
    else:
        assert found.changes == (False, False, False)
        assert [r for r in found.world.of(ApprovalResolved)[1:] if r.decision == "approve"] == []
        assert found.saved == [] and found.world.policy.mode == "default"


PLAN_OPTIONS: dict[str, dict[str, Any]] = {
    "y": {"verdict": "approve"},
    "a": {"verdict": "approve", "mode": "acceptEdits"},
    "n": {"verdict": "cancel"},
}


@EXAMPLES
@given(
    key=st.sampled_from([*PLAN_OPTIONS, "r", "w", "e", "bypassPermissions"]),
    text=st.sampled_from([None, WORDS, "y"]),
    forms=st.booleans(),
)
def test_every_option_of_a_plan(
    tmp_path_factory: pytest.TempPathFactory, key: str, text: str | None, forms: bool
) -> None:
    put = Editor([key], [text], forms=forms).put()
    found = DecidedQuestion(tmp_path_factory.mktemp("w"), "plan", lambda asked, files: ask_question(asked, put, files))
    if key in PLAN_OPTIONS:
        found.check(**PLAN_OPTIONS[key])
    elif key == "r" and forms:
        found.check("revise" if text else "cancel", text or "")
    else:
        assert found.world.of(QuestionAnswered) == []
        assert found.world.policy.mode == "plan"


@EXAMPLES
@given(
    one=st.sampled_from([("1", "", "red"), ("2", "", "blue"), ("r", WORDS, WORDS), ("r", "2", "blue")]),
    several=st.sampled_from([(["1"], "1"), (["1", "8"], "1, 8"), (["2", "1"], "2, 1")]),
)
def test_every_answer_to_questions(
    tmp_path_factory: pytest.TempPathFactory, one: tuple[str, str, str], several: tuple[list[str], str]
) -> None:
    key, text, answer = one
    editor = Editor([key], [*([text] if text else []), several[0]], forms=True)
    put = editor.put()
    found = DecidedQuestion(tmp_path_factory.mktemp("w"), "questions", lambda a, files: ask_question(a, put, files))
    found.check("answer", f"Which? -> {answer}\nWhich ones? -> {several[1]}")
