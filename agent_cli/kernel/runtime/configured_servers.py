"""The MCP servers that a user and a project declare, outside a session: list, change, try, approve, sign in and out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from agent_cli.config.config import Config
from agent_cli.config.layers import Layers
from agent_cli.config.parsing import SettingsError, decode_json
from agent_cli.config.schema import McpServer
from agent_cli.config.server_keys import read_server
from agent_cli.kernel.run_environment import RunEnvironment, UsageError
from agent_cli.kernel.runtime.environment import read_settings
from agent_cli.kernel.runtime.mcp import approvals_of, declares_servers, logins_folder, make_setup
from agent_cli.kernel.session.store import state_folder
from agent_cli.mcp.approvals import FINE_STATES, changed_tools, may_start, server_state
from agent_cli.mcp.catalog import McpRequestError
from agent_cli.mcp.config import (
    PROJECT_FILE,
    DeclaredServer,
    McpEditError,
    MissingVariableError,
    change_json,
    change_toml,
    find_servers,
    substitute_env,
)
from agent_cli.mcp.credentials import LoginStore, LoginStoreError, has_auth_header, is_secure_url, key_of
from agent_cli.policy.trust import fingerprints, grant_trust, keep_trust
from agent_tools.lazy import lazy_imports
from agent_tools.record import DecodeError
from agent_tools.text import one_line, shorten

if TYPE_CHECKING:
    from agent_cli.mcp.manager import Servers
    from agent_cli.mcp.server import Server

with lazy_imports():
    from agent_cli.kernel.runtime import browser_login, server_login  # an HTTP server
    from agent_cli.mcp import manager  # the SDK, half a second

# Of a project, for one user.
_LOCAL_FILE = ".agentrc.local"


class TriedServer:
    """A server that was started to see what it offers. seconds: how long that took."""

    def __init__(self, servers: Servers, server: Server, seconds: float) -> None:
        self._servers = servers
        self.server = server
        self.seconds = seconds

    def take_notices(self) -> list[str]:
        """Return what is to be reported of its start."""
        return self._servers.take_notifications()

    @property
    def fingerprints(self) -> dict[str, str] | None:
        """A fingerprint of each tool by its name; None if the server did not start."""
        return self.server.fingerprints if self.server.status == "ready" else None


class ConfiguredServers:
    """The servers in effect. Raises UsageError for invalid ones of `Config.servers`.

    problems: declarations that are left out, with why.
    """

    def __init__(self, run_env: RunEnvironment, layers: Layers | None = None, config: Config = Config()) -> None:  # noqa: B008 - frozen
        """layers: the settings, if they are read already."""
        self._run_env = run_env
        self._layers = layers or read_settings(config, run_env)
        self._config = config
        self.all: Mapping[str, DeclaredServer] = {}
        self.problems: tuple[str, ...] = ()
        if declares_servers(config, run_env, self._layers):
            found, problems = find_servers(config, run_env, self._layers)
            self.all, self.problems = {each.name: each for each in found}, tuple(problems)
        self._approvals = approvals_of(run_env)
        self._logins = LoginStore(logins_folder(run_env))

    def find(self, name: str) -> DeclaredServer:
        """Return a server by name. Raises UsageError if there is none."""
        if name in self.all:
            return self.all[name]
        known = f"The servers are: {', '.join(self.all)}." if self.all else "There are none."
        trusted = self._layers.trust.state in ("plain", "trusted")
        hint = "" if trusted else " The servers of this project are used once you trust it."
        raise UsageError(f"There is no MCP server {shorten(name, 60)}. {known}{hint}")

    def state(self, found: DeclaredServer) -> str:
        """Return a server's state as a phrase, without starting it."""
        return server_state(found, self._layers, self._approvals, self._logins, self._run_env.env)

    def states(self) -> dict[str, tuple[str, bool]]:
        """Return the state of each server by name, and whether it needs no action by the user."""
        states = {name: self.state(found) for name, found in self.all.items()}
        return {name: (state, state in FINE_STATES) for name, state in states.items()}

    def unapproved(self) -> list[tuple[DeclaredServer, str]]:
        """Return the project's servers that need the user's approval to start, each with why."""
        if self._config.trust:
            return []
        off = self._layers.settings().mcp.disabled
        active = [f for f in self.all.values() if f.name not in off and not f.server.disabled]
        waiting = [(f, may_start(f, self._approvals, False)) for f in active]
        return [(f, why) for f, why in waiting if why]

    # Changing declarations

    def _declared(self, name: str, server: McpServer, scope: str) -> DeclaredServer:
        """Return a server as the file of a scope declares it: user (~/.agentrc), project (.mcp.json), or local."""
        run_env = self._run_env
        files = {"project": run_env.root / PROJECT_FILE, "local": run_env.root / _LOCAL_FILE}
        path = files.get(scope, (run_env.home or run_env.root) / ".agentrc")
        return DeclaredServer(name, server, str(path), "user" if scope == "user" else "project")

    def add(self, name: str, server: McpServer, scope: str) -> tuple[str, str]:
        """Declare a server in the file of a scope, and approve it there; return the file, and why it is not approved.

        scope: user (~/.agentrc), project (.mcp.json) or local (.agentrc.local). Raises UsageError.
        """
        found = self._declared(name, server, scope)
        if why := found.problem:
            raise UsageError(f"{why[0].upper()}{why[1:]}.")
        self._change(found, server)
        approvals = self._approvals
        return found.source, approvals.approve(found) if found.scope == "project" else approvals.forget(found)

    def add_json(self, name: str, text: str, scope: str) -> tuple[str, str, tuple[str, ...]]:
        """Add a server that is declared in JSON, as in .mcp.json; see `add`. Also return what of it is ignored.

        Raises UsageError.
        """
        try:
            server, notes = read_server(name, decode_json(text, "the declaration"))
        except (SettingsError, DecodeError) as error:
            raise UsageError(f"Nothing was changed: {one_line(str(error))}.") from None
        return *self.add(name, server, scope), tuple(notes)

    def remove(self, name: str, scope: str) -> tuple[str, str]:
        """Remove a server from the file of a scope, with its approval and login; see `add` for what is returned.

        Raises UsageError.
        """
        found = self._declared(name, McpServer(), scope)
        declared = list(self.all.values())
        in_project = str(self._run_env.root / PROJECT_FILE)
        if scope == "user" and [f.source for f in declared if f.name == name] == [in_project]:
            raise UsageError(
                f"Nothing was changed: {found.source} has no MCP server {name}. This project's .mcp.json has one: "
                f"agent mcp remove {name} --scope project"
            )
        self._change(found, None)
        for gone in declared:
            if (gone.name, gone.scope) == (name, found.scope):
                self._forget_login(gone, [each for each in declared if each is not gone])
        return found.source, self._approvals.forget(found)

    def _forget_login(self, gone: DeclaredServer, others: list[DeclaredServer]) -> None:
        """Also remove the stored login, unless another declaration uses the same one."""
        env = self._run_env.env

        def key(found: DeclaredServer) -> tuple[str, ...]:
            with suppress(MissingVariableError):
                return key_of(substitute_env(found.server, env))
            return ()

        if key(gone) not in ((), *map(key, others)):
            with suppress(LoginStoreError):
                self._logins.forget(substitute_env(gone.server, env))

    def _change(self, found: DeclaredServer, server: McpServer | None) -> None:
        """Change the file, and renew the trust in a project. Raises UsageError."""
        run_env = self._run_env
        root, state = run_env.root, state_folder(run_env.env)
        change = change_json if found.source.endswith(".json") else change_toml
        try:
            if found.scope == "user":
                if run_env.home is None:
                    raise UsageError("There is no home folder for settings; use --scope project.")
                change_toml(Path(found.source), found.name, server)
            elif run_env.root == run_env.home:
                raise UsageError("Your home folder is not a project; use --scope user.")
            elif read_settings(Config(), run_env).trust.state == "plain":
                change(Path(found.source), found.name, server)
                # The project had no settings before, so trusting it covers only this change.
                grant_trust(root, state, fingerprints(root))
            else:
                keep_trust(root, state, lambda: change(Path(found.source), found.name, server))
        except McpEditError as error:
            raise UsageError(f"Nothing was changed: {error}.") from None

    # Starting and approving

    @contextmanager
    def trying(self, found: DeclaredServer, warn: Callable[[str], None], *, trusted: bool) -> Iterator[TriedServer]:
        """Start a server, also a disabled one, and wait for it; it is stopped at the end of the block.

        trusted: start it although it was not approved.
        """
        setup = make_setup(Config(trust=trusted), self._run_env, self._layers.settings(), warn)
        servers = manager.Servers([found.replace(server=found.server.replace(disabled=False))], setup)
        started = time.monotonic()
        try:
            servers.wait(setup.start_timeout + 1)
            yield TriedServer(servers, servers.all[found.name], time.monotonic() - started)
        finally:
            servers.close()

    def tool_changes(self, found: DeclaredServer, tried: TriedServer) -> dict[str, str]:
        """Return the tools that are "new" or "changed" since the server was approved, by name."""
        entry = self._approvals.find(found)
        return changed_tools(entry.tools if entry is not None else {}, tried.fingerprints or {})

    def approve(self, found: DeclaredServer, tools: Mapping[str, str] | None = None) -> str:
        """Approve a declaration and its tools, by their fingerprints; return "" or why that could not be saved."""
        return self._approvals.approve(found, tools)

    # Signing in and out

    def _sign_in_obstacle(self, found: DeclaredServer) -> str:
        """Return why nobody can sign in to a server, as a sentence; "" for no reason. Raises UsageError."""
        name = found.name
        if why := may_start(found, self._approvals, False):
            return f"The MCP server {name} of this project {why}. First: agent mcp approve {name}"
        server = self._resolved(found)
        if has_auth_header(server):
            return f"The MCP server {name} is declared with an Authorization header, which is used instead."
        if not is_secure_url(server.url, server.url):
            return f"The MCP server {name} does not use https, so no login is sent to it."
        return ""

    def sign_in(
        self,
        found: DeclaredServer,
        show: Callable[[str, bool], None],
        say: Callable[[str], None],
        typed: int | None = None,
        *,
        browser: bool = True,
    ) -> str:
        """Sign in to a server and store the login; return "" or what failed, as a sentence. Raises UsageError.

        show: called with the address to open, and whether a browser opens it.
        say, typed: see `server_login.log_in`.
        browser: open the browser, if there is one.
        """
        if why := self._sign_in_obstacle(found):
            raise UsageError(why)
        server = self._resolved(found)
        opens = browser and browser_login.can_open_browser(self._run_env.env)

        def begin(address: str) -> None:
            show(address, opens)
            if opens:
                browser_login.open_browser(address)

        try:
            self._logins.save(server, server_login.log_in(server, begin, say, typed))
        except McpRequestError as refused:
            return f"The login to {found.name} failed: {one_line(str(refused))}."
        except LoginStoreError as error:
            return f"The login to {found.name} cannot be stored: {one_line(str(error))}."
        return ""

    def sign_out(self, found: DeclaredServer) -> tuple[bool, bool]:
        """Remove the login to a server, and revoke it. Raises UsageError.

        Return whether there was one, and whether its tokens stay valid because they could not be revoked.
        """
        server = self._resolved(found)
        login = self._logins.find(server)
        try:
            existed = self._logins.forget(server)
        except LoginStoreError as error:
            raise UsageError(f"The login to {found.name} was not deleted: {error}.") from None
        if existed:
            self._logins.mark(server, wanted=True)
        return existed, login is not None and not server_login.revoke(login)

    def _resolved(self, found: DeclaredServer) -> McpServer:
        if not found.server.url:
            raise UsageError(f"The MCP server {found.name} is a command; a login is for a server with a url.")
        try:
            return substitute_env(found.server, self._run_env.env)
        except MissingVariableError as error:
            raise UsageError(f"The MCP server {found.name}: {error}.") from None
