"""Every setting: its type, default, meaning and who may set it. The only definition.

`.agentrc.example`, docs/configuration.md, validation and the command line's overrides are derived from these classes.

A project's files may set a key once the user trusts the project. A field's annotation may contain a `SettingScope` that
says otherwise: "tighten" keys count without trust, too, but only in the stricter direction; "user" keys never come from
a project, as they are about the user, not the work: where their keys are, what is stored on their disk, whom they
trust.
"""

from functools import cache
from typing import Any, Literal

from agent_cli.hooks import Hook
from agent_cli.kernel.modes import MAX_PLAN_MINUTES, Effort, Mode
from agent_tools.record import Annotated, Value, hints_of


class SettingScope(Value):
    """Who may set a key; see the module docstring.

    order: the values of a choice, loosest first.
    """

    who: Literal["trusted", "tighten", "asked", "user"]
    order: tuple[Any, ...] = ()


USER = SettingScope("user")
ASKED = SettingScope("asked")
TIGHTEN = SettingScope("tighten")


def tighten(*order: Any) -> SettingScope:
    """Return TIGHTEN for a key whose values have an order of their own, loosest first."""
    return SettingScope("tighten", order)


class RuleEntry(Value, tag="RuleEntry"):
    """A rule with its reason and its examples: calls that it must cover, and calls that it must not cover."""

    list: Literal["allow", "ask", "deny"]
    rule: str
    why: str = ""
    match: tuple[str, ...] = ()
    not_match: tuple[str, ...] = ()


class Permissions(Value, tag="Permissions"):
    """Rules and mode, under [permissions]."""

    mode: Annotated[
        Mode,
        "approval mode: what may run without asking",
        tighten("bypassPermissions", "acceptEdits", "default", "dontAsk", "plan"),
    ] = "default"
    allow: Annotated[tuple[str, ...], "rules for calls that run without asking"] = ()
    ask: Annotated[tuple[str, ...], "rules for calls that always need approval", TIGHTEN] = ()
    deny: Annotated[tuple[str, ...], "rules for calls that are refused", TIGHTEN] = ()
    rules: Annotated[
        tuple[RuleEntry, ...], "rules as [[permissions.rules]]: list, rule, why, match, not_match", TIGHTEN
    ] = ()
    additional_directories: Annotated[tuple[str, ...], "more folders that belong to the workspace"] = ()
    allow_bypass: Annotated[bool, "sessions may be switched to the mode bypassPermissions", USER] = False


class Shell(Value, tag="Shell"):
    """How commands run, under [shell]."""

    timeout: Annotated[float, "seconds a command may take unless the call says otherwise"] = 120.0
    env_pass: Annotated[tuple[str, ...], "variables that commands get although they look like secrets", USER] = ()


class SandboxSettings(Value, tag="Sandbox"):
    """What commands run in, under [sandbox]."""

    mode: Annotated[
        Literal["auto", "require", "off"],
        "sandbox for commands: use it if bubblewrap works, refuse commands without it, or turn it off",
        tighten("off", "auto", "require"),
    ] = "auto"
    auto_allow: Annotated[
        bool | Literal["read-only"],
        "commands in the sandbox run without asking; read-only: as long as they only read",
        USER,
    ] = False
    auto_allow_destructive: Annotated[
        bool, "with auto_allow, also run commands that destroy files, for work trees that are copies", USER
    ] = False
    network: Annotated[bool, "commands in the sandbox may use the network", USER] = False
    domains: Annotated[
        tuple[str, ...], 'hosts that sandboxed commands can reach, e.g. "pypi.org", "*.npmjs.org", "host:8443"', USER
    ] = ()
    ports: Annotated[
        tuple[int, ...], "ports of servers on this machine that sandboxed commands can reach, e.g. 5432", USER
    ] = ()
    sockets: Annotated[
        tuple[str, ...], 'sockets of services that sandboxed commands can reach, e.g. "/run/postgresql"', USER
    ] = ()
    writable: Annotated[tuple[str, ...], 'more folders that commands may write, e.g. "~/.cache"', USER] = ()
    readable: Annotated[
        tuple[str, ...], 'folders of the home folder that commands may read, e.g. "~/datasets"', USER
    ] = ()
    caches: Annotated[
        Literal["session", "shared", "off"],
        "caches in the home folder (~/.cache, ~/.npm, ~/.cargo/registry, ...): written to a layer that ends with the"
        " session, written themselves, or not written",
        USER,
    ] = "session"
    outside: Annotated[
        tuple[str, ...],
        'commands that run outside the sandbox, as in rules for Bash: "docker:*"; they ask if they need approval',
        USER,
    ] = ()
    landlock: Annotated[
        bool, "use Landlock where bubblewrap does not work; it does not protect hooks and settings", USER
    ] = False
    seatbelt: Annotated[bool, "use Seatbelt on macOS; experimental, so auto_allow has no effect there", USER] = False


