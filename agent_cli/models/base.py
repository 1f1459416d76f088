"""How the engine calls a model: one request in, an iterator of chunks out, errors from a small set.

A client is a class with `stream(request, cancel)`. tests/models/test_contract.py, which runs over all clients,
defines what it must do. Between requests a client stores nothing but connections and the encoded form of messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal, TypeGuard

from agent_cli.kernel.messages import Message, Thinking
from agent_cli.kernel.modes import Effort, thinking_budget
from agent_cli.kernel.results import Failure, Usage
from agent_tools.cancel import CancelToken
from agent_tools.record import Protocol, Value
from agent_tools.schema import Freeform

CacheTtl = Literal["5m", "1h"]
StopReason = Literal["end_turn", "tool_use", "max_tokens", "stop_sequence", "refusal", "pause_turn", "other"]


ToolChoice = Literal["auto", "none", "required"]


class ToolSpec(Value):
    """A tool as described to the model.

    freeform: how its input is written as plain text, for APIs that have such tools.
    """

    name: str
    description: str
    schema: dict[str, Any]
    freeform: Freeform | None = None


class Request(Value):
    """One model call.

    model: what the provider calls it, without our provider prefix.
    max_tokens: longest answer without its reasoning.
    total_tokens: the limit for both; see `token_limit`.
    tool_choice: "none" keeps the tools in the request (so that the cached prefix stays valid) but forbids calling them;
        "required" asks for a call, if the provider supports that.
    thinking_tokens: budget for reasoning.
    effort: the provider's level. A client that lacks one of the two says so in a `Notice`.
    head: number of messages at the beginning that come from a compaction; a cache may end after them.
    earlier: number of the model's answers that a compaction has removed.
    aside: the request is not the next one of the conversation.
    stream: False asks for the whole answer at once.
    task_budget: token budget that the model is shown for its task.
    cache_key: the same for requests that share a beginning.
    patience: seconds for which an overloaded provider is asked again, as a user watches who can end that.
    """

    model: str
    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    max_tokens: int | None = None
    total_tokens: int | None = None
    temperature: float | None = None
    effort: Effort | None = None
    thinking_tokens: int | None = None
    reasoning_summary: bool = False
    task_budget: int | None = None
    cache_key: str = ""
    stream: bool = True
    tool_choice: ToolChoice = "auto"
    json_schema: dict[str, Any] | None = None
    head: int = 0
    earlier: int = 0
    aside: bool = False
    patience: float = 0.0


def token_limit(request: Request, *, reasons: bool = False) -> int | None:
    """Return the limit of an answer with its reasoning, which is added to `max_tokens`; None: the provider's own.

    reasons: the model reasons by default.
    """
    if not request.max_tokens:
        return None
    effort = request.effort or ("medium" if reasons else None)
    limit = request.max_tokens + thinking_budget(effort, request.thinking_tokens)
    return min(limit, request.total_tokens) if request.total_tokens else limit


class Started(Value):
    """The response began: the provider's id for it and the model that answers."""

    id: str
    model: str


class TextChunk(Value):
    """A piece of the answer's text; one with another phase begins a new block."""

    text: str
    phase: str = ""


class ThinkingChunk(Value):
    """A piece of reasoning. A signature or encrypted data closes the block it belongs to.

    provider: who takes the block back. Its data belongs to the text before it; without a provider it is its own block.
    """

    text: str = ""
    signature: str = ""
    data: str = ""
    provider: str = ""

    def continues(self, last: object) -> TypeGuard[Thinking]:
        """Return True if it belongs to the block `last`."""
        if not isinstance(last, Thinking) or last.signature or last.data:
            return False
        return last.provider in ("", self.provider) and (bool(self.provider) or not self.data)

    def block(self, last: Thinking | None = None) -> Thinking:
        """Return the block that it makes, joined to the one that it continues."""
        text = last.text + self.text if last else self.text
        if self.provider:
            return Thinking(text, self.signature, self.data, self.provider)
        return Thinking(text, self.signature, self.data)


class ToolCallStart(Value):
    """A tool call begins. `index` distinguishes calls whose argument fragments interleave."""

    index: int
    id: str
    name: str


class ToolCallDelta(Value):
    """A fragment of the JSON text of a call's arguments."""

    index: int
    json: str


class UsageChunk(Value):
    """Token counts of this call so far; the last one counts. `cost` is set if the provider reports it."""

    usage: Usage


