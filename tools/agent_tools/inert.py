"""Text that this program did not write, made harmless for a terminal.

Control characters (C0 but line feed and tab, DEL, C1) become `\\xNN`; format characters that reorder or hide text
(bidi controls, zero-width, tags, line and paragraph separators) become `\\uNNNN`. Everything else stays.
"""

from __future__ import annotations

import re

from agent_tools.clipping import UNSAFE, code_escape


def inert(text: str) -> str:
    """The text with everything visible that could steer a terminal or deceive a reader. CRLF counts as a line end."""
    return re.sub(UNSAFE, lambda match: code_escape(ord(match[0])), text.replace("\r\n", "\n"))
