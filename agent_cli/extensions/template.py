"""Expand the text of a stored prompt: insert arguments, append mentioned files, split off commands."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from agent_cli.config.prompts import read_allowed
from agent_cli.extensions.mentions import mentioned_files
from agent_tools.base import ToolContext
from agent_tools.overrides import ExpandedPrompt, TurnOverrides

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
) -> str | ExpandedPrompt:
    """Expand a file's body with these arguments; return text alone if there is nothing else.

    Commands are read from the file, never from the arguments; files may be mentioned in either.
    """
    arguments = arguments.strip()
    pieces = with_arguments(command_pieces(body.strip()), arguments)
    words = " ".join(pieces[::2])
    below = (*below, *mentioned_files(words, ctx))
    rules, _ = read_allowed(head.get("allowed-tools"))
    lent = TurnOverrides(rules, model_of(head), _word(head, "flow"), f"/{name}", own)
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
