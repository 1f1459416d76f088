"""Handlers of push notifications."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.requests import Request

from agent_cli import UsageError, UserDecision
from agent_cli.extras.server.actions import decide_call
from agent_cli.extras.server.guard import RequestRefusedError
from agent_cli.extras.server.hub import Hub
from agent_cli.extras.server.queries import token_of
from agent_cli.extras.server.schemas import PushAnswerBody, PushBody


async def get_push(hub: Hub, request: Request) -> dict[str, Any]:
    """Return the key that a browser subscribes with."""
    try:
        return await asyncio.to_thread(hub.push.describe, token_of(request))
    except UsageError as error:
        raise RequestRefusedError(507, "disk", str(error)) from None


async def set_push(hub: Hub, request: Request, body: PushBody) -> dict[str, Any]:
    """Subscribe the device, or end its subscription."""
    try:
        return {"id": await asyncio.to_thread(hub.push.subscribe, token_of(request), body)}
    except UsageError as error:
        raise RequestRefusedError(507, "disk", str(error)) from None


async def answer_push(hub: Hub, request: Request, body: PushAnswerBody) -> dict[str, Any]:
    """Approve what a notification has shown whole; its ticket is the right to."""
    ticket = hub.push.take(body.ticket)
    if ticket is None:
        request.scope["state"]["failed"]()
        raise RequestRefusedError(403, "ticket", "This notification was answered, or is too old. Open the page.")
    decision = UserDecision(ticket.call_id, ticket.binding, "approve", "")
    return await decide_call(hub, ticket.session, decision, ticket.token)
