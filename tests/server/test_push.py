"""Push notifications: encrypted for one browser, signed by the server, and answered once."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils

from agent_cli.extras.server import web_push
from agent_cli.extras.server.push_service import PushStore, PushSubscription
from tests.support.program import agent
from tests.support.push_service import Browser, PushServer
from tests.support.scripts import bash, call
from tests.support.served import Served, served, write_script

SECONDS = 40


@pytest.fixture(scope="module")
def push(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PushServer]:
    with PushServer(tmp_path_factory.mktemp("push")) as server:
        yield server


@contextmanager
def serving(work: Path, push: PushServer) -> Iterator[Served]:
    push.allow(work.parent / "home")
    with served(work, SSL_CERT_FILE=str(push.certificate)) as server:
        yield server


def test_a_message_is_encrypted_as_the_standard_has_it() -> None:
    """The example of RFC 8291, appendix A."""
    made = web_push.encrypt(
        b"When I grow up, I want to be a watermelon",
        "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
        "BTBZMqHH6r4Tts7J_aSIgg",
        key="yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw",
        salt=web_push.decode("DGv6ra1nlYgDCS1FRnbzlw"),
    )
    assert web_push.encode(made) == (
        "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl"
        "7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
    )


def test_a_push_is_signed_and_its_ticket_approves_once(work: Path, push: PushServer) -> None:
    with serving(work, push) as server:
        info = server.get("/v1/push")
        assert info == {"key": info["key"], "subscribed": False}
        phone = Browser(push)
        server.post("/v1/push", phone.subscription())
        assert server.get("/v1/push")["subscribed"]
        session = server.begin("Touch it", write_script(work, bash("touch one"), bash("touch two"), {"text": "Ok."}))
        headers, message = phone.receive()
        assert message["title"] == "Waiting for you: Touch it" and message["url"] == f"/#/s/{session}"
        assert message["body"] == f"Run a command\ntouch one\nin {work}"
        assert (headers["ttl"], headers["urgency"], headers["content-encoding"]) == ("43200", "high", "aes128gcm")
        _check_signature(headers["authorization"], info["key"], push.origin, server.port)
        body = {"ticket": message["ticket"]}
        assert server.post("/v1/push/answer", body, token="")["decided"] == "approved by owner"
        again = server.request("POST", "/v1/push/answer", body, token="")
        assert (again.status, again.code) == (403, "ticket")
        _, second = phone.receive()
        assert "touch two" in second["body"] and second["ticket"] != message["ticket"]
        server.decide(session, "approve")
        late = server.request("POST", "/v1/push/answer", {"ticket": second["ticket"]}, token="")
        assert (late.status, late.code) == (409, "decided")
        _, done = phone.receive()
        assert (done["title"], done["body"], "ticket" in done) == ("Done: Touch it", "Ok.", False)
        assert (work / "one").exists() and (work / "two").exists()
        stored = server.tasks.parent / "push.json"
        assert stored.stat().st_mode & 0o077 == 0


def _check_signature(header: str, key: str, origin: str, port: int) -> None:
    """Check the VAPID header as a push service does (RFC 8292)."""
    scheme, _, rest = header.partition(" ")
    fields = dict(part.strip().split("=", 1) for part in rest.split(","))
    assert (scheme, fields["k"]) == ("vapid", key)
    signed, _, signature = fields["t"].rpartition(".")
    raw = web_push.decode(signature)
    pair = utils.encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
    public = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), web_push.decode(key))
    public.verify(pair, signed.encode(), ec.ECDSA(hashes.SHA256()))
    head, claims = (json.loads(web_push.decode(part)) for part in signed.split("."))
    assert head == {"typ": "JWT", "alg": "ES256"}
    assert (claims["aud"], claims["sub"]) == (origin, f"https://127.0.0.1:{port}/")
    assert time.time() < claims["exp"] <= time.time() + 24 * 3600


LONG = "echo " + "x" * 200


@pytest.mark.parametrize(
    "calls",
    [
        [call("Bash", command=LONG)],
        [call("Bash", command="touch n && rm -f kept.txt")],
        [call("Bash", command="touch a"), call("Bash", command="touch b")],
        [call("Write", file_path="w.txt", content="line\n" * 20)],
        [call("AskUserQuestion", questions=[{"question": "Which?", "options": [{"label": "A"}, {"label": "B"}]}])],
    ],
    ids=["long", "destroys", "several", "large", "question"],
)
def test_what_does_not_fit_or_destroys_opens_the_page(work: Path, push: PushServer, calls: list[Any]) -> None:
    (work / "kept.txt").write_text("mine\n")
    with serving(work, push) as server:
        phone = Browser(push)
        server.post("/v1/push", phone.subscription())
        server.begin("Go", write_script(work, {"calls": calls}, {"text": "x"}))
        _, message = phone.receive()
        assert "ticket" not in message and len(message["body"]) <= 160


def test_a_device_that_may_only_read_cannot_answer_and_a_revoked_one_hears_nothing(
    work: Path, push: PushServer
) -> None:
    with serving(work, push) as server:
        reader, guest = Browser(push), Browser(push)
        secret = agent(["serve", "token", "add", "reader"], work).stdout.strip()
        other = agent(["serve", "token", "add", "guest", "--role", "decide"], work).stdout.strip()
        server.post("/v1/push", reader.subscription(), token=secret)
        server.post("/v1/push", guest.subscription(), token=other)
        session = server.begin("Touch", write_script(work, bash("touch one"), bash("touch two"), {"text": "x"}))
        assert "ticket" not in reader.receive()[1]
        ticket = guest.receive()[1]["ticket"]
        agent(["serve", "token", "revoke", "guest"], work)
        assert server.request("POST", "/v1/push/answer", {"ticket": ticket}, token="").code == "ticket"
        assert not (work / "one").exists()
        server.decide(session, "approve")
        reader.receive()
        with pytest.raises(Empty):
            guest.came.get_nowait()
        assert "guest" not in agent(["serve", "token", "list"], work).stdout
        assert guest.endpoint not in (server.tasks.parent / "push.json").read_text()


def test_a_browser_that_is_gone_is_forgotten_and_a_busy_service_asked_again(work: Path, push: PushServer) -> None:
    with serving(work, push) as server:
        gone, busy = Browser(push, statuses=[410]), Browser(push, statuses=[503])
        server.post("/v1/push", gone.subscription())
        server.post("/v1/push", busy.subscription())
        server.begin("Say", write_script(work, {"text": "Hi."}))
        assert busy.receive()[1]["body"] == "Hi."
        stored = server.tasks.parent / "push.json"
        assert busy.endpoint in stored.read_text() and gone.endpoint not in stored.read_text()
        server.post("/v1/push", {"endpoint": busy.endpoint, "on": False})
        assert not server.get("/v1/push")["subscribed"]


def test_devices_that_subscribe_at_once_are_all_kept_and_share_a_key(tmp_path: Path) -> None:
    store, keys = PushStore(tmp_path), list[str]()

    def subscribe(number: int) -> None:
        keys.append(store.key())
        store.add(PushSubscription("t", f"https://push.example/{number}", "r", "s", "now"))

    threads = [threading.Thread(target=subscribe, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(keys)) == 1
    assert len(store.read().subscriptions) == 12
