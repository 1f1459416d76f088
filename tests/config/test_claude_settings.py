"""Permissions that are taken from Claude Code's settings files, and what is not understood in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_cli.config.claude_settings import add_claude_settings
from agent_cli.config.layers import Layers, Origin
from tests.support.program import agent


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


@pytest.mark.parametrize(
    "permissions", [3, [], None, {"allow": 3, "deny": "x", "defaultMode": {}, "additionalDirectories": [1, None]}]
)
def test_shapes_of_another_version_are_skipped(tmp_path: Path, permissions: Any) -> None:
    path = tmp_path / ".claude/settings.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"permissions": permissions}))
    layers = taken(path)
    assert (layers.rules, layers.ignored) == ([], [])


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
