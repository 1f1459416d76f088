"""The view of a session as a stream of changes: nothing is lost and nothing comes twice, whoever ends meanwhile."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from tests.support.drawn_view import DrawnView
from tests.support.scripts import bash, call
from tests.support.served import Served, served, write_script

SLOW = {"text": "word " * 40, "pause": 0.05}


def follow(server: Served, session: str, shown: DrawnView, until: Any, at: str = "") -> tuple[str, list[Any]]:
    """Draw what comes until something is shown; return the ID to continue behind, and the batches."""
    batches: list[Any] = []
    with server.stream(f"/v1/sessions/{session}/view/events", **({"Last_Event_ID": at} if at else {})) as events:

        def take(kind: str, data: Any) -> bool:
            batches.append(data)
            shown.draw(data)
            return bool(until(shown))

        found = events.until(take)
    return next((seq for _, seq, _ in reversed(found) if seq is not None), at), batches


def whole(server: Served, session: str) -> dict[str, Any]:
    """The entries as one who comes later has them."""
    return DrawnView().draw(server.get(f"/v1/sessions/{session}/view?limit=1000")["changes"]).entries


def test_the_answer_grows_and_a_reader_who_comes_back_has_each_piece_once(work: Path) -> None:
    with served(work) as server:
        session = server.begin(
            "slow", write_script(work, {**SLOW, "calls": [call("Glob", pattern="*")]}, {"text": "x"})
        )
        shown = DrawnView()
        at, first = follow(server, session, shown, lambda now: len(now.draft["text"]) > 30)
        pieces = [change for batch in first for change in batch if change["type"] == "text"]
        assert all(set(change) == {"type", "text"} for change in pieces) and pieces
        at, _ = follow(server, session, shown, lambda now: len(now.draft["text"]) > 90, at)
        assert shown.resets == 1, "what was there already is not sent again"
        assert ("word " * 40).startswith(shown.draft["text"])
        follow(server, session, shown, lambda now: now.facts["session"]["state"] == "done", at)
        assert shown.draft == {"text": "", "thinking": ""}
        assert shown.answers == ["word " * 40, "x"]
        assert shown.resets == 1 and shown.entries == whole(server, session)


def test_a_killed_server_and_a_killed_worker_lose_nothing(work: Path) -> None:
    with served(work) as server:
        session = server.begin("slow", write_script(work, SLOW, {"text": "Later."}))
        shown = DrawnView()
        at, _ = follow(server, session, shown, lambda now: now.draft["text"])
        server.kill()
        server.start()
        at, _ = follow(server, session, shown, lambda now: now.draft["text"] and now.resets == 2, at)
        assert ("word " * 40).startswith(shown.draft["text"]), "a server that does not know the reader sends all of it"
        for pid in server.workers():
            os.kill(pid, signal.SIGKILL)
        at, _ = follow(server, session, shown, lambda now: now.facts["session"]["state"] == "interrupted", at)
        server.post(f"/v1/sessions/{session}/resume", {}, 202)
        follow(server, session, shown, lambda now: now.facts["session"]["state"] == "done", at)
        assert shown.answers == ["word " * 40] and shown.entries == whole(server, session)


def test_what_waits_and_what_was_decided_is_told(server: Served) -> None:
    replies = [bash("touch seen; echo one; sleep 1; echo two"), {"text": "Over."}]
    session = server.begin("Run it", write_script(server.work, *replies))
    shown = DrawnView()
    at, _ = follow(server, session, shown, lambda now: now.facts.get("pending"))
    item = shown.facts["pending"][0]
    (asked,) = [entry for entry in shown.entries.values() if entry["kind"] == "call"]
    assert (asked["status"], asked["call_id"]) == ("waiting", item["call_id"])
    server.decide(session, "approve", text="go on")
    outputs: list[str] = []

    def ended(now: DrawnView) -> bool:
        outputs.extend(e["output"] for e in now.entries.values() if e["kind"] == "call" and e["status"] == "running")
        return bool(now.facts["session"]["state"] == "done")

    follow(server, session, shown, ended, at)
    (done,) = [entry for entry in shown.entries.values() if entry["kind"] == "call"]
    assert (done["status"], done["decision"], done["output"]) == ("done", "Allowed by owner: go on", "")
    assert any("one" in text and "two" not in text for text in outputs), "seen while it ran"
    assert shown.facts["pending"] == []


def test_earlier_entries_come_a_page_at_a_time(server: Served) -> None:
    session = server.begin("One", write_script(server.work, *({"text": f"Answer {n}."} for n in range(3))))
    for number in range(2):
        server.until(session, "done")
        server.post(f"/v1/sessions/{session}/messages", {"text": f"More {number}"}, 202)
        server.until(session, lambda found, number=number: found["answer"] == f"Answer {number + 1}.")
    every = server.get(f"/v1/sessions/{session}/view?limit=1000")
    last = server.get(f"/v1/sessions/{session}/view?limit=3")
    before = server.get(f"/v1/sessions/{session}/view?limit=1000&before={last['first']}")
    assert every["first"] == before["first"] == 0
    assert before["changes"] + last["changes"] == every["changes"]
