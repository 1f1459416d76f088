"""Turns that would run away: repeated calls, failures, refusals, floods of calls, and ids that clash."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_cli.kernel.decisions import Approve, Defer, QuestionReply, Reject
from agent_cli.kernel.events import ApprovalRequested, QuestionAsked, ToolStarted, TurnPaused, Warned
from agent_cli.kernel.messages import AssistantMessage
from agent_cli.kernel.results import Complete, Failed, Failure, LimitReached, Limits
from agent_cli.models.base import Chunk, Notice, Request
from agent_cli.models.scripted import ScriptedClient
from agent_tools.cancel import CancelToken
from tests.support.scripts import call
from tests.support.turns import World

READ = call("Read", file_path="a.txt")


def test_a_read_of_an_unchanged_file_is_not_run_again_but_pointed_to(root: Path) -> None:
    world = World(root, [{"calls": [READ]}, {"calls": [READ]}, {"text": "Ok."}])
    assert isinstance(world.turn(), Complete)
    assert len(world.of(ToolStarted)) == 1
    skipped = "Skipped: unchanged since your last Read above, which was the same call. Use its result."
    assert world.results[1].text == skipped


def test_a_read_of_a_changed_file_is_run_again(root: Path) -> None:
    write = call("Bash", command="echo more >> a.txt")
    world = World(root, [{"calls": [READ]}, {"calls": [write]}, {"calls": [READ]}, {"text": "Ok."}], allow=("Bash",))
    world.turn()
    assert "more" in world.results[2].text


def test_commands_are_never_suppressed_only_named(root: Path) -> None:
    run = {"calls": [call("Bash", command="echo same")]}
    world = World(root, [run] * 4 + [{"text": "Ok."}], allow=("Bash",))
    assert isinstance(world.turn(), Complete)
    assert len(world.of(ToolStarted)) == 4
    assert ["3 times in a row" in r.text for r in world.results] == [False, False, True, False]


class Asked:
    """A user who is asked at a limit and answers with these words, in order."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.questions: list[str] = []

    def __call__(self, asked: QuestionAsked) -> QuestionReply:
        (question,) = asked.data["questions"]
        self.questions.append(question["question"])
        return QuestionReply("answer", f"{question['question']} -> {self.answers.pop(0)}")


def test_sixty_identical_reads_are_a_loop(root: Path) -> None:
    world = World(root, [{"calls": [READ]}] * 60 + [{"text": "Ok."}])
    result = world.turn()
    assert isinstance(result, LimitReached)
    assert result.end.diagnostics.terminal_reason == "repetition"
    assert sum("times in a row" in r.text for r in world.results) == 1
    assert len(world.results) < 10


@pytest.mark.parametrize("length", [2, 3, 6])
def test_calls_in_turns_are_a_loop_named_once_and_then_ended(root: Path, length: int) -> None:
    cycle = [{"calls": [call("Bash", command=f"echo {n}")]} for n in range(length)]
    world = World(root, cycle * 50 + [{"text": "Ok."}], allow=("Bash",))
    result = world.turn()
    assert isinstance(result, LimitReached)
    assert result.cap == "repetition"
    lines = [r.text for r in world.results if "times in a row" in r.text]
    assert len(lines) == 1
    assert f"This cycle of {length} calls gave the same result 3 times in a row" in lines[0]
    # The last was called when only a summary was wanted.
    assert len(world.results) == 5 * length + 1


def test_the_same_calls_in_one_answer_are_one_attempt(root: Path) -> None:
    run = call("Bash", command="echo same")
    world = World(root, [{"calls": [run] * 8}, {"calls": [run] * 8}, {"text": "Ok."}], allow=("Bash",))
    assert isinstance(world.turn(), Complete)
    assert not any("times in a row" in r.text for r in world.results)


def test_where_the_user_watches_a_loop_asks_and_their_words_reach_the_model(root: Path) -> None:
    run = {"calls": [call("Bash", command="echo same")]}
    user = Asked("look at a.txt instead", "Stop")
    replies = [*[run] * 5, {"expect": "look at a.txt instead", **run}, *[run] * 4, {"text": "I am stuck."}]
    world = World(root, replies, allow=("Bash",), attended=True, asker=user)
    result = world.turn()
    assert isinstance(result, LimitReached)
    assert result.cap == "repetition"
    assert user.questions == ["The model repeats the same calls with the same results. Continue?"] * 2


