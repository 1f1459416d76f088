"""What the caller of a session may set: `Config`. The command line, the Python API and the servers each make one."""

from __future__ import annotations

from typing import Any, Literal

from agent_tools.record import Value

SOURCES = ("user", "project", "local")
# Turns telemetry on; `config/telemetry` reads the others.
TELEMETRY_VARIABLE = "CLAUDE_CODE_ENABLE_TELEMETRY"


class DebugOptions(Value):
    """What is written about requests, responses, calls and hooks, and where.

    categories: names with commas; a name after "!" is left out. "" for all.
    file: "" for one in the state folder.
    """

    categories: str | None = None
    file: str = ""
    to_stderr: bool = False


class Config(Value):
    """A session as its caller wants it. None and empty values mean: not given.

    Which session:
    resume: ID, name or text of the session to continue. latest: continue the latest of the folder.
    fork: continue in a copy. session_id: UUID of the new session. name: for lists.
    schedule: ID of the schedule that starts it.
    resume_at: UUID of the message after which it continues; resume_without: of the turn that is left out.

    Above all settings files:
    model, mode: of permissions. allow_bypass: the mode may become bypassPermissions later.
    allow, ask, deny: rules. folders: more folders of the workspace.
    overrides: other settings, as plain data.

    What is read:
    settings: files, or TOML or JSON text, or plain data, above the user's files. managed: JSON of settings above all.
    sources: those of `SOURCES` that are read; None for all. profile: of the settings. bare: no settings, no memory.
    safe: nothing that users add, such as memory, commands, agents, hooks, plugins and servers.
    restricted: no tools that run commands or fetch pages unless named; file tools stay in the workspace.
    load_commands: commands and skills are loaded.
    shared_prompt: the environment is in the first message, and not in the system prompt.
    trust: trust the project in this session.
    plugins, plugins_without_servers: folders or archives. plugin_addresses: of archives on the web.
    servers: of MCP, as files or JSON; only_these_servers: no others. agent: work as this agent. agents: more of them,
        as a file or JSON.

    How it runs:
    schema: JSON schema of the answer, as a file or JSON. images: files for the first message.
    on_ask: what becomes of a call that needs approval, if nobody is there: deny, suspend or fail.
    setup: the Setup hooks to run first. record: file for the requests and answers.
    hosted: a program reads the transcript while the session runs; mirror: it also gets each entry of it.
    message_ids: messages have IDs that such a program knows.
    ide: connect to the editor of the workspace, also where nobody is at a terminal.

    origin: what messages call the source of the overrides. called: what they call a field, if not by its name.
    notices: about what was given and has no effect.
    """

    resume: str | None = None
    latest: bool = False
    fork: bool = False
    session_id: str | None = None
    name: str | None = None
    schedule: str = ""
    resume_at: str | None = None
    resume_without: str | None = None

    model: str | None = None
    mode: str | None = None
    allow_bypass: bool = False
    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    overrides: dict[str, Any] = {}  # noqa: RUF012 - never changed

    settings: tuple[str | dict[str, Any], ...] = ()
    managed: str | None = None
    sources: tuple[str, ...] | None = None
    profile: str | None = None
    bare: bool = False
    safe: bool = False
    restricted: bool = False
    load_commands: bool = True
    shared_prompt: bool = False
    trust: bool = False
    plugins: tuple[str, ...] = ()
    plugins_without_servers: tuple[str, ...] = ()
    plugin_addresses: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()
    only_these_servers: bool = False
    agent: str | None = None
    agents: str | None = None

    schema: str | None = None
    images: tuple[str, ...] = ()
    on_ask: str = "deny"
    setup: Literal["", "init", "maintenance"] = ""
    record: str | None = None
    debug: DebugOptions | None = None
    hosted: bool = False
    mirror: bool = False
    message_ids: bool = False
    ide: bool = False

    origin: str = "the program"
    called: dict[str, str] = {}  # noqa: RUF012 - never changed
    notices: tuple[str, ...] = ()

    def name_of(self, field: str) -> str:
        """Return what the caller calls a field."""
        return self.called.get(field, field)

    def reads(self, source: str) -> bool:
        """Return True if a session reads these files: "user", "project" or "local" (the project's, not shared)."""
        return not self.bare and (self.sources is None or source in self.sources)

    @property
    def resumes(self) -> bool:
        """True if a session is continued, or copied."""
        return bool(self.resume or self.latest)
