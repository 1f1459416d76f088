"""Build the object graph: configuration and settings in, a conversation ready to run out.

Nothing here prints or decides how a run looks; the front ends do. User errors are `UsageError`s: one sentence, exit 2.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from agent_cli.config.config import TELEMETRY_VARIABLE, Config
from agent_cli.config.layers import Layers
from agent_cli.config.schema import Settings, TurnSettings
from agent_cli.hooks import HookRegistry, HookSession
from agent_cli.kernel.decisions import Approver, Asker
from agent_cli.kernel.engine.environment import Environment, RepositoryState
from agent_cli.kernel.engine.turn import TurnDeps
from agent_cli.kernel.engine.types import ConversationState, LiveMapping, ModelHandle, ToolTable, TurnOptions
from agent_cli.kernel.messages import pending_calls
from agent_cli.kernel.results import Limits
from agent_cli.kernel.rules import Trust
from agent_cli.kernel.run_environment import RunEnvironment, UsageError
from agent_cli.kernel.runtime.checkpoints import checkpoint_keeper
from agent_cli.kernel.runtime.environment import check_mode, memory_sources
from agent_cli.kernel.runtime.mcp import make_servers
from agent_cli.kernel.runtime.models import (
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
from agent_cli.kernel.runtime.session_log import (
    ATTENDED_LOCK_WAIT_SECONDS,
    LOCK_WAIT_SECONDS,
    OpenedSession,
    make_header,
    memory_facts,
    model_name,
    new_log,
    read_session,
    session_origin,
    session_recorder,
)
from agent_cli.kernel.runtime.system_prompt import (
    PromptFacts,
    environment_block,
    system_prompt,
    working_files,
)
from agent_cli.kernel.runtime.tools import (
    choose_tools,
    make_context,
    make_workspace,
    requested_tools,
    rule_saver,
    schedule_rule_saver,
    tool_specs,
    warn_unknown_rules,
)
from agent_cli.kernel.session.files import projects_folder, results_folder
from agent_cli.kernel.session.log import SessionLog
from agent_cli.kernel.session.records import Header, Restored
from agent_cli.kernel.session.store import SessionStore, state_folder, write_crash_report
from agent_cli.kernel.window import Window
from agent_cli.knowledge.loader import (
    WORKFLOWS,
    Embedded,
    active_style,
    load_extensions,
    with_agent,
)
from agent_cli.knowledge.memory import Memory, NestedMemory
from agent_cli.models.base import ToolSpec
from agent_cli.models.registry import is_loopback_url
from agent_cli.models.resolve import ResolvedModel
from agent_tools.base import ToolContext
from agent_tools.lazy import lazy_imports
from agent_tools.record import to_json
from agent_tools.registry import BUILTIN
from agent_tools.shell.state import restore_carried

if TYPE_CHECKING:
    from agent_cli.config.telemetry import TelemetryOptions
    from agent_cli.kernel.engine.turn import Guard
    from agent_cli.kernel.message_ids import MessageIds
    from agent_cli.kernel.runtime.transcripts import SessionTranscript
    from agent_cli.telemetry.listener import SessionTelemetry
    from agent_tools.process.guarded_git import GitRun

with lazy_imports():
    from agent_cli.kernel import message_ids  # only for frames
    from agent_cli.kernel.engine import structured_output
    from agent_cli.kernel.runtime import (
        attachments,  # few messages have images
        hooks,  # only with hooks
        moved_project,  # only to resume a session
        recording,  # only for runs that are recorded or replayed
        session_change,  # only to resume a session
        telemetry,  # only if the user exports any
        transcripts,  # only with hooks or a host
    )
    from agent_cli.policy import git_use
    from agent_cli.stage import session as staged  # only in a stage

BROKEN_OFF = "Interrupted: the program ended before this finished. It may have run in part; check before you repeat it."
NOT_STARTED = "Interrupted: the program ended before this finished. It had not begun."


_PARALLEL_SUBAGENTS = 4
# Shares of the window (of 128,000 tokens at most) at which old results are cleared: output and searches, then files.
_CLEAR_AT = (0.5, 0.75)
# The most that the long results of a session may take on disk; the oldest are deleted first.
_MAX_RESULTS_BYTES = 200_000_000


def build_session(
    opened: OpenedSession,
    run_env: RunEnvironment,
    layers: Layers,
    answered: tuple[Approver, Asker],
    warn: Callable[[str], None],
    embedded: Embedded,
    *,
    attended: bool,
) -> SessionBuild:
    """Return everything that a session is made of. Raises UsageError. attended: a user is present."""
    config, settings = opened.config, layers.settings()
    if layers.env:
        run_env = run_env.replace(env={**run_env.env, **layers.env})
    env, exported = run_env.env, None
    if env.get(TELEMETRY_VARIABLE) or layers.managed.env:
        exported = telemetry.telemetry_wanted(env, layers.managed.env)
        run_env = run_env.replace(env=telemetry.without_telemetry(env)) if exported is not None else run_env
    check_mode(settings.permissions.mode, run_env.env, layers.managed)
    if run_env.stage is not None:
        settings = staged.settings_in_stage(settings)
    if config.agent:
        settings = with_agent(config, run_env, layers, settings, embedded)
    build = SessionBuild(opened, run_env, layers, settings, warn, embedded, attended=attended)
    build.choose_model()
    build.load_extensions()
    build.choose_tools()
    build.make_header()
    build.open_model()
    build.keep_transcript()
    if exported is not None:
        build.start_telemetry(exported, env)
    build.make_turns(*answered)
    return build


class SessionBuild:
    """What a session is made of: each step uses what those before it have made.

    answered: somebody approves calls. can_ask: somebody answers the model's questions.
    small: the prompt and tools are those of small models.
    """

    def __init__(
        self,
        opened: OpenedSession,
        run_env: RunEnvironment,
        layers: Layers,
        settings: Settings,
        warn: Callable[[str], None],
        embedded: Embedded,
        *,
        attended: bool,
    ) -> None:
        self.config, self.log, self.restored = opened.config, opened.log, opened.restored
        self.run_env, self.layers, self.settings = run_env, layers, settings
        self.warn, self.embedded, self.attended = warn, embedded, attended
        self.answered = attended or embedded.approves or self.config.on_ask == "suspend"
        self.can_ask = self.answered or embedded.answers
        self.servers = make_servers(self.config, run_env, layers, settings, warn, embedded.host)
        self.store = SessionStore.of(run_env)
        self.guards: list[Guard] = []
        self.transcript: SessionTranscript | None = None
        self.ids: MessageIds | None = None
        self.telemetry: SessionTelemetry | None = None
        stage = run_env.stage
        self.staged = staged.StagedSession(stage, lambda: self.policy, attended=attended) if stage is not None else None

    def choose_model(self) -> None:
        """Choose the model; of a session that is copied, name its files as they are called here."""
        if self.restored is not None and self.config.fork:
            self.restored = moved_project.with_new_paths(self.restored, self.run_env.root)
        known = self.restored is not None and not self.restored.rebuilt
        self.old = self.restored.header if self.restored is not None and known else None
        name = model_name(self.config, self.settings, self.restored)
        try:
            self.chosen = ChosenModel(name, self.settings, self.run_env)
        except UsageError:
            if self.log is not None:
                self.log.close()  # the user may connect a model, and try again
            raise
        wanted = wants_small_profile(self.settings, self.chosen.resolved.model, self.chosen.window)
        self.small = self.old.small if self.old is not None else wanted

    def load_extensions(self) -> None:
        """Load extensions, and make the context of tools and the policy."""
        settings, layers, run_env = self.settings, self.layers, self.run_env
        # Git works meanwhile.
        self.environment = Environment(run_env.root, self.git, answered=self.can_ask, small=self.small)
        self.repository = RepositoryState(run_env.root, self.git) if self.old is None else None
        self.added = load_extensions(self.config, run_env, layers, settings, self.warn)
        self.added.embed(self.embedded)
        workspace = make_workspace(run_env, settings, self.added.readable_folders())
        self.context, self.policy = make_context(
            workspace, settings, layers, run_env, answered=self.answered, small_model=self.small,
            extensions=self.added.offered(), staged=self.staged.state if self.staged is not None else None,
            input_modalities=input_modalities(self.chosen.info, settings, self.chosen.window),
            restricted=self.config.restricted,
        )  # fmt: skip
        self.attached = (
            attachments.Attachments(
                self.chosen.resolved.name, self.context, f"{self.config.name_of('images')}: "
            ).images(self.config.images)
            if self.config.images
            else ()
        )  # fmt: skip

    def git(self) -> GitRun:
        """Return git for reading the user's repository. Raises as `git_to_read`."""
        return git_use.git_to_read(self.run_env.root, self.run_env.env, self.layers.trust.git_use)

    def choose_tools(self) -> None:
        """Choose the tools that the model is offered, and read the memory files."""
        chosen = choose_tools(
            self.settings, self.layers.rules, self.context, self.restored, self.added.tools, self.embedded.tools,
            model=self.chosen.resolved.name, answered=self.can_ask, small=self.small,
            restricted=self.config.restricted,
        )  # fmt: skip
        warn_unknown_rules(self.layers.rules, [*self.added.tools, *self.embedded.tools], self.warn)
        self.requested = requested_tools(chosen, self.settings, self.layers.rules, self.restored, small=self.small)
        self.offered = [*chosen, *(tool for tool in self.requested if tool not in chosen)]
        self.tools = self.offered
        if self.config.schema is not None:
            answer = structured_output.StructuredOutput(_schema(self.config))
            self.requested, self.tools = [*self.requested, answer], [*self.offered, answer]
            self.guards.append(structured_output.answer_guard)
        if self.staged is not None:
            self.staged.require_sandbox(self.context)
        if self.staged is not None or self.restored is not None:  # whose turn may have ended in a stage that is gone
            self.tools = [*self.tools, *(tool for tool in BUILTIN if tool.of_program)]
        self.table = ToolTable(self.tools, self.embedded.tool_aliases)
        self.memory = _load_memory(self.config, self.run_env, self.layers, self.settings, self.context, self.warn)

    def make_header(self) -> None:
        """Make the header of the session, open its log, and give the tools what they knew."""
        settings, restored, context = self.settings, self.restored, self.context
        facts = PromptFacts(
            self.run_env,
            self.chosen.resolved.name,
            self.small,
            self.can_ask,
            lambda: (self.repository or RepositoryState(self.run_env.root, self.git)).text(then=True),
            lambda: working_files(context),
            active_style(self.config, self.run_env, self.layers, settings, self.warn) if self.old is None else "",
        )
        self.header = make_header(
            self.config, self.run_env, self.chosen.resolved, self.offered, restored,
            lambda: system_prompt(facts, settings, self.memory, alone=self.config.shared_prompt),  # made where needed
            answered=self.can_ask, small=self.small,
        )  # fmt: skip
        if self.log is not None and restored is not None and restored.rebuilt:
            self.log.put_header(self.header)
        self.log = self.log or new_log(self.config, settings, self.store, self.header, restored, self.warn)
        if self.log is not None:
            _keep_results(context, settings, self.store, self.header, self.log)
        self.learned: dict[str, str] = {}
        if restored is not None:
            _restore_context(context, restored)
            self.learned = session_change.resume_environment(
                self.environment, self.header, restored, context, answered=self.can_ask
            )
        else:
            block = environment_block(facts, settings) if self.config.shared_prompt else ""
            self.environment.begin(self.chosen.resolved.name, settings.permissions.mode, block)

    def open_model(self) -> None:
        """Open the client of the model, or that of a recording."""
        chosen, settings, model = self.chosen, self.settings, self.chosen.resolved
        self.lazy: Callable[[str, Settings, RunEnvironment], Callable[[], ModelHandle]] = lazy_model
        if self.config.record or model.recording:
            exchange = recording.open_exchange(self.config, chosen, settings, self.run_env)
            client, self.lazy = exchange.client(), exchange.lazy_model
        else:
            client = open_client(model, settings, chosen.window)
        self.debug_log = open_debug(model, self.run_env, self.config, self.header.session_id, self.warn)
        client = log_requests(client, self.debug_log)
        self.handle = model_handle(model, chosen.info, settings, client, chosen.window)
        self.state = _conversation_state(self.restored)
        self.state.window.model = model.name

    def keep_transcript(self) -> None:
        """Begin the transcript that hooks and hosts read, and the IDs of messages, where they are wanted."""
        wanted = self.layers.active_hooks(self.settings) or self.embedded.hooks or self.added.has_hooks
        wanted = wanted or self.settings.transcript == "claude" or self.config.hosted
        # Usage counters, log viewers and benchmarks read it where Claude Code is in use.
        readers = projects_folder(self.run_env.env, self.run_env.home)
        wanted = wanted or (not self.attended and os.path.isdir(readers))  # noqa: PTH112 - costs pathlib
        if self.log is not None and wanted:
            self.transcript = transcripts.make_transcript(
                self.config,
                self.settings,
                self.run_env,
                self.header,
                self.log,
                self.warn,
                self.embedded.mirror,
                attended=self.attended,
            )
            if self.transcript is not None:
                self.state.agent_transcript = self.transcript.of_subagent
        if self.config.message_ids:
            counts = transcripts.message_counts(self.header, self.restored, self.log)
            self.ids = message_ids.MessageIds(self.header.session_id, counts)

    def start_telemetry(self, exported: TelemetryOptions, env: Mapping[str, str]) -> None:
        """Begin to export what happens. env: with the variables of telemetry."""
        types, state = self.added.agent_types, self.state
        self.telemetry = telemetry.start_telemetry(
            exported, self.config, {**env, **self.layers.managed.env}, self.header.session_id, self.warn,
            lambda: state.prompt_id, lambda name: name in types and types[name].path is None, attended=self.attended,
        )  # fmt: skip

    def make_turns(self, approver: Approver, asker: Asker) -> None:
        """Make what turns use, and how the history of the resumed session continues."""
        settings, run_env, layers, handle = self.settings, self.run_env, self.layers, self.handle
        transcript, log = self.transcript, self.log
        wanted = transcript.wanted if transcript else lambda: log.path if log else None
        known = HookSession(self.header.session_id, wanted, run_env.root)

        def lazy(name: str) -> Callable[[], ModelHandle]:
            return self.lazy(name, settings, run_env)

        self.deps = TurnDeps(
            handle.client,
            self.table,
            self.context,
            self.policy,
            approver,
            self.state,
            price=handle.price,
            guards=self.guards,
            fallbacks=[lazy(name) for name in settings.fallback_models],
            planner=make_planner(self.chosen, handle, lazy),
            small=cache(lazy(settings.small_model)) if settings.small_model else None,
            open_model=lambda name: lazy(name)(),
            verify=settings.verify,
            asker=asker,
            attended=self.attended,
            save_rule=rule_saver(self.config, run_env, layers) if self.answered else None,
            save_for_schedule=schedule_rule_saver(self.header.schedule, run_env) if self.header.schedule else None,
            report=lambda error: write_crash_report(error, run_env.env),
            watch=self.staged or checkpoint_keeper(run_env, settings, self.header.session_id),
            hooks=HookRegistry(
                layers.active_hooks(settings), self.embedded.hooks,
                lambda: hooks.SessionSurroundings(
                    settings, run_env, self.context, known, self.chosen.label, self.state, self.servers
                ),
                disabled=settings.disable_hooks and not self.embedded.hooks,
            ),
            agents=self.added.agent_types if any(tool.nested for tool in self.tools) else {},
            workflows=WORKFLOWS,
            environment=self.environment,
        )  # fmt: skip
        if self.staged is not None:
            self.staged.join(self.header.session_id)
            self.deps = self.deps.replace(at_end=self.staged.at_end)

        self._continue_history()

    def _continue_history(self) -> None:
        settings, header, restored = self.settings, self.header, self.restored
        self.commands = LiveMapping(self.added.commands)
        specs = tool_specs(self.requested, self.context, small=self.small)
        # With a user present, questions of a resumed turn go to them; otherwise `--on-ask` decides.
        resumed_by = self.config.replace(on_ask="suspend") if self.attended else self.config
        # Resumed elsewhere, it asks as the user has it.
        asked = settings.replace(sandbox=self.layers.settings().sandbox) if self.staged is not None else settings
        saved = resume_payload(resumed_by, self.run_env, asked, self.layers.trust)
        self.options = self.handle.options(turn_options(settings, self.chosen.resolved, header, specs))
        rest = [tool for tool in self.tools if tool not in self.requested and not tool.of_program]
        searched = tool_specs(rest, self.context)
        self.options = self.options.replace(saved=saved, searched=searched)
        self.record = session_recorder(
            self.log, self.transcript, self.ids, self.debug_log, self.embedded.record, self.telemetry
        )
        self.notes = tuple(session_change.notes(header, self.memory, restored)) if restored is not None else ()
        origin = session_origin(self.config, settings, restored)
        self.origin = origin.replace(memory=memory_facts(self.memory, self.run_env))
        self.left_open = calls_left_open(restored)


