"""Determine what a command would do to files and what else it would run, and the verdicts on that.

What a command touches is that of its `Invocation`; for a program without a row nothing is known. If several
interpretations are possible, the one that does more counts.

The verdicts are independent of the rules that allow the programs: a rule for a program does not cover files that rules
deny, that are protected or outside the workspace, nor options that run something else, unless it names them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from agent_cli.kernel.decisions import Level, Verdict
from agent_cli.kernel.events import Decider
from agent_cli.kernel.rules import PATH_TOOLS
from agent_cli.policy.command_reads import CommandContext, CommandReads, may_be_option, repository
from agent_cli.policy.operands import OperandPath, resolve_operand, widest_paths
from agent_cli.policy.path_globs import comparable
from agent_cli.policy.path_policy import Matcher, contains_protected, decide_path, not_known, secret
from agent_cli.policy.programs.archives import files_of_list
from agent_cli.policy.programs.effects import REMOTE, FileRead, Touch
from agent_cli.policy.programs.invocation import invocation
from agent_cli.policy.programs.members import members
from agent_cli.policy.programs.patches import files_of_patch
from agent_cli.policy.programs.reads import BUILTINS, is_reader
from agent_cli.policy.programs.table import row_of
from agent_cli.policy.secret_places import in_open_claude_folder, secret_place_below
from agent_cli.policy.shell.possible import fill_in
from agent_cli.policy.shell.words import SimpleCommand, Word
from agent_tools.base import Effect
from agent_tools.fs.workspace import of_process, real_path
from agent_tools.lazy import lazy_pattern
from agent_tools.record import Value
from agent_tools.registry import tool_traits

_NOWHERE = lazy_pattern(r"-|/dev/(?:(?:null|stdout|stderr)(?:/[^/]+)?|fd/(?:1|2|63)|tty)?")
# Arguments of a function or script, or an element of an array.
_POSITIONAL = lazy_pattern(r"\$[0-9@*]|\$\{[0-9@*]|\$\{\w+\[")
# Names of everything in the working directory.
_EVERYTHING = lazy_pattern(r"(?:\./)*(?:\.|\*|\.\*|\.\.(?:/.*)?)?/*")
# Opened for writing, these are the file that was opened for reading.
_INPUTS = lazy_pattern(r"/dev/(?:stdin|fd/\d\d?)")
_READING = ("read", "tree", "maybe", "program")
_MAX_FILES_BELOW = 10_000
# Protected names that do not begin with a dot.
_STEERING = frozenset(("jenkinsfile", "azure-pipelines.yml", "bitbucket-pipelines.yml", "head", "config"))


class EffectFinding(Value):
    """A verdict on an effect, and the word by which a rule would name it."""

    verdict: Verdict
    named: str


class EffectVerdicts:
    """Evaluates what the parts of one command line touch."""

    def __init__(
        self, matcher: Matcher, context: CommandContext, reads: CommandReads, parts: Sequence[SimpleCommand]
    ) -> None:
        """parts: the commands of the line."""
        self._matcher = matcher
        self._context = context
        self._reads = reads
        self._alone = len(parts) < 2
        self._parts = parts
        denying = [r for r in matcher.rules if r.list == "deny" and r.tool in PATH_TOOLS]
        self._denies = any(r.spec for r in denying)
        self._kept = matcher.patterns(("deny", "ask"), lambda r: tool_traits(r.tool).changes_files) if denying else []
        self._unread = next((r.text for r in denying if r.spec and r.covers("read")), "")
        self._hidden = [*self._kept, *matcher.patterns(("deny",), lambda r: r.covers("read"))] if denying else []

    def of(self, part: SimpleCommand) -> list[EffectFinding]:
        """Return findings for effects that are denied or need approval."""
        found = [f for touch in invocation(part).touches for f in self._about(part, touch) if f.verdict.level]
        found += self._patterns_as_options(part)
        if (self._unread or self._kept) and not self._followed(part):
            found += self._names_kept(part)
        return found

    def _patterns_as_options(self, part: SimpleCommand) -> Iterator[EffectFinding]:
        """Yield findings for globs that file names such as --checkpoint-action=exec=x turn into options."""
        if not invocation(part).is_known:
            return
        texts = part.texts
        before = part.words[: texts.index("--")] if "--" in texts else part.words
        for word in before[1:]:
            if word.pattern and may_be_option(word.text, part.cwds):
                why = f"file names may take the place of options: {word.text}"
                yield EffectFinding(Verdict(part.text, Level.ASK, why), word.text)

    def _followed(self, part: SimpleCommand) -> bool:
        """Return True if it is known which files a command reads."""
        if is_reader(part.program):
            return self._reads.knows(part)
        return invocation(part).is_known or part.program in BUILTINS

    def _names_kept(self, part: SimpleCommand) -> Iterator[EffectFinding]:
        """Yield findings for files that rules keep from being read or changed, among words of an unknown program."""
        placed = part if part.cwds is not None else part.replace(cwds=(str(self._context.workspace.cwd),))
        for word in part.words[1:]:
            if word.why or not word.text:
                continue
            # A word may be an option with a file, or shell code.
            names = dict.fromkeys(
                (word.text, re.split(r"[=@:]", word.text)[-1], *re.split(r"[\s'\"=;&|<>()]+", word.text))
            )
            places = ((n, p) for n in names if n for p in self._paths(placed, Touch("read", Word(n, "", word.pattern))))
            found = (v for named, place in places for v in self._kept_from(named, place.path))
            yield from (EffectFinding(verdict.replace(text=part.text), word.text) for verdict in found)

    def _kept_from(self, named: str, path: str) -> Iterator[Verdict]:
        """Yield what rules say of a file that an unknown program may read or change."""
        workspace = self._context.workspace
        reading = decide_path(self._matcher, workspace, Effect("read", path))
        hidden = reading.level is Level.ASK and reading.final and of_process(reading.text)
        if reading.level is Level.DENY or hidden:
            why = f"{reading.reason}: {named}" if hidden else f"names {named}, whose reading {reading.reason}"
            yield reading.replace(level=Level.ASK, reason=why, by="rule", final=True)
            return
        change = decide_path(self._matcher, workspace, Effect("write", path))
        if self._kept and change.level is Level.DENY:
            why = f"names {named}, whose change {change.reason}"
            yield change.replace(level=Level.ASK, reason=why, by="rule", final=True)

    def _about(self, part: SimpleCommand, touch: Touch) -> Iterator[EffectFinding]:
        word = touch.word
        if touch.kind == "run":
            text = f"{part.program} with {word.text}, which a rule for {part.program} alone does not cover"
            if self._unread and touch.opens:
                why = (
                    f"may read any file, which cannot be compared with {self._unread}: {part.program} with {word.text}"
                )
                yield EffectFinding(not_known(part.text, why, self._unread), word.text)
                return
            yield EffectFinding(Verdict(part.text, Level.ASK, f"runs a command: {text}"), word.text)
        elif touch.kind == "names":
            yield from self._patch_files(part, word)
        elif touch.kind == "unpack":
            yield from self._unpacked(part, touch)
        elif touch.kind == "listed":
            yield from self._listed(part, touch)
        elif word.why:
            yield from self._possible_targets(part, touch)
        elif _is_no_file(touch):
            return
        elif part.cwds is None and not word.text.startswith("/"):
            yield from self._in_unknown_directory(part, touch)
        else:
            for place in self._paths(part, touch):
                yield from (EffectFinding(v, word.text) for v in self._path(part, touch, place))

    def _in_unknown_directory(self, part: SimpleCommand, touch: Touch) -> Iterator[EffectFinding]:
        """Yield findings for a file in an unknown directory, which may be any file with that ending."""
        name = touch.word.text
        if touch.kind not in _READING:
            why = f"changes {name} in an unknown directory"
            everything = touch.kind == "remove" and not touch.selective and _EVERYTHING.fullmatch(name)
            yield EffectFinding(Verdict(part.text, Level.ASK, why, final=bool(self._kept or everything)), name)
        elif touch.kind not in ("maybe", "program") and (self._unread or secret(Path(name))):
            why = f"reads {name} in an unknown directory"
            by: Decider = "rule" if self._unread else "default"
            yield EffectFinding(Verdict(part.text, Level.ASK, why, self._unread, by, final=True), name)

    def _paths(self, part: SimpleCommand, touch: Touch) -> Iterator[OperandPath]:
        """Yield the paths that a word may mean, in every directory where the part may run."""
        word = touch.word
        if part.cwds is None and not word.text.startswith("/"):
            return
        follows = touch.kind != "remove" or bool(touch.follows)
        for cwd in part.cwds or ("/",):
            yield from widest_paths(word, cwd, follows=follows)

    def _path(self, part: SimpleCommand, touch: Touch, place: OperandPath) -> Iterator[Verdict]:
        kind, text, path = touch.kind, part.text, place.path
        if kind in ("read", "tree"):
            if is_reader(part.program) and self._reads.knows(part):
                # Evaluated as a read-only program; but a rule for it does not cover files with secrets.
                if kind == "read" or os.path.isfile(path):  # noqa: PTH113
                    found = decide_path(self._matcher, self._context.workspace, Effect("read", path))
                    yield from [found.replace(text=text, reason=f"{found.reason}: {path}")] if found.final else []
                elif held := self._secret_place_below(Path(path)):
                    yield Verdict(text, Level.ASK, f"reads everything below {path}, which includes {held}", final=True)
                return
            far = touch.follows == "below"
            reading = FileRead(path, "tree" if kind == "tree" else "content", follows=far, enters=far)
            for verdict in self._reads.verdicts_of(part, reading):
                if verdict.level is Level.DENY or verdict.final or self._leaks(part, path):
                    yield verdict
            return
        if kind in ("link", "maybe", "program"):
            yield from self._indirect_targets(part, touch, place)
            return
        if kind == "into":
            yield from self._into(part, path)
            return
        at = path
        real = real_path(place.entry)
        if invocation(part).renames_links and real != place.entry and not self._context.workspace.inside(Path(real)):
            yield Verdict(text, Level.ASK, f"moves a link that leads outside the workspace, to {real}")
        serious: Iterator[Verdict] = iter(())
        if kind == "remove":
            serious = self._removed(part, touch, place)
        elif kind == "attributes" and self._holds_home(at):
            why = f"changes everything below {at}, which is or holds the home folder"
            serious = iter([Verdict(text, Level.ASK, why, final=True)])
        if first := next(serious, None):
            yield first
            return
        verdict = decide_path(self._matcher, self._context.workspace, Effect("write", at))
        inside = self._context.workspace.inside(Path(at).parent if kind == "remove" else Path(at))
        reason = f"{verdict.reason}: {at}"
        if verdict.level is Level.DENY or verdict.final or (verdict.level is Level.ASK and not inside):
            yield verdict.replace(text=text, reason=reason)
        elif self._kept and (kind == "remove" or invocation(part).takes_whole) and (below := self._below(at)):
            held_by = decide_path(self._matcher, self._context.workspace, Effect("write", below))
            yield held_by.replace(text=text, reason=f"{held_by.reason}: {below}")

    def _removed(self, part: SimpleCommand, touch: Touch, place: OperandPath) -> Iterator[Verdict]:
        """Yield verdicts on the removal of important directories, also through links."""
        at = place.path
        led = f" (through the link {place.entry})" if place.follows else ""
        if not touch.selective and (held := self._important_inside(at)):
            yield Verdict(part.text, Level.ASK, f"removes {at}{led}, {held}", final=True)
        if self._holds_start_files(at):
            yield Verdict(part.text, Level.ASK, f"removes {at}{led}, which holds protected files", final=True)
        if touch.follows == "below" and (leading := self._link_outside(at)):
            why = f"follows links below {at}, of which {leading} leads to {real_path(leading)}"
            yield Verdict(part.text, Level.ASK, why, final=True)
        workspace = self._context.workspace
        # As it is written it is in the workspace, but a link on the way leads out of it.
        seems = any(Path(os.path.normpath(place.whole)).is_relative_to(root) for root in workspace.roots)
        entry = not place.follows and Path(at) not in workspace.roots
        if (place.follows or seems) and not workspace.inside(Path(at).parent if entry else Path(at)):
            yield Verdict(part.text, Level.ASK, f"removes {at}, outside the workspace{led}", final=True)

    def _link_outside(self, folder: str) -> str:
        """Return a link below a directory that leads outside the workspace, or to an important directory."""
        every = (os.path.join(here, name) for here, folders, _ in os.walk(folder) for name in folders)
        links = (path for path in islice(every, _MAX_FILES_BELOW) if os.path.islink(path))  # noqa: PTH114
        inside = self._context.workspace.inside
        return next((p for p in links if not inside(Path(p)) or self._important_inside(real_path(p))), "")

    def _possible_targets(self, part: SimpleCommand, touch: Touch) -> Iterator[EffectFinding]:
        """Yield findings for a removal whose operand is unknown, but may be an important directory."""
        changes = touch.kind == "attributes"
        if (touch.kind != "remove" or touch.selective) and not changes:
            return
        for text in (*possible_texts(touch.word, self._context), *self._passed(touch.word)):
            word = Word(text, "", bool(re.search(r"[*?\[]", text)))
            for place in self._paths(part, touch.replace(word=word)) if text else ():
                held = self._important_inside(place.path)
                if held and (touch.kind == "remove" or self._holds_home(place.path)):
                    verb = "may remove" if touch.kind == "remove" else "may change everything below"
                    why = f"{verb} {place.path}, {held}: {touch.word.text}"
                    yield EffectFinding(Verdict(part.text, Level.ASK, why, final=True), touch.word.text)
                    return

    def _passed(self, word: Word) -> Iterator[str]:
        """Yield what arguments of functions, `set` and arrays of the line may give to a word such as "$1"."""
        if not _POSITIONAL.search(word.text):
            return
        for part in self._parts:
            for given in (*part.words[1:], *part.assigns) if not invocation(part).is_known else ():
                written = [given.text] if not given.why or given in part.assigns else []
                texts = possible_texts(given, self._context) or written
                pieces = (piece for text in texts for piece in re.split(r"[\s()=\"']+", text))
                yield from (piece for piece in pieces if piece.startswith(("/", ".", "~")))

    def _into(self, part: SimpleCommand, folder: str) -> Iterator[Verdict]:
        """Yield verdicts on a directory into which files with unknown names are written."""
        if self._holds_start_files(folder):
            why = f"writes files whose names are not known into {folder}, which holds protected files"
            yield Verdict(part.text, Level.ASK, why, final=True)
            return
        verdict = decide_path(self._matcher, self._context.workspace, Effect("write", os.path.join(folder, "*")))
        inside = self._context.workspace.inside(Path(folder))
        if verdict.level is Level.DENY or verdict.final or (verdict.level is Level.ASK and not inside):
            yield verdict.replace(text=part.text, reason=f"{verdict.reason}: {folder}")
        elif self._kept and (below := self._below(folder)):
            kept = decide_path(self._matcher, self._context.workspace, Effect("write", below))
            reason = f"may write any file below {folder}, which includes {below}"
            yield Verdict(part.text, Level.ASK, reason, kept.rule, "rule", final=True)

    def _secret_place_below(self, folder: Path) -> str:
        inside = self._context.workspace.inside(folder)
        return "" if inside else secret_place_below(folder, Path(real_path(self._context.home or "/")))

    def _holds_start_files(self, folder: str) -> bool:
        home = self._context.home
        return bool(home) and contains_protected(Path(folder), Path(real_path(home)))

    def _indirect_targets(self, part: SimpleCommand, touch: Touch, place: OperandPath) -> Iterator[Verdict]:
        """Yield verdicts on the target of a link, or a file an option may name, which may be used later.

        A toolkit in ~/.claude runs like a program of the workspace: it is the user's, and protected from changes.
        """
        path = touch.link_target(place.base) if touch.kind == "link" else place.whole
        at, workspace = real_path(path), self._context.workspace
        how = "makes a link to" if touch.kind == "link" else "may use"
        read = decide_path(self._matcher, workspace, Effect("read", at))
        toolkit = touch.kind == "program" and in_open_claude_folder(Path(at), self._context.home)
        verdicts = (read,) if toolkit else (decide_path(self._matcher, workspace, Effect("write", at)), read)
        for verdict in verdicts:
            ruled = verdict.level is not Level.ALLOW and "(" in verdict.rule
            if ruled or verdict.final:
                yield Verdict(
                    part.text, Level.ASK, f"{how} {at}: {verdict.reason}", verdict.rule, verdict.by, final=True
                )
                return
        if (
            not toolkit
            and not workspace.inside(Path(at))
            and not any(v.rule and v.level is Level.ALLOW for v in verdicts)
        ):
            yield Verdict(part.text, Level.ASK, f"{how} {at}, outside the workspace")
        elif touch.kind == "link" and self._hidden and (below := self._below(at, self._hidden)):
            yield Verdict(part.text, Level.ASK, f"{how} {at}, which holds {below}", final=True)

    def _unpacked(self, part: SimpleCommand, touch: Touch) -> Iterator[EffectFinding]:
        """Yield findings for the files that an archive would write."""
        archive, into = touch.word, touch.where
        if into.why or part.cwds is None:
            return  # evaluated as a directory
        for cwd in part.cwds or ("/",):
            unknown = archive.why or archive.pattern or archive.text == "-"
            file = os.path.join(cwd, archive.text)
            if not unknown and self._alone and not os.path.lexists(file):
                continue  # nothing to unpack
            names = None if unknown else members(file)
            if names is None:
                why = "unpacks files whose names are not known"
                yield EffectFinding(Verdict(part.text, Level.ASK, why, final=self._denies), archive.text)
            for name in names or ():
                # With any number of leading directories stripped, as by --strip-components.
                pieces = name.rstrip("/").split("/")
                tails = ["/".join(pieces[n:]) for n in range(1 if name.startswith("/") else len(pieces))]
                for tail in tails if _may_matter(pieces) or self._kept else ():
                    place = resolve_operand(os.path.join(cwd, into.text), tail, follows=True)
                    found = (
                        EffectFinding(v, archive.text) for v in self._path(part, Touch("write", Word(tail)), place)
                    )
                    yield from (f for f in found if f.verdict.level)

    def _listed(self, part: SimpleCommand, touch: Touch) -> Iterator[EffectFinding]:
        """Yield findings for the files that a list names."""
        word = touch.word
        unknown = word.why or word.pattern or _INPUTS.fullmatch(word.text) or touch.where.why or part.cwds is None
        for cwd in part.cwds or ("/",):
            names = None if unknown else files_of_list(os.path.join(cwd, word.text))
            if names is None:
                why = f"reads files whose names are not known: {word.text}"
                asked = Verdict(part.text, Level.ASK, why, self._unread, final=bool(self._unread))
                yield EffectFinding(asked, word.text)
            for name in names or ():
                at = resolve_operand(os.path.join(cwd, touch.where.text), name, follows=True)
                yield from (EffectFinding(v, word.text) for v in self._path(part, Touch("tree", Word(name)), at))

    def _leaks(self, part: SimpleCommand, path: str) -> bool:
        """Return True if the content may be sent away, or shown although it may contain keys."""
        real = Path(real_path(path))
        return self._matcher.is_secret(real, self._context.workspace) or row_of(part.program).network in ("*", "remote")

    def _important_inside(self, path: str) -> str:
        """Return which important directory would be removed with this one; "" for none."""
        context = self._context
        places = ((str(context.workspace.root), "the workspace"), (str(context.workspace.cwd), "the working directory"),
                  (real_path(context.home or "/"), "the home folder"))  # fmt: skip
        for place, name in places:
            if place == path or place.startswith(f"{path.rstrip('/')}/"):
                return f"which is or holds {name}"
        return ""

    def _holds_home(self, path: str) -> bool:
        home = real_path(self._context.home or "/")
        return home == path or home.startswith(f"{path.rstrip('/')}/")

    def _below(self, folder: str, kept: Sequence[re.Pattern[str]] | None = None) -> str:
        """Return a file below a directory that rules protect from writes; "" if none is found."""
        kept = self._kept if kept is None else kept
        if not os.path.isdir(folder) or os.path.islink(folder):  # noqa: PTH112, PTH114
            return ""
        every = (os.path.join(here, name) for here, folders, names in os.walk(folder) for name in (*folders, *names))
        return next((p for p in islice(every, _MAX_FILES_BELOW) if any(k.match(comparable(p)) for k in kept)), "")

    def _patch_files(self, part: SimpleCommand, word: Word) -> Iterator[EffectFinding]:
        """Yield findings for the files that a patch would write."""
        unknown = word.why or word.pattern or word.text == "-" or part.cwds is None
        for cwd in part.cwds or ("/",):
            names = None if unknown else files_of_patch(os.path.join(cwd, word.text))
            if names is None:
                why = "writes files whose names are not known"
                if self._denies:
                    why = "writes what a patch names, which cannot be compared with the rules about files"
                yield EffectFinding(Verdict(part.text, Level.ASK, why, final=self._denies), "-")
                continue
            for name in names:
                if name != "dev/null" and not _NOWHERE.fullmatch(name):
                    touch = Touch("write", Word(name))
                    place = resolve_operand(cwd, name, follows=True)
                    yield from (EffectFinding(v, name) for v in self._path(part, touch, place))


def possible_texts(word: Word, context: CommandContext) -> tuple[str, ...]:
    """Return the texts that an unknown word may have in the environment of the commands."""

    def variable(name: str) -> str:
        known = context.carried.get(name) or context.exported.get(name, "")
        return context.home if name == "HOME" else known

    return fill_in(word.possible, variable, lambda cwd: str(repository(Path(cwd)) or ""))


def _is_no_file(touch: Touch) -> bool:
    """Return True if a word stands for no file that has to be looked at."""
    text = touch.word.text
    if _NOWHERE.fullmatch(text) or (touch.kind in _READING and _INPUTS.fullmatch(text)):
        return True
    return touch.kind == "maybe" and not _may_be_path(touch.word)


def _may_be_path(word: Word) -> bool:
    """Return True if an option value looks like a relevant file: elsewhere, hidden, or named like a secret."""
    text = word.text
    remote = REMOTE.match(text) and ".." not in text.split("/")
    return not remote and bool(re.search(r"/|^[.~]", text) or secret(Path(text)))


def _may_matter(pieces: list[str]) -> bool:
    """Return True if a name leads up, or any component might be protected."""
    return any(p in ("", "..") or p.startswith(".") or p.casefold() in _STEERING for p in pieces)
