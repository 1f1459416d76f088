"""Tools of packages: the worked example of the docs, as an installed package; off until named; what can be wrong."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.extension_files import put
from tests.support.fork_server import ROOT
from tests.support.plugin_packages import install
from tests.support.program import agent
from tests.support.scripts import call, script


def example() -> tuple[str, str]:
    """The module and the entry point of the worked example in docs/extensions.md."""
    page = (ROOT / "docs/extensions.md").read_text().partition("\n## Tools in a package\n")[2]
    [module] = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    [points] = re.findall(
        r'^\[project.entry-points."agent_cli.tools"\]\n(.*?)\n(?:\[|```)', page, re.DOTALL | re.MULTILINE
    )
    return module, points.replace('"', "")


def test_the_example_of_the_docs_works_once_it_is_named(work: Path) -> None:
    module, points = example()
    env = install(work.parent / "site", "agent-words", points, agent_words=module)
    (work / "b.txt").write_text("one two\nthree\n")
    replies = [{"calls": [call("CountWords", file_path="b.txt")]}, {"text": "Three.", "expect": "3 words in b.txt"}]
    model = script(work.parent / "s.toml", replies)
    args = ["-p", "--output-format", "stream-json", "--model", model, "count"]
    off = agent(args, work, env)
    assert "CountWords" not in json.loads(off.stdout.splitlines()[0])["tools"]
    (work.parent / "home/.agentrc").write_text('tool_packages = ["words"]\n')
    on = agent(args, work, env)
    lines = [json.loads(line) for line in on.stdout.splitlines()]
    assert (on.returncode, lines[-1]["result"]) == (0, "Three."), on.stderr
    assert lines[0]["plugins"] == [{"name": "words", "path": "words"}] and "CountWords" in lines[0]["tools"]
    outside = [{"calls": [call("CountWords", file_path="/etc/hostname")]}, {"text": "No."}]
    denied = agent(["-p", "--model", script(work.parent / "t.toml", outside), "x"], work, env)
    assert "Denied: CountWords" in denied.stderr and "outside the workspace" in denied.stderr


def test_the_setting_is_read_under_its_old_name_with_a_notice(work: Path) -> None:
    module, points = example()
    env = install(work.parent / "site", "agent-words", points, agent_words=module)
    own = work.parent / "home/.agentrc"
    put(own.parent, own.name, 'plugins = ["words"]\n')
    model = script(work.parent / "s.toml", [{"text": "Hello."}])
    done = agent(["-p", "--output-format", "stream-json", "--model", model, "x"], work, env)
    assert "CountWords" in json.loads(done.stdout.splitlines()[0])["tools"]
    assert f"{own}: the setting plugins is now named tool_packages; rename it there" in done.stderr
    own.write_text('tool_packages = ["words"]\n')
    assert "is now named" not in agent(["-p", "--model", model, "x"], work, env).stderr


def test_a_project_cannot_name_packages_of_tools(work: Path) -> None:
    (work / ".agentrc").write_text('tool_packages = ["words"]\n')
    done = agent(["-p", "--trust", "--model", script(work.parent / "s.toml", []), "x"], work)
    assert "can only be set in your own settings" in done.stderr or "your own settings;" in done.stderr
    assert "no installed package" not in done.stderr


TOOL = """
from agent_tools.base import Tool, ToolResult
from agent_tools.record import Value
class Args(Value):
    pass
class One(Tool):
    name = "{name}"
    Args = Args
    def effects(self, args, ctx): return ()
    def summary(self, args, ctx): return "one"
    def run(self, args, ctx): return ToolResult("one")
"""


@pytest.mark.parametrize(
    ("points", "module", "why"),
    [
        ("other = pack:One", TOOL.format(name="One"), "no installed package offers 'words'. Available: other."),
        ("words = pack:One", "raise RuntimeError('broken')", "cannot be loaded: RuntimeError: broken"),
        ("words = pack:Two", TOOL.format(name="One"), "cannot be loaded: AttributeError"),
        ("words = pack:One", "One = 3", "leads to int, which is not an agent_tools.base.Tool"),
        ("words = pack:One", TOOL.format(name="Read"), "the tool Read of 'words' has the name of a built-in tool"),
        ("words = pack:One", TOOL.format(name="../x"), "leads to a tool whose name cannot be one: '../x'"),
    ],
)
def test_what_is_wrong_with_a_package_is_one_sentence(work: Path, points: str, module: str, why: str) -> None:
    env = install(work.parent / "site", "pack", points, pack=module)
    model = script(work.parent / "s.toml", [])
    done = agent(["-p", "--settings", 'tool_packages = ["words"]', "--model", model, "x"], work, env)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert done.stderr.startswith("agent: tool_packages: ") and why in done.stderr


def test_two_packages_of_one_name_are_reported_apart(work: Path) -> None:
    site = work.parent / "site"
    install(site, "first", "words = first:One", first=TOOL.format(name="One"))
    env = install(site, "second", "words = second:One", second=TOOL.format(name="One"))
    done = agent(
        ["-p", "--settings", 'tool_packages = ["words"]', "--model", script(work.parent / "s.toml", []), "x"], work, env
    )
    assert "'words' is offered by first and second; uninstall one." in done.stderr
