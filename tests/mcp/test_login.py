"""A server behind a login: named, logged in to, used, renewed, logged out of; and what must not come about."""

from __future__ import annotations

import logging
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_cli.config.schema import McpServer
from agent_cli.kernel.runtime.server_login import log_in, revoke
from agent_cli.mcp.catalog import McpRequestError
from agent_cli.mcp.credentials import Login, LoginStore, is_secure_url, key_of
from tests.support.mcp.login_server import METADATA, RESOURCE, TOKEN, Locked, browse, locked
from tests.support.mcp.running import PATIENCE, ask, company, text_of

SENTENCE = "web needs a login: agent mcp login web"


def logged_in(server: McpServer, browser: Callable[[str], Any] = browse, seconds: float = PATIENCE) -> Login:
    """A login whose browser is a thread."""

    def show(address: str) -> None:
        threading.Thread(target=browser, args=(address,), daemon=True).start()

    return log_in(server, show, lambda text: None, None, seconds)


def test_from_a_refusal_to_a_login_a_renewal_and_a_logout(tmp_path: Path, web: Locked) -> None:
    declared = McpServer(url=web.url)
    logins = LoginStore(tmp_path / "logins")
    with company(tmp_path, web=declared) as servers:
        assert (servers.all["web"].status, servers.take_notifications()) == ("login", [f"the MCP server {SENTENCE}"])
    assert logins.state(declared) == "wanted"
    login = logged_in(declared)
    logins.save(declared, login)
    assert logins.state(declared) == "stored"
    (params,) = web.office.asked
    assert str(params.redirect_uri).startswith("http://127.0.0.1:")
    assert params.resource == web.url
    (file,) = [p for p in logins.folder.iterdir() if p.suffix == ".json"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(logins.folder.stat().st_mode) == 0o700
    with company(tmp_path, web=declared) as servers:
        server = servers.all["web"]
        assert server.status == "ready", server.reason
        assert text_of(ask(server, "add", {"a": 1, "b": 2})) == "3"
        # The server has forgotten the token, whatever its time was.
        web.office.access.clear()
        assert text_of(ask(server, "add", {"a": 2, "b": 2})) == "4"
        assert web.office.refreshed == 1
        # What is refused later is not for want of a login.
        with pytest.raises(McpRequestError, match=r"^(?!it wants)"):
            server.read("note://none").result(PATIENCE)
    # It has run out, and is renewed before it is shown, at the address that the metadata named.
    renewed = logins.find(declared)
    assert renewed is not None
    assert renewed.tokens["access_token"] != login.tokens["access_token"]
    logins.save(declared, renewed.replace(expires=1.0))
    web.shown.clear()
    with company(tmp_path, web=declared) as servers:
        server = servers.all["web"]
        assert server.status == "ready", server.reason
        assert web.office.refreshed == 2
        assert [path for path, _ in web.shown[:2]] == [TOKEN, "/mcp"]
        # Logged out in another terminal, and nothing else counts.
        assert logins.forget(declared)
        with pytest.raises(McpRequestError, match="it needs a login: agent mcp login web"):
            ask(server, "add", {"a": 1, "b": 2})
        assert servers.take_notifications() == [f"the MCP server {SENTENCE}"]
    with company(tmp_path, web=declared) as servers:
        assert servers.all["web"].status == "login"


def test_many_requests_at_once_renew_a_login_once(tmp_path: Path, web: Locked) -> None:
    declared = McpServer(url=web.url)
    logins = LoginStore(tmp_path / "logins")
    logins.save(declared, logged_in(declared))
    with company(tmp_path, one=declared, two=declared) as servers:
        web.office.access.clear()
        calls = [
            s.call("add", {"a": n, "b": 1}, lambda kind, what: None) for s in servers.all.values() for n in range(5)
        ]
        assert sorted(int(text_of(c.result(PATIENCE))) for c in calls) == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert web.office.refreshed == 1


def test_a_login_whose_renewal_is_refused_is_named(tmp_path: Path, web: Locked) -> None:
    declared = McpServer(url=web.url)
    LoginStore(tmp_path / "logins").save(declared, logged_in(declared).replace(expires=1.0))
    web.office.access.clear()
    web.office.refresh.clear()
    with company(tmp_path, web=declared) as servers:
        assert servers.take_notifications() == [f"the MCP server {SENTENCE}"]


def test_who_logs_out_while_a_login_is_renewed_stays_logged_out(tmp_path: Path, web: Locked) -> None:
    declared = McpServer(url=web.url)
    logins = LoginStore(tmp_path / "logins")
    logins.save(declared, logged_in(declared).replace(expires=1.0))

    def log_out(found: dict[str, Any]) -> dict[str, Any]:
        logins.forget(declared)
        return found

    web.changes[TOKEN] = log_out
    with company(tmp_path, web=declared):
        assert web.office.refreshed == 1
    assert logins.find(declared) is None


def test_tokens_that_cannot_be_taken_back_are_reported_to_be(web: Locked) -> None:
    login = logged_in(McpServer(url=web.url))
    assert login.metadata is not None
    for nowhere in ("http://127.0.0.1:9/revoke", "http://elsewhere.example/revoke", f"{web.issuer}/nowhere"):
        assert not revoke(login.replace(metadata=login.metadata | {"revocation_endpoint": nowhere}))
    assert revoke(login.replace(metadata={k: v for k, v in login.metadata.items() if k != "revocation_endpoint"}))
    assert revoke(login.replace(metadata=None))


def test_another_address_or_client_does_not_get_the_token(tmp_path: Path, web: Locked) -> None:
    logins = LoginStore(tmp_path / "logins")
    declared = McpServer(url=web.url)
    logins.save(declared, logged_in(declared))
    assert logins.find(declared.replace(url=f"{web.url}/other")) is None
    assert logins.find(declared.replace(oauth={"clientId": "mine"})) is None
    assert logins.find(declared.replace(headers={"authorization": "Bearer x"})) is None
    with locked() as thief:
        with company(tmp_path, web=McpServer(url=thief.url)) as servers:
            assert servers.all["web"].status == "login"
        assert {token for _, token in thief.shown} == {""}
        # Not even where the file of the one is put in the place of the other's.
        (file,) = logins.folder.glob("*.json")
        for other in (McpServer(url=thief.url), declared.replace(oauth={"clientId": "mine"})):
            file = file.rename(logins._path(other))
            assert logins.find(other) is None


def test_a_token_stays_with_its_origin_wherever_a_request_goes(tmp_path: Path) -> None:
    import asyncio

    import httpx2

    from agent_cli.mcp.oauth import TokenAuth

    declared = McpServer(url="https://tracker.example/mcp")
    logins = LoginStore(tmp_path / "logins")
    logins.save(declared, Login(key_of(declared), {"access_token": "secret"}, 0.0, {}))
    assert "secret" not in repr(logins.find(declared))

    async def header(url: str) -> str | None:
        flow = TokenAuth(declared, logins).async_auth_flow(httpx2.Request("POST", url))
        request = await anext(flow)
        await flow.aclose()
        return request.headers.get("Authorization")

    assert asyncio.run(header("https://tracker.example/mcp/messages")) == "Bearer secret"
    for url in ("http://tracker.example/mcp", "https://tracker.example:8443/mcp", "https://example/mcp"):
        assert asyncio.run(header(url)) is None


@pytest.mark.parametrize(
    ("address", "server", "may"),
    [
        ("https://a.example/token", "https://b.example/mcp", True),
        ("http://a.example/token", "https://a.example/mcp", False),
        ("http://127.0.0.1:1/token", "https://a.example/mcp", False),
        ("http://127.0.0.1:1/token", "http://localhost:2/mcp", True),
        ("http://[::1]:1/token", "http://127.0.0.1:2/mcp", True),
        ("http://127.0.0.1@a.example/token", "http://127.0.0.1/mcp", False),
        ("http://127.0.0.1.a.example/token", "http://127.0.0.1/mcp", False),
        ("file:///etc/passwd", "http://127.0.0.1/mcp", False),
        ("http://[::1/token", "http://127.0.0.1/mcp", False),
    ],
)
def test_what_may_carry_a_login(address: str, server: str, may: bool) -> None:
    assert is_secure_url(address, server) is may


def test_an_answer_with_another_state_is_refused(web: Locked) -> None:
    pages: list[tuple[int, str]] = []

    def browser(address: str) -> None:
        redirect = str(address.partition("redirect_uri=")[2].partition("&")[0])
        target = redirect.replace("%3A", ":").replace("%2F", "/")
        pages.append(browse(f"{target}?code=stolen&state=guessed"))
        pages.append(browse(f"{target}?code=stolen"))
        pages.append(browse(target.replace("/callback", "/")))
        pages.append(browse(address))
        pages.append(browse(f"{target}?code=late&state=x"))

    login = logged_in(McpServer(url=web.url), browser)
    assert login.tokens["access_token"] in web.office.access
    assert [status for status, _ in pages[:4]] == [400, 400, 400, 200]


@pytest.mark.parametrize(
    ("path", "change", "words"),
    [
        (METADATA, {"issuer": "https://elsewhere.example"}, "issuer mismatch"),
        (METADATA, {"token_endpoint": "http://elsewhere.example/token"}, "is not https"),
        (METADATA, {"registration_endpoint": "http://elsewhere.example/register"}, "is not https"),
        (METADATA, {"authorization_endpoint": "http://elsewhere.example/authorize"}, "is not https"),
        (METADATA, {"code_challenge_methods_supported": ["plain"]}, "no PKCE with S256"),
        (METADATA, {"authorization_response_iss_parameter_supported": True, "issuer": "http://127.0.0.1:1"}, "issuer"),
        (RESOURCE, {"resource": "https://elsewhere.example/mcp"}, "does not match expected"),
        (RESOURCE, {"authorization_servers": ["http://elsewhere.example"]}, "is not https"),
        (TOKEN, {"access_token": None, "refresh_token": "refresh-secret"}, "does not follow the protocol"),
    ],
)
def test_a_login_that_leads_astray_is_one_sentence(
    web: Locked, path: str, change: dict[str, Any], words: str, caplog: pytest.LogCaptureFixture
) -> None:
    before = web.changes.get(path, lambda found: found)
    web.changes[path] = lambda found: before(found) | change
    with caplog.at_level(logging.DEBUG), pytest.raises(McpRequestError, match=words) as refused:
        logged_in(McpServer(url=web.url))
    assert str(refused.value).isprintable()
    assert "refresh-" not in f"{refused.value}{caplog.text}"


def test_who_registers_nobody_is_one_sentence_and_who_asks_for_nothing_too(web: Locked) -> None:
    web.changes[METADATA] = lambda found: found | {"registration_endpoint": f"{web.issuer}/nowhere"}
    with pytest.raises(McpRequestError, match=r"no client could be registered \(.*404.*oauth.clientId"):
        logged_in(McpServer(url=web.url))
    with pytest.raises(McpRequestError, match="it did not ask for a login and offers none"):
        logged_in(McpServer(url=f"{web.issuer}/elsewhere"))


@pytest.mark.parametrize("methods", [None, ["none"], ["client_secret_basic"], ["client_secret_post"]])
def test_a_client_registers_as_what_is_taken_and_renews_as_that(
    tmp_path: Path, web: Locked, methods: list[str] | None
) -> None:
    before = web.changes[METADATA]
    web.changes[METADATA] = lambda found: before(found) | {"token_endpoint_auth_methods_supported": methods}
    declared = McpServer(url=web.url)
    LoginStore(tmp_path / "logins").save(declared, logged_in(declared).replace(expires=1.0))
    (client,) = web.office.clients.values()
    assert client.token_endpoint_auth_method == (methods or ["none"])[0]
    with company(tmp_path, web=declared) as servers:
        assert servers.all["web"].status == "ready", servers.all["web"].reason
    assert web.office.refreshed == 1


def test_the_issuer_of_the_answer_is_checked(web: Locked) -> None:
    web.office.issuer = "https://elsewhere.example"
    with pytest.raises(McpRequestError, match="iss mismatch"):
        logged_in(McpServer(url=web.url))


def test_a_sign_in_that_fails_or_takes_too_long_ends(web: Locked) -> None:
    def denied(address: str) -> None:
        target, _, rest = address.partition("redirect_uri=")[2].partition("&")
        state = rest.partition("state=")[2].partition("&")[0]
        target = target.replace("%3A", ":").replace("%2F", "/")
        browse(f"{target}?error=access_denied&error_description=%1B%5B31mno&state={state}")

    with pytest.raises(McpRequestError, match="access_denied") as refused:
        logged_in(McpServer(url=web.url), denied)
    assert str(refused.value).isprintable()
    with pytest.raises(McpRequestError, match="nobody signed in within"):
        logged_in(McpServer(url=web.url), lambda address: None, 1.0)


def test_a_client_that_is_declared_with_port_scopes_and_metadata(web: Locked) -> None:
    import socket

    from mcp.shared.auth import OAuthClientInformationFull
    from pydantic import AnyUrl

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    web.office.clients["mine"] = OAuthClientInformationFull(
        client_id="mine", client_secret="hush", redirect_uris=[AnyUrl(f"http://localhost:{port}/callback")],
        scope="notes more", token_endpoint_auth_method="client_secret_basic",
    )  # fmt: skip
    web.changes[RESOURCE] = lambda found: {"nothing": "useful"}
    declared = McpServer(
        url=web.url,
        oauth={"clientId": "mine", "clientSecret": "hush", "callbackPort": port, "scopes": "notes more",
               "authServerMetadataUrl": web.issuer + METADATA},
    )  # fmt: skip
    login = logged_in(declared)
    assert login.client["client_id"] == "mine"
    assert web.office.asked[0].scopes == ["notes", "more"]
    assert [path for path, _ in web.shown if path == RESOURCE] == []
    assert list(web.office.clients) == ["mine"]


def test_a_server_over_events_takes_a_login_too(tmp_path: Path) -> None:
    with locked(sse=True) as web:
        declared = McpServer(url=web.url, type="sse")
        with company(tmp_path, web=declared) as servers:
            assert servers.take_notifications() == [f"the MCP server {SENTENCE}"]
        LoginStore(tmp_path / "logins").save(declared, logged_in(declared))
        with company(tmp_path, web=declared) as servers:
            assert text_of(ask(servers.all["web"], "add", {"a": 1, "b": 2})) == "3", servers.all["web"].reason
