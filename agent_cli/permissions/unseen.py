"""Find what may run a program that is not visible as a word of the command, for comparison with deny rules.

That may be an option (`tar --to-command`), a script (`awk` with `system`), a variable (`GIT_PAGER`), a git alias, or
another spelling of a wrapper. Programs run by an interpreter or a build tool are not found.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from agent_cli.permissions.effects.git import sets_harmless
from agent_cli.permissions.effects.lookup import effects_of
from agent_cli.permissions.shell.analysis import RUNNERS, SHELLS, WRAPPERS
from agent_cli.permissions.shell.words import SimpleCommand

# Variables whose value is run as a program or shell code, and values that are harmless.
_RUN_VARIABLES = re.compile(
    r"\w*PAGER|\w*EDITOR|VISUAL|\w*_ASKPASS|GIT_EXTERNAL_DIFF|GIT_SSH(?:_COMMAND)?|GIT_PROXY_COMMAND|GIT_EXEC_PATH|"
    r"GIT_CONFIG\w*|LESSOPEN|LESSCLOSE|RSYNC_RSH|TAR_OPTIONS|MANOPT"
)
_HARMLESS_VALUE = re.compile(
    r"|cat|more|less(?: -\w+)*|true|:|false|/bin/true|/bin/false|echo|vi|vim|nano|/dev/null|\d"
)
# Programs whose effects of the kind "run" are programs that they start, rather than configuration.
_PROGRAM_STARTERS = frozenset(
    "tar bsdtar rg sort split rsync man less vim vi view nvim ex zip cpio install fd fdfind make sed awk gawk mawk "
    "find go emacs".split()
)
_GIT_VALUED = frozenset(
    "-C -c --git-dir --work-tree --namespace --exec-path --config-env --attr-source --super-prefix --shallow-file "
    "--list-cmds".split()
)
# A subcommand that is not among these may be an alias, which cannot replace one of them.
_GIT_COMMANDS = frozenset(
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


def hidden_programs(part: SimpleCommand) -> Iterator[tuple[str, str]]:
    """Yield descriptions of whatever may run another program, each with the word that an allow rule would name."""
    if not part.words:
        return
    for text in (w.text for w in (*part.assigns, *part.words[1:])):
        name, equals, value = text.partition("=")
        setting = text in {w.text for w in part.assigns} or part.words[0].text in ("export", "declare", "typeset")
        if setting and equals and _RUN_VARIABLES.fullmatch(name) and not _HARMLESS_VALUE.fullmatch(value):
            yield f"{name}, whose value is run,", text
    own = os.path.basename(part.words[0].text)
    name = own.casefold().removesuffix(".exe")
    if name != own and name in (*WRAPPERS, *SHELLS, *RUNNERS):
        yield f"{own}, which may be {name} and run other commands,", own
    if re.match(r"ld(?:-linux|-musl|\.so|\.lld)?[\w.-]*\.so", name) or (name == "hash" and len(part.words) > 2):
        yield f"{own}, which runs other commands,", own
    if name == "npm" and (part.texts[1:2] in (("exec",), ("x",))):
        yield from ((f"npm {o}, which runs a script,", o) for o in part.texts if re.match(r"-c|--call", o))
    if name == "git":
        yield from _of_git(part)
    elif name in _PROGRAM_STARTERS:
        yield from (
            (f"{name} with {t.word.text}, which may run other commands,", t.word.text)
            for t in effects_of(part)
            if t.kind == "run" and not t.word.text.startswith("-delete")
        )


def _of_git(part: SimpleCommand) -> Iterator[tuple[str, str]]:
    words = list(part.words[1:])
    while words and words[0].text.startswith("-"):
        if words[0].text == "-c" and len(words) > 1 and not (sets_harmless(words[1]) or _usual_pager(words[1].text)):
            yield f"git -c {words[1].text}, which may run other commands,", words[1].text
        del words[: 2 if words[0].text in _GIT_VALUED else 1]
    if words and words[0].text not in _GIT_COMMANDS:
        yield f"git {words[0].text}, which may be an alias,", words[0].text
    elif words and words[0].text in ("difftool", "mergetool", "for-each-repo", "filter-branch"):
        yield f"git {words[0].text}, which runs other commands,", words[0].text


def _usual_pager(entry: str) -> bool:
    """Return True if an entry of git's configuration names a usual pager or editor."""
    key, _, value = entry.casefold().partition("=")
    return key in ("core.pager", "core.editor", "sequence.editor") and bool(_HARMLESS_VALUE.fullmatch(value))
