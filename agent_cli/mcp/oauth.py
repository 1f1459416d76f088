"""Interactive logins, and their tokens on the requests of a session. No other file uses the SDK's OAuth client.

Loaded only for a login and for servers that have one. Every address that login data goes to is checked here, and
redirects to another origin are not followed. Runs on the loop's thread only.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError, OAuthRegistrationError
from mcp.client.auth.oauth2 import OAuthContext
from mcp.client.auth.utils import create_oauth_metadata_request, extract_resource_metadata_from_www_auth
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
    TokenEndpointAuthMethod,
)
from pydantic import AnyUrl, ValidationError

from agent_cli.config.schema import McpServer
from agent_cli.mcp.catalog import McpRequestError
from agent_cli.mcp.client import reason
from agent_cli.mcp.credentials import Login, LoginStore, LoginStoreError, is_secure_url, key_of
from agent_cli.mcp.http_transport import make_client
from agent_tools.text import shorten

# Since this protocol version, token requests name their server.
PROTOCOL = "2025-06-18"
_ACCEPT = "application/json, text/event-stream"
# How long before its expiry a token is renewed.
_RENEW_BEFORE_SECONDS = 10.0
# Time limit for one answer, and for another process to renew a login.
_ANSWER_SECONDS = 30.0
_REVOCATION_SECONDS = 5.0
_HTTP_ERRORS = (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError)
_RESOURCE = "/.well-known/oauth-protected-resource"
_METHODS: tuple[TokenEndpointAuthMethod, ...] = ("none", "client_secret_basic", "client_secret_post")
_WELL_KNOWN = ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration")


class InMemoryTokens:
    """Token storage for the SDK until the login is complete."""

    def __init__(self, client: OAuthClientInformationFull | None) -> None:
        self.client = client
        self.tokens: OAuthToken | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class _InteractiveProvider(OAuthClientProvider):
    """The SDK's provider, restricted to addresses that may receive login data, and to the declared `oauth`."""

    def __init__(self, server: McpServer, *args: Any, **kwargs: Any) -> None:
        super().__init__(server.url, *args, **kwargs)
        self._server = server
        self.login_demanded = False

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        declared = str(self._server.oauth.get("authServerMetadataUrl", ""))
        metadata = b""
        flow = super().async_auth_flow(request)
        try:
            response = yield await flow.__anext__()
            self.login_demanded = response.status_code == 401
            outgoing = await flow.asend(self._challenge(response))
            while True:
                path = outgoing.url.path
                if declared and outgoing is not request and _RESOURCE in path:
                    # The metadata location is declared, so do not ask the server for it.
                    found = yield self._check_address(create_oauth_metadata_request(declared))
                    metadata = await found.aread()
                    response = self._resource_response(found, metadata)
                elif declared and outgoing is not request and any(part in path for part in _WELL_KNOWN):
                    response = httpx2.Response(200, content=metadata, request=outgoing)
                else:
                    response = yield self._check_address(outgoing)
                    metadata = await response.aread() if any(part in path for part in _WELL_KNOWN) else b""
                self._choose_auth_method(metadata)
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()

    def _challenge(self, response: httpx2.Response) -> httpx2.Response:
        """Return an authentication challenge even if the server accepts the first request: the user wants a login."""
        scopes = self._server.oauth.get("scopes")
        if not scopes:
            return response if self.login_demanded else httpx2.Response(401, request=response.request)
        address = extract_resource_metadata_from_www_auth(response)
        challenge = f'Bearer scope="{scopes}"' + (f', resource_metadata="{address}"' if address else "")
        return httpx2.Response(401, headers={"WWW-Authenticate": challenge}, request=response.request)

    def _choose_auth_method(self, metadata: bytes) -> None:
        """Choose the type of client to register: without a secret if the server's metadata allows it."""
        with suppress(ValidationError):
            known = OAuthMetadata.model_validate_json(metadata).token_endpoint_auth_methods_supported or ["none"]
            method = next((m for m in _METHODS if m in known), None)
            self.context.client_metadata.token_endpoint_auth_method = method

    def _check_address(self, request: httpx2.Request) -> httpx2.Request:
        """Return the request if it may be sent. Raises McpRequestError."""
        if not is_secure_url(str(request.url), self._server.url):
            raise McpRequestError(f"{shorten(str(request.url), 200)} is not https, so no login is sent there")
        return request

    def _resource_response(self, found: httpx2.Response, metadata: bytes) -> httpx2.Response:
        """Build a server's answer about its authorization server from the declared metadata."""
        if found.status_code != 200:
            raise McpRequestError(f"oauth.authServerMetadataUrl answers {found.status_code}")
        issuer = str(OAuthMetadata.model_validate_json(metadata).issuer)
        if httpx2.URL(issuer).host != found.request.url.host:
            raise McpRequestError(f"the metadata belongs to another authorization server, {shorten(issuer, 200)}")
        data = {"resource": self._server.url, "authorization_servers": [issuer]}
        return httpx2.Response(200, json=data, request=found.request)


