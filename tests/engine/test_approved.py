"""An approval of a command holds for the files that it was shown to destroy, and for these as they were then."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_cli.kernel.decisions import Answer, Approve, Reject
from agent_cli.kernel.events import ApprovalRequested
from agent_cli.kernel.results import Complete
from tests.support.scripts import call
from tests.support.turns import World


def bash(command: str) -> dict[str, Any]:
    return call("Bash", command=command)


class Story(World):
    """Does something to the files while the n-th question is open; says yes to all of them."""

    def __init__(self, root: Path, calls: list[dict[str, Any]], meanwhile: dict[int, Callable[[], Any]]) -> None:
        super().__init__(root, [{"calls": calls}, {"text": "Done."}])
        self.meanwhile = meanwhile

    def _answer(self, request: ApprovalRequested) -> Answer:
        self.asked.append(request)
        self.meanwhile.get(len(self.asked), lambda: None)()
        return Approve() if len(self.asked) < 9 else Reject()

    def facts(self) -> list[str]:
        """What the last question said had changed."""
        assert isinstance(self.turn(), Complete)
        return [f for f in self.asked[-1].facts if f.startswith("changed since you were asked")]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "w/d").mkdir(parents=True)
    (tmp_path / "w/a.txt").write_text("one\n")
    (tmp_path / "w/d/b.txt").write_text("two\n")
    return tmp_path / "w"


@pytest.mark.parametrize(
    ("command", "path"),
    [("rm a.txt", "a.txt"), ("rm -rf d", "d/b.txt"), ("rm -rf d", "d/new.txt"), ("rm *.txt", "new.txt"),
     ("echo x > a.txt", "a.txt"), ("echo x > new", "new"), ("mv d/b.txt a.txt", "a.txt"),
     ("truncate -s 0 a.txt", "a.txt")],
)  # fmt: skip
def test_what_a_command_destroys_changed_meanwhile(root: Path, command: str, path: str) -> None:
    story = Story(root, [bash(command)], {1: lambda: (root / path).write_text("changed by somebody else\n")})
    (found,) = story.facts()
    assert path in found and len(story.asked) == 2
    assert story.asked[0].facts != story.asked[1].facts and not story.results[0].is_error


def test_a_reset_is_asked_about_again_where_more_would_be_lost(root: Path) -> None:
    def git(*words: str) -> None:
        who = ["-c", "user.name=n", "-c", "user.email=n@example.org"]
        subprocess.run(["git", *who, *words], cwd=root, check=True, capture_output=True)

    git("init")
    git("add", ".")
    git("commit", "-m", "first")
    (root / "a.txt").write_text("mine\n")
    story = Story(root, [bash("git reset --hard")], {1: lambda: (root / "d/b.txt").write_text("mine, too\n")})
    (found,) = story.facts()
    assert "d/b.txt" in found and "a.txt" not in found
    assert any("2 files" in fact for fact in story.asked[1].facts)


def test_what_changed_elsewhere_is_no_reason(root: Path) -> None:
    story = Story(root, [bash("rm a.txt")], {1: lambda: (root / "d/b.txt").write_text("changed\n")})
    assert not story.facts() and len(story.asked) == 1


def test_what_an_earlier_call_announced_to_change_is_no_reason(root: Path) -> None:
    (root / "c.txt").write_text("x\n")
    calls = [bash("echo more >> c.txt; echo x > a.txt"), call("Write", file_path="new.txt", content="x\n"),
             bash("rm -r a.txt"), bash("rm new.txt")]  # fmt: skip
    story = Story(root, calls, {})
    assert not story.facts()
    assert len(story.asked) == 4 and not any(r.is_error for r in story.results)


def test_what_an_earlier_call_changed_without_saying_so_is_named(root: Path) -> None:
    (root / "x.sh").write_text("echo more >> a.txt\n")
    story = Story(root, [bash("sh x.sh"), bash("rm a.txt")], {})
    (found,) = story.facts()
    assert found.endswith("a.txt, while this ran: Run: sh x.sh") and len(story.asked) == 3


def test_what_changes_all_the_time_is_not_asked_about_for_ever(root: Path) -> None:
    def grow() -> None:
        with (root / "d/log").open("a") as file:
            file.write("line\n")

    story = Story(root, [bash("rm -rf d")], dict.fromkeys(range(1, 9), grow))
    story.turn()
    assert len(story.asked) == 3 and not (root / "d").exists()


def test_words_that_go_with_a_yes_reach_the_model(root: Path) -> None:
    world = World(root, [{"calls": [bash("touch x")]}, {"text": "Ok."}], [Approve(note="and be quick")])
    assert isinstance(world.turn(), Complete)
    assert world.results[0].text.endswith("[The user approved this call and said: and be quick]")
    assert (root / "x").exists()


def test_accepting_all_edits_decides_the_others_of_the_round_too(root: Path) -> None:
    edits = [call("Write", file_path=f"new{n}", content="x") for n in range(3)]
    later = {"calls": [call("Write", file_path="more", content="x"), bash("make y")]}
    world = World(root, [{"calls": edits}, later, {"text": "Ok."}], [Approve(mode="acceptEdits"), Reject()])
    assert isinstance(world.turn(), Complete)
    assert [request.summary for request in world.asked][1:] == ["Run: make y"], "edits are not asked about again"
    assert world.asked[0].edits and not world.asked[1].edits
    assert all((root / name).exists() for name in ("new0", "new1", "new2", "more"))
