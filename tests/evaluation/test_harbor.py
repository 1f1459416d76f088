"""The adapter for Harbor, on stand-ins for the classes of that package: its commands are run by a real shell here."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path, PurePosixPath
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel

from tests.support.program import clean_env
from tests.support.scripts import bash, script

REPLIES = [
    {"text": "I look.", **bash("echo hello > made.txt"), "usage": {"input": 100, "output": 20}},
    {"text": "Done.", "usage": {"input": 120, "output": 7}},
    {"text": "Again.", "usage": {"input": 130, "output": 5}},
]


class Cli:
    def __init__(self, flag: str) -> None:
        self.flag = flag


class Options(BaseModel, extra="forbid"):
    disable_web_search: bool = False


class Usage(BaseModel):
    n_input_tokens: int = 0
    n_cache_tokens: int = 0
    n_output_tokens: int = 0
    cost_usd: float | None = None


class Trajectory:
    @staticmethod
    def model_validate_json(text: str) -> Any:
        return json.loads(text)


class Base:
    """What the adapter uses of BaseInstalledAgent."""

    options_model: ClassVar[type[BaseModel]]
    _resume = False

    def __init__(self, logs_dir: Path, model_name: str | None = None, **more: Any) -> None:
        self.logs_dir, self.model_name = logs_dir, model_name
        self.environment_logs_dir = more.pop("environment_logs_dir", PurePosixPath("/logs/agent"))
        self.mcp_servers = more.pop("mcp_servers", [])
        self.skills_dir = more.pop("skills_dir", None)
        self._env: dict[str, str] = more.pop("extra_env", {})
        self.options = self.options_model(**more)

    def _get_env(self, name: str) -> str | None:
        return self._env.get(name)

    def build_cli_flags(self) -> str:
        words = []
        for name, field in type(self.options).model_fields.items():
            flag = next((item.flag for item in field.metadata if isinstance(item, Cli)), "")
            if flag and (value := getattr(self.options, name)) is not None:
                words += [flag, shlex.quote(str(value))]
        return " ".join(words)

    async def ensure_system_dependencies(self, environment: Any, names: tuple[str, ...]) -> None:
        environment.needed += names

    async def exec_as_agent(self, environment: Any, command: str, env: dict[str, str] | None = None) -> Any:
        done = await environment.exec(command=f"set -o pipefail; {command}", env=env)
        if done.return_code:
            raise RuntimeError(done.stderr)
        return done

    exec_as_root = exec_as_agent


class Environment:
    """A container: the shell of this machine in a folder, with our program on its PATH."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.needed: tuple[str, ...] = ()
        self.commands: list[str] = []
        self.uploaded: list[tuple[Path, str]] = []
        program = work.parent / "home/.local/bin/agent"
        program.parent.mkdir(parents=True)
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P -m agent_cli "$@"\n')
        program.chmod(0o755)

    async def exec(self, command: str, env: dict[str, str] | None = None) -> Any:
        self.commands.append(command)
        known = clean_env(self.work.parent / "home", **(env or {}))
        done = subprocess.run(["bash", "-c", command], cwd=self.work, env=known, capture_output=True, text=True)
        return SimpleNamespace(return_code=done.returncode, stdout=done.stdout, stderr=done.stderr)

    async def upload_file(self, source: Path, target: str) -> None:
        self.uploaded.append((source, target))


