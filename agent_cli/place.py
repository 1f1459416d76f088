"""Where a run happens and with which settings: the folders, the layers of settings in order, the flags on top."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent_cli.config.layers import Layers, SettingsError, from_environment, home_folder
from agent_cli.config.prompts import workspace_root
from agent_cli.core.rules import BadRule, split_rules
from agent_cli.options import RunOptions, flags
from agent_tools.values import Value


class Mistake(Exception):
    """Something the person has to correct: one sentence, exit code 2."""


class Place(Value):
    """Where a run happens."""

    cwd: Path
    root: Path
    home: Path | None
    env: Mapping[str, str]


def find_place(env: Mapping[str, str]) -> Place:
    """The working directory and its workspace. Raises Mistake where the directory is gone."""
    try:
        cwd = Path(os.path.realpath(Path.cwd()))
    except FileNotFoundError:
        raise Mistake("The working directory no longer exists.") from None
    home = home_folder(env)
    return Place(cwd, workspace_root(cwd, home), home, env)


def read_settings(options: RunOptions, place: Place) -> Layers:
    """All layers in order. Raises Mistake."""
    layers = Layers()
    try:
        if not options.bare:
            if place.home is not None:
                layers.add_file(place.home / ".agentrc", "own")
            if place.root != place.home:
                layers.add_file(place.root / ".agentrc", "project")
                layers.add_file(place.root / ".agentrc.local", "project")
        for text in options.settings:
            _add_settings_option(layers, text, place)
        if from_env := from_environment(place.env):
            layers.add(from_env, "the environment", place.root)
        layers.add(_overrides(options), "the command line", place.root)
        if place.home is None and not (place.env.get("AGENT_STATE_DIR") or place.env.get("XDG_STATE_HOME")):
            layers.add({"save_sessions": False}, "the missing home folder", place.root)
            layers.ignored.append("There is no home folder, so this session is not saved")
    except (SettingsError, BadRule) as error:
        raise Mistake(str(error)) from None
    return layers


def _add_settings_option(layers: Layers, text: str, place: Place) -> None:
    if text.lstrip().startswith("{") or "\n" in text or "=" in text:
        layers.add_text(text, "--settings", place.root)
        return
    path = Path(text).expanduser()
    if not os.path.isfile(path):  # noqa: PTH113 - the method raises where a parent is closed
        raise SettingsError(f"--settings: there is no file {text}")
    layers.add_file(path, "own")


def _overrides(options: RunOptions) -> dict[str, Any]:
    """The settings among the flags, as plain data."""
    data: dict[str, Any] = {}
    for name, (flag, _) in flags().items():
        value = getattr(options, name)
        if flag.setting and value not in (None, ()):
            data[flag.setting] = list(_split_names(value)) if isinstance(value, tuple) else value
    if options.tools:
        data["tools"] = list(_split_names(options.tools))
    if options.no_session_persistence:
        data["save_sessions"] = False
    permissions: dict[str, Any] = {}
    if options.permission_mode:
        permissions["mode"] = options.permission_mode
    if options.add_dir:
        permissions["additional_directories"] = [str(Path(d).expanduser().resolve()) for d in options.add_dir]
    for kind, texts in (("allow", options.allowed_tools), ("deny", options.disallowed_tools)):
        rules = [rule for text in texts for rule in split_rules(text)]
        if rules:
            permissions[kind] = rules
    return {**data, "permissions": permissions} if permissions else data


def _split_names(values: tuple[str, ...]) -> list[str]:
    return [name for value in values for name in value.replace(",", " ").split()]


def check_mode(mode: str, env: Mapping[str, str]) -> None:
    """Raises Mistake for a mode that is refused here."""
    if mode == "bypassPermissions" and hasattr(os, "geteuid") and os.geteuid() == 0 and not _contained(env):
        raise Mistake(
            "bypassPermissions is refused for root outside a container; set IS_SANDBOX=1 if this machine is a sandbox."
        )


def _contained(env: Mapping[str, str]) -> bool:
    return env.get("IS_SANDBOX") == "1" or bool(env.get("container")) or any(
        Path(p).exists() for p in ("/.dockerenv", "/run/.containerenv")
    )  # fmt: skip
