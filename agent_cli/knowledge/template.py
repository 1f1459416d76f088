"""Expand the text of a prompt: insert arguments, append the text of mentioned files, split off commands.

A file is mentioned as `@path`, `@path:10-40` or `@"a path with spaces"`. Only text files of the workspace that
may be read without a question count; anything else after an @ stays plain text. A path is relative to the commands'
working directory, or else to the folder where the session started, which is the user's.

A file elsewhere (`@~/path`) counts if the user types it, if a command or skill of the user's own names it, or if a rule
allows its reading. A prompt of -p or of another program may contain somebody else's text.

A small model gets the files that a prompt names without the @, too: it often changes a file before it reads it.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from typing import Any

from agent_cli.config.prompts import read_allowed
from agent_cli.hooks import PlainHooks
from agent_tools.base import ToolContext, ToolError
from agent_tools.fs.encoding import count_lines, decode_text, split_lines
from agent_tools.lazy import lazy_imports
from agent_tools.results import ExpandedPrompt, TurnOverrides
from agent_tools.text import counted

with lazy_imports():
    from agent_tools.fs import files, read_state

MAX_FILE_CHARS = 30_000
MAX_TOTAL_CHARS = 90_000
MAX_FILE_BYTES = 10_000_000
# For a small model, whose window is small.
_MAX_SMALL_CHARS = 8_000
IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
# Compiled on first use: most prompts mention no files.
_MENTION = r"(?<![\w@`])@(?:\"([^\"\n]+)\"|([^\s`'\"<>|*]+))"
_NAMED_FILE = r"(?<![\w@/.~-])[\w-][\w./-]*\.\w{1,8}(?![\w/])"
_PUNCTUATION = ".,;:!?)]}"
_FILE_LIKE = (
    r"[^:]*\w\.(?:py|js|jsx|ts|tsx|md|txt|json|toml|ya?ml|rs|go|c|h|cc|cpp|java|rb|php|sh|html|css|sql|cfg|ini|xml|csv)"
    r"(?::\d+(?:-\d+)?)?"
)
_ATTACHED = r'^<file path="([^"\n]+)"(?: lines="([\d-]+)")?>\n(.*?)\n</file>$'
_LINES = r"(.+):(\d{1,9})(?:-(\d{1,9}))?"


def mentioned_files(prompt: str, ctx: ToolContext, own: str = "", *, elsewhere: bool = False) -> Iterator[str]:
    """Yield a block of text for each mentioned file, truncated if it is long. Images are attached instead.

    own: the part of the prompt that the user wrote, and in which files elsewhere count.
    elsewhere: only those.

    What a block shows of a file counts as read once a message contains it: `ToolContext.mark_mentions_read`.
    """
    left = _MAX_SMALL_CHARS if ctx.small_model else MAX_TOTAL_CHARS
    seen: set[str] = set()
    named = set(_mentions(own))
    by_name = re.findall(_NAMED_FILE, prompt) if ctx.small_model and not elsewhere else ()
    for mention in (*_mentions(prompt), *by_name):
        name, lines = _resolve_mention(mention, ctx, named=mention in named)
        if elsewhere and name and _resolve_mention(mention, ctx)[0]:
            continue
        if not name or f"{name}{lines}" in seen:
            continue
        seen.add(f"{name}{lines}")
        if "image" in ctx.input_modalities and _is_image(name):
            continue
        content, path, mark = _content(name, lines, min(MAX_FILE_CHARS, left), ctx)
        left -= len(content)
        shown = f' lines="{lines[0]}-{lines[1]}"' if lines else ""
        block = f'<file path="{name}"{shown}>\n{content}\n</file>'
        if mark:
            ctx.mentioned[block] = (path, mark)
        yield block


def attached_files(message: str) -> Iterator[tuple[str, str, int]]:
    """Yield the files whose text was appended to a message: name, the range of its lines ("" for all), their number."""
    for name, lines, text in re.findall(_ATTACHED, message, re.DOTALL | re.MULTILINE):
        yield name, lines, text.count("\n") + 1


def _mentions(prompt: str) -> Iterator[str]:
    return (quoted or bare for quoted, bare in re.findall(_MENTION, prompt))


def mentioned_images(prompt: str, ctx: ToolContext) -> list[str]:
    """Return the paths of images that a prompt mentions, for a model that accepts them."""
    if "image" not in ctx.input_modalities:
        return []
    names = (_resolve_mention(mention, ctx, named=ctx.user_types)[0] for mention in _mentions(prompt))
    return list(dict.fromkeys(name for name in names if name and _is_image(name)))


def _is_image(name: str) -> bool:
    return name.lower().endswith(IMAGES)


def with_files(prompt: str, ctx: ToolContext) -> str:
    """Return a message with the mentioned files appended."""
    return "\n\n".join([prompt, *mentioned_files(prompt, ctx, prompt if ctx.user_types else "")])


def missing_files(prompt: str, ctx: ToolContext) -> list[str]:
    """Return mentions spelled like files (not like decorators or packages) that name no readable file."""
    lacking = (m for m in _mentions(prompt) if not _resolve_mention(m, ctx, named=ctx.user_types)[0])
    names = (mention.rstrip(_PUNCTUATION) for mention in lacking)
    return [name for name in dict.fromkeys(names) if name.startswith("~/") or re.fullmatch(_FILE_LIKE, name)]


def _resolve_mention(mention: str, ctx: ToolContext, *, named: bool = False) -> tuple[str, tuple[int, int] | None]:
    """Return the path of the file that a mention names ("" for none), and its lines, counted from 1."""
    for name in dict.fromkeys((mention, mention.rstrip(_PUNCTUATION))):
        if path := _path(name, ctx, named=named):
            return path, None
        if (found := re.fullmatch(_LINES, name)) and (path := _path(found[1], ctx, named=named)):
            first = max(int(found[2]), 1)
            return path, (first, max(int(found[3] or first), first))
    return "", None


def _path(name: str, ctx: ToolContext, *, named: bool) -> str:
    """Return the name if it is a readable file's, else its path in the session's start folder; or "".

    The path carries its resolved form, which is what gets opened.
    """
    if name.startswith("~/"):
        name = os.path.expanduser(name)
    from_start = str(ctx.workspace.start / name)
    return next((path for text in (name, from_start) if name and (path := readable_path(text, ctx, named=named))), "")


def readable_path(name: str, ctx: ToolContext, *, named: bool) -> str:
    """Return the resolved path of a file that a message may contain; "" for anything else. named: by the user."""
    try:
        found = ctx.workspace.resolved(name)
        if not stat.S_ISREG(files.lstat_resolved(found.path).st_mode):
            return ""
    except (ToolError, OSError):
        return ""
    if not ctx.workspace.inside(found.path):
        return found if ctx.reads_outside(found.path, named) else ""
    return found if ctx.readable is None or ctx.readable(found.path) else ""


def _content(name: str, lines: tuple[int, int] | None, limit: int, ctx: ToolContext) -> tuple[str, str, str]:
    """Return a file's content to show, its path, and its mark for `ToolContext.seen`; "" for none."""
    path = ctx.workspace.resolve(name)
    try:
        data = ctx.workspace.read(path, MAX_FILE_BYTES)
    except ToolError as error:
        return f"[{error}]", str(path), ""
    text = decode_text(data)
    if text is None:
        return "[not a text file; reading it may show more]", str(path), ""
    content, every, seen = text.content, count_lines(text.content), lines
    if lines is not None:
        content = "".join(split_lines(content)[lines[0] - 1 : lines[1]])
        if lines[1] > every:
            content += f"[the file has {counted(every, 'line')}]"
            seen = lines[0], every
    size, content = len(content), content if len(content) > limit else content.rstrip("\n")
    if size > limit:
        content = content[:limit]
        first = lines[0] if lines else 1
        seen = first, first + content.count("\n") - 1
        content += f"\n[cut here, after {limit:,} of {size:,} characters; read the file for the rest]"
    before = next((mark for of, mark in reversed(ctx.mentioned.values()) if of == str(path)), None)
    mark = read_state.mark_of(
        path, data, text.content, ctx, None if seen is None else (seen,), before, read_state.MENTION
    )
    return content, str(path), mark


