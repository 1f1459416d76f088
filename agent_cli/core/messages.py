"""The conversation: a flat, append-only list of messages, the same for every provider.

Values have no identity: two equal messages are equal, and the log adds sequence numbers. A call is pending when its
assistant message has no later `ToolMessage` with its id; that is the only place where pending work is kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, TypeGuard

from agent_tools.media import Media
from agent_tools.values import Value


class Text(Value):
    """Words of the model."""

    text: str


class Thinking(Value):
    """Reasoning of the model. `signature` proves it to the provider that made it; `data` is what came encrypted."""

    text: str = ""
    signature: str = ""
    data: str = ""


class ToolCall(Value):
    """A call that the model asks for. `id` is the provider's. `broken` is the raw text of arguments that are not a
    JSON object; `arguments` is empty then."""

    id: str
    name: str
    arguments: dict[str, Any]
    broken: str = ""


Part = Text | Thinking | ToolCall


class UserMessage(Value):
    """What a person, or the program on their behalf, tells the model."""

    text: str
    media: tuple[Media, ...] = ()


class AssistantMessage(Value):
    """One answer of the model: its parts in the order they came. `provider_id` and `model` are as reported."""

    parts: tuple[Part, ...]
    stop_reason: str = ""
    provider_id: str = ""
    model: str = ""

    @property
    def text(self) -> str:
        return "".join(p.text for p in self.parts if isinstance(p, Text))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(p for p in self.parts if isinstance(p, ToolCall))


class ToolMessage(Value):
    """The one result of a call."""

    call_id: str
    name: str
    text: str
    is_error: bool = False
    media: tuple[Media, ...] = ()


Message = UserMessage | AssistantMessage | ToolMessage


# How the messages begin that the program writes on its own. A person's may begin with any other tag, as of HTML.
OF_PROGRAM = (
    "<commit>", "<compacted>", "<hook_", "<memory_", "<pinned>", "<plan_", "<project_memory", "<reminder>", "<undo>",
    "<user_command>", "<workspace_change>", "[Background command ", "(A message was lost here",
)  # fmt: skip


def by_person(message: Message) -> TypeGuard[UserMessage]:
    """Whether a person wrote it, as far as that can be told."""
    return isinstance(message, UserMessage) and not message.text.startswith(OF_PROGRAM)


def typed(text: str) -> str:
    """A message as the person wrote it: without the files that it mentions and the note of plan mode below it."""
    return re.split(r"\n\n<(?:file path=|plan_mode>)", text, maxsplit=1)[0]


# The words for it of the providers: OpenAI, Anthropic, Gemini, Mistral, the Responses API.
_CUT = {"length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded"}


def was_cut(message: AssistantMessage) -> bool:
    """Whether an answer ended because it reached its limit of tokens."""
    return message.stop_reason.lower() in _CUT


def pending_calls(history: Iterable[Message]) -> tuple[ToolCall, ...]:
    """The calls that still want a result, in order."""
    waiting: dict[str, ToolCall] = {}
    for message in history:
        if isinstance(message, AssistantMessage):
            waiting.update((c.id, c) for c in message.calls)
        elif isinstance(message, ToolMessage):
            waiting.pop(message.call_id, None)
    return tuple(waiting.values())


Reason = str | Callable[[ToolCall], str]


def with_open_calls_closed(history: Iterable[Message], reason: Reason) -> list[Message]:
    """The history with an error result for every call that has none, so that every provider accepts it."""
    messages = list(history)
    for call in pending_calls(messages):
        messages.append(ToolMessage(call.id, call.name, reason if isinstance(reason, str) else reason(call), True))
    return messages


def call_ids(history: Iterable[Message]) -> set[str]:
    """The ids of all calls in a history."""
    return {c.id for m in history if isinstance(m, AssistantMessage) for c in m.calls}
