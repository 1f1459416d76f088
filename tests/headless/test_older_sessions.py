"""A session that an earlier version left waiting is decided and resumed as before."""

from __future__ import annotations

import json
from binascii import crc32
from pathlib import Path

from tests.support.program import agent
from tests.support.scripts import bash, call
from tests.support.session_logs import log_of, sent
from tests.support.suspended_runs import pending, suspend

STORED = Path(__file__).parent.parent / "session/waiting_session.jsonl"
EDIT = call("Edit", file_path="a.txt", old_string="line 3\n", new_string="three\n")


def test_a_call_that_waits_in_an_older_log_is_approved_and_a_recorded_rejection_applies(work: Path) -> None:
    (work / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 41)))
    read = {"calls": [call("Read", file_path="a.txt")]}
    suspend(work, [read, {"calls": [EDIT, *bash("touch made")["calls"]]}, {"text": "Done."}])
    [path] = (work.parent / "home/state/sessions").rglob("*.jsonl")
    # A binding includes the folder: the older log gets the bindings that the same calls have here.
    records = [json.loads(line) for line in log_of(work).splitlines()]
    here = {r["data"]["call_id"]: r["data"]["binding"] for r in records if r["type"] == "ApprovalRequested"}
    text = STORED.read_text("utf-8").replace("@WORK@", str(work)).replace("@HOME@/home", str(work.parent / "home"))
    old = [json.loads(line) for line in text.splitlines()]
    for record in old:
        if record["data"].get("binding"):
            record["data"]["binding"] = here[record["data"]["call_id"]]
    session = old[0]["data"]["session_id"]
    path.unlink()
    bodies = [json.dumps(record, separators=(",", ":")).encode() for record in old]
    lines = [body[:-1] + b',"crc":%d}\n' % crc32(body) for body in bodies]
    path.with_name(f"{session}.jsonl").write_bytes(b"".join(lines))
    [found] = pending(work)
    assert [(item["call_id"], item.get("decided")) for item in found["pending"]] == [
        ("call-2-1", None),
        ("call-2-2", "rejected, not run"),
    ]
    done = agent(["approve"], work)
    assert (done.returncode, done.stdout.strip()) == (0, "Done."), done.stderr
    assert "three\n" in (work / "a.txt").read_text()
    assert not (work / "made").exists()
    assert "Denied by the user, who said: not that" in sent(work)
