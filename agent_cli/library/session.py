"""The Python API: a conversation with the agent, in your own program. See docs/embedding.md.

Its stable part is exported by `agent_cli`. It prints nothing, installs no signal handlers, and never ends the process;
user errors raise `UsageError` with one sentence.
"""

from __future__ import annotations

import json
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any, Literal

from agent_cli.config.config import Config
from agent_cli.config.removed import removal_notice
from agent_cli.config.schema import Settings
from agent_cli.kernel.events import Event, QuestionAsked
from agent_cli.kernel.modes import Mode
from agent_cli.kernel.results import Suspended, TurnResult
from agent_cli.kernel.run_environment import RunEnvironment, UsageError
from agent_cli.kernel.runtime.builder import BROKEN_OFF
from agent_cli.kernel.runtime.environment import find_environment, read_settings
from agent_cli.kernel.runtime.session import Session
from agent_cli.kernel.runtime.user_decision import DecisionWord, UserDecision
from agent_cli.kernel.session.records import Restored
from agent_cli.kernel.session.state import ReplayState
from agent_cli.knowledge.loader import Embedded
from agent_cli.library.callbacks import (
    AnswerFunction,
    AnyTool,
    ApproveFunction,
    Callbacks,
    HookFunctions,
    Pending,
    Result,
    parameter_json,
    read_hooks,
    read_tools,
    result_of,
)
from agent_tools.base import ToolError
from agent_tools.record import hints_of
from agent_tools.text import counted, nearest_key_hint, utc_stamp

Events = Generator[Event, None, None]
_RETRY_SECONDS = 0.05
# The parameters that set a field of `Config` under another name.
_CALLED = {"latest": "resume=True", "fork": "fork=True"}
_RUNNING = "A turn of this session is running: wait for its end, or close its stream."


def open_agent(
    cwd: str | os.PathLike[str] | None = None,
    model: str | None = None,
    approve: ApproveFunction | Literal["deny", "suspend"] = "deny",
    tools: Iterable[AnyTool] = (),
    hooks: HookFunctions | None = None,
    settings: Mapping[str, Any] | str | os.PathLike[str] | None = None,
    *,
    answer: AnswerFunction | None = None,
    resume: str | bool = False,
    fork: bool = False,
    schema: Mapping[str, Any] | None = None,
    save: bool = True,
    bare: bool = False,
) -> AgentSession:
    """Open a conversation with the agent; use it as a context manager, or call `close`.

    cwd: the folder to work in; default: the current one.
    model: as provider/model; default: that of the settings.
    approve: decides about calls that no rule allows: a function, "deny", or "suspend", which leaves them for
        `AgentSession.approve`.
    answer: a function that answers the model's questions and decides about its plans; by default the model decides its
        own questions, and plans are suspended.
    tools: in addition to the built-in ones, which the setting `tools` chooses.
    hooks: functions by event.
    settings: a mapping with the keys of the settings file, or the path of such a file; overrides the user's own files.
    resume: a session's ID or name, or True for the latest of the folder.
    fork: copy that session under a new ID.
    schema: a JSON schema that the answer must fit, see `Result.output`.
    save: store the session on disk, where `agent -r` finds it.
    bare: read no settings and no memory files.

    Raises UsageError.
    """
    if fork and not resume:
        raise UsageError("fork: name the session to copy with resume.")
    if isinstance(settings, Mapping):
        _check_names(settings)
    config = Config(
        model=model,
        settings=_given_settings(settings),
        resume=resume if isinstance(resume, str) else None,
        latest=resume is True,
        fork=fork,
        schema=parameter_json(schema, "schema") if schema is not None else None,
        overrides={} if save else {"save_sessions": False},
        bare=bare,
        called=_CALLED,
    )
    return AgentSession.open(config, cwd, approve, tools, hooks, answer=answer)


def _given_settings(
    settings: Mapping[str, Any] | str | os.PathLike[str] | None,
) -> tuple[str | dict[str, Any], ...]:
    """Return the settings as `Config` has them: plain data, or the path of a file. Raises UsageError."""
    if isinstance(settings, Mapping):
        return (json.loads(parameter_json(settings, "settings")),)
    return (os.fspath(settings),) if settings is not None else ()


