"""Text for the clipboard of the terminal that the user sits at, near or far: the sequence OSC 52."""

from __future__ import annotations

from base64 import b64encode

# What xterm takes, and with it nearly all others; some take more, none tells.
LIMIT = 74_994


def to_clipboard(text: str) -> str | None:
    """The sequence that puts a text on the clipboard; None where it is more than terminals take.

    Nothing of the text is in the sequence but in Base64, so nothing in it can end the sequence or begin another.
    """
    coded = b64encode(text.encode("utf-8", "replace")).decode("ascii")
    return f"\x1b]52;c;{coded}\x07" if len(coded) <= LIMIT else None
