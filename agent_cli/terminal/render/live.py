"""Render finished markdown blocks as terminal lines, each once, and the unfinished end as a few rows.

A line is text with only SGR sequences that this program wrote. Code is indented by two blanks and neither boxed nor
wrapped, so that a copied line is exact; prose is wrapped at words. Blocks are separated by one blank line.
"""

from __future__ import annotations

from rich.text import Text

from agent_cli.terminal.render.ansi import to_ansi
from agent_cli.terminal.render.blocks import Block, BlockSplitter, cells_of
from agent_cli.terminal.render.code import Highlighter
from agent_cli.terminal.render.markdown import CODE_INDENT, PLAIN_SIGNS, Layout, Signs, Table, hung
from agent_tools.text import escape_controls

WIDEST = 120
TAIL_ROWS = 5


class BlockRenderer:
    """Renders the blocks of one answer, in order.

    color: False leaves bold, italic and underline, and uses signs where colours carry meaning.
    """

    def __init__(self, columns: int, *, color: bool = True) -> None:
        self.resize(columns)
        self._color = color
        self._layout = Layout(Signs() if color else PLAIN_SIGNS)
        self._code = Highlighter("")
        self._table: Table | None = None
        self._table_head = ""
        self._begun = False

    def resize(self, columns: int) -> None:
        """Set the terminal width for what follows; lines are never wider than is readable."""
        self.width = max(1, min(columns - 1, WIDEST))

    def render(self, block: Block) -> list[str]:
        """Return the lines of a block, after a blank line where one belongs. Call once per block."""
        lines = [to_ansi(line, color=self._color) for line in self._lines(block)]
        opens = block.kind == "fence_open"
        if self._begun and not block.joined and (lines or opens):
            lines.insert(0, "")
        self._begun = self._begun or bool(lines) or opens
        return lines

    def tail(self, blocks: list[Block]) -> list[str]:
        """Return the last rows of unfinished blocks, none wider than the terminal."""
        lines: list[Text] = []
        for block in blocks:
            part = self._unfinished(block)
            if lines and part and not block.joined:
                lines.append(Text())
            lines += part
        while lines and not lines[-1].plain.strip():
            lines.pop()
        lines = lines[-TAIL_ROWS:]
        while lines and not lines[0].plain.strip():
            lines.pop(0)
        for line in lines:
            line.expand_tabs(8)
            line.truncate(self.width)
        return [to_ansi(line, color=self._color) for line in lines]

    def _lines(self, block: Block) -> list[Text]:
        text = escape_controls(block.text)
        match block.kind:
            case "fence_open":
                self._code = Highlighter(block.info)
                return []
            case "fence_line":
                return [_code(block.indent, self._code.line(text))]
            case "fence_close":
                return []
            case "table" | "rows":
                return self._rows(block.kind, text)
            case _:
                return self._prose(block, text)

    def _prose(self, block: Block, text: str) -> list[Text]:
        if block.kind == "item":
            mark = self._layout.mark(block.number)
            return hung(mark, self._layout.lines(text, self.width - len(mark), item=True))
        lines = self._layout.lines(text, self.width - block.indent, item=block.kind == "more")
        return hung(" " * block.indent, lines) if block.indent and lines else lines

    def _rows(self, kind: str, text: str) -> list[Text]:
        """Render a table, or more rows of the previous one, in the column widths set by its first rows."""
        if kind == "table":
            head, self._table = text.split("\n")[:2], None
            text = "\n".join(text.split("\n")[2:])
            self._table_head = "\n".join(head)
        source = _with_room(self._table_head, text)
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
            return [_code(block.indent, self._code.peek(text))]
        if block.kind == "rows":
            return self._layout.lines(f"{self._table_head}\n{text}", self.width)[2:]
        return self._prose(block, text)


def _with_room(head: str, rows: str) -> str:
    """Widen a table's header to the longest row: cells beyond the header would be dropped."""
    header, dashes = head.split("\n")
    missing = max(len(cells_of(row)) for row in rows.split("\n")) - len(cells_of(header))
    if missing > 0:
        header = f"{header.rstrip().removesuffix('|')}{'| ' * (missing + 1)}"
        dashes = f"{dashes.rstrip().removesuffix('|')}{'|-' * missing}|"
    return f"{header}\n{dashes}\n{rows}"


def _code(column: int, line: Text) -> Text:
    return Text(" " * column + CODE_INDENT).append_text(line) if line.plain else line


class MarkdownStream:
    """Text of one answer in, finished lines out."""

    def __init__(self, columns: int, *, color: bool = True) -> None:
        self._splitter = BlockSplitter()
        self._renderer = BlockRenderer(columns, color=color)
        self._tail: list[str] | None = []

    def feed(self, text: str) -> list[str]:
        """Return the lines that `text` has finished; each is returned once."""
        self._tail = None
        return self._render(self._splitter.feed(text))

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
