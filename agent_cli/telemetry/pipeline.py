"""The thread that takes the records of a session to the exporters.

A session only puts records into a queue. The thread imports the SDK, so no turn waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from queue import SimpleQueue
from threading import Thread
from typing import Any

from agent_cli.config.telemetry import TelemetryOptions
from agent_cli.telemetry.records import EventRecord, SpanRecord
from agent_tools.cancel import CancelToken
from agent_tools.lazy import lazy_imports

with lazy_imports():
    from agent_cli.telemetry import exporters  # the SDK

EXTRA = "agent-at-hand[otel]"
_NEEDED = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.common")
# After the time limit, for a request that is being cancelled.
_CANCEL_SECONDS = 0.3


def is_installed() -> bool:
    """Return True if the packages of the extra are there; they are not imported."""
    try:
        return all(find_spec(name) is not None for name in _NEEDED)
    except ModuleNotFoundError:  # of a package that contains one
        return False


class Pipeline:
    """The way of the records to their collectors. None of its methods waits, except `close`."""

    def __init__(self, options: TelemetryOptions, resource: Mapping[str, str], env: Mapping[str, str]) -> None:
        self.failure = ""
        self._options, self._resource, self._env = options, resource, env
        self._cancel = CancelToken()
        self._records: SimpleQueue[Callable[[exporters.Exporters], None] | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name="telemetry", daemon=True)
        self._thread.start()

    def count(self, name: str, amount: float, attributes: Mapping[str, Any]) -> None:
        """Add to a metric."""
        self._records.put(lambda to: to.count(name, amount, attributes))

    def event(self, event: EventRecord) -> None:
        """Export an event."""
        self._records.put(lambda to: to.event(event))

    def span(self, span: SpanRecord) -> None:
        """Export a span that has ended."""
        self._records.put(lambda to: to.span(span))

    def close(self) -> str:
        """Send what is left, for a limited time; return what failed first, "" for nothing."""
        self._records.put(None)
        self._thread.join(self._options.exit_timeout)
        if self._thread.is_alive():
            self._cancel.cancel()
            self._thread.join(_CANCEL_SECONDS)
            self.fail("the collector did not answer in time")
        return self.failure

    def fail(self, text: str) -> None:
        """Note what failed, for the line at the end; the first counts."""
        self.failure = self.failure or text

    def _run(self) -> None:
        try:
            to = exporters.Exporters(self._options, self._resource, self._env, self._cancel, self.fail)
            while (deliver := self._records.get()) is not None:
                deliver(to)
            to.close()
        except Exception as error:  # noqa: BLE001 - telemetry never ends a session; its last line names the reason
            self.fail(f"{type(error).__name__}: {error}")
            while self._records.get() is not None:
                continue  # nothing is kept for exporters that are not there
