"""Trying again: when, how long, how often, and how it ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from agent_cli.kernel.messages import UserMessage
from agent_cli.kernel.results import Failure, Usage
from agent_cli.models.base import (
    Chunk,
    MessageStop,
    ModelError,
    Notice,
    Request,
    Restarted,
    Started,
    TextChunk,
    TextCollector,
    ThinkingChunk,
    ToolCallStart,
    UsageChunk,
)
from agent_cli.models.retry import RetryingClient
from agent_tools.cancel import CancelledError, CancelToken

REQUEST = Request("m", "", (UserMessage("hi"),))
GOOD: list[Chunk | ModelError] = [TextChunk("done"), MessageStop("end_turn")]


def refused(kind: str = "rate_limit", retryable: bool = True, after: float | None = None) -> ModelError:
    return ModelError(Failure(kind, f"{kind}.", retryable), after)  # type: ignore[arg-type]


class Script:
    """A model client that plays one list of chunks and errors for each request."""

    def __init__(self, *plays: Sequence[Chunk | ModelError]) -> None:
        self.plays = list(plays)

    def stream(self, request: Request, cancel: CancelToken) -> Iterator[Chunk]:
        for step in self.plays.pop(0):
            if isinstance(step, ModelError):
                raise step
            yield step


class Sleeper:
    """Notes the waits; cancels during the one with the given number."""

    def __init__(self, cancel_in: int = 0) -> None:
        self.waits: list[float] = []
        self.cancel_in = cancel_in

    def __call__(self, cancel: CancelToken, seconds: float) -> bool:
        self.waits.append(seconds)
        if len(self.waits) == self.cancel_in:
            cancel.cancel()
        return cancel.cancelled


def test_a_passing_failure_is_tried_again_and_reported() -> None:
    sleeper = Sleeper()
    wire = RetryingClient(Script([refused(after=2.0)], GOOD), sleep=sleeper)
    assert list(wire.stream(REQUEST, CancelToken())) == [
        Notice("Rate limited by the provider; trying again in 2 s (1 of 5)", 2.0, (1, 5, refused(after=2.0).failure)),
        *GOOD,
    ]
    assert sleeper.waits == [2.0]


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        ("127.0.0.1 sent nothing for 120 s.", "127.0.0.1 sent nothing for 120 s"),
        ("x" * 500, "x" * 199 + "…"),
    ],
)
def test_the_cause_is_the_failure_s_own_sentence(message: str, cause: str) -> None:
    error = ModelError(Failure("network", message, True), 1.0)
    first, *_ = RetryingClient(Script([error], GOOD), sleep=Sleeper()).stream(REQUEST, CancelToken())
    assert first == Notice(f"{cause}; trying again in 1 s (1 of 5)", 1.0, (1, 5, error.failure))


def test_waits_double_up_to_the_cap_with_full_jitter() -> None:
    sleeper = Sleeper()
    plays = [[refused("overloaded")] for _ in range(8)]
    wire = RetryingClient(Script(*plays, GOOD), attempts=8, base=1.0, cap=30.0, random=lambda: 0.5, sleep=sleeper)
    list(wire.stream(REQUEST, CancelToken()))
    assert sleeper.waits == [0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 15.0, 15.0]


def test_it_gives_up_after_the_last_attempt_with_the_last_failure() -> None:
    sleeper = Sleeper()
    plays = [[refused()], [refused()], [refused("network")]]
    wire = RetryingClient(Script(*plays), attempts=2, sleep=sleeper)
    with pytest.raises(ModelError, match="network"):
        list(wire.stream(REQUEST, CancelToken()))
    assert len(sleeper.waits) == 2


@pytest.mark.parametrize("kind", ["auth", "bad_request", "context_too_long"])
def test_a_lasting_failure_is_not_tried_again(kind: str) -> None:
    sleeper = Sleeper()
    with pytest.raises(ModelError, match=kind):
        list(RetryingClient(Script([refused(kind, False)]), sleep=sleeper).stream(REQUEST, CancelToken()))
    assert sleeper.waits == []


@pytest.mark.parametrize("taken", [TextChunk("a"), ThinkingChunk("b"), ToolCallStart(0, "c", "Read")])
def test_an_answer_that_breaks_off_is_void_and_asked_for_again(taken: Chunk) -> None:
    wire = RetryingClient(Script([Started("1", "m"), taken, refused("network")], GOOD), sleep=Sleeper())
    chunks = list(wire.stream(REQUEST, CancelToken()))
    assert chunks[:3] == [Started("1", "m"), taken, Restarted()]
    assert isinstance(chunks[3], Notice)
    assert chunks[4:] == GOOD


def test_before_an_answer_begins_nothing_is_void() -> None:
    wire = RetryingClient(Script([refused("network", after=1.0)], GOOD), sleep=Sleeper())
    assert Restarted() not in list(wire.stream(REQUEST, CancelToken()))


def test_the_words_of_an_answer_are_those_of_the_last_attempt_and_its_cost_of_all() -> None:
    first = [UsageChunk(Usage(input=5)), TextChunk("Hel"), UsageChunk(Usage(input=5, output=1)), refused("network")]
    second = [TextChunk("Hello"), UsageChunk(Usage(input=5, output=2)), *GOOD[1:]]
    answer = TextCollector()
    answer.read(RetryingClient(Script(first, second), sleep=Sleeper()).stream(REQUEST, CancelToken()))
    assert (answer.text, answer.usage) == ("Hello", Usage(input=10, output=3))


def test_a_provider_that_asks_for_minutes_is_not_waited_for() -> None:
    sleeper = Sleeper()
    with pytest.raises(ModelError, match=r"It asks to wait 121 s\.") as caught:
        list(RetryingClient(Script([refused(after=121.0)]), sleep=sleeper).stream(REQUEST, CancelToken()))
    assert caught.value.failure.retryable
    assert sleeper.waits == []


def test_cancelling_during_a_wait_ends_it() -> None:
    wire = RetryingClient(Script([refused()], [refused()]), sleep=Sleeper(cancel_in=2))
    stream = wire.stream(REQUEST, CancelToken())
    assert isinstance(next(stream), Notice)
    assert isinstance(next(stream), Notice)
    with pytest.raises(CancelledError):
        next(stream)


def test_the_real_wait_ends_with_the_token() -> None:
    cancel = CancelToken()
    stream = RetryingClient(Script([refused(after=60.0)])).stream(REQUEST, cancel)
    next(stream)
    cancel.cancel()
    with pytest.raises(CancelledError):
        next(stream)


@pytest.mark.parametrize("kind", ["rate_limit", "overloaded"])
def test_a_user_who_watches_waits_ten_minutes_for_a_busy_provider_with_growing_pauses(kind: str) -> None:
    sleeper = Sleeper()
    client = RetryingClient(Script(*[[refused(kind)]] * 40), sleep=sleeper, random=lambda: 0.0)
    with pytest.raises(ModelError):
        list(client.stream(REQUEST.replace(patience=600.0), CancelToken()))
    assert sleeper.waits[:7] == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0] and sum(sleeper.waits) == 600.0


def test_a_pause_that_a_busy_provider_asks_for_may_be_as_long_as_the_user_waits() -> None:
    sleeper = Sleeper()
    client = RetryingClient(Script([refused(after=300.0)], GOOD), sleep=sleeper)
    found = list(client.stream(REQUEST.replace(patience=600.0), CancelToken()))
    assert sleeper.waits == [300.0] and found[1:] == GOOD
    assert isinstance(found[0], Notice) and "trying again in 300 s (1)" in found[0].text
    with pytest.raises(ModelError, match="asks to wait 700 s"):
        list(RetryingClient(Script([refused(after=700.0)])).stream(REQUEST.replace(patience=600.0), CancelToken()))


def test_a_failed_connection_is_retried_no_longer_than_without_a_user() -> None:
    sleeper = Sleeper()
    client = RetryingClient(Script(*[[refused("network")]] * 9), sleep=sleeper)
    with pytest.raises(ModelError):
        list(client.stream(REQUEST.replace(patience=600.0), CancelToken()))
    assert len(sleeper.waits) == 5


def test_a_pause_for_a_busy_provider_is_ended_by_an_interrupt() -> None:
    client = RetryingClient(Script(*[[refused("overloaded")]] * 9), sleep=Sleeper(cancel_in=7))
    with pytest.raises(CancelledError):
        list(client.stream(REQUEST.replace(patience=600.0), CancelToken()))