def _check_names(settings: Mapping[str, Any]) -> None:
    """Raise UsageError for an unknown setting, of which the command line would only warn."""
    known = hints_of(Settings)
    for key in settings:
        if key not in known and not removal_notice(key):
            raise UsageError(f"settings: {key}: unknown setting{nearest_key_hint(key, list(known))}")


class AgentSession:
    """A conversation with the agent, created by `open_agent` or `open`; a context manager that closes itself.

    One turn runs at a time, on any thread; any other thread may `interrupt` it.

    warnings: notices about settings and session, in sentences.
    result: result of the latest turn; None while one runs.
    """

    @classmethod
    def open(
        cls,
        config: Config,
        cwd: str | os.PathLike[str] | None = None,
        approve: ApproveFunction | Literal["deny", "suspend"] = "deny",
        tools: Iterable[AnyTool] = (),
        hooks: HookFunctions | None = None,
        *,
        answer: AnswerFunction | None = None,
    ) -> AgentSession:
        """Open the session that a configuration describes; the other parameters are those of `open_agent`.

        `approve` decides about calls, whatever `Config.on_ask` says. Raises UsageError.
        """
        if approve not in ("deny", "suspend") and not callable(approve):
            raise UsageError(f'approve: expected a function, "deny" or "suspend", not {approve!r}.')
        config = config.replace(on_ask="deny" if approve == "deny" else "suspend")
        embedded = Embedded(read_tools(tools), read_hooks(hooks or {}), answers=answer is not None)
        return cls(config, find_environment(os.environ, cwd), Callbacks(approve, answer), embedded)

    def __init__(self, config: Config, run_env: RunEnvironment, callbacks: Callbacks, embedded: Embedded) -> None:
        self._config, self._run_env, self._callbacks, self._embedded = config, run_env, callbacks, embedded
        self.warnings: list[str] = []
        self.result: Result | None = None
        self._lock = threading.Lock()
        self._thread = 0
        self._events: Callable[[], Events | None] = lambda: None
        self._closed = False
        self._replay = ReplayState()
        self._agent = self._open()
        self._waiting = self._agent.restored.waiting if self._agent.restored else None

    def _open(self) -> Session:
        """Build the agent. Raises UsageError."""
        layers = read_settings(self._config, self._run_env)
        self.warnings += layers.ignored
        warn, embedded = self.warnings.append, self._embedded.replace(record=self._record)
        agent = Session.open(
            self._config, self._run_env, self._callbacks.pair, warn,
            layers=layers, as_saved="waiting", embedded=embedded,
        )  # fmt: skip
        agent.deps.state.asks_in_turn = True
        restored, saves = agent.restored, layers.settings().save_sessions
        if restored is not None and restored.waiting is not None and restored.waiting.saved and not saves:
            agent.close()
            raise UsageError("This session waits for a decision, which is saved with it: open it with save=True.")
        for message in restored.history if restored and not saves else ():
            self._replay.history.add(message)
        return agent

    def _record(self, event: Event) -> None:
        """Record an event of a session that has no log."""
        self._replay.apply(event, utc_stamp())

    @property
    def session_id(self) -> str:
        return self._agent.session_id

    @property
    def model(self) -> str:
        """The model, as provider/model."""
        return self._agent.label

    def run(self, text: str) -> Result:
        """Send a message and run the turn it starts to its end.

        Raises UsageError if it cannot be sent, and whatever one of your functions raises.
        """
        return self._run_to_end(self.stream(text))

    def stream(self, text: str) -> Events:
        """Send a message; yield the events of the turn it starts as they happen. `result` is set at its end.

        Leaving the iteration early interrupts the turn. Raises as `run`.
        """
        self._check_ready()
        if self._waiting is not None:
            waits = counted(len(self._waiting.calls), "call")
            raise UsageError(
                f"The message was not sent, as this session waits for a decision about {waits}: use approve, reject or "
                "answer, then resume."
            )
        agent = self._agent
        return self._begin(lambda: agent.send_events(text, agent.attachments.mentioned(text)))

    def pending(self) -> tuple[Pending, ...]:
        """The pending decisions: calls to approve or reject; questions, plans and reviews to answer."""
        waiting = self._waiting
        if waiting is None:
            return ()
        return tuple(waiting.requests.get(i) or waiting.questions[i] for i in waiting.undecided)

    def approve(self, call_id: str = "", *, mode: Mode | None = None) -> None:
        """Approve a pending call, plan or review; without an ID all but questions. `resume` carries it out.

        mode: the permission mode to continue in. Raises UsageError.
        """
        chosen = self._choose(call_id)
        questions = [asked for asked in chosen if isinstance(asked, QuestionAsked) and asked.kind == "questions"]
        if call_id and questions:
            raise UsageError(f"{call_id} is a question: reply to it with answer.")
        self._decide("approve", [asked for asked in chosen if asked not in questions], mode=mode or "")

    def reject(self, call_id: str = "", reason: str = "") -> None:
        """Reject a pending decision, without an ID all of them. reason: sent to the model. Raises UsageError."""
        self._decide("reject", self._choose(call_id), text=reason)

    def answer(self, call_id: str, *words: str) -> None:
        """Answer questions (a text, label or number for each), or comment on a plan. Raises UsageError."""
        asked = self._choose(call_id)[0]
        if not isinstance(asked, QuestionAsked):
            raise UsageError(f"{call_id} is a call that waits for approval: use approve or reject.")
        if asked.kind == "questions":
            self._decide("answer", [asked], answers=words)
        else:
            self._decide("answer", [asked], text=" ".join(words))

    def resume(self) -> Result:
        """Continue a suspended turn once all is decided, or an interrupted one. Raises UsageError."""
        return self._run_to_end(self.resume_stream())

    def resume_stream(self) -> Events:
        """Do the same as `resume`, yielding the events as `stream` does."""
        self._check_ready()
        conversation, waiting = self._agent, self._waiting
        if waiting is not None and waiting.undecided and not self._callbacks.attended:
            waits = counted(len(waiting.undecided), "call")
            raise UsageError(f"This session waits for a decision about {waits}: use approve, reject or answer.")
        if waiting is None:
            restored = self._load_session()
            turn = restored.interrupted if restored is not None else self._replay.interrupted()
            if turn is None:
                raise UsageError("There is nothing to resume: the last turn of this session has ended.")
        else:
            turn = waiting

        def begin() -> Generator[Event, None, TurnResult]:
            if waiting is None:
                self._agent.restore_turn(turn.replace(grants=()), *self._callbacks.pair())
                conversation.pick_up()
            else:
                self._agent.store.claim_plan(self._agent.session_id)
            self._waiting = None
            return conversation.resume_events(turn.spent)

        return self._begin(begin)

    def fork(self) -> AgentSession:
        """Open a copy of this session under a new ID; both continue independently. Raises UsageError."""
        self._check_ready()
        if self._waiting is not None:
            raise UsageError("This session waits for a decision, and is not copied: decide and resume it first.")
        if not self._agent.settings.save_sessions:
            raise UsageError("A session that is not saved cannot be copied: open it with save=True.")
        started = bool(self._agent.history)
        config = self._config.replace(resume=self.session_id if started else None, fork=started)
        callbacks = self._callbacks.copy()
        copy = AgentSession(config.replace(model=self.model), self._agent.run_env, callbacks, self._embedded)
        copy._agent.policy.mode = self._agent.policy.mode
        return copy

    def interrupt(self) -> None:
        """Stop the running turn, from another thread or from one of your functions. Its stream then ends."""
        self._agent.interrupt()

    def close(self) -> None:
        """Stop the running turn, background commands, MCP servers and the sandbox; release the session.

        Raises UsageError if called by a function that the turn is waiting for.
        """
        while not self._lock.acquire(timeout=_RETRY_SECONDS):
            events = self._events()
            try:
                if events is not None:
                    events.close()
            except ValueError:  # it is being run
                if self._thread == threading.get_ident():
                    raise UsageError("A turn cannot close its own session: use interrupt, and close it then.") from None
                self.interrupt()
        try:
            if not self._closed:
                self._closed = True
                self._agent.close()
        finally:
            self._lock.release()

    def __enter__(self) -> AgentSession:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _check_ready(self) -> None:
        if self._closed:
            raise UsageError("This session is closed: open it again with open_agent(resume=its session_id).")
        if self._lock.locked():
            raise UsageError(_RUNNING)

    def _run_to_end(self, events: Events) -> Result:
        for _ in events:
            pass
        assert self.result is not None
        return self.result

    def _begin(self, start: Callable[[], Generator[Event, None, TurnResult]]) -> Events:
        known: list[Callable[[], Events | None]] = []
        events = self._turn(start, known)
        # A weak reference, so that dropping an unfinished stream ends its turn.
        known.append(weakref.ref(events))
        return events

    def _turn(
        self, start: Callable[[], Generator[Event, None, TurnResult]], known: list[Callable[[], Events | None]]
    ) -> Events:
        """Run a turn as its events are consumed. known: references to this generator."""
        self._check_ready()
        if not self._lock.acquire(blocking=False):
            raise UsageError(_RUNNING)
        self.result, self._callbacks.error, self._events = None, None, known[0]
        try:
            self._thread = threading.get_ident()
            run = start()
            # Events of sub-agents in the background, from their threads.
            beside: deque[Event] = deque()
            self._agent.shown_by(beside.append)
            while True:
                self._thread = threading.get_ident()
                try:
                    event = next(run)
                except StopIteration as stop:
                    self._on_turn_end(stop.value)
                    yield from beside
                    break
                try:
                    while beside:
                        yield beside.popleft()
                    yield event
                except BaseException:
                    self._on_turn_end(self._finish_interrupted(run))
                    raise
        except ToolError as error:
            raise UsageError(str(error)) from None
        except BaseException:
            if self.result is None:
                # The next message answers the calls that are still open.
                self._agent.expect_reply(BROKEN_OFF)
            raise
        finally:
            self._lock.release()
        if self._callbacks.error is not None:
            raise self._callbacks.error

    def _finish_interrupted(self, run: Generator[Event, None, TurnResult]) -> TurnResult:
        """Interrupt a turn whose events are no longer consumed, and run it to its end."""
        while True:
            # Before each step: the steps before the turn itself reset the token, and can be interrupted as well.
            self._agent.interrupt()
            try:
                next(run)
            except StopIteration as stop:
                result: TurnResult = stop.value
                return result

    def _on_turn_end(self, ended: TurnResult) -> None:
        """Set the result; note what a suspended turn waits for."""
        if isinstance(ended, Suspended):
            restored = self._load_session()
            self._waiting = restored.waiting if restored is not None else self._replay.waiting()
            if self._waiting is not None:
                # The grants of this process are already active.
                self._agent.restore_turn(self._waiting.replace(grants=()), *self._callbacks.pair())
        self.result = result_of(ended, self.session_id, self.pending(), structured=self._agent.structured)

    def _load_session(self) -> Restored | None:
        """Return the session restored from its log; None if there is none."""
        return self._agent.stored.load_if_any() if self._agent.settings.save_sessions else None

    def _choose(self, call_id: str) -> list[Pending]:
        """Return the named pending decision, or all. Raises UsageError."""
        self._check_ready()
        waiting = self.pending()
        if not waiting:
            raise UsageError("Nothing waits for a decision in this session.")
        chosen = [asked for asked in waiting if call_id in ("", asked.call_id)]
        if not chosen:
            names = ", ".join(asked.call_id for asked in waiting)
            raise UsageError(f"{call_id} does not wait for a decision in this session. Waiting: {names}.")
        return chosen

    def _decide(self, verdict: DecisionWord, chosen: Iterable[Pending], **fields: Any) -> None:
        """Record a decision about each. Raises UsageError, also for a plan that has expired."""
        waiting = self._waiting
        assert waiting is not None
        is_plan = any(isinstance(asked, QuestionAsked) and asked.kind == "plan" for asked in chosen)
        why = waiting.expired(self._agent.settings.plan_ttl) if is_plan and verdict != "reject" else ""
        if why:
            raise UsageError(f"{why} Reject it, and ask for a new one.")
        self._agent.decide(waiting, [UserDecision(asked.call_id, "", verdict, **fields) for asked in chosen])
