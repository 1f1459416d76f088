"""What `agent -p` on a direct wire must never import: counted in `sys.modules`, not by the clock."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.entered_files import files_of_a_call
from tests.support.fork_server import ROOT
from tests.support.imported_modules import compiled, loaded
from tests.support.model_server import Call, ModelServer, Reply
from tests.support.scripts import script

HEAVY = {
    "litellm", "prompt_toolkit", "git", "openai", "anthropic", "httpx", "mcp", "asyncio", "pydantic", "typer", "rich",
    "dataclasses", "jsonschema", "platformdirs", "tomllib", "urllib3", "difflib", "zipfile",
}  # fmt: skip


@pytest.mark.parametrize(
    "model", ["openai/claude-x", "openai/gpt-5.6", "anthropic/claude-x", "gemini/gemini-x", "ollama/qwen3:8b"]
)
def test_one_shot_imports_nothing_heavy(tmp_path: Path, model: str) -> None:
    (tmp_path / "a.txt").write_text("x\n")
    replies = [Reply(calls=(Call("Read", {"file_path": "a.txt"}), Call("LS", {"path": "."}))), Reply(text="Ok.")]
    with ModelServer(replies) as server:
        # Without a key the system keyring is asked, which is heavy.
        keys = dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OLLAMA_API_KEY"), "k")
        urls = {"OPENAI_BASE_URL": server.openai_url, "ANTHROPIC_BASE_URL": server.anthropic_url}
        urls |= {"GEMINI_API_BASE": server.gemini_url, "OLLAMA_HOST": server.ollama_url}
        modules = loaded(tmp_path, "-p", "--model", model, "hi", **keys, **urls)
    assert not HEAVY & {name.partition(".")[0] for name in modules}


@pytest.mark.parametrize(
    ("model", "own"),
    [
        ("openai/m", {"openai_chat", "openai_stream"}),
        ("openai/gpt-5.6", {"openai_responses", "responses_stream"}),
        ("anthropic/claude-x", {"anthropic"}),
        ("gemini/gemini-x", {"gemini", "gemini_stream"}),
        ("ollama/qwen3:8b", {"ollama", "openai_stream"}),
    ],
)
def test_a_wire_loads_nothing_of_another(tmp_path: Path, model: str, own: set[str]) -> None:
    with ModelServer([Reply(text="Ok.")]) as server:
        # Without a key the system keyring is asked, which is heavy.
        keys = dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OLLAMA_API_KEY"), "k")
        urls = {"OPENAI_BASE_URL": server.openai_url, "ANTHROPIC_BASE_URL": server.anthropic_url}
        urls |= {"GEMINI_API_BASE": server.gemini_url, "OLLAMA_HOST": server.ollama_url}
        modules = loaded(tmp_path, "-p", "--model", model, "hello", **keys, **urls)
    names = {name.rpartition(".")[2] for name in modules if name.startswith("agent_cli.models.")}
    wires = {"openai_chat", "openai_stream", "openai_responses", "responses_stream", "openai_either", "anthropic"}
    wires |= {"gemini", "gemini_stream", "google_auth", "litellm", "ollama"}
    assert names & wires == own


def test_an_answer_without_calls_loads_nothing_that_only_calls_need(tmp_path: Path) -> None:
    """Nor what only hooks, resuming or other output forms do; twenty hooks for tools are configured."""
    hooks = [{"matcher": "Edit", "hooks": [{"type": "command", "command": f"true {n}"}]} for n in range(20)]
    settings = tmp_path / "home" / ".claude" / "settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps({"hooks": {"PostToolUse": hooks}}))
    with ModelServer([Reply(text="Ok.")]) as server:
        env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url}
        # Of a model that the catalog knows, no server is asked for the window.
        modules = loaded(tmp_path, "-p", "--model", "openai/gpt-4.1-mini", "hi", **env)
        assert not server.asked
    # Its stand-in in `agent_tools.record` costs a tenth.
    slow = re.compile(r"^from typing import .*\bProtocol\b", re.M)
    sources = [ROOT.joinpath(*base, *m.split(".")).with_suffix(".py") for m in modules for base in ((), ("tools",))]
    assert not [path for path in sources if path.is_file() and slow.search(path.read_text())]
    assert not modules & {
        "agent_cli.kernel.engine.executor", "agent_cli.kernel.engine.tool_call", "agent_cli.kernel.session.restore",
        "agent_cli.shells.headless.stream_json", "agent_cli.hooks.runner", "agent_cli.extras.reports",
        "agent_cli.kernel.runtime.recording",
        "agent_cli.models.recording", "agent_cli.cli.patch_run",
        "agent_cli.models.server_info", "agent_cli.models.media_limits", "agent_cli.kernel.engine.turn_end",
        "signal", "shlex",
        "agent_tools.edit.matching", "agent_tools.edit.change", "agent_tools.edit.formatters", "agent_tools.edit.diff",
    }  # fmt: skip


@pytest.mark.parametrize("model", ["openai/gpt-4.1-mini", "openai/gpt-5.6"])
def test_an_answer_without_calls_compiles_three_patterns_and_loads_few_modules(tmp_path: Path, model: str) -> None:
    """A pattern takes up to three milliseconds, so one that few runs need is a text until it is used."""
    with ModelServer([Reply(text="Ok."), Reply(text="Ok.")]) as server:
        env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url}
        # One for the end of the answer, which may be part of a secret, and up to two for the name of the model.
        found = compiled(tmp_path, "-p", "--model", model, "hi", **env)
        assert len(found) <= 3, found
        modules = loaded(tmp_path, "-p", "--model", model, "hi", **env)
    ours = [m for m in modules if m.partition(".")[0] in ("agent_cli", "agent_tools")]
    assert "agent_cli.config.rule_lists" not in ours
    assert len(ours) <= 119, len(ours)


def test_a_first_command_compiles_few_of_the_patterns_that_judge_commands(tmp_path: Path) -> None:
    with ModelServer([Reply(calls=(Call("Bash", {"command": "true"}),)), Reply(text="Ok.")]) as server:
        env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url, "AGENT_SANDBOX_MODE": "off"}
        found = compiled(tmp_path, "-p", "--model", "openai/x", "--allowedTools", "Bash", "--", "hi", **env)
    assert len(found) <= 48, "\n".join(found)


def test_the_version_imports_next_to_nothing_of_ours(tmp_path: Path) -> None:
    found = [m for m in sorted(loaded(tmp_path, "--version")) if m.startswith("agent")]
    lazy = ["agent_tools", "agent_tools.lazy"]
    assert found == ["agent_cli", "agent_cli.__main__", "agent_cli.kernel", "agent_cli.kernel.version", *lazy]


@pytest.mark.parametrize("rules", [[], ["--allowedTools", "Bash(npm test:*) Read", "--disallowedTools", "Bash(rm:*)"]])
def test_the_analysis_of_commands_is_not_loaded_before_the_first_command(tmp_path: Path, rules: list[str]) -> None:
    (tmp_path / "a.txt").write_text("x\n")
    with ModelServer([Reply(calls=(Call("Read", {"file_path": "a.txt"}),)), Reply(text="Ok.")]) as server:
        env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url}
        modules = loaded(tmp_path, "-p", "--model", "openai/x", *rules, "hi", **env)
    ours = [m for m in modules if m.startswith("agent_cli.policy.")]
    assert "agent_cli.policy.policy" in ours
    heavy = ("shell", "analysis", "command", "readonly", "words", "walker", "git_reads")
    assert not [m for m in ours if m.rpartition(".")[2].startswith(heavy)]


def test_of_an_ordinary_repository_git_is_asked_for_its_status_and_log_only(tmp_path: Path) -> None:
    work, shim = tmp_path / "work", tmp_path / "bin/git"
    work.mkdir()
    for words in (
        ("init", "-q"),
        ("remote", "add", "origin", "git@example.org:a/b.git"),
        ("config", "user.name", "A B"),
    ):
        subprocess.run(["git", *words], cwd=work, check=True)
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/started\nexec {shutil.which("git")} "$@"\n')
    shim.chmod(0o755)
    path = f"{shim.parent}:{os.environ['PATH']}"
    with ModelServer([Reply(text="Ok.")]) as server:
        env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url, "PATH": path}
        modules = loaded(work, "-p", "--model", "openai/x", "hello", **env)
    assert "agent_cli.policy.git_inspection" in modules
    started = (tmp_path / "started").read_text().splitlines()
    # The first finds filters of the user's own, which are switched off in the others.
    # Status and log run side by side.
    assert len(started) == 3 and "config --list" in started[0]
    assert all(any(words in line for line in started[1:]) for words in (" --porcelain", " log "))


def test_a_server_that_is_remembered_and_not_used_loads_no_sdk(tmp_path: Path) -> None:
    """What it offers is known from an earlier run, so it is started when one of its tools is called."""
    server = {"command": sys.executable, "args": [str(ROOT / "tests/support/mcp/odd_server.py")]}
    (tmp_path / "servers.json").write_text(json.dumps({"mcpServers": {"raw": server}}))
    args = ["-p", "--model", "openai/gpt-4.1-mini", "--mcp-config", str(tmp_path / "servers.json"), "hi"]
    with ModelServer([Reply(text="Ok."), Reply(text="Ok.")]) as model:
        # On a busy machine a server may take longer than a user would wait for it.
        patient = {"AGENT_MCP_WAIT": "100"}
        env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": model.openai_url, **patient}
        first = loaded(tmp_path, *args, **env)
        assert "agent_cli.mcp.stdio" in first
        assert not first & {"mcp", "pydantic", "httpx2", "anyio"}
        assert not loaded(tmp_path, *args, **env) & {"mcp", "asyncio", "pydantic", "httpx2", "anyio"}
        assert all("mcp__raw__echo" in json.dumps(request.body) for request in model.requests)


def test_one_read_enters_few_files(tmp_path: Path) -> None:
    """A reader who follows a call opens these, the loader of modules and the base of records included."""
    (tmp_path / "a.txt").write_text("x\n")
    replies: list[dict[str, Any]] = [
        {"calls": [{"name": "Read", "arguments": {"file_path": "a.txt"}}]},
        {"text": "Ok."},
    ]
    files = files_of_a_call(tmp_path, "-p", "--model", script(tmp_path / "s.toml", replies), "hi")
    assert {"agent_tools/read.py", "agent_cli/kernel/engine/executor.py"} <= {
        "/".join(f.split("/")[-n:]) for f in files for n in (2, 4)
    }
    # What follows the session (its view, with what is live) is entered instead of a dictionary in each front end.
    assert len(files) <= 40, sorted(files)
