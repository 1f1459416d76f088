"""Detect from the output of a command whether it failed because of the sandbox.

All of its lines are examined, since a test runner reports a refusal long before its summary; of those that name one, a
few are kept.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from agent_tools.lazy import lazy_pattern
from agent_tools.sandbox.conditions import Kind, MaskedPath
from agent_tools.sandbox.launch import ERROR_PREFIX, SETUP_FAILED_EXIT_CODE
from agent_tools.text import one_line, sanitize_output

# Lines that are kept for each sign: the first and the last ones, cut.
_MAX_CHECKED_LINES = 1_000
_MAX_FIRST, _MAX_LAST, _MAX_LINE_CHARS = 20, 20, 1_000
_READ_ONLY = r"Read-only file system|\bEROFS\b"
_BUSY = r"Device or resource busy|\bEBUSY\b"
_NETWORK = (
    r"Network is unreachable|No route to host"
    r"|(?:[Cc]ould not|[Uu]nable to|[Ff]ailed to) resolve (?:the )?(?:remote )?"
    r"(?:host|proxy|address|['\"‘]?(?:[\w-]+\.)+[a-z]{2,}\b)"
    r"|[Ff]ailure in name resolution|Name or service not known|No address associated|failed to lookup address"
    r"|\b(?:ENETUNREACH|EHOSTUNREACH|EAI_AGAIN|ENOTFOUND)\b|no such host|getaddrinfo"
)
_BLOCKED_CALL = r"Bad system call|\bSIGSYS\b"
_NO_PERMISSION = r"Operation not permitted|Permission denied|\b(?:EPERM|EACCES)\b|PermissionError"
_SOCKETS = r"/[\w./-]*\.sock\b|Cannot connect to the Docker daemon|/run/[\w./-]+"
_MISSING_TEXT = r"(/[^\s'\"’:]+)['\"’]?: No such file or directory|No such file or directory: ['\"]?(/[^\s'\"]+)"
_LOCAL_TEXT = r"(?:127\.0\.0\.1|localhost|\[?::1\]?)(?:[\"']?,? ?(?:port|:)?[ :/]?(\d{2,5}))?"
_REFUSED = r"[Cc]onnection refused|\bECONNREFUSED\b|Failed to connect|Could not connect|Couldn't connect"
_HOST = lazy_pattern(
    r"(?:resolve(?: host(?:name)?)?:? ['\"]?|ENOTFOUND |EAI_AGAIN |lookup |host=['\"]|dns error: )"
    r"((?:[\w-]+\.)+[a-z]{2,})",
    re.I,
)
_SIGNING = r"gpg failed to sign|error: .{0,40}sign(?:ing)? (?:key|failed)|No secret key|cannot open .*gpg"
_AUTHENTICATION = (
    r"Permission denied \(publickey|Could not read from remote repository|could not read Username|Host key verification"
)


_MISSING_FILE = "No such file|Cannot connect"
# Git goes on, and may end with 0: then it is looked for in the first lines.
_UNLINK = "unable to unlink "
_NOT_REPLACED_TEXT = rf"(?:error|warning): unable to unlink (?:old )?'([^']+)': (?:{_READ_ONLY}|{_BUSY})"
# What is said of a file that cannot be opened, moved or replaced: by git, for which it has changed, and by the system.
_MASKED = (
    r"unsupported file type|can only add regular files|would be overwritten by|not uptodate|local modifications"
    r"|unable to unlink|failed to remove|[Ii]nvalid cross-device link|\bEXDEV\b"
)
_SIGN_TEXTS = {
    "keys": f"{_SIGNING}|{_AUTHENTICATION}",
    "read-only": _READ_ONLY,
    "busy": _BUSY,
    "not replaced": _NOT_REPLACED_TEXT,
    "missing": _MISSING_TEXT,
    "sockets": _SOCKETS,
    "absent": _MISSING_FILE,
    "network": _NETWORK,
    "refused": _REFUSED,
    "local": _LOCAL_TEXT,
    "call": _BLOCKED_CALL,
    "permission": _NO_PERMISSION,
    "masked": _MASKED,
}
_SIGNS = {name: lazy_pattern(text) for name, text in _SIGN_TEXTS.items()}
_MISSING, _LOCAL, _NOT_REPLACED = (_SIGNS[name] for name in ("missing", "local", "not replaced"))
# By exit code, how the line begins; sandbox-exec ends so if it cannot read the rules, or not apply them.
_SETUP_ERRORS = {1: "bwrap: ", SETUP_FAILED_EXIT_CODE: ERROR_PREFIX, 65: "sandbox-exec: ", 71: "sandbox-exec: "}
_WITHOUT_PERMISSION = {"landlock": "writing", "seatbelt": "writing outside the workspace, a protected or hidden file"}
_ANY_SIGN = lazy_pattern("|".join(f"(?:{text})" for text in _SIGN_TEXTS.values()))


class Signs:
    """The lines of an output that name a refusal, by the kind of it.

    names: of files that are masked; None for none.
    named: those of them that any line has, each with the number of lines that say that it was refused.
    """

    def __init__(self, lines: Iterable[str], names: re.Pattern[str] | None = None) -> None:
        self.counts = dict.fromkeys(_SIGNS, 0)
        self.last_line = ""
        self.named: dict[str, int] = {}
        self._first: dict[str, list[str]] = {name: [] for name in _SIGNS}
        self._last: dict[str, deque[str]] = {name: deque(maxlen=_MAX_LAST) for name in _SIGNS}
        for line in lines:
            if not line.isspace():
                self.last_line = line
            refused = _ANY_SIGN.search(line)
            if refused:
                self._add(line)
            for found in names.finditer(line) if names is not None else ():
                self.named[found[0]] = self.named.get(found[0], 0) + bool(refused)

    def _add(self, line: str) -> None:
        for name, sign in _SIGNS.items():
            if found := sign.search(line):
                self.counts[name] += 1
                start = max(found.start() - _MAX_LINE_CHARS // 2, 0)
                kept = sanitize_output(line[start : start + _MAX_LINE_CHARS])
                if len(self._first[name]) < _MAX_FIRST:
                    self._first[name].append(kept)
                else:
                    self._last[name].append(kept)

    def text(self, *names: str) -> str:
        """Return the lines that were kept."""
        return "\n".join(line.rstrip("\n") for name in names for line in (*self._first[name], *self._last[name]))

    def count(self, *names: str) -> int:
        return sum(self.counts[name] for name in names)


def explain_refusal(
    kind: Kind,
    lines: Iterable[str],
    code: int,
    *,
    network: bool,
    hosts: Sequence[str] = (),
    hides: Callable[[str], bool] = lambda path: False,
    was_there_before: Callable[[str], bool] = lambda path: False,
    masked: Sequence[MaskedPath] = (),
) -> str:
    """Return a line for the model if the sandbox made, or may have made, a command fail; else "".

    lines: its whole output.
    code: exit code, negative for a signal.
    network: the command could use the network.
    hosts: hosts that the sandbox's proxy refused while it ran.
    hides: returns True if a path exists but is invisible inside.
    was_there_before: returns True if a path in a temporary directory is read-only because it is not the session's.
    masked: what the command must not use.
    """
    if kind == "none":
        return ""
    if not code:
        # Only git ends with 0 though something was refused.
        lines, masked = (line for line in islice(lines, _MAX_CHECKED_LINES) if _UNLINK in line), ()
    signs = Signs(lines, _names_of(masked))
    if found := _NOT_REPLACED.search(signs.text("not replaced")):
        what = f"git changed only a part of the work tree, since {found[1]} is protected; git status shows the rest"
        return _refusal_line("refused", what, signs.count("not replaced"))
    if code == 0:
        return ""
    if reason := _setup_error(signs.last_line, code):
        what = "call again with dangerouslyDisableSandbox, or continue without it"
        return f"[the sandbox could not be set up: {reason}; {what}]"
    if blamed := _explain_mask(signs, masked):
        return blamed
    if hosts:
        named = ", ".join(dict.fromkeys(hosts))
        return _refusal_line("refused", f"{named}: not in the user's setting sandbox.domains", 0)
    if count := signs.count("keys"):
        return _refusal_line("refused", "keys and passwords are hidden in it", count)
    written = ("read-only", "busy") if kind == "bubblewrap" else ("read-only",)
    if count := signs.count(*written):
        path = _path_of(signs.text(*written))
        if was_there_before(path):
            return (
                f"[the sandbox refused this: {path} was there before this session and is read-only; use another name]"
            )
        what = f"writing outside the workspace, or to a protected file{f' ({path})' if path else ''}"
        return _refusal_line("refused", what, count)
    missing = signs.text("missing")
    if hidden := next(filter(hides, (m[1] or m[2] for m in _MISSING.finditer(missing))), ""):
        why = f"{hidden} is hidden in it; the user's setting sandbox.readable can show a folder"
        return _refusal_line("refused", why, missing.count(hidden))
    if (count := signs.count("sockets")) and signs.count("refused", "permission", "absent"):
        return _refusal_line(
            "refused", "the socket of a service; the user's setting sandbox.sockets can allow it", count
        )
    return _explain_network(kind, signs, code, network=network)


def _names_of(masked: Sequence[MaskedPath]) -> re.Pattern[str] | None:
    names = "|".join(re.escape(name) for name in sorted({each.path.name for each in masked}, key=len, reverse=True))
    return re.compile(rf"(?<![\w.-])(?:[\w./-]*/)?(?:{names})(?![\w-]|\.\w)") if names else None


def mask_note(masked: Sequence[MaskedPath]) -> str:
    """Return a line for a command that failed, though its output does not say that a mask is the reason."""
    if not masked:
        return ""
    more = f" and {len(masked) - 1:,} more" if len(masked) > 1 else ""
    return (
        f"[the sandbox protects {masked[0].path.name}{more} from commands, because of a rule or as a likely secret; if "
        "this failed for that, call again with dangerouslyDisableSandbox]"
    )


def _explain_mask(signs: Signs, masked: Sequence[MaskedPath]) -> str:
    """Return the line about a masked file, if the output names one and a refusal."""
    if not signs.named or not signs.count("permission", "read-only", "busy", "absent", "masked"):
        return ""
    text = max(signs.named, key=signs.named.__getitem__)
    same_name = [each for each in masked if each.path.name == os.path.basename(text)]
    found = next((each for each in same_name if f"{each.path}".endswith(f"/{text.lstrip('./')}")), same_name[0])
    what = f"{found.path} {'cannot be opened' if found.closed else 'can only be read'} in it, because "
    if found.why:
        what += f"of the rule {found.why}"
    else:
        what += f"it looks like it holds secrets; the user's rule Read({found.path.name}) would allow it"
    count = signs.named[text]
    return _refusal_line("refused" if count else "may have refused", what, count)


def _explain_network(kind: Kind, signs: Signs, code: int, *, network: bool) -> str:
    """Return the line about the network, a system call or permissions; "" for none."""
    if not network and (count := signs.count("network")):
        host = _HOST.search(signs.text("network"))
        named = f" ({host[1]}); the user's setting sandbox.domains can allow a host" if host else ""
        return _refusal_line("refused", f"there is no network in it{named}", count)
    refused = signs.count("refused")
    if not network and kind == "bubblewrap" and refused and signs.count("local"):
        # The line that says so may name the address itself.
        local = _LOCAL.search(signs.text("refused")) or _LOCAL.search(signs.text("local"))
        port = f" ({local[1]})" if local is not None and local[1] else ""
        why = f"its loopback is its own; the user's setting sandbox.ports can allow a port of this machine{port}"
        return _refusal_line("may have refused", why, refused)
    if not network and refused:
        why = "there is no network in it" if kind == "bubblewrap" else "connections may be closed in it"
        why += ", so nothing but the command's own servers can be reached"
        return _refusal_line("may have refused", why, refused)
    if code == -31 or signs.count("call"):
        return _refusal_line("refused", "a system call", signs.count("call"))
    if count := signs.count("permission"):
        what = _WITHOUT_PERMISSION.get(kind, "a protected or hidden file")
        what = f"{what}, {'' if network else 'the network, '}or a system call"
        return _refusal_line("may have refused", what, count)
    return ""


def _path_of(text: str) -> str:
    """Return the path that could not be written, if the output names it."""
    path = r"['\"‘]?(/[^\s'\"’:]+)"
    found = re.search(rf"{path}['\"’]?: (?:{_READ_ONLY}|{_BUSY})", text)
    found = found or re.search(rf"(?:{_READ_ONLY}|{_BUSY})[^\n]{{0,20}}: {path}", text)
    return found[1] if found else ""


def _refusal_line(verb: str, what: str, count: int) -> str:
    """Return the note. count: lines of the output that name it."""
    if count:
        what += "; 1 line of the output names it" if count == 1 else f"; {count:,} lines of the output name it"
    return f"[the sandbox {verb} this: {what}; call again with dangerouslyDisableSandbox, or continue without it]"


def _setup_error(last_line: str, code: int) -> str:
    """Return why the command did not start."""
    start = _SETUP_ERRORS.get(code)
    return one_line(last_line.strip().removeprefix(start)) if start and last_line.startswith(start) else ""
