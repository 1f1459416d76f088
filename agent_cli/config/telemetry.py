"""What the variables of OpenTelemetry say: whether telemetry is exported, what, where to and how.

They have the names that Claude Code documents. A project never sets one, as they decide where the user's data goes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal
from urllib.parse import unquote

from agent_cli.config.config import TELEMETRY_VARIABLE
from agent_tools.record import Value

_TRACES = ("CLAUDE_CODE_ENHANCED_TELEMETRY_BETA", "ENABLE_ENHANCED_TELEMETRY_BETA")
_TRUE = frozenset(("1", "true", "yes", "on"))
SignalName = Literal["metrics", "logs", "traces"]
_INTERVALS: dict[SignalName, tuple[str, int]] = {
    "metrics": ("OTEL_METRIC_EXPORT_INTERVAL", 60_000),
    "logs": ("OTEL_LOGS_EXPORT_INTERVAL", 5_000),
    "traces": ("OTEL_TRACES_EXPORT_INTERVAL", 5_000),
}
_ENDPOINT = "http://localhost:4318"
_PROTOCOLS = ("http/protobuf", "http/json")
_EXPORTERS = ("otlp", "console", "none")
# What of a policy decides about the addresses of all signals.
_GOVERNING = ("ENDPOINT", "HEADERS", "CLIENT_KEY", "CLIENT_CERTIFICATE")


class Signal(Value):
    """One kind of telemetry. exporters: otlp, console. headers: secrets. seconds: from one export to the next."""

    name: SignalName
    exporters: tuple[str, ...]
    protocol: str
    url: str
    headers: dict[str, str]
    seconds: float


class TelemetryOptions(Value):
    """What is exported.

    delta: metrics are sent as what was added since the last time, instead of as sums since the start.
    session, version, entrypoint, resource_keys: metrics have these attributes.
    resource: attributes that the user gave. service: name of the service.
    prompts, answers, details, content: texts of the user, of the model, arguments of calls, and what goes in and out
        of them, are exported.
    max_chars: of each of these. timeout: for one request; exit_timeout: to send the rest when the session ends.
    problems: what cannot be done, a sentence each.
    """

    signals: tuple[Signal, ...]
    delta: bool
    session: bool
    version: bool
    entrypoint: bool
    resource_keys: bool
    resource: dict[str, str]
    service: str
    prompts: bool
    answers: bool
    details: bool
    content: bool
    gzip: bool
    max_chars: int
    timeout: float
    exit_timeout: float
    problems: tuple[str, ...]

    @property
    def secrets(self) -> Iterator[str]:
        """The values of headers, also without a scheme such as Bearer."""
        for signal in self.signals:
            for value in signal.headers.values():
                yield from (value, value.rpartition(" ")[2])


def steers_telemetry(name: str) -> bool:
    """Return True if a variable decides what telemetry is exported, or where to."""
    return name.startswith(("OTEL_", "CLAUDE_CODE_OTEL_")) or name == TELEMETRY_VARIABLE or name in _TRACES


def with_managed(env: Mapping[str, str], managed: Mapping[str, str]) -> dict[str, str]:
    """Return an environment under the variables of a policy.

    An address or headers in it are for all signals: none is sent elsewhere by the user's own variables.
    """
    if any(f"OTEL_EXPORTER_OTLP_{part}" in managed for part in _GOVERNING):
        elsewhere = {f"OTEL_EXPORTER_OTLP_{name.upper()}_ENDPOINT" for name in _INTERVALS}
        env = {name: value for name, value in env.items() if name not in elsewhere}
    return {**env, **managed}


def read_telemetry(env: Mapping[str, str]) -> TelemetryOptions | None:
    """Return what is exported; None for nothing."""
    if not _flag(env, TELEMETRY_VARIABLE) or _flag(env, "OTEL_SDK_DISABLED"):
        return None
    problems: list[str] = []
    signals = tuple(signal for name in _INTERVALS if (signal := _signal(env, name, problems)) is not None)
    if not signals and not problems:
        return None
    prompts = _flag(env, "OTEL_LOG_USER_PROMPTS")
    preference = env.get("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "delta")
    return TelemetryOptions(
        signals=signals,
        delta=preference.strip().lower() != "cumulative",
        session=_flag(env, "OTEL_METRICS_INCLUDE_SESSION_ID", unset=True),
        version=_flag(env, "OTEL_METRICS_INCLUDE_VERSION"),
        entrypoint=_flag(env, "OTEL_METRICS_INCLUDE_ENTRYPOINT"),
        resource_keys=_flag(env, "OTEL_METRICS_INCLUDE_RESOURCE_ATTRIBUTES", unset=True),
        resource=_pairs(env.get("OTEL_RESOURCE_ATTRIBUTES", "")),
        service=env.get("OTEL_SERVICE_NAME", ""),
        prompts=prompts,
        answers=_flag(env, "OTEL_LOG_ASSISTANT_RESPONSES", unset=prompts),
        details=_flag(env, "OTEL_LOG_TOOL_DETAILS"),
        content=_flag(env, "OTEL_LOG_TOOL_CONTENT"),
        gzip=env.get("OTEL_EXPORTER_OTLP_COMPRESSION", "").strip().lower() == "gzip",
        max_chars=_number(env, "CLAUDE_CODE_OTEL_CONTENT_MAX_LENGTH", 61_440),
        timeout=_number(env, "OTEL_EXPORTER_OTLP_TIMEOUT", 10_000) / 1000,
        exit_timeout=_number(env, "CLAUDE_CODE_OTEL_SHUTDOWN_TIMEOUT_MS", 2_000) / 1000,
        problems=tuple(problems),
    )


def _signal(env: Mapping[str, str], name: SignalName, problems: list[str]) -> Signal | None:
    """Return one kind of telemetry, if it is exported."""
    variable = f"OTEL_{name.upper()}_EXPORTER"
    named = [each.strip() for each in env.get(variable, "").split(",") if each.strip()]
    if name == "traces" and not any(_flag(env, each) for each in _TRACES):
        return None
    for unknown in (each for each in named if each not in _EXPORTERS):
        problems.append(f"{variable}: {unknown} is not supported; there are {', '.join(_EXPORTERS)}")
    exporters = tuple(each for each in named if each in ("otlp", "console"))

    def of_signal(part: str) -> str:
        return env.get(f"OTEL_EXPORTER_OTLP_{name.upper()}_{part}", "").strip()

    protocol = of_signal("PROTOCOL") or env.get("OTEL_EXPORTER_OTLP_PROTOCOL", "").strip() or _PROTOCOLS[0]
    if "otlp" in exporters and protocol not in _PROTOCOLS:
        hint = "; collectors take http/protobuf on port 4318" if protocol == "grpc" else ""
        text = f"OTEL_EXPORTER_OTLP_PROTOCOL: {protocol} is not supported, use {' or '.join(_PROTOCOLS)}{hint}"
        problems += [text] if text not in problems else []
        exporters = tuple(each for each in exporters if each != "otlp")
    if not exporters:
        return None
    base = env.get("OTEL_EXPORTER_OTLP_ENDPOINT", "").strip() or _ENDPOINT
    interval, default = _INTERVALS[name]
    return Signal(
        name=name,
        exporters=exporters,
        protocol=protocol,
        url=of_signal("ENDPOINT") or f"{base.rstrip('/')}/v1/{name}",
        headers=_pairs(env.get("OTEL_EXPORTER_OTLP_HEADERS", "")) | _pairs(of_signal("HEADERS")),
        seconds=_number(env, interval, default) / 1000,
    )


def _flag(env: Mapping[str, str], name: str, *, unset: bool = False) -> bool:
    value = env.get(name, "").strip().lower()
    return value in _TRUE if value else unset


def _number(env: Mapping[str, str], name: str, default: int) -> int:
    text = env.get(name, "").strip()
    return max(1, int(text)) if text.isascii() and text.isdigit() else default


def _pairs(text: str) -> dict[str, str]:
    """Return the names and values of `a=b,c=d`, which may be percent-encoded."""
    parts = (part.partition("=") for part in text.split(","))
    return {unquote(name.strip()): unquote(value.strip()) for name, sign, value in parts if sign and name.strip()}
