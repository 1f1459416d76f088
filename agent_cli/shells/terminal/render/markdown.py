"""Render markdown as lines of text, block by block as it is finished, and the unfinished end as a few rows.

Markdown-it parses and Rich wraps. Nothing of the source is lost: HTML stays as written, links show their target, images
and reference definitions stay text. No boxes, backgrounds or padding, so that text can be copied: code is indented by
two spaces, and both are wrapped at spaces. Blocks are separated by one blank line.

Tables are columns of text: two spaces between them, a line below the header, cells wrapped if it gets narrow.

A line is text with only SGR sequences that this program wrote.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import zip_longest
from typing import Literal

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from agent_cli.shells.terminal.render.ansi import to_ansi, wrap
from agent_cli.shells.terminal.render.blocks import Block, BlockSplitter, escape_code_bars, split_cells
from agent_cli.shells.terminal.render.code import Highlighter, wrap_code
from agent_tools.record import Value
from agent_tools.text import escape_controls

Align = Literal["left", "center", "right"]
Row = list[Text]
_GAP_CELLS = 2
# If columns would get narrower, each row is shown as separate lines.
_MIN_COLUMN_CELLS = 6


class Table:
    """The columns of one table. Their widths are set by its first rows and stay."""

    def __init__(self, header: Row, aligns: list[Align], rows: list[Row], width: int, rule: str) -> None:
        self._header = [cell.copy() for cell in header]
        for cell in self._header:
            cell.stylize("bold")
        self._aligns = aligns
        self._width = width
        self._rule = rule
        natural = [max(row[n].cell_len if n < len(row) else 0 for row in (header, *rows)) for n in range(len(header))]
        self._widths = _distribute_width(natural, width - _GAP_CELLS * (len(natural) - 1))

    def head(self) -> list[Text]:
        """Return the header and the line below it."""
        if not self._widths:
            return []
        below = Text((" " * _GAP_CELLS).join(self._rule * w for w in self._widths), "dim")
        return [*self._row(self._header), below]

    def body(self, rows: list[Row]) -> list[Text]:
        """Return the lines of rows."""
        draw = self._row if self._widths else self._record
        return [line for row in rows for line in draw(self._fit_columns(row))]

    def _fit_columns(self, row: Row) -> Row:
        """Fit a row to the number of columns: the last column takes extra cells of a later row."""
        last = len(self._header) - 1
        return row if len(row) <= last + 1 else [*row[:last], Text(" ").join(cell for cell in row[last:] if cell)]

    def _row(self, row: Row) -> list[Text]:
        widths = [max(width, cell.cell_len) for cell, width in zip(row, self._widths, strict=False)]
        if sum(widths) + _GAP_CELLS * (len(widths) - 1) > self._width:
            widths = _widen_for_words(row, self._widths)
        columns = [
            [_pad(line, width, align) for line in wrap(cell, width)]
            for cell, width, align in zip(row, widths, self._aligns, strict=False)
        ]
        lines = []
        for parts in zip_longest(*columns):
            line = Text()
            for n, (part, width) in enumerate(zip(parts, widths, strict=False)):
                line.append(" " * _GAP_CELLS if n else "").append_text(part if part is not None else Text(" " * width))
            line.rstrip()
            lines.append(line)
        return lines

    def _record(self, row: Row) -> list[Text]:
        """Render a row as lines: each cell after the name of its column."""
        lines = []
        for n, (name, cell) in enumerate(zip(self._header, row, strict=False)):
            pair = Text("- " if n == 0 else "  ").append_text(name).append(": ").append_text(cell)
            lines += wrap(pair, self._width)
        return lines


def _distribute_width(natural: list[int], room: int) -> list[int]:
    """Distribute the width: columns narrower than their share keep their width. Empty if nothing fits."""
    if sum(natural) <= room:
        return [max(w, 1) for w in natural]
    widths = list(natural)
    left, open_ = room, sorted(range(len(natural)), key=lambda n: natural[n])
    while open_:
        share = left // len(open_)
        column = open_.pop(0)
        widths[column] = min(natural[column], share)
        left -= widths[column]
    return (
        []
        if any(w < min(_MIN_COLUMN_CELLS, n) for w, n in zip(widths, natural, strict=True))
        else [max(w, 1) for w in widths]
    )


def _widen_for_words(row: Row, widths: list[int]) -> list[int]:
    """Widen columns for the longest word of each cell, if the other cells of the row leave room."""
    words = [max((cell_len(word) for word in cell.plain.split()), default=0) for cell in row]
    found = list(widths)
    for n, longest in enumerate(words[: len(found)]):
        for other in sorted(range(min(len(words), len(found))), key=lambda m: words[m] - found[m]):
            moved = min(max(longest - found[n], 0), max(found[other] - words[other], 0))
            found[n] += moved
            found[other] -= moved
    return found


def _pad(line: Text, width: int, align: Align) -> Text:
    """Pad a line to `width`."""
    missing = max(0, width - line.cell_len)
    before = {"left": 0, "center": missing // 2, "right": missing}[align]
    return Text(" " * before).append_text(line).append(" " * (missing - before))


CODE_INDENT = "  "
RULE_WIDTH = 20
_MIN_TEXT_CELLS = 8
_PLAIN = Style()
_CODE = Style(color="blue")
_LINK = Style(underline=True)
_INLINE = {"em": Style(italic=True), "strong": Style(bold=True), "s": Style(strike=True), "a": _LINK}
_HEADINGS = {"h1": Style(bold=True, underline=True), "h2": Style(bold=True)}
_HEADING = Style(bold=True, italic=True)
# Text of which CommonMark makes one paragraph without markup, as of most of what a model writes. It is rendered again
# with each piece that streams in, and the parser takes twenty times as long.
_PLAIN_PROSE = re.compile(r"(?:[A-Za-z](?:[A-Za-z0-9,.;()?!%'\"/+=#$@{}^-]|:(?!/)| (?![ \n])|\n(?=[A-Za-z]))*+)[ \n]*")


class BlockSigns(Value):
    """Characters for bullets, quotes and rules, and around code if colours do not show it."""

    bullet: str = "•"
    quote: str = "│"
    rule: str = "─"
    tick: str = ""


PLAIN_SIGNS = BlockSigns("-", ">", "-", "`")


class Layout:
    """Turns markdown into lines. Tokens come from one iterator; each container reads up to its closing token."""

    def __init__(self, signs: BlockSigns) -> None:
        self._signs = signs
        self._source: list[str] = []

    def lines(self, source: str, width: int, *, item: bool = False) -> list[Text]:
        """Render `source`, which must be escaped already; a word may be wider than `width` cells.

        item: the source is the content of a list item.
        """
        width = max(width, _MIN_TEXT_CELLS)
        if _PLAIN_PROSE.fullmatch(source) and (rows := _wrap_words(source.split(), width)):
            return rows
        self._source = source.split("\n")
        return self._render_container(iter(_parser().parse(source)), width, item=item)

    def table(self, source: str, width: int) -> tuple[Table, list[Row]] | None:
        """Parse `source` as a table and return it with its rows; None if it is not a table."""
        tokens = iter(_parser().parse(source))
        first = next(tokens, None)
        if first is None or first.type != "table_open":
            return None
        return self._table(tokens, max(width, _MIN_TEXT_CELLS))

    def _render_container(self, tokens: Iterator[Token], width: int, *, item: bool = False) -> list[Text]:
        """Render a container, with blank lines between its parts; in a list only where the source has them."""
        lines: list[Text] = []
        for token in tokens:
            if token.nesting < 0:
                break
            part = self._render_token(token, tokens, width)
            tight = item and token.map and self._source[token.map[0] - 1].strip("> ")
            if lines and part and not tight:
                lines.append(Text())
            lines += part
        return lines

    def _render_token(self, token: Token, tokens: Iterator[Token], width: int) -> list[Text]:
        match token.type:
            case "paragraph_open":
                return wrap(self._inline(tokens), width)
            case "heading_open":
                text = self._inline(tokens)
                text.stylize_before(_HEADINGS.get(token.tag, _HEADING))
                return wrap(text, width)
            case "fence" | "code_block":
                highlighter = Highlighter(token.info.partition(" ")[0])
                code = token.content.removesuffix("\n").split("\n")
                return [Text(CODE_INDENT).append_text(highlighter.line(line)) if line else Text() for line in code]
            case "blockquote_open":
                inner = self._render_container(tokens, max(width - 2, _MIN_TEXT_CELLS))
                return [Text(f"{self._signs.quote} ", "dim").append_text(line) for line in inner]
            case "bullet_list_open" | "ordered_list_open":
                return self._list(token, tokens, width)
            case "table_open":
                table, rows = self._table(tokens, width)
                return [*table.head(), *table.body(rows)]
            case "hr":
                return [Text(self._signs.rule * min(width, RULE_WIDTH), "dim")]
            case _:
                return wrap(Text(escape_controls(token.content)), width)

    def _list(self, opening: Token, tokens: Iterator[Token], width: int) -> list[Text]:
        number = int(opening.attrs.get("start", 1)) if opening.type == "ordered_list_open" else None
        lines: list[Text] = []
        for token in tokens:
            if token.nesting < 0:
                break
            mark = self.mark(number)
            lines += hang_indent(
                mark, self._render_container(tokens, max(width - len(mark), _MIN_TEXT_CELLS), item=True)
            )
            number = None if number is None else number + 1
        return lines

    def mark(self, number: int | None) -> str:
        """Return the marker of a list item."""
        return f"{self._signs.bullet} " if number is None else f"{number}. "

    def _table(self, tokens: Iterator[Token], width: int) -> tuple[Table, list[Row]]:
        aligns: list[Align] = []
        rows: list[Row] = []
        for token in tokens:
            match token.type:
                case "tr_open":
                    rows.append([])
                case "th_open" | "td_open":
                    if token.type == "th_open":
                        aligns.append(_align(str(token.attrs.get("style", ""))))
                    rows[-1].append(self._inline(tokens))
                case "table_close":
                    break
        header, *body = rows
        return Table(header, aligns, body, width, self._signs.rule), body

    def _inline(self, tokens: Iterator[Token]) -> Text:
        """Return the text of a paragraph, heading or cell, and consume its closing token."""
        text = Text()
        styles = [_PLAIN]
        links: list[tuple[int, str]] = []
        for token in next(tokens).children or ():
            match token.type:
                case "softbreak":
                    text.append(" ")
                case "hardbreak":
                    text.append("\n")
                case "code_inline":
                    text.append(
                        f"{self._signs.tick}{escape_controls(token.content)}{self._signs.tick}", styles[-1] + _CODE
                    )
                case "link_close":
                    styles.pop()
                    start, address = links.pop()
                    if address not in (text.plain[start:], f"mailto:{text.plain[start:]}"):
                        text.append(f" ({address})", styles[-1])
                case _ if token.nesting > 0:
                    if token.type == "link_open":
                        links.append((len(text), escape_controls(str(token.attrs.get("href", "")))))
                    styles.append(styles[-1] + _INLINE.get(token.tag, _PLAIN))
                case _ if token.nesting < 0:
                    styles.pop()
                case _:
                    # Entities expand to characters that escaping the source could not see.
                    text.append(escape_controls(token.content), styles[-1])
        next(tokens)
        return text


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False})
    return parser.enable(["table", "strikethrough"]).disable(["image", "reference"])


def _wrap_words(words: list[str], width: int) -> list[Text]:
    """Return ASCII words in rows of at most `width` cells; nothing if a word is longer than that."""
    rows, row = [], words[0]
    for word in words[1:]:
        if len(row) + 1 + len(word) <= width:
            row += f" {word}"
        else:
            rows.append(row)
            row = word
    rows.append(row)
    return [Text(row) for row in rows] if max(map(len, rows)) <= width else []


def hang_indent(mark: str, lines: list[Text]) -> list[Text]:
    """Prefix the first line with a mark and indent the others; the mark alone if there are none."""
    if not lines:
        return [Text(mark.rstrip())]
    rest = " " * len(mark)
    return [Text(rest if n else mark).append_text(line) if line.plain else line for n, line in enumerate(lines)]


def _align(style: str) -> Align:
    return "right" if style.endswith("right") else "center" if style.endswith("center") else "left"


MAX_WIDTH = 120
# Markup that has been closed; what may begin some; the beginning of a word that begins no block.
_CLOSED_MARKUP = re.compile(r"`[^`]+`|\*\*[^*`]+\*\*|\*[^*`\s][^*`]*\*|(?<!!)\[[^][`*]*\]\([^()\s]*\)")
_OPEN_MARKUP = re.compile(r"[`*~<&\\[]|(?<!\w)_|://")
_SOURCE_WORD = re.compile(r"\S+")
_BEGINS_WORD = re.compile(r"[^\W\d_]|[(\"'\u201c]")
# Rows of the unfinished end, and of a long paragraph that are not written before it ends.
TAIL_ROWS, KEPT_ROWS = 8, 4


class BlockRenderer:
    """Renders the blocks of one answer, in order.

    color: False leaves bold, italic and underline, and uses signs where colours carry meaning.
    """

    def __init__(self, columns: int, *, color: bool = True) -> None:
        self.resize(columns)
        self._color = color
        self._layout = Layout(BlockSigns() if color else PLAIN_SIGNS)
        self._code = Highlighter("")
        self._table: Table | None = None
        self._table_head = ""
        self._has_output = False

    def resize(self, columns: int) -> None:
        """Set the terminal width for the next blocks; lines never get too wide to read."""
        self.width = max(1, min(columns - 1, MAX_WIDTH))

    def render(self, block: Block) -> list[str]:
        """Return the lines of a block, after a blank line if needed. Call once per block."""
        lines = [to_ansi(line, color=self._color) for line in self._lines(block)]
        opens = block.kind == "fence_open"
        if self._has_output and not block.joined and (lines or opens):
            lines.insert(0, "")
        self._has_output = self._has_output or bool(lines) or opens
        return lines

    def tail(self, blocks: list[Block]) -> list[str]:
        """Return the last rows of unfinished blocks, none wider than the terminal, below a blank row where needed."""
        lines: list[Text] = []
        apart = False
        for block in blocks:
            part = self._unfinished(block)
            if part and not block.joined and (lines or self._has_output):
                apart = apart or not lines
                lines.append(Text())
            lines += part
        while lines and not lines[-1].plain.strip():
            lines.pop()
        apart = apart and len(lines) <= TAIL_ROWS
        lines = lines[-TAIL_ROWS:]
        while lines and not apart and not lines[0].plain.strip():
            lines.pop(0)
        for line in lines:
            line.expand_tabs(8)
            line.truncate(self.width)
        return [to_ansi(line, color=self._color) for line in lines]

    def stable_length(self, block: Block, left: int) -> int:
        """Return the length of the source of a block's first rows, so that `left` remain; 0 if more may change them."""
        text = escape_controls(block.text)
        rows = self._prose(block, text)
        if len(rows) <= left + 1 or text != block.text:
            return 0
        done = len(rows) - left
        count = sum(len(row.plain.split()) for row in rows[:done]) - (block.kind == "item")
        words = [*_SOURCE_WORD.finditer(text)]
        if not 0 < count < len(words):
            return 0
        head, rest = text[: words[count].start()], text[words[count].start() :]
        if _OPEN_MARKUP.search(_CLOSED_MARKUP.sub("", head)) or not _BEGINS_WORD.match(rest):
            return 0
        more = Block("more" if block.indent else "para", rest, block.indent, joined=True)
        same = [*self._prose(block.replace(text=head), head.rstrip()), *self._prose(more, rest)] == rows
        return len(head) if same else 0

    def _lines(self, block: Block) -> list[Text]:
        text = escape_controls(block.text)
        match block.kind:
            case "fence_open":
                self._code = Highlighter(block.info)
                return []
            case "fence_line":
                return self._code_rows(block.indent, self._code.line(text))
            case "fence_close":
                return []
            case "table" | "rows":
                return self._rows(block.kind, text)
            case _:
                return self._prose(block, text)

    def _code_rows(self, column: int, line: Text) -> list[Text]:
        """Return the rows of a line of code; those after the first are indented further than it."""
        if not line.plain:
            return [line]
        before = " " * column + CODE_INDENT
        room = self.width - len(before)
        if line.cell_len + 3 * line.plain.count("\t") <= room:
            return [Text(before).append_text(line)]
        more = before + " " * min(len(line.plain) - len(line.plain.lstrip(" ")) + len(CODE_INDENT), room // 2)
        first = wrap_code(line, room)[0]
        rest = line[len(first) :]
        rows = wrap_code(rest, self.width - len(more)) if rest.plain.strip() else []
        return [Text(before).append_text(first), *(Text(more).append_text(row) for row in rows)]

    def _prose(self, block: Block, text: str) -> list[Text]:
        if block.kind == "item":
            mark = self._layout.mark(block.number)
            return hang_indent(mark, self._layout.lines(text, self.width - len(mark), item=True))
        lines = self._layout.lines(text, self.width - block.indent, item=block.kind == "more")
        return hang_indent(" " * block.indent, lines) if block.indent and lines else lines

    def _rows(self, kind: str, text: str) -> list[Text]:
        """Render a table, or more rows of the previous one, in the column widths set by its first rows."""
        if kind == "table":
            head, self._table = text.split("\n")[:2], None
            text = "\n".join(text.split("\n")[2:])
            self._table_head = "\n".join(head)
        text = _with_code_bars(self._table_head, text)
        source = _widen_header(self._table_head, text)
        found = self._layout.table(source, self.width)
        if found is None:
            return self._layout.lines(source, self.width)
        table, rows = found
        if self._table is None:
            self._table = table
            return [*table.head(), *table.body(rows)]
        return self._table.body(rows)

    def _unfinished(self, block: Block) -> list[Text]:
        text = escape_controls(block.text)
        if block.kind == "fence_line":
            return self._code_rows(block.indent, self._code.peek(text))
        if block.kind == "table":
            head, _, rows = text.partition("\n")
            text = f"{head}\n{_with_code_bars(head, rows)}"
        if block.kind == "rows":
            text = _with_code_bars(self._table_head, text)
            return self._layout.lines(f"{self._table_head}\n{text}", self.width)[2:]
        return self._prose(block, text)


def _with_code_bars(head: str, rows: str) -> str:
    """Return the rows of a table, with bars in code that separate no cells. head: its header."""
    columns = len(split_cells(head.partition("\n")[0]))
    return "\n".join(escape_code_bars(row, columns) for row in rows.split("\n"))


def _widen_header(head: str, rows: str) -> str:
    """Widen a table's header to the longest row: cells beyond the header would be dropped."""
    header, dashes = head.split("\n")
    missing = max(len(split_cells(row)) for row in rows.split("\n")) - len(split_cells(header))
    if missing > 0:
        header = f"{header.rstrip().removesuffix('|')}{'| ' * (missing + 1)}"
        dashes = f"{dashes.rstrip().removesuffix('|')}{'|-' * missing}|"
    return f"{header}\n{dashes}\n{rows}"


class MarkdownStream:
    """Converts the streamed text of one answer to finished lines."""

    def __init__(self, columns: int, *, color: bool = True) -> None:
        self._splitter = BlockSplitter()
        self._renderer = BlockRenderer(columns, color=color)
        self._tail: list[str] | None = []
        # Characters since it was last looked for rows that are finished.
        self._fed = 0

    def feed(self, text: str) -> list[str]:
        """Return the lines that `text` has finished; each is returned once."""
        self._tail = None
        lines = self._render(self._splitter.feed(text))
        self._fed += len(text)
        if self._fed < self._renderer.width:
            return lines
        self._fed = 0
        return [*lines, *self._render(self._splitter.close_finished()), *self._finish_rows()]

    def _finish_rows(self) -> list[str]:
        """Return the first rows of a long paragraph or item, which more text does not change."""
        block = self._splitter.growing()
        if block is None or len(block.text) < KEPT_ROWS * self._renderer.width or "|" in block.text:
            return []
        length = self._renderer.stable_length(block, KEPT_ROWS)
        return self._renderer.render(self._splitter.cut(block, length)) if length else []

    def finish(self) -> list[str]:
        """Return the lines that were still open."""
        self._tail = []
        return self._render(self._splitter.finish())

    def tail(self) -> list[str]:
        """Return a few rows of the unfinished end; cached until more text comes."""
        if self._tail is None:
            self._tail = self._renderer.tail(self._splitter.tail())
        return self._tail

    def resize(self, columns: int) -> None:
        """Set a new terminal width."""
        self._renderer.resize(columns)
        self._tail = None

    def _render(self, blocks: list[Block]) -> list[str]:
        return [line for block in blocks for line in self._renderer.render(block)]
