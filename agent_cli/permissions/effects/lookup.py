"""Look up what a simple command touches: in the table of programs, or by the function of one with its own language.

Commands behind `npx`, `uv run`, `python -m` and the like are looked up, too. If several interpretations are possible,
the one that does more counts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from agent_cli.permissions.effects.programs import PROGRAM_EFFECTS
from agent_cli.permissions.effects.table import PROGRAMS
from agent_cli.permissions.options import Touch, option_effects, scan, table_effects
from agent_cli.permissions.shell.words import SimpleCommand, Word

# Commands that run the program in their arguments, and the number of words before its name.
_STARTERS: Mapping[tuple[str, ...], int] = {
    ("npx",): 1, ("bunx",): 1, ("uvx",): 1, ("pipx", "run"): 2, ("pnpm", "exec"): 2, ("pnpm", "dlx"): 2,
    ("yarn", "run"): 2, ("yarn", "exec"): 2, ("yarn", "dlx"): 2, ("yarn",): 1, ("pnpm",): 1, ("bun", "x"): 2,
    ("uv", "run"): 2, ("uv", "pip"): 1, ("poetry", "run"): 2, ("pdm", "run"): 2, ("pipenv", "run"): 2,
    ("hatch", "run"): 2,
    ("bundle", "exec"): 2, ("python", "-m"): 2, ("python3", "-m"): 2, ("busybox",): 1, ("toybox",): 1,
}  # fmt: skip
_GNU = frozenset(("gsed", "gtar", "gcp", "gmv", "grm", "gln", "ginstall", "gtee", "gsort", "gsplit", "gdd", "gmake"))


# Words that after yarn and pnpm are no program, as they are after npx. "r" runs one.
_SUBCOMMANDS = frozenset(
    "add audit build cache config create deploy fetch import info init install i link list ls outdated pack "
    "patch prune publish rebuild remove rm run set store test t unlink un update up upgrade version view why workspace "
    "workspaces".split()
)  # fmt: skip


def effects_of(part: SimpleCommand) -> tuple[Touch, ...]:
    """Return what a simple command touches; nothing for an unknown program."""
    if not part.words or part.words[0].why:
        return ()
    words = _started_command(part.words)
    found = [*_of_runner(part.words[: len(part.words) - len(words)], words[0]), *_of_command(words)]
    return tuple(_from_input(touch, part) for touch in found)


# Programs whose first words say what they do, and how many words that are.
_VERBS: Mapping[str, int] = {
    **dict.fromkeys("npm npx pnpm yarn bun cargo go uv pip pip3 tar bsdtar 7z 7za 7zz ruff openssl".split(), 1),
    **dict.fromkeys("git docker podman kubectl helm gh".split(), 2),
    **dict.fromkeys("make mvn mvnw gradle gradlew just".split(), 99),
}
# Subcommands of git whose next word says what they do.
_GIT_NESTED = frozenset("submodule bisect worktree config bundle stash remote reflog notes sparse-checkout".split())


def _unknown_verb(name: str, words: Sequence[Word]) -> Word | None:
    """Return a glob that stands where a program expects a verb: a file's name could be any of its verbs."""
    left = _VERBS.get(name, 0)
    for word in words:
        if not left:
            break
        if word.pattern and (not word.text.startswith("-") or name in ("tar", "bsdtar")):
            return word
        if not word.text.startswith("-"):
            left = 0 if name == "git" and left == 2 and word.text not in _GIT_NESTED else left - 1
    return None


def _of_command(words: Sequence[Word]) -> Iterator[Touch]:
    name = _name(words)
    program = PROGRAMS.get(name)
    if program is not None:
        if verb := _unknown_verb(name, words[1:]):
            yield Touch("run", verb)
        own = PROGRAM_EFFECTS.get(name)
        yield from own(words[1:]) if own is not None else table_effects(program, words[1:])


def _of_runner(words: Sequence[Word], following: Word) -> Iterator[Touch]:
    """Yield effects of the options of `npx`, `uv run` and the like, the last of which may have the next word as value.

    That word is then taken for the program, which is what it is after most options.
    """
    program = PROGRAMS.get(_name(words)) if len(words) > 1 else None
    if program is not None and program.partly:
        yield from option_effects(scan(program, [*words[1:], following])[0])


def is_known_program(part: SimpleCommand) -> bool:
    """Return True if it is known what the program of a command touches."""
    if not part.words or part.words[0].why:
        return False
    program = PROGRAMS.get(_name(_started_command(part.words)))
    return program is not None and not program.partly


def opens_known_files(name: str) -> bool:
    """Return True if the table knows which files a program opens."""
    return name in PROGRAMS and not PROGRAMS[name].partly


def _name(words: Sequence[Word]) -> str:
    name = os.path.basename(words[0].text)
    return name[1:] if name in _GNU else name


def _started_command(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Return the command behind `npx`, `uv run`, `python -m` and the like; any other command unchanged."""
    texts = (os.path.basename(words[0].text), *(w.text for w in words[1:3]))
    size = _STARTERS.get(texts[:2]) or _STARTERS.get(texts[:1]) or 0
    rest = words[size:]
    # Skip options of the runner that have no value of their own.
    while size and rest and rest[0].text.startswith("-"):
        rest = rest[1:]
    if size == 1 and texts[0] in ("yarn", "pnpm") and rest:
        if rest[0].text in ("exec", "dlx"):
            rest = rest[1:]
        elif rest[0].text in _SUBCOMMANDS:
            return words
    return rest if size and rest and not (rest[0].why or rest[0].pattern) else words


def _from_input(touch: Touch, part: SimpleCommand) -> Touch:
    """Resolve a patch or archive read from a redirection to that file."""
    files = [r for r in part.redirects if r.kind == "read"]
    if touch.kind not in ("names", "unpack") or touch.word.text != "-" or len(files) != 1 or files[0].why:
        return touch
    return touch.replace(word=Word(files[0].target))
