"""The hooks in front matter that a project would bring if it were trusted."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from agent_cli.config.prompts import FrontMatterError, read_front_matter, split_front_matter
from agent_cli.hooks import Hook, front_matter_hooks, hooks_from_plain
from agent_tools.fs.safe_files import read_regular

_MAX_BYTES = 131_072


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
