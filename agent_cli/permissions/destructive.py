"""Recognize commands that destroy work: which parts of a command line they are, and whether a rule names them.

Only the words are examined; what would really be lost is computed by `impact` when the user is asked.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Literal

from agent_cli.permissions.operands import OperandPath, resolve_word
from agent_cli.permissions.programs.find import FindCall, FindTerm, read_find
from agent_cli.permissions.shell.words import Analysis, SimpleCommand, Word
from agent_tools.record import Value

Kind = Literal[
    "delete", "tree", "overwrite", "attributes", "restore", "reset", "clean", "stash", "branch", "push", "unpush"
]
Against = Literal["HEAD", "commit", "index", "staged", "nothing"]
_GIT_VALUED = frozenset(("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env"))
_COPY_VALUED = frozenset(("-t", "--target-directory", "-S", "--suffix"))
# Options whose value is the next word: `truncate -s 0 file`, `shred -n 3 file`, `chmod -R --reference x`.
_VALUED = {"truncate": ("-s", "--size", "-r", "--reference"), "shred": ("-n", "--iterations", "-s", "--size")}


class Danger(Value):
    """One destructive command.

    names: words by which a rule names it.
    words: known targets: files, branches, or the remote and what is pushed.
    certain: it always destroys; an overwriting `mv` may find nothing to replace.
    folder: what `git -C` adds to its directory.
    flags: its relevant single letters.
    follows: it acts on the target of a link that is named.
    find: the call of `find` that selects what is lost, and its action that loses it.
    copied: directories that are copied recursively, each with its copy.
    against: which changes git discards: all that are uncommitted, only those of files that the commit has, those that
        are not in the index, or staged ones.
    excluded: patterns of files that `git clean` keeps, or adds with -X.
    """

    part: SimpleCommand
    kind: Kind
    names: tuple[str, ...]
    words: tuple[Word, ...] = ()
    certain: bool = True
    folder: str = ""
    flags: frozenset[str] = frozenset()
    follows: bool = False
    find: tuple[FindCall, FindTerm] | None = None
    copied: tuple[tuple[str, str], ...] = ()
    against: Against = "HEAD"
    excluded: tuple[str, ...] = ()

    def targets(self, cwd: str) -> list[OperandPath]:
        """Return the paths that its words name in a directory, which is the one that `git -C` leads to."""
        return [path for word in self.words for path in resolve_word(word, cwd, follows=self.follows)]


def dangers(analysis: Analysis) -> tuple[Danger, ...]:
    """Return the destructive commands of a command line, in order."""
    stashed: SimpleCommand | None = None
    found: list[Danger] = []
    for part in analysis.parts:
        own = list(_of(part))
        # What was stashed before it in the same line is no entry yet.
        if stashed is not None and any(danger.kind == "stash" for danger in own):
            own = [d.replace(kind="restore", words=(), flags=_stash_flags(stashed)) for d in own]
        found += own
        stashed = part if _stashes(part) else stashed
    return tuple(found)


def _stashes(part: SimpleCommand) -> bool:
    """Return True for `git stash` that takes changes out of the work tree."""
    words = part.texts
    return words[:2] == ("git", "stash") and (words[2:3] == () or words[2] in ("push", "save") or words[2][0] == "-")


def _stash_flags(part: SimpleCommand) -> frozenset[str]:
    """Return "u" and "d" if a stash includes untracked files, and "x" if also ignored ones."""
    if _has_option(part.words[2:], "a", "--all"):
        return frozenset("udx")
    return frozenset("ud" if _has_option(part.words[2:], "u", "--include-untracked") else "")


def names(spec: str, danger: Danger) -> bool:
    """Return True if a rule names the destructive words of a command: `git reset:*` does not name `--hard`."""
    words = [os.path.basename(w) for w in spec.removesuffix(":*").removesuffix("*").split()]
    return all(name in words for name in danger.names)


def unnamed(spec: str, command: str, found: Iterable[Danger]) -> Danger | None:
    """Return the first danger that an allow rule covers without naming it; a rule with the exact text names everything.

    spec: the text in the parentheses of the rule; "" without one.
    """
    if spec == command.strip():
        return None
    return next((d for d in found if d.certain and not names(spec, d) and d.part.text != spec), None)


def _of(part: SimpleCommand) -> Iterator[Danger]:
    for redirect in part.redirects:
        if redirect.kind == "write":
            target = (Word(redirect.target, redirect.why),)
            yield Danger(part, "overwrite", (">",), target, certain=False, follows=True)
    if not part.words:
        return
    name, rest = os.path.basename(part.words[0].text), part.words[1:]
    if name == "git":
        yield from _git(part, rest)
    elif name in ("rm", "unlink", "rmdir", "shred"):
        whole = name == "rm" and _has_option(rest, "rR", "--recursive")
        words = _operands(rest, _VALUED.get(name, ()))
        # rmdir and rm -d only remove empty directories, and shred overwrites the file that a link leads to.
        flags = frozenset("d" if name == "rmdir" or _has_option(rest, "d", "--dir") else "")
        danger = Danger(part, "tree" if whole else "delete", (name,), words, name != "rmdir", flags=flags)
        yield danger.replace(follows=name == "shred", find=_found(part))
    elif name == "find":
        yield from _find(part, read_find(rest))
    elif name in ("chmod", "chown", "chgrp") and recursive(part):
        flag = next((w.text for w in rest if re.fullmatch(r"-[a-zA-Z]*R[a-zA-Z]*|--recursive", w.text)), "-R")
        yield Danger(part, "attributes", (name, flag), _operands(rest)[1:], follows=True)
    elif name in ("mv", "cp", "install") and not _has_option(rest, "n", "--no-clobber"):
        into, *below = _overwritten_files(rest) or (None,)
        copied = _copied(rest, into) if name == "cp" and into is not None else ()
        targets = () if into is None else (into, *below)
        yield Danger(part, "overwrite", (name,), targets, certain=False, follows=name == "cp", copied=copied)
    elif name == "ln" and _has_option(rest, "f", "--force"):
        yield Danger(part, "overwrite", (name,), _overwritten_files(rest), certain=False)
    elif name == "tee" and not _has_option(rest, "a", "--append"):
        yield Danger(part, "overwrite", (name,), _operands(rest), certain=False, follows=True)
    elif name == "truncate" and not any(re.match(r"(?:-s|--size=?)?[+>]", w.text) for w in rest):
        yield Danger(part, "overwrite", (name,), _operands(rest, _VALUED[name]), follows=True)
    elif name == "dd":
        out = [w for w in rest if w.text.startswith("of=") and w.text != "of=/dev/null"]
        if out:
            yield Danger(part, "overwrite", (name,), (out[-1].replace(text=out[-1].text[3:]),), follows=True)


def recursive(part: SimpleCommand) -> bool:
    """Return True if a part changes everything below its operands, as `chmod -R` does."""
    return _has_option(part.words[1:], "R", "--recursive")


def _find(part: SimpleCommand, call: FindCall) -> Iterator[Danger]:
    for term in call.terms:
        if term.kind == "delete":
            follows = bool(call.follows)
            yield Danger(part, "tree", ("find", "-delete"), call.starts, follows=follows, find=(call, term))
            return


def _found(part: SimpleCommand) -> tuple[FindCall, FindTerm] | None:
    """Return the call of `find` that runs a part for what it finds, and the action that does so; None if none does."""
    layer = part.layers[-1] if part.layers else None
    if layer is None or os.path.basename(layer.words[0].text) != "find" or part.cwds is None:
        return None
    call = read_find(layer.words[1:])
    return next(((call, term) for term in call.terms if term.kind == "run" and term.at + 2 == layer.inner), None)


def _has_option(words: Iterable[Word], letters: str, *long: str) -> bool:
    """Return True if an option is given, by its letter in a cluster, its long name or a prefix of that."""
    for word in words:
        text = word.text
        if text == "--":
            return False
        if re.fullmatch(r"-[A-Za-z0-9]+", text) and set(text[1:]) & set(letters):
            return True
        if len(text) > 3 and any(option.startswith(text.partition("=")[0]) for option in long if text[:2] == "--"):
            return True
    return False


def _flag(words: Iterable[Word], letters: str, *long: str) -> str:
    """Return the first option that is one of these, as it is written; "" for none.

    letters: a pattern of clusters. git takes any beginning of a long name that is no other's.
    """
    for word in words:
        text = word.text
        if text == "--":
            return ""
        name = text.partition("=")[0]
        abbreviated = text[:2] == "--" and len(name) > 2 and any(option.startswith(name) for option in long)
        if abbreviated or (letters and re.fullmatch(letters, text)):
            return text
    return ""


def _operands(words: Iterable[Word], valued: Iterable[str] = ()) -> tuple[Word, ...]:
    found, plain, skip = [], False, False
    for word in words:
        if skip:
            skip = False
        elif plain or not word.text.startswith("-") or word.text == "-":
            found.append(word)
        elif word.text == "--":
            plain = True
        else:
            skip = word.text in valued
    return tuple(found)


def _overwritten_files(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Return the files a copy or move may replace: its target, and each source's name below a target directory."""
    into = next((b for a, b in pairwise(words) if a.text in ("-t", "--target-directory")), None)
    operands = list(_operands(words, _COPY_VALUED))
    if into is None and len(operands) > 1:
        into = operands.pop()
    if into is None:
        return ()
    below = [
        Word(os.path.join(into.text, os.path.basename(w.text.rstrip("/"))), w.why or into.why, w.pattern)
        for w in operands
    ]
    return (into, *below)


