"""Server-sent events: the result does not depend on how the bytes were cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent_cli.models.http_client import SSEDecoder

Events = list[tuple[str, str]]

LINES = st.sampled_from(
    [
        b"data: one",
        b"data:two",
        b"data:  two spaces",
        b"data",
        b"data: \xc3\xa9\xe2\x82\xac\xf0\x9f\x90\x8d",
        b"data: bad \xff byte",
        b"event: ping",
        b"event:",
        b": a comment",
        b":",
        b"id: 7",
        b"retry: 10",
        b"unknown: field",
        b"",
        b"",
        b"",
    ]
)
ENDS = st.sampled_from([b"\n", b"\r", b"\r\n"])
STREAMS = st.builds(
    lambda bom, lines: (b"\xef\xbb\xbf" if bom else b"") + b"".join(line + end for line, end in lines),
    st.booleans(),
    st.lists(st.tuples(LINES, ENDS), max_size=24),
)


def split(pieces: list[bytes]) -> Events:
    splitter = SSEDecoder()
    return [event for piece in pieces for event in splitter.feed(piece)]


def by_the_standard(stream: bytes) -> Events:
    """A plain reading of the whole stream at once."""
    events: Events = []
    name = ""
    data: list[str] = []
    text = stream.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    for line in text.split(b"\n")[:-1]:
        if not line:
            if data:
                events.append((name, "\n".join(data)))
            name, data = "", []
            continue
        field, _, value = line.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            data.append(value)
        elif field == "event":
            name = value
    return events


@given(STREAMS)
def test_a_whole_stream_is_read_as_the_standard_says(stream: bytes) -> None:
    assert split([stream]) == by_the_standard(stream)


@given(STREAMS, st.lists(st.integers(1, 9), min_size=1))
def test_the_cuts_do_not_matter(stream: bytes, sizes: list[int]) -> None:
    pieces: list[bytes] = []
    place = 0
    while place < len(stream):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(stream[place : place + size])
        place += size
    assert split(pieces) == by_the_standard(stream)


@given(STREAMS)
def test_byte_by_byte(stream: bytes) -> None:
    assert split([stream[i : i + 1] for i in range(len(stream))]) == by_the_standard(stream)


def test_an_event_is_delivered_as_soon_as_its_blank_line_is_there() -> None:
    splitter = SSEDecoder()
    assert splitter.feed(b"data: a\r\r") == [("", "a")]
    assert splitter.feed(b"\ndata: b\n\n") == [("", "b")]


def test_an_unfinished_event_is_no_event() -> None:
    assert split([b"data: whole\n\ndata: cut"]) == [("", "whole")]


def test_a_long_event_in_small_pieces_is_not_copied_again_and_again() -> None:
    splitter = SSEDecoder()
    splitter.feed(b"data: ")
    for _ in range(20_000):
        assert splitter.feed(b"x" * 256) == []
    ((_, data),) = splitter.feed(b"\n\n")
    assert len(data) == 20_000 * 256
