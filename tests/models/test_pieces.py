"""What arrives together is read together and passed on as one piece: nothing is lost, nothing changes places."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_cli.models import pieces
from agent_cli.models.base import Chunk, MessageStop, Started, TextChunk, ThinkingChunk, ToolCallDelta, ToolCallStart
from agent_cli.models.pieces import GATHER_SECONDS, MAX_QUICK_READS, ReadPace, join_arrived

TEXTS = st.text(max_size=3)
CHUNKS = st.one_of(
    st.none(),
    st.builds(TextChunk, TEXTS, st.sampled_from(["", "final"])),
    st.builds(ThinkingChunk, TEXTS, st.sampled_from(["", "s"]), st.just(""), st.sampled_from(["", "a"])),
    st.builds(ToolCallDelta, st.integers(0, 1), TEXTS),
    st.just(ToolCallStart(0, "id", "Read")),
    st.just(Started("id", "model")),
)


def spelled(chunks: list[Any]) -> list[tuple[Any, ...]]:
    """Every character by itself, with what it belongs to; other chunks as they are."""
    found: list[tuple[Any, ...]] = []
    for chunk in chunks:
        if isinstance(chunk, TextChunk):
            found += [("text", chunk.phase, letter) for letter in chunk.text]
        elif isinstance(chunk, ThinkingChunk) and not chunk.signature:
            found += [("thinking", chunk.provider, letter) for letter in chunk.text]
        elif isinstance(chunk, ToolCallDelta):
            found += [("json", chunk.index, letter) for letter in chunk.json]
        elif chunk is not None:
            found.append((chunk,))
    return found


@given(st.lists(CHUNKS))
def test_joining_changes_no_character_and_no_order(chunks: list[Chunk | None]) -> None:
    joined = list(join_arrived(chunks))
    assert spelled(joined) == spelled(chunks)
    assert len(joined) <= sum(chunk is not None for chunk in chunks)


def test_pieces_that_arrived_together_are_one() -> None:
    chunks = [
        TextChunk("a"), TextChunk("b"), TextChunk("c", "final"), ThinkingChunk("d"), ThinkingChunk("e"),
        ThinkingChunk("f", "signature"), ToolCallDelta(0, "{"), ToolCallDelta(0, "}"), ToolCallDelta(1, "{}"),
        MessageStop("tool_use"),
    ]  # fmt: skip
    assert list(join_arrived(chunks)) == [
        TextChunk("ab"), TextChunk("c", "final"), ThinkingChunk("de"), ThinkingChunk("f", "signature"),
        ToolCallDelta(0, "{}"), ToolCallDelta(1, "{}"), MessageStop("tool_use"),
    ]  # fmt: skip


def test_nothing_waits_for_what_has_not_arrived() -> None:
    passed: list[Chunk] = []

    def arriving() -> Iterator[Chunk | None]:
        yield TextChunk("a")
        yield TextChunk("b")
        yield None
        assert passed == [TextChunk("ab")]
        yield TextChunk("c")

    for chunk in join_arrived(arriving()):
        passed.append(chunk)
    assert passed == [TextChunk("ab"), TextChunk("c")]


def test_what_came_before_a_failure_is_passed_on_first() -> None:
    def failing() -> Iterator[Chunk | None]:
        yield TextChunk("a")
        yield TextChunk("b")
        raise ConnectionError

    passed = []
    with pytest.raises(ConnectionError):
        for chunk in join_arrived(failing()):
            passed.append(chunk)
    assert passed == [TextChunk("ab")]


class Network:
    """A connection whose reads take some time, and a clock that only they and pauses move."""

    def __init__(self) -> None:
        self.now, self.pauses = 100.0, 0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds == GATHER_SECONDS
        self.pauses += 1
        self.now += seconds

    def read(self, pace: ReadPace, *, seconds: float = 0.0, size: int = 200) -> int:
        """Read once; return how many pauses there were so far."""

        def arrives() -> bytes:
            self.now += seconds
            return b"x" * size

        assert len(pace.read(arrives)) == size
        return self.pauses


@pytest.mark.parametrize("slower", [{"seconds": GATHER_SECONDS}, {"size": 64 << 10}])
def test_only_a_stream_that_is_faster_than_the_screen_waits(
    slower: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    network, pace = Network(), ReadPace()
    monkeypatch.setattr(pieces, "time", network)
    assert [network.read(pace, seconds=0.001) for _ in range(MAX_QUICK_READS + 4)][-4:] == [0, 1, 2, 3]
    assert network.read(pace, **slower) == 4
    assert [network.read(pace) for _ in range(MAX_QUICK_READS + 2)][-2:] == [4, 5]


def test_a_stream_as_fast_as_models_write_never_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    network, pace = Network(), ReadPace()
    monkeypatch.setattr(pieces, "time", network)
    assert [network.read(pace, seconds=0.005) for _ in range(200)][-1] == 0
