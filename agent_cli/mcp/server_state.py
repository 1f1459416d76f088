"""State and offers of one MCP server, for any thread: changed by its supervisor and read by a session."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from agent_cli.mcp.approvals import Approvals, changed_tools, changes_phrase, may_start
from agent_cli.mcp.catalog import Offer, entries_by, load_listing, offers_of, save_listing
from agent_cli.mcp.config import DeclaredServer, MissingVariableError, substitute_env
from agent_cli.mcp.credentials import LoginStore, login_message

if TYPE_CHECKING:
    from agent_cli.kernel.host_servers import HostServers
    from agent_cli.mcp.client import Era, McpConnection

Status = Literal["waiting", "starting", "ready", "failed", "disabled", "unapproved", "login"]
# Receives events of a running call: ("progress", text) or ("ask", (what, a future for the answer)).
CallListener = Callable[[str, Any], None]


class ServerSettings:
    """Settings for all servers of a session.

    env: environment for `${NAME}`.
    server_env: returns the environment of server processes, without what is declared for a server.
    roots: directories that servers may work in.
    logs: directory for their error output.
    approvals: loads the user's approvals.
    trusted_for_run: the command line trusts the project.
    start_timeout: in seconds.
    call_timeout: in seconds.
    logins: directory of logins to servers.
    host: the host process, if it may have servers.
    """

    def __init__(
        self,
        *,
        env: Mapping[str, str],
        server_env: Callable[[], dict[str, str]],
        cwd: Path,
        roots: tuple[Path, ...],
        logs: Path | None,
        approvals: Callable[[], Approvals],
        trusted_for_run: bool,
        call_timeout: float,
        start_timeout: float = 30.0,
        logins: Path | None = None,
        host: HostServers | None = None,
    ) -> None:
        self.env = env
        self.server_env = server_env
        self.cwd = cwd
        self.roots = roots
        self.logs = logs
        self._listings = logs.parent / "mcp-tools" if logs is not None else None
        self._approvals = approvals
        self.trusted_for_run = trusted_for_run
        self.start_timeout = start_timeout
        self.call_timeout = call_timeout
        self._logins = logins
        self.host = host

    def listings(self, found: DeclaredServer) -> Path | None:
        """Return the directory of cached listings; None for a server whose offers are not cached.

        That is the case for a host's server, whose declaration says nothing about its tools.
        """
        return None if found.kind == "sdk" else self._listings

    @cached_property
    def approvals(self) -> Approvals:
        """The user's approvals, loaded on first use: cached servers of the user do not need them."""
        return self._approvals()

    @cached_property
    def logins(self) -> LoginStore | None:
        """The logins to servers; only servers with a URL have one."""
        return LoginStore(self._logins) if self._logins is not None else None


