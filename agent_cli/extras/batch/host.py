"""Run tasks on this machine: each in a separate work tree, by a process of `agent -p`, then its check.

The input (`WorkOrder`) and the output (`TaskResult`) are plain data, since a cluster has to send both.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from agent_cli import Config, UsageError, find_environment, read_settings
from agent_cli.extras.batch.tasks import SourceStore
from agent_cli.extras.evaluation.processes import EvaluationStoppedError, ProcessPool
from agent_cli.extras.evaluation.results import AgentReport
from agent_cli.extras.evaluation.steps import AgentTurn, CheckEnd, TaskSteps, check_sandbox_maker, describe_turn_failure
from agent_cli.kernel.session.store import state_folder
from agent_cli.policy.trust import GIT, fingerprints
from agent_tools.fs.safe_files import open_regular, private_folder
from agent_tools.process.guarded_git import GitError
from agent_tools.record import Value
from agent_tools.results import ToolError
from agent_tools.text import shorten

LOCK = ".lock"


class RunFolder:
    """A folder in the state folder for this process alone. The folders of killed processes are removed first."""

    def __init__(self, state: Path) -> None:
        """Create the folder. Raises OSError."""
        parent = state / "batches"
        private_folder(parent)
        with _lock_parent(parent):
            _remove_abandoned(parent)
            self.path = Path(tempfile.mkdtemp(dir=parent)).resolve()
            self._lock = try_lock(self.path)

    def close(self) -> None:
        """Remove it, and what a process that was killed shortly before this one began has still written at its end."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
        with suppress(OSError), _lock_parent(self.path.parent):
            _remove_abandoned(self.path.parent)


def _remove_abandoned(parent: Path) -> None:
    """Remove the folders that no process uses."""
    for folder in parent.iterdir():
        if folder.is_dir() and (lock := try_lock(folder)) is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)


def try_lock(folder: Path) -> int | None:
    """Lock a folder; return the descriptor that holds the lock, or None if it is locked or does not exist."""
    try:
        descriptor = open_regular(folder / LOCK, os.O_RDWR | os.O_CREAT)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


