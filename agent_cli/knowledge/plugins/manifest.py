"""Read a plugin: a folder with commands, agents, skills, hooks, MCP servers and output styles for this program.

The layout is Claude Code's: `.claude-plugin/plugin.json` names the plugin and may name other places for its parts; an
entry of a marketplace may have the same keys. Nothing is run, links out of the folder are not followed, and a note is
added for each part that has no effect.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from agent_cli.config.schema import McpServer
from agent_cli.config.server_keys import read_server
from agent_cli.hooks import Hook
from agent_cli.hooks.reader import parse_hooks
from agent_cli.kernel.run_environment import UsageError
from agent_cli.kernel.user_text import decode_user_text, load_user_json
from agent_tools.fs.safe_files import read_regular, resolve_inside
from agent_tools.record import DecodeError, Value
from agent_tools.text import fill_variables, one_line, shorten

MANIFEST = ".claude-plugin/plugin.json"
MAX_MANIFEST_BYTES = 1 << 20
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
# Plugins' servers are named as in Claude Code, so that its rules and commands find their tools.
_SERVER = "plugin_{plugin}_{server}"
ROOT, DATA = "CLAUDE_PLUGIN_ROOT", "CLAUDE_PLUGIN_DATA"
# Keys of a manifest: those that take effect, those that only describe, and for the others why they have no effect.
PARTS = ("commands", "agents", "skills", "hooks", "mcpServers", "outputStyles")
_ABOUT = frozenset(
    "$schema name version description author homepage repository license keywords category tags displayName source "
    "strict icon logo".split()
)
_REASONS = {
    "lspServers": "language servers come from our own settings ([diagnostics] servers)",
    "monitors": "background monitors are not supported",
    "themes": "themes are files in ~/.agent/themes",
    "settings": "a plugin cannot change settings",
    "userConfig": "values for it are variables of your environment",
    "dependencies": "other plugins that it needs are added one by one",
    "channels": "messages from outside are not supported",
}
_FILES = {
    ".lsp.json": _REASONS["lspServers"],
    "monitors": _REASONS["monitors"],
    "themes": _REASONS["themes"],
    "settings.json": _REASONS["settings"],
    "workflows": "workflow scripts are not supported",
    "bin": "programs are not put on the PATH; name them by ${CLAUDE_PLUGIN_ROOT}",
}


class PluginError(UsageError):
    """A plugin or marketplace that cannot be used; the message says why and what to do."""


class Plugin(Value):
    """A plugin as read.

    folder: its files, links resolved.
    data: where it may store its own files.
    commands: markdown files by name, without the plugin's name.
    skills: folders by name; agents, styles: markdown files.
    notes: parts that have no effect, and why.
    hook_notes: hooks that cannot run and keys of hooks that are not known, which each session reports.
    """

    name: str
    folder: Path
    data: Path
    version: str = ""
    description: str = ""
    source: str = ""
    commands: dict[str, Path] = {}  # noqa: RUF012 - never changed
    skills: dict[str, Path] = {}  # noqa: RUF012
    agents: tuple[Path, ...] = ()
    styles: tuple[Path, ...] = ()
    hooks: tuple[Hook, ...] = ()
    servers: dict[str, McpServer] = {}  # noqa: RUF012
    notes: tuple[str, ...] = ()
    hook_notes: tuple[str, ...] = ()

    @property
    def variables(self) -> dict[str, str]:
        """The variables that its texts, hooks and servers use."""
        return {ROOT: str(self.folder), DATA: str(self.data)}

    def describe_contents(self) -> list[str]:
        """Describe what takes effect once it is trusted, a phrase each, commands in full."""
        groups = {
            "commands": [f"/{self.name}:{name}" for name in self.commands],
            "skills": [f"{self.name}:{name}" for name in self.skills],
            "agents": [path.stem for path in self.agents],
            "output styles": [path.stem for path in self.styles],
        }
        found = [f"{word}: {', '.join(names)}" for word, names in groups.items() if names]
        found += [f"hook, run with your rights: {hook}" for hook in self.hooks]
        for name, server in self.servers.items():
            what = server.url or " ".join((server.command, *server.args))
            found.append(f"MCP server {name}: {what}")
        return [text.replace(str(self.folder), f"${{{ROOT}}}") for text in found]

    def describe(self, source: str) -> list[str]:
        """Return lines about the plugin: its name, where it is from, its contents, and what has no effect."""
        version = f" {one_line(self.version)}" if self.version else ""
        return [
            f"{self.name}{version}: {shorten(one_line(self.description), 300)}".removesuffix(": "),
            f"  from {source}",
            *(f"  {one_line(text)}" for text in self.describe_contents() or ["nothing that has an effect here"]),
            *(f"  not used: {one_line(note)}" for note in self.notes),
        ]


def read_plugin(folder: Path, data: Path, entry: Mapping[str, Any] | None = None, source: str = "") -> Plugin:
    """Read a plugin. Raises PluginError.

    data: the folder for its own files.
    entry: what a marketplace says about it.
    source: its origin, in words.
    """
    folder = Path(os.path.realpath(folder))
    reader = _PluginReader(folder, data, entry or {}, source)
    return reader.read()


class _PluginReader:
    """One plugin while it is read."""

    def __init__(self, folder: Path, data: Path, entry: Mapping[str, Any], source: str) -> None:
        self._folder, self._data, self._source = folder, data, source
        self._notes: list[str] = []
        self._hook_notes: list[str] = []
        if not os.path.isdir(folder):  # noqa: PTH112 - the method raises where a parent is closed
            raise PluginError(f"{folder} is not a folder")
        manifest = self._json(MANIFEST)
        if manifest is None and not entry and not self._looks_like_one():
            raise PluginError(f"{folder} is not a plugin: it has neither {MANIFEST} nor commands, agents or skills")
        self._given = {**entry, **(manifest or {})}
        # The parts of both count: a marketplace may add to the plugin's own manifest.
        self._tables = [t for t in (manifest, entry) if t]
        name = self._given.get("name") or folder.name
        if not isinstance(name, str) or re.fullmatch(_NAME, name) is None:
            raise PluginError(f"{folder}: the plugin's name {shorten(str(name), 60)!r} is not one word of letters")
        self._name = name
        self._variables = {ROOT: str(folder), DATA: str(data)}

    def _looks_like_one(self) -> bool:
        names = ("commands", "agents", "skills", "hooks", "output-styles", ".mcp.json", "SKILL.md")
        return any(os.path.lexists(self._folder / name) for name in names)

    def read(self) -> Plugin:
        self._note_unused()
        return Plugin(
            self._name,
            self._folder,
            self._data,
            version=_text(self._given.get("version")),
            description=_text(self._given.get("description")),
            source=self._source,
            commands=self._commands(),
            skills=self._skills(),
            agents=tuple(self._markdown("agents", "agents").values()),
            styles=tuple(self._markdown("outputStyles", "output-styles").values()),
            hooks=self._hooks(),
            servers=self._servers(),
            notes=tuple(dict.fromkeys((*self._notes, *self._hook_notes))),
            hook_notes=tuple(dict.fromkeys(self._hook_notes)),
        )

    def _note_unused(self) -> None:
        for key in self._given:
            if key not in PARTS and key not in _ABOUT:
                self._notes.append(f"{key}: {_REASONS.get(key, 'not known here')}")
        self._notes += [f"{n}: {why}" for n, why in _FILES.items() if os.path.lexists(self._folder / n)]

    def _commands(self) -> dict[str, Path]:
        found = self._markdown("commands", "commands")
        for table in self._tables:
            listed = table.get("commands")
            if isinstance(listed, dict):
                for name, about in listed.items():
                    source = about.get("source") if isinstance(about, dict) else about
                    if isinstance(source, str) and (path := self._inside(source, f"commands.{name}")) is not None:
                        found[str(name)] = path
                    else:
                        self._notes.append(f"commands.{shorten(str(name), 40)}: its text is not in a file")
        return found

    def _markdown(self, key: str, default: str) -> dict[str, Path]:
        """Return the markdown files of one kind of part by name; places in the manifest replace the default."""
        found: dict[str, Path] = {}
        named = self._paths(key)
        for text in named if named is not None else [default]:
            path = self._inside(text, key if named is not None else "")
            if path is None:
                continue
            if path.is_file():
                found[path.stem] = path
                continue
            for file in sorted(_files(path)):
                if file.suffix != ".md" or file.stem.casefold() == "readme":
                    continue
                try:
                    resolve_inside(file, self._folder)
                except OSError:
                    self._notes.append(f"{file.relative_to(self._folder)}: leads out of the plugin, and was left out")
                    continue
                name = str(file.relative_to(path).with_suffix("")).replace("/", ":")
                if any(c.isspace() for c in name) or not name.isprintable():
                    self._notes.append(f"{file.relative_to(self._folder)}: its name cannot be called")
                else:
                    found.setdefault(name, file)
        return found

    def _skills(self) -> dict[str, Path]:
        """Return the folders with a SKILL.md; places in the manifest are added to `skills`."""
        found: dict[str, Path] = {}
        named = [(text, "skills") for text in self._paths("skills") or []]
        for text, key in [("skills", ""), *named]:
            path = self._inside(text, key)
            if path is None or not path.is_dir():
                continue
            if (path / "SKILL.md").is_file():
                found.setdefault(path.name if path != self._folder else self._name, path)
                continue
            for below in sorted(path.iterdir()):
                if (below / "SKILL.md").is_file() and self._inside(str(below.relative_to(self._folder)), "skills"):
                    found.setdefault(below.name, below)
        if not found and (self._folder / "SKILL.md").is_file():
            found[self._name] = self._folder
        return {name: path for name, path in found.items() if not any(c.isspace() for c in name)}

    def _hooks(self) -> tuple[Hook, ...]:
        found: list[Hook] = []
        seen: set[Path] = set()
        raws: list[tuple[Any, str]] = [("hooks/hooks.json", "")]
        raws += [(raw, "hooks") for t in self._tables if (raw := t.get("hooks")) is not None]
        for raw, key in raws:
            for table, where in self._inline_or_file(raw, key, seen):
                parsed = parse_hooks(table.get("hooks", table), f"{self._name}:{where}", from_user=True, foreign=True)
                self._hook_notes += [f"{where}: {line}" for line in parsed.lines()]
                found += [self._bind_variables(hook) for hook in parsed.hooks]
        return tuple(found)

    def _bind_variables(self, hook: Hook) -> Hook:
        command, args = self._fill(hook.command), tuple(self._fill(a) for a in hook.args)
        return hook.replace(command=command, args=args, env={**hook.env, **self._variables})

    def _fill(self, text: str) -> str:
        """Substitute the plugin's variables in a command, if the paths cannot change how a shell parses it."""
        if any(re.fullmatch(r"[\w./+@:-]+", value) is None for value in self._variables.values()):
            return text  # the shell fills them from its environment
        return fill_variables(text, self._variables)

    def _servers(self) -> dict[str, McpServer]:
        found: dict[str, McpServer] = {}
        seen: set[Path] = set()
        raws: list[tuple[Any, str]] = [(".mcp.json", "")]
        raws += [(raw, "mcpServers") for t in self._tables if (raw := t.get("mcpServers")) is not None]
        for raw, key in raws:
            for table, where in self._inline_or_file(raw, key, seen):
                inner = table.get("mcpServers", table)
                for name, declared in inner.items() if isinstance(inner, dict) else ():
                    server = self._server(declared, f"{where}: {name}")
                    if server is not None:
                        found.setdefault(plugin_server_name(self._name, str(name)), server)
        return found

    def _server(self, raw: Any, where: str) -> McpServer | None:
        if not isinstance(raw, dict):
            self._notes.append(f"{where}: expected a table")
            return None
        try:
            filled = json.loads(
                fill_variables(json.dumps(raw), {n: json.dumps(v)[1:-1] for n, v in self._variables.items()})
            )
            server, notes = read_server(where, filled)
            self._notes += [f"{where}: {note}" for note in notes]
        except (DecodeError, ValueError) as error:
            self._notes.append(f"{where}: {error}")
            return None
        if server.command:
            server = server.replace(env={**self._variables, **server.env})
        return server

    def _inline_or_file(self, raw: Any, key: str, seen: set[Path]) -> Iterable[tuple[dict[str, Any], str]]:
        """Yield the tables that a manifest's value refers to, each with its origin."""
        for item in raw if isinstance(raw, list) else [raw]:
            if isinstance(item, dict):
                yield item, MANIFEST
                continue
            path = self._inside(item, key) if isinstance(item, str) else None
            if path is None or path in seen:
                continue
            seen.add(path)
            if (table := self._json(str(path.relative_to(self._folder)))) is not None:
                yield table, str(path.relative_to(self._folder))

    def _paths(self, key: str) -> list[str] | None:
        """Return the places that the manifest names for a part; None if it names none."""
        found: list[str] | None = None
        for table in self._tables:
            raw = table.get(key)
            if raw is None or isinstance(raw, dict):
                continue
            listed = [raw] if isinstance(raw, str) else raw
            if not isinstance(listed, list) or not all(isinstance(text, str) for text in listed):
                self._notes.append(f"{key}: expected a path or a list of them")
                continue
            found = [*(found or []), *listed]
        return found

    def _inside(self, text: str, key: str) -> Path | None:
        """Return a path in the plugin; None if it is missing or leads out.

        key: names it in the note; "" for no note.
        """
        try:
            return resolve_inside(self._folder / os.path.normpath(text), self._folder)
        except (FileNotFoundError, NotADirectoryError):
            why = "it does not exist"
        except OSError as error:
            why, key = error.strerror or str(error), key or text
        if key:
            self._notes.append(f"{key}: {shorten(text, 80)}: {why}")
        return None

    def _json(self, name: str) -> dict[str, Any] | None:
        """Return the table in a JSON file; None if there is none. Raises PluginError for a broken manifest."""
        try:
            data = read_regular(self._folder / name, MAX_MANIFEST_BYTES, self._folder)
            table = load_user_json(decode_user_text(data))
            why = "" if isinstance(table, dict) else "is not a JSON object"
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            why = f"cannot be read: {error.strerror or error}"
        except (ValueError, RecursionError) as error:
            why = f"is not JSON: {error}"
        if not why:
            return dict(table)
        if name == MANIFEST:
            raise PluginError(f"{self._folder / name} {why}")
        self._notes.append(f"{name} {why}")
        return None


def plugin_server_name(plugin: str, server: str) -> str:
    """Return the name of a plugin's MCP server: letters, digits, - and single _."""
    return re.sub(r"_+", "_", re.sub(r"[^A-Za-z0-9_-]", "_", _SERVER.format(plugin=plugin, server=server))).strip("_")


def _files(folder: Path) -> list[Path]:
    try:
        return [p for p in folder.rglob("*") if p.is_file()]
    except OSError:
        return []


def _text(value: Any) -> str:
    return " ".join(str(value).split()) if isinstance(value, str | int | float) else ""
