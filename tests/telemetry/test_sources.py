"""Who can turn telemetry on, what programs that a session starts learn of it, and what it costs without it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_cli.config.parsing import SettingsError
from agent_cli.config.policy import read_policy
from agent_cli.config.telemetry import read_telemetry, steers_telemetry, with_managed
from agent_tools.secret_patterns import looks_like_key
from tests.support.collector import Collector
from tests.support.imported_modules import loaded
from tests.support.program import agent, clean_env
from tests.support.scripts import bash, script

TOKEN = "tok-very-secret-value"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def ask(work: Path, env: dict[str, str] | None = None, *args: str, replies: list[dict[str, Any]] | None = None) -> Any:
    model = script(work.parent / "s.toml", replies or [{"text": "ok"}])
    done = agent(["-p", "--model", model, *args, "go"], work, env)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr
    return done


def put(path: Path, env: dict[str, str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"env": env}))


def test_a_project_never_turns_it_on_or_says_where_it_goes(work: Path) -> None:
    with Collector() as theirs, Collector() as mine:
        put(work / ".claude/settings.json", theirs.env())
        put(work / ".claude/settings.local.json", theirs.env())
        done = ask(work, {}, "--trust")
        assert "CLAUDE_CODE_ENABLE_TELEMETRY" in done.stderr and "only be set in your own settings" in done.stderr
        ask(work, {})
        ask(work, mine.env(OTEL_EXPORTER_OTLP_ENDPOINT=mine.url), "--trust")
    assert theirs.posts == []
    assert mine.total("session.count") == 1


def test_users_turn_it_on_in_their_settings_and_by_a_flag(work: Path) -> None:
    with Collector() as collector:
        put(work.parent / "home/.claude/settings.json", collector.env())
        ask(work)
        assert collector.total("session.count") == 1
        (work.parent / "home/.claude/settings.json").unlink()
        ask(work, {}, "--settings", json.dumps({"env": collector.env()}))
        assert collector.total("session.count") == 2


def test_a_policy_turns_it_on_and_no_variable_sends_it_elsewhere(work: Path) -> None:
    policy = work.parent / "policy.json"
    with Collector() as ours, Collector() as theirs:
        policy.write_text(json.dumps({"env": {**ours.env(), "OTHER": "1"}}))
        away = {"OTEL_EXPORTER_OTLP_ENDPOINT": theirs.url, "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": f"{theirs.url}/v1/logs"}
        env = {"AGENT_POLICY": str(policy), "CLAUDE_CODE_ENABLE_TELEMETRY": "0", **away}
        ask(work, env)
        assert theirs.posts == []
        assert {path for path, _ in ours.posts} == {"/v1/metrics", "/v1/logs", "/v1/traces"}
    found = read_policy({"AGENT_POLICY": str(policy)}, file="/nonexistent")
    assert found.notes == ("env.OTHER",)
    assert "OTEL_METRICS_EXPORTER" in found.lines()[0]
    assert read_policy({}, '{"env": {"OTEL_METRICS_EXPORTER": "otlp"}}', file="/nonexistent").env == {}
    with pytest.raises(SettingsError, match="env: expected a table"):
        read_policy({}, '{"env": ["A"]}', file="/nonexistent")


def test_headers_of_a_policy_are_not_sent_to_an_address_of_the_user() -> None:
    managed = {"OTEL_EXPORTER_OTLP_HEADERS": "a=b"}
    env = {"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "http://x", "OTEL_LOGS_EXPORTER": "otlp"}
    assert with_managed(env, managed) == {"OTEL_LOGS_EXPORTER": "otlp", **managed}


def test_commands_get_none_of_its_variables_and_its_headers_are_redacted(work: Path) -> None:
    with Collector() as collector:
        env = collector.env(OTEL_EXPORTER_OTLP_HEADERS=f"Authorization=Bearer {TOKEN}")
        hook = {"hooks": [{"type": "command", "command": "env > ../hook-env"}]}
        args = ["--allowedTools", "Bash", "--settings", json.dumps({"hooks": {"Stop": [hook]}})]
        ask(work, env, *args, replies=[bash(f"env; echo {TOKEN}"), {"text": "ok"}])
    found = (work.parent / "hook-env").read_text()
    assert "AGENT_HOOK_EVENT" in found and "OTEL_" not in found and TOKEN not in found
    assert collector.posts[0][1]["authorization"] == f"Bearer {TOKEN}"
    # The log, and the transcript for the hook.
    kept = [path.read_text() for path in (work.parent / "home/state/sessions").rglob("*.jsonl")]
    assert len(kept) == 2 and all("AGENT_STATE_DIR" in text for text in kept)
    assert not [word for text in kept for word in ("OTEL_", "CLAUDE_CODE_ENABLE_TELEMETRY", TOKEN) if word in text]


def test_headers_are_secrets_also_while_nothing_is_exported(work: Path) -> None:
    env = {"OTEL_EXPORTER_OTLP_TRACES_HEADERS": f"x={TOKEN}", "OTEL_SERVICE_NAME": "an-app"}
    ask(work, env, "--allowedTools", "Bash", replies=[bash("env"), {"text": "ok"}])
    [log] = [p for p in (work.parent / "home/state/sessions").rglob("*.jsonl") if "an-app" in p.read_text()]
    assert TOKEN not in log.read_text()
    assert looks_like_key("OTEL_EXPORTER_OTLP_HEADERS") and looks_like_key("ANTHROPIC_CUSTOM_HEADERS")
    assert not looks_like_key("CORS_ALLOW_HEADERS")


def test_a_run_without_it_imports_nothing_of_it(work: Path) -> None:
    model = script(work.parent / "s.toml", [{"text": "ok"}])
    for env in ({}, {"OTEL_METRICS_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}):
        found = loaded(work, "-p", "--model", model, "go", **env)
        assert not [name for name in found if "telemetry" in name or name.startswith(("opentelemetry", "google"))]


def test_a_missing_package_is_said_in_a_line(work: Path) -> None:
    model = script(work.parent / "s.toml", [{"text": "ok"}])
    run = 'import sys; sys.modules["opentelemetry.sdk"] = None; from agent_cli.__main__ import main; main()'
    with Collector() as collector:
        env = clean_env(work.parent / "home", **collector.env())
        done = subprocess.run(
            [sys.executable, "-c", run, "-p", "--model", model, "go"], cwd=work, env=env, capture_output=True, text=True
        )
    assert (done.returncode, done.stdout) == (0, "ok\n")
    [line] = done.stderr.splitlines()
    assert "nothing is exported, as its packages are missing; install agent-at-hand[otel]" in line
    assert collector.posts == []


def test_doctor_shows_what_is_exported_and_where_to(work: Path) -> None:
    def shown(env: dict[str, str]) -> str:
        lines = agent(["doctor"], work, env).stdout.splitlines()
        start = next((n for n, line in enumerate(lines) if " telemetry " in line), len(lines))
        return "\n".join(lines[start : start + 5])

    assert shown({}) == ""
    on = {"CLAUDE_CODE_ENABLE_TELEMETRY": "1", "OTEL_EXPORTER_OTLP_HEADERS": f"x={TOKEN}"}
    assert "nothing is exported" in shown(on)
    found = shown({**on, "OTEL_LOGS_EXPORTER": "otlp"})
    assert found.startswith("ok       telemetry") and "logs: http://localhost:4318/v1/logs (http/protobuf)" in found
    found = shown({**on, "OTEL_LOGS_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"})
    assert found.startswith("problem  telemetry") and "grpc is not supported" in found and TOKEN not in found


def test_variables_are_read_as_they_are_documented() -> None:
    on = {"CLAUDE_CODE_ENABLE_TELEMETRY": "1", "OTEL_LOGS_EXPORTER": "otlp"}
    assert read_telemetry({"OTEL_LOGS_EXPORTER": "otlp"}) is None
    assert read_telemetry({"CLAUDE_CODE_ENABLE_TELEMETRY": "1"}) is None
    assert read_telemetry({**on, "OTEL_SDK_DISABLED": "true"}) is None
    found = read_telemetry(on)
    assert found is not None
    [logs] = found.signals
    assert (logs.url, logs.protocol, logs.seconds) == ("http://localhost:4318/v1/logs", "http/protobuf", 5)
    assert (found.delta, found.session, found.version, found.prompts, found.answers) == (
        True,
        True,
        False,
        False,
        False,
    )
    # Spans are a beta of Claude Code, with a variable of its own.
    beta = {**on, "OTEL_LOGS_EXPORTER": "none", "OTEL_TRACES_EXPORTER": "otlp"}
    assert read_telemetry(beta) is None
    found = read_telemetry({**beta, "CLAUDE_CODE_ENHANCED_TELEMETRY_BETA": "1", "OTEL_TRACES_EXPORT_INTERVAL": "1000"})
    assert found is not None and [(s.name, s.seconds) for s in found.signals] == [("traces", 1)]
    found = read_telemetry({**on, "OTEL_METRICS_EXPORTER": "otlp", "OTEL_METRIC_EXPORT_INTERVAL": "abc"})
    assert found is not None and found.signals[0].seconds == 60
    assert {n for n in os.environ if steers_telemetry(n)} == set()
