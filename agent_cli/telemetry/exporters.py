"""The exporters of OpenTelemetry's SDK: batches on threads of their own, sent over OTLP or printed.

The SDK and the encoders come with the extra `otel`. Requests go through the program's own HTTP client, which knows the
user's proxies and certificates.
"""

from __future__ import annotations

import gzip
import json
import logging
import sys
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from opentelemetry._logs import LogRecord
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk._logs import ReadableLogRecord, ReadWriteLogRecord
from opentelemetry.sdk._logs.export import (
    BatchLogRecordProcessor,
    ConsoleLogRecordExporter,
    LogRecordExporter,
    LogRecordExportResult,
)
from opentelemetry.sdk.metrics import Counter, MeterProvider
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    ConsoleMetricExporter,
    MetricExporter,
    MetricExportResult,
    MetricsData,
    PeriodicExportingMetricReader,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, TraceFlags
from opentelemetry.trace.status import Status, StatusCode

from agent_cli.config.telemetry import Signal, SignalName, TelemetryOptions
from agent_cli.kernel.version import __version__
from agent_cli.telemetry.records import METRICS, EventRecord, SpanRecord
from agent_tools.base import ToolError
from agent_tools.cancel import CancelledError, CancelToken
from agent_tools.net.http import HttpClient, Timeouts
from agent_tools.net.http_connection import HttpError
from agent_tools.net.urls import split_url
from agent_tools.text import one_line

# As Claude Code names them.
_SCOPE = "com.anthropic.claude_code"
_SCOPES: dict[SignalName, str] = {"metrics": _SCOPE, "logs": f"{_SCOPE}.events", "traces": f"{_SCOPE}.tracing"}
_RETRIED = (429, 502, 503, 504)
_MAX_TRIES = 3
_MAX_ANSWER_BYTES = 65_536
_MAX_BATCH = 512
_MAX_WAITING = 2_048
_LOGGER = logging.getLogger("opentelemetry")
_IDS = frozenset(("traceId", "spanId", "parentSpanId"))


class Exporters:
    """Takes records and exports them. failed: called with a sentence when something could not be sent."""

    def __init__(
        self,
        options: TelemetryOptions,
        resource: Mapping[str, str],
        env: Mapping[str, str],
        cancel: CancelToken,
        failed: Callable[[str], None],
    ) -> None:
        # Otherwise the SDK's errors would be tracebacks on standard error.
        self._problems = _Problems(failed)
        _LOGGER.addHandler(self._problems)
        _LOGGER.propagate = False
        self._resource = Resource(dict(resource))
        self._scopes = {name: InstrumentationScope(scope, __version__) for name, scope in _SCOPES.items()}
        self._readers: list[PeriodicExportingMetricReader] = []
        self._logs: list[BatchLogRecordProcessor] = []
        self._spans: list[BatchSpanProcessor] = []
        for signal in options.signals:
            for kind in signal.exporters:
                client = _Client(signal, options, env, cancel, failed) if kind == "otlp" else None
                self._add(signal, client, options)
        self._meters = MeterProvider(self._readers, self._resource, shutdown_on_exit=False)
        meter = self._meters.get_meter(_SCOPE, __version__)
        self._counters = {
            name: meter.create_counter(name, unit=unit, description=text) for name, (unit, text) in METRICS.items()
        }

    def _add(self, signal: Signal, client: _Client | None, options: TelemetryOptions) -> None:
        every, patience = signal.seconds * 1000, options.timeout * 1000
        if signal.name == "metrics":
            sums = AggregationTemporality.DELTA if options.delta else AggregationTemporality.CUMULATIVE
            made: dict[type, AggregationTemporality] = {Counter: sums}
            metrics = (
                _MetricExporter(client, made)
                if client is not None
                else ConsoleMetricExporter(sys.stderr, preferred_temporality=made)
            )
            self._readers.append(PeriodicExportingMetricReader(metrics, every, patience))
        elif signal.name == "logs":
            logs = _LogExporter(client) if client is not None else ConsoleLogRecordExporter(sys.stderr)
            self._logs.append(BatchLogRecordProcessor(logs, every, _MAX_BATCH, patience, _MAX_WAITING))
        else:
            spans = _SpanExporter(client) if client is not None else ConsoleSpanExporter(out=sys.stderr)
            self._spans.append(BatchSpanProcessor(spans, _MAX_WAITING, every, _MAX_BATCH, patience))

    def count(self, name: str, amount: float, attributes: Mapping[str, Any]) -> None:
        """Add to a metric."""
        self._counters[name].add(float(amount), dict(attributes))

    def event(self, event: EventRecord) -> None:
        """Export an event, as a log record."""
        for processor in self._logs:
            made = LogRecord(
                timestamp=event.time,
                observed_timestamp=event.time,
                body=event.name,
                attributes=dict(event.attributes),
                event_name=event.name,
            )
            # Passing them to the constructor is deprecated, and a context would have to be made current.
            made.trace_id, made.span_id = event.trace, event.span
            made.trace_flags = TraceFlags(TraceFlags.SAMPLED if event.trace else TraceFlags.DEFAULT)
            processor.on_emit(ReadWriteLogRecord(made, self._resource, self._scopes["logs"]))

    def span(self, span: SpanRecord) -> None:
        """Export a span that has ended."""

        def context(span_id: int, *, remote: bool = False) -> SpanContext:
            return SpanContext(span.trace, span_id, remote, TraceFlags(TraceFlags.SAMPLED))

        status = Status(StatusCode.UNSET) if span.error is None else Status(StatusCode.ERROR, span.error)
        made = ReadableSpan(
            span.name,
            context(span.id),
            context(span.parent, remote=span.remote) if span.parent else None,
            self._resource,
            dict(span.attributes),
            [Event(name, dict(attributes), time) for name, time, attributes in span.events],
            status=status,
            start_time=span.start,
            end_time=max(span.start, span.end),
            instrumentation_scope=self._scopes["traces"],
        )
        for processor in self._spans:
            processor.on_end(made)

    def close(self) -> None:
        """Send what is left."""
        for logs in self._logs:
            logs.shutdown()  # type: ignore[no-untyped-call]
        for spans in self._spans:
            spans.shutdown()  # type: ignore[no-untyped-call]
        self._meters.shutdown()
        _LOGGER.removeHandler(self._problems)


