"""Run a checker on one file, with limits on time, output and memory; nothing that it starts outlives it."""

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

SECONDS = 60.0
MEMORY = 8 << 30
_OUTPUT = 4 << 20


class CheckerCommand(Source):
    """Runs a checker. fill: returns its arguments and its folder for a file."""

    def __init__(
        self,
        row: CheckerRow,
        launcher: Launcher,
        place: Callable[[Path], tuple[tuple[str, ...], Path]],
        stopped: Callable[[], bool],
    ) -> None:
        super().__init__(row.name, stopped)
        self.any_text = row.stdin
        self._row, self._launcher, self._place = row, launcher, place

    def problems(self, path: Path, text: str) -> list[Problem]:
        args, cwd = self._place(path)
        try:
            with self._launcher.wrap(cwd, [*self._launcher.argv, *args]) as wrapped:
                code, out, err = self._run(wrapped, cwd, text if self._row.stdin else "")
        except (OSError, ValueError, ToolError) as error:
            raise CheckFailedError(f"could not be started: {error}") from None
        try:
            found = parse(self.name, self._row.parser, CheckerOutput(out, err, path, cwd))
        except ValueError as error:
            raise CheckFailedError(f"failed: {shorten(err or str(error), 200)}") from None
        if not found and code not in self._row.usual:
            raise CheckFailedError(f"failed with exit code {code}: {shorten(err or out, 200)}")
        return found

    def _run(self, wrapped: Wrapped, cwd: Path, text: str) -> tuple[int, str, str]:
        """Return exit code, output and errors. Raises CheckFailedError, OSError."""
        out, err = bytearray(), bytearray()
        with TemporaryFile() as given:
            given.write(text.encode("utf-8", "surrogateescape"))
            given.seek(0)
            running = RunningProcess(
                wrapped.argv,
                cwd,
                wrapped.env,
                lambda data: _keep(out, data),
                wrapped.pass_fds,
                stdin=given.fileno(),
                feed_errors=lambda data: _keep(err, data),
            )
        try:
            limit_memory(running.process.pid, MEMORY)
            until = monotonic() + SECONDS
            while (cause := running.step(until, self.stopped(), 0.2)) is None:
                pass
            running.drain()
        finally:
            # Also what it left behind.
            running.end()
            running.close()
        if cause != "exit":
            raise CheckFailedError(f"was stopped after {SECONDS:g} s" if cause == "time-out" else "was interrupted")
        return wrapped.code(running.process.wait()), _decoded(out), _decoded(err)


def _keep(kept: bytearray, data: bytes) -> None:
    kept += data[: max(0, _OUTPUT - len(kept))]


def _decoded(data: bytearray) -> str:
    return data.decode("utf-8", "replace")
