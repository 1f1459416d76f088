"""A phone is paired by a code that works once; its token is listed and revoked by name."""

from __future__ import annotations

import subprocess
import time
from hashlib import blake2b
from pathlib import Path

import pytest

from agent_cli.extras.server.pairing import Pairing
from agent_cli.extras.server.qr import qr_lines, qr_modules
from tests.support.fork_server import start
from tests.support.program import agent, clean_env
from tests.support.served import Answer, Served


def state(server: Served) -> Path:
    return Path(server.env["AGENT_STATE_DIR"])


def redeem(server: Served, code: str, device: str = "iPhone") -> Answer:
    return server.request("POST", "/v1/pair", {"code": code, "device": device}, token="")


def test_a_code_works_once_and_each_device_gets_a_token_of_its_own(server: Served) -> None:
    pairing = Pairing(state(server))
    code = pairing.offer("start")
    paired = redeem(server, code)
    assert (paired.status, paired.data["name"]) == (201, "iPhone")
    assert redeem(server, code).code == "code"
    second = redeem(server, pairing.offer("decide"), "iPhone\n<b>").data
    assert second["name"] == "iPhone b"
    assert server.get("/v1/me", token=second["token"])["role"] == "decide"
    assert server.get("/v1/me", token=paired.data["token"])["name"] == "iPhone"
    listed = agent(["serve", "token", "list"], server.work).stdout
    assert "iPhone" in listed and paired.data["token"] not in listed
    agent(["serve", "token", "revoke", "iPhone"], server.work)
    assert server.request("GET", "/v1/me", token=paired.data["token"]).status == 401


def test_a_code_is_void_after_ten_minutes_and_ten_wrong_ones(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    pairing = Pairing(state(server))
    code = pairing.offer("start")
    assert all(pairing.redeem(f"wrong {n}", "x") is None for n in range(10))
    assert pairing.redeem(code, "x") is None
    code = pairing.offer("start")
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 601)
    assert pairing.redeem(code, "x") is None


def test_wrong_codes_are_limited_and_the_code_is_not_stored(server: Served) -> None:
    code = Pairing(state(server)).offer("start")
    assert code not in (state(server) / "serve/pairing.json").read_text()
    answers = [redeem(server, f"wrong {n}").status for n in range(25)]
    assert answers[0] == 403 and answers[-1] == 429
    assert redeem(server, code).status == 429
    assert server.request("POST", "/v1/pair", {"code": code}, token="", Origin="https://evil.example").code == "origin"
    assert server.request("GET", "/v1/pair").status in (405, 429)


def test_a_phone_needs_an_https_address(work: Path) -> None:
    done = agent(["serve", "--phone"], work)
    assert done.returncode == 2
    assert "needs an https address" in done.stderr and "tailscale" in done.stderr


def test_the_link_of_a_phone_is_a_qr_code(work: Path) -> None:
    args = ["serve", "--port", "0", "--phone", "--allowed-host", "agent.example.org"]
    process = start(args, work, clean_env(work.parent / "home"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert process.stdout is not None
    shown = []
    while not shown or not shown[-1].startswith("Scan this"):
        shown.append(process.stdout.readline().decode())
    process.terminate()
    process.wait(30)
    process.stdout.close()
    link = shown[-1].rpartition(" ")[2].strip()
    assert link.startswith("https://agent.example.org/#pair=")
    assert [line.rstrip("\n") for line in shown[-1 - len(qr_lines(link)) : -1]] == qr_lines(link)
    # Checked against another program that makes them.
    made = qr_modules(b"https://agent.example.org/#pair=abcdefghijklmnopqrstuv", 3)
    assert blake2b(repr(made).encode(), digest_size=8).hexdigest() == "f6a6249efe988814"
    lines = qr_lines("https://agent.example.org/")
    assert len({len(line) for line in lines}) == 1
    assert set("".join(lines)) <= set(" ▄▀█")
    with pytest.raises(ValueError, match="too long"):
        qr_lines("x" * 300)


def test_the_page_can_be_installed(server: Served) -> None:
    manifest = server.request("GET", "/page/app.webmanifest")
    assert manifest.headers["content-type"] == "application/manifest+json"
    assert (manifest.data["display"], manifest.data["start_url"]) == ("standalone", "/")
    for icon in manifest.data["icons"]:
        answer = server.request("GET", icon["src"])
        assert (answer.status, answer.headers["content-type"]) == (200, "image/png")
    assert b'rel="manifest"' in server.request("GET", "/").raw
