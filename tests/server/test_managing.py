"""Sessions are renamed, archived, copied, changed and deleted; projects are trusted with what they bring."""

from __future__ import annotations

from pathlib import Path

from tests.support.scripts import call
from tests.support.served import Served, served, write_script

SLOW = {"text": "word " * 60, "pause": 0.05}


def test_a_new_name_is_that_of_every_front_end_and_the_question_stays(server: Served) -> None:
    write = {"calls": [call("Write", file_path="r.txt", content="r")]}
    session = server.begin("First words", write_script(server.work, write, {"text": "Written."}))
    before = server.until(session, "waiting")["pending_items"]
    answer = server.change(session, name="  The better\nname ")
    assert answer["title"] == "The better\\nname"
    found = server.get(f"/v1/sessions/{session}")
    assert (found["state"], found["pending_items"]) == ("waiting", before)
    server.decide(session, "approve")
    assert server.until(session, "done")["answer"] == "Written."
    assert server.get(f"/v1/sessions/{session}")["title"] == "The better\\nname"
    notes = [change["entry"].get("text") for change in server.get(f"/v1/sessions/{session}/view")["changes"]]
    assert "Renamed to “The better\\nname”" in notes
    assert server.request("PATCH", f"/v1/sessions/{session}", {"name": " "}).status == 422


def test_a_deleted_session_is_gone_for_good_and_for_everybody(work: Path) -> None:
    with served(work) as server:
        session = server.begin("Go", write_script(work, {"text": "Done."}))
        server.until(session, "done")
        server.change(session, archived=True)
        with server.stream("/v1/events") as events:
            server.request("DELETE", f"/v1/sessions/{session}")
            events.until(lambda kind, data: kind == "deleted" and data == {"id": session})
        assert server.request("GET", f"/v1/sessions/{session}").status == 404
        assert server.request("GET", f"/v1/sessions/{session}/view").status == 404
        server.stop()
        server.start()
        assert server.get("/v1/sessions")["sessions"] == []
        assert not list(Path(server.env["AGENT_STATE_DIR"]).rglob(f"*{session}*"))


def test_a_session_at_work_is_neither_renamed_archived_nor_deleted(server: Served) -> None:
    session = server.begin("slow", write_script(server.work, SLOW, name="slow.toml"))
    server.until(session, lambda found: found["messages"] > 0)
    assert server.request("DELETE", f"/v1/sessions/{session}").code == "running"
    for change in ({"name": "x"}, {"archived": True}):
        assert server.request("PATCH", f"/v1/sessions/{session}", change).code == "running"
    assert server.until(session, "done")["title"] == "slow"
    token = server.token
    assert server.request("DELETE", f"/v1/sessions/{session}", token="wrong").status == 401
    assert server.token == token


def test_an_archived_session_leaves_the_list_until_it_is_written_to(work: Path) -> None:
    with served(work) as server:
        session = server.begin("Old", write_script(work, {"text": "Done."}, {"text": "Again."}))
        server.until(session, "done")
        assert server.change(session, archived=True)["archived"]
        listed = server.get("/v1/sessions")
        assert (listed["sessions"], listed["counts"]["archived"], listed["counts"]["done"]) == ([], 1, 0)
        assert [each["id"] for each in server.get("/v1/sessions?archived=true")["sessions"]] == [session]
        server.post(f"/v1/sessions/{session}/messages", {"text": "More"}, 202)
        server.until(session, "done")
        assert [each["id"] for each in server.get("/v1/sessions")["sessions"]] == [session]


def test_a_search_looks_into_messages_and_says_what_it_found(work: Path) -> None:
    with served(work) as server:
        session = server.begin("Hello", write_script(work, {"text": "The albatross is a large bird."}))
        server.until(session, "done")
        assert server.get("/v1/sessions?query=albatross")["sessions"] == []
        [found] = server.get("/v1/sessions?query=albatross&messages=true")["sessions"]
        assert found["id"] == session
        assert "albatross" in found["excerpt"]


