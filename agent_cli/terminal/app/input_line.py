"""The input line: draft, history, folded pastes, the completion menu, and replies to questions.

A reply to a question sets the draft aside and restores it, so the draft is never lost.

Long pastes are folded to a placeholder in the line and unfolded when the message is sent.

The history is that of the project, over sessions: JSON lines, one string each, readable only by the user. Completions
are commands after `/` and workspace files after `@`.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.history import History

from agent_cli.terminal.app.attachments import Pictures
from agent_cli.terminal.dialogs.model import Option
from agent_tools.base import ToolContext
from agent_tools.fs.safe_files import open_regular, private_folder, read_regular, write_whole
from agent_tools.process.child import run_child
from agent_tools.record import Value
from agent_tools.search.ripgrep import find_rg, walk_files
from agent_tools.secret_patterns import without_secrets
from agent_tools.text import escape_controls, one_line

MOST_REMEMBERED = 1_000
_LARGEST = 64 << 20


class ProjectHistory(History):
    """The history of the input line. path: its file; None for this session only.

    Duplicates keep their latest position. A file that cannot be read or written is ignored.
    """

    def __init__(self, path: Path | None) -> None:
        super().__init__()
        self._path = path

    def load_history_strings(self) -> Iterable[str]:
        """Return the entries, newest first."""
        found: dict[str, None] = {}
        for text in reversed(self._kept()):
            found.setdefault(text)
        return list(found)[:MOST_REMEMBERED]

    def store_string(self, string: str) -> None:
        if self._path is None or not string.strip():
            return
        try:
            private_folder(self._path.parent)
            handle = open_regular(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW)
            with os.fdopen(handle, "ab") as file:
                file.write(json.dumps(string, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
        except OSError:
            self._path = None

    def add(self, text: str) -> None:
        """Add a message, unless it repeats the last one."""
        if text.strip() and self.get_strings()[-1:] != [text]:
            self.append_string(text)

    def _kept(self) -> list[str]:
        if self._path is None:
            return []
        try:
            lines = read_regular(self._path, _LARGEST).splitlines()
        except OSError:
            return []
        texts = []
        for line in lines[-4 * MOST_REMEMBERED :]:
            try:
                text = json.loads(line)
            except ValueError:
                continue
            if isinstance(text, str):
                texts.append(text)
        if len(lines) > 4 * MOST_REMEMBERED:
            self._shorten(texts[-MOST_REMEMBERED:])
        return texts

    def _shorten(self, texts: list[str]) -> None:
        """Rewrite the file with the latest messages only."""
        assert self._path is not None
        lines = (json.dumps(t, ensure_ascii=False).encode("utf-8", "replace") + b"\n" for t in texts)
        with suppress(OSError):
            write_whole(self._path, b"".join(lines))


MOST, FILES = 50, 100_000
_MENTION = re.compile(r"(?:^|(?<=\s))@([^\s@]*)$")
_COMMAND = re.compile(r"/([\w:.-]*)$")
_LISTED = 64 << 20
_ARGUMENT = re.compile(r"/([\w:.-]+) ([^\s@]*)")


class Completion(Value):
    """An entry of the menu.

    start: where it is inserted, up to the cursor.
    place: index of an option to pick.
    """

    text: str
    help: str = ""
    start: int = 0
    place: int = 0


def complete(
    before: str,
    commands: Iterable[tuple[str, str]],
    files: Callable[[], tuple[str, ...]],
    values: Callable[[str], Iterable[str]] = lambda command: (),
) -> list[Completion]:
    """Return the completions for the text before the cursor, best first. values: arguments of a command."""
    if match := _COMMAND.fullmatch(before):
        typed = match[1].lower()
        names = [(name, text) for name, text in commands if typed in name.lower()]
        names.sort(key=lambda pair: (not pair[0].lower().startswith(typed), pair[0]))
        return [Completion(f"/{name} ", text) for name, text in names if f"/{name}" != before][:MOST]
    if match := _ARGUMENT.fullmatch(before):
        typed, start = match[2].lower(), match.start(2)
        fitting = [value for value in values(match[1]) if value.lower().startswith(typed) and value != match[2]]
        return [Completion(value, "", start) for value in fitting[:MOST]]
    if match := _MENTION.search(before):
        start = match.start(1) - 1
        return [Completion(f"@{name} ", "", start) for name in fuzzy_matches(match[1], files()) if name != match[1]]
    return []


def narrowed(typed: str, options: Iterable[tuple[str, str]]) -> list[Completion]:
    """Return the options whose label or description contains every typed word, in their order."""
    words = typed.lower().split()
    return [
        Completion(one_line(label), one_line(text), 0, place)
        for place, (label, text) in enumerate(options)
        if all(word in f"{label} {text}".lower() for word in words)
    ]


def fuzzy_matches(typed: str, names: Iterable[str]) -> list[str]:
    """Return the names that contain the typed letters in order.

    Best first: base name starts with them, base name contains them, path starts with or contains them, the rest; short
    names first.
    """
    if not typed:
        return sorted(names, key=lambda n: (n.count("/"), n))[:MOST]
    letters = re.compile(".*?".join(re.escape(c) for c in typed), re.IGNORECASE | re.DOTALL)
    low = typed.lower()

    def rank(name: str) -> tuple[int, int, str]:
        path = name.lower()
        base = path.rpartition("/")[2]
        fits = (base.startswith(low), low in base, path.startswith(low), low in path, True)
        return fits.index(True), len(name), name

    return sorted((n for n in names if letters.search(n)), key=rank)[:MOST]


class FileNames:
    """Workspace files that are not ignored, listed in the background on first use and after `forget`."""

    def __init__(self, root: Path, ctx: ToolContext, ready: Callable[[], None]) -> None:
        self._root, self._ctx, self._ready = root, ctx, ready
        self._names: tuple[str, ...] = ()
        self._reading = self._fresh = False

    def __call__(self) -> tuple[str, ...]:
        """Return the names known so far."""
        if not self._fresh and not self._reading:
            self._reading = True
            threading.Thread(target=self._read, daemon=True).start()
        return self._names

    def forget(self) -> None:
        """Mark the names as stale; they are used until they have been read again."""
        self._fresh = False

    def _read(self) -> None:
        found = tuple(
            name for name in self._list()[:FILES] if escape_controls(name) == name and not re.search(r"\s", name)
        )
        self._names, self._fresh, self._reading = found, True, False
        self._ready()

    def _list(self) -> list[str]:
        rg = find_rg(self._ctx)
        if rg is None:
            fresh = ToolContext(self._ctx.workspace, env=self._ctx.env)
            return [name for name, _ in zip(walk_files(self._root, False, fresh), range(FILES), strict=False)]
        env = {k: v for k, v in without_secrets(self._ctx.env).items() if k != "RIPGREP_CONFIG_PATH"}
        command = [rg, "--no-config", "--files", "--hidden", "--glob=!.git", "--null"]
        try:
            done = run_child(command, seconds=20, most=_LISTED, cwd=self._root, env=env)
        except (OSError, TimeoutError, OverflowError):
            return []
        return [os.fsdecode(name).removeprefix("./") for name in done.out.split(b"\0") if name]


LINES, CHARS = 4, 800
_FOLD = re.compile(r"\[Pasted #(\d{1,9}) (?:\d+ lines?|\d+ characters)\]")


class Pastes:
    """The pasted texts of this session, by number."""

    def __init__(self) -> None:
        self._kept: dict[int, str] = {}

    def fold(self, text: str) -> str:
        """Return a placeholder for a pasted text; the text itself if it is short."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        lines = text.count("\n") + 1
        if lines <= LINES and len(text) <= CHARS:
            return text
        number = len(self._kept) + 1
        self._kept[number] = text
        size = f"{lines} lines" if lines > 1 else f"{len(text)} characters"
        return f"[Pasted #{number} {size}]"

    def unfold(self, text: str) -> str:
        """Replace the placeholders in a text with the pasted texts."""
        return _FOLD.sub(lambda match: self._kept.get(int(match[1]), match[0]), text)


