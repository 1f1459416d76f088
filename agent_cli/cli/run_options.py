"""The options of `agent`: the one definition shared by the quick parser, Typer, --help and the tests.

`session_config` turns them into the `Config` of a session.
"""

import os
from pathlib import Path
from typing import Any, Literal, get_args

from agent_cli import MODES, Config, UsageError
from agent_cli.config.config import SOURCES, DebugOptions
from agent_cli.config.parsing import MAX_BYTES
from agent_cli.kernel.modes import MODE_ALIASES, Effort
from agent_cli.kernel.user_text import decode_user_text
from agent_tools.fs.safe_files import read_regular
from agent_tools.record import Annotated, Value

Format = Literal["text", "json", "stream-json"]
FORMATS: tuple[str, ...] = get_args(Format)
PICK_SESSION = "?"
# How the value of --resume begins that means a session of another program.
TAKES_OVER = "@"


class Flag(Value):
    """How an option is written: its names, help, the setting it overrides, and its heading in --help.

    --help appends the choices to the help of an option; aliases are accepted, too.
    """

    names: tuple[str, ...]
    help: str
    panel: str
    setting: str = ""
    choices: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    metavar: str = ""


TASK = "The task"
SESSION = "Session"
MODEL = "Model"
PERMISSION = "Permissions"
OUTPUT = "Output"
LIMITS = "Limits and exit codes"
CONTEXT = "Settings and prompts"
HOST = "For programs that run agent"


def _flag(names: str, panel: str, text: str, **more: Any) -> Flag:
    return Flag(tuple(names.split()), text, panel, **more)


