"""Build the object graph: options and settings in, a conversation ready to run out.

Nothing here prints or decides how a run looks; the front ends do. User errors are `UsageError`s: one sentence, exit 2.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from agent_cli.config.layers import Layers
from agent_cli.config.run_options import RunOptions
from agent_cli.config.schema import Settings, TurnSettings
from agent_cli.core.decisions import Approver, Asker, defer
from agent_cli.core.events import SessionNamed
from agent_cli.core.messages import pending_calls
from agent_cli.core.results import Limits
from agent_cli.core.rules import Trust
from agent_cli.core.run_environment import RunEnvironment, UsageError
from agent_cli.core.window import Window
from agent_cli.engine.conversation import Conversation
from agent_cli.engine.turn import TurnDeps
from agent_cli.engine.types import ConversationState, LiveMapping, ModelHandle, ToolTable, TurnOptions
from agent_cli.extensions.commands import expand_message
from agent_cli.extensions.loader import (
    WORKFLOWS,
    Embedded,
    active_style,
    command_source,
    load_extensions,
    with_agent,
)
from agent_cli.memory.files import Memory, NestedMemory, load_memory
from agent_cli.providers.base import ToolSpec
from agent_cli.providers.registry import is_loopback_url
from agent_cli.providers.resolve import ResolvedModel
from agent_cli.runtime.agent import Agent
from agent_cli.runtime.attachments import attach_images
from agent_cli.runtime.checkpoints import checkpoint_keeper
from agent_cli.runtime.environment import check_mode, memory_sources
from agent_cli.runtime.hooks import active_hooks, make_hooks
from agent_cli.runtime.mcp import SessionServers, make_servers
from agent_cli.runtime.models import (
    ChosenModel,
    input_modalities,
    lazy_model,
    log_requests,
    make_planner,
    model_handle,
    open_client,
    open_debug,
    wants_small_profile,
)
from agent_cli.runtime.session import (
    ATTENDED_LOCK_WAIT_SECONDS,
    LOCK_WAIT_SECONDS,
    make_header,
    model_name,
    new_log,
    open_session,
    sanitize_title,
    session_origin,
    session_recorder,
)
from agent_cli.runtime.system_prompt import PromptFacts, RepositoryState, system_prompt, working_files
from agent_cli.runtime.tools import (
    choose_tools,
    make_context,
    make_workspace,
    rule_saver,
    tool_specs,
    warn_unknown_rules,
)
from agent_cli.session.files import results_folder
from agent_cli.session.log import SessionLog
from agent_cli.session.records import Header, Restored
from agent_cli.session.store import SessionStore, state_folder, write_crash_report
from agent_tools.base import ToolContext
from agent_tools.lazy import lazy_imports
from agent_tools.record import to_json
from agent_tools.shell.state import restore_carried

if TYPE_CHECKING:
    pass

with lazy_imports():
    from agent_cli.core import message_ids  # only for frames
    from agent_cli.engine import structured_output
    from agent_cli.runtime import (
        moved_project,  # only to resume a session
        recording,  # only for runs that are recorded or replayed
        session_change,  # only to resume a session
        transcripts,  # only with hooks or a host
    )

BROKEN_OFF = "Interrupted: the program ended before this finished. It may have run in part; check before you repeat it."
NOT_STARTED = "Interrupted: the program ended before this finished. It had not begun."


_PARALLEL_SUBAGENTS = 4


def build_agent(
    options: RunOptions,
    run_env: RunEnvironment,
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
        run_env = run_env.replace(env={**run_env.env, **layers.env})
    check_mode(settings.permissions.mode, run_env.env, layers.managed)
    if options.agent:
        settings = with_agent(options, run_env, layers, settings, embedded)
    servers = make_servers(options, run_env, layers, settings, warn, embedded.host)
    store = SessionStore(state_folder(run_env.env), run_env.root)
    if options.continue_ or options.resume:
        options = moved_project.follow_moved_project(options, store, run_env, layers, warn)
    log, restored = open_session(
        options, settings, store, warn, ATTENDED_LOCK_WAIT_SECONDS if attended else LOCK_WAIT_SECONDS, run_env
    )
    if restored is not None and options.fork_session:
        restored = moved_project.with_new_paths(restored, run_env.root)
    old = restored.header if restored is not None and not restored.rebuilt else None
    chosen = ChosenModel(model_name(options, settings, restored), settings, run_env)
    model, info = chosen.resolved, chosen.info
    small = old.small if old is not None else wants_small_profile(settings, model.model, chosen.window)
    answered = attended or embedded.approves or options.on_ask == "suspend"
    can_ask = answered or embedded.answers

    # Git works meanwhile.
    repository = RepositoryState(run_env, layers) if old is None else None
    added = load_extensions(options, run_env, layers, settings, warn)
    added.embed(embedded)
    workspace = make_workspace(run_env, settings, added.readable_folders())
    context, policy = make_context(
        workspace, settings, layers, run_env, answered=answered, small_model=small, extensions=added.offered(),
        input_modalities=input_modalities(info, settings, chosen.window),
    )  # fmt: skip
    attached = attach_images(options.image, workspace, model.name, context.input_modalities)
    offered = choose_tools(
        settings, layers.rules, context, restored, added.tools, embedded.tools,
        model=model.name, answered=can_ask, small=small,
    )  # fmt: skip
    warn_unknown_rules(layers.rules, [*added.tools, *embedded.tools], warn)
    tools, guards = offered, []
    if options.json_schema is not None:
        tools = [*offered, structured_output.StructuredOutput(_schema(options.json_schema))]
        guards.append(structured_output.answer_guard)
    memory = _load_memory(options, run_env, layers, settings, context, warn)
    facts = PromptFacts(
        run_env,
        model.name,
        small,
        can_ask,
        lambda: (repository or RepositoryState(run_env, layers)).text(),
        lambda: working_files(context),
        active_style(options, run_env, layers, settings, warn) if old is None else "",
    )
    system = lambda: system_prompt(facts, settings, memory)  # noqa: E731 - made only where it is needed
    header = make_header(options, run_env, model, offered, restored, system, answered=can_ask, small=small)
    if log is not None and restored is not None and restored.rebuilt:
        log.put_header(header)
    log = log or new_log(settings, store, header, restored, warn)
    if log is not None:
        _keep_results(context, settings, store, header, log)
    if restored is not None:
        _restore_context(context, restored)

    lazy: Callable[[str, Settings, RunEnvironment], Callable[[], ModelHandle]] = lazy_model
    if options.record or model.recording:
        exchange = recording.open_exchange(options.record, chosen, settings, run_env)
        client, lazy = exchange.client(), exchange.lazy_model
    else:
        client = open_client(model, settings, chosen.window)
    debug_log = open_debug(model, run_env, options, header.session_id, warn)
    client = log_requests(client, debug_log)
    handle = model_handle(model, info, settings, client, chosen.window)

    state = _conversation_state(restored)
    state.window.model = model.name
    hooked = bool(active_hooks(settings, layers) or embedded.hooks or added.has_hooks)
    transcript = ids = None
    if log is not None and (hooked or settings.transcript == "claude" or options.hosted):
        transcript = transcripts.make_transcript(options, settings, run_env, header, log, warn, embedded.mirror)
        if transcript is not None:
            state.agent_transcript = transcript.of_subagent
    if options.output_format == "stream-json":
        ids = message_ids.MessageIds(header.session_id, transcripts.message_counts(header, restored, log))
    known = header.session_id, transcript.wanted if transcript is not None else lambda: log.path if log else None
    table = ToolTable(tools, embedded.tool_aliases)
    deps = TurnDeps(
        client,
        table,
        context,
        policy,
        approver,
        state,
        price=handle.price,
        guards=guards,
        fallbacks=[lazy(name, settings, run_env) for name in settings.fallback_models],
        planner=make_planner(chosen, handle, lambda name: lazy(name, settings, run_env)),
        small=cache(lazy(settings.small_model, settings, run_env)) if settings.small_model else None,
        open_model=lambda name: lazy(name, settings, run_env)(),
        verify=settings.verify,
        asker=asker,
        attended=attended,
        save_rule=rule_saver(options, run_env, layers) if answered else None,
        report=lambda error: write_crash_report(error, run_env.env),
        watch=checkpoint_keeper(run_env, settings, header.session_id),
        hooks=make_hooks(settings, layers, run_env, context, known, chosen.label, embedded.hooks, state, servers),
        agents=added.agent_types if any(tool.nested for tool in tools) else {},
        workflows=WORKFLOWS,
    )
    commands = LiveMapping(added.commands)
    # With a user present, questions of a resumed turn go to them; otherwise `--on-ask` decides.
    resumed_by = options.replace(on_ask="suspend") if attended else options
    conversation = Conversation(
        deps,
        handle.options(turn_options(settings, model, header, tool_specs(tools, context, small=small))).replace(
            saved=resume_payload(resumed_by, run_env, settings, layers.trust)
        ),
        session_recorder(log, transcript, ids, debug_log, embedded.record),
        restored.history if restored else (),
        expanders=[lambda text: expand_message(text, commands, context)],
        attached=attached,
        notes=[
            *(session_change.notes(header, restored, memory, run_env, layers, answered=can_ask) if restored else ()),
        ],
        plans=restored.plans if restored is not None else (),
        origin=session_origin(options, settings, restored),
        plan_workflow=embedded.plan_workflow,
        command_source=lambda name: command_source(name, commands),
        **calls_left_open(restored),
    )
    joined = (
        SessionServers(servers, conversation, table, commands, layers.rules, settings, chosen, warn)
        if servers is not None
        else None
    )
    agent = Agent(
        conversation, run_env, layers, settings, chosen, header, log, restored, added, commands, memory, joined,
        transcript, ids,
    )  # fmt: skip
    if options.name and (name := sanitize_title(options.name)):
        agent.rename(SessionNamed(name))
    if joined is not None and not attended and embedded.waits:
        try:
            joined.wait_ready()
        except BaseException:  # also an interrupt: release the session; the caller reports the error
            agent.close()
            raise
    return agent


def _load_memory(
    options: RunOptions,
    run_env: RunEnvironment,
    layers: Layers,
    settings: Settings,
    context: ToolContext,
    warn: Callable[[str], None],
) -> Memory:
    """Load the memory files; those of subfolders are read when tools touch these."""
    if options.bare:
        return Memory()
    sources = memory_sources(run_env, settings, layers.trust, context.readable, options)
    memory = load_memory(sources)
    context.nested_memory = NestedMemory(sources, memory) if sources.project else None
    for cut in memory.cuts:
        warn(f"all memory files together may have 64 KiB, and {cut}; see agent memory show")
    return memory


def _keep_results(
    context: ToolContext, settings: Settings, store: SessionStore, header: Header, log: SessionLog
) -> None:
    """Save long results of tools with the session, and find those of the sessions that it was copied from."""
    copies = tuple(results_folder(store.path(session_id)) for session_id in store.copied_from(header))
    most = round(settings.results.max_mb * 1_000_000)
    context.workspace.scratch.keep_in(results_folder(log.path), lambda: log.redact, most, copies)


def _restore_context(context: ToolContext, restored: Restored) -> None:
    """Give the tools what they knew when the session was left: files read, the plan, the state of the shell."""
    context.seen |= restored.seen
    context.plan = restored.plan
    if restored.shell is not None:
        restore_carried(context, restored.shell)


def _conversation_state(restored: Restored | None) -> ConversationState:
    """Return the state of a new conversation, or of the resumed one."""
    state = ConversationState()
    if restored is not None:
        from datetime import datetime  # only a resumed session needs it

        state.began = datetime.fromisoformat(restored.created).timestamp()
        state.window = Window(restored.compactions, restored.pins, restored.report, restored.left_out, restored.refusal)
        asked = restored.waiting.questions if restored.waiting else {}
        state.held.update((i, question.ran) for i, question in asked.items() if question.ran is not None)
    return state


def calls_left_open(restored: Restored | None) -> dict[str, Any]:
    """Return how to answer calls that were open when an earlier process ended, and which had started."""
    if restored is None or restored.last is not None:
        return {}
    started = restored.started
    found: dict[str, Any] = {"open_call_reason": lambda call: BROKEN_OFF if call.id in started else NOT_STARTED}
    if restored.waiting is not None:
        waits = {call.id for call in restored.waiting.calls}
        found["broken_off"] = frozenset(c.id for c in pending_calls(restored.history)) - waits
    return found


def _schema(text: str) -> dict[str, Any]:
    try:
        return structured_output.read_schema(text)
    except ValueError as error:
        raise UsageError(f"--json-schema: {error}") from None


def turn_options(settings: Settings, model: ResolvedModel, header: Header, specs: tuple[ToolSpec, ...]) -> TurnOptions:
    """Return the options of a turn from the settings. Raises UsageError."""
    if not 0 <= settings.compact_at <= 1:
        raise UsageError("compact_at is a share of the model's window: a number from 0 to 1, such as 0.92.")
    shared = {name: getattr(settings, name) for name in TurnSettings._fields}
    if not all(0 < share <= 1 for share in settings.results.clear_at):
        raise UsageError("results.clear_at has shares of the model's window: numbers from 0 to 1, such as [0.5, 0.75].")
    limits = Limits(**{name: getattr(settings, f"max_{name}") for name in Limits._fields})
    fixed = {"model": model.model, "label": model.name, "system": header.system, "tools": specs, "limits": limits}
    fixed["cache_key"] = header.session_id
    fixed["clear_at"] = settings.results.clear_at if settings.results.clear else ()
    if not settings.max_parallel_subagents:
        # A server on this machine answers one after another, and caches the prompt of one conversation.
        fixed["max_parallel_subagents"] = 1 if is_loopback_url(model.base_url) else _PARALLEL_SUBAGENTS
    return TurnOptions(**{**shared, **fixed})


def resume_payload(options: RunOptions, run_env: RunEnvironment, settings: Settings, trust: Trust) -> dict[str, Any]:
    """Return what a suspended turn is resumed with, as JSON data; the rules are added when the turn starts."""
    return {
        "settings": to_json(settings),
        "mcp_config": [c for c in options.mcp_config if not c.lstrip().startswith("{")],
        "strict_mcp_config": options.strict_mcp_config,
        "cwd": str(run_env.cwd),
        "root": str(run_env.root),
        "on_ask": options.on_ask,
        "bare": options.bare,
        "trust": options.trust and trust.trusted,
        "json_schema": options.json_schema,
    }
