"""Sessions are renamed and deleted, unless they are at work."""

from __future__ import annotations

from pathlib import Path

from tests.support.scripts import call
from tests.support.served import Served, served, write_script

SLOW = {"text": "word " * 60, "pause": 0.05}


def test_a_new_name_is_that_of_every_front_end_and_the_question_stays(server: Served) -> None:
    write = {"calls": [call("Write", file_path="r.txt", content="r")]}
    session = server.begin("First words", write_script(server.work, write, {"text": "Written."}))
    before = server.until(session, "waiting")["pending_items"]
    answer = server.post(f"/v1/sessions/{session}/rename", {"name": "  The better\nname "})
    assert answer["title"] == "The better\\nname"
    found = server.get(f"/v1/sessions/{session}")
    assert (found["state"], found["pending_items"]) == ("waiting", before)
    server.decide(session, "approve")
    assert server.until(session, "done")["answer"] == "Written."
    assert server.get(f"/v1/sessions/{session}")["title"] == "The better\\nname"
    notes = [change["entry"].get("text") for change in server.get(f"/v1/sessions/{session}/view")["changes"]]
    assert "Renamed to “The better\\nname”" in notes
    assert server.request("POST", f"/v1/sessions/{session}/rename", {"name": " "}).status == 422


def test_a_deleted_session_is_gone_for_good_and_for_everybody(work: Path) -> None:
    with served(work) as server:
        session = server.begin("Go", write_script(work, {"text": "Done."}))
        server.until(session, "done")
        with server.stream("/v1/events") as events:
            server.request("DELETE", f"/v1/sessions/{session}")
            events.until(lambda kind, data: kind == "deleted" and data == {"id": session})
        assert server.request("GET", f"/v1/sessions/{session}").status == 404
        assert server.request("GET", f"/v1/sessions/{session}/view").status == 404
        server.stop()
        server.start()
        assert server.get("/v1/sessions")["sessions"] == []
        assert not list(Path(server.env["AGENT_STATE_DIR"]).rglob(f"*{session}*"))


def test_a_session_at_work_is_neither_renamed_nor_deleted(server: Served) -> None:
    session = server.begin("slow", write_script(server.work, SLOW, name="slow.toml"))
    server.until(session, lambda found: found["messages"] > 0)
    assert server.request("DELETE", f"/v1/sessions/{session}").code == "running"
    assert server.request("POST", f"/v1/sessions/{session}/rename", {"name": "x"}).code == "running"
    assert server.until(session, "done")["title"] == "slow"
    token = server.token
    assert server.request("DELETE", f"/v1/sessions/{session}", token="wrong").status == 401
    assert server.token == token