class RunOptions(Value):
    """One run of `agent` as requested on the command line. None and empty values mean: not given."""

    prompt: tuple[str, ...] = ()
    print: Annotated[bool, _flag("-p --print", TASK, "Run one task, print the answer and exit.")] = False
    image: Annotated[
        tuple[str, ...], _flag("-i --image", TASK, "Attach an image to the first message.", metavar="FILE")
    ] = ()

    ide: Annotated[bool, _flag("--ide", TASK, "Connect to the editor that has this folder open, with -p as well.")] = (
        False
    )
    cd: Annotated[str | None, _flag("-C --cd", TASK, "Work in this folder.", metavar="DIR")] = None

    continue_: Annotated[bool, _flag("-c --continue", SESSION, "Continue the latest session of this folder.")] = False
    resume: Annotated[
        str | None,
        _flag("-r --resume", SESSION, "Resume a session by its ID, name or text; @claude, @codex, @gemini or @opencode "
              "takes over the latest of that program; without a value, pick from a list.",
              metavar="[ID|TEXT|@PROGRAM]"),
    ] = None  # fmt: skip
    worktree: Annotated[
        str | None,
        _flag("-w --worktree", SESSION, "Work in a separate git worktree, on the branch agent/NAME.",
              metavar="[NAME]"),
    ] = None  # fmt: skip
    stage: Annotated[
        bool,
        _flag("--stage", SESSION, "Work in a copy of the project, and ask once for all changes."),
    ] = False
    fork_session: Annotated[
        bool, _flag("--fork-session", SESSION, "With -c or -r: continue in a copy with a new ID.")
    ] = False
    session_id: Annotated[
        str | None, _flag("--session-id", SESSION, "Use this UUID as the ID of the session.", metavar="UUID")
    ] = None
    name: Annotated[
        str | None, _flag("-n --name", SESSION, "Name the session, for lists and --resume.", metavar="NAME")
    ] = None
    no_session_persistence: Annotated[bool, _flag("--no-session-persistence", SESSION, "Do not save the session.")] = (
        False
    )

    model: Annotated[
        str | None, _flag("--model -m", MODEL, "Model to use, as provider/model.", setting="model", metavar="MODEL")
    ] = None
    effort: Annotated[
        str | None,
        _flag("--effort", MODEL, "Reasoning effort.", setting="effort", choices=get_args(Effort), metavar="LEVEL"),
    ] = None
    fallback_model: Annotated[
        tuple[str, ...],
        _flag("--fallback-model", MODEL, "Model to switch to when the model fails.", setting="fallback_models",
              metavar="MODEL"),
    ] = ()  # fmt: skip
    thinking: Annotated[
        str | None,
        _flag("--thinking", HOST, "Whether the model thinks.", choices=("adaptive", "enabled", "disabled"),
              metavar="KIND"),
    ] = None  # fmt: skip
    max_thinking_tokens: Annotated[
        int | None, _flag("--max-thinking-tokens", HOST, "Thinking budget in tokens; 0: none.", metavar="N")
    ] = None
    thinking_display: Annotated[
        str | None,
        _flag("--thinking-display", HOST, "What to ask of hidden reasoning.", choices=("summarized", "omitted"),
              metavar="KIND"),
    ] = None  # fmt: skip
    betas: Annotated[
        tuple[str, ...],
        _flag("--betas", HOST, "Beta features to request from Anthropic's API.", setting="betas", metavar="NAMES"),
    ] = ()
    task_budget: Annotated[
        int | None,
        _flag("--task-budget", HOST, "Token budget that Claude sees, to pace itself.", setting="task_budget",
              metavar="TOKENS"),
    ] = None  # fmt: skip

    permission_mode: Annotated[
        str | None,
        _flag(
            "--permission-mode",
            PERMISSION,
            "Approval mode.",
            choices=MODES,
            aliases=tuple(MODE_ALIASES),
            metavar="MODE",
        ),
    ] = None
    restricted: Annotated[
        bool,
        _flag("--restricted", HOST, "Offer no tools that run commands or fetch pages unless --tools names them, "
              "read no settings files, and keep file tools in the workspace."),
    ] = False  # fmt: skip
    allowed_tools: Annotated[
        tuple[str, ...],
        _flag("--allowedTools --allowed-tools", PERMISSION,
              "Rules for calls to run without asking, e.g. 'Bash(git status:*) Edit'.", metavar="RULES"),
    ] = ()  # fmt: skip
    ask_tools: Annotated[
        tuple[str, ...],
        _flag("--askTools --ask-tools", PERMISSION,
              "Rules for calls that always need approval, even if another rule allows them.", metavar="RULES"),
    ] = ()  # fmt: skip
    disallowed_tools: Annotated[
        tuple[str, ...],
        _flag("--disallowedTools --disallowed-tools", PERMISSION, "Rules for calls to refuse.", metavar="RULES"),
    ] = ()
    trust: Annotated[
        bool, _flag("--trust", PERMISSION, "Trust this project's settings, commands and hooks for this run.")
    ] = False
    dangerously_skip_permissions: Annotated[
        bool,
        _flag("--dangerously-skip-permissions --yolo", PERMISSION, "The same as --permission-mode bypassPermissions."),
    ] = False
    allow_dangerously_skip_permissions: Annotated[
        bool,
        _flag("--allow-dangerously-skip-permissions", PERMISSION,
              "Let the session be switched to bypassPermissions later."),
    ] = False  # fmt: skip
    add_dir: Annotated[
        tuple[str, ...], _flag("--add-dir", PERMISSION, "Add a folder to the workspace.", metavar="DIR")
    ] = ()
    tools: Annotated[
        tuple[str, ...], _flag("--tools", PERMISSION, "Offer only these tools; '' for none.", metavar="NAMES")
    ] = ()

    output_format: Annotated[
        str, _flag("--output-format", OUTPUT, "Format of the answer, with -p.", choices=FORMATS, metavar="FORMAT")
    ] = "text"
    input_format: Annotated[
        str,
        _flag("--input-format", HOST, "Format of the input, with -p.", choices=("text", "stream-json"),
              metavar="FORMAT"),
    ] = "text"  # fmt: skip
    json_schema: Annotated[
        str | None,
        _flag("--json-schema", OUTPUT, "Require an answer that matches this JSON schema.", metavar="FILE|JSON"),
    ] = None
    include_partial_messages: Annotated[
        bool, _flag("--include-partial-messages", HOST, "With stream-json: print parts of the answer as they arrive.")
    ] = False
    forward_subagent_text: Annotated[
        bool, _flag("--forward-subagent-text", HOST, "With stream-json: also print the text of sub-agents.")
    ] = False
    include_hook_events: Annotated[
        bool, _flag("--include-hook-events", HOST, "With stream-json: print each hook as it starts and ends.")
    ] = False
    output_last_message: Annotated[
        str | None,
        _flag("-o --output-last-message", OUTPUT, "With -p: also write the answer to a file.", metavar="FILE"),
    ] = None
    plain: Annotated[
        bool, _flag("--plain --ax-screen-reader", OUTPUT, "Print line by line, without colours or redrawing.")
    ] = False
    verbose: Annotated[bool, _flag("--verbose", OUTPUT, "Print more to standard error.")] = False
    debug: Annotated[
        bool,
        _flag(
            "-d --debug --mcp-debug", OUTPUT, "Write requests, responses, calls and hooks to a file; show tracebacks."
        ),
    ] = False
    debug_filter: Annotated[
        str | None,
        _flag("--debug-filter", HOST, "What --debug writes: api, hooks, tools; !api all but that.", metavar="LIST"),
    ] = None
    debug_file: Annotated[str | None, _flag("--debug-file", OUTPUT, "The file for --debug.", metavar="FILE")] = None
    debug_to_stderr: Annotated[
        bool, _flag("--debug-to-stderr", HOST, "Print what --debug writes to standard error.")
    ] = False
    report: Annotated[
        tuple[str, ...],
        _flag("--report", OUTPUT, "With -p: also write a report: summary, annotations, codequality, junit, sarif, json "
              "or outputs.", metavar="FORMAT:FILE"),
    ] = ()  # fmt: skip
    patch: Annotated[
        str | None,
        _flag("--patch", OUTPUT, "With -p: work in a copy, and write the changes to this file as a patch.",
              metavar="FILE"),
    ] = None  # fmt: skip
    record: Annotated[
        str | None,
        _flag("--record", OUTPUT, "Record requests and answers for --model replay:FILE.", metavar="FILE"),
    ] = None

    max_turns: Annotated[
        int | None,
        _flag(
            "--max-turns", LIMITS, "Stop after this many model calls; 0: no limit.", setting="max_rounds", metavar="N"
        ),
    ] = None
    max_budget_usd: Annotated[
        float | None,
        _flag("--max-budget-usd", LIMITS, "Stop once the turn has cost this many dollars.", setting="max_cost",
              metavar="USD"),
    ] = None  # fmt: skip
    allow_unknown_cost: Annotated[
        bool,
        _flag("--allow-unknown-cost", LIMITS, "With --max-budget-usd: run even if the model's price is not known.",
              setting="allow_unknown_cost"),
    ] = False  # fmt: skip
    on_ask: Annotated[
        str,
        _flag("--on-ask", LIMITS, "What -p does with a call that needs approval.",
              choices=("deny", "suspend", "fail"), metavar="ACTION"),
    ] = "deny"  # fmt: skip
    fail_on_denied: Annotated[bool, _flag("--fail-on-denied", LIMITS, "Exit 5 if anything was denied.")] = False
    fail_on_degraded: Annotated[
        bool, _flag("--fail-on-degraded", LIMITS, "Exit 75 if the model failed after tools had run.")
    ] = False
    fail_on_unfinished: Annotated[
        bool, _flag("--fail-on-unfinished", LIMITS, "Exit 1 if the plan has open steps at the end.")
    ] = False

    settings: Annotated[
        tuple[str, ...],
        _flag("--settings", CONTEXT, "Read settings from a file, or from TOML or JSON text.", metavar="FILE|JSON"),
    ] = ()
    setting_sources: Annotated[
        str | None,
        _flag("--setting-sources", HOST,
              "Read only these: user, project, local. With project, this run trusts the project.", metavar="NAMES"),
    ] = None  # fmt: skip
    managed_settings: Annotated[
        str | None,
        _flag("--managed-settings", HOST, "Settings above all others, from a program that runs agent.",
              metavar="JSON"),
    ] = None  # fmt: skip
    profile: Annotated[
        str | None,
        _flag(
            "--profile",
            CONTEXT,
            "Use the settings of [profiles.NAME], or of a model: guided, small, default.",
            metavar="NAME",
        ),
    ] = None
    init: Annotated[bool, _flag("--init", CONTEXT, "Run the Setup hooks for a new checkout first.")] = False
    maintenance: Annotated[bool, _flag("--maintenance", CONTEXT, "Run the Setup hooks for maintenance first.")] = False
    bare: Annotated[bool, _flag("--bare", CONTEXT, "Ignore settings and memory files; use only these options.")] = False
    safe_mode: Annotated[
        bool, _flag("--safe-mode", HOST, "Ignore memory, commands, skills, agents, hooks, plugins and MCP servers.")
    ] = False
    disable_slash_commands: Annotated[
        bool, _flag("--disable-slash-commands", HOST, "Load no commands and no skills.")
    ] = False
    system_prompt: Annotated[
        str | None,
        _flag("--system-prompt", CONTEXT, "Replace the system prompt.", setting="system_prompt", metavar="TEXT"),
    ] = None
    append_system_prompt: Annotated[
        str | None,
        _flag("--append-system-prompt", CONTEXT, "Add to the system prompt.", setting="append_system_prompt",
              metavar="TEXT"),
    ] = None  # fmt: skip
    system_prompt_file: Annotated[
        str | None, _flag("--system-prompt-file", HOST, "Replace the system prompt with a file.", metavar="FILE")
    ] = None
    exclude_dynamic_system_prompt_sections: Annotated[
        bool,
        _flag("--exclude-dynamic-system-prompt-sections", HOST,
              "Send folder, date and system with the first message instead of the system prompt."),
    ] = False  # fmt: skip
    system_prompt_snapshot: Annotated[
        str | None,
        _flag("--system-prompt-snapshot", HOST, "A session keeps its system prompt, always.", choices=("on",),
              metavar="on"),
    ] = None  # fmt: skip
    append_system_prompt_file: Annotated[
        str | None, _flag("--append-system-prompt-file", HOST, "Add a file to the system prompt.", metavar="FILE")
    ] = None
    agent: Annotated[
        str | None, _flag("--agent", CONTEXT, "Work as this agent: its prompt, tools and model.", metavar="NAME")
    ] = None
    agents: Annotated[str | None, _flag("--agents", HOST, "Add sub-agents, as JSON by name.", metavar="FILE|JSON")] = (
        None
    )
    plugin_dir: Annotated[
        tuple[str, ...], _flag("--plugin-dir", CONTEXT, "Load a plugin from a folder or zip.", metavar="DIR")
    ] = ()
    plugin_url: Annotated[
        tuple[str, ...], _flag("--plugin-url", HOST, "Load a plugin from the address of a zip file.", metavar="URL")
    ] = ()
    plugin_dir_no_mcp: Annotated[
        tuple[str, ...],
        _flag("--plugin-dir-no-mcp", HOST, "Load a plugin without its MCP servers.", metavar="DIR"),
    ] = ()
    mcp_config: Annotated[
        tuple[str, ...],
        _flag("--mcp-config", CONTEXT, "Add MCP servers from a file or JSON text.", metavar="FILE|JSON"),
    ] = ()
    strict_mcp_config: Annotated[
        bool, _flag("--strict-mcp-config", CONTEXT, "Use only the MCP servers of --mcp-config.")
    ] = False

    permission_prompt_tool: Annotated[
        str | None,
        _flag("--permission-prompt-tool", HOST, "Who approves calls: stdio for the calling program, or an MCP tool.",
              metavar="TOOL"),
    ] = None  # fmt: skip
    permission_prompts: Annotated[
        str | None,
        _flag("--permission-prompts", HOST, "Who answers questions about calls.", choices=("host", "none"),
              metavar="WHO"),
    ] = None  # fmt: skip
    replay_user_messages: Annotated[
        bool, _flag("--replay-user-messages", HOST, "Print each message of standard input again.")
    ] = False
    session_mirror: Annotated[
        bool, _flag("--session-mirror", HOST, "Print each entry of the transcript when it is written.")
    ] = False
    resume_session_at: Annotated[
        str | None, _flag("--resume-session-at", HOST, "With -r: continue after this message.", metavar="UUID")
    ] = None
    resume_drops_turn: Annotated[
        str | None, _flag("--resume-drops-turn", HOST, "With -r: continue without this turn.", metavar="UUID")
    ] = None
    schedule: Annotated[
        str, _flag("--schedule", HOST, "The schedule that starts this session, see agent every.", metavar="ID")
    ] = ""

    await_initialize: Annotated[
        bool, _flag("--await-initialize", HOST, "Do not read settings before the request initialize (always the case).")
    ] = False
    initialize_fields: Annotated[
        str | None,
        _flag("--initialize-fields", HOST, "Further fields of initialize: settings, disallowedTools.", metavar="NAMES"),
    ] = None
    managed_settings_in_initialize: Annotated[
        bool, _flag("--managed-settings-in-initialize", HOST, "Take --managed-settings from initialize.")
    ] = False
    project_config_root: Annotated[
        str | None,
        _flag("--project-config-root", HOST, "Accepted for the Agent SDK; has no effect.", metavar="DIR"),
    ] = None
    no_chrome: Annotated[bool, _flag("--no-chrome", HOST, "Use no browser (always the case).")] = False
    channels: Annotated[
        tuple[str, ...],
        _flag("--channels", HOST, "Accepted for the Agent SDK; has no effect.", metavar="NAMES"),
    ] = ()


