"""Files of others are read as their own programs read them: a key that is not known never ends an entry.

`public_keys.json` has the keys of 6,096 public files of November 2026, as names only: plugins, marketplaces, hooks,
skills, agents, commands and MCP servers of seven repositories.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_cli.config.claude_keys import translate
from agent_cli.config.server_keys import read_server
from agent_cli.hooks.reader import parse_hooks
from agent_cli.knowledge.agents import agent_types_from, find_agent_types
from agent_cli.knowledge.commands import find_commands
from agent_cli.knowledge.plugins.install import read_marketplace
from agent_cli.knowledge.plugins.manifest import read_plugin
from agent_cli.knowledge.skills import find_skills
from agent_cli.models.resolve import validate_name
from agent_tools.record import DecodeError
from tests.support.extension_files import put
from tests.support.plugin_folders import marketplace_folder

KEYS: dict[str, list[str]] = json.loads(Path(__file__).with_name("public_keys.json").read_text())
ODD = ("odd", 7, True, {"a": 1}, ["x"], None)


@pytest.mark.parametrize("key", KEYS["hook"] + KEYS["group"])
def test_a_hook_runs_with_any_key(key: str) -> None:
    for value in ODD if key not in ("type", "command", "matcher", "if") else ():
        handler = {"type": "command", "command": "true"} | ({key: value} if key in KEYS["hook"] else {})
        group = {"matcher": "Bash", "hooks": [handler]} | ({key: value} if key in KEYS["group"] else {})
        found = parse_hooks({"PreToolUse": [group]}, "x", from_user=True)
        assert [(hook.command, hook.unusable) for hook in found.hooks] == [("true", "")] or key in ("enabled",)
        assert len(found.lines()) <= 1


def test_a_list_of_hooks_in_a_plugin_runs_with_unknown_keys() -> None:
    entry = {"event": "Stop", "command": "true", "priority": 100, "continueOnError": True, "description": "Formats"}
    found = parse_hooks([entry], "plugin", from_user=True, foreign=True)
    assert [hook.command for hook in found.hooks] == ["true"]
    assert found.problems == ()
    assert parse_hooks([entry], "settings", from_user=True).problems, "in our own form, a key may be misspelled"


def test_a_hook_of_an_event_that_is_not_known_is_named() -> None:
    for event in KEYS["event"]:
        found = parse_hooks({event: [{"hooks": [{"type": "command", "command": "true"}]}]}, "x", from_user=True)
        assert found.hooks or "is not a known event" in found.lines()[0]


@pytest.mark.parametrize("key", KEYS["plugin"] + KEYS["entry"] + KEYS["marketplace"])
def test_a_plugin_and_a_marketplace_load_with_any_key(key: str, tmp_path: Path) -> None:
    for number, value in enumerate(ODD if key not in ("name", "plugins", "source") else ()):
        put(tmp_path / str(number), ".claude-plugin/plugin.json", json.dumps({"name": "tidy", key: value}))
        plugin = read_plugin(tmp_path / str(number), tmp_path / "data", {key: value})
        assert plugin.name == "tidy" and len(plugin.notes) == len(set(plugin.notes))
        shop = marketplace_folder(tmp_path / f"shop{number}", {"name": "tidy", "source": "./tidy", key: value})
        file = shop / ".claude-plugin/marketplace.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), key: value}))
        assert list(read_marketplace(shop).entries) == ["tidy"]


@pytest.mark.parametrize("kind", ["skill", "agent", "command"])
def test_a_file_is_used_with_any_key_in_its_front_matter(kind: str, tmp_path: Path) -> None:
    places = {"skill": ".claude/skills/one/SKILL.md", "agent": ".claude/agents/one.md",
              "command": ".claude/commands/one.md"}  # fmt: skip
    for key in KEYS[kind]:
        for number, value in enumerate(("odd", "7", "true", "[a, b]", "{a: 1}", "")):
            if key == "name" or (key, kind) == ("tools", "agent"):
                continue
            home = tmp_path / f"{key}-{number}"
            about = "" if key == "description" else "description: One.\n"
            put(home, places[kind], f"---\n{about}{key}: {value}\n---\n# One\n\nDo it.")
            found: Any
            if kind == "skill":
                found, _ = find_skills(home, None)
            elif kind == "agent":
                found, _ = find_agent_types(home, None, {"Read"}, lambda name: validate_name(name, None))
            else:
                found, _ = find_commands(home, None)
            assert list(found) == ["one"], (key, value)


@pytest.mark.parametrize(
    ("tools", "kept", "missing"),
    [("read, GREP", ("Read", "Grep"), ()), ("Read, codebase, changes", ("Read",), ("codebase", "changes"))],
)
def test_an_agent_has_those_of_its_tools_that_are_here(
    tools: str, kept: tuple[str, ...], missing: tuple[str, ...], tmp_path: Path
) -> None:
    put(tmp_path, ".claude/agents/one.md", f"---\ndescription: One.\ntools: {tools}\nmodel: unheard\n---\nDo it.")
    found, notes = find_agent_types(tmp_path, None, {"Read", "Grep"}, lambda name: validate_name(name, None))
    assert (found["one"].tools, found["one"].missing_tools, found["one"].model) == (kept, missing, "")
    assert len(notes) == 1 and "the model of the session is used" in notes[0]


@pytest.mark.parametrize("key", KEYS["agent"])
def test_an_agent_in_json_is_used_with_any_key(key: str) -> None:
    for value in ODD if key not in ("tools", "hooks", "prompt") else ():
        assert "one" in agent_types_from({"one": {"description": "One.", "prompt": "Do it.", key: value}}, "x", [])


@pytest.mark.parametrize("key", KEYS["mcp"])
def test_a_server_starts_with_any_key(key: str) -> None:
    for value in ODD:
        try:
            server, notes = read_server("one", {"command": "true", key: value})
        except DecodeError:
            # A value of a key that is known has to be one.
            assert key in ("args", "command", "cwd", "disabled", "disabledTools", "env", "headers", "httpUrl", "oauth",
                           "serverUrl", "timeout", "transport", "type", "url")  # fmt: skip
            continue
        assert server.command == "true" or key == "command"
        assert len(notes) <= 1


@pytest.mark.parametrize("key", KEYS["settings"])
def test_settings_are_read_with_any_key(key: str) -> None:
    for value in ODD:
        found = translate({key: value, "theme": "dark"}, lambda key: False)
        assert found.settings["terminal"]["theme"] == "dark"
