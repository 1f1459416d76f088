"""A session: a conversation with everything it was built from, as the front ends use it. `open` is its constructor."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from agent_cli.config.config import Config
from agent_cli.config.layers import Layers
from agent_cli.kernel.decisions import (
    Approver,
    Asker,
    Defer,
    answer_unattended,
    approval_record,
    defer,
    deny,
    reply_record,
)
from agent_cli.kernel.engine.conversation import Conversation, Listener, consume
from agent_cli.kernel.engine.loop import run_turn
from agent_cli.kernel.engine.turn import Turn
from agent_cli.kernel.engine.types import NestedState
from agent_cli.kernel.events import (
    ApprovalRequested,
    ApprovalResolved,
    Event,
    HookFinished,
    QuestionAnswered,
    SessionNamed,
    UsageAdded,
)
from agent_cli.kernel.messages import call_ids
from agent_cli.kernel.modes import MODES
from agent_cli.kernel.results import TurnResult, Usage
from agent_cli.kernel.run_environment import RunEnvironment, UsageError
from agent_cli.kernel.runtime.builder import SessionBuild, build_session, open_resumed
from agent_cli.kernel.runtime.environment import check_mode, read_settings
from agent_cli.kernel.runtime.mcp import SessionServers, may_offer
from agent_cli.kernel.runtime.models import ChosenModel, lazy_model, make_planner, model_handle, open_client, pricing
from agent_cli.kernel.runtime.session_log import SessionInUseError, sanitize_title
from agent_cli.kernel.runtime.tools import tool_specs
from agent_cli.kernel.session.records import Restored, WaitingTurn
from agent_cli.kernel.session.store import SessionStore, StoredSession
from agent_cli.kernel.window import Window
from agent_cli.knowledge.commands import expand_message
from agent_cli.knowledge.loader import Embedded, Extensions, command_source
from agent_cli.models.catalog import ModelInfo
from agent_cli.models.resolve import ResolvedModel, prepare_client
from agent_tools.cancel import CancelledError, CancelToken
from agent_tools.lazy import lazy_imports
from agent_tools.record import to_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agent_cli.hooks.events import ModelSwitch
    from agent_cli.kernel.engine.background import BackgroundAgent, BackgroundAgents
    from agent_cli.kernel.engine.compaction.controls import ContextWindow
    from agent_cli.kernel.engine.types import ModelHandle, ToolTable
    from agent_cli.kernel.messages import Message
    from agent_cli.kernel.modes import AgentType
    from agent_cli.kernel.runtime.attachments import Attachments
    from agent_cli.kernel.runtime.ide import SessionIde
    from agent_cli.kernel.runtime.user_decision import UserDecision
    from agent_cli.kernel.session.history import Exchange
    from agent_cli.models.base import ModelClient
    from agent_cli.policy.policy import Policy
    from agent_cli.undo.undo import UndoManager
    from agent_tools.base import Tool, ToolContext

with lazy_imports():
    from agent_cli.kernel.engine import (
        background,
        session_hooks,  # only with hooks
        structured_output,
    )
    from agent_cli.kernel.engine.compaction import controls
    from agent_cli.kernel.runtime import (
        attachments,  # few messages have images
        background_agents,  # only where an earlier process left some
        checkpoints,
        ide,  # only where somebody sits at an editor
        pending,  # only to resume a turn
    )
    from agent_cli.kernel.session import history, pending_plans

T = TypeVar("T")
# Returns the approver and the asker, given `Config.on_ask`.
Answerers = Callable[[str], tuple[Approver, Asker]]


class Session(Conversation):
    """A conversation with everything it was built from. `close` releases it.

    transcript: in Claude Code's shape, where somebody may want it.
    ids: the UUIDs of messages, for frames.
    """

    @classmethod
    def open(
        cls,
        config: Config,
        run_env: RunEnvironment,
        answerers: Answerers,
        warn: Callable[[str], None],
        *,
        layers: Layers | None = None,
        as_saved: Literal["never", "waiting", "always"] = "never",
        check: Callable[[Restored], None] | None = None,
        attended: bool = False,
        embedded: Embedded = Embedded(),  # noqa: B008 - frozen
    ) -> Session:
        """Open the session that a configuration describes, a new one or an earlier one. Raises UsageError.

        An earlier session is locked, read once, and then built.

        layers: the settings; by default they are read.
        as_saved: when an open turn is resumed with the settings saved with it: never, as a message follows; if it waits
            for decisions; or also if it was interrupted.
        check: called with the session that is copied; may raise UsageError. By default, one that waits for decisions
            is refused if its open turn could be resumed here: its question must be asked in one place only.
        attended: a user is present. embedded: additions of the embedding program.
        """
        layers = layers or (Layers() if as_saved == "always" else read_settings(config, run_env))
        try:
            opened = open_resumed(config, layers.settings(), run_env, layers, warn, attended=attended)
        except SessionInUseError as busy:
            if attended or as_saved != "always":
                raise
            raise UsageError(
                f"{busy.where} If a question is open there, answer it there; otherwise try again later."
            ) from None
        try:
            restored = opened.restored
            if restored is not None and config.fork:
                if check is not None:
                    check(restored)
                elif as_saved == "waiting":
                    pending.refuse_copy(restored)
            if restored is None or not _goes_on(restored, as_saved, copied=opened.config.fork):
                return cls(build_session(opened, run_env, layers, answerers(""), warn, embedded, attended=attended))
            saved = pending.read_saved_turn(restored, config, run_env)
            if opened.log is None:
                # It is saved although sessions are not saved now.
                settings = saved.layers.settings()
                opened = open_resumed(saved.config, settings, saved.run_env, saved.layers, warn, attended=attended)
            answered = answerers(saved.config.on_ask)
            opened = opened.replace(config=saved.config)
            session = cls(
                build_session(opened, saved.run_env, saved.layers, answered, warn, embedded, attended=attended)
            )
            if saved.turn is not None:
                session.restore_turn(saved.turn, *answered)
            return session
        except BaseException:  # the caller reports the error
            opened.close()
            raise

    @staticmethod
    def unattended(on_ask: str = "deny") -> tuple[Approver, Asker]:
        """Return the approver and the asker of a run without a user, for `open`.

        Calls are denied, and the model answers its own questions; with "suspend", both wait for a later decision.
        """
        return (lambda request: Defer(), defer) if on_ask == "suspend" else (deny, answer_unattended)

    def __init__(self, build: SessionBuild) -> None:
        """Join what was built, and wait for the servers that a run without a user needs."""
        commands, context, restored = build.commands, build.context, build.restored
        super().__init__(
            build.deps,
            build.options,
            build.record,
            restored.history if restored else (),
            expanders=[lambda text: expand_message(text, commands, context)],
            attached=build.attached,
            notes=build.notes,
            learned=build.learned,
            plans=restored.plans if restored is not None else (),
            origin=build.origin,
            plan_workflow=build.embedded.plan_workflow,
            command_source=lambda name: command_source(name, commands),
            **build.left_open,
        )
        self.run_env, self.layers, self.settings = build.run_env, build.layers, build.settings
        self.chosen, self.header, self.restored = build.chosen, build.header, restored
        self.commands, self.added, self.memory = commands, build.added, build.memory
        self.transcript, self.ids, self._log = build.transcript, build.ids, build.log
        self._telemetry, self._warn = build.telemetry, build.warn
        self.name = restored.name if restored else ""
        if restored is not None and restored.agents:
            background_agents.restore_agents(self.deps, restored, copied=build.config.fork)
        self._unsaid: list[SessionNamed | UsageAdded | HookFinished] = []
        self._config = build.config
        self._ide: SessionIde | None = None
        self.mcp: SessionServers | None = None
        if build.servers is not None:
            self.mcp = SessionServers(
                build.servers, self, build.table, commands, self.layers.rules, self.settings, self.chosen, build.warn
            )
        if build.config.name:
            self.rename(build.config.name, tidy=True)
        if self.mcp is not None and not build.attended and build.embedded.waits:
            try:
                self.mcp.wait_ready()
            except BaseException:  # also an interrupt: release the session; the caller reports the error
                self.close()
                raise

    @property
    def session_id(self) -> str:
        return self.header.session_id

    @property
    def store(self) -> SessionStore:
        """The sessions of the project."""
        return SessionStore.of(self.run_env)

    @property
    def stored(self) -> StoredSession:
        """The session on disk, if it is saved."""
        return self.store.session(self.session_id)

    @property
    def label(self) -> str:
        """The model, as provider/model."""
        return self.options.label

    @property
    def model(self) -> ResolvedModel:
        """The model in use."""
        return self.chosen.resolved

    @property
    def policy(self) -> Policy:
        """The permissions of the session, with its mode."""
        return self.deps.policy

    @property
    def tool_context(self) -> ToolContext:
        """The state that tools share: workspace, plan, files read, jobs."""
        return self.deps.context

    @property
    def window(self) -> Window:
        """The model's view of the history, with compactions and pins."""
        return self.deps.state.window

    @property
    def context(self) -> ContextWindow:
        """The usage of the window, and what the user can do with it."""
        return controls.ContextWindow(self)

    @property
    def attachments(self) -> Attachments:
        """Attaches images to messages."""
        return attachments.Attachments(self.model.name, self.tool_context)

    @property
    def undo(self) -> UndoManager:
        """The checkpoints of the session. Raises UsageError if they cannot be opened."""
        return checkpoints.undo_manager(self.run_env, self.settings, self.session_id)

    @property
    def tools(self) -> ToolTable:
        """The tools that the model may call."""
        return self.deps.tools

    @property
    def agent_types(self) -> Mapping[str, AgentType]:
        """The types of sub-agents, by name."""
        return self.deps.agents

    @property
    def nested_histories(self) -> dict[str, Sequence[Message]]:
        """The histories of suspended sub-agents, by their Task call."""
        return {call_id: waits.history for call_id, waits in self.deps.state.nested.items()}

    @property
    def background(self) -> BackgroundAgents | None:
        """The sub-agents in the background; None if there never was one."""
        agents: BackgroundAgents | None = self.deps.state.background
        return agents

    @property
    def agent_names(self) -> dict[str, str]:
        """The names of the sub-agents in the background, by their Task call."""
        return {a.item.call.id: a.name for a in self.background.by_name.values()} if self.background is not None else {}

    @property
    def agents_at_work(self) -> list[str]:
        """The names of the sub-agents in the background that have not ended."""
        return [agent.name for agent in self.background.open] if self.background is not None else []

    @property
    def save_rule(self) -> Callable[[str], str] | None:
        """Saves a rule for the project; see `TurnDeps.save_rule`."""
        return self.deps.save_rule

    @property
    def turn_changes(self) -> str:
        """The files that the last turn changed, in words; "" for none."""
        return self.deps.watch.summed()

    @property
    def started_at(self) -> float:
        """When the session began, in seconds since the epoch."""
        return self.deps.state.began

    def traits_of(self, tool: str) -> Tool[Any]:
        """Return a tool of the session by name, for its traits."""
        return self.deps.traits_of(tool)

    def open_model(self, *, small: bool = False) -> ModelHandle:
        """Open the model, or the small one if there is one, for a call beside the turns."""
        deps = self.deps
        assert deps.open_model is not None
        return deps.small() if small and deps.small else deps.open_model(self.options.label)

    def use_client(self, client: ModelClient) -> None:
        """Send requests to another client, such as a script."""
        self.deps = self.deps.replace(client=client)

    @property
    def structured(self) -> bool:
        """Return True if the answer is to fit a JSON schema."""
        return structured_output.NAME in self.tools

    @property
    def info(self) -> ModelInfo | None:
        """The catalog's entry for the model, if any."""
        return self.chosen.info

    def rename(self, name: str, model: str = "", usage: Usage = Usage(), *, tidy: bool = False) -> None:  # noqa: B008
        """Name the session; callable from any thread. A session without messages stores the name with its first one.

        model, usage: what made the name, and what that cost.
        tidy: of a longer text, take a title; nothing happens if none is left.
        """
        if tidy and not (name := sanitize_title(name)):
            return
        self.name = name
        self._unsaid = [event for event in self._unsaid if not isinstance(event, SessionNamed)]
        self._record(SessionNamed(name, model, usage))

    def charge(self, model: str, usage: Usage) -> None:
        """Count a model call that the user made beside the turns; callable from any thread."""
        if usage != Usage():
            self._record(UsageAdded(model, usage, aside=True, of_turn=False))

    def _record(self, event: SessionNamed | UsageAdded | HookFinished) -> None:
        self._unsaid.append(event)
        self.record_unsaid()

    def record_unsaid(self) -> None:
        """Record the name and the costs so far, once the session has messages."""
        while self._unsaid and self.history:
            self.record(self._unsaid.pop(0))

    @property
    def last_record(self) -> int:
        """Number of the last record of the session's log; 0 if it is not saved."""
        return self._log.last if self._log is not None else 0

    @property
    def unsaved(self) -> str:
        """Why the session could not be saved, as long as that is so; "" if it is, or should not be saved."""
        return self._log.warning if self._log is not None else ""

    def reload(self, added: Extensions) -> None:
        """Replace the commands, skills and types of sub-agents by those read now."""
        self.added = added
        context = self.tool_context
        context.extensions, context.workspace.skill_folders = added.offered(), added.readable_folders()
        if self.mcp is not None:
            self.mcp.replace_commands(added.commands)
        else:
            self.commands.replace(added.commands)
        if self.agent_types:
            self.deps = self.deps.replace(agents=added.agent_types)

    @property
    def ide(self) -> SessionIde:
        """The editor beside the session."""
        if self._ide is None:
            self._ide = ide.SessionIde(self, self._config, self.run_env, self.add_tool)
        return self._ide

    def add_tool(self, tool: Tool[Any]) -> None:
        """Offer one more tool from the next request on, unless a rule or the settings leave it out."""
        denied = {rule.tool for rule in self.layers.rules if rule.list == "deny" and rule.spec is None}
        if not may_offer(tool.name, denied, self.settings.tools):
            return
        if self.mcp is not None:
            self.mcp.add_own(tool)
        else:
            self.deps.tools.replace({**self.deps.tools, tool.name: tool})
        self.options = self.options.replace(tools=(*self.options.tools, *tool_specs([tool], self.tool_context)))

    def start_background_work(self, after: float = 0.0) -> None:
        """Start, after so many seconds, what the first turn would wait for: MCP servers, and LiteLLM's process."""
        prepare_client(self.model, after)
        if self.mcp is not None:
            self.mcp.servers.start(after)

    def close(self, reason: str = "other") -> None:
        """Stop background work and release the session. reason: passed to the SessionEnd hooks."""
        if self.background is not None:
            self.background.close()
        try:
            self.record_unsaid()
            if self.history and not self.suspended:
                self.record_notes()
            self.end(reason)
        finally:
            if self._ide is not None:
                self._ide.close()
            self.tool_context.close()
            self.deps.watch.close()
            if self.mcp is not None:
                self.mcp.servers.close()
            if self._log is not None:
                self._log.close()
            if self._telemetry is not None and (failure := self._telemetry.close()):
                self._warn(f"telemetry: {failure}")

    def tell(self, text: str) -> None:
        """Tell the model of a change, with all others, before the next message or request."""
        if self.deps.environment is not None:
            self.deps.environment.pending.append(text)

    def outlive_turns(self, show: Listener, on_end: Callable[[BackgroundAgent], None]) -> None:
        """Let sub-agents in the background work on when turns end, unless these are staged. show: shows their events.

        on_end: called when one has ended by itself, on its thread.
        """
        agents = background.agents_of(self.deps.state)
        self.deps.state.asks_in_turn = False
        agents.outlive, agents.on_end = not self.deps.watch.takes_all, on_end
        self.shown_by(show)

    def message_agent(self, text: str) -> bool:
        """Pass a message "@NAME ..." to the sub-agent in the background of this name; return False if there is none."""
        agents, found = self.background, re.match(r"@([\w.-]+)\s+(\S.*)", text, re.DOTALL)
        return agents is not None and found is not None and agents.send(found[1], found[2].strip())

    def resume_agents(self) -> None:
        """Let the sub-agents in the background go on that stopped, and ask again what they ask."""
        if self.background is not None:
            self.background.resume(Turn(self.history, self.deps, self.options, run_turn), ask=True)

    def when_reported(self, run: Callable[[], None]) -> None:
        """Call a function when a hook in the background has a report for the model, on its thread."""
        self.deps.state.reported = run

    def check_mode(self, mode: str) -> None:
        """Raise UsageError for a permission mode that is refused here, or that the user has not allowed."""
        check_mode(mode, self.run_env.env, self.layers.managed, may_bypass=self.layers.may_bypass)

    def use_mode(self, mode: str) -> None:
        """Change the permission mode. Raises UsageError."""
        if mode not in MODES:
            raise UsageError(f"{mode} is not a permission mode. There are {', '.join(MODES)}.")
        self.check_mode(mode)
        self.policy.mode = next(known for known in MODES if known == mode)

    def use_model(self, name: str, source: str = "command", confirm: Callable[[str], bool] | None = None) -> None:
        """Continue with another model, which learns its name. Raises UsageError, also if a hook keeps the model.

        source: who asks for it: "command", "picker" or "sdk"; "same" in a copy of a session that had it before.
        confirm: asks the user where a hook wants that; None if there is none.
        """
        switch = self._announced_switch(name, source)
        if switch is not None:
            why = self._run_hooks(session_hooks.before_switch(self.deps, switch, confirm))
            if why is not None:
                raise UsageError(why)
        self.chosen.change(name)
        self._follow_model()
        if switch is not None:
            self._run_hooks(session_hooks.after_switch(self.deps, switch))

    def _announced_switch(self, name: str, source: str) -> ModelSwitch | None:
        """Return the facts about a switch for hooks; None if none runs. Raises UsageError."""
        if source == "same" or not any(self.has_hooks(event) for event in ("PreModelSwitch", "PostModelSwitch")):
            return None
        other = ChosenModel(name, self.settings, self.run_env)
        if other.resolved.name == self.model.name:
            return None
        price = pricing(other.resolved, other.info, self.settings)
        names = self.model.model, other.resolved.model
        return session_hooks.model_switch(self.deps, self._origin, names, name, source, price)

    def has_hooks(self, event: str) -> bool:
        """Return True if a hook of this event may run."""
        return self.deps.hooks.wants(event)

    def _run_hooks(self, run: Generator[Event, None, T]) -> T:
        """Run hooks beside the turns. Raises UsageError if they are interrupted."""
        if not self._running:
            self.deps.context.cancel = CancelToken()
        try:
            return consume(run, session_hooks.listener(self._record, self._warn))
        except CancelledError:
            raise UsageError("Interrupted.") from None

    def exchanges(self, most: int | None = None) -> list[Exchange]:
        """Return the last exchanges of the session that was resumed, shortened; by default all, at full length."""
        if self.restored is None:
            return []
        log, limit = self.store.path(self.restored.header.session_id), sys.maxsize
        found = history.last_exchanges(log, most) if most else history.last_exchanges(log, limit, limit, whole=True)
        return found or history.exchanges_of(self.restored.history, most or limit)

    def expire_plan(self) -> str:
        """Close the turn whose plan has expired: nothing runs and no model is called. Return the message about it."""
        self.store.claim_plan(self.session_id)
        why = pending_plans.expired_words(self.settings.plan_ttl)
        self.abandon(why)
        return why

    def add_folder(self, folder: Path, source: Literal["slash_command", "register_repo_root"]) -> None:
        """Add a folder to the workspace of this session, also for turns that are suspended and resumed later."""
        self.tool_context.workspace.widen(folder)
        permissions = self.settings.permissions
        folders = (*permissions.additional_directories, str(folder))
        self.settings = self.settings.replace(permissions=permissions.replace(additional_directories=folders))
        if saved := self.options.saved:
            self.options = self.options.replace(saved={**saved, "settings": to_json(self.settings)})
        text = f"The user added the folder {folder} to the workspace for this session."
        self.inbox.append(f"<workspace_change>\n{text}\n</workspace_change>")
        if self.has_hooks("DirectoryAdded"):
            session_hooks.folder_added(self.deps, str(folder), source)

    def _follow_model(self) -> None:
        """Send requests to the model that was chosen."""
        model, info = self.model, self.info
        client = open_client(model, self.settings, self.chosen.window)
        handle = model_handle(model, info, self.settings, client, self.chosen.window)
        planner = make_planner(self.chosen, handle, lambda name: lazy_model(name, self.settings, self.run_env))
        self.deps = self.deps.replace(client=client, price=handle.price, planner=planner)
        self.options = handle.options(self.options)

    def restore_turn(self, waiting: WaitingTurn, approver: Approver, asker: Asker) -> None:
        """Restore the mode, grants and decisions of the turn that is about to be resumed."""
        decided = pending.RecordedApprover(waiting, approver, asker)
        deps = self.deps = self.deps.replace(
            approver=decided.approve, asker=decided.answer, recorded=decided.recorded, rejected=decided.rejected
        )
        self.suspended_state = waiting.kept
        for call_id, messages in waiting.nested.items():
            if call_id in waiting.names:
                continue
            seen, shell = waiting.nested_seen.get(call_id), waiting.nested_shell.get(call_id)
            window = Window(waiting.nested_compactions.get(call_id, ()))
            deps.state.nested[call_id] = NestedState(messages, seen, shell, window)
            deps.state.ids.update(call_ids(messages))
        policy = deps.policy
        mode = next((m for m in MODES if m == waiting.mode), policy.mode)
        if mode == "bypassPermissions":
            self.layers.may_bypass = True  # when the session began
            policy.no_bypass = self.layers.managed.no_bypass
        self.use_mode(mode)
        for rule in waiting.grants:
            policy.grant(rule)
        for request in waiting.requests.values():
            policy.note_asked(request.effects)

    def deferred_step(self) -> Callable[[Listener], TurnResult] | None:
        """Return a function that resumes a turn suspended by a hook; None if there is none."""
        waiting = self.restored.waiting if self.restored else None
        if waiting is None or not waiting.is_deferred or not self.suspended:
            return None
        self.restore_turn(waiting, self.deps.approver, self.deps.asker)
        return lambda show: self.resume(show, waiting.spent)

    def decide(self, waiting: WaitingTurn, decisions: Iterable[UserDecision]) -> None:
        """Record the user's decisions about open calls of a suspended turn, if all are valid.

        Raises UsageError, and UsageError for a mode that is refused in this environment.
        """
        records: list[ApprovalResolved | QuestionAnswered] = []
        files = self.tool_context.workspace
        for decision in decisions:
            check_mode(decision.mode, self.run_env.env)
            asked = waiting.requests.get(decision.call_id) or waiting.questions[decision.call_id]
            if isinstance(asked, ApprovalRequested):
                answer = decision.answer_to(asked, files, traits_of=self.traits_of)
                records.append(approval_record(asked, answer))
            else:
                records.append(reply_record(asked, decision.answer_to(asked, files)))
        for record in records:
            self.record(record)
            if isinstance(record, ApprovalResolved):
                waiting.decisions[record.call_id] = record
            else:
                waiting.answers[record.call_id] = record


def _goes_on(restored: Restored, as_saved: str, *, copied: bool) -> bool:
    """Return True if the open turn of a session is resumed with the settings saved with it."""
    waits = restored.waiting is not None and bool(restored.waiting.saved)
    return as_saved == "always" or (as_saved == "waiting" and waits and not copied)
