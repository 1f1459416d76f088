"""The input line: draft, history, folded pastes, the completion menu, and replies to questions.

A reply to a question sets the draft aside and restores it, so the draft is never lost.

Long pastes are folded to a placeholder in the line and unfolded when the message is sent.

The history is shared by the sessions of a project: JSON lines, one message each, readable only by the user.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.history import History

from agent_cli.kernel.runtime.completion import CommandEntry, Completion, complete, filter_options
from agent_cli.shells.terminal.app.attachments import ImageAttachments
from agent_cli.shells.terminal.app.typed_text import TypedBuffer, length_after, length_before
from agent_cli.shells.terminal.dialogs.model import Option
from agent_tools.fs.safe_files import open_regular, private_folder, read_regular, write_atomic

MAX_ENTRIES = 1_000
# Characters of pastes that are stored with a message; of a message with more, only the rest is kept.
MAX_HISTORY_CHARS = 20_000
# A message, or one with pastes: {"text": ..., "pasted": {placeholder: text}}.
_Entry = str | dict[str, Any]
_MAX_HISTORY_BYTES = 64 << 20


class ProjectHistory(History):
    """The history of the input line. path: its file; None for a history of this session only.

    Of duplicates, the latest counts. A file that cannot be read or written is ignored.
    """

    def __init__(self, path: Path | None) -> None:
        super().__init__()
        self._path = path
        self.pastes = Pastes()

    def load_history_strings(self) -> Iterable[str]:
        """Return the entries, newest first."""
        found: dict[str, None] = {}
        for entry in reversed(self._read_file()):
            found.setdefault(self._folded(entry))
        return list(found)[:MAX_ENTRIES]

    def store_string(self, string: str) -> None:
        if self._path is None or not string.strip():
            return
        pasted = self.pastes.pasted_in(string)
        fits = sum(map(len, pasted.values())) <= MAX_HISTORY_CHARS
        entry = {"text": string, "pasted": pasted} if pasted and fits else string
        try:
            private_folder(self._path.parent)
            handle = open_regular(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW)
            with os.fdopen(handle, "ab") as file:
                file.write(json.dumps(entry, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
        except OSError:
            self._path = None

    def entries(self) -> list[str]:
        """Return the entries of all sessions of the project, newest first, each once."""
        return list(self.load_history_strings()) or list(dict.fromkeys(reversed(self.get_strings())))

    def add(self, text: str) -> None:
        """Add a message with its pastes folded, unless it repeats the last one."""
        if text.strip() and self.get_strings()[-1:] != [text]:
            self.append_string(text)

    def _read_file(self) -> list[_Entry]:
        if self._path is None:
            return []
        try:
            lines = read_regular(self._path, _MAX_HISTORY_BYTES).splitlines()
        except OSError:
            return []
        texts = []
        for line in lines[-4 * MAX_ENTRIES :]:
            try:
                text = json.loads(line)
            except ValueError:
                continue
            if isinstance(text, str) or (isinstance(text, dict) and isinstance(text.get("text"), str)):
                texts.append(text)
        if len(lines) > 4 * MAX_ENTRIES:
            self._rewrite(texts[-MAX_ENTRIES:])
        return texts

    def _folded(self, entry: _Entry) -> str:
        """Return an entry with its pastes folded, under the numbers that they have in this session."""
        if isinstance(entry, str):
            return entry
        text: str = entry["text"]
        for placeholder, pasted in dict(entry.get("pasted") or {}).items():
            text = text.replace(str(placeholder), self.pastes.add(str(pasted)))
        return text

    def _rewrite(self, texts: list[_Entry]) -> None:
        """Rewrite the file with the latest messages only."""
        assert self._path is not None
        lines = (json.dumps(t, ensure_ascii=False).encode("utf-8", "replace") + b"\n" for t in texts)
        with suppress(OSError):
            write_atomic(self._path, b"".join(lines))


FOLD_LINES, FOLD_CHARS = 4, 800
_PLACEHOLDER = re.compile(r"\[Pasted #(\d{1,9}) (?:\d+ lines?|\d+ characters)\]")


def _count_lines(text: str) -> int:
    return text.removesuffix("\n").count("\n") + 1


class Pastes:
    """The pasted texts of this session, by number."""

    def __init__(self) -> None:
        self._texts: dict[int, str] = {}

    def fold(self, text: str) -> str:
        """Return a placeholder for a pasted text; the text itself if it is short."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        return text if _count_lines(text) <= FOLD_LINES and len(text) <= FOLD_CHARS else self.add(text)

    def unfold(self, text: str) -> str:
        """Replace the placeholders in a text with the pasted texts."""
        return _PLACEHOLDER.sub(lambda match: self._texts.get(int(match[1]), match[0]), text)

    def fold_known(self, text: str) -> str:
        """Replace what was pasted in this session by its placeholder."""
        for number, pasted in self._texts.items():
            if pasted in text:
                text = text.replace(pasted, self._placeholder(number))
        return text

    def add(self, text: str) -> str:
        """Return the placeholder of a pasted text; the same for the same text."""
        number = next((n for n, known in self._texts.items() if known == text), len(self._texts) + 1)
        self._texts[number] = text
        return self._placeholder(number)

    def _placeholder(self, number: int) -> str:
        text = self._texts[number]
        lines = _count_lines(text)
        size = f"{lines} lines" if lines > 1 else f"{len(text)} characters"
        return f"[Pasted #{number} {size}]"

    def pasted_in(self, text: str) -> dict[str, str]:
        """Return the pasted texts by the placeholders in a text."""
        found = ((match[0], self._texts.get(int(match[1]))) for match in _PLACEHOLDER.finditer(text))
        return {placeholder: pasted for placeholder, pasted in found if pasted is not None}

    def placeholder_length(self, text: str) -> int:
        """Return the length of the placeholder that a text ends with; 0 for none."""
        found = next(
            (m for m in _PLACEHOLDER.finditer(text) if m.end() == len(text) and int(m[1]) in self._texts), None
        )
        return len(found[0]) if found else 0