def test_a_loop_is_counted_over_a_pause(root: Path) -> None:
    run = {"calls": [call("Bash", command="echo same")]}
    world = World(root, [*[run] * 4, {"calls": [call("Bash", command="rm a.txt")]}], [Defer()], allow=("Bash(echo:*)",))
    world.turn()
    (paused,) = world.of(TurnPaused)
    assert len(paused.spent.recent) == 4


def test_greps_without_a_match_end_nothing(root: Path) -> None:
    greps = [{"calls": [call("Bash", command=f"grep nothing{n} a.txt")]} for n in range(8)]
    world = World(root, [*greps, {"text": "It is not there."}], allow=("Bash",))
    assert isinstance(world.turn(), Complete)
    assert not any(r.is_error for r in world.results)
    assert "exit code 1" in world.results[0].text


def test_the_time_limit_ends_a_command_that_has_begun_and_leaves_a_summary(root: Path) -> None:
    """The clock jumps once the command runs; what it had printed is lost, what it had done is not."""

    def clock() -> float:
        return 100.0 if (root / "began").exists() else 0.0

    replies = [{"calls": [call("Bash", command="touch began; sleep 100; touch made")]}, {"text": "Out of time."}]
    world = World(root, replies, allow=("Bash",), clock=clock)
    result = world.turn(limits=Limits(seconds=50.0))
    assert isinstance(result, LimitReached)
    assert (result.cap, result.text) == ("duration", "Out of time.")
    assert "ended at the time limit of this turn after" in world.results[0].text
    assert not (root / "made").exists()


def test_the_time_a_user_takes_does_not_count(root: Path) -> None:
    now = [0.0]

    def slowly(request: ApprovalRequested) -> Approve:
        now[0] += 1000.0
        return Approve()

    world = World(root, [{"calls": [call("Bash", command="touch made")]}, {"text": "Ok."}], clock=lambda: now[0])
    world.deps = world.deps.replace(approver=slowly)
    assert isinstance(world.turn(limits=Limits(seconds=50.0)), Complete)
    assert (root / "made").exists()


def test_missing_files_side_by_side_are_one_failed_round(root: Path) -> None:
    reads = [call("Read", file_path=f"gone{n}") for n in range(7)]
    world = World(root, [{"calls": reads}, {"calls": [READ]}, {"text": "Ok."}])
    assert isinstance(world.turn(), Complete)


def test_the_model_is_warned_before_failures_end_the_turn(root: Path) -> None:
    bad: list[dict[str, Any]] = [{"calls": [call("Read", file_path=f"gone{n}")]} for n in range(5)]
    bad[3]["expect"] = "No call of the last 3 rounds succeeded"
    world = World(root, [*bad, {"text": "I give up."}])
    result = world.turn(limits=Limits(failures=5))
    assert isinstance(result, LimitReached)
    assert result.end.diagnostics.terminal_reason == "max_failures"


def test_a_search_that_fails_for_long_does_not_end_the_turn(root: Path) -> None:
    bad: list[dict[str, Any]] = [{"calls": [call("Read", file_path=f"gone{n}")]} for n in range(24)]
    bad[3]["expect"] = "No call of the last 3 rounds succeeded"
    bad[10]["expect"] = "No call of the last 10 rounds succeeded"
    bad[23]["expect"] = "No call of the last 23 rounds succeeded"
    world = World(root, [*bad, {"calls": [READ]}, {"text": "Found."}])
    assert isinstance(world.turn(), Complete)


def test_where_the_user_watches_failures_ask_instead_of_ending(root: Path) -> None:
    bad = [{"calls": [call("Read", file_path=f"gone{n}")]} for n in range(9)]
    user = Asked("Continue")
    world = World(root, [*bad, {"text": "Ok."}], attended=True, asker=user)
    assert isinstance(world.turn(limits=Limits(failures=5)), Complete)
    assert user.questions == ["Nothing succeeded in 5 rounds in a row. Continue?"]


