"""What a search found: reading ripgrep's output, its order, and one line of it for the model.

A search may find a hundred thousand lines and show two hundred: hits stay raw bytes until they are shown.
"""

from __future__ import annotations

import os
import re
from operator import itemgetter
from pathlib import Path

from agent_tools.clipping import sanitize_output

# The path relative to where the search began, and what follows it: "", a count, "12:a match", "12-context", or GAP.
Hit = tuple[bytes, bytes]
GAP = b"--"
_NUMBER = r"(\d+)([:-])"
_BINARY = rb": (?:WARNING: stopped searching binary file after match|binary file matches) \(found .* offset \d+\)$"


def parse_hits(out: bytes, mode: str) -> list[Hit]:
    """Hits from ripgrep's output with --null. Output that was cut off loses its last, partial line."""
    if mode == "files_with_matches":
        return [(path, b"") for path in out.split(b"\0")[:-1]]
    hits: list[Hit] = []
    here = begun = b""
    for line in out.split(b"\n")[:-1]:
        path, nul, rest = line.partition(b"\0")
        if nul:
            here = begun + path if begun else path
            begun = b""
            hits.append((here, rest))
        elif line == GAP and not begun:
            hits.append((here, GAP))
        elif not re.search(_BINARY, line):
            # The beginning of a name with a newline in it: every other line has a NUL.
            begun += line + b"\n"
    return hits


def ordered(hits: list[Hit], mode: str, top: Path) -> list[Hit]:
    """Files by their last change, the newest first; lines and counts by the name of their file."""
    if mode != "files_with_matches":
        return sorted(hits, key=itemgetter(0))
    start = os.fsencode(top) + b"/"

    def age(hit: Hit) -> tuple[int, bytes]:
        try:
            return (-os.stat(start + hit[0]).st_mtime_ns, hit[0])  # noqa: PTH116 - thousands of them
        except OSError:
            return (0, hit[0])

    return sorted(hits, key=age)


def path_of(raw: bytes) -> str:
    """The path in a hit, relative to where the search began."""
    return os.fsdecode(raw).removeprefix("./")


def paths_of(hits: list[Hit]) -> dict[bytes, str]:
    """For each file of the hits its path as text; decoded in one go, as there may be tens of thousands."""
    files = list(dict.fromkeys(hit[0] for hit in hits))
    names = os.fsdecode(b"\0".join(files)).split("\0")
    return {raw: name[2:] if name.startswith("./") else name for raw, name in zip(files, names, strict=False)}


def hit_line(hit: Hit, name: str, mode: str, numbers: bool) -> str:
    """A hit as the model reads it, its file called `name`."""
    if mode == "files_with_matches":
        return name
    text = hit[1].decode("utf-8", "replace").rstrip("\r")
    if mode == "count":
        return f"{name}:{text}"
    found = re.match(_NUMBER, text)
    if found is None:
        return "--"
    number = found[0] if numbers else ""
    return f"{name}{found[2]}{number}{sanitize_output(text[found.end() :])}"
