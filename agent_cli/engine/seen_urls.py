"""Whether a URL comes from the conversation: a page that nobody named may be a way to carry something out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from agent_cli.core.messages import AssistantMessage, Message, ToolMessage, UserMessage


def is_known(urls: Iterable[str], histories: Sequence[Iterable[Message]]) -> bool:
    """Whether a user message or a tool result contains the URL: as given, or without fragment and trailing slash.

    urls: the spellings of it. histories: the person's conversation, then those of the sub-agents inside it, whose user
    messages were written by a model and do not count. Neither does a result that may only repeat the call: one whose
    arguments contained the URL, or a WebFetch that failed.
    """
    spellings = {_bare(url) for url in urls}
    return any(_contains(history, spellings, own=not depth) for depth, history in enumerate(histories))


def _contains(history: Iterable[Message], spellings: set[str], *, own: bool) -> bool:
    asked: dict[str, str] = {}
    for message in history:
        if isinstance(message, AssistantMessage):
            asked.update((c.id, json.dumps(c.arguments, ensure_ascii=False).lower()) for c in message.calls)
        elif isinstance(message, UserMessage):
            if own and any(s in message.text.lower() for s in spellings):
                return True
        elif isinstance(message, ToolMessage) and not (message.is_error and message.name == "WebFetch"):
            text, given = message.text.lower(), asked.get(message.call_id, "")
            if any(s in text for s in spellings) and not any(s in given for s in spellings):
                return True
    return False


def _bare(url: str) -> str:
    """A URL without what does not change the page, and without its scheme, which may be http in the one place only."""
    return (url.partition("#")[0].rstrip("/").partition("://")[2] or url).lower()
