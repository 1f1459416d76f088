"""Files mentioned in a prompt as `@path` or `@path:10-40`: their text is appended for the model.

Only text files of the workspace that may be read without a question; anything else after an @ stays plain text. A path
is relative to where commands run now, else to where the session began: that is where the user sits.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator

from agent_tools.base import ToolContext, ToolError
from agent_tools.fs.encoding import decode_text, fingerprint, split_lines
from agent_tools.fs.files import lstat_resolved

EACH = 30_000
TOGETHER = 90_000
LARGEST = 10_000_000
IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
# Compiled on first use: most prompts mention no files.
_MENTION = r"(?<![\w@`])@([^\s`'\"<>|*]+)"
_PUNCTUATION = ".,;:!?)]}"
_SPELLED = (
    r"[^:]*\w\.(?:py|js|jsx|ts|tsx|md|txt|json|toml|ya?ml|rs|go|c|h|cc|cpp|java|rb|php|sh|html|css|sql|cfg|ini|xml|csv)"
    r"(?::\d+(?:-\d+)?)?"
)
_LINES = r"(.+):(\d{1,9})(?:-(\d{1,9}))?"


def mentioned_files(prompt: str, ctx: ToolContext) -> Iterator[str]:
    """Yield a block of text for each mentioned file, truncated if it is long. Images are attached instead.

    A file whose whole text is in a block counts as read once a message contains the block: `ToolContext.read_in`.
    """
    left = TOGETHER
    seen: set[str] = set()
    for mention in re.finditer(_MENTION, prompt):
        name, lines = _named(mention[1], ctx)
        if not name or f"{name}{lines}" in seen:
            continue
        seen.add(f"{name}{lines}")
        if "image" in ctx.takes and _is_image(name):
            continue
        content, mark = _content(name, lines, min(EACH, left), ctx)
        left -= len(content)
        shown = f' lines="{lines[0]}-{lines[1]}"' if lines else ""
        block = f'<file path="{name}"{shown}>\n{content}\n</file>'
        if mark:
            ctx.mentioned[block] = (str(ctx.workspace.resolve(name)), mark)
        yield block


def mentioned_images(prompt: str, ctx: ToolContext) -> list[str]:
    """Return the paths of images that a prompt mentions, for a model that accepts them."""
    if "@" not in prompt or "image" not in ctx.takes:
        return []
    names = (_named(mention[1], ctx)[0] for mention in re.finditer(_MENTION, prompt))
    return list(dict.fromkeys(name for name in names if name and _is_image(name)))


def _is_image(name: str) -> bool:
    return name.lower().endswith(IMAGES)


def with_files(prompt: str, ctx: ToolContext) -> str:
    """Return a prompt with the mentioned files appended."""
    return "\n\n".join([prompt, *mentioned_files(prompt, ctx)]) if "@" in prompt else prompt


def missing_files(prompt: str, ctx: ToolContext) -> list[str]:
    """Return mentions spelled like files (not like decorators or packages) that name no readable file."""
    names = (m.rstrip(_PUNCTUATION) for m in re.findall(_MENTION, prompt) if not _named(m, ctx)[0])
    return [name for name in dict.fromkeys(names) if re.fullmatch(_SPELLED, name)]


def _named(mention: str, ctx: ToolContext) -> tuple[str, tuple[int, int] | None]:
    """Return the path of the file that a mention names, and its lines, from 1; "" if there is none."""
    for name in dict.fromkeys((mention, mention.rstrip(_PUNCTUATION))):
        if path := _path(name, ctx):
            return path, None
        if (found := re.fullmatch(_LINES, name)) and (path := _path(found[1], ctx)):
            first = max(int(found[2]), 1)
            return path, (first, max(int(found[3] or first), first))
    return "", None


def _path(name: str, ctx: ToolContext) -> str:
    """Return the name if a readable file has it, else the path relative to the session's start folder; or "".

    The path carries its resolved form, which is the one that is opened.
    """
    from_start = str(ctx.workspace.start / name)
    return next((path for text in (name, from_start) if name and (path := _open_path(text, ctx))), "")


def _open_path(name: str, ctx: ToolContext) -> str:
    """Return a name, resolved, if it is that of a readable file; else ""."""
    try:
        found = ctx.workspace.resolved(name)
        if not ctx.workspace.inside(found.path) or not stat.S_ISREG(lstat_resolved(found.path).st_mode):
            return ""
    except (ToolError, OSError):
        return ""
    return found if ctx.readable is None or ctx.readable(found.path) else ""


def _content(name: str, lines: tuple[int, int] | None, room: int, ctx: ToolContext) -> tuple[str, str]:
    """Return a file's content to show, and its fingerprint if that is all of it."""
    try:
        data = ctx.workspace.read(ctx.workspace.resolve(name), LARGEST)
    except ToolError as error:
        return f"[{error}]", ""
    text = decode_text(data)
    if text is None:
        return "[not a text file; Read may show more of it]", ""
    content = text.content
    if lines is not None:
        every = split_lines(content)
        content = "".join(every[lines[0] - 1 : lines[1]])
        if lines[1] > len(every):
            content += f"[the file has {len(every):,} lines]"
    if len(content) <= room:
        return content.rstrip("\n"), "" if lines else fingerprint(data)
    return f"{content[:room]}\n[cut here, after {room:,} of {len(content):,} characters; Read shows the rest]", ""
