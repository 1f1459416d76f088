"""A policy above all settings: what it refuses, through the real program, and what is wrong with its file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_cli.config.parsing import SettingsError
from agent_cli.config.policy import read_policy
from tests.support.extension_files import home_of
from tests.support.plugin_folders import plugin_folder
from tests.support.program import agent
from tests.support.scripts import bash, script

POLICY = """
no_bypass = true
allowed_servers = ["good", "https://ok.test/*"]
allowed_plugins = ["other"]
allowed_marketplaces = ["https://git.test/*"]
[permissions]
deny = ["Bash(echo secret:*)"]
"""


@pytest.fixture
def policy(work: Path) -> dict[str, str]:
    path = work.parent / "policy.toml"
    path.write_text(POLICY)
    return {"AGENT_POLICY": str(path), "IS_SANDBOX": "1"}


@pytest.mark.parametrize("flags", [[], ["--bare"], ["--settings", '{"permissions": {"allow": ["Bash"]}}']])
def test_its_rules_are_above_flags_and_settings(work: Path, policy: dict[str, str], flags: list[str]) -> None:
    model = script(work.parent / "s.toml", [bash("echo secret > out"), {"text": "Ok."}])
    args = ["-p", "--allowedTools", "Bash", *flags, "--model", model, "hi"]
    assert "Denied: Bash" in agent(args, work, policy).stderr
    assert not (work / "out").exists()
    assert agent(args, work).returncode == 0 and (work / "out").exists()


@pytest.mark.parametrize("flags", [[], ["--bare"]])
def test_bypass_is_refused(work: Path, policy: dict[str, str], flags: list[str]) -> None:
    model = script(work.parent / "s.toml", [{"text": "Ok."}])
    args = ["-p", "--permission-mode", "bypassPermissions", *flags, "--model", model, "hi"]
    refused = agent(args, work, policy)
    assert refused.returncode == 2 and "bypassPermissions is refused by the policy" in refused.stderr
    assert agent(args, work, {"IS_SANDBOX": "1"}).returncode == 0
    managed = json.dumps({"permissions": {"disableBypassPermissionsMode": "disable"}, "env": {}})
    hosted = agent([*args, "--managed-settings", managed], work, {"IS_SANDBOX": "1"})
    assert hosted.returncode == 2 and "(--managed-settings)" in hosted.stderr


def test_managed_settings_only_restrict(work: Path) -> None:
    model = script(work.parent / "s.toml", [bash("echo hi > out"), {"text": "Ok."}])
    loose = {"permissions": {"allow": ["Bash"], "defaultMode": "acceptEdits"}, "env": {"A": "b"}, "sandbox": {}}
    args = ["-p", "--model", model, "--managed-settings", json.dumps(loose), "hi"]
    done = agent(args, work)
    text = (
        "--managed-settings can only restrict, so this has no effect: permissions.allow, permissions.defaultMode, env"
    )
    assert text in done.stderr and not (work / "out").exists(), done.stderr


def test_a_host_cannot_get_around_it(work: Path, policy: dict[str, str]) -> None:
    model = script(work.parent / "s.toml", [{"text": "Ok."}])
    args = ["--input-format", "stream-json", "--output-format", "stream-json", "--verbose", "--model", model]
    managed = json.dumps({"permissions": {"disableBypassPermissionsMode": "disable"}})
    servers = {"bad": {"command": "touch", "args": [str(work / "ran")]}}
    requests = [
        {"subtype": "initialize"},
        {"subtype": "mcp_set_servers", "servers": servers},
        {"subtype": "set_permission_mode", "mode": "bypassPermissions"},
    ]
    lines = [{"type": "control_request", "request_id": str(n), "request": r} for n, r in enumerate(requests)]
    stdin = "".join(json.dumps(line) + "\n" for line in lines)
    done = agent([*args, "--managed-settings", managed], work, policy, stdin=stdin)
    found = {m["response"]["request_id"]: m["response"] for m in map(json.loads, done.stdout.splitlines())
            if m["type"] == "control_response"}  # fmt: skip
    assert found["1"]["response"]["added"] == [] and "the policy" in found["1"]["response"]["errors"]["bad"]
    assert not (work / "ran").exists()
    assert "refused by the policy" in found["2"]["error"]
    only = agent([*args, "--managed-settings", managed], work, {"IS_SANDBOX": "1"}, stdin=stdin)
    assert "(--managed-settings)" in only.stdout


def test_servers_and_plugins_that_are_not_listed_are_left_out(work: Path, policy: dict[str, str]) -> None:
    (home_of(work)).mkdir(exist_ok=True)
    servers = {"good": {"command": "true"}, "bad": {"command": "true"}, "web": {"url": "https://ok.test/mcp"}}
    (work.parent / "m.json").write_text(json.dumps({"mcpServers": servers}))
    model = script(work.parent / "s.toml", [{"text": "Ok."}])
    args = ["-p", "--mcp-config", str(work.parent / "m.json"), "--output-format", "stream-json", "--model", model, "x"]
    done = agent(args, work, policy)
    assert {s["name"] for s in json.loads(done.stdout.splitlines()[0])["mcp_servers"]} == {"good", "web"}
    assert "the MCP server bad was left out: the policy" in done.stderr
    folder = plugin_folder(work.parent)
    given = agent(["-p", "--plugin-dir", str(folder), "--model", model, "x"], work, policy)
    assert given.returncode == 2 and "does not list it" in given.stderr
    added = agent(["plugin", "add", str(folder), "--yes"], work, policy)
    assert added.returncode == 2 and "does not list it" in added.stderr
    market = agent(["plugin", "marketplace", "add", "owner/shop"], work, policy)
    assert market.returncode == 2 and "does not list it" in market.stderr
    assert agent(["plugin", "add", str(folder), "--yes"], work).returncode == 0
    held = agent(["-p", "--model", model, "x"], work, policy)
    assert "the plugin tidy is not loaded: the policy" in held.stderr


def test_doctor_shows_it(work: Path, policy: dict[str, str]) -> None:
    shown = agent(["doctor"], work, policy).stdout
    assert "policy" in shown and "deny: Bash(echo secret:*)" in shown and "no mode bypassPermissions" in shown


def test_what_is_wrong_with_a_policy_stops_the_program(work: Path, policy: dict[str, str]) -> None:
    model = script(work.parent / "s.toml", [{"text": "Ok."}])
    for text in ("deny = 1", "surprise = 1", "no_bypass = 3", "[permissions]\ndeny = 5", "not toml"):
        Path(policy["AGENT_POLICY"]).write_text(text)
        done = agent(["-p", "--model", model, "hi"], work, policy)
        assert done.returncode == 2 and "Traceback" not in done.stderr, text
    missing = agent(["-p", "--model", model, "hi"], work, {"AGENT_POLICY": str(work / "none")})
    assert missing.returncode == 2 and "cannot be read, so nothing is run" in missing.stderr


def test_the_file_must_be_roots_and_lists_are_intersected(tmp_path: Path) -> None:
    file = tmp_path / "etc" / "policy.toml"
    file.parent.mkdir()
    file.write_text('allowed_servers = ["a", "b"]')
    file.chmod(0o666)
    with pytest.raises(SettingsError, match="writable by root alone"):
        read_policy({}, None, str(file))
    other = tmp_path / "second.toml"
    other.write_text('allowed_servers = ["b", "c"]')
    given = {"allowedMcpServers": [{"serverName": "b"}, {"serverName": "c"}]}
    both = read_policy({"AGENT_POLICY": str(other)}, json.dumps(given))
    assert [bool(both.refuses_server(name, "x")) for name in "abc"] == [True, False, False]
