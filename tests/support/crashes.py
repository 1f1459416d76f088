"""Stories of a session whose processes are killed: at random times, at each write, sync, rename and truncation of the
log, in the middle of a write, and by a power cut that takes with it what was not synced.

`python -m tests.support.crashes POINTS SEED FOLDER` runs as many kills and prints what went wrong, a line each, and
then `points N`. It forks from a process that has everything loaded, so that a kill costs milliseconds.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

from agent_cli.kernel.decisions import Answer, Approve, Defer
from agent_cli.kernel.engine.conversation import Conversation
from agent_cli.kernel.engine.turn import TurnDeps
from agent_cli.kernel.engine.types import ConversationState, ToolTable, TurnOptions
from agent_cli.kernel.events import ApprovalRequested, Event
from agent_cli.kernel.messages import AssistantMessage, Message, ToolMessage, UserMessage
from agent_cli.kernel.results import Limits
from agent_cli.kernel.runtime.builder import calls_left_open
from agent_cli.kernel.session.files import LogLine, read_bytes
from agent_cli.kernel.session.log import SessionLog
from agent_cli.kernel.session.records import Header, Restored, SessionNotFoundError
from agent_cli.kernel.session.restore import restore
from agent_cli.models.scripted import ScriptedClient
from agent_cli.policy.policy import Policy
from agent_tools.base import Effect, Tool, ToolContext, ToolResult
from agent_tools.fs.workspace import Workspace
from agent_tools.record import Value

FAULTS = ("write", "fsync", "rename", "ftruncate", "link", "unlink")
KILLS = ("time", "call", "torn", "power")
ROUNDS = 12


class MarkArgs(Value):
    number: int


class Mark(Tool[MarkArgs]):
    """A side effect that outlives the process, and can be counted."""

    name = "Mark"
    Args = MarkArgs

    def __init__(self, file: Path) -> None:
        self._file = file

    def effects(self, args: MarkArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        return (Effect("run", f"mark {args.number}"),)

    def summary(self, args: MarkArgs, ctx: ToolContext) -> str:
        return f"Mark {args.number}"

    def run(self, args: MarkArgs, ctx: ToolContext) -> ToolResult:
        with self._file.open("ab", buffering=0) as file:
            file.write(b"%d\n" % args.number)
        return ToolResult(f"marked {args.number}")


def script(dice: random.Random) -> list[dict[str, Any]]:
    """Return replies with numbered calls and text; then replies of text alone."""
    number = 0
    replies: list[dict[str, Any]] = []
    for _ in range(ROUNDS):
        calls = []
        for _ in range(dice.choice((0, 1, 1, 2, 3))):
            number += 1
            calls.append({"name": "Mark", "arguments": {"number": number}})
        words = " ".join(["word"] * dice.randrange(1, 60))
        replies.append({"text": words, **({"calls": calls} if calls else {})})
    return replies + [{"text": "That is all."}] * 200


class ProcessKiller:
    """Kills this process before, after or in the middle of a system call of the log."""

    def __init__(self, dice: random.Random, kind: str, acks: int) -> None:
        self._left = dice.randrange(1, 90) if kind in ("call", "torn", "power") else -1
        self._after, self._part = dice.random() < 0.5, dice.random() if kind == "torn" else None
        self._acks = acks
        for name in FAULTS:
            setattr(os, name, self._wrapped(name, getattr(os, name)))

    def _wrapped(self, name: str, real: Any) -> Any:
        def call(*args: Any, **more: Any) -> Any:
            if args and args[0] == self._acks:
                return real(*args)
            self._left -= 1
            if self._left == 0 and not self._after:
                if name == "write" and self._part is not None:
                    real(args[0], args[1][: int(len(args[1]) * self._part)])
                os.kill(os.getpid(), signal.SIGKILL)
            result = real(*args, **more)
            if name == "fsync":
                self._say(f"S {os.fstat(args[0]).st_size}\n")
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return call

    def _say(self, text: str) -> None:
        os.write(self._acks, text.encode())


def process(path: Path, marks: Path, replies: list[dict[str, Any]], dice: random.Random, kind: str, acks: int) -> None:
    """Run the program once over the session, as the front ends do."""
    armed = ProcessKiller(dice, kind, acks)
    log = SessionLog(path, lambda text: None)
    log._unfinished._seconds = 0.0005
    restored: Restored | None = None
    if path.exists() and path.stat().st_size:
        log.acquire()
        with path.open("rb") as file:
            restored = restore(file, "s")
        log.continue_from(restored.seq, restored.parent)
        if restored.bad:
            log.mend(restored)
        if restored.rebuilt:
            log.put_header(Header("s", "/", "/", "m", "", (), "1"))
    else:
        path.unlink(missing_ok=True)
        log.create(Header("s", "/", "/", "m", "", (), "1"))
    workspace = Workspace(path.parent)
    policy = Policy(workspace)

    def answer(request: ApprovalRequested) -> Answer:
        return Defer() if dice.random() < 0.2 else Approve()

    def record(event: Event) -> None:
        # Together: the thread that saves unfinished words may add a record of its own, which nobody has acknowledged.
        with log._lock:
            log.record(event)
            recorded = log._parent
        armed._say(f"R {recorded}\n")

    deps = TurnDeps(
        ScriptedClient(replies), ToolTable([Mark(marks)]), ToolContext(workspace), policy, answer, ConversationState()
    )
    options = TurnOptions(
        model="scripted", label="scripted", system="test", limits=Limits(rounds=40, failures=0, denials=0)
    )
    history = restored.history if restored else ()
    conversation = Conversation(deps, options, record, history, **calls_left_open(restored))
    if restored is not None and restored.waiting is not None:
        conversation.resume(lambda event: None, restored.waiting.spent)
    else:
        conversation.send("go on", lambda event: None)
    log.close()


def run_one(path: Path, marks: Path, replies: list[dict[str, Any]], seed: int, kind: str) -> tuple[bool, str]:
    """Fork a process and wait for its end; return whether it was killed, and what it acknowledged."""
    ear, mouth = os.pipe()
    dice = random.Random(seed)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(ear)
            process(path, marks, replies, dice, kind, mouth)
            code = 0
        except BaseException as error:
            os.write(mouth, f"E {type(error).__name__}: {error}\n".encode())
        finally:
            os._exit(code)
    os.close(mouth)
    if kind == "time":
        time.sleep(dice.uniform(0, 0.03))
        os.kill(child, signal.SIGKILL)
    found = b""
    while piece := os.read(ear, 1 << 16):
        found += piece
    os.close(ear)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status), found.decode()


def cut_power(path: Path, synced: int, dice: random.Random) -> None:
    """What was written behind the last sync is lost, from some place on: the bytes, or the length with them."""
    size = path.stat().st_size
    place = dice.randint(min(synced, size), size)
    with path.open("r+b") as file:
        file.truncate(place)
        if dice.random() < 0.5:
            file.truncate(size)


def unpaired(history: tuple[Message, ...]) -> str:
    """What a provider would refuse a history for; calls at its end may be open. Empty where it is well."""
    waiting: set[str] = set()
    known: set[str] = set()
    for message in history:
        if isinstance(message, ToolMessage):
            if message.call_id not in waiting:
                return f"a result without its call: {message.call_id}"
            waiting.remove(message.call_id)
            continue
        if waiting:
            return f"calls without results: {waiting}"
        if isinstance(message, AssistantMessage):
            ids = {call.id for call in message.calls}
            if ids & known or len(ids) < len(message.calls):
                return f"an id twice: {ids}"
            known |= ids
            waiting |= ids
    return "" if not history or isinstance(history[0], UserMessage) else "it begins with an answer"


class Story:
    """One session, from process to process."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.seed = seed
        self.dice = random.Random(seed)
        self.path, self.marks = folder / "s.jsonl", folder / "marks"
        self.marks.touch()
        self.replies = script(self.dice)
        self.acknowledged: set[str] = set()
        self.problems: list[str] = []
        self.bad = 0

    def tell(self) -> int:
        """Run it; the kills that hit."""
        kills = 0
        for number in range(6):
            kind = self.dice.choice(KILLS)
            killed, found = run_one(self.path, self.marks, self.replies, self.seed * 100 + number, kind)
            kills += killed
            self._after(found, kind, killed)
        for number in range(3):
            killed, found = run_one(self.path, self.marks, self.replies, self.seed * 100 + 50 + number, "none")
            self._after(found, "none", killed)
        return kills

    def _wrong(self, what: str) -> None:
        self.problems.append(f"seed {self.seed}: {what}")

    def _after(self, text: str, kind: str, killed: bool) -> None:
        acks = [line.split(" ", 1) for line in text.splitlines()]
        self.acknowledged |= {word for name, word in acks if name == "R"}
        for name, word in acks:
            if name == "E":
                self._wrong(f"{kind}: {word}")
        if kind == "power" and killed and self.path.exists():
            synced = max((int(word) for name, word in acks if name == "S"), default=self.path.stat().st_size)
            data = self.path.read_bytes()
            cut_power(self.path, synced, self.dice)
            self.acknowledged &= {line.id for line in lines(data[:synced])}
        self._check(kind)

    def _check(self, kind: str) -> None:
        data = self.path.read_bytes() if self.path.exists() else b""
        if lost := self.acknowledged - {line.id for line in lines(data)}:
            self._wrong(f"{kind}: acknowledged records lost: {lost}")
        marks = self.marks.read_text().split()
        if len(marks) != len(set(marks)):
            self._wrong(f"{kind}: a call ran twice: {marks}")
        if not data:
            return
        try:
            found = restore(data, "s")
        except SessionNotFoundError as error:
            # A first message that was not acknowledged may be gone; then there is nothing to open, and it says so.
            if self.acknowledged:
                self._wrong(f"{kind}: {error}")
            self.path.unlink()
            self.bad = 0
            return
        # A kill between two calls of the system leaves whole records; what was damaged before may still be.
        if found.bad > (self.bad if kind == "call" else 0) and kind in ("call", "none"):
            self._wrong(f"{kind}: {found.bad} damaged records")
        self.bad = found.bad
        if why := unpaired(found.history):
            self._wrong(f"{kind}: {why}")


def lines(data: bytes) -> list[LogLine]:
    """The good records of a log."""
    return [line for line in read_bytes(data) if line is not None]


def main(points: int, seed: int, folder: Path) -> None:
    """Run sessions until as many kills have hit."""
    done = stories = 0
    while done < points:
        stories += 1
        place = folder / f"story-{stories}"
        place.mkdir()
        story = Story(place, seed * 1_000_003 + stories)
        done += story.tell()
        for problem in story.problems:
            print(problem)
    print(f"points {done}")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
