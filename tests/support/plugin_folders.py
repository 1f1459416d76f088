"""Plugins and marketplaces of our own, as folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.extension_files import put


def plugin_folder(base: Path, name: str = "tidy", *, hooks: dict[str, Any] | None = None, **manifest: Any) -> Path:
    """A plugin with one part of each kind."""
    folder = base / name
    put(folder, ".claude-plugin/plugin.json", json.dumps({"name": name, "version": "1.0", **manifest}))
    put(folder, "commands/sweep.md", "---\ndescription: Sweep\n---\nSweep $ARGUMENTS with ${CLAUDE_PLUGIN_ROOT}/b.txt")
    put(folder, "agents/critic.md", "---\ndescription: Finds fault.\ntools: Read, Unheard\n---\nBe strict.")
    put(folder, "skills/dust/SKILL.md", "---\nname: dust\ndescription: Dust it.\n---\nDust: ${CLAUDE_PLUGIN_ROOT}")
    put(folder, "output-styles/terse.md", "---\nname: terse\ndescription: Short.\n---\nAnswer in five words.")
    put(folder, "b.txt", "broom\n")
    if hooks is not None:
        put(folder, "hooks/hooks.json", json.dumps({"description": "of tests", "hooks": hooks}))
    return folder


def command_hook(command: str, **more: Any) -> list[dict[str, Any]]:
    """The hooks of one event: a single command."""
    return [{"hooks": [{"type": "command", "command": command, **more}]}]


def marketplace_folder(base: Path, *entries: dict[str, Any], name: str = "ours") -> Path:
    """A marketplace that lists these entries."""
    put(base, ".claude-plugin/marketplace.json", json.dumps({"name": name, "plugins": list(entries)}))
    return base
