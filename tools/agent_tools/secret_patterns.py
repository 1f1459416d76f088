"""Recognize secrets: names of variables that hold one, and patterns of keys, tokens and passwords.

The only table of patterns. `holds_secret` and `without_secrets` check environment variables; `agent_cli.kernel.redact`
removes the same keys from logs, exports and reports.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# Words of a name between underscores, ends of such words, and words that are a secret after another. No pattern: each
# start asks, and would compile it for half a millisecond.
_SECRET_WORDS = frozenset(
    ("KEY", "KEYS", "PASS", "PW", "CREDENTIAL", "CREDENTIALS", "CREDS", "COOKIE", "COOKIES", "BEARER")
)
_SECRET_ENDINGS = tuple(
    word + plural
    for word in ("APIKEY", "ACCESSKEY", "SECRET", "TOKEN", "PASSWORD", "PASSWD", "PASSPHRASE")
    for plural in ("", "S")
)
_SECRET_LAST_WORDS = frozenset(("AUTH", "PAT", "PWD"))
# Each pattern with literals, one of which every match contains: searching for these first is much faster.
_KEY_PATTERNS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("sk-",), r"sk-[A-Za-z0-9_-]{16,}"),  # Anthropic, OpenAI, OpenRouter, DeepSeek
    (("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"gh[pousr]_[A-Za-z0-9]{20,}"),
    (("github_pat_",), r"github_pat_\w{20,}"),
    (("glpat-",), r"glpat-[\w-]{16,}"),
    (("AKIA", "ASIA"), r"(?:AKIA|ASIA)[A-Z0-9]{16}"),  # AWS
    (("AIza",), r"AIza[\w-]{30,}"),  # Google
    (("ya29.",), r"ya29\.[\w-]{20,}"),
    (("GOCSPX-",), r"GOCSPX-[\w-]{20,}"),
    (("xox", "xapp-"), r"(?:xox[abeprs]|xapp)-[\w-]{10,}"),  # Slack
    (("hooks.slack.com/",), r"hooks\.slack\.com/(?:services|workflows)/[\w/-]{20,}"),
    (("k_live_", "k_test_"), r"[rs]k_(?:live|test)_\w{16,}"),  # Stripe
    (("npm_",), r"npm_[A-Za-z0-9]{30,}"),
    (("pypi-",), r"pypi-[\w-]{30,}"),
    (("hf_",), r"hf_[A-Za-z0-9]{20,}"),  # Hugging Face
    (("gsk_",), r"gsk_[A-Za-z0-9]{20,}"),  # Groq
    (("xai-",), r"xai-[A-Za-z0-9]{20,}"),
    (("pplx-",), r"pplx-[A-Za-z0-9]{20,}"),  # Perplexity
    (("r8_",), r"r8_[A-Za-z0-9]{30,}"),  # Replicate
    (("SG.",), r"SG\.[\w-]{16,}\.[\w-]{16,}"),  # SendGrid
    (("hvs.", "hvb."), r"hv[sb]\.[\w-]{20,}"),  # Vault
    (("dop_v1_",), r"dop_v1_[a-f0-9]{32,}"),  # DigitalOcean
    (("dapi",), r"dapi[a-f0-9]{32}"),  # Databricks
    (("shpat_", "shpss_"), r"shp(?:at|ss)_[a-fA-F0-9]{32}"),  # Shopify
    (("lin_api_",), r"lin_api_[A-Za-z0-9]{30,}"),  # Linear
    (("tskey-",), r"tskey-[\w-]{16,}"),  # Tailscale
    (("NRAK-",), r"NRAK-[A-Z0-9]{20,}"),  # New Relic
    (("whsec_",), r"whsec_[A-Za-z0-9+/=]{20,}"),  # Stripe's webhooks
    (("dckr_pat_", "dckr_oat_"), r"dckr_[po]at_[\w-]{20,}"),  # Docker Hub
    (("glsa_", "glc_"), r"gl(?:sa|c)_[\w+/=]{20,}"),  # Grafana
    ((".atlasv1.",), r"\w{10,}\.atlasv1\.[\w-]{40,}"),  # Terraform Cloud
    (("ATATT3x",), r"ATATT3x[\w=-]{20,}"),  # Atlassian
    (("ntn_", "figd_", "sbp_", "nfp_"), r"(?:ntn|figd|sbp|nfp)_[\w-]{30,}"),  # Notion, Figma, Supabase, Netlify
    (("sntrys_", "rubygems_"), r"(?:sntrys|rubygems)_[\w+/=-]{30,}"),
    (("pul-",), r"pul-[a-f0-9]{40}"),  # Pulumi
    (("/api/webhooks/",), r"discord(?:app)?\.com/api/webhooks/\d+/[\w-]{30,}"),
    ((":AA",), r"\d{8,10}:AA[\w-]{33}"),  # Telegram
    (("AGE-SECRET-KEY-",), r"AGE-SECRET-KEY-1[A-Z0-9]{50,}"),
    (("eyJ",), r"eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}"),  # JSON web tokens
    (("-----BEGIN ",), r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----"),
)
KEY_LITERALS = tuple(mark for marks, _ in _KEY_PATTERNS for mark in marks)
# A password in a URL or in Go's `user:password@tcp(host)/name`, in a connection string or its query, or in a header.
# For environments only: in free text most of them are examples.
_PASSWORD = (
    r"://[^/?#\s:@]*:(?P<url>[^/?#\s@]+)@"
    r"|\A[^/?#\s:@]+:(?P<dsn>[^\s@]+)@(?:tcp|unix)\("
    r"|(?:\A|[\s;?&])-{0,2}(?:password|passwd|pwd|sslpassword|(?:shared)?access_?key|accountkey|api_?key"
    r"|(?:access|auth|private)_?token|client_?secret|sig|x-amz-signature)\s*=\s*(?P<word>[^\s;&]+)"
    r"|(?:\A|:\s*)(?:bearer|basic)\s+(?=\S*[\d=])(?P<header>[\w.+/=~-]{8,})"
)
# Lower-case literals that a match contains: the sign, and one of the words.
_PASSWORD_LITERALS = (
    ("@", (":",)),
    ("=", ("passw", "pwd", "key", "token", "secret", "sig")),
    (" ", ("bearer", "basic")),
)
# An AWS secret key has no prefix. Excludes paths, hexadecimal digests and words.
_AWS_SECRET = r"(?=.*[A-Z])(?=.*[a-z])(?=.*\d)(?!/)[A-Za-z0-9/+]{40}"


@lru_cache(maxsize=4096)
def looks_like_key(name: str) -> bool:
    """Return True if a variable's name indicates a secret: OPENAI_API_KEY, GH_TOKEN, DB_PASSWORD."""
    *before, last = words = name.upper().split("_")
    if last in _SECRET_LAST_WORDS and before and before[-1]:
        return True
    if last == "HEADERS" and ("OTLP" in before or before[-1:] == ["CUSTOM"]):
        return True  # of requests: OTEL_EXPORTER_OTLP_HEADERS, ANTHROPIC_CUSTOM_HEADERS
    return any(word in _SECRET_WORDS or word.endswith(_SECRET_ENDINGS) for word in words)


