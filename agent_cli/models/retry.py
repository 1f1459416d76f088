"""Retries, the choice between OpenAI's two protocols, and reported costs: clients that wrap a client.

A failed call is repeated only if the failure may be temporary, after a wait: the one that the provider asks for, or
exponential backoff with full jitter, so that many clients do not return at once. Nothing in an answer takes effect
before it is complete, so one that broke off is requested again, too, after a `Restarted` that voids what was passed on.
Each retry is announced; a cancelled token ends the wait at once, and so does one that skips the pause.

`ProtocolFallbackClient` is for an address that may speak either protocol, which the server's error shows: Chat
Completions rejects newer models of OpenAI and names the Responses API; a server without a Responses API answers 404.
The request is then sent over the other protocol, which is used from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import random as chance

from agent_cli.kernel.results import Failure
from agent_cli.models.base import Chunk, ModelClient, ModelError, Notice, Request, Restarted, UsageChunk
from agent_tools.cancel import CancelToken
from agent_tools.lazy import lazy_imports

with lazy_imports():
    from agent_cli.models import errors  # few answers are errors

_NOT_HERE = (404, 405, 501)


class ProtocolFallbackClient:
    """Calls `client` until the server's error asks for the other protocol.

    responses: `client` speaks the Responses API.
    """

    def __init__(self, client: ModelClient, other: Callable[[], ModelClient], *, responses: bool) -> None:
        self._client = client
        self._other = other
        self._responses = responses
        self._certain = False

    def stream(self, request: Request, cancel: CancelToken) -> Iterator[Chunk]:
        """See `ModelClient`."""
        if self._certain:
            yield from self._client.stream(request, cancel)
            return
        started = False
        try:
            for chunk in self._client.stream(request, cancel):
                started = started or not isinstance(chunk, Notice)
                yield chunk
            self._certain = True
            return
        except ModelError as error:
            if started or not self._asks_for_other(error):
                raise
            refusal = error
        first, self._client, self._certain = self._client, self._other(), True
        try:
            yield from self._client.stream(request, cancel)
        except ModelError as error:
            if error.status not in _NOT_HERE:
                raise
            # Neither protocol works: the first error says more.
            self._client, self._certain = first, False
            raise refusal from error

    def close(self) -> None:
        """Close the idle connections."""
        if (close := getattr(self._client, "close", None)) is not None:
            close()

    def _asks_for_other(self, error: ModelError) -> bool:
        message = error.failure.message
        if self._responses:
            return error.status in _NOT_HERE and "has no model named" not in message
        return error.failure.kind == "bad_request" and errors.RESPONSES_API in message.lower()


class ReportedCostClient:
    """Fails after an answer of `client` that came without its cost. why: the message of that failure."""

    def __init__(self, client: ModelClient, why: str) -> None:
        self._client = client
        self._why = why

    def stream(self, request: Request, cancel: CancelToken) -> Iterator[Chunk]:
        """See `ModelClient`."""
        reported = False
        for chunk in self._client.stream(request, cancel):
            reported = reported or (isinstance(chunk, UsageChunk) and chunk.usage.cost > 0)
            yield chunk
        if not reported:
            raise ModelError(Failure("price", self._why))

    def close(self) -> None:
        """Close the idle connections of the client, if it has any."""
        if (close := getattr(self._client, "close", None)) is not None:
            close()


MAX_WAIT_SECONDS = 120.0
# The longest pause while a user waits for an overloaded provider.
MAX_PATIENT_SECONDS = 60.0
_OVERLOADED = ("rate_limit", "overloaded")

_MAX_CAUSE_CHARS = 200


def _cause(failure: Failure) -> str:
    """Return the cause of a retry, without the full stop. Providers' texts about rates are long and name no cause."""
    if failure.kind == "rate_limit":
        return "Rate limited by the provider"
    text = failure.message.rstrip(".")
    return text if len(text) <= _MAX_CAUSE_CHARS else text[: _MAX_CAUSE_CHARS - 1] + "…"


class RetryingClient:
    """Repeats failed calls of `client`, up to `attempts` times.

    A call that the provider is too busy for (429, 503, 529) is repeated for `patience` seconds of the request, if that
    is longer, after pauses that grow up to a minute.

    base, cap: bounds of the waits, in seconds.
    random: returns a number in [0, 1).
    sleep: waits on the token; returns True if it was cancelled.

    If a provider asks to wait for more than two minutes, the call fails.
    """

    def __init__(
        self,
        client: ModelClient,
        *,
        attempts: int = 5,
        base: float = 1.0,
        cap: float = 30.0,
        random: Callable[[], float] = chance,
        sleep: Callable[[CancelToken, float], bool] = CancelToken.pause,
    ) -> None:
        self._client = client
        self._attempts = attempts
        self._base = base
        self._cap = cap
        self._random = random
        self._sleep = sleep

    def stream(self, request: Request, cancel: CancelToken) -> Iterator[Chunk]:
        """See `ModelClient`."""
        failed, left = 0, request.patience
        while True:
            started = False
            try:
                for chunk in self._client.stream(request, cancel):
                    started = started or not isinstance(chunk, Notice)
                    yield chunk
                return
            except ModelError as error:
                failure = error.failure
                patient = left > 0 and failure.kind in _OVERLOADED
                if not failure.retryable or (failed >= self._attempts and not patient):
                    raise
                wait = self._wait(error, failed, left if patient else 0.0)
            failed += 1
            left -= wait
            if started:
                yield Restarted()
            shown = f"{wait:.0f} s" if wait >= 1 else f"{wait:.1f} s"
            count = f"{failed}" if patient else f"{failed} of {self._attempts}"
            text = f"{_cause(failure)}; trying again in {shown} ({count})"
            yield Notice(text, wait, (failed, max(failed, self._attempts), failure))
            self._sleep(cancel, wait)
            cancel.check()

    def close(self) -> None:
        """Close the idle connections of the client, if it has any."""
        close = getattr(self._client, "close", None)
        if close is not None:
            close()

    def _wait(self, error: ModelError, failed: int, left: float) -> float:
        """Return the seconds to wait. left: those for which a user still waits; 0 if none does."""
        most = max(MAX_WAIT_SECONDS, left)
        if error.retry_after is None and left:
            grown = min(MAX_PATIENT_SECONDS, self._base * 2.0**failed)
            return min(grown * (1 - self._random() / 4), left)
        if error.retry_after is None:
            return self._random() * min(self._cap, self._base * 2.0**failed)
        if error.retry_after > most:
            text = f"{error.failure.message} It asks to wait {error.retry_after:.0f} s."
            raise ModelError(error.failure.replace(message=text, retryable=True), error.retry_after) from error
        return error.retry_after
