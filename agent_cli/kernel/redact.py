"""Redact secrets, by value and by pattern; logs, exports and reports all use this."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from agent_tools.secret_patterns import KEY_LITERALS, is_secret, key_pattern, passwords_in
from agent_tools.text import escape_controls, one_line, shorten

REDACTED = "[redacted]"
_MAX_SHOWN_CHARS = 120
_MIN_SECRET_CHARS = 8
# The last word of a text may be the beginning of a key. The offset limits how far back it, or a key block, may begin.
_LAST_WORD = r"(?a:[\w.+/=-]+)\Z"
_LOOKBACK_CHARS = 8_192
_BLOCK_END = r"-----END [A-Z ]*-----"


def without_passwords(text: str) -> str:
    """Return a text, such as an address, without the passwords in it."""
    for password in passwords_in(text):
        text = text.replace(password, REDACTED)
    return text


def shown_variable(name: str, value: str) -> str:
    """Return a variable as NAME=value for a question: bounded, secrets hidden, controls escaped; "" for no name."""
    value = without_passwords(value)
    shown = REDACTED if is_secret(name, value) and REDACTED not in value else value
    text = escape_controls(shorten(one_line(shown), _MAX_SHOWN_CHARS))
    return f"{escape_controls(shorten(name, _MAX_SHOWN_CHARS))}={text}" if name else text


# Keys that are used in this process and are in no environment.
_held: set[str] = set()


def hold_secret(value: str) -> None:
    """Let every `Redactor` of this process redact a value, also those that exist already."""
    _held.add(value)


class Redactor:
    """Redact the secrets of an environment, by name and by value, and any other given value.

    Plain text and JSON are both supported: the placeholder needs no quoting, and values are matched as JSON escapes
    them, too.
    """

    def __init__(self, env: Mapping[str, str], *more: str) -> None:
        secret = [v for k, v in env.items() if is_secret(k, v)]
        self._found = {*secret, *more, *(password for v in secret for password in passwords_in(v))}
        self._compile()

    def _compile(self) -> None:
        self._held = len(_held)
        values = {v for v in self._found | _held if len(v) >= _MIN_SECRET_CHARS}
        longest_first = sorted(values | {json.dumps(v)[1:-1] for v in values}, key=len, reverse=True)
        self._values = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None
        self._plain = tuple(values)

    def __call__(self, text: str) -> str:
        """Return the text without secrets."""
        if self._held != len(_held):
            self._compile()
        if self._values is not None:
            text = self._values.sub(REDACTED, text)
        return key_pattern().sub(REDACTED, text) if any(map(text.__contains__, KEY_LITERALS)) else text

    def safe_length(self, text: str) -> int:
        """Return how much of a growing text can be written: the rest may be part of a secret."""
        if self._held != len(_held):
            self._compile()
        start = max(0, len(text) - _LOOKBACK_CHARS)
        word = re.search(_LAST_WORD, text[start:])
        end = start + word.start() if word else len(text)
        before = -1
        # The rest must not begin in the middle of a secret either.
        while end != before:
            before = end
            block = text.rfind("-----BEGIN ", start, end)
            if block >= 0 and not re.search(_BLOCK_END, text[block:end]):
                end = block
            for value in self._plain:
                sizes = range(min(len(value), end), 0, -1)
                end -= next((n for n in sizes if text.endswith(value[:n], 0, end)), 0)
        return end
