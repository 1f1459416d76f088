"""`agent batch` as a user runs it: results, patches, checks, exit codes, and what is left of it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from pathlib import Path

from tests.support.batches import ANSWER, WRITE, Batches
from tests.support.fork_server import start
from tests.support.model_server import ModelServer, Reply
from tests.support.program import agent, clean_env
from tests.support.repositories import git
from tests.support.scripts import bash, script
from tests.support.waiting import soon

EDITS = "acceptEdits"


def test_results_patches_and_a_table(batches: Batches) -> None:
    batches.write(
        {"id": "one", "model": batches.writer, "mode": EDITS, "check": "grep -qx made b.txt"},
        {"name": "two", "check": 'grep -qx 42 "$AGENT_BATCH_RESULT" && test $AGENT_BATCH_TASK = two'},
        {},
    )
    done = batches.run()
    assert done.returncode == 0, done.stdout + done.stderr
    one, two, three = batches.lines()
    assert [line["id"] for line in (one, two, three)] == ["one", "two", "task-3"]
    assert (one["status"], one["outcome"], one["check_exit_code"], one["files"]) == ("passed", "done", 0, 1)
    assert (one["turns"], one["tool_calls"], one["input_tokens"], one["output_tokens"]) == (2, 1, 190, 25)
    assert (two["answer"], two["patch"], three["check_exit_code"]) == ("42", None, None)
    assert one["patch"] == "tasks.results.patches/one.patch"
    assert one["commit"] == git(batches.repo, "rev-parse", "HEAD").strip()
    rows = [line.split() for line in done.stdout.splitlines()]
    assert rows[0] == "TASK RESULT FILES IN OUT COST TIME".split()
    assert rows[1][:5] == ["one", "passed", "1", "190", "25"]
    assert "3 of 3 tasks passed." in done.stdout
    # The repository is as it was, and the patch fits it.
    assert git(batches.repo, "status", "--porcelain") == git(batches.repo, "worktree", "prune")
    git(batches.repo, "apply", str(batches.work / one["patch"]))
    assert (batches.repo / "b.txt").read_text() == "made\n"
    assert batches.left() == []
    listed = agent(["sessions", "list", "--all-projects", "--json"], batches.work)
    assert one["session_id"] in listed.stdout


def test_several_at_a_time_and_results_in_the_order_of_the_tasks(batches: Batches) -> None:
    """The first ends only when the second has: they run at the same time."""
    flag = batches.base / "second-ended"
    wait = f"until [ -e {flag} ]; do sleep 0.02; done"
    batches.write(
        {"id": "first", "check": wait, "check_sandbox": False},
        {"id": "second", "check": f"touch {flag}", "check_sandbox": False},
    )
    done = batches.run("--jobs", "2", "--json")
    assert done.returncode == 0, done.stderr
    assert sorted(line.split()[2] for line in done.stderr.splitlines()[1:3]) == ["first", "second"]
    result = json.loads(done.stdout)
    assert [line["id"] for line in result["results"]] == [line["id"] for line in batches.lines()] == ["first", "second"]
    assert (result["summary"]["passed"], result["summary"]["tasks"]) == (2, 2)


def test_what_failed_is_reported_and_is_exit_code_1(batches: Batches) -> None:
    slow = script(batches.base / "slow.toml", [{"text": "late", "pause": 600}])
    batches.write(
        {"id": "check", "check": "echo no such thing; exit 3"},
        {"id": "late", "model": slow, "budget": {"seconds": 2}},
        {"id": "rounds", "model": batches.writer, "mode": EDITS, "budget": {"turns": 1}},
        {"id": "setup", "setup": "echo cannot >&2; exit 4"},
        {"id": "inner", "folder": "nowhere"},
        {"id": "fine"},
    )
    done = batches.run("--jobs", "3")
    assert done.returncode == 1, done.stderr
    found = {line["id"]: (line["status"], line["error"]) for line in batches.lines()}
    assert found == {
        "check": ("failed", "no such thing"),
        "late": ("failed", "took more than 2 s"),
        "rounds": ("failed", "a limit ended it"),
        "setup": ("error", "the setup failed: cannot"),
        "inner": ("error", "there is no folder nowhere in the repository"),
        "fine": ("passed", None),
    }
    assert {line["id"]: line["check_exit_code"] for line in batches.lines()}["check"] == 3
    assert "1 of 6 tasks passed, 3 failed, 2 could not run." in done.stdout
    # What the turn did before its limit is not lost.
    assert "+made" in batches.patch("rounds")
    again = batches.run("--retry-failed", "--jobs", "3")
    assert "5 tasks to run, 3 at a time; 1 ended before." in again.stderr


def test_bad_lines_are_named_before_anything_runs(batches: Batches) -> None:
    (batches.work / "tasks.jsonl").write_text(
        "\n".join(
            [
                '{"prompt": "fine", "repository": "../repo"}',
                "{prompt: 1}",
                '["no"]',
                '{"repository": "../repo"}',
                '{"prompt": "x", "repositry": "../repo"}',
                '{"prompt": "x", "repository": "../gone"}',
                '{"prompt": "x", "repository": "../repo", "branch": "nowhere"}',
                '{"prompt": "x", "repository": "../repo", "mode": "plan"}',
                '{"prompt": "x", "repository": "../repo", "mode": "free"}',
                '{"prompt": "x", "repository": "../repo", "budget": {"cost": -1}}',
                '{"prompt": "x", "repository": "../repo", "budget": {"money": 1}}',
                '{"prompt": "x", "repository": "../repo", "check": 1}',
                '{"prompt": "x", "repository": "../repo", "id": "../x"}',
                '{"prompt": "x", "repository": "../repo", "id": "task-1"}',
                '{"prompt": "x", "repository": "../repo", "folder": "../.."}',
                '{"prompt": "x", "repository": "../repo", "branch": "--upload-pack=x"}',
                '{"prompt": "x", "repository": "http://127.0.0.1:9/x"}',
                "",
            ]
        )
    )
    done = batches.run()
    assert (done.returncode, done.stdout) == (2, "")
    found = done.stderr.splitlines()
    assert all(line.startswith("agent: tasks.jsonl, line ") and line.endswith((".", "?")) for line in found), found
    assert [int(line.split("line ")[1].partition(":")[0]) for line in found] == list(range(2, 18))
    assert found[3].endswith("did you mean repository?")
    assert "there is no branch, tag or commit nowhere" in found[5]
    assert batches.lines() == [] and not (batches.work / "tasks.results.patches").exists()
    assert batches.left() == []


def test_other_mistakes_are_exit_code_2(batches: Batches) -> None:
    (batches.work / "tasks.jsonl").write_text("\n")
    assert (batches.run().returncode, "There are no tasks" in batches.run().stderr) == (2, True)
    batches.write({})
    (batches.work / "notes.jsonl").write_text('{"mine": 1}\n')
    done = batches.run("--output", "notes.jsonl")
    assert (done.returncode, "is no result of a batch" in done.stderr) == (2, True)
    assert (batches.work / "notes.jsonl").read_text() == '{"mine": 1}\n'
    assert batches.run("--scheduler", "nonsense://x").returncode == 2
    env = {"OPENAI_API_KEY": "k"}  # another server could report what its calls cost
    assert batches.run("--permission-mode", "plan").returncode == 2
    batches.write({"model": "openai/nobody-knows"})
    done = batches.run("--max-budget-usd", "1", **env)
    assert (done.returncode, "--allow-unknown-cost" in done.stderr) == (2, True)
    gone = agent(["batch", "gone.jsonl"], batches.work)
    assert (gone.returncode, "gone.jsonl cannot be read" in gone.stderr) == (2, True)


COPY = "test -e x.txt && test -e b.txt && test -e x.log && ! test -e __pycache__"


def test_branches_subfolders_and_copies(batches: Batches) -> None:
    inner = batches.repo / "inner"
    inner.mkdir()
    (inner / "c.txt").write_text("c\n")
    first = batches.commit("inner")
    git(batches.repo, "checkout", "-q", "-b", "other")
    (inner / "d.txt").write_text("d\n")
    batches.commit("on the branch")
    git(batches.repo, "checkout", "-q", "-")
    (batches.repo / "a.txt").write_text("not committed\n")
    plain = batches.base / "plain"
    plain.mkdir()
    (plain / ".gitignore").write_text("*.log\n")
    (plain / "x.txt").write_text("x\n")
    (plain / "x.log").write_text("ignored, and there\n")
    (plain / "__pycache__").mkdir()
    (plain / "__pycache__/x.pyc").write_text("not there")
    here = {"repository": None, "model": batches.writer, "mode": EDITS}
    batches.write(
        {"id": "branch", "branch": "other", "folder": "inner", "check": "test -e d.txt"},
        {"id": "commit", "commit": first[:10], "check": "test -e inner/c.txt && ! test -e inner/d.txt"},
        {"id": "inside", **here, "folder": "../repo/inner", "check": "test -e c.txt && test -e b.txt"},
        {"id": "head", "check": "grep -qx hello a.txt && git rev-parse --verify -q other"},
        {"id": "copy", **here, "folder": "../plain", "check": COPY},
    )
    done = batches.run("--jobs", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "b/inner/b.txt" in batches.patch("inside")
    assert sorted(path.name for path in plain.iterdir()) == [".gitignore", "__pycache__", "x.log", "x.txt"]
    assert git(batches.repo, "branch", "--format=%(refname:short)").split().count("agent/branch") == 0


def test_a_shallow_clone_and_what_a_task_says_over_the_command(batches: Batches) -> None:
    """CI systems clone one commit. The model, mode and bounds of a task count before those of the command."""
    batches.commit("second")
    git(batches.base, "clone", "-q", "--depth", "1", f"file://{batches.repo}", "shallow")
    task = {"repository": "../shallow", "check": "git log --oneline | wc -l | grep -qx 1"}
    batches.write({"id": "own", "model": batches.writer, "mode": EDITS, **task}, {"id": "usual", "model": None, **task})
    done = batches.run("--model", batches.talker, "--permission-mode", "dontAsk", "--max-turns", "9")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [(line["turns"], line["files"]) for line in batches.lines()] == [(2, 1), (1, 0)]


def test_a_clone_of_a_url_is_not_trusted(batches: Batches) -> None:
    """What the project allows counts only with --trust; what it denies always does."""
    (batches.repo / ".agentrc").write_text('permissions.allow = ["Edit"]\n')
    batches.commit("settings")
    batches.write({"id": "x", "repository": f"file://{batches.repo}", "model": batches.writer})
    assert batches.run().returncode == 1
    (line,) = batches.lines()
    assert (line["denials"], line["files"]) == (1, 0)
    assert line["error"] == "calls were denied, as nobody could approve them"
    assert batches.run("--trust", "-o", "second.jsonl").returncode == 0
    (line,) = batches.lines("second.jsonl")
    assert (line["denials"], line["files"]) == (0, 1)
    batches.write({"id": "x", "repository": f"file://{batches.repo}", "branch": "gone"})
    assert batches.run().returncode == 1
    (line,) = batches.lines()
    assert (line["status"], "gone" in line["error"]) == ("error", True)


def test_a_repository_that_the_user_trusts_is_trusted_in_its_trees(batches: Batches) -> None:
    """Unless the commit has other settings than the user has seen."""
    (batches.repo / ".agentrc").write_text('permissions.allow = ["Edit"]\n')
    first = batches.commit("settings")
    (batches.repo / ".agentrc").write_text('permissions.allow = ["Edit(*.txt)"]\n')
    batches.commit("others")
    batches.write({"id": "seen", "model": batches.writer}, {"id": "other", "commit": first, "model": batches.writer})
    assert batches.run().returncode == 1
    assert [line["files"] for line in batches.lines()] == [0, 0]
    trusted = agent(["trust"], batches.repo, stdin="y\n")
    assert trusted.returncode == 0, trusted.stdout + trusted.stderr
    assert batches.run("-o", "second.jsonl").returncode == 1
    assert [line["files"] for line in batches.lines("second.jsonl")] == [1, 0]


def test_a_model_cannot_hide_or_forge_its_patch(batches: Batches) -> None:
    """The patch is read with a repository that the model cannot write to."""
    trace = batches.base / "ran"
    command = (
        f"git config core.fsmonitor 'touch {trace}'; echo b.txt > .git/info/exclude; git commit -qam x; rm -rf .git"
    )
    model = script(batches.base / "sly.toml", [WRITE, bash(command), ANSWER])
    batches.write({"id": "sly", "model": model, "mode": "bypassPermissions"})
    done = batches.run("--allowedTools", "Bash")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "+made" in batches.patch("sly")
    assert not trace.exists()


def test_the_budget_is_over_all_and_a_larger_one_runs_what_is_missing(batches: Batches) -> None:
    batches.write(*({"id": name, "model": "claude-sonnet-4-5"} for name in "abc"))
    with ModelServer([Reply(text="42")] * 3) as server:
        env = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": server.anthropic_url}
        done = batches.run("--max-budget-usd", "0.0000001", **env)
        assert done.returncode == 1, done.stderr
        assert "larger --max-budget-usd" in done.stderr
        first, *others = batches.lines()
        assert [(line["status"], line["attempts"]) for line in others] == [("skipped", 0)] * 2
        assert first["cost_usd"] > 0
        spent = len(server.requests)
        assert spent == 1
        done = batches.run("--max-budget-usd", "5", "--json", **env)
        assert done.returncode == 0, done.stderr
        lines = batches.lines()
    assert [line["status"] for line in lines] == ["passed"] * 3
    assert json.loads(done.stdout)["summary"]["cost_usd"] == sum(line["cost_usd"] for line in lines)
    assert lines[0]["cost_usd"] >= first["cost_usd"]


def test_after_kill_9_what_ended_is_not_run_again(batches: Batches) -> None:
    slow = batches.base / "slow.toml"
    script(slow, [WRITE, {"text": "never", "pause": 600}])
    batches.write(
        {"id": "one", "model": batches.writer, "mode": EDITS},
        {
            "id": "two",
            "model": f"scripted:{slow}",
            "mode": EDITS,
            "check": "git status --porcelain | wc -l | grep -qx 1",
        },
        {"id": "three"},
    )
    process = batches.start()
    assert soon(lambda: batches.has_begun("two"), 60)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=30)
    assert batches.statuses() == {"one": "passed"}
    (one,) = batches.lines()
    with (batches.work / "tasks.results.jsonl").open("a") as file:
        file.write('{"id": "two", "sta')  # as if killed in the middle of a line
    script(slow, [WRITE, ANSWER])
    done = batches.run()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 tasks to run, 1 at a time; 1 ended before." in done.stderr
    assert batches.statuses() == {"one": "passed", "two": "passed", "three": "passed"}
    assert batches.lines()[0] == one
    assert soon(lambda: batches.left() == [], 20), batches.left()
    # Nothing is left to do, and nothing is done.
    before = batches.lines()
    assert batches.run().returncode == 0
    assert batches.lines() == before


def test_ctrl_c_ends_every_child_and_the_same_command_continues(batches: Batches) -> None:
    slow = batches.base / "slow.toml"
    script(slow, [{"text": "never", "pause": 600}])
    batches.write({"id": "one"}, {"id": "two", "model": f"scripted:{slow}"}, {"id": "three"})
    process = batches.start()
    assert soon(lambda: batches.has_begun("two"), 60)
    second = batches.run()
    assert (second.returncode, "another agent batch writes there" in second.stderr) == (2, True)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert batches.statuses() == {"one": "passed", "two": "interrupted", "three": "skipped"}
    assert b"run the same command again" in err
    assert b"1 of 3 tasks passed, 1 interrupted, 1 not started." in out
    assert batches.left() == []
    script(slow, [ANSWER])
    assert batches.run().returncode == 0
    assert set(batches.statuses().values()) == {"passed"}


def test_ctrl_c_does_not_wait_for_a_clone(batches: Batches) -> None:
    """Of a server that says nothing; asked a second time."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        batches.write({"id": "x", "repository": f"https://127.0.0.1:{silent.getsockname()[1]}/x.git"})
        process = batches.start()
        connection, _ = silent.accept()
        with connection:
            process.send_signal(signal.SIGINT)
            assert process.stderr is not None
            lines = [process.stderr.readline(), process.stderr.readline()]
            assert b"Ctrl-C again" in lines[1], lines
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert batches.statuses() == {"x": "interrupted"}
    assert soon(lambda: batches.left() == [], 20), batches.left()