async def authorize(
    server: McpServer,
    redirect: str,
    show: Callable[[str], None],
    answer: Future[dict[str, str]],
) -> Login:
    """Log in once to a server whose declaration has its variables substituted. Raises McpRequestError.

    redirect: our redirect address.
    show: called with the URL that the user has to open.
    answer: future of the browser's answer.
    """
    declared = {key: value for key, value in server.oauth.items() if isinstance(value, str)}
    uri = AnyUrl(redirect)

    async def open_address(address: str) -> None:
        context = provider.context
        methods = context.oauth_metadata.code_challenge_methods_supported if context.oauth_metadata else None
        if methods is not None and "S256" not in methods:
            raise McpRequestError("the authorization server has no PKCE with S256, without which a login can be stolen")
        if not is_secure_url(address, server.url) or not address.isascii() or not address.isprintable():
            raise McpRequestError(f"the sign-in address {shorten(address, 200)} is not https")
        if context.client_info is not None and declared.get("clientSecret"):
            supported = context.oauth_metadata and context.oauth_metadata.token_endpoint_auth_methods_supported
            method = next((m for m in _METHODS[1:] if m in (supported or ())), "client_secret_basic")
            context.client_info.token_endpoint_auth_method = method
        show(address)

    async def wait_for_browser() -> AuthorizationCodeResult:
        text = await asyncio.wrap_future(answer)
        if "code" not in text:
            words = ": ".join(filter(None, (text.get("error"), text.get("error_description"))))
            raise McpRequestError(f"the sign-in page answered {shorten(words, 300) or 'without a code'}")
        return AuthorizationCodeResult(code=text["code"], state=text.get("state"), iss=text.get("iss"))

    client = None
    if declared.get("clientId"):
        client = OAuthClientInformationFull(
            client_id=declared["clientId"], client_secret=declared.get("clientSecret") or None, redirect_uris=[uri],
            token_endpoint_auth_method=None if declared.get("clientSecret") else "none",
        )  # fmt: skip
    memory = InMemoryTokens(client)
    metadata = OAuthClientMetadata(
        client_name="agent",
        redirect_uris=[uri],
        token_endpoint_auth_method="none",
        scope=declared.get("scopes") or None,
    )
    provider = _InteractiveProvider(
        server, metadata, memory, redirect_handler=open_address, callback_handler=wait_for_browser
    )
    status = await _first_request(server, provider)
    context = provider.context
    if memory.tokens is None or memory.client is None:
        raise McpRequestError("it issued no token")
    if status == 401:
        raise McpRequestError("it does not accept the token that its own authorization server issued")
    return Login(
        key_of(server),
        _plain(memory.tokens),
        _expiry_of(memory.tokens),
        _plain(memory.client),
        _plain(context.oauth_metadata) if context.oauth_metadata else None,
        _plain(context.protected_resource_metadata) if context.protected_resource_metadata else None,
    )


async def _first_request(server: McpServer, provider: _InteractiveProvider) -> int:
    """Send the server a request, so that it demands a login; return the status of its final answer.

    Raises McpRequestError.
    """
    body = {
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": {"name": "agent", "version": "0"}},
    }  # fmt: skip
    headers = {**server.headers, "Accept": _ACCEPT, "MCP-Protocol-Version": PROTOCOL}
    try:
        async with make_client(timeout=httpx2.Timeout(_ANSWER_SECONDS), auth=provider) as http:
            method, content = ("GET", None) if server.type == "sse" else ("POST", body)
            async with http.stream(method, server.url, headers=headers, json=content) as response:
                return response.status_code
    except OAuthFlowError as error:
        raise McpRequestError(_flow_error_text(error, provider)) from None
    except ValidationError:
        raise McpRequestError("its login metadata does not follow the protocol") from None
    except (*_HTTP_ERRORS, ValueError) as error:
        raise McpRequestError(reason(error)) from None


def _flow_error_text(error: OAuthFlowError, provider: _InteractiveProvider) -> str:
    # Details of a malformed answer may contain a token.
    if isinstance(error.__context__, ValidationError):
        return "its login metadata does not follow the protocol"
    text = shorten(str(error), 300)
    if isinstance(error, OAuthRegistrationError):
        text = f"no client could be registered ({text}); set oauth.clientId to one that is already registered"
    return text if provider.login_demanded else f"it did not ask for a login and offers none ({text})"


def _plain(model: Any) -> dict[str, Any]:
    data: dict[str, Any] = model.model_dump(mode="json", exclude_none=True)
    return data


def _expiry_of(tokens: OAuthToken) -> float:
    return time.time() + tokens.expires_in if tokens.expires_in else 0.0


