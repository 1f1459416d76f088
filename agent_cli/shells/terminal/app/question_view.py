"""Draw an open question in the available rows, and hold its state: the chosen, marked and expanded parts.

The title, warnings and choices are always shown; the body is folded in the middle, and a key shows all of it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from agent_cli.shells.terminal.dialogs.lines import body_lines, detail_lines, dialog_lines, wrapped_line
from agent_cli.shells.terminal.dialogs.model import EXPLAIN, VIEW, Choice, Dialog, Pick, TextInput
from agent_cli.shells.terminal.render.ansi import to_ansi, wrap
from agent_cli.shells.terminal.render.console import styled
from agent_tools.lookalikes import escape_lookalikes
from agent_tools.text import counted, one_line

# Rows of a title; the rest of a longer one is part of the body.
MAX_TITLE_ROWS = 3
# Maximum rows of warnings, and minimum rows of the body if everything else fits.
MAX_WARNING_ROWS, MIN_BODY_ROWS = 2, 3


class QuestionView:
    """The rows of a dialog.

    chosen: index of the highlighted choice.
    marked: indices of the marked choices, if several may be taken.
    explained: the computed facts are shown too.
    folded: the last rows were incomplete.
    """

    def __init__(self, dialog: Dialog) -> None:
        self.dialog = dialog
        self.chosen = 0
        self.marked: set[int] = set()
        # A number was pressed last, so that a space behind it separates it from the next one.
        self.numbered = False
        self.explained = False
        self.folded = False
        self._cached: dict[tuple[int, bool], tuple[list[Text], list[Text]]] = {}

    @property
    def choice(self) -> Choice | None:
        """The highlighted choice."""
        return self.dialog.listed[self.chosen] if self.dialog.listed else None

    @property
    def text_input(self) -> TextInput | None:
        """Return the text input of the highlighted choice: a comment on it, or the answer itself."""
        choice = self.choice
        if choice is None or choice.comment is not None:
            return choice.comment if choice is not None else None
        return choice.act if isinstance(choice.act, TextInput) else None

    def move(self, step: int) -> None:
        """Move the highlight."""
        self.numbered = False
        self.chosen = (self.chosen + step) % max(len(self.dialog.listed), 1)

    def highlight(self, key: str) -> None:
        """Highlight the choice of a key, if it is in the list."""
        self.numbered = False
        choice = self.dialog.by_key(key)
        if choice in self.dialog.listed:
            self.chosen = self.dialog.listed.index(choice)

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

    def fits_explained(self, console: Console, width: int, room: int) -> bool:
        """Return True if the question with its facts fits into the window."""
        lead, body = self._texts(console, width, explained=True)
        return len(lead) + len(body) + len(self.dialog.listed) + MAX_WARNING_ROWS + 1 <= room

    def rows(
        self, console: Console, width: int, room: int, window: int, *, replying: bool = False, typing: bool = False
    ) -> list[str]:
        """Return at most `room` rows with SGR sequences.

        window: height of the window.
        replying, typing: the line holds a reply, or a message begun while the question was open.
        """
        lead, body = map(list, self._texts(console, width, explained=self.explained))
        warnings = self._warnings(width)
        keys = [self._keys(width, replying=replying, typing=typing)]
        spare = room - len(lead) - len(warnings) - len(keys) - min(len(body), MIN_BODY_ROWS)
        choices = self._choices(width, spare)
        least, few = min(len(body), 1), min(len(choices), 3)

        def is_too_tall() -> bool:
            return len(lead) + least + len(warnings) + few + len(keys) > room

        def lacks_body_rows() -> bool:
            return room - len(lead) - len(warnings) - len(choices) - len(keys) < min(len(body), MIN_BODY_ROWS)

        cut = (lacks_body_rows() and len(lead) + len(warnings) > 1) or is_too_tall()
        # Drop the description, then the second row of warnings, to show the beginning and the end of the body.
        if lacks_body_rows():
            lead = lead[:1]
        if lacks_body_rows():
            warnings = self._warnings(width, 1)
        if is_too_tall():
            lead, warnings = lead[:1], self._warnings(width, 1)
        if is_too_tall():
            keys = []
        if is_too_tall():
            warnings, few = [], min(few, 1)
        if is_too_tall():
            least = 0
        listed = [row for rows in choices for row in rows]
        left = max(room - len(lead) - least - len(warnings) - len(keys), 0)
        if len(listed) > left:
            first = max(0, min(self.chosen - left // 2, len(listed) - left))
            listed = listed[first : first + left]
        budget = max(room - len(lead) - len(warnings) - len(listed) - len(keys), least)
        if not self.explained:
            # Leave some rows for the preceding text, in which the model may have explained why.
            budget = min(budget, max(MIN_BODY_ROWS, window // 3, window - 18))
        self.folded = len(body) > budget
        shown = [*lead, *(_fold(body, budget) if self.folded else body), *warnings, *listed]
        self.folded = self.folded or cut
        if keys and self.folded:
            keys = [self._keys(width, replying=replying, typing=typing)]
        texts = [*shown, *keys][: max(room, 1)]
        for text in texts:
            text.truncate(width)
        return [to_ansi(text, color=not console.no_color) for text in texts]

    def _texts(self, console: Console, width: int, *, explained: bool) -> tuple[list[Text], list[Text]]:
        """Return the rows of the title and of the body; cached, as they are slow to compute."""
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
            self._cached[width, explained] = title[:MAX_TITLE_ROWS], [*title[MAX_TITLE_ROWS:], *rows]
        return self._cached[width, explained]

    def _warnings(self, width: int, most: int = MAX_WARNING_ROWS) -> list[Text]:
        """Return the warnings in a row or two; the rest is behind the key that explains."""
        text = styled(" · ".join(map(escape_lookalikes, self.dialog.warnings)), "ask")
        rows = [Text("  ").append_text(row) for row in wrap(text, width - 2)]
        if len(rows) > most:
            more = f"… ({EXPLAIN} for more)"
            rows[most - 1].truncate(width - len(more))
            rows[most - 1].append(more)
        return rows[:most]

    def _choices(self, width: int, room: int) -> list[list[Text]]:
        """Return the rows of each choice: wrapped if there is room, else briefly worded, else shortened."""
        numbers = range(len(self.dialog.listed))
        for brief in (False, True):
            choices = [wrapped_line(self._choice_row(n, brief=brief), width, min(5, width // 2)) for n in numbers]
            if sum(map(len, choices)) <= room:
                return choices
        return [[self._choice_row(number, width, brief=True)] for number in numbers]

    def _choice_row(self, number: int, width: int = 0, *, brief: bool) -> Text:
        """Return a choice as one line, shortened in the middle to the width, if one is given."""
        choice, chosen = self.dialog.listed[number], number == self.chosen
        box = ("[x] " if number in self.marked else "[ ] ") if self.dialog.several and choice.key.isdecimal() else ""
        head = f"{'❯' if chosen else ' '} {number + 1}. {box}"
        style = "bold" if chosen else ""
        label = one_line(choice.brief if brief and choice.brief else choice.label)
        if brief and label.startswith("Yes, "):
            label = label[5:6].upper() + label[6:]
        text = Text(head, style).append_text(styled(label))
        if width and text.cell_len > width > len(head) + 12:
            text = _shorten_middle(text, width)
        text.stylize(style)
        if choice.detail:
            text.append_text(styled(f" - {one_line(choice.detail)}", "dim"))
        if width:
            text.truncate(width, overflow="ellipsis")
        return text

    def _keys(self, width: int, *, replying: bool, typing: bool) -> Text:
        """Return the keys in one row; in a narrow window the most useful ones."""
        dialog = self.dialog
        # Text, text for a narrow window, and rank; parts of the highest rank are dropped first.
        parts: list[tuple[str, str, int]]
        if isinstance(dialog.words, Pick):
            parts = [("type to filter", "type to filter", 2), ("↑↓ Enter", "Enter", 1), ("Esc cancel", "Esc", 1)]
        elif replying:
            back = "Esc cancel" if dialog.from_command else "Esc back"
            parts = [("Enter send", "Enter send", 1), (back, back, 1)]
        elif typing:
            parts = [("Enter queue this as a message", "Enter queue", 1)]
            if self.text_input is not None:
                parts.append(("Tab as a comment", "Tab comment", 3))
            parts += [("Ctrl-U clear it", "Ctrl-U clear", 2), self._escape_part()]
        else:
            parts = [("Space mark", "Space mark", 2)] if dialog.several else []
            parts.append(("Enter choose" if dialog.listed else "Enter answer", "Enter", 1))
            if self.choice is not None and self.choice.comment is not None:
                parts.append(("Tab add a comment", "Tab comment", 4))
            comments = [c.comment for c in dialog.choices if c.comment is not None]
            parts += [
                (f"{c.key} {c.label}", f"{c.key} {c.short or c.label}", 5)
                for c in dialog.choices
                if not c.listed and c.key != dialog.escape and c.act not in comments
            ]
            if dialog.details:
                parts.append((f"{EXPLAIN} {'less' if self.explained else 'explain'}", f"{EXPLAIN} explain", 3))
            if self.folded:
                parts.append((f"{VIEW} view all", f"{VIEW} all", 2))
            parts.append(self._escape_part())
        return styled(_join_fitting(parts, width), "dim")

    def _escape_part(self) -> tuple[str, str, int]:
        """Return the part of the row of keys for Escape."""
        out = self.dialog.by_key(self.dialog.escape)
        word = f"Esc {(out.short or out.label).split(',')[0].lower()}" if out else "Esc cancel"
        return word, word, 1


def _join_fitting(parts: Sequence[tuple[str, str, int]], width: int) -> str:
    """Join the parts in their order: in full, in short, or those that fit by their rank."""
    left = list(parts)
    while True:
        for row in (" · ".join(part[0] for part in left), " · ".join(part[1] for part in left)):
            if styled(row).cell_len <= width - 2 or len(left) == 1:
                return f"  {row}"
        left.remove(max(reversed(left), key=lambda part: part[2]))


def _shorten_middle(text: Text, width: int) -> Text:
    """Shorten a line to a width by cutting out the middle; the end gets a third of it."""
    start, end = text.copy(), text.copy()
    start.truncate(width - 1 - width // 3)
    while end.cell_len > width - 1 - start.cell_len:
        end = end[1:]
    return start.append("…").append_text(end)


_NUMBERED_LINE, _CHANGED_LINE = re.compile(r" *\d+( |$)"), re.compile(r" *\d+ [-+]")


def _fold(rows: list[Text], budget: int) -> list[Text]:
    """Cut rows out of the middle to fit `budget`, with a row that tells how many.

    Of a diff, context lines are dropped first.
    """
    whole = len(rows)
    changed = [number for number, row in enumerate(rows) if _CHANGED_LINE.match(row.plain)]
    if changed:
        end = changed[-1] + 1
        while end < whole and not _NUMBERED_LINE.match(rows[end].plain):
            end += 1
        if end - changed[0] <= budget:
            return rows[end - min(budget, end) : end]
        rows = rows[changed[0] :]
    if budget < 2:
        return [Text().append_text(row[: max(row.cell_len - 1, 0)]).append("…") for row in rows[:budget]]
    head = min(-(-2 * (budget - 1) // 3), len(rows))
    tail = min(budget - 1 - head, len(rows) - head)
    left = whole - head - tail
    more = styled(f"  ... {counted(left, 'more line')} ({VIEW} views all)", "dim")
    return [*rows[:head], more, *(rows[-tail:] if tail else ())]
