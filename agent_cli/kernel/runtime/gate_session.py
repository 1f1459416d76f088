"""A session of another program as one of ours: its log has the messages, and the calls that were decided here.

A call that waits is in `agent pending`, on the page and in the API like every other. It waits only as long as the hook
does, whose process and deadline are in the checkpoint. The program itself runs the call, so a call has its result in
the log as soon as it is decided.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path

from agent_cli.config.config import Config
from agent_cli.kernel.events import (
    ApprovalRequested,
    ApprovalResolved,
    Checkpoint,
    MessageAdded,
    ToolFinished,
    ToolRequested,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from agent_cli.kernel.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from agent_cli.kernel.results import Diagnostics, Usage
from agent_cli.kernel.run_environment import RunEnvironment
from agent_cli.kernel.runtime.checkpoints import checkpoint_keeper
from agent_cli.kernel.runtime.environment import find_environment, read_settings
from agent_cli.kernel.session.files import decode_record
from agent_cli.kernel.session.log import SessionLog
from agent_cli.kernel.session.records import Header, Restored, WaitingTurn
from agent_cli.kernel.session.store import SessionStore, state_folder
from agent_cli.kernel.version import __version__
from agent_tools.fs.safe_files import open_regular, private_folder, read_regular
from agent_tools.results import Display

_LOCK_SECONDS = 10.0
_MAX_LOG_BYTES = 64 << 20


class GateSession:
    """One session of another program.

    key: names the program and, in its own words, the session. label: the program in texts. cwd: of the call.
    """

    NOBODY = "Nobody answered in time, so the call is refused. See: agent pending"
    NOTE = "The user approved this call and says: "
    NO_MESSAGE = "(a message from before agent gate was installed)"

    def __init__(self, key: str, label: str, cwd: str, env: dict[str, str]) -> None:
        self.label = label
        digest = blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
        self.session_id = "-".join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:]))
        here = find_environment(env, cwd)
        self.run_env = here
        state = state_folder(env)
        self._lock = state / "gate" / f"{self.session_id}.lock"
        # A command can have another folder, so the workspace is that of the session's first message.
        logs = (store.session(self.session_id) for store in SessionStore.everywhere(env))
        found = next((each for each in logs if each.path.exists()), None)
        self.stored = found or SessionStore.of(here).session(self.session_id)
        self.path = self.stored.path
        if root := self.stored.root:
            self.run_env = RunEnvironment(here.cwd, Path(root), here.home, here.env)

    def load(self) -> Restored | None:
        """Return the session as its log has it; None if there is none yet."""
        return self.stored.load() if self.path.exists() else None

    def history(self) -> tuple[Message, ...]:
        """Return its messages so far."""
        restored = self.load()
        return restored.history if restored is not None else ()

    def grants(self) -> Iterator[str]:
        """Yield the rules that the user added to the session with earlier approvals."""
        try:
            data = read_regular(self.path, _MAX_LOG_BYTES)
        except OSError:
            return
        for line in data.split(b"\n"):
            if b'"type":"ApprovalResolved"' in line and b'"rule":' in line and (record := decode_record(line)):
                made = record["data"]
                if made.get("decision") == "approve" and made.get("by") == "person" and made.get("rule"):
                    yield made["rule"]

    def note_of(self, key: str) -> str:
        """Return what the user said when approving the latest call with this ID, or one that begins with it."""
        said = [m for m in self.history() if isinstance(m, ToolMessage)]
        text = next((m.text for m in reversed(said) if m.call_id.startswith(key)), "")
        return text if text.startswith(self.NOTE) else ""

    def close_copies(self, call: str = "") -> None:
        """Save how files are after the calls that have ended; "" for all that ran in it. Raises UsageError."""
        settings = read_settings(Config(), self.run_env).settings()
        checkpoint_keeper(self.run_env, settings, self.session_id).after_earlier(call)

    @contextmanager
    def writing(self) -> Iterator[tuple[SessionLog, Restored | None]]:
        """Yield the log, locked, and what it has so far. Raises SessionBusyError, and OSError if nothing is saved."""
        problems: list[str] = []
        log = SessionLog(self.path, problems.append, self.run_env.env)
        try:
            restored = None
            if self.path.exists():
                log.acquire(_LOCK_SECONDS)
                restored = self.load()
                assert restored is not None
                log.continue_from(restored.seq, restored.parent)
            else:
                env = self.run_env
                log.create(
                    Header(self.session_id, str(env.cwd), str(env.root), self.label, "", (), __version__,
                           host=self.label)
                )  # fmt: skip
            yield log, restored
            if log.warning:
                raise OSError(log.warning)
        finally:
            log.close()

    def prompt(self, text: str) -> None:
        """Record a message of the user, which begins a turn."""
        with self.writing() as (log, _):
            self._begin(log, text)

    def end(self) -> None:
        """Record the end of the turn."""
        self._lock.unlink(missing_ok=True)
        if not self.path.exists():
            return
        with self.writing() as (log, restored):
            if restored is not None and restored.last is None and restored.history:
                done = Diagnostics(0, 0, 0, 0, "end_turn", "completed")
                log.record(TurnFinished("Complete", done, Usage()))

    def _begin(self, log: SessionLog, text: str) -> None:
        log.record(MessageAdded(UserMessage(text or self.NO_MESSAGE)))
        log.record(TurnStarted(self.label, "default"))

    def ask(self, call: ToolCall, request: ApprovalRequested, until: float) -> None:
        """Record a call that waits for the user. until: when the hook gives up, in seconds since the epoch."""
        with self.writing() as (log, restored):
            self._request(log, restored, call, request.summary)
            log.record(request)
            log.record(Checkpoint(mode="", kept=WaitingTurn.hook_mark(os.getpid(), until)))

    def settle(
        self, call: ToolCall, summary: str, text: str, *, allowed: bool, asked: bool, display: Display | None = None
    ) -> None:
        """Record what became of a call. asked: it waited for the user."""
        with self.writing() as (log, restored):
            if not asked:
                self._request(log, restored, call, summary)
            if allowed:
                log.record(ToolStarted(call.id, call.name))
            log.record(ToolFinished(call.id, call.name, not allowed, 0, display))
            log.record(MessageAdded(ToolMessage(call.id, call.name, text, is_error=not allowed)))

    def _request(self, log: SessionLog, restored: Restored | None, call: ToolCall, summary: str) -> None:
        if restored is None or not restored.history or restored.last is not None:
            self._begin(log, "")
        log.record(MessageAdded(AssistantMessage((call,))))
        log.record(ToolRequested(call.id, call.name, call.arguments, summary))

    @contextmanager
    def turn_to_ask(self, until: float, gone: Callable[[], bool]) -> Iterator[bool]:
        """Yield True once no other call of the session waits for the user; False if that takes too long."""
        private_folder(self._lock.parent)
        fd = open_regular(self._lock, os.O_RDWR | os.O_CREAT)
        try:
            ready = False
            while not ready and time.time() < until and not gone():
                with suppress(BlockingIOError):
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    ready = True
            yield ready
        finally:
            os.close(fd)

    def wait(self, request: ApprovalRequested, until: float, gone: Callable[[], bool]) -> ApprovalResolved | None:
        """Return the user's decision; None if there is none in time.

        gone: waits a moment; returns True if nobody waits for the answer any more.
        """
        mark = None
        while time.time() < until:
            stat = self.path.stat()
            if (stat.st_mtime_ns, stat.st_size) != mark:
                mark = stat.st_mtime_ns, stat.st_size
                restored = self.load()
                waiting = restored.waiting if restored is not None else None
                if waiting is None:
                    return None  # the log was removed or damaged
                made = waiting.decisions.get(request.call_id)
                if made is not None and made.binding == request.binding:
                    return made
            if gone():
                return None
        return None
