"""What three well-known plugins do, with this program in Claude Code's place. Run by `make outside`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.model_server import Call, ModelServer, Reply
from tests.support.program import agent
from tests.support.repositories import git

FOLDER = os.environ.get("AGENT_MARKETPLACES", "")
pytestmark = pytest.mark.skipif(not FOLDER, reason="needs public marketplaces: make outside")
PLUGINS = Path(FOLDER, "anthropics/claude-plugins-official/plugins")


def run(
    work: Path, plugin: str, replies: list[Reply], prompt: str, *words: str
) -> tuple[list[str], subprocess.CompletedProcess[str]]:
    """The last message of each request as JSON, and how the run ended."""
    with ModelServer(replies) as server:
        env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url, "IS_SANDBOX": "1"}
        mode = ["--permission-mode", "bypassPermissions", "--plugin-dir", str(PLUGINS / plugin)]
        done = agent(["-p", "--model", "openai/x", *mode, *words, prompt], work, env)
    assert done.returncode == 0, done.stderr
    return [json.dumps(r.body["messages"][-1]) for r in server.requests], done


def bash(command: str) -> Reply:
    return Reply(calls=(Call("Bash", {"command": command}),))


def rule(work: Path, name: str, **fields: str) -> None:
    (work / ".claude").mkdir(exist_ok=True)
    head = "\n".join(f"{key}: {value}" for key, value in {"name": name, "enabled": "true", **fields}.items())
    (work / f".claude/hookify.{name}.local.md").write_text(f"---\n{head}\n---\nThe rule {name} speaks.\n")


def test_hookify_blocks_and_warns_by_the_rules_of_the_user(work: Path) -> None:
    rule(work, "no-rm", event="bash", pattern=r"rm\s+-rf", action="block")
    rule(work, "log", event="file", pattern=r"console\.log\(", action="warn")
    (work / "old").mkdir()
    (work / "a.js").write_text("f(1)\n")
    edit = {"file_path": "a.js", "old_string": "f(1)", "new_string": "console.log(1)"}
    calls = (Call("Read", {"file_path": "a.js"}), Call("Edit", edit))
    replies = [bash("rm -rf old"), *(Reply(calls=(each,)) for each in calls), bash("echo fine"), Reply(text="Done.")]
    asked, done = run(work, "hookify", replies, "go", "--output-format", "stream-json", "--verbose")
    # The plugin gives its words to the user, and the model no reason.
    assert (work / "old").is_dir() and "refused by a hook" in asked[1] and "The rule no-rm speaks." in done.stdout
    assert (work / "a.js").read_text() == "console.log(1)\n"
    assert "The rule log speaks." in done.stdout and "fine" in asked[4]


def test_hookify_holds_a_turn_that_would_end_too_early(work: Path) -> None:
    (work / ".claude").mkdir()
    (work / ".claude/hookify.tests.local.md").write_text(
        "---\nname: tests\nenabled: true\nevent: stop\naction: block\nconditions:\n"
        "  - field: transcript\n    operator: not_contains\n    pattern: ran-the-tests\n---\nRun the tests first.\n"
    )
    asked, done = run(work, "hookify", [Reply(text="Ready."), bash("echo ran-the-tests"), Reply(text="Done.")], "go")
    assert "Run the tests first." in asked[1] and done.stdout == "Done.\n"


@pytest.mark.skipif(shutil.which("jq") is None, reason="the plugin needs jq")
def test_ralph_loop_gives_the_prompt_again_until_its_promise_holds(work: Path) -> None:
    replies: list[Any] = [
        Reply(text="First."),
        bash("echo x"),
        Reply(text="Second."),
        Reply(text="<promise>OK</promise>"),
    ]
    prompt = "/ralph-loop:ralph-loop Make it good --completion-promise OK --max-iterations 9"
    asked, done = run(work, "ralph-loop", replies, prompt)
    assert len(asked) == 4 and done.stdout == "<promise>OK</promise>\n"
    assert "Make it good" in asked[1] and "Make it good" in asked[3]
    assert not list(work.glob(".claude/*ralph*.local.md"))


@pytest.mark.skipif(shutil.which("jq") is None, reason="the plugin needs jq")
def test_ralph_loop_ends_after_its_iterations(work: Path) -> None:
    asked, done = run(work, "ralph-loop", [Reply(text=f"Try {n}.") for n in range(3)],
                      "/ralph-loop:ralph-loop Make it good --max-iterations 3")  # fmt: skip
    assert len(asked) == 3 and done.stdout == "Try 2.\n"


def test_security_guidance_reminds_of_a_risky_edit_once(work: Path) -> None:
    (work / ".git").rmdir()
    git(work, "init", "-q", ".")
    git(work, "add", ".")
    git(work, "commit", "-q", "-m", "first")
    risky = [
        Call("Write", {"file_path": f"{name}.js", "content": "export const f = (x) => eval(x)\n"}) for name in "ab"
    ]
    replies = [Reply(calls=(call,)) for call in risky] + [Reply(text="Done.")]
    asked, done = run(work, "security-guidance", replies, "go")
    assert "eval" in asked[1] and "ecurity" in asked[1], asked[1]
    assert (work / "a.js").exists() and done.stdout == "Done.\n"
