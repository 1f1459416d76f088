"""Whether a command failed because of the sandbox, as far as its output tells."""

from __future__ import annotations

import re

from agent_tools.clipping import one_line
from agent_tools.sandbox_launch import FAILED, MARK
from agent_tools.sandbox_wrapped import Kind

# Programs say it at the end; a long log may have all kinds of words in it.
_LOOKED_AT = 4_000
_WRITING = r"Read-only file system|\bEROFS\b"
_PINNED = r"Device or resource busy|\bEBUSY\b"
_NETWORK = (
    r"Network is unreachable|No route to host|[Cc]ould not resolve|[Uu]nable to resolve|[Ff]ailed to resolve"
    r"|[Ff]ailure in name resolution|Name or service not known|No address associated|failed to lookup address"
    r"|\b(?:ENETUNREACH|EHOSTUNREACH|EAI_AGAIN|ENOTFOUND)\b|no such host|getaddrinfo"
)
_CALLS = r"Bad system call|\bSIGSYS\b"
_RIGHTS = r"Operation not permitted|Permission denied|\b(?:EPERM|EACCES)\b|PermissionError"


def refusal(kind: Kind, output: str, code: int, *, network: bool) -> str:
    """One line for the model where the sandbox is, or may be, why a command failed; "" where nothing says so.

    code: the exit code, negative for a signal. network: whether the command could use it.
    """
    if kind == "none" or code == 0:
        return ""
    text = output[-_LOOKED_AT:]
    if reason := _not_begun(text, code):
        return f"[the sandbox could not be set up: {reason}; ask to run the command outside the sandbox]"
    if re.search(_WRITING, text) or (kind == "bubblewrap" and re.search(_PINNED, text)):
        return _told("refused", "writing outside the workspace, or to a protected file")
    if not network and re.search(_NETWORK, text):
        return _told("refused", "there is no network in it")
    if code == -31 or re.search(_CALLS, text):
        return _told("refused", "a system call")
    if re.search(_RIGHTS, text):
        what = "writing" if kind == "landlock" else "a protected or hidden file"
        return _told("may have refused", f"{what}, {'' if network else 'the network, '}or a system call")
    return ""


def _told(verb: str, what: str) -> str:
    return f"[the sandbox {verb} this: {what}; ask to run it outside the sandbox]"


def _not_begun(text: str, code: int) -> str:
    """Why the command did not run at all."""
    start = {1: "bwrap: ", FAILED: MARK}.get(code)
    lines = text.strip().splitlines()
    return one_line(lines[-1].removeprefix(start)) if start and lines and lines[-1].startswith(start) else ""