class Terminal(Value, tag="Terminal"):
    """Look and input of a session, under [terminal]. Only the user may set it."""

    theme: Annotated[
        str,
        "auto (dark or light, to match the background), dark, light, contrast, colorblind, none, or your own:"
        " ~/.agent/themes/NAME.toml",
        USER,
    ] = "auto"
    plain: Annotated[bool, "plain lines only, e.g. for a screen reader", USER] = False
    vim: Annotated[bool, "vi keys in the input line", USER] = False
    keys: Annotated[dict[str, str], 'keys by action: { search = "ctrl-t" }; see the guide', USER] = {}  # noqa: RUF012
    status_line: Annotated[
        str, "command whose first line replaces the toolbar; it gets the state of the session as JSON on stdin", USER
    ] = ""
    notify: Annotated[bool, "ring and notify when the agent waits for you", USER] = True


class WebSettings(Value, tag="Web"):
    """What WebFetch and WebSearch may do, under [web]."""

    search: Annotated[
        Literal["", "brave", "tavily", "searxng", "duckduckgo"],
        "search provider of WebSearch; empty: brave or tavily if its key is in the environment, otherwise duckduckgo",
        USER,
    ] = ""
    search_url: Annotated[str, "address of your SearXNG server, or a replacement for another provider's", USER] = ""
    allow_private: Annotated[
        tuple[str, ...], "private hosts, addresses and networks that WebFetch and push notifications may reach", USER
    ] = ()
    timeout: Annotated[float, "seconds for a whole page or search; 0: no limit", TIGHTEN] = 30.0


class DiagnosticsSettings(Value, tag="Diagnostics"):
    """Checkers and language servers that look at edited files, under [diagnostics]."""

    enabled: Annotated[
        bool, "report new problems in edited files to the model, if a checker is installed", tighten(True, False)
    ] = True
    wait: Annotated[float, "seconds that an edit waits for them; later ones are sent with the next request", USER] = 2.0
    skip: Annotated[tuple[str, ...], 'programs not to use, e.g. "mypy", "gopls"'] = ()
    servers: Annotated[dict[str, str], 'more language servers by glob: { "*.lua" = "lua-language-server" }', USER] = {}  # noqa: RUF012


class Undo(Value, tag="Undo"):
    """What is saved for undo, under [undo]."""

    keep: Annotated[bool, "save files before and after each call that may change them", USER] = True
    max_store_mb: Annotated[
        float, "most for all snapshots of a project, in megabytes; the oldest are deleted first", USER
    ] = 1000.0


class ResultSettings(Value, tag="Results"):
    """How much of a tool's result the model is shown, under [results]."""

    clear: Annotated[bool, "clear old results from a long conversation; a line of each remains"] = True


class McpServer(Value, tag="McpServer"):
    """An MCP server: a command that speaks over its standard streams, a URL, or one of the host's. See docs/mcp.md."""

    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}  # noqa: RUF012 - a frozen record, whose values nobody changes
    cwd: str = ""
    type: Literal["", "stdio", "http", "streamable-http", "sse", "sdk"] = ""
    url: str = ""
    headers: dict[str, str] = {}  # noqa: RUF012
    timeout: float = 0.0
    oauth: dict[str, str | int] = {}  # noqa: RUF012
    legacy: bool = False
    disabled: bool = False
    disabled_tools: tuple[str, ...] = ()


class Mcp(Value, tag="Mcp"):
    """MCP servers and how they are used, under [mcp]."""

    servers: Annotated[dict[str, McpServer], "servers by name, as [mcp.servers.NAME]"] = {}  # noqa: RUF012
    disabled: Annotated[tuple[str, ...], "names of servers not to start"] = ()
    wait: Annotated[float, "seconds that the first request of -p waits for servers"] = 10.0
    call_timeout: Annotated[float, "seconds one call may take; 0: no limit"] = 600.0
    tool_search: Annotated[
        Literal["auto", "always", "never"],
        "when the model finds servers' tools with ToolSearch: if they exceed a tenth of the window, always, or never",
    ] = "auto"


