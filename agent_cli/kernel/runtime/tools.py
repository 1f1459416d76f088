"""The tools of a session: which are offered, their folders and descriptions, and the permission policy for their calls.

The policy is built from settings, rules and trust; the sandbox of commands from the settings and the environment.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_cli.config.config import Config
from agent_cli.config.layers import Layers
from agent_cli.config.prompts import prompt
from agent_cli.config.schema import Settings
from agent_cli.kernel.rules import FOREIGN_TOOLS, KNOWN_TOOLS, Rule, RuleError, read_rule, rule_for
from agent_cli.kernel.run_environment import RunEnvironment, UsageError
from agent_cli.kernel.session.records import Restored
from agent_cli.kernel.session.store import state_folder
from agent_cli.models.base import ToolSpec
from agent_cli.policy import secret_places
from agent_cli.policy.policy import Policy
from agent_tools.base import Tool, ToolContext
from agent_tools.context import OfferedExtensions
from agent_tools.fs.workspace import Workspace
from agent_tools.lazy import lazy_imports
from agent_tools.registry import BUILTIN, is_available, tool_name
from agent_tools.results import MediaKind
from agent_tools.sandbox.conditions import Confined, SandboxLimits
from agent_tools.sandbox.runner import SandboxRunner
from agent_tools.shell.state import ShellState

if TYPE_CHECKING:
    from agent_tools.apply_changes import StagedTurn
    from agent_tools.sandbox.profile import Profile
    from agent_tools.sandbox.temporary import TemporaryMount
    from agent_tools.tool_search import OwnTools

with lazy_imports():
    from agent_cli.kernel.runtime import saved_settings
    from agent_cli.kernel.session import schedules  # only for a session that one started
    from agent_tools import tool_search
    from agent_tools.sandbox import profile

# The tool by which the tools that are not in the requests are found.
SEARCH_TOOL = "ToolSearch"


def make_context(
    workspace: Workspace,
    settings: Settings,
    layers: Layers,
    run_env: RunEnvironment,
    *,
    answered: bool,
    require_read_first: bool = True,
    small_model: bool = False,
    extensions: OfferedExtensions = OfferedExtensions(),  # noqa: B008 - frozen
    input_modalities: frozenset[MediaKind] = frozenset(),
    restricted: bool = False,
    staged: StagedTurn | None = None,
) -> tuple[ToolContext, Policy]:
    """Return the context of a conversation's tools, and the policy for their calls.

    answered: somebody can answer a question, now or later. restricted: see `Policy`.
    staged: its turns are staged. The rest: see `ToolContext`.
    """
    sandbox, shell = make_confinement(workspace, settings, run_env), ShellState()
    if sandbox is not None:
        workspace.temporary_files = sandbox.temporary_files
    policy = _make_policy(
        workspace, settings, layers, run_env, sandbox, shell, answered=answered, restricted=restricted
    )
    known: dict[str, Any] = {"shell_timeout": settings.shell.timeout}
    known |= {"env_pass": settings.shell.env_pass, "after_edit": settings.after_edit}
    known["diagnostics"] = {name: getattr(settings.diagnostics, name) for name in settings.diagnostics._fields}
    known["web"] = {name: getattr(settings.web, name) for name in settings.web._fields}
    checks = settings.diagnostics.enabled and layers.trust.git_use != "unknown"
    context = ToolContext(
        workspace,
        env=dict(run_env.env),
        settings=known,
        require_read_first=require_read_first,
        small_model=small_model,
        supplied=[state for state in (sandbox, shell, staged) if state is not None],
        readable=policy.readable,
        reads_outside=policy.may_mention,
        run_conditions=policy.run_conditions,
        command_rule=policy.command_rule if checks else None,
        extensions=extensions,
        input_modalities=input_modalities,
    )
    return context, policy


def _make_policy(
    workspace: Workspace,
    settings: Settings,
    layers: Layers,
    run_env: RunEnvironment,
    sandbox: SandboxRunner | None,
    shell: ShellState,
    *,
    answered: bool,
    restricted: bool,
) -> Policy:
    asked = settings.sandbox
    confined = None
    if sandbox is not None:
        confined = Confined(
            lambda: sandbox.is_boundary,
            lambda: sandbox.profile,
            asked.auto_allow is True,
            # Scripts of a plugin that the user trusts, as its hooks; what asks still asks.
            (*asked.outside, *(f"{plugin.folder}/*" for plugin in layers.plugins)),
            asked.domains,
            asked.sockets,
            asked.auto_allow_destructive,
            asked.auto_allow == "read-only",
        )
    return Policy(
        workspace,
        layers.rules,
        settings.permissions.mode,
        home=str(run_env.home) if run_env.home else "",
        env=run_env.env,
        carried=shell.exported,
        git_use=layers.trust.git_use,
        confined=confined,
        state=state_folder(run_env.env),
        answered=answered,
        restricted=restricted,
        staged=run_env.stage is not None,
        no_bypass=layers.managed.no_bypass
        or restricted
        or not (layers.may_bypass or settings.permissions.mode == "bypassPermissions"),
    )


def rule_saver(config: Config, run_env: RunEnvironment, layers: Layers) -> Callable[[str], str] | None:
    """Return the function that saves a rule for the project; None if it would have no effect there."""
    if config.bare or run_env.root == run_env.home:
        return None
    return saved_settings.saver(layers.trust, state_folder(run_env.env))


def schedule_rule_saver(schedule: str, run_env: RunEnvironment) -> Callable[[str], str] | None:
    """Return the function that saves a rule for all runs of a schedule; None if there is no such schedule any more."""
    path = schedules.ScheduleStore(state_folder(run_env.env)).rules_file(schedule)
    return (lambda rules: saved_settings.save_rules(path, rules)) if path.parent.is_dir() else None


def make_confinement(
    workspace: Workspace, settings: Settings, run_env: RunEnvironment, *, share_temporary: bool = True
) -> SandboxRunner | None:
    """Return the sandbox that the settings describe; None if they switch it off. Raises UsageError.

    share_temporary: with the machine.
    """
    asked = settings.sandbox
    if asked.mode == "off":
        return None
    _check(settings)
    return SandboxRunner(
        asked.mode,
        lambda temp, network: sandbox_profile(workspace, settings, run_env, temp=temp, network=network),
        run_env.env,
        SandboxLimits(asked.landlock, asked.seatbelt, asked.caches, asked.domains, asked.ports),
        workspace.root if share_temporary else None,
    )


def _check(settings: Settings) -> None:
    """Raise UsageError for invalid host patterns, command patterns and ports."""
    asked = settings.sandbox
    try:
        if asked.domains:
            for domain in asked.domains:
                profile.parse_domain(domain)
    except ValueError as error:
        raise UsageError(f"The setting sandbox.domains: {error}.") from None
    if wrong := next((p for p in asked.ports if not 0 < p < 1 << 16), None):
        raise UsageError(f"The setting sandbox.ports: {wrong} is not a port.")
    try:
        for pattern in asked.outside:
            read_rule("allow", rule_for("run", pattern), "sandbox.outside", Path("/"))
    except RuleError as error:
        raise UsageError(f"The setting sandbox.outside: {error}.") from None


def sandbox_profile(
    workspace: Workspace,
    settings: Settings,
    run_env: RunEnvironment,
    *,
    temp: tuple[TemporaryMount, ...] = (),
    network: bool = False,
) -> Profile:
    """Return the profile for the next command.

    temp: the session's temporary directories.
    network: this command may use it.
    """

    # Most runs put nothing into a sandbox.
    def paths(texts: tuple[str, ...]) -> list[Path]:
        return [Path(run_env.root, os.path.expanduser(text)) for text in texts]

    return profile.make_profile(
        workspace.roots,
        run_env.home,
        extra=paths(settings.sandbox.writable),
        secret=[state_folder(run_env.env)],
        readable=[
            *paths(settings.sandbox.readable),
            *workspace.skill_folders,
            *secret_places.open_claude_folders(run_env.home),
        ],
        path=run_env.env.get("PATH", ""),
        caches=settings.sandbox.caches != "off",
        sockets=paths(settings.sandbox.sockets),
        temp=temp,
        network=network or settings.sandbox.network,
    )


def make_workspace(run_env: RunEnvironment, settings: Settings, skill_folders: tuple[Path, ...] = ()) -> Workspace:
    """Return the folders that tools may use freely. Raises UsageError for one that does not exist."""
    extra = tuple(Path(os.path.expanduser(d)) for d in settings.permissions.additional_directories)
    for folder in extra:
        if not os.path.isdir(folder):  # noqa: PTH112 - the method raises where a parent is closed
            raise UsageError(f"The additional folder {folder} is not a folder.")
    return Workspace(run_env.root, extra, run_env.cwd, skill_folders=skill_folders)


def choose_tools(
    settings: Settings,
    rules: list[Rule],
    context: ToolContext,
    restored: Restored | None,
    more: Sequence[Tool[Any]] = (),
    embedded: Sequence[Tool[Any]] = (),
    *,
    model: str = "",
    answered: bool = True,
    small: bool = False,
    restricted: bool = False,
) -> list[Tool[Any]]:
    """Choose the tools of a session, fixed at its first request. A tool that is denied as a whole is not offered.

    more: tools in addition to the built-in ones.
    embedded: tools of the embedding program, offered in every session.
    model: its name; some tools are for models that are trained on them.
    answered: somebody can answer questions, now or later; if not, the tools that ask are left out.
    small: the model is offered the few tools that have `small_arguments`.
    restricted: tools that run commands or fetch pages are not offered, unless the settings name them.

    Raises UsageError for an unknown name.
    """
    known = {tool.name: tool for tool in [*BUILTIN, *more]}
    if twice := next((t.name for t in embedded if t.name in known), ""):
        raise UsageError(f"A tool named {twice} already exists: give yours another name.")
    known |= {tool.name: tool for tool in embedded}
    listed = {tool_name(name) for name in settings.tools or ()}
    unknown = [n for n in listed - known.keys() if n != "default" and not n.startswith("mcp__")]
    # A list written for another program may have tools that only it has.
    if unknown := [n for n in unknown if n not in FOREIGN_TOOLS]:
        raise UsageError(f"Unknown tool {unknown[0]}. The tools are: {', '.join(known)}.")
    embedded_names = [tool.name for tool in embedded]
    denied = {r.tool for r in rules if r.list == "deny" and r.spec is None}
    if restricted:
        runs = {t.name for t in known.values() if t.command_argument or t.types_input or t.address_argument}
        denied |= runs - listed
    wanted = listed | set(embedded_names)
    if settings.tools is None or "default" in settings.tools:
        asking = answered or settings.permissions.mode == "plan"
        wanted |= known.keys() - _not_for(model, denied, asking=asking, small=small)
    wanted -= denied | {tool.name for tool in BUILTIN if tool.of_program}
    chosen = [t for t in known.values() if t.name in wanted and is_available(t, context)]
    if restored is None or restored.rebuilt:
        return chosen
    # Fixed with the first request; but a session that began unattended may be resumed by its user.
    late = [t.name for t in chosen if _needs_user(t) and answered and not restored.header.answered]
    earlier = [n for n in restored.header.tools if n in known and not (restricted and n in denied)]
    return [known[n] for n in dict.fromkeys((*earlier, *embedded_names, *late))]


def requested_tools(
    tools: list[Tool[Any]], settings: Settings, rules: list[Rule], restored: Restored | None, *, small: bool
) -> list[Tool[Any]]:
    """Return the tools that requests contain: of the session's tools, those that models rarely choose are searched.

    A session that began without the search goes on without it.
    """
    named = {tool_name(name) for name in settings.tools or ()}
    rare = tuple(tool for tool in tools if tool.rare and tool.name not in named)
    denied = {rule.tool for rule in rules if rule.list == "deny" and rule.spec is None}
    began_without = restored is not None and not restored.rebuilt and SEARCH_TOOL not in restored.header.tools
    if not rare or small or began_without:
        return tools
    kept = [tool for tool in tools if tool not in rare]
    finders = (tool_search.ToolSearch(own_tools(rare)), tool_search.UseTool(own_tools(rare)))
    kept += [tool for tool in finders if not denied & {SEARCH_TOOL, tool.name}]
    if restored is not None and not restored.rebuilt:
        # Tools that come late stand behind those of the first request.
        first = {name: place for place, name in enumerate(restored.header.tools)}
        kept.sort(key=lambda tool: first.get(tool.name, len(first)))
    return kept


def own_tools(tools: Iterable[Tool[Any]]) -> OwnTools:
    """Return tools of ours as ToolSearch finds them."""
    return tool_search.OwnTools(tuple(tools), lambda tool: _description(tool, None))


def warn_unknown_rules(rules: Sequence[Rule], tools: Iterable[Tool[Any]], warn: Callable[[str], None]) -> None:
    """Warn about rules for tools that do not exist: a deny rule must not look effective when it is not."""
    known = KNOWN_TOOLS | {tool.name for tool in tools}
    for rule in rules:
        unknown = rule.tool not in known and not rule.tool.startswith("mcp__")
        # A list written for another program may have tools that only it has.
        if unknown and rule.tool not in FOREIGN_TOOLS:
            where = f"{rule.source}: " if rule.source else ""
            warn(f"{where}there is no tool {rule.tool}, so the {rule.list} rule {rule.text} has no effect")


def _not_for(model: str, denied: set[str], *, asking: bool, small: bool) -> set[str]:
    """Return the names of the built-in tools that are not offered to a model unless the settings name them."""
    names, parts = set(), model.lower().split("/")
    for tool in BUILTIN:
        unknown = tool.trained_models and not any(part.startswith(tool.trained_models) for part in parts)
        if unknown or (small and not tool.small_arguments) or (_needs_user(tool) and not asking):
            names.add(tool.name)
        elif tool.name not in denied:
            names |= set(tool.instead_of)
    return names


def _needs_user(tool: Tool[Any]) -> bool:
    return tool.asks_user or tool.ends_plan_mode


def tool_specs(
    tools: list[Tool[Any]], context: ToolContext | None = None, *, small: bool = False
) -> tuple[ToolSpec, ...]:
    """Return the tools as the model sees them; without a context, only what is true everywhere.

    small: with the short descriptions and few arguments for small models, where a tool has them.
    """
    return tuple(_small_spec(t) if small and t.small_arguments else _spec(t, context) for t in tools)


def _spec(tool: Tool[Any], context: ToolContext | None) -> ToolSpec:
    return ToolSpec(tool.name, _description(tool, context), tool.schema(), tool.freeform)


def _small_spec(tool: Tool[Any]) -> ToolSpec:
    schema = tool.schema()
    # Their names and the description of the tool say what they are.
    offered = {
        name: {key: value for key, value in schema["properties"][name].items() if key != "description"}
        for name in tool.small_arguments
    }
    return ToolSpec(tool.name, prompt(f"small/{tool.name}"), schema | {"properties": offered})


def tool_definitions(names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the definitions of tools as OpenAI writes them; of tools that are not built in, only the names."""
    known = {spec.name: spec for spec in tool_specs([tool for tool in BUILTIN if tool.name in names])}
    found: list[dict[str, Any]] = []
    for name in names:
        spec = known.get(name)
        more = {"description": spec.description, "parameters": spec.schema} if spec else {}
        found.append({"type": "function", "function": {"name": name, **more}})
    return found


def _description(tool: Tool[Any], context: ToolContext | None) -> str:
    try:
        text = tool.description or prompt(f"tools/{tool.name}")
    except FileNotFoundError:
        text = (tool.__doc__ or tool.name).strip()
    here = tool.dynamic_description(context) if context is not None else ""
    return f"{text}\n\n{here}" if here else text
