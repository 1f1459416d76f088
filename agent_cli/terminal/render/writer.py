"""Lines on a console, each written once: an answer as its blocks are finished, thoughts in short, a line left open.

Where the console is no terminal that can more, an answer is written as it comes, and words stand where symbols would.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from agent_cli.terminal.render.console import styled
from agent_tools.text import inert, shorten

if TYPE_CHECKING:
    from agent_cli.terminal.render.live import MarkdownStream

_KEPT = 2_000


class Writer:
    """Append-only output. Whatever is under way, an answer, a thought or an open line, is ended by what comes next.

    words: whether words stand instead of symbols. whole_thoughts: all of the reasoning, not only where it ends.
    """

    def __init__(self, console: Console, *, whole_thoughts: bool = False) -> None:
        self.console = console
        self.words = not console.is_terminal
        self._whole_thoughts = whole_thoughts
        self._answer: MarkdownStream | None = None
        self._thought = ""
        self._held = ""
        self._midline = False
        self._open: str | None = None

    def answer(self, text: str) -> None:
        """A piece of an answer."""
        if not text:
            return
        if self._thought or self._open is not None:
            self.settle()
        if self.words:
            self._raw(text)
            return
        if self._answer is None:
            # The parser and the lexers: 40 ms that the prompt need not wait for.
            from agent_cli.terminal.render.live import MarkdownStream

            self._answer = MarkdownStream(self.console.width, color=not self.console.no_color)
        self._lines(self._answer.feed(text))

    def think(self, text: str) -> None:
        """A piece of the reasoning."""
        if not self._thought:
            self.settle()
        *lines, self._thought = (self._thought + text).split("\n") if self._whole_thoughts else [self._thought + text]
        for line in lines:
            self.put(styled(f"  {line}", "dim"))
        self._thought = self._thought[-_KEPT:] or (" " if text else "")

    def say(self, text: str, style: str = "") -> None:
        """A line of its own."""
        self.settle()
        self.put(styled(text, style))

    def put(self, line: Text) -> None:
        """A line that is made of harmless text already."""
        self.console.print(line)

    def begin(self, key: str, text: str, style: str = "") -> None:
        """A line that `end` may add to, as long as nothing else has been written."""
        self.settle()
        self.console.print(styled(text, style), end="")
        self.console.file.flush()
        self._open = key

    def end(self, key: str, text: str, style: str = "") -> None:
        """Complete the line that was begun under this key; where it is over, a line of its own."""
        if self._open == key:
            self._open = None
            self.put(styled(f"{': ' if self.words else ' · '}{text}" if text else "", style))
        elif text:
            self.say(f"  {text}", style)

    def settle(self) -> None:
        """End what is under way."""
        if self._open is not None:
            self._open = None
            self._raw("\n")
        if self._held:
            self._raw("\n")
        if self._midline:
            self._raw("\n")
        if self._answer is not None:
            answer, self._answer = self._answer, None
            self._lines(answer.finish())
        if self._thought:
            thought, self._thought = self._thought, ""
            last = next((line for line in reversed(thought.split("\n")) if line.strip()), "")
            if last and self._whole_thoughts:
                self.put(styled(f"  {last}", "dim"))
            elif last:
                self.put(styled(f"  thinking: {shorten(last, max(20, min(self.console.width, 100) - 14))}", "dim"))

    def void(self, note: str) -> None:
        """End an answer or a thought that broke off, with a note below it; nothing where none was shown."""
        if self._midline or self._answer is not None or self._thought:
            self.say(note, "ask")

    def _raw(self, text: str) -> None:
        text = self._held + text
        # Half of a line end is not shown as a control character.
        self._held = "\r" if text.endswith("\r") else ""
        shown = inert(text.removesuffix("\r"))
        if shown:
            self.console.file.write(shown)
            self.console.file.flush()
            self._midline = not shown.endswith("\n")

    def _lines(self, lines: list[str]) -> None:
        if lines:
            self.console.file.write("\n".join(lines) + "\n")
            self.console.file.flush()
