"""Over several processes: what carries over between commands, and that background commands end with the program."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

from tests.support.program import agent, output_allowing_bash, run_allowing_bash
from tests.support.scripts import bash, call
from tests.support.session_logs import log_of
from tests.support.waiting import gone, soon


def test_a_session_goes_on_where_its_commands_were(work: Path) -> None:
    (work / "sub").mkdir()
    look = "echo $A ${MY_TOKEN-none} > $PWD/seen"
    output_allowing_bash(work, [bash("cd sub; export A=kept MY_TOKEN=hush-hush"), {"text": "Ok."}])
    found = json.loads(agent(["doctor", "--json"], work).stdout)["findings"]
    (finding,) = [f for f in found if f["topic"] == "commands"]
    assert (finding["cwd"], finding["variables"]) == (str(work / "sub"), ["A"])
    again = [bash("cd sub; export A=kept MY_TOKEN=hush-hush"), {"text": "Ok."}, bash(look), {"text": "Ok."}]
    output_allowing_bash(work, again, "-c")
    assert (work / "sub" / "seen").read_text() == "kept none\n"
    output_allowing_bash(work, [*again, bash(look), {"text": "Ok."}], "-c", "--fork-session")
    (work / "sub" / "seen").rename(work / "seen")
    (work / "sub").rmdir()
    output_allowing_bash(work, [*again, bash(look), {"text": "Ok."}, bash(look), {"text": "Ok."}], "-c")
    assert (work / "seen").read_text() == "kept none\n", "the folder is gone, the variable is not"
    shells = [r["data"]["shell"] for r in map(json.loads, log_of(work).splitlines()) if r["data"].get("shell")]
    assert shells and "hush-hush" not in json.dumps(shells)


def test_a_new_session_starts_afresh(work: Path) -> None:
    (work / "sub").mkdir()
    output_allowing_bash(work, [bash("cd sub; export A=1"), {"text": "Ok."}])
    output_allowing_bash(work, [bash("echo ${A-none} > $PWD/seen"), {"text": "Ok."}])
    assert (work / "seen").read_text() == "none\n"
    assert not [f for f in json.loads(agent(["doctor", "--json"], work).stdout)["findings"] if f["topic"] == "commands"]


def test_a_background_command_ends_with_a_one_shot_run(work: Path) -> None:
    start = bash("echo $$ > job; exec sleep 60", run_in_background=True)
    output_allowing_bash(work, [start, bash("until [ -s job ]; do sleep 0.01; done"), {"text": "Ok."}])
    assert soon(lambda: gone(int((work / "job").read_text())))


def test_a_daemon_that_outlives_a_one_shot_run_is_named(work: Path) -> None:
    replies = [bash("setsid sleep 60 >/dev/null 2>&1 & echo $! > pid"), {"text": "Ok."}]
    done = run_allowing_bash(work, replies, "--settings", '{"sandbox": {"mode": "off"}}')
    pid = int((work / "pid").read_text())
    assert not gone(pid)
    os.kill(pid, signal.SIGKILL)
    assert "Still running, since it has detached itself (b1): setsid sleep 60" in done.stderr


def test_a_background_command_of_an_earlier_run_is_known_to_have_ended(work: Path) -> None:
    replies = [bash("exec sleep 60", timeout=200), {"text": "Ok."}]
    done = run_allowing_bash(work, replies)
    assert done.stderr.endswith("Stopped, since it was still running in the background (b1): exec sleep 60\n")
    look = call("BashOutput", shell_id="b1")
    end = {"expect": "those of an earlier run ended with it", "text": "Ok."}
    output_allowing_bash(work, [*replies, {"calls": [look]}, end], "-c")


def test_keys_are_passed_on_where_the_settings_of_the_person_say_so(work: Path) -> None:
    replies = [bash("echo ${A_TOKEN-none} ${B_TOKEN-none} > seen; exit 1"), {"text": "Ok."}]
    home = work.parent / "home"
    home.mkdir()
    (home / ".agentrc").write_text('[shell]\nenv_pass = ["A_TOKEN"]\ntimeout = 30\n')
    output_allowing_bash(work, replies, A_TOKEN="a", B_TOKEN="b")
    assert (work / "seen").read_text() == "a none\n"
    found = log_of(work)
    assert "withheld from commands because they look like secrets: B_TOKEN;" in found
    (home / ".agentrc").unlink()
    (work / ".agentrc").write_text('[shell]\nenv_pass = ["A_TOKEN"]\n')
    output_allowing_bash(work, replies, A_TOKEN="a")
    assert (work / "seen").read_text() == "none none\n", "a repository cannot pass keys on"


def test_a_command_past_its_time_goes_on_while_the_run_lasts(work: Path) -> None:
    command = "echo $$ > job; echo begun; until [ -e go ]; do sleep 0.01; done; echo done; sleep 60"
    look = {"calls": [call("BashOutput", shell_id="b1")]}
    text = "now in the background as b1"
    replies = [bash(command), {**bash("touch go"), "expect": text}, look, {"text": "Ok.", "expect": "done\n[b1 runs, "}]
    output_allowing_bash(work, replies, AGENT_SHELL_TIMEOUT="0.5")
    assert "BashOutput shows its output, KillShell stops it" in log_of(work)
    assert soon(lambda: gone(int((work / "job").read_text()))), "it ends with the run"


def test_a_command_past_its_time_is_killed_where_nobody_could_look_at_it(work: Path) -> None:
    replies = [bash("sleep 30"), {"text": "Ok."}]
    output_allowing_bash(work, replies, "--tools", "Bash", AGENT_SHELL_TIMEOUT="0.3")
    assert "timed out after 0.3 s; the command and its children were killed" in log_of(work)
    assert "KillShell" not in log_of(work) and "BashOutput" not in log_of(work)
