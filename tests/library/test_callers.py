"""What a caller brings and gets wrong: mistakes in a sentence, tools, hooks, and a process that stays the caller's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_cli import (
    UsageError,
    open_agent,
)
from tests.support.embedded import scripted
from tests.support.program import clean_env
from tests.support.scripts import call

pytestmark = pytest.mark.usefixtures("clean")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"cwd": "/no/such/folder"}, "/no/such/folder is not a folder."),
        ({"settings": {"max_round": 3}}, "settings: max_round: "),
        ({"settings": {"max_rounds": "x"}}, "settings: max_rounds: "),
        ({"settings": {"max_rounds": object()}}, "settings: cannot be encoded as JSON"),
        ({"settings": "/no/such/file"}, "settings: there is no file /no/such/file"),
        ({"model": "nonsense"}, "nonsense"),
        ({"resume": "00000000"}, "00000000"),
        ({"fork": True}, "name the session to copy"),
        ({"approve": "yes"}, 'expected a function, "deny" or "suspend", not'),
        ({"schema": {"type": "array"}}, 'schema: a schema of type "object" is needed'),
        ({"hooks": {"BeforeTool": print}}, "unknown event 'BeforeTool'; known events: PreToolUse"),
        ({"hooks": {"Stop:Bash": print}}, "hooks: Stop takes no matcher"),
        (
            {"tools": ["Read"]},
            "tools: expected tools and functions, and not str, which is not an agent_tools.base.Tool",
        ),
        ({"tools": [lambda text: text]}, "text needs a type, such as text: str."),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_mistakes_are_one_sentence(work: Path, given: dict[str, Any], message: str) -> None:
    known = {"cwd": work, "model": scripted(work, {"text": "x"})}
    with pytest.raises(UsageError) as caught:
        open_agent(**known | given)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "--" not in str(caught.value)


def test_a_tool_with_a_name_that_is_taken_is_refused(work: Path) -> None:
    def Read(path: str) -> str:  # noqa: N802 - the name is the point
        """Reads."""
        return path

    with pytest.raises(UsageError, match="A tool named Read already exists"):
        open_agent(work, scripted(work, {"text": "x"}), tools=[Read])


def test_a_tool_that_may_change_things_is_asked_about_or_allowed_by_name(work: Path) -> None:
    def order(part: str, count: int = 1) -> dict[str, Any]:
        """Orders parts."""
        return {"part": part, "count": count}

    replies = {"calls": [call("order", part="bolt", count=3)]}, {"text": "Done."}
    with open_agent(work, scripted(work, *replies), tools=[order]) as session:
        assert [d.tool for d in session.run("go").denials] == ["order"]
    allowed = {"permissions": {"allow": ["order"]}}
    with open_agent(work, scripted(work, *replies), tools=[order], settings=allowed) as session:
        assert '{"part": "bolt", "count": 3}' in str(list(session.stream("go")))


def test_a_hook_that_fails_blocks(work: Path) -> None:
    def broken(data: dict[str, Any]) -> None:
        raise RuntimeError("the guard is broken")

    replies = {"calls": [call("Read", file_path="a.txt")]}, {"text": "Done."}
    with open_agent(work, scripted(work, *replies), hooks={"PreToolUse": [broken]}) as session:
        assert "hello world" not in str(list(session.stream("go")))


PROBE = """
import signal, sys, threading
before = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
import agent_cli
ours = sorted(m for m in sys.modules if m.startswith("agent_"))
from agent_cli import open_agent
found = []
def work():
    with open_agent(model=sys.argv[1]) as agent:
        found.append(agent.run("hi").text)
thread = threading.Thread(target=work)
thread.start()
thread.join()
assert found == ["Hello."], found
assert ours == ["agent_cli", "agent_cli.kernel", "agent_cli.kernel.version"], ours
assert before == [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
heavy = {"typer", "rich", "prompt_toolkit", "litellm", "asyncio", "pydantic"}
assert not heavy & {m.partition(".")[0] for m in sys.modules}
fronts = {f"agent_cli.{name}" for name in "cli headless host terminal acp server batch evaluation".split()}
assert not {m for m in sys.modules if ".".join(m.split(".")[:2]) in fronts}
"""


def test_nothing_of_the_command_line_is_needed(work: Path) -> None:
    """Not its libraries, no output, no signal handlers, not the main thread."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE, scripted(work, {"text": "Hello."})],
        cwd=work,
        env=clean_env(work.parent / "home"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
