"""Which keys and folders of other programs are read here, and why the others are not: the words of the load report."""

from __future__ import annotations

from collections.abc import Iterable

_PROMPT = frozenset(("description", "argument-hint", "allowed-tools", "model", "disable-model-invocation", "flow"))
USED = {
    "command": _PROMPT | {"hide-from-slash-command-tool"},
    "skill": _PROMPT | {"name", "user-invocable", "when_to_use"},
    "agent": frozenset(("name", "description", "tools", "disallowedTools", "model")),
}
_HERE = "it works in this conversation, not in one of its own"
_WORDS = "only says something about the file"
_REASONS = {
    "name": "the file's name counts",
    "tools": "in this kind of file the key is allowed-tools",
    "allowed-tools": "in this kind of file the key is tools",
    "allowed_tools": "the key is allowed-tools",
    "context": _HERE,
    "agent": _HERE,
    "fork": _HERE,
    "hooks": "hooks stand in settings files",
    "color": "types have no colours here",
    "user-invocable": "a command is always yours to use",
    "effort": "the session's effort holds",
    "thinking": "the session's effort holds",
    "permissionMode": "the session's mode holds",
    "maxTurns": "the limits of the turn hold",
    "skills": "it may use any skill itself",
    "mcpServers": "servers are those of the session",
    "memory": "it begins without a memory",
    "background": "a sub-agent is waited for",
    "isolation": "it works in the same folder",
    "paths": "it is offered everywhere",
    "shell": "commands run in bash",
    **dict.fromkeys(
        "author category categories compatibility created date license metadata name_zh owner priority source status "
        "tags title type updated version".split(),
        _WORDS,
    ),
}
# Of Claude Code's settings: "" for what is taken.
SETTINGS = {
    "permissions": "",
    "hooks": "",
    "disableAllHooks": "counts in your own settings only",
    "$schema": "only says something about the file",
    "env": "variables are those of your shell",
    "model": "the model is that of our own settings",
    "statusLine": "the command for it is status_line under [terminal] of our own settings",
    "outputStyle": "there are no output styles",
    "enabledPlugins": "plugins of Claude Code are not read",
    "extraKnownMarketplaces": "plugins of Claude Code are not read",
    "includeCoAuthoredBy": "nothing is added to commits by itself",
    "attribution": "nothing is added to commits by itself",
    "cleanupPeriodDays": "sessions are kept",
    "apiKeyHelper": "the key is that of key_command in your own settings",
    "sandbox": "the sandbox is set in our own settings",
    **dict.fromkeys(
        "enableAllProjectMcpServers enabledMcpjsonServers disabledMcpjsonServers".split(),
        "servers are approved with agent mcp approve, and switched off by disabled under [mcp] of our own settings",
    ),
}
PERMISSIONS = frozenset(("allow", "ask", "deny", "defaultMode", "additionalDirectories"))
# Files and folders right below `.agent` and `.claude`: whether they take effect, and what they are.
_MEMORY = (True, "memory, which has a line of its own")
_STATUS = (False, "not used by itself: the command for it is status_line under [terminal] of our own settings")
FOLDERS = {
    **dict.fromkeys(("AGENTS.md", "CLAUDE.md", "AGENTS.local.md", "CLAUDE.local.md", "rules"), _MEMORY),
    "hooks": (True, "belongs to hooks, and runs where one names it"),
    "output-styles": (False, "not used: there are no output styles"),
    "plugins": (False, "not used: plugins of Claude Code are not read"),
    "scripts": (True, "belongs to what names it"),
    "worktrees": (False, "not used: worktrees of another program"),
    **dict.fromkeys(("statusline.sh", "status_lines"), _STATUS),
    "README.md": (False, "not used: a comment"),
    ".gitignore": (False, "not used: a note for git"),
}


def unused(kind: str, keys: Iterable[str]) -> list[str]:
    """The keys of a head that change nothing, those of one reason together."""
    reasons: dict[str, list[str]] = {}
    for key in keys:
        if key not in USED[kind]:
            reasons.setdefault(_REASONS.get(key, "not known here"), []).append(key)
    return [f"{', '.join(names)}: {why}" for why, names in reasons.items()]