def test_where_the_user_watches_refusals_ask_too_and_are_counted_anew(root: Path) -> None:
    run = {"calls": [call("Bash", command="rm a.txt")]}
    user = Asked("Continue")
    world = World(root, [run] * 5 + [{"text": "I may not."}], [Reject()] * 5, attended=True, asker=user)
    assert isinstance(world.turn(), Complete)
    assert user.questions == ["The same call was refused 3 times. Continue?"]


def test_a_user_who_leaves_such_a_question_open_interrupts_the_turn(root: Path) -> None:
    bad = [{"calls": [call("Read", file_path=f"gone{n}")]} for n in range(9)]
    world = World(root, bad, attended=True, asker=lambda asked: Defer())
    result = world.turn(limits=Limits(failures=5))
    assert isinstance(result, Failed) and result.end.diagnostics.terminal_reason == "interrupted"


def test_where_nobody_watches_a_circle_ends_the_turn(root: Path) -> None:
    run = {"calls": [call("Bash", command="echo same")]}
    world = World(root, [run] * 5 + [{"text": "I am stuck."}], allow=("Bash",))
    result = world.turn()
    assert isinstance(result, LimitReached)
    assert (result.cap, result.text, result.end.diagnostics.terminal_reason) == (
        "repetition",
        "I am stuck.",
        "repetition",
    )


def test_different_results_are_no_circle(root: Path) -> None:
    run = {"calls": [call("Bash", command="echo x >> log; wc -l < log")]}
    world = World(root, [run] * 7 + [{"text": "Ok."}], allow=("Bash",))
    assert isinstance(world.turn(), Complete)
    assert not world.of(Warned)


def test_failures_in_a_row_end_the_turn_and_a_success_starts_anew(root: Path) -> None:
    bad = [{"calls": [call("Read", file_path=f"gone{n}")]} for n in range(8)]
    world = World(root, [*bad[:2], {"calls": [READ]}, *bad[2:4], {"text": "Ok."}])
    assert isinstance(world.turn(limits=Limits(failures=3)), Complete)
    world = World(root, [*bad[:3], {"text": "I cannot find it."}])
    result = world.turn(limits=Limits(failures=3))
    assert isinstance(result, LimitReached)
    assert result.cap == "failures"


def test_the_same_refusal_again_and_again_ends_the_turn(root: Path) -> None:
    run = {"calls": [call("Bash", command="rm a.txt")]}
    world = World(root, [run, run, run, {"text": "I may not."}], [Reject(), Reject(), Reject()])
    result = world.turn()
    assert isinstance(result, LimitReached)
    assert (result.cap, result.end.diagnostics.terminal_reason) == ("denials", "max_denials")
    others = [{"calls": [call("Bash", command=f"rm {n}")]} for n in range(4)]
    world = World(root, [*others, {"text": "Ok."}], [Reject()] * 4)
    assert isinstance(world.turn(), Complete)


def test_the_bound_of_calls_holds_within_a_round(root: Path) -> None:
    flood = [call("Bash", command=f"echo {n} >> log") for n in range(100)]
    world = World(root, [{"calls": flood}, {"text": "Too many."}], allow=("Bash",))
    result = world.turn(limits=Limits(tool_calls=10))
    assert isinstance(result, LimitReached)
    assert (root / "log").read_text().split() == [str(n) for n in range(10)]
    assert len(world.results) == 100
    assert all("limit of tool calls" in r.text for r in world.results[10:])


def test_ids_that_clash_or_are_missing_are_made_unlike(root: Path) -> None:
    def with_id(call_id: str) -> dict[str, Any]:
        return {**call("Glob", pattern=f"*{call_id}*"), "id": call_id}

    world = World(
        root, [{"calls": [with_id("x"), with_id("x"), with_id("")]}, {"calls": [with_id("x")]}, {"text": "Ok."}]
    )
    assert isinstance(world.turn(), Complete)
    ids = [c.id for m in world.history if isinstance(m, AssistantMessage) for c in m.calls]
    assert ids == ["x", "x-2", "call", "x-3"]
    assert [r.call_id for r in world.results] == ids


