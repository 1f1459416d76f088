"""Hooks of what changes a session: its model, its folders, its worktree; and of commands in a prompt."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.hook_logs import given, hooks
from tests.support.host_client import HostClient
from tests.support.program import agent
from tests.support.scripts import script
from tests.support.waiting import soon

SWITCHES = ("PreModelSwitch", "PostModelSwitch")


def decides(verdict: str, reason: str = "") -> dict[str, Any]:
    inside = {"hookEventName": "PreModelSwitch", "permissionDecision": verdict, "permissionDecisionReason": reason}
    return {"PreModelSwitch": {"hookSpecificOutput": inside}}


def two_models(work: Path, **expect: str) -> tuple[str, str]:
    one = script(work.parent / "one.toml", [{"text": "One answers.", "usage": {"input": 1000}}, {"text": "One again."}])
    return one, script(work.parent / "two.toml", [{"text": "Two answers.", **expect}])


def test_hooks_hear_of_another_model_and_add_to_its_first_request(work: Path, home: Path) -> None:
    add = {"hookSpecificOutput": {"hookEventName": "PostModelSwitch", "additionalContext": "Mind the price."}}
    log = hooks(home, {"PostModelSwitch": add}, SWITCHES)
    one, two = two_models(work, expect="Mind the price.")
    done = agent(["--plain", "--model", one], work, stdin=f"hi\n/model {two}\n/model {two}\nhello\n")
    assert "Two answers." in done.stdout, done.stdout + done.stderr
    (before,), (after,) = given(log, "PreModelSwitch"), given(log, "PostModelSwitch")
    assert before["from_model"].endswith("one.toml") and before["to_model"].endswith("two.toml")
    assert (before["source"], before["requested_model"], before["cache_ttl"]) == ("command", two, "5m")
    assert before["context_tokens"] > 0 and before["prompt_cache_warm"] is True
    assert before["estimated_cache_write_usd"] == 0 and before["permission_mode"] == "default"
    assert {key: after[key] for key in before if key != "hook_event_name"} | {"hook_event_name": ""} == {
        **before, "hook_event_name": ""
    }  # fmt: skip
    # A copy of the session keeps its model without asking anybody.
    log = hooks(home, {}, ("PreModelSwitch",))
    log.unlink()
    two = script(work.parent / "two.toml", [{"text": "Two answers."}])
    done = agent(["--plain", "--model", one], work, stdin=f"/model {two}\n/clear\nhello\n")
    assert len(given(log, "PreModelSwitch")) == 1 and "Two answers." in done.stdout


@pytest.mark.parametrize("answers, model", [("n\n", "One"), ("y\n", "Two")])
def test_a_hook_may_ask_the_user_about_another_model(work: Path, home: Path, answers: str, model: str) -> None:
    hooks(home, decides("ask", "It costs more."), SWITCHES)
    one, two = two_models(work)
    done = agent(["--plain", "--model", one], work, stdin=f"/model {two}\n{answers}hello\n")
    assert "It costs more." in done.stdout + done.stderr
    assert f"{model} answers." in done.stdout


def test_a_hook_keeps_the_model_of_a_host_and_a_question_does_as_nobody_answers(work: Path, home: Path) -> None:
    one, two = two_models(work)
    seen: list[str] = []

    def hook(fields: dict[str, Any]) -> dict[str, Any]:
        data = fields["input"]
        seen.append(data["hook_event_name"])
        verdict = "ask" if len(seen) > 1 else "deny"
        inside = {"hookEventName": "PreModelSwitch", "permissionDecision": verdict, "permissionDecisionReason": "No."}
        return {"hookSpecificOutput": inside} if len(seen) < 3 else {}

    with HostClient(["--model", one], work, {"hook_callback": hook}) as host:
        host.ask("initialize", hooks={"PreModelSwitch": [{"hookCallbackIds": ["one"]}]})
        assert "A hook keeps the model: No." in host.request("set_model", model=two)["error"]
        assert "nobody can approve it: No." in host.request("set_model", model=two)["error"]
        assert host.say("hello")["result"] == "One answers."
        host.ask("set_model", model=two)
        assert host.say("hello")["result"] == "Two answers."
    assert seen == ["PreModelSwitch"] * 3


def test_hooks_hear_of_a_folder_that_is_added(work: Path, home: Path) -> None:
    (work.parent / "other").mkdir()
    (work.parent / "third").mkdir()
    log = hooks(home, {}, ("DirectoryAdded",))
    model = script(work.parent / "s.toml", [{"text": "One.", "expect": "added the folder"}, {"text": "Two."}])
    done = agent(["--plain", "--model", model], work, stdin="/add-dir ../other\nhi\n")
    assert "One." in done.stdout
    with HostClient(["--model", model], work) as host:
        host.ask("initialize")
        host.ask("register_repo_root", directory=str(work.parent / "third"))
        assert host.say("hi")["result"] == "One."
        assert soon(lambda: len(given(log, "DirectoryAdded")) == 2, 60), "these hooks run in the background"
    added = [(line["directory"], line["source"]) for line in given(log, "DirectoryAdded")]
    assert added == [
        (str(work.parent / "other"), "slash_command"), (str(work.parent / "third"), "register_repo_root"),
    ]  # fmt: skip


def worktree_hooks(home: Path, create: str, remove: str = "true") -> None:
    """Settings with hooks that make and remove worktrees."""
    table = {
        name: [{"hooks": [{"type": "command", "command": command}]}]
        for name, command in (("WorktreeCreate", create), ("WorktreeRemove", remove))
    }
    (home / ".claude").mkdir(exist_ok=True)
    (home / ".claude/settings.json").write_text(json.dumps({"hooks": table}))


def test_a_hook_makes_and_removes_the_worktree(work: Path, home: Path) -> None:
    # A project without git, as with other version control.
    (work / ".git").rmdir()
    made = work.parent / "made"
    worktree_hooks(home, f"cat > {work.parent}/created; mkdir -p {made} && echo {made}")
    model = script(work.parent / "s.toml", [{"text": "ok"}])
    done = agent(["-p", "--worktree", "try", "--model", model, "hi"], work)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr
    created = json.loads((work.parent / "created").read_text())
    assert (created["name"], created["cwd"], created["hook_event_name"]) == ("try", str(work), "WorktreeCreate")
    assert f"In {made}, which a WorktreeCreate hook made." in done.stderr
    assert "stays: remove it when you have its changes" in done.stderr


def test_a_worktree_of_a_hook_is_removed_by_a_hook_if_nothing_was_changed(tmp_path: Path) -> None:
    repo, home = tmp_path / "repo", tmp_path / "home"
    repo.mkdir()
    home.mkdir()
    for words in (
        ["init", "-q"],
        ["-c", "user.name=A", "-c", "user.email=a@b", "commit", "--allow-empty", "-qm", "one"],
    ):
        subprocess.run(["git", *words], cwd=repo, check=True)
    made = tmp_path / "made"
    worktree_hooks(
        home, f"git worktree add -q -b mine {made} >&2 && echo {made}",
        f"cat > {tmp_path}/removed; git worktree remove {made}",
    )  # fmt: skip
    model = script(tmp_path / "s.toml", [{"text": "ok"}])
    done = agent(["-p", "--worktree", "try", "--model", model, "hi"], repo)
    assert "Removed the worktree: nothing was changed in it." in done.stderr, done.stderr
    assert json.loads((tmp_path / "removed").read_text())["worktree_path"] == str(made)
    assert not made.exists()
    worktree_hooks(home, f"git worktree add -q {made} mine >&2 && echo {made}", "echo broken >&2; exit 1")
    done = agent(["-p", "--worktree", "try", "--model", model, "hi"], repo)
    assert "stays: a WorktreeRemove hook failed" in done.stderr and made.exists()


@pytest.mark.parametrize(
    "command, why",
    [
        ("echo no room >&2; exit 2", "refuses it: no room"),
        ("echo broken >&2; exit 1", "made no folder: exited with 1: broken"),
        ("true", "it printed no path"),
        ("echo /nowhere/at/all", "is not a folder"),
        ("pwd; true # the project itself", "is the project"),
    ],
)
def test_without_the_folder_of_a_hook_no_session_begins(work: Path, home: Path, command: str, why: str) -> None:
    worktree_hooks(home, command)
    done = agent(["-p", "--worktree", "try", "--model", "scripted:/dev/null", "hi"], work)
    assert done.returncode == 2 and why in done.stderr, done.stderr


def test_a_hook_refuses_a_command_in_the_text_of_a_command(work: Path, home: Path) -> None:
    (home / ".claude/commands").mkdir(parents=True)
    (home / ".claude/commands/state.md").write_text("State: !`touch made`")
    no = {
        "hookEventName": "PreSkillShellCommand",
        "permissionDecision": "deny",
        "permissionDecisionReason": "Not here.",
    }
    log = hooks(home, {"PreSkillShellCommand": {"hookSpecificOutput": no}}, ("PreSkillShellCommand",))
    model = script(work.parent / "s.toml", [{"text": "ok"}])
    args = ["-p", "--model", model, "--allowedTools", "Bash", "/state"]
    done = agent(args, work)
    assert "Not here." in done.stderr and not (work / "made").exists()
    (asked,) = given(log, "PreSkillShellCommand")
    assert (asked["tool_input"], asked["command_name"], asked["invoked_by"]) == (
        {"command": "touch made"}, "state", "user",
    )  # fmt: skip
    hooks(home, {}, ("PreSkillShellCommand",))
    assert agent(args, work).stdout == "ok\n" and (work / "made").exists()
