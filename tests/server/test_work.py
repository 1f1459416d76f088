"""Work over HTTP: start, watch, decide, steer, interrupt, undo; all in the real server with real workers."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_cli.extras.server.coding import awaited_stage
from tests.support.program import agent
from tests.support.scripts import bash, call, script
from tests.support.served import Served, served, write_script

TWENTY = "".join(f"line {n}\n" for n in range(20))


@pytest.fixture
def server(work: Path) -> Iterator[Served]:
    with served(work) as running:
        yield running


def edit(*pairs: tuple[str, str], path: str = "long.txt") -> dict[str, Any]:
    """A change of a file in several places."""
    edits = [{"file_path": path, "old_string": old, "new_string": new} for old, new in pairs]
    return call("MultiEdit", edits=edits)


def test_a_hunk_is_approved_and_the_turn_goes_on(server: Served) -> None:
    (server.work / "long.txt").write_text(TWENTY, "utf-8")
    change = edit(("line 1\n", "first\n"), ("line 18\n", "last\n"))
    session = server.begin(
        "Change it",
        write_script(server.work, {"text": "Now.", "calls": [call("Read", file_path="long.txt")]},
                     {"calls": [change]}, {"text": "Done.", "expect": "1 of the 2 parts"}),
    )  # fmt: skip
    found = server.until(session, "waiting")
    item = found["pending_items"][0]
    assert [h["index"] for h in item["hunks"]] == [0, 1]
    assert (item["request"], item["kind"], found["pending"]) == ("Change it", "approval", 1)
    decided = server.decide(session, "approve", hunks=[1])
    assert (decided["decided"], decided["left"]) == ("approved by owner", 0)
    done = server.until(session, "done")
    assert done["answer"] == "Done."
    assert (server.work / "long.txt").read_text("utf-8") == TWENTY.replace("line 18\n", "last\n")
    assert done["decisions"][-1]["user"] == "owner"
    diff = server.get(f"/v1/sessions/{session}/diff")
    assert [(f["path"], f["added"], f["removed"], f["status"]) for f in diff["files"]] == [
        ("long.txt", 1, 1, "modified")
    ]


def test_a_project_is_named_by_its_path_its_name_or_its_id(server: Served) -> None:
    model = f"scripted:{write_script(server.work, {'text': 'Hello.'})}"
    for project in (str(server.work), server.work.name, server.project):
        server.post("/v1/sessions", {"prompt": "Hi", "project": project, "model": model}, 201)
    answer = server.request("POST", "/v1/sessions", {"prompt": "Hi", "project": "/nope", "model": model})
    assert answer.status == 404
    assert answer.data["error"]["message"] == f"There is no project /nope on this server. It has: {server.work.name}."


def test_a_rejection_with_words_reaches_the_model(server: Served) -> None:
    session = server.begin(
        "Write it",
        write_script(server.work, {"calls": [call("Write", file_path="n.txt", content="x")]},
                     {"text": "As you say.", "expect": "use notes.txt instead"}),
    )  # fmt: skip
    server.until(session, "waiting")
    server.decide(session, "reject", text="use notes.txt instead")
    assert server.until(session, "done")["answer"] == "As you say."
    assert not (server.work / "n.txt").exists()


def test_questions_and_an_edited_plan(server: Served) -> None:
    ask = call("AskUserQuestion", questions=[{
        "question": "Which base?", "header": "Base",
        "options": [{"label": "SQLite", "description": "a file"}, {"label": "Postgres", "description": "a server"}],
        "multiSelect": False}])  # fmt: skip
    plan = call("ExitPlanMode", plan="Make it.", steps=["one", "two"], files_to_create=["n.txt"])
    replies = [{"calls": [ask]}, {"calls": [plan], "expect": "SQLite"}, {"text": "Planned.", "expect": "only one"}]
    session = server.begin("Plan it", write_script(server.work, *replies), mode="plan")
    found = server.until(session, "waiting")
    assert found["pending_items"][0]["kind"] == "question"
    wrong = server.decide(session, "answer", 422, answers=["7"])
    assert "choose 1 to 2" in wrong["error"]["message"]
    server.decide(session, "answer", answers=["1"])
    item = server.until(session, lambda f: bool(f["pending_items"]) and f["pending_items"][0]["kind"] == "plan")[
        "pending_items"
    ][0]
    assert item["plan"]["files_to_create"] == ["n.txt"]
    server.decide(session, "approve", mode="acceptEdits", plan={**item["plan"], "steps": ["only one"]})
    done = server.until(session, lambda f: f["state"] in ("done", "failed"))
    assert done["answer"].startswith("Planned.")
    assert [step["content"] for step in done["plan"]] == ["only one"]


def test_the_first_of_two_decisions_wins(server: Served) -> None:
    phone = agent(["serve", "token", "add", "phone", "--role", "decide"], server.work).stdout.strip()
    calls = [call("Write", file_path="x.txt", content="a"), call("Write", file_path="y.txt", content="b")]
    session = server.begin("Write", write_script(server.work, {"calls": calls}, {"text": "Ok."}))
    items = server.until(session, "waiting")["pending_items"]
    body = {"call_id": items[0]["call_id"], "binding": items[0]["binding"]}
    first = server.post(f"/v1/sessions/{session}/approve", body, token=phone)
    assert (first["decided_by"], first["left"]) == ("phone", 1), items
    second = server.post(f"/v1/sessions/{session}/reject", body, 409)["error"]
    assert (second["code"], second["decided_by"], second["decision"]) == ("decided", "phone", "approved")
    assert server.get(f"/v1/sessions/{session}")["state"] == "waiting"
    assert not (server.work / "x.txt").exists()
    server.decide(session, "approve", at=1)
    server.until(session, "done")
    assert (server.work / "x.txt").read_text("utf-8") == "a"
    # Also after it was carried out, and in the log: who it was.
    late = server.post(f"/v1/sessions/{session}/reject", body, 409)["error"]
    assert (late["code"], late["decided_by"]) == ("decided", "phone")
    assert "approved by phone" in agent(["show", session], server.work).stdout
    assert "approved by phone" in server.request("GET", f"/v1/sessions/{session}/export").raw.decode()


def test_what_changed_since_is_asked_again(server: Served) -> None:
    (server.work / "f.txt").write_text("one\n", "utf-8")
    replies = [
        {"calls": [call("Read", file_path="f.txt")]},
        {"calls": [call("Write", file_path="f.txt", content="two\n")]},
        {"text": "Done."},
    ]
    session = server.begin("Write", write_script(server.work, *replies))
    before = server.until(session, "waiting")["pending_items"][0]
    (server.work / "f.txt").write_text("somebody else\n", "utf-8")
    server.decide(session, "approve")
    found = server.until(
        session, lambda f: f["state"] != "running" and (not f["pending_items"] or f["pending_items"][0] != before)
    )
    assert (server.work / "f.txt").read_text("utf-8") == "somebody else\n", found


def test_messages_are_queued_and_steered_and_a_turn_is_interrupted(server: Served) -> None:
    slow = {"text": "word " * 60, "pause": 0.05}
    path = write_script(
        server.work, {**slow, "calls": [call("Read", file_path="f.txt")]}, {"text": "Seen.", "expect": "look closer"},
        {"text": "Third."}, {**slow}, {"text": "Fifth."},
    )  # fmt: skip
    (server.work / "f.txt").write_text("x", "utf-8")
    session = server.begin("Go", path)
    server.until(session, "running")
    running = server.until(session, lambda f: f["messages"] > 0 and f["mode"])
    assert (running["queued"], running["mode"]) == ([], "default"), "what is worked on is not in the queue"
    server.post(f"/v1/sessions/{session}/messages", {"text": "look closer", "how": "steer"}, 202)
    queued = server.post(f"/v1/sessions/{session}/messages", {"text": "and then this"}, 202)["id"]
    assert queued in [q["id"] for q in server.get(f"/v1/sessions/{session}")["queued"]]
    done = server.until(session, lambda f: f["state"] == "done" and f["answer"] == "Third.")
    assert (done["query"], done["queued"]) == ("and then this", [])
    with server.stream(f"/v1/sessions/{session}/events") as events:
        server.post(f"/v1/sessions/{session}/messages", {"text": "slow again"}, 202)
        events.until(lambda kind, data: kind == "live" and data["kind"] == "text")
    server.post(f"/v1/sessions/{session}/interrupt", {}, 202)
    assert server.until(session, "interrupted")["outcome"] == "interrupted"
    assert server.request("POST", f"/v1/sessions/{session}/interrupt", {}).code == "idle"
    server.post(f"/v1/sessions/{session}/resume", {}, 202)
    assert server.until(session, "done")["answer"] == "Fifth."


def test_a_message_sent_while_a_decision_is_missing_follows_the_turn(server: Served) -> None:
    write = {"calls": [call("Write", file_path="m.txt", content="m")]}
    path = write_script(server.work, write, {"text": "Written."}, {"text": "Tested.", "expect": "then test it"})
    session = server.begin("Write it", path)
    server.until(session, "waiting")
    server.post(f"/v1/sessions/{session}/messages", {"text": "then test it"}, 202)
    waiting = server.until(session, "waiting")
    assert [message["text"] for message in waiting["queued"]] == ["then test it"]
    server.decide(session, "approve")
    server.until(session, lambda found: found["answer"] == "Tested.")
    assert (server.work / "m.txt").exists()


def test_a_turn_is_undone_with_a_preview_and_the_conversation_goes_back(server: Served) -> None:
    write = {"calls": [call("Write", file_path="n.txt", content="new")]}
    path = write_script(server.work, write, {"text": "Written."}, {"text": "Again."})
    session = server.begin("Write it", path, mode="acceptEdits")
    server.until(session, "done")
    points = server.get(f"/v1/sessions/{session}/undo")["points"]
    assert [(f["path"], f["action"]) for f in points[0]["files"]] == [("n.txt", "delete")]
    done = server.post(f"/v1/sessions/{session}/undo", {"point": points[0]["id"], "conversation": True})
    assert done == {"restored": [], "deleted": ["n.txt"], "skipped": []}
    assert not (server.work / "n.txt").exists()
    server.until(session, lambda f: f["state"] != "running")
    assert server.request("POST", f"/v1/sessions/{session}/undo", {"point": points[0]["id"]}).status == 404
    kinds = [e["type"] for e in server.get(f"/v1/sessions/{session}/history")["events"]]
    assert "Rewound" in kinds


def test_an_undo_names_the_files_that_it_keeps(server: Served) -> None:
    (server.work / ".gitignore").write_text(".env\n", "utf-8")
    (server.work / ".env").write_text("KEY=1\n", "utf-8")
    path = write_script(server.work, bash("rm .gitignore"), {"text": "Done."})
    session = server.begin("Go", path)
    server.until(session, "waiting")
    server.decide(session, "approve")
    server.until(session, "done")
    point = server.get(f"/v1/sessions/{session}/undo")["points"][0]
    why = "ignored by git before the turn"
    assert {"path": ".env", "action": "keep", "kind": "kept", "why": why} in point["files"]
    done = server.post(f"/v1/sessions/{session}/undo", {"point": point["id"]})
    assert done == {"restored": [".gitignore"], "deleted": [], "skipped": [{"path": ".env", "reason": why}]}
    assert (server.work / ".env").exists()


def test_a_worktree_of_its_own(server: Served) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    (server.work / "a.txt").write_text("a\n", "utf-8")
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "Start"]):
        subprocess.run([*git, *words], cwd=server.work, check=True)
    write = {"calls": [call("Write", file_path="n.txt", content="new")]}
    session = server.begin(
        "Write", write_script(server.work, write, {"text": "Ok."}), mode="acceptEdits", worktree=True
    )
    done = server.until(session, "done")
    assert done["worktree"]
    assert Path(done["folder"]) != server.work
    assert (Path(done["folder"]) / "n.txt").read_text("utf-8") == "new"
    assert not (server.work / "n.txt").exists()
    assert session in [s["id"] for s in server.get("/v1/sessions")["sessions"]]


def test_a_session_of_the_terminal_is_decided_here_and_the_other_way_round(server: Served) -> None:
    write = call("Write", file_path="n.txt", content="x")
    model = script(server.work.parent / "t.toml", [{"calls": [write]}, {"text": "Ok."}])
    done = agent(["-p", "--model", model, "--on-ask", "suspend", "--output-format", "json", "go"], server.work)
    session = json.loads(done.stdout)["session_id"]
    assert server.get(f"/v1/sessions/{session}")["state"] == "waiting"
    server.decide(session, "approve")
    assert server.until(session, "done")["answer"] == "Ok."
    other = call("Write", file_path="other.txt", content="x")
    mine = server.begin("Write", write_script(server.work, {"calls": [other]}, {"text": "Fine."}, name="u.toml"))
    server.until(mine, "waiting")
    assert agent(["approve", mine], server.work).returncode == 0
    assert server.until(mine, "done")["answer"] == "Fine."


def test_the_two_calls_of_the_design(server: Served) -> None:
    files = [{"path": "n.txt", "purpose": "holds x"}]
    plan = call("ExitPlanMode", plan="Make it.", steps=["one", "two"], files_to_create=files, tests=["pytest"])
    steps = [{"content": "one", "status": "completed"}, {"content": "two", "status": "cancelled"}]
    replies = [{"calls": [plan]}, {"calls": [plan], "expect": "smaller"},
               {"calls": [call("TodoWrite", todos=steps), call("Write", file_path="n.txt", content="x")]},
               {"text": "All done."}]  # fmt: skip
    path = write_script(server.work, *replies)
    env_model = {"query": "Make n.txt"}
    (server.work.parent / "home/.agentrc").write_text(f'model = "scripted:{path}"\n', "utf-8")
    state = server.post("/coding/start", env_model, 201)
    assert state["stage"] in ("queued", "planning")
    session = state["session_id"]
    server.until(session, "waiting")
    state = server.get(f"/coding/{session}")
    assert state["stage"] == "awaiting_plan_approval"
    assert state["plan"]["files_to_create"] == files
    assert state["plan"]["tests"] == [{"path": "pytest", "coverage": ""}]
    assert state["pending"][0]["plan"]["files_to_create"] == ["n.txt: holds x"]
    server.post(f"/coding/{session}/approve", {"approved": False, "feedback": "smaller"})
    server.until(session, lambda f: f["state"] == "waiting" and len(f["decisions"]) == 1)
    server.post(f"/coding/{session}/approve", {"approved": True, "mode": "acceptEdits"})
    server.until(session, "done")
    state = server.get(f"/coding/{session}")
    assert (state["stage"], state["result"], state["error"]) == ("completed", "All done.", "")
    assert any("n.txt" in step for step in state["completed_steps"])
    todos = [(step["content"], step["status"]) for step in state["todos"]]
    assert todos == [("one", "completed"), ("two", "cancelled")]
    assert server.get(f"/v1/sessions/{session}")["plan"] == state["todos"]


def test_a_task_without_a_project_is_refused_if_there_are_several(work: Path) -> None:
    other = work.parent / "other"
    other.mkdir()
    with served(work, "--project", str(work), "--project", str(other)) as server:
        refused = server.post("/coding/start", {"query": "Go"}, 422)["error"]
        assert refused["code"] == "project"
        names = [project["name"] for project in server.get("/v1/projects")["projects"]]
        assert sorted(names) == ["other", work.name]


@pytest.mark.parametrize(
    ("items", "stage"),
    [
        ([], ""),
        ([{"kind": "plan"}], "awaiting_plan_approval"),
        ([{"kind": "approval"}, {"kind": "approval"}], "awaiting_tool_approval"),
        ([{"kind": "approval"}, {"kind": "question"}], "awaiting_answer"),
        ([{"kind": "plan", "decided": "approve"}], ""),
        ([{"kind": "plan", "decided": "approve"}, {"kind": "approval"}], "awaiting_tool_approval"),
    ],
)
def test_the_stage_says_what_waits_as_soon_as_it_is_listed(items: list[dict[str, Any]], stage: str) -> None:
    assert awaited_stage(items) == stage


def test_the_record_has_the_steps_of_the_plan_with_their_evidence(server: Served) -> None:
    def todo(*states: str) -> dict[str, object]:
        return call("TodoWrite", todos=[{"content": f"step {n}", "status": s} for n, s in enumerate(states, 1)])

    check = "python3 -m unittest nothing_of_this_name"
    session = server.begin(
        "Do it",
        write_script(
            server.work, {"calls": [todo("in_progress", "pending")]},
            {"calls": [call("Write", file_path="n.py", content="x"), call("Bash", command=check)]},
            {"calls": [todo("completed", "in_progress")]}, *[{"text": "I am blocked by you; the test failed."}] * 3,
        ),
        mode="acceptEdits",
    )  # fmt: skip
    server.until(session, "waiting")
    server.decide(session, "approve")
    server.until(session, "done")
    record = server.get(f"/v1/sessions/{session}/record")
    first, second = record["plans"][0]["steps"]
    assert (first["status"], first["verdict"], second["status"]) == ("completed", "failed", "in_progress")
    (ran,) = first["evidence"]
    assert (ran["command"], ran["outcome"], ran["code"], ran["after"], ran["stale"]) == (check, "failed", 1, "n.py", "")
    assert record["summary"].startswith("1 of 2 steps, 1 with a failing check")
    assert server.request("GET", "/v1/sessions/00000000-0000-4000-8000-000000000000/record").status == 404
