"""Where an operand of a command leads: worked out once, from its text and the way its program takes links.

The gate, the question, the list of losses, the sandbox's needs and undo all use this value, never the text.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import islice

from agent_cli.policy.shell.words import Word
from agent_tools.fs.workspace import real_path
from agent_tools.record import Value

MAX_MATCHES = 1_000


class OperandPath(Value):
    """One path that an operand names.

    text: as written, or as a glob expands it.
    base: the directory that a relative text starts from.
    entry: the directory entry that is named: all links on the way are resolved, but not the last one.
    path: what the program acts on: the target of the last link if the program follows it, else the same as `entry`.
    """

    text: str
    base: str
    entry: str
    path: str

    @property
    def follows(self) -> bool:
        """True if the operand is a link and the program acts on its target."""
        return self.entry != self.path

    @property
    def whole(self) -> str:
        """The absolute path as text, with its links."""
        return os.path.join(self.base, self.text)


def resolve_operand(base: str, text: str, *, follows: bool = False) -> OperandPath:
    """Resolve one path as the kernel does for a program.

    follows: the program follows the last link. For every program, a slash, `/.` or `/..` at the end does that.
    """
    whole = os.path.join(base, text)
    bare = whole.rstrip("/") or "/"
    folder, name = os.path.split(bare)
    if name in ("", ".", ".."):
        entry = path = real_path(whole)
        if name == "." and os.path.islink(above := folder.rstrip("/")):  # noqa: PTH114 - as text
            entry = _entry(above)
        return OperandPath(text, base, entry, path)
    entry = _entry(bare)
    return OperandPath(text, base, entry, real_path(bare) if follows or bare != whole else entry)


def _entry(path: str) -> str:
    folder, name = os.path.split(path)
    return os.path.join(real_path(folder or "/"), name)


def resolve_word(word: Word, base: str, *, follows: bool = False) -> list[OperandPath]:
    """Return the paths that a word names, as the shell expands it now; none if its value is unknown."""
    if word.why or "\0" in word.text:
        return []
    whole = os.path.join(glob.escape(base), word.text)
    matches = list(islice(glob.iglob(whole), MAX_MATCHES)) if word.pattern else []
    return [resolve_operand(base, text, follows=follows) for text in _as_written(matches, base, word) or [word.text]]


def _as_written(matches: list[str], base: str, word: Word) -> list[str]:
    """Return absolute matches of a glob in the form of the glob: relative if it is."""
    return matches if word.text.startswith("/") else [match[len(base.rstrip("/")) + 1 :] for match in matches]


def widest_paths(word: Word, base: str, *, follows: bool = False) -> Iterator[OperandPath]:
    """Yield the paths that a word may name, now or when its turn comes: for `dir/*` the directory itself."""
    text = word.text
    while word.pattern and re.search(r"(?:^|/)\.?\*+$", text):
        text = os.path.dirname(text) or "."  # noqa: PTH120
    texts = [text]
    if word.pattern:
        texts += _as_written(pattern_matches(base, word.text) or [], base, word)
    yield from (resolve_operand(base, text, follows=follows) for text in dict.fromkeys(texts))


def pattern_matches(cwd: str, pattern: str) -> list[str] | None:
    """Return the paths that a glob may expand to; None for too many.

    The content of brackets is not interpreted, and in older versions of bash .* also matches the parent directory.
    """
    pieces = [re.sub(r"\[.*\]", "*", piece, flags=re.DOTALL) for piece in pattern.split("/")]
    found = list(islice(glob.iglob(os.path.join(glob.escape(cwd), "/".join(pieces))), MAX_MATCHES + 1))
    if len(found) > MAX_MATCHES:
        return None
    if any(piece[:1] == "." and set(piece) & set("*?") and fnmatchcase("..", piece) for piece in pieces):
        found.append(os.path.join(cwd, ".."))
    return found
