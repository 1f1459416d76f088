"""Secrets made unreadable, by value and by pattern; the one place that logs and reports go through."""

from __future__ import annotations

import re
from collections.abc import Mapping

HIDDEN = "[redacted]"
_SHORTEST = 8
_KEY_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|AUTH", re.IGNORECASE)
# The key formats met most often: Anthropic and OpenAI, GitHub, GitLab, AWS, Google, Slack, Stripe, npm, PyPI,
# Hugging Face, JSON web tokens, private key blocks.
_PATTERNS = re.compile(
    r"sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|(?:AKIA|ASIA)[A-Z0-9]{16}"
    r"|AIza[\w-]{30,}|ya29\.[\w-]{20,}|xox[abprs]-[\w-]{10,}|[rs]k_(?:live|test)_\w{16,}|npm_\w{30,}|pypi-[\w-]{30,}"
    r"|hf_\w{20,}|eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----",
    re.DOTALL,
)


class Redactor:
    """Knows the values of key-like environment variables, and any other that it is told."""

    def __init__(self, env: Mapping[str, str], *more: str) -> None:
        values = {v for k, v in env.items() if _KEY_NAME.search(k)} | set(more)
        longest_first = sorted((v for v in values if len(v) >= _SHORTEST), key=len, reverse=True)
        self._values = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def __call__(self, text: str) -> str:
        """The text without secrets."""
        if self._values is not None:
            text = self._values.sub(HIDDEN, text)
        return _PATTERNS.sub(HIDDEN, text)
