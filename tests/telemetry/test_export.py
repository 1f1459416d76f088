"""What arrives at a collector, decoded: metrics, events and spans of real runs, in both encodings."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.collector import Collector, Span
from tests.support.model_server import Call, ModelServer, Reply
from tests.support.program import agent
from tests.support.pty_screen import Drawn
from tests.support.repositories import git

KEY = "sk-ant-REDACT0123456789abcdef"
COMMIT = "git add a.py && git -c user.name=a -c user.email=a@b commit -qm one"
STORY = [
    Reply(text="I write it.", calls=(Call("Write", {"file_path": "a.py", "content": "x = 1\ny = 2\n"}),)),
    Reply(calls=(Call("Bash", {"command": COMMIT, "description": "commit"}), Call("Bash", {"command": "exit 3"}))),
    Reply(text="All done."),
]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    git(folder, "init", "-q", ".")
    return folder


def run(work: Path, replies: list[Reply], env: dict[str, str], *args: str, stdin: str = "", mode: str = "-p") -> Any:
    with ModelServer(replies) as model:
        keys = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": model.anthropic_url}
        return agent([mode, "--model", "anthropic/claude-sonnet-4-5", *args], work, {**keys, **env}, stdin)


def allowed(work: Path, replies: list[Reply], env: dict[str, str], *args: str) -> Any:
    done = run(work, replies, env, "--allowedTools", "Write,Bash", *args, "write the secret plan")
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize("protocol", ["http/json", "http/protobuf"])
def test_a_run_arrives_as_metrics_and_events(work: Path, protocol: str) -> None:
    with Collector() as collector:
        done = allowed(work, STORY, collector.env(protocol))
    assert done.stdout == "All done.\n"
    assert "telemetry" not in done.stderr
    assert {path for path, _ in collector.posts} == {"/v1/metrics", "/v1/logs", "/v1/traces"}
    assert {r["service.name"] for r in collector.resources} == {"claude-code"}
    assert collector.total("session.count", start_type="fresh") == 1
    assert collector.total("token.usage", type="input", model="claude-sonnet-4-5", query_source="main") == 36
    assert collector.total("token.usage", type="output") == 21
    assert collector.total("cost.usage") == pytest.approx(3 * 0.000141)
    assert collector.total("lines_of_code.count", type="added") == 2
    assert collector.total("commit.count") == 1
    assert collector.total("pull_request.count") == 0
    assert collector.total("code_edit_tool.decision", tool_name="Write", decision="accept", language="Python") == 1
    assert 0 < collector.total("active_time.total", type="cli") < 60
    assert all(p.delta for points in collector.metrics.values() for p in points)
    assert collector.metrics["claude_code.token.usage"][0].unit == "tokens"

    assert [e["event.sequence"] for e in collector.events] == [*range(len(collector.events))]
    assert {e["body"] for e in collector.events} == {f"claude_code.{e['event.name']}" for e in collector.events}
    assert len({e["prompt.id"] for e in collector.events}) == 1
    assert len({(e["session.id"], e["user.id"], e["terminal.type"]) for e in collector.events}) == 1
    [prompt] = collector.named("user_prompt")
    assert (prompt["prompt"], prompt["prompt_length"]) == ("<REDACTED>", "21")
    requests = collector.named("api_request")
    assert [(r["model"], r["input_tokens"], r["output_tokens"]) for r in requests] == [("claude-sonnet-4-5", 12, 7)] * 3
    assert all(r["duration_ms"] >= 0 and r["cost_usd_micros"] == 141 for r in requests)
    assert [(r["tool_name"], r["success"]) for r in collector.named("tool_result")] == [
        ("Write", "true"), ("Bash", "true"), ("Bash", "false"),
    ]  # fmt: skip
    assert [(d["tool_name"], d["decision"], d["source"]) for d in collector.named("tool_decision")] == [
        ("Write", "accept", "config"), ("Bash", "accept", "config"), ("Bash", "accept", "config"),
    ]  # fmt: skip
    # Without the user's consent, no text of anybody.
    for text in ("secret plan", "I write it", "All done", "exit 3", "a.py", "x = 1", "exit code", KEY):
        assert text not in collector.raw


def inside(collector: Collector, around: Span) -> list[Span]:
    return [span for span in collector.spans if span.parent == around.id]


def test_spans_nest_and_have_the_attributes_of_the_conventions(work: Path) -> None:
    with Collector() as collector:
        allowed(work, STORY, collector.env())
    [turn] = collector.spans_of("interaction")
    assert len({span.trace for span in collector.spans}) == 1
    assert sorted(span.name for span in inside(collector, turn)) == [
        *["claude_code.llm_request"] * 3, *["claude_code.tool"] * 3,
    ]  # fmt: skip
    about = turn.attributes
    assert (about["span.type"], about["user_prompt"], about["interaction.sequence"]) == ("interaction", "<REDACTED>", 1)
    assert (about["gen_ai.operation.name"], about["gen_ai.usage.input_tokens"]) == ("invoke_agent", 36)
    first, *_, last = (span.attributes for span in collector.spans_of("llm_request"))
    assert (first["gen_ai.operation.name"], first["gen_ai.provider.name"]) == ("chat", "anthropic")
    assert first["gen_ai.request.model"] == first["gen_ai.response.model"] == "claude-sonnet-4-5"
    assert (first["gen_ai.usage.input_tokens"], first["gen_ai.usage.output_tokens"]) == (12, 7)
    assert (first["stop_reason"], first["gen_ai.response.finish_reasons"]) == ("tool_use", ["tool_use"])
    assert (first["response.has_tool_call"], last["response.has_tool_call"]) == (True, False)
    assert first["gen_ai.response.id"] and first["success"] is True and first["attempt"] == 1
    for tool in collector.spans_of("tool"):
        [ran] = inside(collector, tool)
        assert ran.name == "claude_code.tool.execution"
        assert ran.attributes["tool_use_id"] == tool.attributes["gen_ai.tool.call.id"]
        assert tool.attributes["gen_ai.operation.name"] == "execute_tool"
        assert ran.nanoseconds <= tool.nanoseconds
    assert [s.error for s in collector.spans_of("tool.execution")] == [False, False, True]
    assert {e["span"] for e in collector.events if e["event.name"] != "user_prompt"} <= {s.id for s in collector.spans}


def test_the_documented_variables_let_texts_be_exported_without_secrets(work: Path) -> None:
    opted = dict.fromkeys(("OTEL_LOG_USER_PROMPTS", "OTEL_LOG_TOOL_DETAILS", "OTEL_LOG_TOOL_CONTENT"), "1")
    replies = [
        Reply(text="I look.", calls=(Call("Bash", {"command": f"echo {KEY} out", "description": "d"}),)),
        STORY[2],
    ]
    with Collector() as collector:
        allowed(work, replies, collector.env(**opted))
    assert collector.named("user_prompt")[0]["prompt"] == "write the secret plan"
    assert [e["response"] for e in collector.named("assistant_response")] == ["I look.", "All done."]
    [result] = collector.named("tool_result")
    assert json.loads(result["tool_parameters"]) == {
        "bash_command": "echo", "full_command": "echo [redacted] out", "description": "d",
    }  # fmt: skip
    assert json.loads(result["tool_input"])["command"] == "echo [redacted] out"
    [tool] = collector.spans_of("tool")
    assert tool.attributes["full_command"] == "echo [redacted] out"
    [(name, content)] = tool.events
    assert name == "tool.output"
    assert "[redacted] out" in content["output"]
    assert collector.spans_of("interaction")[0].attributes["user_prompt"] == "write the secret plan"
    assert KEY not in collector.raw


def test_answers_stay_unknown_if_the_user_says_so(work: Path) -> None:
    with Collector() as collector:
        env = collector.env(OTEL_LOG_USER_PROMPTS="1", OTEL_LOG_ASSISTANT_RESPONSES="0")
        allowed(work, [STORY[2]], env)
    assert collector.named("user_prompt")[0]["prompt"] == "write the secret plan"
    assert collector.named("assistant_response")[0]["response"] == "<REDACTED>"


def test_metrics_have_the_attributes_and_the_temporality_that_the_variables_name(work: Path) -> None:
    more = {
        "OTEL_METRICS_INCLUDE_SESSION_ID": "false",
        "OTEL_METRICS_INCLUDE_VERSION": "true",
        "OTEL_METRICS_INCLUDE_ENTRYPOINT": "1",
        "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "cumulative",
        "OTEL_RESOURCE_ATTRIBUTES": "team.id=platform,org.name=John%27s%20Org,session.id=mine",
        "OTEL_SERVICE_NAME": "our-agent",
        "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
    }
    with Collector() as collector:
        allowed(work, [STORY[2]], collector.env(**more))
    [point] = collector.metrics["claude_code.session.count"]
    assert not point.delta
    about = point.attributes
    assert (about["team.id"], about["org.name"], about["app.entrypoint"]) == ("platform", "John's Org", "sdk-cli")
    assert about["app.version"] and "session.id" not in about
    assert {(r["service.name"], r["team.id"]) for r in collector.resources} == {("our-agent", "platform")}
    assert collector.named("user_prompt")[0]["session.id"] != "mine"
    with Collector() as collector:
        allowed(work, [STORY[2]], collector.env(**more, OTEL_METRICS_INCLUDE_RESOURCE_ATTRIBUTES="0"))
    assert "team.id" not in collector.metrics["claude_code.session.count"][0].attributes


def test_each_signal_can_go_elsewhere_and_in_its_own_encoding(work: Path) -> None:
    with Collector() as one, Collector() as other:
        env = one.env(
            OTEL_EXPORTER_OTLP_LOGS_ENDPOINT=f"{other.url}/v1/logs",
            OTEL_EXPORTER_OTLP_LOGS_PROTOCOL="http/json",
            OTEL_EXPORTER_OTLP_HEADERS="Authorization=Bearer%20abcdefgh123,x-team=a",
            OTEL_EXPORTER_OTLP_LOGS_HEADERS="x-team=b",
            OTEL_TRACES_EXPORTER="none",
        )
        allowed(work, [STORY[2]], env)
    [(path, headers)] = one.posts
    assert (path, headers["content-type"], headers["x-team"]) == ("/v1/metrics", "application/x-protobuf", "a")
    [(path, headers)] = other.posts
    assert (path, headers["content-type"], headers["x-team"]) == ("/v1/logs", "application/json", "b")
    assert headers["authorization"] == "Bearer abcdefgh123"


def test_a_failed_model_call_is_an_error_with_its_attempts(work: Path) -> None:
    busy = Reply(status=529, error="overloaded_error: busy")
    with Collector() as collector:
        done = run(work, [busy, busy], collector.env(), "--settings", '{"retries": 1}', "hello")
    assert done.returncode != 0
    [error] = collector.named("api_error")
    assert (error["status_code"], error["attempt"], error["model"]) == (529, 2, "claude-sonnet-4-5")
    [exhausted] = collector.named("api_retries_exhausted")
    assert exhausted["total_attempts"] == 2
    [span] = collector.spans_of("llm_request")
    assert span.error and span.attributes["success"] is False and span.attributes["error.type"] == "overloaded"
    assert [name for name, _ in span.events] == ["gen_ai.request.attempt"]


def test_a_subagent_works_inside_the_call_that_started_it(work: Path) -> None:
    task = Call("Task", {"description": "look", "prompt": "Look around.", "subagent_type": "mine"})
    (work / ".claude/agents").mkdir(parents=True)
    (work / ".claude/agents/mine.md").write_text("---\nname: mine\ndescription: looks\n---\nLook.")
    replies = [Reply(calls=(task,)), Reply(calls=(Call("LS", {"path": "."}),)), Reply(text="Seen."), Reply(text="Ok.")]
    with Collector() as collector:
        allowed(work, replies, collector.env(), "--trust")
    outer = next(span for span in collector.spans_of("tool") if span.attributes["tool_name"] == "Task")
    kinds = sorted(span.name.removeprefix("claude_code.") for span in inside(collector, outer))
    assert kinds == ["llm_request", "llm_request", "tool", "tool.execution"]
    assert collector.total("token.usage", type="input", query_source="subagent") == 24
    [ended] = collector.named("subagent_completed")
    assert (ended["agent_type"], ended["is_built_in"], ended["total_tool_uses"]) == ("custom", False, 1)
    sources = [e["query_source"] for e in collector.named("api_request")]
    assert sources == ["sdk", "custom", "custom", "sdk"]


def test_decisions_say_where_they_come_from(work: Path) -> None:
    hook = '[ "$(cat | grep -c touch)" = 1 ] && { echo no >&2; exit 2; }; exit 0'
    settings = {"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": hook}]}]}}
    calls = tuple(Call("Bash", {"command": c}) for c in ("touch made", "curl example.org"))
    with Collector() as collector:
        args = ["--settings", json.dumps(settings), "--allowedTools", "Bash(touch:*)", "hello"]
        run(work, [Reply(calls=calls), STORY[2]], collector.env(), *args)
    found = [(d["decision"], d["source"]) for d in collector.named("tool_decision")]
    assert found == [("reject", "hook"), ("reject", "config")]
    assert collector.named("tool_result") == []
    assert collector.named("hook_execution_complete")[0]["hook_event"] == "PreToolUse"


def test_a_session_with_a_user_exports_their_decision_and_the_time_they_took(work: Path) -> None:
    replies = [Reply(calls=(Call("Write", {"file_path": "b.ts", "content": "1\n"}),)), STORY[2]]
    with Collector() as collector:
        done = run(work, replies, collector.env(), mode="--plain", stdin="hello\ny\n/exit\n")
    assert "All done." in done.stdout
    [decision] = collector.named("tool_decision")
    assert (decision["decision"], decision["source"]) == ("accept", "user_temporary")
    [blocked] = collector.spans_of("tool.blocked_on_user")
    [tool] = collector.spans_of("tool")
    assert blocked.parent == tool.id and blocked.attributes["decision"] == "accept"
    assert collector.total("code_edit_tool.decision", language="TypeScript", source="user_temporary") == 1
    assert {e["query_source"] for e in collector.named("api_request")} == {"repl_main_thread"}


def test_a_host_gets_its_answers_and_the_collector_the_rest(work: Path) -> None:
    line = json.dumps({"type": "user", "message": {"role": "user", "content": "hi"}})
    args = ["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]
    with Collector() as collector:
        parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        env = collector.env(TRACEPARENT=parent, CLAUDE_CODE_ENTRYPOINT="sdk-py", OTEL_METRICS_INCLUDE_ENTRYPOINT="1")
        done = run(work, [STORY[2]], env, *args, stdin=f"{line}\n")
    assert json.loads(done.stdout.splitlines()[-1])["result"] == "All done."
    [turn] = collector.spans_of("interaction")
    assert (turn.trace, turn.parent) == ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331")
    assert collector.total("session.count", **{"app.entrypoint": "sdk-py"}) == 1


def test_a_resumed_session_says_so(work: Path) -> None:
    with Collector() as collector:
        allowed(work, [STORY[2]], collector.env())
        run(work, [STORY[2]], collector.env(), "--continue", "again")
    assert [p.attributes["start_type"] for p in collector.metrics["claude_code.session.count"]] == ["fresh", "continue"]
    assert len({p.attributes["user.id"] for p in collector.metrics["claude_code.session.count"]}) == 1


def test_a_turn_that_waited_is_exported_to_its_end_under_the_variables_of_the_settings(work: Path) -> None:
    with Collector() as collector, ModelServer([STORY[0], STORY[2]]) as model:
        keys = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": model.anthropic_url}
        settings = work.parent / "home/.claude/settings.json"
        settings.parent.mkdir(parents=True)
        settings.write_text(json.dumps({"env": {**keys, **collector.env()}}))
        args = ["-p", "--model", "anthropic/claude-sonnet-4-5", "--on-ask", "suspend", "hello"]
        assert agent(args, work).returncode == 3
        assert collector.named("tool_decision") == []
        done = agent(["approve"], work)
    assert (done.returncode, done.stdout) == (0, "All done.\n"), done.stderr
    [decision] = collector.named("tool_decision")
    assert (decision["decision"], decision["source"]) == ("accept", "user_temporary")
    assert [r["success"] for r in collector.named("tool_result")] == ["true"]
    assert len(collector.named("user_prompt")) == 1 and len(collector.spans_of("interaction")) == 2


def test_a_collector_that_is_down_costs_one_line(work: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    with Collector() as collector:
        env = collector.env(OTEL_EXPORTER_OTLP_ENDPOINT=url, CLAUDE_CODE_OTEL_SHUTDOWN_TIMEOUT_MS="2000")
    done = allowed(work, [STORY[2]], env)
    [line] = [line for line in done.stderr.splitlines() if "telemetry" in line]
    assert "could not be sent to 127.0.0.1" in line and done.stdout == "All done.\n"
    assert "Traceback" not in done.stderr


def test_a_collector_that_never_answers_holds_a_run_for_a_limited_time(work: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, Collector() as collector:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        env = collector.env(OTEL_EXPORTER_OTLP_ENDPOINT=url, CLAUDE_CODE_OTEL_SHUTDOWN_TIMEOUT_MS="300")
        begun = time.monotonic()
        done = allowed(work, [STORY[2]], env)
    assert time.monotonic() - begun < 30  # a request may take 10 s, for each of three signals
    [line] = [line for line in done.stderr.splitlines() if "telemetry" in line]
    assert line.endswith("did not answer in time")


def test_a_busy_collector_is_asked_again(work: Path) -> None:
    seen: list[str] = []

    def answer(path: str) -> int:
        seen.append(path)
        return 503 if seen.count(path) == 1 else 200

    with Collector(answer) as collector:
        done = allowed(work, [STORY[2]], collector.env(OTEL_TRACES_EXPORTER="none"))
    assert sorted(seen) == ["/v1/logs", "/v1/logs", "/v1/metrics", "/v1/metrics"]
    assert collector.total("session.count") == 1 and "telemetry" not in done.stderr


def test_metrics_leave_in_between_at_the_interval(work: Path) -> None:
    with Collector() as collector:
        wait = "until [ -e ../arrived ]; do sleep 0.05; done"

        def answer(path: str) -> int:
            if path == "/v1/metrics":
                (work.parent / "arrived").touch()
            return 200

        collector._answer = answer
        env = collector.env(OTEL_METRIC_EXPORT_INTERVAL="100", OTEL_LOGS_EXPORT_INTERVAL="100")
        allowed(work, [Reply(calls=(Call("Bash", {"command": wait}),)), STORY[2]], env)
    assert collector.total("token.usage", type="input") == 24
    assert len([path for path, _ in collector.posts if path == "/v1/metrics"]) > 1


def test_console_writes_to_standard_error(work: Path) -> None:
    env = {"CLAUDE_CODE_ENABLE_TELEMETRY": "1", "OTEL_METRICS_EXPORTER": "console", "OTEL_LOGS_EXPORTER": "console"}
    done = allowed(work, [STORY[2]], {**env, "CLAUDE_CODE_OTEL_SHUTDOWN_TIMEOUT_MS": "60000"})
    assert done.stdout == "All done.\n"
    assert "claude_code.session.count" in done.stderr and "claude_code.user_prompt" in done.stderr


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "grpc is not supported, use http/protobuf or http/json"),
        ("OTEL_METRICS_EXPORTER", "prometheus", "prometheus is not supported; there are otlp, console, none"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector", "could not be sent to the collector"),
    ],
)
def test_what_cannot_be_exported_is_said_in_one_line(work: Path, name: str, value: str, words: str) -> None:
    with Collector() as collector:
        env = collector.env(**{name: value})
        done = allowed(work, [STORY[2]], env)
    [line] = [line for line in done.stderr.splitlines() if "telemetry" in line]
    assert words in line


def test_the_application_exports_an_answer_at_its_question_and_names_what_failed_when_it_is_left(work: Path) -> None:
    calls = (Call("Write", {"file_path": "b.go", "content": "1\n"}),)
    with Collector() as collector, ModelServer([Reply(calls=calls), STORY[2]]) as model:
        keys = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": model.anthropic_url}
        lost = {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://127.0.0.1:9/v1/metrics"}
        args = ["--model", "anthropic/claude-sonnet-4-5", "--", "write"]
        env = {**keys, **collector.env(OTEL_LOGS_EXPORT_INTERVAL="100", **lost)}
        with Drawn(args, work, **env) as screen:
            screen.wait("Create b.go?")
            screen.wait("y  Yes")
            screen.type("y")
            screen.wait("All done.")
            left = screen.leave()
    assert "telemetry: metrics could not be sent to 127.0.0.1:9" in " ".join(left.split())
    [decision] = collector.named("tool_decision")
    assert (decision["source"], decision["decision"]) == ("user_temporary", "accept")
    assert [s.attributes["decision"] for s in collector.spans_of("tool.blocked_on_user")] == ["accept"]
