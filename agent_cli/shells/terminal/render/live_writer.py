"""The writer of the application: finished rows, and apart from them what is still unfinished.

The grammar of the transcript: text has a margin of two columns, and the symbol of a call stands in it. Blocks (the
user's message, an answer, calls, notes) have one blank row between them; calls of one row follow each other without.
Calls in a row that only look around become one row that counts them.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from agent_cli.shells.terminal.render.ansi import cells, clip, to_ansi, truncate_cells
from agent_cli.shells.terminal.render.call_output import MORE_KEY, RunningOutput, fit_rules
from agent_cli.shells.terminal.render.console import MARGIN, STYLES, hanging, styled, wrap_words
from agent_cli.shells.terminal.render.writer import CALL_MARKS, Outcome, Writer, call_title, without_ticks
from agent_tools.text import counted, escape_controls

_RESULT_INDENT = "  └ ", "    "
# Minimum cells for the activity of a sub-agent, and of a shortened command.
_MIN_ACTIVITY_CELLS, _MIN_COMMAND_CELLS = 8, 10
# How calls that look around are counted: the verb, and what its number counts.
_EXPLORED = {"read": ("read", "file"), "search": ("searched", "time"), "list": ("listed", "folder")}


class Exploration:
    """Calls in a row that only look around."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._names: list[str] = []
        self._failed = 0
        self._only: tuple[str, str, Outcome] = ("", "", "done")

    def add(self, kind: str, title: str, result: str, outcome: Outcome) -> None:
        """Add a call that has ended."""
        self._counts[kind] += 1
        self._names.append(title.partition(" ")[2] or title)
        self._failed += outcome != "done"
        self._only = title, result, outcome

    @property
    def alone(self) -> tuple[str, str, Outcome] | None:
        """The title, result and outcome of the only call; None if there are several."""
        return self._only if self._counts.total() == 1 else None

    def line(self, width: int, running: Sequence[tuple[str, str]] = ()) -> Text:
        """Return the line that counts the calls, in one row. running: kind and title of those that have not ended."""
        counts = self._counts + Counter(kind for kind, _ in running)
        parts = [f"{verb} {counted(counts[kind], noun)}" for kind, (verb, noun) in _EXPLORED.items() if counts[kind]]
        line = call_title(", ".join(parts).capitalize())
        if self._failed:
            line.append_text(styled(f", {self._failed} failed", "dim"))
        if line.cell_len > width:
            line.truncate(width, overflow="ellipsis")
        names = ", ".join(dict.fromkeys([*(title.partition(" ")[2] for _, title in running), *self._names]))
        key = f" ({MORE_KEY})"
        room = width - line.cell_len - len(key) - 3
        if room >= _MIN_ACTIVITY_CELLS:
            line.append_text(styled(f" · {truncate_cells(names, room)}{key}", "dim"))
        return line


