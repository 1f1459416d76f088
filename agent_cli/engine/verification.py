"""Detect commands that check the work (known test and build runners), and track how the last one ended."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent_cli.core.results import Check, Spent
from agent_cli.engine.types import PreparedCall
from agent_tools.base import ToolResult
from agent_tools.display import CommandOutput

# Programs, with the sub-commands that make them a check if they do other things too.
RUNNERS = {
    "pytest": "", "tox": "", "nox": "", "mypy": "", "pyright": "", "ruff": "check", "flake8": "", "unittest": "",
    "make": "test|check|lint|build|all|tests", "cargo": "test|check|build|clippy|nextest", "go": "test|build|vet",
    "npm": "test|run (?:test|build|lint|check)\\S*", "pnpm": "test|(?:run )?(?:test|build|lint|check)\\S*",
    "yarn": "test|(?:run )?(?:test|build|lint|check)\\S*", "npx": "jest|vitest|tsc|eslint", "jest": "", "vitest": "",
    "tsc": "", "eslint": "", "gradle": "test|build|check", "gradlew": "test|build|check", "mvn": "test|verify|package",
    "dotnet": "test|build", "rspec": "", "rake": "test|spec", "phpunit": "", "ctest": "", "ninja": "",
    "bazel": "test|build",
    "mix": "test|compile", "swift": "test|build", "shellcheck": "", "python": "-m (?:pytest|unittest|mypy|tox)",
    "bundle": "exec (?:rspec|rake)", "uv": "run (?:pytest|mypy|ruff)",
    "poetry": "run (?:pytest|mypy|ruff)", "deno": "test",
}  # fmt: skip


class CheckTracker:
    """The last check of a turn, and whether files changed after it."""

    def __init__(self, more: Sequence[str], before: Spent) -> None:
        self._more = tuple(more)
        self.last = before.check
        self.changed_since = before.changed_since
        self.wrote = before.wrote

    def record_result(self, item: PreparedCall, result: ToolResult) -> None:
        for effect in item.effects:
            if effect.kind == "write" and not result.is_error:
                self.changed_since = self.wrote = True
            if effect.kind == "run" and isinstance(result.display, CommandOutput) and self.is_check(effect.target):
                self.last = Check(" ".join(effect.target.split())[:120], result.display.exit_code)
                self.changed_since = False

    def is_check(self, command: str) -> bool:
        """Return True if a command line contains a known runner, or one that the setting `verify` names."""
        if any(command.strip().startswith(m) for m in self._more):
            return True
        for part in re.split(r"&&|\|\||[;|\n]", command):
            words = part.split()
            while words and re.fullmatch(r"\w+=\S*|time|env|sudo|exec", words[0]):
                words.pop(0)
            if not words:
                continue
            program = re.sub(r"^python[\d.]*$", "python", words[0].strip("'\"").rsplit("/", 1)[-1])
            wanted = RUNNERS.get(program)
            if wanted is not None and (not wanted or re.match(rf"(?:{wanted})(?:\s|$)", " ".join(words[1:]))):
                return True
        return False
