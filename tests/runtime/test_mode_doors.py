"""The mode bypassPermissions at every door: chosen only if the user allowed it when the session began."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from acp import RequestError

from tests.support.editor_client import connected
from tests.support.host_client import HostClient
from tests.support.program import agent
from tests.support.scripts import bash, script

FLAG = ("--allow-dangerously-skip-permissions",)
ASKS = ("--permission-prompt-tool", "stdio")
BYPASS = "bypassPermissions"


def replies(work: Path) -> str:
    return script(work.parent / "s.toml", [bash("touch ran"), {"text": "done"}])


def slash_command(work: Path, *args: str) -> str:
    done = agent(["--model", replies(work), *args], work, {"IS_SANDBOX": "1"}, stdin=f"/mode {BYPASS}\ngo\n")
    return done.stdout + done.stderr


def control_request(work: Path, *args: str) -> str:
    with HostClient(["--model", replies(work), *args], work, IS_SANDBOX="1") as host:
        answer = host.request("set_permission_mode", mode=BYPASS)
        host.say("go")
        return str(answer)


def flag_settings(work: Path, *args: str) -> str:
    with HostClient(["--model", replies(work), *args], work, IS_SANDBOX="1") as host:
        answer = host.request("apply_flag_settings", settings={"permissions": {"defaultMode": BYPASS}})
        host.say("go")
        return str(answer)


def permission_update(work: Path, *args: str) -> str:
    """The host allows a first call and sets the mode with it; the second call is not asked about in that mode."""
    model = script(work.parent / "s.toml", [bash("touch first"), bash("touch ran"), {"text": "done"}])
    update = {"type": "setMode", "mode": BYPASS, "destination": "session"}

    def decide(fields: dict[str, Any]) -> dict[str, Any]:
        if "first" not in fields["input"]["command"]:
            return {"behavior": "deny", "message": "no"}
        return {"behavior": "allow", "updatedInput": fields["input"], "updatedPermissions": [update]}

    with HostClient(["--model", model, *ASKS, *args], work, {"can_use_tool": decide}, IS_SANDBOX="1") as host:
        host.say("go")
        host.process.stdin.close()  # type: ignore[union-attr]
        return host.process.stderr.read().decode()  # type: ignore[union-attr]


def editor(work: Path, how: Callable[[Any, str], Any], *args: str) -> str:
    async def story() -> str:
        async with connected(work, [bash("touch ran"), {"text": "done"}], *args) as here:
            opened = await here.agent.new_session(cwd=str(work), mcp_servers=[])
            listed = [mode.id for mode in opened.modes.available_modes]
            assert (BYPASS in listed) is bool(args)
            try:
                await how(here.agent, opened.session_id)
            except RequestError as error:
                return str(error)
            (work / "ran").touch()  # the mode was set; the tests of the editor run commands in it
            return ""

    return asyncio.run(story())


def editor_mode(work: Path, *args: str) -> str:
    return editor(work, lambda a, session: a.set_session_mode(session_id=session, mode_id=BYPASS), *args)


def editor_option(work: Path, *args: str) -> str:
    return editor(work, lambda a, s: a.set_config_option(session_id=s, config_id="mode", value=BYPASS), *args)


DOORS = [slash_command, control_request, flag_settings, permission_update, editor_mode, editor_option]


@pytest.mark.parametrize("door", DOORS)
def test_a_session_that_did_not_allow_it_cannot_be_switched(work: Path, home: Path, door: Callable[..., str]) -> None:
    assert "bypassPermissions has to be allowed when a session begins" in door(work)
    assert not (work / "ran").exists()


@pytest.mark.parametrize("door", DOORS)
def test_with_the_flag_it_can(work: Path, home: Path, door: Callable[..., str]) -> None:
    assert "has to be allowed" not in door(work, *FLAG)
    assert (work / "ran").exists()


@pytest.mark.parametrize(("folder", "allowed"), [("home", True), ("work", False)])
def test_the_users_own_setting_allows_it_and_a_projects_does_not(
    work: Path, home: Path, folder: str, allowed: bool
) -> None:
    ((home if folder == "home" else work) / ".agentrc").write_text("[permissions]\nallow_bypass = true\n")
    assert ("has to be allowed" not in slash_command(work, "--trust")) is allowed
    assert (work / "ran").exists() is allowed


def test_a_policy_refuses_it_whatever_was_allowed(work: Path, home: Path) -> None:
    (work.parent / "policy.toml").write_text("no_bypass = true\n")
    args = ["--model", replies(work), *FLAG]
    env = {"IS_SANDBOX": "1", "AGENT_POLICY": str(work.parent / "policy.toml")}
    done = agent(args, work, env, stdin=f"/mode {BYPASS}\ngo\n")
    assert "refused by the policy" in done.stdout + done.stderr
    assert not (work / "ran").exists()


@pytest.mark.parametrize("given", ["Read(plan.txt)", {"Read": "plan.txt"}, ["Read("], [["Read"]]])
def test_deny_rules_of_a_host_are_added_or_refused(work: Path, given: Any) -> None:
    with HostClient(["--model", replies(work)], work) as host:
        answer = host.request("apply_flag_settings", settings={"permissions": {"deny": given, "denied": ["Read"]}})
        listed = host.ask("list_permission_rules")["state"]["rules"]
    if given == "Read(plan.txt)":
        assert answer["response"]["ignored"] == ["permissions.denied"]
        assert [r["rule"] for r in listed if r["behavior"] == "deny"] == ["Read(plan.txt)"]
    else:
        assert "permissions.deny" in answer["error"]
