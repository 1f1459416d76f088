"""The examples of docs/hooks.md do what the page says."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agent_cli.hooks.events import HOOK_EVENTS
from agent_cli.kernel.engine.conversation import consume
from agent_tools.cancel import CancelToken
from tests.support.fork_server import ROOT
from tests.support.program import agent
from tests.support.scripts import call, script

PAGE = (ROOT / "docs/hooks.md").read_text("utf-8")
TOML = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
PYTHON = dict(re.findall(r"^```python\n# (\S+)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE))

WRITING = [{"calls": [call("Write", file_path="gen/a.py", content="")]}, {"text": "."}]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    subprocess.run(["git", "init", "-q", "-b", "trunk", str(folder)], check=True)
    for name, code in PYTHON.items():
        if name.startswith(".agent"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(code)
    (folder / ".agentrc").write_text("\n".join(text for text in TOML if "[[hooks]]" in text))
    return folder


def tried(work: Path, event: str, *args: str) -> dict[str, Any]:
    done = agent(["hooks", "test", event, "--trust", "--json", *args], work)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_generated_files_are_out_of_reach(work: Path) -> None:
    given = {"tool_input": {}, "effects": [{"kind": "write", "target": "/repo/gen/a.py"}]}
    refused = tried(work, "PreToolUse", "--tool", "Write", "--input", json.dumps(given))
    assert (refused["verdict"], refused["reason"]) == (
        "deny",
        "/repo/gen/a.py is generated: change its template instead.",
    )
    model = script(
        work.parent / "s.toml", [{"calls": [call("Write", file_path="gen/a.py", content="")]}, {"text": "."}]
    )
    done = agent(["-p", "--trust", "--permission-mode", "acceptEdits", "--model", model, "hi"], work)
    assert "is generated: change its template instead" in done.stderr
    assert not (work / "gen").exists()


def test_the_model_learns_where_it_stands(work: Path) -> None:
    assert tried(work, "UserPromptSubmit")["context"][0].startswith("On branch trunk, ")


def test_another_package_manager_is_used(work: Path) -> None:
    changed = tried(work, "PreToolUse", "--input", '{"command": "npm install x && npm run build"}')
    assert changed["changed"] == {"command": "pnpm install x && pnpm run build"}
    assert tried(work, "PreToolUse", "--input", '{"command": "ls"}')["changed"] is None


def test_commands_are_given_an_environment(work: Path) -> None:
    model = script(work.parent / "s.toml", [{"calls": [call("Bash", command="echo $DATABASE_URL")]}, {"text": "."}])
    args = ["-p", "--trust", "--allowedTools", "Bash", "--model", model, "--output-format", "stream-json", "hi"]
    lines = [json.loads(line) for line in agent(args, work).stdout.splitlines()]
    assert [line["tool_use_result"]["stdout"] for line in lines if line["type"] == "user"] == [
        f"sqlite:///{work}/test.db"
    ]


def test_the_notification_succeeds(work: Path) -> None:
    assert tried(work, "Notification")["hooks"][0]["exit_code"] == 0


def test_the_example_in_python_refuses() -> None:
    names: dict[str, Any] = {}
    exec(PYTHON["embedded"], names)
    for text, verdict in (("echo $SECRET", "deny"), ("ls", "")):
        data = {"tool_name": "Bash", "tool_input": {"command": text}}
        assert consume(names["hooks"].run("PreToolUse", data, CancelToken()), lambda event: None).verdict == verdict
    assert not names["hooks"].wants("PreToolUse", "Read")


@pytest.mark.parametrize("event", HOOK_EVENTS)
def test_every_event_can_be_tried_as_it_is_documented(tmp_path: Path, event: str) -> None:
    """`agent hooks test` runs the hook with the row's example, and the settings take a matcher that fits it."""
    row = HOOK_EVENTS[event]
    subject = {"tool_name": "Bash", **row.example}.get(row.matched, "")
    assert not row.subjects or subject in row.subjects
    (tmp_path / ".agentrc").write_text(
        f'[[hooks]]\nevent = "{event}"\nmatcher = "{subject}"\ncommand = "cat >&2; exit 2"\n'
    )
    found = tried(tmp_path, event)
    assert set(row.fields) <= found["input"].keys()
    assert json.loads(found["hooks"][0]["stderr"]).items() >= found["input"].items()
    assert found["verdict"] == ("deny" if row.blocks else None)
