"""Take over servers, settings, commands, skills and memory of Claude Code, Codex, Gemini CLI and OpenCode."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Annotated

import typer

from agent_cli.cli.app import AsJson
from agent_cli.cli.foreign_settings import PROGRAMS, ForeignItem, foreign_items
from agent_cli.cli.help import examples, one_of
from agent_cli.config.layers import Layers
from agent_cli.config.parsing import SettingsError
from agent_cli.core.place import UsageError
from agent_cli.headless.output import echo, print_json, table
from agent_cli.mcp.config import DeclaredServer, McpEditError, change_toml, declaration_problem
from agent_cli.runtime.environment import find_place
from agent_cli.runtime.saved_settings import save_setting
from agent_tools.fs.safe_files import read_regular, write_atomic
from agent_tools.text import counted, one_line, shorten

app = typer.Typer(add_completion=False)
_MAX_FILE_BYTES = 8 << 20
ALREADY_THERE = "there already"


@app.command(epilog=examples("agent import", "agent import codex gemini --apply"))
def import_settings(
    programs: Annotated[
        list[str] | None, typer.Argument(metavar="[PROGRAM]...", help=f"Of these: {one_of(PROGRAMS)}; all by default.")
    ] = None,
    apply: Annotated[bool, typer.Option("--apply", help="Write it; without this nothing is changed.")] = False,
    as_json: AsJson = False,
) -> int:
    home = find_place(os.environ).home
    if home is None:
        raise UsageError("There is no home folder.")
    wanted = tuple(dict.fromkeys(programs or PROGRAMS))
    if unknown := next((name for name in wanted if name not in PROGRAMS), ""):
        raise UsageError(f"{shorten(one_line(unknown), 40)} is not known here. There are {', '.join(PROGRAMS)}.")
    own = Layers([])
    own.add_file(home / ".agentrc", "own")
    rows = []
    for item in foreign_items(home, wanted):
        state = item.why or _conflict(item, home, own)
        if not state and apply:
            state = _write(item, home) or "taken"
        rows.append((item, state))
        if not item.why and state in ("", "taken"):
            # Of several items with one name the first wins, even if nothing is written.
            own.add(_as_data(item), str(item.source), home)
            own.read.append(_target(item))
    if as_json:
        print_json([_plain(item, state) for item, state in rows])
    else:
        _print(rows, home, applied=apply)
    return 0


def _target(item: ForeignItem) -> str:
    """Describe where an item is written."""
    if item.server is not None:
        return f"~/.agentrc [mcp.servers.{item.key}]"
    return f"~/.agentrc {item.key} = {item.value}" if item.text is None else f"~/.agent/{item.key}"


def _as_data(item: ForeignItem) -> dict[str, object]:
    return {item.key: item.value} if item.text is None and item.server is None else {}


def _conflict(item: ForeignItem, home: Path, own: Layers) -> str:
    """Return why an item is not written: it is there already, or another one is; "" if it is to be written."""
    if item.server is not None:
        if why := declaration_problem(DeclaredServer(item.key, item.server, str(item.source), "own")):
            return why
        found = next((d.server for d in own.servers if d.name == item.key), None)
        taken = _target(item) in own.read
        same = found == item.server
        return ALREADY_THERE if same else "you have a server of that name" if found or taken else ""
    if item.text is None:
        now = str(getattr(own.settings(), item.key) or "")
        return (
            ALREADY_THERE if now == item.value else f"yours is {now}" if item.key in own.origins else _check(item, home)
        )
    path = home / ".agent" / item.key
    try:
        same = read_regular(path, _MAX_FILE_BYTES).decode("utf-8", "replace") == item.text
    except (FileNotFoundError, NotADirectoryError):
        return "another file here has that name" if _target(item) in own.read else ""
    except OSError as error:
        return str(error.strerror or error)
    return ALREADY_THERE if same else "you have a file of that name"


def _check(item: ForeignItem, home: Path) -> str:
    """Return why a setting is not valid here; "" if it is."""
    try:
        Layers().add({item.key: item.value}, item.source.name, home)
    except SettingsError as error:
        return str(error)
    return ""


def _write(item: ForeignItem, home: Path) -> str:
    """Write one item; return "" or why that failed."""
    settings = home / ".agentrc"
    try:
        if item.server is not None:
            if (item.server.env or item.server.headers) and _is_readable_by_others(settings):
                return f"not taken: others can read {settings}, and it has keys: chmod 600 {settings}"
            change_toml(settings, item.key, item.server)
        elif item.text is None:
            save_setting(settings, item.key, item.value)
        else:
            runs = stat.S_IMODE(item.source.stat().st_mode) & stat.S_IXUSR
            write_atomic(home / ".agent" / item.key, item.text.encode(), 0o700 if runs else 0o600)
    except (McpEditError, SettingsError) as error:
        return f"not taken: {error}"
    except OSError as error:
        return f"not taken: {error.strerror or error}"
    return ""


def _is_readable_by_others(path: Path) -> bool:
    try:
        return bool(path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO))
    except OSError:
        return False


def _plain(item: ForeignItem, state: str) -> dict[str, str]:
    target = "" if item.why else _target(item)
    return {"program": item.program, "what": item.what, "from": str(item.source), "to": target, "state": state}


def _print(rows: list[tuple[ForeignItem, str]], home: Path, *, applied: bool) -> None:
    """Print the items that are taken, then the others with the reason."""
    taken = [(item, state) for item, state in rows if state in ("", "taken", ALREADY_THERE)]
    left = [(item, state) for item, state in rows if state not in ("", "taken", ALREADY_THERE)]
    if not rows:
        echo("Nothing of Claude Code, Codex, Gemini CLI or OpenCode is in your home folder.")
        return
    if taken:
        cells = [(i.program, one_line(i.what), one_line(_target(i)), s or "to be taken") for i, s in taken]
        echo("\n".join(table(("FROM", "WHAT", "TO", "STATE"), cells)))
    if left:
        echo("\nNot taken:" if taken else "Not taken:")
        reasons = [
            (i.program, one_line(i.what), shorten(one_line(s.removeprefix("not taken: ")), 120)) for i, s in left
        ]
        echo("\n".join(table(("FROM", "WHAT", "WHY"), reasons)))
    waiting = sum(not state for _, state in taken)
    if waiting and not applied:
        echo(f"\nNothing was changed. To take {counted(waiting, 'item')}: agent import --apply")
