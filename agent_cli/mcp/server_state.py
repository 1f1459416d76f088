"""How one MCP server stands and what it offers, for any thread: what its supervisor changes and a session reads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from agent_cli.mcp.approvals import Approvals, changed_tools, changes_phrase, may_start
from agent_cli.mcp.catalog import Offer, load_listing, offers_of, save_listing
from agent_cli.mcp.config import DeclaredServer, MissingVariableError, substitute_env
from agent_cli.mcp.credentials import Logins, wants_login

if TYPE_CHECKING:
    from agent_cli.mcp.client import McpConnection

Status = Literal["waiting", "starting", "ready", "failed", "disabled", "unapproved", "login"]
# Takes what happens while a call runs: ("progress", text) or ("ask", (what, a future for the answer)).
Asking = Callable[[str, Any], None]


class ServerSettings:
    """What all servers of a session are started with.

    env: for `${NAME}`. server_env: what their processes are given beside what is declared. roots: the folders that they
    may work in. logs: where their error output goes. logins: the folder of logins to servers.
    trusted_for_run: this command line trusts the project.
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
        start_timeout: float,
        call_timeout: float,
        logins: Path | None = None,
    ) -> None:
        self.env = env
        self.server_env = server_env
        self.cwd = cwd
        self.roots = roots
        self.logs = logs
        self.listings = logs.parent / "mcp-tools" if logs is not None else None
        self._approvals = approvals
        self.trusted_for_run = trusted_for_run
        self.start_timeout = start_timeout
        self.call_timeout = call_timeout
        self._logins = logins

    @cached_property
    def approvals(self) -> Approvals:
        """What the user agreed to; a run whose servers are known and the user's own never asks."""
        return self._approvals()

    @cached_property
    def logins(self) -> Logins | None:
        """The logins to servers, which only those with an address have."""
        return Logins(self._logins) if self._logins is not None else None


