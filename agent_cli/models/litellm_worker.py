"""The only file that imports LiteLLM: a child process that answers requests, one at a time, as JSON lines.

Its input is first `{"environment"}`, the variables with secrets, which others could read if the process started with
them; then `{"model", "api_key", "base_url", "headers", "timeouts", "request"}`. Its output is `{"ready"}` once LiteLLM
is imported, then for each request `{"chunk"}` lines and `{"done"}` or `{"failure", "retry_after"}`. It ends when its
standard input does, even in the middle of a request, so it never outlives its parent. LiteLLM runs here as a library
and nothing more: it fetches no price lists, reads no project's `.env` and retries nothing, and what it prints goes to
standard error.

Also classifies LiteLLM's exceptions.
"""

from __future__ import annotations

import ast
import gc
import json
import os
import queue
import re
import sys
import threading
import time
from collections.abc import Iterator
from importlib.util import find_spec
from types import ModuleType
from typing import Any, BinaryIO

from agent_cli.kernel.results import Failure
from agent_cli.models.base import Chunk, ModelError, Request
from agent_cli.models.errors import error_for_status, error_in_stream
from agent_cli.models.litellm_convert import LiteLLMReader, completion_arguments, gemini_stop
from agent_tools.process.hardening import protect
from agent_tools.record import from_json, to_json

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
# Without APIConnectionError: LiteLLM turns every unknown exception into one.
_NETWORK_CLASSES = {
    "ConnectError", "ReadError", "WriteError", "RemoteProtocolError", "ConnectionError", "TransportError",
}  # fmt: skip
_TIMEOUT_CLASSES = {"Timeout", "TimeoutException", "APITimeoutError", "TimeoutError"}
_OUR_FAULT = {"TypeError", "AttributeError", "KeyError", "ImportError", "NameError", "AssertionError"}
_NO_CREDENTIALS = {
    "DefaultCredentialsError", "RefreshError", "NoCredentialsError", "PartialCredentialsError",
    "CredentialRetrievalError", "ProfileNotFound", "TokenRetrievalError", "SSOTokenLoadError",
    "UnauthorizedSSOTokenError",
}  # fmt: skip
# Statuses of LiteLLM's classes that are more precise than the status that they have.
_STATUS = {
    "ContextWindowExceededError": 400,
    "AuthenticationError": 401,
    "PermissionDeniedError": 403,
    "NotFoundError": 404,
    "RateLimitError": 429,
}


def classify(error: BaseException, model: str, idle: float, secrets: tuple[str, ...] = ()) -> ModelError:
    """Convert an exception to one of our small set of errors, with a sentence that contains none of `secrets`.

    model: `provider/model`.
    idle: the allowed seconds of silence.
    """
    provider, _, name = model.partition("/")
    chain = list(_chain(error))
    classes = {c.__name__ for e in chain for c in type(e).__mro__}
    text = " ".join(str(e) for e in chain)
    note = _message_of(str(error))
    status = next((_STATUS[c] for c in _STATUS if c in classes), 0) or _status(chain)
    if classes & _TIMEOUT_CLASSES or status == 408:
        found = ModelError(Failure("network", f"{provider} sent nothing for {idle:g} s.", retryable=True))
    elif missing := _missing(provider, classes, note):
        found = ModelError(Failure("auth", missing))
    elif unread := next(filter(None, (_UNREAD.search(str(e)) for e in reversed(chain))), None):
        found = _unread(unread[1], provider, name)
    elif _STATUS.keys().isdisjoint(classes) and (classes & _NETWORK_CLASSES or _NETWORK.search(text)):
        found = ModelError(Failure("network", f"The connection to {provider} failed: {note}", retryable=True))
    elif "JSONDecodeError" in classes or _MALFORMED.search(text):
        found = ModelError(Failure("malformed", f"{provider} sent what LiteLLM cannot read: {note}"))
    elif not status or (status >= 500 and classes & _OUR_FAULT):
        found = ModelError(Failure("bad_request", f"LiteLLM cannot send this request: {note}"))
    else:
        status = 529 if "overloaded" in text.lower() and status >= 500 else status
        headers = _headers(chain)
        page = _PAGE.search(text)
        body = page[0].encode() if page else json.dumps({"error": {"message": note}}).encode()
        found = error_for_status(
            status, body, lambda n: headers.get(n, ""), provider=provider, model=name, now=time.time()
        )
        if "ContextWindowExceededError" in classes:
            found.failure = found.failure.replace(kind="context_too_long", retryable=False, reducible=False)
    message = found.failure.message
    for secret in filter(None, secrets):
        message = message.replace(secret, "***")
    return ModelError(found.failure.replace(message=message), found.retry_after)