@lru_cache(maxsize=1)
def key_pattern() -> re.Pattern[str]:
    """Return a pattern that matches keys anywhere in a text."""
    return re.compile("|".join(shape for _, shape in _KEY_PATTERNS), re.DOTALL)


@lru_cache(maxsize=1)
def _key_pattern_at_word() -> re.Pattern[str]:
    # A folder named task-management-something contains no `sk-...` key.
    return re.compile(f"(?<![A-Za-z0-9])(?:{key_pattern().pattern})", re.DOTALL)


def passwords_in(value: str) -> tuple[str, ...]:
    """Return the passwords in a variable's value that is a URL, a connection string or a header."""
    small = value.lower()
    if not any(sign in small and any(map(small.__contains__, words)) for sign, words in _PASSWORD_LITERALS):
        return ()
    return tuple(found[found.lastgroup or 0] for found in re.finditer(f"(?i){_PASSWORD}", value))


@lru_cache(maxsize=4096)
def holds_secret(value: str) -> bool:
    """Return True if a value is or contains a secret, whatever its name: a known kind of key, or a password."""
    if any(map(value.__contains__, KEY_LITERALS)) and _key_pattern_at_word().search(value):
        return True
    return bool(passwords_in(value) or (len(value) == 40 and re.fullmatch(_AWS_SECRET, value)))


def is_secret(name: str, value: str) -> bool:
    """Return True if a variable's name or value indicates a secret, so that other programs must not get it."""
    return looks_like_key(name) or holds_secret(value)


def without_secrets(env: Mapping[str, str], passed: Iterable[str] = ()) -> dict[str, str]:
    """Return an environment without the variables that hold secrets, except those named in `passed`."""
    passed = frozenset(passed)
    return {name: value for name, value in env.items() if name in passed or not is_secret(name, value)}
