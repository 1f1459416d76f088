"""Directories that must be asked about, and errors of our own: the call fails or is refused, the session goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.fork_server import ROOT
from tests.support.program import agent
from tests.support.pty_session import Terminal
from tests.support.scripts import call, script

CALLS = [
    call("LS", path="../outside"),
    call("Grep", pattern="words", path="../outside"),
    call("Glob", pattern="*", path="../outside"),
    call("Read", file_path="../outside"),
]


@pytest.fixture
def outside(work: Path) -> Path:
    folder = work.parent / "outside"
    folder.mkdir()
    (folder / "seen.txt").write_text("words\n")
    return folder


def test_a_directory_is_asked_about_in_a_session(work: Path, outside: Path) -> None:
    replies = [*({"calls": [c]} for c in CALLS), {"text": "All looked at."}, {"text": "Still here."}]
    terminal = Terminal(["--model", script(work.parent / "s.toml", replies)], work)
    terminal.ready()
    terminal.type("look")
    for _ in CALLS:
        terminal.expect("Allow?")
        terminal.type("y")
    terminal.expect("All looked at.")
    terminal.type("and now?")
    terminal.expect("Still here.")
    terminal.leave()
    assert terminal.exit_code == 0


@pytest.mark.parametrize("one", CALLS, ids=lambda c: str(c["name"]))
def test_a_directory_waits_for_its_approval(work: Path, outside: Path, one: dict[str, object]) -> None:
    model = script(work.parent / "s.toml", [{"calls": [one]}, {"text": "Done."}])
    assert agent(["-p", "--model", model, "--on-ask", "suspend", "go"], work).returncode == 3
    done = agent(["approve"], work)
    assert done.returncode == 0 and "Done." in done.stdout, done.stderr


def test_an_ask_rule_about_a_folder_of_the_workspace(work: Path) -> None:
    (work / "src").mkdir()
    (work / ".agentrc.local").write_text('[permissions]\nask = ["Read(src)"]\n')
    model = script(work.parent / "s.toml", [{"calls": [call("LS", path="src")]}, {"text": "Done."}])
    done = agent(["-p", "--model", model, "go"], work)
    assert done.returncode == 5 and "internal error" not in done.stdout + done.stderr


PLUGIN = """
from agent_tools.base import Tool, ToolResult
from agent_tools.record import Value

class Args(Value):
    key: str

class Broken(Tool):
    name = "Broken"
    Args = Args
    description = "Breaks."
    def effects(self, args, ctx): raise LookupError(f"no {args.key}")
    def summary(self, args, ctx): return "Break"
    def run(self, args, ctx): return ToolResult("never")
"""


def test_a_faulty_tool_is_described_in_a_report(work: Path) -> None:
    site = work.parent / "site"
    meta = site / "broken-1.0.dist-info"
    meta.mkdir(parents=True)
    (site / "broken_tool.py").write_text(PLUGIN)
    (meta / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (meta / "entry_points.txt").write_text("[agent_cli.tools]\nbroken = broken_tool:Broken\n")
    home = work.parent / "home"
    home.mkdir()
    (home / ".agentrc").write_text('tool_packages = ["broken"]\n')
    env = {"PYTHONPATH": f"{ROOT}:{ROOT / 'tools'}:{site}", "MY_API_KEY": "hush-hush-hush"}
    replies = [
        {"calls": [call("Broken", key="hush-hush-hush")]},
        {"text": "Went on.", "expect": "Checking Broken failed"},
    ]
    done = agent(["-p", "--model", script(work.parent / "s.toml", replies), "go"], work, env)
    assert done.returncode == 0 and done.stdout == "Went on.\n"
    assert "This is an internal error, described in " in done.stderr and "Traceback" not in done.stderr
    (report,) = (home / "state/crashes").iterdir()
    assert "LookupError" in report.read_text() and "hush" not in report.read_text()
