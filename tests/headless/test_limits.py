"""How a turn is bounded and how its end is reported, in the real program: connections, budgets, time, plans, cuts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_cli.kernel.results import Usage
from tests.support.model_server import Call, ModelServer, Reply
from tests.support.program import agent
from tests.support.scripts import call, script

FAST = {"AGENT_RETRIES": "3"}


DURING = "error_during_execution"


def steps(*marks: str) -> dict[str, Any]:
    return call("TodoWrite", todos=[{"content": f"step {n}", "status": mark} for n, mark in enumerate(marks, 1)])


def served(work: Path, server: ModelServer, *flags: str, provider: str = "openai") -> Any:
    env = {
        "OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url,
        "ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": server.anthropic_url, **FAST,
    }  # fmt: skip
    return agent(["-p", "--model", f"{provider}/some-model", *flags, "go"], work, env)


# A connection that breaks in the middle of an answer


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
@pytest.mark.parametrize("broken", [Reply(text="Half of an ans", hang_up="middle"), Reply(calls=(Call("Write", {
    "file_path": "made", "content": "x"}),), hang_up="middle")])  # fmt: skip
def test_an_answer_that_breaks_off_is_asked_for_again(work: Path, provider: str, broken: Reply) -> None:
    read = Reply(calls=(Call("Read", {"file_path": "a.txt"}),))
    with ModelServer([read, broken, Reply(text="It says hello.")]) as server:
        done = served(work, server, "--output-format", "json", provider=provider)
    found = json.loads(done.stdout)
    assert (found["outcome"], found["result"], found["degraded"]) == ("done", "It says hello.", False)
    assert "trying again" in done.stderr
    # The same request again: nothing of the broken answer is in it.
    assert server.requests[1].body["messages"] == server.requests[2].body["messages"]
    assert not (work / "made").exists()


def test_only_when_the_retries_are_spent_the_turn_is_degraded(work: Path) -> None:
    read = Reply(calls=(Call("Read", {"file_path": "a.txt"}),))
    with ModelServer([read, *[Reply(text="Half", hang_up="middle")] * 4]) as server:
        done = served(work, server, "--output-format", "json", "--fail-on-degraded")
    assert (done.returncode, json.loads(done.stdout)["outcome"]) == (75, "degraded")
    assert len(server.requests) == 5


@pytest.mark.parametrize("form", ["text", "json", "stream-json"])
@pytest.mark.parametrize("calls", [0, 1])
def test_words_before_a_final_cut_are_printed(work: Path, form: str, calls: int) -> None:
    read = [Reply(calls=(Call("Read", {"file_path": "a.txt"}),))] * calls
    with ModelServer([*read, *[Reply(text="The first half of it", hang_up="middle")] * 4]) as server:
        done = served(work, server, "--output-format", form)
    shown = done.stdout if calls or form != "text" else done.stderr
    assert "The first half" in (json.loads(shown.splitlines()[-1])["result"] if form != "text" else shown)
    assert (done.returncode, "lost in the middle of the response" in shown) == (0 if calls else 75, True)


def test_pieces_of_a_void_answer_are_marked_in_the_stream(work: Path) -> None:
    with ModelServer([Reply(text="Half of it", hang_up="middle"), Reply(text="All of it.")]) as server:
        done = served(work, server, "--output-format", "stream-json", "--include-partial-messages")
    kinds = [(x.get("subtype") or x["type"]) for x in map(json.loads, done.stdout.splitlines())]
    assert "answer_restarted" in kinds
    assert kinds.index("answer_restarted") < len(kinds) - 1 - kinds[::-1].index("stream_event")


# Accounts of the whole turn


def test_after_a_pause_everything_in_the_result_is_of_the_whole_turn(work: Path) -> None:
    used = {"input": 1000, "output": 10}
    replies = [
        {"calls": [call("Write", file_path="made", content="x"), steps("in_progress", "pending")], "usage": used},
        {"calls": [call("Bash", command="rm a.txt")], "usage": used},
        {"error": {"kind": "overloaded", "message": "Busy.", "retryable": True}},
    ]
    model = script(work / "s.toml", replies)
    first = agent(["-p", "--model", model, "--on-ask", "suspend", "--allowedTools", "Write", "go"], work)
    assert first.returncode == 3
    done = agent(["approve", "--output-format", "json"], work)
    found = json.loads(done.stdout)
    # A tool ran before the pause: the turn is degraded, and must not be retried from its beginning.
    assert (found["outcome"], done.returncode) == ("degraded", 0)
    assert found["usage"]["input_tokens"] == 2000
    assert "Write made (1 line) (done)" in found["result"]
    assert "rm a.txt" in found["result"]


def test_refusals_before_a_pause_are_in_the_result(work: Path) -> None:
    replies = [
        {"calls": [call("Write", file_path="../outside", content="x")]},
        {"calls": [call("Bash", command="rm a.txt")]},
        {"text": "Ok."},
    ]
    model = script(work / "s.toml", replies)
    agent(["-p", "--model", model, "--on-ask", "suspend", "--disallowedTools", "Write(//**)", "go"], work)
    found = json.loads(agent(["approve", "--output-format", "json"], work).stdout)
    assert [d["tool_name"] for d in found["permission_denials"]] == ["Write"]


# Plans


def test_an_open_plan_at_the_end_is_reported_and_can_fail_the_run(work: Path) -> None:
    replies = [{"calls": [steps("completed", "pending")]}, *[{"text": "Enough."}] * 6]
    model = script(work / "s.toml", replies)
    done = agent(["-p", "--model", model, "go"], work)
    assert done.returncode == 0
    assert "The plan has open steps" in done.stderr
    done = agent(["-p", "--model", model, "--fail-on-unfinished", "--output-format", "json", "go"], work)
    assert (done.returncode, json.loads(done.stdout)["outcome"]) == (1, "unfinished")


def test_a_new_request_is_not_turned_back_to_an_old_plan(work: Path) -> None:
    replies = [
        {"calls": [steps("completed", "pending")]}, *[{"text": "Enough."}] * 3,
        {"text": "4", "expect": "what is 2+2?"}, {"text": "6"},
    ]  # fmt: skip
    model = script(work / "s.toml", replies)
    agent(["-p", "--model", model, "build it"], work)
    done = agent(["-p", "-c", "--output-format", "json", "--fail-on-unfinished", "stop that, what is 2+2?"], work)
    found = json.loads(done.stdout)
    assert (found["result"], found["outcome"], found["plan_unfinished"]) == ("4", "done", False)
    agent(["-p", "-c", "and 3+3?"], work)
    log = next((work.parent / "home" / "state").rglob("*.jsonl")).read_text()
    # The model learns that it is paused with the first new request only.
    assert log.count('"text":"<plan_paused>') == 1


def test_calls_beside_a_plan_that_is_sent_back_do_not_run(work: Path) -> None:
    plan = call("ExitPlanMode", plan="1. Write made", steps=["Write made"])
    replies = [{"calls": [plan, call("Read", file_path="a.txt")]}, {"text": "Ok.", "expect": "the plan was sent back"}]
    model = script(work / "s.toml", replies)
    assert agent(["-p", "--model", model, "--permission-mode", "plan", "go"], work).returncode == 3
    done = agent(["reject", "--why", "use b.txt"], work)
    assert (done.returncode, done.stdout) == (0, "Ok.\n"), done.stderr


# Time


def test_the_time_limit_ends_a_running_command(work: Path) -> None:
    replies = [{"calls": [call("Bash", command="sleep 100; touch made")]}, {"text": "Out of time."}]
    model = script(work / "s.toml", replies)
    env = {"AGENT_MAX_SECONDS": "1"}
    done = agent(["-p", "--model", model, "--allowedTools", "Bash", "--output-format", "json", "go"], work, env)
    found = json.loads(done.stdout)
    assert (done.returncode, found["terminal_reason"], found["subtype"]) == (
        4,
        "max_duration",
        DURING,
    )
    assert not (work / "made").exists()


def test_the_time_limit_ends_a_silent_model(work: Path) -> None:
    read = Reply(calls=(Call("Read", {"file_path": "a.txt"}),))
    with ModelServer([read, Reply(stall="headers")]) as server:
        env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url, "AGENT_MAX_SECONDS": "1"}
        done = agent(["-p", "--model", "openai/some-model", "--output-format", "json", "go"], work, env)
    found = json.loads(done.stdout)
    assert (done.returncode, found["terminal_reason"]) == (4, "max_duration")
    assert "Read a.txt (done)" in found["result"]


# Money


def test_a_budget_that_could_not_hold_is_refused_at_the_start(work: Path) -> None:
    refused = agent(
        ["-p", "do it", "--max-budget-usd", "1", "--model", "openai/some-model"], work, {"OPENAI_API_KEY": "k"}
    )
    assert refused.returncode == 2
    assert "The price of openai/some-model is not known" in refused.stderr
    assert "--allow-unknown-cost" in refused.stderr


def test_a_budget_holds_with_the_cost_that_a_gateway_reports(work: Path) -> None:
    reported = Reply(calls=(Call("Read", {"file_path": "a.txt"}),), usage=Usage(input=12, output=7, cost=0.6))
    with ModelServer([reported] * 2) as server:
        stopped = served(work, server, "--max-budget-usd", "1", "--output-format", "json")
    found = json.loads(stopped.stdout)
    assert (stopped.returncode, found["subtype"], found["total_cost_usd"]) == (4, "error_max_budget_usd", 1.2)


def test_a_gateway_that_reports_no_cost_ends_a_run_with_a_budget(work: Path) -> None:
    with ModelServer([Reply(text="Ok."), Reply(text="Ok.")]) as server:
        refused = served(work, server, "--max-budget-usd", "1")
        assert (refused.returncode, len(server.requests)) == (2, 1)
        assert "reports no cost, and the price of openai/some-model is not known" in refused.stderr
        assert served(work, server, "--max-budget-usd", "1", "--allow-unknown-cost").returncode == 0


# Answers that are cut or empty


def test_an_answer_that_is_cut_is_continued_and_reads_as_one(work: Path) -> None:
    replies = [
        {"text": "One, two, ", "stop": "max_tokens"},
        {"text": "three.", "expect": "Continue exactly where it stopped"},
    ]
    model = script(work / "s.toml", replies)
    assert agent(["-p", "--model", model, "count"], work).stdout == "One, two, three.\n"


def test_an_answer_that_stays_cut_is_a_limit_and_not_done(work: Path) -> None:
    model = script(work / "s.toml", [{"text": "More ", "stop": "max_tokens"}] * 4)
    done = agent(["-p", "--model", model, "--output-format", "json", "count"], work)
    found = json.loads(done.stdout)
    assert (done.returncode, found["outcome"], found["subtype"]) == (4, "limit", DURING)
    assert found["result"] == "More More More More "


def test_a_call_that_is_cut_says_so_to_the_model(work: Path) -> None:
    cut = {"calls": [{"name": "Write", "arguments": '{"file_path": "made", "content": "abc'}], "stop": "max_tokens"}
    replies = [cut, {"text": "Ok.", "expect": "Your answer was cut at"}]
    model = script(work / "s.toml", replies)
    assert agent(["-p", "--model", model, "--allowedTools", "Write", "go"], work).stdout == "Ok.\n"


def test_two_empty_answers_are_an_error(work: Path) -> None:
    model = script(work / "s.toml", [{"text": ""}, {"text": ""}])
    done = agent(["-p", "--model", model, "go"], work)
    assert (done.returncode, done.stdout) == (1, "")
    assert "empty answer twice" in done.stderr


@pytest.mark.parametrize(
    ("replies", "flags", "reason", "subtype"),
    [
        (
            [{"calls": [call("Read", file_path=f"gone{n}")]} for n in range(25)],
            (),
            "max_failures",
            DURING,
        ),
        ([{"calls": [call("Bash", command="make")]}] * 3, (), "max_denials", DURING),
        (
            [{"calls": [call("Bash", command="echo")]}] * 5,
            ("--allowedTools", "Bash"),
            "repetition",
            DURING,
        ),
        ([{"calls": [call("Read", file_path="a.txt")]}] * 2, ("--max-turns", "2"), "max_rounds", "error_max_turns"),
    ],
)
def test_the_limit_that_ended_a_turn_is_named(
    work: Path, replies: list[dict[str, Any]], flags: tuple[str, ...], reason: str, subtype: str
) -> None:
    model = script(work / "s.toml", [*replies, {"text": "Stopped."}])
    found = json.loads(agent(["-p", "--model", model, "--output-format", "json", *flags, "go"], work).stdout)
    assert (found["end_reason"], found["subtype"], found["outcome"]) == (reason, subtype, "limit")


def test_a_suspended_run_is_no_success(work: Path) -> None:
    model = script(work / "s.toml", [{"calls": [call("Bash", command="make")]}])
    done = agent(["-p", "--model", model, "--on-ask", "suspend", "--output-format", "json", "go"], work)
    assert json.loads(done.stdout)["subtype"] == "suspended"


def test_usage_of_an_answer_that_broke_off_is_counted(work: Path) -> None:
    first = Reply(text="Half of it", hang_up="middle", usage=Usage(input=100, output=1))
    with ModelServer([first, Reply(text="All.", usage=Usage(input=100, output=2))]) as server:
        done = served(work, server, "--output-format", "json", provider="anthropic")
    # Anthropic reports the input with the first event of a stream.
    assert json.loads(done.stdout)["usage"]["input_tokens"] == 200
