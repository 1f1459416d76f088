"""An MCP server behind a login, with its own authorization server, both of the SDK, on loopback; and a browser."""

from __future__ import annotations

import json
import secrets
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl, ConfigDict, TypeAdapter

from tests.support.mcp.running import PATIENCE, eventually

# What the metadata say of the token endpoint, so that one who guesses it is found out.
TOKEN = "/as/token"


class Office(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """The authorization server: everybody who asks may sign in, and a refresh token counts once."""

    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.access: dict[str, AccessToken] = {}
        self.refresh: dict[str, RefreshToken] = {}
        self.asked: list[AuthorizationParams] = []
        self.refreshed = 0
        self.issued: list[str] = []
        self.lasts = 3600
        self.issuer = ""

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        self.asked.append(params)
        code = secrets.token_urlsafe(24)
        self.codes[code] = AuthorizationCode(
            code=code, scopes=params.scopes or [], expires_at=time.time() + 60, client_id=client.client_id,
            code_challenge=params.code_challenge, redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=True, resource=params.resource,
        )  # fmt: skip
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state, iss=self.issuer)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._tokens(client.client_id, authorization_code.scopes, authorization_code.resource)

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        del self.refresh[refresh_token.token]
        self.refreshed += 1
        return self._tokens(client.client_id, scopes, refresh_token.resource)

    def _tokens(self, client: str, scopes: list[str], resource: str | None) -> OAuthToken:
        access, refresh = f"access-{secrets.token_urlsafe(24)}", f"refresh-{secrets.token_urlsafe(24)}"
        self.issued += [access, refresh]
        end = int(time.time()) + self.lasts
        self.access[access] = AccessToken(
            token=access, client_id=client, scopes=scopes, expires_at=end, resource=resource
        )
        self.refresh[refresh] = RefreshToken(token=refresh, client_id=client, scopes=scopes, resource=resource)
        return OAuthToken(access_token=access, expires_in=self.lasts, refresh_token=refresh, scope=" ".join(scopes))

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.access.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.access.pop(token.token, None)
        self.refresh.pop(token.token, None)


class Locked:
    """The server: where it is, its office, the tokens it was shown, and what its answers are changed to, by path."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.office = Office()
        self.port = 0
        self.shown: list[tuple[str, str]] = []
        self.changes: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {}

    @property
    def url(self) -> str:
        return f"{self.issuer}{self.path}"

    @property
    def issuer(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def around(self, app: Any) -> Any:
        """The application, watched and with answers changed."""

        async def serve(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            path = scope["path"]
            headers = {k.decode(): v.decode() for k, v in scope["headers"]}
            self.shown.append((path, headers.get("authorization", "")))
            if path == TOKEN:
                scope = scope | {"path": "/token", "raw_path": b"/token"}
            change = self.changes.get(path)
            if change is None:
                await app(scope, receive, send)
                return
            start: dict[str, Any] = {}
            body = b""

            async def kept(message: Any) -> None:
                nonlocal body
                if message["type"] == "http.response.start":
                    start.update(message)
                    return
                body += message.get("body", b"")
                if not message.get("more_body"):
                    changed = json.dumps(change(json.loads(body or b"{}"))).encode()
                    others = [h for h in start["headers"] if h[0] != b"content-length"]
                    await send(start | {"headers": [*others, (b"content-length", str(len(changed)).encode())]})
                    await send({"type": "http.response.body", "body": changed})

            await app(scope, receive, kept)

        return serve


METADATA = "/.well-known/oauth-authorization-server"
RESOURCE = "/.well-known/oauth-protected-resource/mcp"


def _as_written(address: str) -> AnyHttpUrl:
    """The address without the slash at its end that pydantic would add."""
    return TypeAdapter(AnyHttpUrl, config=ConfigDict(url_preserve_empty_path=True)).validate_python(address)


@contextmanager
def locked(*, sse: bool = False) -> Iterator[Locked]:
    """The server, while it runs, over streamable HTTP or over events."""
    import socket

    made = Locked("/sse" if sse else "/mcp")
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        made.port = listening.getsockname()[1]
        made.office.issuer = made.issuer
        auth = AuthSettings(
            issuer_url=_as_written(made.issuer), resource_server_url=_as_written(made.url), required_scopes=["notes"],
            client_registration_options=ClientRegistrationOptions(
                enabled=True, valid_scopes=["notes", "more"], default_scopes=["notes"]
            ),
            validate_token_resource=True, revocation_options=RevocationOptions(enabled=True),
        )  # fmt: skip
        server = MCPServer("locked", version="1", auth_server_provider=made.office, auth=auth)

        @server.tool()
        def add(a: int, b: int) -> str:
            """Add two numbers."""
            return str(a + b)

        made.changes[METADATA] = lambda found: found | {"token_endpoint": made.issuer + TOKEN}
        settings = uvicorn.Config(
            made.around(server.sse_app() if sse else server.streamable_http_app()), log_level="critical", lifespan="on"
        )
        web = uvicorn.Server(settings)
        thread = threading.Thread(target=web.run, args=([listening],), daemon=True)
        thread.start()
        try:
            eventually(lambda: web.started)
            yield made
        finally:
            web.should_exit = web.force_exit = True
            thread.join(PATIENCE)


def browse(address: str) -> tuple[int, str]:
    """What a browser does that opens an address and follows where it leads."""
    try:
        with urllib.request.urlopen(address, timeout=PATIENCE) as page:
            return page.status, page.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
