"""Import servers, settings, commands, skills and memory from Claude Code, Codex, Gemini CLI and OpenCode.

Everything found in the home folder becomes an item: either it is imported, with its destination, or it is not, with the
reason.
"""

from __future__ import annotations

import json
import os
import re
import stat
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from agent_cli import Layers, UsageError, find_environment
from agent_cli.cli.app import AsJson
from agent_cli.cli.help import examples, one_of
from agent_cli.config.claude_keys import TAKEN, why_unused
from agent_cli.config.parsing import SettingsError
from agent_cli.config.schema import McpServer
from agent_cli.console import echo, print_json, table
from agent_cli.kernel.runtime.saved_settings import SettingsFile
from agent_cli.kernel.user_text import decode_user_text, load_user_json
from agent_cli.mcp.config import DeclaredServer
from agent_cli.takeover import stores
from agent_tools.fs.safe_files import read_regular, write_atomic
from agent_tools.record import DecodeError, Value, from_json
from agent_tools.text import counted, one_line, shorten

app = typer.Typer(add_completion=False)
PROGRAMS = ("claude", "codex", "gemini", "opencode")
_MAX_FILE_BYTES = 8 << 20
ALREADY_THERE = "there already"
_FAILED = "not taken: "
_EFFORTS = ("minimal", "low", "medium", "high", "xhigh", "max")


class ForeignItem(Value):
    """A setting, server or file of another program.

    what: description.
    source: its file.
    key: key of a setting, name of a server, or path of a file below ~/.agent.
    why: why it is not imported; "" if it is.
    """

    program: str
    what: str
    source: Path
    key: str = ""
    value: str = ""
    server: McpServer | None = None
    text: str | None = None
    why: str = ""


def foreign_items(home: Path, programs: tuple[str, ...] = PROGRAMS) -> list[ForeignItem]:
    """Return the items of these programs in a home folder, in order. Changes nothing."""
    readers = {"claude": _claude, "codex": _codex, "gemini": _gemini, "opencode": _opencode}
    return [item for program in programs for item in readers[program](home)]


def _read_table(path: Path) -> dict[str, Any] | str | None:
    """Return the table in a file, or why it cannot be read; None if there is no file."""
    try:
        text = decode_user_text(read_regular(path, _MAX_FILE_BYTES))
        found = tomllib.loads(text) if path.suffix == ".toml" else load_user_json(text)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, RecursionError) as error:
        return f"cannot be read: {getattr(error, 'strerror', None) or error}"
    return found if isinstance(found, dict) else "cannot be read: it is not a table"


def _claude(home: Path) -> Iterator[ForeignItem]:
    state, settings = home / ".claude.json", home / ".claude/settings.json"
    table = _read_table(state)
    if isinstance(table, str):
        yield ForeignItem("claude", state.name, state, why=table)
    elif table is not None:
        yield from _servers("claude", table.get("mcpServers"), state)
        projects = table.get("projects")
        for folder, project in projects.items() if isinstance(projects, dict) else ():
            for name in (project.get("mcpServers") or {}) if isinstance(project, dict) else ():
                why = f"it is for {folder} alone: there, agent mcp add --scope project"
                yield ForeignItem("claude", f"MCP server {name}", state, why=why)
        yield ForeignItem("claude", "the rest of .claude.json", state, why="state of that program, such as its login")
    table = _read_table(settings)
    if isinstance(table, str):
        yield ForeignItem("claude", settings.name, settings, why=table)
    for key in table if isinstance(table, dict) else ():
        why = "" if key in TAKEN else why_unused(key)
        why = why or "it is read in place, in every session"
        yield ForeignItem("claude", f"setting {key}", settings, why=why)
    for name in ("CLAUDE.md", "commands", "agents", "skills", "output-styles", "rules"):
        if os.path.lexists(home / ".claude" / name):
            yield ForeignItem("claude", name, home / ".claude" / name, why="it is read in place, in every session")
    if os.path.lexists(home / ".claude/plugins"):
        why = "plugins are added one by one, after a question: agent plugin add"
        yield ForeignItem("claude", "plugins", home / ".claude/plugins", why=why)


