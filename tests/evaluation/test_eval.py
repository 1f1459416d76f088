"""`agent eval` as a user runs it: tables, exit codes, what a run may do, and what is left of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_cli import UsageError
from agent_cli.cli.commands import eval as verb
from agent_cli.extras.evaluation import command
from agent_tools.sandbox.bwrap import find_bwrap
from agent_tools.sandbox.sandbox import trial_profile, try_bubblewrap
from tests.support.key_provider import KeyProvider
from tests.support.model_server import ModelServer, Reply
from tests.support.program import agent, clean_env
from tests.support.repositories import git
from tests.support.scripts import call, script
from tests.support.waiting import soon

Evaluate = Callable[..., subprocess.CompletedProcess[str]]
Make = Callable[..., Path]
ByName = Callable[[str], dict[tuple[str, str], dict[str, Any]]]
ANSWER: dict[str, Any] = {"text": "42", "usage": {"input": 100, "output": 5}}
WRITE = {"calls": [call("Write", file_path="b.txt", content="made\n")], "usage": {"input": 90, "output": 20}}


@pytest.fixture
def models(work: Path) -> tuple[str, str]:
    """One that only answers, and one that writes the file first."""
    folder = work.parent
    return script(folder / "talker.toml", [ANSWER]), script(folder / "writer.toml", [WRITE, {**ANSWER, "text": "Done"}])


def test_two_models_side_by_side(tasks: Path, models: tuple[str, str], evaluate: Evaluate, by_name: ByName) -> None:
    flags = [word for model in models for word in ("--model", model)]
    done = evaluate(tasks, *flags, "--jobs", "2", "--output-format", "json")
    runs = by_name(done.stdout)
    assert done.returncode == 1, done.stderr
    assert {key: run["verdict"] for key, run in runs.items()} == {
        ("answer", "talker"): "passed",
        ("answer", "writer"): "failed",
        ("file", "talker"): "failed",
        ("file", "writer"): "passed",
    }
    assert runs["file", "talker"]["reason"] == "no b.txt"
    writer = runs["file", "writer"]
    assert (writer["rounds"], writer["tool_calls"], writer["outcome"]) == (2, 1, "done")
    assert (writer["input_tokens"], writer["output_tokens"]) == (190, 25)
    assert [(m["runs"], m["passed"]) for m in json.loads(done.stdout)["models"]] == [(2, 1), (2, 1)]
    assert sorted(line.split()[1] for line in done.stderr.splitlines()[1:]) == ["failed", "failed", "passed", "passed"]


def test_the_tables_of_text(tasks: Path, models: tuple[str, str], evaluate: Evaluate) -> None:
    done = evaluate(tasks, "--model", models[0])
    rows = [line.split() for line in done.stdout.splitlines()]
    assert rows[0] == "TASK RESULT ROUNDS IN CACHED OUT COST TIME".split()
    assert rows[1][:6] == ["answer", "passed", "1", "100", "0", "5"]
    assert rows[2][:2] == ["file", "failed"]
    assert "file: no b.txt" in done.stdout
    assert rows[-1][1:6] == ["1/2", "2", "200", "0", "10"]


def test_the_tables_of_two_models(tasks: Path, models: tuple[str, str], evaluate: Evaluate) -> None:
    done = evaluate(tasks, "--model", models[0], "--model", models[1], "--only", "file")
    rows = [line.split() for line in done.stdout.splitlines()]
    assert [row[:3] for row in rows[:3]] == [["TASK", "#", "RESULT"], ["file", "1", "failed"], ["file", "2", "passed"]]
    assert f"file with {models[0]}: no b.txt" in done.stdout
    assert [row[:3] for row in rows[-2:]] == [["1", models[0], "0/1"], ["2", models[1], "1/1"]]


def test_all_passed_is_exit_code_0(tasks: Path, models: tuple[str, str], evaluate: Evaluate) -> None:
    done = evaluate(tasks, "--model", models[0], "--only", "answer", "--repeat", "2", "--output-format", "jsonl")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stderr
    assert [(line["task"], line["attempt"], line["passed"]) for line in lines] == [
        ("answer", 1, True),
        ("answer", 2, True),
    ]


def test_settings_side_by_side(tasks: Path, models: tuple[str, str], evaluate: Evaluate) -> None:
    """The second forbids what the model does."""
    forbid = 'permissions.deny = ["Edit"]'
    flags = ["--compare", "max_rounds = 9", "--compare", forbid, "--output-format", "json"]
    done = evaluate(tasks, "--model", models[1], "--only", "file", *flags)
    runs = json.loads(done.stdout)["runs"]
    assert [(run["settings"], run["verdict"], run["denials"]) for run in runs] == [
        ("max_rounds = 9", "passed", 0),
        (forbid, "failed", 1),
    ]


def test_a_model_over_the_wire_with_its_tokens_and_cost(tasks: Path, evaluate: Evaluate) -> None:
    with ModelServer([Reply(text="42")] * 2) as server:
        env = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": server.anthropic_url}
        flags = ["--model", "claude-sonnet-4-5", "--jobs", "2", "--output-format", "json"]
        done = evaluate(tasks, *flags, **env)
    runs = json.loads(done.stdout)["runs"]
    assert [run["passed"] for run in runs] == [True, False], done.stderr
    assert all(run["cost_usd"] > 0 and run["input_tokens"] > 0 for run in runs)


def test_a_budget_that_cannot_hold_is_refused_at_once(tasks: Path, evaluate: Evaluate) -> None:
    env = {"OPENAI_API_KEY": "k"}  # another server could report what its calls cost
    done = evaluate(tasks, "--model", "openai/nobody-knows", "--max-budget-usd", "1", **env)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--allow-unknown-cost" in done.stderr


def test_what_failed_is_kept_and_nothing_else(
    tasks: Path, models: tuple[str, str], evaluate: Evaluate, work: Path
) -> None:
    kept, temp = work.parent / "kept", work.parent / "temp"
    temp.mkdir()
    done = evaluate(tasks, "--model", models[0], "--keep", kept, TMPDIR=str(temp))
    (folder,) = kept.iterdir()
    assert folder.name.startswith("file-")
    assert f"saved in {folder}" in done.stdout
    assert (folder / "work" / "a.txt").read_text() == "hello\n"
    assert (folder / "result" / "answer.txt").read_text() == "42"
    assert json.loads((folder / "result" / "transcript.jsonl").read_text().splitlines()[-1])["type"] == "result"
    assert (folder / "result" / "check.txt").read_text() == "no b.txt\n"
    assert json.loads((folder / "result" / "trajectory.json").read_text())["steps"][-1]["message"] == "42"
    assert list(temp.iterdir()) == []
    assert agent(["sessions", "list", "--all-projects", "--json"], work).stdout.strip() in ("", "[]")
    again = evaluate(tasks, "--model", models[0], "--keep", kept)
    assert (again.returncode, "is not empty" in again.stderr) == (2, True)


def test_the_work_tree_is_a_repository_with_one_commit(
    work: Path, models: tuple[str, str], evaluate: Evaluate, make: Make
) -> None:
    checks = ["git rev-list --count HEAD", "git status --porcelain", "git remote", "git config commit.gpgsign", "ls -a"]
    folder = make(
        work.parent / "tasks" / "look", f"{'; '.join(checks)}; exit 1", {"a.txt": "x", ".gitignore": "*.pyc\n"}
    )
    kept = work.parent / "kept"
    evaluate(folder, "--model", models[0], "--keep", kept)
    assert (next(kept.iterdir()) / "result/check.txt").read_text().split() == [
        "1", "false", ".", "..", ".git", ".gitignore", "a.txt",
    ]  # fmt: skip


def test_a_repository_is_fetched_at_its_commit_without_what_came_later(
    work: Path, models: tuple[str, str], evaluate: Evaluate, make: Make
) -> None:
    source = work.parent / "source"
    source.mkdir()
    git(source, "init", "-q")
    for text in ("before", "after"):
        (source / "f.txt").write_text(text)
        git(source, "add", "-A")
        git(source, "commit", "-qm", text)
    commit, later = git(source, "rev-parse", "HEAD~1", "HEAD").split()
    folder = make(
        work.parent / "tasks" / "fetched",
        f'grep -qx before f.txt && ! git cat-file -e {later} && test -z "$(git remote)"',
        toml=f'repo = "../../source"\ncommit = "{commit}"\n',
    )
    done = evaluate(folder, "--model", models[0])
    assert done.returncode == 0, done.stdout + done.stderr
    (folder / "task.toml").write_text('repo = "../../source"\ncommit = "nowhere"\n')
    done = evaluate(folder, "--model", models[0])
    assert (done.returncode, done.stdout) == (2, "")
    assert "nowhere" in done.stderr


def test_setup_check_and_prompt_of_task_toml(work: Path, models: tuple[str, str], evaluate: Evaluate) -> None:
    folder = work.parent / "tasks" / "toml"
    folder.mkdir(parents=True)
    (folder / "task.toml").write_text(
        'prompt = "Go."\nsetup = "echo made > b.txt"\ncheck = "grep -qx made b.txt && test $AGENT_EVAL_TASK = toml"\n'
    )
    assert evaluate(folder, "--model", models[0]).returncode == 0
    (folder / "task.toml").write_text('prompt = "Go."\nsetup = "echo no such thing >&2; exit 3"\ncheck = "true"\n')
    done = evaluate(folder, "--model", models[0], "--output-format", "json")
    (run,) = json.loads(done.stdout)["runs"]
    assert (run["verdict"], run["reason"], run["rounds"]) == ("error", "the setup failed: no such thing", 0)


def test_settings_of_a_task_hold_and_a_limit_is_reported(work: Path, evaluate: Evaluate, make: Make) -> None:
    model = script(work.parent / "s.toml", [WRITE, WRITE, ANSWER])
    folder = make(work.parent / "tasks" / "t", "test -e c.txt", toml="[settings]\nmax_rounds = 1\n")
    done = evaluate(folder, "--model", model, "--output-format", "json")
    (run,) = json.loads(done.stdout)["runs"]
    assert (run["outcome"], run["reason"]) == ("limit", "a limit ended it; the check failed with exit code 1")


def test_a_run_past_its_time_is_ended_and_still_checked(work: Path, evaluate: Evaluate, make: Make) -> None:
    model = script(work.parent / "s.toml", [WRITE, {"text": "late", "pause": 600}])
    folder = make(work.parent / "tasks" / "t", "grep -qx made b.txt")
    done = evaluate(folder, "--model", model, "--timeout", "6", "--output-format", "json")
    (run,) = json.loads(done.stdout)["runs"]
    assert (run["verdict"], run["outcome"], run["rounds"]) == ("passed", "timeout", 2)
    # The answer that was interrupted is estimated.
    assert run["input_tokens"] > 90 and run["output_tokens"] == 20


def test_a_check_sees_no_keys(work: Path, models: tuple[str, str], evaluate: Evaluate, make: Make) -> None:
    folder = make(work.parent / "tasks" / "t", 'test -z "$OPENAI_API_KEY" && test -n "$PLAIN"')
    assert evaluate(folder, "--model", models[0], OPENAI_API_KEY="sk-test", PLAIN="x").returncode == 0


def test_ctrl_c_ends_every_child_and_prints_what_ran(tasks: Path, models: tuple[str, str], work: Path) -> None:
    slow = script(work.parent / "slow.toml", [{"text": "never", "pause": 600}])
    temp = work.parent / "temp"
    temp.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "agent_cli", "eval", str(tasks), "-m", models[0], "-m", slow, "--only", "answer"],
        cwd=work,
        env=clean_env(work.parent / "home", IS_SANDBOX="1", TMPDIR=str(temp)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert process.stderr.readline().startswith("2 runs")
    assert "passed" in process.stderr.readline()
    begun = "*/answer-2/result/transcript.jsonl"
    assert soon(lambda: any(path.stat().st_size for path in temp.glob(begun)), 60), "the second run has begun"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    rows = [line.split()[:3] for line in out.splitlines()[1:3]]
    assert rows == [["answer", "1", "passed"], ["answer", "2", "interrupted"]]
    assert "Interrupted after 2 runs." in err
    assert below(temp) == []
    assert list(temp.iterdir()) == []


def below(folder: Path) -> list[str]:
    """The processes that work below a folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            cwd = os.readlink(entry / "cwd")  # noqa: PTH115 - of a process that may be gone
        except OSError:
            continue
        if cwd.startswith(f"{folder}/"):
            found.append(entry.name)
    return found


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["nowhere"], "is not a folder"),
        ([".", "--model", "nobody"], "There are no tasks in"),
        (["TASKS", "--only", "anser"], "did you mean answer?"),
        (["TASKS", "--output-format", "xml"], "xml is not one of text, json, jsonl"),
        (["TASKS", "--jobs", "0"], "--jobs"),
        (["TASKS", "--model", "openai/gpt-5.6"], "OPENAI_API_KEY"),
        (["TASKS", "--model", "scripted:MISSING", "--compare", "no_such_key = 1"], "--compare:1: no_such_key"),
        (["TASKS", "--compare", "missing.toml"], "--compare: there is no file missing.toml"),
        (["TASKS", "--settings", "missing.toml", "--compare", "max_rounds = 1"], "--settings: there is no file"),
        (["TASKS", "--settings", "nowhere.toml"], "there is no file nowhere.toml"),
    ],
)
def test_bad_input_is_one_sentence(tasks: Path, evaluate: Evaluate, args: list[str], words: str) -> None:
    done = evaluate(*[str(tasks) if word == "TASKS" else word for word in args])
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_without_a_sandbox_and_outside_a_container_the_mode_must_be_named(
    tasks: Path, models: tuple[str, str], work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "in_container", lambda env: False)
    monkeypatch.setenv("AGENT_SANDBOX_MODE", "off")
    monkeypatch.setenv("HOME", str(work.parent / "home"))
    with pytest.raises(UsageError, match="--permission-mode bypassPermissions"):
        verb.app([str(tasks), "--model", models[0]], standalone_mode=False)


