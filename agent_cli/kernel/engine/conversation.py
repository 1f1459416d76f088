"""A conversation: runs turns, records each event first, then shows it.

A `Conversation` owns the history between turns and hands every event to `record`, then to the front end. It does not
know how records are stored or how events are shown.
"""

from __future__ import annotations

import _thread  # `threading` costs a one-shot run a millisecond
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from agent_cli.config.prompts import prompt
from agent_cli.kernel.engine.loop import run_turn
from agent_cli.kernel.engine.progress import format_plan, unfinished
from agent_cli.kernel.engine.turn import TurnDeps
from agent_cli.kernel.engine.types import SessionOrigin, TurnOptions
from agent_cli.kernel.events import Event, FilesSeen, HookFinished, MessageAdded, PlanChanged, Rewound, TurnFinished
from agent_cli.kernel.messages import (
    HOOK_REPORT,
    SYNTHETIC_PREFIXES,
    AssistantMessage,
    Message,
    Reason,
    ToolCall,
    ToolMessage,
    UserMessage,
    close_open_calls,
    is_interrupted,
    is_synthetic,
    pending_calls,
)
from agent_cli.kernel.results import Complete, Diagnostics, Spent, TurnResult, Usage
from agent_tools.base import Steps, ToolError
from agent_tools.cancel import CancelToken
from agent_tools.lazy import lazy_imports
from agent_tools.results import ExpandedPrompt, Media, TodoItem, as_expanded_prompt
from agent_tools.text import new_uuid

with lazy_imports():
    from agent_cli.kernel.engine import (
        prompt_overrides,  # few prompts have any
        session_hooks,  # only with hooks
    )
    from agent_tools.fs import read_state
    from agent_tools.shell import jobs

NO_ANSWER = "The user continued with another message, which may answer the question of this call."
BROKE_OFF = (
    "<reminder>\nThe program ended here. Continue where your answer broke off; if all is done, say so in one line.\n"
    "</reminder>"
)
# The answer in the history looks complete.
INTERRUPTED = "<reminder>\nThe user interrupted your last message; its end is missing.\n</reminder>"
PLAN_MODE_ENDED = "<plan_mode>\nThe user ended plan mode: changes may be made.\n</plan_mode>"
Listener = Callable[[Event], None]
# Expands a message: returns its text, or a prompt that it names, which no later expander sees. Raises ToolError.
Expander = Callable[[str], str | ExpandedPrompt]
T = TypeVar("T")


def consume(run: Generator[Event, None, T], *listeners: Listener) -> T:
    """Run a turn (or another generator of events) to its end, passing every event to the listeners in order."""
    heard = notify_listeners(run, *listeners)
    try:
        return Steps(heard).finish()
    finally:
        heard.close()


def notify_listeners(run: Generator[Event, None, T], *listeners: Listener) -> Generator[Event, None, T]:
    """Yield the events of a run after passing each to the listeners in order."""
    steps = Steps(run)
    try:
        for event in steps:
            for listener in listeners:
                listener(event)
            yield event
        return steps.result
    finally:
        # A listener may raise, or the consumer may stop: close the run here instead of leaving it to the garbage
        # collector.
        run.close()


