"""What a user is shown at a review gate, and what their words mean; the same for lines and for the application."""

from __future__ import annotations

from typing import Any

from agent_cli.core.answers import QuestionReply, assents
from agent_tools.clipping import counted, one_line
from agent_tools.display import Diff, Diffs
from agent_tools.values import from_plain

HINT = "  y: go on (y WORDS) · u: undo this, then go on (u WORDS) · n: end here · or say what to change first"
_SHOWN = 30


def review_lines(data: dict[str, Any]) -> list[str]:
    """What was done since the last look."""
    lines = [f"? {one_line(str(data.get('title', '')))}"]
    lines += [f"  done: {one_line(str(step))}" for step in data.get("steps", ())]
    files = data.get("files", ())
    for file in files[:_SHOWN] if not data.get("diffs") else ():
        lines.append(f"  {one_line(str(file['path']))} (+{file['added']} -{file['removed']})")
    if data.get("diffs"):
        added, removed = (sum(file[name] for file in files) for name in ("added", "removed"))
        lines.append(f"  {counted(len(files), 'file')} changed, +{added} -{removed}")
    elif len(files) > _SHOWN:
        lines.append(f"  and {counted(len(files) - _SHOWN, 'file')} more")
    if not files:
        lines.append("  no file was changed by the tools for files")
    lines += [f"  ran: {one_line(str(command))}" for command in data.get("commands", ())]
    return lines


def review_diffs(data: dict[str, Any]) -> Diffs:
    """What was changed since the last look."""
    return Diffs(tuple(from_plain(Diff, plain) for plain in data.get("diffs", ())))


def review_text(data: dict[str, Any]) -> list[str]:
    """All of it in lines without style, diffs included."""
    diffs = (
        (f"  {one_line(d.path)} (+{d.added} -{d.removed})", *d.patch.splitlines()) for d in review_diffs(data).files
    )
    return [*review_lines(data), *(line for diff in diffs for line in diff)]


def read_review(words: str) -> QuestionReply:
    """`y` or `u` and perhaps words; `n` or nothing ends the work; any other sentence is what to change first."""
    if assents(words):
        return QuestionReply("approve")
    head, _, rest = words.strip().partition(" ")
    if head.lower() in ("y", "yes"):
        return QuestionReply("approve", rest.strip())
    # "undo the rename" is a sentence for the model; only the letter takes everything back.
    if head.lower() == "u" or words.strip().lower() == "undo":
        return QuestionReply("undo", rest.strip())
    if words.strip().lower() in ("", "n", "no"):
        return QuestionReply("cancel")
    return QuestionReply("revise", words.strip())
