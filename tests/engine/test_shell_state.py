"""What carries over between commands, through whole turns: events, sub-agents, the gate, and notices."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_cli.kernel.decisions import Approve, Defer
from agent_cli.kernel.events import SubagentEvent, ToolFinished, unwrap
from agent_cli.kernel.messages import UserMessage
from agent_cli.kernel.results import Complete, Suspended
from agent_tools.shell.jobs import Jobs
from agent_tools.shell.state import ShellSnapshot
from tests.support.scripts import call, task
from tests.support.subagent_turns import story
from tests.support.turns import World
from tests.support.waiting import soon


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "sub").mkdir()
    return tmp_path


def bash(command: str, **more: object) -> dict[str, object]:
    return {"calls": [call("Bash", command=command, **more)]}


def test_an_event_tells_what_now_carries_over_and_no_key(root: Path) -> None:
    replies = [bash("export A=1 MY_TOKEN=hush"), bash("cd sub"), bash("true"), bash("echo $A; pwd"), {"text": "Ok."}]
    world = World(root, replies, allow=("Bash",))
    world.turn()
    assert [e.shell for e in world.of(ToolFinished)] == [
        ShellSnapshot(str(root), {"A": "1"}),
        ShellSnapshot(str(root / "sub"), {"A": "1"}),
        None,
        None,
    ]
    assert world.results[-1].text.startswith(f"1\n{root}/sub\n")


def test_what_a_sub_agent_does_stays_with_it(root: Path) -> None:
    world, _ = story(
        root,
        [bash("export A=parent"), {"calls": [task()]}, bash("echo $A; pwd"), {"text": "Ok."}],
        [bash("cd sub; export A=child"), bash("echo $A; pwd"), {"text": "Done."}],
        allow=("Bash",),
    )
    assert isinstance(world.turn(), Complete)
    assert world.results[-1].text.startswith(f"parent\n{root}\n")
    inner = [unwrap(e) for e in world.of(SubagentEvent)]
    assert ShellSnapshot(str(root / "sub"), {"A": "child"}) in [e.shell for e in inner if isinstance(e, ToolFinished)]


def test_a_sub_agent_that_waited_goes_on_where_it_was(root: Path) -> None:
    world, _ = story(
        root,
        [{"calls": [task()]}, {"text": "Ok."}],
        [bash("cd sub"), bash("echo x > here"), {"text": "Done."}],
        Defer(),
        Approve(),
    )
    assert isinstance(world.turn(), Suspended)
    assert isinstance(world.turn(None), Complete)
    assert (root / "sub" / "here").exists() and [a.cwd for a in world.asked] == [str(root / "sub")] * 2


def test_rules_stay_anchored_where_the_session_began(root: Path) -> None:
    (root / ".env").write_text("KEY=1\n")
    read = {"calls": [call("Read", file_path="../.env")]}
    world = World(root, [bash("cd sub"), read, {"text": "Ok."}], allow=("Bash(cd:*)",), deny=("Read(.env*)",))
    world.turn()
    assert world.deps.context.workspace.cwd == root / "sub"
    assert world.results[-1].text.startswith("Permission was denied")


def test_the_end_of_a_background_command_is_reported_at_the_next_round(root: Path) -> None:
    wait = "until [ -e go ]; do sleep 0.01; done"
    replies = [bash(wait, run_in_background=True), bash("touch go"), {"text": "Started."}, {"text": "So it ended."}]
    world = World(root, replies, allow=("Bash",))
    world.turn()
    assert soon(lambda: not any(job.running for job in world.deps.context.state(Jobs).all()))
    world.turn("and now?")
    (notice,) = [m.text for m in world.history if isinstance(m, UserMessage) and "Background" in m.text]
    assert notice.startswith(f"[Background command b1 ({wait}) ended after 0:0") and notice.endswith(": exit code 0]")
    world.deps.context.close()
