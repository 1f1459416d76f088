"""/tdd: the order of work is kept by what was seen, with a real pytest and a real git."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_cli.kernel.decisions import Approve, QuestionReply
from agent_cli.kernel.events import QuestionAsked, TurnPaused, Warned
from agent_cli.kernel.results import Complete, Suspended
from agent_cli.knowledge.tdd import _COMMIT, _TEST
from agent_tools.results import TurnOverrides
from tests.support.scripts import call
from tests.support.turns import World

LENT = TurnOverrides(flow="tdd", source="/tdd")
TESTS = f"{sys.executable} -m pytest -q -p no:cacheprovider test_add.py"
PLAN = call("TodoWrite", todos=[{"content": c} for c in ("tests: add", "code: add")])
RED = call(
    "Write", file_path="test_add.py", content="from add import add\n\ndef test_add():\n    assert add(1, 2) == 3\n"
)
WRONG = call("Write", file_path="add.py", content="def add(a, b):\n    return a\n")
GREEN = call("Write", file_path="add.py", content="def add(a, b):\n    return a + b\n")
RUN = call("Bash", command=TESTS)
COMMIT = call("Bash", command="git add add.py test_add.py && git commit -q -m 'Add numbers'")
DONE = call("PlanProgress", plan_status="completed")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for words in (["init", "-q"], ["config", "user.email", "a@b.c"], ["config", "user.name", "A"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    return tmp_path.resolve()


class Person:
    """Approves the plan; answers reviews in order, else goes on."""

    def __init__(self, *reviews: QuestionReply) -> None:
        self.reviews = list(reviews)
        self.asked: list[QuestionAsked] = []

    def __call__(self, asked: QuestionAsked) -> QuestionReply:
        self.asked.append(asked)
        return self.reviews.pop(0) if asked.kind == "review" and self.reviews else QuestionReply("approve")


def world(root: Path, calls: list[Any], person: Person, **deps: Any) -> World:
    replies = [c if isinstance(c, dict) and "text" in c else {"calls": [c]} for c in calls]
    story = World(root, replies, mode="acceptEdits", allow=("Bash",), asker=person, **deps)
    story.deps.context.env["PATH"] = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    # The plugins that are installed for this suite take half of the time of a run that has no use for them.
    story.deps.context.env["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    return story


def test_the_whole_road(root: Path) -> None:
    person = Person()
    story = world(root, [PLAN, RED, RUN, GREEN, RUN, COMMIT, DONE, {"text": "Added."}], person)
    story.answers = [Approve()]
    result = story.turn(overrides=LENT)
    assert isinstance(result, Complete) and result.text == "Added."
    assert [(a.kind) for a in person.asked] == ["plan", "review"]
    review = person.asked[1].data
    assert "fail, as they should" in review["title"] and "test_add.py" in review["title"]
    (diff,) = review["diffs"]
    assert diff["path"] == "test_add.py" and "+    assert add(1, 2) == 3" in diff["patch"]
    [commit] = story.asked
    assert commit.reason == f"commits; `{TESTS}` was seen failing, then passing"
    log = subprocess.run(["git", "log", "--format=%s"], cwd=root, capture_output=True, text=True, check=True)
    assert log.stdout == "Add numbers\n"
    assert not story.of(Warned)
    assert not [r for r in story.policy.rules if r.source == "/tdd"]


def test_what_comes_too_early_is_refused_with_the_next_step(root: Path) -> None:
    steps = [RED, PLAN, GREEN, COMMIT, RUN, RED, GREEN, RUN, WRONG, COMMIT, RUN, GREEN, RUN, {"text": "Enough?"}]
    story = world(root, steps, Person())
    story.turn(overrides=LENT)
    texts = [m.text for m in story.results]
    refused = [n for n, m in enumerate(story.results) if m.text.startswith("/tdd:")]
    assert refused == [0, 2, 3, 6, 9]
    assert "Propose the plan" in texts[0]
    assert "add.py is not a test file" in texts[2]
    assert "it is too early to commit. Write the tests" in texts[3]
    assert "seen failing" not in texts[4], "before there are tests, a failing run shows nothing"
    assert "seen failing" in texts[7]
    assert f"it is too early to commit. Make `{TESTS}` pass" in texts[9]
    assert "seen passing" not in texts[10] and "seen passing" in texts[12]


def test_the_word_of_the_model_is_no_evidence(root: Path) -> None:
    found = {"text": "The tests were red, and now they are green. All done."}
    story = world(root, [PLAN, *[found] * 12], Person())
    result = story.turn(overrides=LENT, plan_nudges=0)
    assert isinstance(result, Complete)
    assert [w.text for w in story.of(Warned)] == ["/tdd ends early: the tests were not seen failing."]


@pytest.mark.parametrize(
    ("command", "counts"),
    [
        (f"{TESTS} | tail -1", False),
        (f"{TESTS}; true", False),
        (f"{TESTS} || true", False),
        (f"true && {TESTS} 2>&1", True),
        (f"{TESTS} --no-such-option", False),
        (f"{sys.executable} -m pytest -q -p no:cacheprovider empty", False),
        ("/no/such/place/pytest", False),
        ("false", False),
        (f"false && {TESTS}", False),
        (f"cd . && X=1 {TESTS}", True),
        (f"{sys.executable} -m mypy test_add.py", False),
        ("make build", False),
    ],
)
def test_what_counts_as_seen_failing(root: Path, command: str, counts: bool) -> None:
    (root / "empty").mkdir()
    story = world(root, [PLAN, RED, call("Bash", command=command), {"text": "So?"}], Person())
    story.answers = [Approve()]
    story.turn(overrides=LENT)
    assert ("seen failing. The user reviews" in story.results[2].text) == counts, story.results[2].text


def test_tests_that_pass_at_once_ask_for_nothing(root: Path) -> None:
    easy = call("Write", file_path="test_add.py", content="def test_nothing():\n    pass\n")
    story = world(root, [PLAN, easy, RUN, GREEN, {"text": "So?"}], Person())
    story.turn(overrides=LENT)
    assert "pass already" in story.results[2].text
    assert story.results[3].text.startswith("/tdd: add.py is not a test file")


def test_words_at_the_review_lead_back_to_the_tests(root: Path) -> None:
    person = Person(QuestionReply("revise", "test negative numbers too"))
    more = call("Edit", file_path="test_add.py", old_string="(1, 2) == 3", new_string="(-1, 2) == 1")
    story = world(root, [PLAN, RED, RUN, GREEN, GREEN, more, RUN, GREEN, RUN, {"text": "Right?"}], person)
    story.turn(overrides=LENT)
    assert "said: test negative numbers too" in story.results[3].text
    assert story.results[4].text.startswith("/tdd: add.py is not a test file")
    assert [a.kind for a in person.asked] == ["plan", "review", "review"]
    assert "seen passing" in story.results[8].text


def test_tests_changed_after_the_review_are_named_at_the_commit(root: Path) -> None:
    weaker = call("Edit", file_path="test_add.py", old_string="== 3", new_string="== 1")
    story = world(root, [PLAN, RED, RUN, WRONG, weaker, RUN, COMMIT, DONE, {"text": "Done."}], Person())
    story.answers = [Approve()]
    story.turn(overrides=LENT)
    assert story.asked[0].reason.endswith("; tests changed after you saw them: test_add.py")


def test_commands_that_may_write_are_asked_about_before_the_review(root: Path) -> None:
    sneak = call("Bash", command="printf 'x' > add.py")
    look = call("Bash", command="git status --short")
    story = world(root, [PLAN, sneak, look, {"text": "So?"}], Person())
    story.answers = [Approve()]
    story.turn(overrides=LENT)
    assert [a.reason for a in story.asked] == ["runs before the tests were seen failing, and may change files"]


def test_a_sub_agent_keeps_the_order_too(root: Path) -> None:
    task = call("Task", subagent_type="general", description="do", prompt="write add.py")
    story = world(root, [PLAN, task, GREEN, {"text": "I could not."}, {"text": "So?"}], Person())
    story.turn(overrides=LENT)
    assert not (root / "add.py").exists()


def test_it_goes_on_after_a_pause_in_another_process(root: Path) -> None:
    from agent_cli.kernel.decisions import Defer

    story = world(root, [PLAN, RED, RUN, GREEN, RUN, {"text": "Good?"}], Person(Defer()))  # type: ignore[arg-type]
    assert isinstance(story.turn(overrides=LENT), Suspended)
    [paused] = story.of(TurnPaused)
    assert not (root / "add.py").exists()
    assert isinstance(story.turn(None, suspended_state=paused.kept, spent=paused.spent), Complete)
    assert "seen passing" in story.results[-1].text


def test_what_is_a_file_of_tests_and_what_a_commit() -> None:
    import re

    tests = (
        "tests/a.py test_a.py a_test.go src/__tests__/x.ts x.spec.ts x.test.jsx spec/a.rb FooTest.java FooIT.java t/a.t"
    )
    others = "a.py contest.py latest.go src/testify.py spectrum.rb attest.ts Protest/x.c.py docs/testing.md"
    assert all(re.search(_TEST, name) for name in tests.split())
    assert [n for n in others.split() if re.search(_TEST, n)] == []
    assert all(re.search(_COMMIT, c) for c in ("git commit", "git -C x commit -m y", "cd x && git commit"))
    assert not any(re.search(_COMMIT, c) for c in ("git log", "echo commit", "git status; echo commit"))
