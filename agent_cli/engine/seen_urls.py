"""Whether a URL comes from the conversation: a page that nobody named may be a way to carry something out."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from typing import Any

from agent_cli.core.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage, without_note
from agent_tools.base import Tool
from agent_tools.builtin import ClassOf, tool_class

# User messages that the program writes and that quote the model: a command line, a plan, a summary.
_QUOTES = ("<compacted>", "<plan_", "<reminder>", "[Background command ")
_OWN_FILES = ("file_path", "notebook_path", "path")
# The commands whose output is what stood in one file, or in one place elsewhere, and nothing of the command line. What
# prints, joins or rewrites text could put an address together from pieces.
_FILE = r"(?!-)[\w./@+-]+"
_COPIES = re.compile(
    rf"(?:cat|(?:head|tail)(?: -n ?\d+| -\d+)?|grep(?: -[EFinw]+)? (?:\w+|'[^']*'))\s+(?P<file>{_FILE})"
    r"|git remote -v|git remote get-url \w+|gh (?:issue|pr|release|run) view \d+"
)


def is_known_url(urls: Iterable[str], histories: Sequence[Iterable[Message]], class_of: ClassOf = tool_class) -> bool:
    """Whether a user message or a tool result contains the URL: as given, or without fragment and trailing slash.

    urls: the spellings of it. histories: the user's conversation, then those of the sub-agents inside it, whose user
    messages were written by a model and do not count. Neither does a result that may only repeat what a model composed:
    where it wrote the URL before, in words or in arguments; output of commands that do more than show a file; files
    that it wrote; answers of sub-agents; a page that could not be fetched.
    """
    seen = _Seen({_bare(url) for url in urls}, class_of)
    return any(seen.known(history, own=not depth) for depth, history in enumerate(histories))


class _Seen:
    """What the models of the histories so far wrote: words, and names of files."""

    def __init__(self, spellings: set[str], class_of: ClassOf) -> None:
        self._spellings = spellings
        self._class_of = class_of
        self._composed = False
        self._commands = ""
        self._files: set[str] = set()

    def known(self, history: Iterable[Message], *, own: bool) -> bool:
        calls: dict[str, ToolCall] = {}
        for message in history:
            if isinstance(message, AssistantMessage):
                calls.update((call.id, call) for call in message.calls)
                self._take(message)
            elif isinstance(message, UserMessage):
                text = without_note(message.text)
                if own and not text.startswith(_QUOTES) and self._in(text):
                    return True
            elif not self._composed and self._in(message.text) and self._foreign(message, calls.get(message.call_id)):
                return True
        return False

    def _take(self, message: AssistantMessage) -> None:
        self._composed = self._composed or self._in(message.text)
        for call in message.calls:
            given = json.dumps(call.arguments, ensure_ascii=False)
            self._composed = self._composed or self._in(given)
            kind = self._class_of(call.name)
            if kind.command_argument and not _copied(call, kind):
                self._commands += given
            elif kind.composed:
                self._files |= {_name(call.arguments.get(key)) for key in _OWN_FILES} - {""}

    def _foreign(self, result: ToolMessage, call: ToolCall | None) -> bool:
        """Whether the text of a result was written by somebody else."""
        kind = self._class_of(result.name)
        if kind.composed or (result.is_error and kind.address_argument):
            return False
        if call is None:
            return not kind.command_argument
        kind = self._class_of(call.name)
        copied = _copied(call, kind)
        if kind.command_argument and copied is None:
            return False
        names = {_name(call.arguments.get(key)) for key in _OWN_FILES} | {_name(copied["file"] if copied else "")}
        if any(name in self._files or name in self._commands for name in names - {""}):
            return False
        return not kind.searches_content or not any(name in result.text for name in self._files)

    def _in(self, text: str) -> bool:
        small = text.lower()
        return any(spelling in small for spelling in self._spellings)


def _copied(call: ToolCall, kind: type[Tool[Any]]) -> re.Match[str] | None:
    """How a command shows what stands somewhere; None for one that does more, and for a call that runs none."""
    return _COPIES.fullmatch(str(call.arguments.get(kind.command_argument, "")).strip())


def _name(path: object) -> str:
    """The last part of a path that a call names; "" for a folder like `.`, or where it names none."""
    name = os.path.basename(path.rstrip("/")) if isinstance(path, str) else ""
    return "" if name in (".", "..") else name


def _bare(url: str) -> str:
    """A URL without what does not change the page, and without its scheme, which may be http in the one place only."""
    return (url.partition("#")[0].rstrip("/").partition("://")[2] or url).lower()
