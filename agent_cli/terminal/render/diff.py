"""Render a file change as lines: numbered, marked with - and +, highlighted as code, changed words underlined.

The marks are always there, so colours never carry the meaning alone.

Also other displays as lines: plans, command output. Pure functions from plain data to Rich text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.text import Text

from agent_cli.terminal.render.code import Highlighter
from agent_cli.terminal.render.console import styled
from agent_tools.display import CommandOutput, Diff, Diffs, Display, FileView, Listing, Note, TodoView
from agent_tools.lookalikes import visible
from agent_tools.record import Value
from agent_tools.text import counted, escape_controls, shorten

SHOWN = 60
# Limits of decoration: number of coloured lines, and tokens of a line that are compared.
_COLOURED, _COMPARED = 2_000, 150
_CHANGED = "bold underline"
_SIGNS = {"-": "red", "+": "green", "\\": "dim"}

Span = tuple[int, int]


class DiffLine(Value):
    """A line of a diff.

    sign: "-", "+", " ", "\\" for a note, "@" for a gap.
    changed: spans that its counterpart does not have.
    """

    sign: str
    number: int | None
    text: str
    changed: tuple[Span, ...] = ()


def diff_lines(diff: Diff, *, whole: bool = False) -> Iterator[Text]:
    """Yield the heading and the lines of a diff, at most SHOWN of them unless `whole`."""
    verb = "new file" if diff.created else "deleted" if diff.deleted else "change"
    yield styled(f"  {visible(diff.path)} ({verb}, +{diff.added} -{diff.removed})", "dim")
    lines = _parsed(diff.patch)
    shown = lines if whole else lines[:SHOWN]
    width = max((len(str(line.number)) for line in shown if line.number), default=1)
    yield from _drawn(_paired(shown), diff.path, width)
    if len(shown) < len(lines):
        yield styled(f"  ... {counted(len(lines) - len(shown), 'more line')}", "dim")


def _parsed(patch: str) -> list[DiffLine]:
    """Parse a unified diff into numbered lines: by the old file for "-", else by the new one."""
    lines: list[DiffLine] = []
    old = new = 0
    for raw in patch.split("\n") if patch else ():
        sign, text = raw[:1] or " ", escape_controls(raw[1:])
        if found := re.match(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@", raw):
            old, new = int(found[1]), int(found[2])
            if lines:
                lines.append(DiffLine("@", None, "..."))
        elif sign == "-":
            lines.append(DiffLine("-", old, text))
            old += 1
        elif sign in "+ ":
            lines.append(DiffLine(sign, new, text))
            new += 1
            old += sign == " "
        else:
            lines.append(DiffLine("\\", None, escape_controls(raw)))
    return lines


def _paired(lines: list[DiffLine]) -> list[DiffLine]:
    """Mark the changed words of lines that replace a similar one."""
    out = list(lines)
    start = 0
    while start < min(len(lines), _COLOURED):
        if lines[start].sign != "-":
            start += 1
            continue
        middle = _end_of("-", lines, start)
        end = _end_of("+", lines, middle)
        for a, b in zip(range(start, middle), range(middle, end), strict=False):
            if lines[a].sign == "-" and lines[b].sign == "+":
                gone, come = changed_words(lines[a].text, lines[b].text)
                out[a], out[b] = lines[a].replace(changed=gone), lines[b].replace(changed=come)
        start = end
    return out


def _end_of(sign: str, lines: list[DiffLine], at: int) -> int:
    """Return the end of a run of lines with one sign; notes about a missing last newline do not end it."""
    while at < len(lines) and lines[at].sign in (sign, "\\"):
        at += 1
    return at


def changed_words(old: str, new: str) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    """Return the spans in which two lines differ, by words; none if they have less than half in common."""
    before, after = (re.findall(r"\w+|\s+|[^\w\s]", line) for line in (old, new))
    if old == new or max(len(before), len(after)) > _COMPARED:
        return (), ()
    # Lazy: needed only when a change is shown.
    from difflib import SequenceMatcher

    matcher = SequenceMatcher(None, before, after, autojunk=False)
    if matcher.ratio() <= 0.5:
        return (), ()
    edits = [code for code in matcher.get_opcodes() if code[0] != "equal"]
    gone = _spans(before, [(i1, i2) for _, i1, i2, _, _ in edits])
    return gone, _spans(after, [(j1, j2) for _, _, _, j1, j2 in edits])


def _spans(words: list[str], ranges: list[Span]) -> tuple[Span, ...]:
    starts = [0]
    for word in words:
        starts.append(starts[-1] + len(word))
    return tuple((starts[a], starts[b]) for a, b in ranges if a < b)


def _drawn(lines: list[DiffLine], path: str, width: int) -> Iterator[Text]:
    old, new = Highlighter.for_file(path), Highlighter.for_file(path)
    for count, line in enumerate(lines):
        if line.sign == "@":
            # The skipped lines were not read, so the lexer state is unknown.
            old, new = Highlighter.for_file(path), Highlighter.for_file(path)
            yield Text(f"  {line.text}", "dim")
            continue
        number = "" if line.number is None else str(line.number)
        colour = _SIGNS.get(line.sign, "")
        row = Text("  ").append(number.rjust(width), colour or "dim").append(" ")
        if line.sign == "\\":
            yield row.append(line.text, "dim")
            continue
        body = Text(line.text, colour)
        if new.knows and count < _COLOURED:
            body = (old if line.sign == "-" else new).line(line.text)
            if line.sign == " ":
                old.line(line.text)
        for start, end in line.changed:
            body.stylize(_CHANGED, start, end)
        yield row.append(line.sign, colour).append_text(body)


_MARKS = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]", "cancelled": "[-]"}
_WORDS = {"pending": "to do:", "in_progress": "now:", "completed": "done:", "cancelled": "dropped:"}
_STATES = {"in_progress": "bold", "completed": "dim", "cancelled": "dim"}


def display_lines(display: Display | None, *, whole: bool = False, words: bool = False) -> Iterator[Text]:
    """Yield the lines of a display. whole: shorten nothing, as for approvals. words: use no symbols."""
    match display:
        case Diff() | Diffs():
            # Lazy: lexers and difflib are needed only when a change is shown.

            for diff in display.files if isinstance(display, Diffs) else (display,):
                yield from diff_lines(diff, whole=whole)
        case TodoView(items=items):
            for item in items:
                now = item.activeForm if item.status == "in_progress" and item.activeForm else item.content
                mark = (_WORDS if words else _MARKS)[item.status]
                yield styled(f"  {mark} {now}", _STATES.get(item.status, ""))
        case CommandOutput(exit_code=code):
            yield styled(f"  {short_result(display)}", "good" if code == 0 else "bad")
        case Listing() | FileView():
            yield styled(f"  {short_result(display)}", "dim")
        case Note(text=text):
            for line in text.splitlines():
                yield styled(f"  {line}", "dim")


def short_result(display: Display | None) -> str:
    """Return a result in a few words if it has no more to show; else ""."""
    match display:
        case CommandOutput(exit_code=code, seconds=seconds, note=note):
            return note or f"exit code {code}, {seconds:.1f} s"
        case Listing(lines=lines, more=more):
            return f"{len(lines) + more:,} found"
        case FileView(lines=lines, total=total):
            return f"{lines:,} of {counted(total, 'line')}"
        case Note(text=text) if len(text) <= 100 and "\n" not in text.strip():
            return shorten(text)
    return ""
