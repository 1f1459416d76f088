"""Write lines to a console, each once: answers block by block, shortened thoughts, lines of calls that are still open.

Without a capable terminal, an answer is written as it streams, and words replace symbols.

The application's writer has an in-memory console and returns finished and unfinished lines separately. Between two
blocks (the user's message, an answer, calls and notes) it writes exactly one blank row, and none inside.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from rich.console import Console
from rich.text import Text

from agent_cli.shells.terminal.render.ansi import cells, truncate_cells
from agent_cli.shells.terminal.render.call_output import RunningOutput, fit_rules
from agent_cli.shells.terminal.render.console import hanging, row_fill, styled, wrap_words
from agent_tools.lazy import lazy_imports
from agent_tools.text import escape_controls, shorten

if TYPE_CHECKING:
    from agent_cli.shells.terminal.render.markdown import MarkdownStream

with lazy_imports():
    from agent_cli.shells.terminal.render import markdown

_MAX_THOUGHT_CHARS = 2_000
# Lines of a running call's output that are written.
_MAX_OUTPUT_LINES = 20
# Marks of a call: symbol and style.
Outcome = Literal["running", "done", "failed", "denied"]
CALL_MARKS: dict[Outcome, tuple[str, str]] = {
    "running": ("●", ""),
    "done": ("●", "good"),
    "failed": ("✗", "bad"),
    "denied": ("⊘", "bad"),
}
_RESULT_INDENT = "  └ ", "    "
# Minimum cells for the activity of a sub-agent.
_MIN_ACTIVITY_CELLS = 8


class Writer:
    """Append-only output. Whatever is written next ends an open answer, thought or line.

    words: use words instead of symbols.
    indent: cells before the rows of a change, in addition to their margin.
    whole_thoughts: write all of the reasoning, not only its end.
    """

    indent = 0

    def __init__(self, console: Console, *, whole_thoughts: bool = False) -> None:
        self.console = console
        self.words = not console.is_terminal
        self._whole_thoughts = whole_thoughts
        self._answer: MarkdownStream | None = None
        self._thought = ""
        self._pending_cr = ""
        self._midline = False
        self._open: str | None = None
        # By call: number of lines printed, and the incomplete last line.
        self._printed: dict[str, tuple[int, str]] = {}

    def answer(self, text: str) -> None:
        """Write a piece of an answer."""
        if not text:
            return
        if self._thought or self._open is not None:
            self.settle()
        if self.words:
            self._write_raw(text)
            return
        if self._answer is None:
            # Lazy: the parser and the lexers take 40 ms that would delay the prompt.
            self._answer = markdown.MarkdownStream(self.console.width, color=not self.console.no_color)
        self._lines(self._answer.feed(text))

    def think(self, text: str) -> None:
        """Write a piece of the reasoning."""
        if not self._thought:
            self.settle()
        *lines, self._thought = (self._thought + text).split("\n") if self._whole_thoughts else [self._thought + text]
        for line in lines:
            self.put(styled(f"  {line}", "dim"))
        self._thought = self._thought[-_MAX_THOUGHT_CHARS:] or (" " if text else "")

    def say(self, text: str, style: str = "") -> None:
        """Write a separate line."""
        self.settle()
        self.put(styled(text, style))

    def put(self, line: Text) -> None:
        """Write a line that is already escaped. If the whole line has a background, it fills the row."""
        if not self.words and not self.console.no_color:
            self.console.file.write(row_fill(line))
        self.console.print(line)

    def begin(self, key: str, text: str) -> None:
        """Write the line of a call, which `end` may complete, as long as nothing else is written."""
        self.settle()
        mark = "tool:" if self.words else CALL_MARKS["running"][0]
        self.console.print(styled(f"{mark} {text}", "tool"), end="")
        self.console.file.flush()
        self._open = key

    def end(self, key: str, text: str, outcome: Outcome = "done") -> None:
        """Complete the line of a call with its result; write a separate line if it has ended."""
        style = CALL_MARKS[outcome][1] if outcome != "done" else "dim"
        if self._open == key:
            self._open = None
            self.put(styled(f"{': ' if self.words else ' · '}{text}" if text else "", style))
        elif text:
            self.say(f"  {text}", style)

    def rows(self, lines: Sequence[Text]) -> None:
        """Write the rows of a result, below its call."""
        self.settle()
        for line in lines:
            self.put(line)

    def release(self, key: str) -> None:
        """End the line begun under this key, so that what follows is below it."""
        if self._open == key:
            self.settle()

    def release_all(self) -> None:
        """End everything open, including calls: the turn is over."""
        self.settle()
        self._printed.clear()

    def close(self, outcome: Outcome, facts: Sequence[tuple[str, str]]) -> None:
        """Write the last line of a turn: how it ended, and facts with their styles."""
        self.settle()
        line = styled("done" if outcome == "done" else "ended", "" if outcome == "done" else "bad")
        for fact, style in facts:
            line.append_text(styled(" · ", "dim")).append_text(styled(fact, style))
        self.put(line)

    def output(self, key: str, text: str) -> None:
        """Write the output of a running call: its first lines; the result reports how much there was."""
        count, partial = self._printed.get(key, (0, ""))
        *lines, partial = (partial + text).split("\n")
        for line in lines:
            count += 1
            if count <= _MAX_OUTPUT_LINES:
                self.say(f"  {line}", "dim")
            elif count == _MAX_OUTPUT_LINES + 1:
                self.say("  ...", "dim")
        self._printed[key] = count, partial[-4096:]

    def end_output(self, key: str, most: int) -> list[Text]:
        """End the output of a call; return its rows to write, at most `most`."""
        count, partial = self._printed.pop(key, (0, ""))
        if partial and count < _MAX_OUTPUT_LINES:
            self.say(f"  {partial}", "dim")
        return []

    def settle(self) -> None:
        """End an open line, answer or thought."""
        if self._open is not None:
            self._open = None
            self._write_raw("\n")
        if self._pending_cr:
            self._write_raw("\n")
        if self._midline:
            self._write_raw("\n")
        if self._answer is not None:
            answer, self._answer = self._answer, None
            self._lines(answer.finish())
        if self._thought:
            thought, self._thought = self._thought, ""
            last = next((line for line in reversed(thought.split("\n")) if line.strip()), "")
            if len(last) == _MAX_THOUGHT_CHARS:  # its beginning is lost: begin with a whole word
                last = f"…{last.partition(' ')[2] or last}"
            if last and self._whole_thoughts:
                self.put(styled(f"  {last}", "dim"))
            elif last:
                self.put(styled(f"  thinking: {shorten(last, max(20, min(self.console.width, 100) - 14))}", "dim"))

    def discard(self, note: str) -> None:
        """End an interrupted answer or thought with a note below it; do nothing if none was shown."""
        if self._midline or self._answer is not None or self._thought:
            self.say(note, "ask")

    def _write_raw(self, text: str) -> None:
        text = self._pending_cr + text
        # Hold back a lone CR: it may be half of a line end.
        self._pending_cr = "\r" if text.endswith("\r") else ""
        shown = escape_controls(text.removesuffix("\r"))
        if shown:
            self.console.file.write(shown)
            self.console.file.flush()
            self._midline = not shown.endswith("\n")

    def _lines(self, lines: list[str]) -> None:
        if lines:
            self.console.file.write("\n".join(lines) + "\n")
            self.console.file.flush()


# Minimum cells of a shortened command.
_MIN_COMMAND_CELLS = 10


def _shorten_command(fact: Text, over: int) -> Text:
    """Shorten the command in backticks at the end of a fact, if enough of it is left."""
    start = fact.plain.find("`") + 1
    left = fact.cell_len - start - 2 - over
    # Keep the end of a long command: the beginning is often the same in every project.
    if not start or not fact.plain.endswith("`") or left < max(_MIN_COMMAND_CELLS, over):
        return fact
    shown = fact[:-1]
    shown.truncate(fact.cell_len - over - 1, overflow="ellipsis")
    return shown.append_text(fact[-1:])


class LiveWriter(Writer):
    """A writer with an in-memory console. Open lines are stored separately, so there can be several."""

    indent = len(_RESULT_INDENT[0]) - 2

    def __init__(self, console: Console, sink: io.StringIO, *, whole_thoughts: bool) -> None:
        super().__init__(console, whole_thoughts=whole_thoughts)
        self._sink = sink
        self._kind = ""
        # Titles of running calls, and activities of sub-agents, by call ID.
        self.running_calls: dict[str, str] = {}
        self.agents: dict[str, str] = {}
        self.outputs: dict[str, RunningOutput] = {}

    def mark_spaced(self) -> None:
        """Note that the row above the next output is blank."""
        self._kind = ""

    def gap(self) -> None:
        """Write a blank row unless the row above is blank."""
        if self._kind:
            self._sink.write("\n")
        self._kind = ""

    def _lines(self, lines: list[str]) -> None:
        if lines:
            self._separate("text")
            super()._lines(lines)

    @property
    def blank(self) -> bool:
        """True if the row above is blank."""
        return not self._kind

    def mark_printed(self) -> None:
        """Note that other lines have been written meanwhile."""
        self._kind = "line"

    def say(self, text: str, style: str = "") -> None:
        """Write a note, wrapped by words; an empty one (for terminals that printed ^C) is dropped."""
        self.settle()
        for line in text.split("\n") if text else ():
            for row in wrap_words(line, self.console, style):
                self.put(row)

    def put(self, line: Text) -> None:
        self._put("line", line)

    def _put(self, kind: str, line: Text) -> None:
        self._separate(kind)
        super().put(line)

    def settle(self) -> None:
        super().settle()
        if self._kind == "text":
            # The next answer is a separate block.
            self._kind = "answer"

    def _separate(self, kind: str) -> None:
        """Separate an answer from calls and notes by a blank row."""
        if self._kind and kind != self._kind:
            self._sink.write("\n")
        self._kind = kind

    def begin(self, key: str, text: str) -> None:
        self.settle()
        self.running_calls[key] = text

    def end(self, key: str, text: str, outcome: Outcome = "done") -> None:
        name = self.running_calls.pop(key, None)
        self.agents.pop(key, None)
        self.settle()
        if name is None:
            for row in (
                hanging(styled(text, CALL_MARKS[outcome][1] or "dim"), self.console, *_RESULT_INDENT) if text else ()
            ):
                self.put(row)
            return
        mark, style = CALL_MARKS[outcome]
        verb, space, rest = name.partition(" ")
        line = styled(verb, "tool").append_text(styled(space + rest))
        line.append_text(styled(f" · {text}" if text else "", "dim" if outcome == "done" else style))
        for number, row in enumerate(hanging(line, self.console, "", "  ")):
            self.put(row if number else Text().append_text(styled(mark, style)).append(" ").append_text(row))

    def rows(self, lines: Sequence[Text]) -> None:
        self.settle()
        if all(line.plain.startswith("  ") for line in lines):
            lines = [line[2:] for line in lines]  # the rows of a change have a margin of their own
        for number, line in enumerate(lines):
            if row_fill(line):
                # Wrapped before; its background fills the row from the first cell.
                self.put(Text(_RESULT_INDENT[bool(number)], line.style).append_text(line))
                continue
            for row in hanging(line, self.console, _RESULT_INDENT[bool(number)], _RESULT_INDENT[1]):
                row.stylize("dim", 0, len(_RESULT_INDENT[0]))
                self.put(row)

    def close(self, outcome: Outcome, facts: Sequence[tuple[str, str]]) -> None:
        self.settle()
        mark, style = ("✓", "good") if outcome == "done" else ("✗", "bad")
        rows = [Text().append_text(styled(mark, style))]
        for number, (fact, style) in enumerate(facts):
            joined = Text(" · " if number else " ").append_text(styled(fact, style))
            joined.stylize("dim", 0, 3 if number else 1)
            over = rows[-1].cell_len + joined.cell_len - (self.console.width - 1)
            if number and over > 0:
                joined = _shorten_command(joined, over)
            if number and rows[-1].cell_len + joined.cell_len >= self.console.width:
                rows.append(Text("  ").append_text(styled(fact, style)))
            else:
                rows[-1].append_text(joined)
        for row in rows:
            fits = row.cell_len < self.console.width
            for line in [row] if fits else hanging(row, self.console, "", "  "):
                self._put("end", line)

    def release(self, key: str) -> None:
        """Write an open line, so that what follows is below it."""
        if key in self.running_calls:
            self.end(key, "", "running")

    def release_all(self) -> None:
        for key in list(self.running_calls):
            self.release(key)
        self.outputs.clear()
        self.agents.clear()
        self.settle()

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
        """Return the unfinished end of the answer or thought."""
        if self._answer is not None:
            return self._answer.tail()
        if self._thought.strip():
            lines = [line for line in escape_controls(self._thought[-600:]).split("\n") if line.strip()]
            return [f"\x1b[2m  {line}\x1b[0m" for line in lines[-2:]]
        return []

    def running(self, mark: str) -> list[str]:
        """Return the running calls and the latest output of the last one, for the live region."""
        lines = []
        room = self.console.width - 3
        rows = [
            (escape_controls(name), f" · {escape_controls(self.agents[key])}" if key in self.agents else "")
            for key, name in self.running_calls.items()
        ]
        narrow = any(doing and cells(name) + min(cells(doing), room // 2) > room for name, doing in rows)
        for name, doing in rows:
            if doing and narrow:
                # The task of a sub-agent is more useful than its type.
                name = name.partition(": ")[2] or name
            shown = truncate_cells(name, max(room - cells(doing), min(cells(name), room - _MIN_ACTIVITY_CELLS)))
            doing = truncate_cells(doing, room - cells(shown))
            lines.append(f"\x1b[34m{mark}\x1b[0m \x1b[1m{shown}\x1b[0m\x1b[2m{doing}\x1b[0m")
        for output in list(self.outputs.values())[-1:]:
            lines += [f"\x1b[2m    {escape_controls(line)}\x1b[0m" for line in output.tail()]
        return lines

    def resize(self, columns: int) -> None:
        self.console.width = columns
        if self._answer is not None:
            self._answer.resize(columns)
