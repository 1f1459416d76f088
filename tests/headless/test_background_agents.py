"""Sub-agents in the background of one-shot runs: waited for, suspended, killed, continued."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.background_model import Subagents, background, runs
from tests.support.fork_server import start
from tests.support.host_client import HostClient
from tests.support.loopback import until
from tests.support.model_replies import Call, Reply
from tests.support.program import agent, clean_env
from tests.support.stories.model import Model, says


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    (folder / ".git").mkdir(parents=True)
    (folder / "a.txt").write_text("hello\n")
    return folder


def env_of(model: Model) -> dict[str, str]:
    return {"OPENAI_API_KEY": "key", "OPENAI_BASE_URL": model.server.openai_url, "AGENT_MODEL": "openai/test-model"}


def run(work: Path, model: Model, *words: str) -> subprocess.CompletedProcess[str]:
    return agent([*words], work, env_of(model))


def pending(work: Path) -> list[dict[str, Any]]:
    found = json.loads(agent(["pending", "--json"], work).stdout)
    return [item for session in found for item in session["pending"]]


def log_of(work: Path) -> str:
    return next((work.parent / "home" / "state").rglob("sessions/*/*.jsonl")).read_text()


def test_a_run_waits_for_them_and_the_model_reads_their_reports(work: Path, model: Model) -> None:
    agents = Subagents(model, one=[Reply(text="One is done.")], two=[Reply(text="Two is done.")])
    agents.hold("one")
    agents.hold("two")
    model.will(
        says("", background("one")),
        says("", background("two"), sees="Started in the background as general"),
        says("They work."),
    )
    with started(work, model, "-p", "go") as process:
        until(lambda: not model.lines)
        both = Reply(text="Both are done.", id="both")
        model.beside("Two is done.", lambda received: both if "One is done." in received.raw.decode() else one)
        one = Reply(text="One is missing.", id="one")
        model.beside("One is done.", lambda received: one)
        agents.go("one")
        agents.go("two")
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, b"Both are done.\n"), err


def test_its_question_is_suspended_listed_with_its_name_and_resumed(work: Path, model: Model) -> None:
    Subagents(model, one=[runs("echo x >> log"), Reply(text="Ran it.")])
    model.will(says("", background("one")), says("It works."))
    first = run(work, model, "-p", "--on-ask", "suspend", "go")
    assert first.returncode == 3, first.stderr
    assert "waiting: sub-agent general (do one): Run: echo x >> log" in first.stderr
    (item,) = pending(work)
    assert (item["agent"], item["agent_name"], item["agent_task"]) == ("general", "general", "do one")
    model.will(says("All is done.", sees="Ran it."))
    last = run(work, model, "approve")
    assert (last.returncode, last.stdout) == (0, "All is done.\n"), last.stderr
    assert (work / "log").read_text() == "x\n"
    assert pending(work) == []
    model.finished()


def test_its_question_waits_beside_that_of_the_turn(work: Path, model: Model) -> None:
    subagents = Subagents(model, one=[runs("echo one >> log"), Reply(text="Ran it.")])
    subagents.hold("one")
    model.will(says("", background("one")), says("", Call("Bash", {"command": "echo main >> log"})))
    with started(work, model, "-p", "--on-ask", "suspend", "go") as process:
        subagents.until("one")
        subagents.go("one")
        assert process.wait(60) == 3
    assert sorted(item["summary"] for item in pending(work)) == ["Run: echo main >> log", "Run: echo one >> log"]
    model.will(says("It ran.", sees="exit code 0"), says("All is done."))
    model.beside("Ran it.", lambda received: Reply(text="All is done.", id="last"))
    last = run(work, model, "approve", "--all")
    assert (last.returncode, last.stdout.splitlines()[-1]) == (0, "All is done."), last.stderr
    assert sorted((work / "log").read_text().split()) == ["main", "one"]


def started(work: Path, model: Model, *words: str) -> subprocess.Popen[bytes]:
    environment = clean_env(work.parent / "home", **env_of(model))
    return start([*words], work, environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_killed_in_the_middle_it_goes_on_without_repeating_a_call(work: Path, model: Model) -> None:
    subagents = Subagents(model, one=[runs("echo x >> log"), Reply(text="Ran it once.")])
    subagents.hold("one", 1)
    model.will(says("", background("one")), says("It works."))
    with started(work, model, "-p", "--allowedTools", "Bash", "--", "go") as process:
        subagents.until("one", 1)
        until(lambda: not model.lines and "It works." in log_of(work))
        process.send_signal(signal.SIGKILL)
        process.wait(60)
    assert (work / "log").read_text() == "x\n"
    subagents.go("one", 1)
    session = json.loads(log_of(work).splitlines()[0])["data"]["session_id"]
    model.will(says("All is done.", sees="Ran it once."))
    last = run(work, model, "resume", session)
    assert (last.returncode, last.stdout.splitlines()[-1]) == (0, "All is done."), last.stderr
    assert (work / "log").read_text() == "x\n"
    model.finished()


def test_a_limit_ends_them_and_says_so(work: Path, model: Model) -> None:
    subagents = Subagents(model, one=[Reply(text="never")])
    subagents.hold("one")
    model.will(says("", background("one")), says("It works."), says("It took too long."))
    done = run(work, model, "-p", "--settings", '{"max_seconds": 2}', "go")
    assert done.returncode == 4, done.stderr
    # The sub-agent has the same limit: where it reaches it first, the model has its report.
    unread = "Ended with the turn, before their reports were read: general." in done.stderr
    assert unread or "The sub-agent did not finish." in log_of(work)
    model.will(says("I know.", sees=("again", "The sub-agent did not finish.")))
    assert run(work, model, "-p", "-c", "again").stdout == "I know.\n"


def test_stream_json_has_its_work_its_question_and_its_end(work: Path, model: Model) -> None:
    """Its task ends after the result of its call; a host is asked, and the lines name the sub-agent's call."""
    Subagents(model, one=[runs("echo x >> log"), Reply(text="Ran it.")])
    model.will(says("", background("one")), says("It works."), says("All is done.", sees="Ran it."))
    asks = ["--permission-prompt-tool", "stdio"]
    answers = {"can_use_tool": lambda fields: {"behavior": "allow", "updatedInput": fields["input"]}}
    with HostClient(asks, work, answers, **env_of(model)) as host:
        result = host.say("go")
        assert (result["result"], host.close()) == ("All is done.", 0)
    (begun,) = host.of_type("system", "task_started")
    (ended,) = host.of_type("system", "task_notification")
    assert (begun["is_backgrounded"], begun["subagent_type"], begun["task_id"]) == (True, "general", ended["task_id"])
    assert (ended["status"], ended["summary"]) == ("completed", "Ran it.")
    order = [line.get("subtype") or line["type"] for line in host.lines]
    results = [n for n, line in enumerate(host.lines) if line["type"] == "user" and not line["parent_tool_use_id"]]
    assert results[0] < order.index("task_notification") < len(order) - 1
    nested = [line for line in host.of_type("assistant") if line["parent_tool_use_id"] == begun["task_id"]]
    assert nested[0]["message"]["content"][0]["name"] == "Bash"
    assert [asked["tool_name"] for asked in host.requests("can_use_tool")] == ["Bash"]
    model.finished()