def test_a_copy_goes_on_by_itself(work: Path) -> None:
    replies = [{"text": "One."}, {"text": "Two."}]
    with served(work) as server:
        session = server.begin("First", write_script(work, *replies))
        server.until(session, "done")
        before = server.get(f"/v1/sessions/{session}/view")["changes"]
        copy = server.post(f"/v1/sessions/{session}/fork", {}, 201)["id"]
        found = server.until(copy, lambda each: each["messages"] > 0 and each["state"] == "done")
        assert (found["title"], found["model"]) == ("First", f"scripted:{work.parent / 's.toml'}")
        kinds = [change["entry"]["kind"] for change in server.get(f"/v1/sessions/{copy}/view")["changes"]]
        assert kinds[:2] == ["user", "answer"]
        server.post(f"/v1/sessions/{copy}/messages", {"text": "Second"}, 202)
        server.until(copy, lambda each: each["answer"] == "Two.")
        assert server.get(f"/v1/sessions/{session}/view")["changes"] == before


def test_another_model_answers_the_next_message_and_another_mode_counts(work: Path) -> None:
    (work / "b.txt").write_text("x\n")
    write = {"calls": [call("Write", file_path="n.txt", content="x")]}
    with served(work) as server:
        session = server.begin("First", write_script(work, {"text": "One."}))
        server.until(session, "done")
        other = f"scripted:{write_script(work, write, {'text': 'Two.'}, name='other.toml')}"
        found = server.change(session, model=other, mode="acceptEdits")
        assert (found["model"], found["mode"]) == (other, "acceptEdits")
        assert server.get(f"/v1/sessions/{session}")["mode"] == "acceptEdits"
        server.post(f"/v1/sessions/{session}/messages", {"text": "Second"}, 202)
        done = server.until(session, lambda each: each["state"] == "done" and each["query"] == "Second")
        assert (done["answer"], (work / "n.txt").read_text()) == ("Two.", "x")
        refused = [{"mode": "bypassPermissions"}, {"mode": "x"}, {"model": "no/no"}]
        answers = [server.request("PATCH", f"/v1/sessions/{session}", change).code for change in refused]
        assert answers == ["mode", "mode", "settings"]


def test_the_mode_of_a_waiting_turn_is_changed_and_that_of_a_decision_stays(work: Path) -> None:
    def writes(name: str) -> dict[str, object]:
        return {"calls": [call("Write", file_path=name, content="x")]}

    with served(work) as server:
        replies = [writes("a"), writes("b"), {"text": "One."}, writes("c"), {"text": "Two."}]
        session = server.begin("First", write_script(work, *replies))
        server.until(session, "waiting")
        server.change(session, mode="acceptEdits")
        server.decide(session, "approve")
        server.until(session, "done")
        assert (work / "b").exists()
        server.change(session, mode="default")
        server.post(f"/v1/sessions/{session}/messages", {"text": "Second"}, 202)
        server.until(session, "waiting")
        server.decide(session, "approve", mode="acceptEdits")
        assert server.until(session, "done")["mode"] == "acceptEdits"


def test_a_project_is_trusted_with_exactly_what_was_shown(work: Path) -> None:
    commands = work / ".agent/commands"
    commands.mkdir(parents=True)
    (commands / "ship.md").write_text("Ship it")
    with served(work) as server:
        path = f"/v1/projects/{server.project}/trust"
        shown = server.get(path)
        assert (shown["trusted"], shown["brings"]) == (False, ["commands: ship"])
        (commands / "more.md").write_text("More")
        body = {"trusted": True, "binding": shown["binding"]}
        assert server.request("POST", path, body).code == "changed"
        shown = server.get(path)
        assert server.post(path, {"trusted": True, "binding": shown["binding"]})["trusted"]
        assert server.get("/v1/projects")["projects"][0]["trusted"]
        assert not server.post(path, {"trusted": False})["trusted"]
