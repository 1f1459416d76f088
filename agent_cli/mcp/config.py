"""Find declared MCP servers: on the command line, in the user's settings and in the project's files, in that order.

The first declaration of a name wins, so a project cannot take over a name that the user's rules mention.

Also adds and removes servers in the user's `.agentrc`, whose formatting is preserved, and in a project's `.mcp.json`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from agent_cli.config.config import Config
from agent_cli.config.layers import Layers
from agent_cli.config.parsing import SettingsError, decode_json
from agent_cli.config.schema import McpServer
from agent_cli.config.server_keys import read_server
from agent_cli.kernel.run_environment import RunEnvironment, UsageError, read_project
from agent_cli.kernel.user_text import begins_json_object, decode_user_text
from agent_cli.mcp.credentials import oauth_problem
from agent_tools.fs.own_files import write_own
from agent_tools.fs.protected_names import has_leftover
from agent_tools.fs.safe_files import changing, read_regular
from agent_tools.record import DecodeError, Value
from agent_tools.text import one_line, shorten

PROJECT_FILE = ".mcp.json"
MAX_BYTES = 1 << 20
MAX_SERVERS = 100
MAX_NAME_CHARS = 40
_VARIABLE = r"\$\{(\w+)(?::-([^}]*))?\}"
Scope = Literal["given", "user", "project"]


class DeclaredServer(Value, tag="Found"):
    """A declared server.

    source: file or option that declares it.
    scope: who declares it: the command line, the user, or the project.
    """

    name: str
    server: McpServer
    source: str
    scope: Scope

    @property
    def kind(self) -> Literal["stdio", "http", "sse", "sdk"]:
        """The transport; sdk is a server in the host process."""
        if self.server.type in ("sse", "sdk"):
            return "sse" if self.server.type == "sse" else "sdk"
        return "http" if self.server.url else "stdio"

    @property
    def problem(self) -> str:
        """What is wrong with the declaration; "" for nothing."""
        server = self.server
        name = f"the MCP server {shorten(self.name, 60)}"
        if not _is_name(self.name):
            return f"{name} needs a name of letters, digits, - and single _, with at most {MAX_NAME_CHARS} characters"
        if server.type == "sdk":
            if server.command or server.url:
                return f"{name} is of type sdk, so it has neither a command nor a url"
            return "" if self.scope == "given" else f"{name} is of type sdk, which only a host process can declare"
        if bool(server.command) == bool(server.url):
            return f"{name} needs either a command or a url"
        if server.url and (server.type == "stdio" or not server.url.startswith(("http://", "https://", "${"))):
            return f"{name} has a url that is not http"
        if server.command and server.type not in ("", "stdio"):
            return f"{name} has a command, so its type cannot be {server.type}"
        if server.oauth and (why := oauth_problem(server)):
            return f"{name} has {why}"
        return ""

    @property
    def needs_approval(self) -> bool:
        """True if it starts only after the user has approved its declaration."""
        return self.scope == "project"

    @property
    def line(self) -> str:
        """The command or URL as written, on one printable line."""
        server = self.server
        if self.kind == "sdk":
            return "(in the host process)"
        if server.url:
            return one_line(server.url)
        import shlex

        return one_line(shlex.join([server.command, *server.args]))

    @property
    def described_inputs(self) -> dict[str, str]:
        """The environment, headers and oauth that it gets, each as one line.

        A project's server is described with the values as written, since its approval hands over those of `${NAME}`.
        """
        tables: dict[str, dict[str, Any]] = {
            "environment": self.server.env,
            "headers": self.server.headers,
            "oauth": self.server.oauth,
        }
        return {what: one_line(", ".join(map(self._entry, table.items()))) for what, table in tables.items() if table}

    def _entry(self, entry: tuple[str, Any]) -> str:
        name, value = entry
        return f"{name}={shorten(str(value), 1_000)}" if self.scope == "project" else name


def find_servers(config: Config, run_env: RunEnvironment, layers: Layers) -> tuple[list[DeclaredServer], list[str]]:
    """Return the servers, and problems with declarations. Raises UsageError for invalid ones of `Config.servers`."""
    found: list[DeclaredServer] = []
    problems: list[str] = []
    for text in config.servers:
        found += _given_servers(text, config.name_of("servers"), problems)
    if not config.only_these_servers and not config.safe:
        for from_user in (True, False):
            scope: Scope = "user" if from_user else "project"
            # If two layers declare a server, the later one wins, as with every setting.
            latest = {d.name: d for d in layers.servers if d.from_user == from_user}
            found += [DeclaredServer(d.name, d.server, d.source, scope) for d in latest.values()]
        if config.reads("project") and layers.trust.trusted and run_env.root != run_env.home:
            found += read_project(run_env.root, lambda: _project_file(run_env.root, problems))
    servers: dict[str, DeclaredServer] = {}
    for server in found:
        if why := server.problem:
            if server.scope == "given":
                about = f"{server.source}: {shorten(server.name)}: "
                hint = "; ".join(p.removeprefix(about) for p in problems if p.startswith(about))
                raise UsageError(f"{config.name_of('servers')}: {why}{'; ' if hint else ''}{hint}")
            problems.append(f"{server.source}: {why}; it was left out")
        elif why := layers.managed.refuses_server(server.name, server.line):
            problems.append(f"{server.source}: the MCP server {server.name} was left out: {why}")
        elif server.name in servers and servers[server.name].scope != server.scope:
            problems.append(
                f"{server.source}: the MCP server {server.name} was left out: {servers[server.name].source} has one"
            )
        else:
            servers.setdefault(server.name, server)
    if len(servers) > MAX_SERVERS:
        problems.append(f"there are {len(servers)} MCP servers; only the first {MAX_SERVERS} are used")
    return list(servers.values())[:MAX_SERVERS], problems


def servers_of_host(names: Iterable[str], known: Iterable[str] = ()) -> list[DeclaredServer]:
    """Return the host's servers of these names, except known ones. Raises UsageError for an invalid name."""
    found = [DeclaredServer(n, McpServer(type="sdk"), "the host", "given") for n in names if n not in set(known)]
    if why := next((each.problem for each in found if each.problem), ""):
        raise UsageError(f"The host: {why}.")
    return found


