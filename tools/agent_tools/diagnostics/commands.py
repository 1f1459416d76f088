"""Run a checker on one file, with limits on time, output and memory; no process that it starts outlives it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryFile
from time import monotonic

from agent_tools.diagnostics.checkers import CheckerRow
from agent_tools.diagnostics.parsers import CheckerOutput, Problem, parse
from agent_tools.diagnostics.source import CheckFailedError, Launcher, Source
from agent_tools.process.child import limit_memory
from agent_tools.results import ToolError
from agent_tools.sandbox.conditions import Wrapped
from agent_tools.shell.process import RunningProcess
from agent_tools.text import shorten

TIMEOUT_SECONDS = 60.0
MAX_MEMORY_BYTES = 8 << 30
_MAX_OUTPUT_BYTES = 4 << 20


class CheckerCommand(Source):
    """Runs a checker. command_line: returns its arguments and its working directory for a file."""

    def __init__(
        self,
        row: CheckerRow,
        launcher: Launcher,
        command_line: Callable[[Path], tuple[tuple[str, ...], Path]],
        stopped: Callable[[], bool],
    ) -> None:
        super().__init__(row.name, stopped)
        self.checks_any_text = row.stdin
        self._row, self._launcher, self._command_line = row, launcher, command_line

    def problems(self, path: Path, text: str) -> list[Problem]:
        args, cwd = self._command_line(path)
        try:
            with self._launcher.wrap(cwd, [*self._launcher.argv, *args]) as wrapped:
                code, out, err = self._run(wrapped, cwd, text if self._row.stdin else "")
        except (OSError, ValueError, ToolError) as error:
            raise CheckFailedError(f"could not be started: {error}") from None
        try:
            found = parse(self.name, self._row.parser, CheckerOutput(out, err, path, cwd))
        except ValueError as error:
            raise CheckFailedError(f"failed: {shorten(err or str(error), 200)}") from None
        if not found and code not in self._row.success_codes:
            raise CheckFailedError(f"failed with exit code {code}: {shorten(err or out, 200)}")
        return found

    def _run(self, wrapped: Wrapped, cwd: Path, text: str) -> tuple[int, str, str]:
        """Return exit code, output and errors. Raises CheckFailedError, OSError."""
        out, err = bytearray(), bytearray()
        with TemporaryFile() as source:
            source.write(text.encode("utf-8", "surrogateescape"))
            source.seek(0)
            running = RunningProcess(
                wrapped.argv,
                cwd,
                wrapped.env,
                lambda data: _append_bounded(out, data),
                wrapped.pass_fds,
                stdin=source.fileno(),
                feed_errors=lambda data: _append_bounded(err, data),
            )
        try:
            limit_memory(running.process.pid, MAX_MEMORY_BYTES)
            until = monotonic() + TIMEOUT_SECONDS
            while (cause := running.step(until, self.stopped(), 0.2)) is None:
                pass
            running.drain()
        finally:
            running.end()
            running.close()
        if cause != "exit":
            raise CheckFailedError(
                f"was stopped after {TIMEOUT_SECONDS:g} s" if cause == "time-out" else "was interrupted"
            )
        return wrapped.code(running.process.wait()), _decode(out), _decode(err)


def _append_bounded(buffer: bytearray, data: bytes) -> None:
    buffer += data[: max(0, _MAX_OUTPUT_BYTES - len(buffer))]


def _decode(data: bytearray) -> str:
    return data.decode("utf-8", "replace")