def open_resumed(
    config: Config,
    settings: Settings,
    run_env: RunEnvironment,
    layers: Layers,
    warn: Callable[[str], None],
    *,
    attended: bool = False,
) -> OpenedSession:
    """Open the session that the configuration resumes, if any. Raises UsageError. attended: a user is present."""
    store = SessionStore(state_folder({**run_env.env, **layers.env}), run_env.root)
    if config.latest or config.resume:
        config = moved_project.follow_moved_project(config, store, run_env, layers, warn)
    patience = ATTENDED_LOCK_WAIT_SECONDS if attended else LOCK_WAIT_SECONDS
    return OpenedSession(config, *read_session(config, settings, store, warn, patience, run_env))


def _load_memory(
    config: Config,
    run_env: RunEnvironment,
    layers: Layers,
    settings: Settings,
    context: ToolContext,
    warn: Callable[[str], None],
) -> Memory:
    """Load the memory files; those of subfolders are read when tools touch these."""
    if config.bare or config.safe:
        return Memory()
    sources = memory_sources(run_env, settings, layers.trust, context.readable, config)
    memory = sources.load()
    context.nested_memory = NestedMemory(sources, memory) if sources.project else None
    for cut in memory.cuts:
        warn(f"all memory files together may have 64 KiB, and {cut}; see agent memory show")
    return memory


