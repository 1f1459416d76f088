"""Messages with commands, completion and files; messages that wait are removed."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from agent_cli.extras.server.app import ROUTES
from tests.support.program import agent
from tests.support.scripts import call
from tests.support.served import NOBODY, Served, served, write_script

SLOW = {"text": "word " * 60, "pause": 0.05}


@pytest.fixture
def server(work: Path) -> Iterator[Served]:
    """A server whose models take images."""
    settings = work.parent / "home/.agentrc"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text('model_takes = ["image"]\n')
    with served(work) as running:
        yield running


def picture(size: int = 8) -> bytes:
    out = BytesIO()
    Image.new("RGB", (size, size), "red").save(out, "PNG")
    return out.getvalue()


def upload(server: Served, data: bytes, name: str = "a.txt", status: int = 201, **headers: str) -> Any:
    answer = server.request("POST", f"/v1/uploads?name={name}", raw=data, **{"Content_Type": "x/y", **headers})
    assert answer.status == status, answer.raw
    return answer.data


def finished(server: Served, *replies: dict[str, Any]) -> str:
    session = server.begin("First", write_script(server.work, {"text": "One."}, *replies))
    server.until(session, "done")
    return session


def waiting_files(server: Served) -> list[str]:
    return sorted(path.name for path in (Path(server.env["AGENT_STATE_DIR"]) / "serve/uploads").glob("*"))


def users(server: Served, session: str) -> list[dict[str, Any]]:
    """The messages of the user in the view."""
    entries = [change["entry"] for change in server.get(f"/v1/sessions/{session}/view")["changes"]]
    return [entry for entry in entries if entry["kind"] == "user"]


def test_files_of_a_message_reach_the_model_and_go_with_the_session(server: Served) -> None:
    heard = {"text": "Seen.", "expect": "the secret is 42"}
    session = finished(server, heard)
    text = upload(server, b"the secret is 42\n", "..%2Fnotes.txt")
    assert (text["name"], text["mime"], text["size"]) == ("notes.txt", "text/plain", 17)
    body = {"text": "What is it?", "uploads": [text["id"]]}
    server.post(f"/v1/sessions/{session}/messages", body, 202)
    server.until(session, lambda found: found["answer"] == "Seen.")
    assert users(server, session)[-1]["text"] == "What is it?\n\nAttached: notes.txt"
    assert waiting_files(server) == []
    assert (server.tasks / session / "uploads" / text["id"]).exists()
    again = server.request("POST", f"/v1/sessions/{session}/messages", body)
    assert (again.status, again.code) == (404, "upload")
    server.until(session, lambda _: server.request("DELETE", f"/v1/sessions/{session}").status == 200)
    assert not list(Path(server.env["AGENT_STATE_DIR"]).rglob(text["id"]))


def test_an_image_is_sent_as_one_also_with_a_new_task(server: Served) -> None:
    image = upload(server, picture(), "shot.png")
    assert image["mime"] == "image/png"
    session = server.begin("Look", write_script(server.work, {"text": "Red."}), uploads=[image["id"]])
    server.until(session, "done")
    [entry] = [
        c["entry"] for c in server.get(f"/v1/sessions/{session}/view")["changes"] if c["entry"]["kind"] == "user"
    ]
    assert (entry["text"], entry["media"][0]["name"]) == ("Look\n\nAttached: shot.png", "shot.png")


def test_a_model_without_images_says_so(server: Served) -> None:
    (server.work.parent / "home/.agentrc").unlink()
    image = upload(server, picture(), "shot.png")
    session = server.begin("Look", write_script(server.work, {"text": "Red."}), uploads=[image["id"]])
    assert "not known to accept images" in server.until(session, "failed")["error"]


@pytest.mark.parametrize(
    ("data", "status", "code"),
    [
        (b"", 422, "body"), (b"MZ\0\1", 415, "type"), (b"\xff\xfe\x00a", 415, "type"),
        (b"%PDF-1.7\n\xe2\xe3", 415, "type"),
        (b"x" * 400_001, 413, "size"), (b"\x89PNG\r\n\x1a\n" + b"\0" * 40, 415, "type"), (b"<svg/>\0", 415, "type"),
    ],
)  # fmt: skip
def test_what_is_neither_an_image_nor_text_is_refused(server: Served, data: bytes, status: int, code: str) -> None:
    assert upload(server, data, status=status)["error"]["code"] == code
    assert waiting_files(server) == []


@pytest.mark.parametrize("name", ["", ".", "..", "%2F", "a%2F"])
def test_a_file_needs_a_name(server: Served, name: str) -> None:
    assert upload(server, b"x", name, status=400)["error"]["code"] == "query"


def test_the_name_of_a_file_is_no_path_and_hides_nothing(server: Served) -> None:
    for name in ("..%2F..%2Fetc%2Fpasswd", "%5C%5Cserver%5Cpasswd", "C:%5Cpasswd"):
        assert upload(server, b"x", name)["name"] == "passwd"
    assert upload(server, b"x", "a%0A%3C%2Ffile%3E%E2%80%AEgnp.txt")["name"].isprintable()


def test_a_file_that_is_too_large_is_refused_before_it_is_stored(server: Served) -> None:
    assert upload(server, b"x", status=413, Content_Length=str(11 << 20))["error"]["code"] == "size"
    answer = server.request("POST", "/v1/uploads?name=a", raw=picture() + b"\0" * (10 << 20), Content_Type="x/y")
    assert answer.status == 413
    assert waiting_files(server) == []


def test_a_file_needs_the_role_and_the_origin_of_any_other_request(server: Served) -> None:
    reader = agent(["serve", "token", "add", "r", "--role", "decide"], server.work).stdout.strip()
    assert server.request("POST", "/v1/uploads?name=a", raw=b"x", token=reader).code == "role"
    assert server.request("POST", "/v1/uploads?name=a", raw=b"x", token="wrong").status == 401
    assert server.request("POST", "/v1/uploads?name=a", raw=b"x", Origin="https://evil.example").code == "origin"
    assert not [row for row in ROUTES if row.path == "/v1/uploads" and row.role != "start"]


def test_few_files_wait_and_none_for_longer_than_a_day(server: Served) -> None:
    first = upload(server, b"x")["id"]
    folder = Path(server.env["AGENT_STATE_DIR"]) / "serve/uploads"
    for _ in range(99):
        upload(server, b"x")
    assert upload(server, b"x", status=507)["error"]["code"] == "disk"
    old = time.time() - 100_000
    for path in folder.iterdir():
        if not path.name.startswith(first):
            os.utime(path, (old, old))
    upload(server, b"x")
    assert len(waiting_files(server)) == 4


@pytest.mark.parametrize("upload_id", [NOBODY, "../../tokens", "", "x" * 36])
def test_a_file_that_is_not_there_is_named(server: Served, upload_id: str) -> None:
    session = finished(server)
    body = {"text": "x", "uploads": [upload_id]}
    assert server.request("POST", f"/v1/sessions/{session}/messages", body).code == "upload"


def test_a_command_is_never_text_for_the_model(server: Served) -> None:
    commands = server.work.parent / "home/.agent/commands"
    commands.mkdir(parents=True)
    (commands / "greet.md").write_text("---\ndescription: say hello\n---\nSay hello to $ARGUMENTS")
    session = finished(server, {"text": "Hello Ann.", "expect": "Say hello to Ann"}, {"text": "Three."})

    def said(text: str, status: int) -> Any:
        return server.post(f"/v1/sessions/{session}/messages", {"text": text}, status)

    for text, why in (("/compct", "Did you mean /compact"), ("/model x", "a command of the page"), ("/", "Unknown")):
        assert why in said(text, 422)["error"]["message"]
    page = (("/rewind", "undo", ""), ("/plan off", "plan", "off"), ("/resume b.py x", "sessions", "b.py x"))
    for text, name, words in page:
        error = said(text, 422)["error"]
        assert (error["name"], error["words"]) == (name, words)
    said("/greet Ann", 202)
    server.until(session, lambda found: found["answer"] == "Hello Ann.")
    said("/etc/hosts is a file", 202)
    server.until(session, lambda found: found["answer"] == "Three.")
    body = {"prompt": "/nope", "project": server.project, "model": "scripted:x"}
    assert server.request("POST", "/v1/sessions", body).code == "command"


def test_a_session_is_compacted_on_request(server: Served) -> None:
    session = finished(server, {"text": "Two."}, {"text": "A summary."})
    server.post(f"/v1/sessions/{session}/messages", {"text": "Second"}, 202)
    server.until(session, lambda found: found["answer"] == "Two.")
    server.post(f"/v1/sessions/{session}/messages", {"text": "/compact keep names"}, 202)
    notes: list[str] = []

    def is_noted(found: Any) -> bool:
        changes = server.get(f"/v1/sessions/{session}/view")["changes"]
        notes[:] = [change["entry"]["text"] for change in changes if change["entry"]["kind"] == "note"]
        return bool(notes)

    server.until(session, is_noted)
    assert [entry["text"] for entry in users(server, session)] == ["First", "Second"], notes


def test_commands_and_files_are_completed(server: Served) -> None:
    (server.work / "basket.py").write_text("x")
    session = finished(server)

    def texts(before: str, where: str = "") -> list[str]:
        where = where or f"session={session}"
        return [item["text"] for item in server.get(f"/v1/completions?before={before}&{where}")["items"]]

    assert texts("/comp") == ["/compact "]
    assert texts("/mode") == ["/mode ", "/model "]
    assert [text.strip() for text in texts("/mode%20pl")] == ["plan"]
    assert "/model " not in texts("/m", f"project={server.project}")
    assert texts("see%20@bask") == ["@basket.py "]
    assert texts("@bsk", f"project={server.project}") == ["@basket.py "]
    assert texts("nothing") == []
    assert server.request("GET", "/v1/completions?before=/&project=nope").code == "project"


def test_a_message_that_waits_is_taken_back(server: Served) -> None:
    session = server.begin("slow", write_script(server.work, SLOW, {"text": "Never."}, name="slow.toml"))
    server.until(session, "running")
    sent = server.post(f"/v1/sessions/{session}/messages", {"text": "Later"}, 202)["id"]
    path = f"/v1/sessions/{session}/messages/{sent}"
    assert server.get(f"/v1/sessions/{session}")["queued"][-1]["text"] == "Later"
    assert server.request("DELETE", path).status == 200
    assert server.request("DELETE", path).code == "message"
    assert server.until(session, "done")["query"] == "slow"


def test_comments_on_changes_are_a_message(server: Served) -> None:
    write = {"calls": [call("Write", file_path="n.txt", content="x\n")]}
    heard = {"text": "Two.", "expect": "On n.txt:1: why x?"}
    session = server.begin("Go", write_script(server.work, write, {"text": "One."}, heard))
    server.until(session, "waiting")
    server.decide(session, "approve")
    server.until(session, "done")
    body = {"text": "Please:", "comments": [{"path": "n.txt", "line": 1, "text": "why x?"}]}
    server.post(f"/v1/sessions/{session}/messages", body, 202)
    server.until(session, lambda found: found["answer"] == "Two.")
