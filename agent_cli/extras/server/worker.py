"""A worker: the process that carries out the inbox of one task, with the engine of `agent -p --on-ask suspend`.

Run as `python -m agent_cli.extras.server.worker FOLDER`. It exits when nothing is left to do: every turn has
ended or waits for a decision. Everything is in the session's log, so the process can be killed at any point.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from agent_cli import (
    Answer,
    ApprovalRequested,
    Approver,
    Asker,
    Config,
    Defer,
    Event,
    MessageAdded,
    QuestionAsked,
    QuestionReply,
    Restored,
    Session,
    SessionStore,
    StoredSession,
    Suspended,
    TurnResult,
    UsageError,
    UserDecision,
    UserMessage,
    Warned,
    find_environment,
    read_settings,
)
from agent_cli.console import echo, print_notice, print_warning
from agent_cli.extras.server.decisions import find_decision
from agent_cli.extras.server.proposal import propose_for_session
from agent_cli.extras.server.tasks import InboxEntry, ServerTask, new_entry
from agent_cli.extras.server.uploads import take_upload
from agent_cli.kernel.run_environment import StagedSessionError
from agent_cli.kernel.runtime.session_commands import is_slash
from agent_cli.kernel.runtime.staged_project import StagedProject
from agent_cli.kernel.runtime.worktree_hooks import WorktreeHooks
from agent_cli.kernel.session.records import WaitingTurn
from agent_cli.kernel.session.store import state_folder, write_crash_report
from agent_cli.kernel.session.view import LIVE_EVENTS
from agent_tools.base import ToolError
from agent_tools.fs.safe_files import open_regular, write_atomic
from agent_tools.record import to_json
from agent_tools.results import Media
from agent_tools.text import one_line

# Interval of checking the inbox while a turn runs.
_POLL_SECONDS = 0.1
FAILED_EXIT_CODE = 1
_NICENESS = 5


class LiveFileWriter:
    """Writes what changes the view of a session and is not in its log, for the server to show: an event a line."""

    def __init__(self, path: Path) -> None:
        with suppress(OSError):
            path.unlink()
        self._fd = open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._write({"worker": uuid.uuid4().hex})

    def __call__(self, event: Event, after: int) -> None:
        """Write an event. after: number of the record that it follows, which gives its place among the records."""
        self._write({"after": after, "event": to_json(event)})

    def _write(self, fields: dict[str, Any]) -> None:
        with suppress(OSError):  # what is lost here is in the log at the end of the answer
            os.write(self._fd, json.dumps(fields, separators=(",", ":")).encode("ascii") + b"\n")


class TaskWorker:
    """Carries out one task."""

    def __init__(self, task: ServerTask, env: Mapping[str, str]) -> None:
        self.task, self.env = task, env
        self.spec = task.spec
        self.agent: Session | None = None
        self._live = LiveFileWriter(task.live)
        self._running = threading.Event()
        self._stopping = False
        self._steering: dict[str, str] = {}
        self._lock = threading.Lock()

    def run(self) -> int:
        """Carry out what is in the inbox; return the exit code. Raises UsageError."""
        threading.Thread(target=self._watch, daemon=True).start()
        try:
            while (step := self._next_step()) is not None:
                result = step()
                if isinstance(result, Suspended):
                    break
        finally:
            if self.agent is not None:
                self.agent.close()
        return 0

    def _next_step(self) -> Callable[[], TurnResult | None] | None:
        """Return what to do next; None if nothing is left, or a decision is missing."""
        restored = self._load_session()
        entries = self._open_entries(restored)
        waiting = restored.waiting if restored is not None else None
        for entry in entries:
            if entry.kind == "propose":
                return lambda entry=entry: self._propose(entry)  # type: ignore[misc]
        if waiting is not None:
            return self._next_waiting_step(waiting, entries)
        for entry in entries:
            if entry.kind == "message":
                return lambda entry=entry: self._send(entry)  # type: ignore[misc]
            if entry.kind == "open":
                return lambda entry=entry: self._open(entry)  # type: ignore[misc]
            if entry.kind == "rewind" and restored is not None:
                return lambda entry=entry: self._rewind(entry)  # type: ignore[misc]
            if entry.kind == "resume" and restored is not None:
                turn = restored.interrupted
                self.task.mark_done(entry.id)
                if turn is not None:
                    return lambda turn=turn: self._resume(turn, pick_up=True)  # type: ignore[misc]
        return None

    def _next_waiting_step(
        self, waiting: WaitingTurn, entries: list[InboxEntry]
    ) -> Callable[[], TurnResult | None] | None:
        for entry in entries:
            if entry.kind == "expire":
                return lambda: self._expire(entry)
        left = [asked for i in waiting.undecided if (asked := waiting.requests.get(i) or waiting.questions.get(i))]
        if any(find_decision(asked, entries) is None for asked in left):
            return None
        return lambda: self._resume(waiting)

    def _load_session(self) -> Restored | None:
        run_env = self.agent.run_env if self.agent is not None else find_environment(self.env, self.spec.cwd)
        return SessionStore.of(run_env).session(self.spec.session_id).load_if_any()

    def _open_entries(self, restored: Restored | None) -> list[InboxEntry]:
        """Return the open entries; first mark those done that were handled before a crash, or that are void.

        An interrupt that came while this worker started is for the turn that it begins.
        """
        entries = self.task.open_entries()
        log = b""
        if restored is not None and any(entry.kind == "message" for entry in entries):
            with suppress(OSError):
                log = StoredSession(self.task.log(state_folder(self.env))).read()
        waiting = restored.waiting if restored is not None else None
        undecided = waiting.undecided if waiting is not None else ()
        gone = [
            entry.id
            for entry in entries
            if (entry.kind == "message" and entry.id.encode() in log)
            or (entry.kind == "decision" and entry.data.get("call_id") not in undecided)
            or (entry.kind == "interrupt" and (self.agent is not None or entry is entries[0]))
            or (entry.kind == "expire" and waiting is None)
        ]
        self.task.mark_done(*gone)
        return [entry for entry in entries if entry.id not in gone]

    def _send(self, entry: InboxEntry) -> TurnResult | None:
        agent = self._open_agent()
        self._take_options("model", "mode")
        for note in [e for e in self.task.open_entries() if e.kind == "note"]:
            agent.inbox.append(note.text)
            self.task.mark_done(note.id)
        if self._run_command(agent, entry):
            return None
        media = agent.attachments.mentioned(entry.text)
        text, files, more = self._with_uploads(agent, entry)

        def show(event: Event) -> None:
            if isinstance(event, MessageAdded) and isinstance(event.message, UserMessage):
                self.task.mark_done(entry.id)
            self._show(event)

        try:
            return self._run_turn(lambda: agent.send(text, show, (*media, *more), entry.id, append=files))
        except ToolError as error:
            # The message cannot be expanded now or later.
            print_notice(one_line(str(error)))
            return None
        finally:
            self.task.mark_done(entry.id)

    def _run_command(self, agent: Session, entry: InboxEntry) -> bool:
        """Carry out a command of the session; return False if the message is none."""
        if not is_slash(entry.text) or entry.text[1:].split(maxsplit=1)[:1] != ["compact"]:
            return False
        self.task.mark_done(entry.id)
        if why := agent.context.compact(self._show, entry.text[1:].partition(" ")[2].strip()):
            agent.record(Warned(why))
        return True

    def _with_uploads(self, agent: Session, entry: InboxEntry) -> tuple[str, str, list[Media]]:
        """Return the text of a message, the texts that it brings, and its images. Raises UsageError."""
        names, blocks, found = [], "", []
        for upload_id in entry.data.get("uploads", ()):
            try:
                name, mime, data = take_upload(self.task, upload_id)
            except (OSError, ValueError) as error:
                raise UsageError(f"A file of the message cannot be read: {error}.") from None
            names.append(name)
            if mime.startswith("image/"):
                found.append(agent.attachments.image(data, name))
            else:
                quoted = name.replace('"', "'")
                blocks += f'\n\n<file path="{quoted}" attached="true">\n{data.decode()}\n</file>'
        text = "\n\n".join(filter(None, (entry.text, f"Attached: {', '.join(names)}" if names else "")))
        return text, blocks, found

    def _open(self, entry: InboxEntry) -> None:
        self._open_agent()
        self.task.mark_done(entry.id)

    def _propose(self, entry: InboxEntry) -> None:
        """Write a message for a commit of what the session changed."""
        text, why = "", ""
        try:
            text = propose_for_session(self._open_agent())
        except UsageError as error:
            why = str(error)
        answer = {"id": entry.id, "text": text, "why": why}
        write_atomic(self.task.proposal, json.dumps(answer).encode("ascii"))
        self.task.mark_done(entry.id)

    def _take_options(self, *names: str) -> None:
        """Change the model or the mode of the open session as the user chose."""
        agent = self.agent
        for entry in self.task.open_entries():
            if entry.kind == "options" and agent is not None:
                try:
                    if "mode" in names and (mode := entry.data.get("mode")):
                        agent.use_mode(mode)
                    if "model" in names and (model := entry.data.get("model")):
                        agent.use_model(model, "sdk")
                except UsageError as error:
                    print_notice(one_line(str(error)))
                if set(entry.data) <= set(names):
                    self.task.mark_done(entry.id)

    def _resume(self, turn: WaitingTurn, *, pick_up: bool = False) -> TurnResult:
        agent = self._reopen_agent()
        restored = agent.restored
        today = (restored.waiting or restored.interrupted) if restored is not None else None
        if pick_up:
            agent.pick_up()
        else:
            agent.store.claim_plan(agent.session_id)
        spent = (today or turn).spent
        return self._run_turn(lambda: agent.resume(self._show, spent))

    def _rewind(self, entry: InboxEntry) -> None:
        self._open_agent().rewind(int(entry.data["messages"]))
        self.task.mark_done(entry.id)

    def _expire(self, entry: InboxEntry) -> None:
        agent = self._reopen_agent()
        agent.expire_plan()
        self.task.mark_done(entry.id)

    def _run_turn(self, run: Callable[[], TurnResult]) -> TurnResult:
        assert self.agent is not None
        policy = self.agent.policy
        mode = policy.mode
        self._stopping = False
        self._running.set()
        try:
            return run()
        finally:
            self._running.clear()
            if policy.mode != mode:
                # A decision changed it: it is that of the next turn, too.
                entry = new_entry("options", "", data={"mode": policy.mode})
                self.task.add(entry)
                self.task.mark_done(entry.id)
            inbox = self.agent.inbox if self.agent is not None else []
            with self._lock:
                for text in self._steering.values():
                    # Too late for this turn; it is still in the task's inbox, and starts the next one.
                    with suppress(ValueError):
                        inbox.remove(text)
                self._steering.clear()

    def _show(self, event: Event) -> None:
        if isinstance(event, LIVE_EVENTS) and self.agent is not None:
            self._live(event, self.agent.last_record)
        if isinstance(event, MessageAdded) and isinstance(event.message, UserMessage) and self._steering:
            inbox = self.agent.inbox if self.agent is not None else []
            with self._lock:
                sent = [i for i, text in self._steering.items() if text not in inbox]
                for i in sent:
                    del self._steering[i]
            self.task.mark_done(*sent)

    def _watch(self) -> None:
        """Forward messages and interrupts from the inbox to the running turn."""
        seen: set[str] = set()
        while True:
            threading.Event().wait(_POLL_SECONDS)
            if self._running.is_set() and self.agent is not None:
                for entry in self.task.open_entries():
                    if entry.id not in seen:
                        self._forward(entry, seen)
                if self._stopping:
                    self.agent.interrupt()

    def _forward(self, entry: InboxEntry, seen: set[str]) -> None:
        assert self.agent is not None
        if entry.kind == "interrupt":
            seen.add(entry.id)
            self.task.mark_done(entry.id)
            # Again until it ends: a turn that only begins does not heed it yet.
            self._stopping = True
        elif entry.kind == "options" and "mode" in entry.data:
            seen.add(entry.id)
            self._take_options("mode")
        elif entry.kind == "message" and self.agent.message_agent(entry.text):
            seen.add(entry.id)
            self.task.mark_done(entry.id)
        elif entry.kind == "message" and entry.how == "steer":
            seen.add(entry.id)
            with self._lock:
                self._steering[entry.id] = entry.text
                self.agent.inbox.append(entry.text)

    def _open_agent(self) -> Session:
        """Return the agent of the session, which is started or resumed first if needed. Raises UsageError."""
        if self.agent is None:
            run_env = find_environment(self.env, self.spec.cwd)
            old = SessionStore.of(run_env).path(self.spec.session_id).is_file()
            chosen: dict[str, Any] = {"session_id": self.spec.session_id}
            if old:
                chosen = {"resume": self.spec.session_id, "fork": False}
            config = self.task.config.replace(on_ask="suspend", **chosen)
            self.agent = Session.open(config, run_env, self._answerers, print_warning)
            self._know_decisions(self.agent)
        return self.agent

    def _know_decisions(self, agent: Session) -> None:
        """Let the session know which questions have a decision in the inbox."""
        deps = agent.deps
        agent.deps = deps.replace(recorded=lambda asked: deps.recorded(asked) or self._find_decision(asked) is not None)

    def _reopen_agent(self) -> Session:
        """Return the agent of a session whose turn was cut off or waits. Raises UsageError."""
        if self.agent is not None:
            self.agent.close()
            self.agent = None
        run_env = find_environment(self.env, self.spec.cwd)
        config = self.spec.config.replace(model=None, resume=self.spec.session_id, fork=False)
        self.agent = Session.open(config, run_env, self._answerers, print_warning, as_saved="always")
        self._know_decisions(self.agent)
        self._take_options("mode")
        return self.agent

    def _answerers(self, on_ask: str) -> tuple[Approver, Asker]:
        return self._approve, self._answer

    def _approve(self, request: ApprovalRequested) -> Answer:
        found = self._find_decision(request) or self._find_earlier_edit(request)
        return cast(Answer, self._take(request, found))

    def _answer(self, asked: QuestionAsked) -> QuestionReply | Defer:
        return cast("QuestionReply | Defer", self._take(asked, self._find_decision(asked)))

    def _take(
        self, asked: ApprovalRequested | QuestionAsked, found: tuple[InboxEntry, UserDecision] | None
    ) -> Answer | QuestionReply:
        """Return the answer of a stored decision; without one, the question stays open."""
        if found is None or self.agent is None:
            return Defer()
        entry, decision = found
        files, traits_of = self.agent.tool_context.workspace, self.agent.traits_of
        answer: Answer | QuestionReply
        try:
            answer = decision.answer_to(asked, files, entry.user, traits_of)
        except UsageError as refused:
            # It was accepted, so the file has changed since: ask again.
            print_notice(one_line(f"The decision about {asked.call_id} cannot be carried out. {refused}"))
            answer = Defer()
        self.task.mark_done(entry.id)
        return answer

    def _find_earlier_edit(self, request: ApprovalRequested) -> tuple[InboxEntry, UserDecision] | None:
        """Return an earlier edit of the call's arguments, which led to the question about the new ones.

        The history has the model's arguments, so a resumed turn asks the first question again.
        """
        found = find_decision(request, reversed(self.task.entries()))
        return found if found is not None and (found[1].arguments or found[1].hunks) else None

    def _find_decision(self, asked: ApprovalRequested | QuestionAsked) -> tuple[InboxEntry, UserDecision] | None:
        return find_decision(asked, self.task.open_entries())


def make_worktree(folder: str, name: str) -> int:
    """Make a worktree of the repository in a folder; print the folder in it; return the exit code."""
    try:
        run_env = find_environment(os.environ, folder)
        layers = read_settings(Config(), run_env)
        WorktreeHooks(layers, run_env, print_notice).enter(name).copy_settings(layers.trust, os.environ)
    except UsageError as error:
        print_notice(str(error))
        return FAILED_EXIT_CODE
    echo(str(Path.cwd()))
    return 0


def _run(task: ServerTask) -> int:
    """Carry out a task, in a stage if it has one or is to have one; return the exit code. Raises UsageError."""
    run_env = find_environment(os.environ, task.spec.cwd)
    if run_env.stage is not None:
        return TaskWorker(task, os.environ).run()
    if task.spec.stage:
        known = SessionStore.of(run_env).session(task.session_id).stage_folder
        layers = read_settings(task.spec.config, run_env)
        if known is not None:
            return _run_in(StagedProject.of_session(known, run_env), task)
        return _run_in(StagedProject.begin(run_env, layers), task)
    try:
        return TaskWorker(task, os.environ).run()
    except StagedSessionError as error:
        return _run_in(StagedProject.of_session(error.folder, run_env), task)


def _run_in(project: StagedProject, task: ServerTask) -> int:
    task.release()
    command = [sys.executable, "-P", "-m", "agent_cli.extras.server.worker", str(task.folder)]
    return project.run(command).code


def main(folder: str) -> int:
    """Carry out the task in a folder; return the exit code."""
    # Ctrl-C in the terminal of the server must not end the worker.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # The page must respond at once even if the workers keep all processors busy.
    os.nice(_NICENESS)
    task = ServerTask(Path(folder))
    if not task.acquire():
        return 0
    try:
        task.fail("")
        return _run(task)
    except UsageError as error:
        print_notice(str(error))
        task.fail(str(error))
        return FAILED_EXIT_CODE
    except Exception as error:  # noqa: BLE001 - no error is lost with the worker; shown as the failure of its session
        text = f"The program failed: {type(error).__name__}. The report is in {write_crash_report(error, os.environ)}"
        print_notice(text)
        task.fail(text)
        return FAILED_EXIT_CODE


if __name__ == "__main__":
    sys.exit(make_worktree(*sys.argv[2:]) if sys.argv[1] == "--worktree" else main(sys.argv[1]))
