"""Dialogs as lines of text for both front ends, and asked line by line in the plain one."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

from rich.console import Console
from rich.text import Text

from agent_cli import Defer, QuestionReply
from agent_cli.kernel.redact import Redactor
from agent_cli.shells.terminal.dialogs.model import (
    EXPLAIN,
    GUARD_SECONDS,
    Block,
    Dialog,
    DiffBlock,
    Fact,
    GiveAnswer,
    InEditor,
    Pick,
    PlanBody,
    Prose,
    ShellCommand,
    TextInput,
    Verbatim,
)
from agent_cli.shells.terminal.dialogs.questions import Dialogs
from agent_cli.shells.terminal.editor import edit_and_parse
from agent_cli.shells.terminal.line_input import read_rest_of_paste, read_typed_ahead
from agent_cli.shells.terminal.render.ansi import cells
from agent_cli.shells.terminal.render.code import Highlighter, display_lines
from agent_cli.shells.terminal.render.console import hanging, prose, styled
from agent_tools.cancel import CancelledError
from agent_tools.lazy import lazy_imports
from agent_tools.lookalikes import escape_lookalikes
from agent_tools.text import escape_controls, one_line, parse_number

with lazy_imports():
    from agent_cli.shells.terminal.render import markdown

# The gutter of a numbered line of a diff.
_GUTTER = re.compile(r" *\d* [-+ ]?")


def dialog_lines(dialog: Dialog, console: Console, *, explained: bool = False) -> Iterator[Text]:
    """Yield the lines of a dialog: question, body and warnings. explained: also the computed facts."""
    title = dialog.title.replace(text=f"? {dialog.title.text}{f' · {dialog.about}' if dialog.about else ''}")
    yield from block_lines(title, console)
    yield from body_lines(dialog, console)
    for warning in dialog.warnings:
        yield from hanging(styled(escape_lookalikes(warning), "ask"), console, "  ", "    ")
    if explained:
        yield from detail_lines(dialog, console)
    for choice in dialog.choices:
        if choice.key.isdecimal():
            more = f" - {choice.detail}" if choice.detail else ""
            # Indented, so that no continuation row can be mistaken for an option.
            yield from prose(f"  {choice.key}. {choice.label}{more}", console, more="   ")


def body_lines(dialog: Dialog, console: Console) -> Iterator[Text]:
    """Yield the whole body."""
    for block in dialog.body:
        yield from block_lines(block, console)


def detail_lines(dialog: Dialog, console: Console) -> Iterator[Text]:
    """Yield the computed facts."""
    for fact in dialog.details:
        yield from block_lines(fact, console)


def block_lines(block: Block, console: Console) -> Iterator[Text]:
    """Yield the lines of a block; text to be copied is not wrapped."""
    match block:
        case Prose(text=text, style=style, more=more):
            yield from prose(text, console, style, more)
        case Verbatim(text=text, style=style):
            yield styled(text, style)
        case ShellCommand(text=text):
            shell = Highlighter("bash")
            for line in text.splitlines() or [""]:
                yield Text("  ").append_text(shell.line(escape_controls(escape_lookalikes(line))))
        case DiffBlock(display=display, titled=titled):
            # The heading repeats the title.
            yield from islice(display_lines(display, whole=True), int(titled), None)
        case Fact(text=text):
            yield from fact_lines(escape_lookalikes(text), console)
        case PlanBody(text=text):
            yield from _plan_lines(text, console)


def _plan_lines(text: str, console: Console) -> Iterator[Text]:
    if not console.is_terminal:
        yield from (styled(f"  {line}".rstrip()) for line in text.splitlines())
        return
    stream = markdown.MarkdownStream(max(console.width - 2, 20), color=not console.no_color)
    for line in (*stream.feed(text), *stream.finish()):
        yield Text("  ").append_text(Text.from_ansi(line)) if line else Text()


def fact_lines(text: str, console: Console) -> Iterator[Text]:
    """Wrap a fact with an indent, so that its continuation cannot be mistaken for a line of the program."""
    return hanging(styled(text, "dim"), console, "  ", "    ")


def wrapped_line(line: Text, width: int, indent: int = -1) -> list[Text]:
    """Split a line into rows of at most `width` cells, the further ones indented, by default below the first text."""
    if line.cell_len <= width:
        return [line]
    if indent < 0:
        gutter = _GUTTER.match(line.plain)
        indent = min(len(gutter[0]) if gutter and gutter[0].strip() else 4, width // 2)
    ends: list[int] = []
    while (end := _break_position(line.plain, ends[-1] if ends else 0, width - (indent if ends else 0))) is not None:
        ends.append(end)
    first, *others = line.divide(ends)
    return [first, *(Text(" " * indent).append_text(row) for row in others)]


def _break_position(text: str, start: int, room: int) -> int | None:
    """Return where to break the rest of a text: after the last space behind a word, else at the end of the width.

    None if it fits.
    """
    used = 0
    for at in range(start, len(text)):
        used += cells(text[at])
        if used > room:
            space = text.rfind(" ", start, at) + 1
            return space if text[start:space].strip() else max(at, start + 1)
    return None


T = TypeVar("T")
ReadLine = Callable[[str], str]
# Runs a slash command that is allowed while a question is open; returns False for other words.
RunCommand = Callable[[str], bool]


class LineDialogs(Dialogs):
    """Asks by reading lines.

    At the end of input a question of a turn stays open, and Ctrl-C interrupts the turn; for a question of a command,
    both mean no answer.

    aside: runs the slash commands allowed here, so that the plan can be changed while a turn waits; then the question
    is asked again.
    keep: takes what is typed or pasted at a question and is no answer, as the draft of the next message; None if there
        will be none.
    """

    def __init__(
        self,
        console: Console,
        read_line: ReadLine,
        aside: RunCommand = lambda words: False,
        keep: Callable[[str], None] | None = None,
    ) -> None:
        self._keep = keep
        self._console = console
        self._read_line = read_line
        self._aside = aside

    def say(self, text: str, style: str = "") -> None:
        self._print(prose(text, self._console, style, "  "))

    def put(self, dialog: Dialog) -> Any:
        try:
            return self._with_interrupts(lambda: self._ask(dialog))
        except EOFError:
            # The user has left; the question stays open.
            return None if dialog.from_command else Defer()
        except KeyboardInterrupt:
            if not dialog.from_command:
                raise CancelledError from None
            self._console.print()  # after the ^C that the terminal printed
            return None

    def _ask(self, dialog: Dialog) -> Any:
        label = self._show(dialog)
        if isinstance(dialog.words, Pick):
            return self._pick(dialog.words)
        drafts: dict[str, InEditor] = {}
        while True:
            words = self._read_words(label, dialog)
            if dialog.yes_or_no and dialog.by_name(words) is None and self._kept(words, "Answer y or n."):
                continue
            try:
                answer = self._answer(dialog, words, drafts)
            except ValueError as problem:
                self.say(str(problem), "bad")
                continue
            if answer is not None or dialog.from_command:
                return answer

    def _show(self, dialog: Dialog) -> str:
        """Print the question; return the prompt of the line to read."""
        question, hint = dialog.question, ""
        offered = [f"{choice.key} {choice.short or choice.label}" for choice in dialog.choices if choice.names]
        if dialog.details:
            offered.append(f"{EXPLAIN} explain")
        if isinstance(dialog.words, TextInput) and dialog.words.hint:
            offered.append(dialog.words.hint)
        if dialog.yes_or_no and dialog.from_command:
            label = f"{question} [y/N] ".lstrip()
        elif not question:
            label = f"[{offered[0]}] " if offered else dialog.words.label if isinstance(dialog.words, TextInput) else ""
        else:
            label = f"{question} [{' · '.join(offered)}] "
            if len(label) > self._console.width:
                label, hint = f"{question} ", " · ".join(offered)
        if dialog.yes_or_no and not question:
            self._console.print(styled(f"? {one_line(dialog.title.text)}", "ask"), end=" ")
            self._console.file.flush()
        else:
            lines = dialog_lines(dialog, self._console)
            self._print(islice(lines, int(question == dialog.title.text), None))  # the label repeats the title
        self._print(fact_lines(hint, self._console) if hint else ())
        if dialog.guard:
            self._keep_typed_ahead(read_typed_ahead(dialog.guard), dialog)
        return label

    def _keep_typed_ahead(self, text: str, dialog: Dialog) -> None:
        """Keep what was typed before the question, except answers: they were not meant for it."""
        if self._keep is not None and any(dialog.by_name(line.strip()) is None for line in text.strip().split("\n")):
            self._keep(text)
            self.say("Your text is the draft of your next message now.")

    def _print(self, rows: Iterable[Text]) -> None:
        for row in rows:
            self._console.print(row)

    def _answer(self, dialog: Dialog, words: str, drafts: dict[str, InEditor]) -> Any:
        """Interpret a line; None if it is incomplete. Raises ValueError with a message."""
        choice = dialog.by_name(words)
        if words == EXPLAIN and dialog.details:
            self._print(detail_lines(dialog, self._console))
            for offered in (choice for choice in dialog.choices if choice.why):
                text = f"{offered.key} {offered.short or offered.label}: {offered.why}"
                self._print(fact_lines(escape_lookalikes(text), self._console))
            return None
        if choice is None:
            return dialog.words.read(words) if isinstance(dialog.words, TextInput) else None
        match choice.act:
            case GiveAnswer(answer=answer):
                return answer
            case TextInput(label=label, read=read, text=text):
                asked = f"new {label.removesuffix('> ')} (nothing: leave it)> " if text else label
                return read(self._read_words(asked, dialog))
            case InEditor() as act:
                # Offer unusable text again when the editor is reopened.
                act = drafts.get(choice.key, act)
                result = edit_and_parse(act.text, act.read, act.suffix)
                if result.problem:
                    drafts[choice.key] = act.replace(text=result.text)
                    raise ValueError(result.problem)
                return result.answer

    def _pick(self, pick: Pick) -> int | None:
        """Return the index of the option that a number or part of its name selects; None for none."""
        for number, (label, text) in enumerate(pick.options, 1):
            self.say(f"  {number}. {one_line(label)}" + (f" - {one_line(text)}" if text else ""))
        names = [label.lower() for label, _ in pick.options]
        while words := self._read_one_line(f"[1-{len(names)}, Enter to {pick.empty}] "):
            if 1 <= parse_number(words) <= len(names):
                return parse_number(words) - 1
            starts = [n for n, name in enumerate(names) if name.startswith(words.lower())]
            found = starts or [n for n, name in enumerate(names) if words.lower() in name]
            if len(found) == 1:
                return found[0]
            problem = f"{one_line(words)} fits {'several of them' if found else 'none of them'}."
            if not found and self._kept(words, problem):
                continue
            self.say(problem)
            if not os.isatty(0):
                break  # the next line of a pipe does not answer this question
        return None

    def _kept(self, words: str, problem: str) -> bool:
        """Keep a text that is no answer as a draft, or say what the problem with it is; the question stays open.

        Returns False for a single character, and if nothing is kept: then it is a wrong answer.
        """
        if self._keep is None or len(words) < 2 or not any(map(str.isalpha, words)):
            return False
        if QuestionReply.is_assent(words):
            self.say(problem)
        else:
            # Further lines of a paste that comes slowly are no answers either.
            self._keep_draft(f"{words}\n{read_rest_of_paste(GUARD_SECONDS)}")
        return True

    def _keep_draft(self, text: str) -> None:
        assert self._keep is not None
        if Redactor({})(text) != text:
            self.say("That looks like an API key, so it was dropped. First choose what to do with it.")
            return
        self._keep(text)
        self.say("Your text is the draft of your next message now. This question is still open:")

    def _read_one_line(self, label: str) -> str:
        """Read a line that came alone; what came with others, as in a paste, is kept as a draft."""
        while True:
            words = self._read_line(label).strip()
            if self._keep is None or not (rest := read_rest_of_paste()):
                return words
            self._keep_draft(f"{words}\n{rest}")

    def _read_words(self, label: str, dialog: Dialog) -> str:
        """Read a line that is not a slash command."""
        while True:
            words = self._read_one_line(label)
            if dialog.from_command or not (words.startswith("/") and self._aside(words)):
                return words

    def _with_interrupts(self, run: Callable[[], T]) -> T:
        """Run with Ctrl-C raising KeyboardInterrupt, instead of the handler of a turn."""
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            return run()
        finally:
            signal.signal(signal.SIGINT, before)
