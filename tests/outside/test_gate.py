"""The real programs, with the hooks that `agent gate install` writes, against a model on loopback.

Each makes five calls: it reads a file, edits one, removes a folder, runs a line of several commands, and calls a tool
of an MCP server, which nothing here knows. The calls are decided by rules, by the user in another terminal, or not at
all.
Run by `make outside`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.client_home import CLIENTS, environment
from tests.support.fork_server import PYTHONPATH
from tests.support.model_server import Call, ModelServer, Received, Reply
from tests.support.waiting import soon

PROGRAMS = CLIENTS / "npm/node_modules/.bin"
PROMPT = "do what is to be done"
SECRET = "the-word-in-the-file"
_SERVER = """
import json, pathlib, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method = message["method"]
    result = {"tools": [{"name": "note", "description": "Notes", "inputSchema": {"type": "object", "properties": {}}}]}
    if method == "initialize":
        version = message["params"]["protocolVersion"]
        result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "s"}}
        result["serverInfo"]["version"] = "1"
    elif method == "tools/call":
        pathlib.Path(sys.argv[1]).write_text("noted")
        result = {"content": [{"type": "text", "text": "noted"}]}
    elif method != "tools/list":
        result = {}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""
LINE = "ls > listed && echo more >> listed"


class Program:
    """One program in a home of its own, with a repository to work in."""

    def __init__(self, name: str, base: Path) -> None:
        self.name, self.home, self.work = name, base / "home", base / "work"
        self.work.mkdir(parents=True)
        subprocess.run(["git", "init", "-q"], cwd=self.work, check=True)
        (self.work / "notes.txt").write_text(f"{SECRET}\n")
        (self.work / "a.txt").write_text("one\ntwo\n")
        (self.work / "d").mkdir()
        (self.work / "d/x").write_text("x\n")
        self.noted = base / "noted"
        server = base / "server.py"
        server.write_text(_SERVER)
        self.mcp = {"command": sys.executable, "args": [str(server), str(self.noted)]}
        self.env: dict[str, str] = {}
        self.before = self.tree()

    def tree(self) -> dict[str, bytes]:
        files = (path for path in self.work.rglob("*") if path.is_file() and ".git" not in path.parts)
        return {str(path.relative_to(self.work)): path.read_bytes() for path in files}

    def agent(self, *words: str) -> subprocess.CompletedProcess[str]:
        env = self.env | {"AGENT_STATE_DIR": str(self.home / "state")}
        return subprocess.run(
            [self.env["AGENT_BIN"], *words], cwd=self.work, env=env, capture_output=True, text=True, timeout=100
        )

    def pending(self) -> list[dict[str, Any]]:
        done = self.agent("pending", "--json")
        return [item for each in json.loads(done.stdout or "[]") for item in each["pending"] if "decided" not in item]

    def settings(self, text: str) -> None:
        (self.home / ".agentrc").write_text(text)

    def calls(self) -> list[Call]:
        path, secret = str(self.work / "a.txt"), str(self.work / "notes.txt")
        edit = {"old_string": "two", "new_string": "2"}
        rm, line = "rm -r d", LINE
        patch = f"*** Begin Patch\n*** Update File: {path}\n@@\n-two\n+2\n*** End Patch\n"
        return {
            "claude": [
                Call("Read", {"file_path": secret}), Call("Read", {"file_path": path}),
                Call("Edit", {"file_path": path, **edit}), Call("Bash", {"command": rm}),
                Call("Bash", {"command": line}), Call("mcp__s__note", {}),
            ],
            "codex": [
                Call("exec_command", {"cmd": "cat notes.txt"}),
                Call("exec_command", {"cmd": f"apply_patch <<'EOF'\n{patch}EOF"}), Call("exec_command", {"cmd": rm}),
                Call("exec_command", {"cmd": line}), Call("mcp__s/note", {}),
            ],
            "copilot": [
                Call("view", {"path": secret}), Call("edit", {"path": path, "old_str": "two", "new_str": "2"}),
                Call("bash", {"command": rm, "description": "x"}), Call("bash", {"command": line, "description": "x"}),
                Call("s-note", {}),
            ],
            "gemini": [
                Call("read_file", {"file_path": "notes.txt"}),
                Call("replace", {"file_path": "a.txt", "instruction": "x", **edit}),
                Call("run_shell_command", {"command": rm}), Call("run_shell_command", {"command": line}),
                Call("mcp_s_note", {}),
            ],
            "qwen": [
                Call("read_file", {"file_path": secret}), Call("read_file", {"file_path": path}),
                Call("edit", {"file_path": path, **edit}),
                Call("run_shell_command", {"command": rm, "is_background": False}),
                Call("run_shell_command", {"command": line, "is_background": False}), Call("mcp__s__note", {}),
            ],
        }[self.name]  # fmt: skip

    def prepare(self, server: ModelServer) -> list[str]:
        """Write the program's settings; return its command line. The calls need no approval of its own."""
        home = self.home
        self.env = environment(home, server.anthropic_url) | {"AGENT_STATE_DIR": str(home / "state")}
        self.env.pop("AGENT_MODEL")
        program = self.env["AGENT_BIN"]
        start = f"import sys; sys.argv[0] = {program!r}; from agent_cli.__main__ import main; main()"
        Path(program).write_text(f'#!/bin/sh\nPYTHONPATH="{PYTHONPATH}" exec "{sys.executable}" -c "{start}" "$@"\n')
        servers = {"mcpServers": {"s": self.mcp}}
        files: dict[str, Any] = {}
        bypass: list[str] = []
        if self.name == "claude":
            self.env |= {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}
            files["mcp.json"] = servers
            bypass = ["-p", "--model", "claude-sonnet-4-5", PROMPT, "--mcp-config", str(home / "mcp.json")]
        elif self.name == "codex":
            config = (
                f'model = "gpt-5.1-codex"\nmodel_provider = "l"\n[model_providers.l]\nname = "l"\n'
                f'base_url = "{server.openai_url}"\nwire_api = "responses"\nrequires_openai_auth = false\n'
                f"[mcp_servers.s]\ncommand = {json.dumps(self.mcp['command'])}\nargs = {json.dumps(self.mcp['args'])}\n"
            )
            files[".codex/config.toml"] = config
            bypass = ["exec", "--dangerously-bypass-approvals-and-sandbox", "--dangerously-bypass-hook-trust", PROMPT]
        elif self.name == "copilot":
            self.env |= {
                "COPILOT_PROVIDER_BASE_URL": server.openai_url, "COPILOT_MODEL": "gpt-5.1", "COPILOT_OFFLINE": "true",
                "COPILOT_AUTO_UPDATE": "false",
            }  # fmt: skip
            local = {**self.mcp, "type": "local", "tools": ["*"]}
            files[".copilot/mcp-config.json"] = {"mcpServers": {"s": local}}
            bypass = ["-p", PROMPT]
        elif self.name == "gemini":
            self.env |= {
                "GEMINI_API_KEY": "k", "GOOGLE_GEMINI_BASE_URL": server.url, "GEMINI_CLI_TRUST_WORKSPACE": "true"
            }  # fmt: skip
            files[".gemini/settings.json"] = servers | {
                "security": {"auth": {"selectedType": "gemini-api-key"}},
                "privacy": {"usageStatisticsEnabled": False}, "general": {"enableAutoUpdate": False},
            }  # fmt: skip
            bypass = ["-m", "gemini-2.5-pro", "--approval-mode", "yolo", "-p", PROMPT]
        else:
            self.env |= {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url, "OPENAI_MODEL": "m"}
            files[".qwen/settings.json"] = servers | {
                "security": {"auth": {"selectedType": "openai"}}, "privacy": {"usageStatisticsEnabled": False}
            }  # fmt: skip
            bypass = ["--approval-mode", "yolo", "-p", PROMPT]
        for name, content in files.items():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_text(content if isinstance(content, str) else json.dumps(content))
        return [str(PROGRAMS / self.name), *bypass]


