"""Which files the output of a command names: what `xargs`, `$(...)` and `find -exec` give to another command.

`git ls-files | xargs wc -l` reads what git lists, `cat $(git diff --name-only)` too. Only programs that are known to
list files are followed, and filters that pass lines on unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from agent_cli.policy.programs.effects import FileRead
from agent_cli.policy.programs.listing import listed, passes_lines
from agent_cli.policy.programs.reads import FOUND
from agent_cli.policy.programs.rows.reading import PUBLIC_VARIABLES, SHOWING
from agent_cli.policy.programs.unwrapping import GIVEN
from agent_cli.policy.shell.analysis import analyse
from agent_cli.policy.shell.words import Analysis, SimpleCommand, Word
from agent_tools.lazy import lazy_pattern

_SUBSTITUTION = lazy_pattern(r"\"?(?:\$\((?P<new>.*)\)|`(?P<old>[^`]*)`)\"?", re.DOTALL)


def with_listed(
    part: SimpleCommand, analysis: Analysis, home: str
) -> tuple[SimpleCommand, tuple[FileRead, ...]] | None:
    """Return a part with a name in place of the files that others list for it, and what reading them reads.

    None if it is not such a part: `git ls-files | xargs wc -l`, `cat $(git diff --name-only)`.
    """
    unknown = [w for w in part.words if w.why]
    if len(unknown) != 1 or part.why or part.assigns or part.program not in SHOWING:
        return None
    if part.layers:
        layer = part.layers[0]
        options = {w.text for w in layer.words[1 : layer.inner]}
        if len(part.layers) > 1 or layer.words[0].text != "xargs" or part.words[-1].why != GIVEN:
            return None
        if any(w.why or w.pattern for w in layer.words[: layer.inner]) or options & {"-d"}:
            return None
        parts = _pipeline_before(analysis.parts, analysis.parts.index(part))
        found = _listed_by(parts, split=not options & {"-0", "--null"})
    else:
        text = _substituted_text(unknown[0])
        cwd = next(iter(part.cwds or ()), "")
        inner = analyse(text, cwd, home) if text and cwd and part.cwds == (cwd,) else None
        if inner is None or inner.unclear or any(p.cwds != part.cwds for p in inner.parts):
            return None
        if any(not p.piped for p in inner.parts[1:]):
            return None
        found = _listed_by(inner.parts, split=True)
    if found is None:
        return None
    words = tuple(Word(FOUND) if w.why else w for w in part.words)
    return part.replace(words=words, layers=()), found


def echoes_known(part: SimpleCommand, analysis: Analysis, may_be_set: Callable[[str], bool]) -> bool:
    """Return True for `echo` of values that are not known, but hold no secret.

    They are public variables of the environment, or come from other commands of the same line, each of which is
    judged by itself.
    """
    unknown = [w.text for w in part.words if w.why]
    if not unknown or part.texts[0] != "echo" or part.why or part.assigns or part.words[0].why or part.layers:
        return False
    before = analysis.parts[: analysis.parts.index(part)]
    assigns = [w.text.partition("=") for p in before if not p.words for w in p.assigns]
    own = {name for name, _, _ in assigns} | {w for p in before if p.texts[:1] == ("read",) for w in p.texts[1:]}
    own = {name for name in own if may_be_set(name)}
    texts = [_without_substitutions(text) for text in (*unknown, *(value for _, _, value in assigns))]
    if not all(re.fullmatch(r"(?:[^$`\\(]|\$\w+|\$\{\w+(?:[%#]{1,2}[^}$`]*)?\})*", text) for text in texts):
        return False
    names = [name for text in texts for name in re.findall(r"\$\{?(\w+)", text)]
    return all(name in own or PUBLIC_VARIABLES.fullmatch(name) for name in names)


def _listed_by(parts: Sequence[SimpleCommand], *, split: bool) -> tuple[FileRead, ...] | None:
    """Return what reading all files reads that a pipeline lists; None if that is not known.

    split: its output is split at blanks into names.
    """
    if not parts or any(not part.words or part.unknown or part.layers or part.assigns for part in parts):
        return None
    first, *filters = parts
    if any(not passes_lines(part) for part in filters):
        return None
    found = listed(first)
    return None if found is None else tuple(reading.replace(split=split) for reading in found)


def _substituted_text(word: Word) -> str:
    """Return the commands of a word that is one command substitution; "" for any other."""
    match = _SUBSTITUTION.fullmatch(word.text) if word.why else None
    return (match["new"] or match["old"] or "") if match else ""


def _without_substitutions(text: str) -> str:
    """Return a text without its command substitutions, of which the commands are judged by themselves."""
    kept, depth = "", 0
    for piece in re.split(r"(\$\((?!\()|\(|\))", text):
        if piece == "$(" or (piece == "(" and depth):
            depth += 1
        elif piece == ")" and depth:
            depth -= 1
        elif not depth:
            kept += piece
    return re.sub(r"`[^`]*`", "", kept) if not depth else text


def _pipeline_before(parts: Sequence[SimpleCommand], at: int) -> tuple[SimpleCommand, ...]:
    """Return the commands whose output is piped into the part at an index, in order."""
    begin = at
    while begin > 0 and parts[begin].piped:
        begin -= 1
    return tuple(parts[begin:at])
