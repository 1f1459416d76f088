"""Classify a provider's error as one of the small set of failures, with a sentence for the user.

Providers agree on little but rough status codes, so the words of the message decide if the code is ambiguous: a
conversation that is too long, no credit left, a model that does not exist.

A refusal that belongs to no known kind (key, credit, policy, model, option, length of the answer), or that names a part
of the conversation or a tool, is `reducible`: the provider may take a request that contains less.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, Literal

from agent_cli.kernel.results import Failure
from agent_cli.models.base import ModelError

Kind = Literal["auth", "rate_limit", "overloaded", "context_too_long", "bad_request", "network", "malformed"]

MAX_MESSAGE_CHARS = 500
# Loading takes a local server up to a minute, longer than all the usual waits together.
LOADING_WAIT_SECONDS = 10.0

# How Chat Completions names, in an error, the API that a model needs instead.
RESPONSES_API = "v1/responses"

# Patterns as strings: they are compiled when something fails, not when the program starts.
_TOO_LONG = (
    r"context.length.exceeded|context_window_exceeded|exceed_context_size|maximum context length"
    r"|(prompt|input|request|conversation|message)s? (is |are |was )?too (long|large)"
    r"|exceeds? (the |this |your )?(model'?s? )?(available |maximum |max(_\w+)? ?|allowed |input )*"
    r"(context|prompt|input|token|seq|number of tokens)"
    r"|exceeds the maximum (allowed )?(number of|input) tokens?|input token count"
    r"|(larger|longer|greater) than the (model'?s? )?(maximum |max )?context"
    r"|reduce (the length|the number of tokens|your message size|your prompt)"
    r"|context (window|size|length) (is )?(exceeded|limit|overflow|of \d+)|context limit|context overflow"
    r"|too many (input )?tokens|n_ctx|max_seq_len"
)
# The size of a refused request and the one that is accepted; the latter alone.
_SIZES = r"(\d[\d,]*)(?: tokens)? ?(?:\+ ?[\d,]+ ?)?> ?(\d[\d,]*)"
_WINDOW = r"\b(?:maximum|max_\w+|available|allowed|limit|window|context length)\b[^.\d]{0,40}?(\d[\d,]*)"
_MIN_WINDOW_TOKENS = 1_000
# A request with too many bytes, as long as it speaks of no tokens.
TOO_LARGE = (
    r"request_too_large|(request|body|payload|entity|message)s?\b.{0,30}\btoo (large|big)|exceeds the maximum size"
    r"|(payload|request|body) size"
)
_TOKENS = r"token|context|prompt|conversation"
_NO_MONEY = (
    r"insufficient.(quota|balance|credit|funds)|exceeded your current quota|credit balance|out of credits"
    r"|requires? more credits|billing|payment required|spending limit|usage limit"
)
_NO_MODEL = (
    r"model.not.found|(no such|unknown|invalid|unsupported) model|not a valid model|does not have access to model"
    r"|model\S* .{0,100}(does not|doesn't) exist|model\S* .{0,100}not (be )?found|no endpoints found"
    r"|not_found_error model: "
)
# How an error names the limit of an answer.
ANSWER_LIMIT = r"max_(completion_|output_|new_)?tokens|maxoutputtokens"
# Images, documents and other files in messages.
MEDIA = (
    r"(?<![a-z])(images?|pdfs?|documents?|files?|media|audio|videos?|attachments?)(?![a-z])|multi.?modal|inline.?data"
)
# Errors about what a message or a tool contains. Whatever else they name is not an option of the request.
_CONTENT = (
    rf"\b(messages|contents?|input|tools|functions|function_?declarations)\.\d|signature|cannot be modified|{MEDIA}"
    r"|provided without its required|invalid_encrypted_content|encrypted.content(?!.{0,40}not supported)"
    r"|type 'reasoning'|reasoning (input )?items?\b|schema for (function|tool)|input_schema|function.?declaration"
    r"|\bmcp__|\b(tools?|functions?):? ['\"`\u201c\u2018\xab]"
)
_POLICY = (
    r"content.{0,12}(policy|filter|management)|usage polic|safety (system|settings|check)|moderation|flagged"
    r"|violat\w*.{0,60}(polic|terms|guideline)|prohibited|invalid_prompt|bio_policy|data_residency"
)
_OPTION = (
    r"(unsupported|unknown|unrecognized|invalid|unexpected)[ _](request )?(parameter|option|field|name|property)"
    r"|un(known|recognized|expected) (request )?argument|(extra inputs|additional properties) are not|not supported"
    r"|(does not|doesn't|do not|don't) support"
)
_LOADING = r"loading (the )?model|model is (still )?(being )?load(ed|ing)"
_NO_KEY = r"(incorrect|invalid|missing|no|bad).{0,20}api.?key|api.?key not|authentication"
_TRY_AGAIN = r"(?:try again|retry) in (?:(\d{1,4})\s?m(?:in\w*)?\s?)?(\d{1,6}(?:\.\d{1,9})?)\s?(ms|s)"
# A limit per minute, for which Google has the same words as for an account without credit.
_LIMITED = r"RESOURCE_EXHAUSTED"
_FOR_LONG = r"per.?day|limit: 0\b"
_HTML = r"\s*(<!doctype html|<html)"
# Where the words of an error are; the depth to which, and the number of entries in which they are looked for.
_TEXT_KEYS = ("message", "msg", "detail", "error", "errors")
_MAX_DEPTH, _MAX_ITEMS = 6, 20
_TITLE = r"(?s)<title[^>]*>(.*?)</title>"

# Status codes by error name, for errors without a status in the middle of a stream.
_STATUS_OF = {
    "invalid_request_error": 400,
    "context_length_exceeded": 400,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "timeout_error": 504,
    "overloaded_error": 529,
    "server_is_overloaded": 503,
    "slow_down": 503,
    "vector_store_timeout": 504,
    "invalid_prompt": 400,
    "invalid_encrypted_content": 400,
    "bio_policy": 400,
    "data_residency_mismatch": 400,
    "model_not_found": 404,
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "RESOURCE_EXHAUSTED": 429,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}


def error_for_status(
    status: int, body: bytes, header: Callable[[str], str], *, provider: str, model: str, now: float
) -> ModelError:
    """Return the error for an answer with a status other than 200.

    header: looks up a header.
    provider, model: named in the sentence.
    now: seconds since the epoch.
    """
    text = body.decode("utf-8", "replace")
    if re.match(_HTML, text, re.IGNORECASE):
        title = re.search(_TITLE, text, re.IGNORECASE)
        message, code = f"a web page: {_clip(title[1])}" if title else "a web page", ""
    else:
        message, code = _message_of(text)
    wait = retry_after(header, status, now)
    return _error(
        status, message, code, provider, model, _wait_in(status, f"{code} {message}") if wait is None else wait
    )


def error_in_stream(error: Any, *, provider: str, model: str) -> ModelError:
    """Return the error for an `error` object inside an answer with status 200."""
    message, code = _message_in(error if isinstance(error, dict) else {"error": error})
    number = error.get("code") if isinstance(error, dict) else None
    status = number if isinstance(number, int) and 400 <= number < 600 else _status_of(code)
    return _error(status, message, code, provider, model, _wait_in(status, f"{code} {message}"))


def _status_of(code: str) -> int:
    if "image" in code:
        return 400
    return next((_STATUS_OF[name] for name in code.split() if name in _STATUS_OF), 500)


def malformed(message: str) -> ModelError:
    """Return the error for an answer that violates the protocol."""
    return ModelError(Failure("malformed", message))


def _error(status: int, text: str, code: str, provider: str, model: str, wait: float | None) -> ModelError:
    kind, retryable, lead = _classify(status, f"{code} {text}", wait)
    unknown = lead.startswith("refused")
    if lead == "no model":
        lead = f"{provider} has no model named {model!r}"
        text = "" if text.strip() == f"model: {model}" else text
    elif lead == "server error":
        lead = f"Server error ({status}) from {provider}"
    elif lead == "loading":
        lead, text, wait = f"{provider} is still loading its model", "", wait or LOADING_WAIT_SECONDS
    elif lead == "wrong place":
        lead = f"{provider} has nothing at this address (HTTP 404); is the base URL right?"
        text = text if len(text) > 15 else ""
    else:
        lead = f"{provider} {lead}" if kind != "context_too_long" else f"{lead} for {model} at {provider}"
    # Without the provider's own words, the status helps.
    if not text:
        lead += "" if "HTTP" in lead or f"({status})" in lead else f" (HTTP {status})"
    sentence = f"{lead}: {text}" if text else lead
    sentence = sentence if sentence[-1] in ".!?" else sentence + "."
    reducible = kind == "bad_request" and unknown and _is_reducible(status, f"{code} {text}")
    failure = Failure(kind, sentence, retryable)
    if reducible:
        failure = failure.replace(reducible=True, **({"subject": code} if code else {}))
    return ModelError(failure, wait, status, code)


def names_content(error: ModelError) -> bool:
    """Return True for an error about the content of messages or tools, which is never about an option."""
    return _matches(_CONTENT, words_of(error.failure, error.code))


def words_of(failure: Failure, code: str = "") -> str:
    """Return the words of a refusal, with the places that they name in one form: tools.3.function.

    Providers also write tools[3].function, tools -> 3 -> function, #/tools/3/function and ['tools', 3, 'function'].
    """
    return _dotted(f"{failure.message} {code or failure.subject}")


def _dotted(words: str) -> str:
    words = re.sub(r"(?<=\w)(?:\.?\[|/|['\"],\s*|\s->\s)(\d{1,4})\b", r".\1", words)
    return re.sub(r"(\.\d{1,4})(?:\]\.?|/|,\s*['\"]|\s->\s)(?=[A-Za-z_\[])", r"\1.", words)


def about_content(failure: Failure, code: str) -> Failure:
    """Return a refusal that names an option but is not about it."""
    words = f"{code} {failure.message}"
    if _matches(f"{_POLICY}|{ANSWER_LIMIT}|{RESPONSES_API}", words):
        return failure
    return failure.replace(reducible=True, **({"subject": code} if code else {}))


def data_at(words: str, body: bytes) -> str:
    """Return the part of a request, as JSON, at the place that the words of its refusal name; "" for none.

    words: as `words_of` returns them.
    """
    place = re.search(r"\b(messages|contents|input)((?:\.\w+)+)", words)
    if place is None:
        return ""
    with suppress(ValueError, RecursionError):
        found: Any = json.loads(body).get(place[1])
        steps = 0
        for name in place[2].split(".")[1:]:
            if isinstance(found, list):
                if not name.isdigit() or int(name) >= len(found):
                    break
                found, steps = found[int(name)], steps + 1
            elif isinstance(found, dict):
                # Names of types may be among the names of fields, in another spelling.
                found = {key.replace("_", "").lower(): inner for key, inner in found.items()}
                found = found.get(name.replace("_", "").lower(), found)
            else:
                break
        # A whole message is no place in it.
        return json.dumps(found) if steps > 1 else ""
    return ""


def window_in(message: str) -> tuple[int, int]:
    """Return the window that the refusal of a long conversation names, and the tokens of the request; 0: not named."""
    found = re.search(_SIZES, message) or re.search(_WINDOW, message, re.IGNORECASE)
    window = int(found[found.lastindex or 1].replace(",", "")) if found else 0
    if window < _MIN_WINDOW_TOKENS:
        return 0, 0
    numbers = [int(text.replace(",", "")) for text in re.findall(r"\d[\d,]*", message)]
    return window, max((n for n in numbers if n > window), default=0)


def _is_reducible(status: int, words: str) -> bool:
    if status not in (400, 413, 422):
        return False
    return _matches(_CONTENT, _dotted(words)) or not _matches(
        f"{_POLICY}|{_OPTION}|{ANSWER_LIMIT}|{RESPONSES_API}", words
    )


def _matches(pattern: str, words: str) -> bool:
    return re.search(pattern, words, re.IGNORECASE) is not None


def _classify(status: int, words: str, wait: float | None) -> tuple[Kind, bool, str]:
    """Return the kind, whether a retry may help, and the beginning of the sentence."""
    passing = status == 429 and wait is not None and _matches(_LIMITED, words) and not _matches(_FOR_LONG, words)
    if status == 402 or (status in (400, 403, 429) and not passing and _matches(_NO_MONEY, words)):
        return "rate_limit", False, "refuses because the account has no credit or quota left"
    if status == 429:
        return "rate_limit", True, "limits the rate of requests"
    too_large = status == 413 or (status in (400, 422) and _matches(TOO_LARGE, words))
    if too_large and not _matches(_TOKENS, words):
        return "bad_request", False, "refused the request as too large"
    if status in (400, 413, 422, 500) and _matches(_TOO_LONG, words):
        return "context_too_long", False, "The conversation is too long"
    if status in (400, 403, 404, 422) and _matches(_NO_MODEL, words):
        return "bad_request", False, "no model"
    if status in (401, 403) or (status == 400 and _matches(_NO_KEY, words)):
        return "auth", False, "refused the API key" if status != 403 else "does not allow this"
    if status == 404:
        return "bad_request", False, "wrong place"
    if status == 408:
        return "network", True, "timed out waiting for the request"
    if status == 503 and _matches(_LOADING, words):
        return "overloaded", True, "loading"
    if status in (503, 529):
        return "overloaded", True, "is overloaded"
    if status >= 500:
        return "overloaded", True, "server error"
    return "bad_request", False, "refused the request"


def _message_of(text: str) -> tuple[str, str]:
    """Return the provider's own message and error code from the body of an error."""
    try:
        data = json.loads(text)
        if isinstance(data, list) and data:
            data = data[0]
        return _message_in(data) if isinstance(data, dict) else (_clip(_sentence(data)), "")
    except (ValueError, RecursionError):
        return _clip(text), ""


