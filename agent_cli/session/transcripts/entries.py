"""Messages as entries of a transcript, in Claude Code's shape: one entry per content block, chained by `parentUuid`."""

from __future__ import annotations

from typing import Any

from agent_cli.core.messages import (
    AssistantMessage,
    Part,
    Text,
    Thinking,
    ToolMessage,
    UserMessage,
    claude_blocks,
    is_user_message,
    user_text,
)
from agent_cli.core.results import Usage
from agent_tools.display import CommandOutput
from agent_tools.record import Value
from agent_tools.results import Media

Entry = dict[str, Any]
# Characters of an ID that no other answer has.
_OWN = 16


class EntryContext(Value):
    """What all entries of a session say. agent_id: of the sub-agent whose transcript it is."""

    session_id: str
    cwd: str
    branch: str
    version: str
    agent_id: str = ""

    def entry(self, kind: str, uuid: str, parent: str | None, time: str, **fields: Any) -> Entry:
        """Return an entry of a kind that is part of the chain."""
        made: Entry = {"parentUuid": parent, "isSidechain": bool(self.agent_id), "userType": "external"}
        if self.agent_id:
            made["agentId"] = self.agent_id
        made |= {"cwd": self.cwd, "sessionId": self.session_id, "version": self.version, "gitBranch": self.branch}
        return made | {"type": kind, **fields, "uuid": uuid, "timestamp": time}


def user_parts(message: UserMessage) -> list[tuple[Any, bool]]:
    """Return the contents of the entries for a user message, each with whether the program wrote it.

    The user's own words come first; what the program added to them is an entry of its own.
    """
    if not is_user_message(message):
        return [(_content(message.text, message.media), True)]
    words = user_text(message.text)
    rest = message.text[len(words) :].strip("\n") if message.text.startswith(words) else message.text
    parts: list[tuple[Any, bool]] = [(_content(words, message.media), False)]
    return [*parts, (rest, True)] if rest else parts


def _content(text: str, media: tuple[Media, ...]) -> Any:
    blocks = [{"type": "text", "text": text}] if text else []
    return [*blocks, *claude_blocks(media)] if media else text


def shown_parts(message: AssistantMessage) -> list[tuple[int, dict[str, Any]]]:
    """Return the blocks of an answer with their positions, without reasoning that only its provider can read."""
    every = list(enumerate(message.parts))
    shown = [(n, p) for n, p in every if not (isinstance(p, Thinking) and p.provider and not p.text)]
    return [(number, content_block(part)) for number, part in shown or every]


def content_block(part: Part) -> dict[str, Any]:
    """Return a part of an answer as a block of the Messages API."""
    match part:
        case Text(text=text):
            return {"type": "text", "text": text}
        case Thinking(data=data, provider="") if data:
            return {"type": "redacted_thinking", "data": data}
        case Thinking(text=text, signature=signature, provider=provider):
            return {"type": "thinking", "thinking": text, "signature": "" if provider else signature}
        case _:
            return {"type": "tool_use", "id": part.id, "name": part.name, "input": part.arguments}


def assistant_body(
    message: AssistantMessage, block: dict[str, Any], name: str, usage: Usage, *, last: bool
) -> dict[str, Any]:
    """Return the `message` of an assistant entry. name: its ID where the provider's is none of its own."""
    return {
        # Readers join the blocks of one ID, which a counter of the provider's would give to several answers.
        "id": message.provider_id if len(message.provider_id) >= _OWN else name,
        "type": "message",
        "role": "assistant",
        "model": message.model,
        "content": [block],
        "stop_reason": (message.stop_reason or None) if last else None,
        "stop_sequence": None,
        "usage": {
            "input_tokens": max(0, usage.input - usage.cache_read - usage.cache_write),
            "cache_creation_input_tokens": usage.cache_write,
            "cache_read_input_tokens": usage.cache_read,
            "output_tokens": usage.output,
        },
    }


def result_fields(message: ToolMessage, display: object) -> dict[str, Any]:
    """Return the fields of a user entry that holds a tool's result."""
    block = {
        "tool_use_id": message.call_id,
        "type": "tool_result",
        "content": _content(message.text, message.media),
        "is_error": message.is_error,
    }
    return {"message": {"role": "user", "content": [block]}, "toolUseResult": _details(message, display)}


def _details(message: ToolMessage, display: object) -> Any:
    if message.is_error or not isinstance(display, CommandOutput):
        return f"Error: {message.text}" if message.is_error else message.text
    return {
        "stdout": display.output,
        "stderr": "",
        "interrupted": display.exit_code is None,
        "isImage": False,
        "noOutputExpected": False,
    }
