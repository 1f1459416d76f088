"""Runs `agent` as an installed agent of the Harbor harness, and hands over its trajectory, tokens and cost."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

from harbor.agents.capabilities import AgentCapabilities
from harbor.agents.installed.base import BaseInstalledAgent, with_prompt_template
from harbor.agents.options import Cli, InstalledAgentOptions
from harbor.environments.base import BaseEnvironment
from harbor.models.agent.context import AgentContext, ModelUsage
from harbor.models.trajectories import Trajectory
from pydantic import Field

ROOT = Path(__file__).resolve().parents[2]
# Where uv puts programs of a user.
PATHS = 'export PATH="$HOME/.local/bin:$PATH"'
# A turn that a limit ended is an ordinary result: what is there is verified.
LIMIT = 4
TRANSCRIPT = "agent.jsonl"
TRAJECTORY = "trajectory.json"
# Harbor's name of a provider, where ours is another.
PROVIDERS = {"google": "gemini", "vertex_ai": "vertex"}
# Variables with the key of a provider, beside PROVIDER_API_KEY.
KEYS = {"gemini": ("GOOGLE_API_KEY",), "anthropic": ("ANTHROPIC_AUTH_TOKEN",), "together": ("TOGETHER_AI_API_KEY",)}


class AgentCliOptions(InstalledAgentOptions):
    """What `--agent-kwarg NAME=VALUE` sets."""

    package: str | None = Field(
        default=None, description="Wheel, or what pip installs; by default the newest wheel in dist/ of the clone."
    )
    python: str = Field(default="3.12", description="Python that uv installs the program with.")
    reasoning_effort: Annotated[str | None, Cli("--effort")] = Field(default=None, description="Reasoning effort.")
    max_turns: Annotated[int | None, Cli("--max-turns")] = Field(default=None, description="Model calls of a turn.")
    max_budget_usd: Annotated[float | None, Cli("--max-budget-usd")] = Field(default=None, description="Dollars.")
    settings: Annotated[str | None, Cli("--settings")] = Field(default=None, description="Settings, as TOML or JSON.")


class AgentCli(BaseInstalledAgent):
    """The program of this repository."""

    options_model = AgentCliOptions
    options: AgentCliOptions
    capabilities = AgentCapabilities(
        atif=True, resume=True, native_web_tools=True, reasoning_effort=True, skills=True, mcp_servers=True
    )

    @staticmethod
    def name() -> str:
        return "agent-cli"

    def get_version_command(self) -> str | None:
        return f"{PATHS}; agent --version"

    def parse_version(self, stdout: str) -> str:
        return stdout.strip().removeprefix("agent ")

    async def install(self, environment: BaseEnvironment) -> None:
        await self.ensure_system_dependencies(environment, ("bash", "curl", "git", "ca_certificates"))
        package = self.package()
        if Path(package).is_file():
            target = f"/installed-agent/{Path(package).name}"
            await environment.upload_file(Path(package), target)
            await self.exec_as_root(environment, command=f"chmod a+r {shlex.quote(target)}")
            package = target
        await self.exec_as_agent(environment, command=self.install_command(package))

    def package(self) -> str:
        """Return what is installed. Raises ValueError if there is nothing."""
        if self.options.package:
            return self.options.package
        wheels = sorted((ROOT / "dist").glob("agent_at_hand-*.whl"), key=lambda path: path.stat().st_mtime)
        if not wheels:
            raise ValueError(f"There is no wheel in {ROOT / 'dist'}: run `make wheel`, or give package=WHEEL.")
        return str(wheels[-1])

    def install_command(self, package: str) -> str:
        """Return the shell command that installs a package for the agent's user. uv brings its own Python."""
        return (
            f"set -eu; {PATHS}; "
            "command -v uv >/dev/null || curl -LsSf https://astral.sh/uv/install.sh | sh; "
            f"uv tool install --force --python {shlex.quote(self.options.python)} {shlex.quote(package)}; "
            "agent --version"
        )

    @with_prompt_template
    async def run(self, instruction: str, environment: BaseEnvironment, context: AgentContext) -> None:
        env = self.run_env()
        try:
            await self.exec_as_agent(environment, command=self.run_command(instruction), env=env)
        finally:
            await environment.exec(command=self.export_command(), env=env)

    def run_command(self, instruction: str) -> str:
        """Return the shell command of one turn; its exit code is 0 where a limit ended it."""
        logs = self.environment_logs_dir
        flags = ["-p", "--output-format", "stream-json", "--permission-mode", "bypassPermissions"]
        if self.model_name:
            flags += ["--model", self.our_model_name()]
        if self.options.disable_web_search:
            flags += ["--disallowedTools", "WebFetch WebSearch"]
        if servers := self.mcp_config():
            flags += ["--mcp-config", json.dumps(servers)]
        if self._resume:
            flags.append("--continue")
        words = f"{shlex.join(flags)} {self.build_cli_flags()}".strip()
        errors, transcript = shlex.quote(str(logs / "agent.stderr.txt")), shlex.quote(str(logs / TRANSCRIPT))
        return (
            f"{PATHS}; {self.skills_command()}"
            f"{{ printf %s {shlex.quote(instruction)} | agent {words} 2>>{errors} || [ $? -eq {LIMIT} ]; }} "
            f"| tee -a {transcript}"
        )

    def export_command(self) -> str:
        """Return the shell command that writes the trajectory of the latest session."""
        target = shlex.quote(str(self.environment_logs_dir / TRAJECTORY))
        return f"{PATHS}; agent sessions export --format atif --output {target} --force"

    def run_env(self) -> dict[str, str]:
        """Return the variables of a run: the state folder among the logs, and the key of the model's provider."""
        found = {"IS_SANDBOX": "1", "AGENT_STATE_DIR": str(self.environment_logs_dir / "state")}
        provider = self.our_model_name().partition("/")[0]
        names = [f"{provider.upper()}_{part}" for part in ("API_KEY", "BASE_URL")] + [*KEYS.get(provider, ())]
        return found | {name: value for name in names if (value := self._get_env(name))}

    def our_model_name(self) -> str:
        """Return the name of the model as the program spells it."""
        provider, slash, model = (self.model_name or "").partition("/")
        return f"{PROVIDERS.get(provider, provider)}{slash}{model}"

    def mcp_config(self) -> dict[str, Any]:
        """Return the task's MCP servers as --mcp-config takes them; {} for none."""
        found: dict[str, Any] = {}
        for server in self.mcp_servers:
            if server.transport == "stdio":
                found[server.name] = {"command": server.command, "args": server.args}
            else:
                kind = "sse" if server.transport == "sse" else "http"
                found[server.name] = {"type": kind, "url": server.url}
        return {"mcpServers": found} if found else {}

    def skills_command(self) -> str:
        if not self.skills_dir:
            return ""
        return f"mkdir -p ~/.agent/skills && cp -r {shlex.quote(self.skills_dir)}/. ~/.agent/skills/; "

    def convert_trajectory(self, logs_dir: Path) -> Trajectory | None:
        """Return the trajectory of the downloaded logs.

        A run that Harbor ended, by its time limit, could not write it; the program of this clone then does.
        """
        path = logs_dir / TRAJECTORY
        program = ROOT / ".venv" / "bin" / "agent"
        if not path.is_file() and program.is_file():
            command = [program, "sessions", "export", "--all-projects", "--format", "atif", "--output", path]
            env = {**os.environ, "AGENT_STATE_DIR": str(logs_dir / "state")}
            subprocess.run(command, env=env, capture_output=True, timeout=120, check=False)
        if not path.is_file():
            return None
        try:
            return Trajectory.model_validate_json(path.read_text("utf-8"))
        except ValueError:
            self.logger.exception("%s is no trajectory", path)
            return None

    def populate_context_post_run(self, context: AgentContext) -> None:
        """Take tokens and cost from the results of all turns; of a turn without one, from its messages."""
        self.convert_trajectory(self.logs_dir)
        usage = read_usage(self.logs_dir / TRANSCRIPT)
        if not usage:
            return
        known = [one.cost_usd for one in usage.values() if one.cost_usd is not None]
        context.n_input_tokens = sum(one.n_input_tokens for one in usage.values())
        context.n_cache_tokens = sum(one.n_cache_tokens for one in usage.values())
        context.n_output_tokens = sum(one.n_output_tokens for one in usage.values())
        context.cost_usd = sum(known) if len(known) == len(usage) else None
        context.model_usage = usage


