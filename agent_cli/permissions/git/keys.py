"""Harmless keys of a repository's git configuration: whatever their value, read-only commands start nothing.

An unlisted key counts as one that may start a program, contact a host or lead elsewhere.
"""

from __future__ import annotations

import re

# Keys of two components, by section.
_PLAIN = {
    "core": "repositoryformatversion filemode logallrefupdates ignorecase precomposeunicode symlinks autocrlf safecrlf "
    "eol quotepath abbrev compression loosecompression bigfilethreshold sharedrepository untrackedcache preloadindex "
    "trustctime checkstat protecthfs protectntfs longpaths fscache commentchar commentstring whitespace "
    "warnambiguousrefs sparsecheckout sparsecheckoutcone multipackindex commitgraph splitindex fsync fsyncmethod "
    "fsyncobjectfiles deltabasecachelimit packedgitlimit packedgitwindowsize packedrefstimeout filesreflocktimeout",
    "user": "name email useconfigonly signingkey",
    "author": "name email",
    "committer": "name email",
    "extensions": "worktreeconfig partialclone objectformat refstorage compatobjectformat noop preciousobjects "
    "relativeworktrees",
    "branch": "autosetupmerge autosetuprebase sort",
    "pull": "rebase ff octopus twohead",
    "push": "default followtags autosetupremote gpgsign",
    "fetch": "prune prunetags parallel writecommitgraph output fsckobjects",
    "merge": "ff conflictstyle renames renamelimit log stat verbosity",
    "rebase": "autostash autosquash updaterefs stat abbreviatecommands missingcommitscheck",
    "rerere": "enabled autoupdate",
    "commit": "verbose cleanup status gpgsign",
    "tag": "gpgsign sort",
    "init": "defaultbranch",
    "color": "ui branch diff status grep interactive decorate advice push remote showbranch",
    "column": "ui branch status tag",
    "status": "short branch showuntrackedfiles showstash relativepaths aheadbehind renames displaycommentprefix",
    "diff": "algorithm renames renamelimit colormoved colormovedws mnemonicprefix noprefix context interhunkcontext "
    "indentheuristic ignoresubmodules statgraphwidth suppressblankempty wserrorhighlight relative",
    "log": "date decorate abbrevcommit follow showroot",
    "grep": "linenumber column patterntype extendedregexp fullname threads fallbacktonoindex",
    "gc": "auto autopacklimit autodetach packrefs pruneexpire worktreepruneexpire reflogexpire reflogexpireunreachable "
    "rerereresolved rerereunresolved writecommitgraph cruftpacks",
    "maintenance": "auto strategy",
    "index": "version threads sparse recordoffsettable recordendofindexentries skiphash",
    "pack": "threads window depth windowmemory compression usebitmaps writebitmaps usesparse indexversion",
    "repack": "usedeltabaseoffset packkeptobjects writebitmaps",
    "transfer": "fsckobjects",
    "receive": "denycurrentbranch denynonfastforwards denydeletes fsckobjects",
    "feature": "manyfiles experimental",
    "submodule": "active fetchjobs",
    "remote": "pushdefault",
    "lfs": "repositoryformatversion",
    "help": "autocorrect",
    "i18n": "commitencoding logoutputencoding",
    "gui": "wmstate geometry encoding",
    "checkout": "defaultremote guess workers",
    "stash": "showstat",
    "http": "postbuffer",
}
_HARMLESS = frozenset(f"{section}.{name}" for section, names in _PLAIN.items() for name in names.split())
# Keys of three components, with any subsection.
_NAMED = {
    "remote": "fetch push tagopt mirror prune prunetags skipdefaultupdate skipfetchall promisor partialclonefilter "
    "gh-resolved",
    "branch": "merge rebase description vscode-merge-base gh-merge-base github-pr-owner-number",
    "submodule": "url active branch shallow fetchrecursesubmodules ignore",
    "lfs": "access locksverify",
    "maintenance": "enabled schedule",
}
_NAMED_KEYS = frozenset(f"{section}..{name}" for section, names in _NAMED.items() for name in names.split())
_COLOURS = re.compile(
    r"color\.(branch|diff|status|grep|interactive|decorate|advice|push|remote)\.[a-z-]+|advice\.[a-z]+"
)
# Compiled when needed: compiling takes longer than everything else about opening a repository.
_ADDRESSES = frozenset((("remote", "url"), ("remote", "pushurl"), ("branch", "remote"), ("branch", "pushremote")))
_SWITCH = frozenset((None, "", "true", "false", "yes", "no", "on", "off", "0", "1"))
# `ext::sh -c ...`, or any other helper that git would start for a URL.
_HELPER = r"[A-Za-z0-9+.-]*::"
# Keys that only matter to commands that are not read-only, or are disabled by the settings of `guarded_git`.
_NEVER_IN_READS = (
    r"core\.(fsmonitor|hookspath|pager|editor|sshcommand|askpass|gitproxy|attributesfile|alternaterefscommand)"
    r"|(pager|alias|gpg|credential|sequence|man|browser|web|sendemail|http|https|url|mergetool|difftool|guitool|trailer"
    r"|gc|receive|uploadpack|protocol|instaweb|merge|rebase|commit|user|tag|push|pull|gui|advice|gitflow|lfs|hub"
    r"|github|svn-remote|stgit|bugtraq|maintenance|fetch|clone|am|notes|branch)\..*"
    r"|remote\..*\.(url|pushurl|uploadpack|receivepack|vcs|proxy|proxyauthmethod|serveroption|followremotehead)"
    r"|submodule\..*\.update|interactive\.difffilter|merge\..*\.(driver|name|recursive)"
)


def is_harmless_entry(key: str, value: str | None) -> bool:
    """Return True if an entry is harmless. key: as listed by git, in lower case except for its subsection."""
    section, _, rest = key.partition(".")
    _, dot, name = rest.rpartition(".")
    if not dot:
        if key == "core.fsmonitor":  # a boolean means git's own monitor, which is disabled
            return value in _SWITCH
        if key == "core.bare":
            return value in ("false", "no", "off", "0")
        return key in _HARMLESS or re.fullmatch(_COLOURS, key) is not None
    if (section, name) in _ADDRESSES:
        return value is not None and not re.match(_HELPER, value) and not value.startswith("-")
    if section == "submodule" and name == "update":
        return value in ("checkout", "rebase", "merge", "none")
    return f"{section}..{name}" in _NAMED_KEYS or re.fullmatch(_COLOURS, key) is not None


def may_start_in_reads(key: str) -> bool:
    """Return True if a hardened read may still start a program or be redirected by an entry that is not harmless."""
    return re.fullmatch(_NEVER_IN_READS, key, re.DOTALL) is None
