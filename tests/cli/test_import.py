"""`agent import`: what other agents have is shown with its place or the reason, taken with --apply, and taken once."""

from __future__ import annotations

import json
import stat
from pathlib import Path

from tests.support.extension_files import home_of, put
from tests.support.program import agent


def others(home: Path) -> None:
    """Files of the four programs."""
    remote = {"type": "http", "url": "https://x.test/mcp", "headers": {"Authorization": "Bearer sekret"}}
    local = {"command": "npx", "args": ["-y", "thing"], "env": {"KEY": "sekret"}}
    projects = {"/p": {"mcpServers": {"theirs": local}}}
    put(home, ".claude.json", json.dumps({"mcpServers": {"web": remote, "desk": local}, "projects": projects}))
    put(home, ".claude/settings.json", json.dumps({"permissions": {}, "spinner": 1}))
    put(home, ".codex/config.toml", 'model = "gpt-5"\nmodel_reasoning_effort = "high"\napproval_policy = "never"\n'
        '[mcp_servers.docs]\nurl = "https://d.test/mcp"\nbearer_token_env_var = "DOCS"\n'
        '[mcp_servers.off]\ncommand = "x"\nenabled = false\n')  # fmt: skip
    put(home, ".codex/prompts/fix.md", "Fix $1.")
    put(home, ".codex/skills/wax/SKILL.md", "---\nname: wax\ndescription: Wax.\n---\nWax.")
    put(home, ".codex/AGENTS.md", "Be brief.")
    put(home, ".codex/auth.json", "{}")
    put(home, ".gemini/settings.json", '{"mcpServers": {"g": {"httpUrl": "https://g.test"}}, // mine\n "theme": "x",}')
    put(home, ".gemini/commands/git/log.toml", 'description = "Log"\nprompt = "See !{git log} and @{a.md}: {{args}}"')
    put(home, ".gemini/GEMINI.md", "Be kind.")
    put(home, ".config/opencode/opencode.json", json.dumps({
        "model": "anthropic/claude-x",
        "mcp": {"o": {"type": "local", "command": ["bun", "x"], "environment": {"A": "b"}}},
        "command": {"test": {"template": "Run it", "description": "Tests"}}, "keybinds": {},
    }))  # fmt: skip


def test_files_of_another_shape_end_in_no_error(work: Path) -> None:
    home = home_of(work)
    put(home, ".claude.json", json.dumps({"projects": ["odd"], "mcpServers": {"web": {"url": "x", "headers": "odd"}}}))
    put(home, ".codex/config.toml", '[mcp_servers.d]\nurl = "https://d"\nheaders = "x"\nbearer_token_env_var = "D"\n')
    done = agent(["import"], work)
    assert done.returncode == 0 and not done.stderr, done.stderr


def test_nothing_is_changed_without_apply_and_all_is_named(work: Path) -> None:
    home = home_of(work)
    others(home)
    done = agent(["import"], work)
    assert done.returncode == 0, done.stderr
    for text in (
        "[mcp.servers.web]", "[mcp.servers.docs]", "model = openai/gpt-5", "effort = high", "~/.agent/commands/fix.md",
        "~/.agent/skills/wax/SKILL.md", "~/.agent/rules/codex.md", "~/.agent/commands/git/log.md",
        "~/.agent/rules/gemini.md", "[mcp.servers.o]", "~/.agent/commands/test.md", "setting approval_policy",
        "setting spinner", "setting keybinds", "setting theme", "login", "it is for /p alone", "switched off there",
        "yours is openai/gpt-5", "Nothing was changed",
    ):  # fmt: skip
        assert text in done.stdout, f"{text}\n{done.stdout}"
    assert "sekret" not in done.stdout
    assert not (home / ".agentrc").exists() and not (home / ".agent").exists()


def test_what_is_taken_works_once_and_is_private(work: Path) -> None:
    home = home_of(work)
    others(home)
    done = agent(["import", "--apply"], work)
    assert done.returncode == 0, done.stderr
    assert stat.S_IMODE((home / ".agentrc").stat().st_mode) == 0o600
    assert (home / ".agent/commands/git/log.md").read_text().endswith("See !`git log` and @a.md: $ARGUMENTS\n")
    listed = json.loads(agent(["mcp", "list", "--json"], work, {"DOCS": "x"}).stdout)
    assert {s["name"] for s in listed} == {"web", "desk", "docs", "g", "o"}
    before = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    again = agent(["import", "--apply"], work)
    assert "to import" not in again.stdout and " imported\n" not in again.stdout
    assert before == {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}


def test_keys_are_not_written_where_others_can_read_them(work: Path) -> None:
    home = home_of(work)
    others(home)
    put(home, ".agentrc", 'model = "anthropic/mine"\n').chmod(0o644)
    done = agent(["import", "claude", "codex", "--apply"], work)
    assert "others can read" in done.stdout and "yours is anthropic/mine" in done.stdout
    assert "sekret" not in (home / ".agentrc").read_text()


def test_what_is_wrong_is_a_sentence(work: Path) -> None:
    home = home_of(work)
    put(home, ".codex/config.toml", "not toml")
    put(home, ".gemini/settings.json", "[]")
    done = agent(["import"], work)
    assert done.returncode == 0 and done.stdout.count("cannot be read") == 2, done.stdout
    assert agent(["import", "emacs"], work).returncode == 2
    assert "Nothing of Claude Code" in agent(["import", "claude"], work).stdout
