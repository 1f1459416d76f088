"""Whether a URL comes from the conversation: a page that nobody named may be a way to carry something out."""

from __future__ import annotations

import json
from collections.abc import Iterable

from agent_cli.core.messages import AssistantMessage, Message, ToolMessage, UserMessage


def is_known(url: str, history: Iterable[Message], *, own: bool) -> bool:
    """Whether a user message or a tool result contains the URL: as given, or without fragment and trailing slash.

    own: the user messages are a person's; those of a sub-agent were written by a model. A result does not count where
    its call's own arguments contained the URL: it may only repeat them.
    """
    wanted = _bare(url)
    asked: dict[str, str] = {}
    for message in history:
        if isinstance(message, AssistantMessage):
            asked.update((c.id, json.dumps(c.arguments, ensure_ascii=False)) for c in message.calls)
        elif isinstance(message, UserMessage):
            if own and wanted in message.text:
                return True
        elif isinstance(message, ToolMessage) and wanted in message.text:
            if wanted not in asked.get(message.call_id, ""):
                return True
    return False


def _bare(url: str) -> str:
    """A URL without what does not change the page, and without its scheme, which may be http in the one place only."""
    return url.partition("#")[0].rstrip("/").partition("://")[2] or url
