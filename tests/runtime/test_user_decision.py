"""A decision's fields reach the model, the rules and the log, or the decision is refused by the field's name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agent_cli.kernel.decisions import (
    Answer,
    Approve,
    EditedCall,
    QuestionReply,
    Reject,
    recorded_answer,
    recorded_reply,
    reply_record,
)
from agent_cli.kernel.events import ApprovalRequested, ApprovalResolved, QuestionAsked
from agent_cli.kernel.run_environment import UsageError
from agent_cli.kernel.runtime.edit_call import editable_call
from agent_cli.kernel.runtime.user_decision import DECISION_FIELDS, UserDecision
from agent_tools.fs.workspace import Workspace
from agent_tools.record import from_json, to_json
from tests.support.decisions import EDITS, LINES, OTHER, DecidedCall
from tests.support.scripts import call
from tests.support.turns import World

FIELDS: dict[str, tuple[Any, Any]] = {
    "text": ("", "mind the tabs"),
    "rule": ("", "RULE"),
    "scope": ("session", "project"),
    "mode": ("", "acceptEdits"),
    "hunks": (None, (1,)),
    "arguments": (None, OTHER),
    "answers": ((), ("yes",)),
    "plan": ({}, {"plan": "Other.", "steps": ["only one"]}),
}
SLOW_IS_FINE = settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
fields_given = st.sets(st.sampled_from(sorted(FIELDS))).map(
    lambda names: {name: values[name in names] for name, values in FIELDS.items()}
)


class Decision:
    """A user who decides with these fields."""

    def __init__(self, verdict: str, fields: dict[str, Any]) -> None:
        self.verdict, self.fields = verdict, fields
        self.refused = ""

    def __call__(self, request: ApprovalRequested, workspace: Workspace) -> Answer:
        if self.verdict == "edit" and request.arguments == OTHER:
            return Reject()
        rule = request.always if self.fields["rule"] else ""
        decision = UserDecision(request.call_id, "", self.verdict, **{**self.fields, "rule": rule})  # type: ignore[arg-type]
        try:
            return decision.answer_to(request, workspace, "anna")
        except UsageError as refused:
            self.refused = str(refused)
            return Reject("refused")


NOTHING = {name: default for name, (default, _) in FIELDS.items()}


@SLOW_IS_FINE
@given(verdict=st.sampled_from(["approve", "reject", "edit", "answer", "undo"]), fields=fields_given)
@example(verdict="approve", fields={**NOTHING, "mode": "plan", "text": "then plan"})
@example(verdict="approve", fields={**NOTHING, "mode": "plan", "hunks": (1,), "text": "then plan"})
@example(verdict="approve", fields={**NOTHING, "mode": "dontAsk", "arguments": OTHER})
def test_every_field_of_a_decision_about_a_call_has_its_effect_or_is_refused(
    tmp_path_factory: pytest.TempPathFactory, verdict: str, fields: dict[str, Any]
) -> None:
    decision = Decision(verdict, fields)
    found = DecidedCall(tmp_path_factory.mktemp("w"), decision)
    takes = DECISION_FIELDS.get(("approval", verdict))
    wrong = [name for name in FIELDS if fields[name] != NOTHING[name] and name not in (takes or ())]
    impossible = (fields["hunks"] and fields["arguments"]) or (fields["scope"] == "project" and not fields["rule"])
    impossible = impossible or (verdict == "edit" and not fields["arguments"])
    assert bool(decision.refused) == bool(takes is None or wrong or impossible), decision.refused
    if decision.refused:
        assert takes is None or all(name in decision.refused for name in wrong)
    elif verdict == "edit":
        assert [(record.decision, record.arguments) for record in found.records[:1]] == [("reject", OTHER)]
        assert len(found.world.asked) == 2 and found.world.asked[1].arguments == OTHER
    elif verdict == "reject":
        found.check(verdict, fields["text"], user="anna")
    else:
        given = {name: fields[name] for name in ("text", "scope", "mode")}
        rule, hunks = found.always if fields["rule"] else "", fields["hunks"] or (0, 1)
        found.check(verdict, **given, rule=rule, hunks=hunks, other=bool(fields["arguments"]), user="anna")


ASKED = {
    "plan": {"plan": "Make it.", "steps": ["one", "two"]},
    "review": {"title": "Review", "files": []},
    "questions": {"questions": [{"question": "Go?", "header": "", "options": [], "multiSelect": False}]},
}


@SLOW_IS_FINE
@given(
    kind=st.sampled_from(sorted(ASKED)),
    verdict=st.sampled_from(["approve", "reject", "edit", "answer", "undo"]),
    fields=fields_given,
)
def test_every_field_of_a_decision_about_a_question_is_in_the_reply_or_is_refused(
    tmp_path_factory: pytest.TempPathFactory, kind: Any, verdict: Any, fields: dict[str, Any]
) -> None:
    asked = QuestionAsked("c1", kind, ASKED[kind])
    takes = DECISION_FIELDS.get((kind, verdict))
    wrong = [name for name, (default, _) in FIELDS.items() if fields[name] != default and name not in (takes or ())]
    needs_words = verdict == "answer" and not fields["text"] and not (kind == "questions" and fields["answers"])
    try:
        decision = UserDecision("c1", "", verdict, **fields)
        reply = decision.answer_to(asked, Workspace(tmp_path_factory.getbasetemp()), "anna")
    except UsageError as refused:
        assert takes is None or wrong or needs_words, refused
        assert takes is None or not wrong or all(name in str(refused) for name in wrong)
        return
    assert takes is not None
    assert not wrong
    assert not needs_words
    assert isinstance(reply, QuestionReply)
    assert fields["text"] in reply.text
    assert all(answer in reply.text for answer in fields["answers"])
    assert ((reply.mode or ""), reply.plan, reply.user) == (fields["mode"], fields["plan"], "anna")
    assert recorded_reply(reply_record(asked, reply)) == reply


def test_decisions_stored_before_this_version_are_read(tmp_path: Path) -> None:
    stored = json.loads((Path(__file__).with_name("stored_decisions.json")).read_text("utf-8"))
    decisions = [from_json(UserDecision, entry) for entry in stored["inbox"]]
    assert [to_json(decision)["type"] for decision in decisions] == ["UserVerdict"] * len(decisions)
    call_request = ApprovalRequested("c1", "Bash", "Run: ls", "asks", (), str(tmp_path), arguments={"command": "ls"})
    answers = [decision.answer_to(call_request, Workspace(tmp_path), "anna") for decision in decisions]
    assert answers == [
        Approve(note="go", user="anna"),
        Reject("no", user="anna"),
        EditedCall({"command": "pwd"}, "[The user changed the arguments of this call.]", True, user="anna"),
    ]
    records = [from_json(ApprovalResolved, entry) for entry in stored["log"]]
    assert [recorded_answer(record) for record in records] == [Approve(note="go"), Reject("no")]


def test_a_changed_file_refuses_the_hunks_that_were_shown(tmp_path: Path) -> None:
    found = DecidedCall(tmp_path, Decision("reject", NOTHING))
    [request] = found.world.asked
    workspace = found.world.deps.context.workspace
    assert len(editable_call(request, workspace).hunks) == 2
    for hunks in ((), (2,), (0, 7), (-1,)):
        with pytest.raises(UsageError, match="hunks: this change has 2; name at least one of them"):
            UserDecision("c", "", "approve", hunks=hunks).answer_to(request, workspace)
    with pytest.raises(UsageError, match="rule: only the rules that the question offers"):
        UserDecision("c", "", "approve", rule="Bash").answer_to(request, workspace)
    (tmp_path / "a.txt").write_text("else\n")
    with pytest.raises(UsageError, match="its file has changed"):
        UserDecision("c", "", "approve", hunks=(1,)).answer_to(request, workspace)


def test_a_question_says_why_it_comes_late_or_again(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(LINES)
    first, second = [call("Edit", file_path="a.txt", **edit) for edit in EDITS]
    read, grow = {"calls": [call("Read", file_path="a.txt")]}, call("Bash", command="sh grow.sh")
    late = World(tmp_path, [read, {"calls": [first, second]}, {"text": "Done."}], [Approve(), Approve()])
    late.turn()
    assert [[fact for fact in asked.facts if fact.startswith("asked only now")] for asked in late.asked] == [
        [],
        [f"asked only now, as this changed {tmp_path / 'a.txt'} first: Edit a.txt (+1 -1)"],
    ]
    outside = tmp_path / "outside.txt"
    outside.write_text("1\n")
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "grow.sh").write_text("echo 2 >> ../outside.txt\n")
    look = call("Read", file_path=str(outside))
    again = World(inner, [{"calls": [grow, look]}, {"text": "Done."}], [Approve(), Approve(), Approve()])
    again.turn()
    assert [asked.tool for asked in again.asked] == ["Bash", "Read", "Read"]
    why = again.asked[2].warnings[0]
    assert why == f"changed since you were asked: {outside}, while this ran: Run: sh grow.sh"
    assert why in again.asked[2].facts
