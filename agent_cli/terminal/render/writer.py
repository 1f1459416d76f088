"""Write lines to a console, each once: an answer as its blocks are finished, thoughts shortened, a line left open.

Without a capable terminal, an answer is written as it streams, and words replace symbols.
The application's writer has an in-memory console and returns finished and unfinished lines separately.
"""

from __future__ import annotations

import io
from collections import deque
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from agent_cli.terminal.render.console import by_words, styled
from agent_tools.lazy import lazy_imports
from agent_tools.text import counted, escape_controls, shorten

if TYPE_CHECKING:
    from agent_cli.terminal.render.markdown import MarkdownStream

with lazy_imports():
    from agent_cli.terminal.render import markdown

_KEPT = 2_000
# Lines of a running call's output that are written.
_OUTPUT = 20
# In the application, the first and last lines of output stay in the scrollback, and the live region shows the latest.
HEAD, END, TAIL = 4, 8, 5


class Writer:
    """Append-only output. An open answer, thought or line is ended by what comes next.

    words: use words instead of symbols.
    whole_thoughts: write all of the reasoning, not only its end.
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
        # By call: number of lines printed, and the incomplete last line.
        self._printed: dict[str, tuple[int, str]] = {}

    def answer(self, text: str) -> None:
        """Write a piece of an answer."""
        if not text:
            return
        if self._thought or self._open is not None:
            self.settle()
        if self.words:
            self._raw(text)
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
        self._thought = self._thought[-_KEPT:] or (" " if text else "")

    def say(self, text: str, style: str = "") -> None:
        """Write a separate line."""
        self.settle()
        self.put(styled(text, style))

    def put(self, line: Text) -> None:
        """Write a line that is already escaped."""
        self.console.print(line)

    def begin(self, key: str, text: str, style: str = "") -> None:
        """Write a line that `end` may complete, as long as nothing else is written."""
        self.settle()
        self.console.print(styled(text, style), end="")
        self.console.file.flush()
        self._open = key

    def end(self, key: str, text: str, style: str = "") -> None:
        """Complete the line begun under this key; write a separate line if it has ended."""
        if self._open == key:
            self._open = None
            self.put(styled(f"{': ' if self.words else ' · '}{text}" if text else "", style))
        elif text:
            self.say(f"  {text}", style)

    def release(self, key: str) -> None:
        """End the line begun under this key, so that what follows is below it."""
        if self._open == key:
            self.settle()

    def release_all(self) -> None:
        """End everything open, including calls: the turn is over."""
        self.settle()
        self._printed.clear()

    def output(self, key: str, text: str) -> None:
        """Write the output of a running call: its first lines; the result reports how much there was."""
        count, partial = self._printed.get(key, (0, ""))
        *lines, partial = (partial + text).split("\n")
        for line in lines:
            count += 1
            if count <= _OUTPUT:
                self.say(f"  {line}", "dim")
            elif count == _OUTPUT + 1:
                self.say("  ...", "dim")
        self._printed[key] = count, partial[-4096:]

    def end_output(self, key: str) -> None:
        """End the output of a call."""
        count, partial = self._printed.pop(key, (0, ""))
        if partial and count < _OUTPUT:
            self.say(f"  {partial}", "dim")

    def settle(self) -> None:
        """End what is open."""
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
        """End an interrupted answer or thought with a note below it; do nothing if none was shown."""
        if self._midline or self._answer is not None or self._thought:
            self.say(note, "ask")

    def _raw(self, text: str) -> None:
        text = self._held + text
        # Hold back a lone CR: it may be half of a line end.
        self._held = "\r" if text.endswith("\r") else ""
        shown = escape_controls(text.removesuffix("\r"))
        if shown:
            self.console.file.write(shown)
            self.console.file.flush()
            self._midline = not shown.endswith("\n")

    def _lines(self, lines: list[str]) -> None:
        if lines:
            self.console.file.write("\n".join(lines) + "\n")
            self.console.file.flush()


class _Output:
    """Output of a running command: its first and last lines and their number."""

    def __init__(self) -> None:
        self.head: list[str] = []
        self.end: deque[str] = deque(maxlen=END)
        self.count = 0
        self.partial = ""
        # If output is flooding, only the latest arrives, with a note of how much was dropped.
        self.flood = False

    def add(self, text: str) -> None:
        *lines, self.partial = (self.partial + text).split("\n")
        self.partial = self.partial[-4096:]
        self.flood = self.flood or " bytes not shown …]" in text
        for line in lines:
            self._line(line)

    def _line(self, line: str) -> None:
        self.count += 1
        if len(self.head) < HEAD:
            self.head.append(line)
        else:
            self.end.append(line)

    def close(self) -> list[str]:
        """Return the lines to show."""
        if self.partial:
            self._line(self.partial)
        left = self.count - len(self.head) - len(self.end)
        more = f"... {'over ' * self.flood}{counted(left, 'more line')} ..."
        return [*self.head, *([more] if left else []), *self.end]

    def tail(self) -> list[str]:
        lines = [*self.head, *self.end, *([self.partial] if self.partial else [])]
        return lines[-TAIL:]


class LiveWriter(Writer):
    """A writer with an in-memory console. Open lines are stored separately, so there can be several."""

    def __init__(self, console: Console, sink: io.StringIO, *, whole_thoughts: bool) -> None:
        super().__init__(console, whole_thoughts=whole_thoughts)
        self._sink = sink
        self._kind = ""
        self.begun: dict[str, Text] = {}
        self.outputs: dict[str, _Output] = {}

    def spaced(self) -> None:
        """Note that the row above what comes next is blank."""
        self._kind = ""

    def gap(self) -> None:
        """Write a blank row unless the row above is blank."""
        if self._kind:
            self._sink.write("\n")
        self._kind = ""

    def _lines(self, lines: list[str]) -> None:
        if lines:
            self._of("text")
            super()._lines(lines)

    @property
    def blank(self) -> bool:
        """True if the row above is blank."""
        return not self._kind

    def printed(self) -> None:
        """Note that other lines have been written meanwhile."""
        self._kind = "line"

    def say(self, text: str, style: str = "") -> None:
        """Write a note, wrapped by words; an empty one (for terminals that printed ^C) is dropped."""
        self.settle()
        for line in text.split("\n") if text else ():
            for row in by_words(line, self.console, style):
                self.put(row)

    def put(self, line: Text) -> None:
        self._of("line")
        super().put(line)

    def _of(self, kind: str) -> None:
        """Separate an answer from calls and notes by a blank row."""
        if self._kind and kind != self._kind:
            self._sink.write("\n")
        self._kind = kind

    def begin(self, key: str, text: str, style: str = "") -> None:
        self.settle()
        self.begun[key] = styled(text, style)

    def end(self, key: str, text: str, style: str = "") -> None:
        line = self.begun.pop(key, None)
        if line is None:
            super().end(key, text, style)
        else:
            self.settle()
            self.put(line.append_text(styled(f" · {text}" if text else "", style)))

    def release(self, key: str) -> None:
        """Write an open line, so that what follows is below it."""
        if (line := self.begun.pop(key, None)) is not None:
            self.settle()
            self.put(line)

    def release_all(self) -> None:
        for key in list(self.begun):
            self.release(key)
        self.outputs.clear()
        self.settle()

    def output(self, key: str, text: str) -> None:
        """Collect output until the call ends; meanwhile the live region shows the latest lines."""
        self.outputs.setdefault(key, _Output()).add(text)

    def end_output(self, key: str) -> None:
        if key in self.outputs and (lines := self.outputs.pop(key).close()):
            self.release(key)
            for line in lines:
                self.put(styled(f"  {line}", "dim"))

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

    def running(self) -> list[str]:
        """Return the running calls and the latest output of the last one, for the live region."""
        lines = [f"\x1b[1m{text.plain}\x1b[0m" for text in self.begun.values()]
        for output in list(self.outputs.values())[-1:]:
            lines += [f"\x1b[2m  {escape_controls(line)}\x1b[0m" for line in output.tail()]
        return lines

    def resize(self, columns: int) -> None:
        self.console.width = columns
        if self._answer is not None:
            self._answer.resize(columns)