def test_a_host_stops_one_and_the_turn_goes_on(work: Path, model: Model) -> None:
    agents = Subagents(model, one=[Reply(text="never")])
    agents.hold("one")
    model.will(says("", background("one")), says("It works."), says("It was stopped.", sees="was stopped by the user"))
    with HostClient([], work, **env_of(model)) as host:
        host.send("go")
        agents.until("one")
        task = next(line["task_id"] for line in host.read() if line.get("subtype") == "task_started")
        assert host.ask("stop_task", task_id=task) == {}
        assert host.result()["result"] == "It was stopped."
    assert host.of_type("system", "task_notification")[0]["status"] == "stopped"


def test_line_by_line_the_turn_waits_for_it_and_asks(work: Path, model: Model) -> None:
    Subagents(model, one=[runs("echo x >> log"), Reply(text="Ran it.")])
    model.will(says("", background("one")), says("It works."), says("All is done.", sees="Ran it."))
    done = agent([], work, env_of(model), stdin="go\ny\n")
    assert "All is done." in done.stdout, done.stderr
    assert "for general in the background: do one" in done.stdout
    assert (work / "log").read_text() == "x\n"


def test_without_a_user_its_calls_are_denied_as_those_of_the_turn(work: Path, model: Model) -> None:
    Subagents(model, one=[runs("echo x >> log"), Reply(text="It was denied.")])
    model.will(says("", background("one")), says("It works."), says("It could not.", sees="It was denied."))
    done = run(work, model, "-p", "go")
    assert done.stdout == "It could not.\n"
    assert "Denied: Bash: echo x >> log." in done.stderr
    assert not (work / "log").exists()
