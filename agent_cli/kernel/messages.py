"""The conversation: a flat, append-only list of messages, the same for every provider.

Values have no identity: two equal messages are equal, and the log adds sequence numbers. A call is pending when its
assistant message has no later `ToolMessage` with its id; pending work is stored nowhere else.

Images and PDFs are stored as Claude's content blocks, and replaced by a note if a model does not accept them.
"""

from __future__ import annotations

import re
from binascii import a2b_base64
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any, TypeGuard

from agent_tools.record import Value
from agent_tools.results import Media, MediaKind
from agent_tools.text import shorten

# Asks the model for the rest of an answer: what follows belongs to the same text.
CONTINUE_CUT = (
    "<reminder>\nYour answer was cut at the token limit. Continue exactly where it stopped, without repeating "
    "anything.\n</reminder>"
)


class Text(Value, tag="Text"):
    """Text of the model.

    phase: the provider's label for it, such as "commentary"; sent back with the text.
    """

    text: str
    phase: str = ""


class Thinking(Value, tag="Thinking"):
    """Reasoning of the model.

    signature: proves it to the provider that made it.
    data: the part that arrived encrypted.
    provider: who made it on the Responses or the Gemini API; it is sent back only to that provider. From Gemini,
        `data` is the signature of the part that follows.
    """

    text: str = ""
    signature: str = ""
    data: str = ""
    provider: str = ""


class ToolCall(Value, tag="ToolCall"):
    """A call that the model requests.

    id: the provider's.
    broken: the raw text of arguments that are not a JSON object; `arguments` is empty then.
    repaired: what was wrong with the call as the model wrote it; see engine/repairs.py.
    """

    id: str
    name: str
    arguments: dict[str, Any]
    broken: str = ""
    repaired: tuple[str, ...] = ()


Part = Text | Thinking | ToolCall


_TITLE_CHARS = 80
_UNDONE = "<undo>\nThe user undid your changes to: "


class UserMessage(Value, tag="UserMessage"):
    """A message from the user, or from the program on their behalf.

    typed: what the user typed, if the text is the prompt of a slash command.
    """

    text: str
    media: tuple[Media, ...] = ()
    typed: str = ""

    @staticmethod
    def about_undo(names: Sequence[str]) -> str:
        """Return the text that tells the model which files the user restored."""
        return f"{_UNDONE}{shorten(', '.join(names), 2_000)}\n</undo>"

    @property
    def from_user(self) -> bool:
        """True if the user wrote it or typed its command, judging by its text."""
        return bool(self.typed) or not is_synthetic(self.text)

    @property
    def words(self) -> str:
        """The user's own words in it: the command that they typed, else see `user_text`."""
        return self.typed or user_text(self.text)

    @property
    def title(self) -> str:
        """The beginning of the user's words, on one line."""
        return shorten(" ".join(self.words[: 4 * _TITLE_CHARS].split()), _TITLE_CHARS)

    @property
    def continues_answer(self) -> bool:
        """True if it asks for the rest of an answer that was cut."""
        return self.text == CONTINUE_CUT


# Stop reasons of truncated answers: OpenAI, Anthropic, Gemini, Mistral, the Responses API.
_TRUNCATED = {
    "length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded", "incomplete",
}  # fmt: skip


class AssistantMessage(Value, tag="AssistantMessage"):
    """One answer of the model: its parts in the order they arrived. `provider_id` and `model` are as reported."""

    parts: tuple[Part, ...]
    stop_reason: str = ""
    provider_id: str = ""
    model: str = ""

    # Worked out once: each turn asks every message of a history.
    __slots__ = ("_calls", "_characters")
    media = ()  # an answer has none

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    @property
    def was_cut(self) -> bool:
        """True if the answer ended because it reached its token limit."""
        return self.stop_reason.lower() in _TRUNCATED

    @property
    def text(self) -> str:
        return "".join(p.text for p in self.parts if isinstance(p, Text))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        found: tuple[ToolCall, ...] | None = getattr(self, "_calls", None)
        if found is None:
            found = tuple(p for p in self.parts if isinstance(p, ToolCall))
            object.__setattr__(self, "_calls", found)
        return found