def read_usage(transcript: Path) -> dict[str, ModelUsage]:
    """Return what each model used, from the JSON lines of one or more turns."""
    total: dict[str, ModelUsage] = {}
    turn: dict[str, ModelUsage] = {}
    for line in _lines(transcript):
        if line.get("type") == "assistant":
            message = line["message"]
            _add(turn, str(message.get("model")), _tokens(message["usage"]), None)
        elif line.get("type") == "result":
            turn = {}
            for name, used in line["modelUsage"].items():
                read, written = used["cacheReadInputTokens"], used["cacheCreationInputTokens"]
                tokens = (used["inputTokens"] + read + written, read, used["outputTokens"])
                _add(total, name, tokens, used["costUSD"] if line["cost_is_reliable"] else None)
    for name, used in turn.items():
        _add(total, name, (used.n_input_tokens, used.n_cache_tokens, used.n_output_tokens), None)
    return total


def _add(sums: dict[str, ModelUsage], name: str, tokens: tuple[int, int, int], cost: float | None) -> None:
    before = sums.get(name) or ModelUsage(cost_usd=0.0)
    sums[name] = ModelUsage(
        n_input_tokens=before.n_input_tokens + tokens[0],
        n_cache_tokens=before.n_cache_tokens + tokens[1],
        n_output_tokens=before.n_output_tokens + tokens[2],
        cost_usd=None if cost is None or before.cost_usd is None else before.cost_usd + cost,
    )


def _tokens(usage: dict[str, Any]) -> tuple[int, int, int]:
    read = usage["cache_read_input_tokens"]
    return usage["input_tokens"] + usage["cache_creation_input_tokens"] + read, read, usage["output_tokens"]


def _lines(path: Path) -> Iterable[dict[str, Any]]:
    if not path.is_file():
        return
    with path.open(encoding="utf-8") as file:
        for raw in file:
            try:
                line = json.loads(raw)
            except ValueError:  # cut off when the run was ended
                continue
            if isinstance(line, dict):
                yield line
