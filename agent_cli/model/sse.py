"""Server-sent events out of bytes, however they were cut, as the WHATWG standard defines them.

Only what model providers use is reported: the event's name and its data. `id` and `retry` mean nothing here. An event
that its blank line has not closed when the stream ends is dropped, as the standard says.
"""

from __future__ import annotations

BOM = b"\xef\xbb\xbf"


class Splitter:
    """Feed it bytes; it returns the events they complete, as pairs of name (empty if unnamed) and data.

    most: bytes of one event.
    """

    def __init__(self, most: int = 64 << 20) -> None:
        self._most = most
        self._size = 0
        self._rest: list[bytes] = []
        self._at_start = True
        self._after_cr = self._after_lf = False

    def feed(self, data: bytes) -> list[tuple[str, str]]:
        """The events that end within `data`. Events without data are not events. Raises OverflowError."""
        if self._at_start:
            data = self._without_bom(data)
        if not data:
            return []
        if self._after_cr or b"\r" in data:
            data = self._plain_line_ends(data)
            if not data:
                return []
        self._rest.append(data)
        self._size += len(data)
        if self._size > self._most:
            raise OverflowError
        # A long event arrives in many pieces: join them only when it has ended.
        ends = b"\n\n" in data or (self._after_lf and data.startswith(b"\n"))
        self._after_lf = data.endswith(b"\n")
        if not ends:
            return []
        blocks = b"".join(self._rest).split(b"\n\n")
        self._rest = [blocks.pop()]
        self._size = len(self._rest[0])
        events: list[tuple[str, str]] = []
        for block in blocks:
            # Nearly every block is one data line.
            if block.startswith(b"data: ") and b"\n" not in block:
                events.append(("", block[6:].decode("utf-8", "replace")))
            else:
                _parse(block, events)
        return events

    def _without_bom(self, data: bytes) -> bytes:
        data = b"".join(self._rest) + data
        if len(data) < len(BOM) and BOM.startswith(data):
            self._rest = [data]
            return b""
        self._rest = []
        self._at_start = False
        return data.removeprefix(BOM)

    def _plain_line_ends(self, data: bytes) -> bytes:
        if self._after_cr and data.startswith(b"\n"):
            data = data[1:]
            self._after_cr = False
            if not data:
                return data
        self._after_cr = data.endswith(b"\r")
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _parse(block: bytes, events: list[tuple[str, str]]) -> None:
    name = ""
    data: list[str] = []
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" ").decode("utf-8", "replace"))
        elif field == b"event":
            name = value.removeprefix(b" ").decode("utf-8", "replace")
    if data:
        events.append((name, "\n".join(data)))
