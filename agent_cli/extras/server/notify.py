"""Notify a command or a web hook when a session waits for a decision, or ends.

A web hook gets `X-Agent-Timestamp` and `X-Agent-Signature: sha256=HEX`, the HMAC-SHA256 with the secret of the
timestamp, a dot and the body. What is not answered with 2xx is sent again, a few times, at growing intervals.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from agent_cli.extras.server.delivery import RETRY_SECONDS, Attempt, NoticeSender, deliver
from agent_cli.extras.server.hub import Hub
from agent_tools.base import ToolError
from agent_tools.cancel import CancelledError, CancelToken
from agent_tools.net.urls import split_url
from agent_tools.net.web_client import WebClient, WebLimits
from agent_tools.process.child import run_child
from agent_tools.secret_patterns import without_secrets

_NOTIFIED_STATES = ("waiting", "done", "failed", "interrupted")
# Time limit of a command.
_TIMEOUT_SECONDS = 30.0


class Notifier:
    """Sends notices for each change to such a state. waits: seconds between attempts."""

    def __init__(self, hub: Hub, senders: Sequence[NoticeSender], waits: tuple[float, ...] = RETRY_SECONDS) -> None:
        self._hub, self._senders, self._waits = hub, senders, waits
        self._states: dict[str, str] = {}
        self._changed: asyncio.Queue[str] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Begin to watch; the present states are not announced."""
        self._hub.on_change.append(self._changed.put_nowait)
        self._run(self._watch())

    async def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    def _run(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _watch(self) -> None:
        for task in self._hub.tasks.all():
            if (entry := await asyncio.to_thread(self._hub.views.entry, task.session_id)) is not None:
                self._states[task.session_id] = entry["state"]
        while True:
            session_id = await self._changed.get()
            entry = await asyncio.to_thread(self._hub.views.entry, session_id)
            if entry is None or self._states.get(session_id) == entry["state"]:
                continue
            self._states[session_id] = entry["state"]
            if entry["state"] in _NOTIFIED_STATES:
                detail = await self._hub.detail(session_id) or {}
                for sender in self._senders:
                    for attempt in await asyncio.to_thread(sender, entry, detail):
                        self._run(deliver(attempt, self._waits))


class HookSender:
    """Notifies a command or a web hook."""

    def __init__(self, hub: Hub, target: str) -> None:
        self._hub, self._target = hub, target

    def attempts(self, entry: Mapping[str, Any], detail: Mapping[str, Any]) -> list[Attempt]:
        """Return how to notify about a session."""
        notice = make_notice(entry, detail, self._hub.options.link)
        body = json.dumps(notice, ensure_ascii=False).encode()
        web = self._target.startswith(("http://", "https://"))
        return [partial(self._post if web else self._run_command, self._target, body)]

    def _run_command(self, command: str, body: bytes) -> str:
        try:
            env = without_secrets(self._hub.env)
            done = run_child(["/bin/sh", "-c", command], seconds=_TIMEOUT_SECONDS, feed=body, env=env)
        except OSError as error:
            return f"{command} cannot be run: {error.strerror or error}"
        except TimeoutError:
            return f"{command} took longer than {_TIMEOUT_SECONDS:.0f} s"
        except OverflowError:
            return ""
        return f"{command} ended with {done.code}" if done.code else ""

    def _post(self, target: str, body: bytes) -> str:
        stamp = str(int(time.time()))
        headers = {"content-type": "application/json", "x-agent-timestamp": stamp}
        if secret := self._hub.env.get("AGENT_NOTIFY_SECRET"):
            headers["x-agent-signature"] = sign_notice(secret, stamp, body)
        try:
            client = WebClient(WebLimits(timeout=20.0), self._hub.env, None, CancelToken())
            reply = client.send(split_url(target), headers, body)
        except (ToolError, CancelledError) as error:
            return str(error)
        return "" if 200 <= reply.status < 300 else f"{target} answered {reply.status}"


def sign_notice(secret: str, stamp: str, body: bytes) -> str:
    """Return the signature of a notice."""
    return f"sha256={hmac.new(secret.encode(), stamp.encode() + b'.' + body, 'sha256').hexdigest()}"


def make_notice(entry: Mapping[str, Any], detail: Mapping[str, Any], link: str) -> dict[str, Any]:
    """Return what is sent about a session."""
    names = ("id", "title", "state", "folder", "model", "cost", "updated")
    return {
        "event": f"session.{entry['state']}",
        "session": {name: entry[name] for name in names},
        "pending": [
            {"call_id": item["call_id"], "kind": item["kind"], "summary": item["summary"]}
            for item in detail.get("pending_items", ())
        ],
        "answer": detail.get("answer", ""),
        "link": f"{link}#/s/{entry['id']}",
    }
