"""Build the object graph: options and settings in, a conversation ready to run out.

Nothing here prints or decides how a run looks; the front ends do. User errors are `UsageError`s: one sentence, exit 2.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from agent_cli.config.layers import Layers
from agent_cli.config.run_options import RunOptions
from agent_cli.config.schema import Settings
from agent_cli.core.decisions import Approver, Asker, defer
from agent_cli.core.events import SessionNamed, UsageAdded
from agent_cli.core.messages import pending_calls
from agent_cli.core.place import RunEnvironment, UsageError
from agent_cli.core.results import Limits, Usage
from agent_cli.core.rules import Trust
from agent_cli.core.window import Window
from agent_cli.engine.conversation import Conversation
from agent_cli.engine.turn import TurnDeps
from agent_cli.engine.types import ConversationState, LiveMapping, ModelHandle, ToolTable, TurnOptions
from agent_cli.extensions.commands import expand_message
from agent_cli.extensions.loader import (
    WORKFLOWS,
    Embedded,
    Extensions,
    active_style,
    command_source,
    load_extensions,
    with_agent,
)
from agent_cli.memory.files import Memory, NestedMemory, load_memory
from agent_cli.providers.base import ToolSpec
from agent_cli.providers.catalog import ModelInfo
from agent_cli.providers.resolve import ResolvedModel
from agent_cli.runtime.attachments import attach_images
from agent_cli.runtime.checkpoints import checkpoint_keeper
from agent_cli.runtime.environment import check_mode, memory_sources
from agent_cli.runtime.hooks import active_hooks, make_hooks
from agent_cli.runtime.mcp import SessionServers, make_servers
from agent_cli.runtime.models import (
    ChosenModel,
    debugged,
    input_modalities,
    lazy_model,
    model_handle,
    open_client,
    open_debug,
    planner_of,
    wants_small_profile,
)
from agent_cli.runtime.session import (
    ATTENDED_PATIENCE,
    PATIENCE,
    changed_memory,
    changed_presence,
    make_header,
    mark_resumed,
    model_name,
    new_log,
    open_session,
    sanitize_title,
    session_recorder,
)
from agent_cli.runtime.system_prompt import PromptFacts, RepositoryState, system_prompt, working_files
from agent_cli.runtime.tools import choose_tools, make_context, make_policy, make_workspace, rule_saver, tool_specs
from agent_cli.session.files import results_folder
from agent_cli.session.log import SessionLog
from agent_cli.session.records import Header, Restored
from agent_cli.session.store import SessionStore, state_folder, write_report
from agent_tools.base import UserCommand
from agent_tools.lazy import lazy_imports
from agent_tools.record import to_json
from agent_tools.shell.state import restore_carried

if TYPE_CHECKING:
    from agent_cli.core.message_ids import MessageIds
    from agent_cli.runtime.transcripts import SessionTranscript

with lazy_imports():
    from agent_cli.core import message_ids  # only for frames
    from agent_cli.engine import structured_output
    from agent_cli.runtime import (
        recording,  # only for runs that are recorded or replayed
        transcripts,  # only with hooks or a host
    )

BROKEN_OFF = "Interrupted: the program ended before this finished. It may have run in part; check before you repeat it."
NOT_BEGUN = "Interrupted: the program ended before this finished. It had not begun."


class Agent:
    """A conversation with everything it was built from. `close` releases the session.

    transcript: in Claude Code's shape, where somebody may want it.
    ids: the UUIDs of messages, for frames.
    """

    def __init__(
        self,
        conversation: Conversation,
        place: RunEnvironment,
        layers: Layers,
        settings: Settings,
        chosen: ChosenModel,
        header: Header,
        log: SessionLog | None,
        restored: Restored | None,
        added: Extensions,
        commands: LiveMapping[UserCommand],
        memory: Memory,
        mcp: SessionServers | None,
    ) -> None:
        self.conversation = conversation
        self.place = place
        self.layers = layers
        self.settings = settings
        self.chosen = chosen
        self.header = header
        self.restored = restored
        self.commands = commands
        self.added = added
        self.memory = memory
        self.mcp = mcp
        self._log = log
        self.name = restored.name if restored else ""
        self._unsaid: list[SessionNamed | UsageAdded] = []
        self.transcript: SessionTranscript | None = None
        self.ids: MessageIds | None = None

    @property
    def model(self) -> ResolvedModel:
        """The model in use."""
        return self.chosen.resolved

    @property
    def structured(self) -> bool:
        """Return True if the answer is to fit a JSON schema."""
        return structured_output.NAME in self.conversation.deps.tools

    @property
    def info(self) -> ModelInfo | None:
        """The catalog's entry for the model, if any."""
        return self.chosen.info

    def rename(self, named: SessionNamed) -> None:
        """Name the session; callable from any thread. A session without messages stores the name with its first one."""
        self.name = named.name
        self._unsaid = [event for event in self._unsaid if not isinstance(event, SessionNamed)]
        self._record(named)

    def charge(self, model: str, usage: Usage) -> None:
        """Count a model call that the user made beside the turns; callable from any thread."""
        if usage != Usage():
            self._record(UsageAdded(model, usage, aside=True, of_turn=False))

    def _record(self, event: SessionNamed | UsageAdded) -> None:
        self._unsaid.append(event)
        self.record_unsaid()

    def record_unsaid(self) -> None:
        """Record the name and the costs so far, once the session has messages."""
        while self._unsaid and self.conversation.history:
            self.conversation.record(self._unsaid.pop(0))

    @property
    def unsaved(self) -> str:
        """Why the session could not be saved, as long as that is so; "" if it is, or should not be saved."""
        return self._log.warning if self._log is not None else ""

    def reload(self, added: Extensions) -> None:
        """Replace the commands, skills and types of sub-agents by those read now."""
        self.added = added
        added.install(self.conversation.deps.context)
        if self.mcp is not None:
            self.mcp.replace_commands(added.commands)
        else:
            self.commands.replace(added.commands)
        if self.conversation.deps.agents:
            self.conversation.deps = self.conversation.deps.replace(agents=added.agent_types)

    def begin(self, after: float = 0.0) -> None:
        """Start connecting the MCP servers in the background, after so many seconds."""
        if self.mcp is not None:
            self.mcp.servers.begin(after)

    def close(self, reason: str = "other") -> None:
        """Stop background work and release the session. reason: passed to the SessionEnd hooks."""
        try:
            self.record_unsaid()
            self.conversation.end(reason)
        finally:
            self.conversation.deps.context.close()
            self.conversation.deps.watch.close()
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
    asker: Asker = defer,
    attended: bool = False,
    embedded: Embedded = Embedded(),  # noqa: B008 - frozen
) -> Agent:
    """Build an agent for one run. Raises UsageError.

    attended: a user is present. embedded: additions of the embedding program.
    """
    settings = layers.settings()
    if layers.env:
        place = place.replace(env={**place.env, **layers.env})
    check_mode(settings.permissions.mode, place.env, layers.managed)
    if options.agent:
        settings = with_agent(options, place, layers, settings, embedded)
    servers = make_servers(options, place, layers, settings, warn, embedded.host)
    store = SessionStore(state_folder(place.env), place.root)
    log, restored = open_session(options, settings, store, warn, ATTENDED_PATIENCE if attended else PATIENCE, place)
    chosen = ChosenModel(model_name(options, settings, restored), settings, place)
    model, info = chosen.resolved, chosen.info
    workspace = make_workspace(place, settings)
    old = restored.header if restored is not None and not restored.rebuilt else None
    small = old.small if old is not None else wants_small_profile(settings, model.model, chosen.window)
    context = make_context(workspace, settings, place, small_model=small)
    answered = attended or embedded.approves or options.on_ask == "suspend"
    asks = answered or embedded.answers
    policy = make_policy(workspace, settings, layers, context, place.home, answered=answered)
    context.input_modalities = takes = input_modalities(info, settings, chosen.window)
    attached = attach_images(options.image, workspace, model.name, takes)
    repository = RepositoryState(place, layers) if old is None else None
    added = load_extensions(options, place, layers, settings, warn)
    added.embed(embedded)
    added.install(context)
    offered = choose_tools(
        settings,
        layers.rules,
        context,
        restored,
        added.tools,
        embedded.tools,
        model=model.name,
        answered=asks,
        small=small,
    )
    tools, guards = offered, []
    if options.json_schema is not None:
        tools = [*offered, structured_output.StructuredOutput(_schema(options.json_schema))]
        guards.append(structured_output.answer_guard)
    memory = Memory()
    if not options.bare:
        sources = memory_sources(place, settings, layers.trust, context.readable, options)
        memory = load_memory(sources)
        context.nested_memory = NestedMemory(sources, memory) if sources.project else None
        for cut in memory.cuts:
            warn(f"all memory files together may have 64 KiB, and {cut}; see agent memory show")
    facts = PromptFacts(
        place,
        model.name,
        small,
        asks,
        lambda: (repository or RepositoryState(place, layers)).text(),
        lambda: working_files(context),
        active_style(options, place, layers, settings, warn) if old is None else "",
    )
    system = lambda: system_prompt(facts, settings, memory)  # noqa: E731 - made only where it is needed
    header = make_header(options, place, model, offered, restored, system, answered=asks, small=small)
    if log is not None and restored is not None and restored.rebuilt:
        log.put_header(header)
    log = log or new_log(settings, store, header, restored, warn)
    if log is not None:
        copies = tuple(results_folder(store.path(session_id)) for session_id in store.copied_from(header))
        most = round(settings.results.max_mb * 1_000_000)
        workspace.scratch.keep_in(results_folder(log.path), lambda: log.redact, most, copies)
    if restored is not None:
        context.seen |= restored.seen
        context.plan = restored.plan
        if restored.shell is not None:
            restore_carried(context, restored.shell)
    further: Callable[[str, Settings, RunEnvironment], Callable[[], ModelHandle]] = lazy_model
    if options.record or model.recording:
        exchange = recording.open_exchange(options.record, chosen, settings, place)
        client, further = exchange.client(), exchange.further
    else:
        client = open_client(model, settings, chosen.window)
    debug_log = open_debug(model, place, options, header.session_id, warn)
    client = debugged(client, debug_log)
    handle = model_handle(model, info, settings, client, chosen.window)
    table = ToolTable(tools, embedded.tool_aliases)
    state = ConversationState()
    if restored is not None:
        from datetime import datetime  # only a resumed session needs it

        state.began = datetime.fromisoformat(restored.created).timestamp()
        state.window = Window(restored.compactions, restored.pins, restored.report)
        asked = restored.waiting.questions if restored.waiting else {}
        state.held.update((i, question.ran) for i, question in asked.items() if question.ran is not None)
    transcript = None
    hooked = bool(active_hooks(settings, layers) or embedded.hooks or added.has_hooks)
    if log is not None and (hooked or settings.transcript == "claude" or options.hosted):
        transcript = transcripts.make_transcript(options, settings, place, header, log, warn)
    if transcript is not None:
        state.agent_transcript = transcript.of_subagent
    stream = options.output_format == "stream-json"
    ids = (
        message_ids.MessageIds(header.session_id, transcripts.message_counts(header, restored, log)) if stream else None
    )

    known = header.session_id, transcript.wanted if transcript is not None else lambda: log.path if log else None
    deps = TurnDeps(
        client,
        table,
        context,
        policy,
        approver,
        state,
        price=handle.price,
        guards=guards,
        fallbacks=[further(name, settings, place) for name in settings.fallback_models],
        planner=planner_of(chosen, handle, lambda name: further(name, settings, place)),
        small=cache(further(settings.small_model, settings, place)) if settings.small_model else None,
        open_model=lambda name: further(name, settings, place)(),
        verify=settings.verify,
        asker=asker,
        attended=attended,
        save_rule=rule_saver(options, place, layers) if attended or embedded.approves else None,
        report=lambda error: write_report(error, place.env),
        watch=checkpoint_keeper(place, settings, header.session_id),
        hooks=make_hooks(
            settings, layers, place, context, known, chosen.label, embedded.hooks, lambda: conversation, servers
        ),
        agents=added.agent_types if any(tool.nested for tool in tools) else {},
        workflows=WORKFLOWS,
    )
    commands = LiveMapping(added.commands)
    conversation = Conversation(
        deps,
        handle.options(turn_options(settings, model, header, tool_specs(tools, context, small=small))).replace(
            # With a user present, questions of a resumed turn go to them; otherwise `--on-ask` decides.
            saved=resume_payload(
                options.replace(on_ask="suspend") if attended else options, place, settings, layers.trust
            ),
        ),
        session_recorder(log, transcript, ids, debug_log),
        restored.history if restored else (),
        expanders=[lambda text: expand_message(text, commands, context)],
        attached=attached,
        notes=[*changed_memory(header, memory, restored), *changed_presence(header, restored, answered=asks)],
        plans=restored.plans if restored is not None else (),
        **_broken_off(restored),
    )
    if restored is not None:
        mark_resumed(conversation, restored, settings, fork=options.fork_session)
    conversation.setup = "init" if options.init else "maintenance" if options.maintenance else ""
    conversation.plan_workflow = embedded.plan_workflow
    conversation.command_source = lambda name: command_source(name, commands)
    joined = (
        SessionServers(servers, conversation, table, commands, layers.rules, settings, chosen, warn)
        if servers is not None
        else None
    )
    agent = Agent(conversation, place, layers, settings, chosen, header, log, restored, added, commands, memory, joined)
    agent.transcript, agent.ids = transcript, ids
    if options.name and (name := sanitize_title(options.name)):
        agent.rename(SessionNamed(name))
    if joined is not None and not attended and embedded.waits:
        try:
            joined.wait_ready()
        except BaseException:  # also an interrupt: release the session; the caller reports the error
            agent.close()
            raise
    return agent


