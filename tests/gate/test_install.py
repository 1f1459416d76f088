"""`agent gate install` and `remove`: the hooks in the files of other programs, and nothing else of these files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_cli.extras.gate.json_text import JsonTextError, append_item, parse_json_text, remove_item
from tests.support.gate_hooks import HOSTS, LABELS
from tests.support.program import agent

FILES = {
    "claude": (".claude/settings.json", ".claude/settings.json"), "codex": (".codex/hooks.json", ".codex/hooks.json"),
    "copilot": (".copilot/hooks/agent-gate.json", ".github/hooks/agent-gate.json"),
    **{name: (f".{name}/settings.json",) * 2 for name in ("gemini", "qwen")},
}  # fmt: skip
OWN = """{
    // which model
    "model": "opus",   /* a note */
    "hooks": {
        "PreToolUse": [
            {"matcher": "Bash", "hooks": [{"type": "command", "command": "mine"}]}
        ],
        "Notification": []
    },
    "list": [1,2 , 3]
}
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    (folder / ".git").mkdir(parents=True)
    (tmp_path / "home").mkdir()
    return folder


@pytest.mark.parametrize("where", ["user", "project"])
@pytest.mark.parametrize("host", HOSTS)
def test_the_hooks_of_a_program_come_and_go(repository: Path, host: str, where: str) -> None:
    path = (repository.parent / "home" / FILES[host][0]) if where == "user" else repository / FILES[host][1]
    flags = ["--project"] if where == "project" else []
    done = agent(["gate", "install", host, *flags], repository)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == f"{LABELS[host]} asks agent from now on: {path}"
    assert any("If the hook" in line for line in lines)
    first = path.read_text()
    commands = [line for line in first.splitlines() if f"gate decide {host}" in line]
    assert len(commands) == len(json.loads(first)["hooks"])
    assert agent(["gate", "install", host, *flags], repository).returncode == 0
    assert path.read_text() == first  # once, however often it is installed
    assert ('"agent gate decide' in first) == (where == "project")
    done = agent(["gate", "remove", host, *flags], repository)
    assert done.stdout == f"{LABELS[host]} does not ask agent any more: {path}\n"
    assert not path.exists()
    assert "has no hooks of agent gate here" in agent(["gate", "remove", host, *flags], repository).stdout


def test_claude_code_refuses_if_the_hook_fails_and_waits_longer_than_it(repository: Path) -> None:
    agent(["gate", "install", "claude", "--wait", "120"], repository)
    hooks = json.loads((repository.parent / "home/.claude/settings.json").read_text())["hooks"]
    (hook,) = hooks["PreToolUse"][0]["hooks"]
    assert (hook["onFailure"], hook["timeout"]) == ("block", 135)
    assert "--wait 120 || { echo " in hook["command"]
    done = agent(["gate", "install", "qwen", "--wait", "120"], repository)
    assert done.returncode == 2
    assert "--wait: expected 1 to 45: Qwen Code continues without an answer after 45 seconds" in done.stderr
    assert "A call waits 45 seconds" in agent(["gate", "install", "qwen"], repository).stdout


@pytest.mark.parametrize("text", [OWN, OWN.replace("\n", "\r\n"), OWN.replace("    ", "\t"), OWN.replace("[]", "[ ]")])
def test_everything_else_in_a_file_stays_as_it_is(repository: Path, text: str) -> None:
    """Comments, keys that are not known, spaces, other hooks, the permissions, and a link that leads to it."""
    home = repository.parent / "home"
    real = repository.parent / "dotfiles.json"
    real.write_bytes(text.encode())
    real.chmod(0o640)
    (home / ".claude").mkdir()
    (home / ".claude/settings.json").symlink_to(real)
    assert agent(["gate", "install", "claude"], repository).returncode == 0
    changed = real.read_bytes().decode()
    assert parse_json_text(changed).value["hooks"]["PreToolUse"][0] == {
        "matcher": "Bash", "hooks": [{"type": "command", "command": "mine"}]
    }  # fmt: skip
    assert parse_json_text(changed).value["list"] == [1, 2, 3]
    assert all(line in changed for line in ("// which model", "/* a note */", '"list": [1,2 , 3]'))
    assert agent(["gate", "remove", "claude"], repository).returncode == 0
    assert real.read_bytes().decode() == text
    assert (home / ".claude/settings.json").is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("text", ['{"hooks": ', '{"hooks": []}', '{"hooks": {"PreToolUse": {}}}', "[]", "true"])
def test_a_file_that_is_not_understood_is_not_changed(repository: Path, text: str) -> None:
    path = repository.parent / "home/.claude/settings.json"
    path.parent.mkdir()
    path.write_text(text)
    done = agent(["gate", "install", "claude"], repository)
    assert done.returncode == 2
    assert str(path) in done.stderr
    assert path.read_text() == text


TEXTS = (
    "{}", '{"a": {}}', '{"a": {"b": []}}', '{"a": {"b": [ ]}}', '{"a": {"b": [\n  ]}}', '{"a": {"b": [0, "x"],}}',
    '{"z": 1}', '{\n  // mine\n}', '{"a": {\n    // mine\n  }\n}', '{"a": { /* mine */ "b": [] }}',
    '{"a": {"b": [ // none\n]}}', '{"a": {"c": [], "b": []}}', '{"a": {"b": [0 /* x */]}}', '{"a": {"b": [0, // x\n]}}',
)  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_what_was_added_to_a_text_can_be_removed(text: str) -> None:
    added = append_item(text, ("a", "b"), {"new": [1]})
    items = parse_json_text(added).value["a"]["b"]
    assert items[-1] == {"new": [1]}
    assert remove_item(added, ("a", "b"), len(items) - 1) == text


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ('{\n  "a": {\n    // why\n    "b": [\n      1\n    ]\n  }\n}', '{\n  "a": {\n    // why\n  }\n}'),
        ('{"a": {"b": [\n  // first\n  1,\n  // second\n  2\n]}}', '{"a": {"b": [\n  // first\n  // second\n  2\n]}}'),
        ('{"a": {"b": [1, /* two */ 2]}}', '{"a": {"b": [ /* two */ 2]}}'),
        ('{"a": {"b": [1 /* one */]}}', '{"a": {"b": [ /* one */]}}'),
        ('{"a": {"b": [\n  1\n]}, "c": 2}', '{"a": {}, "c": 2}'),
    ],
)
def test_comments_around_what_is_removed_stay(text: str, left: str) -> None:
    removed = remove_item(text, ("a", "b"), 0)
    assert removed == left and parse_json_text(removed)


def test_a_comment_before_the_last_item_stays_when_that_is_removed() -> None:
    assert remove_item('{"a": [1, // one\n  2\n]}', ("a",), 1) == '{"a": [1 // one\n]}'


@pytest.mark.parametrize("text", ["", "{", '{"a" 1}', '{"a": 1 "b": 2}', "{} x", '{"a": nul}', "[1,,2]"])
def test_a_text_that_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(JsonTextError):
        parse_json_text(text)
