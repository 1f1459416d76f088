"""/tmp in whole sessions: what is asked about, what a later session has, undo, hooks, and without a sandbox."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.program import agent
from tests.support.sandboxes import missing
from tests.support.scripts import call, script

Result = tuple[bool, str]
_OUTSIDE = {"dangerouslyDisableSandbox": True}


@pytest.fixture
def name() -> Iterator[str]:
    """A path in /tmp that nothing else has, removed afterwards."""
    path = f"/tmp/tests{os.getpid()}{os.urandom(4).hex()}"
    yield path
    shutil.rmtree(path, ignore_errors=True)
    Path(path).unlink(missing_ok=True)


def run(work: Path, calls: list[dict[str, Any]], *more: str, settings: str = "", mode: str = "require") -> list[Result]:
    """A one-shot run without anybody to ask; of each call, whether it failed and what the model read."""
    if mode == "require" and (reason := missing("bubblewrap")):
        pytest.skip(f"NOT TESTED: no bubblewrap here: {reason}")
    model = script(work.parent / "s.toml", [*({"calls": [each]} for each in calls), {"text": "Ok."}])
    sandbox = ["--settings", f"sandbox.auto_allow = true\n{settings}", "--trust"]
    args = ["-p", "--model", model, *sandbox, "--output-format", "stream-json", *more, "--", "go"]
    done = agent(args, work, {"AGENT_SANDBOX_MODE": mode})
    assert done.returncode == 0, done.stdout + done.stderr
    return results(done.stdout)


def results(stdout: str) -> list[Result]:
    found = []
    for message in (json.loads(line).get("message") for line in stdout.splitlines()):
        for block in message["content"] if isinstance(message, dict) else ():
            if isinstance(block, dict) and block.get("type") == "tool_result":
                found.append((bool(block.get("is_error")), str(block["content"])))
    return found


def test_the_session_s_files_in_tmp_need_no_question(work: Path, name: str) -> None:
    found = run(
        work,
        [
            call("Write", file_path=f"{name}/s.py", content="print('HERE')\n"),
            call("Bash", command=f"python3 {name}/s.py > {name}/out.log"),
            call("Read", file_path=f"{name}/out.log"),
            call("Edit", file_path=f"{name}/out.log", old_string="HERE", new_string="THERE"),
            call("Grep", pattern="THERE", path=name),
            call("Glob", pattern="*.log", path=name),
            call("LS", path=name),
            call("Bash", command=f"cd {name}"),
            call("Bash", command="cat out.log"),
            call("Read", file_path="s.py"),
        ],
    )
    assert not [text for failed, text in found if failed], found
    assert found[0][1].startswith(f"Created {name}/s.py")
    assert "HERE" in found[2][1] and found[4][1] == f"{name}/out.log" and found[5][1] == f"{name}/out.log"
    assert found[8][1].startswith("THERE\n") and "print" in found[9][1]
    assert Path(name, "out.log").read_text() == "THERE\n"


def test_other_files_of_the_machine_in_tmp_still_ask(work: Path, name: str) -> None:
    Path(name).mkdir()
    Path(name, "theirs").write_text("theirs\n")
    found = run(
        work,
        [
            call("Read", file_path=f"{name}/theirs"),
            call("Write", file_path=f"{name}/new", content="x"),
            call("Bash", command=f"cat {name}/theirs"),
            call("Bash", command=f"touch {name}/new"),
            call("Write", file_path="/tmp/.hidden-by-tests", content="x"),
            call("Write", file_path="/tmp/ssh-tests/x", content="x"),
        ],
    )
    assert [failed for failed, _ in found] == [True, True, False, True, True, True]
    assert "reads outside the workspace" in found[0][1] and "outside the workspace" in found[1][1]
    assert [p.name for p in Path(name).iterdir()] == ["theirs"]


def test_rules_hold_for_files_in_tmp(work: Path, name: str) -> None:
    rules = [f"Write(/{name}/no/**)", f"Read(/{name}/secret)"]
    found = run(
        work,
        [
            call("Bash", command=f"mkdir -p {name}/no; echo s > {name}/secret"),
            call("Write", file_path=f"{name}/no/x", content="x"),
            call("Read", file_path=f"{name}/secret"),
            call("Write", file_path=f"{name}/.env", content="x"),
            call("Read", file_path=f"{name}/.env"),
        ],
        "--disallowedTools",
        ",".join(rules),
    )
    assert [failed for failed, _ in found[:3]] == [False, True, True]
    assert "denied by" in found[1][1] and "denied by" in found[2][1]
    assert found[4][0]


@pytest.mark.parametrize("target", [".ssh/id_rsa", ".bashrc"])
def test_a_link_planted_in_tmp_is_not_followed_without_a_question(work: Path, name: str, target: str) -> None:
    home = work.parent / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / target).write_text("SECRET\n")
    (work / "plant.sh").write_text(
        f"mkdir {name}; ln -s {home / target} {name}/x; ln -s {home} {name}/d; ln -s {home} {name}2\n"
    )
    found = run(
        work,
        [
            call("Bash", command=f"sh plant.sh; echo {name} {name}2"),
            call("Read", file_path=f"{name}/x"),
            call("Write", file_path=f"{name}/x", content="EVIL"),
            call("Edit", file_path=f"{name}/d/{target}", old_string="SECRET", new_string="EVIL"),
            call("Read", file_path=f"{name}2/{target}"),
            call("Grep", pattern="SECRET", path=f"{name}/d", output_mode="content"),
            call("Bash", command=f"cat {name}/x {name}2/{target}"),
        ],
        "--permission-mode",
        "acceptEdits",
    )
    assert all(failed for failed, _ in found[1:]), found
    assert not [text for _, text in found if "SECRET" in text]
    assert (home / target).read_text() == "SECRET\n" and not os.path.lexists(f"{name}2")


def test_a_resumed_session_has_its_files_in_tmp(work: Path, name: str) -> None:
    first = [
        call("Bash", command=f"echo one > {name}"),
        call("Bash", command=f"mkdir {name}.d; echo in > {name}.d/f; cd {name}.d"),
    ]
    run(work, first)
    more = [
        call("Read", file_path=name),
        call("Edit", file_path=name, old_string="one", new_string="1"),
        call("Bash", command=f"pwd; cat f; echo two >> {name}; echo more >> {name}.d/f; cat {name} {name}.d/f"),
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
    assert found[-1][1].startswith(f"{name}.d\nin\n1\ntwo\nin\nmore\n")
    assert Path(name).read_text() == "1\ntwo\n"
    shutil.rmtree(f"{name}.d")


def test_undo_restores_a_file_in_tmp_that_a_tool_changed(work: Path, name: str) -> None:
    run(work, [call("Write", file_path=name, content="first\n")])
    assert Path(name).read_text() == "first\n"
    done = agent(["undo", "--yes"], work)
    assert done.returncode == 0, done.stderr
    assert not Path(name).exists(), done.stdout


def test_a_hook_and_a_command_outside_see_the_same_file(work: Path, name: str) -> None:
    seen = work.parent / "seen"
    handler = f'{{type = "command", command = "cat {name} >> {seen}"}}'
    hook = f'[[hooks.PostToolUse]]\nmatcher = "Write|Bash"\nhooks = [{handler}]'
    (work.parent / "home/.config/agent").mkdir(parents=True)
    found = run(
        work,
        [
            call("Write", file_path=name, content="written\n"),
            call("Bash", command=f"echo more >> {name}"),
            call("Bash", command=f"cat {name}", **_OUTSIDE),
        ],
        "--permission-mode",
        "bypassPermissions",
        settings=hook,
    )
    assert found[2][1].startswith("written\nmore\n")
    assert seen.read_text().startswith("written\nwritten\nmore\n")


def test_without_a_sandbox_tmp_is_the_machine_s_and_asks(work: Path, name: str) -> None:
    found = run(work, [call("Write", file_path=name, content="x")], mode="off")
    assert found[0][0] and not Path(name).exists()
    found = run(
        work,
        [call("Bash", command=f"echo HERE > {name}"), call("Read", file_path=name)],
        "--permission-mode",
        "bypassPermissions",
        mode="off",
    )
    assert "HERE" in found[1][1]