def _copied(words: tuple[Word, ...], into: Word) -> tuple[tuple[str, str], ...]:
    """Return the operands of a recursive copy, each with the place that it is copied to."""
    if not _has_option(words, "rRa", "--recursive", "--archive") or into.why:
        return ()
    sources = [w.text for w in _operands(words, _COPY_VALUED) if w != into and not w.why and not w.pattern]
    return tuple((text, os.path.join(into.text, os.path.basename(text.rstrip("/")))) for text in sources)


def _git(part: SimpleCommand, words: tuple[Word, ...]) -> Iterator[Danger]:
    """Yield git commands that lose work: uncommitted, unpushed, or not stored anywhere else."""
    at, folder = 0, ""
    while at < len(words) and words[at].text.startswith("-"):
        valued = words[at].text in _GIT_VALUED
        if words[at].text == "-C" and at + 1 < len(words):
            folder = os.path.join(folder, words[at + 1].text)
            part = part.replace(cwds=None) if words[at + 1].why else part
        at += 2 if valued else 1
    if at >= len(words):
        return
    name, rest = words[at].text, words[at + 1 :]
    texts = [w.text for w in rest]

    def danger(kind: Kind, *names: str, words: tuple[Word, ...] = (), flags: str = "") -> Danger:
        return Danger(part, kind, ("git", name, *names), words, folder=folder, flags=frozenset(flags))

    if name == "reset" and (flag := _flag(rest, "", "--hard", "--merge", "--keep")):
        against: Against = {"--merge": "staged", "--keep": "nothing"}.get(flag, "HEAD")  # type: ignore[assignment]
        yield danger("reset", flag, words=_operands(rest)).replace(against=against)
    elif name == "clean" and not _has_option(rest, "n", "--dry-run"):
        flags = "".join(letter for letter in "dxX" if _has_option(rest, letter))
        flags += "2" * (sum(w.text.count("f") for w in rest if re.fullmatch(r"-\w+", w.text)) > 1)
        excluded = tuple(_values(rest, "e", "--exclude"))
        yield danger("clean", words=_operands(rest, ("-e", "--exclude")), flags=flags).replace(excluded=excluded)
    elif name in ("checkout", "switch"):
        # Behind b, B, c and C stands the name of a branch.
        if flag := _flag(rest, r"-[adlmpqt]*f\w*", "--force", "--discard-changes"):
            yield danger("restore", flag)
        elif name == "checkout":
            yield from _checkout(danger, part, rest, folder)
    elif name == "restore" and not (_has_option(rest, "S", "--staged") and not _has_option(rest, "W", "--worktree")):
        against = "HEAD" if _has_option(rest, "S", "--staged") else "index"
        yield danger("restore", words=_operands(rest, ("-s", "--source"))).replace(against=against)
    elif name == "stash" and texts[:1] in (["drop"], ["clear"]):
        yield danger("stash", texts[0], words=_operands(rest[1:]))
    elif name == "branch" and (
        _has_option(rest, "D") or (_has_option(rest, "d", "--delete") and _has_option(rest, "f", "--force"))
    ):
        yield danger("branch", "-D" if _has_option(rest, "D") else "--force", words=_operands(rest))
    elif name == "checkout-index" and (flag := _flag(rest, r"-[anqu]*f\w*", "--force")):
        yield danger("restore", flag, words=_operands(rest)).replace(against="index")
    elif name == "read-tree" and (flag := _flag(rest, "", "--reset")):
        yield danger("restore", flag)
    elif name == "rm" and "--cached" not in texts and (flag := _flag(rest, r"-[nqr]*f\w*", "--force")):
        yield danger("tree", flag, words=_operands(rest))
    elif name == "worktree" and texts[:1] == ["remove"] and (flag := _flag(rest, r"-f+", "--force")):
        yield danger("tree", flag, words=_operands(rest[1:]))
    elif name == "push":
        yield from _push(danger, rest)


