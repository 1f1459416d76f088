"""Split a stream of markdown into blocks, each emitted as soon as no later line can change it.

A line scanner: each line is examined once, however the text is chunked, and blocks depend only on the lines. Code in
fences is emitted line by line, a list item by item, a long table in portions. The rules are those of CommonMark and
GitHub's tables, more lenient in four places where models are careless: a line two columns deeper than its item belongs
to it, code in an item may be indented less, bars in code separate no cells if the row has too many of them, and a
paragraph without end is emitted in portions.
"""

from __future__ import annotations

import re
from typing import Literal

from agent_tools.record import Value

Kind = Literal[
    "para", "heading", "hr", "item", "more", "quote", "table", "rows", "fence_open", "fence_line", "fence_close"
]

# Paragraph lines or table rows after which a portion is emitted.
PORTION_LINES = 40
TAIL_LINES, TAIL_CHARS = 12, 2_000
# Characters of a line after which its beginning is no rule or underline any more.
_SURE_CHARS = 16

_HEADING = re.compile(r" {0,3}#{1,6}(?:\s|$)")
_RULE = re.compile(r" {0,3}(?:(?:-[ \t]*){3,}|(?:_[ \t]*){3,}|(?:\*[ \t]*){3,})$")
_QUOTE = re.compile(r" {0,3}>")
_FENCE = re.compile(r"( *)(`{3,}(?=[^`]*$)|~{3,})[ \t]*(\S*)")
_ITEM = re.compile(r"( {0,3})(?:[-+*]|(\d{1,9})[.)])(?= |$)")
_UNDERLINE = re.compile(r" {0,3}(?:=+|-+)[ \t]*$")
# Characters of a table row that is searched for code.
_MAX_ROW_CHARS = 4_000
_CODE_SPAN = re.compile(r"(?<![`\\])(`+)(?!`).+?(?<!`)\1(?!`)")
_DELIMITER = re.compile(r"[ \t]*:?-+:?[ \t]*")


class Block(Value):
    """A finished block of markdown.

    text: its source; an item without its marker, a code line without the fence's indentation, later portions of a
        table ("rows") without the header.
    indent: column it is shown at, inside a list.
    number: of an item; None if it has none.
    info: language of a fence.
    joined: it continues the previous block, without a blank line between them.
    """

    kind: Kind
    text: str = ""
    indent: int = 0
    number: int | None = None
    info: str = ""
    joined: bool = False


class _Fence(Value):
    """An open fence: its character, length and indentation, and the column that the code is shown at."""

    mark: str
    length: int
    indent: int
    column: int


