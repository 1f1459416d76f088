"""Which files a patch names."""

from __future__ import annotations

import re

from agent_tools.fs.safe_files import read_regular

_MAX_PATCH_BYTES = 1 << 20


def files_of_patch(patch: str) -> list[str] | None:
    """Return the files that a patch names; None if it cannot be read."""
    try:
        text = read_regular(patch, _MAX_PATCH_BYTES).decode("utf-8", "surrogateescape")
    except (OSError, ValueError):
        return None
    names = re.findall(r"^(?:\+\+\+|---|\*\*\*|Index:) ([^\t\n]+)", text, re.MULTILINE)
    names += re.findall(r"^(?:rename|copy) (?:from|to) (.+)$", text, re.MULTILINE)
    names += [n for pair in re.findall(r"^diff --git (\S+) (\S+)", text, re.MULTILINE) for n in pair]
    if any(n.startswith('"') for n in names):
        return None
    # With any number of leading directories stripped, as by -p.
    return sorted({"/".join(n.split("/")[k:]) for n in names for k in range(n.count("/") + 1)})
