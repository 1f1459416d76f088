"""Expand the text of a prompt: insert arguments, append the text of mentioned files, split off commands.

A file is mentioned as `@path` or `@path:10-40`: only text files of the workspace that may be read without a question;
anything else after an @ stays plain text. A path is relative to where commands run now, else to where the session
began: that is where the user sits.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Callable, Iterator
from typing import Any

from agent_cli.config.prompts import read_allowed
from agent_cli.extensions.front_hooks import PlainHooks
from agent_tools.base import ToolContext, ToolError
from agent_tools.fs.encoding import decode_text, fingerprint, split_lines
from agent_tools.lazy import lazy_imports
from agent_tools.results import ExpandedPrompt, TurnOverrides

with lazy_imports():
    from agent_tools.fs import files

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
        if "image" in ctx.input_modalities and _is_image(name):
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
    if "@" not in prompt or "image" not in ctx.input_modalities:
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
        if not ctx.workspace.inside(found.path) or not stat.S_ISREG(files.lstat_resolved(found.path).st_mode):
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
        return "[not a text file; reading it may show more]", ""
    content = text.content
    if lines is not None:
        every = split_lines(content)
        content = "".join(every[lines[0] - 1 : lines[1]])
        if lines[1] > len(every):
            content += f"[the file has {len(every):,} lines]"
    if len(content) <= room:
        return content.rstrip("\n"), "" if lines else fingerprint(data)
    return (
        f"{content[:room]}\n[cut here, after {room:,} of {len(content):,} characters; read the file for the rest]",
        "",
    )


_PLACE = r"\$(ARGUMENTS\[\d\]|ARGUMENTS\b|[1-9](?!\d))"
# `!` and a command between backticks, or a fence that begins with it; not a `!` at the end of a word.
_COMMAND = r"(?:(?<!\S)!`([^`\n]+)`)|(?:^```!\n(.*?)\n```$)"


def expand_body(
    name: str,
    body: str,
    head: dict[str, Any],
    arguments: str,
    ctx: ToolContext,
    *,
    own: bool,
    below: tuple[str, ...] = (),
    hooks: PlainHooks = (),
    for_session: bool = False,
) -> str | ExpandedPrompt:
    """Expand a file's body with these arguments; return text alone if there is nothing else.

    Commands are read from the file, never from the arguments; files may be mentioned in either. hooks: those of the
    file, which run for the rest of the turn, or with `for_session` of the session.
    """
    arguments = arguments.strip()
    pieces = with_arguments(command_pieces(body.strip()), arguments)
    words = " ".join(pieces[::2])
    below = (*below, *mentioned_files(words, ctx))
    rules, _ = read_allowed(head.get("allowed-tools"))
    lent = TurnOverrides(rules, model_of(head), _word(head, "flow"), f"/{name}", own, hooks, for_session)
    if len(pieces) == 1 and not lent:
        return "\n\n".join([pieces[0].strip(), *below])
    return ExpandedPrompt(name, tuple(pieces), below, lent)


def model_of(head: dict[str, Any]) -> str:
    """Return the model in the front matter; "" for that of the session."""
    name = _word(head, "model")
    return "" if name in ("inherit", "default") else name


def _word(head: dict[str, Any], key: str) -> str:
    value = head.get(key)
    return value.strip() if isinstance(value, str) and value.isprintable() else ""


def command_pieces(body: str) -> list[str]:
    """Split the body at its commands: text, command, text, ..."""
    pieces = []
    at = 0
    for found in re.finditer(_COMMAND, body, re.MULTILINE | re.DOTALL):
        pieces += [body[at : found.start()], (found[1] or found[2]).strip()]
        at = found.end()
    return [*pieces, body[at:]]


def with_arguments(pieces: list[str], arguments: str) -> list[str]:
    """Insert the arguments at `$ARGUMENTS` and `$1` to `$9`; without such a place append them to the text."""
    if not any(re.search(_PLACE, piece) for piece in pieces):
        return [*pieces[:-1], f"{pieces[-1]}\n\nArguments: {arguments}"] if arguments else pieces
    fill = _filler(arguments)
    return [re.sub(_PLACE, fill, piece) for piece in pieces]


def _filler(arguments: str) -> Callable[[re.Match[str]], str]:
    words = _words(arguments)

    def fill(place: re.Match[str]) -> str:
        if place[1] == "ARGUMENTS":
            return arguments
        number = int(place[1][10:-1]) + 1 if place[1].startswith("ARGUMENTS") else int(place[1])
        return words[number - 1] if number <= len(words) else ""

    return fill


def _words(arguments: str) -> list[str]:
    """Return the arguments one by one, quoted as in a shell if that can be parsed."""
    if not set(arguments) & set("\"'\\"):
        return arguments.split()
    import shlex

    try:
        return shlex.split(arguments)
    except ValueError:
        return arguments.split()