def _checkout(danger: Callable[..., Danger], part: SimpleCommand, rest: tuple[Word, ...], at: str) -> Iterator[Danger]:
    """Yield a checkout of files, which replaces them by those of the index or, if it names one, of a commit."""
    texts = [w.text for w in rest]
    if "--" in texts:
        before, after = rest[: texts.index("--")], rest[texts.index("--") + 1 :]
        against: Against = "commit" if _operands(before) else "index"
        if after:
            yield danger("restore", "--", words=after).replace(against=against)
        return
    operands = _operands(rest, ("-b", "-B", "--orphan"))
    if any(re.match(r"-[bB]|--orphan|--track|-t$", text) for text in texts) or not operands:
        return
    # A name that is also that of a file means a branch first, and the file only if there is no such branch.
    there = [
        w
        for w in operands
        if w.text in (".", "..") or any(os.path.lexists(os.path.join(cwd, at, w.text)) for cwd in part.cwds or ())
    ]
    if len(operands) > 1 or there:
        words = operands if operands[0] in there else operands[1:]
        name = "." if "." in texts else words[0].text
        yield danger("restore", name, words=words).replace(against="index" if words is operands else "commit")


def _values(words: tuple[Word, ...], letter: str, long: str) -> Iterator[str]:
    """Yield the values of an option, in its word or the next."""
    for word, following in zip(words, (*words[1:], Word("")), strict=True):
        if word.text in (f"-{letter}", long):
            yield following.text
        elif word.text.startswith((f"-{letter}", f"{long}=")):
            yield word.text.removeprefix(f"{long}=").removeprefix(f"-{letter}")


def _push(danger: Callable[..., Danger], rest: tuple[Word, ...]) -> Iterator[Danger]:
    """Yield a push that replaces or deletes remote work."""
    operands = _operands(rest, ("-o", "--push-option", "--repo", "--receive-pack", "--exec"))
    texts = [w.text for w in rest]
    deletes = _flag(rest, r"-[46fnquv]*d\w*", "--delete", "--prune")
    deletes = deletes or next((t for t in texts if re.fullmatch(r":[^:]+", t)), "")
    if deletes:
        yield danger("unpush", deletes, words=operands)
        return
    plus = next((t for t in texts if t.startswith("+")), "")
    mirrors = _flag(rest, "", "--mirror")
    forced = mirrors or _flag(rest, r"-[46dnquv]*f\w*", "--force", "--force-with-lease", "--force-if-includes") or plus
    if forced:
        yield danger("push", forced, words=operands, flags="m" if mirrors else "")
