"""A QR code for a link, as lines of text: bytes at the level L, in versions 1 to 10 (271 bytes)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

# Error correction of the level L, by version: codewords of a block, and blocks.
_ECC = (7, 10, 15, 20, 26, 18, 20, 24, 30, 18)
_BLOCKS = (1, 1, 1, 1, 1, 2, 2, 2, 2, 4)
_MASKS: tuple[Callable[[int, int], bool], ...] = (
    lambda x, y: (x + y) % 2 == 0, lambda x, y: y % 2 == 0, lambda x, y: x % 3 == 0, lambda x, y: (x + y) % 3 == 0,
    lambda x, y: (x // 3 + y // 2) % 2 == 0, lambda x, y: x * y % 2 + x * y % 3 == 0,
    lambda x, y: (x * y % 2 + x * y % 3) % 2 == 0, lambda x, y: ((x + y) % 2 + x * y % 3) % 2 == 0,
)  # fmt: skip
_EDGE_WIDTH = 2


def qr_lines(text: str) -> list[str]:
    """Return a QR code for a dark terminal, two rows of modules a line. Raises ValueError for a long text."""
    modules = qr_modules(text.encode())
    size = len(modules)
    rows = [[False] * (size + 2 * _EDGE_WIDTH)] * _EDGE_WIDTH
    padded = [*rows, *([False] * _EDGE_WIDTH + row + [False] * _EDGE_WIDTH for row in modules), *rows]
    padded += [padded[0]] * (len(padded) % 2)
    # Light modules are drawn: a terminal is dark.
    return [
        "".join(" ▄▀█"[2 * (not a) + (not b)] for a, b in zip(*padded[at : at + 2], strict=True))
        for at in range(0, len(padded), 2)
    ]


def qr_modules(data: bytes, mask: int | None = None) -> list[list[bool]]:
    """Return the modules, True for dark. mask: by default the one with the fewest long runs."""
    version = next((v for v in range(1, 11) if len(data) <= _capacity(v)), 0)
    if not version:
        raise ValueError("the text is too long for a QR code")
    drawn = [_Drawing(version, _codewords(data, version), m) for m in (range(8) if mask is None else (mask,))]
    return min(drawn, key=lambda each: each.penalty()).modules


def _total(version: int) -> int:
    """Return the codewords of a version, with those of the error correction."""
    bits = (16 * version + 128) * version + 64
    if version >= 2:
        count = version // 7 + 2
        bits -= (25 * count - 10) * count - 55
        bits -= 36 if version >= 7 else 0
    return bits // 8


def _data_size(version: int) -> int:
    return _total(version) - _ECC[version - 1] * _BLOCKS[version - 1]


def _capacity(version: int) -> int:
    return _data_size(version) - (2 if version < 10 else 3)


def _multiply(a: int, b: int) -> int:
    """Multiply in the field of 256 elements."""
    product = 0
    for at in range(7, -1, -1):
        product = (product << 1) ^ ((product >> 7) * 0x11D)
        product ^= (b >> at & 1) * a
    return product


def _remainder(data: bytes, degree: int) -> bytes:
    """Return the error correction of a block."""
    divisor = [0] * (degree - 1) + [1]
    root = 1
    for _ in range(degree):
        for at in range(degree):
            divisor[at] = _multiply(divisor[at], root) ^ (divisor[at + 1] if at + 1 < degree else 0)
        root = _multiply(root, 2)
    rest = [0] * degree
    for byte in data:
        factor = byte ^ rest.pop(0)
        rest.append(0)
        rest = [each ^ _multiply(by, factor) for each, by in zip(rest, divisor, strict=True)]
    return bytes(rest)


def _codewords(data: bytes, version: int) -> bytes:
    """Return the data in blocks with their error correction, interleaved."""
    length = 8 if version < 10 else 16
    size = _data_size(version)
    bits = f"0100{len(data):0{length}b}" + "".join(f"{byte:08b}" for byte in data)
    bits += "0" * min(4, size * 8 - len(bits))
    bits += "0" * (-len(bits) % 8)
    filled = bytes(int(bits[at : at + 8], 2) for at in range(0, len(bits), 8))
    filled += bytes((0xEC, 0x11)[at % 2] for at in range(size - len(filled)))
    count, ecc = _BLOCKS[version - 1], _ECC[version - 1]
    short = _total(version) // count - ecc
    longer = size - short * count
    blocks, at = [], 0
    for number in range(count):
        end = at + short + (number >= count - longer)
        blocks.append(filled[at:end])
        at = end
    checks = [_remainder(block, ecc) for block in blocks]
    mixed = [block[at] for at in range(short + 1) for block in blocks if at < len(block)]
    return bytes(mixed + [check[at] for at in range(ecc) for check in checks])


class _Drawing:
    """The modules of one version with one mask."""

    def __init__(self, version: int, codewords: bytes, mask: int) -> None:
        self._version, self.size = version, 17 + 4 * version
        self.modules = [[False] * self.size for _ in range(self.size)]
        self._fixed = [[False] * self.size for _ in range(self.size)]
        self._draw_patterns()
        self._draw_format(mask)
        self._draw_data(codewords, _MASKS[mask])

    def _set(self, x: int, y: int, dark: bool) -> None:
        self.modules[y][x], self._fixed[y][x] = dark, True

    def _draw_patterns(self) -> None:
        size, version = self.size, self._version
        for at in range(size):
            self._set(6, at, at % 2 == 0)
            self._set(at, 6, at % 2 == 0)
        for cx, cy in ((3, 3), (size - 4, 3), (3, size - 4)):
            for dy in range(-4, 5):
                for dx in range(-4, 5):
                    if 0 <= cx + dx < size and 0 <= cy + dy < size:
                        self._set(cx + dx, cy + dy, max(abs(dx), abs(dy)) not in (2, 4))
        places: list[int] = []
        if version > 1:
            count = version // 7 + 2
            step = (version * 8 + count * 3 + 5) // (count * 4 - 4) * 2
            places = [6, *(size - 7 - at * step for at in range(count - 2, -1, -1))]
        corners = {(6, 6), (6, size - 7), (size - 7, 6)}
        for cx, cy in ((x, y) for x in places for y in places if (x, y) not in corners):
            for dy in range(-2, 3):
                for dx in range(-2, 3):
                    self._set(cx + dx, cy + dy, max(abs(dx), abs(dy)) != 1)
        if version >= 7:
            rest = version
            for _ in range(12):
                rest = (rest << 1) ^ ((rest >> 11) * 0x1F25)
            for at in range(18):
                dark = bool((version << 12 | rest) >> at & 1)
                self._set(size - 11 + at % 3, at // 3, dark)
                self._set(at // 3, size - 11 + at % 3, dark)

    def _draw_format(self, mask: int) -> None:
        data = 1 << 3 | mask
        rest = data
        for _ in range(10):
            rest = (rest << 1) ^ ((rest >> 9) * 0x537)
        bits = (data << 10 | rest) ^ 0x5412
        dark = [bool(bits >> at & 1) for at in range(15)]
        size = self.size
        for at in range(6):
            self._set(8, at, dark[at])
        for (x, y), at in zip(((8, 7), (8, 8), (7, 8)), (6, 7, 8), strict=True):
            self._set(x, y, dark[at])
        for at in range(9, 15):
            self._set(14 - at, 8, dark[at])
        for at in range(8):
            self._set(size - 1 - at, 8, dark[at])
        for at in range(8, 15):
            self._set(8, size - 15 + at, dark[at])
        self._set(8, size - 8, True)

    def _draw_data(self, codewords: bytes, mask: Callable[[int, int], bool]) -> None:
        bits = [bool(byte >> at & 1) for byte in codewords for at in range(7, -1, -1)]
        place = 0
        for right in (*range(self.size - 1, 6, -2), 5, 3, 1):
            upward = (right + 1 & 2) == 0
            for vertical in range(self.size):
                y = self.size - 1 - vertical if upward else vertical
                for x in (right, right - 1):
                    if not self._fixed[y][x]:
                        bit = bits[place] if place < len(bits) else False
                        self.modules[y][x] = bit != mask(x, y)
                        place += 1

    def penalty(self) -> int:
        """Return how much long runs of one kind would disturb a reader."""
        lines = [*self.modules, *map(list, zip(*self.modules, strict=True))]
        found = 0
        for line in lines:
            runs = "".join("x" if a == b else " " for a, b in pairwise(line)).split()
            found += sum(len(run) - 1 for run in runs if len(run) >= 4)
        return found
