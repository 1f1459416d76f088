"""The server name that a TLS client asks for (SNI), read from the first bytes that it sends."""

from __future__ import annotations

# RFC 8446, 5.1: of a record in the clear.
MOST = 1 << 14
_CHANGE_CIPHER, _HANDSHAKE, _HEARTBEAT = 20, 22, 24
_CLIENT_HELLO = 1
_SERVER_NAME = 0


def server_name(data: bytes) -> str | None:
    """The name in a ClientHello; "" where it has none or the bytes are not TLS; None where more bytes are needed.

    Raises ValueError for a TLS connection that does not begin with a whole ClientHello in its first record: a name
    could stand in the part that is not read.
    """
    if data and (not _CHANGE_CIPHER <= data[0] <= _HEARTBEAT or data[1:2] not in (b"", b"\x03")):
        return ""
    if len(data) < 5:
        return None
    size = int.from_bytes(data[3:5], "big")
    if data[0] != _HANDSHAKE or not 4 <= size <= MOST or data[5:6] not in (b"", b"\x01"):
        raise ValueError("no ClientHello")
    if len(data) < 5 + size:
        return None
    return _name(_Cursor(data[5 : 5 + size]))


def _name(record: _Cursor) -> str:
    record.take(1)
    hello = _Cursor(record.sized(3))
    hello.take(2 + 32)
    for width in (1, 2, 1):  # session, cipher suites, compression
        hello.sized(width)
    extensions = _Cursor(hello.sized(2) if hello.left else b"")
    names = []
    while extensions.left:
        kind, data = extensions.number(2), extensions.sized(2)
        if kind == _SERVER_NAME:
            entries = _Cursor(_Cursor(data).sized(2))
            while entries.left:
                entries.take(1)
                names.append(entries.sized(2).decode("ascii"))
    if len(names) > 1:
        raise ValueError("several server names")
    return names[0] if names else ""


class _Cursor:
    """Reads bytes from the front. Raises ValueError where there are not enough."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def take(self, count: int) -> bytes:
        if count > self.left:
            raise ValueError("cut short")
        self._at += count
        return self._data[self._at - count : self._at]

    def number(self, width: int) -> int:
        return int.from_bytes(self.take(width), "big")

    def sized(self, width: int) -> bytes:
        """What follows a length of `width` bytes."""
        return self.take(self.number(width))
