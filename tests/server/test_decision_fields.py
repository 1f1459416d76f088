"""Every field of a decision sent over HTTP has its effect, or the request is refused with a sentence that names it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_cli.kernel.runtime.user_decision import DECISION_FIELDS
from tests.support.scripts import call
from tests.support.served import Served, write_script

TWENTY = "".join(f"line {n}\n" for n in range(20))


def edit(*pairs: tuple[str, str]) -> dict[str, Any]:
    """A change of the file in several places."""
    edits = [{"file_path": "long.txt", "old_string": old, "new_string": new} for old, new in pairs]
    return call("MultiEdit", edits=edits)


CHANGE = edit(("line 1\n", "first\n"), ("line 18\n", "last\n"))
READ = {"calls": [call("Read", file_path="long.txt")]}
VALUES: dict[str, Any] = {
    "text": "mind the tabs", "rule": "RULE", "scope": "project", "mode": "acceptEdits", "hunks": [1],
    "comments": [{"path": "long.txt", "line": 2, "text": "mind the tabs"}],
    "arguments": {"file_path": "long.txt", "content": "x"}, "answers": ["yes"], "plan": {"steps": ["one"]},
}  # fmt: skip


def waiting(server: Served, *replies: dict[str, Any], mode: str = "default") -> tuple[str, dict[str, Any]]:
    """Start a session; return its ID and what it waits for."""
    (server.work / "long.txt").write_text(TWENTY, "utf-8")
    name = f"{len(list(server.work.parent.iterdir()))}.toml"
    session = server.begin("Go", write_script(server.work, *replies, name=name), mode=mode)
    return session, server.until(session, "waiting")["pending_items"][0]


def records(server: Served, session: str, kind: str) -> list[dict[str, Any]]:
    [path] = (server.work.parent / "home/state").rglob(f"{session}.jsonl")
    found = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    of_kind = [line.get("data", line) for line in found if line["type"] == kind]
    return [record for record in of_kind if record.get("decision") != "defer"]


@pytest.mark.parametrize("more", [{}, {"rule": True}, {"mode": "acceptEdits"}, {"rule": True, "mode": "acceptEdits"}])
def test_a_partial_approval_keeps_its_comment_rule_and_mode(server: Served, more: dict[str, Any]) -> None:
    again = edit(("line 5\n", "fifth\n"))
    expect = ["1 of the 2 parts", "mind the tabs"]
    session, item = waiting(server, READ, {"calls": [CHANGE]}, {"calls": [again], "expect": expect[1]}, {"text": "Ok."})
    more = {**more, "rule": item["always"]} if "rule" in more else more
    server.decide(session, "approve", text="mind the tabs", hunks=[1], **more)
    found = server.until(session, "done" if more else "waiting")
    text = (server.work / "long.txt").read_text("utf-8")
    assert ("first" in text, "last" in text, "fifth" in text) == (False, True, bool(more))
    resolved = records(server, session, "ApprovalResolved")
    mine = [record for record in resolved if record["call_id"] == item["call_id"]]
    assert [(r["decision"], r["reason"], r.get("rule", "")) for r in mine] == [
        ("approve", "mind the tabs", more.get("rule", ""))
    ]
    assert mine[0].get("mode", "") == more.get("mode", "")
    assert mine[0]["arguments"]["edits"]
    if not more:
        server.decide(session, "reject")
        found = server.until(session, "done")
    assert found["answer"] == "Ok."


def test_changed_arguments_keep_their_comment(server: Served) -> None:
    session, item = waiting(
        server,
        {"calls": [call("Write", file_path="w.txt", content="a")]},
        {"text": "Ok.", "expect": "mind the tabs"},
    )
    server.decide(session, "approve", text="mind the tabs", arguments={**item["arguments"], "content": "b"})
    assert server.until(session, "done")["answer"] == "Ok."
    assert (server.work / "w.txt").read_text() == "b"
    assert [r["decision"] for r in records(server, session, "ApprovalResolved")] == ["approve"]


def test_a_rule_is_kept_in_the_project(server: Served) -> None:
    session, item = waiting(server, {"calls": [call("Bash", command="touch kept-rule")]}, {"text": "Ok."})
    server.decide(session, "approve", rule=item["always"], scope="project")
    assert server.until(session, "done")["answer"] == "Ok."
    assert item["always"] in (server.work / ".agentrc.local").read_text("utf-8")


def test_an_edit_has_the_call_asked_about_again(server: Served) -> None:
    write = call("Write", file_path="edited.txt", content="a")
    session, item = waiting(server, {"calls": [write]}, {"text": "Ok.", "expect": "mind the tabs"})
    refused = server.decide(session, "edit", 422, text="words", arguments={**item["arguments"], "content": "b"})
    assert refused["error"]["message"].startswith("text: edit for a call does not take that")
    assert "edit needs the arguments" in server.decide(session, "edit", 422)["error"]["message"]
    server.decide(session, "edit", arguments={**item["arguments"], "content": "b"})

    def is_asked_again(found: dict[str, Any]) -> bool:
        return bool(found["pending_items"]) and found["pending_items"][0]["binding"] != item["binding"]

    [again] = server.until(session, is_asked_again)["pending_items"]
    assert again["arguments"]["content"] == "b" and not (server.work / "edited.txt").exists()
    server.decide(session, "approve", text="mind the tabs")
    assert server.until(session, "done")["answer"] == "Ok."
    assert (server.work / "edited.txt").read_text() == "b"


def test_a_comment_on_a_line_is_sent_with_its_place(server: Served) -> None:
    session, _ = waiting(server, READ, {"calls": [CHANGE]}, {"text": "Ok.", "expect": "On long.txt:2: why first?"})
    wrong = server.decide(session, "reject", 422, comments=[{"path": "b.txt", "text": "x"}])
    assert wrong["error"]["message"] == "comments: b.txt is not in this change."
    server.decide(session, "reject", text="No.", comments=[{"path": "long.txt", "line": 2, "text": "why first?"}])
    assert server.until(session, "done")["answer"] == "Ok."
    [said] = [record["reason"] for record in records(server, session, "ApprovalResolved") if record.get("user")]
    assert said == "No.\nOn long.txt:2: why first?"


def test_a_rejection_applies_although_an_earlier_approval_changed_the_mode(server: Served) -> None:
    calls = [call("Write", file_path=f"m{n}.txt", content="x") for n in (1, 2)]
    session, _ = waiting(server, {"calls": calls}, {"text": "Ok.", "expect": "not this one"})
    server.decide(session, "approve", mode="acceptEdits")
    server.decide(session, "reject", at=1, text="not this one")
    assert server.until(session, "done")["answer"] == "Ok."
    assert ((server.work / "m1.txt").exists(), (server.work / "m2.txt").exists()) == (True, False)


QUESTION = call("AskUserQuestion", questions=[{
    "question": "Go?", "header": "Go", "multiSelect": False,
    "options": [{"label": "yes", "description": "a"}, {"label": "no", "description": "b"}]}])  # fmt: skip
KINDS = {
    "approval": ([{"calls": [call("Bash", command="touch made")]}], "default"),
    "questions": ([{"calls": [QUESTION]}], "default"),
    "plan": ([{"calls": [call("ExitPlanMode", plan="Make it.", steps=["one"])]}], "plan"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_field_that_a_decision_does_not_take_is_refused_by_name(server: Served, kind: str) -> None:
    replies, mode = KINDS[kind]
    session, item = waiting(server, *replies, {"text": "Ok."}, mode=mode)

    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    @given(
        verdict=st.sampled_from(["approve", "reject", "answer", "undo"]),
        names=st.sets(st.sampled_from(sorted(VALUES)), max_size=4),
        unknown=st.sampled_from(["", "comment", "Rule", "verdict2"]),
    )
    def refused(verdict: str, names: set[str], unknown: str) -> None:
        takes = DECISION_FIELDS.get((kind, verdict))
        wrong = sorted(names - set(takes or ()))
        body = {"call_id": item["call_id"], "binding": item["binding"], "verdict": verdict}
        body |= {name: VALUES[name] for name in names} | ({unknown: "x"} if unknown else {})
        if takes is not None and not wrong and not unknown:
            return
        answer = server.request("POST", f"/v1/sessions/{session}/decisions", body)
        assert answer.status in (400, 422), answer.raw
        message = answer.data["error"]["message"]
        assert unknown in message
        assert unknown or takes is None or all(name in message for name in wrong), message

    refused()
    assert server.get(f"/v1/sessions/{session}")["state"] == "waiting", "a refused decision decides nothing"
    server.decide(session, "reject")
    server.until(session, lambda found: found["state"] != "waiting")


def test_coding_approve_changes_the_mode_only_if_asked_to(server: Served) -> None:
    plan = call("ExitPlanMode", plan="Make it.", steps=["one"])
    write = {"calls": [call("Write", file_path="c.txt", content="x")], "expect": "be brief"}
    session, _ = waiting(server, {"calls": [plan]}, write, {"text": "Ok."}, mode="plan")
    wrong = server.post(f"/coding/{session}/approve", {"approved": True, "hunks": [0]}, 422)["error"]["message"]
    assert wrong.startswith("hunks: ")
    assert (
        "modes" in server.post(f"/coding/{session}/approve", {"approved": True, "modes": "x"}, 422)["error"]["message"]
    )
    server.post(f"/coding/{session}/approve", {"approved": True, "feedback": "be brief"})
    found = server.until(session, lambda f: bool(f["pending_items"]) and f["pending_items"][0]["kind"] == "approval")
    assert not (server.work / "c.txt").exists(), found["mode"]
    server.post(f"/coding/{session}/approve", {"approved": True})
    assert server.until(session, "done")["answer"] == "Ok."
