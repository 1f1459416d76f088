"""Deliver a notice: attempts at growing intervals, until one succeeds or none can."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from typing import Any

from agent_tools.text import one_line

# Seconds between attempts.
RETRY_SECONDS = (1.0, 5.0, 30.0, 120.0)
# Delivers a notice once; returns "" or why that failed. Raises DeliveryError if another attempt would not help.
Attempt = Callable[[], str]
# Returns how to notify about a session, from its entry in lists and its detail.
NoticeSender = Callable[[Mapping[str, Any], Mapping[str, Any]], list[Attempt]]


class DeliveryError(Exception):
    """A notice cannot be delivered."""


async def deliver(attempt: Attempt, waits: tuple[float, ...] = RETRY_SECONDS) -> None:
    """Try to deliver a notice; say on stderr why that failed in the end. waits: seconds between attempts."""
    try:
        for wait in (*waits, None):
            if not (why := await asyncio.to_thread(attempt)):
                return
            if wait is not None:
                await asyncio.sleep(wait)
    except DeliveryError as error:
        why = str(error)
    sys.stderr.write(f"agent: a notice was not delivered: {one_line(why)}\n")