class ServeSettings(Value, tag="Serve"):
    """What `agent serve` offers, under [serve]. See docs/web.md."""

    projects: Annotated[
        tuple[str, ...], "folders to start sessions in, as paths from / or ~; empty: where agent serve starts", USER
    ] = ()
    notify: Annotated[
        str, "command (JSON on stdin) or http(s) address that is notified when a session waits or ends", USER
    ] = ""


class ProviderSettings(Value):
    """How one provider is reached, under [providers.NAME]."""

    wire_api: Annotated[Literal["auto", "responses", "chat"], "OpenAI protocol to use, if the provider has both"] = (
        "auto"
    )


class TurnSettings(Value, kw_only=True):
    """Settings that a turn reads itself: how the model answers, and how the turn works. `TurnOptions` has them, too."""

    effort: Annotated[Effort | None, "reasoning effort"] = None
    thinking_tokens: Annotated[int | None, "budget for reasoning, in tokens"] = None
    reasoning_summary: Annotated[bool, "ask for summaries of hidden reasoning"] = False
    max_tokens: Annotated[int | None, "longest answer, in tokens; empty: the model's own limit"] = None
    task_budget: Annotated[int | None, "token budget that Claude sees, to pace itself (a beta)"] = None
    context_window: Annotated[
        int | None, "size of the window in tokens, if the catalog does not know it or to use less of it"
    ] = None
    compact_at: Annotated[
        float, "share of the window at which the conversation is compacted; 0: only when it is refused as too long"
    ] = 0.92
    temperature: Annotated[float | None, "sampling temperature"] = None
    stream: Annotated[bool, "stream answers"] = True

    plan_review: Annotated[
        Literal["off", "plan", "always"],
        "plans that need your approval: none, plans made in plan mode, or all (nothing is changed before)",
        tighten("off", "plan", "always"),
    ] = "plan"
    review: Annotated[
        Literal["off", "step", "files"],
        "when a turn pauses for your review: never, after each step of its plan, or after each set of changed files",
        tighten("off", "step", "files"),
    ] = "off"
    plan_nudges: Annotated[int, "how often a turn is continued while its plan has open steps"] = 5
    plan_reminder: Annotated[int, "rounds between reminders of the plan; 0: none"] = 3
    max_parallel_subagents: Annotated[
        int,
        "read-only sub-agents of one answer that run at the same time; 0: four, or one if the model is on this machine",
    ] = 0
    after_turn: Annotated[str, "command that must succeed after a turn changed files, e.g. your tests"] = ""


