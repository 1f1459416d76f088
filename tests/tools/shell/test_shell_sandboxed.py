"""Bash inside the sandbox: what it may touch, what it is told, and that all else of a command is as it was."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from agent_cli.kernel.events import ApprovalRequested
from agent_cli.kernel.results import Complete
from agent_cli.kernel.runtime.saved_settings import add_rules
from agent_cli.policy.policy import Policy
from agent_tools.fs.workspace import Workspace
from agent_tools.sandbox.conditions import OUTSIDE_SANDBOX, SandboxLimits
from agent_tools.sandbox.profile import Profile, make_profile
from agent_tools.sandbox.runner import SandboxRunner
from agent_tools.sandbox.temporary import TemporaryMount
from agent_tools.shell.jobs import Jobs
from agent_tools.shell.state import ShellState, carried_state, restore_carried
from tests.support.program import agent
from tests.support.repositories import git
from tests.support.sandboxes import missing
from tests.support.scripts import call, script
from tests.support.tool_bench import Bench
from tests.support.turns import World
from tests.support.waiting import soon


def confine(bench: Bench) -> SandboxRunner:
    """Put the commands of a bench into the best sandbox there is."""

    def profile(temp: tuple[TemporaryMount, ...], network: bool) -> Profile:
        return make_profile([bench.root], None, temp=temp, network=network)

    bench.ctx.supply(SandboxRunner("auto", profile, dict(bench.ctx.env), SandboxLimits(landlock=True)))
    if not bench.ctx.supplied(SandboxRunner).is_active:
        pytest.skip(f"NO SANDBOX WORKS HERE: {bench.ctx.supplied(SandboxRunner).sandbox.text()}")
    return bench.ctx.supplied(SandboxRunner)


def test_it_writes_inside_and_not_outside_and_the_model_is_informed(bench: Bench, tmp_path: Path) -> None:
    confine(bench)
    outside = tmp_path / "outside"
    outside.mkdir()
    bench.ctx.workspace.roots = (bench.root,)
    shown = bench("Bash", command="echo in > made && cat made")
    assert not shown.is_error and "in" in shown.text and (bench.root / "made").exists()
    refused = bench("Bash", command=f"mkdir -p .git; echo x > .agentrc; echo y > {outside}/no")
    assert (
        refused.is_error
        and "the sandbox" in refused.text
        and "call again with dangerouslyDisableSandbox" in refused.text
    )
    assert not (outside / "no").exists() and not (bench.root / ".agentrc").exists()


def test_state_carries_over_and_temporary_files_stay(bench: Bench) -> None:
    sandbox = confine(bench)
    (bench.root / "sub").mkdir()
    bench("Bash", command="cd sub; export COLOUR=green; echo kept > ${TMPDIR:-/tmp}/note")
    shown = bench("Bash", command="pwd; echo $COLOUR; cat ${TMPDIR:-/tmp}/note")
    assert shown.text.splitlines()[:3] == [str(bench.root / "sub"), "green", "kept"]
    sandbox.close()


def test_what_is_exported_in_it_is_not_set_outside(bench: Bench) -> None:
    """GIT_SSH_COMMAND or NODE_OPTIONS would let a command in the sandbox run something outside of it."""
    confine(bench)
    bench.ctx.env["GIVEN"] = "given"
    bench("Bash", command="export A=outside", dangerouslyDisableSandbox=True)
    note = "[exported variables carry over to commands in the sandbox only"
    assert note in bench("Bash", command="export A=inside B=inside; unset GIVEN").text
    look = "echo $A ${B-unset} ${GIVEN-unset}"
    outside = bench("Bash", command=look, dangerouslyDisableSandbox=True).text
    assert outside.startswith("outside unset given\n")
    assert (
        "ran outside the sandbox: A, B, GIVEN do not have the values there that a command in the sandbox gave"
        in outside
    )
    assert bench("Bash", command=look).text.startswith("inside inside unset\n")
    bench("Bash", command="export B=2", dangerouslyDisableSandbox=True)
    assert bench("Bash", command=look).text.startswith("inside 2 unset\n")
    carried = carried_state(bench.ctx)
    bench.ctx.state(ShellState).reset()
    restore_carried(bench.ctx, carried)
    assert bench("Bash", command=look).text.startswith("inside 2 unset\n")
    assert bench("Bash", command=look, dangerouslyDisableSandbox=True).text.startswith("outside 2 given\n")
    bench("Bash", command="export A=outside GIVEN=given")
    assert "ran outside the sandbox" not in bench("Bash", command=look, dangerouslyDisableSandbox=True).text


def test_the_sandbox_cannot_be_left_by_a_variable(work: Path) -> None:
    if reason := missing("bubblewrap"):
        pytest.skip(f"NOT TESTED: no bubblewrap here: {reason}")
    git(work, "init")
    git(work, "remote", "add", "origin", "ssh://nowhere.invalid/x")
    proof = work.parent / "proof"
    calls = [f"export GIT_SSH_COMMAND='touch {proof};'", "git ls-remote origin"]
    replies = [{"calls": [call("Bash", command=command)]} for command in calls]
    model = script(work.parent / "s.toml", [*replies, {"text": "Ok."}])
    settings = ["--settings", "sandbox = {mode = 'require', auto_allow = true}", "--trust"]
    allowed = ["--allowedTools", "Bash(git ls-remote:*)", "--output-format", "json"]
    done = agent(["-p", "--model", model, *settings, *allowed, "go"], work, env={"AGENT_SANDBOX_MODE": ""})
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["permission_denials"] == []
    assert not proof.exists()


def test_exit_codes_signals_and_time_outs_are_reported(bench: Bench) -> None:
    confine(bench)
    assert "exit code 3" in bench("Bash", command="exit 3").text
    assert "SIGKILL" in bench("Bash", command="kill -9 $$").text
    assert "now in the background as b1" in bench("Bash", command="sleep 60", timeout=300).text
    assert "[b1 was stopped" in bench("KillShell", shell_id="b1").text
    bench.ctx.workspace.offered = "BashOutput".__ne__
    assert "timed out" in bench("Bash", command="sleep 60", timeout=300).text


def test_a_job_runs_in_it_and_ends_with_it(bench: Bench) -> None:
    confine(bench)
    started = bench("Bash", command="while :; do echo tick; sleep 0.05; done", run_in_background=True)
    assert "b1" in started.text
    assert "tick" in bench("BashOutput", shell_id="b1").text
    assert not bench("KillShell", shell_id="b1").is_error
    assert not bench.ctx.state(Jobs).find("b1").running


def test_leaving_it_is_a_question_of_its_own(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    confine(bench)
    replies = [
        {"calls": [call("Bash", command="touch made", dangerouslyDisableSandbox=True)]},
        {"text": "Ok."},
    ]
    world = World(tmp_path, replies, [], allow=("Bash(touch:*)",))
    world.deps.context.supply(bench.ctx.supplied(SandboxRunner))
    asked: list[ApprovalRequested] = []
    world.deps = world.deps.replace(approver=lambda request: asked.append(request) or deny())
    assert isinstance(world.turn(), Complete)
    assert [OUTSIDE_SANDBOX in r.reason for r in asked] == [True] and not (tmp_path / "made").exists()


def deny() -> Any:
    from agent_cli.kernel.decisions import Reject

    return Reject("no")


def test_what_names_the_network_gets_it_once_allowed(tmp_path: Path) -> None:
    policy = Policy(Workspace(tmp_path))
    assert policy.run_conditions("git fetch && npm install").network
    assert not policy.run_conditions("pytest -q").network
    assert policy.run_conditions("git status").env["GIT_OPTIONAL_LOCKS"] == "0"
    assert not policy.run_conditions("git commit -m x").env


def test_the_setting_may_be_one_word(work: Path) -> None:
    model = script(work.parent / "s.toml", [{"calls": [call("Bash", command="echo done")]}, {"text": "Ok."}])
    settings, env = ["--settings", 'sandbox = "auto"'], {"AGENT_SANDBOX_MODE": ""}
    done = agent(["-p", "--model", model, *settings, "--output-format", "json", "go"], work, env=env)
    assert done.returncode == 0, done.stderr
    bad = agent(["-p", "--model", model, "--settings", 'sandbox = "maybe"', "go"], work)
    assert bad.returncode == 2 and "sandbox.mode" in bad.stderr


def test_a_command_lives_on_when_the_thread_that_started_it_has_ended(bench: Bench) -> None:
    confine(bench)
    results: list[str] = []
    command = "echo begun; until [ -e go ]; do sleep 0.01; done; echo done"
    thread = Thread(target=lambda: results.append(bench("Bash", command=command, timeout=1_000).text))
    thread.start()
    thread.join(60)
    assert "now in the background as b1" in results[0]
    bench.file("go")
    text = bench("BashOutput", shell_id="b1", timeout=60_000).text
    assert "done\n[b1: exit code 0" in results[0] + text
    bench.ctx.close()


def test_commands_that_only_read_run_side_by_side_in_the_sandbox(bench: Bench) -> None:
    confine(bench)
    for name in "ab":
        bench.file(f"{name}.txt", f"in {name}\n")
    calls = [call("Bash", command=f"cat {name}.txt; ls") for name in "abab"]
    world = World(bench.root, [{"calls": calls[:2]}, {"calls": [calls[1], calls[0]]}, {"text": "Ok."}])
    world.deps.context.supply(bench.ctx.supplied(SandboxRunner))
    assert isinstance(world.turn(), Complete)
    assert [m.text.split("\n")[0] for m in world.results] == ["in a", "in b", "in b", "in a"]


def test_a_refusal_is_found_in_the_whole_of_a_long_output(bench: Bench, tmp_path: Path) -> None:
    confine(bench)
    (bench.root / "noise.py").write_text(
        "for n in range(30_000):\n    print('x' * 60)\n    if n in (10_000, 20_000):\n"
        "        print('OSError: [Errno 30] Read-only file system: /etc/thing')\nraise SystemExit(1)\n"
    )
    done = bench("Bash", command=f"{sys.executable} noise.py")
    assert done.is_error and "cut here" in done.text
    assert "or to a protected file" in done.text and "2 lines of the output name it" in done.text


def test_what_was_moved_away_is_named_by_the_command_and_by_a_job(bench: Bench) -> None:
    sandbox = confine(bench)
    if not sandbox.is_boundary:
        pytest.skip("NOT TESTED: no bubblewrap here")
    done = bench("Bash", command="echo '{}' > .mcp.json; echo end")
    assert done.text.startswith("end\n[exit code 0")
    found = re.search(r"\[the sandbox does not let commands create (\S+): it was moved to (\S+)\]", done.text)
    assert found and found[1] == str(bench.root / ".mcp.json") and Path(found[2]).read_text() == "{}\n"
    assert "create the file with a tool for files" in done.text
    bench("Bash", command="until [ -e go ]; do sleep 0.01; done; mkdir .vscode; sleep 60", run_in_background=True)
    bench.file("go")
    assert soon(lambda: ".vscode: it was moved to" in bench("BashOutput", shell_id="b1", timeout=50).text)
    assert "moved" not in bench("KillShell", shell_id="b1").text
    assert not (bench.root / ".vscode").exists() and not (bench.root / ".mcp.json").exists()
    sandbox.close()


def test_a_rule_and_an_approved_file_are_saved_while_a_command_runs(bench: Bench) -> None:
    sandbox = confine(bench)
    bench("Bash", command="until [ -e go ]; do sleep 0.01; done", run_in_background=True)
    add_rules(bench.root / ".agentrc.local", ["Bash(make:*)"])
    bench("Write", file_path=str(bench.root / ".vscode/settings.json"), content="{}\n")
    bench.file("go")
    assert soon(lambda: not bench.ctx.state(Jobs).find("b1").running)
    assert "make:*" in (bench.root / ".agentrc.local").read_text()
    assert (bench.root / ".vscode/settings.json").read_text() == "{}\n"
    sandbox.close()
