"""HTTP's chunked transfer coding, taken apart in few steps, because a streamed answer has a chunk for each event."""

from __future__ import annotations

from http.client import HTTPException

MOST_LINE = 65536


class Unchunker:
    """Feed it the raw body; it returns the content. `ended`: the last chunk and what may follow it were there."""

    def __init__(self) -> None:
        self.ended = False
        self._left = 0
        self._rest = b""
        self._last = False

    def feed(self, raw: bytes) -> bytes:
        """The content within `raw`. Raises HTTPException for what is not chunked coding."""
        raw = self._rest + raw if self._rest else raw
        self._rest = b""
        pieces: list[bytes] = []
        place = 0
        while True:
            if self._left:
                piece = raw[place : place + self._left]
                pieces.append(piece)
                place += len(piece)
                self._left -= len(piece)
                if self._left:
                    break
            end = raw.find(b"\n", place)
            if end < 0:
                self._rest = raw[place:]
                if len(self._rest) > MOST_LINE:
                    raise HTTPException("a chunk has no size")
                break
            line = raw[place:end]
            place = end + 1
            if self._last:
                # Trailers, up to the blank line.
                if line in (b"", b"\r"):
                    self.ended = True
                    break
            elif line not in (b"", b"\r"):
                # The blank lines are the ends of chunks; what follows a semicolon are extensions.
                try:
                    self._left = int(line.partition(b";")[0], 16)
                except ValueError:
                    raise HTTPException("a chunk has no size") from None
                if self._left < 0:
                    raise HTTPException("a chunk has no size")
                self._last = self._left == 0
        return b"".join(pieces) if len(pieces) != 1 else pieces[0]
