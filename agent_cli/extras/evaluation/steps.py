"""The steps of one task, in a separate folder: the setup, the turn of `agent -p`, and the check of its work."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from agent_cli import RunEnvironment
from agent_cli.config.schema import Settings
from agent_cli.extras.evaluation.processes import ProcessPool
from agent_cli.extras.evaluation.results import AgentReport, read_report
from agent_cli.kernel.runtime.tools import make_confinement, sandbox_profile
from agent_tools.fs.safe_files import read_regular, write_atomic
from agent_tools.fs.workspace import Workspace
from agent_tools.record import Value
from agent_tools.sandbox.runner import SandboxRunner
from agent_tools.sandbox.sandbox import select_sandbox
from agent_tools.secret_patterns import without_secrets
from agent_tools.text import shorten

_MAX_OUTPUT_BYTES = 64 << 20
# Makes the sandbox for a check: of a work tree, with folders that may be read.
SandboxMaker = Callable[[Path, tuple[Path, ...]], SandboxRunner | None]


class AgentTurn(Value):
    """The end of the agent's turn.

    code: exit code of its process.
    outcome: as `agent -p` names it, or "timeout", or "exit N".
    """

    code: int
    outcome: str
    report: AgentReport
    seconds: float


class CheckEnd(Value):
    """The end of a check. code: None if it took too long. why: why it did not pass; "" if it did."""

    code: int | None
    why: str = ""


class TaskSteps:
    """Runs the steps in `folder`: the agent works in its folder `work`; what is printed goes to its folder `result`.

    All methods raise OSError, and EvaluationStoppedError after the pool was stopped.
    """

    def __init__(self, folder: Path, env: Mapping[str, str], pool: ProcessPool) -> None:
        self._env, self._pool = env, pool
        self.work = folder / "work"
        self.result = folder / "result"
        self.answer = self.result / "answer.txt"
        self.transcript = self.result / "transcript.jsonl"

    def set_up(self, command: str, seconds: float) -> str:
        """Run the setup command; return why it failed, or ""."""
        if not command:
            return ""
        out = self.result / "setup.txt"
        end = self._pool.run(("bash", "-c", command), self.work, self._env, seconds, out=out)
        if end.timed_out:
            return f"the setup took more than {seconds:g} s"
        return f"the setup failed: {_last_line(out) or f'exit {end.code}'}" if end.code else ""

    def take_turn(
        self, flags: Sequence[str], prompt: str, seconds: float, cwd: Path | None = None, **env: str
    ) -> AgentTurn:
        """Let `agent -p` work; its last answer is in `answer` then. cwd: by default `work`. env: more variables."""
        started = time.monotonic()
        end = self._pool.run(
            [sys.executable, "-P", "-m", "agent_cli", "-p", "--output-format", "stream-json", *flags],
            cwd or self.work,
            {**self._env, **env},
            seconds,
            feed=prompt.encode(),
            out=self.transcript,
            err=self.result / "stderr.txt",
        )
        report = read_report(self.transcript)
        write_atomic(self.answer, report.answer.encode("utf-8", "replace"))
        outcome = "timeout" if end.timed_out else report.outcome or f"exit {end.code}"
        return AgentTurn(end.code, outcome, report, time.monotonic() - started)

    def startup_error(self, turn: AgentTurn) -> str:
        """Return why the agent could not start; "" if it did."""
        if turn.outcome == "timeout" or turn.code != 2:
            return ""
        return _last_line(self.result / "stderr.txt").removeprefix("agent: ") or "the agent could not start"

    def check(
        self,
        command: Sequence[str],
        seconds: float,
        variables: Mapping[str, str],
        sandbox: SandboxRunner | None,
        cwd: Path | None = None,
    ) -> CheckEnd:
        """Run the check, without the user's keys, since it may run code that the model wrote. Raises ToolError."""
        cwd, out, argv = cwd or self.work, self.result / "check.txt", list(command)
        env = without_secrets(self._env) | dict(variables)
        if sandbox is None:
            end = self._pool.run(argv, cwd, env, seconds, out=out)
            code = end.code
        else:
            try:
                with sandbox.prepare(argv, cwd, env) as wrapped:
                    end = self._pool.run(wrapped.argv, cwd, wrapped.env, seconds, out=out, pass_fds=wrapped.pass_fds)
                    code = wrapped.code(end.code)
            finally:
                sandbox.close()
        if end.timed_out:
            return CheckEnd(None, f"the check took more than {seconds:g} s")
        return CheckEnd(code, (_last_line(out) or f"the check failed with exit code {code}") if code else "")


def describe_turn_failure(turn: AgentTurn, seconds: float) -> str:
    """Describe why a turn is not done; "" if it is. seconds: its time limit."""
    words = {"timeout": f"took more than {seconds:g} s", "limit": "a limit ended it", "done": "", "": ""}
    words["denied"] = "calls were denied, as nobody could approve them"
    found = words.get(turn.outcome)
    return shorten(next(iter(turn.report.errors), turn.outcome), 160) if found is None else found


def check_sandbox_maker(settings: Settings, run_env: RunEnvironment) -> SandboxMaker | None:
    """Return a function that makes the sandbox of the settings for a work tree; None if there is no sandbox."""
    workspace = Workspace(run_env.root, (), run_env.cwd)
    profile, asked = sandbox_profile(workspace, settings, run_env), settings.sandbox
    if not select_sandbox(asked.mode, profile, run_env.env).is_boundary:
        return None

    def make(work: Path, readable: tuple[Path, ...]) -> SandboxRunner | None:
        shown = (*settings.sandbox.readable, *map(str, readable))
        inside = settings.replace(sandbox=settings.sandbox.replace(readable=shown))
        there = run_env.replace(cwd=work, root=work)
        return make_confinement(Workspace(work), inside, there, share_temporary=False)

    return make


def _last_line(path: Path) -> str:
    """Return the last line of output that is not empty; "" for none."""
    with suppress(OSError):
        text = read_regular(path, _MAX_OUTPUT_BYTES).decode("utf-8", "replace")
        return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
    return ""
