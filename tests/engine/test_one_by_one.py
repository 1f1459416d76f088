"""A user who watches decides on one call of an answer after the other, and each runs when it is allowed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_cli.kernel.decisions import Answer, Approve, Reject
from agent_cli.kernel.events import ApprovalRequested, ApprovalResolved, Event, ToolStarted
from agent_cli.kernel.results import Complete
from agent_tools.base import Effect, Tool, ToolContext, ToolResult
from agent_tools.record import Value
from agent_tools.registry import BUILTIN
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


class PageArgs(Value):
    """The arguments of Page."""

    site: str


class Page(Tool[PageArgs]):
    """Reads a page, which arrives when the test wants it."""

    name = "Page"
    Args = PageArgs
    parallel_safe = True
    granted_whole = True

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.begins = threading.Condition()
        self.arrives: dict[str, threading.Event] = {}

    def effects(self, args: PageArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        return (Effect("fetch", f"https://{args.site}.example/"),)

    def summary(self, args: PageArgs, ctx: ToolContext) -> str:
        return f"Page {args.site}"

    def run(self, args: PageArgs, ctx: ToolContext) -> ToolResult:
        with self.begins:
            self.begun.append(args.site)
            self.begins.notify_all()
        if (arrives := self.arrives.get(args.site)) is not None:
            assert arrives.wait(60)
        return ToolResult(f"page {args.site}")

    def wait_for(self, *names: str) -> None:
        """Wait until these calls have begun."""
        with self.begins:
            assert self.begins.wait_for(lambda: set(names) <= set(self.begun), 60)


class Beside(Watched):
    """Does something while each question is open."""

    def __init__(
        self, root: Path, calls: list[dict[str, Any]], answers: list[Answer], page: Page, *during: Callable[[], None]
    ) -> None:
        super().__init__(root, calls, answers, tools=(*BUILTIN, page))
        self.during = list(during)

    def _answer(self, request: ApprovalRequested) -> Answer:
        if self.during:
            self.during.pop(0)()
        return super()._answer(request)


def texts(world: World) -> list[str]:
    return [result.text for result in world.results]


def write(name: str) -> dict[str, Any]:
    return call("Write", file_path=name, content="x\n")


def test_a_call_that_only_reads_begins_when_it_is_allowed_and_the_next_question_comes_at_once(root: Path) -> None:
    page = Page()
    page.arrives = {"a": threading.Event(), "b": threading.Event()}

    def while_c_is_asked() -> None:
        page.wait_for("a", "b")
        for arrives in page.arrives.values():
            arrives.set()

    calls = [call("Page", site=name) for name in "abc"]
    answers: list[Answer] = [Approve(), Approve(), Approve()]
    world = Beside(root, calls, answers, page, lambda: None, lambda: page.wait_for("a"), while_c_is_asked)
    assert isinstance(world.turn(), Complete)
    assert texts(world) == ["page a", "page b", "page c"] and len(world.asked) == 3


@pytest.mark.parametrize("order", [("a", "n0"), ("n0", "a")])
def test_an_allowed_call_runs_while_the_user_decides_on_an_edit(root: Path, order: tuple[str, str]) -> None:
    page = Page()
    page.arrives = {"a": threading.Event()}

    def while_the_edit_is_asked() -> None:
        page.wait_for("a")
        assert not page.arrives["a"].is_set()
        page.arrives["a"].set()

    calls = [call("Page", site=name) if name == "a" else write(name) for name in order]
    world = Beside(root, calls, [Approve()], page, while_the_edit_is_asked)
    world.policy.grant("Page")
    assert isinstance(world.turn(), Complete)
    assert (root / "n0").exists() and len(world.asked) == 1
    assert texts(world).index("page a") == order.index("a")


def test_a_question_waits_for_a_command_before_it_and_for_an_edit_of_the_same_file(root: Path) -> None:
    (root / "a.txt").write_text("one\n")
    edits = [
        call("Read", file_path="a.txt"),
        call("Edit", file_path="a.txt", old_string="one", new_string="two"),
        call("Edit", file_path="a.txt", old_string="two", new_string="three"),
        call("Bash", command="cp a.txt b.txt"),
        call("Edit", file_path="a.txt", old_string="three", new_string="four"),
    ]
    world = Watched(root, edits, [Approve()] * 4)
    assert isinstance(world.turn(), Complete)
    assert len(world.asked) == 4
    assert (root / "a.txt").read_text() == "four\n" and (root / "b.txt").read_text() == "three\n"
    assert not any("changed since" in fact for request in world.asked for fact in request.facts)


def test_a_refusal_with_a_comment_ends_the_questions_while_a_call_still_runs(root: Path) -> None:
    page = Page()
    page.arrives = {"a": threading.Event()}
    calls = [call("Page", site="a"), write("n0"), write("n1")]
    world = Beside(root, calls, [Reject("use n2")], page, page.arrives["a"].set)
    world.policy.grant("Page")
    assert isinstance(world.turn(), Complete)
    assert len(world.asked) == 1 and not (root / "n1").exists()
    assert texts(world)[0] == "page a" and "use n2" in texts(world)[1] and "Not run" in texts(world)[2]


def test_a_rule_that_is_saved_at_a_call_spares_the_questions_while_the_call_runs(root: Path) -> None:
    page = Page()
    page.arrives = {"a": threading.Event()}
    calls = [call("Page", site=name) for name in "ab"]
    world = Beside(root, calls, [Approve(rule="Page")], page, page.arrives["a"].set)
    assert isinstance(world.turn(), Complete)
    assert len(world.asked) == 1 and texts(world) == ["page a", "page b"]
