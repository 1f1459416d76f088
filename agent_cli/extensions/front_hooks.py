"""Hooks in the front matter of agents, skills and commands: they run only while these are in use.

They are passed on as plain data, since prompts and agent types know nothing of hooks; the engine decodes them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from agent_cli.config.prompts import FrontMatterError, read_front_matter, split_front_matter
from agent_cli.core.hooks import Hook
from agent_tools.fs.safe_files import read_regular
from agent_tools.lazy import lazy_imports
from agent_tools.record import from_json, to_json

with lazy_imports():
    from agent_cli.config import hooks as config_hooks  # few files have any

PlainHooks = tuple[dict[str, Any], ...]
_MAX_BYTES = 131_072


def front_matter_hooks(
    table: Mapping[str, Any],
    source: str,
    within: Path | None,
    problems: list[str] | None = None,
    variables: Mapping[str, str] | None = None,
    notes: list[str] | None = None,
) -> PlainHooks:
    """Return the hooks of a file's front matter as plain data.

    within: the project of the file; None for the user's own.
    problems: collects a sentence for each invalid hook.
    variables: the plugin's, for its commands; None for any other file.
    notes: collects what is ignored in hooks that run; None: `problems` does.
    """
    if table.get("hooks") is None:
        return ()
    problems = [] if problems is None else problems
    try:
        # YAML allows keys and values that JSON does not.
        raw = json.loads(json.dumps(table["hooks"], default=str))
    except (TypeError, ValueError, RecursionError):
        problems.append(f"{source}: hooks: expected events, each with a list")
        return ()
    found = config_hooks.parse_hooks(raw, source, from_user=within is None, root=within)
    if notes is not None:
        notes += [f"{source}: {note}" for note in found.notes]
        found = found.replace(notes=())
    problems += [f"{source}: {line}" for line in found.lines()]
    plain = tuple(map(to_json, found.hooks))
    return plugin_hooks(plain, variables) if variables else plain


def plugin_hooks(hooks: Iterable[dict[str, Any]], variables: Mapping[str, str]) -> PlainHooks:
    """Return hooks as a plugin's: they count as the user's own, and get the plugin's variables."""
    return tuple({**plain, "from_user": True, "env": {**plain.get("env", {}), **variables}} for plain in hooks)


def hooks_from_plain(plain: Iterable[dict[str, Any]]) -> list[Hook]:
    """Decode hooks from plain data."""
    return [from_json(Hook, each) for each in plain]


def withheld_hooks(root: Path, files: Iterable[str]) -> list[tuple[str, tuple[Hook, ...]]]:
    """Return the front-matter hooks of an untrusted project's files, by path."""
    found = []
    for name in files:
        if not name.endswith(".md") or not set(name.split("/")[1:2]) & {"agents", "commands", "skills"}:
            continue
        path = root / name
        try:
            head, _ = split_front_matter(read_regular(path, _MAX_BYTES, root).decode("utf-8", "replace"))
            hooks = hooks_from_plain(front_matter_hooks(read_front_matter(head), str(path), root))
        except (OSError, FrontMatterError):
            continue
        if hooks:
            found.append((str(path), tuple(hooks)))
    return found
