"""The API as an attacker sees it: no token, the wrong role, other sites, paths, sizes, time, replay."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
import uvicorn
from uvicorn.server import ServerState

from agent_cli.extras.server.app import ROUTES, TimedProtocol
from agent_cli.extras.server.guard import FailureLimit
from tests.support.program import agent
from tests.support.scripts import call
from tests.support.served import NOBODY, Served, path_of, write_script


def token(server: Served, role: str) -> str:
    name = f"{role} {os.urandom(3).hex()}"
    return agent(["serve", "token", "add", name, "--role", role], server.work).stdout.strip()


@pytest.mark.parametrize("row", ROUTES, ids=lambda row: f"{row.method} {row.path}")
def test_every_request_needs_a_token_and_its_role(server: Served, row: object) -> None:
    method, path = row.method, path_of(row.path)  # type: ignore[attr-defined]
    body = {} if method == "POST" else None
    for wrong in ("", "wrong", server.token[:-1], f"{server.token}x"):
        answer = server.request(method, path, body, token=wrong)
        assert answer.status in (401, 429), answer.raw
        assert server.token not in answer.raw.decode()
    if row.role != "read":  # type: ignore[attr-defined]
        answer = server.request(method, path, body, token=token(server, "read"))
        assert (answer.status, answer.code) == (403, "role")
    if row.role == "start":  # type: ignore[attr-defined]
        assert server.request(method, path, body, token=token(server, "decide")).code == "role"


def test_many_failures_are_refused_but_a_valid_token_still_counts(server: Served) -> None:
    answers = [server.request("GET", "/v1/me", token=f"wrong-{n}") for n in range(30)]
    assert answers[-1].status == 429
    assert int(answers[-1].headers["retry-after"]) > 0
    assert server.request("GET", "/v1/me").status == 200


def test_failures_are_forgotten_after_a_minute() -> None:
    now = [0.0]
    limit = FailureLimit(lambda: now[0], limit=3, seconds=60)
    for _ in range(3):
        assert limit.retry_after("a") == 0
        limit.record_failure("a")
    assert limit.retry_after("a") == 60
    assert limit.retry_after("b") == 0
    now[0] = 61
    assert limit.retry_after("a") == 0


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "evil.example:80", ""])
def test_a_name_that_points_here_reaches_nothing(server: Served, host: str) -> None:
    for path in ("/", "/v1/me", "/page/app.js"):
        answer = server.request("GET", path, Host=host or "x")
        assert (answer.status, answer.code) == (421, "host")


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1", "file://"])
def test_requests_of_other_sites_are_refused(server: Served, origin: str) -> None:
    answer = server.request("POST", f"/v1/sessions/{NOBODY}/interrupt", {}, Origin=origin)
    assert (answer.status, answer.code) == (403, "origin")
    mine = server.request("POST", f"/v1/sessions/{NOBODY}/interrupt", {}, Origin=f"http://127.0.0.1:{server.port}")
    assert mine.status == 404
    assert "access-control-allow-origin" not in mine.headers


def test_answers_cannot_be_framed_sniffed_or_scripted(server: Served) -> None:
    for path in ("/", "/v1/me"):
        headers = server.request("GET", path).headers
        policy = headers["content-security-policy"]
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert "set-cookie" not in headers
    assert server.request("GET", "/v1/me").headers["cache-control"] == "no-store"


@pytest.mark.parametrize("folder", ["..", "/etc", "a/../..", "link", "../work2", "nul\0"])
def test_paths_outside_of_the_project_are_refused(server: Served, folder: str) -> None:
    (server.work.parent / "work2").mkdir(exist_ok=True)
    link = server.work / "link"
    if not link.is_symlink():
        link.symlink_to(server.work.parent)
    body = {"prompt": "x", "project": server.project, "folder": folder, "model": "scripted:x"}
    answer = server.request("POST", "/v1/sessions", body)
    assert (answer.status, answer.code) in ((403, "folder"), (400, "folder"))


@pytest.mark.parametrize(
    "name", ["../app.py", "..%2fapp.py", "%2e%2e/app.py", ".hidden", "a%00b", "..\\app.py", "nothing.js"]
)
def test_only_files_of_the_page_are_served(server: Served, name: str) -> None:
    answer = server.request("GET", f"/page/{name}")
    assert answer.status == 404
    assert b"import" not in answer.raw


def test_sessions_of_other_folders_are_not_there(server: Served) -> None:
    other = server.work.parent / "other"
    other.mkdir(exist_ok=True)
    path = write_script(server.work, {"text": "secret"}, name="o.toml")
    done = agent(["-p", "--model", f"scripted:{path}", "--output-format", "json", "go"], other)
    session = json.loads(done.stdout)["session_id"]
    for row in ROUTES:
        if "{" in row.path:
            body = {} if row.method == "POST" else None
            assert server.request(row.method, path_of(row.path, session), body).status in (404, 422), row
    assert session not in server.request("GET", "/v1/sessions?limit=500").raw.decode()


def test_large_and_strange_bodies_are_refused(server: Served) -> None:
    path = "/v1/sessions"
    assert server.request("POST", path, raw=b'{"prompt": "' + b"x" * (2 << 20) + b'"}').status == 413
    assert server.request("POST", path, raw=b"{}", Content_Type="text/plain").status == 415
    assert server.request("POST", path, raw=b"{}", Content_Type="application/x-www-form-urlencoded").status == 415
    for raw in (b"{", b"\xff\xfe", b"[]", b'"x"', b"null", b'{"prompt": "x", "project": 1}', b'{"a": ' * 20_000):
        answer = server.request("POST", path, raw=raw)
        assert answer.status in (400, 422), (raw[:20], answer.raw)
        assert b"Traceback" not in answer.raw
    assert server.request("POST", path, {"prompt": "x", "project": "p", "surprise": 1}).status == 422


def test_a_body_without_a_length_is_limited_too(server: Served) -> None:
    with socket.create_connection(("127.0.0.1", server.port), 20) as raw:
        head = (
            f"POST /v1/sessions HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nAuthorization: Bearer {server.token}\r\n"
        )
        raw.sendall(head.encode() + b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
        try:
            for _ in range(40):
                raw.sendall(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
        except OSError:
            pass
        assert b" 413 " in raw.recv(4096)


def test_the_mode_without_questions_is_not_to_be_had(server: Served) -> None:
    body = {"prompt": "x", "project": server.project, "model": "scripted:x", "mode": "bypassPermissions"}
    assert server.request("POST", "/v1/sessions", body).code == "mode"
    session = server.begin(
        "Write", write_script(server.work, {"calls": [call("Write", file_path="m.txt", content="x")]})
    )
    server.until(session, "waiting")
    assert server.decide(session, "approve", 403, mode="bypassPermissions")["error"]["code"] == "mode"
    refused = server.decide(session, "approve", 422, rule="Bash")["error"]["message"]
    assert "rules that the question offers" in refused


def test_a_decision_cannot_be_replayed_or_meant_for_another_question(server: Served) -> None:
    calls = [
        {"calls": [call("Bash", command="touch one")]},
        {"calls": [call("Bash", command="touch two")]},
        {"text": "x"},
    ]
    session = server.begin("Run", write_script(server.work, *calls))
    item = server.until(session, "waiting")["pending_items"][0]
    body = {"call_id": item["call_id"], "binding": item["binding"]}
    server.post(f"/v1/sessions/{session}/approve", body)
    then = server.until(session, lambda f: f["pending_items"] and f["pending_items"][0]["call_id"] != item["call_id"])
    assert server.request("POST", f"/v1/sessions/{session}/approve", body).code == "decided"
    forged = {"call_id": then["pending_items"][0]["call_id"], "binding": item["binding"]}
    assert server.request("POST", f"/v1/sessions/{session}/approve", forged).code == "changed"
    assert not (server.work / "two").exists()


def test_who_may_only_decide_cannot_say_what_runs(server: Served) -> None:
    calls = [{"calls": [call("Bash", command="touch asked")]}, {"text": "x"}]
    session = server.begin("Run", write_script(server.work, *calls, name="decide.toml"))
    server.until(session, "waiting")
    guest = token(server, "decide")
    for given in ({"command": "touch other"}, {"command": "touch asked", "timeout": 1}, {}):
        refused = server.decide(session, "approve", 403, token=guest, arguments=given)["error"]
        assert refused["code"] == "role"
        item = server.get(f"/v1/sessions/{session}/pending")["items"][0]
        body = {"call_id": item["call_id"], "binding": item["binding"], "arguments": given}
        assert server.request("POST", f"/v1/sessions/{session}/approve", body, token=guest).code == "role"
    server.decide(session, "approve", token=guest, arguments={"command": "touch asked"})
    server.until(session, "done")
    assert (server.work / "asked").exists() and not (server.work / "other").exists()


def test_who_may_only_decide_cannot_edit_a_plan(server: Served) -> None:
    plan = call("ExitPlanMode", plan="Make it.", steps=["one"], files_to_create=["n.txt"])
    session = server.begin(
        "Plan it", write_script(server.work, {"calls": [plan]}, {"text": "x"}, name="plan.toml"), mode="plan"
    )
    item = server.until(session, "waiting")["pending_items"][0]
    guest = token(server, "decide")
    for edited in ({**item["plan"], "steps": ["two"]}, {**item["plan"], "plan": "Break it."}, {"steps": []}):
        assert server.decide(session, "approve", 403, token=guest, plan=edited)["error"]["code"] == "role"
    server.decide(session, "approve", token=guest, plan=item["plan"])
    done = server.until(session, "done")
    assert [step["content"] for step in done["plan"]] == ["one"]


def test_who_may_only_decide_chooses_no_mode_that_the_question_does_not_offer(server: Served) -> None:
    calls = [{"calls": [call("Bash", command="touch asked-2")]},
             {"calls": [call("Write", file_path="w.txt", content="x")]}, {"text": "x"}]  # fmt: skip
    session = server.begin("Run", write_script(server.work, *calls, name="mode.toml"))
    server.until(session, "waiting")
    guest = token(server, "decide")
    for mode in ("acceptEdits", "dontAsk", "plan"):
        assert server.decide(session, "approve", 403, token=guest, mode=mode)["error"]["code"] == "role"
    kept = {"rule": "Bash(touch asked-2)", "scope": "project"}
    assert server.decide(session, "approve", 403, token=guest, **kept)["error"]["code"] == "role"
    changed = {"arguments": {"command": "touch other-2"}}
    assert server.decide(session, "edit", 403, token=guest, **changed)["error"]["code"] == "role"
    server.decide(session, "approve", token=guest)
    server.until(session, lambda f: bool(f["pending_items"]) and f["pending_items"][0]["tool"] == "Write")
    server.decide(session, "approve", token=guest, mode="acceptEdits")
    server.until(session, "done")


def test_a_token_that_is_revoked_sees_no_more_of_a_stream(server: Served) -> None:
    secret = agent(["serve", "token", "add", "watcher"], server.work).stdout.strip()
    session = server.begin("Say", write_script(server.work, {"text": "word " * 100, "pause": 0.05}, name="slow.toml"))
    with (
        server.stream(f"/v1/sessions/{session}/events", Authorization=f"Bearer {secret}") as one,
        server.stream("/v1/events", Authorization=f"Bearer {secret}") as every,
    ):
        one.until(lambda kind, data: True)
        assert agent(["serve", "token", "revoke", "watcher"], server.work).returncode == 0
        assert not [data for kind, _, data in one if kind == "record" and data["type"] == "TurnFinished"]
        assert not [data for kind, _, data in every if data["state"] == "done"]
    assert server.until(session, "done")["answer"]


def test_two_hundred_clients_follow_a_session(server: Served) -> None:
    session = server.begin("Say", write_script(server.work, {"text": "word " * 20, "pause": 0.02}))
    with ExitStack() as open_:
        streams = [open_.enter_context(server.stream(f"/v1/sessions/{session}/events")) for _ in range(200)]
        assert server.request("GET", "/v1/me").status == 200
        for stream in streams:
            found = stream.until(lambda kind, data: kind == "record" and data["type"] == "TurnFinished")
            seqs = [seq for _, seq, _ in found if seq is not None]
            assert seqs == sorted(set(seqs))
    assert server.until(session, "done")["answer"]


def test_slow_clients_hold_up_nobody(server: Served) -> None:
    held = []
    try:
        for _ in range(50):
            raw = socket.create_connection(("127.0.0.1", server.port), 20)
            raw.sendall(b"GET /v1/me HTTP/1.1\r\nHost: 127")
            held.append(raw)
        begun = time.monotonic()
        assert server.request("GET", "/v1/me").status == 200
        assert time.monotonic() - begun < 10
    finally:
        for raw in held:
            raw.close()


@pytest.mark.parametrize(
    "before",
    [b"", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999\r\n\r\n"],
    ids=["first", "second", "body"],
)
def test_a_request_that_never_arrives_ends_its_connection(before: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_cli.extras.server.app._HEADER_SECONDS", 0.3)

    async def hello(scope: object, receive: object, send: Callable[[dict[str, object]], Awaitable[None]]) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"hi"})

    async def dripped() -> bytes:
        config, state = uvicorn.Config(hello, lifespan="off", log_level="critical"), ServerState()  # type: ignore[arg-type]
        loop = asyncio.get_running_loop()
        listening = await loop.create_server(lambda: TimedProtocol(config, state, {}), "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*listening.sockets[0].getsockname())
        writer.write(before)
        answer = await reader.readuntil(b"hi") if before else b""
        with suppress(ConnectionError):
            async with asyncio.timeout(20):
                while not reader.at_eof():
                    writer.write(b"G")
                    with suppress(TimeoutError):
                        await asyncio.wait_for(reader.read(1000), 0.05)
        writer.close()
        listening.close()
        return answer

    assert asyncio.run(dripped()).startswith(b"HTTP/1.1 200" if before else b"")


def test_another_address_needs_tls_or_a_word(work: Path) -> None:
    refused = agent(["serve", "--host", "0.0.0.0"], work)
    assert refused.returncode == 2
    assert "--certfile" in refused.stderr
    assert agent(["serve", "--project", "nowhere"], work).returncode == 2


def test_tokens_are_private_listed_and_revoked(server: Served) -> None:
    stored = server.tasks.parent / "tokens.json"
    assert stored.stat().st_mode & 0o077 == 0
    assert server.token not in stored.read_text("utf-8")
    assert agent(["serve", "token", "add", "guest", "--role", "boss"], server.work).returncode == 2
    secret = agent(["serve", "token", "add", "guest"], server.work).stdout.strip()
    assert server.get("/v1/me", token=secret) == {**server.get("/v1/me"), "name": "guest", "role": "read"}
    assert agent(["serve", "token", "add", "guest"], server.work).returncode == 2
    assert "guest" in agent(["serve", "token", "list"], server.work).stdout
    assert agent(["serve", "token", "revoke", "guest"], server.work).returncode == 0
    assert server.request("GET", "/v1/me", token=secret).status in (401, 429)
    assert agent(["serve", "token", "revoke", "guest"], server.work).returncode == 2


KEYS = {"p256dh": f"B{'A' * 86}", "auth": "A" * 22}


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://push.example.org/x", "https://127.0.0.1/x", "https://127.1/x", "https://localhost/x",
        "https://169.254.169.254/latest", "https://[::1]/x", "https://[::ffff:10.0.0.1]/x", "https://10.0.0.1:8443/x",
        "https://printer.local/x", "https://intranet/x", "https://user@push.example.org/x", "file:///etc/passwd", "",
    ],
)  # fmt: skip
def test_a_push_goes_to_no_private_address(server: Served, endpoint: str) -> None:
    answer = server.request("POST", "/v1/push", {"endpoint": endpoint, **KEYS})
    assert (answer.status, answer.code) == (422, "endpoint")
    assert not server.get("/v1/push")["subscribed"]


@pytest.mark.parametrize("keys", [KEYS, {"p256dh": "no", "auth": "A" * 22}, {}, {"p256dh": "\u00e9", "auth": "x"}])
def test_a_push_needs_the_keys_of_a_browser(server: Served, keys: dict[str, str]) -> None:
    body = {"endpoint": "https://push.example.org/x", **keys}
    assert server.request("POST", "/v1/push", body).code == "keys"


def test_answers_to_notifications_cannot_be_guessed(server: Served) -> None:
    path = "/v1/push/answer"
    assert server.request("POST", path, {"ticket": "x"}, token="", Origin="https://evil.example").code == "origin"
    assert server.request("POST", path, {"ticket": "x", "verdict": "approve"}, token="").status in (422, 429)
    answers = [server.request("POST", path, {"ticket": f"wrong {n}"}, token="").status for n in range(25)]
    assert set(answers) <= {403, 429} and answers[-1] == 429
    assert server.get("/v1/me")["role"] == "start"


def test_only_the_service_worker_may_control_the_whole_page(server: Served) -> None:
    worker = server.request("GET", "/page/sw.js")
    assert worker.headers["service-worker-allowed"] == "/" and worker.headers["content-type"].startswith("text/javas")
    assert worker.headers["cache-control"] == "no-cache"
    assert "trusted-types agent" in worker.headers["content-security-policy"]
    code = worker.raw.decode()
    assert not any(word in code for word in ("caches", "indexedDB", "Authorization", "importScripts", "localStorage"))
    others = [server.request("GET", f"/page/{name}") for name in ("app.js", "app.webmanifest", "notify.js")]
    assert not any("service-worker-allowed" in each.headers for each in others)


def test_the_manifest_names_only_this_server(server: Served) -> None:
    manifest = server.request("GET", "/page/app.webmanifest").data
    places = [manifest["id"], manifest["start_url"], manifest["scope"], *(icon["src"] for icon in manifest["icons"])]
    assert all(place.startswith("/") and not place.startswith("//") for place in places)
    assert not {"share_target", "protocol_handlers", "file_handlers"} & manifest.keys()