class ServerState:
    """One server.

    notify: reports a sentence to the user.
    changed: called, on any thread, when its offers or state change.
    status: where it is in its life.
    reason: why it has that status; "" for no particular reason.
    tools: usable tools, by full name.
    withheld: tools that are "new" or "changed" since they were approved, by full name.
    from_cache: its offers are known from an earlier run; it is started on first use.
    era: how its connection was seen to begin.
    """

    def __init__(
        self,
        found: DeclaredServer,
        setup: ServerSettings,
        notify: Callable[[str], None],
        changed: Callable[[], None],
        disabled: bool = False,
    ) -> None:
        self.found = found
        self.name = found.name
        self.setup = setup
        self.notify = notify
        self.changed = changed
        self.status: Status = "disabled" if disabled else "waiting"
        self.reason = ""
        self.tools: dict[str, Offer] = {}
        self.withheld: dict[str, str] = {}
        self.prompts: dict[str, dict[str, Any]] = {}
        self.resources: dict[str, dict[str, Any]] = {}
        self.problems: list[str] = []
        self.about = self.protocol = self.instructions = ""
        self.restarts = 0
        self._asking: list[CallListener] = []
        self._allowed = self._login_named = False
        self.log = setup.logs / f"{found.name}.log" if setup.logs is not None else None
        self._all: dict[str, Offer] = {}
        self._baseline: dict[str, str] | None = None
        self._settled = threading.Event()
        self._launched = threading.Event()
        self._launched_at = 0.0
        self.era: Era = ""
        if disabled:
            self._settled.set()

        if self.login_state() == "wanted" and not self.may_start:
            self.report_login()
        self.from_cache = False
        folder = setup.listings(found)
        if not disabled and folder is not None and (listing := load_listing(folder, found)) is not None:
            self.from_cache = True
            self.era = listing.era
            self._all = {offer.full: offer for offer in listing.offers}
            self.tools, self.prompts, self.resources = dict(self._all), listing.prompts, listing.resources

    @property
    def may_start(self) -> str:
        """Why it may not start; "" if it may."""
        if not self.found.needs_approval:
            return ""
        return may_start(self.found, self.setup.approvals, self.setup.trusted_for_run or self._allowed)

    def set_status(self, status: Status, reason: str = "") -> None:
        """Change the status. A server disabled by the user stays disabled until it is restarted."""
        if self.status == "disabled" and status != "disabled":
            return
        before, self.status, self.reason = self.status, status, reason
        if status != "ready":
            self.tools = {} if status in ("disabled", "unapproved") else self.tools
        if status == "failed" and before == "starting":
            self.notify(f"the MCP server {self.name} did not start: {reason}")
        if status == "login":
            self.report_login()
        elif status == "ready":
            self._login_named = False
        if status == "starting":
            self._settled.clear()
            self._launched.clear()
        else:
            self._settled.set()
            self._launched.set()
        self.changed()

    def report_login(self) -> None:
        """Report that the server needs a login, once until it is running."""
        if not self._login_named:
            self._login_named = True
            self.notify(f"the MCP server {login_message(self.name)}")

    def login_state(self) -> Literal["", "stored", "wanted"]:
        """Return the known login state, without contacting the server."""
        if not self.found.server.url or self.status == "disabled" or self.setup.logins is None:
            return ""
        try:
            return self.setup.logins.state(substitute_env(self.found.server, self.setup.env))
        except MissingVariableError:
            return ""

    def wait(self, seconds: float | None) -> bool:
        """Wait up to `seconds`; return True if the server is running or has failed."""
        return self._settled.wait(seconds)

    def on_launch(self) -> None:
        """Record that its process has been started, or the first request to it sent."""
        self._launched_at = time.monotonic()
        self._launched.set()

    def wait_from_launch(self, seconds: float) -> bool:
        """Wait as `wait`; the time begins when its process is started, which may take as long as a start may take."""
        self._launched.wait(self.setup.start_timeout)
        return self._settled.wait(max(0.0, self._launched_at + seconds - time.monotonic()))

    # Offers.

    def update_offers(
        self,
        tools: list[Any],
        prompts: list[Any],
        resources: list[Any],
        link: McpConnection,
    ) -> None:
        """Record what the server lists; withhold tools that are new or changed since they were approved."""
        problems: list[str] = []
        off = self.found.server.disabled_tools
        self._all = {full: o for full, o in offers_of(self.name, tools, problems).items() if o.name not in off}
        self.prompts = entries_by("name", prompts, "prompt", problems)
        self.resources = entries_by("uri", resources, "resource", problems)
        self.about, self.protocol, self.instructions = link.about, link.protocol, link.instructions
        self.era = link.era
        marks = self.fingerprints
        before = self._approved_tools()
        if before is None:
            self._baseline = marks
            if self._stores_approvals and (why := self.setup.approvals.approve(self.found, marks)):
                problems.append(f"the approval of its tools was not saved: {why}")
        # A host may change its own servers at any time, and is responsible for their calls.
        withheld = {} if self.found.kind == "sdk" else changed_tools(before, marks)
        if withheld and withheld != self.withheld:
            self.notify(
                f"tools of the MCP server {self.name} have changed since they were approved and are disabled: "
                f"{changes_phrase(withheld)}; to review them: agent mcp approve {self.name}"
            )
        for problem in problems:
            if problem not in self.problems:
                self.notify(f"the MCP server {self.name}: {problem}")
        self.problems, self.withheld = problems, withheld
        self.tools = {full: offer for full, offer in self._all.items() if full not in withheld}
        if (folder := self.setup.listings(self.found)) is not None:
            save_listing(folder, self.found, list(self.tools.values()), self.prompts, self.resources, self.era)
        self.changed()

    @property
    def _stores_approvals(self) -> bool:
        """True if approvals outlive this run."""
        return self.found.scope == "user" or (self.found.scope == "project" and not self.setup.trusted_for_run)

    def _approved_tools(self) -> dict[str, str] | None:
        """Return the fingerprints of the tools approved in this session or before; None if no tools were seen yet."""
        if self._baseline is not None or not self._stores_approvals:
            return self._baseline
        entry = self.setup.approvals.find(self.found)
        self._baseline = entry.tools if entry is not None else None
        return self._baseline

    @property
    def all_offers(self) -> list[Offer]:
        """All tools that it lists, including withheld ones."""
        return list(self._all.values())

    @property
    def fingerprints(self) -> dict[str, str]:
        """Fingerprints of all tools that it lists, by full name."""
        return {full: offer.mark for full, offer in self._all.items()}

    @property
    def withheld_offers(self) -> list[Offer]:
        """The withheld tools."""
        return [offer for full, offer in self._all.items() if full in self.withheld]

    def approve(self) -> str:
        """Approve the declaration and the tools as listed now; return "" or why that could not be saved."""
        marks = self.fingerprints if self.status == "ready" else None
        why = self.setup.approvals.approve(self.found, marks)
        self._baseline, self._allowed = marks, True
        self.withheld, self.tools = {}, dict(self._all)
        self.changed()
        return why

    @property
    def asking(self) -> CallListener | None:
        """The listener of the newest running call, which may be a cancelled one that has not ended yet."""
        return self._asking[-1] if self._asking else None