def _message_in(data: dict[str, Any]) -> tuple[str, str]:
    error = data.get("error", data)
    if not isinstance(error, dict):
        return _clip(_sentence(error)), str(data.get("code") or data.get("type") or "")
    text = _sentence(next((error[key] for key in _TEXT_KEYS if error.get(key)), ""))
    # OpenRouter passes on the answer of the provider behind it.
    metadata = error.get("metadata")
    if isinstance(metadata, dict) and isinstance(metadata.get("raw"), str):
        inner, _ = _message_of(metadata["raw"])
        text = f"{text}: {inner}"
    names = [error.get("code"), error.get("type"), error.get("param"), error.get("status"), *_quotas(error)]
    return _clip(text), " ".join(str(name) for name in names if name)


def _sentence(value: Any, depth: int = 0) -> str:
    """Return the words of an error of any form: text, lists and tables of validators, JSON within text."""
    if isinstance(value, str):
        if depth < _MAX_DEPTH and value.lstrip()[:1] in ("[", "{"):
            with suppress(ValueError, RecursionError):
                return _sentence(json.loads(value), depth + 1)
        return value
    if depth < _MAX_DEPTH and isinstance(value, list):
        return "; ".join(filter(None, (_sentence(item, depth + 1) for item in value[:_MAX_ITEMS])))
    if depth < _MAX_DEPTH and isinstance(value, dict):
        text = _sentence(next((value[key] for key in _TEXT_KEYS if value.get(key)), ""), depth + 1)
        place = next((value[key] for key in ("loc", "path") if value.get(key)), "")
        place = ".".join(map(str, place)) if isinstance(place, list) else str(place)
        return ": ".join(filter(None, (place, text))) or str(value)
    return "" if value is None else str(value)


