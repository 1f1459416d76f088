"""A view: a list with details, or a text, that is looked at and leaves nothing behind.

`ViewState` is what is shown of one, what the keys do to it, and its rows for a window; `app/view_screen` draws it on
the alternate screen. Without menus, the text of a view is printed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rich.text import Text

from agent_cli.shells.terminal.render.ansi import cells, to_ansi, truncate_cells, wrap
from agent_cli.shells.terminal.render.console import MARGIN, STYLES, row_fill, styled
from agent_tools.record import Value

# Columns from which the detail stands beside the list, and rows from which it stands below it.
_SIDE_COLUMNS, _BELOW_ROWS = 110, 18
# Cells of a list beside its detail, of which it gets half of the window at most; and those around its two columns.
_MIN_LIST_CELLS, _AROUND_CELLS = 60, 12
# Keys of every view; a letter of an action precedes them.
KEYS = (
    "up",
    "down",
    "pageup",
    "pagedown",
    "home",
    "end",
    "left",
    "right",
    "enter",
    "escape",
    "backspace",
    "c-c",
    "c-o",
)
Draw = Callable[[int], Sequence[Text]]
# Columns of a view that is printed: its printer wraps the lines.
PRINTED_COLUMNS = 10_000


def is_printed(width: int) -> bool:
    """Return True if a view of this width is printed as text, without what is only to be looked at."""
    return width >= PRINTED_COLUMNS


class ViewItem(Value):
    """A row of the list.

    label: what it is. about: more of it, muted, in a second column. line: the row in a printed list, if it differs.
    mark, style: a symbol before it and its colour.
    section: the heading that it stands under.
    detail: draws more about it, for a number of columns. live: it changes while it is looked at.
    key: what it is called in a view that changes. value: the object that it shows.
    """

    label: str
    about: str = ""
    line: str = ""
    mark: str = " "
    style: str = ""
    section: str = ""
    detail: Draw | None = None
    live: bool = False
    key: str = ""
    value: Any = None


class ViewAction(Value):
    """A key for the opener of the view to act on the chosen item.

    on: returns True for an item that it is offered for; None: for all.
    asks: what the line is that is typed first; "" for none.
    """

    key: str
    label: str
    on: Callable[[int], bool] | None = None
    asks: str = ""

    def suits(self, index: int) -> bool:
        """Return True if the key is offered for an item."""
        return index >= 0 and (self.on is None or self.on(index))


class View(Value):
    """What is shown.

    title: its name. text: drawn above the list, or all there is.
    items: the list. empty: what stands there without items.
    actions: keys of its own; that of "enter" replaces opening the detail.
    whole: the detail is shown in the whole window, as it is long.
    at: the item that is chosen at first. opened: its detail is shown at first.
    note: what the last action came to. renew: returns the view as it is now; it is asked before each drawing.
    """

    title: str
    text: Draw | None = None
    items: tuple[ViewItem, ...] = ()
    empty: str = ""
    actions: tuple[ViewAction, ...] = ()
    whole: bool = False
    at: int = 0
    opened: bool = False
    note: str = ""
    renew: Callable[[], View] | None = None

    def printed(self, width: int) -> Iterator[Text]:
        """Yield the view as lines for a printed list."""
        if self.text is not None:
            yield from self.text(width)
        section = ""
        for item in self.items:
            if item.section and item.section != section:
                section = item.section
                yield styled(section)
            yield styled(f"{MARGIN}{item.line or '  '.join(filter(None, (item.label, item.about)))}")
        if not self.items and self.empty:
            yield styled(self.empty)


class Chosen(Value):
    """The key of an action, for an item.

    text: the line that was typed. opened: the detail of the item was shown. value: that of the item.
    """

    key: str
    index: int
    text: str = ""
    opened: bool = False
    value: Any = None


class _Listing:
    """The list of a view for a filter.

    shown: indices of the items. rows: indices and headings, as they are drawn. places: rows of the items.
    label, about: cells of the columns. marked: there are marks.
    """

    def __init__(self, view: View, words: str) -> None:
        self.filter = words
        wanted = words.lower().split()
        texts = (f"{item.section} {item.label} {item.about}".lower() for item in view.items)
        self.shown = [index for index, text in enumerate(texts) if all(word in text for word in wanted)]
        self.rows: list[int | str] = []
        self.places: dict[int, int] = {}
        self.label = max((cells(view.items[index].label) for index in self.shown), default=0)
        self.about = max((cells(view.items[index].about) for index in self.shown), default=0)
        self.marked = any(item.mark.strip() for item in view.items)
        section = ""
        for index in self.shown:
            item = view.items[index]
            if item.section and item.section != section:
                section = item.section
                self.rows += [*([""] if self.rows else []), section]
            self.places[index] = len(self.rows)
            self.rows.append(index)


class ViewState:
    """A view as it is being looked at."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.live = view.renew is not None or any(item.live for item in view.items)
        self.filter = ""
        self.filtering = False
        self._asking: ViewAction | None = None
        self._line = ""
        self._at, self._scroll = view.at, 0
        self._open = (not view.items and view.renew is None) or view.opened
        # Nothing but the detail was looked at.
        self._peeking = view.opened
        self._lines: tuple[tuple[int, int], list[Text]] = ((-1, -1), [])
        self._listing: _Listing | None = None
        self._page = 10

    @property
    def shown(self) -> Sequence[int]:
        """The indices of the items that the filter leaves."""
        return self._listed.shown

    @property
    def _listed(self) -> _Listing:
        """The list for the filter of now; there may be thousands of items."""
        if self._listing is None or self._listing.filter != self.filter:
            self._listing = _Listing(self.view, self.filter)
        return self._listing

    @property
    def index(self) -> int:
        """The index of the chosen item; -1 for none."""
        shown = self.shown
        return shown[min(self._at, len(shown) - 1)] if shown else -1

    @property
    def typing(self) -> bool:
        """True while keys are text."""
        return self.filtering or self._asking is not None

    def show_detail(self) -> None:
        """Show the detail of the chosen item."""
        self._open, self._scroll = self.index >= 0 and self.view.items[self.index].detail is not None, 0

    def press(self, key: str) -> Chosen | bool:
        """Take a key. Return the action that was chosen, True if the view is closed, False if it stays."""
        if self._asking is not None:
            return self._write(key, self._asking)
        if self.filtering and self._type(key):
            return False
        action = next((a for a in self.view.actions if a.key == key and a.suits(self.index)), None)
        if action is not None and (not self._open or key != "enter"):
            if action.asks:
                self._asking, self._line = action, ""
                return False
            return self._chosen(key)
        if key in ("escape", "left", "backspace"):
            return self._back(key)
        if key == "/" and self.view.items:
            self._open, self.filtering = False, True
        elif key in ("enter", "right") and not self._open:
            self.show_detail()
        elif key in ("n", "p", "c-o") and self.view.items:
            self._move(1 if key == "n" else -1)
            self._scroll = 0
        else:
            self._go(key)
        return key in ("q", "c-c")

    def _back(self, key: str) -> bool:
        """Go back from the detail to the list, and from what the filter leaves to all; return True to close."""
        if self._open and self.view.items and not (key == "escape" and self._peeking):
            self._open, self._scroll = False, 0
        elif self.filter and not self._open:
            self.filter, self._at = "", 0
        else:
            return key == "escape"
        self._peeking = False
        return False

    def _type(self, key: str) -> bool:
        """Change the filter; return False for a key that is none of it."""
        if key == "escape":
            self.filter, self.filtering = "", False
        elif key == "enter":
            self.filtering = False
        elif (changed := _edited(self.filter, key)) is not None:
            self.filter = changed
        else:
            return False
        self._at = 0
        return True

    def _write(self, key: str, action: ViewAction) -> Chosen | bool:
        """Change the line of an action; Enter chooses the action, unless the line is empty."""
        if key in ("escape", "c-c"):
            self._asking = None
        elif key == "enter" and self._line.strip():
            self._asking = None
            return self._chosen(action.key, self._line.strip())
        elif (changed := _edited(self._line, key)) is not None:
            self._line = changed
        return False

    def _chosen(self, key: str, text: str = "") -> Chosen:
        value = self.view.items[self.index].value if self.index >= 0 else None
        return Chosen(key, self.index, text, self._open, value)

    def _renew(self) -> None:
        """Show the view as it is now, with the same item chosen. While a line is typed, what it is about stays."""
        before, renew = self.view, self.view.renew
        if renew is None or self._asking is not None or (now := renew()) is before:
            return
        key = before.items[self.index].key if self.index >= 0 else ""
        self.view, self._listing, self._lines = now, None, ((-1, -1), [])
        keys = [now.items[index].key for index in self.shown]
        if key in keys:
            self._at = keys.index(key)
        else:
            self._open = self._open and not before.items

    def _go(self, key: str) -> None:
        steps = {"up": -1, "k": -1, "down": 1, "j": 1, "pageup": -self._page, "pagedown": self._page, " ": self._page,
                 "home": -1_000_000, "g": -1_000_000, "end": 1_000_000, "G": 1_000_000}  # fmt: skip
        if (step := steps.get(key)) is None:
            return
        if self._open:
            self._scroll = max(0, self._scroll + step)
        else:
            self._move(step)

    def _move(self, step: int) -> None:
        last = len(self.shown) - 1
        self._at = max(0, min(self._at, last) + step) if step < 0 else min(self._at + step, max(last, 0))

    # Drawing.

    def rows(self, width: int, height: int) -> list[str]:
        """Return the rows of a window, as many as it has."""
        self._renew()
        head = [self._title(width), styled("─" * width, "dim")]
        foot = [styled("─" * width, "dim"), self._keys(width)] if height > 8 else [self._keys(width)]
        room = max(1, height - len(head) - len(foot))
        self._page = max(1, room - 1)
        body = self._body(width, room)[:room]
        body += [Text()] * (room - len(body))
        return [_row(line, width) for line in (*head, *body, *foot)]

    def _title(self, width: int) -> Text:
        view, shown = self.view, self.shown
        title = Text().append_text(styled(view.title, "tool"))
        item = view.items[self.index] if self._open and self.index >= 0 else None
        if item is not None:
            title.append_text(styled(f" · {item.label}"))
        count = f"{min(self._at, len(shown) - 1) + 1} of {len(shown)}" if shown else ""
        if view.note:
            title.append_text(styled(f"  {view.note}", "accent"))
            title.truncate(max(width - len(count) - 2, 1), overflow="ellipsis")
        if self.filter or self.filtering:
            title.append_text(styled(f"  /{self.filter}{'▏' * self.filtering}", "accent"))
        room = width - title.cell_len - len(count)
        return title.append(" " * room).append_text(styled(count, "dim")) if room > 1 else title

    def _keys(self, width: int) -> Text:
        view, index = self.view, self.index
        if self._asking is not None:
            line = Text().append_text(styled(f"{self._asking.asks}: ", "accent"))
            hints = _key("Enter", "send").append_text(styled(" · ", "dim")).append_text(_key("Esc", "back"))
            room = max(width - line.cell_len - hints.cell_len - 4, 8)
            # The end of a long line is what is being typed.
            line.append(f"{self._line[-room:]}▏  ")
            return line.append_text(hints)
        if self.filtering:
            keys = [("Enter", "keep"), ("Esc", "all")]
        else:
            keys = [("↑↓", "scroll" if self._open else "move")]
            own = [(a.key.capitalize() if len(a.key) > 1 else a.key, a.label) for a in view.actions
                   if a.suits(index) and not (self._open and a.key == "enter")]  # fmt: skip
            opens = not self._open and index >= 0 and view.items[index].detail and not any(k == "Enter" for k, _ in own)
            keys += [("Enter", "open")] if opens else []
            keys += own
            keys += [("n p", "next, previous")] if self._open and len(view.items) > 1 else []
            keys += [("/", "filter")] if len(view.items) > 5 and not self._open else []
            keys += [("←", "all")] if self._open and view.items else []
            keys += [("q", "close")]
        *others, last = [_key(*key) for key in keys]
        line = Text()
        for part in others:
            # The key that closes the view is always there.
            if line.cell_len + part.cell_len + last.cell_len + 6 > width:
                break
            line.append_text(part).append_text(styled(" · ", "dim"))
        return line.append_text(last)

    def _body(self, width: int, room: int) -> list[Text]:
        view = self.view
        if self._open:
            lines = self._detail(width)
            self._scroll = max(0, min(self._scroll, len(lines) - room))
            return lines[self._scroll : self._scroll + room]
        above = list(view.text(width)) if view.text is not None else []
        above = [*above[: max(0, room - 4)], Text()] if above else []
        room -= len(above)
        if not self.shown:
            return [*above, styled(view.empty if not view.items else "nothing matches", "dim")]
        detailed = view.items[self.index].detail is not None and not view.whole
        if detailed and width >= _SIDE_COLUMNS:
            left = min(max(self._listed.label + self._listed.about + _AROUND_CELLS, _MIN_LIST_CELLS), width // 2)
            return [*above, *_beside(self._list(left - 2, room), self._detail(width - left), left, room)]
        if detailed and room >= _BELOW_ROWS - 4:
            # The detail has at most half of the rows, and stays where it is while the list is walked through.
            rows = self._list(width, room - room // 2 - 1)
            return [*above, *rows, styled("─" * width, "dim"), *self._detail(width)[: room - len(rows) - 1]]
        return [*above, *self._list(width, room)]

    def _detail(self, width: int) -> list[Text]:
        """Return the lines of the chosen item, or of a view without items."""
        where = self.index, width
        item = self.view.items[where[0]] if where[0] >= 0 else None
        if self._lines[0] != where or (item is not None and item.live):
            draw = item.detail if item is not None else self.view.text
            self._lines = where, list(draw(width)) if draw is not None else []
        return self._lines[1]

    def _list(self, width: int, room: int) -> list[Text]:
        """Return rows of the list around the chosen item, below the headings of their sections."""
        listed, chosen = self._listed, self.index
        # What comes after a label leaves it two fifths of the row at least.
        column = min(listed.label, max(width - listed.about - 8, width * 2 // 5)) + 4
        first = max(0, min(listed.places[chosen] - room // 2, len(listed.rows) - room))
        return [
            styled(row, "tool")
            if isinstance(row, str)
            else _item_row(self.view.items[row], column, width, chosen=row == chosen, marked=listed.marked)
            for row in listed.rows[first : first + room]
        ]


def _edited(text: str, key: str) -> str | None:
    """Return a text after a key; None for a key that does not change it."""
    if key == "backspace":
        return text[:-1]
    return text + key if len(key) == 1 and key.isprintable() else None


def _key(key: str, label: str) -> Text:
    return Text().append_text(styled(key, "accent")).append_text(styled(f" {label}", "dim"))


def _item_row(item: ViewItem, column: int, width: int, *, chosen: bool, marked: bool) -> Text:
    """Return a row of the list. column: cells of the labels and the space behind. marked: there are marks."""
    label = "accent" if chosen else ""
    row = Text().append_text(styled("❯ " if chosen else "  ", "accent"))
    if marked:
        row.append_text(styled(f"{item.mark} ", item.style))
    before, room = row.cell_len, width - row.cell_len
    if not item.about:
        return row.append_text(styled(truncate_cells(item.label, room), label))
    row.append_text(styled(truncate_cells(item.label, min(column - 4, room)), label))
    pad = max(column - 2 - (row.cell_len - before), 2)
    rest = truncate_cells(item.about, width - row.cell_len - pad)
    return row.append(" " * pad).append_text(styled(rest, "dim")) if rest else row


def _beside(left: list[Text], right: list[Text], width: int, room: int) -> list[Text]:
    """Return a list with the detail beside it."""
    rows = []
    for number in range(max(len(left), min(len(right), room))):
        row = left[number].copy() if number < len(left) else Text()
        row.append(" " * max(width - 2 - row.cell_len, 0)).append_text(styled("│ ", "dim"))
        rows.append(row.append_text(right[number]) if number < len(right) else row)
    return rows


def _row(line: Text, width: int) -> str:
    """Return a line as it is drawn; one with a background fills its row."""
    if row_fill(line):
        line = line.copy()
        line.append(" " * max(width - line.cell_len, 0))
    if line.cell_len > width:
        line = line.copy()
        line.truncate(width)
    return to_ansi(line)


def prose_lines(text: str, width: int, style: str = "") -> list[Text]:
    """Return a text wrapped at spaces, each line with its own indentation."""
    rows: list[Text] = []
    for line in text.split("\n"):
        indent = " " * min(len(line) - len(line.lstrip(" ")), width // 2)
        found = wrap(styled(line.strip(), style), max(width - len(indent), 8))
        rows += [Text(indent).append_text(row) for row in found] or [Text()]
    return rows


def bar(shares: Sequence[tuple[float, str]], whole: float, width: int) -> Text:
    """Draw numbers with their styles as a bar of blocks; each that is not 0 gets one at least."""
    line, left = Text(), width
    for number, style in shares:
        size = min(left, max(1, round(width * number / (whole or 1)))) if number else 0
        line.append("█" * size, STYLES.get(style, style))
        left -= size
    return line.append("░" * left, STYLES["dim"])