@pytest.fixture
def adapter(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module, imported with stand-ins for Harbor's."""
    known: dict[str, dict[str, Any]] = {
        "agents.capabilities": {"AgentCapabilities": SimpleNamespace},
        "agents.installed.base": {"BaseInstalledAgent": Base, "with_prompt_template": lambda run: run},
        "agents.options": {"Cli": Cli, "InstalledAgentOptions": Options},
        "environments.base": {"BaseEnvironment": object},
        "models.agent.context": {"AgentContext": SimpleNamespace, "ModelUsage": Usage},
        "models.trajectories": {"Trajectory": Trajectory},
    }
    for name, names in known.items():
        parts = f"harbor.{name}".split(".")
        for count in range(1, len(parts) + 1):
            path = ".".join(parts[:count])
            if path not in sys.modules:
                monkeypatch.setitem(sys.modules, path, ModuleType(path))
        vars(sys.modules[f"harbor.{name}"]).update(names)
    monkeypatch.delitem(sys.modules, "benchmarks.harbor.agent_adapter", raising=False)
    module = importlib.import_module("benchmarks.harbor.agent_adapter")
    monkeypatch.delitem(sys.modules, "benchmarks.harbor.agent_adapter")
    return module


def test_two_turns_with_their_trajectory_tokens_and_cost(adapter: Any, work: Path) -> None:
    logs = work.parent / "logs"
    logs.mkdir()
    model = script(work.parent / "s.toml", REPLIES)
    agent = adapter.AgentCli(logs, model, environment_logs_dir=PurePosixPath(logs), max_turns=9, reasoning_effort="low")
    environment, context = Environment(work), SimpleNamespace()
    asyncio.run(agent.run("Do it, it's 'quoted' $HOME `x`", environment, context))
    assert (work / "made.txt").read_text() == "hello\n"
    found = agent.convert_trajectory(logs)
    assert found["steps"][1]["message"] == "Do it, it's 'quoted' $HOME `x`"
    assert found["steps"][2]["reasoning_effort"] == "low"
    agent._resume = True
    asyncio.run(agent.run("More.", environment, context))
    agent.populate_context_post_run(context)
    assert (context.n_input_tokens, context.n_output_tokens, context.cost_usd) == (350, 32, 0.0)
    assert [step["source"] for step in agent.convert_trajectory(logs)["steps"]][-2:] == ["user", "agent"]


def test_a_limit_is_an_ordinary_result_and_a_failure_is_none(adapter: Any, work: Path) -> None:
    logs = work.parent / "logs"
    logs.mkdir()
    model = script(work.parent / "s.toml", REPLIES)
    agent = adapter.AgentCli(logs, model, environment_logs_dir=PurePosixPath(logs), max_turns=1)
    environment = Environment(work)
    asyncio.run(agent.run("Go.", environment, SimpleNamespace()))
    assert json.loads((logs / "agent.jsonl").read_text().splitlines()[-1])["outcome"] == "limit"
    failing = adapter.AgentCli(logs, "scripted:/nowhere.toml", environment_logs_dir=PurePosixPath(logs))
    with pytest.raises(RuntimeError):
        asyncio.run(failing.run("Go.", environment, SimpleNamespace()))
    assert "/nowhere.toml" in (logs / "agent.stderr.txt").read_text()


def test_a_run_that_was_killed_has_the_tokens_of_its_messages(adapter: Any, work: Path) -> None:
    usage = {"input_tokens": 5, "cache_creation_input_tokens": 2, "cache_read_input_tokens": 3, "output_tokens": 4}
    line = {"type": "assistant", "message": {"model": "m", "usage": usage}}
    path = work / "agent.jsonl"
    path.write_text(f'{json.dumps(line)}\n{json.dumps(line)}\n{{"type": "assis')
    assert adapter.read_usage(path) == {"m": Usage(n_input_tokens=20, n_cache_tokens=6, n_output_tokens=8)}
    assert adapter.read_usage(work / "none") == {}


def test_the_commands_of_an_installation(adapter: Any, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = work.parent / "agent_at_hand-1.whl"
    wheel.write_text("")
    environment = Environment(work)
    tools = work.parent / "home/.local/bin"
    (tools / "uv").write_text('#!/bin/sh\necho "$@" >> uv.txt\n')
    (tools / "uv").chmod(0o755)
    agent = adapter.AgentCli(work, "openai/x", package=str(wheel))

    async def nothing(*args: Any, **kwargs: Any) -> None:
        return None

    monkeypatch.setattr(agent, "exec_as_root", nothing)
    asyncio.run(agent.install(environment))
    assert environment.uploaded == [(wheel, "/installed-agent/agent_at_hand-1.whl")]
    assert (work / "uv.txt").read_text() == "tool install --force --python 3.12 /installed-agent/agent_at_hand-1.whl\n"
    assert "curl" in environment.needed
    done = asyncio.run(environment.exec(agent.get_version_command()))
    assert agent.parse_version(done.stdout)[0].isdigit()


def test_what_is_passed_to_a_run(adapter: Any, work: Path) -> None:
    server = SimpleNamespace(name="s", transport="stdio", command="x", args=["y"], url=None)
    remote = SimpleNamespace(name="r", transport="streamable-http", url="https://x.example/mcp")
    keys = {"GEMINI_API_KEY": "k", "GOOGLE_API_KEY": "g", "OPENAI_API_KEY": "o"}
    more = {"mcp_servers": [server, remote], "skills_dir": "/the skills", "disable_web_search": True, "extra_env": keys}
    agent = adapter.AgentCli(work, "google/gemini-3", **more)
    words = shlex.split(agent.run_command("hi").replace(";", " ; "))
    assert words[words.index("--model") + 1] == "gemini/gemini-3"
    assert words[words.index("--disallowedTools") + 1] == "WebFetch WebSearch"
    assert json.loads(words[words.index("--mcp-config") + 1])["mcpServers"] == {
        "s": {"command": "x", "args": ["y"]},
        "r": {"type": "http", "url": "https://x.example/mcp"},
    }
    assert "/the skills/." in words
    assert agent.run_env() == {
        "IS_SANDBOX": "1",
        "AGENT_STATE_DIR": "/logs/agent/state",
        "GEMINI_API_KEY": "k",
        "GOOGLE_API_KEY": "g",
    }


def test_without_a_wheel_a_sentence_says_what_to_do(adapter: Any, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "ROOT", work)
    with pytest.raises(ValueError, match="make wheel"):
        adapter.AgentCli(work, "openai/x").package()
    (work / "dist").mkdir()
    for number in (1, 2):
        wheel = work / f"dist/agent_at_hand-{number}.whl"
        wheel.write_text("")
        os.utime(wheel, (number, number))
    assert adapter.AgentCli(work, "openai/x").package().endswith("agent_at_hand-2.whl")
