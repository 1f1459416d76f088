"""Push: browsers that asked for it get a notification when a session waits or ends, also with the page closed.

A notification about a call that it shows whole, and about which nothing warns, can be answered. It holds a ticket for
exactly this question, from the token of its device, usable once. Every other notification opens the page.
"""

from __future__ import annotations

import ipaddress
import json
import secrets
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from agent_cli import UsageError
from agent_cli.extras.server.delivery import Attempt, DeliveryError
from agent_cli.extras.server.guard import AccessToken, AccessTokenStore, RequestRefusedError
from agent_cli.extras.server.questions import form_lines
from agent_cli.extras.server.schemas import PushBody
from agent_tools.base import ToolError
from agent_tools.cancel import CancelledError, CancelToken
from agent_tools.fs.safe_files import changing, read_regular, write_atomic
from agent_tools.lazy import lazy_imports
from agent_tools.net.urls import Url, split_url
from agent_tools.net.web_client import PrivateAddressGuard, WebClient, WebLimits
from agent_tools.record import DecodeError, Value, from_json, to_json
from agent_tools.text import one_line, shorten, utc_stamp

with lazy_imports():
    from agent_cli.extras.server import web_push

_TITLES = {"waiting": "Waiting for you", "done": "Done", "failed": "Failed", "interrupted": "Interrupted"}
# What every platform shows of a notification without cutting it.
_SHOWN_CHARS, _SHOWN_LINES = 160, 5
# Seconds that a push service keeps a message for a device that is switched off.
_KEPT_SECONDS = 12 * 3600
_MAX_SUBSCRIPTIONS, _MAX_TICKETS, _MAX_FILE_BYTES = 100, 1_000, 1 << 20


class PushSubscription(Value, tag="PushSubscription"):
    """Where a browser gets its messages. token: digest of the token that asked. receiver, secret: to encrypt for it."""

    token: str
    endpoint: str
    receiver: str
    secret: str
    created: str


class PushState(Value, tag="PushState"):
    """What is stored. key: the server's own, private."""

    key: str = ""
    subscriptions: tuple[PushSubscription, ...] = ()


class PushStore:
    """The key and the subscriptions, in a file of the state folder that only the user can read."""

    def __init__(self, state: Path) -> None:
        self._path = state / "serve" / "push.json"

    def read(self) -> PushState:
        """Return what is stored. Raises UsageError."""
        try:
            state: PushState = from_json(PushState, json.loads(read_regular(self._path, _MAX_FILE_BYTES)))
            return state
        except FileNotFoundError:
            return PushState()
        except (OSError, ValueError, DecodeError) as error:
            raise UsageError(f"The push subscriptions cannot be read: {self._path} is damaged ({error}).") from None

    def key(self) -> str:
        """Return the server's key, which is made when it is first asked for. Raises UsageError."""
        with self._changing():
            state = self.read()
            if not state.key:
                state = state.replace(key=web_push.new_key())
                self._write(state)
            return state.key

    def add(self, made: PushSubscription) -> None:
        """Store a subscription instead of any other with its endpoint. Raises UsageError."""
        with self._changing():
            state = self.read()
            kept = [one for one in state.subscriptions if one.endpoint != made.endpoint]
            self._write(state.replace(subscriptions=(*kept[1 - _MAX_SUBSCRIPTIONS :], made)))

    def remove(self, endpoint: str) -> None:
        """Forget a subscription. Raises UsageError."""
        with self._changing():
            state = self.read()
            left = tuple(one for one in state.subscriptions if one.endpoint != endpoint)
            if left != state.subscriptions:
                self._write(state.replace(subscriptions=left))

    @contextmanager
    def _changing(self) -> Iterator[None]:
        try:
            with changing(self._path):
                yield
        except OSError as error:
            raise UsageError(f"{self._path} cannot be written: {error.strerror or error}.") from None

    def _write(self, state: PushState) -> None:
        write_atomic(self._path, json.dumps(to_json(state), indent=1).encode("ascii"))


class PushTicket(Value):
    """What the answer to a notification decides, and for whom."""

    session: str
    call_id: str
    binding: str
    token: AccessToken


def _digest(secret: str) -> str:
    return sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


