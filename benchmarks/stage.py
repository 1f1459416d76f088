"""Where the measured runs happen: a folder with a small repository, a home, and a model server on loopback.

The server runs in this process, so that none of it counts as the program's.
"""

from __future__ import annotations

import compileall
import os
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.measure import Sample, expect, measured
from tests.support.model_server import Call, ModelServer, Received, Reply

ROOT = Path(__file__).resolve().parent.parent
FLOOR = Path(__file__).with_name("floor.py")
PROMPT = "Say hello."
OPENAI, RESPONSES, ANTHROPIC = "openai/gpt-4.1-mini", "openai/gpt-5.6", "anthropic/claude-sonnet-4-5"
LINES = "seq -f 'line %g of the output of {n}, and some words' 2000"
PROTOCOLS = (("OpenAI", OPENAI), ("Responses", RESPONSES), ("Anthropic", ANTHROPIC))
_PATHS = {OPENAI: "/v1/chat/completions", RESPONSES: "/v1/responses", ANTHROPIC: "/v1/messages"}

Answer = Callable[[Received], Reply]


def say(text: str, split: int = 0) -> Answer:
    """A model that answers every request with this text, in pieces of `split` characters."""
    reply = Reply(text=text, split=split)
    return lambda request: reply


def words(count: int, per_line: int = 0) -> str:
    """Return words of four letters, all different: a model that repeats itself would be stopped."""
    found = []
    for number in range(count):
        place = number * 7_919 % 26**4
        word = "".join(chr(97 + place // 26**power % 26) for power in range(4))
        found.append(word + ("\n" if per_line and number % per_line == per_line - 1 else " "))
    return "".join(found)


def call_bash(times: int, command: str) -> Answer:
    """A model that runs a command so often, once per round, and then says that it is done.

    A `{n}` in the command becomes the number of the round: going in circles would be stopped.
    """

    def answer(request: Received) -> Reply:
        messages = history(request.body)
        last = next((i for i, m in enumerate(reversed(messages)) if _is_prompt(m)), 0)
        since = messages[len(messages) - last :]
        done = sum(m.get("role") == "assistant" or m.get("type") == "function_call" for m in since)
        if done >= times:
            return Reply(text="All is done.")
        line = command.replace("{n}", str(done))
        return Reply(calls=(Call("Bash", {"command": line}, f"call-{len(messages)}"),))

    return answer


def history(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The conversation in a request, in whichever protocol."""
    found: list[dict[str, Any]] = body["input"] if "input" in body else body["messages"]
    return found


def _is_prompt(message: dict[str, Any]) -> bool:
    content = message.get("content")
    outputs = isinstance(content, list) and any(block["type"] == "tool_result" for block in content)
    return message.get("role") == "user" and not outputs


class PacedServer(ModelServer):
    """A model server that can send events at a steady pace, as a model does. `per_second` 0: as fast as it can."""

    per_second = 0

    def _send_body(self, sock: socket.socket, reply: Reply, parts: list[bytes]) -> bool:
        if not self.per_second:
            return super()._send_body(sock, reply, parts)
        began = time.monotonic()
        for place, part in enumerate(parts):
            early = began + place / self.per_second - time.monotonic()
            if early > 0:
                time.sleep(early)
            sock.sendall(b"%x\r\n%s\r\n" % (len(part), part))
        sock.sendall(b"0\r\n\r\n")
        return True


class Stage:
    """A folder to work in, and the commands that are measured in it."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.project = folder / "project"
        self.home.mkdir()
        (self.project / ".git").mkdir(parents=True)
        (self.project / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
        (self.project / "README.md").write_text("# A small project\n")
        self.arrived: list[float] = []
        self.kept: list[Received] | None = None
        self.sent = 0
        self.answer: Answer = say("Hello.")
        self.server = PacedServer([self._reply], repeat=True)
        self._bodies: dict[str, Path] = {}

    @property
    def env(self) -> dict[str, str]:
        """The environment of a user who has keys for both providers, which our server plays, and nothing that
        changes how Python runs."""
        kept = {k: v for k, v in os.environ.items() if k in ("PATH", "LANG", "LC_ALL", "TMPDIR")}
        return {
            **kept,
            "HOME": str(self.home),
            "AGENT_STATE_DIR": str(self.home / "state"),
            # A row of its own says what the sandbox costs.
            "AGENT_SANDBOX_MODE": "off",
            "OPENAI_API_KEY": "none",
            "OPENAI_BASE_URL": self.server.openai_url,
            "ANTHROPIC_API_KEY": "none",
            "ANTHROPIC_BASE_URL": self.server.anthropic_url,
            "TERM": "xterm-256color",
            "NO_PROXY": "127.0.0.1,localhost",
        }

    def _reply(self, request: Received) -> Reply:
        self.arrived.append(time.monotonic())
        self.sent += len(request.raw)
        if self.kept is not None:
            self.kept.append(request)
        # The server remembers everything; here that would be hundreds of megabytes.
        self.server.requests.clear()
        return self.answer(request)

    def command(self, *args: str, model: str = OPENAI) -> list[str]:
        """A command line of the program."""
        return [*program(), "--model", model, *args]

    def agent(self, *args: str, model: str = OPENAI, stdin: Path | None = None) -> Sample:
        """Run the program once with `-p`."""
        self.arrived.clear()
        sample = measured(self.command("-p", *args, model=model), self.project, self.env, stdin)
        return sample.replace(first_request=self.arrived[0] - sample.started) if self.arrived else sample

    def floor(self, model: str = OPENAI) -> Sample:
        """Run the floor once, with the program's first request as its own."""
        if model not in self._bodies:
            self._capture(model)
        self.arrived.clear()
        argv = [sys.executable, str(FLOOR), str(self.server.port), _PATHS[model], str(self._bodies[model])]
        sample = measured(argv, self.project, self.env)
        return sample.replace(first_request=self.arrived[0] - sample.started) if self.arrived else sample

    def _capture(self, model: str) -> None:
        answer, self.answer = self.answer, say("Hello.")
        [first] = self.requests(lambda: expect(self.agent(PROMPT, model=model), "Hello."))
        self.answer = answer
        path = self.home / f"{model.replace('/', '-')}.json"
        path.write_bytes(first.raw)
        self._bodies[model] = path

    def requests(self, run: Callable[[], object]) -> list[Received]:
        """The requests that arrive while `run` runs."""
        kept: list[Received] = []
        self.kept = kept
        try:
            run()
        finally:
            self.kept = None
        return kept

    def python(self, code: str) -> Sample:
        """Run a line of Python once."""
        return expect(measured([sys.executable, "-c", code], self.project, self.env))


def program() -> list[str]:
    """The installed command, which is what a user starts."""
    script = Path(sys.executable).with_name("agent")
    return [str(script)] if script.is_file() else [sys.executable, "-m", "agent_cli"]


def compile_sources() -> None:
    """Write the bytecode that an installation would have; a checkout that never ran has none."""
    for folder in ("agent_cli", "tools/agent_tools"):
        compileall.compile_dir(str(ROOT / folder), quiet=2)