def _missing(provider: str, classes: set[str], text: str) -> str:
    """Return what the user has to set up before requests can be sent, or ""."""
    if "ImportError" in classes and "google" in text.lower():
        return f"{provider} needs the package google-auth beside agent: pip install 'google-auth[requests]'"
    if provider == "bedrock" and "'access_key'" in text:
        return "bedrock has no credentials: set AWS_PROFILE, AWS_ACCESS_KEY_ID or AWS_BEARER_TOKEN_BEDROCK."
    if classes & _NO_CREDENTIALS or text.lower().startswith("missing"):
        return f"{provider} has no credentials: {text}"
    return ""


def _unread(written: str, provider: str, model: str) -> ModelError:
    """Return the error for an event, as a Python literal, that LiteLLM did not expect: often a provider's error."""
    try:
        event = ast.literal_eval(written)
    except (ValueError, SyntaxError):
        event = {}
    if isinstance(event, dict) and event.get("error"):
        return error_in_stream(event["error"], provider=provider, model=model)
    return ModelError(Failure("malformed", f"{provider} sent what LiteLLM cannot read: {written[:200]}"))


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _message_of(text: str) -> str:
    """Return the provider's own message, without LiteLLM's wrapping."""
    if (start := text.find("{")) >= 0:
        try:
            body = json.loads(text[start : text.rindex("}") + 1])
            inner = body.get("error", body)
            message = inner.get("message") if isinstance(inner, dict) else inner
            if isinstance(message, str) and message:
                return message[:500]
        except (ValueError, AttributeError):
            pass  # not JSON: use the sentence around it
    sentence = " ".join(_ORIGINAL.sub("", _PREFIX.sub("", text.strip())).split())
    return sentence[:500] or "no reason given"


def _status(chain: list[BaseException]) -> int:
    return next((s for e in chain if isinstance(s := getattr(e, "status_code", None), int)), 0)


def _headers(chain: list[BaseException]) -> dict[str, str]:
    """Return the headers of the provider's answer; LiteLLM's own responses lack the real ones."""
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


# Must be in the environment before the import; DEV, the default mode, loads `.env` files.
ENVIRONMENT = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_BLOG_POSTS": "True",
    "LITELLM_MODE": "PRODUCTION",
    "LITELLM_LOG": "ERROR",
    # A hundred equal chunks are a table of zeros, not a model in a loop.
    "REPEATED_STREAMING_CHUNK_LIMIT": "1000000000",
}


REQUESTS_PER_COLLECTION = 2000


def main() -> None:
    """Answer requests until standard input ends."""
    out = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    protect()
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, requests), daemon=True).start()
    os.environ.update(json.loads(requests.get())["environment"])
    litellm = _load()
    _send_line(out, {"ready": True})
    loaded = 0
    while True:
        order = json.loads(requests.get())
        secrets = tuple(filter(None, [order["api_key"], *order["headers"].values()]))
        try:
            for chunk in _answer(litellm, order):
                _send_line(out, {"chunk": to_json(chunk)})
            _send_line(out, {"done": True})
        except Exception as error:  # noqa: BLE001 - the error is reported; the next request may succeed
            if not isinstance(error, ModelError):
                error = classify(error, order["model"], order["timeouts"]["idle"], secrets)
            _send_line(out, {"failure": to_json(error.failure), "retry_after": error.retry_after})
        gc.collect()
        if len(sys.modules) > loaded:
            gc.freeze()  # exclude what a request loaded from later collections
            loaded = len(sys.modules)


def _listen(source: BinaryIO, requests: queue.SimpleQueue[bytes]) -> None:
    for line in source:
        requests.put(line)
    os._exit(0)


def _send_line(out: Any, message: dict[str, Any]) -> None:
    data = json.dumps(message, separators=(",", ":")).encode() + b"\n"
    while data:
        data = data[out.write(data) :]


