"""Chunked transfer coding: the result does not depend on how the bytes were cut."""

from __future__ import annotations

from http.client import HTTPException

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_tools.net.http_connection import ChunkedDecoder


@given(
    st.lists(st.binary(min_size=1, max_size=40)),
    st.lists(st.integers(1, 20), min_size=1),
    st.sampled_from([b"", b";name=value", b" "]),
    st.sampled_from([b"", b"Checksum: 1\r\n", b"A: 1\r\nB: 2\r\n"]),
)
def test_content_comes_out_however_it_was_cut(
    chunks: list[bytes], sizes: list[int], extension: bytes, trailers: bytes
) -> None:
    raw = b"".join(b"%X%s\r\n%s\r\n" % (len(c), extension, c) for c in chunks) + b"0\r\n" + trailers + b"\r\n"
    unchunker = ChunkedDecoder()
    content = b""
    place = turn = 0
    while place < len(raw):
        assert not unchunker.ended
        size = sizes[turn % len(sizes)]
        content += unchunker.feed(raw[place : place + size])
        place, turn = place + size, turn + 1
    assert content == b"".join(chunks)
    assert unchunker.ended


@pytest.mark.parametrize("raw", [b"hello\r\n", b"-5\r\n", b"3\r\nabcz\r\n", b"1" * 70_000])
def test_what_is_not_chunked_coding_is_refused(raw: bytes) -> None:
    with pytest.raises(HTTPException):
        ChunkedDecoder().feed(raw)
