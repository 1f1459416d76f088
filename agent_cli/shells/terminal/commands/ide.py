"""The editor beside the session: /ide."""

from __future__ import annotations

from agent_cli import UsageError
from agent_cli.ide.locks import IdeError, RunningEditor
from agent_cli.shells.terminal.slash import SlashContext, slash
from agent_tools.base import ToolError
from agent_tools.text import one_line, shorten

_WORDS = (
    ("status", "the editor that is connected, and those that run"),
    ("connect", "connect to one, by name or port"),
    ("disconnect", "end the connection for this session"),
    ("open", "show a file in the editor"),
)


@slash(
    "ide",
    "connect to the editor that has this folder open",
    "[status|connect [NAME|PORT]|disconnect|open FILE]",
    aside=True,
    values=lambda ctx: _WORDS,
)
def _ide(ctx: SlashContext, words: str) -> None:
    """Raises UsageError."""
    word, _, rest = words.partition(" ")
    try:
        if word in ("", "status"):
            _show_status(ctx)
        elif word == "connect":
            _connect(ctx, rest.strip())
        elif word == "disconnect":
            name = ctx.agent.ide.name
            ctx.agent.ide.disconnect()
            ctx.say(f"Disconnected from {name}." if name else "No editor is connected.")
        elif word == "open":
            ctx.agent.ide.open_file(str(ctx.agent.tool_context.workspace.resolve(rest.strip() or ".")))
        else:
            raise UsageError(f"/ide {one_line(word)}: write status, connect, disconnect or open.")
    except (IdeError, ToolError) as error:
        raise UsageError(str(error)) from None


def _show_status(ctx: SlashContext) -> None:
    ide = ctx.agent.ide
    editors, problems = ide.find()
    client = ide.client
    if client is not None:
        ctx.say(f"Connected to {_named(client.editor)}.")
        if (selected := client.selection) is not None:
            ctx.say(f"  {one_line(selected.path)}{_lines(selected.first, selected.last) if selected.text else ''}")
    elif ide.problem:
        ctx.say(ide.problem)
    others = [e for e in editors if client is None or e.port != client.editor.port]
    for editor in others:
        here = "" if editor.depth(ctx.run_env.cwd.resolve()) >= 0 else ", has other folders open"
        ctx.say(f"  /ide connect {editor.port}: {editor.name}, {_folders(editor)}{here}")
    for problem in problems:
        ctx.say(f"  not used: {problem}")
    if client is None and not editors:
        ctx.say("No editor that serves the IDE protocol runs here.")


def _connect(ctx: SlashContext, chosen: str) -> None:
    """Connect to the editor of this folder, or to the chosen one. Raises UsageError, IdeError."""
    ide = ctx.agent.ide
    editors, _ = ide.find()
    cwd = ctx.run_env.cwd.resolve()
    fits = [e for e in editors if (str(e.port) == chosen or e.name.lower() == chosen.lower() if chosen else True)]
    here = [editor for editor in fits if editor.depth(cwd) >= 0]
    if len(here) != 1:
        why = "Several editors have" if here else "No editor that runs and serves the IDE protocol has"
        which = ": " + ", ".join(map(_named, here)) + "; name the port" if here else ""
        raise UsageError(f"{why} this folder open{which}.")
    ide.connect(here[0])
    ctx.say(f"Connected to {_named(here[0])}.")


def _named(editor: RunningEditor) -> str:
    return f"{editor.name} (port {editor.port}, {_folders(editor)})"


def _folders(editor: RunningEditor) -> str:
    return shorten(", ".join(one_line(str(folder)) for folder in editor.folders[:3]), 100)


def _lines(first: int, last: int) -> str:
    return f", line {first} selected" if first == last else f", lines {first}-{last} selected"