PROMPT = "> "
SEARCH = "history: "
# Characters of an earlier message that a search covers.
_SEARCHED_CHARS = 2_000


class InputLine:
    """The input line.

    commands: returns the slash commands, in the order of the menu.
    files: returns names of files to mention.
    """

    def __init__(
        self,
        history: ProjectHistory,
        commands: Callable[[], Iterable[CommandEntry]],
        files: Callable[[], tuple[str, ...]],
        pictures: ImageAttachments | None = None,
    ) -> None:
        self.history = history
        self._commands, self._files = commands, files
        self.pastes = history.pastes
        self.pictures = pictures or ImageAttachments()
        self.buffer = TypedBuffer(history=history, multiline=True, on_text_changed=self._text_changed)
        self.label = PROMPT
        self._saved_draft: Document | None = None
        self._options: tuple[Option, ...] = ()
        self._found: list[str] = []
        self.searching = False
        self.menu: list[Completion] = []
        self.chosen = -1

    @property
    def text(self) -> str:
        """The message as it would be sent: the draft with its pastes unfolded."""
        return self.pastes.unfold(self.buffer.text)

    @property
    def draft(self) -> str:
        """The draft, also while a reply is being typed."""
        return self.text if self._saved_draft is None else self.pastes.unfold(self._saved_draft.text)

    @property
    def replying(self) -> bool:
        """True while the line holds a reply to a question and the draft is set aside."""
        return self._saved_draft is not None

    def begin_reply(self, label: str, text: str, options: tuple[Option, ...] = ()) -> None:
        """Save the draft and begin a reply. options: menu that the reply is picked from."""
        if self._saved_draft is None:
            self._saved_draft = self.buffer.document
        self.label = label
        self._options, self.searching = options, False
        self._set_document(Document(text))
        self.complete()

    @property
    def picking(self) -> bool:
        """True while the reply is picked from the menu."""
        return bool(self._options)

    @property
    def picked(self) -> int | None:
        """Index of the selected option; the first if none was selected."""
        return self.menu[max(self.chosen, 0)].index if self.menu else None

    def end_reply(self) -> None:
        """Restore the draft."""
        if self._saved_draft is not None:
            draft, self._saved_draft = self._saved_draft, None
            self.label, self._options, self.searching = PROMPT, (), False
            self._set_document(draft)

    def search_history(self) -> bool:
        """Pick from the project's messages, newest first, starting with the draft; return False if there are none."""
        self._found = self.history.entries()
        if self._found:
            options = tuple((" ".join(text[:_SEARCHED_CHARS].split()), "") for text in self._found)
            self.begin_reply(SEARCH, " ".join(self.buffer.text.split()), options)
            self.searching = True
        return self.searching

    def accept_found(self) -> None:
        """Put the selected message of the search into the line; without one, the draft stays."""
        index = self.picked
        self.end_reply()
        if index is not None:
            self._set_document(Document(self._found[index]))

    def take_message(self) -> str:
        """Return the message, add it to the history, and clear the line."""
        text = self.text
        self.history.add(self.buffer.text)
        self.clear()
        return text

    def clear(self) -> None:
        self.buffer.reset()
        self.close_menu()

    def set_text(self, text: str) -> None:
        """Put a message back into the line for editing, its pastes folded."""
        self._set_document(Document(self.pastes.fold_known(text)))

    def paste(self, text: str) -> None:
        text = text.replace("\0", "")  # not valid in file names and program arguments
        self.buffer.insert_text(self.pictures.from_paste(text) or self.pastes.fold(text))

    @property
    def placeholder(self) -> int:
        """Length of the placeholder before the cursor, of a paste or an image; 0 for none."""
        before = self.buffer.document.text_before_cursor
        return self.pastes.placeholder_length(before) or self.pictures.placeholder_length(before)

    @property
    def before(self) -> int:
        """Length of what the cursor moves over to the left: a placeholder, or a character of several code points."""
        return self.placeholder or length_before(self.buffer.document.current_line_before_cursor)

    @property
    def after(self) -> int:
        """Length of what the cursor moves over to the right."""
        after = self.buffer.document.current_line_after_cursor
        first = after[: after.find("]") + 1]
        whole = max(self.pastes.placeholder_length(first), self.pictures.placeholder_length(first))
        return whole if whole and whole == len(first) else length_after(after)

    def newline_for_backslash(self) -> bool:
        """Replace a backslash before the cursor with a line break; return False if there is none."""
        if not self.buffer.document.text_before_cursor.endswith("\\"):
            return False
        self.buffer.delete_before_cursor()
        self.buffer.newline(copy_margin=False)
        return True

    def _set_document(self, document: Document) -> None:
        self.buffer.set_document(document, bypass_readonly=True)
        self.close_menu()

    def _text_changed(self, buffer: Buffer) -> None:
        self.complete()

    def complete(self) -> None:
        """Update the menu for the text before the cursor."""
        self.chosen = -1
        before, after = self.buffer.document.text_before_cursor, self.buffer.document.text_after_cursor
        if self.picking:
            text = self.buffer.text.strip()
            self.menu, self.chosen = filter_options(text, self._options), 0
            if not self.menu and text.isdecimal():
                # The number of an option.
                self.menu = [found for found in filter_options("", self._options) if found.index + 1 == int(text)]
        else:
            commands = self._commands() if before.startswith("/") else ()
            self.menu = [] if self.replying else complete(before, commands, self._files)
            if self.menu and self.menu[0].first and not after:
                self.chosen = 0

    def close_menu(self) -> None:
        """Close the menu; while the reply is picked from it, it shows what the text leaves of it."""
        if self.picking:
            self.complete()
        else:
            self.menu, self.chosen = [], -1

    def move(self, step: int) -> None:
        """Move the selection in the menu."""
        self.chosen = (self.chosen + step) % len(self.menu) if self.chosen >= 0 or step > 0 else len(self.menu) - 1

    def accept(self) -> bool:
        """Insert the selected completion, by default the first; return True if the line is then complete."""
        choice = self.menu[max(self.chosen, 0)]
        document = self.buffer.document
        before, after = document.text_before_cursor[: choice.start] + choice.text, document.text_after_cursor
        self._set_document(Document(before + after.removeprefix(" "), len(before)))
        if choice.text.startswith("/"):
            self.complete()  # its arguments
        return choice.runs
