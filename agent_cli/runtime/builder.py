"""The one place where objects are built and joined: options and settings in, a conversation ready to run out.

Nothing here prints or decides how a run looks; the front ends do. Mistakes are `UsageError`s: one sentence and exit 2.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from agent_cli.config.layers import Layers
from agent_cli.config.prompts import prompt
from agent_cli.config.run_options import RunOptions
from agent_cli.config.schema import Settings
from agent_cli.core.approvals import Approver, Asker, later
from agent_cli.core.events import Event, SessionNamed
from agent_cli.core.messages import pending_calls
from agent_cli.core.place import RunEnvironment, UsageError
from agent_cli.core.results import Limits
from agent_cli.core.rules import Rule
from agent_cli.core.trust import Trust
from agent_cli.core.window import Window
from agent_cli.engine.conversation import Conversation
from agent_cli.engine.structured_output import StructuredOutput, answer_guard, read_schema
from agent_cli.engine.turn import TurnDeps, TurnOptions
from agent_cli.extensions.commands import expand_message
from agent_cli.extensions.loader import Embedded, Extensions, load_extensions
from agent_cli.memory.files import Memory, load_memory
from agent_cli.memory.nested import NestedMemory
from agent_cli.providers.base import ToolSpec
from agent_cli.providers.catalog import ModelInfo, lookup
from agent_cli.providers.resolve import ResolvedModel
from agent_cli.runtime.attachments import attach_images
from agent_cli.runtime.checkpoints import keeper
from agent_cli.runtime.environment import check_mode, memory_sources
from agent_cli.runtime.hooks import make_hooks
from agent_cli.runtime.mcp import SessionServers, make_servers
from agent_cli.runtime.models import (
    check_price,
    choose_model,
    debugged,
    later_model,
    open_wire,
    pricing,
    taken_by,
    window_of,
)
from agent_cli.runtime.permissions import make_confinement, make_policy, rule_saver
from agent_cli.runtime.session import (
    ATTENDED_PATIENCE,
    PATIENCE,
    changed_memory,
    make_header,
    model_name,
    new_log,
    open_session,
)
from agent_cli.session.crash import write_report
from agent_cli.session.log import SessionLog
from agent_cli.session.records import Header, Restored
from agent_cli.session.store import SessionStore, state_folder
from agent_tools.base import Tool, ToolContext, UserCommand
from agent_tools.fs.workspace import Workspace
from agent_tools.overrides import ExpandedPrompt
from agent_tools.record import to_plain
from agent_tools.registry import BUILTIN

BROKEN_OFF = "Interrupted: the program ended before this finished. It may have run in part; check before you repeat it."
NOT_BEGUN = "Interrupted: the program ended before this finished. It had not begun."


class Agent:
    """A conversation with what it was built from. `close` releases the session."""

    def __init__(
        self,
        conversation: Conversation,
        place: RunEnvironment,
        layers: Layers,
        settings: Settings,
        model: ResolvedModel,
        info: ModelInfo | None,
        header: Header,
        log: SessionLog | None,
        restored: Restored | None,
        added: Extensions,
        memory: Memory,
    ) -> None:
        self.conversation = conversation
        self.place = place
        self.layers = layers
        self.settings = settings
        self.model = model
        self.info = info
        self.header = header
        self.restored = restored
        self.commands: Mapping[str, UserCommand] = added.commands
        self.added = added
        self.memory = memory
        self.structured = any(isinstance(t, StructuredOutput) for t in conversation.kit.tools.values())
        self.mcp: SessionServers | None = None
        self._log = log
        self.name = restored.name if restored else ""
        self._unsaid: SessionNamed | None = None

    def rename(self, named: SessionNamed) -> None:
        """Call the session something; from any thread. A session in which nothing was said keeps it until then."""
        self.name, self._unsaid = named.name, named
        self.keep_name()

    def keep_name(self) -> None:
        """Write the name down, once there is something that it is the name of."""
        if self._unsaid is not None and self.conversation.history:
            named, self._unsaid = self._unsaid, None
            self.conversation.record(named)

    @property
    def unsaved(self) -> str:
        """Why what was said is not on disk, for as long as it is not; empty where it is, or should not be."""
        return self._log.warning if self._log is not None else ""

    def begin(self, after: float = 0.0) -> None:
        """Start what may be made ready beside the prompt, so many seconds from now."""
        if self.mcp is not None:
            self.mcp.servers.begin(after)

    def close(self, reason: str = "other") -> None:
        """End what runs in the background, and release the session. reason: why, for the hooks of SessionEnd."""
        try:
            self.conversation.end(reason)
        finally:
            self.conversation.kit.context.close()
            self.conversation.kit.watch.close()
            if self.mcp is not None:
                self.mcp.servers.close()
            if self._log is not None:
                self._log.close()


def build_agent(
    options: RunOptions,
    place: RunEnvironment,
    layers: Layers,
    approver: Approver,
    warn: Callable[[str], None],
    *,
    asker: Asker = later,
    attended: bool = False,
    embedded: Embedded = Embedded(),  # noqa: B008 - frozen
) -> Agent:
    """Join everything for one run. embedded: what the program that embeds the agent adds. Raises UsageError."""
    settings = layers.settings()
    check_mode(settings.permissions.mode, place.env)
    store = SessionStore(state_folder(place.env), place.root)
    log, restored = open_session(options, settings, store, warn, ATTENDED_PATIENCE if attended else PATIENCE)
    model = choose_model(model_name(options, settings, restored), settings, place)
    info = lookup(model.provider, model.model)
    check_price(model, info, settings)
    workspace = make_workspace(place, settings)
    context = make_context(workspace, settings, place)
    answered = attended or options.on_ask == "suspend"
    policy = make_policy(workspace, settings, layers, context, place.home, answered=answered)
    context.takes = takes = taken_by(info, settings)
    attached = attach_images(options.image, workspace, model.name, takes)
    added = load_extensions(options, place, layers, settings, warn)
    added.join(context)
    tools = list(choose_tools(settings, layers.rules, context, restored, added.tools, embedded.tools))
    guards = []
    if options.json_schema is not None:
        schema = _schema(options.json_schema)
        tools.append(StructuredOutput(schema))
        guards.append(answer_guard)
    memory = Memory()
    if not options.bare:
        sources = memory_sources(place, settings, layers.trust, context.readable)
        memory = load_memory(sources)
        context.nearby = NestedMemory(sources, memory)
        for cut in memory.cuts:
            warn(f"memory files together may have 64 KiB, and {cut}; see agent memory show")
    header = make_header(options, place, settings, model, tools, restored, memory)
    if log is not None and restored is not None and restored.rebuilt:
        log.put_header(header)
    log = log or new_log(settings, store, header, restored, warn)
    if restored is not None:
        context.seen |= restored.seen
        context.plan = restored.plan
        if restored.shell is not None:
            context.carry_on(restored.shell)
    transport = open_wire(model, settings)
    if options.debug:
        transport = debugged(transport, model, place, header, warn)
    kit = TurnDeps(
        transport,
        tools,
        context,
        policy,
        approver,
        price=pricing(model, info),
        guards=guards,
        verify=settings.verify,
        asker=asker,
        attended=attended,
        fallbacks=[later_model(name, settings, place) for name in settings.fallback_models],
        small=cache(later_model(settings.small_model, settings, place)) if settings.small_model else None,
    )
    kit.agents = added.agent_types if any(tool.nested for tool in kit.tools.values()) else {}
    kit.open_model = lambda name: later_model(name, settings, place)()
    kit.watch = keeper(place, settings, header.session_id, lambda: conversation.options.label)
    kit.report = lambda error: write_report(error, place.env)
    kit.save_rule = rule_saver(options, place, layers) if attended else None
    known = header.session_id, store.path(header.session_id) if settings.save_sessions else None
    kit.hooks = make_hooks(
        settings, layers, place, context, known, answered, lambda: conversation.options.label, embedded.hooks
    )
    conversation = Conversation(
        kit,
        turn_options(settings, model, header, tool_specs(tools, context)).but(
            takes=takes,
            context_window=window_of(info, settings),
            # Where a user sits, what a resumed turn asks is for them; else it is for whoever `--on-ask` names.
            saved=saved_with(options.but(on_ask="suspend") if attended else options, place, settings, layers.trust),
        ),
        log.record if log is not None else _keep_nothing,
        restored.history if restored else (),
    )
    if restored is not None:
        kit.window = Window(restored.compactions, restored.pins, restored.report)
        conversation.plans = list(restored.plans)
        asked = restored.waiting.questions if restored.waiting else {}
        kit.held.update((i, question.ran) for i, question in asked.items() if question.ran is not None)
    conversation.attached = attached
    conversation.inbox += changed_memory(header, memory, restored)
    conversation.expand = lambda text: expand_message(text, added.commands, context)
    if restored is not None and restored.last is None:
        started = restored.started
        conversation.closing = lambda call: BROKEN_OFF if call.id in started else NOT_BEGUN
        if restored.waiting is not None:
            waits = {call.id for call in restored.waiting.calls}
            conversation.broken_off = frozenset(c.id for c in pending_calls(restored.history)) - waits
    agent = Agent(conversation, place, layers, settings, model, info, header, log, restored, added, memory)
    join_servers(agent, options, warn)
    return agent


def join_servers(agent: Agent, options: RunOptions, warn: Callable[[str], None]) -> None:
    """Give the session its MCP servers; where no person watches, they are waited for here. Raises UsageError."""
    try:
        servers = make_servers(options, agent.place, agent.layers, agent.settings, warn)
        if servers is None:
            return
        conversation, context = agent.conversation, agent.conversation.kit.context
        agent.mcp = joined = SessionServers(servers, agent, warn)
        conversation.prepare = joined.settle

        def expand(text: str) -> str | ExpandedPrompt:
            given = expand_message(text, agent.commands, context)
            return joined.expand(given) if isinstance(given, str) else given

        conversation.expand = expand
        if not conversation.kit.attended:
            joined.settle()
    except BaseException:  # also an interrupt: the session is released; whoever builds it tells why
        agent.close()
        raise


def switch_model(agent: Agent, name: str) -> None:
    """Go on with another model in the same conversation. Raises UsageError."""
    model = choose_model(name, agent.settings, agent.place)
    check_price(model, lookup(model.provider, model.model), agent.settings)
    conversation = agent.conversation
    conversation.kit.transport = open_wire(model, agent.settings)
    info = lookup(model.provider, model.model)
    conversation.kit.price = pricing(model, info)
    takes = taken_by(info, agent.settings)
    conversation.options = conversation.options.but(model=model.model, label=model.name, takes=takes)
    conversation.options = conversation.options.but(context_window=window_of(info, agent.settings))
    agent.model, agent.info = model, info


def make_workspace(place: RunEnvironment, settings: Settings) -> Workspace:
    """The folders that tools may work in freely. Raises UsageError for one that is not there."""
    extra = tuple(Path(os.path.expanduser(d)) for d in settings.permissions.additional_directories)
    for folder in extra:
        if not os.path.isdir(folder):  # noqa: PTH112 - the method raises where a parent is closed
            raise UsageError(f"--add-dir: {folder} is not a folder.")
    return Workspace(place.root, extra, place.cwd)


def make_context(
    workspace: Workspace, settings: Settings, place: RunEnvironment, *, demand_read: bool = True
) -> ToolContext:
    known = {"shell_timeout": settings.shell.timeout, "env_pass": settings.shell.env_pass}
    known |= {"after_edit": settings.after_edit}
    known["web"] = {name: getattr(settings.web, name) for name in settings.web._fields}
    context = ToolContext(workspace, env=dict(place.env), settings=known, demand_read=demand_read)
    context.sandbox = make_confinement(workspace, settings, place)
    return context


def choose_tools(
    settings: Settings,
    rules: list[Rule],
    context: ToolContext,
    restored: Restored | None,
    more: Sequence[Tool[Any]] = (),
    embedded: Sequence[Tool[Any]] = (),
) -> list[Tool[Any]]:
    """The tools of a session: fixed at its first request. A tool that is denied as a whole is not offered.

    more: tools beside the built-in ones. embedded: those that the embedding program brings, offered in every session.
    Raises UsageError for a name that is no tool.
    """
    known = {tool.name: tool for tool in [*BUILTIN, *more]}
    if twice := next((t.name for t in embedded if t.name in known), ""):
        raise UsageError(f"There is a tool named {twice} already: give yours another name.")
    known |= {tool.name: tool for tool in embedded}
    named = [n for n in settings.tools or () if n != "default" and not n.startswith("mcp__")]
    if unknown := [n for n in named if n not in known]:
        raise UsageError(f"There is no tool named {unknown[0]}. The tools are: {', '.join(known)}.")
    own = [tool.name for tool in embedded]
    if restored is not None and not restored.rebuilt:
        return [known[n] for n in dict.fromkeys((*restored.header.tools, *own)) if n in known]
    denied = {r.tool for r in rules if r.list == "deny" and r.spec is None}
    wanted = set(known) if settings.tools is None or "default" in settings.tools else {*settings.tools, *own}
    return [t for t in known.values() if t.name in wanted - denied and t.available(context)]


def tool_specs(tools: list[Tool[Any]], context: ToolContext | None = None) -> tuple[ToolSpec, ...]:
    """The tools as the model is told of them; without a context, what is true everywhere."""
    return tuple(ToolSpec(t.name, _description(t, context), t.schema()) for t in tools)


def _description(tool: Tool[Any], context: ToolContext | None) -> str:
    try:
        text = tool.told or prompt(f"tools/{tool.name}")
    except FileNotFoundError:
        text = (tool.__doc__ or tool.name).strip()
    here = tool.teach(context) if context is not None else ""
    return f"{text}\n\n{here}" if here else text


def _schema(text: str) -> dict[str, Any]:
    try:
        return read_schema(text)
    except ValueError as error:
        raise UsageError(f"--json-schema: {error}") from None


def turn_options(settings: Settings, model: ResolvedModel, header: Header, specs: tuple[ToolSpec, ...]) -> TurnOptions:
    """The flat options of a turn, from the settings. Raises UsageError."""
    if not 0 <= settings.compact_at <= 1:
        raise UsageError("compact_at is a share of the model's window: a number from 0 to 1, such as 0.92.")
    return TurnOptions(
        model=model.model,
        label=model.name,
        system=header.system,
        tools=specs,
        limits=Limits(
            settings.max_rounds,
            settings.max_seconds,
            settings.max_tool_calls,
            settings.max_cost,
            settings.max_failures,
            settings.max_denials,
        ),
        max_tokens=settings.max_tokens,
        temperature=settings.temperature,
        effort=settings.effort,
        thinking_tokens=settings.thinking_tokens,
        reasoning_summary=settings.reasoning_summary,
        keep_thinking=settings.keep_thinking,
        prefill=settings.prefill,
        stream=settings.stream,
        plan_review=settings.plan_review,
        review=settings.review,
        plan_nudges=settings.plan_nudges,
        plan_reminder=settings.plan_reminder,
        compact_at=settings.compact_at,
        after_turn=settings.after_turn,
        after_turn_tries=settings.after_turn_tries,
        after_turn_timeout=settings.after_turn_timeout,
        hook_continues=settings.hook_continues,
    )


def saved_with(options: RunOptions, place: RunEnvironment, settings: Settings, trust: Trust) -> dict[str, Any]:
    """What a suspended turn is resumed with, as plain data; the rules are added when the turn starts."""
    return {
        "settings": to_plain(settings),
        "mcp_config": [c for c in options.mcp_config if not c.lstrip().startswith("{")],
        "strict_mcp_config": options.strict_mcp_config,
        "cwd": str(place.cwd),
        "root": str(place.root),
        "on_ask": options.on_ask,
        "bare": options.bare,
        "trust": options.trust and trust.trusted,
        "json_schema": options.json_schema,
    }


def _keep_nothing(event: Event) -> None:
    """The log of a run that keeps nothing."""