def _quotas(error: dict[str, Any]) -> list[str]:
    """Return the quotas that Google reports as exceeded, and the requested wait as text."""
    names: list[str] = []
    details = error.get("details")
    for detail in details if isinstance(details, list) else ():
        if not isinstance(detail, dict):
            continue
        if isinstance(violations := detail.get("violations"), list):
            names += [str(v["quotaId"]) for v in violations if isinstance(v, dict) and v.get("quotaId")]
        if isinstance(delay := detail.get("retryDelay"), str):
            names.append(f"retry in {delay}")
    return names


def _clip(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= MAX_MESSAGE_CHARS else text[: MAX_MESSAGE_CHARS - 1] + "…"


def retry_after(header: Callable[[str], str], status: int, now: float) -> float | None:
    """Return the seconds that the provider asks to wait, or None.

    now: seconds since the epoch.
    """
    seconds = _number(header("retry-after-ms"))
    if seconds is not None:
        return seconds / 1000
    value = header("retry-after")
    seconds = _number(value)
    if seconds is not None:
        return seconds
    if value:
        try:
            return max(0.0, parsedate_to_datetime(value).timestamp() - now)
        except ValueError:
            return None
    if status != 429:
        return None
    waits: list[float] = []
    for name in ("requests", "tokens", "input-tokens", "output-tokens"):
        if header(f"anthropic-ratelimit-{name}-remaining") == "0":
            try:
                reset = datetime.fromisoformat(header(f"anthropic-ratelimit-{name}-reset"))
            except ValueError:
                continue
            waits.append(max(0.0, reset.timestamp() - now))
    return max(waits, default=None)


def _wait_in(status: int, text: str) -> float | None:
    """Return the seconds to wait that an error message names."""
    found = re.search(_TRY_AGAIN, text, re.IGNORECASE) if status in (429, 503) else None
    if found is None:
        return None
    return 60 * float(found[1] or 0) + float(found[2]) / (1000 if found[3].lower() == "ms" else 1)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None
