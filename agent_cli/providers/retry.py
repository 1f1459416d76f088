"""Trying again: a transport around a transport.

A failed call is repeated only if the failure may pass, and after a wait: the one that the provider asks for, else
exponential with full jitter so that many clients do not return as one. Nothing of an answer has any effect before it
is complete, so one that broke off midway is asked for again too, after a `Restarted` that voids what was passed on.
Each retry is announced; a cancelled token ends the wait at once.

`EitherWire` is for an address of which it is not known which of OpenAI's two protocols it wants: the server says so.
Chat Completions refuses newer models of OpenAI and names the Responses API; a server that has no Responses API answers
404. Either way the request is sent again over the other wire, which is then the one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import random as chance

from agent_cli.core.results import Failure
from agent_cli.providers.base import Chunk, ModelClient, ModelError, Notice, Request, Restarted
from agent_cli.providers.errors import RESPONSES_API
from agent_tools.cancel import CancelToken

_NOT_HERE = (404, 405, 501)


class EitherWire:
    """`wire` until the server asks for the other one. responses: whether `wire` speaks the Responses API."""

    def __init__(self, wire: ModelClient, other: Callable[[], ModelClient], *, responses: bool) -> None:
        self._wire = wire
        self._other = other
        self._responses = responses
        self._certain = False

    def stream(self, request: Request, cancel: CancelToken) -> Iterator[Chunk]:
        """See `ModelClient`."""
        if self._certain:
            yield from self._wire.stream(request, cancel)
            return
        begun = False
        try:
            for chunk in self._wire.stream(request, cancel):
                begun = begun or not isinstance(chunk, Notice)
                yield chunk
            self._certain = True
            return
        except ModelError as error:
            if begun or not self._asks_for_other(error):
                raise
            refusal = error
        first, self._wire, self._certain = self._wire, self._other(), True
        try:
            yield from self._wire.stream(request, cancel)
        except ModelError as error:
            if error.status not in _NOT_HERE:
                raise
            # Neither is there: the first answer says more.
            self._wire, self._certain = first, False
            raise refusal from error

    def close(self) -> None:
        """Drop the connections that are kept."""
        if (close := getattr(self._wire, "close", None)) is not None:
            close()

    def _asks_for_other(self, error: ModelError) -> bool:
        message = error.failure.message
        if self._responses:
            return error.status in _NOT_HERE and "has no model named" not in message
        return error.failure.kind == "bad_request" and RESPONSES_API in message.lower()


LONGEST_WAIT = 120.0

_LONGEST_CAUSE = 200


def _cause(failure: Failure) -> str:
    """Why it is tried again, without the full stop. What providers say of their rates is long and names no cause."""
    if failure.kind == "rate_limit":
        return "Rate limited by the provider"
    text = failure.message.rstrip(".")
    return text if len(text) <= _LONGEST_CAUSE else text[: _LONGEST_CAUSE - 1] + "…"


class Retrying:
    """`transport`, tried up to `attempts` times more. `base` and `cap` bound the waits, in seconds.

    random: a number in [0, 1). sleep: waits on the token; true means cancelled. A provider that asks for more than
    two minutes is not waited for.
    """

    def __init__(
        self,
        transport: ModelClient,
        *,
        attempts: int = 5,
        base: float = 1.0,
        cap: float = 30.0,
        random: Callable[[], float] = chance,
        sleep: Callable[[CancelToken, float], bool] = CancelToken.wait,
    ) -> None:
        self._transport = transport
        self._attempts = attempts
        self._base = base
        self._cap = cap
        self._random = random
        self._sleep = sleep

    def stream(self, request: Request, cancel: CancelToken) -> Iterator[Chunk]:
        """See `ModelClient`."""
        failed = 0
        while True:
            begun = False
            try:
                for chunk in self._transport.stream(request, cancel):
                    begun = begun or not isinstance(chunk, Notice)
                    yield chunk
                return
            except ModelError as error:
                if not error.failure.retryable or failed >= self._attempts:
                    raise
                wait = self._wait(error, failed)
                failure = error.failure
            failed += 1
            if begun:
                yield Restarted()
            shown = f"{wait:.0f} s" if wait >= 1 else f"{wait:.1f} s"
            text = f"{_cause(failure)}; trying again in {shown} ({failed} of {self._attempts})"
            yield Notice(text, wait, (failed, self._attempts, failure))
            self._sleep(cancel, wait)
            cancel.check()

    def close(self) -> None:
        """Drop the connections of the transport, if it keeps any."""
        close = getattr(self._transport, "close", None)
        if close is not None:
            close()

    def _wait(self, error: ModelError, failed: int) -> float:
        if error.retry_after is None:
            return self._random() * min(self._cap, self._base * 2.0**failed)
        if error.retry_after > LONGEST_WAIT:
            text = f"{error.failure.message} It asks to wait {error.retry_after:.0f} s."
            raise ModelError(error.failure.replace(message=text, retryable=True), error.retry_after) from error
        return error.retry_after
