"""Hints for mistakes: the commands and options of other agents, and what to write here instead."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from agent_cli.cli.run_options import flags
from agent_cli.kernel.version import PACKAGE

_NO_COUNTERPART = "it has no counterpart here; leave it out"
# Options of other agents, and what to write here instead.
_FOREIGN_OPTIONS = {
    **dict.fromkeys(("--headless", "--non-interactive", "--batch", "--prompt", "--exec", "--print-mode"), "-p"),
    **dict.fromkeys(("--json", "--format", "--output", "--stream-json"), "--output-format json or stream-json"),
    **dict.fromkeys(("--cwd", "--dir", "--workdir", "--working-dir", "--project-dir", "--directory"), "-C DIR"),
    **dict.fromkeys(
        ("--yes", "-y", "--auto", "--auto-approve", "--full-auto", "--approval-mode", "--ask-for-approval", "-a"),
        "--permission-mode acceptEdits, or --yolo in a container",
    ),
    **dict.fromkeys(
        ("--dangerously-bypass-approvals-and-sandbox", "--trust-all-tools", "--allow-all", "--skip-permissions"),
        "--dangerously-skip-permissions",
    ),
    **dict.fromkeys(("--max-steps", "--max-iterations", "--max-rounds", "--step-limit"), "--max-turns N"),
    **dict.fromkeys(("--budget", "--max-cost", "--cost-limit", "--max-budget"), "--max-budget-usd USD"),
    **dict.fromkeys(("--timeout", "--max-time", "--max-duration"), "--settings max_seconds=N"),
    **dict.fromkeys(("--temperature", "--temp"), "--settings temperature=N"),
    **dict.fromkeys(("--max-tokens", "--max-output-tokens"), "--settings max_tokens=N"),
    **dict.fromkeys(("--api-base", "--base-url", "--openai-api-base", "--endpoint"), "--settings 'base_url=\"URL\"'"),
    **dict.fromkeys(("--sandbox", "-s", "--no-sandbox"), "--settings 'sandbox=\"auto\"', \"require\" or \"off\""),
    **dict.fromkeys(("--api-key", "--key", "--token"), "the environment, e.g. ANTHROPIC_API_KEY, or agent login"),
    **dict.fromkeys(("--system", "--system-message", "--instructions"), "--system-prompt TEXT"),
    **dict.fromkeys(("--config", "--config-file", "--conf"), "--settings FILE"),
    **dict.fromkeys(("--include-directories", "--add-directory", "--workspace", "--include-dir"), "--add-dir DIR"),
    **dict.fromkeys(("--allow-tools", "--allowed", "--allow", "--allow-tool"), "--allowedTools RULES"),
    **dict.fromkeys(("--deny", "--deny-tool", "--exclude-tools", "--disallow"), "--disallowedTools RULES"),
    **dict.fromkeys(("--output-schema", "--schema", "--response-format"), "--json-schema FILE"),
    **dict.fromkeys(("--ephemeral", "--no-save", "--no-history", "--incognito", "--temporary"),
                    "--no-session-persistence"),
    **dict.fromkeys(("--session", "--conversation", "--thread", "--resume-session", "--restore"), "--resume ID"),
    **dict.fromkeys(("--last", "--latest", "--restore-chat-history"), "--continue"),
    **dict.fromkeys(("--branch", "--fork", "--copy-session"), "--fork-session"),
    **dict.fromkeys(("--no-config",), "--bare"),
    **dict.fromkeys(("--no-color", "--no-colour", "--no-pretty", "--screen-reader"), "--plain"),
    **dict.fromkeys(("--file", "--files", "--read", "-f"), "@FILE in the prompt"),
    **dict.fromkeys(("--reasoning-effort", "--reasoning", "--think", "--variant"), "--effort LEVEL"),
    **dict.fromkeys(("--mcp", "--mcp-server", "--mcp-servers", "--with-extension"), "--mcp-config FILE"),
    **dict.fromkeys(("--quiet", "-q", "--silent"), "2>/dev/null; only the answer is on standard output"),
    **dict.fromkeys(("--autocompact",), "--settings compact_at=SHARE, a share of the model's window"),
    **dict.fromkeys(("--bg", "--background", "--cloud", "--environment"), "agent serve, which runs sessions of a page"),
    **dict.fromkeys(("--remote-control", "--desktop", "--teleport"), "agent serve, and its page"),
    **dict.fromkeys(("--from-pr",), "-r, and a part of the first message or of the name"),
    **dict.fromkeys(("--tmux",), "tmux new agent --worktree NAME"),
    **dict.fromkeys(
        "--chrome --brief --prompt-suggestions --oss --remote-control-session-name-prefix".split(),
        _NO_COUNTERPART,
    ),
}  # fmt: skip
_KEYS = "agent login stores a key, agent doctor shows which one is used"
_SETTINGS = "settings are in ~/.agentrc: agent doctor shows those in effect, docs/configuration.md all of them"
_UPDATE = f"use what installed it: pipx upgrade {PACKAGE} (or uninstall), or uv tool upgrade {PACKAGE}"
_LISTS = "agent sessions lists and deletes sessions"
# Commands of other agents, and how the same is done here.
FOREIGN_COMMANDS = {
    **dict.fromkeys(("auth", "setup-token", "signin"), _KEYS),
    **dict.fromkeys(("config", "configure", "settings"), _SETTINGS),
    **dict.fromkeys(("update", "upgrade", "install", "uninstall", "migrate-installer"), _UPDATE),
    **dict.fromkeys(("plugins", "extensions", "extension"), "agent plugin adds, lists and removes plugins"),
    **dict.fromkeys(("session", "history"), _LISTS),
    **dict.fromkeys(("rm", "purge"), "agent sessions rm ID deletes a session"),
    **dict.fromkeys(("logs", "log"), "agent show ID prints a session"),
    **dict.fromkeys(("attach", "respawn"), "agent -r ID continues a session, agent serve shows running ones"),
    **dict.fromkeys(("stop", "kill"), "sessions end with their terminal, and on the page of agent serve"),
    **dict.fromkeys(("auto-mode",), "no model decides about calls here: agent permissions shows the rules"),
    **dict.fromkeys(("ultrareview",), "agent review reviews the changes of a branch"),
    **dict.fromkeys(("project",), "agent trust, agent sessions and agent memory manage a project"),
    **dict.fromkeys(("model", "stats", "usage"), "agent models lists models, agent sessions what they cost"),
    **dict.fromkeys(("agents", "agent", "skills", "commands"), "agent doctor lists agents, skills and commands"),
    **dict.fromkeys(("init", "help", "version"), "write /init in a session, or agent --help, agent --version"),
    **dict.fromkeys(("server", "web", "gateway", "app"), "agent serve answers over HTTP, with a page"),
    "migrate": "agent import shows and takes the settings of other agents",
}
# Commands that take an ID, a name or a folder.
_OF_SESSIONS = frozenset("rm purge logs log attach respawn stop kill".split())
_RUN_COMMANDS = ("exec", "run", "e", "chat", "ask")
_SUBCOMMANDS = frozenset(
    "add browse config critique defaults delete disable edit enable get install list login logout ls marketplace new"
    " purge remove reset rm search set show status uninstall unset update upgrade validate whoami".split()
)


def option_hint(name: str) -> str:
    """Return what to write instead of an unknown option, as a sentence; "" if nothing is close."""
    name = name.partition("=")[0]
    known = [n for flag, _ in flags().values() for n in flag.names if n.startswith("--")]
    if name not in _FOREIGN_OPTIONS and (near := difflib.get_close_matches(name, known, 2, 0.7)):
        return f"Did you mean {' or '.join(near)}?"
    meant = _FOREIGN_OPTIONS.get(name) or _FOREIGN_OPTIONS.get(closest(name, _FOREIGN_OPTIONS, 0.85), "")
    return "It has no counterpart here; leave it out." if meant == _NO_COUNTERPART else meant and f"Here: {meant}."


def closest(word: str, known: Iterable[str], cutoff: float) -> str:
    """Return the known word that is closest to one, "" if none is."""
    return next(iter(difflib.get_close_matches(word, list(known), 1, cutoff)), "")


def command_hint(words: Sequence[str], known: Sequence[str]) -> str:
    """Return a hint about a prompt that looks like a command of another agent; "" for any other prompt.

    known: names of our commands.
    """
    first, rest = words[0], words[1:]
    if first in known:
        return ""
    if first in _RUN_COMMANDS and len(rest) == 1 and any(c.isspace() for c in rest[0]):
        return f"`agent {first}` is not a command; write: agent -p '...'"
    about_one = first in _OF_SESSIONS and len(rest) == 1 and not any(c.isspace() for c in rest[0])
    if first in FOREIGN_COMMANDS and (not rest or rest[0] in _SUBCOMMANDS or about_one):
        return f"`agent {first}` is not a command: {FOREIGN_COMMANDS[first]}"
    return ""
