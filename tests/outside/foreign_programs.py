"""Let other agents write sessions: the real programs against a scripted model on loopback.

Each works through the same day: it reads two files at once, edits one, keeps a list of what is to do, is asked a second
thing, is interrupted in the middle of a command, and is continued in a copy, where it can.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from agent_cli.kernel.results import Usage
from tests.support.foreign_stores import DATABASE, FILES
from tests.support.model_server import Call, ModelServer, Received, Reply

FIX = "Fix total in sums.py"
MORE = "What does notes.md ask for"
WAIT = "Wait for the build"
WAITING = "touch waiting; sleep 30"
# What Claude Code asks for when a session is compacted.
SUMMARIZE = "create a detailed summary"
FORK_ID = "6f0c2f4e-7d0b-4c53-9a51-3f5f0a4c2b11"
PATIENCE_SECONDS = 120


def asked(received: Received) -> tuple[str, int]:
    """Return which prompt came last in a request, and how many results came after it."""
    text = json.dumps(
        received.body.get("messages") or received.body.get("input") or received.body.get("contents") or []
    )
    at, words = max((text.rfind(words), words) for words in (FIX, MORE, WAIT))
    if at < 0 or SUMMARIZE in text[at:]:
        return "", 0
    rest = text[at:]
    return words, sum(
        rest.count(mark) for mark in ('"tool_result"', '"role": "tool"', '_call_output"', '"functionResponse"')
    )


def play(rounds: dict[str, list[Reply]]) -> Callable[[Received], Reply]:
    """Return a model that answers the prompts with their rounds, and anything else with a few words."""
    number = iter(range(1, 10_000))

    def answer(received: Received) -> Reply:
        words, done = asked(received)
        tools = received.body.get("tools")
        known = rounds.get(words, [])
        identity = f"msg_{next(number):04d}_of_the_scripted_model"
        if not tools or not known:
            return Reply(text="The total was one too low, and is exact now.", id=identity)
        # Calls that run at once have a result each.
        place = 0
        while place < len(known) - 1 and done >= max(1, len(known[place].calls)):
            done -= max(1, len(known[place].calls))
            place += 1
        made = known[place]
        calls = tuple(c.replace(id=f"{c.id or 'call'}_{place}{n}_{identity[4:8]}") for n, c in enumerate(made.calls))
        return made.replace(id=identity, calls=calls, usage=Usage(input=900, output=40))

    return answer


def custom_call(name: str, text: str) -> Reply:
    """Return an answer of the Responses API with a call whose input is plain text."""
    item = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_custom", "name": name, "input": text}
    response = {"id": "resp_custom", "object": "response", "status": "completed", "output": [item],
                "usage": {"input_tokens": 900, "output_tokens": 40, "total_tokens": 940}}  # fmt: skip
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**response, "status": "in_progress", "output": []}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": response},
    ]
    raw = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    return Reply(raw=raw.encode(), content_type="text/event-stream")


class Program(ABC):
    """One of the programs, in a home folder of its own. Its sessions are below `store`."""

    def __init__(self, command: Path, home: Path, work: Path) -> None:
        self.command, self.home, self.work = command, home, work
        home.mkdir(parents=True, exist_ok=True)
        work.mkdir(parents=True, exist_ok=True)
        for name, text in FILES.items():
            (work / name).write_text(text)

    def environment(self, server: ModelServer) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "LC_ALL")}
        return {**kept, "HOME": str(self.home), "NO_PROXY": "127.0.0.1,localhost", "IS_SANDBOX": "1"}

    @abstractmethod
    def rounds(self) -> dict[str, list[Reply]]:
        """Return what this program is given."""

    @abstractmethod
    def arguments(self, prompt: str, *more: str) -> list[str]:
        """Return what this program is given."""

    @contextmanager
    def model(self) -> Iterator[ModelServer]:
        server = ModelServer([play(self.rounds())], repeat=True)
        with server:
            yield server
            server.violations.clear()  # what the other programs send is theirs

    def work_day(self, server: ModelServer) -> None:
        """Fix something, interrupt a turn, ask a question."""
        self.run(server, FIX)
        self.run(server, WAIT, *self.resumes(), interrupt=(self.work / "waiting").exists)
        (self.work / "waiting").unlink(missing_ok=True)
        self.run(server, MORE, *self.resumes())

    @abstractmethod
    def later(self, server: ModelServer) -> None:
        """Continue in a copy, where that can be, then let the session be compacted, and go on."""

    def resumes(self) -> list[str]:
        return ["-c"]

    def run(self, server: ModelServer, prompt: str, *more: str, interrupt: Callable[[], bool] | None = None) -> str:
        process = subprocess.Popen(
            [str(self.command), *self.arguments(prompt, *more)],
            cwd=self.work, env=self.environment(server), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        if interrupt is not None:
            until = time.monotonic() + PATIENCE_SECONDS
            while not interrupt() and time.monotonic() < until:
                time.sleep(0.05)
            os.killpg(process.pid, signal.SIGINT)
        try:
            output, _ = process.communicate(timeout=PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
        return output


class Claude(Program):
    def later(self, server: ModelServer) -> None:
        self.run(server, MORE, *self.resumes(), "--fork-session", "--session-id", FORK_ID)
        [first] = [p for p in self.home.glob(".claude/projects/*/*.jsonl") if p.stem != FORK_ID]
        self.run(server, "/compact", "--resume", first.stem)
        self.run(server, MORE, "--resume", first.stem)

    def environment(self, server: ModelServer) -> dict[str, str]:
        return super().environment(server) | {
            "ANTHROPIC_API_KEY": "key-of-no-one", "ANTHROPIC_BASE_URL": server.anthropic_url,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1",
        }  # fmt: skip

    def arguments(self, prompt: str, *more: str) -> list[str]:
        return ["-p", "--dangerously-skip-permissions", "--model", "claude-sonnet-4-5", *more, prompt]

    def rounds(self) -> dict[str, list[Reply]]:
        sums = str(self.work / "sums.py")
        return {
            FIX: [
                Reply(text="I read both files.", thinking="Two files.", signature="c2ln", calls=(
                    Call("Read", {"file_path": sums}), Call("Bash", {"command": "cat notes.md"}),
                    Call("Read", {"file_path": str(self.work / "old.py")}))),
                Reply(calls=(Call("TodoWrite", {"todos": [
                    {"content": "Fix the sum", "status": "in_progress", "activeForm": "Fixing the sum"},
                    {"content": "Run the tests", "status": "pending", "activeForm": "Running the tests"}]}),)),
                Reply(calls=(Call("TaskCreate", {"subject": "Fix the sum", "description": "Off by one"}),)),
                Reply(calls=(Call("TaskCreate", {"subject": "Run the tests", "description": "All of them"}),)),
                Reply(calls=(Call("TaskUpdate", {"taskId": "1", "status": "completed"}),)),
                Reply(calls=(Call("Edit", {"file_path": sums, "old_string": "sum(numbers) - 1",
                                           "new_string": "sum(numbers)"}),)),
                Reply(calls=(Call("Agent", {"description": "Check it", "prompt": "Say whether it is right.",
                                            "subagent_type": "general-purpose"}),)),
                Reply(text="Fixed."),
            ],
            MORE: [Reply(text="It asks for an exact total.")],
            WAIT: [Reply(text="I wait.", calls=(Call("Bash", {"command": WAITING}),)), Reply(text="Built.")],
        }  # fmt: skip


class Codex(Program):
    def resumes(self) -> list[str]:
        return ["resume", self._id()]

    def _id(self) -> str:
        paths = sorted(self.home.glob(".codex/sessions/**/rollout-*.jsonl"), key=lambda path: path.name)
        return paths[0].stem[-36:]

    def later(self, server: ModelServer) -> None:
        self.run(server, MORE, "fork", self._id())
        self.run(server, MORE, "-c", "model_auto_compact_token_limit=500", *self.resumes())

    def environment(self, server: ModelServer) -> dict[str, str]:
        folder = self.home / ".codex"
        folder.mkdir(exist_ok=True)
        (folder / "config.toml").write_text(
            'model = "gpt-5.5"\nmodel_provider = "loop"\n[features]\nplugins = false\n'
            f'[model_providers.loop]\nname = "loop"\nbase_url = "{server.openai_url}"\nwire_api = "responses"\n'
            'env_key = "LOOP_KEY"\n'
        )
        return super().environment(server) | {"LOOP_KEY": "key-of-no-one"}

    def arguments(self, prompt: str, *more: str) -> list[str]:
        base = ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
        return [*base, *more, prompt]

    def rounds(self) -> dict[str, list[Reply]]:
        patch = (
            "*** Begin Patch\n*** Update File: sums.py\n@@\n def total(numbers):\n-    return sum(numbers) - 1\n"
            "+    return sum(numbers)\n*** End Patch"
        )
        return {
            FIX: [
                Reply(text="I read both files.", calls=(
                    Call("exec_command", {"cmd": "cat sums.py"}), Call("exec_command", {"cmd": "cat notes.md"}),
                    Call("exec_command", {"cmd": "sed -n 1,5p old.py"}))),
                custom_call("apply_patch", patch),
                Reply(text="Fixed."),
            ],
            MORE: [Reply(text="It asks for an exact total.")],
            WAIT: [Reply(text="I wait.", calls=(Call("exec_command", {"cmd": WAITING, "yield_time_ms": 30000}),)),
                   Reply(text="Built.")],
        }  # fmt: skip


class Gemini(Program):
    def resumes(self) -> list[str]:
        return ["-r", "latest"]

    def later(self, server: ModelServer) -> None:
        path = self.home / ".gemini/settings.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"model": {"compressionThreshold": 0.000001}}))
        self.run(server, MORE, *self.resumes())
        self.run(server, MORE, *self.resumes())

    def environment(self, server: ModelServer) -> dict[str, str]:
        folder = self.home / ".gemini"
        folder.mkdir(exist_ok=True)
        if not (folder / "settings.json").exists():
            (folder / "settings.json").write_text(json.dumps({
                "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
                "privacy": {"usageStatisticsEnabled": False}, "telemetry": {"enabled": False},
                "general": {"enableAutoUpdate": False},
            }))  # fmt: skip
        return super().environment(server) | {
            "GEMINI_API_KEY": "key-of-no-one", "GOOGLE_GEMINI_BASE_URL": server.url,
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
        }  # fmt: skip

    def arguments(self, prompt: str, *more: str) -> list[str]:
        return ["--yolo", "-m", "gemini-2.5-pro", *more, "-p", prompt]

    def rounds(self) -> dict[str, list[Reply]]:
        sums = str(self.work / "sums.py")
        return {
            FIX: [
                Reply(text="I read both files.", calls=(
                    Call("read_file", {"file_path": sums}), Call("run_shell_command", {"command": "cat notes.md"}),
                    Call("read_file", {"file_path": str(self.work / "old.py")}))),
                Reply(calls=(Call("write_todos", {"todos": [
                    {"description": "Fix the sum", "status": "in_progress"},
                    {"description": "Run the tests", "status": "pending"}]}),)),
                Reply(calls=(Call("replace", {"file_path": sums, "old_string": "sum(numbers) - 1",
                                              "new_string": "sum(numbers)", "instruction": "Mend the sum"}),)),
                Reply(text="Fixed."),
            ],
            MORE: [Reply(text="It asks for an exact total.")],
            WAIT: [Reply(text="I wait.", calls=(Call("run_shell_command", {"command": WAITING}),)),
                   Reply(text="Built.")],
        }  # fmt: skip


class OpenCode(Program):
    def environment(self, server: ModelServer) -> dict[str, str]:
        (self.work / "opencode.json").write_text(json.dumps({
            "provider": {"loop": {"npm": "@ai-sdk/openai-compatible", "options": {
                "baseURL": server.openai_url, "apiKey": "key-of-no-one"},
                "models": {"m": {"name": "m", "limit": {"context": self.window, "output": 1000}}}}},
            "permission": "allow", "autoupdate": False, "share": "disabled",
        }))  # fmt: skip
        return super().environment(server) | {
            "XDG_DATA_HOME": str((self.home / DATABASE).parents[1]), "XDG_CONFIG_HOME": str(self.home / "config"),
            "XDG_STATE_HOME": str(self.home / "state"), "XDG_CACHE_HOME": str(self.home / "cache"),
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
        }  # fmt: skip

    window = 100_000

    def later(self, server: ModelServer) -> None:
        with closing(sqlite3.connect(self.home / DATABASE)) as base:
            [(first,)] = base.execute("select id from session").fetchall()
        self.run(server, MORE, "-s", first, "--fork")
        self.window = 1500
        self.run(server, MORE, "-s", first)
        self.window = 100_000
        self.run(server, MORE, "-s", first)

    def arguments(self, prompt: str, *more: str) -> list[str]:
        return ["run", "--auto", "-m", "loop/m", *more, prompt]

    def rounds(self) -> dict[str, list[Reply]]:
        sums = str(self.work / "sums.py")
        return {
            FIX: [
                Reply(text="I read both files.", calls=(
                    Call("read", {"filePath": sums}), Call("bash", {"command": "cat notes.md", "description": "Show"}),
                    Call("read", {"filePath": str(self.work / "old.py")}))),
                Reply(calls=(Call("todowrite", {"todos": [
                    {"content": "Fix the sum", "status": "in_progress", "priority": "high", "id": "1"},
                    {"content": "Run the tests", "status": "pending", "priority": "low", "id": "2"}]}),)),
                Reply(calls=(Call("edit", {"filePath": sums, "oldString": "sum(numbers) - 1",
                                           "newString": "sum(numbers)"}),)),
                Reply(text="Fixed."),
            ],
            MORE: [Reply(text="It asks for an exact total.")],
            WAIT: [Reply(text="I wait.", calls=(Call("bash", {"command": WAITING, "description": "Wait"}),)),
                   Reply(text="Built.")],
        }  # fmt: skip


PROGRAMS = {"claude": Claude, "codex": Codex, "gemini": Gemini, "opencode": OpenCode}


def program(name: str, clients: Path, folder: Path) -> Program:
    """Return a program that works in a new folder."""
    shutil.rmtree(folder, ignore_errors=True)
    return PROGRAMS[name](clients / "node_modules/.bin" / name, folder / "home", folder / "work")