class Conversation:
    """A history that grows by turns. `deps` and `options` may be changed between turns.

    expanders: tried in order on each message.
    preparations: called before each turn, on its thread; they may change `deps` and `options`.
    attached: media sent with the next message (once).
    last: result of the latest turn.
    suspended_state: stored state of the suspended turn.
    plans: states of the plan, each with the number of messages at that time.
    plan_paused: the plan belongs to an earlier request.
    woken: turns in a row that started by themselves.
    broken_off: open calls that had started when an earlier process ended; a resumed turn does not run them again.
    """

    def __init__(
        self,
        deps: TurnDeps,
        options: TurnOptions,
        record: Listener,
        history: Iterable[Message] = (),
        *,
        expanders: Iterable[Expander] = (),
        attached: tuple[Media, ...] = (),
        open_call_reason: Reason = "Not run: the user continued with another message.",
        plans: Iterable[tuple[int, tuple[TodoItem, ...]]] = (),
        broken_off: frozenset[str] = frozenset(),
        notes: Iterable[str] = (),
        learned: Mapping[str, str] = MappingProxyType({}),
        origin: SessionOrigin | None = None,
        plan_workflow: str = "",
        command_source: Callable[[str], str] = lambda name: "",
    ) -> None:
        """Create a conversation; a history that is not empty is resumed.

        open_call_reason: result text for calls that an earlier turn left open when a new message comes.
        notes: messages of the program to send before the user's next one.
        learned: marks of the files that the first one tells about.
        origin: how the session begins, for the hooks that run before the next message.
        plan_workflow: how to work in plan mode; "" for the program's own words.
        command_source: returns where a slash command comes from, for hooks; "" for an unknown one.
        """
        self.deps = deps.replace(inbox=self._take_inbox)
        self.options = options
        self.history: list[Message] = list(history)
        # How much of the history was looked at for it, its last message then, and whether plan mode is on.
        self._plan_mode_heard: tuple[int, Message | None, bool] = (0, None, False)
        self.record = record
        self.inbox.extend(notes)
        self._learned = learned
        self._open_call_reason = open_call_reason
        self._wrap_next: Callable[[str], str] = str
        self.expanders: list[Expander] = list(expanders)
        self.suspended_state: dict[str, Any] = {}
        self.attached = attached
        self._origin = origin or SessionOrigin("resume" if self.history else "startup")
        self._plan_workflow = plan_workflow
        self._command_source = command_source
        self._started = False
        self.preparations: list[Callable[[], None]] = []
        self.last: TurnResult | None = None
        self._turn_messages: list[Message] = []
        self.plans = list(plans)
        self.plan_paused = False
        self.broken_off = broken_off
        self.woken = 0
        self._running = False
        # Where the events of sub-agents in the background are shown: where those of the latest turn were.
        self._show: Listener = lambda event: None
        self._showing = _thread.RLock()
        self.deps.state.emit = self._emit

    def _emit(self, event: Event) -> None:
        """Record and show an event of a sub-agent in the background, on its thread."""
        self.record(event)
        with self._showing:
            self._show(event)

    def shown_by(self, show: Listener) -> Listener:
        """Return a listener that shows one event at a time, those of sub-agents in the background included."""
        self._show = show

        def shown(event: Event) -> None:
            with self._showing:
                show(event)

        return shown

    @property
    def inbox(self) -> list[str]:
        """Messages for the model's next round; safe to append to from any thread."""
        return self.deps.state.inbox

    def expect_reply(self, reason: Reason, wrap: Callable[[str], str] = str) -> None:
        """Take the next message as a reply to the calls that wait: they are answered with `reason`.

        wrap: transforms the text of that message.
        """
        self._open_call_reason, self._wrap_next = reason, wrap

    def mark_cleared(self) -> None:
        """Note for the SessionStart hooks that the user started this session in place of another."""
        self._origin = self._origin.replace(source="clear")

    def send(
        self,
        text: str,
        show: Listener,
        media: tuple[Media, ...] = (),
        uuid: str = "",
        *,
        verbatim: bool = False,
        append: str = "",
    ) -> TurnResult:
        """Run `send_events` to its end. Raises ToolError."""
        return consume(self.send_events(text, media, uuid, verbatim=verbatim, append=append), self.shown_by(show))

    def send_events(
        self, text: str, media: tuple[Media, ...] = (), uuid: str = "", *, verbatim: bool = False, append: str = ""
    ) -> Generator[Event, None, TurnResult]:
        """Add a user message and run the turn it starts. Calls left open by an earlier turn are answered first.

        uuid: of the message, where a host gave it one.
        verbatim: slash commands and mentions of files are plain text.
        append: follows the expanded text, such as files that an editor sent along.

        Each event is recorded before it is yielded. Raises ToolError if one of the user's slash commands cannot be
        expanded; nothing has been changed then.
        """
        self.deps.context.cancel = CancelToken()
        self.deps.context.mentioned.clear()
        self.deps.state.running = self.deps, self.options
        self.last = None
        if not is_synthetic(text):
            self.woken = 0
        for prepare in self.preparations:
            prepare()
        typed, given = text, as_expanded_prompt(text if verbatim else self._expanded(text))
        added: tuple[str, ...] = ()
        self.deps.state.prompt_id = new_uuid()
        if self._needs_start_hooks():
            made = yield from notify_listeners(
                session_hooks.message_hooks(self.deps, self._start_of(typed)), self.record
            )
            if made.session_started:
                self._origin = self._origin.replace(source="")
            if made.result is not None:
                # Keep the output of the SessionStart hooks for the next message.
                self.inbox.extend(made.texts)
                return made.result
            added = made.texts
        try:
            text = (yield from self._run_commands(given)) if given.commands else given.text()
        except ToolError:
            # Keep the output of the SessionStart hooks for the next message.
            self.inbox.extend(added)
            raise
        self._close_open_calls()
        self._note_interruption()
        self._pause_plan()
        if self.deps.policy.mode == "plan":
            workflow = self._plan_workflow or prompt("plan_workflow")
            note = f"\n\n{prompt('plan_mode').format(workflow=workflow)}"
        else:
            note = ""
            if self._plan_mode_left:
                self._add(UserMessage(PLAN_MODE_ENDED))
        self._add_notes()
        command = {"typed": typed} if typed.startswith("/") and not text.startswith(typed) else {}
        message = UserMessage(self._wrap_next(text) + append + note, (*self.attached, *media), **command)
        self._add(message, uuid)
        self._record_mentions(message)
        self._wrap_next, self.attached = str, ()
        self.deps.watch.turn(self.history, new=True, model=self.options.label)
        for words in added:
            self._add(UserMessage(words))
        return (yield from self._run(self.options.replace(overrides=given.overrides)))

    @property
    def _plan_mode_left(self) -> bool:
        """True if the last that the model heard of plan mode is that it is on."""
        count, last, on = self._plan_mode_heard
        if count > len(self.history) or (count and self.history[count - 1] is not last):
            count, on = 0, False
        for message in self.history[count:]:
            if isinstance(message, UserMessage):
                on = message.text != PLAN_MODE_ENDED if message.text.endswith("</plan_mode>") else on
            elif on and isinstance(message, ToolMessage) and not message.is_error and message.name:
                on = not self.deps.traits_of(message.name).ends_plan_mode
        self._plan_mode_heard = len(self.history), self.history[-1] if self.history else None, on
        return on

    def record_notes(self) -> None:
        """Record what happened since the last turn, such as a `!` command, so that a resumed session knows of it."""
        # A change of the plan belongs to the turn: its rounds look for it.
        texts = [t for t in self.inbox if t.startswith(SYNTHETIC_PREFIXES) and not t.startswith("<plan_change>")]
        if texts:
            self._note_interruption()
        for text in texts:
            self.inbox.remove(text)
            self._add(UserMessage(text))

    def _note_interruption(self) -> None:
        if self.history and is_interrupted(self.history[-1]):
            self._add(UserMessage(INTERRUPTED))

    def _add_notes(self) -> None:
        """Add what happened since the last turn before the message that may refer to it."""
        self.record_notes()
        for text in self._session_changes():
            self._add(UserMessage(text))

    def _session_changes(self) -> list[str]:
        """Return the message about how things stand now, if that is different from what the model knows."""
        environment = self.deps.environment
        if environment is None:
            return []
        if self._learned:
            self.record(FilesSeen({**self._learned}))
            self._learned = {}
        context = self.deps.context
        return environment.changes(self.options.label, self.deps.policy.mode, lambda: read_state.changed_files(context))

    def _pause_plan(self) -> None:
        """Pause an unfinished plan of an earlier request; tell the model once."""
        plan = self.deps.context.plan
        if not unfinished(plan):
            return
        note = prompt("plan_paused").format(plan=format_plan(plan))
        since = self.plans[-1][0] if self.plans else 0
        if not any(isinstance(m, UserMessage) and m.text.startswith("<plan_paused>") for m in self.history[since:]):
            self._add(UserMessage(note))

    def _run_commands(self, prompt: ExpandedPrompt) -> Generator[Event, None, str]:
        """Run the commands of a prompt, as far as they are permitted, and return its text."""
        # These commands belong to no turn; only the runs of hooks are recorded.
        run = prompt_overrides.run_prompt_commands(self.deps, prompt)
        return (yield from notify_listeners(run, lambda e: self.record(e) if isinstance(e, HookFinished) else None))

    def resume(self, show: Listener, spent: Spent) -> TurnResult:
        """Run `resume_events` to its end."""
        return consume(self.resume_events(spent), self.shown_by(show))

    def resume_events(self, spent: Spent) -> Generator[Event, None, TurnResult]:
        """Continue a suspended turn, with what is left of its budget. Each event is recorded before it is yielded."""
        self.deps.context.cancel = CancelToken()
        self.deps.watch.turn(self.history, new=False, model=self.options.label)
        self.deps.state.running = self.deps, self.options
        for prepare in self.preparations:
            prepare()
        for call in pending_calls(self.history):
            if call.id in self.broken_off:
                self._add(ToolMessage(call.id, call.name, self._reason(call), is_error=True))
        if self._needs_start_hooks():
            self.deps.state.prompt_id = self.deps.state.prompt_id or new_uuid()
            made = yield from notify_listeners(session_hooks.resume_hooks(self.deps, self._start_of("")), self.record)
            if made.session_started:
                self._origin = self._origin.replace(source="")
            self.inbox.extend(made.texts)
        self.inbox.extend(self._session_changes())
        return (yield from self._run(self.options.replace(spent=spent, suspended_state=self.suspended_state)))

    def pick_up(self) -> None:
        """Complete the history of an interrupted turn so that `resume` can continue it."""
        self._close_open_calls()
        last, agents = self.history[-1] if self.history else None, self.deps.state.background
        if not isinstance(last, AssistantMessage):
            return
        if agents is None or not agents.open or last.calls or is_interrupted(last):  # it did not wait for sub-agents
            self._add(UserMessage(BROKE_OFF))

    def end(self, reason: str) -> None:
        """End the session: run its SessionEnd hooks, if it ever began."""
        hooks = self.deps.hooks
        if self._started and hooks.wants("SessionEnd", reason):
            self.deps.context.cancel = CancelToken()
            consume(session_hooks.end_hooks(self.deps, reason), self.record)
        hooks.close()

    def _needs_start_hooks(self) -> bool:
        """Return True if hooks have to run before a message is sent; marks the session as begun."""
        self._started = True
        hooks = self.deps.hooks
        if hooks.wants("UserPromptSubmit") or hooks.wants("UserPromptExpansion"):
            return True
        source, setup = self._origin.source, self._origin.setup
        if not source:
            return False
        reasons = {"include" if by else "session_start" for _, _, by in self._origin.memory}
        told = any(hooks.wants("InstructionsLoaded", reason) for reason in reasons)
        return told or (setup != "" and hooks.wants("Setup", setup)) or hooks.wants("SessionStart", source)

    def _start_of(self, typed: str) -> session_hooks.MessageStart:
        """Return the description of a message for the hooks that run before it."""
        command = None
        if typed.startswith("/"):
            name, *arguments = typed[1:].split(maxsplit=1)[:2] or [""]
            if source := self._command_source(name):
                command = session_hooks.ExpandedCommand(name, "".join(arguments), source)
        return session_hooks.MessageStart(self._origin, self.options.label, typed, command)

    def _run(self, options: TurnOptions) -> Generator[Event, None, TurnResult]:
        self._running = True
        try:
            self.last = yield from notify_listeners(
                run_turn(self.history, self.deps, options), self.record, self._follow
            )
        finally:
            self._running, self.deps.state.answered = False, time.time()
            # What an interrupted turn recorded is part of the history as well.
            added, self._turn_messages = self._turn_messages, []
            self.history += added
        return self.last

    def _follow(self, event: Event) -> None:
        if isinstance(event, MessageAdded):
            self._turn_messages.append(event.message)
            if isinstance(event.message, UserMessage):
                self._record_mentions(event.message)
        elif isinstance(event, PlanChanged):
            self.plan_paused = event.paused
            if event.paused:
                return
            self.plans.append((len(self.live_history), event.items))

    def _record_mentions(self, message: UserMessage) -> None:
        """Record that the model knows the files whose whole text a message contains."""
        if seen := self.deps.context.mark_mentions_read(message.text):
            self.record(FilesSeen(seen))

    @property
    def live_history(self) -> list[Message]:
        """The history including the messages of the running turn; safe from any thread."""
        return [*self.history, *self._turn_messages]

    def rewind(self, messages: int) -> None:
        """Drop everything after the first `messages` messages.

        Restores the plan of that time; files that the model has read since count as unread.
        """
        self.history = self.history[:messages]
        self.deps.state.window.rewind_to(messages)
        self.inbox.clear()
        self.plans = [(count, items) for count, items in self.plans if count <= messages]
        self.deps.context.plan, self.deps.context.seen = self.plans[-1][1] if self.plans else (), {}
        read_state.forget_hidden(self.deps.context, ())
        if self.deps.context.nested_memory is not None:
            # Memory files announced in the dropped part are announced again when they apply again.
            self.deps.context.nested_memory = self.deps.context.nested_memory.nested()
        self.last = None
        if self.deps.state.background is not None:
            self.deps.state.background.forget()
        self.record(Rewound(messages, self.deps.context.plan))

    def change_plan(self, items: tuple[TodoItem, ...]) -> None:
        """Change the plan on behalf of the user; the model learns of it at the next round. Safe while a turn runs."""
        self.deps.context.plan, self.plan_paused = items, False
        self.plans.append((len(self.live_history), items))
        self.record(PlanChanged(items))
        self.inbox.append(f"<plan_change>\nThe user changed the plan. It is now:\n{format_plan(items)}\n</plan_change>")

    def _expanded(self, text: str) -> str | ExpandedPrompt:
        """Expand a message. Raises ToolError."""
        for expander in self.expanders:
            given = expander(text)
            if not isinstance(given, str):
                return given
            text = given
        return text

    def wait_for_reports(self) -> str:
        """Wait for hooks in the background that may report to the model; return what they report, "" for nothing."""
        self.deps.hooks.wait(self.deps.context.cancel)
        return "\n\n".join(self._hook_reports())

    def _hook_reports(self) -> list[str]:
        reports = [text for text in self.inbox if text.startswith(HOOK_REPORT)]
        for text in reports:
            self.inbox.remove(text)
        return reports

    def wakes(self, limit: int) -> bool:
        """Return True if what ended in the background may start a turn now, for at most so many turns in a row.

        None starts after a turn that was interrupted or failed, or while the user is asked.
        """
        if self.woken >= limit or self._running or self.suspended or not isinstance(self.last, Complete):
            return False
        agents = self.deps.state.background
        ended = self.deps.context.state(jobs.Jobs).has_unreported or (agents is not None and agents.has_unreported)
        return ended or any(text.startswith(HOOK_REPORT) for text in self.inbox)

    def take_reports(self) -> str:
        """Return the message of a turn that starts because something ended in the background."""
        self.woken += 1
        context = self.deps.context
        agents = self.deps.state.background
        reports = agents.reports(context) if agents is not None else []
        return "\n\n".join([*self._hook_reports(), *reports, *context.state(jobs.Jobs).notices(context, root=True)])

    def _take_inbox(self) -> list[str]:
        texts: list[str] = []
        # Pop one by one: messages that another thread adds meanwhile are in this batch or the next.
        while self.inbox:
            texts.append(self.inbox.pop(0))
        # Messages of the program are not expanded.
        return [
            text if text.startswith(SYNTHETIC_PREFIXES) else as_expanded_prompt(self._expanded(text)).text()
            for text in texts
        ]

    def interrupt(self) -> None:
        """Stop the running turn; safe from a signal handler or another thread."""
        self.deps.context.cancel.cancel()

    def retry_now(self) -> None:
        """Try the model again at once, if a failed call waits; safe from another thread."""
        self.deps.context.cancel.skip_pause()

    def stop_subagent(self, call_id: str) -> bool:
        """Stop the sub-agent of a call, so that the turn continues without it; return False if there is none.

        Safe from another thread.
        """
        agents = self.deps.state.background
        if agents is not None and (found := [agent for agent in agents.open if agent.item.call.id == call_id]):
            return bool(agents.stop(found))
        waits = self.deps.state.nested.get(call_id)
        if waits is None or waits.cancel is None:
            return False
        waits.cancel.cancel("stopped by the user")
        return True

    def side_cancel_token(self) -> CancelToken:
        """Return the cancel token for work outside the turns; interrupting the turn cancels it as well.

        The token of a turn that is stopping is not reused.
        """
        token = self.deps.context.cancel
        if token.cancelled:
            token = CancelToken()
            if not self._running:
                self.deps.context.cancel = token
        return token

    def abandon(self, reason: str) -> None:
        """End a suspended turn without running any more of it; answer its open calls with the reason."""
        self._open_call_reason = reason
        self._close_open_calls()
        self.record(TurnFinished("Failed", Diagnostics(0, 0, 0, 0, "", "cancelled"), Usage(), reason))

    @property
    def suspended(self) -> bool:
        return bool(pending_calls(self.history))

    def _close_open_calls(self) -> None:
        closed = close_open_calls(self.history, self._reason)
        for message in closed[len(self.history) :]:
            self._add(message)

    def _reason(self, call: ToolCall) -> str:
        """Return the result text for an open call, with its output if it ran and waited for an answer."""
        why = self._open_call_reason if isinstance(self._open_call_reason, str) else self._open_call_reason(call)
        held = self.deps.state.held.pop(call.id, None)
        if held is None:
            return why
        # The call did run, so its output comes first.
        return "\n\n".join(filter(None, [held.text, NO_ANSWER if why.startswith("Not run") else why]))

    def _add(self, message: Message, uuid: str = "") -> None:
        self.history.append(message)
        self.record(MessageAdded(message, (uuid,)) if uuid else MessageAdded(message))
