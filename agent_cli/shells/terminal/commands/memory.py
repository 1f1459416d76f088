"""Project memory: show, edit, and add notes with `#`.

The memory file is replaced atomically and keeps its encoding and line ends.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from rich.text import Text

from agent_cli.kernel.runtime.environment import memory_sources
from agent_cli.knowledge.memory import Memory, MemoryFile, NestedMemory
from agent_cli.shells.terminal.dialogs.view import View, ViewAction, ViewItem, prose_lines
from agent_cli.shells.terminal.slash import SlashContext, slash
from agent_tools.base import ToolError
from agent_tools.fs.encoding import TextFile, decode_text, line_end
from agent_tools.fs.files import read_file, replace_file
from agent_tools.fs.safe_files import resolve_inside
from agent_tools.text import one_line, parse_number

NOTES_HEADING = "## Notes"
MAX_FILE_BYTES = 1 << 20
MAX_NOTE_CHARS = 4_000


def note_file(root: Path, names: Sequence[str]) -> Path:
    """Return the file for notes of a project: the first existing memory file, else the first name."""
    for name in names:
        for path in (root / name, root / ".agent" / name, root / ".claude" / name):
            if os.path.lexists(path):
                return path
    return root / (names[0] if names else "AGENTS.md")


def add_note(root: Path, names: Sequence[str], note: str) -> Path:
    """Add a note to the project's memory; return the file. Raises ToolError if it cannot be written."""
    words = " ".join("".join(c if c.isprintable() else " " for c in note).split())
    if not words or len(words) > MAX_NOTE_CHARS:
        raise ToolError(f"A note has 1 to {MAX_NOTE_CHARS:,} characters; this one has {len(words):,}.")
    path = note_file(root, names)
    try:
        real = resolve_inside(path, root) if os.path.lexists(path) else path
    except OSError as error:
        raise ToolError(f"{path} is not written: it {error.strerror or error}.") from None
    before = read_file(real, MAX_FILE_BYTES) if os.path.lexists(real) else None
    old = decode_text(before or b"")
    if old is None:
        raise ToolError(f"{path} is not a text file, so no note can be added to it.")
    replace_file(real, old.encode(with_note(old.content, words)), before)
    return path


def change_file(real: Path, before: bytes | None, text: str) -> None:
    """Write the user's edit of the memory file at a resolved path. Raises ToolError if the file changed meanwhile."""
    old = decode_text(before or b"") or TextFile("")
    replace_file(real, old.encode(text), before)


def with_note(text: str, note: str) -> str:
    """Add a note as the last item below the heading for notes, which is created if missing."""
    end = line_end(text)
    lines = text.split(end)
    item = f"- {note}"
    at = next((n for n, line in enumerate(lines) if line.strip() == NOTES_HEADING), None)
    if at is None:
        kept = text.rstrip()
        return f"{kept}{end * 2 if kept else ''}{NOTES_HEADING}{end * 2}{item}{end}"
    last = next((n for n in range(at + 1, len(lines)) if lines[n].startswith(("# ", "## "))), len(lines))
    while last > at + 1 and not lines[last - 1].strip():
        last -= 1
    new = ["", item] if last == at + 1 else [item]
    rest = lines[last:] if any(line.strip() for line in lines[last:]) else [""]
    return end.join([*lines[:last], *new, *rest])


MAX_SHOWN_CHARS = 16_000


def take_note(ctx: SlashContext, note: str) -> None:
    """Add a note to the project's memory and pass it to the model with its next step."""
    try:
        path = add_note(ctx.run_env.root, ctx.agent.settings.memory_files, note)
    except ToolError as error:
        ctx.say(str(error))
        return
    ctx.agent.inbox.append(f"<memory_note>\nThe user added to {path.name}: {note}\n</memory_note>")
    ctx.say(f"Added to {_name(ctx, path)}; the model learns of it with the next message.")


