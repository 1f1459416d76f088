"""Text that this program did not write, made harmless for a terminal.

Control characters (C0 but line feed and tab, DEL, C1) become `\\xNN`; format characters that reorder or hide text
(bidi controls, zero-width, tags, line and paragraph separators) become `\\uNNNN`. Everything else stays.
"""

from __future__ import annotations

import re

_CONTROL = r"\x00-\x08\x0b-\x1f\x7f-\x9f"
_HIDDEN = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff"
    "\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff\ud800-\udfff"
)
# Compiled on first use, which most one-shot runs never come to.
_UNSAFE = f"[{_CONTROL}{_HIDDEN}]"


def inert(text: str) -> str:
    """The text with everything visible that could steer a terminal or deceive a reader. CRLF counts as a line end."""
    return re.sub(_UNSAFE, _spelled, text.replace("\r\n", "\n"))


def _spelled(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
