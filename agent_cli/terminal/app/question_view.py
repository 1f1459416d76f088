"""Draw an open question in the rows that the window has for it, and keep what is chosen, marked and expanded.

What is asked, what matters and the choices always show; the body is folded in the middle, and a key shows all of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from agent_cli.terminal.dialogs.lines import body_lines, detail_lines, dialog_lines, wrapped_line
from agent_cli.terminal.dialogs.model import EXPLAIN, VIEW, Choice, Dialog, Pick
from agent_cli.terminal.render.ansi import to_ansi, wrap
from agent_cli.terminal.render.console import styled
from agent_tools.lookalikes import visible
from agent_tools.text import counted, one_line

# Rows of a title that stay on the screen; what is longer belongs to the body.
TITLE = 3
# Rows of what matters, and rows that a body has at least where there is room for all else.
WARNINGS, LEAST = 2, 3


class QuestionView:
    """The rows of a dialog.

    chosen: index of the highlighted choice.
    marked: indices of the choices taken, where several may be.
    explained: the computed facts show as well.
    folded: the last rows left something out.
    """

    def __init__(self, dialog: Dialog) -> None:
        self.dialog = dialog
        self.chosen = 0
        self.marked: set[int] = set()
        self.explained = False
        self.folded = False
        self._cached: dict[tuple[int, bool], tuple[list[Text], list[Text]]] = {}

    @property
    def choice(self) -> Choice | None:
        """The highlighted choice."""
        return self.dialog.listed[self.chosen] if self.dialog.listed else None

    def move(self, step: int) -> None:
        """Move the highlight."""
        self.chosen = (self.chosen + step) % max(len(self.dialog.listed), 1)

    def mark(self) -> None:
        """Take the highlighted choice among several, or leave it again; only the numbered ones can be combined."""
        if self.choice is not None and self.choice.key.isdecimal():
            self.marked ^= {self.chosen}

    def whole(self, console: Console) -> str:
        """Return all of the question, as plain text for a pager."""
        lines = dialog_lines(self.dialog, console, explained=True)
        return "\n".join(line.plain.rstrip() for line in lines)

    def fits_explained(self, console: Console, width: int, room: int) -> bool:
        """Return True if all of it fits into the window."""
        lead, body = self._texts(console, width, explained=True)
        return len(lead) + len(body) + len(self.dialog.listed) + WARNINGS + 1 <= room

    def rows(self, console: Console, width: int, room: int, window: int, *, replying: bool = False) -> list[str]:
        """Return at most `room` rows with SGR sequences. window: height of the window."""
        lead, body = self._texts(console, width, explained=self.explained)
        warnings = self._warnings(width)
        keys = [self._keys(width, replying=replying)]
        choices = [self._choice_rows(number, width) for number in range(len(self.dialog.listed))]
        if sum(map(len, choices)) > room - len(lead) - len(warnings) - len(keys) - min(len(body), LEAST):
            choices = [_one(rows, width) for rows in choices]
        least, cut = min(len(body), 1), False
        if len(lead) + least + len(warnings) + len(choices) + len(keys) > room:
            cut, lead, warnings = len(lead) > 1 or len(warnings) > 1, lead[:1], warnings[:1]
        if len(lead) + least + len(warnings) + len(choices) + len(keys) > room:
            keys = []
        listed = [row for rows in choices for row in rows]
        left = room - len(lead) - least - len(warnings) - len(keys)
        if len(listed) > left:
            first = max(0, min(self.chosen - left // 2, len(listed) - max(left, 1)))
            listed = listed[first : first + max(left, 1)]
        budget = max(room - len(lead) - len(warnings) - len(listed) - len(keys), least)
        if not self.explained:
            budget = min(budget, max(LEAST, window // 3))
        self.folded = len(body) > budget
        shown = [*lead, *(_fold(body, budget) if self.folded else body), *warnings, *listed]
        self.folded = self.folded or cut
        if keys and self.folded:
            keys = [self._keys(width, replying=replying)]
        return [to_ansi(row, color=not console.no_color) for row in (*shown, *keys)][: max(room, 1)]

    def _texts(self, console: Console, width: int, *, explained: bool) -> tuple[list[Text], list[Text]]:
        """Return the rows of the title and of the body; both cost something to make."""
        if (width, explained) not in self._cached:
            dialog = self.dialog
            title = wrap(styled(dialog.title.text.replace("\n", " "), dialog.title.style or "ask"), width)
            if dialog.about:
                about = styled(f"   · {dialog.about}", "dim")
                if title and title[-1].cell_len + about.cell_len <= width:
                    title[-1] = Text().append_text(title[-1]).append_text(about)
                else:
                    title += wrap(styled(f"  {dialog.about}", "dim"), width)
            lines = [*body_lines(dialog, console), *(detail_lines(dialog, console) if explained else ())]
            rows = [row for line in lines for row in wrapped_line(line, width)]
            self._cached[width, explained] = title[:TITLE], [*title[TITLE:], *rows]
        return self._cached[width, explained]

    def _warnings(self, width: int) -> list[Text]:
        """Return what matters in a row or two; what does not fit is behind the key that explains."""
        text = styled(" · ".join(map(visible, self.dialog.warnings)), "ask")
        rows = [Text("  ").append_text(row) for row in wrap(text, width - 2)]
        if len(rows) > WARNINGS:
            more = f"… ({EXPLAIN} for more)"
            rows[WARNINGS - 1].truncate(width - len(more))
            rows[WARNINGS - 1].append(more)
        return rows[:WARNINGS]

    def _choice_rows(self, number: int, width: int) -> list[Text]:
        choice, chosen = self.dialog.listed[number], number == self.chosen
        box = ("[x] " if number in self.marked else "[ ] ") if self.dialog.several and choice.key.isdecimal() else ""
        head = f"{'❯' if chosen else ' '} {number + 1}. {box}"
        style = "bold" if chosen else ""
        text = Text(head, style).append_text(styled(one_line(choice.label)))
        text.stylize(style)
        if choice.detail:
            text.append_text(styled(f" - {one_line(choice.detail)}", "dim"))
        return wrapped_line(text, width, min(len(head), width // 2))

    def _keys(self, width: int, *, replying: bool) -> Text:
        """Return the keys in one row; in a narrow window the most useful ones."""
        dialog = self.dialog
        if isinstance(dialog.words, Pick):
            parts = [("type to filter", 3), ("↑↓", 2), ("Enter", 1), ("Esc cancel", 1)]
        elif replying:
            parts = [("Enter send", 1), ("Esc back" if not dialog.own else "Esc cancel", 1)]
        else:
            parts = [("Space mark", 2)] if dialog.several else []
            parts.append(("Enter choose" if dialog.listed else "Enter answer", 1))
            if self.choice is not None and self.choice.comment is not None:
                parts.append(("Tab add a comment", 4))
            comments = [c.comment for c in dialog.choices if c.comment is not None]
            parts += [
                (f"{c.key} {c.label}", 5)
                for c in dialog.choices
                if not c.listed and c.key != dialog.escape and c.act not in comments
            ]
            if dialog.details:
                parts.append((f"{EXPLAIN} explain" if not self.explained else f"{EXPLAIN} less", 3))
            if self.folded:
                parts.append((f"{VIEW} view all", 2))
            out = dialog.by_key(dialog.escape)
            parts.append((f"Esc {one_line(out.label).split(',')[0].lower()}" if out else "Esc cancel", 1))
        return styled(_fitting(parts, width), "dim")


def _one(rows: list[Text], width: int) -> list[Text]:
    """Return the first row, with an ellipsis where there are more."""
    first = rows[0].copy()
    if len(rows) > 1:
        first.truncate(width - 1)
        first.rstrip()
        first.append("…")
    return [first]


def _fitting(parts: Sequence[tuple[str, int]], width: int) -> str:
    """Join the parts that fit, by their rank, in their order."""
    left = list(parts)
    while len(left) > 1 and styled(" · ".join(text for text, _ in left)).cell_len > width - 2:
        left.remove(max(reversed(left), key=lambda part: part[1]))
    return "  " + " · ".join(text for text, _ in left)


def _fold(rows: list[Text], budget: int) -> list[Text]:
    """Shorten rows in the middle to `budget`, with a row that says how many are left out."""
    if budget < 2:
        return rows[:budget]
    head = -(-2 * (budget - 1) // 3)
    tail = budget - 1 - head
    left = len(rows) - head - tail
    more = styled(f"  ... {counted(left, 'more line')} ({VIEW} views all)", "dim")
    return [*rows[:head], more, *(rows[-tail:] if tail else ())]
