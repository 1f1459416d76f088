"""Which lines of which files a diff has: what a review comment can be attached to."""

from __future__ import annotations

import re

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


class DiffLines:
    """A parsed unified diff of git: the hunks of each file on both sides, as ranges of line numbers.

    files: the names, the new ones of renamed files.
    """

    def __init__(self, text: str) -> None:
        self.files: dict[str, tuple[list[range], list[range]]] = {}
        self._deleted: set[str] = set()
        self._parse(text)

    def _parse(self, text: str) -> None:
        old = new = ""
        left = [0, 0]
        for line in text.split("\n"):
            if left[0] > 0 or left[1] > 0:
                # Inside a hunk a line may look like a header.
                left[0] -= line[:1] in (" ", "-", "")
                left[1] -= line[:1] in (" ", "+", "")
            elif line.startswith("diff --git "):
                old = new = ""
                if name := _name_of_header(line):
                    new = name
                    self.files.setdefault(new, ([], []))
            elif line.startswith("rename to "):
                self.files.pop(new, None)
                new = _unquoted(line.removeprefix("rename to "))
                self.files.setdefault(new, ([], []))
            elif line.startswith("deleted file mode "):
                self._deleted.add(new)
            elif line.startswith("--- "):
                old = _path(line[4:])
            elif line.startswith("+++ "):
                name = _path(line[4:]) or old
                if name != new:
                    if new in self.files and not any(self.files[new]):
                        del self.files[new]
                    new = name
                self.files.setdefault(new, ([], []))
            elif found := _HUNK.match(line):
                start, count, other, there = (int(n) if n is not None else 1 for n in found.groups())
                left = [count, there]
                self.files[new][0].append(range(start, start + count))
                self.files[new][1].append(range(other, other + there))

    def spelled(self, name: str) -> str | None:
        """Return a file as the diff spells it, given with or without a/ or b/ in front; None if it is not there."""
        bare = name.removeprefix("./")
        return next((n for n in (bare, bare.removeprefix("a/"), bare.removeprefix("b/")) if n in self.files), None)

    def hunk(self, file: str, line: int, *, old: bool = False) -> range | None:
        """Return the lines of the hunk that a line is in, on its side; None for a line that the diff does not have."""
        sides = self.files.get(file, ([], []))
        return next((hunk for hunk in sides[not old] if line in hunk), None)

    def is_deleted(self, file: str) -> bool:
        """Return True if the diff deletes the file."""
        return file in self._deleted


def _name_of_header(line: str) -> str:
    """Return the file of a `diff --git` line whose two names are the same, as they are without a rename."""
    rest = line.removeprefix("diff --git ")
    if rest.startswith('"'):
        return _path(rest[: len(rest) // 2])
    half = (len(rest) - 1) // 2
    return rest[2:half] if rest[2:half] == rest[half + 3 :] else ""


def _path(text: str) -> str:
    """Return the path of a `---` or `+++` line; "" for /dev/null."""
    name = _unquoted(text.rstrip("\t"))
    return "" if name == "/dev/null" else name[2:]


def _unquoted(text: str) -> str:
    """Return a path as it is; git quotes names with control characters or quotes as C does."""
    if not (text.startswith('"') and text.endswith('"')):
        return text
    data = bytearray()
    for octal, letter, plain in re.findall(r"\\([0-7]{3})|\\(.)|([^\\])", text[1:-1]):
        data += bytes([int(octal, 8) & 255]) if octal else (_ESCAPES.get(letter, letter) or plain).encode()
    return data.decode("utf-8", "replace")