def _given_servers(text: str, called: str, notes: list[str]) -> list[DeclaredServer]:
    """Return the servers of a file or text of the caller. Raises UsageError.

    called: what the caller calls it. notes: receives what is ignored.
    """
    source = called
    if not begins_json_object(text):
        path = Path(os.path.expanduser(text))
        source = str(path)
        try:
            text = decode_user_text(read_regular(path, MAX_BYTES))
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else error
            raise UsageError(f"{called}: {path}: {why}") from None
    problems: list[str] = []
    found = read_json(text, source, "given", problems, notes)
    if problems:
        raise UsageError(problems[0] if problems[0].startswith(called) else f"{called}: {problems[0]}")
    return found


def _project_file(root: Path, problems: list[str]) -> list[DeclaredServer]:
    path = root / PROJECT_FILE
    try:
        text = decode_user_text(read_regular(path, MAX_BYTES, root))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except (OSError, UnicodeDecodeError) as error:
        if has_leftover(path):
            return []
        problems.append(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}")
        return []
    return read_json(text, str(path), "project", problems, problems)


def read_json(
    text: str, source: str, scope: Scope, problems: list[str], notes: list[str] | None = None
) -> list[DeclaredServer]:
    """Parse {"mcpServers": {NAME: {...}}}; append unusable entries to `problems`.

    notes: receives what is ignored without harm.
    """
    try:
        data = decode_json(text, source)
    except SettingsError as error:
        problems.append(str(error))
        return []
    if "mcpServers" not in data and isinstance(data.get("servers"), dict):
        problems.append(f"{source}: servers: expected the key mcpServers")
        return []
    table = data.get("mcpServers", data if scope == "given" else {})
    if not isinstance(table, dict):
        problems.append(f"{source}: mcpServers: expected a table of servers")
        return []
    found = []
    for name, raw in table.items():
        if not isinstance(raw, dict):
            problems.append(f"{source}: {shorten(name)}: expected a table")
            continue
        try:
            server, remarks = read_server(name, raw)
        except DecodeError as error:
            problems.append(f"{source}: {one_line(str(error))}")
            continue
        if notes is not None:
            notes += [f"{source}: {shorten(name)}: {remark}" for remark in remarks]
        found.append(DeclaredServer(name, server, source, scope))
    return found


def _is_name(text: str) -> bool:
    """Return True for letters, digits and - (not at the start), with single _ between them."""
    parts = text.split("_")
    letters = "".join(parts)
    plain = text.isascii() and letters.replace("-", "x").isalnum()
    # Of a longer one, the name of a tool is cut inside the server's, where no rule for the server covers it.
    return plain and all(parts) and text[0] != "-" and len(text) <= MAX_NAME_CHARS