def flags() -> dict[str, tuple[Flag, Any]]:
    """Return the flag and bare type of each field except the prompt, in the order of the table."""
    return {
        name: (hint.__metadata__[0], hint.__origin__)
        for name, hint in RunOptions.__annotations__.items()
        if name != "prompt"
    }


# What the options are called that set a field of `Config`.
_CALLED = {
    "resume": "--resume", "latest": "--continue", "fork": "--fork-session", "session_id": "--session-id",
    "resume_at": "--resume-session-at", "resume_without": "--resume-drops-turn", "schema": "--json-schema",
    "allow": "--allowedTools", "ask": "--askTools", "deny": "--disallowedTools", "settings": "--settings",
    "managed": "--managed-settings", "sources": "--setting-sources", "servers": "--mcp-config",
    "plugins": "--plugin-dir", "plugin_addresses": "--plugin-url", "agent": "--agent",
    "agents": "--agents", "debug": "--debug",
    "mode": "--permission-mode", "allow_bypass": "--allow-dangerously-skip-permissions", "trust": "--trust",
    "ide": "--ide", "profile": "--profile", "record": "--record", "model": "--model", "images": "--image",
}  # fmt: skip
# Options of other agents without a counterpart here.
_WITHOUT_EFFECT = ("project_config_root", "channels")