@contextmanager
def _lock_parent(parent: Path) -> Iterator[None]:
    """Exclude other processes that create or remove folders."""
    descriptor = open_regular(parent / LOCK, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


RESULT_FILE_VARIABLE = "AGENT_BATCH_RESULT"
TASK_ID_VARIABLE = "AGENT_BATCH_TASK"
_SETUP_SECONDS = 1800.0
_MONTH_SECONDS = 30 * 86400.0
_MAX_REASON_CHARS = 300

# passed: the turn is done, and the check passed. failed: one of them is not. error: the task could not begin.
# interrupted, skipped: it is to run again.
Status = Literal["passed", "failed", "error", "interrupted", "skipped"]


class WorkOrder(Value):
    """A task to run.

    source: a bare repository of ours on this machine, or a URL if `fetched`; unused if a bundle is sent.
    commit: a hash; for a URL a branch, a tag or a hash, "" for HEAD.
    flags: options of `agent -p`.
    trusted: the files of the project that the user trusts, with their fingerprints. A tree with no others is trusted
        as well.
    bundle: as `SourceStore.bundle` returned it.
    shallow: as `SourceStore.bundle` returned it.
    seconds: for the turn; 0 for no limit.
    """

    id: str
    prompt: str
    source: str
    commit: str
    flags: tuple[str, ...]
    fetched: bool = False
    trusted: dict[str, str] = {}  # noqa: RUF012 - never changed
    bundle: bytes = b""
    shallow: bytes = b""
    subfolder: str = ""
    setup: str = ""
    check: str = ""
    check_sandbox: bool = True
    check_seconds: float = 300.0
    seconds: float = 0.0


class TaskResult(Value):
    """The end of a task.

    error: why it did not pass.
    outcome: of the turn.
    check_code: exit code of the check; None for none.
    seconds: duration of the turn.
    commit: where it started.
    patch: its changes.
    files: the number of changed files.
    retryable: it may pass if it is run again: the host or the model's provider failed.
    """

    id: str
    status: Status
    error: str = ""
    outcome: str = ""
    check_code: int | None = None
    report: AgentReport = AgentReport()
    seconds: float = 0.0
    commit: str = ""
    host: str = ""
    patch: bytes = b""
    files: int = 0
    retryable: bool = False


class TaskHost:
    """Runs tasks, from any number of threads, in a folder that `close` removes."""

    def __init__(self, env: Mapping[str, str], config: Config | None = None) -> None:
        """Raise UsageError for invalid settings. config: of the command."""
        run_env = find_environment(env, "/")
        self._config = config or Config()
        self._sandbox = check_sandbox_maker(read_settings(self._config, run_env).settings(), run_env)
        self._env = env
        try:
            self._folder = RunFolder(state_folder(env))
            self.sources = SourceStore(self._folder.path, env)
        except (OSError, GitError) as error:
            raise UsageError(f"A batch cannot run here: {getattr(error, 'strerror', None) or error}.") from None
        self._pool = ProcessPool()
        self._lock = threading.Lock()
        self._task_count = 0

    def run(self, order: WorkOrder) -> TaskResult:
        """Run a task to its end. Its work tree is removed."""
        with self._lock:
            self._task_count += 1
            folder = self._folder.path / f"{self._task_count}-{order.id}"
        run = _TaskRun(order, folder, self._env, self._pool)
        try:
            return run.run(self)
        except EvaluationStoppedError:
            return run.make_result("interrupted", "interrupted")
        except (GitError, ToolError, UsageError) as error:
            return run.make_result("error", str(error))
        except (OSError, shutil.Error) as error:
            return run.make_result("error", str(getattr(error, "strerror", None) or error), retryable=True)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def find_source(self, order: WorkOrder) -> tuple[Path, str]:
        """Return the bare repository of a task and its commit. Raises GitError, OSError."""
        if order.bundle:
            return self.sources.of_bundle(order.bundle, order.shallow), order.commit
        if order.fetched:
            bare = self.sources.of_url(order.source, order.commit)
            return bare, self.sources.commit(bare, "")
        return Path(order.source), order.commit

    def trusted_files(self, path: str) -> dict[str, str]:
        """Return the files that take effect in a project of the user, with their fingerprints; {} if it is not trusted.

        Raises UsageError.
        """
        run_env = find_environment(self._env, path)
        return _effective_files(run_env.root) if read_settings(self._config, run_env).trust.trusted else {}

    def check(self, order: WorkOrder, steps: TaskSteps, cwd: Path) -> CheckEnd:
        """Run the check of a task, in the sandbox if there is one."""
        sandbox = self._sandbox(steps.work, (steps.result,)) if self._sandbox and order.check_sandbox else None
        variables = {RESULT_FILE_VARIABLE: str(steps.answer), TASK_ID_VARIABLE: order.id}
        return steps.check(("bash", "-c", order.check), order.check_seconds, variables, sandbox, cwd)

    def stop(self) -> None:
        """Interrupt all tasks and run no more; if called again, kill them. Safe in a signal handler."""
        self._pool.stop()

    def close(self) -> None:
        """Remove the folder."""
        self._folder.close()


class _TaskRun:
    def __init__(self, order: WorkOrder, folder: Path, env: Mapping[str, str], pool: ProcessPool) -> None:
        self._order, self._pool, self._task_folder = order, pool, folder
        self._steps = TaskSteps(folder, env, pool)
        self._commit = ""
        self._turn: AgentTurn | None = None
        self._check: CheckEnd | None = None
        self._patch: tuple[bytes, int] = (b"", 0)

    def run(self, host: TaskHost) -> TaskResult:
        order, steps = self._order, self._steps
        if self._pool.is_stopping():
            raise EvaluationStoppedError
        steps.result.mkdir(parents=True)
        bare, self._commit = host.find_source(order)
        host.sources.make_tree(bare, self._commit, steps.work, f"agent/{order.id}")
        cwd = self._working_folder()
        if why := steps.set_up(order.setup, _SETUP_SECONDS):
            return self._interrupted() or self.make_result("error", why)
        trust = order.trusted and _effective_files(steps.work).items() <= order.trusted.items()
        flags = (*order.flags, *(["--trust"] if trust else []))
        self._turn = steps.take_turn(flags, order.prompt, order.seconds or _MONTH_SECONDS, cwd)
        if self._pool.is_stopping():
            return self.make_result("interrupted", "interrupted")
        if why := steps.startup_error(self._turn):
            return self.make_result("error", why)
        self._patch = host.sources.changes(bare, self._commit, steps.work, self._task_folder / "index")
        if order.check:
            self._check = host.check(order, steps, cwd)
            if self._pool.is_stopping() and self._check.why:
                return self.make_result("interrupted", "interrupted")
        return self._evaluate(self._turn)

    def _working_folder(self) -> Path:
        """Return the folder to work in. Raises UsageError if it is not in the tree."""
        cwd = Path(os.path.realpath(self._steps.work / self._order.subfolder))
        if not cwd.is_dir() or not cwd.is_relative_to(self._steps.work.resolve()):
            raise UsageError(f"there is no folder {self._order.subfolder} in the repository")
        return cwd

    def _evaluate(self, turn: AgentTurn) -> TaskResult:
        killed = turn.code < 0 and turn.outcome != "timeout"
        before = describe_turn_failure(turn, self._order.seconds)
        if turn.outcome == "suspended":
            before = "it waits for a decision, which nobody takes in a batch"
        elif killed:
            before = f"its process was ended by signal {-turn.code}"
        elif turn.code == 0:
            before = ""
        why = "; ".join(filter(None, (before, self._check.why if self._check else "")))
        return self.make_result("failed" if why else "passed", why, retryable=killed or turn.outcome == "retryable")

    def _interrupted(self) -> TaskResult | None:
        return self.make_result("interrupted", "interrupted") if self._pool.is_stopping() else None

    def make_result(self, status: Status, why: str, *, retryable: bool = False) -> TaskResult:
        turn = self._turn
        return TaskResult(
            id=self._order.id,
            status=status,
            error=shorten(why, _MAX_REASON_CHARS),
            outcome=turn.outcome if turn is not None else "",
            check_code=self._check.code if self._check is not None else None,
            report=turn.report if turn is not None else AgentReport(),
            seconds=turn.seconds if turn is not None else 0.0,
            commit=self._commit,
            host=socket.gethostname(),
            patch=self._patch[0],
            files=self._patch[1],
            retryable=retryable,
        )


def _effective_files(root: Path) -> dict[str, str]:
    """Return the fingerprints of the files that would take effect, but that of git's configuration.

    A tree of ours has another one. {} if there are too many.
    """
    return {name: mark for name, mark in (fingerprints(root) or {}).items() if name != GIT}