@slash("memory", "edit a memory file, or show them all", "[show | NUMBER]", values=lambda ctx: ("show",))
def _memory(ctx: SlashContext, words: str) -> None:
    added = _nested_files(ctx)
    memory = _load_current(ctx)
    if words == "show":
        texts = [memory.block(), *(f"## {f.shown}\n{f.text}" for f in added)]
        ctx.page("\n\n".join(t for t in texts if t) or "There is no memory.", "Memory")
        return
    described = memory.described(added)
    for line in described if words or not ctx.has_menus else ():
        ctx.say(line)
    files = _editable(ctx, (*memory.files, *added))
    if words:
        number = parse_number(words) - 1 if 1 <= parse_number(words) <= len(files) else None
        if number is None:
            ctx.say(f"There is no memory file {one_line(words)}; say a number from 1 to {len(files)}, or show.")
    else:
        text = {file.path: file.text for file in (*memory.files, *added)}
        items = (ViewItem(shown, why, detail=partial(_draw, text.get(path, ""))) for path, shown, why in files)
        title = "Memory" if ctx.has_menus else "Which one do you want to change?"
        view = View(
            title, lambda width: prose_lines("\n".join(described), width, "dim"), tuple(items),
            actions=(ViewAction("enter", "edit"),),
        )  # fmt: skip
        left = ctx.pick_from(view)
        number = left.index if left is not None else None
    if number is not None:
        _edit(ctx, files[number][0])


def _draw(text: str, width: int) -> list[Text]:
    return prose_lines(text or "It does not exist yet.", width)


def _load_current(ctx: SlashContext) -> Memory:
    """Return the current memory, which may have grown since the session began."""
    agent = ctx.agent
    if ctx.config.bare:
        return Memory()
    readable = agent.policy.readable
    return memory_sources(ctx.run_env, agent.settings, ctx.layers.trust, readable, ctx.config).load()


def _nested_files(ctx: SlashContext) -> tuple[MemoryFile, ...]:
    near = ctx.agent.tool_context.nested_memory
    return near.files if isinstance(near, NestedMemory) else ()


def _editable(ctx: SlashContext, files: tuple[MemoryFile, ...]) -> list[tuple[Path, str, str]]:
    """Return the editable files as (path, name, description), with the two most common ones offered if missing."""
    found = [(f.path, f.shown, f.why) for f in files]
    root, home, names = ctx.run_env.root, ctx.run_env.home, ctx.agent.settings.memory_files
    path = note_file(root, names)
    new = [(path, _name(ctx, path), "the project's; new")]
    if home is not None:
        name = names[0] if names else "AGENTS.md"
        new.append((home / ".agent" / name, f"~/.agent/{name}", "yours, for every project; new"))
    return found + [entry for entry in new if not os.path.lexists(entry[0])]


def _edit(ctx: SlashContext, path: Path) -> None:
    real = Path(os.path.realpath(path))
    try:
        before = read_file(real, MAX_FILE_BYTES) if os.path.lexists(path) else None
        old = decode_text(before or b"")
        if old is None:
            ctx.say(f"{path} is no text file.")
            return
        text = ctx.edit(old.content)
        if text is None or text == old.content:
            ctx.say("Nothing was changed.")
            return
        if text and not text.endswith("\n"):
            text += line_end(text)
        change_file(real, before, text)
    except ToolError as error:
        ctx.say(str(error))
        return
    name = _name(ctx, path)
    shown = text if len(text) <= MAX_SHOWN_CHARS else f"{text[:MAX_SHOWN_CHARS]}\n(cut here)"
    ctx.agent.inbox.append(
        f"<memory_change>\nThe user changed the memory file {name}. It now says:\n{shown}\n</memory_change>"
    )
    ctx.say(f"{name} is written; the model learns of it with the next message.")


def _name(ctx: SlashContext, path: Path) -> str:
    root = ctx.run_env.root
    return one_line(str(path.relative_to(root) if path.is_relative_to(root) else path))
