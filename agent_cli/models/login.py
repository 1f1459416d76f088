"""Log in to a provider: check a key by listing the provider's models, and get one from OpenRouter by its PKCE flow.

The addresses come from the caller, which takes them from the user's own environment and settings. A key is sent in a
header only, to that address only; redirects are not followed.
"""

from __future__ import annotations

import base64
import json
import re
import secrets
import time
from typing import Any
from urllib.parse import urlencode

from agent_cli.models.base import ModelError
from agent_cli.models.catalog import lookup
from agent_cli.models.credentials import Secret
from agent_cli.models.errors import error_for_status
from agent_cli.models.http_client import MAX_ERROR_BYTES, encode_json, endpoint_url
from agent_cli.models.registry import Provider, is_loopback_url
from agent_cli.models.server_info import chat_models, models_url, usual_model
from agent_tools.cancel import CancelToken
from agent_tools.net.http import HttpClient, Timeouts
from agent_tools.net.http_connection import HttpError
from agent_tools.record import Value

_TIMEOUTS = Timeouts(connect=10.0, idle=15.0, total=30.0)
_MAX_BYTES = 16 << 20
_API = "/api/v1"


class LoginError(Exception):
    """A key could not be checked, or OpenRouter gave none; the message says why."""


class KeyRefusedError(LoginError):
    """The provider does not accept the key."""


class CheckedKey(Value):
    """What a provider said about a key.

    models: the chat models that it lists. checked: the key was needed for the answer.
    """

    models: tuple[str, ...] = ()
    checked: bool = True


def key_problem(text: str) -> str:
    """Return why a text cannot be a key; "" if it can."""
    if not text.isascii() or not text.isprintable() or " " in text:
        return "A key has no spaces and only plain characters; this is something else."
    return ""


def check_key(provider: Provider, base_url: str, key: Secret) -> CheckedKey:
    """List the models of a provider with a key. Raises KeyRefusedError, or LoginError if it cannot be checked."""
    url = models_url(provider, base_url) if base_url else ""
    if provider.wire == "litellm" or not url:
        return CheckedKey(checked=False)
    checked = False
    if provider.key_path:
        status, _ = _ask(provider, f"{base_url.rstrip('/')}{provider.key_path}", key)
        checked = status == 200
    status, listed = _ask(provider, f"{url}/models", key)
    if status != 200:
        return CheckedKey(checked=checked)
    if not checked:
        # Some providers list their models to anybody.
        status, _ = _ask(provider, f"{url}/models", None)
        checked = status != 200
    return CheckedKey(tuple(chat_models(listed)), checked)


def starting_model(provider: Provider, offered: tuple[str, ...]) -> str:
    """Return the model to begin with, as `provider/model`: the usual one, else one that is offered; "" if unknown."""
    usual = usual_model(provider)
    if usual and (not offered or usual in offered or f"{provider.model_prefix}{usual}" in offered):
        return f"{provider.name}/{usual}"
    able = [name for name in offered if (info := lookup(provider.name, name)) is not None and info.tools]
    name = next(iter(able or offered), "")
    return f"{provider.name}/{name}" if name else ""


def _ask(provider: Provider, url: str, key: Secret | None) -> tuple[int, Any]:
    """Return status and JSON of an answer: 200, 404 and the like. Raises LoginError for other ones."""
    status, body, failed = _exchange(provider, url, _key_headers(provider, key), None)
    if status in (404, 405) or (key is None and status in (400, 401, 403)):
        return status, None
    if failed is not None:
        text = failed.failure.message.replace(key.reveal(), "[redacted]") if key is not None else str(failed)
        # A key with few rights may answer prompts, and list nothing.
        refused = failed.failure.kind == "auth" and status != 403
        raise KeyRefusedError(text) if refused else LoginError(text)
    try:
        return status, json.loads(body)
    except (ValueError, RecursionError):
        raise LoginError(f"{endpoint_url(url).authority} did not answer with a list of models.") from None


def _key_headers(provider: Provider, key: Secret | None) -> dict[str, str]:
    if provider.wire == "anthropic":
        return {"anthropic-version": "2023-06-01", **({"x-api-key": key.reveal()} if key is not None else {})}
    if key is None:
        return {}
    return (
        {"x-goog-api-key": key.reveal()} if provider.wire == "gemini" else {"Authorization": f"Bearer {key.reveal()}"}
    )


def _exchange(
    provider: Provider, url: str, headers: dict[str, str], body: dict[str, Any] | None
) -> tuple[int, bytes, ModelError | None]:
    """Send a request; return status, body, and the error that they mean. Raises LoginError if there is no answer."""
    sent = None if body is None else encode_json(body)
    own = {"Accept": "application/json", **headers, **({"Content-Type": "application/json"} if body else {})}
    # A server on this machine is called without a proxy.
    client = HttpClient(_TIMEOUTS, {}, max_idle=0) if is_loopback_url(url) else HttpClient(_TIMEOUTS, max_idle=0)
    try:
        reply = client.send(endpoint_url(url), own, sent, CancelToken())
        try:
            found = reply.read_all(_MAX_BYTES)
            if reply.status == 200:
                return reply.status, found, None
            failed = error_for_status(
                reply.status, found[:MAX_ERROR_BYTES], reply.header, provider=provider.name, model="", now=time.time()
            )
            return reply.status, found, failed
        finally:
            reply.close()
    except HttpError as error:
        raise LoginError(str(error)) from None
    except ModelError as error:
        raise LoginError(error.failure.message) from None


class OpenRouterLogin:
    """One sign-in at OpenRouter (https://openrouter.ai/docs/guides/overview/auth/oauth).

    address: the page on which the user signs in.
    """

    def __init__(self, provider: Provider, base_url: str, callback_url: str) -> None:
        """base_url: ends in /api/v1; see `offers_sign_in`."""
        from hashlib import sha256

        self._provider, self._base_url = provider, base_url.rstrip("/")
        self._verifier = Secret(secrets.token_urlsafe(48))
        digest = sha256(self._verifier.reveal().encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        query = {"callback_url": callback_url, "code_challenge": challenge, "code_challenge_method": "S256"}
        self.address = f"{self._base_url.removesuffix(_API)}/auth?{urlencode(query)}"

    def exchange(self, code: str) -> Secret:
        """Return the key for the code that the sign-in ended with. Raises LoginError."""
        body = {"code": code, "code_verifier": self._verifier.reveal(), "code_challenge_method": "S256"}
        status, answer, failed = _exchange(self._provider, f"{self._base_url}/auth/keys", {}, body)
        if failed is not None:
            raise LoginError(f"{self._provider.name} did not accept the code (HTTP {status}); sign in again.")
        try:
            key = json.loads(answer)["key"]
        except (ValueError, RecursionError, LookupError, TypeError):
            key = None
        if not isinstance(key, str) or not key or key_problem(key):
            raise LoginError(f"{self._provider.name} answered without a key.")
        return Secret(key)


def offers_sign_in(provider: Provider, base_url: str) -> bool:
    """Return True if a user can sign in at this address in a browser."""
    return provider.name == "openrouter" and base_url.rstrip("/").endswith(_API)


def code_in(text: str) -> str:
    """Return the code that a user pasted, alone; "" if it is something else, such as an address."""
    return text.strip() if re.fullmatch(r"[\w.~+/=-]{8,512}", text.strip()) else ""
