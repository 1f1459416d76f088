"""The forms in which a rule may name a command: behind a path, a wrapper, a runner of packages or options."""

from __future__ import annotations

import os
from collections.abc import Iterator

from agent_cli.policy.programs.git import whole_git, without_git_options
from agent_cli.policy.programs.table import row_of
from agent_cli.policy.shell.words import SimpleCommand, texts_of


def forms_of(part: SimpleCommand) -> Iterator[tuple[str, ...]]:
    """Yield the forms in which a deny or ask rule may match a command."""
    for words in (part.texts, *(texts_of(layer.words) for layer in part.layers)):
        if not words:
            continue
        yield words
        if part.assigns:
            yield (*texts_of(part.assigns), *words)
        bare = whole_git((os.path.basename(words[0]).casefold().removesuffix(".exe"), *words[1:]))
        if bare != words:
            yield bare
        if (without := without_git_options(bare)) != bare:
            yield without
        yield from _without_leading_options(bare)
        yield from _run_by_packages(bare)


def _without_leading_options(words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield `kubectl delete x` for `kubectl -n prod delete x`. Which options have a value is not known."""
    at = 1
    while at < len(words) and words[at].startswith("-"):
        at += 1
        if at < len(words) and not words[at].startswith("-"):
            yield (words[0], *words[at:])
            at += 1
            if at < len(words) and not words[at].startswith("-"):
                yield (words[0], *words[at:])


def _run_by_packages(words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield what a package runner may run: `rm b` for `uv run --with x rm b`. The end of its options is unknown."""
    verbs = row_of(words[0]).starts_after.split()
    always = "*" in verbs and words[0] not in ("busybox", "toybox")
    known = words[1:2] in [(verb,) for verb in verbs]
    if not (known or always or "?" in verbs):
        return
    for index in range(2 if known else 1, len(words)):
        if not words[index].startswith("-"):
            program = os.path.basename(words[index]).casefold()
            yield (program, *words[index + 1 :])
            if not (known or always):
                return  # behind a subcommand there are no programs
