"""What LiteLLM's exceptions mean.

Its classes alone do not say: a refused connection and an overloaded provider both arrive as an internal server error,
and the time to wait stands only on the exception underneath. So the whole chain of causes is read, and what the
provider itself said is judged as on the direct wires.
"""

from __future__ import annotations

import ast
import json
import re
import time
from collections.abc import Iterator

from agent_cli.core.outcome import Failure
from agent_cli.model.errors import error_for_status, refusal_in_stream
from agent_cli.model.transport import ModelError

_NETWORK = re.compile(
    r"connection (error|refused|reset|aborted)|server disconnected|peer closed connection|connection attempts failed"
    r"|name or service not known|nodename nor servname|temporary failure in name resolution|incomplete chunked",
    re.IGNORECASE,
)
_MALFORMED = re.compile(r"expecting value: line|unable to parse|error parsing chunk|invalid json", re.IGNORECASE)
_PREFIX = re.compile(r"^(?:litellm\.|[A-Za-z]*(?:Error|Exception)\s*[:-]\s*|[A-Za-z]+Exception\s*-\s*)+")
_ORIGINAL = re.compile(r"\s*(Original exception|Traceback \(most recent).*", re.DOTALL)
_PAGE = re.compile(r"(<!doctype html|<html).*?(</html>|$)", re.IGNORECASE | re.DOTALL)
_UNREAD = re.compile(r"got unexpected response from \w+: (\{.*\})", re.IGNORECASE)
# APIConnectionError is none of these: LiteLLM makes one of every exception that it does not know.
_NETWORK_CLASSES = {
    "ConnectError",
    "ReadError",
    "WriteError",
    "RemoteProtocolError",
    "ConnectionError",
    "TransportError",
}
_TIMEOUT_CLASSES = {"Timeout", "TimeoutException", "APITimeoutError", "TimeoutError"}
_OUR_FAULT = {"TypeError", "AttributeError", "KeyError", "ImportError", "NameError", "AssertionError"}
_NO_CREDENTIALS = {
    "DefaultCredentialsError",
    "RefreshError",
    "NoCredentialsError",
    "PartialCredentialsError",
    "CredentialRetrievalError",
    "ProfileNotFound",
    "TokenRetrievalError",
    "SSOTokenLoadError",
    "UnauthorizedSSOTokenError",
}
# Where LiteLLM's class says more than the status that it carries.
_STATUS = {
    "ContextWindowExceededError": 400,
    "AuthenticationError": 401,
    "PermissionDeniedError": 403,
    "NotFoundError": 404,
    "RateLimitError": 429,
}


def classify(error: BaseException, model: str, idle: float, secrets: tuple[str, ...] = ()) -> ModelError:
    """The error as one of our small set, in a sentence that holds none of `secrets`.

    model: `provider/model`. idle: the seconds of silence that were allowed.
    """
    provider, _, name = model.partition("/")
    chain = list(_chain(error))
    classes = {c.__name__ for e in chain for c in type(e).__mro__}
    text = " ".join(str(e) for e in chain)
    said = _said(str(error))
    status = next((_STATUS[c] for c in _STATUS if c in classes), 0) or _status(chain)
    if classes & _TIMEOUT_CLASSES or status == 408:
        found = ModelError(Failure("network", f"{provider} sent nothing for {idle:g} s.", retryable=True))
    elif missing := _missing(provider, classes, said):
        found = ModelError(Failure("auth", missing))
    elif unread := next(filter(None, (_UNREAD.search(str(e)) for e in reversed(chain))), None):
        found = _unread(unread[1], provider, name)
    elif _STATUS.keys().isdisjoint(classes) and (classes & _NETWORK_CLASSES or _NETWORK.search(text)):
        found = ModelError(Failure("network", f"The connection to {provider} failed: {said}", retryable=True))
    elif "JSONDecodeError" in classes or _MALFORMED.search(text):
        found = ModelError(Failure("malformed", f"{provider} sent what LiteLLM cannot read: {said}"))
    elif not status or (status >= 500 and classes & _OUR_FAULT):
        found = ModelError(Failure("bad_request", f"LiteLLM cannot send this request: {said}"))
    else:
        status = 529 if "overloaded" in text.lower() and status >= 500 else status
        headers = _headers(chain)
        page = _PAGE.search(text)
        body = page[0].encode() if page else json.dumps({"error": {"message": said}}).encode()
        found = error_for_status(
            status, body, lambda n: headers.get(n, ""), provider=provider, model=name, now=time.time()
        )
        if "ContextWindowExceededError" in classes:
            found.failure = found.failure.but(kind="context_too_long", retryable=False)
    message = found.failure.message
    for secret in filter(None, secrets):
        message = message.replace(secret, "***")
    return ModelError(found.failure.but(message=message), found.retry_after)


def _missing(provider: str, classes: set[str], said: str) -> str:
    """What the user has to set up before requests can be sent, or ""."""
    if "ImportError" in classes and "google" in said.lower():
        return f"{provider} needs the package google-auth: pip install 'agent-cli[vertex]'"
    if provider == "bedrock" and "'access_key'" in said:
        return "bedrock has no credentials: set AWS_PROFILE, AWS_ACCESS_KEY_ID or AWS_BEARER_TOKEN_BEDROCK."
    if classes & _NO_CREDENTIALS or said.lower().startswith("missing"):
        return f"{provider} has no credentials: {said}"
    return ""


def _unread(written: str, provider: str, model: str) -> ModelError:
    """The error for an event, as Python writes it, that LiteLLM did not expect: often the provider's own error."""
    try:
        event = ast.literal_eval(written)
    except (ValueError, SyntaxError):
        event = {}
    if isinstance(event, dict) and event.get("error"):
        return refusal_in_stream(event["error"], provider=provider, model=model)
    return ModelError(Failure("malformed", f"{provider} sent what LiteLLM cannot read: {written[:200]}"))


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _said(text: str) -> str:
    """What the provider said, without LiteLLM's wrapping."""
    if (start := text.find("{")) >= 0:
        try:
            body = json.loads(text[start : text.rindex("}") + 1])
            inner = body.get("error", body)
            message = inner.get("message") if isinstance(inner, dict) else inner
            if isinstance(message, str) and message:
                return message[:500]
        except (ValueError, AttributeError):
            pass  # not JSON: the sentence around it has to do
    sentence = " ".join(_ORIGINAL.sub("", _PREFIX.sub("", text.strip())).split())
    return sentence[:500] or "no reason given"


def _status(chain: list[BaseException]) -> int:
    return next((s for e in chain if isinstance(s := getattr(e, "status_code", None), int)), 0)


def _headers(chain: list[BaseException]) -> dict[str, str]:
    """The headers of the provider's answer. LiteLLM makes up responses of its own, without the real headers."""
    headers: dict[str, str] = {}
    for error in chain:
        for held in (
            getattr(getattr(error, "response", None), "headers", None),
            getattr(error, "litellm_response_headers", None),
            getattr(error, "headers", None),
        ):
            if held is not None and hasattr(held, "items"):
                headers = {**{str(k).lower(): str(v) for k, v in held.items()}, **headers}
    return headers