def _keep_results(
    context: ToolContext, settings: Settings, store: SessionStore, header: Header, log: SessionLog
) -> None:
    """Save long results of tools with the session, and find those of the sessions that it was copied from."""
    copies = tuple(results_folder(store.path(session_id)) for session_id in store.copied_from(header))
    context.workspace.scratch.keep_in(results_folder(log.path), lambda: log.redact, _MAX_RESULTS_BYTES, copies)


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


def _schema(config: Config) -> dict[str, Any]:
    try:
        return structured_output.read_schema(config.schema or "")
    except ValueError as error:
        raise UsageError(f"{config.name_of('schema')}: {error}") from None


def turn_options(settings: Settings, model: ResolvedModel, header: Header, specs: tuple[ToolSpec, ...]) -> TurnOptions:
    """Return the options of a turn from the settings. Raises UsageError."""
    if not 0 <= settings.compact_at <= 1:
        raise UsageError("compact_at is a share of the model's window: a number from 0 to 1, such as 0.92.")
    shared = {name: getattr(settings, name) for name in TurnSettings._fields}
    bounded = [name for name in Limits._fields if name != "denials"]
    limits = Limits(**{name: getattr(settings, f"max_{name}") for name in bounded})
    fixed = {"model": model.model, "label": model.name, "system": header.system, "tools": specs, "limits": limits}
    fixed["cache_key"] = header.session_id
    fixed["clear_at"] = _CLEAR_AT if settings.results.clear else ()
    if not settings.max_parallel_subagents:
        # A server on this machine answers one after another, and caches the prompt of one conversation.
        fixed["max_parallel_subagents"] = 1 if is_loopback_url(model.base_url) else _PARALLEL_SUBAGENTS
    return TurnOptions(**{**shared, **fixed})


def resume_payload(config: Config, run_env: RunEnvironment, settings: Settings, trust: Trust) -> dict[str, Any]:
    """Return what a suspended turn is resumed with, as JSON data; the rules are added when the turn starts."""
    return {
        "settings": to_json(settings),
        "mcp_config": [c for c in config.servers if not c.lstrip().startswith("{")],
        "strict_mcp_config": config.only_these_servers,
        "cwd": str(run_env.cwd),
        "root": str(run_env.root),
        "on_ask": config.on_ask,
        "bare": config.bare,
        "trust": config.trust and trust.trusted,
        "json_schema": config.schema,
    }
