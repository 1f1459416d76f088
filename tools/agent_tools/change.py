"""A change to one file, computed before it is made: preview and run share it, and so do Write and Edit."""

from __future__ import annotations

from pathlib import Path

from agent_tools.base import ToolContext, ToolError
from agent_tools.clipping import cut_line
from agent_tools.display import Diff
from agent_tools.textfile import Text, decode, fingerprint, kind_of, split_lines
from agent_tools.values import Value

SHOWN = 60
_MOST = 20_000


class Change(Value):
    """What a call will do to the file at a resolved path. before: None where there is no file yet."""

    path: Path
    before: bytes | None
    after: bytes
    old: str
    new: str
    note: str = ""

    def diff(self, ctx: ToolContext) -> Diff:
        """The change as a person sees it."""
        patch, added, removed = unified(self.old, self.new)
        return Diff(ctx.workspace.show(self.path), patch, added, removed, self.before is None)

    def make(self, ctx: ToolContext) -> None:
        """Write the file and remember that the model knows it. Raises ToolError; the file is unchanged then."""
        ctx.workspace.replace(self.path, self.after, self.before)
        ctx.seen[str(self.path)] = fingerprint(self.after)


def current(path: Path, ctx: ToolContext, verb: str) -> tuple[bytes | None, Text]:
    """The bytes and text of a file that is about to be changed; None and an empty text where there is none.

    Raises ToolError where it is no text file, was not read in this conversation, or has changed since.
    """
    data = ctx.workspace.read_if_there(path)
    if data is None:
        return None, Text("")
    name = ctx.workspace.spell(path)
    text = decode(data)
    if text is None:
        raise ToolError(f"{name} is {kind_of(data)}, not text, and cannot be changed with this tool.")
    if ctx.demand_read:
        known = ctx.seen.get(str(path))
        if known is None:
            raise ToolError(f"{name} exists and was not read in this conversation. Read it first, then {verb} it.")
        if known != fingerprint(data):
            raise ToolError(
                f"{name} changed since it was last read (by the user, a formatter or a command). "
                f"Read it again and {verb} what is there now."
            )
    return data, text


def unified(old: str, new: str) -> tuple[str, int, int]:
    """A unified diff with three context lines and no file header; the lines added; the lines removed."""
    a, b = split_lines(old), split_lines(new)
    groups = _groups(a, b)
    out: list[str] = []
    added = removed = 0
    for group in groups:
        i1, i2, j1, j2 = group[0][1], group[-1][2], group[0][3], group[-1][4]
        out.append(f"@@ -{_range(i1, i2)} +{_range(j1, j2)} @@")
        for tag, a1, a2, b1, b2 in group:
            if tag == "equal":
                out += _marked(" ", a[a1:a2])
                continue
            out += _marked("-", a[a1:a2]) + _marked("+", b[b1:b2])
            removed += a2 - a1
            added += b2 - b1
    return "\n".join(out), added, removed


def _groups(a: list[str], b: list[str]) -> list[list[tuple[str, int, int, int, int]]]:
    """Changed regions with context. Only what lies between the common beginning and end is compared."""
    most = min(len(a), len(b))
    head = next((n for n in range(most) if a[n] != b[n]), most)
    tail = next((n for n in range(most - head) if a[-1 - n] != b[-1 - n]), most - head)
    start, enda, endb = max(0, head - 3), min(len(a), len(a) - tail + 3), min(len(b), len(b) - tail + 3)
    if max(enda, endb) - start > _MOST:
        middle = [("replace", head, len(a) - tail, head, len(b) - tail)]
        around = [("equal", start, head, start, head)], [("equal", len(a) - tail, enda, len(b) - tail, endb)]
        return [[*around[0], *middle, *around[1]]]
    from difflib import SequenceMatcher

    grouped = SequenceMatcher(None, a[start:enda], b[start:endb], autojunk=False).get_grouped_opcodes(3)
    return [[(t, i1 + start, i2 + start, j1 + start, j2 + start) for t, i1, i2, j1, j2 in g] for g in grouped]


def _range(start: int, end: int) -> str:
    count = end - start
    return f"{start + 1 if count else start}" + ("" if count == 1 else f",{count}")


def _marked(sign: str, lines: list[str]) -> list[str]:
    out = []
    for line in lines:
        out.append(sign + cut_line(line.rstrip("\r\n") if line.endswith("\n") else line))
        if not line.endswith("\n"):
            out.append("\\ No newline at end of file")
    return out


def excerpt(content: str, places: list[tuple[int, int]]) -> str:
    """The lines of `content` around the character ranges `places`, numbered, for the model to check its work."""
    lines = split_lines(content)
    wanted: set[int] = set()
    at = number = 0
    for start, end in sorted(places):
        number += content.count("\n", at, start)
        last = number + content.count("\n", start, max(start, end - 1))
        wanted.update(range(max(0, number - 2), min(len(lines), last + 3)))
        at = start
    out: list[str] = []
    previous = -1
    for n in sorted(wanted)[:SHOWN]:
        if n > previous + 1 and out:
            out.append("   ...")
        out.append(f"{n + 1:>6}\t{cut_line(lines[n].rstrip(chr(13) + chr(10)), 300)}")
        previous = n
    if len(wanted) > SHOWN:
        out.append(f"[{len(wanted) - SHOWN} more changed lines not shown; Read the file to see them]")
    return "\n".join(out)
