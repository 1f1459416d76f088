"""Sessions whose provider refuses a part of them, in the real program: they go on, also when they are resumed."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from pathlib import Path
from typing import Any

from tests.support.model_server import Call, ModelServer, Received, Reply
from tests.support.program import agent

MODEL = "anthropic/claude-sonnet-5"


def png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = zlib.compress(b"".join(b"\0" + b"\x55" * width * 3 for _ in range(height)))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def run(work: Path, server: ModelServer, *args: str) -> Any:
    env = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": server.anthropic_url}
    return agent(["-p", "--yolo", "--model", MODEL, *args], work, env)


def refusing(part: bytes, words: str, *replies: Reply) -> Any:
    """Replies in order to the requests that do not contain the part; the last is repeated."""
    left = list(replies)

    def respond(received: Received) -> Reply:
        if part in received.raw:
            return Reply(status=400, error=words)
        return left.pop(0) if len(left) > 1 else left[0]

    return respond


def test_a_refused_image_is_left_out_now_and_when_the_session_is_resumed(work: Path) -> None:
    (work / "x.png").write_bytes(png(60, 60))
    read = Reply(calls=(Call("Read", {"file_path": "x.png"}),))
    with ModelServer([refusing(b'"media_type"', "Could not process image", read, Reply(text="fine"))] * 4) as server:
        first, again = run(work, server, "go"), run(work, server, "-c", "next")
    assert (first.stdout, again.stdout) == ("fine\n", "fine\n")
    assert "It passed without the image x.png, left out for the rest of this session." in first.stderr
    assert "warning" not in again.stderr
    assert [b'"media_type"' in request.raw for request in server.requests] == [False, True, False, False]


def test_a_session_of_another_account_is_resumed_without_its_reasoning(work: Path) -> None:
    call = Call("Bash", {"command": "true"})
    made = [Reply(thinking="hm", signature="b2xk", calls=(call,)), Reply(text="done")]
    with ModelServer(made) as server:
        run(work, server, "go")
    words = "messages.1.content.0: Invalid `signature` in `thinking` block"
    with ModelServer([refusing(b"b2xk", words, Reply(text="fine"))] * 3) as server:
        first, again = run(work, server, "-c", "next"), run(work, server, "-c", "and then?")
        options = [body.get("thinking") for body in server.bodies]
    assert (first.stdout, again.stdout) == ("fine\n", "fine\n")
    assert [b"b2xk" in request.raw for request in server.requests] == [True, False, False]
    assert options[0] and options == [options[0]] * 3, "the option of thinking stays"
    assert "does not support" not in first.stderr and "the reasoning of earlier answers" in first.stderr


def test_what_is_always_refused_names_the_ways_out_the_second_time(work: Path) -> None:
    with ModelServer([Reply(status=400, error="Bad request")] * 20) as server:
        first, again = run(work, server, "go"), run(work, server, "-c", "next")
    assert "/rewind" not in first.stderr and first.returncode == again.returncode != 0
    assert "/compact" in again.stderr and "/rewind" in again.stderr


def test_the_log_keeps_what_was_left_out(work: Path) -> None:
    image = png(60, 60)
    (work / "x.png").write_bytes(image)
    read = Reply(calls=(Call("Read", {"file_path": "x.png"}),))
    replies = [read, Reply(text="fine")]
    with ModelServer([refusing(b'"media_type"', "Could not process image", *replies)] * 3) as server:
        done = run(work, server, "--output-format", "json", "go")
    identity = json.loads(done.stdout)["session_id"]
    shown = agent(["sessions", "export", identity, "--format", "json"], work, {})
    assert shown.returncode == 0
    records = next(Path(work).parent.rglob(f"{identity}.jsonl")).read_text()
    assert base64.b64encode(image).decode() in records, "the session keeps the image"
    assert '"type":"LeftOut"' in records


def test_a_recorded_refusal_is_replayed_with_the_same_steps(work: Path) -> None:
    for name, size in (("a.png", 50), ("b.png", 60)):
        (work / name).write_bytes(png(size, size))
    bad = base64.b64encode((work / "a.png").read_bytes())
    words = "messages.2.content.0.image.source.base64: image exceeds 5 MB maximum"
    reads = Reply(calls=(Call("Read", {"file_path": "a.png"}), Call("Read", {"file_path": "b.png"})))
    with ModelServer([refusing(bad, words, reads, Reply(text="fine"))] * 4) as server:
        recorded = run(work, server, "--record", "../run.jsonl", "go")
        assert len(server.requests) == 3, "the image that is named, not the newest"
    replayed = agent(["-p", "--yolo", "--model", "replay:../run.jsonl", "go"], work, {})
    assert (recorded.stdout, replayed.stdout) == ("fine\n", "fine\n")
    assert "It passed without the image a.png" in recorded.stderr and "the image a.png" in replayed.stderr
