"""The hooks of public plugins decide here as they do in Claude Code, which is run beside this program.

Both get the same answers of a model. What is compared: what of the hooks' words reaches the model, after which answer,
and which files there are afterwards. Run by `make outside`; without Claude Code's program, the expected is compared.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.client_home import CLIENTS, environment
from tests.support.model_server import Call, ModelServer, Received, Reply

FOLDER = Path(os.environ.get("AGENT_MARKETPLACES", "/nonexistent"))
HUB = "jeremylongshore/claude-code-plugins-plus-skills/plugins"
OFFICIAL = "anthropics/claude-plugins-official/plugins"
CLAUDE = next(iter((CLIENTS / "npm/node_modules/@anthropic-ai").glob("claude-agent-sdk-*/claude")), None)
pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir() or shutil.which("jq") is None, reason="NOT TESTED: needs jq and make outside"
)


def bash(command: str) -> Reply:
    return Reply(calls=(Call("Bash", {"command": command, "description": "Does it"}),))


def write(name: str, text: str) -> Callable[[Path], Reply]:
    return lambda work: Reply(calls=(Call("Write", {"file_path": str(work / name), "content": text}),))


def rule(work: Path) -> None:
    (work / ".claude").mkdir()
    (work / ".claude/hookify.no.local.md").write_text(
        "---\nname: no\nenabled: true\nevent: bash\npattern: touch\\s+no\naction: block\n---\nThe rule no speaks.\n"
    )


def fake_programs(work: Path) -> None:
    """Programs that the plugins look for."""
    for name in ("gh", "uv"):
        program = work.parent / "programs" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)


# Plugin, answers of the model, a word of the hooks, the requests that have it for the first time, files afterwards.
Case = tuple[str, list[Any], str, list[int], set[str]]
CASES: dict[str, Case] = {
    "superpowers": ("obra/superpowers", [], "EXTREMELY_IMPORTANT", [0], set()),
    "explanatory-output-style": (f"{OFFICIAL}/explanatory-output-style", [], "Insight", [0], set()),
    "learning-output-style": (f"{OFFICIAL}/learning-output-style", [], "learning", [0], set()),
    "gh-cli": (
        "trailofbits/skills/plugins/gh-cli",
        [bash("touch no; curl -s https://api.github.com/repos/a/b/releases"), bash("touch yes")],
        "gh release list", [1], {"yes"},
    ),
    "claude-reflect": (
        f"{HUB}/community/claude-reflect", [bash("touch yes && git commit -q --allow-empty -m x")],
        "Git commit detected!", [1], {"yes"},
    ),
    "modern-python": (
        "trailofbits/skills/plugins/modern-python", [bash("python x.py; touch yes")], "uv run", [1], {"yes"},
    ),
    "hookify": (f"{OFFICIAL}/hookify", [bash("touch no"), bash("touch yes")], "The rule no speaks.", [], {"yes"}),
    "security-guidance": (
        f"{OFFICIAL}/security-guidance",
        [write("a.js", "export const f = (x) => eval(x)\n"), write("b.js", "export const f = (x) => eval(x)\n")],
        "Security Warning", [1, 2], {"a.js", "b.js"},
    ),
    "jeremy-github-actions-gcp": (
        f"{HUB}/devops/jeremy-github-actions-gcp", [write("yes", "credentials_json: x\n")], "VIOLATION", [], {"yes"},
    ),
    "formatter": (f"{HUB}/examples/formatter", [write("a.json", '{"a":1}')], "[INFO]", [], {"a.json"}),
}  # fmt: skip
SETUP: dict[str, Callable[[Path], None]] = {"hookify": rule, "gh-cli": fake_programs, "modern-python": fake_programs}


def observed(program: str, name: str, base: Path) -> tuple[list[int], set[str]]:
    """Run a case; return the requests in which the hooks' word is new, and the files of the working directory."""
    plugin, replies, word, _, _ = CASES[name]
    work = base / "work"
    work.mkdir(parents=True)
    SETUP.get(name, lambda folder: None)(work)
    for words in (["init", "-q"], ["config", "user.name", "A"], ["config", "user.email", "a@example.org"]):
        subprocess.run(["git", *words], cwd=work, check=True)
    counts: list[int] = []

    def answer(received: Received) -> Reply:
        if not any(tool.get("name") == "Bash" for tool in received.body.get("tools", ())):
            return Reply(text="Ok.")  # a title, or a check of the account
        counts.append(json.dumps(received.body["messages"]).count(word))
        if len(counts) > len(replies):
            return Reply(text="Done.")
        made = replies[len(counts) - 1]
        found: Reply = made if isinstance(made, Reply) else made(work)
        # Claude Code takes an answer with an ID that it has seen for a repetition.
        calls = tuple(call.replace(id=f"toolu_{len(counts)}") for call in found.calls)
        return found.replace(id=f"msg_{len(counts)}", calls=calls)

    with ModelServer([answer], repeat=True) as server:
        env = environment(base / "home", server.anthropic_url) | {
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1",
            "PATH": f"{base}/programs:{os.environ['PATH']}",
        }  # fmt: skip
        line = [env["AGENT_BIN"] if program == "agent" else str(CLAUDE), "-p", "--permission-mode", "bypassPermissions"]
        line += ["--model", "claude-sonnet-4-5", "--plugin-dir", str(FOLDER / plugin), "go"]
        done = subprocess.run(
            line, cwd=work, env=env, capture_output=True, text=True, timeout=150, stdin=subprocess.DEVNULL
        )
        server.violations.clear()  # what Claude Code sends is not ours to judge
    assert done.returncode == 0 and done.stdout.strip() == "Done.", done.stdout + done.stderr
    fresh = [number for number, count in enumerate(counts) if count > (counts[number - 1] if number else 0)]
    return fresh, {path.name for path in work.iterdir() if not path.name.startswith(".")}


@pytest.mark.parametrize("name", CASES)
def test_hooks_of_a_plugin_decide_as_in_claude_code(name: str, tmp_path: Path) -> None:
    if not (FOLDER / CASES[name][0]).is_dir():
        pytest.skip("NOT TESTED: its marketplace could not be fetched")
    ours = observed("agent", name, tmp_path / "agent")
    assert ours == CASES[name][3:]
    if CLAUDE is not None:
        assert observed("claude", name, tmp_path / "claude") == ours
