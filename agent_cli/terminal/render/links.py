"""Links for terminals that follow them (OSC 8): addresses, and paths of files that exist in the project.

What is shown is always the target itself, so a link never leads elsewhere than it says.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote

from agent_cli.terminal.render.ansi import cells

_SGR = re.compile(r"(\x1b\[[0-9;]*m)")
_WORD = re.compile(r"https?://[!-;=?-_a-z~]+|(?<![\w/.@~-])(?:\.{1,2}/|/)?\w[\w.@+-]*(?:/[\w.@+-]+)*")
_AFTER = ".,;:!?)]}'\"*"
_ENV = ("WT_SESSION", "KITTY_WINDOW_ID", "WEZTERM_PANE", "ALACRITTY_WINDOW_ID", "KONSOLE_VERSION", "DOMTERM")
_PROGRAMS = ("iTerm.app", "WezTerm", "vscode", "ghostty", "Hyper", "rio")
_TERMS = ("xterm-kitty", "xterm-ghostty", "foot", "alacritty", "contour")
# Words of a row that are looked for on disk, and the longest row that is looked at.
_MOST, _LONGEST = 20, 2_000


def follows_links(env: Mapping[str, str]) -> bool:
    """Return True if the terminal is known to understand links. If in doubt False."""
    if env.get("STY"):
        return False
    if env.get("TMUX"):
        return env.get("TERM_PROGRAM") == "tmux" and _number(env.get("TERM_PROGRAM_VERSION", "")) >= 3.4
    known = any(env.get(name) for name in _ENV) or env.get("TERM_PROGRAM") in _PROGRAMS
    vte = env.get("VTE_VERSION", "")
    return known or env.get("TERM", "").startswith(_TERMS) or (vte.isdigit() and int(vte) >= 5000)


def _number(version: str) -> float:
    found = re.match(r"\d+(?:\.\d+)?", version)
    return float(found[0]) if found else 0.0


def with_links(row: str, root: Path, width: int) -> str:
    """Return a row of the screen, which may hold colors, with its addresses and the paths of files below `root` linked.

    width: of the terminal; an address that reaches its edge may go on in the next row, and is not linked.
    """
    if len(row) > _LONGEST or "\x1b]" in row or ("/" not in row and "." not in row):
        return row
    plain = _SGR.sub("", row)
    targets: list[tuple[int, int, str]] = []
    for match in list(_WORD.finditer(plain))[:_MOST]:
        text = match[0].rstrip(_AFTER)
        end = match.start() + len(text)
        cut = end == len(plain.rstrip()) and cells(plain) >= width - 1
        if not cut and (target := text if "://" in text else _file(text, str(root))):
            targets.append((match.start(), end, target))
    return _insert(row, targets) if targets else row


def _insert(row: str, targets: list[tuple[int, int, str]]) -> str:
    """Put the sequences of links around parts of a row. targets: start and end without the colors, and the target."""
    marks = {start: f"\x1b]8;;{target}\x1b\\" for start, _, target in targets}
    ends = {end for _, end, _ in targets}
    made, at = [], 0
    for part in _SGR.split(row):
        if part.startswith("\x1b"):
            made.append(part)
            continue
        for char in part:
            made.append(marks.get(at, "") + char)
            at += 1
            if at in ends:
                made.append("\x1b]8;;\x1b\\")
    return "".join(made)


def _file(text: str, root: str) -> str:
    """Return the address of a file in the project; "" for other words."""
    if "/" not in text and "." not in text[1:]:
        return ""
    path = os.path.normpath(os.path.join(root, text))
    # Elsewhere a look could reach a device or another machine.
    if not path.startswith(f"{root}/") or not os.path.lexists(path):
        return ""
    return f"file://{_host()}{quote(path)}"


@lru_cache(1)
def _host() -> str:
    return quote(socket.gethostname())