def _codex(home: Path) -> Iterator[ForeignItem]:
    base = home / ".codex"
    path = base / "config.toml"
    table = _read_table(path)
    if isinstance(table, str):
        yield ForeignItem("codex", path.name, path, why=table)
    reasons = {
        "approval_policy": "choose a permission mode: permissions.mode",
        "sandbox_mode": "commands run in the sandbox as the table [sandbox] says",
        "projects": "agent asks whether to trust a project when you first work in it",
        "notify": "a hook for the event Notification does that",
        "profiles": "settings of a single run go into a file for --settings",
        "model_providers": "addresses are base_url, or variables as docs/models.md says",
    }
    for key, value in table.items() if isinstance(table, dict) else ():
        if key == "model" and isinstance(table, dict):
            provider = str(table.get("model_provider", "openai"))
            yield ForeignItem("codex", "model", path, "model", f"{provider}/{value}")
        elif key == "model_provider":
            continue  # with the model
        elif key == "model_reasoning_effort" and value in _EFFORTS:
            yield ForeignItem("codex", key, path, "effort", str(value))
        elif key == "mcp_servers":
            yield from _servers("codex", value, path)
        else:
            yield ForeignItem("codex", f"setting {key}", path, why=reasons.get(key, "it has no counterpart here"))
    yield from _markdown("codex", base / "prompts", "commands")
    yield from _skills("codex", base / "skills")
    yield from _memory("codex", base / "AGENTS.md")
    yield from _login("codex", base / "auth.json")


def _gemini(home: Path) -> Iterator[ForeignItem]:
    base = home / ".gemini"
    path = base / "settings.json"
    table = _read_table(path)
    if isinstance(table, str):
        yield ForeignItem("gemini", path.name, path, why=table)
    for key, value in table.items() if isinstance(table, dict) else ():
        name = value.get("name") if key == "model" and isinstance(value, dict) else value if key == "model" else None
        if key == "mcpServers":
            yield from _servers("gemini", value, path)
        elif isinstance(name, str):
            yield ForeignItem("gemini", "model", path, "model", f"gemini/{name}")
        else:
            yield ForeignItem("gemini", f"setting {key}", path, why="it has no counterpart here")
    for file in sorted((base / "commands").rglob("*.toml")) if (base / "commands").is_dir() else ():
        found = _read_table(file)
        prompt = found.get("prompt") if isinstance(found, dict) else None
        name = str(file.relative_to(base / "commands").with_suffix(".md"))
        if isinstance(found, dict) and isinstance(prompt, str):
            yield ForeignItem("gemini", f"command {name[:-3]}", file, f"commands/{name}", text=_gemini_prompt(found))
        else:
            why = found if isinstance(found, str) else "it has no prompt"
            yield ForeignItem("gemini", f"command {name[:-3]}", file, why=why)
    yield from _memory("gemini", base / "GEMINI.md")
    yield from _login("gemini", base / "oauth_creds.json")
    if os.path.lexists(base / "extensions"):
        yield ForeignItem("gemini", "extensions", base / "extensions", why="extensions of Gemini CLI are not supported")


def _gemini_prompt(table: dict[str, Any]) -> str:
    """Convert a command of Gemini CLI to our format."""
    text = str(table["prompt"]).replace("{{args}}", "$ARGUMENTS")
    text = re.sub(r"!\{([^}\n]*)\}", lambda m: f"!`{m[1].strip()}`", text)
    text = re.sub(r"@\{([^}\n]*)\}", lambda m: f"@{m[1].strip()}", text)
    about = " ".join(str(table.get("description") or "").split())
    head = f"---\ndescription: {json.dumps(about, ensure_ascii=False)}\n---\n" if about else ""
    return f"{head}{text.strip()}\n"


def _opencode(home: Path) -> Iterator[ForeignItem]:
    base = home / ".config/opencode"
    for path in (base / "opencode.json", base / "opencode.jsonc"):
        table = _read_table(path)
        if isinstance(table, str):
            yield ForeignItem("opencode", path.name, path, why=table)
        for key, value in table.items() if isinstance(table, dict) else ():
            if key in ("model", "small_model") and isinstance(value, str):
                yield ForeignItem("opencode", key, path, key, value)
            elif key == "mcp":
                yield from _servers("opencode", value, path)
            elif key == "command" and isinstance(value, dict):
                yield from _opencode_commands(value, path)
            elif key != "$schema":
                yield ForeignItem("opencode", f"setting {key}", path, why="it has no counterpart here")
    for name in ("command", "commands"):
        yield from _markdown("opencode", base / name, "commands")
    for name in ("agent", "agents"):
        for file in sorted((base / name).glob("*.md")):
            why = "copy it to ~/.agent/agents and give its head a name and our tools"
            yield ForeignItem("opencode", f"agent {file.stem}", file, why=why)
    for name in ("skill", "skills"):
        yield from _skills("opencode", base / name)
    yield from _memory("opencode", base / "AGENTS.md")
    yield from _login("opencode", home / ".local/share/opencode/auth.json")


