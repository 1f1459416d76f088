"""The environment commands run in: no keys, no startup code, and nothing that would wait for a person."""

from __future__ import annotations

import re

from agent_tools.base import ToolContext

_KEYS = (
    r"(?i)(?:^|_)(?:\w*(?:API_?KEY|ACCESS_?KEY|SECRET|TOKEN|PASSW(?:OR)?D|PASSPHRASE)S?"
    r"|KEY|KEYS|PASS|PW|CREDENTIALS?)(?:_|$)|_AUTH$"
)
# Bash reads these before the command, or they change what its words mean.
_STARTUP = frozenset(
    ("BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "BASH_XTRACEFD", "CDPATH", "GLOBIGNORE", "POSIXLY_CORRECT")
)
_NO_EDITOR = "echo 'There is no editor here: give the message or content as an argument.' >&2; false"
CALM = {
    "DEBIAN_FRONTEND": "noninteractive",
    "EDITOR": "false",
    "GCM_INTERACTIVE": "never",
    "GIT_EDITOR": _NO_EDITOR,
    "GIT_PAGER": "cat",
    "GIT_SEQUENCE_EDITOR": _NO_EDITOR,
    "GIT_TERMINAL_PROMPT": "0",
    "MANPAGER": "cat",
    "PAGER": "cat",
    "PIP_NO_INPUT": "1",
    "SSH_ASKPASS_REQUIRE": "never",
    "SYSTEMD_PAGER": "cat",
    "TERM": "dumb",
    "VISUAL": "false",
}


def looks_like_key(name: str) -> bool:
    """Whether a variable's name says that its value is secret: OPENAI_API_KEY, GH_TOKEN, DB_PASSWORD."""
    return bool(re.search(_KEYS, name))


def command_env(ctx: ToolContext) -> tuple[dict[str, str], list[str]]:
    """The environment for a command, and the names that were withheld from it.

    The setting `env_pass` lists names that are passed on although they look like keys.
    """
    allowed = set(ctx.settings.get("env_pass") or ())
    env: dict[str, str] = {}
    withheld = []
    for name, value in ctx.env.items():
        if name in _STARTUP or name.startswith("BASH_FUNC_"):
            continue
        if looks_like_key(name) and name not in allowed:
            withheld.append(name)
        else:
            env[name] = value
    return env | CALM, sorted(withheld)
