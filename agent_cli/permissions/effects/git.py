"""Effects of git commands outside the repository, and of archivers: what they read, write or run, and unpack."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

from agent_cli.permissions.effects.table import GIT_READS, GIT_RUNNERS, GIT_RUNS, GIT_WRITES, PROGRAMS
from agent_cli.permissions.git_inspection import is_harmless_entry
from agent_cli.permissions.options import REMOTE, Touch, option_effects, scan
from agent_cli.permissions.shell.words import Word
from agent_tools.fs.safe_files import read_regular

# Larger archives, or ones with more members, are not inspected.
_MAX_ARCHIVE_BYTES = 16 << 20
_MAX_MEMBERS = 20_000
# Longer lists of files are not looked through.
_MAX_LISTED = 1_000
# Magic bytes of compression formats that are not inspected.
_PACKED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"(\xb5/\xfd", b"7z\xbc\xaf", b"\x1f\x9d", b"LZIP")

_TAR_VALUED = "fbCTXIFgHVKNL"
_TAR_RUNS = (
    "--to-command", "--use-compress-program", "--checkpoint-action", "--rsh-command", "--info-script",
    "--new-volume-script", "--rmt-command", "--remove-files", "--absolute-names", "--transform", "--xform",
)  # fmt: skip
_TAR_FILES = {
    "--file": "f", "--directory": "C", "--files-from": "T", "--exclude-from": "X", "--listed-incremental": "g",
    "--index-file": "g", "--volno-file": "g", "--one-top-level": "C",
}  # fmt: skip
_TAR_ACTIONS = {
    "--create": "c", "--extract": "x", "--get": "x", "--list": "t", "--append": "r", "--update": "u", "--delete": "r",
    "--concatenate": "A", "--catenate": "A",
}  # fmt: skip


def _tar_file(letter: str, given: Word) -> Iterator[Touch]:
    """Yield the effect of a file option of tar: -T and -X read a list, -g writes a snapshot."""
    if letter in "TX":
        yield Touch("read", given)
    elif letter == "g":
        yield Touch("write", given)


def _tar(words: Sequence[Word]) -> Iterator[Touch]:
    letters, folder, removes = "", Word("."), False
    archives: list[Word] = []
    lists: list[Word] = []
    operands: list[Word] = []
    queue, first = list(words), True
    while queue:
        word = queue.pop(0)
        text = word.text
        if text.startswith("--") and len(text) > 2:
            name, equals, value = text.partition("=")
            action = _TAR_ACTIONS.get(name) or next((v for k, v in _TAR_ACTIONS.items() if k.startswith(name)), "")
            valued = next((k for k in _TAR_FILES if k.startswith(name)), "")
            if ran := next((r for r in _TAR_RUNS if r.startswith(name)), ""):
                yield Touch("run", Word(ran))
                removes = removes or ran == "--remove-files"
            elif name == "--dereference":
                letters += "h"
            elif name in _TAR_ACTIONS:
                letters += action
            elif valued and (equals or valued != "--one-top-level"):
                letter = _TAR_FILES[valued]
                given = word.replace(text=value) if equals else queue.pop(0) if queue else Word("")
                folder = given if letter == "C" else folder
                archives += [given] if letter == "f" else []
                lists += [given] if letter == "T" else []
                yield from _tar_file(letter, given)
            elif action:
                letters += action
            elif equals and not name.startswith("--ex"):
                yield Touch("maybe", word.replace(text=value))
        elif (text.startswith("-") and len(text) > 1) or first:
            cluster = text.removeprefix("-")
            old = not text.startswith("-")
            while cluster:
                letter, cluster = cluster[0], cluster[1:]
                letters += letter
                if letter in "IFP":
                    yield Touch("run", Word(f"-{letter}"))
                if letter not in _TAR_VALUED:
                    continue
                given = word.replace(text=cluster) if cluster and not old else queue.pop(0) if queue else Word("")
                cluster = cluster if old else ""
                folder = given if letter == "C" else folder
                archives += [given] if letter == "f" else []
                lists += [given] if letter == "T" else []
                yield from _tar_file(letter, given)
        else:
            operands.append(word)
        first = False
    writes = bool(set("cruA") & set(letters))
    if writes:
        yield from (Touch("listed", w, folder) for w in lists)
    for archive in archives:
        if not REMOTE.match(archive.text):
            yield from [] if archive.text == "-" else [Touch("write" if writes else "read", archive)]
        else:
            yield Touch("run", archive)
    if "x" in letters and "O" not in letters:
        yield Touch("into", folder)
        yield Touch("unpack", archives[0] if len(archives) == 1 else Word("-"), folder)
    elif writes:
        below = [w if w.text.startswith("/") else w.replace(text=os.path.join(folder.text, w.text)) for w in operands]
        yield from (Touch("tree", w) for w in below)
        if removes:
            yield from (Touch("remove", w, follows="below" if "h" in letters else "") for w in below)


def _unzip(words: Sequence[Word]) -> Iterator[Touch]:
    found, operands = scan(PROGRAMS["unzip"], words)
    yield from option_effects(found)
    yield from (Touch("read", w) for w in operands[:1])
    if not {"-l", "-v", "-t", "-p", "-c", "-z", "-Z"} & {option for option, _, _ in found}:
        into = next((value for option, _, value in found if option == "-d"), Word("."))
        yield Touch("into", into)
        yield Touch("unpack", operands[0] if operands else Word("-"), into)


def _zip(words: Sequence[Word]) -> Iterator[Touch]:
    if any(re.fullmatch(r"-\w*TT", w.text) for w in words):
        yield Touch("run", Word("-TT"))
    found, operands = scan(PROGRAMS["zip"], words)
    yield from option_effects(found)
    names = {option for option, _, _ in found}
    yield from (Touch("write", w) for w in operands[:1] if w.text != "-")
    for word in operands[1:]:
        yield Touch("tree" if names & {"-r", "-R"} else "read", word)
        if names & {"-m", "--move"}:
            yield Touch("remove", word, follows="below")


def _cpio(words: Sequence[Word]) -> Iterator[Touch]:
    found, operands = scan(PROGRAMS["cpio"], words)
    yield from option_effects(found)
    names = {option for option, _, _ in found}
    if names & {"-i", "--extract", "-p", "--pass-through"}:
        into = operands[-1] if operands and names & {"-p", "--pass-through"} else Word(".")
        yield Touch("into", into)


def _seven(words: Sequence[Word]) -> Iterator[Touch]:
    texts = [w.text for w in words]
    operands = [w for w in words[1:] if not w.text.startswith("-")]
    if texts[:1] in (["x"], ["e"]):
        into = next((w.replace(text=w.text[2:]) for w in words if w.text.startswith("-o")), Word("."))
        yield Touch("into", into)
        yield Touch("unpack", operands[0] if operands else Word("-"), into)
    elif texts[:1] in (["a"], ["u"], ["d"], ["rn"]):
        yield from (Touch("write", w) for w in operands[:1])
        yield from (Touch("tree", w) for w in operands[1:])


ARCHIVER_EFFECTS: Mapping[str, Callable[[Sequence[Word]], Iterator[Touch]]] = {
    "tar": _tar, "bsdtar": _tar, "unzip": _unzip, "zip": _zip, "cpio": _cpio,
    "7z": _seven, "7za": _seven, "7zz": _seven,
}  # fmt: skip


def members(archive: str) -> list[str] | None:
    """Return the members of an archive and the targets of its links; only link targets may begin with a slash.

    Empty if it is not an archive, None if the content is unknown.
    """
    import io
    import tarfile  # only for an archive that is unpacked under a rule
    import zipfile
    import zlib

    try:
        data = read_regular(archive, _MAX_ARCHIVE_BYTES)
        found: list[str] = []
        if zipfile.is_zipfile(io.BytesIO(data)):
            with zipfile.ZipFile(io.BytesIO(data)) as opened:
                found = [name.lstrip("/") for name in opened.namelist()]
                if any(info.external_attr >> 16 & 0o170000 == 0o120000 for info in opened.infolist()):
                    return None  # a link, whose target is in the content
            return found if len(found) <= _MAX_MEMBERS else None
        if not tarfile.is_tarfile(io.BytesIO(data)):
            # Another kind of archive, or none; if it were packed beyond the limit, tar would report it as well.
            return None if data.startswith(_PACKED) else []
        read = 0
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            for member in tar:
                read += member.size
                if len(found) > _MAX_MEMBERS or read > 8 * _MAX_ARCHIVE_BYTES:
                    return None
                found.append(member.name.lstrip("/"))
                if member.issym():
                    found.append(os.path.join(os.path.dirname(member.name), member.linkname))  # noqa: PTH120
                elif member.islnk():
                    found.append(member.linkname.lstrip("/"))
    except (OSError, EOFError, ValueError, RuntimeError, tarfile.TarError, zipfile.BadZipFile, zlib.error):
        return None
    return found


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
_VALUED = ("-c", "-C", "--git-dir", "--work-tree", "--namespace", "--config-env", "--attr-source", "--exec-path")

_MAX_PATCH_BYTES = 1 << 20


def git_effects(words: Sequence[Word]) -> Iterator[Touch]:
    queue = list(words)
    while queue and queue[0].text.startswith("-"):
        word = queue.pop(0)
        name = word.text.partition("=")[0]
        if name == "-C" and queue:
            yield Touch("run", Word("-C")) if REMOTE.match(queue[0].text) else Touch("write", queue[0])
        elif not (name == "-c" and queue and sets_harmless(queue[0])) and name not in _HARMLESS_OPTIONS:
            yield Touch("run", Word(name))
        if name == "--work-tree":
            folder = [word.replace(text=word.text.partition("=")[2])] if "=" in word.text else queue[:1]
            yield from (Touch("write", f) for f in folder)
        if name in _VALUED and "=" not in word.text:
            queue[:1] = []
    if not queue:
        return
    sub, rest = queue[0].text, queue[1:]
    # The helpers credential-store, credential-osxkeychain, ... print passwords.
    if sub in GIT_RUNNERS or sub.startswith(("-", "credential")):
        yield Touch("run", Word(sub))
    operands = [w for w in rest if not w.text.startswith("-")]
    yield from _options_of_git(sub, rest)
    yield from (Touch("run", w) for w in operands if re.match(r"(?:ext|fd)::", w.text))
    if sub == "config" and not only_gets([w.text for w in rest]):
        yield Touch("write", Word(".git/config"))
    elif sub == "bisect" and operands[:1] and operands[0].text in ("run", "visualize", "view"):
        yield Touch("run", operands[0])
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
        yield Touch("write", operands[1])


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
            yield Touch("run", Word(name))
        elif long and any(o.startswith(name) for o in GIT_WRITES):
            yield Touch("write", given)
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
            yield Touch("run", Word(f"-{letter}"))
        else:
            yield Touch(kind, word.replace(text=match[1]) if match[1] else following)


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


def files_of_list(path: str) -> list[str] | None:
    """Return the files that a list for `tar -T` names; None if it is unreadable, long, or has options or escapes."""
    try:
        text = read_regular(path, _MAX_PATCH_BYTES).decode("utf-8", "surrogateescape")
    except (OSError, ValueError):
        return None
    names = [name for name in re.split(r"[\n\0]", text) if name]
    odd = len(names) > _MAX_LISTED or any(name[0] == "-" or "\\" in name for name in names)
    return None if odd else names


def files_of_patch(patch: str) -> list[str] | None:
    """Return the files that a patch names; None if it cannot be read."""
    try:
        text = read_regular(patch, _MAX_PATCH_BYTES).decode("utf-8", "surrogateescape")
    except (OSError, ValueError):
        return None
    names = re.findall(r"^(?:\+\+\+|---|\*\*\*|Index:) ([^\t\n]+)", text, re.MULTILINE)
    names += re.findall(r"^(?:rename|copy) (?:from|to) (.+)$", text, re.MULTILINE)
    names += [n for pair in re.findall(r"^diff --git (\S+) (\S+)", text, re.MULTILINE) for n in pair]
    if any(n.startswith('"') for n in names):
        return None
    # With any number of leading directories stripped, as by -p.
    return sorted({"/".join(n.split("/")[k:]) for n in names for k in range(n.count("/") + 1)})
