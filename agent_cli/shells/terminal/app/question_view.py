"""Draw an open question in the place of the input line, and hold its state: what is chosen, marked, explained.

From top to bottom: a rule, the question, what is decided, at most two rows of facts, the choices, and one row of keys.
What is decided is shown whole or not at all: if it does not fit, it is written above before (`written`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from agent_cli.shells.terminal.dialogs.lines import block_lines, body_lines, detail_lines, dialog_lines, wrapped_line
from agent_cli.shells.terminal.dialogs.model import EXPLAIN, VIEW, Choice, Dialog, Pick, TextInput
from agent_cli.shells.terminal.render.ansi import to_ansi, wrap
from agent_cli.shells.terminal.render.console import STYLES, row_fill, styled
from agent_tools.lookalikes import escape_lookalikes
from agent_tools.text import counted, one_line

MAX_TITLE_ROWS, MAX_ABOUT_ROWS, MAX_FACT_ROWS = 3, 2, 2
# Lines of a longer text that are written before a question: the first and the last ones.
MAX_WRITTEN_LINES, END_LINES = 400, 100
# Rows of a window from which blank rows separate the parts.
_ROOMY_ROWS = 20
# Rows from which on there is no rule.
_LOW_ROWS = 5


class QuestionView:
    """The rows of a dialog.

    chosen: index of the highlighted choice.
    marked: indices of the marked choices, if several may be taken.
    explained: why it is asked and what each choice allows is shown.
    written: number of lines of the body that were written above the question; 0 if it is shown in it.
    """

    def __init__(self, dialog: Dialog) -> None:
        self.dialog = dialog
        self.chosen = 0
        self.marked: set[int] = set()
        # A number was pressed last, so that a space behind it separates it from the next one.
        self.numbered = False
        self.explained = False
        self.written = 0
        self._bodies: dict[int, list[Text]] = {}
        self._wrapped: dict[tuple[int, ...], list[Text]] = {}

    @property
    def choices(self) -> tuple[Choice, ...]:
        """The choices of the list."""
        if not self.explained:
            return self.dialog.listed
        return tuple(choice for choice in self.dialog.choices if choice.listed or choice.rare)

    @property
    def choice(self) -> Choice | None:
        """The highlighted choice."""
        return self.choices[self.chosen] if self.choices else None

    @property
    def text_input(self) -> TextInput | None:
        """Return the text input of the highlighted choice: a comment on it, or the answer itself."""
        choice = self.choice
        if choice is None or choice.comment is not None:
            return choice.comment if choice is not None else None
        return choice.act if isinstance(choice.act, TextInput) else None

    def by_key(self, key: str) -> Choice | None:
        """Return the choice for a key: a digit is its place in the list; a free `y` takes the chosen one."""
        if key.isdecimal():
            return self.choices[int(key) - 1] if 0 < int(key) <= len(self.choices) else None
        return self.dialog.by_key(key) or (self.choice if key == "y" else None)

    def is_grave(self, key: str) -> bool:
        """Return True if a key answers only once the question was seen."""
        choice = self.by_key(key)
        return key.isalnum() and (self.dialog.grave or (choice is not None and choice.grave))

    def move(self, step: int) -> None:
        """Move the highlight."""
        self.numbered = False
        self.chosen = (self.chosen + step) % max(len(self.choices), 1)

    def explain(self) -> None:
        """Show or hide why it is asked and what each choice allows."""
        chosen, self.explained = self.choice, not self.explained
        self.chosen = self.choices.index(chosen) if chosen in self.choices else 0

    def highlight(self, key: str) -> None:
        """Highlight the choice of a key, if it is in the list."""
        self.numbered = False
        choice = self.by_key(key)
        if choice in self.choices:
            self.chosen = self.choices.index(choice)

    def mark(self) -> None:
        """Mark or unmark the highlighted choice; only numbered ones can be combined."""
        if self.numbered:
            self.numbered = False
        elif self.choice is not None and self.choice.key.isdecimal():
            self.marked ^= {self.chosen}

    def whole(self, console: Console) -> str:
        """Return the whole question as plain text for a pager."""
        lines = dialog_lines(self.dialog, console, explained=True)
        return "\n".join(line.plain.rstrip() for line in lines)

    def body(self, console: Console, width: int) -> list[Text]:
        """Return the rows of what is decided; cached, as they are slow to compute."""
        if width not in self._bodies:
            dialog = self.dialog
            # A question of its own has its subject as the title.
            lead = block_lines(dialog.title, console) if self.asks != dialog.title.text and not dialog.asks else ()
            # Text is wrapped for the rows of the question, which leave the last column free.
            whole, console.width = console.width, width
            try:
                lines = [*lead, *body_lines(dialog, console)]
            finally:
                console.width = whole
            self._bodies[width] = [row for line in lines for row in wrapped_line(line, width)]
        return self._bodies[width]

    def to_write(self, console: Console, width: int) -> Iterator[Text]:
        """Yield the rows to write above the question; of a very long text the first and the last ones."""
        rows = self.body(console, width)
        if self.dialog.asks:
            yield styled(one_line(self.dialog.title.text), "tool")
        if len(rows) <= MAX_WRITTEN_LINES:
            yield from rows
            return
        yield from rows[: MAX_WRITTEN_LINES - END_LINES]
        yield styled(f"  ... {len(rows) - MAX_WRITTEN_LINES:,} lines are not shown here ({VIEW} shows all) ...", "ask")
        yield from rows[-END_LINES:]

    def fits(self, console: Console, width: int, room: int) -> bool:
        """Return True if the body fits between the question and its choices."""
        body = self.body(console, width)
        choices = sum(len(self._choice_rows(number, width, detailed=False)) for number in range(len(self.choices)))
        fixed = 1 + len(self._title(width)) + len(self._facts(width)) + choices
        return not body or (not self.dialog.whole and fixed + len(body) <= room)

    def rows(
        self, console: Console, width: int, room: int, *, replying: bool = False, away: bool = False
    ) -> tuple[list[str], int]:
        """Return at most `room` rows with SGR sequences, and the row of the highlighted choice.

        replying: the line holds a reply. away: keys go to the draft.
        """
        roomy = room >= _ROOMY_ROWS
        title, facts = self._title(width), self._facts(width)
        body = [] if self.written else list(self.body(console, width))
        if self.explained:
            body = [row for line in self._reasons(console) for row in wrapped_line(line, width)]
        rule = [Text("─" * width, STYLES["accent"])] if room > _LOW_ROWS else []
        title = title if rule else title[:1]
        left = max(room - len(rule) - len(title), 0)
        choices = self._choices(width, left - len(facts) - len(body), max(left - 1, 1), dim=replying or away)
        listed = [row for rows in choices for row in rows]
        if len(body) + len(facts) + len(listed) > left:
            body = _cut(body, max(left - len(facts) - len(listed), 1))
        if len(body) + len(facts) + len(listed) > left:
            facts = facts[:1]
        at = sum(map(len, choices[: self.chosen]))
        if len(listed) > (most := max(left - len(body) - len(facts), 1)):
            first = max(0, min(at - most // 2, len(listed) - most), at + len(choices[self.chosen]) - most)
            listed, at = listed[first : first + most], at - first
        spare = left - len(body) - len(facts) - len(listed) if roomy else 0
        gap: list[Text] = [Text()]
        above = gap if spare and (body or facts) else []
        between = gap if spare > 1 and listed and (body or facts) else []
        top = [*rule, *title, *above, *body, *facts, *between]
        texts = [*top, *listed][: max(room, 1)]
        for text in texts:
            text.truncate(width)
            if row_fill(text):
                text.append(" " * (width - text.cell_len))
        return [to_ansi(text, color=not console.no_color) for text in texts], min(len(top) + at, len(texts) - 1)

    @property
    def asks(self) -> str:
        """The question as a sentence."""
        dialog = self.dialog
        own = dialog.question if dialog.from_command and not isinstance(dialog.words, Pick) else ""
        return (dialog.asks or own or dialog.title.text).replace("\n", " ")

    def _title(self, width: int) -> list[Text]:
        """Return the rows of the question, with what is said about it behind it or below."""
        dialog = self.dialog
        title = wrap(styled(self.asks, "tool"), width)[:MAX_TITLE_ROWS]
        written = f"{counted(self.written, 'line')} above" if self.written else ""
        about = " · ".join(filter(None, (written, dialog.about)))
        if about:
            text = styled(f" · {about}", "dim")
            if title and title[-1].cell_len + text.cell_len <= width:
                title[-1] = Text().append_text(title[-1]).append_text(text)
            else:
                title += wrap(styled(about, "dim"), width)[:MAX_ABOUT_ROWS]
        return title

    def _facts(self, width: int) -> list[Text]:
        """Return what to know before the answer, in a row or two; the rest is behind the key that explains."""
        text = styled(" · ".join(map(escape_lookalikes, self.dialog.warnings)), "ask")
        rows = [Text("  ").append_text(row) for row in wrap(text, width - 2)]
        if len(rows) > MAX_FACT_ROWS:
            more = f"… ({EXPLAIN} for more)"
            rows[MAX_FACT_ROWS - 1].truncate(width - len(more))
            rows[MAX_FACT_ROWS - 1].append(more)
        return rows[:MAX_FACT_ROWS]

    def _reasons(self, console: Console) -> Iterator[Text]:
        """Yield why it is asked, and what is known about it."""
        yield from detail_lines(self.dialog, console)

    def _choices(self, width: int, room: int, most: int, *, dim: bool) -> list[list[Text]]:
        """Return the rows of each choice, wrapped by words.

        Without room for their descriptions, only the highlighted one has its own, or none. What a choice allows is
        whole, unless it takes more rows than there may be at most.
        """
        numbers = range(len(self.choices))
        bare = [self._choice_rows(n, width, detailed=False, dim=dim) for n in numbers]
        full = [self._choice_rows(n, width, dim=dim) if self._described(n) else bare[n] for n in numbers]
        one = [full[n] if n == self.chosen else bare[n] for n in numbers]
        found = next((rows for rows in (full, one) if sum(map(len, rows)) <= room), bare)
        return [rows if len(rows) <= most else _cut_middle(rows, most, width) for rows in found]

    def _choice_rows(self, number: int, width: int, *, detailed: bool = True, dim: bool = False) -> list[Text]:
        """Return the rows of a choice; kept, as a label may have a whole command."""
        state = number == self.chosen, number in self.marked, self.explained, detailed, dim
        if (key := (number, width, *state)) not in self._wrapped:
            row = self._choice_row(number, detailed=detailed, dim=dim)
            self._wrapped[key] = wrapped_line(row, width, min(5, width // 2))
        return self._wrapped[key]

    def _described(self, number: int) -> str:
        """Return what is said about a choice behind its label."""
        choice = self.choices[number]
        return choice.why if self.explained and choice.why else choice.detail

    def _choice_row(self, number: int, *, detailed: bool, dim: bool) -> Text:
        """Return a choice as one line. detailed: with its description."""
        choice, chosen = self.choices[number], number == self.chosen
        box = ("[x] " if number in self.marked else "[ ] ") if self.dialog.several and choice.key.isdecimal() else ""
        text = Text(f"{'❯' if chosen else ' '} ", STYLES["accent"] if chosen and not dim else "")
        text.append(f"{choice.key:<2} ", "dim" if dim else STYLES["accent"]).append(box)
        style = "dim" if dim else "bold" if chosen else ""
        text.append_text(Text(style=style).append_text(styled(one_line(choice.label))))
        if detailed and (more := self._described(number)):
            text.append_text(styled(f" · {one_line(more)}", "dim"))
        return text

    def keys(self, width: int, *, replying: bool, away: bool) -> Text:
        """Return the keys in one row; in a narrow window the most useful ones. away: keys go to the draft."""
        dialog = self.dialog
        # Text, text for a narrow window, and rank; parts of the highest rank are dropped first.
        parts: list[tuple[str, str, int]]
        if isinstance(dialog.words, Pick):
            parts = [("type to filter", "type to filter", 2), ("↑↓ Enter", "Enter", 1), ("Esc cancel", "Esc", 1)]
        elif replying:
            back = "Esc cancel" if dialog.from_command else "Esc back"
            parts = [("Enter send", "Enter send", 1), (back, back, 1)]
        elif away:
            parts = [("Enter queues your message", "Enter queue", 1), ("↓ back to the question", "↓ question", 1)]
        else:
            parts = [("Space mark", "Space mark", 2)] if dialog.several else []
            parts.append(("↑↓ Enter", "Enter", 1) if self.choices else ("Enter answer", "Enter", 1))
            if self.choice is not None and self.choice.comment is not None:
                parts.append(("Tab add words", "Tab words", 4))
            comments = [c.comment for c in dialog.choices if c.comment is not None]
            parts += [
                (f"{c.key} {c.label}", f"{c.key} {c.short or c.label}", 3)
                for c in dialog.choices
                if not c.listed and not c.rare and c.key != dialog.escape and c.act not in comments
            ]
            if dialog.details:
                parts.append((f"{EXPLAIN} {'less' if self.explained else 'more'}", f"{EXPLAIN} more", 3))
            if self.written > MAX_WRITTEN_LINES:
                parts.append((f"{VIEW} show all", f"{VIEW} all", 2))
            out = dialog.by_key(dialog.escape)
            word = f"Esc {(out.short or out.label).split(',')[0].lower()}" if out else "Esc cancel"
            parts.append((word, word, 1))
        return styled(_join_fitting(parts, width), "dim")


def _join_fitting(parts: Sequence[tuple[str, str, int]], width: int) -> str:
    """Join the parts in their order: in full, in short, or those that fit by their rank."""
    left = list(parts)
    while True:
        for row in (" · ".join(part[0] for part in left), " · ".join(part[1] for part in left)):
            if styled(row).cell_len <= width - 2 or len(left) == 1:
                return f"  {row}"
        left.remove(max(reversed(left), key=lambda part: part[2]))


def _cut_middle(rows: list[Text], most: int, width: int) -> list[Text]:
    """Return the first and the last rows of a choice, with a sign between them."""
    end = most // 2
    *first, last = rows[: most - end]
    last = last.copy()
    last.truncate(width - 1)
    return [*first, last.append("…"), *rows[len(rows) - end :]]


def _cut(rows: list[Text], most: int) -> list[Text]:
    """Return the first rows, with a row that tells how many are left out."""
    if len(rows) <= most:
        return rows
    if most < 2:
        return rows[:most]
    left = len(rows) - most + 1
    return [*rows[: most - 1], styled(f"  ... {counted(left, 'more line')} ({VIEW} shows all)", "dim")]