def _opencode_commands(commands: Mapping[str, Any], path: Path) -> Iterator[ForeignItem]:
    for name, raw in commands.items():
        template = raw.get("template") if isinstance(raw, dict) else None
        if isinstance(template, str) and re.fullmatch(r"[\w-]+", name):
            about = json.dumps(" ".join(str(raw.get("description") or name).split()), ensure_ascii=False)
            text = f"---\ndescription: {about}\n---\n{template.strip()}\n"
            yield ForeignItem("opencode", f"command {name}", path, f"commands/{name}.md", text=text)
        else:
            yield ForeignItem("opencode", f"command {name}", path, why="it has no template, or no name of one word")


def _servers(program: str, raw: Any, path: Path) -> Iterator[ForeignItem]:
    """Yield the MCP servers of a table, in the format of any of these programs."""
    for name, declared in raw.items() if isinstance(raw, dict) else ():
        what = f"MCP server {name}"
        if not isinstance(declared, dict):
            yield ForeignItem(program, what, path, why="it is not a table")
        elif declared.get("enabled") is False or declared.get("disabled") is True:
            yield ForeignItem(program, what, path, why="it is switched off there")
        else:
            try:
                server: McpServer = from_json(McpServer, _declaration(declared), what)
            except DecodeError as error:
                yield ForeignItem(program, what, path, why=str(error))
                continue
            clean = re.sub(r"_+", "_", re.sub(r"[^A-Za-z0-9_-]", "-", str(name))).strip("_-")
            yield ForeignItem(program, what, path, clean, server=server)


