"""How things stand: told once in one message, by whatever it changed, to the model and to its sub-agents."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_cli.config.prompts import git_head
from agent_cli.kernel.engine.environment import Environment
from agent_cli.kernel.events import Compacted
from agent_cli.kernel.messages import UserMessage
from agent_cli.policy.git_use import git_to_read
from tests.support.model_server import Call, ModelServer, Reply
from tests.support.narrow_model import NarrowModel
from tests.support.program import agent
from tests.support.repositories import git
from tests.support.scripts import call, task
from tests.support.subagent_turns import story
from tests.support.turns import World

SYSTEM = """You are a test.
# Environment
You work in /w.
The git repository is on old. When the session began, its working tree was clean (git status shows it now).
The last commits then were:
1234567 Long ago
The system is Linux 6; commands run in bash.
Today is 2020-01-01.
The model is m.
The permission mode at the start is default: reading is free; the user approves changes and most commands."""


@pytest.fixture
def work(tmp_path: Path) -> Path:
    root = tmp_path / "work"
    root.mkdir()
    git(root, "init", "-b", "main")
    (root / "a.py").write_text("a = 1\n")
    git(root, "add", ".")
    git(root, "commit", "-m", "first")
    return root


def environment_of(work: Path) -> Environment:
    found = Environment(work, lambda: git_to_read(work, dict(os.environ), "trusted"), answered=True, small=False)
    found.begin("m", "default")
    return found


def changes(world: World) -> list[str]:
    texts = [m.text for m in world.history if isinstance(m, UserMessage)]
    return [text for text in texts if text.startswith("<session_change>")]


def elsewhere(work: Path) -> None:
    git(work, "checkout", "-q", "-b", "other")
    (work / "a.py").write_text("a = 2\n")
    (work / "b.py").write_text("b = 1\n")
    git(work, "add", ".")
    git(work, "commit", "-m", "second thoughts")
    (work / "c.py").write_text("new\n")


@pytest.mark.parametrize("how", ["loose", "packed", "worktree", "detached", "none"])
def test_branch_and_commit_are_read_without_git(work: Path, how: str) -> None:
    root = work
    if how == "packed":
        git(work, "pack-refs", "--all")
    if how == "worktree":
        root = work.parent / "tree"
        git(work, "worktree", "add", "-b", "side", str(root))
    if how == "detached":
        git(work, "checkout", "-q", "--detach")
    if how == "none":
        root = work.parent
    commit = git(work, "rev-parse", "HEAD").strip()
    branch = {"worktree": "side", "detached": f"detached at {commit[:12]}", "none": ""}.get(how, "main")
    assert git_head(root) == (branch, commit if how != "none" else "")


@pytest.mark.parametrize("head", ["ref: refs/heads/../../../outside", "ref: /etc/hostname", "ref: refs/heads/x y", "?"])
def test_a_head_that_leads_elsewhere_is_not_followed(work: Path, head: str) -> None:
    (work.parent / "outside").write_text("abc")
    (work / ".git/HEAD").write_text(f"{head}\n")
    assert git_head(work) == ("", "")


def during(world: World, number: int, act: Callable[[], Any]) -> None:
    """Do something while the model writes its answer number `number`."""
    stream, count = world.model.stream, iter(range(1, 99))

    def with_it(request: Any, cancel: Any) -> Any:
        if next(count) == number:
            act()
        return stream(request, cancel)

    world.model.stream = with_it  # type: ignore[method-assign]


def test_a_branch_that_others_change_is_told_before_the_next_request(work: Path) -> None:
    replies = [{"calls": [call("Read", file_path="a.py")]}, {"calls": [call("LS", path=".")]}, {"text": "Done."}]
    world = World(work, replies, environment=environment_of(work))
    during(world, 2, lambda: elsewhere(work))
    world.turn()
    [told] = changes(world)
    assert "Branch: other (it was main)\nLast commit: " in told and "second thoughts" in told
    assert "1 changed file:\n?? c.py\nChanged since you saw them: a.py. Read them again" in told
    assert world.history.index(UserMessage(told)) == 5, "after the result of the second call"


def test_what_the_model_does_itself_is_no_news(work: Path) -> None:
    switch = "git checkout -q -b mine && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m mine"
    replies = [{"calls": [call("Bash", command=switch)]}, {"calls": [call("LS", path=".")]}, {"text": "Done."}]
    world = World(work, replies, mode="bypassPermissions", environment=environment_of(work))
    world.deps.environment.begin("m", "bypassPermissions")  # type: ignore[union-attr]
    world.turn()
    assert git_head(work)[0] == "mine" and changes(world) == []


def test_a_mode_that_the_user_changes_is_told_but_not_plan_mode(work: Path) -> None:
    replies = [{"calls": [call("LS", path=".")]} for _ in range(4)]
    world = World(work, [*replies, {"text": "Done."}], environment=environment_of(work))
    modes = iter(("acceptEdits", "plan", "acceptEdits", "default"))
    stream = world.model.stream

    def with_mode(request: Any, cancel: Any) -> Any:
        world.policy.mode = next(modes, "default")  # type: ignore[assignment]
        return stream(request, cancel)

    world.model.stream = with_mode  # type: ignore[method-assign]
    world.turn()
    told = [re.findall(r"Permission mode now: (\w+)", text) for text in changes(world)]
    assert told == [["acceptEdits"], ["default"]]


def test_a_sub_agent_gets_the_state_of_now(work: Path) -> None:
    elsewhere(work)
    parent = [{"calls": [task("explore")]}, {"text": "Ok."}]
    world, models = story(work, parent, [{"text": "Seen."}], mode="acceptEdits", environment=environment_of(work))
    world.turn(system=SYSTEM)
    system = models.nested.requests[0].system
    assert "The git repository is on other. It has 1 changed file:\n?? c.py\nThe last commits are:\n" in system
    assert (
        "second thoughts\n" in system and "first\nThe system is Linux 6; commands run in bash.\nToday is 20" in system
    )
    assert "The permission mode is acceptEdits: edits in the workspace are made at once" in system
    assert not re.search("Long ago|2020|when the session began|at the start", system)


def test_a_compaction_restates_how_things_stand(work: Path) -> None:
    for number in range(9):
        (work / f"f{number}.txt").write_text(f"file {number} has this line\n" * 110)

    def answer(number: int, request: Any) -> dict[str, Any]:
        if number == 1:
            (work / "f0.txt").write_text("something else\n")
        return {"calls": [call("Read", file_path=f"f{number}.txt")]} if number < 9 else {"text": "Done."}

    world = World(work, [], environment=environment_of(work))
    world.deps = world.deps.replace(client=NarrowModel(answer, 8_000))
    world.turn("Read all nine.", context_window=8_000)
    head = next(event.head[0].text for event in world.of(Compacted) if event.head)
    now = "The git repository is on main. It has 9 changed files:\n?? f0.txt"
    assert (
        re.search(rf"<session_change>\nDate: 20\S+\n{re.escape(now)}", head) and " first\nPermission mode now:" in head
    )
    assert "Changed since you saw them: f0.txt. Read" in head


def test_model_and_mode_that_the_user_chooses_are_told_in_one_message(tmp_path: Path) -> None:
    lines = ["/model openai/y", "/mode acceptEdits", "/model openai/z", "hello", "more"]
    with ModelServer([Reply(calls=(Call("LS", {"path": "."}),)), Reply(text="Done."), Reply(text="Done.")]) as server:
        keys = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url}
        done = agent(["--plain", "--model", "openai/x"], tmp_path, keys, stdin="\n".join(lines) + "\n")
        assert done.returncode == 0, done.stderr
        texts = [m["content"] for m in server.requests[-1].body["messages"] if m["role"] == "user"]
    edits = "edits in the workspace are made at once; the user approves most commands"
    told = f"The model is now openai/z.\nPermission mode now: acceptEdits: {edits}"
    assert texts == [f"<session_change>\n{told}\n</session_change>", "hello", "more"]


def test_what_was_shown_in_the_part_that_the_user_took_back_is_not_known(work: Path) -> None:
    os.utime(work / "a.py", (1_700_000_000, 1_700_000_000))
    look = Call("Grep", {"pattern": "a", "path": "a.py", "output_mode": "content"})
    edit = Call("Edit", {"file_path": "a.py", "old_string": "a = 1", "new_string": "a = 2"})
    replies = [Reply(calls=(look,)), Reply(text="Seen."), Reply(calls=(edit,)), Reply(text="Done.")]
    with ModelServer(replies) as server:
        keys = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url}
        args = ["--plain", "--model", "openai/x", "--permission-mode", "acceptEdits"]
        done = agent(args, work, keys, stdin="look\n/rewind\n1\n2\nmend it\n")
        assert done.returncode == 0, done.stderr
        assert "was not read in this conversation" in str(server.requests[-1].body["messages"][-1])
