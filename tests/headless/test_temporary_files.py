"""/tmp in whole sessions: what is asked about, what a later session has, undo, hooks, and without a sandbox."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.program import agent
from tests.support.sandboxes import missing
from tests.support.scripts import call, script

Result = tuple[bool, str]
_OUTSIDE = {"dangerouslyDisableSandbox": True}


def run(work: Path, calls: list[dict[str, Any]], *more: str, settings: str = "", mode: str = "require") -> list[Result]:
    """A one-shot run without anybody to ask; of each call, whether it failed and what the model read."""
    if mode == "require" and (reason := missing("bubblewrap")):
        pytest.skip(f"NOT TESTED: no bubblewrap here: {reason}")
    model = script(work.parent / "s.toml", [*({"calls": [each]} for each in calls), {"text": "Ok."}])
    sandbox = ["--settings", f"sandbox.auto_allow = true\n{settings}", "--trust"]
    args = ["-p", "--model", model, *sandbox, "--output-format", "stream-json", *more, "--", "go"]
    done = agent(args, work, {"AGENT_SANDBOX_MODE": mode})
    assert done.returncode in (0, 5), done.stdout + done.stderr
    return results(done.stdout)


def results(stdout: str) -> list[Result]:
    found = []
    for message in (json.loads(line).get("message") for line in stdout.splitlines()):
        for block in message["content"] if isinstance(message, dict) else ():
            if isinstance(block, dict) and block.get("type") == "tool_result":
                found.append((bool(block.get("is_error")), str(block["content"])))
    return found


def test_the_session_s_files_in_tmp_need_no_question(work: Path, tmp_name: str) -> None:
    found = run(
        work,
        [
            call("Write", file_path=f"{tmp_name}/s.py", content="print('HERE')\n"),
            call("Bash", command=f"python3 {tmp_name}/s.py > {tmp_name}/out.log"),
            call("Read", file_path=f"{tmp_name}/out.log"),
            call("Edit", file_path=f"{tmp_name}/out.log", old_string="HERE", new_string="THERE"),
            call("Grep", pattern="THERE", path=tmp_name),
            call("Glob", pattern="*.log", path=tmp_name),
            call("LS", path=tmp_name),
            call("Bash", command=f"cd {tmp_name}"),
            call("Bash", command="cat out.log"),
            call("Read", file_path="s.py"),
        ],
    )
    assert not [text for failed, text in found if failed], found
    assert found[0][1].startswith(f"Created {tmp_name}/s.py")
    assert "HERE" in found[2][1] and found[4][1] == f"{tmp_name}/out.log" and found[5][1] == f"{tmp_name}/out.log"
    assert found[8][1].startswith("THERE\n") and "print" in found[9][1]
    assert Path(tmp_name, "out.log").read_text() == "THERE\n"


def test_other_files_of_the_machine_in_tmp_still_ask(work: Path, tmp_name: str) -> None:
    Path(tmp_name).mkdir()
    Path(tmp_name, "theirs").write_text("theirs\n")
    found = run(
        work,
        [
            call("Read", file_path=f"{tmp_name}/theirs"),
            call("Write", file_path=f"{tmp_name}/new", content="x"),
            call("Bash", command=f"cat {tmp_name}/theirs"),
            call("Bash", command=f"touch {tmp_name}/new"),
            call("Write", file_path="/tmp/.hidden-by-tests", content="x"),
            call("Write", file_path="/tmp/tmux-99999999/x", content="x"),
        ],
    )
    assert [failed for failed, _ in found] == [True, True, False, True, True, True]
    assert "reads outside the workspace" in found[0][1] and "outside the workspace" in found[1][1]
    assert [p.name for p in Path(tmp_name).iterdir()] == ["theirs"]


def test_rules_hold_for_files_in_tmp(work: Path, tmp_name: str) -> None:
    rules = [f"Write(/{tmp_name}/no/**)", f"Read(/{tmp_name}/secret)"]
    found = run(
        work,
        [
            call("Bash", command=f"mkdir -p {tmp_name}/no; echo s > {tmp_name}/secret"),
            call("Write", file_path=f"{tmp_name}/no/x", content="x"),
            call("Read", file_path=f"{tmp_name}/secret"),
            call("Write", file_path=f"{tmp_name}/.env", content="x"),
            call("Read", file_path=f"{tmp_name}/.env"),
        ],
        "--disallowedTools",
        ",".join(rules),
    )
    assert [failed for failed, _ in found[:3]] == [False, True, True]
    assert "denied by" in found[1][1] and "denied by" in found[2][1]
    assert found[4][0]


@pytest.mark.parametrize("target", [".ssh/id_rsa", ".bashrc"])
def test_a_link_planted_in_tmp_is_not_followed_without_a_question(work: Path, tmp_name: str, target: str) -> None:
    home = work.parent / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / target).write_text("SECRET\n")
    (work / "plant.sh").write_text(
        f"mkdir {tmp_name}; ln -s {home / target} {tmp_name}/x; ln -s {home} {tmp_name}/d; ln -s {home} {tmp_name}2\n"
    )
    found = run(
        work,
        [
            call("Bash", command=f"sh plant.sh; echo {tmp_name} {tmp_name}2"),
            call("Read", file_path=f"{tmp_name}/x"),
            call("Write", file_path=f"{tmp_name}/x", content="EVIL"),
            call("Edit", file_path=f"{tmp_name}/d/{target}", old_string="SECRET", new_string="EVIL"),
            call("Read", file_path=f"{tmp_name}2/{target}"),
            call("Grep", pattern="SECRET", path=f"{tmp_name}/d", output_mode="content"),
            call("Bash", command=f"cat {tmp_name}/x {tmp_name}2/{target}"),
        ],
        "--permission-mode",
        "acceptEdits",
    )
    assert all(failed for failed, _ in found[1:]), found
    assert not [text for _, text in found if "SECRET" in text]
    assert (home / target).read_text() == "SECRET\n" and not os.path.lexists(f"{tmp_name}2")


def test_a_resumed_session_has_its_files_in_tmp(work: Path, tmp_name: str) -> None:
    first = [
        call("Bash", command=f"echo one > {tmp_name}"),
        call("Bash", command=f"mkdir {tmp_name}.d; echo in > {tmp_name}.d/f; cd {tmp_name}.d"),
    ]
    run(work, first)
    more = [
        call("Read", file_path=tmp_name),
        call("Edit", file_path=tmp_name, old_string="one", new_string="1"),
        call(
            "Bash",
            command=f"pwd; cat f; echo two >> {tmp_name}; echo more >> {tmp_name}.d/f; cat {tmp_name} {tmp_name}.d/f",
        ),
    ]
    # The script of a session that goes on begins where the answers so far end.
    model = script(
        work.parent / "s.toml",
        [
            *({"calls": [each]} for each in first),
            {"text": "Ok."},
            *({"calls": [each]} for each in more),
            {"text": "Ok."},
        ],
    )
    args = ["-p", "-c", "--model", model, "--settings", "sandbox.auto_allow = true", "--output-format", "stream-json"]
    done = agent([*args, "--", "go"], work, {"AGENT_SANDBOX_MODE": "require"})
    found = results(done.stdout)
    assert not [text for failed, text in found if failed], found
    assert found[-1][1].startswith(f"{tmp_name}.d\nin\n1\ntwo\nin\nmore\n")
    assert Path(tmp_name).read_text() == "1\ntwo\n"
    shutil.rmtree(f"{tmp_name}.d")


def test_undo_restores_a_file_in_tmp_that_a_tool_changed(work: Path, tmp_name: str) -> None:
    run(work, [call("Write", file_path=tmp_name, content="first\n")])
    assert Path(tmp_name).read_text() == "first\n"
    done = agent(["undo", "--yes"], work)
    assert done.returncode == 0, done.stderr
    assert not Path(tmp_name).exists(), done.stdout


def test_a_hook_and_a_command_outside_see_the_same_file(work: Path, tmp_name: str) -> None:
    seen = work.parent / "seen"
    handler = f'{{type = "command", command = "cat {tmp_name} >> {seen}"}}'
    hook = f'[[hooks.PostToolUse]]\nmatcher = "Write|Bash"\nhooks = [{handler}]'
    (work.parent / "home/.config/agent").mkdir(parents=True)
    found = run(
        work,
        [
            call("Write", file_path=tmp_name, content="written\n"),
            call("Bash", command=f"echo more >> {tmp_name}"),
            call("Bash", command=f"cat {tmp_name}", **_OUTSIDE),
        ],
        "--permission-mode",
        "bypassPermissions",
        settings=hook,
    )
    assert found[2][1].startswith("written\nmore\n")
    assert seen.read_text().startswith("written\nwritten\nmore\n")


def test_without_a_sandbox_tmp_is_the_machine_s_and_asks(work: Path, tmp_name: str) -> None:
    found = run(work, [call("Write", file_path=tmp_name, content="x")], mode="off")
    assert found[0][0] and not Path(tmp_name).exists()
    found = run(
        work,
        [call("Bash", command=f"echo HERE > {tmp_name}"), call("Read", file_path=tmp_name)],
        "--permission-mode",
        "bypassPermissions",
        mode="off",
    )
    assert "HERE" in found[1][1]