@pytest.mark.skipif(sys.platform != "linux", reason="NOT TESTED: the sandbox is for Linux")
def test_in_the_sandbox_commands_run_unasked_and_stay_in_the_work_tree(
    work: Path, evaluate: Evaluate, make: Make
) -> None:
    if try_bubblewrap_here():
        pytest.skip("NOT TESTED: bubblewrap does not work here")
    outside = work.parent / "outside.txt"
    commands = [
        "echo made > b.txt",
        "rm a.txt; touch c.txt && git checkout -q -b other && git reset -q --hard",
        "git rm -q a.txt; rm -rf c.txt; python3 -c 'print(1)' > d.txt",
        "git add -A && git commit -qm work",
        f"python3 -c \"open('{outside}', 'w')\"",
        "pkill -f nothing-of-this-name",
    ]
    model = script(work.parent / "s.toml", [*({"calls": [call("Bash", command=c)]} for c in commands), ANSWER])
    right = 'test -e b.txt && ! test -e a.txt && test "$(git rev-list --count HEAD)" = 2'
    check = f"{right}; ok=$?; echo > {outside}; exit $ok"
    folder = make(work.parent / "tasks" / "t", check, {"a.txt": "x"})
    make(work.parent / "tasks" / "u", f"echo > {outside}", toml="check_sandbox = false\n")
    done = evaluate(folder, "--model", model, "--output-format", "json", AGENT_SANDBOX_MODE="")
    (run,) = json.loads(done.stdout)["runs"]
    assert (run["verdict"], run["denials"], outside.exists()) == ("passed", 1, False), done.stdout
    done = evaluate(folder.parent, "--model", model, "--only", "u", AGENT_SANDBOX_MODE="")
    assert (done.returncode, outside.exists()) == (0, True), done.stdout + done.stderr


def try_bubblewrap_here() -> str:
    program = find_bwrap(dict(os.environ), ())
    return try_bubblewrap(program, trial_profile()) if program else "it is not installed"


def test_a_run_uses_the_key_of_a_login(work: Path, make: Make, evaluate: Evaluate) -> None:
    folder = make(work.parent / "one" / "task", "true")
    key = "sk-good-0123456789abcdef"
    with KeyProvider(key) as provider:
        env = {"OPENAI_BASE_URL": provider.openai_url}
        assert agent(["login", "openai"], work, env, stdin=key).returncode == 0
        done = evaluate(folder.parent, "--model", "openai/m-1", **env)
        assert done.returncode == 0, done.stdout + done.stderr
        assert provider.seen[-1] == ("POST", "/v1/chat/completions", key)
    assert (work.parent / "home/state/keys/openai.json").exists()