class LiveWriter(Writer):
    """A writer with an in-memory console. Open lines are stored separately, so there can be several."""

    def __init__(self, console: Console, sink: io.StringIO, *, whole_thoughts: bool) -> None:
        super().__init__(console, whole_thoughts=whole_thoughts)
        self._sink = sink
        # What the row above belongs to; "" if it is blank.
        self._kind = ""
        # Titles of running calls, and activities of sub-agents, by call ID.
        self.running_calls: dict[str, str] = {}
        self.agents: dict[str, str] = {}
        self.outputs: dict[str, RunningOutput] = {}
        # Calls that look around: those that run, with the word of their tool, and those that have ended.
        self._exploring: dict[str, str] = {}
        self._explored: Exploration | None = None

    @property
    def answer_width(self) -> int:
        return self.console.width - len(MARGIN)

    def mark_spaced(self) -> None:
        """Note that the row above the next output is blank."""
        self._kind = ""

    @property
    def blank(self) -> bool:
        """True if the row above is blank."""
        return not self._kind

    def mark_printed(self) -> None:
        """Note that other lines have been written meanwhile."""
        self._kind = "note"

    def mark_foreign(self) -> None:
        """Note that the rows above are of another program, such as the shell: any row stands apart from them."""
        self._kind = "foreign"

    def begin_printed(self) -> None:
        """Separate other lines, which are about to be written, from the block above; not from their command."""
        self.flush()
        if self._kind not in ("", "note", "command"):
            self._sink.write("\n")
        self._kind = "note"

    def answer(self, text: str) -> None:
        if text.strip():
            self.flush()
        super().answer(text)

    def say(self, text: str, style: str = "") -> None:
        """Write a note, wrapped by words; an empty one (for terminals that printed ^C) is dropped."""
        self.settle()
        for line in text.split("\n") if text else ():
            shown = line if line.startswith(MARGIN) else f"{MARGIN}{line}"
            for row in wrap_words(shown, self.console, style):
                self.put(row)

    def put(self, line: Text) -> None:
        self._put("note", line)

    def _put(self, kind: str, line: Text) -> None:
        self._separate(kind)
        super().put(line)

    def _lines(self, lines: list[str]) -> None:
        if lines:
            if self.needs_gap("text") and not lines[0]:
                lines = lines[1:]  # a note between two paragraphs
            self._separate("text")
            super()._lines([f"{MARGIN}{line}" if line else line for line in lines])

    def _put_thought(self, text: str) -> None:
        # Between calls that look around it would count as many rows as they do.
        if self._explored is None:
            self._put("call", styled(f"· {text}", "dim"))

    def settle(self) -> None:
        super().settle()
        if self._kind == "text":
            # The next answer is a separate block.
            self._kind = "answer"

    def needs_gap(self, kind: str) -> bool:
        """Return True if a blank row stands between the row above and a row of this kind."""
        tight = self._kind == kind and kind in ("text", "note", "call", "command")
        return bool(self._kind) and not tight and (kind != "rows" or self._kind == "foreign")

    def _separate(self, kind: str) -> None:
        """Separate blocks by a blank row. The rows of a call belong to it, and what follows them does not."""
        self.flush()
        if self.needs_gap(kind):
            self._sink.write("\n")
        self._kind = kind

    def flush(self) -> None:
        """Write the row of the calls that only looked around: another kind of row follows."""
        explored, self._explored = self._explored, None
        if explored is None:
            return
        if (only := explored.alone) is not None:
            self._put_call(*only)
        else:
            mark, style = CALL_MARKS["done"]
            row = Text().append_text(styled(f"{mark} ", style))
            self._put("call", row.append_text(explored.line(self.console.width - 3)))

    def begin(self, key: str, text: str, explores: str = "") -> None:
        self.settle()
        self.running_calls[key] = text
        if explores in _EXPLORED:
            self._exploring[key] = explores

    def end(self, key: str, text: str, outcome: Outcome = "done") -> None:
        name, explores = self.running_calls.pop(key, None), self._exploring.pop(key, None)
        self.agents.pop(key, None)
        self.settle()
        if name is not None and explores and outcome in ("done", "slip"):
            self._explored = self._explored or Exploration()
            self._explored.add(explores, name, text, outcome)
        elif name is not None:
            self._put_call(name, text, outcome)
        elif text:
            line = styled(text, CALL_MARKS[outcome][1] or "dim")
            for row in hanging(line, self.console, *_RESULT_INDENT):
                self._put("rows", row)

    def _put_call(self, title: str, result: str, outcome: Outcome) -> None:
        """Write the row of a call; of one that changed nothing never more than one."""
        mark, style = CALL_MARKS[outcome]
        if outcome in ("slip", "skipped"):
            text = truncate_cells(f"{title} · {result}" if result else title, self.console.width - 3)
            self._put("call", styled(f"{mark} {text}", style))
            return
        line = call_title(title)
        if result:
            line.append_text(styled(f" · {result}", "dim" if outcome == "done" else style))
        for number, row in enumerate(hanging(line, self.console, MARGIN, MARGIN)):
            first = Text().append_text(styled(f"{mark} ", style)).append_text(row[len(MARGIN) :])
            self._put("rows" if number else "call", row if number else first)
        self._kind = "call"

    def rows(self, lines: Sequence[Text]) -> None:
        self.settle()
        for number, line in enumerate(lines):
            for row in hanging(line, self.console, _RESULT_INDENT[bool(number)], _RESULT_INDENT[1]):
                row.stylize("dim", 0, len(_RESULT_INDENT[0]))
                self._put("rows", row)

    def change(self, lines: Sequence[Text]) -> None:
        """Write the rows of a change, which are wrapped and have a margin."""
        self.settle()
        for line in lines:
            self._put("rows", Text(MARGIN, line.style).append_text(line))

    def step(self, line: Text) -> None:
        """Write a step of the plan."""
        self.settle()
        self._put("call", line)

    def command(self, text: str) -> None:
        """Write a command of the user; its output follows below it."""
        for number, row in enumerate(wrap_words(f"{MARGIN}{text}", self.console, "dim")):
            if not number:
                row = Text().append_text(styled("> ", "accent")).append_text(row[len(MARGIN) :])
            self._put("rows" if number else "command", row)
        self._kind = "command"

    def close(self, outcome: Outcome, facts: Sequence[tuple[str, str]]) -> None:
        self.settle()
        mark, style = ("✓", "good") if outcome == "done" else ("✗", "bad")
        rows = [Text().append_text(styled(mark, style))]
        for number, (fact, style) in enumerate(facts):
            before = Text(" · " if number else " ", STYLES["dim"])
            whole = shown = styled(without_ticks(fact), style)
            over = rows[-1].cell_len + before.cell_len + shown.cell_len - (self.console.width - 1)
            if number and over > 0:
                shown = styled(_shorten_command(fact, over), style)
            joined = Text().append_text(before).append_text(shown)
            if number and rows[-1].cell_len + joined.cell_len >= self.console.width:
                rows.append(Text(MARGIN).append_text(whole))
            else:
                rows[-1].append_text(joined)
        for row in rows:
            fits = row.cell_len < self.console.width
            for line in [row] if fits else hanging(row, self.console, "", MARGIN):
                self._put("rows" if self._kind == "end" else "end", line)
                self._kind = "end"

    def release(self, key: str) -> None:
        """Write an open line, so that what follows is below it."""
        if key in self.running_calls:
            self.end(key, "", "running")

    def release_all(self) -> None:
        for key in list(self.running_calls):
            self.release(key)
        self.outputs.clear()
        self.agents.clear()
        self._exploring.clear()
        self.settle()
        self.flush()

    def output(self, key: str, text: str) -> None:
        """Collect output until the call ends; meanwhile the live region shows the latest lines."""
        self.outputs.setdefault(key, RunningOutput()).add(text)

    def end_output(self, key: str, most: int) -> list[Text]:
        lines = self.outputs.pop(key).close(most) if key in self.outputs else []
        longest, width = 2 * self.console.width, self.console.width - len(_RESULT_INDENT[0])
        lines = [fit_rules(line, width) for line in lines]
        return [styled(line if len(line) <= longest else f"{line[: longest - 1]}…", "dim") for line in lines]

    def take(self) -> list[str]:
        """Return the finished lines, once."""
        text = self._sink.getvalue()
        if not text:
            return []
        self._sink.seek(0)
        self._sink.truncate()
        return text.removesuffix("\n").split("\n")

    def tail(self) -> list[str]:
        """Return the unfinished end of the answer or thought, below a blank row if one will be there."""
        if self._answer is not None:
            rows = [f"{MARGIN}{line}" if line else line for line in self._answer.tail()]
            return ["", *rows] if rows and rows[0] and self.needs_gap("text") else rows
        if self._thought.strip():
            lines = [line for line in escape_controls(self._thought[-600:]).split("\n") if line.strip()]
            width = self.console.width - len(MARGIN) - 1
            return [f"\x1b[2m{MARGIN}{clip(line, width)}\x1b[0m" for line in lines[-2:]]
        return []

    def running(self, mark: str) -> list[str]:
        """Return the running calls and the latest output of the last one, for the live region."""
        room = self.console.width - 3
        rows = [
            (escape_controls(name), f" · {escape_controls(self.agents[key])}" if key in self.agents else "")
            for key, name in self.running_calls.items()
            if key not in self._exploring
        ]
        lines = [*self._looking(mark, room), *self._working(mark, rows, room)]
        if lines and self.needs_gap("call"):
            lines.insert(0, "")
        for output in list(self.outputs.values())[-1:]:
            lines += [f"\x1b[2m    {escape_controls(line)}\x1b[0m" for line in output.tail()]
        return lines

    def _looking(self, mark: str, room: int) -> Iterator[str]:
        """Yield the row of the calls that only look around, those that run included."""
        if self._explored is not None or self._exploring:
            running = [(kind, escape_controls(self.running_calls[key])) for key, kind in self._exploring.items()]
            line = (self._explored or Exploration()).line(room, running)
            yield f"{self._mark(mark)} {to_ansi(line, color=not self.console.no_color)}"

    def _working(self, mark: str, rows: Sequence[tuple[str, str]], room: int) -> Iterator[str]:
        """Yield a row for each running call, with what its sub-agent does."""
        narrow = any(doing and cells(name) + min(cells(doing), room // 2) > room for name, doing in rows)
        for name, doing in rows:
            if doing and narrow:
                # The task of a sub-agent is more useful than its type.
                name = name.partition(": ")[2] or name
            shown = truncate_cells(name, max(room - cells(doing), min(cells(name), room - _MIN_ACTIVITY_CELLS)))
            doing = truncate_cells(doing, room - cells(shown))
            verb, space, rest = shown.partition(" ")
            yield f"{self._mark(mark)} \x1b[1m{verb}\x1b[0m{space}{rest}\x1b[2m{doing}\x1b[0m"

    def _mark(self, mark: str) -> str:
        return f"\x1b[34m{mark}\x1b[0m"

    def resize(self, columns: int) -> None:
        self.console.width = columns
        if self._answer is not None:
            self._answer.resize(self.answer_width)


def _shorten_command(fact: str, over: int) -> str:
    """Return a fact as it is shown; the command at its end, in backticks, is shortened if enough of it is left."""
    before, _, command = fact.partition("`")
    left = cells(command) - 1 - over
    if not command.endswith("`") or left < max(_MIN_COMMAND_CELLS, over):
        return without_ticks(fact)
    return before + truncate_cells(command[:-1], left)