def script(program: Program, sent: list[str]) -> Any:
    """The model: makes the calls one after the other, and keeps what it is sent."""
    calls = iter(enumerate(program.calls()))

    def answer(received: Received) -> Reply:
        text = json.dumps(received.body)
        if not received.body.get("tools") or (program.name == "gemini" and "run_shell_command" not in text):
            return Reply(text='{"ok": true}')  # a title, or a route
        sent.append(text)
        found = next(calls, None)
        if found is None:
            return Reply(text="Done.", id=f"msg_{len(sent)}")
        return Reply(calls=(found[1].replace(id=f"call_{found[0]}"),), id=f"msg_{found[0]}")

    return answer


def answer_all(program: Program, how: str, over: threading.Event) -> None:
    """What the user does in another terminal."""
    while not over.is_set():
        for item in program.pending():
            if how == "killed":
                for log in (program.home / "state/sessions").glob("*/*.jsonl"):
                    lines = [json.loads(line) for line in log.read_text().splitlines()]
                    marks = [line["data"]["kept"]["gate"] for line in lines if line["type"] == "Checkpoint"]
                    with suppress(ProcessLookupError):  # killed a moment ago
                        os.kill(marks[-1][0], signal.SIGKILL)
            else:
                words = ["approve"] if how == "yes" else ["reject", "--why", "not today"]
                program.agent(words[0], *words[1:])
            assert item["summary"]


