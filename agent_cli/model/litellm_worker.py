"""The one file that imports LiteLLM: a child process that answers requests, one at a time, as JSON lines.

First comes `{"environment"}`, the variables with secrets, which others could read where a process begins with them;
then `{"model", "api_key", "base_url", "headers", "timeouts", "request"}`. Out go `{"chunk"}` lines and
then `{"done"}` or `{"failure", "retry_after"}`. It begins with `{"ready"}` once LiteLLM is there, and ends
when its standard input does, even in the middle of a request: it never outlives who started it. LiteLLM runs
here as a library and nothing more: it fetches no price lists, reads no project's `.env`, retries nothing, and
what it prints goes to standard error.
"""

from __future__ import annotations

import gc
import json
import os
import queue
import sys
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from types import ModuleType
from typing import Any, BinaryIO

from agent_cli.model.catalog import lookup
from agent_cli.model.litellm_convert import LiteLLMReader, arguments_of, gemini_stop, prefill_of
from agent_cli.model.litellm_errors import classify
from agent_cli.model.transport import Chunk, ModelError, Request
from agent_tools.own_process import protect
from agent_tools.values import from_plain, to_plain

# Must stand in the environment before the import; DEV, the default mode, loads `.env` files.
ENVIRONMENT = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_BLOG_POSTS": "True",
    "LITELLM_MODE": "PRODUCTION",
    "LITELLM_LOG": "ERROR",
    # A hundred equal chunks are a table of zeros, not a model gone astray.
    "REPEATED_STREAMING_CHUNK_LIMIT": "1000000000",
}


COLLECT_EVERY = 2000


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
    _say(out, {"ready": True})
    first = True
    while True:
        order = json.loads(requests.get())
        secrets = tuple(filter(None, [order["api_key"], *order["headers"].values()]))
        try:
            for chunk in _answer(litellm, order):
                _say(out, {"chunk": to_plain(chunk)})
            _say(out, {"done": True})
        except Exception as error:  # noqa: BLE001 - whatever went wrong is told; the next request may go well
            if not isinstance(error, ModelError):
                error = classify(error, order["model"], order["timeouts"]["idle"], secrets)
            _say(out, {"failure": to_plain(error.failure), "retry_after": error.retry_after})
        gc.collect()
        if first:
            gc.freeze()  # what the first request loaded stays, and is not looked through again
            first = False


def _listen(source: BinaryIO, requests: queue.SimpleQueue[bytes]) -> None:
    for line in source:
        requests.put(line)
    os._exit(0)


def _say(out: Any, message: dict[str, Any]) -> None:
    data = json.dumps(message, separators=(",", ":")).encode() + b"\n"
    while data:
        data = data[out.write(data) :]


def _load() -> Any:
    os.environ.update(ENVIRONMENT)
    # The import allocates a great deal and frees little of it. The collector stays off: one that runs by itself may
    # close a broken-off response while httpcore holds the very lock that closing wants, and nothing moves again.
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

    # Where no count of reasoning tokens was reported, one guessed from the text must not pass for it.
    transformation.token_counter = lambda **_: 0  # type: ignore[attr-defined]
    converse_transformation.token_counter = lambda **_: 0  # type: ignore[attr-defined]
    ChunkProcessor.count_reasoning_tokens = lambda *_: None  # type: ignore[method-assign]
    _keep_stop_words()
    return litellm


class _StopWords(dict[str, str]):
    """LiteLLM's map of stop words, which also remembers the provider's own: translated, most are a mere "stop"."""

    heard = ""

    def get(self, word: str, default: Any = None) -> Any:
        mapped = super().get(word, default)
        if word != mapped:
            _StopWords.heard = word
        return mapped


def _keep_stop_words() -> None:
    """Let the provider's own word for the end of an answer reach us."""
    from litellm.litellm_core_utils import core_helpers
    from litellm.llms.vertex_ai.gemini import vertex_and_google_ai_studio_gemini as gemini

    core_helpers._FINISH_REASON_MAP = _StopWords(core_helpers._FINISH_REASON_MAP)  # type: ignore[misc, assignment]
    parse = gemini.ModelResponseIterator.chunk_parser

    def parse_and_end(self: Any, chunk: dict[str, Any]) -> Any:
        parsed = parse(self, chunk)
        # LiteLLM gives each of Gemini's chunks a finish reason and says of none that it is the last.
        if parsed is not None and (word := gemini_stop(chunk)):
            parsed._hidden_params["is_finished"] = True
            _StopWords.heard = word
        return parsed

    gemini.ModelResponseIterator.chunk_parser = parse_and_end  # type: ignore[method-assign]


def _answer(litellm: Any, order: dict[str, Any]) -> Iterator[Chunk]:
    import httpx  # came along with LiteLLM

    request = from_plain(Request, order["request"])
    model: str = order["model"]
    provider, _, name = model.partition("/")
    known = lookup(provider, name)
    prefill = prefill_of(request, known is not None and known.prefill)
    supported = set(litellm.get_supported_openai_params(model=name, custom_llm_provider=provider) or ())
    arguments, notices = arguments_of(request, model, supported, prefill)
    yield from notices
    limits = order["timeouts"]
    seconds = {name: limits[name] or None for name in ("connect", "idle", "total")}
    idle = seconds["idle"] if request.stream else seconds["total"]
    if order["base_url"]:
        arguments["api_base"] = order["base_url"]
    if order["api_key"]:
        arguments["api_key"] = order["api_key"]
    elif model.startswith("openai/") and order["base_url"]:
        arguments["api_key"] = "none"  # the SDK insists on one
    if order["headers"]:
        arguments["extra_headers"] = order["headers"]
    if provider == "vertex_ai" and "vertexai" not in sys.modules and find_spec("vertexai") is None:
        # LiteLLM wants Google's SDK to be installed for Claude, and does not use it.
        sys.modules["vertexai"] = ModuleType("vertexai")
        sys.modules["vertexai"].preview = None  # type: ignore[attr-defined]
    if provider == "bedrock" and os.environ.get("AWS_BEARER_TOKEN_BEDROCK"):
        # LiteLLM signs with the token, and yet fails where there are no credentials beside it.
        arguments |= {"aws_access_key_id": "none", "aws_secret_access_key": "none"}
    _StopWords.heard = ""
    # Without tools in the request some providers refuse a history that has calls, unless LiteLLM amends it.
    litellm.modify_params = not request.tools
    response = litellm.completion(
        **arguments,
        num_retries=0,
        max_retries=0,
        timeout=httpx.Timeout(idle, connect=seconds["connect"]),
    )
    reader = LiteLLMReader(provider, prefill)
    if not request.stream:
        yield from reader.read(response)
        yield from reader.end(_StopWords.heard)
        return
    for count, part in enumerate(response, 1):
        yield from reader.read(part)
        if count % COLLECT_EVERY == 0:
            gc.collect()
    # Left to itself LiteLLM ends a response that broke off with a "stop" of its own.
    finished = getattr(response, "received_finish_reason", "") is not None
    yield from reader.end(_StopWords.heard, finished=finished)


if __name__ == "__main__":
    main()