class Settings(TurnSettings, tag="Settings"):
    """The settings of a run, all layers merged."""

    model: Annotated[str | None, "model as provider/model; empty: the first one found"] = None
    small_model: Annotated[str | None, "model for small jobs; empty: the model"] = None
    fallback_models: Annotated[tuple[str, ...], "models to switch to when the model fails"] = ()
    profile: Annotated[
        Literal["auto", "default", "small", "guided"],
        "prompt and tools: small is for weak models and small windows (five tools, a short prompt); guided: these, in "
        "steps that a schema constrains; auto: by its window and size, and by what its server can do",
    ] = "auto"
    transport: Annotated[Literal["auto", "direct", "litellm"], "how models are called"] = "auto"
    model_takes: Annotated[
        tuple[Literal["image", "pdf"], ...], "what a model accepts in addition to text, if the catalog does not say"
    ] = ()
    betas: Annotated[tuple[str, ...], "beta features to ask of Anthropic's API"] = ()
    base_url: Annotated[str | None, "base URL of an OpenAI or Anthropic compatible server", ASKED] = None
    key_command: Annotated[str | None, "command that prints the API key", USER] = None
    keyring: Annotated[bool, "look for API keys in the system keyring, and store them there", USER] = True

    cache_ttl: Annotated[
        Literal["5m", "1h"], "lifetime of Claude's caches; writing one for an hour costs twice the input price"
    ] = "5m"

    system_prompt: Annotated[str | None, "replaces the built-in system prompt"] = None
    append_system_prompt: Annotated[str, "added to the system prompt"] = ""
    memory_files: Annotated[tuple[str, ...], "names of memory files; all of them that a folder contains are read"] = (
        "AGENTS.md",
        "CLAUDE.md",
    )
    output_style: Annotated[str, "how answers are written: default, explanatory, learning, or your own style"] = (
        "default"
    )
    tools: Annotated[tuple[str, ...] | None, "names of the tools to offer; unset: all", TIGHTEN] = None
    tool_packages: Annotated[
        tuple[str, ...], "packages whose tools are loaded: their names in the entry points agent_cli.tools", USER
    ] = ()

    enabled_plugins: Annotated[
        dict[str, bool], 'plugins of agent plugin that are used: { "name@marketplace" = false } switches one off'
    ] = {}  # noqa: RUF012

    max_rounds: Annotated[int, "model calls per turn; 0: no limit", TIGHTEN] = 200
    max_tool_calls: Annotated[int, "tool calls per turn; 0: no limit", TIGHTEN] = 500
    max_seconds: Annotated[float, "working time per turn in seconds; 0: no limit", TIGHTEN] = 0.0
    max_cost: Annotated[float, "dollars per turn; 0: no limit", TIGHTEN] = 0.0
    allow_unknown_cost: Annotated[
        bool, "run with max_cost even if the model's price is not known; its calls are treated as free", USER
    ] = False

    max_failures: Annotated[int, "rounds in a row without a successful call that end a turn; 0: no limit", TIGHTEN] = 25

    plan_review_fresh: Annotated[bool, "a new one-shot session may claim a plan that is waiting here"] = False
    plan_ttl: Annotated[int, "minutes that a plan may wait for your approval; 0: forever"] = MAX_PLAN_MINUTES
    after_edit: Annotated[
        dict[str, str], 'commands for edited files by glob: { "*.py" = "ruff format -q {file}" }', USER
    ] = {}  # noqa: RUF012 - a frozen record, whose values nobody changes
    hooks: Annotated[tuple[Hook, ...], "commands run at session events, as [[hooks]]: see hooks.md"] = ()
    disable_hooks: Annotated[bool, "do not run any hooks", USER] = False
    wake_turns: Annotated[
        int, "turns in a row that background commands and hooks may start when they end; 0: they wait for you", USER
    ] = 0
    verify: Annotated[
        tuple[str, ...], "prefixes of further commands that verify the work, as the known test runners do"
    ] = ()

    retries: Annotated[int, "retries after a temporary failure of the provider"] = 5
    idle_timeout: Annotated[
        float,
        "seconds without a byte from the provider (on this machine by default 300, and 30 for each KB sent)",
    ] = 120.0

    color: Annotated[Literal["auto", "always", "never"], "colors on the terminal"] = "auto"
    save_sessions: Annotated[bool, "save sessions", USER] = True
    transcript: Annotated[
        Literal["auto", "claude", "off"],
        "transcript in Claude Code's format: auto if a hook or another program reads it, claude always, off for none",
        USER,
    ] = "auto"
    commit_trailers: Annotated[
        tuple[str, ...], 'lines below the message of /commit, e.g. "Assisted-by: {model}"', USER
    ] = ()
    trusted: Annotated[
        tuple[str, ...], 'repositories that are trusted, as paths from / or ~, e.g. "~/src/*"', USER
    ] = ()

    permissions: Annotated[Permissions, "rules and mode"] = Permissions()
    shell: Annotated[Shell, "how commands run"] = Shell()
    web: Annotated[WebSettings, "limits of the web tools"] = WebSettings()
    sandbox: Annotated[SandboxSettings, "sandbox for commands"] = SandboxSettings()
    diagnostics: Annotated[DiagnosticsSettings, "checks of edited files"] = DiagnosticsSettings()
    undo: Annotated[Undo, "what is saved for undo"] = Undo()
    providers: Annotated[
        dict[str, ProviderSettings],
        'OpenAI\'s protocol for a provider: { NAME = { wire_api = "responses" or "chat" } }',
    ] = {}  # noqa: RUF012
    results: Annotated[ResultSettings, "how much of a tool's result the model sees"] = ResultSettings()
    mcp: Annotated[Mcp, "MCP servers"] = Mcp()
    terminal: Annotated[Terminal, "look and keys of an interactive session"] = Terminal()
    serve: Annotated[ServeSettings, "sessions over HTTP"] = ServeSettings()


@cache
def tables() -> dict[str, type[Value]]:
    """Return the tables of the settings by name, in order: the keys whose values are records."""
    bare = {name: hint.__origin__ for name, hint in hints_of(Settings).items()}
    return {name: cls for name, cls in bare.items() if isinstance(cls, type) and issubclass(cls, Value)}