class MessageStop(Value):
    """The response is complete. `raw` is the provider's own stop reason."""

    reason: StopReason
    raw: str = ""

    @property
    def word(self) -> str:
        """The reason in the terms of Claude's API; the provider's own for one that has no counterpart there."""
        return self.raw if self.reason == "other" and self.raw else self.reason

    @property
    def unfinished(self) -> bool:
        """True if the model had more to say."""
        return self.reason in ("max_tokens", "pause_turn")


class Notice(Value):
    """Something for the user to know: a retry, with the seconds until then, or an option that the client lacks.

    retry: number of the retry, of how many, and the failure before it.
    """

    text: str
    wait: float = 0.0
    retry: tuple[int, int, Failure] | None = None


class Restarted(Value):
    """The answer broke off and is requested again: the chunks so far are void, but what they cost was spent."""


class PromptProgress(Value):
    """A local server has read so many of the tokens of the request."""

    read: int
    total: int


Chunk = (
    Started | PromptProgress | TextChunk | ThinkingChunk | ToolCallStart | ToolCallDelta | UsageChunk | MessageStop
    | Notice | Restarted
)  # fmt: skip


class TextCollector:
    """Collects the text of an answer, and the usage of it and the attempts before it, even if it fails.

    usage: None if none was reported.
    """

    def __init__(self) -> None:
        self.text = ""
        self.usage: Usage | None = None
        self._earlier = Usage()

    def read(self, chunks: Iterable[Chunk]) -> None:
        """Read the chunks of one call. Raises what the client raises."""
        for chunk in chunks:
            if isinstance(chunk, TextChunk):
                self.text += chunk.text
            elif isinstance(chunk, UsageChunk):
                self.usage = self._earlier + chunk.usage
            elif isinstance(chunk, Restarted):
                self.text, self._earlier = "", self.usage or Usage()


class ModelError(Exception):
    """A model call failed. `failure.kind` is one of the small set.

    retry_after: seconds that the provider asks to wait.
    status: of the HTTP answer; 0 if there was none.
    code: the provider's names for the error and its subject.
    """

    def __init__(self, failure: Failure, retry_after: float | None = None, status: int = 0, code: str = "") -> None:
        super().__init__(failure.message)
        self.failure = failure.replace(status=status) if status else failure
        self.retry_after = retry_after
        self.status = status
        self.code = code


# The stop reasons of all providers in lower case; any other is "other".
_STOP_WORDS: dict[StopReason, str] = {
    "end_turn": "stop end_turn eos eos_token complete completed",
    "tool_use": "tool_use tool_calls tool_call function_call",
    "max_tokens": "max_tokens length max_output_tokens model_length model_context_window_exceeded incomplete",
    "stop_sequence": "stop_sequence",
    "pause_turn": "pause_turn",
    "refusal": "refusal content_filter content_filtered guardrail_intervened sensitive safety recitation language"
    " blocklist prohibited_content spii model_armor image_safety image_prohibited_content error_toxic",
}
_STOPS = {word: reason for reason, words in _STOP_WORDS.items() for word in words.split()}
_OVERLOADED = {"abort", "cancelled", "error", "network_error", "insufficient_system_resource", "timeout"}
_MALFORMED = {
    "malformed_function_call", "malformed_response", "malformed_tool_use", "malformed_model_output",
    "unexpected_tool_call", "missing_thought_signature",
}  # fmt: skip


def message_stop(raw: str, *, calls: bool, provider: str) -> MessageStop:
    """Return how a whole answer ended, from the provider's own stop reason; an empty one counts as a normal end.

    calls: the answer has tool calls, for which several servers report "stop".

    Raises ModelError for a reason that means that the provider gave up, or could not parse what its model wrote.
    """
    word = raw.lower()
    if word in _OVERLOADED:
        raise ModelError(Failure("overloaded", f"{provider} cut off the answer ({raw}).", retryable=True))
    if word in _MALFORMED:
        text = f"{provider} could not read the tool call that its model wrote ({raw})."
        raise ModelError(Failure("malformed", text, retryable=True))
    reason = _STOPS.get(word, "other") if word else "end_turn"
    return MessageStop("tool_use" if calls and reason == "end_turn" else reason, raw)


class ModelClient(Protocol):
    """Calls models. Raises ModelError, or CancelledError within 300 ms after the token is cancelled."""

    def stream(self, request: Request, cancel: CancelToken) -> Iterator[Chunk]: ...