class ToolMessage(Value, tag="ToolMessage"):
    """The one result of a call."""

    call_id: str
    name: str
    text: str
    is_error: bool = False
    media: tuple[Media, ...] = ()


Message = UserMessage | AssistantMessage | ToolMessage


# How the report of a hook in the background begins.
HOOK_REPORT = "<hook>\n"
# The report of a sub-agent in the background, with its name and its call.
AGENT_REPORT = "<subagent "
# Prefixes of messages that the program writes itself. A user's message may begin with any other tag, such as HTML.
SYNTHETIC_PREFIXES = (
    AGENT_REPORT, "<commit>", "<compacted>", "<hook_", HOOK_REPORT, "<memory_", "<pinned>", "<plan_", "<project_memory",
    "<reminder>",    "<session_change>", "<undo>", "<user_command>", "<workspace_change>", "[Background command ",
    "[diagnostics: ", "(A message was lost here",
)  # fmt: skip


def undone_files(text: str) -> list[str]:
    """Return the files that an undo restored, as far as its message names them; [] for another message."""
    return text.removeprefix(_UNDONE).partition("\n")[0].split(", ") if text.startswith(_UNDONE) else []


# The user's comment on a suspended plan is sent together with the plan.
_FEEDBACK = r"(?s)<plan_feedback>\n.*\n\nThe user's feedback:\n(.*)\n\n[^\n]+\n</plan_feedback>"
_PLAN_MODE = r"(?s)\n\n<plan_mode>\n(?:(?!</?plan_mode>).)*</plan_mode>\s*\Z"


def is_answered(history: Sequence[Message]) -> bool:
    """Return True if a history ends in an answer without calls."""
    return bool(history) and isinstance(history[-1], AssistantMessage) and not history[-1].calls


def is_user_message(message: Message) -> TypeGuard[UserMessage]:
    """Return True if the user wrote the message, judging by its text."""
    return isinstance(message, UserMessage) and message.from_user


def is_synthetic(text: str) -> bool:
    """Return True if the program itself wrote the text of a user message."""
    return text.startswith(SYNTHETIC_PREFIXES) and _feedback(text) is None


def user_text(text: str) -> str:
    """Return the user's own words in a message: no files that go with it, no plan mode note, no plan they answer."""
    return re.split(r"\n\n<(?:file|editor) path=", without_note(text), maxsplit=1)[0]


def without_note(text: str) -> str:
    """Return a message with the files that it mentions, without the program's notes about plan mode and the plan."""
    text = re.sub(_PLAN_MODE, "", text)
    found = _feedback(text)
    return text if found is None else found


def _feedback(text: str) -> str | None:
    """Return the user's comment on a suspended plan; None for any other message."""
    if not text.startswith("<plan_feedback>"):
        return None
    found = re.fullmatch(_FEEDBACK, re.sub(_PLAN_MODE, "", text))
    return found[1] if found else None


def pending_calls(history: Iterable[Message]) -> tuple[ToolCall, ...]:
    """Return the calls without a result, in order."""
    waiting: dict[str, ToolCall] = {}
    for message in history:
        if isinstance(message, AssistantMessage):
            for call in message.calls:
                waiting[call.id] = call
        elif isinstance(message, ToolMessage):
            waiting.pop(message.call_id, None)
    return tuple(waiting.values())


Reason = str | Callable[[ToolCall], str]


def is_interrupted(message: Message) -> bool:
    """Return True for the part of an answer that had arrived when the user interrupted it."""
    return isinstance(message, AssistantMessage) and message.stop_reason == "interrupted"


def close_open_calls(history: Iterable[Message], reason: Reason) -> list[Message]:
    """Return the history with an error result for every open call; providers reject a history with open calls."""
    messages = list(history)
    for call in pending_calls(messages):
        messages.append(ToolMessage(call.id, call.name, reason if isinstance(reason, str) else reason(call), True))
    return messages


def call_ids(history: Iterable[Message]) -> set[str]:
    """Return the ids of all calls in a history."""
    return {c.id for m in history if isinstance(m, AssistantMessage) for c in m.calls}


