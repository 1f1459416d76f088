"""Files that a prompt mentions as `@path`: their text, for the model to read below it.

Only text files of the workspace that may be read without a question; whatever else stands behind an @ stays a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from agent_tools.base import ToolContext, ToolError
from agent_tools.textfile import decode

EACH = 30_000
TOGETHER = 90_000
LARGEST = 10_000_000
_MENTION = r"(?<![\w@`])@([^\s`'\"<>|*]+)"
_PUNCTUATION = ".,;:!?)]}"


def mentioned_files(prompt: str, ctx: ToolContext) -> Iterator[str]:
    """For each file that the prompt mentions a block with its text, cut where it is long."""
    left = TOGETHER
    seen: set[str] = set()
    for mention in re.finditer(_MENTION, prompt):
        name = next((n for n in (mention[1], mention[1].rstrip(_PUNCTUATION)) if _is_open(n, ctx)), "")
        if not name or name in seen:
            continue
        seen.add(name)
        content = _content(name, min(EACH, left), ctx)
        left -= len(content)
        yield f'<file path="{name}">\n{content}\n</file>'


def _is_open(name: str, ctx: ToolContext) -> bool:
    """Whether a name is that of a file that may be shown."""
    try:
        path = ctx.workspace.resolve(name) if name else None
        if path is None or not ctx.workspace.inside(path) or not path.is_file():
            return False
    except (ToolError, OSError):
        return False
    return ctx.readable is None or ctx.readable(path)


def _content(name: str, room: int, ctx: ToolContext) -> str:
    try:
        text = decode(ctx.workspace.read(ctx.workspace.resolve(name), LARGEST))
    except ToolError as error:
        return f"[{error}]"
    if text is None:
        return "[no text file; Read may show more of it]"
    if len(text.content) <= room:
        return text.content.rstrip("\n")
    return f"{text.content[:room]}\n[cut here, after {room:,} of {len(text.content):,} characters; Read shows the rest]"