class TokenAuth(httpx2.Auth):
    """Adds a server's login to requests, and renews it when it expires. Never interacts with the user.

    The file is read for each request, so that a login or logout in another terminal takes effect at once.
    """

    def __init__(self, server: McpServer, logins: LoginStore) -> None:
        self._server = server
        self._logins = logins
        self._origin = _origin(httpx2.URL(server.url))

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        login = self._logins.find(self._server) if _origin(request.url) == self._origin else None
        if login is not None and 0 < login.expires < time.time() + _RENEW_BEFORE_SECONDS:
            login = await self._renew(login) or login
        if login is None:
            yield request
            return
        used = _add_token(request, login)
        response = yield request
        if response.status_code == 401:
            newer = await self._renew(login)
            if newer is not None and newer.tokens.get("access_token") != used:
                _add_token(request, newer)
                yield request

    async def _renew(self, stale: Login) -> Login | None:
        """Return a newer login, from another process or by the refresh token; None if there is none."""
        end = time.monotonic() + _ANSWER_SECONDS
        while time.monotonic() < end:
            # A server may accept a refresh token only once, so two processes must not use the same one.
            with self._logins.exclusive(self._server) as locked:
                now = self._logins.find(self._server)
                if now is None or now.tokens != stale.tokens:
                    return now
                if locked:
                    return await self._refresh(now)
            await asyncio.sleep(0.05)
        return None

    async def _refresh(self, login: Login) -> Login | None:
        try:
            request = _refresh_request(login)
            if request is None or not is_secure_url(str(request.url), self._server.url):
                return None
            async with make_client(timeout=httpx2.Timeout(_ANSWER_SECONDS)) as http:
                response = await http.send(request)
            if response.status_code != 200:
                return None
            tokens = OAuthToken.model_validate_json(response.content)
        except (*_HTTP_ERRORS, OAuthFlowError, ValueError):
            # Whatever the reason, the server will answer 401, which is reported.
            return None
        # Values that the answer omits stay as they were.
        merged = {**login.tokens, **_plain(tokens)}
        newer = login.replace(tokens=merged, expires=_expiry_of(tokens))
        # A logout meanwhile takes precedence.
        if self._logins.find(self._server) == login:
            with suppress(LoginStoreError):
                self._logins.save(self._server, newer)
        return newer


def _refresh_request(login: Login) -> httpx2.Request | None:
    """Return the request for new tokens; None without a refresh token. Raises ValidationError."""
    token = login.tokens.get("refresh_token")
    if not token:
        return None
    context = _context(login)
    if context.oauth_metadata is not None:
        address = str(context.oauth_metadata.token_endpoint)
    else:
        address = f"{context.get_authorization_base_url(login.url)}/token"
    data = {"grant_type": "refresh_token", "refresh_token": str(token), "resource": context.get_resource_url()}
    return _form_request(context, address, data)


def _context(login: Login) -> OAuthContext:
    """Rebuild the SDK's context of the login. Raises ValidationError."""
    client = OAuthClientInformationFull.model_validate(login.client)
    context = OAuthContext(
        login.url, OAuthClientMetadata(redirect_uris=client.redirect_uris), InMemoryTokens(client), None, None
    )
    context.client_info = client
    if login.resource:
        context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(login.resource)
    if login.metadata:
        context.oauth_metadata = OAuthMetadata.model_validate(login.metadata)
    return context


def _form_request(context: OAuthContext, address: str, data: dict[str, str]) -> httpx2.Request:
    """Return a form request of the registered client to its authorization server."""
    assert context.client_info is not None
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    data, headers = context.prepare_token_auth({"client_id": context.client_info.client_id, **data}, headers)
    return httpx2.Request("POST", address, data=data, headers=headers)


async def revoke(login: Login) -> bool:
    """Revoke the tokens at the authorization server; return False if that failed, True if it offers no revocation."""
    try:
        context = _context(login)
        if context.oauth_metadata is None or context.oauth_metadata.revocation_endpoint is None:
            return True
        address = str(context.oauth_metadata.revocation_endpoint)
        if not is_secure_url(address, login.url):
            return False
        async with make_client(timeout=httpx2.Timeout(_REVOCATION_SECONDS)) as http:
            for kind in ("refresh_token", "access_token"):
                if token := login.tokens.get(kind):
                    data = {"token": str(token), "token_type_hint": kind}
                    if (await http.send(_form_request(context, address, data))).status_code != 200:
                        return False
    except (*_HTTP_ERRORS, OAuthFlowError, ValueError):
        return False
    return True


def _add_token(request: httpx2.Request, login: Login) -> str:
    """Add the access token to the request, and return it."""
    token = str(login.tokens.get("access_token", ""))
    request.headers["Authorization"] = f"Bearer {token}"
    return token


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port
