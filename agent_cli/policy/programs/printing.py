"""Programs that print a path: what their output may be, for a word such as "$(dirname "$0")"."""

from __future__ import annotations

import os
from collections.abc import Sequence

from agent_cli.policy.shell.words import Scope

# Programs that print their last operand; the first two follow its links.
_RESOLVING = frozenset(("realpath", "readlink"))
_ECHOING = frozenset(("echo", "printf"))
# What `git rev-parse` prints of a repository's place, below its top directory.
_PLACES = {"--show-toplevel": "", "--show-cdup": "/", "--absolute-git-dir": "/.git", "--git-dir": "/.git"}


def possibly_printed(words: Sequence[Sequence[str]], scope: Scope) -> list[str]:
    """Return the paths that a command may print; [] if it is not known to print one.

    words: the texts that each of its words may have.
    """
    words = words[1:] if words[:1] in ([["eval"]], [["command"]]) else words
    names = [texts[0] if len(texts) == 1 else "" for texts in words]
    if names[:1] == ["pwd"]:
        return list(scope.cwds or ())
    if names[:1] == ["git"] and "rev-parse" in names:
        return [f"\0top {cwd}\0{end}" for name, end in _PLACES.items() if name in names for cwd in scope.cwds or ()]
    if names[:1] == ["printenv"] and len(names) == 2:
        return list(scope.possible_texts(names[1]) or (f"\0env {names[1]}\0",))
    operands = [texts for texts, name in zip(words[1:], names[1:], strict=True) if not name.startswith("-")]
    if names[:1] == ["dirname"] and len(operands) == 1:
        return [os.path.dirname(text.rstrip("/")) or "." for text in operands[0] if "\0" not in text]  # noqa: PTH120
    if names[:1] and names[0] in _RESOLVING and operands:
        return [f"{text}/" for text in operands[-1]]
    if names[:1] and names[0] in _ECHOING and operands:
        return list(operands[-1])
    return []
