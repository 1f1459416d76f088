"""What a search found: reading ripgrep's output, and one line of it for the model."""

from __future__ import annotations

import os
import re
from pathlib import Path

from agent_tools.clipping import harmless
from agent_tools.values import Value

_NUMBER = r"(\d+)([:-])"


class Hit(Value):
    """A file, a file's count, or a line of it. mark: ":" a match, "-" context, "" no line, "--" a gap."""

    path: str
    text: str = ""
    number: int = 0
    mark: str = ""

    def line(self, name: str, numbers: bool) -> str:
        """This hit as the model reads it, its file called `name`."""
        if self.mark == "--":
            return "--"
        if not self.mark:
            return f"{name}:{self.text}" if self.text else name
        number = f"{self.number}{self.mark}" if numbers else ""
        return f"{name}{self.mark}{number}{self.text}"


def parse(out: bytes, mode: str) -> list[Hit]:
    """Hits from ripgrep's output with --null. Output that was cut off loses its last, partial line."""
    if mode == "files_with_matches":
        return [Hit(_clean(path)) for path in os.fsdecode(out).split("\0")[:-1]]
    hits: list[Hit] = []
    for raw in out.split(b"\n")[:-1]:
        path, nul, rest = raw.partition(b"\0")
        if not nul:
            if raw == b"--" and hits:
                hits.append(Hit(hits[-1].path, mark="--"))
            continue
        name, text = _clean(os.fsdecode(path)), rest.decode("utf-8", "replace")
        found = re.match(_NUMBER, text) if mode == "content" else None
        if found:
            hits.append(Hit(name, harmless(text[found.end() :].rstrip("\r")), int(found[1]), found[2]))
        else:
            hits.append(Hit(name, harmless(text)))
    return hits


def newest(hits: list[Hit], top: Path) -> list[Hit]:
    """Files in the order of their last change, the newest first."""

    def key(hit: Hit) -> tuple[int, str]:
        try:
            return (-(top / hit.path).stat().st_mtime_ns, hit.path)
        except OSError:
            return (0, hit.path)

    return sorted(hits, key=key)


def _clean(path: str) -> str:
    return path.removeprefix("./")
