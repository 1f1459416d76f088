"""Write lines to a console, each once: answers block by block, shortened thoughts, lines of calls that are still open.

Without a capable terminal, an answer is written as it streams, and words replace symbols. The application has a writer
of its own (`live_writer`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from rich.console import Console
from rich.text import Text

from agent_cli.shells.terminal.render.console import STYLES, row_fill, styled
from agent_tools.lazy import lazy_imports
from agent_tools.text import escape_controls, shorten

if TYPE_CHECKING:
    from agent_cli.shells.terminal.render.markdown import MarkdownStream

with lazy_imports():
    from agent_cli.shells.terminal.render import markdown

_MAX_THOUGHT_CHARS = 2_000
# Lines of a running call's output that are written.
_MAX_OUTPUT_LINES = 20
# Marks of a call: symbol and style. "slip": a mistake of the model, which it has been told; "skipped": it did not run.
Outcome = Literal["running", "done", "failed", "denied", "slip", "skipped"]
CALL_MARKS: dict[Outcome, tuple[str, str]] = {
    "running": ("●", ""),
    "done": ("●", "good"),
    "failed": ("✗", "bad"),
    "denied": ("⊘", "bad"),
    "slip": ("✗", "dim"),
    "skipped": ("⊘", "dim"),
}


_COUNTS = re.compile(r"\(\+(\d+) -(\d+)\)$")


def call_title(text: str) -> Text:
    """Return the title of a call with its verb in bold, and the counts of a change in the colours of a diff."""
    verb, space, rest = text.partition(" ")
    title = Text().append_text(styled(verb, "tool"))
    if (counts := _COUNTS.search(rest)) is None:
        return title.append_text(styled(space + rest))
    title.append_text(styled(space + rest[: counts.start()]))
    return title.append(f"+{counts[1]}", STYLES["good"]).append(" ").append(f"-{counts[2]}", STYLES["bad"])


def has_counts(title: str) -> bool:
    """Return True if the title of a call ends with the counts of a change."""
    return _COUNTS.search(title) is not None


def without_ticks(fact: str) -> str:
    """Return a fact as it is shown: backticks mark the commands in it."""
    return fact.replace("`", "")


class Writer:
    """Append-only output. Whatever is written next ends an open answer, thought or line.

    words: use words instead of symbols.
    whole_thoughts: write all of the reasoning, not only its end.
    """

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

    @property
    def answer_width(self) -> int:
        """Columns for the text of an answer."""
        return self.console.width

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
            self._answer = markdown.MarkdownStream(self.answer_width, color=not self.console.no_color)
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

    def begin(self, key: str, text: str, explores: str = "") -> None:
        """Write the line of a call, which `end` may complete, as long as nothing else is written.

        explores: the trait of its tool.
        """
        self.settle()
        mark = "tool:" if self.words else CALL_MARKS["running"][0]
        title = styled(text) if self.words else call_title(text)
        self.console.print(Text(f"{mark} ").append_text(title), end="")
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

    def change(self, lines: Sequence[Text]) -> None:
        """Write the rows of a change."""
        self.rows(lines)

    def step(self, line: Text) -> None:
        """Write a row about the plan."""
        self.rows([line])

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
            line.append_text(styled(" · ", "dim")).append_text(styled(without_ticks(fact), style))
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
                self._put_thought(shorten(last, max(20, min(self.console.width, 100) - 14)))

    def _put_thought(self, text: str) -> None:
        """Write the end of a thought."""
        self.put(styled(f"  thinking: {text}", "dim"))

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
