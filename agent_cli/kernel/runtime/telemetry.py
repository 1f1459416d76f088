"""The telemetry of a session, if the user's own variables, settings or a policy want it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from agent_cli.config.config import Config
from agent_cli.config.telemetry import TelemetryOptions, read_telemetry, steers_telemetry, with_managed
from agent_cli.kernel.redact import Redactor, hold_secret
from agent_cli.kernel.session.store import state_folder
from agent_cli.telemetry import pipeline
from agent_cli.telemetry.facts import SessionFacts
from agent_tools.lazy import lazy_imports

if TYPE_CHECKING:
    from agent_cli.telemetry.listener import SessionTelemetry

with lazy_imports():
    from agent_cli.telemetry import listener


def telemetry_wanted(env: Mapping[str, str], managed: Mapping[str, str]) -> TelemetryOptions | None:
    """Return what is to be exported; None for nothing. The values of headers are redacted from now on."""
    options = read_telemetry(with_managed(env, managed))
    if options is not None:
        for secret in options.secrets:
            hold_secret(secret)
    return options


def without_telemetry(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for what a session starts: programs of the user send nothing to its collector."""
    return {name: value for name, value in env.items() if not steers_telemetry(name)}


def start_telemetry(
    options: TelemetryOptions,
    config: Config,
    env: Mapping[str, str],
    session_id: str,
    warn: Callable[[str], None],
    prompt_id: Callable[[], str],
    built_in: Callable[[str], bool],
    *,
    attended: bool,
) -> SessionTelemetry | None:
    """Return the listener that exports a session; None if nothing can be exported, which is said in a line.

    env: the whole environment. attended: a user is present.
    """
    for problem in options.problems:
        warn(f"telemetry: {problem}")
    if attended and os.isatty(2):
        options = _without_console(options, warn)
    if not options.signals:
        return None
    if not pipeline.is_installed():
        warn(f"telemetry: nothing is exported, as its packages are missing; install {pipeline.EXTRA}")
        return None
    start = "continue" if config.latest else "resume" if config.resume else "fresh"
    facts = SessionFacts(session_id, attended, start, env, state_folder(env))
    return listener.SessionTelemetry(options, facts, Redactor(env), prompt_id, built_in)


def _without_console(options: TelemetryOptions, warn: Callable[[str], None]) -> TelemetryOptions:
    """Return the options without the exporters that would write into what the user sees."""
    if any("console" in signal.exporters for signal in options.signals):
        warn("telemetry: console writes to standard error, which is this terminal; redirect it with 2>FILE")
    left = [s.replace(exporters=tuple(e for e in s.exporters if e != "console")) for s in options.signals]
    return options.replace(signals=tuple(signal for signal in left if signal.exporters))
