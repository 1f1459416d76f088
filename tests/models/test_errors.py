"""What providers say when they refuse, as they really say it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from agent_cli.kernel.results import Failure
from agent_cli.models.base import ModelError
from agent_cli.models.errors import (
    LOADING_WAIT_SECONDS,
    error_for_status,
    error_in_stream,
    retry_after,
    window_in,
)

NOW = 1_700_000_000.0


def refused(status: int, error: Any, headers: Callable[[str], str] = lambda _: "") -> ModelError:
    body = error if isinstance(error, bytes) else json.dumps(error).encode()
    return error_for_status(status, body, headers, provider="Prov", model="big-1", now=NOW)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "This model's maximum context length is 4097 tokens. However, your messages resulted in 4294 tokens."),
        (400, "prompt is too long: 205371 tokens > 200000 maximum"),
        (400, "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"),
        (400, "Your input exceeds the context window of this model. Please adjust your input and try again."),
        (400, "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575)."),
        (400, "the request exceeds the available context size, try increasing it"),
        (400, "Input length 131393 exceeds the maximum allowed input length of 131040 tokens."),
        (400, "Input length (265330) exceeds model's maximum context length (262144)."),
        (400, "Requested token count exceeds the model's maximum context length of 202752 tokens."),
        (400, "Prompt too long: 5152 tokens exceeds max_seq_len 2048 (leave room for output tokens)"),
        (400, "Input is too long for requested model."),
        (400, "This endpoint's maximum context length is 200000 tokens. However, you requested about 250000."),
        (400, "Please reduce the length of the messages or completion."),
        (413, "Request too large for model on tokens per minute (TPM): please reduce your message size and try again."),
        (413, "Request size exceeds model context window"),
        (500, "prompt is too long; exceeded max context length by 100 tokens"),
        (422, "the prompt is longer than the model's context length"),
    ],
)
def test_a_conversation_that_is_too_long(status: int, message: str) -> None:
    failure = refused(status, {"error": {"message": message, "type": "invalid_request_error"}}).failure
    assert (failure.kind, failure.retryable, failure.reducible) == ("context_too_long", False, False)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (413, {"error": {"message": "Request exceeds the maximum size", "type": "request_too_large"}}),
        (413, b"<html><head><title>413 Request Entity Too Large</title></head></html>"),
        (413, b""),
        (400, {"error": {"message": "Request payload size exceeds the limit: 20971520 bytes."}}),
        (400, {"error": {"message": "Request body too large"}}),
    ],
)
def test_too_many_bytes_are_no_window(status: int, body: Any) -> None:
    failure = refused(status, body).failure
    assert (failure.kind, failure.reducible) == ("bad_request", True)
    assert failure.message.startswith("Prov refused the request as too large")


@pytest.mark.parametrize(
    ("message", "window", "sent"),
    [
        ("maximum context length is 4097 tokens. However, your messages resulted in 4294 tokens.", 4097, 4294),
        ("prompt is too long: 205371 tokens > 200000 maximum", 200_000, 205_371),
        ("input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000", 200_000, 0),
        ("The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).", 1048575, 1196265),
        ("Input length 131393 exceeds the maximum allowed input length of 131040 tokens.", 131_040, 131_393),
        ("Input length (265330) exceeds model's maximum context length (262144).", 262_144, 265_330),
        ("Prompt too long: 5152 tokens exceeds max_seq_len 2048 (leave room for output tokens)", 2_048, 5_152),
        ("request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it", 4_096, 5_000),
        ("tokens per minute (TPM): Limit 6000, Requested 10000, please reduce your message size", 6_000, 10_000),
        ("The input (13,000 tokens) is longer than the model's context length (8,192 tokens).", 8_192, 13_000),
        ("Your input exceeds the context window of this model.", 0, 0),
        ("the request exceeds the available context size, try increasing it", 0, 0),
        ("Please reduce the length of the messages or completion.", 0, 0),
    ],
)
def test_the_window_that_a_refusal_names(message: str, window: int, sent: int) -> None:
    assert window_in(message) == (window, sent)


@pytest.mark.parametrize(
    ("message", "reducible"),
    [
        ("messages.1.content.0: Invalid `signature` in `thinking` block", True),
        ("Could not process image", True),
        ("Your input image may contain content that is not allowed by our safety system.", True),
        ("This model does not support image input", True),
        ("tools.3.custom.input_schema: 'temperature' does not support oneOf", True),
        ("Invalid schema for function 'x': unsupported value", True),
        ("Item 'msg_1' of type 'message' was provided without its required 'reasoning' item: 'rs_1'.", True),
        ("Request contains an invalid argument.", True),
        ("Bad request", True),
        ("", True),
        ("Tool mcp__s__odd has an unsupported parameter 'x'", True),
        ("The function `deploy`: keyword anyOf is not supported", True),
        ("Media of this kind is not supported", True),
        ("Thinking block could not be verified: it was made with another temperature", True),
        ("Invalid value: 'reasoning'. Supported values are: 'message'", True),
        ("Unsupported parameter: 'temperature' is not supported with this model.", False),
        ("context_management: Extra inputs are not permitted", False),
        ("This model does not support function calling", False),
        ("max_tokens: 100000 > 64000, which is the maximum allowed", False),
        ("Invalid prompt: your prompt was flagged as potentially violating our usage policy.", False),
        ("This model is only supported in v1/responses and not in v1/chat/completions.", False),
    ],
)
def test_which_refusals_less_may_help(message: str, reducible: bool) -> None:
    error = refused(400, {"error": {"message": message}})
    assert (error.failure.kind, error.failure.reducible) == ("bad_request", reducible)
    assert not refused(500, {"error": {"message": message}}).failure.reducible


@pytest.mark.parametrize(
    ("status", "error", "kind", "retryable"),
    [
        (401, {"message": "Incorrect API key provided: sk-x"}, "auth", False),
        (
            400,
            {"message": "API key not valid. Please pass a valid API key."},
            "auth",
            False,
        ),
        (403, {"message": "Country not supported"}, "auth", False),
        (429, {"message": "Too many tokens, please wait before trying again."}, "rate_limit", True),
        (429, {"message": "You exceeded your current quota", "code": "insufficient_quota"}, "rate_limit", False),
        (402, {"message": "Insufficient Balance"}, "rate_limit", False),
        (400, {"message": "Your credit balance is too low to access the Anthropic API."}, "rate_limit", False),
        (529, {"message": "Overloaded", "type": "overloaded_error"}, "overloaded", True),
        (502, {"message": "Bad gateway"}, "overloaded", True),
        (504, {"message": "upstream timed out"}, "overloaded", True),
        (408, {"message": "timeout"}, "network", True),
        (422, {"message": "messages.0.role: unknown"}, "bad_request", False),
        (400, {"message": "max_tokens: 100000 > 64000, which is the maximum allowed"}, "bad_request", False),
    ],
)
def test_kinds(status: int, error: dict[str, Any], kind: str, retryable: bool) -> None:
    failure = refused(status, {"error": error}).failure
    assert (failure.kind, failure.retryable) == (kind, retryable)
    assert str(error["message"]).rstrip(".") in failure.message


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, {"error": {"message": "The model `big-1` does not exist or you do not have access to it."}}),
        (404, {"type": "error", "error": {"type": "not_found_error", "message": "model: big-1 not found"}}),
        (400, {"error": {"message": "big-1 is not a valid model ID", "code": 400}}),
        (404, {"error": {"message": 'model "big-1" not found, try pulling it first', "type": "api_error"}}),
        (404, {"error": "model 'big-1' not found"}),
        (404, {"error": {"message": "No endpoints found for big-1.", "code": 404}}),
    ],
)
def test_an_unknown_model(status: int, body: dict[str, Any]) -> None:
    failure = refused(status, body).failure
    assert failure.kind == "bad_request"
    assert failure.message.startswith("Prov has no model named 'big-1': ")


def test_an_unknown_model_of_anthropic() -> None:
    error = {"type": "error", "error": {"type": "not_found_error", "message": "model: big-1"}}
    assert refused(404, error).failure.message == "Prov has no model named 'big-1' (HTTP 404)."


def test_a_local_server_that_loads_its_model_is_waited_for() -> None:
    error = refused(503, {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}})
    assert error.failure == Failure("overloaded", "Prov is still loading its model (HTTP 503).", True, 503)
    assert error.retry_after == LOADING_WAIT_SECONDS


def test_a_wrong_address_is_not_an_unknown_model() -> None:
    message = refused(404, {"detail": "Not Found"}).failure.message
    assert message == "Prov has nothing at this address (HTTP 404); is the base URL right?"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"detail": [{"msg": "field required"}, {"msg": "too short"}]}, "field required; too short"),
        ([{"error": {"code": 400, "message": "inside a list"}}], "inside a list"),
        ({"message": "bare", "object": "error"}, "bare"),
        ({"error": "just words"}, "just words"),
        ({"detail": [{"loc": ["body", "tools", 3], "msg": "field required"}]}, "body.tools.3: field required"),
        ({"message": {"detail": [{"loc": ["body"], "msg": "no object"}]}}, "body: no object"),
        ({"error": {"message": '[{"path": ["input", 2], "message": "Required"}]'}}, "input.2: Required"),
        ({"errors": [{"message": "one"}, "two", {"detail": {"error": "three"}}]}, "one; two; three"),
        ({"error": {"message": "{not JSON"}}, "{not JSON"),
        (b"plain text, no JSON", "plain text, no JSON"),
        (b"\xff\xfe", "\ufffd\ufffd"),
    ],
)
def test_wherever_the_message_is_it_is_found(body: Any, text: str) -> None:
    assert refused(400, body).failure.message == f"Prov refused the request: {text}."


def test_an_empty_body_leaves_the_status() -> None:
    assert refused(400, b"").failure.message == "Prov refused the request (HTTP 400)."


def test_a_long_message_is_clipped_and_made_one_line() -> None:
    message = refused(400, {"error": {"message": "word\n" * 1000}}).failure.message
    assert len(message) < 600
    assert "\n" not in message


def test_a_web_page_shows_its_title_only() -> None:
    page = b"<!doctype html><title>502 Bad\nGateway</title><body>long</body>"
    assert refused(502, page).failure.message == "Server error (502) from Prov: a web page: 502 Bad Gateway."


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"type": "overloaded_error", "message": "x"}, "overloaded"),
        ({"type": "rate_limit_error", "message": "x"}, "rate_limit"),
        ({"type": "invalid_request_error", "message": "prompt is too long"}, "context_too_long"),
        ({"code": 502, "message": "x"}, "overloaded"),
        ({"code": "context_length_exceeded", "message": "x"}, "context_too_long"),
        ({"message": "something else"}, "overloaded"),
        ("only words", "overloaded"),
    ],
)
def test_errors_inside_a_stream(error: Any, kind: str) -> None:
    assert error_in_stream(error, provider="Prov", model="m").failure.kind == kind


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
        ({"retry-after": "Tue, 14 Nov 2023 22:13:50 GMT"}, 30.0),
        ({"retry-after": "Tue, 14 Nov 2000 22:13:50 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        (
            {
                "anthropic-ratelimit-requests-remaining": "3",
                "anthropic-ratelimit-requests-reset": "2023-11-14T22:20:20Z",
                "anthropic-ratelimit-tokens-remaining": "0",
                "anthropic-ratelimit-tokens-reset": "2023-11-14T22:13:32Z",
            },
            12.0,
        ),
        ({}, None),
    ],
)
def test_how_long_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(lambda name: headers.get(name, ""), 429, NOW) == seconds


def quota(quota_id: str, delay: str, limit: int = 10) -> dict[str, Any]:
    """A refusal of the Gemini API for a limit that was reached."""
    text = (
        "You exceeded your current quota, please check your plan and billing details. * Quota exceeded for metric: "
        f"generativelanguage.googleapis.com/generate_content_free_tier_requests, limit: {limit}\n"
        f"Please retry in {delay}."
    )
    kind = "type.googleapis.com/google.rpc"
    details = [
        {"@type": f"{kind}.QuotaFailure", "violations": [{"quotaId": quota_id, "quotaValue": str(limit)}]},
        {"@type": f"{kind}.RetryInfo", "retryDelay": delay},
    ]
    return {"error": {"code": 429, "message": text, "status": "RESOURCE_EXHAUSTED", "details": details}}


@pytest.mark.parametrize(
    ("quota_id", "delay", "limit", "retryable", "wait"),
    [
        ("GenerateRequestsPerMinutePerProjectPerModel-FreeTier", "34.07s", 10, True, 34.07),
        ("GenerateContentInputTokensPerModelPerMinute", "7s", 250000, True, 7.0),
        ("GenerateRequestsPerDayPerProjectPerModel-FreeTier", "20s", 10, False, 20.0),
        ("GenerateRequestsPerMinutePerProjectPerModel-FreeTier", "20s", 0, False, 20.0),
    ],
)
def test_a_limit_of_google_s_is_waited_for_unless_it_is_for_the_day(
    quota_id: str, delay: str, limit: int, retryable: bool, wait: float
) -> None:
    error = refused(429, [quota(quota_id, delay, limit)])
    assert (error.failure.kind, error.failure.retryable, error.retry_after) == ("rate_limit", retryable, wait)


@pytest.mark.parametrize(
    ("status", "error", "kind", "retryable"),
    [
        (429, {"message": "Resource exhausted. Please try again later.", "status": "RESOURCE_EXHAUSTED"},
         "rate_limit", True),
        (503, {"message": "The model is overloaded. Please try again later.", "status": "UNAVAILABLE"},
         "overloaded", True),
        (500, {"message": "An internal error has occurred.", "status": "INTERNAL"}, "overloaded", True),
        (400, {"message": "API key not valid. Please pass a valid API key.", "status": "INVALID_ARGUMENT"},
         "auth", False),
        (403, {"message": "Your project has been denied access.", "status": "PERMISSION_DENIED"}, "auth", False),
        (404, {"message": "models/big-1 is not found for API version v1beta, or is not supported for generateContent."},
         "bad_request", False),
        (400, {"message": "User location is not supported for the API use.", "status": "FAILED_PRECONDITION"},
         "bad_request", False),
    ],
)  # fmt: skip
def test_refusals_of_the_gemini_api(status: int, error: dict[str, Any], kind: str, retryable: bool) -> None:
    failure = refused(status, {"error": {"code": status, **error}}).failure
    assert (failure.kind, failure.retryable) == (kind, retryable)
    if status == 404:
        assert "has no model named 'big-1'" in failure.message
