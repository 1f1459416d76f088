"""git: its words, what they touch, run and need.

What they would lose is in `git_losses`, what they show in `git_reads`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from agent_cli.policy.git_inspection import is_harmless_entry
from agent_cli.policy.programs.effects import REMOTE, Touch
from agent_cli.policy.programs.row import CONFIG, KEYS, Row
from agent_cli.policy.shell.words import SimpleCommand, Word
from agent_tools.fs.safe_files import read_regular
from agent_tools.fs.workspace import real_path
from agent_tools.lazy import lazy_pattern
from agent_tools.record import Value

# Options of git that run, read or write something else, with any subcommand.
GIT_RUNS = frozenset(
    "--ext-diff --exec --exec-path --upload-pack --receive-pack --open-files-in-pager --extcmd --config --config-env "
    "--no-index --git-dir --work-tree --template --tool --gpg-sign-program --separate-git-dir --smtp-server "
    "--paginate".split()
)
GIT_WRITES = frozenset("--output --output-directory --export-marks --prefix --index-output --object-dir".split())
GIT_READS = frozenset("--file --contents --exclude-from --pathspec-from-file --import-marks --reference".split())
# Those of them whose value is a program, or with which git starts one.
_STARTS = frozenset(
    "--ext-diff --exec --exec-path --upload-pack --receive-pack --open-files-in-pager --extcmd --tool --config "
    "--config-env --gpg-sign-program --smtp-server --paginate".split()
)
GIT_RUNNERS = frozenset(
    "difftool mergetool filter-branch send-email daemon instaweb remote-ext remote-fd web--browse "
    "help merge-index "
    "fast-import http-backend shell upload-pack receive-pack cvsserver gui citool gitk hook svn "
    "p4 imap-send cvsimport cvsexportcommit archimport for-each-repo submodule--helper maintenance".split()
)
# A subcommand that is not among these may be an alias, which cannot replace one of them.
COMMANDS = frozenset(
    "add am annotate apply archimport archive backfill bisect blame branch bugreport bundle cat-file check-attr "
    "check-ignore check-mailmap check-ref-format checkout checkout--worker checkout-index cherry cherry-pick citool "
    "clean clone column commit commit-graph commit-tree config count-objects credential credential-cache "
    "credential-store cvsexportcommit cvsimport cvsserver daemon describe diagnose diff diff-files diff-index "
    "diff-pairs diff-tree difftool fast-export fast-import fetch fetch-pack filter-branch fmt-merge-msg for-each-ref "
    "for-each-repo format-patch fsck fsck-objects fsmonitor--daemon gc get-tar-commit-id gitk grep gui hash-object "
    "help history hook http-backend http-fetch http-push imap-send index-pack init init-db instaweb "
    "interpret-trailers last-modified lfs log ls-files ls-remote ls-tree mailinfo mailsplit maintenance merge "
    "merge-base merge-file merge-index merge-octopus merge-one-file merge-ours merge-recursive merge-resolve "
    "merge-subtree merge-tree mergetool mktag mktree multi-pack-index mv name-rev notes p4 pack-objects "
    "pack-redundant pack-refs patch-id prune prune-packed pull push quiltimport range-diff read-tree rebase "
    "receive-pack reflog refs remote repack replace replay repo request-pull rerere reset restore rev-list rev-parse "
    "revert rm scalar send-email send-pack shell shortlog show show-branch show-index show-ref sparse-checkout stage "
    "stash status stripspace submodule submodule--helper subtree svn switch symbolic-ref tag unpack-file "
    "unpack-objects update-index update-ref update-server-info upload-archive upload-pack var verify-commit "
    "verify-pack verify-tag version web--browse whatchanged worktree write-tree".split()
)
# One-letter options with a value, also in the same word or a cluster, with their effect, by subcommand.
_SHORT: Mapping[str, tuple[tuple[str, Literal["read", "write", "run"]], ...]] = {
    **dict.fromkeys(("format-patch", "archive", "bugreport", "diagnose", "mailsplit", "index-pack"), (("o", "write"),)),
    **dict.fromkeys(("tag", "notes", "merge"), (("F", "read"),)),
    "commit": (("F", "read"), ("t", "read")),
    "grep": (("f", "read"), ("O", "run")),
    "clone": (("u", "run"), ("c", "run")),
    "rebase": (("x", "run"),),
    "difftool": (("x", "run"),),
    "blame": (("S", "read"),),
    "ls-files": (("X", "read"),),
    "config": (("f", "write"), ("f", "read")),
}
# Subcommands that a rule allows because they only show something.
_SHOWING = frozenset(
    "log show diff stash reflog shortlog whatchanged diff-tree diff-index diff-files range-diff rev-list blame".split()
)
_HARMLESS_OPTIONS = frozenset(
    "--no-pager -P --no-optional-locks --literal-pathspecs --no-replace-objects --version -v --help -h "
    "--no-lazy-fetch --icase-pathspecs --glob-pathspecs --noglob-pathspecs --no-advice".split()
)
_VALUED = frozenset(
    "-C -c --git-dir --work-tree --namespace --exec-path --config-env --attr-source --super-prefix --shallow-file "
    "--list-cmds".split()
)
# Programs that git may be told to use as a pager or editor without a question.
USUAL_PROGRAM = lazy_pattern(
    r"|cat|more|less(?: -\w+)*|true|:|false|/bin/true|/bin/false|echo|vi|vim|nano|/dev/null|\d"
)
_RUNNING = frozenset(
    "difftool mergetool for-each-repo filter-branch remote-ext merge-index daemon instaweb send-email web--browse "
    "submodule--helper".split()
)
_NEEDS_KEYS = frozenset("push pull fetch clone ls-remote lfs send-email".split())
_NEEDS_CONFIG = frozenset("submodule worktree init sparse-checkout maintenance flow".split())


class GitWords(Value):
    """The words of a git command.

    lead: all words up to the subcommand.
    before: options before the subcommand, each with its value.
    folder: where its options -C lead. known: they are known.
    subcommand: "" without one.
    rest: the words after it.
    """

    lead: tuple[Word, ...]
    before: tuple[tuple[str, Word], ...]
    subcommand: str
    rest: tuple[Word, ...]
    folder: str = ""
    known: bool = True

    @property
    def operands(self) -> list[Word]:
        """The words after the subcommand that do not look like options."""
        return [word for word in self.rest if not word.text.startswith("-")]

    @property
    def texts(self) -> list[str]:
        """The texts of the words after the subcommand."""
        return [word.text for word in self.rest]


def split_git(words: Sequence[Word]) -> GitWords:
    """Split the words after `git`."""
    queue = list(words)
    before: list[tuple[str, Word]] = []
    folder, known = "", True
    while queue and queue[0].text.startswith("-"):
        word = queue.pop(0)
        name, equals, value = word.text.partition("=")
        given = word.replace(text=value) if equals else Word("")
        if name in _VALUED and not equals:
            given = queue.pop(0) if queue else Word("")
        if name == "-C":
            folder, known = os.path.join(folder, given.text), known and not given.why
        before.append((name, given))
    subcommand = queue.pop(0).text if queue else ""
    return GitWords(tuple(words[: len(words) - len(queue)]), tuple(before), subcommand, tuple(queue), folder, known)


def whole_git(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return `git push` for git-push, which is in git's own folder; any other command unchanged."""
    return ("git", words[0][4:], *words[1:]) if words[0].startswith("git-") else words