PROMPT = "> "
# A longer message is stored in the history with its pastes folded.
LONGEST_KEPT = 20_000


class InputLine:
    """The input line.

    commands: returns names and help of slash commands.
    files: returns names of files to mention.
    values: returns the argument values of a command.
    """

    def __init__(
        self,
        history: ProjectHistory,
        commands: Callable[[], Iterable[tuple[str, str]]],
        files: Callable[[], tuple[str, ...]],
        pictures: Pictures | None = None,
        values: Callable[[str], Iterable[str]] = lambda command: (),
    ) -> None:
        self.history = history
        self._commands, self._files, self._values = commands, files, values
        self.pastes = Pastes()
        self.pictures = pictures or Pictures()
        self.buffer = Buffer(history=history, multiline=True, on_text_changed=self._changed)
        self.label = PROMPT
        self._aside: Document | None = None
        self._options: tuple[Option, ...] = ()
        self.menu: list[Completion] = []
        self.chosen = -1

    @property
    def text(self) -> str:
        """The message as it would be sent: the draft with its pastes unfolded."""
        return self.pastes.unfold(self.buffer.text)

    @property
    def draft(self) -> str:
        """The draft, also while a reply has its place."""
        return self.text if self._aside is None else self.pastes.unfold(self._aside.text)

    @property
    def replying(self) -> bool:
        """True while the line holds a reply to a question and the draft is set aside."""
        return self._aside is not None

    def borrow(self, label: str, text: str, options: tuple[Option, ...] = ()) -> None:
        """Set the draft aside for a reply. options: the reply is picked from this menu."""
        if self._aside is None:
            self._aside = self.buffer.document
        self.label = label
        self._options = options
        self._put(Document(text))
        self.complete()

    @property
    def picking(self) -> bool:
        """True while the reply is picked from the menu."""
        return bool(self._options)

    @property
    def picked(self) -> int | None:
        """Index of the selected option; the first if none was selected."""
        return self.menu[max(self.chosen, 0)].place if self.menu else None

    def give_back(self) -> None:
        """Restore the draft."""
        if self._aside is not None:
            draft, self._aside = self._aside, None
            self.label, self._options = PROMPT, ()
            self._put(draft)

    def take(self) -> str:
        """Return the message, add it to the history, and clear the line."""
        text, typed = self.text, self.buffer.text
        self.history.add(text if len(text) <= LONGEST_KEPT else typed)
        self.clear()
        return text

    def clear(self) -> None:
        self.buffer.reset()
        self.close_menu()

    def put_back(self, text: str) -> None:
        """Put a message back into the line for editing."""
        self._put(Document(text))

    def paste(self, text: str) -> None:
        text = text.replace("\0", "")  # not valid in file names and program arguments
        self.buffer.insert_text(self.pictures.pasted(text) or self.pastes.fold(text))

    def newline_for_backslash(self) -> bool:
        """Replace a backslash before the cursor with a line break; False if there is none."""
        if not self.buffer.document.text_before_cursor.endswith("\\"):
            return False
        self.buffer.delete_before_cursor()
        self.buffer.newline(copy_margin=False)
        return True

    def _put(self, document: Document) -> None:
        self.buffer.set_document(document, bypass_readonly=True)
        self.close_menu()

    def _changed(self, buffer: Buffer) -> None:
        self.complete()

    def complete(self) -> None:
        """Update the menu for the text before the cursor."""
        self.chosen = -1
        before = self.buffer.document.text_before_cursor
        if self.picking:
            self.menu, self.chosen = narrowed(self.buffer.text, self._options), 0
        else:
            self.menu = [] if self.replying else complete(before, self._commands(), self._files, self._values)

    def close_menu(self) -> None:
        self.menu, self.chosen = [], -1

    def move(self, step: int) -> None:
        """Move the selection in the menu."""
        self.chosen = (self.chosen + step) % len(self.menu) if self.chosen >= 0 or step > 0 else len(self.menu) - 1

    def accept(self) -> None:
        """Insert the selected completion; the first if none was selected."""
        choice = self.menu[max(self.chosen, 0)]
        document = self.buffer.document
        before, after = document.text_before_cursor[: choice.start] + choice.text, document.text_after_cursor
        self._put(Document(before + after.removeprefix(" "), len(before)))
