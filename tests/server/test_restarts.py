"""The server and its workers end at any point: what runs is found again, what waits waits, nothing comes twice."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.support.scripts import call
from tests.support.served import served, write_script

SLOW = {"text": "word " * 40, "pause": 0.05}


def test_a_killed_server_loses_nothing(work: Path) -> None:
    with served(work, "--workers", "1") as server:
        slow = server.begin("slow", write_script(work, SLOW, {"text": "x"}, name="slow.toml"))
        queued = server.begin("queued", write_script(work, {"text": "Queued, too."}, name="q.toml"))
        server.until(slow, lambda f: f["messages"] > 0)
        assert server.get(f"/v1/sessions/{queued}")["state"] == "queued"
        with server.stream(f"/v1/sessions/{slow}/events") as events:
            first = events.until(lambda kind, data: kind == "live")
        last = max(seq for _, seq, _ in first if seq is not None)
        server.kill()
        assert server.workers(), "the worker goes on"
        server.start()
        assert server.until(slow, "done")["answer"].startswith("word")
        assert server.until(queued, "done")["answer"] == "Queued, too."
        with server.stream(f"/v1/sessions/{slow}/events", Last_Event_ID=str(last)) as events:
            rest = events.until(lambda kind, data: kind == "session")
        seqs = [seq for _, seq, _ in (*first, *rest) if seq is not None]
        every = [e["seq"] for e in server.get(f"/v1/sessions/{slow}/history")["events"]]
        assert seqs == every


def test_what_waits_still_waits_and_a_decision_survives(work: Path) -> None:
    with served(work) as server:
        calls = [call("Write", file_path="x.txt", content="a"), call("Write", file_path="y.txt", content="b")]
        session = server.begin("Write", write_script(work, {"calls": calls}, {"text": "Ok."}))
        server.until(session, "waiting")
        server.decide(session, "approve")
        server.kill()
        server.start()
        found = server.get(f"/v1/sessions/{session}")
        assert [i.get("decided", "") for i in found["pending_items"]] == ["approved by owner", ""]
        server.decide(session, "reject", at=1)
        assert server.until(session, "done")["answer"] == "Ok."
        assert (work / "x.txt").exists()
        assert not (work / "y.txt").exists()


def test_a_killed_worker_harms_no_other_and_its_turn_is_resumed(work: Path) -> None:
    with served(work) as server:
        one = server.begin("one", write_script(work, SLOW, name="one.toml"))
        server.until(one, lambda f: f["messages"] > 0)
        victims = server.workers()
        other = server.begin("other", write_script(work, SLOW, name="other.toml"))
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        assert server.until(one, "interrupted")["queued"] == []
        assert server.until(other, "done")["answer"].startswith("word")
        server.post(f"/v1/sessions/{one}/resume", {}, 202)
        # The scripted model begins anew in a new process.
        assert server.until(one, "done")["answer"].startswith("word")


def test_a_task_is_interrupted_while_its_worker_starts(work: Path) -> None:
    with served(work) as server:
        session = server.begin("slow", write_script(work, SLOW, SLOW))
        server.post(f"/v1/sessions/{session}/interrupt", {}, 202)
        server.until(session, "interrupted")
        server.post(f"/v1/sessions/{session}/resume", {}, 202)
        server.post(f"/v1/sessions/{session}/interrupt", {}, 202)
        server.until(session, "interrupted")


def test_a_server_that_ends_says_what_goes_on(work: Path) -> None:
    with served(work) as server:
        session = server.begin("slow", write_script(work, SLOW))
        server.until(session, lambda f: f["messages"] > 0)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.stderr is not None
        text = server.process.stderr.read().decode()
        assert "1 session at work" in text
        server.process.wait(20)
        server.start()
        assert server.until(session, "done")["answer"].startswith("word")


def test_a_task_that_cannot_begin_says_why(work: Path) -> None:
    with served(work) as server:
        path = write_script(work, {"text": "x"})
        session = server.begin("go", path)
        server.until(session, "done")
        path.unlink()
        server.post(f"/v1/sessions/{session}/messages", {"text": "again"}, 202)
        assert "s.toml" in server.until(session, "failed")["error"]
