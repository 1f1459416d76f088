"""The environment of commands: no secrets, no startup code, and nothing that would wait for a user.

CI=1 is not set, although it keeps many tools from prompting: it also changes their behaviour (pnpm and yarn refuse to
change a lock file, test runners write no snapshots, warnings become errors). Without a terminal and with an empty
standard input they do not wait either.
"""

from __future__ import annotations

import re

from agent_tools.context import ToolContext
from agent_tools.secret_patterns import is_secret

# Bash reads these before the command, or they change how it is interpreted.
STARTUP = frozenset(
    "BASH_ENV ENV SHELLOPTS BASHOPTS BASH_XTRACEFD CDPATH GLOBIGNORE POSIXLY_CORRECT PS4 "
    # A PWD with a link in it would make `cd ..` lead to another place than permissions assume.
    "PWD OLDPWD".split()
)
WITHHELD = "withheld from commands because they look like secrets"
EXCEPTIONS = "the user can pass them with the setting shell.env_pass"
_NO_EDITOR = "echo 'There is no editor here: give the message or content as an argument.' >&2; false"
# Without a terminal, vim waits for ever. This makes it quit once it waits for a key; run as a script it does not wait.
# The variable replaces its usual configuration files, hence the first half.
_VIM = (
    "if has('nvim')|runtime! init.vim init.lua|elseif filereadable(expand('~/.vimrc'))|source ~/.vimrc|"
    "else|runtime vimrc|endif|if has('timers')|exe \"au VimEnter * call timer_start(300, {-> execute("
    "\\\"call writefile(['There is no terminal here to edit in.'], '/dev/stderr', 'a')|cquit\\\")})\"|endif"
)
CALM = {
    "DEBIAN_FRONTEND": "noninteractive",
    "EDITOR": "false",
    "GCM_INTERACTIVE": "never",
    # Empty: no password dialog either.
    "GIT_ASKPASS": "",
    "GIT_EDITOR": _NO_EDITOR,
    "GIT_PAGER": "cat",
    "GIT_SEQUENCE_EDITOR": _NO_EDITOR,
    "GIT_TERMINAL_PROMPT": "0",
    "HGEDITOR": "false",
    "MANPAGER": "cat",
    "PAGER": "cat",
    "PIP_NO_INPUT": "1",
    "SSH_ASKPASS_REQUIRE": "never",
    "SVN_EDITOR": "false",
    "SYSTEMD_PAGER": "cat",
    "TERM": "dumb",
    "VIMINIT": _VIM,
    "VISUAL": "false",
}


_ASKS = (
    r"(?i)api[ _-]?keys?\b|\bcredentials?\b|access[ _-]?key|\btokens? (?:is |was |not |required|missing|expired)"
    r"|authenticat|authoriz|unauthori[sz]ed|\b40[13]\b|forbidden|permission denied \(publickey|no password|log ?in\b"
)
_LOOKED_AT = 4_000


def needed_secrets(command: str, output: str, withheld: list[str]) -> list[str]:
    """Return the withheld variables whose absence may have made a command fail: it or its output names them, or says
    that it lacks a key (then all of them).
    """
    text = output[-_LOOKED_AT:]
    named = [name for name in withheld if name in command or name in text]
    return named or (withheld if re.search(_ASKS, text) else [])


def command_env(ctx: ToolContext) -> tuple[dict[str, str], list[str]]:
    """Return the initial environment of commands, and the names of withheld variables, which have secrets.

    The setting `shell.env_pass` lists names that are passed nevertheless.
    """
    allowed = set(ctx.settings.get("env_pass") or ())
    env: dict[str, str] = {}
    withheld = []
    for name, value in ctx.env.items():
        if name in STARTUP or name.startswith("BASH_FUNC_"):
            continue
        if name not in allowed and is_secret(name, value):
            withheld.append(name)
        else:
            env[name] = value
    return env | CALM, sorted(withheld)