def _broken_off(restored: Restored | None) -> dict[str, Any]:
    """Return how to answer calls that were open when an earlier process ended, and which had started."""
    if restored is None or restored.last is not None:
        return {}
    started = restored.started
    found: dict[str, Any] = {"open_call_reason": lambda call: BROKEN_OFF if call.id in started else NOT_BEGUN}
    if restored.waiting is not None:
        waits = {call.id for call in restored.waiting.calls}
        found["broken_off"] = frozenset(c.id for c in pending_calls(restored.history)) - waits
    return found


def switch_model(agent: Agent, name: str) -> None:
    """Continue the conversation with another model. Raises UsageError."""
    agent.chosen.change(name)
    conversation, model, info = agent.conversation, agent.model, agent.info
    client = open_client(model, agent.settings, agent.chosen.window)
    handle = model_handle(model, info, agent.settings, client, agent.chosen.window)
    planner = planner_of(agent.chosen, handle, lambda name: lazy_model(name, agent.settings, agent.place))
    conversation.deps = conversation.deps.replace(transport=client, price=handle.price, planner=planner)
    conversation.options = handle.options(conversation.options)


def _schema(text: str) -> dict[str, Any]:
    try:
        return structured_output.read_schema(text)
    except ValueError as error:
        raise UsageError(f"--json-schema: {error}") from None


