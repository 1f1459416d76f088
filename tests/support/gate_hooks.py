"""What each program sends to a hook, as its real version did (`make outside` runs them), with other paths."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.support.fork_server import start
from tests.support.program import agent, clean_env
from tests.support.waiting import soon

HOSTS = ("claude", "codex", "copilot", "gemini", "qwen")
LABELS = {"claude": "Claude Code", "codex": "Codex", "copilot": "Copilot CLI", "gemini": "Gemini CLI",
          "qwen": "Qwen Code"}  # fmt: skip
# The same calls in the words of each program: a file is read and edited, a command is run.
READ = {
    "claude": ("Read", {"file_path": "{}/a.txt"}), "codex": ("Bash", {"command": "cat a.txt"}),
    "copilot": ("view", {"path": "{}/a.txt"}), "gemini": ("read_file", {"file_path": "a.txt"}),
    "qwen": ("read_file", {"file_path": "{}/a.txt"}),
}  # fmt: skip
EDIT = {
    "claude": ("Edit", {"file_path": "{}/a.txt", "old_string": "two", "new_string": "2", "replace_all": False}),
    "codex": (
        "apply_patch",
        {"command": "*** Begin Patch\n*** Update File: a.txt\n@@\n-two\n+2\n*** End Patch\n"},
    ),
    "copilot": ("edit", {"path": "{}/a.txt", "old_str": "two", "new_str": "2"}),
    "gemini": ("replace", {"file_path": "a.txt", "instruction": "x", "old_string": "two", "new_string": "2"}),
    "qwen": ("edit", {"file_path": "{}/a.txt", "old_string": "two", "new_string": "2"}),
}  # fmt: skip
SHELLS = {"claude": "Bash", "codex": "Bash", "copilot": "bash", "gemini": "run_shell_command",
          "qwen": "run_shell_command"}  # fmt: skip
_EVENTS = {
    "prompt": {"gemini": "BeforeAgent"}, "before": {"gemini": "BeforeTool"}, "after": {"gemini": "AfterTool"},
    "end": {"gemini": "AfterAgent"},
}  # fmt: skip
_CLAUDE = {"prompt": "UserPromptSubmit", "before": "PreToolUse", "ask": "PermissionRequest", "after": "PostToolUse",
           "end": "Stop"}  # fmt: skip


def sent(
    host: str, moment: str, cwd: Path, call: tuple[str, dict[str, Any]] | None = None, number: int = 1, prompt: str = ""
) -> str:
    """The standard input of a hook."""
    tool, arguments = call or ("", {})
    arguments = {name: text.format(cwd) if name in ("file_path", "path") and isinstance(text, str) else text
                 for name, text in arguments.items()}  # fmt: skip
    if host == "copilot":
        data: dict[str, Any] = {"sessionId": "s-1", "timestamp": 1795822962959, "cwd": str(cwd)}
        data |= {"prompt": {"prompt": prompt}, "end": {"stopReason": "end_turn"}}.get(moment, {})
        data |= {"toolName": tool, "toolArgs": arguments} if tool else {}
        return json.dumps(data | ({"toolResult": {"resultType": "success"}} if moment == "after" else {}))
    event = _EVENTS.get(moment, {}).get(host, _CLAUDE[moment])
    data = {"session_id": "s-1", "transcript_path": "t.jsonl", "cwd": str(cwd), "hook_event_name": event}
    data |= {"prompt": prompt} if moment == "prompt" else {}
    if tool:
        data |= {"tool_name": tool, "tool_input": arguments}
        data |= {"tool_response": {}} if moment == "after" else {}
        if host != "gemini" and moment != "ask":
            data["tool_use_id"] = f"toolu_{number}"
    return json.dumps(data)


def bash(host: str, command: str) -> tuple[str, dict[str, Any]]:
    return SHELLS[host], {"command": command}


def decide(work: Path, host: str, text: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a hook to its end."""
    return agent(["gate", "decide", host, "--alone", *words], work, stdin=text)


def begin(work: Path, host: str, prompt: str = "tidy up") -> None:
    """The user sends a message to the program."""
    done = decide(work, host, sent(host, "prompt", work, prompt=prompt))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def verdict(host: str, output: str) -> tuple[str, str]:
    """The verdict in an answer, and its reason."""
    if not output:
        return ("allow" if host == "codex" else ""), ""
    data = json.loads(output)
    if host == "gemini":
        return data["decision"], data.get("reason", "")
    said = data if host == "copilot" else data["hookSpecificOutput"]
    return said["permissionDecision"], said["permissionDecisionReason"]


class WaitingHook:
    """A hook that waits for the user."""

    def __init__(self, work: Path, host: str, text: str, *words: str) -> None:
        self.work, self.host = work, host
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        command = ["gate", "decide", host, "--alone", *words]
        self.process = start(command, work, clean_env(work.parent / "home"), **pipes)
        assert self.process.stdin is not None
        self.process.stdin.write(text.encode())
        self.process.stdin.close()
        self.process.stdin = None
        assert soon(lambda: bool(pending(work)), 60)

    def end(self) -> tuple[str, str]:
        out, _ = self.process.communicate(timeout=60)
        return verdict(self.host, out.decode())


def pending(work: Path) -> list[dict[str, Any]]:
    """The sessions that wait."""
    found: list[dict[str, Any]] = json.loads(agent(["pending", "--json"], work).stdout)
    return found
