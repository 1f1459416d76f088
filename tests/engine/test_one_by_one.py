"""A user who watches decides on one call of an answer after the other, and each runs when it is allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_cli.kernel.decisions import Answer, Approve, Reject
from agent_cli.kernel.events import ApprovalRequested, ApprovalResolved, Event, ToolStarted
from agent_cli.kernel.results import Complete
from tests.support.scripts import call
from tests.support.turns import World

TOUCH = [call("Bash", command=f"touch x{number}") for number in range(3)]


class Watched(World):
    """Notes what is there while each question is open."""

    def __init__(self, root: Path, calls: list[dict[str, Any]], answers: list[Answer], **deps: Any) -> None:
        super().__init__(root, [{"calls": calls}, {"text": "Done."}], answers, **{"attended": True, **deps})
        self.there: list[set[str]] = []

    def _answer(self, request: ApprovalRequested) -> Answer:
        self.there.append({path.name for path in self.root.iterdir()})
        return super()._answer(request)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "w").mkdir()
    return tmp_path / "w"


def test_a_call_that_is_allowed_runs_before_the_next_question(root: Path) -> None:
    world = Watched(root, TOUCH, [Approve(), Approve(), Approve()])
    assert isinstance(world.turn(), Complete)
    assert world.there == [set(), {"x0"}, {"x0", "x1"}]
    # All are announced before the first is decided, so that a front end can say how many there are.
    kinds = [kind(event) for event in world.events if kind(event)]
    assert kinds == ["ask", "ask", "ask", "yes", "run", "yes", "run", "yes", "run"]


def kind(event: Event) -> str:
    names = {ApprovalRequested: "ask", ApprovalResolved: "yes", ToolStarted: "run"}
    return next((name for cls, name in names.items() if isinstance(event, cls)), "")


def test_without_a_user_who_watches_all_are_decided_before_one_runs(root: Path) -> None:
    world = Watched(root, TOUCH, [Approve(), Approve(), Approve()], attended=False)
    assert isinstance(world.turn(), Complete)
    assert world.there == [set()] * 3


def test_nothing_is_asked_twice_because_of_a_call_that_ran_before_it(root: Path) -> None:
    (root / "a.txt").write_text("one\n")
    (root / "x.sh").write_text("echo more >> a.txt\n")
    calls = [call("Bash", command="sh x.sh"), call("Bash", command="rm a.txt")]
    world = Watched(root, calls, [Approve(), Approve()])
    assert isinstance(world.turn(), Complete)
    assert len(world.asked) == 2 and not (root / "a.txt").exists()
    assert not any(fact.startswith("changed since") for fact in world.asked[1].facts)


@pytest.mark.parametrize(("reason", "asked", "made"), [("use mktemp", 2, {"x0"}), ("", 3, {"x0", "x2"})])
def test_a_refusal_with_a_comment_skips_the_rest(root: Path, reason: str, asked: int, made: set[str]) -> None:
    world = Watched(root, TOUCH, [Approve(), Reject(reason), Approve()])
    assert isinstance(world.turn(), Complete)
    assert len(world.asked) == asked and {path.name for path in root.iterdir()} == made
    results = [result.text for result in world.results]
    assert len(results) == 3 and ("Not run: the user refused" in results[2]) == bool(reason)


def test_a_mode_that_is_chosen_at_a_call_spares_the_questions_behind_it(root: Path) -> None:
    calls = [call("Write", file_path=f"n{number}", content="x\n") for number in range(3)]
    world = Watched(root, calls, [Approve(mode="acceptEdits")])
    assert isinstance(world.turn(), Complete)
    assert len(world.asked) == 1 and {path.name for path in root.iterdir()} == {"n0", "n1", "n2"}