_NOUNS: dict[MediaKind, str] = {"image": "image", "pdf": "PDF"}


def claude_blocks(media: Iterable[Media]) -> list[dict[str, Any]]:
    """Return the blocks of the Messages API, which Claude Code's stream-json uses, too."""
    return [_claude_block(item) for item in media]


def _claude_block(item: Media) -> dict[str, Any]:
    source = {"type": "base64", "media_type": item.mime, "data": item.data}
    if item.kind == "image":
        return {"type": "image", "source": source}
    # The API accepted titles of 1 to 500 characters.
    return {"type": "document", "source": source, **({"title": item.name[:500]} if item.name.strip() else {})}


def parse_media(blocks: Iterable[Any]) -> tuple[Media, ...]:
    """Parse the blocks of `claude_blocks`; blocks of other kinds, and those that only contain a URL, are left out.

    Raises KeyError, TypeError or ValueError for blocks of an unknown form.
    """
    found: list[Media] = []
    for block in blocks:
        if block["type"] not in ("image", "document") or block["source"]["type"] != "base64":
            continue
        mime, data = block["source"]["media_type"], block["source"]["data"]
        a2b_base64(data, strict_mode=True)
        if not mime.startswith("image/") and mime != "application/pdf":
            raise ValueError(mime)
        found.append(Media(mime, data, str(block.get("title") or "")))
    return tuple(found)


def count_characters(message: Message) -> int:
    """Return the number of characters of a message, nearly always an upper bound for its tokens."""
    if not isinstance(message, AssistantMessage):
        return len(message.text) + (sum(len(item.data) for item in message.media) if message.media else 0)
    found: int | None = getattr(message, "_characters", None)
    if found is None:
        found = len(message.text) + sum(len(str(call.arguments)) for call in message.calls)
        object.__setattr__(message, "_characters", found)
    return found


_media_of = attrgetter("media")


def have_media(messages: Iterable[Message]) -> bool:
    """Return True if one of these messages contains media."""
    return any(map(_media_of, messages))


def replace_media(message: Message, reason: Callable[[Media], str]) -> Message:
    """Return the message with a line of text in place of each attachment for which `reason` gives one.

    reason: why an attachment is not sent; "" to keep it.
    """
    if isinstance(message, AssistantMessage) or not message.media:
        return message
    reasons = [reason(item) for item in message.media]
    if not any(reasons):
        return message
    notes = [
        f"[{media_noun(item)} {item.name or 'without a name'} not sent: {why}]"
        for item, why in zip(message.media, reasons, strict=True)
        if why
    ]
    kept = tuple(item for item, why in zip(message.media, reasons, strict=True) if not why)
    return message.replace(text="\n".join([*filter(None, [message.text]), *notes]), media=kept)


def media_noun(item: Media) -> str:
    """Return what an attachment is called in text."""
    return _NOUNS[item.kind]


def drop_unsupported(history: Sequence[Message], accepted: frozenset[MediaKind]) -> list[Message]:
    """Return the history for a model that accepts these kinds: a line of text replaces all other media."""

    def reason(item: Media) -> str:
        return "" if item.kind in accepted else f"this model does not accept {media_noun(item)}s"

    return [replace_media(message, reason) for message in history]


def without_thinking(message: Message) -> Message:
    """Return the message without its thinking; one that consists of thinking alone stays, but is empty."""
    if not isinstance(message, AssistantMessage) or not any(isinstance(p, Thinking) for p in message.parts):
        return message
    return message.replace(parts=tuple(p for p in message.parts if not isinstance(p, Thinking)))


def agent_report(name: str, call_id: str, task: str, text: str) -> str:
    """Return the message with which the model learns that a sub-agent in the background has ended."""
    return f'{AGENT_REPORT}name="{name}" call="{call_id}">\nIt has ended ({task}). Its report:\n\n{text}\n</subagent>'


def reported_calls(text: str) -> list[str]:
    """Return the calls of the sub-agents whose reports a message has."""
    return re.findall(rf'(?m)^{AGENT_REPORT}name="[^"\n]*" call="([^"\n]*)">$', text) if AGENT_REPORT in text else []