class MissingVariableError(ValueError):
    """A variable that a declaration needs is not set."""


def substitute_env(server: McpServer, env: Mapping[str, str]) -> McpServer:
    """Return the declaration with `${NAME}` and `${NAME:-default}` replaced. Raises MissingVariableError."""

    def fill(text: str) -> str:
        def value(match: re.Match[str]) -> str:
            found = env.get(match[1]) or match[2]
            if found is None:
                raise MissingVariableError(f"the variable {match[1]} is not set")
            return found

        return re.sub(_VARIABLE, value, text)

    changed: dict[str, Any] = {name: fill(getattr(server, name)) for name in ("command", "cwd", "url")}
    changed["args"] = tuple(fill(a) for a in server.args)
    for name in ("env", "headers"):
        changed[name] = {k: fill(v) for k, v in getattr(server, name).items()}
    changed["oauth"] = {k: fill(v) if isinstance(v, str) else v for k, v in server.oauth.items()}
    return server.replace(**changed)


class McpEditError(Exception):
    """The file was not changed; the message says why."""


def server_data(server: McpServer) -> dict[str, Any]:
    """Return the fields of a declaration that are set."""
    fields = {name: getattr(server, name) for name in server._fields if getattr(server, name)}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}


def change_json(path: Path, name: str, server: McpServer | None) -> None:
    """Add a server to a file {"mcpServers": {...}}, or remove it if None. Raises McpEditError."""
    with _changing(path):
        _change_json(path, name, server)


def _change_json(path: Path, name: str, server: McpServer | None) -> None:
    try:
        text = decode_user_text(read_regular(path, MAX_BYTES, path.parent))
        data = decode_json(text, path.name)
    except FileNotFoundError:
        data = {}
    except (OSError, UnicodeDecodeError, SettingsError) as error:
        raise McpEditError(str(error)) from None
    table = data.setdefault("mcpServers", {})
    if not isinstance(table, dict):
        raise McpEditError(f"{path.name}: mcpServers is not a table")
    _change(table, name, server_data(server) if server is not None else None, path)
    _write(path, json.dumps(data, indent=2, ensure_ascii=False) + "\n", 0o644)


def change_toml(path: Path, name: str, server: McpServer | None) -> None:
    """Add [mcp.servers.NAME] to a settings file, or remove it if None. Raises McpEditError."""
    # Edit the target of a symbolic link in place.
    path = Path(os.path.realpath(path))
    with _changing(path):
        _change_toml(path, name, server)


@contextmanager
def _changing(path: Path) -> Iterator[None]:
    try:
        with changing(path):
            yield
    except OSError as error:
        raise McpEditError(f"{path}: {error.strerror or error}") from None


def _change_toml(path: Path, name: str, server: McpServer | None) -> None:
    import tomllib

    import tomlkit  # 40 ms, only for a change
    from tomlkit.exceptions import TOMLKitError

    try:
        text = decode_user_text(read_regular(path, MAX_BYTES))
    except FileNotFoundError:
        text = ""
    except (OSError, UnicodeDecodeError) as error:
        raise McpEditError(f"{path}: {error}") from None
    if begins_json_object(text):
        raise McpEditError(f"{path} is JSON, which agent does not edit; change it by hand")
    try:
        document: Any = tomlkit.parse(text)
        mcp = document.setdefault("mcp", tomlkit.table(is_super_table=True))
        servers = mcp.setdefault("servers", tomlkit.table(is_super_table=True))
        _change(servers, name, server_data(server) if server is not None else None, path)
        new = tomlkit.dumps(document)
        tomllib.loads(new)
    except (TOMLKitError, tomllib.TOMLDecodeError) as error:
        raise McpEditError(f"{path} could not be changed safely ({error}); change it by hand") from None
    _write(path, new, 0o600)


def _change(table: Any, name: str, entry: dict[str, Any] | None, path: Path) -> None:
    if entry is None and name not in table:
        raise McpEditError(f"{path} has no MCP server {name}")
    if entry is not None and name in table:
        raise McpEditError(f"{path} has an MCP server {name} already; remove it first")
    if entry is None:
        del table[name]
    else:
        table[name] = entry


def _write(path: Path, text: str, mode: int) -> None:
    """Replace the file atomically, preserving its mode. Raises OSError."""
    write_own(path, text.encode(), mode, keep=True)
