"""Real gateways between this program and a stand-in provider, without --model; run by `make outside`."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.client_home import CLIENTS, environment
from tests.support.model_server import Call, ModelServer, Reply

# With its first start, LiteLLM loads for half a minute.
SECONDS = 150.0
ROUTER = CLIENTS / "npm/node_modules/.bin/ccr"
LITELLM = CLIENTS / "litellm/bin/litellm"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@contextmanager
def running(line: list[str], home: Path, port: int, ready: str) -> Iterator[str]:
    """Run a gateway until it answers at a path; yield its address."""
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "LC_ALL")}
    env = {**kept, "HOME": str(home), "NO_PROXY": "127.0.0.1", "LITELLM_LOCAL_MODEL_COST_MAP": "True",
           "LITELLM_MASTER_KEY": "sk-gateway"}  # fmt: skip
    url, log = f"http://127.0.0.1:{port}", home / "gateway.log"
    with log.open("wb") as out, subprocess.Popen(line, cwd=home, env=env, stdout=out, stderr=out) as process:
        try:
            until = time.monotonic() + SECONDS
            while True:
                try:
                    urllib.request.urlopen(f"{url}{ready}", timeout=5).close()
                    break
                except OSError:
                    assert process.poll() is None and time.monotonic() < until, log.read_text()[-3_000:]
                    time.sleep(0.2)
            yield url
        finally:
            process.kill()


def router(home: Path, provider: str) -> tuple[list[str], int, str]:
    """claude-code-router, with a model of another name than Claude's."""
    port = free_port()
    config = {
        "LOG": False, "PORT": port, "APIKEY": "sk-gateway", "HOST": "127.0.0.1",
        "Providers": [{"name": "stand-in", "api_base_url": f"{provider}/chat/completions", "api_key": "sk-provider",
                       "models": ["clever-1"]}],
        "Router": {"default": "stand-in,clever-1"},
    }  # fmt: skip
    (home / ".claude-code-router").mkdir()
    (home / ".claude-code-router/config.json").write_text(json.dumps(config))
    return [str(ROUTER), "start"], port, "/health"


def litellm(home: Path, provider: str) -> tuple[list[str], int, str]:
    """LiteLLM's proxy, with a model under a name of Claude's."""
    params = {"model": "openai/clever-1", "api_base": provider, "api_key": "sk-provider"}
    names = ("some-other-model", "claude-sonnet-4-5", "claude-haiku-4-5")
    config = {"model_list": [{"model_name": name, "litellm_params": params} for name in names]}
    (home / "config.yaml").write_text(json.dumps(config))
    port = free_port()
    line = [str(LITELLM), "--config", "config.yaml", "--host", "127.0.0.1", "--port", str(port)]
    return [*line, "--telemetry", "False"], port, "/health/liveliness"


@pytest.mark.parametrize(
    ("gateway", "program", "key"),
    [(router, ROUTER, "ANTHROPIC_AUTH_TOKEN"), (litellm, LITELLM, "ANTHROPIC_API_KEY")],
    ids=["claude-code-router", "litellm"],
)
def test_a_real_gateway_runs_without_a_model_named(
    tmp_path: Path, gateway: Callable[[Path, str], tuple[list[str], int, str]], program: Path, key: str
) -> None:
    if not program.exists() or (program is ROUTER and shutil.which("node") is None):
        pytest.skip(f"NOT TESTED: {program.name} is not installed; make outside installs it")
    work = tmp_path / "work"
    work.mkdir()
    replies = [Reply(calls=(Call("Bash", {"command": "touch made"}),)), Reply(text="It is made.")]
    with ModelServer(replies) as provider:
        home = tmp_path / "gateway"
        home.mkdir()
        line, port, ready = gateway(home, provider.openai_url)
        with running(line, home, port, ready) as url:
            env = environment(tmp_path / "home", url)
            for name in ("AGENT_MODEL", "ANTHROPIC_API_KEY"):
                del env[name]
            env[key] = "sk-gateway"
            done = subprocess.run(
                [env["AGENT_BIN"], "-p", "--allowedTools", "Bash", "--output-format", "json", "make it"],
                cwd=work, env=env, capture_output=True, text=True, timeout=SECONDS,
            )  # fmt: skip
            log = (home / "gateway.log").read_text()[-2_000:]
        result = json.loads(done.stdout)
        assert (done.returncode, result["result"]) == (0, "It is made."), done.stderr + log
        assert (work / "made").exists()
        assert {body["model"] for body in provider.bodies} == {"clever-1"}
        assert {request.headers["authorization"] for request in provider.requests} == {"Bearer sk-provider"}
