"""What a resumed session is told of changes since it was left: files, branch, commits, date, memory, the user, jobs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from agent_cli.kernel.engine.compaction.carry_over import file_of
from agent_cli.kernel.engine.environment import Environment, changed_line
from agent_cli.kernel.messages import AssistantMessage, ToolMessage, UserMessage
from agent_cli.kernel.session.pending_plans import exact_seconds_of
from agent_cli.kernel.session.records import Header, Restored
from agent_cli.knowledge.memory import Memory
from agent_tools.base import ToolContext
from agent_tools.edit.diff import Difference, short_patch
from agent_tools.fs import read_state
from agent_tools.fs.encoding import decode_text
from agent_tools.fs.safe_files import NotRegularFileError, read_regular
from agent_tools.text import one_line, short_path

_USER_PRESENT = "The user is present from here on: you may ask if a wrong guess would be costly."
_USER_ABSENT = (
    "Nobody can answer from here on: this runs unattended. Do not ask; take the sensible reading, say which one, and "
    "finish the task. A call that needs approval is denied: continue without it and name it at the end."
)
_JOBS_LOST = "The program was left and started again, which ended the background commands"
_MAX_FILES = 20
_MAX_FILE_BYTES = 50_000_000
_MAX_PATCH_LINES = 80
_BREAK = "The session continues after a break."


def notes(header: Header, memory: Memory, restored: Restored) -> list[str]:
    """Return the messages that a resumed session begins with, beside its `<session_change>`."""
    return _changed_memory(header, memory, restored)


def resume_environment(
    environment: Environment, header: Header, restored: Restored, context: ToolContext, *, answered: bool
) -> dict[str, str]:
    """Let the environment know what the model was told, and tell it what changed while the session was left.

    answered: somebody can answer questions. Returns the marks of files whose whole difference is in the message.
    """
    texts = [m.text for m in restored.history if isinstance(m, UserMessage) and "<session_change>" in m.text]
    environment.resume([*reversed(texts), header.system])
    if header.small:
        return {}
    lines: list[str] = []
    marks: dict[str, str] = {}
    if restored.history:
        if restored.header.root != header.root:
            lines.append(f"The project's folder is {header.root} now; it was {restored.header.root}.")
        environment.files, marks = _changed_files(environment, restored, context, texts)
    if lines or environment.files or environment.is_elsewhere:
        lines.insert(0, _BREAK)
    environment.pending += [*_changed_presence(header, restored, answered=answered), *_lost_jobs(restored), *lines]
    return marks


def _changed_files(
    environment: Environment, restored: Restored, context: ToolContext, told: Sequence[str]
) -> tuple[list[str], dict[str, str]]:
    """Return lines about the files that changed since the model saw them, and the marks of those told in full."""
    changed = list(_changed_since(restored, str(environment.root), told))
    if not changed:
        return [], {}
    lines: list[str] = []
    marks: dict[str, str] = {}
    for shown, path, data in changed[:_MAX_FILES]:
        text = decode_text(data) if data is not None else None
        if data is None or text is None or (before := known_text(environment, restored, path)) is None:
            continue
        read_state.recall(Path(path), before, context)
        patch, counts, whole = short_patch(Difference(before, text.content))
        if len(lines) + len(patch) > _MAX_PATCH_LINES:
            continue
        lines += [f"{shown} ({counts}):", *patch]
        if whole:
            marks[path] = read_state.note_told(Path(path), data, text.content, context, at_once=True)
    rest = "Read them again before you rely on them." if not lines else "Read again what is not shown here:"
    return [*changed_line([shown for shown, _, _ in changed], rest), *lines], marks


def _changed_since(restored: Restored, root: str, told: Sequence[str]) -> Iterator[tuple[str, str, bytes | None]]:
    """Yield the files that the model saw and that were changed, or removed, after the last record of the session:
    the name to show, the path, and the content.

    A file that took the place of another one may be older, so the time of the change of its entry counts once as well.
    """
    # The kernel's clock for files is a little behind.
    left = exact_seconds_of(restored.updated) - read_state.CLOCK_TOLERANCE_SECONDS if restored.updated else 0.0
    for path, mark in restored.seen.items():
        shown = one_line(short_path(path, root))
        try:
            info = Path(path).stat()
            known = any(re.search(rf"(?<!\S){re.escape(shown)}(?![^\s,.])", text) for text in told)
            changed = info.st_mtime >= left or (info.st_ctime >= left and not known)
            data = read_regular(path, _MAX_FILE_BYTES) if changed else None
        except (FileNotFoundError, NotADirectoryError, NotRegularFileError):
            if not any(f"{shown} (removed)" in text for text in told):
                yield f"{shown} (removed)", path, None
            continue
        except OSError:
            continue
        if data is not None and read_state.is_another_version(data, mark):
            yield shown, path, data


def known_text(environment: Environment, restored: Restored, path: str) -> str | None:
    """Return the text of the version of a file that the model knew, if its results or git have it."""
    mark = restored.seen[path]
    candidates = _texts_of_results(restored, path)
    if _below(path, str(environment.root)):
        candidates = chain(candidates, environment.committed_texts(os.path.relpath(path, environment.root)))
    return next((text for text in candidates if not read_state.is_another_version(text.encode(), mark)), None)


def _texts_of_results(restored: Restored, path: str) -> Iterator[str]:
    """Yield texts that the file may have had, after each call that showed or changed it; not all were there."""
    results = {m.call_id: m for m in restored.history if isinstance(m, ToolMessage) and not m.is_error}
    cwd, text = restored.header.cwd, ""
    for call in (c for m in restored.history if isinstance(m, AssistantMessage) for c in m.calls):
        result, given = results.get(call.id), call.arguments
        if result is None or file_of(call, cwd) != path:
            continue
        if isinstance(given.get("old_string"), str):
            text = text.replace(
                given["old_string"], str(given.get("new_string")), -1 if given.get("replace_all") else 1
            )
        elif isinstance(given.get("content"), str):
            text = given["content"]
        else:
            shown = [re.fullmatch(r" *\d+\t(.*)", line) for line in result.text.split("\n")]
            text = "".join(f"{line[1]}\n" for line in shown if line)
        yield text
        yield text.removesuffix("\n")


def _below(path: str, folder: str) -> bool:
    return path.startswith(f"{folder.rstrip('/')}/")


def _changed_memory(header: Header, memory: Memory, restored: Restored) -> list[str]:
    """Return a message for a resumed session about memory files that changed since; it is sent once."""
    block = memory.block()
    if not block or block in header.system:
        return []
    if any(isinstance(m, UserMessage) and block in m.text for m in restored.history):
        return []
    text = "The memory files changed since this session began. They now say:"
    return [f"<memory_change>\n{text}\n\n{block}\n</memory_change>"]


def _changed_presence(header: Header, restored: Restored, *, answered: bool) -> list[str]:
    """Return a line for a resumed session if a user is now present, or no longer is."""
    before = header.answered
    for message in restored.history:
        if isinstance(message, UserMessage) and (_USER_PRESENT in message.text or _USER_ABSENT in message.text):
            before = _USER_PRESENT in message.text
    return [] if answered == before else [_USER_PRESENT if answered else _USER_ABSENT]


# Not compiled before a session is resumed.
_JOB_STARTED = (
    r"(?m)^\[(b\d+) runs in the background|^\[still running after .{1,20}, now in the background as (b\d+)"
    r"|^\[.*; what it left running .{0,400}is now (b\d+) in the background"
)
_JOB_ENDED = r"(?m)^\[(?:Background command )?(b\d+)(?:: (?!running)| \(| was stopped| had already ended)"


def _lost_jobs(restored: Restored) -> list[str]:
    """Return a line for a resumed session if background commands ended unseen, with the program; it is sent once."""
    left: dict[str, None] = {}
    for message in restored.history:
        if isinstance(message, UserMessage) and _JOBS_LOST in message.text:
            left.clear()
        elif isinstance(message, UserMessage | ToolMessage):
            for found in re.finditer(_JOB_STARTED, message.text):
                left[found[found.lastindex or 1]] = None
            for found in re.finditer(_JOB_ENDED, message.text):
                left.pop(found[1], None)
    return [f"{_JOBS_LOST} {', '.join(left)}."] if left else []
