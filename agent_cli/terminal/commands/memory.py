"""Project memory: show, edit, and add notes with `#`."""

from __future__ import annotations

import os
from pathlib import Path

from agent_cli.memory.files import Memory, MemoryFile, lines, load_memory
from agent_cli.memory.nested import NestedMemory
from agent_cli.memory.notes import LIMIT, add_note, change_file, note_file
from agent_cli.runtime.environment import memory_sources
from agent_cli.terminal.slash import SlashContext, slash
from agent_tools.base import ToolError
from agent_tools.fs.encoding import decode_text, line_end
from agent_tools.fs.files import read_file
from agent_tools.text import number_in, one_line

TOLD = 16_000


def take_note(ctx: SlashContext, note: str) -> None:
    """Add a note to the project's memory and pass it to the model with its next step."""
    try:
        path = add_note(ctx.place.root, ctx.agent.settings.memory_files, note)
    except ToolError as error:
        ctx.say(str(error))
        return
    ctx.agent.conversation.inbox.append(f"<memory_note>\nThe user added to {path.name}: {note}\n</memory_note>")
    ctx.say(f"Added to {_name(ctx, path)}; the model learns of it with the next message.")


@slash("memory", "the memory files; change one in $EDITOR, or show all of their text", "[show | NUMBER]")
def _memory(ctx: SlashContext, words: str) -> None:
    added = _nearby(ctx)
    memory = _now(ctx)
    if words == "show":
        texts = [memory.block(), *(f"## {f.shown}\n{f.text}" for f in added)]
        ctx.page("\n\n".join(t for t in texts if t) or "There is no memory.")
        return
    for line in lines(memory, added):
        ctx.say(line)
    files = _editable(ctx, (*memory.files, *added))
    if words:
        number = number_in(words) - 1 if 1 <= number_in(words) <= len(files) else None
        if number is None:
            ctx.say(f"There is no memory file {one_line(words)}; say a number from 1 to {len(files)}, or show.")
    else:
        number = ctx.choose("Which one do you want to change?", [(shown, why) for _, shown, why in files])
    if number is not None:
        _edit(ctx, files[number][0])


def _now(ctx: SlashContext) -> Memory:
    """Return the current memory, which may have grown since the session began."""
    agent = ctx.agent
    if ctx.options.bare:
        return Memory()
    readable = agent.conversation.deps.context.readable
    return load_memory(memory_sources(ctx.place, agent.settings, ctx.layers.trust, readable))


def _nearby(ctx: SlashContext) -> tuple[MemoryFile, ...]:
    near = ctx.agent.conversation.deps.context.nested_memory
    return near.files if isinstance(near, NestedMemory) else ()


def _editable(ctx: SlashContext, files: tuple[MemoryFile, ...]) -> list[tuple[Path, str, str]]:
    """Return the editable files as (path, name, description), with the two most common ones offered if missing."""
    found = [(f.path, f.shown, f.why) for f in files]
    root, home, names = ctx.place.root, ctx.place.home, ctx.agent.settings.memory_files
    path = note_file(root, names)
    new = [(path, _name(ctx, path), "the project's; new")]
    if home is not None:
        name = names[0] if names else "AGENTS.md"
        new.append((home / ".agent" / name, f"~/.agent/{name}", "yours, for every project; new"))
    return found + [entry for entry in new if not os.path.lexists(entry[0])]


def _edit(ctx: SlashContext, path: Path) -> None:
    real = Path(os.path.realpath(path))
    try:
        before = read_file(real, LIMIT) if os.path.lexists(path) else None
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
    shown = text if len(text) <= TOLD else f"{text[:TOLD]}\n(cut here)"
    ctx.agent.conversation.inbox.append(
        f"<memory_change>\nThe user changed the memory file {name}. It now says:\n{shown}\n</memory_change>"
    )
    ctx.say(f"{name} is written; the model learns of it with the next message.")


def _name(ctx: SlashContext, path: Path) -> str:
    root = ctx.place.root
    return one_line(str(path.relative_to(root) if path.is_relative_to(root) else path))
