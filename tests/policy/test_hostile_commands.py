"""Hostile repositories opened by every command there is: nothing of them runs, and nobody is contacted.

The commands are those that the program itself lists, so that a new one cannot be forgotten: it needs words here, or a
reason. By default each opens one repository; `make fuzz` (FUZZ_LINES above 10,000) has all of them open all.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_cli.cli import command_names
from agent_cli.cli.app import PROMPT, load_command
from tests.support.hostile import files
from tests.support.hostile.git import GIT_REPOSITORIES
from tests.support.hostile.opened import ALL
from tests.support.hostile.opened import Opened as OpenedByGit
from tests.support.hostile.settings import REPOSITORIES, marker

# The words with which each command is tried, the first ones being its name. "" is a run without a command.
WORDS: dict[str, list[list[str]]] = {
    "": [
        ["-p", "look around"],
        ["-p", "-w", "x", "hi"],
        ["-p", "-c", "hi"],
        ["-p", "--on-ask", "suspend", "hi"],
        ["-p", "--patch", "../p.patch", "hi"],
    ],
    "answer": [["yes"]],
    "board": [[]],
    "approve": [["all"]],
    "doctor": [[]],
    "every add": [["day 9:00", "look around"]],
    "every install": [[]],
    "every list": [[]],
    "every log": [["none"]],
    "every pause": [["none"]],
    "every resume": [["none"]],
    "every rm": [["none"]],
    "every run": [["none"]],
    "every tick": [[]],
    "every uninstall": [[]],
    "gate decide": [["claude"]],
    "gate install": [["claude", "--project"]],
    "gate list": [[]],
    "gate remove": [["claude", "--project"]],
    "hooks list": [[]],
    "hooks test": [["PreToolUse"], ["SessionStart"]],
    "mcp add": [["other", "--", "./evil.sh"]],
    "mcp add-json": [["other", '{"command": "./evil.sh"}']],
    "mcp approve": [["evil"]],
    "mcp get": [["evil"]],
    "mcp list": [[]],
    "mcp login": [["evil"]],
    "login": [[], ["openai"]],
    "logout": [[], ["openai"]],
    "mcp logout": [["evil"]],
    "mcp remove": [["evil"]],
    "mcp serve": [[]],
    "mcp test": [["evil"]],
    "memory show": [[]],
    "models": [[]],
    "pending": [[]],
    "permissions check": [["--tool", "Bash", "--input", '{"command": "git log -p && git status"}']],
    "permissions learn": [[]],
    "permissions list": [[]],
    "acp": [[]],
    "import": [[]],
    "plugin add": [["./evil"]],
    "plugin disable": [["evil"]],
    "plugin enable": [["evil"]],
    "plugin list": [[]],
    "plugin marketplace": [["list"]],
    "plugin remove": [["evil"]],
    "plugin show": [["evil"]],
    "plugin trust": [["evil"]],
    "plugin update": [[]],
    "plugin validate": [["./evil"]],
    "record note": [["HEAD", "--yes"]],
    "record share": [[]],
    "record show": [[]],
    "review": [[], ["--base", "main"]],
    "reject": [["all"]],
    "resume": [[]],
    "serve token": [["list"]],
    "sessions export": [[]],
    "sessions import": [["--list"], ["claude"]],
    "sessions list": [[], ["--all"]],
    "sessions rm": [["none"]],
    "sessions show": [[]],
    "show": [[]],
    "tools list": [[]],
    "tools run": [["Bash", '{"command": "git status; git diff"}'], ["Grep", '{"pattern": "x"}'], ["LS", "{}"]],
    "trust": [["--show"], ["--list"], ["--revoke"]],
    "undo": [[]],
    "why": [["a.txt:1"]],
}
# Commands that are not tried, and why.
EXCEPT = {
    "batch": "runs the tasks of the file that it is given, each in a clone, and their checks",
    "demo": "works in a new folder of its own, and looks at nothing of the one that it is started in",
    "eval": "runs the tasks of the folder that it is given, each in a copy, and their checks",
    "send-prompt": "hands its words to a running session, and opens no repository",
}
EVERYTHING = {**REPOSITORIES, **GIT_REPOSITORIES}
SAMPLE = [
    "config: a comment that ends in a backslash", "mcp_servers", "submodule_with_a_filter", "programs_named_like_ours",
    "partial_clone_from_the_network", "repository_above_with_a_monitor", "settings_of_claude_with_hooks",
]  # fmt: skip


class Opened(OpenedByGit):
    """A hostile repository of any kind and the environment of its user."""

    def build(self, name: str) -> Path:
        if name in GIT_REPOSITORIES:
            return super().build(name)
        (self.root / ".git").mkdir(parents=True)
        return REPOSITORIES[name](self.root) or self.root


def commands() -> Iterator[str]:
    """The commands of the program, hidden ones too."""

    yield from ("", PROMPT)
    for name in command_names():
        inner = getattr(load_command(name), "commands", None)
        yield from [name] if inner is None else (f"{name} {below}" for below in inner)


def _chosen() -> Iterator[Any]:
    for n, name in enumerate(sorted(WORDS)):
        for opened in list(EVERYTHING) if ALL else [SAMPLE[n % len(SAMPLE)]]:
            yield pytest.param(name, opened, id=f"{name or 'run'}, {opened}")


def test_no_command_is_forgotten() -> None:
    assert set(commands()) == {*WORDS, *EXCEPT}
    assert not set(WORDS) & set(EXCEPT)
    assert files.bare_repository_inside.__name__ in REPOSITORIES
    assert len(EVERYTHING) >= 140


@pytest.mark.parametrize(("name", "repository"), list(_chosen()))
def test_a_command_opens_it_without_running_anything(tmp_path: Path, name: str, repository: str) -> None:
    opened = Opened(repository, tmp_path)
    before = _settings(opened.root)
    for words in WORDS[name]:
        done = opened.run([*name.split(), *words])
        text = done.stderr.decode("utf-8", "replace")
        assert 0 <= done.returncode < 10, (words, done.returncode, text)
        assert "Traceback" not in text
        assert "internal error" not in text
        assert not opened.wrong(), words
        assert not marker(opened.root).exists(), words
    if name not in ("mcp add", "gate install"):
        assert _settings(opened.root) == before


def _settings(root: Path) -> list[str]:
    """What of the settings is there, by name: no command is to make or remove any unasked."""
    return sorted(p.name for p in root.iterdir() if p.name.startswith((".agent", ".mcp", ".claude")))


@pytest.mark.parametrize("repository", SAMPLE if ALL else SAMPLE[:2])
def test_a_session_line_by_line_runs_nothing(tmp_path: Path, repository: str) -> None:
    opened = Opened(repository, tmp_path)
    lines = (
        "n",
        "/status",
        "/doctor",
        "/hooks",
        "/mcp",
        "/memory",
        "/permissions",
        "/tools",
        "/diff",
        "/undo",
        "hi",
        "/exit",
    )
    done = opened.run(["--plain"], "\n".join(lines) + "\n")
    assert b"Traceback" not in done.stderr + done.stdout
    assert b"internal error" not in done.stderr
    assert not opened.wrong()
    assert not marker(opened.root).exists()
