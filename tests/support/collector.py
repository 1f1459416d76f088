"""A collector of OpenTelemetry on loopback: real HTTP, both encodings, decoded to plain data.

with Collector() as collector:
    agent([...], env=collector.env("http/json"))
    collector.metrics["claude_code.session.count"]
"""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from agent_tools.record import Value

MESSAGES: dict[str, Any] = {
    "/v1/metrics": ExportMetricsServiceRequest,
    "/v1/logs": ExportLogsServiceRequest,
    "/v1/traces": ExportTraceServiceRequest,
}


class Point(Value):
    """A point of a metric."""

    value: float
    attributes: dict[str, Any]
    delta: bool
    unit: str


class Span(Value):
    """A span, with IDs in hexadecimal digits."""

    name: str
    id: str
    parent: str
    trace: str
    attributes: dict[str, Any]
    events: tuple[tuple[str, dict[str, Any]], ...]
    error: bool
    nanoseconds: int


class Collector:
    """What arrived, by kind. posts: path and headers of each request; raw: everything as text.

    answer: called with the path, returns the status.
    """

    def __init__(self, answer: Callable[[str], int] = lambda path: 200) -> None:
        self.metrics: dict[str, list[Point]] = {}
        self.events: list[dict[str, Any]] = []
        self.spans: list[Span] = []
        self.posts: list[tuple[str, dict[str, str]]] = []
        self.resources: list[dict[str, Any]] = []
        self.raw = ""
        self._answer, self._lock = answer, threading.Lock()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with collector._lock:
                    status = collector._answer(self.path)
                    if status == 200:
                        collector._take(self.path, {k.lower(): v for k, v in self.headers.items()}, body)
                self.send_response(status)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Collector:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def env(self, protocol: str = "http/protobuf", **more: str) -> dict[str, str]:
        """The variables that send everything here."""
        exporters = dict.fromkeys(("OTEL_METRICS_EXPORTER", "OTEL_LOGS_EXPORTER", "OTEL_TRACES_EXPORTER"), "otlp")
        return {
            "CLAUDE_CODE_ENABLE_TELEMETRY": "1",
            "CLAUDE_CODE_ENHANCED_TELEMETRY_BETA": "1",
            # A busy machine may take a while.
            "CLAUDE_CODE_OTEL_SHUTDOWN_TIMEOUT_MS": "60000",
            **exporters,
            "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
            "OTEL_EXPORTER_OTLP_ENDPOINT": self.url,
            **more,
        }

    def total(self, name: str, **attributes: Any) -> float:
        """The sum of a metric over the points that have these attributes."""
        points = self.metrics.get(f"claude_code.{name}", [])
        return sum(p.value for p in points if attributes.items() <= p.attributes.items())

    def named(self, name: str) -> list[dict[str, Any]]:
        """The attributes of all events with this name."""
        return [event for event in self.events if event["event.name"] == name]

    def spans_of(self, kind: str) -> list[Span]:
        """The spans with this name, without its first part."""
        return [span for span in self.spans if span.name == f"claude_code.{kind}"]

    def _take(self, path: str, headers: dict[str, str], body: bytes) -> None:
        self.posts.append((path, headers))
        body = gzip.decompress(body) if headers.get("content-encoding") == "gzip" else body
        kind = headers["content-type"]
        if kind == "application/json":
            data = json.loads(body)
        else:
            assert kind == "application/x-protobuf"
            message = MESSAGES[path].FromString(body)
            data = _with_hex_ids(MessageToDict(message, use_integers_for_enums=True))
        self.raw += json.dumps(data)
        for resource in (r for key in ("resourceMetrics", "resourceLogs", "resourceSpans") for r in data.get(key, ())):
            self.resources.append(_attributes(resource["resource"]))
            for scope in resource.get("scopeMetrics", ()):
                self._take_metrics(scope["metrics"])
            for scope in resource.get("scopeLogs", ()):
                self.events += [_attributes(r) | {"body": _value(r["body"]), "span": r.get("spanId", "")}
                                for r in scope["logRecords"]]  # fmt: skip
            for scope in resource.get("scopeSpans", ()):
                self.spans += map(_span, scope["spans"])

    def _take_metrics(self, metrics: list[dict[str, Any]]) -> None:
        for metric in metrics:
            found = metric["sum"]
            assert found["isMonotonic"]
            self.metrics.setdefault(metric["name"], []).extend(
                Point(p["asDouble"], _attributes(p), found["aggregationTemporality"] == 1, metric.get("unit", ""))
                for p in found["dataPoints"]
            )


def _span(data: dict[str, Any]) -> Span:
    events = tuple((e["name"], _attributes(e)) for e in data.get("events", ()))
    assert len(data["traceId"]) == 32 and len(data["spanId"]) == 16
    took = int(data["endTimeUnixNano"]) - int(data["startTimeUnixNano"])
    failed = data.get("status", {}).get("code") == 2
    return Span(data["name"], data["spanId"], data.get("parentSpanId", ""), data["traceId"], _attributes(data), events,
                failed, took)  # fmt: skip


def _attributes(data: dict[str, Any]) -> dict[str, Any]:
    return {pair["key"]: _value(pair["value"]) for pair in data.get("attributes", ())}


def _value(data: dict[str, Any]) -> Any:
    ((kind, value),) = data.items()
    if kind == "arrayValue":
        return [_value(each) for each in value["values"]]
    # JSON has 64-bit integers as text.
    return int(value) if kind == "intValue" else value


def _with_hex_ids(value: Any) -> Any:
    import base64

    if isinstance(value, list):
        return [_with_hex_ids(each) for each in value]
    if not isinstance(value, dict):
        return value
    ids = ("traceId", "spanId", "parentSpanId")
    return {k: base64.b64decode(v).hex() if k in ids else _with_hex_ids(v) for k, v in value.items()}
