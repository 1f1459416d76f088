"""Permissions that are taken from Claude Code's settings files, and what is not understood in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_cli.config.claude_settings import add_claude_settings
from agent_cli.config.config import Config
from agent_cli.config.layers import Layers, Origin
from agent_cli.kernel.run_environment import RunEnvironment
from agent_cli.kernel.runtime.environment import add_overrides
from tests.support.program import agent
from tests.support.scripts import call, script


def write(path: Path, **permissions: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"permissions": permissions, "hooks": {"Stop": []}, "cleanupPeriodDays": 3}))
    return path


def taken(path: Path, origin: Origin = "user") -> Layers:
    layers = Layers()
    add_claude_settings(layers, path, origin, {})
    return layers


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "lib").mkdir()
    return write(
        tmp_path / "project/.claude/settings.json",
        allow=["Bash(npm run test:*)", "Edit(/src/**)", "mcp__github", "PowerShell(x)"],
        ask=["Bash(git push:*)"],
        deny=["Read(./secrets/**)", "WebFetch"],
        defaultMode="acceptEdits",
        additionalDirectories=["../lib", "../gone"],
    )


def test_rules_mode_and_folders_are_taken(file: Path, tmp_path: Path) -> None:
    layers = taken(file)
    assert [(r.list, r.text) for r in layers.rules] == [
        ("deny", "Read(./secrets/**)"),
        ("deny", "WebFetch"),
        ("ask", "Bash(git push:*)"),
        ("allow", "Bash(npm run test:*)"),
        ("allow", "Edit(/src/**)"),
        ("allow", "mcp__github"),
    ]
    assert {r.base for r in layers.rules} == {str(tmp_path / "project")}
    permissions = layers.settings().permissions
    assert permissions.mode == "acceptEdits"
    assert [Path(d).resolve() for d in permissions.additional_directories] == [tmp_path / "lib"]
    assert layers.imported == [
        f"{file}: 2 deny, 1 ask, 3 allow, mode acceptEdits, 1 additional directories, "
        "2 ignored as unreadable (PowerShell(x), ../gone)"
    ]
    assert layers.ignored == []


def test_without_trust_only_what_tightens_is_taken(file: Path) -> None:
    layers = taken(file, "project")
    assert [r.list for r in layers.rules] == ["deny", "deny", "ask"]
    assert layers.settings().permissions.mode == "default"
    assert [h.key for h in layers.held] == [
        "permissions.allow",
        "permissions.mode",
        "permissions.additional_directories",
    ]


def test_a_rule_that_denies_and_is_not_understood_is_reported(tmp_path: Path) -> None:
    layers = taken(write(tmp_path / ".claude/settings.json", deny=["bash(rm:*)", 3], ask=["Edit()"], allow=["edit"]))
    assert layers.rules == []
    assert len(layers.ignored) == 3
    assert all("is ignored" in text for text in layers.ignored)
    assert layers.imported == [
        f"{tmp_path}/.claude/settings.json: 4 ignored as unreadable (bash(rm:*), 3, Edit(), edit)"
    ]


@pytest.mark.parametrize(
    "text", ["{", "[]", "", "nonsense", '{"a": 1, "a": 2}', "\xff", '{"permissions":' * 5000, "{}" + "}" * 9]
)
def test_a_file_that_cannot_be_read_is_reported_and_ends_nothing(tmp_path: Path, text: str) -> None:
    path = tmp_path / ".claude/settings.json"
    path.parent.mkdir()
    path.write_bytes(text.encode("latin-1"))
    layers = taken(path)
    assert len(layers.ignored) == 1
    assert str(path) in layers.ignored[0]


def settings(folder: Path, table: Any) -> Path:
    path = folder / ".claude/settings.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(table if isinstance(table, str) else json.dumps(table), "utf-8")
    return path


@pytest.mark.parametrize("permissions", [None, {}, {"defaultMode": {}, "additionalDirectories": [1, None]}])
def test_shapes_without_rules_are_skipped(tmp_path: Path, permissions: Any) -> None:
    layers = taken(settings(tmp_path, {"permissions": permissions}))
    assert (layers.rules, layers.ignored) == ([], [])


def test_a_text_is_a_list_of_one_rule(tmp_path: Path) -> None:
    given = {"deny": "Read(plan.txt)", "ask": "Bash(rm:*)", "allow": "Bash(make:*)"}
    layers = taken(settings(tmp_path, {"permissions": given}))
    assert [(r.list, r.text) for r in layers.rules] == [(kind, given[kind]) for kind in ("deny", "ask", "allow")]
    assert layers.ignored == []


@pytest.mark.parametrize(
    ("table", "named"),
    [
        ({"permissions": ["Read(plan.txt)"]}, "permissions: expected a table"),
        ({"permissions": "deny Read(plan.txt)"}, "permissions: expected a table"),
        ({"permissions": {"deny": {"Read": "plan.txt"}}}, "permissions.deny: expected a list of text"),
        ({"permissions": {"ask": True}}, "permissions.ask: expected a list of text"),
        ({"permissions": {"denied": ["Read(plan.txt)"]}}, "permissions.denied: not known here; did you mean deny?"),
        ({"permissions": {"denyList": ["Read(plan.txt)"]}}, "permissions.denyList: not known here; did you mean deny?"),
        ({"permissions": {"Deny": ["Read(plan.txt)"]}}, "permissions.Deny: not known here; did you mean deny?"),
        ({"permissions": {"block": ["Read(plan.txt)"]}}, "permissions.block: not known here"),
        (
            {"permissions": {"disallowedTools": ["Read"]}},
            "permissions.disallowedTools: not known here; did you mean deny?",
        ),
        ({"permission": {"deny": ["Read(plan.txt)"]}}, "permission: rules are read from permissions only"),
        ({"Permissions": {"deny": ["Read(plan.txt)"]}}, "Permissions: rules are read from permissions only"),
        ({"deny": ["Read(plan.txt)"]}, "deny: rules are read from permissions.deny only"),
        ({"disallowedTools": ["Read"]}, "disallowedTools: rules are read from permissions.deny only"),
        ({"ask": "Read"}, "ask: rules are read from permissions.ask only"),
        ({"permissions": {"deny": ['Read("plan.txt")']}}, "the quotes are taken literally; write Read(plan.txt)"),
        ({"permissions": {"deny": "Bash('rm -rf x')"}}, "the quotes are taken literally; write Bash(rm -rf x)"),
        ({"permissions": {"ask": ["Edit(`src/**`)"]}}, "the quotes are taken literally"),
        ({"permissions": {"deny": [{"tool": "Read", "path": "plan.txt"}]}}, "is not a string"),
        ({"permissions": {"deny": [["Read(plan.txt)"]]}}, "is not a string"),
        ({"permissions": {"deny": ["Read(a), Bash(b)"]}}, "holds several rules"),
        ({"permissions": {"deny": None}}, "permissions.deny: expected a list of text"),
        ({"permissions": {"deny": ["Read( plan.txt )"]}}, "the spaces are taken literally; write Read(plan.txt)"),
        ({"permissions": {"deny": ["Bash(rm:* )"]}}, "the spaces are taken literally; write Bash(rm:*)"),
        ({"permissions": {"ask": ["Read(.\\plan.txt)"]}}, "separate folders with /"),
        ({"permissions": {"deny": ["Edit(src\\**)"]}}, "separate folders with /"),
        ({"permissions": {"deny": ["Read(\u200bplan.txt)"]}}, "a character that cannot be seen: \\u200bplan.txt"),
        ({"tools": {"deny": ["Read"]}}, "tools: rules are read from permissions.deny only"),
        ({"settings": {"permissions": {"deny": ["Read"]}}}, "settings: rules are read from permissions only"),
        ({"ignorePatterns": ["plan.txt"]}, "ignorePatterns: rules are read from permissions.deny only"),
        ({"sandbox": {"filesystem": {"denyRead": ["/x"]}}}, "sandbox.filesystem.denyRead has no effect here"),
        ({"hook": {"PreToolUse": []}}, "hook: hooks are read from hooks only"),
        ({"Hooks": {"PreToolUse": []}}, "Hooks: hooks are read from hooks only"),
        ({"PreToolUse": []}, "PreToolUse: hooks are read from hooks only"),
        ({"config": {"hooks": {}}}, "config: hooks are read from hooks only"),
        ({"hooks": "./guard.sh"}, "hooks: expected a table of events"),
    ],
)
def test_what_looks_like_a_rule_and_is_none_is_reported(tmp_path: Path, table: Any, named: str) -> None:
    for origin in ("user", "trusted", "project"):
        layers = taken(settings(tmp_path, table), origin)  # type: ignore[arg-type]
        assert layers.rules == []
        assert len(layers.ignored) == 1, layers.ignored
        assert named in layers.ignored[0]
        assert str(tmp_path) in layers.ignored[0]


def test_keys_that_only_resemble_rules_for_servers_are_not_reported(tmp_path: Path) -> None:
    table = {
        "deniedMcpServers": [],
        "allowedMcpServers": [],
        "askedBefore": 1,
        "network": {"allow": ["example.org"]},
        "blockedMarketplaces": [],
        "theme": "dark",
    }
    assert taken(settings(tmp_path, table)).ignored == []


COMMENTED = """// mine
{
  /* keep the plan */
  "permissions": {
    "deny": [
      "Read(plan.txt)", // not this one
      "WebFetch(domain:example.org)", /* "Bash", */
      "Bash(curl http://a//b)",
    ],
  },
}
"""


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_comments_trailing_commas_and_marks_are_read(tmp_path: Path, mark: str) -> None:
    layers = taken(settings(tmp_path, mark + COMMENTED))
    assert [r.text for r in layers.rules] == [
        "Read(plan.txt)",
        "WebFetch(domain:example.org)",
        "Bash(curl http://a//b)",
    ]
    assert layers.ignored == []
    assert layers.rules[0].source.endswith(":6")


def test_utf_16_as_power_shell_writes_it_is_read(tmp_path: Path) -> None:
    path = settings(tmp_path, "")
    path.write_bytes(COMMENTED.encode("utf-16"))
    assert len(taken(path).rules) == 3


READING = [{"calls": [call("Read", file_path="plan.txt")]}, {"text": "ok"}]


@pytest.mark.parametrize(
    ("name", "text", "reported"),
    [
        (".claude/settings.json", '{"permissions": {"deny": "Read(plan.txt)"}}', ""),
        (".claude/settings.local.json", '\ufeff{"permissions": {"deny": ["Read(plan.txt)"]}}', ""),
        (".claude/settings.json", '{"permissions": {"deny": ["Read(plan.txt)",]}} // x', ""),
        ("home/.claude/settings.json", '{"permissions": {"deny": "Read(plan.txt)"}}', ""),
        (".agentrc", '\ufeff[permissions]\ndeny = "Read(plan.txt)"', ""),
        (".agentrc", '// x\n{"permissions": {"deny": "Read(plan.txt)",}}', ""),
        ("home/.agentrc", '[permissions]\ndeny = "Read(plan.txt)"', ""),
        ("--settings", '{"permissions": {"deny": "Read(plan.txt)"}}', ""),
        ("--settings", '{"permissions": {"deny": ["Read(plan.txt)"]}, /* x */}', ""),
        ("policy", '{"permissions": {"deny": "Read(plan.txt)"}}', ""),
        ("policy", '\ufeff// x\n{"permissions": {"deny": ["Read(plan.txt)"]}}', ""),
        (".claude/settings.json", '{"permissions": {"denied": ["Read(plan.txt)"]}}', "permissions.denied: not known"),
        (".claude/settings.json", '{"permissions": {"deny": ["FileReader(plan.txt)"]}}', "there is no tool FileReader"),
        (
            "home/.claude/settings.json",
            '{"deny": ["Read(plan.txt)"]}',
            "deny: rules are read from permissions.deny only",
        ),
        (".agentrc", 'deny = ["Read(plan.txt)"]', "deny: unknown setting"),
        (".agentrc", '[permissions]\ndenied = ["Read(plan.txt)"]', "permissions.denied: unknown setting"),
        ("--settings", '{"denied": ["Read(plan.txt)"]}', "denied has no effect"),
        ("policy", '{"permissions": {"denied": ["Read(plan.txt)"]}}', "denied: rules are read from"),
        ("policy", '{"permission": {"deny": ["Read(plan.txt)"]}}', "permission: rules are read from"),
    ],
)
def test_a_deny_rule_is_applied_or_reported_in_every_format(
    work: Path, home: Path, name: str, text: str, reported: str
) -> None:
    (work / "plan.txt").write_text("the plan")
    flags: list[str] = []
    env: dict[str, str] = {}
    if name == "--settings":
        flags = ["--settings", text]
    else:
        folder = home if name.startswith("home/") else work.parent if name == "policy" else work
        path = folder / name.removeprefix("home/")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
        env = {"AGENT_POLICY": str(path)} if name == "policy" else {}
    done = agent(["-p", "--model", script(work.parent / "script.toml", READING), *flags, "go"], work, env=env)
    if reported:
        assert reported in done.stderr
    else:
        assert "Denied: Read" in done.stderr


@pytest.mark.parametrize(("mode", "meant"), [("auto", "acceptEdits"), ("manual", "default")])
def test_modes_with_another_name_here(tmp_path: Path, mode: str, meant: str) -> None:
    layers = taken(write(tmp_path / ".claude/settings.json", defaultMode=mode))
    assert layers.settings().permissions.mode == meant


@pytest.mark.parametrize("mode", ["bypassPermissions", "delegate"])
def test_modes_that_a_file_cannot_set_are_skipped(tmp_path: Path, mode: str) -> None:
    layers = taken(write(tmp_path / ".claude/settings.json", defaultMode=mode))
    assert layers.settings().permissions.mode == "default"


def test_the_real_program_takes_them_under_the_same_trust(work: Path) -> None:
    home = work.parent / "home"
    write(home / ".claude/settings.json", deny=["Bash(curl:*)"], allow=["Bash(uname)"])
    write(work / ".claude/settings.json", allow=["Bash(make:*)"], deny=["Bash(wget:*)"])
    write(work / ".claude/settings.local.json", allow=["Bash(tox:*)"])

    def rules(*flags: str) -> list[str]:
        done = agent(["permissions", "list", "--json", *flags], work)
        assert done.returncode == 0, done.stderr
        return [f"{r['list']} {r['rule']}" for r in json.loads(done.stdout)["rules"]]

    assert rules() == ["deny Bash(curl:*)", "deny Bash(wget:*)", "allow Bash(uname)"]
    assert rules("--trust") == [
        "deny Bash(curl:*)",
        "deny Bash(wget:*)",
        "allow Bash(uname)",
        "allow Bash(make:*)",
        "allow Bash(tox:*)",
    ]
    assert rules("--bare") == []
    shown = agent(["doctor"], work).stdout
    assert f"{home}/.claude/settings.json: 1 deny, 1 allow" in shown
    assert f"{work}/.claude/settings.json: 1 deny, ignored, as the project is not trusted: allow" in shown


def test_servers_and_plugins_with_marks_and_comments_are_read(work: Path, home: Path) -> None:
    (work / ".mcp.json").write_text('\ufeff{"mcpServers": {"one": {"command": "true"},}} // mine\n', "utf-8")
    listed = agent(["mcp", "list"], work)
    assert "one" in listed.stdout and "cannot be read" not in listed.stderr
    folder = work.parent / "gp"
    (folder / ".claude-plugin").mkdir(parents=True)
    (folder / ".claude-plugin/plugin.json").write_text('\ufeff{"name": "gp", /* x */}', "utf-8")
    (folder / "hooks").mkdir()
    command = '{"type": "command", "command": "touch http://ran || touch ran"}'
    hook = f'{{"hooks": {{"UserPromptSubmit": [{{"hooks": [{command},]}}]}}}}'
    (folder / "hooks/hooks.json").write_text(f"// of the plugin\n{hook}")
    model = script(work.parent / "script.toml", [{"text": "ok"}])
    done = agent(["-p", "--model", model, "--plugin-dir", str(folder), "go"], work)
    assert (done.stdout, (work / "ran").exists()) == ("ok\n", True), done.stderr


def test_the_question_about_trust_reads_the_same_files(work: Path) -> None:
    """What takes effect after a yes is what was shown before it."""
    settings(work, '{"env": {"OPENAI_BASE_URL": "http://evil/",}, /* x */}')
    assert "OPENAI_BASE_URL=http://evil/" in agent(["trust", "--show"], work).stdout


def test_rules_of_a_caller_may_be_one_text() -> None:
    layers = Layers()
    add_overrides(layers, Config(deny="Read(plan.txt)"), RunEnvironment(Path("/w"), Path("/w"), None, {}))  # type: ignore[arg-type]
    assert [(rule.list, rule.text) for rule in layers.rules] == [("deny", "Read(plan.txt)")]
