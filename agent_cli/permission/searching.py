"""Which files a search may show: the gate's answer for thousands of files, most of which nothing speaks about."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

from agent_cli.permission.decision import Level
from agent_cli.permission.files import decide_path
from agent_cli.permission.matcher import Matcher
from agent_cli.permission.paths import secret
from agent_tools.base import Effect
from agent_tools.builtin import BUILTIN
from agent_tools.workspace import Workspace

# A rule about any of them is about what a search shows.
_SEARCHERS = tuple(tool.name for tool in BUILTIN if tool.searches_content)


@lru_cache(maxsize=65_536)
def _secret_name(name: str) -> bool:
    return secret(Path(f"/{name}"))


class Readable:
    """Whether a search that may look into a folder may show a file of it.

    Left out is what a deny or an ask rule names and what looks like a secret, unless a rule allows just that. A search
    follows no links: of a path only the folder is resolved, and each folder once.
    """

    def __init__(self, matcher: Matcher, workspace: Workspace) -> None:
        self._matcher = matcher
        self._workspace = workspace
        self._ruled = matcher.patterns(("deny", "ask"), lambda r: r.covers("read") or r.tool in _SEARCHERS)
        self._folders: dict[str, bool] = {}

    def __call__(self, path: Path | str) -> bool:
        text = str(path)
        folder, _, name = text.rpartition("/")
        plain = self._folders.get(folder)
        if plain is None:
            plain = self._folders[folder] = self._is_plain(folder)
        if plain and not _secret_name(name) and not (self._ruled and any(p.match(text) for p in self._ruled)):
            return True
        reads = Effect("read", os.path.realpath(text))
        verdicts = [decide_path(self._matcher, self._workspace, reads, tool) for tool in _SEARCHERS]
        # A question that is not firm is about the folder, and was answered for it.
        return all(v.level is Level.ALLOW or (v.level is Level.ASK and not v.firm) for v in verdicts)

    def _is_plain(self, folder: str) -> bool:
        """Whether no link leads here, and the folder does not look like one of secrets."""
        return os.path.realpath(folder) == folder and not secret(Path(f"{folder}/x"))