def without_git_options(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return a git command without the options before its subcommand; any other command unchanged."""
    at = 1 if words[0] == "git" else len(words)
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in _VALUED else 1
    return (words[0], *words[at:])


def in_named_folder(part: SimpleCommand) -> SimpleCommand:
    """Return `git -C folder ...` as git in that folder; any other command unchanged, and if a link is on the way."""
    words, cwds = part.words, part.cwds
    while len(words) > 2 and words[1].text == "-C" and not (words[2].why or words[2].pattern):
        moved = [os.path.join(cwd, words[2].text) for cwd in cwds or ("/",)]
        if (cwds is None and not words[2].text.startswith("/")) or any(
            real_path(m) != os.path.normpath(m) for m in moved
        ):
            return part
        words, cwds = (words[0], *words[3:]), tuple(dict.fromkeys(os.path.normpath(m) for m in moved))
    return part if words is part.words else part.replace(words=words, cwds=cwds)


def git_effects(found: GitWords) -> Iterator[Touch]:
    """Yield what a git command touches outside of the repository's own folder, and what it runs."""
    for name, given in found.before:
        if name == "-C" and given.text:
            yield Touch("run", Word("-C")) if REMOTE.match(given.text) else Touch("write", given)
        elif not (name == "-c" and given.text and sets_harmless(given)) and name not in _HARMLESS_OPTIONS:
            yield Touch("run", Word(name), starts=name in ("--config-env", "--exec-path"))
        if name == "--work-tree" and given.text:
            yield Touch("write", given)
    if not found.subcommand:
        return
    sub, rest = found.subcommand, list(found.rest)
    # The helpers credential-store, credential-osxkeychain, ... print passwords.
    if sub in GIT_RUNNERS or sub.startswith(("-", "credential")):
        yield Touch("run", Word(sub), starts=sub in _RUNNING)
    operands = found.operands
    yield from _options_of_git(sub, rest)
    yield from (Touch("run", w, starts=True) for w in operands if re.match(r"(?:ext|fd)::", w.text))
    if sub == "config" and not only_gets([w.text for w in rest]):
        yield Touch("write", Word(".git/config"))
    elif sub == "bisect" and operands[:1] and operands[0].text in ("run", "visualize", "view"):
        yield Touch("run", operands[0])
    elif sub == "stash" and any(re.fullmatch(r"-\w*[au]\w*|--all|--include-untracked", t) for t in found.texts):
        yield Touch("into", Word("."))
    elif sub == "apply" or sub == "am":
        yield from (Touch("names", w) for w in operands or [Word("-")])
        yield from _elsewhere(rest)
    elif sub in ("rm", "mv", "clean"):
        kinds: dict[str, Literal["remove", "write"]] = {"rm": "remove", "mv": "write", "clean": "remove"}
        yield from (Touch(kinds[sub], w) for w in operands)
        # Under another name a rule about the file does not find it.
        yield from (Touch("tree", w) for w in operands[:-1] if sub == "mv")
    elif sub in ("checkout", "restore") and ("--" in [w.text for w in rest] or sub == "restore"):
        texts = [w.text for w in rest]
        after = rest[texts.index("--") + 1 :] if "--" in texts else operands
        yield from (Touch("write", w) for w in after)
    elif sub == "checkout":
        yield from (Touch("write", w) for w in operands[1:])
    elif sub == "checkout-index" and {"-a", "--all"} & {w.text for w in rest}:
        yield Touch("into", Word("."))
    elif sub == "diff" and "--no-index" in [w.text for w in rest]:
        yield from (Touch("tree", w) for w in operands)
    elif sub == "grep" and "--no-index" in [w.text for w in rest]:
        yield from (Touch("tree", w) for w in operands[1:] or [Word(".")])
    elif sub == "diff":
        # Given two files, one of them outside, it shows both. A colon does not make one of them remote.
        for word in operands:
            yield Touch("maybe", word.replace(text=f"./{word.text}") if REMOTE.match(word.text) else word)
    elif sub == "archive":
        yield from (Touch("tree", w) for w in operands[1:] or [Word(".")])
    elif sub == "hash-object":
        yield from (Touch("read", w) for w in operands)
    elif sub in ("merge-file", "interpret-trailers", "mailinfo"):
        yield from (Touch("read", w) for w in operands)
        yield from (Touch("write", w) for w in (operands[:1] if sub == "merge-file" else operands))
    elif sub in ("clone", "init"):
        targets = operands if sub == "init" else operands[1:]
        yield from (Touch("write", w) for w in targets)
    elif sub == "worktree" and operands[:1] and operands[0].text in ("add", "move", "remove", "repair"):
        yield from (Touch("write", w) for w in operands[1 : 3 if operands[0].text == "move" else 2])
    elif sub == "submodule" and any(w.text in ("foreach", "update", "add") for w in rest):
        yield Touch("run", next(w for w in rest if w.text in ("foreach", "update", "add")))
    elif sub in ("push", "send-pack"):
        # Into a folder it writes there, and runs the hooks of the repository there.
        yield from (Touch("maybe", w.replace(text=w.text.removeprefix("file://"))) for w in operands)
    elif sub == "pack-objects":
        yield from (Touch("write", w) for w in operands)
    elif sub == "lfs" and operands[:1] and operands[0].text in ("install", "update", "uninstall"):
        yield Touch("write", Word(".git/hooks"))
    elif sub == "bundle" and len(operands) > 1 and operands[0].text == "create":
        yield Touch("write", operands[1], replaces=True)


def _elsewhere(rest: Sequence[Word]) -> Iterator[Touch]:
    """Yield the options, whole or shortened, by which a patch changes other files than it names."""
    names = [n for w in rest if len(n := w.text.partition("=")[0]) > 2]
    for option in ("--unsafe-paths", "--directory"):
        if any(option.startswith(name) for name in names):
            yield Touch("run", Word(option))


def _options_of_git(sub: str, rest: list[Word]) -> Iterator[Touch]:
    for n, word in enumerate(rest):
        if word.text == "--":
            return
        name, equals, value = word.text.partition("=")
        given = word.replace(text=value) if equals else rest[n + 1] if n + 1 < len(rest) else Word("")
        # Any beginning that no other option of the subcommand has will do: `git grep --op=x` opens a pager.
        long = name.startswith("--") and len(name) > 2
        if long and any(o.startswith(name) for o in GIT_RUNS):
            yield Touch("run", Word(name), starts=any(o.startswith(name) for o in _STARTS))
        elif long and any(o.startswith(name) for o in GIT_WRITES):
            yield Touch("write", given, replaces=name not in ("--prefix", "--object-dir"))
            if sub in _SHOWING:
                # With --format it writes any text, for example into a script that another rule allows to run.
                yield Touch("run", Word(name))
        elif long and any(o.startswith(name) for o in GIT_READS):
            yield Touch("read", given)
        elif name == "--remote" and sub == "archive":
            yield Touch("run", Word(name))
        elif long and equals:
            yield Touch("maybe", given)
        elif not long:
            yield from _short(sub, word, rest[n + 1] if n + 1 < len(rest) else Word(""))


def _short(sub: str, word: Word, following: Word) -> Iterator[Touch]:
    """Yield effects of one-letter options, which may be in one word with others and with their value."""
    for letter, kind in _SHORT.get(sub, ()):
        match = re.match(rf"-[A-Za-z0-9]*?{letter}(.*)", word.text, re.DOTALL)
        if match is None:
            continue
        if kind == "run":
            yield Touch("run", Word(f"-{letter}"), starts=True)
        else:
            given = word.replace(text=match[1]) if match[1] else following
            yield Touch(kind, given, replaces=kind == "write" and sub != "config")


def sets_harmless(word: Word) -> bool:
    """Return True if `-c` sets a harmless key."""
    key, equals, value = word.text.partition("=")
    section, dot, name = key.rpartition(".")
    head, _, middle = section.partition(".")
    # Only the first and the last component of a key are case-insensitive.
    lower = f"{head.lower()}.{middle + '.' if middle else ''}{name.lower()}"
    return bool(dot) and not word.why and is_harmless_entry(lower, value if equals else None)


_GETS = frozenset("--get --get-all --get-regexp --get-urlmatch --get-color --get-colorbool --list -l".split())
_CONFIG_VALUED = frozenset("-f --file --blob -t --type --default".split())


def only_gets(words: Sequence[str]) -> bool:
    """Return True if `git config` with these words shows entries and sets none.

    Its options end at the first other word: in `git config alias.x '!id' --list` the last one is a pattern of values.
    """
    rest, options = list(words), set()
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option == "--":
            break
        options.add(option.partition("=")[0])
        if option in _CONFIG_VALUED:
            rest[:1] = []
    if options & _GETS or rest[:1] in (["get"], ["list"]):
        return True
    plain = options <= {"--global", "--local", "--system", "--worktree", "--null", "-z", "--bool"}
    return plain and len(rest) == 1 and re.fullmatch(r"[A-Za-z][\w-]*\.(?:.+\.)?[A-Za-z][\w-]*", rest[0]) is not None


def git_starts_unseen(found: GitWords) -> Iterator[tuple[str, str]]:
    """Yield descriptions of what may run another program, each with the word that an allow rule would name."""
    for name, given in found.before:
        if name == "-c" and given.text and not (sets_harmless(given) or _usual_pager(given.text)):
            yield f"git -c {given.text}, which may run other commands,", given.text
    sub = found.subcommand
    if sub and sub not in COMMANDS:
        yield f"git {sub}, which may be an alias,", sub
    elif sub in _RUNNING:
        yield f"git {sub}, which runs other commands,", sub
    for touch in git_effects(found):
        if touch.kind == "run" and touch.starts and touch.word.text != sub:
            yield f"git with {touch.word.text}, which may run other commands,", touch.word.text


def runs_command(texts: Sequence[str]) -> bool:
    """Return True if git runs a command: by an alias on its command line, or by a subcommand that does."""
    configured = any(re.match(r"-c$|--config-env|--exec-path=", t) for t in texts) and any("alias." in t for t in texts)
    return (
        configured
        or any(t.startswith("--exec") for t in texts)
        or {"submodule", "foreach"} <= set(texts)
        or (
            bool({"bisect", "rebase", "filter-branch"} & set(texts))
            and bool({"run", "-x", "filter-branch"} & set(texts))
        )
    )


def _usual_pager(entry: str) -> bool:
    """Return True if an entry of git's configuration names a usual pager or editor."""
    key, _, value = entry.casefold().partition("=")
    return key in ("core.pager", "core.editor", "sequence.editor") and bool(USUAL_PROGRAM.fullmatch(value))


_READS_REMOTES = frozenset(("-v", "--verbose", "show", "get-url"))
_BRANCH = lazy_pattern(r"-[dDmMcCut]+|--(?:delete|move|copy|track|set-upstream-to|unset-upstream|edit-description)\b.*")


def git_outside_reason(found: GitWords, root: Path) -> str:
    """Return why a git command has to run outside the sandbox; "" if it need not."""
    sub, rest = found.subcommand, found.texts
    plain = [w for w in rest if not w.startswith("-")]
    if sub == "config":
        reads = any(re.match(r"--get|--list|-l$|--show|get$|list$", w) for w in rest) or len(plain) == 1
        return "" if reads and "--unset" not in rest else CONFIG
    if sub == "remote":
        if plain[:1] in (["update"], ["prune"]):
            return KEYS
        return CONFIG if plain and plain[0] not in _READS_REMOTES else ""
    if sub == "branch" and any(_BRANCH.fullmatch(w) for w in rest):
        return CONFIG
    if sub in ("checkout", "switch") and "--" not in rest and _creates_tracking_branch(rest, plain, root):
        return CONFIG
    if sub in ("commit", "tag", "merge", "rebase") and any(re.match(r"-S|--gpg-sign", w) for w in rest):
        return KEYS
    if sub in ("submodule", "worktree") and plain[:1] in (["status"], ["list"], ["summary"]):
        return ""
    return KEYS if sub in _NEEDS_KEYS else CONFIG if sub in _NEEDS_CONFIG else ""


def _creates_tracking_branch(rest: list[str], plain: list[str], root: Path) -> bool:
    """Return True if a branch tracking a remote one would be created, which git writes into its configuration."""
    if any(w in ("-t", "--track") or w.startswith("--track=") for w in rest):
        return True
    if any(w == "--no-track" for w in rest):
        return False
    git = root / ".git"
    creates = any(w in ("-b", "-B", "-c", "-C", "--create") for w in rest)
    if creates:
        return any(_has_ref(git, f"refs/remotes/{w}") for w in plain[1:])
    return len(plain) == 1 and not _has_ref(git, f"refs/heads/{plain[0]}") and _is_remote_branch(git, plain[0])


def _has_ref(git: Path, name: str) -> bool:
    return os.path.isfile(git / name) or name in _packed_refs(git)  # noqa: PTH113 - names of strangers


def _is_remote_branch(git: Path, name: str) -> bool:
    remotes = git / "refs/remotes"
    with_loose = remotes.is_dir() and any((place / name).is_file() for place in remotes.iterdir())
    return with_loose or any(re.fullmatch(rf"refs/remotes/[^/]+/{re.escape(name)}", ref) for ref in _packed_refs(git))


def _packed_refs(git: Path) -> frozenset[str]:
    try:
        text = read_regular(git / "packed-refs", 1 << 24).decode("utf-8", "replace")
    except OSError:
        return frozenset()
    return frozenset(line.split(" ", 1)[-1] for line in text.splitlines() if not line.startswith(("#", "^")))


GIT_ROWS = {
    "git": Row("", shows="content", syntax=split_git, effects=git_effects, own=True, subcommands=2, repository=True,
        whole=True, nested="submodule bisect worktree config bundle stash remote reflog notes sparse-checkout",
        network="push pull fetch clone ls-remote lfs", offers="add, commit"),
}  # fmt: skip