def turn_options(settings: Settings, model: ResolvedModel, header: Header, specs: tuple[ToolSpec, ...]) -> TurnOptions:
    """Return the options of a turn from the settings. Raises UsageError."""
    if not 0 <= settings.compact_at <= 1:
        raise UsageError("compact_at is a share of the model's window: a number from 0 to 1, such as 0.92.")
    shared = {name: getattr(settings, name) for name in TurnOptions._fields if name in Settings._fields}
    if not all(0 < share <= 1 for share in settings.results.clear_at):
        raise UsageError("results.clear_at has shares of the model's window: numbers from 0 to 1, such as [0.5, 0.75].")
    limits = Limits(**{name: getattr(settings, f"max_{name}") for name in Limits._fields})
    own = {"model": model.model, "label": model.name, "system": header.system, "tools": specs, "limits": limits}
    own["cache_key"] = header.session_id
    own["clear_at"] = settings.results.clear_at if settings.results.clear else ()
    return TurnOptions(**{**shared, **own})


def resume_payload(options: RunOptions, place: RunEnvironment, settings: Settings, trust: Trust) -> dict[str, Any]:
    """Return what a suspended turn is resumed with, as JSON data; the rules are added when the turn starts."""
    return {
        "settings": to_json(settings),
        "mcp_config": [c for c in options.mcp_config if not c.lstrip().startswith("{")],
        "strict_mcp_config": options.strict_mcp_config,
        "cwd": str(place.cwd),
        "root": str(place.root),
        "on_ask": options.on_ask,
        "bare": options.bare,
        "trust": options.trust and trust.trusted,
        "json_schema": options.json_schema,
    }
