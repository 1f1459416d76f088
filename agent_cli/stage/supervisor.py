"""The process outside a stage: it makes the stage, starts the program in it, and brings its changes into the project.

The program runs in a mount namespace of its own, where the copy is in the project's place: tools, commands, hooks and
servers all see it under the usual paths.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from agent_cli.kernel.engine.types import ChangeObserver
from agent_cli.kernel.messages import AssistantMessage, Message, UserMessage
from agent_cli.kernel.session.stages import find_stage
from agent_cli.stage.changes import StagedChange, apply_changes, signature, staged_changes
from agent_cli.stage.copy import StageCopy, StageError
from agent_cli.stage.protocol import VARIABLE, answer_requests
from agent_cli.stage.tree import copy_entry
from agent_tools.base import Effect
from agent_tools.record import to_json
from agent_tools.results import ToolError
from agent_tools.text import utc_stamp

_FORWARDED = (signal.SIGTERM, signal.SIGHUP)
# What the terminal sends to all of its processes.
_OF_TERMINAL = (signal.SIGINT, signal.SIGQUIT)


class Supervisor:
    """Runs a program in a stage.

    bwrap: the path of bubblewrap. watch: returns the recorder of a session, for undo.
    """

    def __init__(self, copy: StageCopy, bwrap: str, watch: Callable[[str], ChangeObserver]) -> None:
        self._copy, self._bwrap, self._watch = copy, bwrap, watch
        # The session to go on with outside, if the user leaves the stage.
        self.left = ""
        # A turn has begun, and not ended yet: it may wait for a decision.
        self.in_turn = False
        # The process of the program, once it handles signals.
        self._process = 0

    def run(self, command: Sequence[str], cwd: Path) -> int:
        """Run a command in the stage until it ends; return its exit code. Raises StageError, OSError."""
        with self._copy.locked():
            self._copy.follow()
            near, far = socket.socketpair()
            words = [self._bwrap, "--dev-bind", "/", "/", *self._copy.mounts()]
            words += ["--cap-add", "ALL"] if os.geteuid() == 0 else []
            words += ["--die-with-parent", "--chdir", str(cwd), "--", *command]
            with _ignored_signals() as ignored:  # also by bubblewrap, whose end would kill the program
                env = {**os.environ, VARIABLE: " ".join(map(str, (far.fileno(), *ignored)))}
                process = subprocess.Popen(words, env=env, pass_fds=[far.fileno()])
                far.close()

                def forward(number: int, _: object) -> None:
                    with suppress(OSError):
                        os.kill(self._process, number) if self._process else process.kill()

                for number in {*ignored} & {*_FORWARDED}:
                    signal.signal(number, forward)
                answer_requests(near, self._actions(), (StageError, ToolError, OSError))
                return _exit_code(process.wait())

    def _actions(self) -> Mapping[str, Callable[..., Any]]:
        return {
            "begin": self._begin, "join": self._join, "follow": self._follow, "ended": self._ended,
            "changes": self._changes, "apply": self._apply, "discard": self._discard, "bring": self._bring,
            "leave": self._leave,
        }  # fmt: skip

    def _begin(self, process: int) -> None:
        self._process = process

    def _join(self, session: str) -> None:
        other = find_stage(self._copy.folder.parent, session)
        if other is not None and other != self._copy.folder:
            raise StageError(f"Session {session[:8]} is in another stage: leave this one with /stage, then resume it.")
        self._copy.save(self._copy.facts.replace(session=session))

    def _follow(self, *, turn: bool = True) -> list[str]:
        """Let the copy follow the project; return notes for the user."""
        self.in_turn = self.in_turn or turn
        self._copy.follow()
        return self._copy.follow_git() if turn else []

    def _ended(self, *, suspended: bool) -> None:
        self.in_turn = suspended

    def _leave(self, session: str) -> None:
        self.left = session

    def _changes(self) -> dict[str, Any]:
        changes = visible(staged_changes(self._copy))
        found = [{"diff": to_json(c.diff), "other": c.other} for c in changes]
        return {"changes": found, "shown": signature(changes)}

    def _apply(
        self, left_out: dict[str, list[int]], call: str, summary: str, turn: dict[str, Any], shown: str
    ) -> dict[str, Any]:
        """Apply the changes as one call of a turn, which can be undone.

        turn: its message, and the number before it. shown: the signature of the changes that the user saw.
        """
        changes = staged_changes(self._copy)
        if signature(visible(changes)) != shown:
            raise StageError("Nothing was applied, because the copy changed after the question.")
        every = _with_folders(changes, left_out)
        watch = self._watch(self._copy.facts.session)
        history: list[Message] = [AssistantMessage(())] * turn["at"]
        watch.turn([*history, UserMessage(turn["text"])], new=False, model=turn["model"])
        effects = [Effect("write", str(self._copy.root / c.path)) for c in changes if c.diff.patch != _FOLDER]
        warnings = [*watch.before(call, turn["tool"], summary, effects, str(self._copy.root))]
        try:
            applied = apply_changes(self._copy, changes, every)
        finally:
            warnings += watch.after(call)
            watch.close()
        return {**applied._asdict(), "warnings": warnings}

    def _bring(self, paths: list[str]) -> dict[str, Any]:
        """Bring into the project what an undo in the stage restored, which is recorded already."""
        names = {os.path.relpath(path, self._copy.root) for path in paths}
        changes = [c for c in staged_changes(self._copy) if c.path in names or _only_folder(c)]
        return apply_changes(self._copy, changes, {})._asdict()

    def _discard(self) -> str:
        """Make the copy what the project is; return the folder that has what was discarded."""
        changes = staged_changes(self._copy)
        kept = self._copy.folder.parent / f"discarded-{utc_stamp().replace(':', '')}-{os.urandom(2).hex()}"
        _keep(self._copy, changes, kept)
        self._copy.take(change.path for change in changes)
        return str(kept)


_FOLDER = "(a folder)"


def visible(changes: Sequence[StagedChange]) -> list[StagedChange]:
    """Return the changes without those of folders that the changes of files in them bring along."""
    inside = _inside(changes)
    return [c for c in changes if not (_only_folder(c) and c.path in inside)]


def _only_folder(change: StagedChange) -> bool:
    kinds = {entry.kind for entry in (change.before, change.after) if entry is not None}
    return kinds == {"folder"} and (change.before is None or change.after is None)


def _inside(changes: Sequence[StagedChange]) -> dict[str, list[StagedChange]]:
    """Return, for each folder, the changes below it that are more than a folder."""
    found: dict[str, list[StagedChange]] = {}
    for change in changes:
        folder = "" if _only_folder(change) else change.path.rpartition("/")[0]
        while folder:
            found.setdefault(folder, []).append(change)
            folder = folder.rpartition("/")[0]
    return found


def _with_folders(changes: Sequence[StagedChange], left_out: Mapping[str, Sequence[int]]) -> dict[str, Sequence[int]]:
    """Return what is left out, with the folders of which nothing else would be done."""
    found, every = dict(left_out), _inside(changes)
    for change in changes:
        inside = every.get(change.path, []) if _only_folder(change) else []
        none = all(len(left_out.get(c.path, ())) >= c.parts for c in inside)
        if inside and (none or (change.after is None and any(left_out.get(c.path) for c in inside))):
            found[change.path] = (0,)
    return found


def _keep(copy: StageCopy, changes: Sequence[StagedChange], folder: Path) -> None:
    """Keep a copy of discarded files."""
    folder.mkdir(mode=0o700)
    for change in changes:
        if change.after is not None and change.after.kind != "folder":
            (folder / change.path).parent.mkdir(parents=True, exist_ok=True)
            copy_entry(copy.tree, folder, change.path, change.after)


@contextmanager
def _ignored_signals() -> Iterator[list[int]]:
    """Ignore what would end this process before the program in the stage; yield the signals that were not ignored."""
    before = {number: signal.getsignal(number) for number in (*_OF_TERMINAL, *_FORWARDED)}
    changed = [int(number) for number, handler in before.items() if handler != signal.SIG_IGN]
    for number in changed:
        signal.signal(number, signal.SIG_IGN)
    try:
        yield changed
    finally:
        for number in changed:
            signal.signal(number, before[signal.Signals(number)])


def _exit_code(code: int) -> int:
    return code if code >= 0 else 128 - code
