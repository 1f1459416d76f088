"""Map keys of Claude Code's settings to ours, and the others to the reason why they have no effect.

`translate` is pure: it reads nothing and decides nothing about trust; that is up to the layer that gets the result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agent_cli.kernel.modes import MODE_ALIASES
from agent_tools.record import Value

_PLUGINS = "plugins are added one by one, after a question: agent plugin add"
_SERVERS = "servers are approved with agent mcp approve"
_LOGIN = "keys come from the environment, a keyring or key_command"
_LOOK = "this program has its own look"
_ORGANISATION = "it belongs to managed settings"
# Keys without a counterpart, and why; keys that are not here are unknown.
UNUSED = {
    "$schema": "",
    "disableAllHooks": "applies only in your own settings",
    **dict.fromkeys("pluginConfigs skippedPlugins".split(), _PLUGINS),
    **dict.fromkeys("enableAllProjectMcpServers enabledMcpjsonServers".split(), _SERVERS),
    **dict.fromkeys(
        "forceLoginMethod forceLoginOrgUUID awsAuthRefresh awsCredentialExport gcpAuthRefresh"
        " otelHeadersHelper".split(),
        _LOGIN,
    ),
    **dict.fromkeys(
        "spinnerTipsEnabled spinnerTipsOverride spinnerVerbs showTurnDuration terminalProgressBarEnabled fileSuggestion"
        " prefersReducedMotion teammateMode feedbackSurveyRate companyAnnouncements subagentStatusLine tui viewMode"
        " syntaxHighlightingDisabled autoScrollEnabled promptSuggestionEnabled preferredNotifChannel".split(),
        _LOOK,
    ),
    **dict.fromkeys(
        "allowManagedHooksOnly allowManagedPermissionRulesOnly allowManagedMcpServersOnly allowedMcpServers"
        " deniedMcpServers strictKnownMarketplaces blockedMarketplaces allowedHttpHookUrls availableModels"
        " channelsEnabled disableAutoMode".split(),
        _ORGANISATION,
    ),
    "includeCoAuthoredBy": "nothing is added to commits by itself",
    "attribution": "nothing is added to commits by itself",
    "includeGitInstructions": "the prompt is this program's own",
    "cleanupPeriodDays": "sessions are deleted with agent sessions",
    "respectGitignore": "files that git ignores are not offered",
    "autoUpdatesChannel": "the package manager updates this program",
    "minimumVersion": "the package manager updates this program",
    "plansDirectory": "plans are saved with the session",
    "autoMemoryEnabled": "memory files are written when you ask for it",
    "autoMemoryDirectory": "memory files are written when you ask for it",
    "alwaysThinkingEnabled": "effort decides how much the model thinks",
    "fastMode": "the model has no faster variant here",
    "skipWebFetchPreflight": "there is no check before a fetch",
    "language": "add it with append_system_prompt, or to a memory file",
    "agent": "choose it with --agent",
    "skipDangerousModePermissionPrompt": "bypassPermissions is chosen on the command line",
    "worktree": "worktrees are made with --worktree",
    "modelOverrides": "models are named as provider/model",
}
# Keys that are translated.
TAKEN = frozenset(
    "env apiKeyHelper model effortLevel outputStyle disabledMcpjsonServers statusLine theme editorMode"
    " showThinkingSummaries autoCompactEnabled sandbox permissions hooks disableAllHooks enabledPlugins"
    " extraKnownMarketplaces".split()
)
_SANDBOX = {"autoAllowBashIfSandboxed": "auto_allow", "excludedCommands": "outside"}
_NETWORK = {"allowedDomains": "domains", "allowUnixSockets": "sockets"}
_FILES = {"allowWrite": "writable", "allowRead": "readable"}
_PERMISSIONS = {"allow": "allow", "ask": "ask", "deny": "deny", "additionalDirectories": "additional_directories"}


class Translated(Value):
    """The settings in a table that have a counterpart here.

    settings: plain data in our terms.
    env: variables for the session.
    key_helper: the command that prints Claude's key.
    plugins: by name@marketplace, True if they are enabled.
    markets: sources of their marketplaces, by name.
    unused: the other keys, with dots for tables.
    """

    settings: dict[str, Any] = {}  # noqa: RUF012 - a frozen record, whose values nobody changes
    env: dict[str, str] = {}  # noqa: RUF012
    key_helper: str = ""
    plugins: dict[str, bool] = {}  # noqa: RUF012
    markets: dict[str, str] = {}  # noqa: RUF012
    unused: tuple[str, ...] = ()


def why_unused(key: str) -> str:
    """Return why a key has no effect; "" for one that only says something about the file."""
    return UNUSED.get(key, "its value has an unknown form" if key in TAKEN else "not known here")


def unused_in_words(keys: tuple[str, ...]) -> list[str]:
    """Describe keys without effect, grouped by reason."""
    reasons: dict[str, list[str]] = {}
    for key in keys:
        if why := why_unused(key):
            reasons.setdefault(why, []).append(key)
    return [f"{', '.join(names)}: {why}" for why, names in reasons.items()]


def translate(table: dict[str, Any], ours: Callable[[str], bool]) -> Translated:
    """Translate a table.

    ours: returns True for the name of one of our settings, which is not translated.
    """
    found: dict[str, Any] = {}
    unused: list[str] = []
    env: dict[str, str] = {}
    plugins: dict[str, bool] = {}
    markets: dict[str, str] = {}
    helper = ""
    for key, value in table.items():
        match key, value:
            case "env", dict():
                env = {str(k): str(v) for k, v in value.items() if isinstance(v, (str, int, float))}
            case "enabledPlugins", dict():
                plugins = {str(name): on is not False for name, on in value.items()}
            case "extraKnownMarketplaces", dict():
                markets = {str(name): location for name, about in value.items() if (location := _market(about))}
            case "apiKeyHelper", str():
                helper = value
            case "model", "default":
                pass
            case "effortLevel", str():
                found["effort"] = value
            case "outputStyle", str() if ours("output_style"):
                found["output_style"] = value
            case "disabledMcpjsonServers", list():
                found["mcp"] = {"disabled": value}
            case "statusLine", {"command": str(command)}:
                found.setdefault("terminal", {})["status_line"] = command
            case "theme", str():
                found.setdefault("terminal", {})["theme"] = _theme(value)
            case "editorMode", str():
                found.setdefault("terminal", {})["vim"] = value == "vim"
            case "showThinkingSummaries", bool():
                found["reasoning_summary"] = value
            case "autoCompactEnabled", False:
                found["compact_at"] = 0.0
            case "autoCompactEnabled", True:
                pass
            case "disableAllHooks", bool():
                found["disable_hooks"] = value
            case "sandbox", dict():
                found["sandbox"] = _sandbox(value, unused)
            case "permissions", dict():
                found["permissions"] = _permissions(value, unused)
            case _:
                if ours(key):
                    found[key] = value
                else:
                    unused.append(key)
    return Translated(found, env, helper, plugins, markets, tuple(unused))


def _market(about: Any) -> str:
    """Return where a marketplace is, in the form of `agent plugin marketplace add`; "" if unknown."""
    source = about.get("source") if isinstance(about, dict) else None
    location = (
        next((source[key] for key in ("repo", "url", "path") if key in source), "") if isinstance(source, dict) else ""
    )
    return location if isinstance(location, str) else ""


def _theme(name: str) -> str:
    return "colorblind" if "daltonized" in name else name.partition("-")[0]


def _sandbox(table: dict[str, Any], unused: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in table.items():
        if key == "enabled":
            strict = table.get("failIfUnavailable") is True
            found["mode"] = "off" if value is False else "require" if strict else "auto"
        elif key in ("network", "filesystem") and isinstance(value, dict):
            names = _NETWORK if key == "network" else _FILES
            for inner, setting in value.items():
                if inner in names:
                    found[names[inner]] = setting
                else:
                    unused.append(f"sandbox.{key}.{inner}")
        elif key in _SANDBOX:
            found[_SANDBOX[key]] = value
        elif key[:1].islower() and key.lower() == key:
            found[key] = value  # a name of ours
        elif key != "failIfUnavailable":
            unused.append(f"sandbox.{key}")
    return found


def _permissions(table: dict[str, Any], unused: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in table.items():
        if key in ("defaultMode", "mode"):
            found["mode"] = MODE_ALIASES.get(str(value), value)
        elif key in _PERMISSIONS:
            found[_PERMISSIONS[key]] = value
        elif key.lower() == key:
            found[key] = value  # a name of ours
        else:
            unused.append(f"permissions.{key}")
    return found
