"""The UUIDs of a session's messages, the same in the frames of a host and in the transcript.

A UUID follows from the session, the number of the message in its log, and the position of the block in the message, so
that every listener derives the same one, also after a resume. A message that arrived with UUIDs (from a host, or read
from a transcript) keeps them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from agent_cli.kernel.events import Event, MessageAdded, SubagentEvent


def derived_uuid(*names: str | int) -> str:
    """Return the UUID that follows from these names."""
    digits = hashlib.sha1("\0".join(map(str, names)).encode("utf-8", "replace"), usedforsecurity=False).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-5{digits[13:16]}-a{digits[17:20]}-{digits[20:32]}"


def subagent_id(call_id: str) -> str:
    """Return the ID of the sub-agent that works for a call, safe as part of a file name."""
    return f"a{hashlib.sha1(call_id.encode('utf-8', 'replace'), usedforsecurity=False).hexdigest()[:16]}"


def scope_of(event: Event) -> str:
    """Return the call that an event's sub-agent works for, the innermost one; "" for the conversation itself."""
    scope = ""
    while isinstance(event, SubagentEvent):
        scope, event = event.call_id, event.event
    return scope


class MessageIds:
    """Track the UUIDs of messages as they are added; pass every recorded event to `observe`, in order.

    counts: numbers of messages in the log so far, by scope (see `scope_of`), rewound ones included.
    """

    def __init__(self, session_id: str, counts: Mapping[str, int] | None = None) -> None:
        self.session_id = session_id
        self.counts = dict(counts or {})
        self._given: dict[str, tuple[str, ...]] = {}

    def observe(self, event: Event) -> None:
        """Count the message of an event, if it has one."""
        inner, scope = event, ""
        while isinstance(inner, SubagentEvent):
            scope, inner = inner.call_id, inner.event
        if isinstance(inner, MessageAdded):
            self.counts[scope] = self.counts.get(scope, 0) + 1
            self._given[scope] = inner.uuids

    def latest(self, scope: str = "", block: int = 0) -> str:
        """Return the UUID of the latest message, or of one of its blocks.

        block: position in `AssistantMessage.parts`; other messages have one UUID.
        """
        given = self._given.get(scope, ())
        if block < len(given) and given[block]:
            return given[block]
        return derived_uuid(self.session_id, scope, self.counts.get(scope, 0), block)