_PLACEHOLDER = r"\$(ARGUMENTS\[\d\]|ARGUMENTS\b|[1-9](?!\d))"
# `!` and a command between backticks, or a fence that begins with it; not a `!` at the end of a word.
_COMMAND = r"(?:(?<!\S)!`([^`\n]+)`)|(?:^```!\n(.*?)\n```$)"


def expand_body(
    name: str,
    body: str,
    head: dict[str, Any],
    arguments: str,
    ctx: ToolContext,
    *,
    from_user: bool,
    below: tuple[str, ...] = (),
    hooks: PlainHooks = (),
    for_session: bool = False,
) -> str | ExpandedPrompt:
    """Expand a file's body with these arguments; return plain text if it has neither commands nor overrides.

    Commands come from the file only, never from the arguments; both may mention files.

    from_user: the file is the user's own.
    below: blocks of text to append.
    hooks: those of the file; they run for the rest of the turn.
    for_session: they run for the rest of the session.
    """
    arguments = arguments.strip()
    written = command_pieces(body.strip())
    pieces = with_arguments(written, arguments)
    own = " ".join(written[::2]) if from_user else ""
    below = (*below, *mentioned_files(" ".join(pieces[::2]), ctx, own))
    rules, _ = read_allowed(head.get("allowed-tools"))
    overrides = TurnOverrides(rules, model_of(head), _word(head, "flow"), f"/{name}", from_user, hooks, for_session)
    if len(pieces) == 1 and not overrides:
        return "\n\n".join([pieces[0].strip(), *below])
    return ExpandedPrompt(name, tuple(pieces), below, overrides)


def model_of(head: dict[str, Any]) -> str:
    """Return the model in the front matter; "" for the session's."""
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
    """Insert the arguments at `$ARGUMENTS` and `$1` to `$9`; without such a placeholder, append them to the text."""
    if not any(re.search(_PLACEHOLDER, piece) for piece in pieces):
        return [*pieces[:-1], f"{pieces[-1]}\n\nArguments: {arguments}"] if arguments else pieces
    fill = _filler(arguments)
    return [re.sub(_PLACEHOLDER, fill, piece) for piece in pieces]


def _filler(arguments: str) -> Callable[[re.Match[str]], str]:
    words = _words(arguments)

    def fill(place: re.Match[str]) -> str:
        if place[1] == "ARGUMENTS":
            return arguments
        number = int(place[1][10:-1]) + 1 if place[1].startswith("ARGUMENTS") else int(place[1])
        return words[number - 1] if number <= len(words) else ""

    return fill


def _words(arguments: str) -> list[str]:
    """Split the arguments at white space, respecting the quotes of a shell if they are valid."""
    if not set(arguments) & set("\"'\\"):
        return arguments.split()
    import shlex

    try:
        return shlex.split(arguments)
    except ValueError:
        return arguments.split()