def test_a_process_that_dies_is_run_again(batches: Batches) -> None:
    flag = batches.base / "died"
    model = script(batches.base / "dies.toml", [bash(f"[ -e {flag} ] || {{ touch {flag}; kill -9 $PPID; }}"), ANSWER])
    batches.write({"id": "x", "model": model})
    done = batches.run("--allowedTools", "Bash")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "x will run again: its process was ended by signal 9" in done.stderr
    (line,) = batches.lines()
    assert (line["attempts"], line["status"]) == (2, "passed")
    flag.unlink()
    assert batches.run("--allowedTools", "Bash", "--retries", "0", "-o", "second.jsonl").returncode == 1


def test_tasks_of_standard_input_and_a_task_that_changed(batches: Batches) -> None:
    task = {"id": "x", "prompt": "Go.", "repository": "../repo", "model": batches.talker}
    args = ["batch", "-", "--output", "out/r.jsonl"]
    assert agent(args, batches.work, stdin=json.dumps(task)).returncode == 0
    (first,) = batches.lines("out/r.jsonl")
    assert agent(args, batches.work, stdin=json.dumps({**task, "prompt": "Go on."})).returncode == 0
    (second,) = batches.lines("out/r.jsonl")
    assert first["session_id"] != second["session_id"]
    assert agent(["batch", "-"], batches.work, stdin=json.dumps(task)).returncode == 2


def test_a_terminal_shows_what_runs_in_one_line(batches: Batches) -> None:
    slow = script(batches.base / "slow.toml", [{"text": "late", "pause": 1}])
    batches.write({"id": "one", "model": slow})
    ours, theirs = os.openpty()
    env = clean_env(batches.base / "home")
    process = start(
        ["batch", "tasks.jsonl"], batches.work, env,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    shown = _all_of(ours)
    assert process.wait(60) == 0
    assert "0/1 ended" in shown and "running: one" in shown
    assert "[1/1]  passed  one" in shown
    # The line of what runs is gone at the end.
    assert "running" not in shown.rpartition("\x1b[2K")[2]


def _all_of(terminal: int) -> str:
    parts: list[bytes] = []
    while True:
        try:
            part = os.read(terminal, 4096)
        except OSError:
            part = b""
        if not part:
            os.close(terminal)
            return b"".join(parts).decode()
        parts.append(part)


def test_the_check_has_no_keys_and_no_network(batches: Batches, tmp_path: Path) -> None:
    batches.write({"check": 'test -z "$OPENAI_API_KEY" && test -n "$PLAIN"'})
    assert batches.run(OPENAI_API_KEY="sk-test", PLAIN="x").returncode == 0