class _Problems(logging.Handler):
    """Passes on what the SDK logs, in a line."""

    def __init__(self, failed: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._failed = failed

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        self._failed(one_line(f"{record.getMessage()}{f' ({error!r})' if error else ''}"))


class _Client:
    """Sends the batches of one signal to its collector."""

    def __init__(
        self,
        signal: Signal,
        options: TelemetryOptions,
        env: Mapping[str, str],
        cancel: CancelToken,
        failed: Callable[[str], None],
    ) -> None:
        self._signal, self._gzip, self._cancel, self._failed = signal, options.gzip, cancel, failed
        limit = options.timeout
        self._http = HttpClient(Timeouts(connect=limit, idle=limit, total=limit), env, max_idle=1)
        json_wanted = signal.protocol == "http/json"
        self._headers = {
            "Content-Type": "application/json" if json_wanted else "application/x-protobuf",
            "User-Agent": f"agent-at-hand/{__version__}",
            **({"Content-Encoding": "gzip"} if options.gzip else {}),
            **signal.headers,
        }
        self._encode = _as_json if json_wanted else _as_protobuf

    def post(self, message: Message) -> bool:
        """Send a message; return True if the collector took it."""
        body = self._encode(message)
        body = gzip.compress(body) if self._gzip else body
        why = ""
        for attempt in range(_MAX_TRIES):
            if attempt and self._cancel.wait(attempt):
                break
            try:
                response = self._http.send(split_url(self._signal.url), self._headers, body, self._cancel)
                response.read_all(_MAX_ANSWER_BYTES)
                response.close()
            except CancelledError:
                why = why or "it did not answer in time"
                break
            except (HttpError, ToolError) as error:
                why = str(error)
                if not (isinstance(error, HttpError) and error.retryable):
                    break
                continue
            if 200 <= response.status < 300:
                return True
            why = f"HTTP {response.status}"
            if response.status not in _RETRIED:
                break
        self._failed(f"{self._signal.name} could not be sent to {self._where}: {why}")
        return False

    @property
    def _where(self) -> str:
        try:
            return split_url(self._signal.url).authority
        except ToolError:
            return "the collector"


class _MetricExporter(MetricExporter):
    def __init__(self, client: _Client, temporality: dict[type, AggregationTemporality]) -> None:
        super().__init__(preferred_temporality=temporality)
        self._client = client

    def export(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: Any) -> MetricExportResult:
        done = self._client.post(encode_metrics(metrics_data))
        return MetricExportResult.SUCCESS if done else MetricExportResult.FAILURE

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        return True

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: Any) -> None:
        """Nothing is kept."""


class _LogExporter(LogRecordExporter):
    def __init__(self, client: _Client) -> None:
        self._client = client

    def export(self, batch: Sequence[ReadableLogRecord]) -> LogRecordExportResult:
        done = self._client.post(encode_logs(batch))
        return LogRecordExportResult.SUCCESS if done else LogRecordExportResult.FAILURE

    def shutdown(self) -> None:
        """Nothing is kept."""

    def force_flush(self, timeout_millis: int = 10_000) -> bool:
        return True


class _SpanExporter(SpanExporter):
    def __init__(self, client: _Client) -> None:
        self._client = client

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS if self._client.post(encode_spans(spans)) else SpanExportResult.FAILURE


def _as_protobuf(message: Message) -> bytes:
    encoded: bytes = message.SerializeToString()
    return encoded


def _as_json(message: Message) -> bytes:
    """Encode a message as OTLP does: JSON of protobuf, with numbers for enums and hexadecimal IDs."""
    plain = MessageToDict(message, use_integers_for_enums=True)
    return json.dumps(_with_hex_ids(plain), separators=(",", ":")).encode("ascii")


def _with_hex_ids(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_hex_ids(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name: b64decode(each).hex() if name in _IDS and isinstance(each, str) else _with_hex_ids(each)
        for name, each in value.items()
    }
