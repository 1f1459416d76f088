"""Detect from the output of a command whether it failed because of the sandbox."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from agent_tools.sandbox.conditions import Kind
from agent_tools.sandbox.launch import ERROR_PREFIX, SETUP_FAILED_EXIT_CODE
from agent_tools.text import one_line

# Only the end is examined, where programs report errors: a long log may contain anything.
_TAIL_CHARS = 4_000
_READ_ONLY = r"Read-only file system|\bEROFS\b"
_BUSY = r"Device or resource busy|\bEBUSY\b"
_NETWORK = (
    r"Network is unreachable|No route to host|[Cc]ould not resolve|[Uu]nable to resolve|[Ff]ailed to resolve"
    r"|[Ff]ailure in name resolution|Name or service not known|No address associated|failed to lookup address"
    r"|\b(?:ENETUNREACH|EHOSTUNREACH|EAI_AGAIN|ENOTFOUND)\b|no such host|getaddrinfo"
)
_BLOCKED_CALL = r"Bad system call|\bSIGSYS\b"
_NO_PERMISSION = r"Operation not permitted|Permission denied|\b(?:EPERM|EACCES)\b|PermissionError"
_SOCKETS = r"/[\w./-]*\.sock\b|Cannot connect to the Docker daemon|/run/[\w./-]+"
_MISSING = re.compile(r"(/[^\s'\"’:]+)['\"’]?: No such file or directory|No such file or directory: ['\"]?(/[^\s'\"]+)")
_LOCAL = re.compile(r"(?:127\.0\.0\.1|localhost|\[?::1\]?)(?:[\"']?,? ?(?:port|:)?[ :/]?(\d{2,5}))?")
_REFUSED = r"[Cc]onnection refused|\bECONNREFUSED\b|Failed to connect|Could not connect|Couldn't connect"
_HOST = re.compile(
    r"(?:resolve(?: host(?:name)?)?:? ['\"]?|ENOTFOUND |EAI_AGAIN |lookup |host=['\"]|dns error: )"
    r"((?:[\w-]+\.)+[a-z]{2,})",
    re.I,
)
_SIGNING = r"gpg failed to sign|error: .{0,40}sign(?:ing)? (?:key|failed)|No secret key|cannot open .*gpg"
_AUTHENTICATION = (
    r"Permission denied \(publickey|Could not read from remote repository|could not read Username|Host key verification"
)


def explain_refusal(
    kind: Kind,
    output: str,
    code: int,
    *,
    network: bool,
    hosts: Sequence[str] = (),
    hides: Callable[[str], bool] = lambda path: False,
) -> str:
    """Return a line for the model if the sandbox made, or may have made, a command fail; else "".

    code: exit code, negative for a signal.
    network: the command could use the network.
    hosts: hosts that the sandbox's proxy refused while it ran.
    hides: returns True if a path exists but is invisible inside.
    """
    if kind == "none" or code == 0:
        return ""
    text = output[-_TAIL_CHARS:]
    if reason := _setup_error(text, code):
        what = "call again with dangerouslyDisableSandbox, or continue without it"
        return f"[the sandbox could not be set up: {reason}; {what}]"
    if hosts:
        named = ", ".join(dict.fromkeys(hosts))
        return _refusal_line("refused", f"{named}: not in the user's setting sandbox.domains")
    if re.search(_SIGNING, text) or re.search(_AUTHENTICATION, text):
        return _refusal_line("refused", "keys and passwords are hidden in it")
    if re.search(_READ_ONLY, text) or (kind == "bubblewrap" and re.search(_BUSY, text)):
        return _refusal_line("refused", f"writing outside the workspace, or to a protected file{_path_of(text)}")
    if hidden := next(filter(hides, (m[1] or m[2] for m in _MISSING.finditer(text))), ""):
        why = f"{hidden} is hidden in it; the user's setting sandbox.readable can show a folder"
        return _refusal_line("refused", why)
    if re.search(_SOCKETS, text) and re.search(rf"{_REFUSED}|{_NO_PERMISSION}|No such file|Cannot connect", text):
        return _refusal_line("refused", "the socket of a service; the user's setting sandbox.sockets can allow it")
    if not network and re.search(_NETWORK, text):
        host = _HOST.search(text)
        named = f" ({host[1]}); the user's setting sandbox.domains can allow a host" if host else ""
        return _refusal_line("refused", f"there is no network in it{named}")
    if not network and kind == "bubblewrap" and re.search(_REFUSED, text) and (local := _LOCAL.search(text)):
        port = f" ({local[1]})" if local[1] else ""
        why = f"its loopback is its own; the user's setting sandbox.ports can allow a port of this machine{port}"
        return _refusal_line("may have refused", why)
    if not network and re.search(_REFUSED, text):
        why = "there is no network in it" if kind == "bubblewrap" else "connections may be closed in it"
        return _refusal_line("may have refused", f"{why}, so nothing but the command's own servers can be reached")
    if code == -31 or re.search(_BLOCKED_CALL, text):
        return _refusal_line("refused", "a system call")
    if re.search(_NO_PERMISSION, text):
        what = "writing" if kind == "landlock" else "a protected or hidden file"
        return _refusal_line("may have refused", f"{what}, {'' if network else 'the network, '}or a system call")
    return ""


def _path_of(text: str) -> str:
    """Return the path that could not be written, if the output names it."""
    found = re.search(rf"['\"‘]?(/[^\s'\"’:]+)['\"’]?: (?:{_READ_ONLY}|{_BUSY})", text)
    return f" ({found[1]})" if found else ""


def _refusal_line(verb: str, what: str) -> str:
    return f"[the sandbox {verb} this: {what}; call again with dangerouslyDisableSandbox, or continue without it]"


def _setup_error(text: str, code: int) -> str:
    """Return why the command did not start."""
    start = {1: "bwrap: ", SETUP_FAILED_EXIT_CODE: ERROR_PREFIX}.get(code)
    lines = text.strip().splitlines()
    return one_line(lines[-1].removeprefix(start)) if start and lines and lines[-1].startswith(start) else ""
