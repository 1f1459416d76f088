"""Sequences that call the user: the title of the window, the bell and the notification (OSC 0, BEL, OSC 9).

xterm keeps a stack of titles (CSI 22 t, CSI 23 t); a terminal that has none leaves the title as it was last.
"""

from __future__ import annotations

from agent_tools.clipping import one_line, shorten

SAVE_TITLE, RESTORE_TITLE = "\x1b[22;0t", "\x1b[23;0t"
RING = "\a\x1b]9;agent waits for you\x1b\\"
# Work that took so long has let the user look away.
LONG = 5.0


def title(task: str, state: str = "") -> str:
    """The sequence for a title. task: what is being done, in the user's words. state: a sign before it."""
    words = shorten(one_line(task), 60)
    name = f"agent: {words}" if words else "agent"
    return f"\x1b]0;{state}{name}\a"
