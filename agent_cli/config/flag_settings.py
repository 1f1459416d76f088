"""The settings and rules among the options of a run: what each flag of the command line overrides."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from agent_cli.config.parsing import LIMIT, SettingsError
from agent_cli.config.run_options import RunOptions, flags
from agent_cli.core.modes import MODE_ALIASES
from agent_cli.core.rules import RuleError, split_rules
from agent_tools.fs.safe_files import read_regular

# Options that other agents have and that nothing here corresponds to.
_WITHOUT_EFFECT = ("task_budget", "project_config_root", "channels")


def overrides(options: RunOptions) -> list[tuple[str, dict[str, Any]]]:
    """Return the settings among the flags: the rules of each flag by its name, then all others.

    Raises SettingsError for a file that cannot be read and for flags that exclude each other, RuleError for a rule.
    """
    data: dict[str, Any] = {}
    for name, (flag, _) in flags().items():
        value = getattr(options, name)
        if flag.setting and value not in (None, ()) and value is not False:
            data[flag.setting] = split_names(value) if isinstance(value, tuple) else value
    if options.tools and options.tools != ("default",):
        data["tools"] = split_names(options.tools)
    if options.model == "default":
        del data["model"]  # that of the settings, or the first one found
    if options.no_session_persistence:
        data["save_sessions"] = False
    data |= _prompts(options) | _thinking(options)
    permissions: dict[str, Any] = {}
    if options.dangerously_skip_permissions:
        permissions["mode"] = "bypassPermissions"
    elif options.permission_mode:
        permissions["mode"] = MODE_ALIASES.get(options.permission_mode, options.permission_mode)
    if options.add_dir:
        permissions["additional_directories"] = [str(Path(os.path.expanduser(d)).resolve()) for d in options.add_dir]
    parts = []
    for kind, flag_name, texts in (
        ("allow", "--allowedTools", options.allowed_tools),
        ("ask", "--askTools", options.ask_tools),
        ("deny", "--disallowedTools", options.disallowed_tools),
    ):
        try:
            rules = [rule for text in texts for rule in split_rules(text)]
        except RuleError as error:
            raise RuleError(f"{flag_name}: {error}") from None
        if rules:
            parts.append((flag_name, {"permissions": {kind: rules}}))
    return [*parts, ("the command line", data | ({"permissions": permissions} if permissions else {}))]


def notices(options: RunOptions) -> list[str]:
    """Return a sentence for each option that has another effect than with the agents it is known from."""
    said = [
        f"{flags()[name][0].names[0]} has no effect here"
        for name in _WITHOUT_EFFECT
        if getattr(options, name) not in (None, (), False)
    ]
    if options.permission_mode == "auto" and not options.dangerously_skip_permissions:
        said.append("--permission-mode auto: no model decides about calls here, so acceptEdits is used")
    return said


def _prompts(options: RunOptions) -> dict[str, Any]:
    """Return the system prompts that are given as files."""
    found = {}
    for name in ("system_prompt", "append_system_prompt"):
        path = getattr(options, f"{name}_file")
        if path is None:
            continue
        flag = flags()[f"{name}_file"][0].names[0]
        if getattr(options, name) is not None:
            raise SettingsError(f"{flag} and {flag.removesuffix('-file')} exclude each other")
        try:
            found[name] = read_regular(Path(os.path.expanduser(path)), LIMIT).decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"{flag}: {path}: {getattr(error, 'strerror', None) or error}") from None
    return found


def _thinking(options: RunOptions) -> dict[str, Any]:
    """Return the settings of the reasoning; with a budget and "disabled", nothing is thought."""
    found: dict[str, Any] = {}
    if options.thinking == "disabled" or options.max_thinking_tokens == 0:
        if options.effort is None:
            found["effort"] = "none"
    elif options.max_thinking_tokens is not None:
        found["thinking_tokens"] = options.max_thinking_tokens
    if options.thinking_display == "summarized":
        found["reasoning_summary"] = True
    return found


def split_names(values: tuple[str, ...]) -> list[str]:
    """Return the names in texts that separate them by commas or spaces."""
    return [name for value in values for name in value.replace(",", " ").split()]
