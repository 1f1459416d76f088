"""The verdicts about what the programs of a command line do to files, whatever rule allows the programs.

A rule for a program says nothing about files that rules deny, that are protected, or that lie outside the workspace,
nor about options that run something else; unless it names them itself.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from agent_cli.core.rules import PATH_TOOLS
from agent_cli.permission.command_effects import effects_of
from agent_cli.permission.command_reads import CommandReads, matches
from agent_cli.permission.decision import Level, Verdict
from agent_cli.permission.effects_git import named_by
from agent_cli.permission.effects_scan import Touch
from agent_cli.permission.files import judge
from agent_cli.permission.matcher import Matcher
from agent_cli.permission.meaning import Surroundings
from agent_cli.permission.paths import holds_protected, secret
from agent_cli.permission.reading import READERS, Reading
from agent_cli.permission.shell_values import Part, Word
from agent_tools.base import Effect
from agent_tools.values import Value

_NOWHERE = re.compile(r"-|/dev/(?:null|std(?:out|err|in)|fd/\d\d?|tty)?")
_MOST_BELOW = 10_000
_WRITERS = ("Edit", "MultiEdit", "NotebookEdit", "Write")
# What is done to a folder is done to all below it.
_WHOLE = frozenset("git mv chmod chown chgrp ruff black isort prettier eslint yapf autopep8".split())


class Found(Value):
    """A verdict about an effect, and the words by which a rule would name it."""

    verdict: Verdict
    named: str


class EffectVerdicts:
    """Judges what the parts of one command line touch."""

    def __init__(self, matcher: Matcher, around: Surroundings, reads: CommandReads) -> None:
        self._matcher = matcher
        self._around = around
        self._reads = reads
        denying = [r for r in matcher.rules if r.list == "deny" and r.tool in PATH_TOOLS]
        self._denies = any(r.spec for r in denying)
        self._kept = (
            matcher.patterns(("deny", "ask"), ("Edit", "MultiEdit", "NotebookEdit", "Write")) if denying else []
        )

    def of(self, part: Part) -> list[Found]:
        """What is denied, or needs a question; nothing for the rest."""
        return [f for touch in effects_of(part) for f in self._about(part, touch) if f.verdict.level]

    def _about(self, part: Part, touch: Touch) -> Iterator[Found]:
        word = touch.word
        if touch.kind == "run":
            said = f"{part.program} with {word.text}, which a rule for {part.program} alone does not cover"
            yield Found(Verdict(part.text, Level.ASK, f"runs a command: {said}"), word.text)
        elif touch.kind == "names":
            yield from self._named(part, word)
        elif not word.why and not _NOWHERE.fullmatch(word.text):
            for path in self._paths(part, word):
                yield from (Found(v, word.text) for v in self._path(part, touch, path))

    def _paths(self, part: Part, word: Word) -> Iterator[str]:
        """What a word stands for, wherever the part may run."""
        if part.cwds is None and not word.text.startswith("/"):
            return
        for cwd in part.cwds or ("/",):
            whole = os.path.join(cwd, word.text)
            found = (matches(cwd, word.text) or []) if word.pattern else []
            # Everything in a folder is the folder; what fits later may be more than fits now.
            yield from dict.fromkeys((os.path.dirname(whole) if re.search(r"/\.?\*$", whole) else whole, *found))  # noqa: PTH120

    def _path(self, part: Part, touch: Touch, path: str) -> Iterator[Verdict]:
        kind, text = touch.kind, part.text
        if kind in ("read", "tree"):
            if part.program in READERS and self._reads.knows(part):
                return  # judged as a program that only reads
            reading = Reading(path, "tree" if kind == "tree" else "content")
            for verdict in self._reads.of_reading(part, reading):
                if verdict.level is Level.DENY or verdict.firm or self._leaks(part, path):
                    yield verdict
            return
        # A removal takes the name, not what a link leads to.
        parent, name = os.path.split(os.path.normpath(path))
        real = os.path.realpath(path)
        at = os.path.join(os.path.realpath(parent), name) if kind == "remove" else real
        if kind == "into":
            yield from self._into(part, at)
            return
        if kind == "remove" and (held := self._held(at)):
            yield Verdict(text, Level.ASK, f"removes {at}, {held}", firm=True)
            return
        if kind == "remove" and self._holds_start_files(at):
            yield Verdict(text, Level.ASK, f"removes {at}, which holds protected files", firm=True)
            return
        verdict = judge(self._matcher, self._around.workspace, "Edit", Effect("write", at))
        inside = self._around.workspace.inside(Path(at).parent if kind == "remove" else Path(at))
        reason = f"{verdict.reason}: {at}"
        if verdict.level is Level.DENY or verdict.firm or (verdict.level is Level.ASK and not inside):
            yield verdict.but(text=text, reason=reason)
        elif self._kept and (kind == "remove" or part.program in _WHOLE) and (below := self._below(at)):
            held_by = judge(self._matcher, self._around.workspace, "Edit", Effect("write", below))
            yield held_by.but(text=text, reason=f"{held_by.reason}: {below}")

    def _into(self, part: Part, folder: str) -> Iterator[Verdict]:
        """A folder into which files are written whose names are not known."""
        if self._holds_start_files(folder):
            why = f"writes files whose names are not known into {folder}, which holds protected files"
            yield Verdict(part.text, Level.ASK, why, firm=True)
            return
        verdict = judge(self._matcher, self._around.workspace, "Edit", Effect("write", os.path.join(folder, "*")))
        inside = self._around.workspace.inside(Path(folder))
        if verdict.level is Level.DENY or verdict.firm or (verdict.level is Level.ASK and not inside):
            yield verdict.but(text=part.text, reason=f"{verdict.reason}: {folder}")
        elif self._kept and (below := self._below(folder)):
            kept = judge(self._matcher, self._around.workspace, "Edit", Effect("write", below))
            reason = f"may write any file below {folder}, which includes {below}"
            yield Verdict(part.text, Level.ASK, reason, kept.rule, "rule", firm=True)

    def _holds_start_files(self, folder: str) -> bool:
        home = self._around.home
        return bool(home) and holds_protected(Path(folder), Path(os.path.realpath(home)))

    def _leaks(self, part: Part, path: str) -> bool:
        """Whether what is read is sent away, or shown although it may hold keys."""
        return secret(Path(os.path.realpath(path))) or part.program in ("curl", "wget", "scp", "rsync", "sftp")

    def _held(self, path: str) -> str:
        """What would be gone with a folder that is removed."""
        around = self._around
        places = ((str(around.workspace.root), "the workspace"), (str(around.workspace.cwd), "the working directory"),
                  (os.path.realpath(around.home or "/"), "the home folder"))  # fmt: skip
        for place, name in places:
            if place == path or place.startswith(f"{path.rstrip('/')}/"):
                return f"which is or holds {name}"
        return ""

    def _below(self, folder: str) -> str:
        """A file below a folder that rules keep from being written; "" where none is seen."""
        if not os.path.isdir(folder) or os.path.islink(folder):  # noqa: PTH112, PTH114
            return ""
        every = (os.path.join(here, name) for here, folders, names in os.walk(folder) for name in (*folders, *names))
        return next((p for p in islice(every, _MOST_BELOW) if any(k.match(p) for k in self._kept)), "")

    def _named(self, part: Part, word: Word) -> Iterator[Found]:
        """The files that a patch would write."""
        unknown = word.why or word.pattern or word.text == "-" or part.cwds is None
        for cwd in part.cwds or ("/",):
            names = None if unknown else named_by(os.path.join(cwd, word.text))
            if names is None:
                if self._denies:
                    why = "writes what a patch names, which cannot be compared with the rules about files"
                    yield Found(Verdict(part.text, Level.ASK, why, firm=True), "")
                continue
            for name in names:
                if name != "dev/null" and not _NOWHERE.fullmatch(name):
                    touch = Touch("write", Word(name))
                    yield from (Found(v, name) for v in self._path(part, touch, os.path.join(cwd, name)))
