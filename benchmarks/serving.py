"""`agent serve`: fifty sessions at once, each with a client and a page: events lost, their delay, the memory."""

from __future__ import annotations

import statistics
import threading
import time
from calendar import timegm
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import BenchmarkError
from benchmarks.stage import Stage
from benchmarks.table import Row
from tests.support.scripts import call, script
from tests.support.served import Served

SESSIONS = 50


def serving(stage: Stage, runs: int) -> Iterator[Row]:
    """Start fifty tasks, follow them all, and read the times of the records in their logs."""
    work = stage.home.parent / "served" / "work"
    work.mkdir(parents=True)
    path = work.parent / "s.toml"
    read = {"text": "word " * 10, "pause": 0.02, "calls": [call("Glob", pattern="*")]}
    script(path, [read, read, {"text": "Done."}])
    server = Served(work)
    late: list[float] = []
    lost: list[str] = []
    try:
        project = server.project
        body = {"prompt": "go", "project": project, "model": f"scripted:{path}"}
        begun = time.monotonic()
        ids = [str(server.post("/v1/sessions", body, 201)["id"]) for _ in range(SESSIONS)]
        threads = [threading.Thread(target=_follow, args=(server, i, late, lost)) for i in ids]
        threads += [threading.Thread(target=_watch, args=(server, i)) for i in ids]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took = time.monotonic() - begun
        memory = _memory(server.process.pid)
    finally:
        server.stop()
    if not late:
        raise BenchmarkError("no event came")
    percentile = statistics.quantiles(late, n=20)[-1] * 1000
    note = f"{len(late)} events of {SESSIONS} sessions in {took:.0f} s; {len(lost)} sessions with records missing."
    what = "50 sessions: an event, engine to client, p95"
    yield Row("serving", what, percentile, "ms", "<= 60 ms", percentile <= 60 and not lost, None, "", note)
    yield Row("serving", "50 sessions: memory of the server", memory, "MB", "<= 80 MB", memory <= 80, None, "", "")


def _follow(server: Served, session: str, late: list[float], lost: list[str]) -> None:
    seqs: list[int] = []
    with server.stream(f"/v1/sessions/{session}/events") as stream:
        for kind, seq, data in stream:
            if kind != "record" or seq is None:
                continue
            seqs.append(seq)
            late.append(time.time() - _seconds(data["time"]))
            if data["type"] == "TurnFinished":
                break
    every = [e["seq"] for e in server.get(f"/v1/sessions/{session}/history?limit=2000")["events"]]
    if seqs != [seq for seq in every if seq <= seqs[-1]]:
        lost.append(session)


def _watch(server: Served, session: str) -> None:
    """Follow what the page draws of a session, until its turn has ended."""
    with server.stream(f"/v1/sessions/{session}/view/events") as stream:
        stream.until(lambda _, changes: any(each.get("entry", {}).get("kind") == "end" for each in changes))


def _seconds(stamp: str) -> float:
    """Return a log's time, which has milliseconds, as seconds since the epoch."""
    return timegm(time.strptime(stamp[:19], "%Y-%m-%dT%H:%M:%S")) + float(stamp[19:-1] or 0)


def _memory(pid: int) -> float:
    """Return the resident memory of a process, in megabytes."""
    text = Path(f"/proc/{pid}/status").read_text("ascii")
    return int(text.partition("VmRSS:")[2].split()[0]) / 1000