def _load() -> Any:
    os.environ.update(ENVIRONMENT)
    # The import allocates a great deal and frees little of it. The collector stays off: an automatic run may close a
    # broken-off response while httpcore holds the lock that closing needs, which is a deadlock.
    gc.disable()
    import litellm

    gc.freeze()
    litellm.telemetry = False
    litellm.drop_params = True
    litellm.num_retries = 0
    litellm.suppress_debug_info = True
    litellm.disable_streaming_logging = True
    from litellm.litellm_core_utils.streaming_chunk_builder_utils import ChunkProcessor
    from litellm.llms.anthropic.chat import transformation
    from litellm.llms.bedrock.chat import converse_transformation

    # If no count of reasoning tokens was reported, one guessed from the text must not replace it.
    transformation.token_counter = lambda **_: 0
    converse_transformation.token_counter = lambda **_: 0
    ChunkProcessor.count_reasoning_tokens = lambda *_: None
    _keep_stop_words()
    return litellm


class _StopWords(dict[str, str]):
    """LiteLLM's map of stop reasons, which also remembers the provider's own: most are translated to "stop"."""

    last_raw = ""

    def get(self, word: str, default: Any = None) -> Any:
        mapped = super().get(word, default)
        if word != mapped:
            _StopWords.last_raw = word
        return mapped


def _keep_stop_words() -> None:
    """Make the provider's own stop reason available."""
    from litellm.litellm_core_utils import core_helpers
    from litellm.llms.vertex_ai.gemini import vertex_and_google_ai_studio_gemini as gemini

    core_helpers._FINISH_REASON_MAP = _StopWords(core_helpers._FINISH_REASON_MAP)
    parse = gemini.ModelResponseIterator.chunk_parser

    def parse_and_end(self: Any, chunk: dict[str, Any]) -> Any:
        parsed = parse(self, chunk)
        # LiteLLM gives each of Gemini's chunks a finish reason and marks none as the last.
        if parsed is not None and (word := gemini_stop(chunk)):
            parsed._hidden_params["is_finished"] = True
            _StopWords.last_raw = word
        return parsed

    gemini.ModelResponseIterator.chunk_parser = parse_and_end


def _answer(litellm: Any, order: dict[str, Any]) -> Iterator[Chunk]:
    import httpx  # came along with LiteLLM

    request = from_json(Request, order["request"])
    model: str = order["model"]
    provider, _, name = model.partition("/")
    supported = set(litellm.get_supported_openai_params(model=name, custom_llm_provider=provider) or ())
    arguments, notices = completion_arguments(request, model, supported)
    yield from notices
    limits = order["timeouts"]
    seconds = {name: limits[name] or None for name in ("connect", "idle", "total")}
    idle = seconds["idle"] if request.stream else seconds["total"]
    if order["base_url"]:
        arguments["api_base"] = order["base_url"]
    if order["api_key"]:
        arguments["api_key"] = order["api_key"]
    elif model.startswith("openai/") and order["base_url"]:
        arguments["api_key"] = "none"  # the SDK requires one
    if order["headers"]:
        arguments["extra_headers"] = order["headers"]
    if provider == "vertex_ai" and "vertexai" not in sys.modules and find_spec("vertexai") is None:
        # For Claude, LiteLLM requires Google's SDK to be installed, and does not use it.
        sys.modules["vertexai"] = ModuleType("vertexai")
        sys.modules["vertexai"].preview = None  # type: ignore[attr-defined]
    if provider == "bedrock" and os.environ.get("AWS_BEARER_TOKEN_BEDROCK"):
        # LiteLLM signs with the token, but fails if there are no other credentials.
        arguments |= {"aws_access_key_id": "none", "aws_secret_access_key": "none"}
    _StopWords.last_raw = ""
    # Without tools in the request some providers reject a history with calls, unless LiteLLM amends it.
    litellm.modify_params = not request.tools
    response = litellm.completion(
        **arguments,
        num_retries=0,
        max_retries=0,
        timeout=httpx.Timeout(idle, connect=seconds["connect"]),
    )
    reader = LiteLLMReader(provider)
    if not request.stream:
        yield from reader.read(response)
        yield from reader.end(_StopWords.last_raw)
        return
    for count, part in enumerate(response, 1):
        yield from reader.read(part)
        if count % REQUESTS_PER_COLLECTION == 0:
            gc.collect()
    # By default LiteLLM ends a response that broke off with a "stop" of its own.
    finished = getattr(response, "received_finish_reason", "") is not None
    yield from reader.end(_StopWords.last_raw, finished=finished)


if __name__ == "__main__":
    main()
