"""The words with which providers end an answer, and what each means to us."""

from __future__ import annotations

import pytest

from agent_cli.models.base import ModelError, StopReason, message_stop

# As the providers' references list them.
TABLE: dict[str, dict[StopReason, str]] = {
    "openai": {
        "end_turn": "stop",
        "tool_use": "tool_calls function_call",
        "max_tokens": "length",
        "refusal": "content_filter",
    },
    "anthropic": {
        "end_turn": "end_turn",
        "tool_use": "tool_use",
        "max_tokens": "max_tokens model_context_window_exceeded",
        "stop_sequence": "stop_sequence",
        "refusal": "refusal",
        "pause_turn": "pause_turn",
        "other": "compaction",
    },
    "gemini": {
        "end_turn": "STOP",
        "max_tokens": "MAX_TOKENS",
        "refusal": "SAFETY RECITATION LANGUAGE BLOCKLIST PROHIBITED_CONTENT SPII MODEL_ARMOR IMAGE_SAFETY",
        "other": "OTHER FINISH_REASON_UNSPECIFIED TOO_MANY_TOOL_CALLS",
    },
    "bedrock": {
        "end_turn": "end_turn",
        "tool_use": "tool_use",
        "max_tokens": "max_tokens model_context_window_exceeded",
        "stop_sequence": "stop_sequence",
        "refusal": "guardrail_intervened content_filtered",
    },
    "mistral": {"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length model_length"},
    "cohere": {
        "end_turn": "COMPLETE",
        "tool_use": "TOOL_CALL",
        "max_tokens": "MAX_TOKENS",
        "stop_sequence": "STOP_SEQUENCE",
    },
    "together_ai": {"end_turn": "stop eos", "tool_use": "tool_calls", "max_tokens": "length"},
    "zai": {"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length", "refusal": "sensitive"},
    "ollama": {"end_turn": "stop", "max_tokens": "length", "other": "load unload"},
}
ROWS = [(p, reason, word) for p, row in TABLE.items() for reason, words in row.items() for word in words.split()]


@pytest.mark.parametrize(("provider", "reason", "word"), ROWS)
def test_each_word_has_its_meaning(provider: str, reason: StopReason, word: str) -> None:
    end = message_stop(word, calls=False, provider=provider)
    assert (end.reason, end.raw) == (reason, word)


@pytest.mark.parametrize("word", ["", "stop", "STOP", "eos", "tool_calls"])
def test_with_calls_an_ordinary_end_is_for_the_calls(word: str) -> None:
    assert message_stop(word, calls=True, provider="p").reason == "tool_use"


@pytest.mark.parametrize("word", ["length", "content_filter", "stop_sequence"])
def test_calls_do_not_hide_why_an_answer_was_cut(word: str) -> None:
    assert message_stop(word, calls=True, provider="p").reason == message_stop(word, calls=False, provider="p").reason


def test_no_word_is_an_end_and_an_unknown_one_something_else() -> None:
    assert message_stop("", calls=False, provider="p").reason == "end_turn"
    assert message_stop("new_word", calls=True, provider="p").reason == "other"


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("error", "overloaded"),
        ("ERROR", "overloaded"),
        ("TIMEOUT", "overloaded"),
        ("network_error", "overloaded"),
        ("insufficient_system_resource", "overloaded"),
        ("MALFORMED_FUNCTION_CALL", "malformed"),
        ("malformed_model_output", "malformed"),
    ],
)
def test_a_word_for_a_failure_is_a_failure_that_may_pass(word: str, kind: str) -> None:
    with pytest.raises(ModelError, match=word) as caught:
        message_stop(word, calls=False, provider="p")
    assert (caught.value.failure.kind, caught.value.failure.retryable) == (kind, True)