def test_names_are_made_fit_to_be_sent_back(root: Path) -> None:
    world = World(root, [{"calls": [{"name": "No such/tool!", "arguments": {}}]}, {"text": "Ok."}])
    assert isinstance(world.turn(), Complete)
    assert world.results[0].name == "No_such_tool_"


def test_an_edit_that_builds_on_another_is_proposed_once_it_can_be_shown(root: Path) -> None:
    first = call("Edit", file_path="a.txt", old_string="hello", new_string="good day")
    second = call("Edit", file_path="a.txt", old_string="good day", new_string="goodbye")
    run = call("Bash", command="sh a.txt; cat a.txt")
    replies = [{"calls": [READ]}, {"calls": [first, second, run]}, {"text": "Ok."}]
    world = World(root, replies, [Approve(), Approve(), Approve()])
    assert isinstance(world.turn(), Complete)
    assert (root / "a.txt").read_text() == "goodbye world\n"
    asked = [r.call_id for r in world.of(ApprovalRequested)]
    assert asked == ["call-2-1", "call-2-3", "call-2-2"]
    assert "goodbye" in world.results[-1].text


def test_an_edit_behind_the_command_that_makes_its_file_waits_for_it(root: Path) -> None:
    make = call("Bash", command="echo one > made.txt; cat made.txt")
    edit = call("Write", file_path="made.txt", content="two\n")
    change = call("Edit", file_path="made.txt", old_string="two", new_string="three")
    replies = [{"calls": [make, edit, change]}, {"text": "Ok."}]
    world = World(root, replies, [Approve()] * 4)
    world.deps.context.require_read_first = False
    assert isinstance(world.turn(), Complete)
    # The command made the file that the write was first shown as creating, so the write was shown again.
    assert [r.call_id for r in world.of(ApprovalRequested)] == ["call-1-1", "call-1-2", "call-1-2", "call-1-3"]
    assert (root / "made.txt").read_text() == "three\n"


def test_what_changes_between_the_question_and_the_answer_is_asked_again(root: Path) -> None:
    edit = call("Edit", file_path="a.txt", old_string="hello", new_string="bye")
    world = World(root, [{"calls": [READ]}, {"calls": [edit]}, {"text": "Ok."}])
    answers: list[str] = []

    def slow(request: ApprovalRequested) -> Approve:
        answers.append(request.binding)
        if len(answers) == 1:
            (root / "a.txt").write_text("hello, changed meanwhile\n")
        return Approve()

    world.deps = world.deps.replace(approver=slow)
    assert isinstance(world.turn(), Complete)
    assert len(answers) == 2 and answers[0] != answers[1]
    assert (root / "a.txt").read_text() == "bye, changed meanwhile\n"
    assert "+hello, changed meanwhile" in world.results[-1].text


class Busy:
    """A client of an overloaded provider: it announces a pause of ten minutes, and then answers."""

    def __init__(self, client: ScriptedClient, now: list[float]) -> None:
        self._client, self._now = client, now

    def stream(self, request: Request, cancel: CancelToken) -> Iterator[Chunk]:
        failure = Failure("overloaded", "Overloaded", retryable=True)
        yield Notice("Overloaded; trying again in 600 s (1)", 600.0, (1, 5, failure))
        self._now[0] += 600.0
        yield from self._client.stream(request, cancel)

    def close(self) -> None: ...


@pytest.mark.parametrize("attended", [True, False])
def test_the_pauses_of_an_overloaded_provider_do_not_count_while_a_user_watches(root: Path, *, attended: bool) -> None:
    now = [0.0]
    replies = [{"calls": [call("Read", file_path="a.txt")]}, {"text": "Read."}, {"text": "Out of time."}]
    world = World(root, replies, clock=lambda: now[0], attended=attended)
    world.deps = world.deps.replace(client=Busy(world.model, now))
    result = world.turn(limits=Limits(seconds=50.0))
    assert isinstance(result, Complete) == attended, result
