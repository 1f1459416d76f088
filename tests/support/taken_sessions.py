"""Recorded sessions of other agents: put in place, taken over, continued on a wire, and shown in a line a message."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agent_cli.kernel.messages import AssistantMessage, Thinking, ToolCall, ToolMessage
from agent_cli.kernel.session.records import Restored
from agent_cli.kernel.session.store import SessionStore
from tests.support.foreign_stores import FILES, FIXED, recorded, thaw
from tests.support.model_server import ModelServer, Reply
from tests.support.program import agent

WIRES = {
    "anthropic/claude-sonnet-4-5": ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "anthropic_url"),
    "openai/gpt-5.6": ("OPENAI_API_KEY", "OPENAI_BASE_URL", "openai_url"),
    "openai/gpt-4.1-mini": ("OPENAI_API_KEY", "OPENAI_BASE_URL", "openai_url"),
    "gemini/gemini-2.5-pro": ("GEMINI_API_KEY", "GEMINI_API_BASE", "gemini_url"),
    "ollama/qwen3:8b": ("OLLAMA_API_KEY", "OLLAMA_HOST", "ollama_url"),
}
NAMES = {"claude": "Claude Code", "codex": "Codex", "gemini": "Gemini CLI", "opencode": "OpenCode"}


def place(name: str, part: str, home: Path, work: Path) -> None:
    """Put a recorded session into the home folder, and the files as the program left them into the project."""
    for file, text in FILES.items():
        (work / file).write_text(FIXED if file == "sums.py" else text)
    thaw(recorded(name, part), home, work)


def load(home: Path, session_id: str) -> Restored:
    [path] = home.glob(f"state/sessions/*/{session_id}.jsonl")
    return SessionStore.at(path.parent).session(session_id).load()


def take(work: Path, *args: str) -> dict[str, Any]:
    done = agent(["sessions", "import", *args, "--json"], work)
    assert done.returncode == 0, done.stderr
    made: dict[str, Any] = json.loads(done.stdout)
    return made


def ask(work: Path, model: str, *args: str, replies: tuple[Reply, ...] = (Reply(text="Sure."),)) -> tuple[Any, str]:
    """Ask a model on a wire, whose server refuses a history that does not hold; return what it was sent."""
    key, variable, url = WIRES[model]
    with ModelServer(replies) as server:
        done = agent(["-p", "--model", model, *args], work, {key: "k", variable: getattr(server, url)})
        assert done.returncode == 0, done.stderr
        server.check()
        return done, json.dumps(server.bodies[-1])


def shown(session: Restored) -> list[str]:
    """Return the messages in a line each: who, what, calls by name, and whether a result is an error."""
    lines = []
    for message in session.history:
        if isinstance(message, AssistantMessage):
            for part in message.parts:
                assert not isinstance(part, Thinking)
                called = isinstance(part, ToolCall)
                lines.append(f"A {part.name}()" if called else f"A {part.text.strip()}"[:60])
        elif isinstance(message, ToolMessage):
            lines.append(f"R {'failed' if message.is_error else 'ok'}")
        else:
            lines.append(f"U {message.text.partition(chr(10))[0]}"[:60])
    return lines


READ_TWO = ["A I read both files.", "A Read()", "A Bash()", "A Read()", "R ok", "R ok", "R ok"]
AFTER = ["U What does notes.md ask for", "A It asks for an exact total.", "U <session_change>"]
WORKED = {
    "claude": [
        "U Fix total in sums.py", *READ_TWO, "A TodoWrite()", "R failed", *["A PlanProgress()", "R ok"] * 3,
        "A Edit()", "R ok", "A Task()", "R ok", "A Fixed.", "U Wait for the build",
        "A I wait.", "A Bash()", "R failed", "U [Request interrupted by user for tool use]", *AFTER,
    ],
    "codex": [
        "U Fix total in sums.py", "A I read both files.", "A Bash()", "A Bash()", "A Bash()", "R ok", "R ok", "R ok",
        "A apply_patch()", "R ok", "A Fixed.", "U Wait for the build", "A I wait.", "A Bash()", "R failed",
        "U <reminder>", *AFTER,
    ],
    "gemini": [
        "U Fix total in sums.py", *READ_TWO, "A TodoWrite()", "R ok", "A Edit()", "R ok", "A Fixed.",
        "U Wait for the build", "A I wait.", *AFTER,
    ],
    "opencode": [
        'U "Fix total in sums.py"', *READ_TWO, "A TodoWrite()", "R ok", "A Edit()", "R ok", "A Fixed.",
        'U "Wait for the build"', "A I wait.", "A Bash()", "R failed", 'U "What does notes.md ask for"', *AFTER[1:],
    ],
}  # fmt: skip
