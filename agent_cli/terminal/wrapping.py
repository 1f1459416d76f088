"""Text of Rich as lines: wrapped at words, and as the bytes that a terminal takes."""

from __future__ import annotations

import io

from rich.color import ColorSystem
from rich.console import Console
from rich.style import Style
from rich.text import Text

from agent_tools.inert import inert

_CONSOLE = Console(file=io.StringIO(), width=80, color_system=None, force_terminal=False, legacy_windows=False)


def wrap(text: Text, width: int) -> list[Text]:
    """The text in lines of at most `width` cells; none for a text of blanks.

    Words that are longer are cut, but an address is left whole for the terminal to wrap: it can be clicked and copied.
    """
    if not text.plain.strip():
        return []
    lines = text.wrap(_CONSOLE, max(width, 1), overflow="ignore" if "://" in text.plain else "fold")
    for line in lines:
        line.rstrip()
    return list(lines)


def to_ansi(text: Text, *, color: bool = True) -> str:
    """One line with its styles as SGR sequences, and no other sequence in it: whatever the text has is spelled out.

    color: False keeps bold, italic and underline, as NO_COLOR has it.
    """
    out = []
    for segment in text.render(_CONSOLE, end=""):
        words = inert(segment.text).replace("\n", "\\n")
        style = segment.style
        if style and words:
            style = _bare(style, color=color)
            out.append(style.render(words, color_system=ColorSystem.STANDARD))
        else:
            out.append(words)
    return "".join(out)


def _bare(style: Style, *, color: bool) -> Style:
    """The style without a link, which would be a sequence of its own, and without colours unless they are wanted."""
    if style.link:
        style = style.update_link(None)
    return style if color else style.without_color