class PushService:
    """Subscriptions and tickets of a server, and the sender of its notices.

    contact: https address of the server, which push services ask for. private: hosts that need not be public.
    """

    def __init__(self, state: Path, env: Mapping[str, str], contact: str, private: tuple[str, ...] = ()) -> None:
        self._env, self._contact = env, contact
        self._store, self._tokens = PushStore(state), AccessTokenStore(state)
        # By the digests of their secrets. They end with the server; the page can always decide.
        self._tickets: OrderedDict[str, PushTicket] = OrderedDict()
        self._guard = PrivateAddressGuard(private)

    def subscribe(self, token: AccessToken, body: PushBody) -> str:
        """Store a subscription of a token's device, or remove it; return its ID.

        Raises RequestRefusedError or UsageError.
        """
        made = _digest(body.endpoint)[:32]
        if not body.on:
            self._store.remove(body.endpoint)
            return made
        try:
            self._check(split_url(body.endpoint))
            fits = web_push.is_public_key(body.p256dh) and len(web_push.decode(body.auth)) == 16
        except ToolError:
            why = "endpoint: a push service has a public https address."
            raise RequestRefusedError(422, "endpoint", why) from None
        except ValueError:
            fits = False
        if not fits:
            raise RequestRefusedError(422, "keys", "p256dh, auth: these are not the keys of a subscription.")
        self._store.add(PushSubscription(token.digest, body.endpoint, body.p256dh, body.auth, utc_stamp()))
        return made

    def _check(self, url: Url) -> None:
        """Raise ToolError for an endpoint that is not public; what its name leads to is checked when it is used."""
        if url.scheme != "https":
            raise ToolError(f"{url.text} is not an https address.")
        try:
            ipaddress.ip_address(url.host)
        except ValueError:
            self._guard.check_unknown(url.host)
        else:
            self._guard.check_address(url.host, url.host)

    def take(self, secret: str) -> PushTicket | None:
        """Return the ticket of a secret, which is then void; None without one, or if its token was revoked."""
        ticket = self._tickets.pop(_digest(secret), None)
        return ticket if ticket is not None and self._tokens.holds(ticket.token) else None

    def _issue(self, ticket: PushTicket) -> str:
        """Return a new secret for a ticket."""
        secret = secrets.token_urlsafe(24)
        self._tickets[_digest(secret)] = ticket
        if len(self._tickets) > _MAX_TICKETS:
            self._tickets.popitem(last=False)
        return secret

    def describe(self, token: AccessToken) -> dict[str, Any]:
        """Return the public key, and whether a device of a token gets messages. Raises UsageError."""
        subscribed = any(one.token == token.digest for one in self._store.read().subscriptions)
        return {"key": web_push.public_key(self._store.key()), "subscribed": subscribed}

    def attempts(self, entry: Mapping[str, Any], detail: Mapping[str, Any]) -> list[Attempt]:
        """Return how to notify each device about a session; devices whose token was revoked are forgotten."""
        try:
            state, valid = self._store.read(), {token.digest: token for token in self._tokens.all()}
            for one in state.subscriptions:
                if one.token not in valid:
                    self._store.remove(one.endpoint)
        except UsageError:
            return []
        return [
            partial(self._post, one, self._message(entry, detail, valid[one.token]), entry["state"] == "waiting")
            for one in state.subscriptions
            if one.token in valid
        ]

    def _message(self, entry: Mapping[str, Any], detail: Mapping[str, Any], token: AccessToken) -> dict[str, Any]:
        waiting = [item for item in detail.get("pending_items", ()) if "decided" not in item]
        message = {
            "title": f"{_TITLES[entry['state']]}: {shorten(one_line(entry['title']) or 'a session', 80)}",
            "body": shorten(one_line(detail.get("answer", "") or entry.get("error", "")), _SHOWN_CHARS),
            "tag": entry["id"],
            "url": f"/#/s/{entry['id']}",
        }
        if entry["state"] != "waiting" or not waiting:
            return message
        item = waiting[0]
        whole = whole_text(item)
        message["body"] = whole or shorten(one_line(item["form"]["title"]), _SHOWN_CHARS)
        if len(waiting) == 1 and whole and token.may("decide"):
            ticket = PushTicket(entry["id"], item["call_id"], item["binding"], token)
            message |= {"approve": "Allow once", "ticket": self._issue(ticket)}
        return message

    def _post(self, to: PushSubscription, message: Mapping[str, Any], urgent: bool) -> str:
        """Deliver a message once; return "" or why that failed. Raises DeliveryError if another try would not help."""
        text = json.dumps(message, ensure_ascii=False).encode()
        if len(text) > web_push.MAX_TEXT_BYTES:
            raise DeliveryError("the message is too long")
        try:
            url = split_url(to.endpoint)
            self._check(url)
            headers = {
                "authorization": web_push.authorization(self._store.key(), url, self._contact, time.time()),
                "content-encoding": "aes128gcm", "content-type": "application/octet-stream",
                "ttl": str(_KEPT_SECONDS), "urgency": "high" if urgent else "normal",
                "topic": _digest(str(message["tag"]))[:32],
            }  # fmt: skip
            client = WebClient(WebLimits(timeout=20.0, max_bytes=10_000), self._env, self._guard, CancelToken())
            reply = client.send(url, headers, web_push.encrypt(text, to.receiver, to.secret))
        except (ToolError, CancelledError) as error:
            return str(error)
        if reply.status in (404, 410):
            self._store.remove(to.endpoint)
            return ""
        why = f"{url.host} answered {reply.status} to a push"
        if 400 <= reply.status < 500 and reply.status != 429:
            raise DeliveryError(why)
        return "" if 200 <= reply.status < 300 else why


def whole_text(item: Mapping[str, Any]) -> str:
    """Return a call as a notification shows it whole; "" if it does not fit, or if something may be destroyed."""
    form = item["form"]
    files = [file for block in form["blocks"] for file in block.get("files", ())]
    deletes = any(file["what"] == "deleted" for file in files)
    if item["kind"] != "approval" or form["grave"] or form["warnings"] or deletes:
        return ""
    text = "\n".join(line.strip() for line in form_lines({**form, "facts": form["facts"][:1]}) if line.strip())
    return text if len(text) <= _SHOWN_CHARS and text.count("\n") < _SHOWN_LINES else ""
