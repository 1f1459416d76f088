"""Secrets made unreadable, by value and by pattern; the one place that logs, exports and reports go through."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from agent_tools.shell_env import looks_like_key

HIDDEN = "[redacted]"
_SHORTEST = 8
# The key formats met most often: Anthropic and OpenAI, GitHub, GitLab, AWS, Google, Slack, Stripe, npm, PyPI,
# Hugging Face, JSON web tokens, private key blocks.
_PATTERNS = re.compile(
    r"sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|(?:AKIA|ASIA)[A-Z0-9]{16}"
    r"|AIza[\w-]{30,}|ya29\.[\w-]{20,}|xox[abprs]-[\w-]{10,}|[rs]k_(?:live|test)_\w{16,}|npm_\w{30,}|pypi-[\w-]{30,}"
    r"|hf_\w{20,}|eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----",
    re.DOTALL,
)
# What each of them has in it: looking for these first takes a third of the time.
_MARKS = (
    "sk-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "AKIA", "ASIA", "AIza", "ya29.", "xox",
    "k_live_", "k_test_", "npm_", "pypi-", "hf_", "eyJ", "-----BEGIN ",
)  # fmt: skip
# The last word of a text, which may be the beginning of a key, and how far back it, or a block of a key, may begin.
_LAST_WORD = r"(?a:[\w.+/=-]+)\Z"
_FAR_BACK = 8_192
_BLOCK_END = r"-----END [A-Z ]*-----"


class Redactor:
    """Knows the values of key-like environment variables, and any other that it is told.

    It takes plain text and JSON alike: what it puts in needs no quoting, and it knows values as JSON spells them.
    """

    def __init__(self, env: Mapping[str, str], *more: str) -> None:
        values = {v for v in ({v for k, v in env.items() if looks_like_key(k)} | set(more)) if len(v) >= _SHORTEST}
        longest_first = sorted(values | {json.dumps(v)[1:-1] for v in values}, key=len, reverse=True)
        self._values = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None
        self._plain = tuple(values)

    def __call__(self, text: str) -> str:
        """The text without secrets."""
        if self._values is not None:
            text = self._values.sub(HIDDEN, text)
        return _PATTERNS.sub(HIDDEN, text) if any(mark in text for mark in _MARKS) else text

    def settled(self, text: str) -> int:
        """How much of a text that still grows can be written: the rest may become a secret, or is the end of one."""
        start = max(0, len(text) - _FAR_BACK)
        word = re.search(_LAST_WORD, text[start:])
        end = start + word.start() if word else len(text)
        before = -1
        # What is held back must not begin in the middle of a secret either.
        while end != before:
            before = end
            block = text.rfind("-----BEGIN ", start, end)
            if block >= 0 and not re.search(_BLOCK_END, text[block:end]):
                end = block
            for value in self._plain:
                sizes = range(min(len(value), end), 0, -1)
                end -= next((n for n in sizes if text.endswith(value[:n], 0, end)), 0)
        return end