def session_config(options: RunOptions) -> Config:
    """Return the session that the options describe.

    Raises UsageError for a file that cannot be read, and for options that exclude each other.
    """
    mode = options.permission_mode
    if options.dangerously_skip_permissions:
        mode = "bypassPermissions"
    _check_limits(options, mode)
    streams = "stream-json" in (options.input_format, options.output_format)
    return Config(
        resume=options.resume,
        latest=options.continue_,
        fork=options.fork_session,
        session_id=options.session_id,
        name=options.name,
        schedule=options.schedule,
        resume_at=options.resume_session_at,
        resume_without=options.resume_drops_turn,
        model=options.model,
        mode=MODE_ALIASES.get(mode, mode) if mode else None,
        allow_bypass=options.dangerously_skip_permissions or options.allow_dangerously_skip_permissions,
        allow=options.allowed_tools,
        ask=options.ask_tools,
        deny=options.disallowed_tools,
        folders=options.add_dir,
        overrides=_overrides(options),
        settings=options.settings,
        managed=options.managed_settings,
        sources=() if options.restricted else _sources(options.setting_sources),
        profile=options.profile,
        bare=options.bare,
        safe=options.safe_mode,
        restricted=options.restricted,
        load_commands=not options.disable_slash_commands,
        shared_prompt=options.exclude_dynamic_system_prompt_sections,
        trust=options.trust,
        plugins=options.plugin_dir,
        plugin_addresses=options.plugin_url,
        plugins_without_servers=options.plugin_dir_no_mcp,
        servers=options.mcp_config,
        only_these_servers=options.strict_mcp_config,
        agent=options.agent,
        agents=options.agents,
        schema=options.json_schema,
        images=options.image,
        on_ask=options.on_ask,
        setup="init" if options.init else "maintenance" if options.maintenance else "",
        record=options.record,
        debug=_debug(options),
        # A host reads the transcript where Claude Code has its own.
        hosted=options.session_mirror or (streams and not options.print),
        mirror=options.session_mirror,
        message_ids=options.output_format == "stream-json",
        ide=options.ide,
        origin="the command line",
        called=_CALLED,
        notices=_notices(options),
    )


