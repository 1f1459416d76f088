"""Calls of other programs over the HTTP API, as the page shows them."""

from __future__ import annotations

from pathlib import Path

from tests.support.gate_hooks import EDIT, WaitingHook, begin, sent
from tests.support.served import served


def test_a_call_of_another_program_is_decided_over_the_api(tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / ".git").mkdir(parents=True)
    (work / "a.txt").write_text("one\ntwo\n")
    begin(work, "claude", "make two 2")
    with served(work) as server:
        hook = WaitingHook(work, "claude", sent("claude", "before", work, EDIT["claude"]))
        (entry,) = server.get("/v1/sessions")["sessions"]
        assert (entry["host"], entry["state"], entry["model"]) == ("Claude Code", "waiting", "Claude Code")
        assert "Claude Code" in entry["facts"]
        (item,) = server.get(f"/v1/sessions/{entry['id']}")["pending_items"]
        assert "For Claude Code" in item["form"]["about"]
        assert not item["form"]["edit"]
        assert not item["hunks"]
        refused = server.post(f"/v1/sessions/{entry['id']}/messages", {"text": "hello"}, 409)
        assert refused["error"]["code"] == "host"
        server.decide(entry["id"], "approve", 422, mode="acceptEdits")
        assert server.decide(entry["id"], "approve")["left"] == 0
        assert hook.end()[0] == "allow"
        again = {"call_id": item["call_id"], "binding": item["binding"], "verdict": "approve"}
        assert server.post(f"/v1/sessions/{entry['id']}/decisions", again, 409)["error"]["code"] == "decided"
        assert not server.workers()
