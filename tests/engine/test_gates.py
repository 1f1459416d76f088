"""Review gates: where a turn pauses for a user, what they are shown, and what their words do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_cli.kernel.decisions import Approve, Defer, QuestionReply
from agent_cli.kernel.events import QuestionAsked, TurnPaused
from agent_cli.kernel.messages import UserMessage
from agent_cli.kernel.results import Complete, Failed, Suspended
from tests.support.plans import plan
from tests.support.scripts import call
from tests.support.turns import World

HALF = plan("completed", "in_progress")
DONE = plan("completed", "completed")


class Person:
    """Answers gates in order, and keeps what was shown."""

    def __init__(self, *replies: QuestionReply | Defer) -> None:
        self.replies = list(replies)
        self.shown: list[dict[str, Any]] = []

    def __call__(self, asked: QuestionAsked) -> QuestionReply | Defer:
        assert asked.kind == "review"
        self.shown.append(asked.data)
        return self.replies.pop(0)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    return tmp_path


def write(name: str, text: str = "x\n") -> dict[str, Any]:
    return call("Write", file_path=name, content=text)


def world(root: Path, replies: list[dict[str, Any]], person: Person, **deps: Any) -> World:
    return World(root, replies, mode="acceptEdits", asker=person, allow=("Bash(echo:*)",), **deps)


def test_each_finished_step_is_put_to_the_person_with_what_changed(root: Path) -> None:
    person = Person(QuestionReply("approve"), QuestionReply("approve", "and mind the docs"))
    echo = call("Bash", command="echo hi")
    replies = [
        {"calls": [plan("in_progress", "pending")]},
        {"calls": [write("b.txt", "1\n2\n"), write("b.txt", "1\n"), echo]},
        {"calls": [HALF]},
        {"calls": [call("PlanProgress", plan_status="completed")]},
        {"text": "Done."},
    ]
    story = world(root, replies, person)
    assert isinstance(story.turn(review="step"), Complete)
    assert [shown["steps"] for shown in person.shown] == [["step 1"], ["step 2"]]
    first, second = person.shown
    assert first["files"] == [{"path": "b.txt", "added": 2, "removed": 1}]
    assert first["commands"] == ["echo hi"]
    assert second["files"] == [] and second["commands"] == []
    assert "reviewed this step and approved it" in story.results[4].text
    assert "They said: and mind the docs" in story.results[5].text


def test_the_diff_is_shown_and_bounded(root: Path) -> None:
    person = Person(Defer(), QuestionReply("approve"), QuestionReply("approve"))
    edit = call("Edit", file_path="a.txt", old_string="one", new_string="1")
    again = call("Edit", file_path="a.txt", old_string="two", new_string="2")
    large = write("large.txt", "".join(f"line {n}\n" for n in range(9_000)))
    read = call("Read", file_path="a.txt")
    replies = [{"calls": [read, edit, again]}, {"calls": [large]}, {"calls": [read]}, {"text": "Done."}]
    story = world(root, replies, person)
    story.turn(review="files")
    kept = story.of(TurnPaused)[0].kept
    assert isinstance(story.turn(None, review="files", suspended_state=kept), Complete)
    waited, shown, big = person.shown
    assert waited["diffs"] == shown["diffs"]
    (diff,) = shown["diffs"]
    assert (diff["path"], diff["added"], diff["removed"]) == ("a.txt", 2, 2)
    assert all(f"\n{line}\n" in f"\n{diff['patch']}\n" for line in ("-one", "+1", "-two", "+2"))
    assert len(big["diffs"][0]["patch"]) < 15_000 and big["diffs"][0]["patch"].endswith("(cut here; see /diff)")


def test_words_send_a_step_back(root: Path) -> None:
    person = Person(QuestionReply("revise", "name it c.txt"), QuestionReply("approve"))
    replies = [{"calls": [plan("in_progress", "pending")]}, {"calls": [HALF]}, {"calls": [HALF]}, {"text": "Ok?"}]
    story = world(root, replies, person, attended=True)
    story.turn(review="step")
    sent_back = story.results[1]
    assert sent_back.is_error and "said: name it c.txt" in sent_back.text
    assert [t.status for t in story.deps.context.plan] == ["completed", "in_progress"]


def test_no_ends_the_work_with_every_call_answered(root: Path) -> None:
    person = Person(QuestionReply("cancel"))
    story = world(root, [{"calls": [plan("in_progress", "pending")]}, {"calls": [HALF, write("b.txt")]}], person)
    result = story.turn(review="step")
    assert isinstance(result, Failed) and result.end.diagnostics.terminal_reason == "cancelled"
    assert len(story.results) == 3
    assert not (root / "b.txt").exists()


def test_a_set_of_changed_files_is_put_before_the_next_calls(root: Path) -> None:
    person = Person(QuestionReply("revise", "not like that"), QuestionReply("approve"))
    replies = [
        {"calls": [write("b.txt"), write("c.txt")]},
        {"calls": [write("d.txt"), call("Read", file_path="a.txt")]},
        {"calls": [write("e.txt")]},
        {"calls": [call("Read", file_path="a.txt")]},
        {"text": "Done."},
    ]
    story = world(root, replies, person)
    assert isinstance(story.turn(review="files"), Complete)
    assert [[f["path"] for f in shown["files"]] for shown in person.shown] == [["b.txt", "c.txt"], ["e.txt"]]
    assert [m.is_error for m in story.results] == [False, False, True, True, False, False]
    assert "said: not like that" in story.results[2].text
    assert not (root / "d.txt").exists()
    assert "reviewed the changes and approved them" in story.results[5].text


def test_who_leaves_at_the_last_look_leaves_the_turn_interrupted(root: Path) -> None:
    person = Person(Defer())
    story = world(root, [{"calls": [write("b.txt")]}, {"text": "Done."}], person, attended=True)
    result = story.turn(review="files")
    assert isinstance(result, Failed) and result.end.diagnostics.terminal_reason == "interrupted"


def test_in_a_session_the_last_changes_are_put_before_the_end(root: Path) -> None:
    person = Person(QuestionReply("revise", "one more"), QuestionReply("approve"))
    replies = [{"calls": [write("b.txt")]}, {"text": "Done."}, {"calls": [write("c.txt")]}, {"text": "Done again."}]
    story = world(root, replies, person, attended=True)
    result = story.turn(review="files")
    assert isinstance(result, Complete) and result.text == "Done again."
    assert len(person.shown) == 2
    assert [m.text for m in story.history if isinstance(m, UserMessage)] == ["go", "one more"]


def test_a_gate_waits_and_goes_on_where_it_was(root: Path) -> None:
    person = Person(Defer(), QuestionReply("approve"))
    replies = [{"calls": [write("b.txt")]}, {"calls": [write("c.txt"), write("d.txt")]}, {"text": "Done."}]
    story = world(root, replies, person)
    assert isinstance(story.turn(review="files"), Suspended)
    assert not (root / "c.txt").exists()
    [paused] = story.of(TurnPaused)
    result = story.turn(None, review="files", suspended_state=paused.kept, spent=paused.spent)
    assert isinstance(result, Complete)
    assert person.shown[0] == person.shown[1]
    assert (root / "d.txt").exists()


def test_an_approval_in_the_middle_of_a_round_is_no_gate(root: Path) -> None:
    person = Person()
    replies = [{"calls": [write("b.txt"), call("Bash", command="tee t")]}, {"text": "Done."}]
    story = world(root, replies, person)
    story.answers = [Defer()]
    assert isinstance(story.turn(review="files"), Suspended)
    [paused] = story.of(TurnPaused)
    story.answers = [Approve()]
    assert isinstance(story.turn(None, review="files", suspended_state=paused.kept, spent=paused.spent), Complete)
    assert (root / "t").exists()


def test_without_the_setting_nothing_is_watched(root: Path) -> None:
    story = world(root, [{"calls": [DONE]}, {"calls": [write("b.txt")]}, {"text": "Done."}], Person())
    assert isinstance(story.turn(), Complete)
