"""What git commands lose: uncommitted, unpushed, or not stored anywhere else.

What is known to lose nothing passes; everything else is a danger, also what nothing is known of.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator

from agent_cli.policy.operands import resolve_word
from agent_cli.policy.programs.danger import Against, Danger, DangerKind
from agent_cli.policy.programs.git import COMMANDS, GIT_RUNNERS, GitWords
from agent_cli.policy.shell.words import SimpleCommand, Word

# Subcommands of which it is not known that they lose nothing.
_MAY_LOSE = frozenset(
    "backfill checkout--worker credential-cache credential-store filter-branch fsck-objects fsmonitor--daemon "
    "http-fetch http-push last-modified merge-octopus merge-one-file merge-ours merge-recursive merge-resolve "
    "merge-subtree pack-redundant quiltimport refs replay repo scalar send-pack upload-archive".split()
)
# Words of a subcommand with which it forgets commits, refs or stored work.
_FORGETS: dict[str, tuple[str, ...]] = {
    "reflog": ("expire", "delete", "drop"),
    "notes": ("remove", "prune"),
    "rerere": ("clear", "forget", "gc"),
    "remote": ("remove", "rm", "prune"),
    "worktree": (),
    "lfs": ("prune",),
    "submodule": ("deinit",),
    "replace": ("-d", "--delete"),
    "bundle": (),
    "sparse-checkout": ("clean",),
}
# Options with which an operation in progress, and what was resolved in it, is thrown away.
_ABANDONS = frozenset(("--abort", "--skip", "--quit"))
_OPERATIONS = frozenset("merge rebase cherry-pick revert am".split())


def git_dangers(part: SimpleCommand, found: GitWords) -> Iterator[Danger]:
    """Yield what a git command loses."""
    if not found.subcommand or any(w.why or w.pattern for w in found.lead):
        return
    name, rest, texts, folder = found.subcommand, found.rest, found.texts, found.folder
    part = part if found.known else part.replace(cwds=None)

    def danger(kind: DangerKind, *names: str, words: tuple[Word, ...] = (), flags: str = "") -> Danger:
        return Danger(part, kind, ("git", name, *names), words, folder=folder, flags=frozenset(flags))

    if name == "reset" and (flag := _flag(rest, "", "--hard", "--merge", "--keep")):
        against: Against = {"--merge": "staged", "--keep": "nothing"}.get(flag, "HEAD")  # type: ignore[assignment]
        yield danger("reset", flag, words=_operands(rest)).replace(against=against)
    elif name == "clean" and not _has_option(rest := _spread(rest, "e"), "n", "--dry-run"):
        flags = "".join(letter for letter in "dxX" if _has_option(rest, letter))
        flags += "2" * (sum(w.text.count("f") for w in rest if re.fullmatch(r"-\w+", w.text)) > 1)
        excluded = tuple(_values(rest, "e", "--exclude"))
        yield danger("clean", words=_operands(rest, ("-e", "--exclude")), flags=flags).replace(excluded=excluded)
    elif name in ("checkout", "switch"):
        yield from _moved_branch(danger, rest)
        # Behind b, B, c and C stands the name of a branch.
        files = list(_checkout(danger, part, rest, folder)) if name == "checkout" else []
        if flag := _flag(rest, r"-[adlmpqt]*f\w*", "--force", "--discard-changes"):
            files = [d.replace(names=("git", name, flag)) for d in files] or [danger("restore", flag)]
        yield from files
    elif name == "restore" and not (_has_option(rest, "S", "--staged") and not _has_option(rest, "W", "--worktree")):
        rest = _spread(rest, "s")
        against = "HEAD" if _has_option(rest, "S", "--staged") else "index"
        yield danger("restore", words=_operands(rest, ("-s", "--source"))).replace(against=against)
    elif name == "stash" and texts[:1] in (["drop"], ["clear"]):
        yield danger("stash", texts[0], words=_operands(rest[1:]))
    elif name == "branch" and (
        _has_option(rest, "D") or (_has_option(rest, "d", "--delete") and _has_option(rest, "f", "--force"))
    ):
        yield danger("branch", "-D" if _has_option(rest, "D") else "--force", words=_operands(rest))
    elif name == "branch" and (flag := _flag(rest, r"-[qvra]*[fMC]\w*", "--force")):
        # What is renamed or copied takes the place of the last name.
        renames = _has_option(rest, "mMcC", "--move", "--copy")
        yield danger("ref", flag, words=_operands(rest)[-1:] if renames else _operands(rest)[:1])
    elif name == "checkout-index" and (flag := _flag(rest, r"-[anqu]*f\w*", "--force")):
        yield danger("restore", flag, words=_operands(rest)).replace(against="index")
    elif name == "read-tree" and _has_option(rest, "u") and (flag := _flag(rest, r"-\w*m\w*", "--reset")):
        # With -m and one tree, it removes what is only in the index, and keeps the changes of other files.
        if flag.startswith("--reset"):
            yield danger("restore", flag)
        elif len(_operands(rest)) == 1:
            yield danger("restore", flag).replace(against="staged")
    elif name in ("rm", "mv") and not _has_option(rest, "n", "--dry-run"):
        yield from _tracked_files(danger, name, rest)
    elif name == "worktree" and texts[:1] == ["remove"] and (flag := _flag(rest, r"-f+", "--force")):
        yield danger("tree", flag, words=_operands(rest[1:]))
    elif name == "push":
        yield from _push(danger, rest)
    elif name == "worktree" and texts[:1] == ["add"]:
        yield from _moved_branch(danger, rest)
    else:
        yield from _forgotten(danger, name, rest)


def _tracked_files(danger: Callable[..., Danger], name: str, rest: tuple[Word, ...]) -> Iterator[Danger]:
    """Yield a removal or renaming that git would refuse without --force."""
    flag = _flag(rest, r"-[kqrv]*f\w*", "--force")
    words = _operands(rest)
    if not flag or (name == "rm" and "--cached" in [w.text for w in rest]):
        return
    if name == "rm":
        yield danger("tree", flag, words=words).replace(tracked=True)
    elif len(words) > 1:
        # A file that is moved into a folder keeps its name there.
        place = words[-1]
        below = (Word(os.path.join(place.text, os.path.basename(w.text.rstrip("/"))), place.why) for w in words[:-1])
        yield danger("overwrite", flag, words=(place, *below)).replace(certain=False, unsaved=True)


def _checkout(danger: Callable[..., Danger], part: SimpleCommand, rest: tuple[Word, ...], at: str) -> Iterator[Danger]:
    """Yield a checkout of files, which replaces them by those of the index or, if it names one, of a commit."""
    texts = [w.text for w in rest]
    if "--" in texts:
        before, after = rest[: texts.index("--")], rest[texts.index("--") + 1 :]
        against: Against = "commit" if _operands(before) else "index"
        if against == "commit" and _flag(before, "", "--no-overlay"):
            against = "HEAD"  # files that the commit does not have are removed
        if after:
            yield danger("restore", "--", words=after).replace(against=against)
        return
    operands = _operands(rest, ("-b", "-B", "--orphan"))
    if any(re.match(r"-[bB]|--orphan|--track|-t$", text) for text in texts) or not operands:
        return

    def named(word: Word, cwd: str) -> list[str]:
        return [target.entry for target in resolve_word(word, os.path.normpath(os.path.join(cwd, at)))]

    # A name that is also that of a file means a branch first, and the file only if there is no such branch.
    there = [
        w
        for w in operands
        if w.text in (".", "..") or any(os.path.lexists(path) for cwd in part.cwds or () for path in named(w, cwd))
    ]
    if len(operands) > 1 or there:
        words = operands if operands[0] in there else operands[1:]
        name = "." if "." in texts else words[0].text
        yield danger("restore", name, words=words).replace(against="index" if words is operands else "commit")


def _values(words: tuple[Word, ...], letter: str, long: str) -> Iterator[str]:
    """Yield the values of an option, in its word or the next."""
    for word, following in zip(words, (*words[1:], Word("")), strict=False):
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


def _forgotten(danger: Callable[..., Danger], name: str, rest: tuple[Word, ...]) -> Iterator[Danger]:
    """Yield commands that forget commits which only a reflog or one name still has, and all that are not known."""
    texts = [w.text for w in rest]
    verb = next((word for word in _FORGETS.get(name, ()) if word in texts), "")
    if name in _MAY_LOSE or not (name in COMMANDS or name in GIT_RUNNERS or name.startswith("-")):
        yield danger("unknown")
    elif name == "submodule" and "update" in texts and (flag := _flag(rest, "-f", "--force")):
        yield danger("unknown", "update", flag)
    elif verb:
        kind: DangerKind = "history" if name == "reflog" else "unknown"
        yield danger(kind, verb)
    elif name == "gc" and (flag := _flag(rest, "", "--prune")) and "never" not in flag:
        yield danger("history", flag)
    elif name == "prune" and not _has_option(rest, "n", "--dry-run"):
        yield danger("history")
    elif name == "repack" and _has_option(rest, "a") and _has_option(rest, "d"):
        yield danger("history", "-ad" if "-ad" in texts else "-d")
    elif name == "update-ref":
        flag = _flag(rest, r"-d", "--stdin")
        yield danger("ref", *([flag] if flag else []), words=_operands(rest, ("-m",))[:1])
    elif name == "tag" and (flag := _flag(rest, r"-[a-z]*[df]", "--delete", "--force")):
        yield danger("ref", flag, words=_operands(rest, ("-m", "-F", "-u")))
    elif name in ("fetch", "pull"):
        forced = next((w.text for w in rest if w.text.startswith("+")), "")
        forced = forced or (_flag(rest, r"-[a-z]*f", "--force") if any(":" in w.text for w in _operands(rest)) else "")
        if forced:
            refs = tuple(Word(w.text.rpartition(":")[2]) for w in _operands(rest) if ":" in w.text)
            yield danger("ref", forced, words=refs)
    elif name in _OPERATIONS and (flag := next((t for t in texts if t in _ABANDONS), "")):
        yield danger("reset", flag)


def _moved_branch(danger: Callable[..., Danger], rest: tuple[Word, ...]) -> Iterator[Danger]:
    """Yield the option by which a branch is made anew, away from commits that nothing else may have."""
    for at, word in enumerate(rest):
        if re.fullmatch(r"-[a-z]*[BC]\w*", word.text) or word.text.partition("=")[0] == "--force-create":
            names = [w for w in rest[at + 1 :] if not w.text.startswith("-")][:1]
            yield danger("ref", word.text, words=tuple(names))
            return


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


def _spread(words: Iterable[Word], valued: str) -> tuple[Word, ...]:
    """Return words with each letter of a cluster of options in a word of its own, up to one that has a value."""
    found: list[Word] = []
    plain = False
    for word in words:
        text = word.text
        plain = plain or text == "--"
        if plain or not re.match(r"-[A-Za-z0-9]", text):
            found.append(word)
            continue
        end = next((n for n, letter in enumerate(text[1:], 1) if letter in valued), len(text))
        found += [word.replace(text=f"-{letter}") for letter in text[1:end]]
        found += [word.replace(text=f"-{text[end:]}")] if end < len(text) else []
    return tuple(found)


def stashes(part: SimpleCommand) -> bool:
    """Return True for `git stash` that takes changes out of the work tree."""
    words = part.texts
    return words[:2] == ("git", "stash") and (words[2:3] == () or words[2] in ("push", "save") or words[2][0] == "-")


def dropped_stash(danger: Danger, part: SimpleCommand) -> Danger:
    """Return what is lost if the entry that `git stash` makes is dropped at once."""
    verb = part.words[2].text if len(part.words) > 2 else ""
    rest = _spread(part.words[3 if verb in ("push", "save") else 2 :], "m")
    words = _operands(rest, ("-m", "--message")) if verb != "save" else ()
    against: Against = "HEAD"
    if _has_option(rest, "S", "--staged"):
        against = "staged"
    elif _has_option(rest, "k", "--keep-index"):
        against = "index"
    # Untracked files, and with "x" also ignored ones.
    everything = _has_option(rest, "a", "--all")
    flags = "udx" if everything else "ud" if _has_option(rest, "u", "--include-untracked") else ""
    return danger.replace(kind="restore", words=words, flags=frozenset(flags), against=against)
