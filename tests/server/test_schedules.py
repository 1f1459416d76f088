"""Schedules over the API: added, paused, run and removed; the server's own tick; what waits is announced."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from agent_cli.kernel.session.schedules import ScheduleStore
from agent_tools.text import utc_stamp
from tests.support.program import agent
from tests.support.scripts import call
from tests.support.served import Served, served, write_script
from tests.support.waiting import soon

MKDIR = {"calls": [call("Bash", command="mkdir made")]}


def add(server: Served, *replies: dict[str, Any], **more: Any) -> dict[str, Any]:
    model = f"scripted:{write_script(server.work, *replies, name='every.toml')}"
    body = {"spec": "day 9:00", "prompt": "Tidy up", "project": server.project, "model": model, **more}
    answer = server.request("POST", "/v1/schedules", body)
    assert answer.status == 201, answer.raw
    found: dict[str, Any] = answer.data
    return found


def test_a_run_is_started_decided_with_a_rule_of_the_schedule_and_listed(work: Path) -> None:
    with served(work, "--no-schedules") as server:
        made = add(server, MKDIR, {"text": "Done."}, zone="Europe/Berlin", budget=5.0)
        assert made["next"].endswith(("09:00:00+01:00", "09:00:00+02:00"))
        path = f"/v1/schedules/{made['id']}"
        session = server.request("POST", f"{path}/run", {}).data["id"]
        assert soon(lambda: server.get("/v1/schedules")["schedules"][0]["state"] == "waiting", 60)
        assert server.request("POST", f"{path}/run", {}).status == 409
        item = server.get(f"/v1/sessions/{session}")["pending_items"][0]
        choice = next(each for each in item["form"]["choices"] if each["decision"].get("scope") == "schedule")
        assert choice["label"] == "Always in this schedule: mkdir made"
        phone = agent(["serve", "token", "add", "phone", "--role", "decide"], work).stdout.strip()
        body = {"call_id": item["call_id"], "binding": item["binding"], **choice["decision"]}
        assert server.request("POST", f"/v1/sessions/{session}/decisions", body, token=phone).status == 403
        assert server.request("POST", f"/v1/sessions/{session}/decisions", body).status == 200
        server.until(session, "done")
        found = server.get("/v1/schedules")["schedules"][0]
        assert (found["rules"], found["state"]) == (["Bash(mkdir made)"], "")
        assert [run["state"] for run in server.get(f"{path}/runs")["runs"]] == ["done"]
        assert server.request("PATCH", path, {"paused": True}).data["next"] == ""
        assert server.request("PATCH", path, {"paused": False}).data["next"]
        assert server.request("DELETE", path).status == 200
        assert server.get("/v1/schedules")["schedules"] == []
        assert server.request("GET", f"{path}/runs").status == 404


def test_the_server_ticks_and_announces_what_waits(work: Path) -> None:
    model = write_script(work, MKDIR, {"text": "Done."}, name="every.toml")
    agent(["every", "* * * * *", "--model", f"scripted:{model}", "Tidy up"], work)
    store = ScheduleStore(work.parent / "home/state")
    schedule = store.all()[0]
    store.change(schedule.replace(since=utc_stamp(time.time() - 120)))
    told = work.parent / "told"
    (work.parent / "home/.agentrc").write_text(f'[serve]\nnotify = "cat >> {told}"\n')
    with served(work) as server:
        assert soon(lambda: bool(server.get("/v1/sessions")["sessions"]), 60)
        session = server.get("/v1/sessions")["sessions"][0]["id"]
        server.until(session, "waiting")
        assert soon(lambda: told.exists() and "session.waiting" in told.read_text(), 60)
        assert "Nothing wakes" not in agent(["every"], work).stderr
        assert [run.attempts for run in store.runs(schedule.id) if run.step != "skipped"] == [1]


def test_schedules_of_other_folders_and_bad_times_are_refused(server: Served) -> None:
    other = server.work.parent / "other"
    other.mkdir()
    model = write_script(server.work, {"text": "x"}, name="every.toml")
    agent(["every", "day 9:00", "--in", str(other), "--model", f"scripted:{model}", "x"], server.work)
    assert server.get("/v1/schedules")["schedules"] == []
    which = ScheduleStore(server.work.parent / "home/state").all()[0].id
    assert server.request("DELETE", f"/v1/schedules/{which}").status == 404
    body = {"spec": "99 * * * *", "prompt": "x", "project": server.project}
    refused = server.request("POST", "/v1/schedules", body)
    assert (refused.status, refused.code) == (409, "schedule")
    body = {"spec": "hour", "prompt": "x", "project": server.project, "mode": "bypassPermissions"}
    assert server.request("POST", "/v1/schedules", body).status == 403