class BlockSplitter:
    """Takes chunks of text and returns blocks. `finish` resets it for the next text."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._done: list[Block] = []
        self._reset()

    def _reset(self) -> None:
        self._open: Block | None = None
        self._lines: list[str] = []
        self._fence: _Fence | None = None
        # Blank lines, which belong to an item only if it continues after them.
        self._blank_lines = 0
        # Column of the open item's text, and the column from which a line belongs to it; 0: no item is open.
        self._column = self._reach = 0
        # The beginning of the paragraph was cut off.
        self._cut = False
        # Marker of the list that continues if another item follows, and the number of its last item.
        self._list, self._number = "", 0

    def feed(self, text: str) -> list[Block]:
        """Return the blocks that `text` has finished."""
        *lines, rest = text.split("\n")
        for line in lines:
            self._end_line(line)
        if rest:
            self._parts.append(rest)
        return self._take()

    def finish(self) -> list[Block]:
        """Return the blocks still open at the end of the text."""
        if self._parts:
            self._end_line("")
        self._close()
        if self._fence is not None:
            self._done.append(Block("fence_close", indent=self._fence.column, joined=True))
        self._reset()
        return self._take()

    def tail(self) -> list[Block]:
        """Return the unfinished end of the text, bounded, as at most two blocks."""
        partial = self._partial()
        if self._fence is not None:
            # Fence characters alone may turn out to close the fence.
            return [self._code(partial)] if partial.strip(f" \t{self._fence.mark}") else []
        blocks = []
        line = _expand_tabs(partial)
        begins = self._open is not None and bool(line.strip()) and self._ends_open(line)
        if self._open is not None:
            lines = self._lines[-TAIL_LINES:]
            if partial and not begins:
                lines = [*lines, *[""] * self._blank_lines, self._without_indent(line)]
            # A block whose first line was cut is shown without its marker.
            cut = len(self._lines) > TAIL_LINES
            kind: Kind = "more" if cut and self._open.kind == "item" else self._open.kind
            if cut and kind == "table":
                lines = self._lines[:2] + lines
            text = "\n".join(lines)
            blocks.append(self._open.replace(kind=kind, text=text[-TAIL_CHARS:]))
        if partial.strip() and (begins or self._open is None):
            item = None if _RULE.match(line) else _ITEM.match(line)
            if item and not (self._column and _indent(line) >= self._reach):
                blocks.append(self._item(item, line))
            else:
                indent = _indent(line) if self._column and not begins else 0
                blocks.append(Block("more" if indent else "para", line.strip(), indent))
        return blocks

    def close_finished(self) -> list[Block]:
        """Return the open block if the incomplete line surely begins another one."""
        line = _expand_tabs(self._partial())
        if self._open is not None and len(line.strip()) >= _SURE_CHARS and self._ends_open(line):
            self._close()
            self._column = self._reach = self._blank_lines = 0
        return self._take()

    def growing(self) -> Block | None:
        """Return the paragraph or item under way, with its incomplete line; None if something else is."""
        line = _expand_tabs(self._partial())
        if self._fence is not None or self._blank_lines or not line.strip():
            return None
        if self._open is not None:
            if self._open.kind not in ("para", "item", "more") or self._ends_open(line):
                return None
            return self._open.replace(text="\n".join([*self._lines, self._without_indent(line)]))
        item = None if _RULE.match(line) else _ITEM.match(line)
        if self._column or _indent(line):
            return None
        return self._item(item, line) if item is not None else Block("para", line, joined=self._cut)

    def cut(self, block: Block, length: int) -> Block:
        """Cut off the beginning of what `growing` has returned, before a word; return it as a finished block."""
        *lines, last = block.text[length:].split("\n")
        if block.kind == "item" and self._open is None:
            match = _ITEM.match(self._partial())
            self._list, self._number = match[0][-1] if match else "", block.number or 0
            self._column = self._reach = block.indent
        kind: Kind = "para" if block.kind == "para" else "more"
        self._open = Block(kind, indent=block.indent, joined=True) if lines or kind == "more" else None
        self._lines, self._parts = lines, [" " * block.indent + last]
        self._cut = self._open is None
        return block.replace(text=block.text[:length].rstrip())

    def _take(self) -> list[Block]:
        done, self._done = self._done, []
        return done

    def _partial(self) -> str:
        """Return the end of the incomplete line."""
        kept: list[str] = []
        room = TAIL_CHARS
        for part in reversed(self._parts):
            kept.append(part)
            room -= len(part)
            if room <= 0:
                break
        return "".join(reversed(kept))[-TAIL_CHARS:].removesuffix("\r")

    def _end_line(self, rest: str) -> None:
        line = "".join((*self._parts, rest)).removesuffix("\r")
        self._parts.clear()
        if self._fence is not None:
            self._in_fence(self._fence, line)
        elif line.strip(" \t"):
            self._in_text(_expand_tabs(line))
        else:
            self._blank()

    def _in_fence(self, fence: _Fence, line: str) -> None:
        bare = line.strip(" \t")
        ends = len(bare) >= fence.length and bare == fence.mark * len(bare)
        if ends and _indent(_expand_tabs(line)) <= fence.indent + 3:
            self._done.append(Block("fence_close", line, fence.column, joined=True))
            self._fence = None
        else:
            self._done.append(self._code(line))

    def _code(self, line: str) -> Block:
        assert self._fence is not None
        spaces = len(line) - len(line.lstrip(" "))
        return Block("fence_line", line[min(spaces, self._fence.indent) :], self._fence.column, joined=True)

    def _blank(self) -> None:
        if self._column:
            self._blank_lines += 1
        else:
            self._close()

    def _in_text(self, line: str) -> None:
        """Process a line that is neither blank nor code."""
        if self._column:
            if self._continues_item(line):
                return
            self._close()
            self._column = self._reach = self._blank_lines = 0
        elif self._open is not None:
            if self._continues_block(self._open, line):
                return
            self._close()
        self._begin(line)

    def _continues_item(self, line: str) -> bool:
        """Add the line to the open item if it belongs to it."""
        inside = _indent(line) >= self._reach
        if not inside and (self._open is None or self._ends_open(line)):
            return False
        if inside and (fence := _FENCE.match(line)):
            self._close()
            self._open_fence(fence, _indent(line))
            return True
        if self._open is None:
            self._open = Block("more", indent=_indent(line))
            self._blank_lines = 0
        self._lines += [""] * self._blank_lines
        self._blank_lines = 0
        self._lines.append(self._without_indent(line))
        return True

    def _continues_block(self, block: Block, line: str) -> bool:
        """Add the line to an open paragraph, quote or table if it belongs to it."""
        if block.kind == "para":
            if _UNDERLINE.match(line) and not block.joined:
                self._lines.append(line)
                self._open = block.replace(kind="heading")
                self._close()
                return True
            if _is_delimiter_row(self._lines[-1], line):
                header = self._lines.pop()
                self._close()
                self._open, self._lines = Block("table"), [header, line]
                return True
        if self._ends_open(line):
            return False
        self._lines.append(line)
        if block.kind == "para" and len(self._lines) >= PORTION_LINES:
            # The last line is held back: it may turn out to be the header of a table.
            last = self._lines.pop()
            self._close()
            self._open, self._lines = Block("para", joined=True), [last]
        elif block.kind in ("table", "rows") and len(self._lines) >= PORTION_LINES:
            self._close()
            self._open = Block("rows", joined=True)
        return True

    def _ends_open(self, line: str) -> bool:
        """Return True if the line begins a block other than the open one. Code and rules take precedence."""
        if self._open is not None and self._open.kind == "quote" and _QUOTE.match(line):
            return False
        if self._column:
            if _indent(line) >= self._reach:
                return False
            if self._blank_lines or _ITEM.match(line):
                return True
        fence = _FENCE.match(line)
        if _HEADING.match(line) or _QUOTE.match(line) or _RULE.match(line) or (fence and len(fence[1]) < 4):
            return True
        item = _ITEM.match(line)
        # Inside a paragraph, a number begins a list only if it is 1, and an empty item never does.
        return item is not None and item[2] in (None, "1") and bool(line[item.end() :].strip())

    def _begin(self, line: str) -> None:
        """Process the first line of a block."""
        cut, self._cut = self._cut, False
        fence = _FENCE.match(line)
        item = None if _RULE.match(line) else _ITEM.match(line)
        if item:
            self._begin_item(item, line)
            return
        self._list = ""
        if fence and len(fence[1]) < 4:
            self._open_fence(fence, 0)
        elif _HEADING.match(line):
            self._done.append(Block("heading", line))
        elif _RULE.match(line):
            self._done.append(Block("hr", line))
        else:
            self._open, self._lines = Block("quote" if _QUOTE.match(line) else "para", joined=cut), [line]

    def _begin_item(self, match: re.Match[str], line: str) -> None:
        block = self._item(match, line)
        self._list, self._number = match[0][-1], block.number or 0
        self._column = block.indent
        self._reach = min(block.indent, len(match[1]) + 2)
        self._blank_lines = 0
        self._open, self._lines = block.replace(text=""), [block.text]
        if fence := _FENCE.match(block.text):
            self._lines = [""]
            self._close()
            self._open_fence(fence, block.indent)

    def _item(self, match: re.Match[str], line: str) -> Block:
        """Return the item that a line begins."""
        rest = line[match.end() :]
        spaces = len(rest) - len(rest.lstrip(" "))
        column = match.end() + (spaces if 1 <= spaces <= 4 and rest.strip() else 1)
        same = self._list == match[0][-1]
        number = None if match[2] is None else self._number + 1 if same else int(match[2])
        return Block("item", line[column:], column, number, joined=same)

    def _open_fence(self, match: re.Match[str], column: int) -> None:
        indent = column or len(match[1])
        self._fence = _Fence(match[2][0], len(match[2]), indent, column)
        self._blank_lines = 0
        self._done.append(Block("fence_open", match[0], column, info=match[3], joined=bool(column)))

    def _without_indent(self, line: str) -> str:
        """Remove the indentation of an item's line; other lines stay as they are."""
        if self._open is None or self._open.kind not in ("item", "more"):
            return line
        return line[min(_indent(line), self._open.indent) :]

    def _close(self) -> None:
        """Emit the open block."""
        if self._open is not None and self._lines:
            self._done.append(self._open.replace(text="\n".join(self._lines)))
        self._open, self._lines = None, []


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _expand_tabs(line: str) -> str:
    """Expand tabs at the beginning of a line and after a marker: they would hide its columns."""
    if "\t" not in line[:12]:
        return line
    head = re.match(r"[ \t]*(?:(?:[-+*]|\d{1,9}[.)])[ \t]+)?", line)
    assert head is not None
    return head[0].expandtabs(4) + line[head.end() :]


def _is_delimiter_row(header: str, line: str) -> bool:
    """Return True if `line` is the delimiter row of a table with the line before it as header: equal cell counts."""
    if "|" not in header + line or set(line) - set("|:- \t"):
        return False
    cells, dashes = split_cells(header), split_cells(line)
    return len(cells) == len(dashes) and all(_DELIMITER.fullmatch(cell) for cell in dashes)


def split_cells(line: str) -> list[str]:
    """Return the cells of a table row; an escaped bar does not separate cells."""
    bare = re.sub(r"\\.", "", line).strip()
    return bare.removeprefix("|").removesuffix("|").split("|")


def escape_code_bars(line: str, columns: int) -> str:
    """Return a table row with the bars of its code escaped, if it has too many cells with them, and as many as columns
    without.

    By GitHub's rules, a bar in code separates cells too, and what is in more cells than the header has is dropped.
    """
    if len(line) > _MAX_ROW_CHARS or len(split_cells(line)) <= columns:
        return line
    escaped = _CODE_SPAN.sub(lambda match: re.sub(r"(?<!\\)\|", r"\|", match[0]), line)
    return escaped if len(split_cells(escaped)) == columns else line