def _declaration(declared: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the declaration of a server to our keys."""
    found = {key: declared[key] for key in ("command", "args", "env", "cwd", "url", "headers") if declared.get(key)}
    if isinstance(command := found.get("command"), list):  # OpenCode
        found |= {"command": str(command[0]), "args": command[1:]} if command else {"command": ""}
    found |= {"env": declared["environment"]} if declared.get("environment") else {}
    found |= {"headers": declared["http_headers"]} if declared.get("http_headers") else {}
    if declared.get("httpUrl"):  # Gemini, whose `url` is for events
        found |= {"url": declared["httpUrl"], "type": "http"}
    elif declared.get("type") in ("http", "sse"):
        found["type"] = declared["type"]
    if variable := declared.get("bearer_token_env_var"):
        given = found.get("headers")
        found["headers"] = {**(given if isinstance(given, dict) else {}), "Authorization": f"Bearer ${{{variable}}}"}
    return found


def _markdown(program: str, folder: Path, below: str) -> Iterator[ForeignItem]:
    for file in sorted(folder.rglob("*.md")) if folder.is_dir() else ():
        name = str(file.relative_to(folder))
        if set(" :") & set(name):
            yield ForeignItem(program, f"command {name[:-3]}", file, why="its name has spaces or colons")
        else:
            yield _copy_item(program, f"command {name[:-3]}", file, f"{below}/{name}")


def _skills(program: str, folder: Path) -> Iterator[ForeignItem]:
    for skill in sorted(folder.glob("*/SKILL.md")) if folder.is_dir() else ():
        for file in sorted(p for p in skill.parent.rglob("*") if p.is_file()):
            name = f"{skill.parent.name}/{file.relative_to(skill.parent)}"
            yield _copy_item(program, f"skill file {name}", file, f"skills/{name}")


def _memory(program: str, path: Path) -> Iterator[ForeignItem]:
    if path.is_file():
        yield _copy_item(program, f"memory {path.name}", path, f"rules/{program}.md")


def _copy_item(program: str, what: str, path: Path, key: str) -> ForeignItem:
    try:
        return ForeignItem(program, what, path, key, text=read_regular(path, _MAX_FILE_BYTES).decode("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        return ForeignItem(program, what, path, why=f"cannot be read: {why}")


def _login(program: str, path: Path) -> Iterator[ForeignItem]:
    if path.is_file():
        yield ForeignItem(program, "login", path, why="logins are not copied; set the provider's key")


@app.command(epilog=examples("agent import", "agent import codex gemini --apply"))
def import_settings(
    programs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PROGRAM]...", help=f"Programs to import from: {one_of(PROGRAMS)}; all by default."),
    ] = None,
    apply: Annotated[bool, typer.Option("--apply", help="Write it; without this nothing is changed.")] = False,
    as_json: AsJson = False,
) -> int:
    home = find_environment(os.environ).home
    if home is None:
        raise UsageError("There is no home folder.")
    wanted = tuple(dict.fromkeys(programs or PROGRAMS))
    if unknown := next((name for name in wanted if name not in PROGRAMS), ""):
        raise UsageError(f"{shorten(one_line(unknown), 40)} is not known here. There are {', '.join(PROGRAMS)}.")
    user_layers = Layers([])
    user_layers.add_file(home / ".agentrc", "user")
    rows = []
    for item in foreign_items(home, wanted):
        state = item.why or _conflict(item, home, user_layers)
        if not state and apply:
            state = _write(item, home) or "taken"
        rows.append((item, state))
        if not item.why and state in ("", "taken"):
            # Of several items with one name the first wins, even if nothing is written.
            user_layers.add(_as_data(item), str(item.source), home)
            user_layers.read.append(_target(item))
    if as_json:
        print_json([_to_json(item, state) for item, state in rows])
    else:
        _print(rows, home, applied=apply)
        if sessions := len(stores.foreign_sessions(find_environment(os.environ), wanted, every=False)):
            echo(f"\n{counted(sessions, 'session')} of this folder can be continued here: agent sessions import --list")
    return 0


def _target(item: ForeignItem) -> str:
    """Describe where an item is written."""
    if item.server is not None:
        return f"~/.agentrc [mcp.servers.{item.key}]"
    return f"~/.agentrc {item.key} = {item.value}" if item.text is None else f"~/.agent/{item.key}"


def _as_data(item: ForeignItem) -> dict[str, object]:
    return {item.key: item.value} if item.text is None and item.server is None else {}


def _conflict(item: ForeignItem, home: Path, user_layers: Layers) -> str:
    """Return why an item is not written: it is there already, or another one is; "" if it is to be written."""
    if item.server is not None:
        if why := DeclaredServer(item.key, item.server, str(item.source), "user").problem:
            return why
        found = next((d.server for d in user_layers.servers if d.name == item.key), None)
        taken = _target(item) in user_layers.read
        same = found == item.server
        return ALREADY_THERE if same else "you have a server of that name" if found or taken else ""
    if item.text is None:
        now = str(getattr(user_layers.settings(), item.key) or "")
        if now == item.value:
            return ALREADY_THERE
        return f"yours is {now}" if item.key in user_layers.origins else _check(item, home)
    path = home / ".agent" / item.key
    try:
        same = read_regular(path, _MAX_FILE_BYTES).decode("utf-8", "replace") == item.text
    except (FileNotFoundError, NotADirectoryError):
        return "another file here has that name" if _target(item) in user_layers.read else ""
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
                return f"{_FAILED}others can read {settings}, and it has keys: chmod 600 {settings}"
            SettingsFile(settings).add_server(item.key, item.server)
        elif item.text is None:
            SettingsFile(settings).set(item.key, item.value)
        else:
            runs = stat.S_IMODE(item.source.stat().st_mode) & stat.S_IXUSR
            write_atomic(home / ".agent" / item.key, item.text.encode(), 0o700 if runs else 0o600)
    except SettingsError as error:
        return f"{_FAILED}{error}"
    except OSError as error:
        return f"{_FAILED}{error.strerror or error}"
    return ""


def _is_readable_by_others(path: Path) -> bool:
    try:
        return bool(path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO))
    except OSError:
        return False


def _to_json(item: ForeignItem, state: str) -> dict[str, str]:
    target = "" if item.why else _target(item)
    return {"program": item.program, "what": item.what, "from": str(item.source), "to": target, "state": state}


def _print(rows: list[tuple[ForeignItem, str]], home: Path, *, applied: bool) -> None:
    """Print the items that are imported, then the others with the reason."""
    imported = [(item, state) for item, state in rows if state in ("", "taken", ALREADY_THERE)]
    left = [(item, state) for item, state in rows if state not in ("", "taken", ALREADY_THERE)]
    if not rows:
        echo("Nothing of Claude Code, Codex, Gemini CLI or OpenCode is in your home folder.")
        return
    if imported:
        cells = [
            (i.program, one_line(i.what), one_line(_target(i)), {"": "to import", "taken": "imported"}.get(s, s))
            for i, s in imported
        ]
        echo("\n".join(table(("FROM", "WHAT", "TO", "STATE"), cells)))
    if left:
        echo("\nNot imported:" if imported else "Not imported:")
        reasons = [(i.program, one_line(i.what), shorten(one_line(s.removeprefix(_FAILED)), 120)) for i, s in left]
        echo("\n".join(table(("FROM", "WHAT", "WHY"), reasons)))
    waiting = sum(not state for _, state in imported)
    if waiting and not applied:
        echo(f"\nNothing was changed. To import {counted(waiting, 'item')}: agent import --apply")