def _check_limits(options: RunOptions, mode: str | None) -> None:
    """Raise UsageError for a limit that would be none, and for an option that one limiting the session excludes."""
    if options.max_budget_usd == 0:
        raise UsageError("--max-budget-usd: expected more than 0 dollars; the setting max_cost = 0 means no limit.")
    if options.restricted and (mode == "bypassPermissions" or options.allow_dangerously_skip_permissions):
        raise UsageError("--restricted excludes bypassPermissions.")
    added = ("mcp_config", "plugin_dir", "plugin_dir_no_mcp", "plugin_url", "agents", "agent")
    if options.safe_mode and (name := next((n for n in added if getattr(options, n)), "")):
        raise UsageError(f"--safe-mode excludes {flags()[name][0].names[0]}.")


def _overrides(options: RunOptions) -> dict[str, Any]:
    """Return the settings among the options."""
    data: dict[str, Any] = {}
    for name, (flag, _) in flags().items():
        value = getattr(options, name)
        if flag.setting and value not in (None, ()) and value is not False and name != "model":
            data[flag.setting] = _split_names(value) if isinstance(value, tuple) else value
    if options.tools and options.tools != ("default",):
        data["tools"] = _split_names(options.tools)
    if options.no_session_persistence:
        data["save_sessions"] = False
    if options.safe_mode:
        data |= {"disable_hooks": True, "after_turn": "", "tool_packages": [], "output_style": ""}
        data["terminal"] = {"status_line": ""}
    return data | _prompts(options) | _thinking(options)