class ServerState:
    """One server. changed: called, on any thread, when what it offers or how it stands has changed.

    tools: by full name, those that may be used. withheld: those that were not seen like this before, with a word each.
    """

    def __init__(
        self, found: DeclaredServer, setup: ServerSettings, tell: Callable[[str], None], off: bool = False
    ) -> None:
        self.found = found
        self.name = found.name
        self.setup = setup
        self.tell = tell
        self.changed: Callable[[], None] = lambda: None
        self.status: Status = "disabled" if off else "waiting"
        self.reason = ""
        self.tools: dict[str, Offer] = {}
        self.withheld: dict[str, str] = {}
        self.prompts: dict[str, dict[str, Any]] = {}
        self.resources: dict[str, dict[str, Any]] = {}
        self.problems: list[str] = []
        self.about = self.protocol = self.instructions = ""
        self.restarts = 0
        self._asking: list[Asking] = []
        self._allowed = self._login_named = False
        self.log = setup.logs / f"{found.name}.log" if setup.logs is not None else None
        self._all: dict[str, Offer] = {}
        self._baseline: dict[str, str] | None = None
        self._settled = threading.Event()
        if off:
            self._settled.set()

        if self.login_state() == "wanted" and not self.may_start:
            self.name_login()
        # Whether what it offers is known from an earlier time: then it is started when it is used.
        self.recalled = False
        if not off and setup.listings is not None and (listing := load_listing(setup.listings, found)) is not None:
            self.recalled = True
            self._all = {offer.full: offer for offer in listing.offers}
            self.tools, self.prompts, self.resources = dict(self._all), listing.prompts, listing.resources

    @property
    def may_start(self) -> str:
        """ "" where it may be started, else what stands against it."""
        if not self.found.needs_yes:
            return ""
        return may_start(self.found, self.setup.approvals, self.setup.trusted_for_run or self._allowed)

    def become(self, status: Status, reason: str = "") -> None:
        """Change how it stands. A server that a user has disabled stays so until it is restarted."""
        if self.status == "disabled" and status != "disabled":
            return
        before, self.status, self.reason = self.status, status, reason
        if status != "ready":
            self.tools = {} if status in ("disabled", "unapproved") else self.tools
        if status == "failed" and before == "starting":
            self.tell(f"the MCP server {self.name} did not come up: {reason}")
        if status == "login":
            self.name_login()
        elif status == "ready":
            self._login_named = False
        if status == "starting":
            self._settled.clear()
        else:
            self._settled.set()
        self.changed()

    def name_login(self) -> None:
        """Tell, once until it is up, that the server wants a login."""
        if not self._login_named:
            self._login_named = True
            self.tell(f"the MCP server {wants_login(self.name)}")

    def login_state(self) -> Literal["", "there", "wanted"]:
        """How it stands with a login, as far as is known without asking the server."""
        if not self.found.server.url or self.status == "disabled" or self.setup.logins is None:
            return ""
        try:
            return self.setup.logins.state(substitute_env(self.found.server, self.setup.env))
        except MissingVariableError:
            return ""

    def wait(self, seconds: float | None) -> bool:
        """Whether it is up, or has failed, within so many seconds."""
        return self._settled.wait(seconds)

    # What it offers.

    def learn(
        self,
        tools: list[dict[str, Any]],
        prompts: list[dict[str, Any]],
        resources: list[dict[str, Any]],
        link: McpConnection,
    ) -> None:
        """Take what it lists; tools that were not seen like this before are withheld."""
        problems: list[str] = []
        self._all = offers_of(self.name, tools, problems)
        self.prompts = {str(p["name"]): p for p in prompts if p.get("name")}
        self.resources = {str(r["uri"]): r for r in resources if r.get("uri")}
        self.about, self.protocol, self.instructions = link.about, link.protocol, link.instructions
        marks = self.marks
        before = self._agreed()
        if before is None:
            self._baseline = marks
            if self._remembers and (why := self.setup.approvals.approve(self.found, marks)):
                problems.append(f"its tools were not remembered: {why}")
        withheld = changed_tools(before, marks)
        if withheld and withheld != self.withheld:
            self.tell(
                f"tools of the MCP server {self.name} are not as they were approved, and were left out: "
                f"{changes_phrase(withheld)}; look at them with agent mcp approve {self.name}"
            )
        for problem in problems:
            if problem not in self.problems:
                self.tell(f"the MCP server {self.name}: {problem}")
        self.problems, self.withheld = problems, withheld
        self.tools = {full: offer for full, offer in self._all.items() if full not in withheld}
        if self.setup.listings is not None:
            save_listing(self.setup.listings, self.found, list(self.tools.values()), self.prompts, self.resources)
        self.changed()

    @property
    def _remembers(self) -> bool:
        """Whether what was agreed to outlasts this run."""
        return self.found.scope == "own" or (self.found.scope == "project" and not self.setup.trusted_for_run)

    def _agreed(self) -> dict[str, str] | None:
        """The tools that were agreed to: in this session, or before; None where none were seen yet."""
        if self._baseline is not None or not self._remembers:
            return self._baseline
        entry = self.setup.approvals.of(self.found)
        self._baseline = entry.tools if entry is not None else None
        return self._baseline

    @property
    def listed(self) -> list[Offer]:
        """All tools that it lists, withheld ones too."""
        return list(self._all.values())

    @property
    def marks(self) -> dict[str, str]:
        """The fingerprints of all tools that it lists."""
        return {full: offer.mark for full, offer in self._all.items()}

    @property
    def held(self) -> list[Offer]:
        """The tools that are withheld."""
        return [offer for full, offer in self._all.items() if full in self.withheld]

    def approve(self) -> str:
        """The user agrees to the declaration, and to the tools as they are listed now; "" or why it is not kept."""
        marks = self.marks if self.status == "ready" else None
        why = self.setup.approvals.approve(self.found, marks)
        self._baseline, self._allowed = marks, True
        self.withheld, self.tools = {}, dict(self._all)
        self.changed()
        return why

    @property
    def asking(self) -> Asking | None:
        """Who waits for the newest of the calls that run. One that was cancelled may still be ending."""
        return self._asking[-1] if self._asking else None
