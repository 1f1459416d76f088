"""Finished blocks of markdown as lines for a terminal, each rendered once, and the unfinished end as a few rows.

A line is text with SGR sequences that this program wrote and no others. Code is indented by two blanks and neither
boxed nor wrapped, so that a copied line is the line; prose is wrapped at words. One blank line stands between blocks.
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

    color: False leaves bold, italic and underline, and shows by signs what colours show otherwise.
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
        """What follows is wrapped for a terminal of so many columns, and never wider than can be read well."""
        self.width = max(1, min(columns - 1, WIDEST))

    def render(self, block: Block) -> list[str]:
        """The lines of the block, with a blank one before them where one belongs. Each block is rendered once."""
        lines = [to_ansi(line, color=self._color) for line in self._lines(block)]
        opens = block.kind == "fence_open"
        if self._begun and not block.joined and (lines or opens):
            lines.insert(0, "")
        self._begun = self._begun or bool(lines) or opens
        return lines

    def tail(self, blocks: list[Block]) -> list[str]:
        """The last rows of what is not finished, none wider than the terminal."""
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
        """A table, or more rows of the one before, in the columns that its first rows settled."""
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
    """A table whose header has a cell for every cell of its rows: those that have none would be left out."""
    header, dashes = head.split("\n")
    missing = max(len(cells_of(row)) for row in rows.split("\n")) - len(cells_of(header))
    if missing > 0:
        header = f"{header.rstrip().removesuffix('|')}{'| ' * (missing + 1)}"
        dashes = f"{dashes.rstrip().removesuffix('|')}{'|-' * missing}|"
    return f"{header}\n{dashes}\n{rows}"


def _code(column: int, line: Text) -> Text:
    return Text(" " * column + CODE_INDENT).append_text(line) if line.plain else line


class MarkdownStream:
    """Text of one answer as it comes, lines as they are finished."""

    def __init__(self, columns: int, *, color: bool = True) -> None:
        self._splitter = BlockSplitter()
        self._renderer = BlockRenderer(columns, color=color)
        self._tail: list[str] | None = []

    def feed(self, text: str) -> list[str]:
        """The lines that `text` has finished; each is given once."""
        self._tail = None
        return self._render(self._splitter.feed(text))

    def finish(self) -> list[str]:
        """The lines that were still open."""
        self._tail = []
        return self._render(self._splitter.finish())

    def tail(self) -> list[str]:
        """A few rows of what is not finished; computed anew only after more text has come."""
        if self._tail is None:
            self._tail = self._renderer.tail(self._splitter.tail())
        return self._tail

    def resize(self, columns: int) -> None:
        """The terminal has another width now."""
        self._renderer.resize(columns)
        self._tail = None

    def _render(self, blocks: list[Block]) -> list[str]:
        return [line for block in blocks for line in self._renderer.render(block)]
