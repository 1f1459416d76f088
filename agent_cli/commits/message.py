"""The message of a commit: what the model proposes from the changes, and the trailers that the settings add."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from agent_cli.commits.repository import FileStatus, Repository
from agent_cli.config.prompts import prompt
from agent_cli.core.messages import Message, UserMessage, by_person, typed
from agent_cli.core.usage import Usage
from agent_cli.model.transport import PlainAnswer, Request
from agent_cli.place import UsageError
from agent_tools.cancel import CancelToken
from agent_tools.clipping import counted, shorten

if TYPE_CHECKING:
    from agent_cli.engine.turn import Opened

_MOST = 60_000
_MOST_OF_A_FILE = 12_000
_SAID = 4
_TRAILER = re.compile(r"[A-Za-z][A-Za-z0-9-]*: \S.*")


def propose(opened: Opened, material: str, cancel: CancelToken) -> tuple[str, Usage]:
    """The model's message for what the material shows, and what it cost. Raises ModelError, CancelledError."""
    answer = PlainAnswer()
    request = Request(opened.model, prompt("commit"), (UserMessage(material),), max_tokens=4_000)
    answer.read(opened.transport.stream(request, cancel))
    cancel.check()
    return _clean(answer.text), opened.price(answer.usage) if answer.usage is not None else Usage()


def plain_message(changes: Sequence[FileStatus]) -> str:
    """A message to begin with where the model has none."""
    names = [c.path for c in changes]
    return f"Change {names[0]}" if len(names) == 1 else f"Change {counted(len(names), 'file')}"


def with_trailers(message: str, trailers: Iterable[str], model: str) -> str:
    """The message with the trailers of the settings, below those that it has. Raises UsageError."""
    lines = []
    for trailer in trailers:
        text = trailer.replace("{model}", model).strip()
        if not _TRAILER.fullmatch(text):
            raise UsageError(f'commit_trailers: {trailer!r} is no trailer; it has to be like "Reviewed-by: NAME".')
        lines.append(text)
    _, _, last = message.rpartition("\n\n")
    has_some = last != message and all(map(_TRAILER.fullmatch, last.splitlines()))
    lines = [line for line in lines if line not in message.splitlines()]
    return message + ("\n" if has_some else "\n\n") + "\n".join(lines) if lines else message


def material(
    repo: Repository,
    changes: Sequence[FileStatus],
    history: Iterable[Message],
    wish: str,
    readable: Callable[[str], bool],
    redact: Callable[[str], str],
) -> str:
    """What the model is shown: the changes, bounded, how earlier commits are worded, and what the user asked for.

    Of files that look like secrets, or that rules keep from the model, only the names. Raises UsageError.
    """
    said = [typed(m.text) for m in history if by_person(m)][-_SAID:]
    parts, left = [], _MOST
    for change in changes:
        if left <= 0:
            parts.append(f"(changed too: {change.path})")
        elif not readable(str(repo.top / change.path)):
            parts.append(f"(changed, its content is not shown: {change.path})")
        else:
            text = repo.diff(change)
            text = text if len(text) <= _MOST_OF_A_FILE else f"{text[:_MOST_OF_A_FILE]}\n(more of {change.path})"
            parts.append(text)
            left -= len(text)
    blocks = {
        "earlier_subjects": "\n".join(repo.subjects()),
        "requests": "\n---\n".join(shorten(text, 600) for text in said),
        "changes": "\n".join(parts),
        "wish": wish,
    }
    return redact("\n\n".join(f"<{name}>\n{text}\n</{name}>" for name, text in blocks.items() if text))


def _clean(text: str) -> str:
    """A message without fences around it and trailers of the model's own; blanks at line ends go."""
    lines = [line.rstrip() for line in text.strip().splitlines()]
    if lines and lines[0].startswith("```"):
        lines = lines[1:-1] if lines[-1].startswith("```") else lines[1:]
    body = "\n".join(lines).strip()
    first, _, last = body.rpartition("\n\n")
    if first and all(re.fullmatch(r"(?i)(co-authored-by|signed-off-by|generated-by): .*", x) for x in last.split("\n")):
        body = first.strip()
    return body