RULES = (
    "[permissions]\n{list} = ['Read', 'Edit', 'Bash(ls:*)', 'Bash(echo:*)', 'Bash(rm:*)', 'Bash(cat:*)', "
    "'mcp__s__note'{more}]\n"
)


@pytest.fixture
def over() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


@pytest.mark.parametrize("how", ["allow", "deny", "yes", "no", "killed"])
@pytest.mark.parametrize("name", ["claude", "codex", "copilot", "gemini", "qwen"])
def test_calls_of_a_program_are_decided_here(name: str, how: str, tmp_path: Path, over: threading.Event) -> None:
    if not (PROGRAMS / name).exists():
        pytest.skip(f"NOT TESTED: {name} is not installed")
    program = Program(name, tmp_path)
    sent: list[str] = []
    with ModelServer([script(program, sent)], repeat=True) as server:
        line = program.prepare(server)
        kind = how if how in ("allow", "deny") else "ask"
        more = ", 'Bash(apply_patch:*)'" if name == "codex" else ""
        program.settings(RULES.format(list=kind, more=more))
        done = program.agent("gate", "install", name, "--wait", "20" if kind != "ask" else "40")
        assert done.returncode == 0, done.stderr
        if kind == "ask":
            threading.Thread(target=answer_all, args=(program, how, over), daemon=True).start()
        ran = subprocess.run(
            line, cwd=program.work, env=program.env, capture_output=True, text=True, timeout=300,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        server.violations.clear()  # what other programs send is not ours to judge
    over.set()
    what = f"{ran.stdout}\n{ran.stderr}\n{sent[-1][-3000:] if sent else ''}"
    assert ran.returncode == 0, what
    assert len(sent) > len(program.calls()), what
    after = program.tree()
    if how in ("allow", "yes"):
        assert SECRET in sent[-1], what
        assert after["a.txt"] == b"one\n2\n", what
        assert "d/x" not in after, what
        assert after["listed"].endswith(b"more\n"), what
        assert program.noted.exists(), what
        listed = program.agent("undo", "--list")
        assert PROMPT in listed.stdout, listed.stdout + listed.stderr
        undone = program.agent("undo", "--yes")
        assert program.tree() == program.before, undone.stdout + undone.stderr + what
    else:
        assert SECRET not in sent[-1], what
        assert after == program.before, what
        assert not program.noted.exists(), what
        reasons = {"deny": "agent gate: this call", "no": "not today", "killed": "so the call is refused"}
        reason = "exited with code 2" if (name, how) == ("copilot", "killed") else reasons[how]
        assert reason in sent[-1], what
    assert not program.pending()


@pytest.mark.parametrize("name", ["claude", "codex", "copilot", "gemini", "qwen"])
def test_a_gate_that_cannot_start_refuses_calls(name: str, tmp_path: Path) -> None:
    if not (PROGRAMS / name).exists():
        pytest.skip(f"NOT TESTED: {name} is not installed")
    program = Program(name, tmp_path)
    sent: list[str] = []
    with ModelServer([script(program, sent)], repeat=True) as server:
        line = program.prepare(server)
        assert program.agent("gate", "install", name).returncode == 0
        Path(program.env["AGENT_BIN"]).write_text("#!/bin/sh\nkill -9 $$\n")
        ran = subprocess.run(
            line, cwd=program.work, env=program.env, capture_output=True, text=True, timeout=300,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        server.violations.clear()
    assert program.tree() == program.before, ran.stdout + ran.stderr
    assert not program.noted.exists()
    assert soon(lambda: len(sent) > len(program.calls()))