def _prompts(options: RunOptions) -> dict[str, Any]:
    """Return the system prompts given as files."""
    found = {}
    for name in ("system_prompt", "append_system_prompt"):
        path = getattr(options, f"{name}_file")
        if path is None:
            continue
        flag = flags()[f"{name}_file"][0].names[0]
        if getattr(options, name) is not None:
            raise UsageError(f"{flag} and {flag.removesuffix('-file')} exclude each other")
        try:
            found[name] = decode_user_text(read_regular(Path(os.path.expanduser(path)), MAX_BYTES))
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{flag}: {path}: {getattr(error, 'strerror', None) or error}") from None
    return found


def _thinking(options: RunOptions) -> dict[str, Any]:
    """Return the reasoning settings; "disabled" overrides a token budget."""
    found: dict[str, Any] = {}
    if options.thinking == "disabled" or options.max_thinking_tokens == 0:
        if options.effort is None:
            found["effort"] = "none"
    elif options.max_thinking_tokens is not None:
        found["thinking_tokens"] = options.max_thinking_tokens
    if options.thinking_display == "summarized":
        found["reasoning_summary"] = True
    return found


def _sources(text: str | None) -> tuple[str, ...] | None:
    """Return the sources that are named. Raises UsageError for a name that is not known."""
    if text is None:
        return None
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if name not in SOURCES:
            raise UsageError(f"--setting-sources: {name} is not one of {', '.join(SOURCES)}")
    return names


def _debug(options: RunOptions) -> DebugOptions | None:
    if not (options.debug or options.debug_filter or options.debug_file or options.debug_to_stderr):
        return None
    return DebugOptions(options.debug_filter, options.debug_file or "", options.debug_to_stderr)


def _notices(options: RunOptions) -> tuple[str, ...]:
    """Return a notice for each option that has another effect than in the agents it comes from."""
    lines = [
        f"{flags()[name][0].names[0]} has no effect here"
        for name in _WITHOUT_EFFECT
        if getattr(options, name) not in (None, (), False)
    ]
    if options.permission_mode == "auto" and not options.dangerously_skip_permissions:
        lines.append("--permission-mode auto: no model decides about calls here, so acceptEdits is used")
    return tuple(lines)


def _split_names(values: tuple[str, ...]) -> list[str]:
    """Split texts at commas and whitespace into names."""
    return [name for value in values for name in value.replace(",", " ").split()]
