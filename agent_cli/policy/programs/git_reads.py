"""Read-only git commands, by subcommand, each with its allowed options, and whose content they would print.

They run with `guarded_git.hardened_variables`: no pager, hooks or monitors, no optional locks, no other repository.
What a repository's own configuration could still start (text conversion, filters) is checked by `git_use`.

A diff, a log with patches, a search or an object prints files. For a command that prints many, git is asked for their
names first, with the same words but other output (`GitNames`); if that is impossible, the files are unknown and the
command needs approval.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from pathlib import Path

from agent_cli.policy.programs.arguments import Arguments
from agent_cli.policy.programs.git import GitWords, only_gets
from agent_cli.policy.programs.parsing import parse_words
from agent_cli.policy.programs.row import Row, reading_row
from agent_cli.policy.shell.words import Word
from agent_tools.lazy import lazy_pattern
from agent_tools.process.guarded_git import GitError, GitRun
from agent_tools.record import Value

_HISTORY = reading_row("text", "puszwbiEFPqRacgtm", "nUSGL",
    "oneline graph all decorate no-decorate stat shortstat numstat name-only name-status patch no-patch abbrev-commit "
    "no-abbrev-commit no-merges merges first-parent reverse follow cached staged no-color raw summary no-renames quiet "
    "check exit-code topo-order date-order author-date-order no-ext-diff no-textconv left-right cherry-pick "
    "cherry-mark cherry boundary compact-summary ignore-all-space ignore-space-change ignore-space-at-eol "
    "ignore-blank-lines "
    "ignore-cr-at-eol minimal patience histogram patch-with-stat full-index binary text root no-notes source full-diff "
    "relative-date parents children use-mailmap no-mailmap regexp-ignore-case extended-regexp fixed-strings "
    "perl-regexp all-match invert-grep full-history dense sparse simplify-merges simplify-by-decoration merge-base "
    "pickaxe-all pickaxe-regex function-context no-prefix ita-invisible-in-index cc no-walk count "
    "walk-reflogs left-only right-only",
    "max-count since until after before author committer grep format pretty? date color? word-diff? word-diff-regex "
    "unified diff-filter decorate? decorate-refs branches? tags? remotes? glob exclude skip abbrev? find-renames? "
    "find-copies? stat? dirstat? diff-algorithm color-moved? ignore-submodules? relative? inter-hunk-context "
    "min-parents max-parents anchored src-prefix dst-prefix encoding since-as-filter expand-tabs? no-walk?",
    numbers=True, optional="MCB", strict=True,
)  # fmt: skip
SUBCOMMANDS: dict[str, Row] = {
    "status": reading_row("text", "sbvz", "", "short branch long verbose ahead-behind no-ahead-behind show-stash "
        "renames "
        "no-renames null",
        "porcelain? untracked-files? ignored? column? find-renames? ignore-submodules?", optional="u",
    ),
    "log": _HISTORY,
    "show": _HISTORY,
    "diff": _HISTORY,
    "rev-list": _HISTORY,
    "shortlog": reading_row("text", "sne", "", "summary numbered email no-merges all", "since until author group "
        "format",
                        strict=True),
    "branch": reading_row("text", "arvi", "", "list all remotes verbose show-current ignore-case no-color no-abbrev",
        "contains no-contains merged? no-merged? points-at sort format color? column? abbrev?",
        strict=True,
    ),
    "tag": reading_row("text", "li", "", "list ignore-case", "contains no-contains merged? no-merged? points-at sort "
        "format "
                   "color? column?", optional="n", strict=True),
    "remote": reading_row("text", "v", "", "verbose"),
    "rev-parse": reading_row("text", "q", "", "show-toplevel abbrev-ref verify is-inside-work-tree is-inside-git-dir "
        "is-bare-repository git-dir "
        "git-common-dir absolute-git-dir show-prefix show-cdup all symbolic symbolic-full-name quiet "
        "show-superproject-working-tree is-shallow-repository", "short? abbrev-ref? branches? tags? remotes? glob?",
    ),
    "ls-files": reading_row("text", "cdmoiksuzt", "x", "cached deleted modified others ignored stage unmerged killed "
        "exclude-standard full-name "
        "error-unmatch directory no-empty-directory eol deduplicate", "exclude abbrev?", strict=True,
    ),
    "ls-tree": reading_row("text", "rdtlz", "", "name-only name-status long full-name full-tree object-only", "abbrev? "
        "format?"),
    "blame": reading_row("text", "lstewcfnpbk", "L", "root show-stats show-name show-number show-email porcelain "
        "line-porcelain "
                     "incremental", "date abbrev since color-lines?", optional="CM", strict=True),
    "describe": reading_row("text", "", "", "all tags always long exact-match first-parent contains", "abbrev "
                        "candidates match exclude", strict=True),
    "cat-file": reading_row("text", "tspe"),
    "merge-base": reading_row("text", "a", "", "all octopus independent is-ancestor fork-point"),
    "symbolic-ref": reading_row("text", "q", "", "short quiet no-recurse"),
    "cherry": reading_row("text", "v", "", "verbose", "abbrev?"),
    "diff-tree": reading_row("text", "rt", "", "name-only name-status stat numstat shortstat root no-commit-id "
        "no-renames"),
    "name-rev": reading_row("text", "", "", "tags name-only always all no-undefined", "refs exclude", strict=True),
    "show-ref": reading_row("text", "dsq", "", "head tags heads branches dereference verify quiet exists", "hash? "
        "abbrev?"),
    "for-each-ref": reading_row("text", "", "", "ignore-case omit-empty include-root-refs", "count sort format "
        "points-at "
        "merged? "
                            "no-merged? contains? no-contains? color? exclude", strict=True),
    "count-objects": reading_row("text", "vH", "", "verbose human-readable"),
    "check-ignore": reading_row("text", "vnq", "", "verbose non-matching quiet no-index"),
    "grep": reading_row("text", "IiwvhHEGFPnlLzocpWqa", "emABC", "cached untracked line-number ignore-case word-regexp "
        "invert-match extended-regexp basic-regexp fixed-strings perl-regexp files-with-matches name-only "
        "files-without-match count "
        "only-matching show-function function-context break heading full-name text column no-color all-match quiet "
        "recursive null and or not", "max-depth max-count threads context after-context before-context color?",
        strict=True, numbers=True,
    ),
}  # fmt: skip
NESTED = {
    ("stash", "list"): _HISTORY,
    ("stash", "show"): _HISTORY,
    ("reflog", "show"): _HISTORY,
    ("worktree", "list"): reading_row("text", "vz", "", "porcelain verbose"),
    ("remote", "get-url"): reading_row("text", "", "", "push all"),
    ("config", "--get"): reading_row("text"),
    ("config", "--get-all"): reading_row("text"),
}
# Formats for which git runs gpg. A sign before a placeholder adds or removes a line feed or a space.
_SIGNED = lazy_pattern(r"%[-+ ]?G|signature")
# Options with which `git branch` and `git tag` list; otherwise a name would create a branch or tag.
_LISTING = frozenset("--list -l --contains --no-contains --merged --no-merged --points-at".split())
_NO_OPERANDS = frozenset(("remote", "count-objects"))
# Subcommands that show file content; the others show only names, and nothing outside the repository.
_CONTENT = frozenset("log show diff blame grep cat-file stash reflog".split())
# Subcommands for which a glob among the operands can only add more operands.
_MANY = frozenset("status log show diff rev-list shortlog ls-files ls-tree blame grep check-ignore".split())

# Configuration entries, including the user's own, that may contain a password or token.
_SECRET_KEY = lazy_pattern(
    r"(?:https?|url|credential|sendemail|imap|github|gitlab|hub|gitea|azure)\..*"
    r"|.*(?:token|passw|secret|cookie|extraheader|auth\b|api-?key).*",
    re.IGNORECASE | re.DOTALL,
)


class GitCall(Value):
    """A read-only git command.

    name: the subcommand, of two words for some.
    globals: options before it.
    words: arguments after it.
    revisions: operands before `--`, without a search pattern; they may also be paths.
    paths: operands after `--`; None without `--`.
    """

    name: str
    globals: tuple[str, ...]
    words: tuple[str, ...]
    row: Row
    read: Arguments

    @property
    def paths(self) -> tuple[str, ...] | None:
        """Operands after `--`; None without `--`."""
        return self.words[self.words.index("--") + 1 :] if "--" in self.words else None

    @property
    def revisions(self) -> tuple[str, ...]:
        """Operands before `--`."""
        found = self.read.texts[: len(self.read.operands) - len(self.paths or ())]
        return found[1:] if self.name == "grep" and not self.read.has("-e") else found

    def format_option(self, name: str, value: str) -> str:
        """Return an option with its value as one word."""
        if name == "-number":
            return f"-{value}"
        if not name.startswith("--"):
            return name + value
        valued = self.row.roles.get(name) == "value" and name not in self.row.optional
        return f"{name}={value}" if value or valued else name


@lru_cache(maxsize=256)
def git_call(words: tuple[str, ...]) -> GitCall | str:
    """Parse a git command if its subcommand and options are known, otherwise return why not."""
    queue = list(words)
    before = []
    while queue and queue[0] in ("--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs"):
        before.append(queue.pop(0))
    if not queue or queue[0].startswith("-"):
        return f"the option {queue[0]}" if queue else "git without a subcommand"
    name = queue.pop(0)
    if name == "config" and only_gets(queue[:1]) and len(queue) == 1 and "." in queue[0]:
        queue.insert(0, "--get")  # a lone key asks for its value; a word without a dot is a subcommand
    options = NESTED.get((name, queue[0])) if queue else None
    if options is not None:
        name = f"{name} {queue.pop(0)}"
    elif name == "reflog" and not (queue and queue[0][:1] != "-"):
        options = _HISTORY
    else:
        options = SUBCOMMANDS.get(name)
    if options is None:
        return f"git {name}"
    read = parse_words(options, [Word(text) for text in queue])
    if read.odd:
        return f"the option {read.odd}"
    return GitCall(name, tuple(w for w in before if w == "--literal-pathspecs"), tuple(queue), options, read)


def git_reads(words: tuple[str, ...], patterns: Collection[str] = ()) -> tuple[str, ...] | str:
    """Return the paths that a git command names if it only reads, otherwise why not.

    patterns: see `reads_of`.
    """
    if tuple(w for w in words if w not in ("--no-pager", "-P")) in (("--version",), ("version",)):
        return ()
    call = git_call(words)
    if isinstance(call, str):
        return call
    read, nested = call.read, " " in call.name
    name = call.name.partition(" ")[0]
    names = {option.name for option in read.options}
    if any(_SIGNED.search(option.value.text) for option in read.options):
        return "a format that checks signatures"
    if any("%(raw" in option.value.text for option in read.options):
        return "a format that prints objects"
    if any(w in patterns for w in words) and name not in _MANY and not (name in ("branch", "tag") and names & _LISTING):
        return "a pattern, which may become more words"
    if name == "reflog" and {"expire", "delete", "drop", "exists", "write"} & set(read.texts):
        return "git reflog with a subcommand"
    if name in ("branch", "tag") and read.operands and not names & _LISTING:
        return f"git {name} with a name"
    if name == "symbolic-ref" and len(read.operands) != 1:
        return "git symbolic-ref that sets one"
    if name in _NO_OPERANDS and not nested and read.operands:
        return f"git {name} {read.texts[0]}"
    if name == "config" and (len(read.operands) != 1 or _SECRET_KEY.fullmatch(read.texts[0])):
        return "git config" if len(read.operands) != 1 else f"git config of {read.texts[0]}, which may be a secret"
    operands = read.texts[1:] if name == "grep" and "-e" not in names else read.texts
    # HEAD:a.txt is a file after a revision, or a name with a colon: git diff uses a file of that name if it exists.
    named = (text for o in operands for text in (o, o.rpartition(":")[2]) if text)
    return tuple(dict.fromkeys(named)) if name in _CONTENT else ()


def prints_urls(words: tuple[str, ...]) -> bool:
    """Return True if a read-only git command prints the addresses of remote repositories."""
    call = git_call(words)
    if isinstance(call, str):
        return False
    if call.name == "remote":
        return call.read.has("-v", "--verbose")
    return call.name == "remote get-url" or (call.name.startswith("config") and words[-1].casefold().endswith("url"))


def enters_submodules(words: tuple[str, ...]) -> bool:
    """Return True if a read-only git command inspects the files of submodules by starting git in them."""
    names = [word for word in words if word in ("status", "diff")]
    if not names or (names[0] == "diff" and {"--cached", "--staged"} & set(words)):
        return False
    flags = [word for word in words if word.startswith("--ignore-submodules")]
    return flags[-1:] not in (["--ignore-submodules"], ["--ignore-submodules=all"])


# Options that make a log print patches, at least sometimes.
_PATCH = frozenset(
    "-p -u -U -c -m -L -W --patch --unified --patch-with-stat --cc --binary --word-diff --word-diff-regex --check "
    "--color-words --function-context".split()
)
# With one of these and none of the above, a diff prints only names and numbers.
_SUMMARY = frozenset(
    "-s -q --no-patch --name-only --name-status --stat --shortstat --numstat --raw --summary --dirstat "
    "--compact-summary --quiet".split()
)
# Dropped when asking for names: other output formats, and decorations around names.
_OUTPUT = _PATCH - {"-c", "-m", "--cc"} | _SUMMARY | frozenset(
    "-z --graph --exit-code --color --no-color --color-moved --relative --format --pretty --oneline --null "
    "--show-signature --no-ext-diff --no-textconv -M --find-renames -C --find-copies -B --ignore-submodules "
    "--full-index --abbrev --src-prefix --dst-prefix --no-prefix --source --left-right --parents --children".split()
)  # fmt: skip
_MAX_OUTPUT_BYTES = 16 << 20
_ONLY_NAMES = ("--name-only", "-z", "--no-color")

# Subcommands that print files by themselves, and those that do with an option for patches.
_PRINTS = frozenset("show diff difftool format-patch range-diff fast-export cat-file grep".split())
_PRINTS_PATCHES = frozenset("log reflog whatchanged diff-tree diff-index diff-files request-pull status".split())
_PATCH_LONG = (
    "--patch --patch-with-raw --patch-with-stat --unified --cc --dd --binary --word-diff --word-diff-regex --check "
    "--color-words --function-context --remerge-diff --diff-merges --submodule --verbose --textconv --ext-diff"
).split()
_NAMES_ONLY = _SUMMARY | frozenset("-l -L --files-with-matches --files-without-match --batch-check".split())


def may_print(found: GitWords) -> bool:
    """Return True if a git command that `git_call` does not know may print files that it does not name."""
    name, options = found.subcommand, [w.partition("=")[0] for w in found.texts if w.startswith("-")]
    patches = any(
        re.match(r"-[A-Za-z]*[puUcmLWv]", o) or (len(o) > 3 and any(p.startswith(o) for p in _PATCH_LONG))
        for o in options
    )
    if name in ("rebase", "am"):
        return any(o.startswith("--show") for o in options)
    if name == "commit":
        return any(o.startswith("--dr") for o in options) and any(re.match(r"-\w*v|--verb", o) for o in options)
    if name in _PRINTS_PATCHES or (name == "stash" and found.texts[:1] in (["show"], ["list"])):
        return patches
    return name in _PRINTS and (patches or not _NAMES_ONLY & set(options))


class GitNames(Value):
    """Words of a git command that prints NUL-terminated names.

    before: revisions that may precede a name, with a colon.
    """

    words: tuple[str, ...]
    before: tuple[str, ...] = ()


class Objects(Value):
    """Operands that may be objects: content without a name if they are blobs, or a name after a colon."""

    operands: tuple[str, ...]


def printed(call: GitCall) -> Iterator[GitNames | Objects]:
    """Yield the queries for the files that a command prints apart from the paths that it names."""
    names = {option.name for option in call.read.options}
    match call.name:
        case "status":
            if names & {"-v", "--verbose"}:
                yield GitNames(("diff", "--cached", *_ONLY_NAMES, "--no-renames"))
                yield GitNames(("diff", *_ONLY_NAMES, "--no-renames"))
        case "log" | "reflog" | "reflog show" | "stash list":
            if names & _PATCH:
                yield from _patches(call, names)
        case "stash show":
            if names & _PATCH:
                yield from _patches(call, names)
        case "show" | "diff":
            if call.name == "show" or names & _PATCH or not names & _SUMMARY:
                yield Objects(call.revisions)
            if names & _PATCH or not names & _SUMMARY:
                yield from _patches(call, names)
        case "cat-file":
            if not names & {"-t", "-s", "-e"}:
                yield Objects(call.read.texts[-1:])
        case "grep":
            if not names & _NAMES_ONLY:
                rest = tuple(word for word in call.words if not word.startswith("--color"))
                yield GitNames((*call.globals, "grep", "-l", "-z", "--full-name", *rest), call.revisions)


def _patches(call: GitCall, names: set[str]) -> Iterator[GitNames]:
    traced = [value.text.rpartition(":")[2] for value in call.read.values("-L")]
    for file in traced:
        yield GitNames(("log", *_ONLY_NAMES, "--format=", "--follow", *call.revisions, "--", file))
    if traced:
        return
    options = [call.format_option(o.name, o.value.text) for o in call.read.options if o.name not in _OUTPUT]
    own = [] if call.name == "diff" or call.name == "stash show" else ["--format="]
    # A renamed file is printed under both names.
    renames = [] if "--follow" in names else ["--no-renames"]
    after = () if call.paths is None else ("--", *call.paths)
    yield GitNames(
        (*call.globals, *call.name.split(), *options, *_ONLY_NAMES, *own, *renames, *call.revisions, *after)
    )  # fmt: skip


def printed_files(
    git: GitRun, root: Path, cwd: Path, wanted: Iterable[GitNames | Objects], seconds: float
) -> list[str]:
    """Return the files whose content a command would print, relative to the root. Raises GitError if unknown."""
    until = time.monotonic() + seconds
    found: dict[str, None] = {}
    for one in wanted:
        left = max(until - time.monotonic(), 0.05)
        if isinstance(one, Objects):
            found.update(dict.fromkeys(_objects(git, root, cwd, one.operands, left)))
            continue
        out = git.run(*one.words, cwd=str(cwd), seconds=left, most=_MAX_OUTPUT_BYTES, ok_codes=(0, 1))
        for name in os.fsdecode(out).split("\0"):
            named = name.lstrip("\n")
            start = next((f"{rev}:" for rev in one.before if named.startswith(f"{rev}:")), "")
            found.update(dict.fromkeys(n for n in (named, named.removeprefix(start)) if n))
    return list(found)


def _objects(git: GitRun, root: Path, cwd: Path, operands: tuple[str, ...], seconds: float) -> Iterator[str]:
    """Yield the names after colons. Raises GitError for an operand that is content without a name."""
    bare = [o for o in operands if ":" not in o and ".." not in o and not o.startswith("^")]
    for operand in operands:
        _, colon, name = operand.partition(":")
        if colon:
            for text in dict.fromkeys((name, name.rpartition(":")[2])):
                from_here = text.startswith(("./", "../"))
                yield os.path.relpath(os.path.normpath((cwd if from_here else root) / text), root)
    if any("\n" in o for o in bare):
        raise GitError("an object is named in more than one line")
    feed = "".join(f"{o}\n{o}^{{}}\n" for o in bare)
    if not feed:
        return
    out = git.run("cat-file", "--batch-check=%(objecttype)", feed=os.fsencode(feed), cwd=str(cwd), seconds=seconds)
    if b"blob" in out.split(b"\n"):
        raise GitError("an object is named without its file")
