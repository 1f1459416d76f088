"""Archivers: what they pack, unpack and remove, and which files a list names."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from agent_cli.policy.programs.arguments import Arguments
from agent_cli.policy.programs.effects import REMOTE, Touch, Unpacked
from agent_cli.policy.programs.row import Row, expand_rows, reading_row
from agent_cli.policy.shell.words import Word
from agent_tools.fs.safe_files import read_regular
from agent_tools.lazy import lazy_pattern

# Longer lists of files, or longer patches, are not looked through.
_MAX_LISTED = 1_000
_MAX_LIST_BYTES = 1 << 20

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


def _tar(found: Arguments) -> Iterator[Touch]:
    letters, folder, removes = "", Word("."), False
    archives: list[Word] = []
    lists: list[Word] = []
    operands: list[Word] = []
    queue, first = list(found.words), True
    while queue:
        word = queue.pop(0)
        text = word.text
        if text.startswith("--") and len(text) > 2:
            name, equals, value = text.partition("=")
            action = _TAR_ACTIONS.get(name) or next((v for k, v in _TAR_ACTIONS.items() if k.startswith(name)), "")
            valued = next((k for k in _TAR_FILES if k.startswith(name)), "")
            if ran := next((r for r in _TAR_RUNS if r.startswith(name)), ""):
                yield Touch("run", Word(ran), starts=True)
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
                    yield Touch("run", Word(f"-{letter}"), starts=True)
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
            yield from (
                []
                if archive.text == "-"
                else [Touch("write", archive, replaces="c" in letters) if writes else Touch("read", archive)]
            )
        else:
            yield Touch("run", archive, starts=True)
    if "x" in letters and "O" not in letters:
        yield Touch("into", folder)
        archive = archives[0] if len(archives) == 1 else Word("-")
        yield Touch("unpack", archive, folder, unpacked=_unpacked_by_tar(found, letters, operands))
    elif writes:
        below = [w if w.text.startswith("/") else w.replace(text=os.path.join(folder.text, w.text)) for w in operands]
        yield from (Touch("tree", w, follows="below" if "h" in letters else "") for w in below)
        if removes:
            yield from (Touch("remove", w, follows="below" if "h" in letters else "") for w in below)


_TAR_KEEPS = ("--keep-old-files", "--skip-old-files")
# Options with which it is not known which members are unpacked, and to which names.
_TAR_SELECTS = (
    "--exclude", "--transform", "--xform", "--one-top-level", "--files-from", "--keep-newer-files", "--newer",
    "--wildcards", "--occurrence", "--starting-file", "--include",
)  # fmt: skip
_STRIPPED = lazy_pattern(r"--strip(?:-components)?=(\d+)")


def _unpacked_by_tar(found: Arguments, letters: str, operands: Sequence[Word]) -> Unpacked | None:
    texts = [word.text for word in found.words]
    if "k" in letters or any(text.startswith(_TAR_KEEPS) for text in texts):
        return None
    strips = [int(match[1]) for match in map(_STRIPPED.fullmatch, texts) if match]
    bare = any(text.startswith("--strip") and "=" not in text for text in texts)
    exact = not (bare or set("TXKN") & set(letters) or any(text.startswith(_TAR_SELECTS) for text in texts))
    return Unpacked(strip=sum(strips[-1:]), only=tuple(operands), exact=exact)


def _dashed_tar(words: Sequence[Word]) -> list[Word]:
    """Return the words with a dash before the letters of a list: `tar tvf x.tar`. Only the last letter has a value."""
    old = bool(words) and re.fullmatch(r"[tvzjJ]+f", words[0].text)
    return [words[0].replace(text=f"-{words[0].text}"), *words[1:]] if old else list(words)


def _check_tar(found: Arguments) -> str:
    """Allow a list of what is in one archive; one with a colon before any slash is on another machine."""
    archives = [value.text.partition("/")[0] for value in found.values("-f", "--file")]
    plain = len(archives) == 1 and ":" not in archives[0]
    return "" if plain and found.has("-t", "--list") else "packing or unpacking"


_UNZIP_SHOWS = "-l -v -t -z -Z -p -c"


def _unzip(found: Arguments) -> Iterator[Touch]:
    operands = found.operands
    yield from (Touch("read", w) for w in operands[:1])
    if not found.has(*_UNZIP_SHOWS.split()):
        into = next(iter(found.values("-d")), Word("."))
        yield Touch("into", into)
        yield Touch("unpack", operands[0] if operands else Word("-"), into, unpacked=_unpacked_by_unzip(found))


def _unpacked_by_unzip(found: Arguments) -> Unpacked | None:
    """Without -o it asks about each file, and keeps the file if nobody answers."""
    if not found.has("-o") or found.has("-n"):
        return None
    exact = not found.has("-x", "-u", "-f") and "-x" not in {word.text for word in found.words}
    return Unpacked(flat=found.has("-j"), only=found.operands[1:], exact=exact)


def _zip(found: Arguments) -> Iterator[Touch]:
    if any(re.match(r"-\w*TT", w.text) for w in found.words):
        yield Touch("run", Word("-TT"), starts=True)
    operands = found.operands
    names = {option.name for option in found.options}
    yield from (Touch("write", w, replaces=True) for w in operands[:1] if w.text != "-")
    for word in operands[1:]:
        yield Touch("tree" if names & {"-r", "-R"} else "read", word)
        if names & {"-m", "--move"}:
            yield Touch("remove", word, follows="below")


def _cpio(found: Arguments) -> Iterator[Touch]:
    operands = found.operands
    names = {option.name for option in found.options}
    reads = names & {"-i", "--extract", "-t", "--list"} and not names & {"-o", "--create"}
    yield from (Touch("read" if reads else "write", value) for value in found.values("-F", "--file"))
    if names & {"-i", "--extract", "-p", "--pass-through"}:
        copies = names & {"-p", "--pass-through"}
        into = operands[-1] if operands and copies else next(iter(found.values("-D", "--directory")), Word("."))
        yield Touch("into", into)
        if not names & {"-t", "--list", "--to-stdout"}:
            # Without -u it replaces older files.
            archive = Word("-") if copies else next(iter(found.values("-F", "--file", "-I")), Word("-"))
            yield Touch("unpack", archive, into, unpacked=Unpacked(exact=False))


def _seven(found: Arguments) -> Iterator[Touch]:
    words = found.words
    texts = [w.text for w in words]
    operands = [w for w in words[1:] if not w.text.startswith("-")]
    if texts[:1] in (["x"], ["e"]):
        into = next((w.replace(text=w.text[2:]) for w in words if w.text.startswith("-o")), Word("."))
        yield Touch("into", into)
        replaces = any(text == "-y" or text.startswith("-aoa") for text in texts) and not {"-aos", "-aou"} & set(texts)
        plain = not any(text.startswith(("-x", "-i", "-an", "-ai", "-ax", "-aot")) for text in texts)
        unpacked = Unpacked(flat=texts[0] == "e", only=tuple(operands[1:]), exact=plain) if replaces else None
        yield Touch("unpack", operands[0] if operands else Word("-"), into, unpacked=unpacked)
    elif texts[:1] in (["a"], ["u"], ["d"], ["rn"]):
        yield from (Touch("write", w, replaces=True) for w in operands[:1])
        yield from (Touch("tree", w) for w in operands[1:])


def _ar(found: Arguments) -> Iterator[Touch]:
    """`ar rcs lib.a x.o`: letters, the archive, its members."""
    letters, archive, *rest = (*found.words, Word(""), Word(""))[: max(len(found.words), 2)]
    action = letters.text.lstrip("-")[:1]
    yield Touch("write" if action in "rqdms" else "read", archive)
    if action in ("r", "q"):
        yield from (Touch("read", w) for w in rest)
    elif action == "x":
        yield Touch("into", Word("."))
        yield Touch("unpack", archive, Word("."), unpacked=Unpacked(only=tuple(rest), exact=False))


def files_of_list(path: str) -> list[str] | None:
    """Return the files that a list for `tar -T` names; None if it is unreadable, long, or has options or escapes."""
    try:
        text = read_regular(path, _MAX_LIST_BYTES).decode("utf-8", "surrogateescape")
    except (OSError, ValueError):
        return None
    names = [name for name in re.split(r"[\n\0]", text) if name]
    odd = len(names) > _MAX_LISTED or any(name[0] == "-" or "\\" in name for name in names)
    return None if odd else names


def _check_ar(found: Arguments) -> str:
    letters = "".join(found.texts[:1])
    return "" if re.fullmatch(r"[tp][vO]*", letters) and "@" not in {w[:1] for w in found.texts} else f"ar {letters}"


def _check_seven(found: Arguments) -> str:
    # Masks are expanded by the program itself, and a list of names may be anywhere.
    named = any(set("*?@") & set(text) for text in found.texts)
    return "" if found.texts[:1] in (("l",), ("t",)) and not named else "packing or unpacking"


def _shows(found: Arguments) -> bool:
    """Return True if a packer writes to its output, or lists or tests: the last option that says what to do counts."""
    last = next((o.name for o in reversed(found.options) if o.name in _ACTIONS), "")
    return last in _LOOKS or found.has("-c", "--stdout", "--to-stdout")


def _check_packer(found: Arguments) -> str:
    return "" if _shows(found) and not found.has(*_REMOVES) else "packing or unpacking"


_LOOKS = ("-t", "--test", "-l", "--list")
_ACTIONS = (*_LOOKS, "-d", "--decompress", "--uncompress", "-z", "--compress")
_REMOVES = ("--rm", "-j")
_PACKED_NAME = lazy_pattern(r"(?<=[^/])\.(?:gz|bz2|xz|zst|br|lzma|Z)$")


def _packer(value: str, *, keeps: bool = False) -> Row:
    """Return the row of a program that packs or unpacks each file in its place. keeps: it leaves the file there."""

    def effects(found: Arguments) -> Iterator[Touch]:
        stays = _shows(found) or found.has("-k", "--keep") or (keeps and not found.has(*_REMOVES))
        deep, forced = found.has("-r", "--recursive"), found.has("-f", "--force")
        for word in found.operands:
            yield Touch("tree" if deep else "read", word)
            yield Touch("write", word)
            if (unpacked := _PACKED_NAME.sub("", word.text)) != word.text:
                yield Touch("write", word.replace(text=unpacked), replaces=forced)
            if not stays:
                yield Touch("remove", word, follows="below" if deep and forced else "named", selective=deep)

    return Row(
        "move", shows="content", check=_check_packer, write="-o", act="--files --files0", value=value, others="maybe",
        flags="-c -d -f -j -k -l -n -N -q -r -t -v -z -1 -2 -3 -4 -5 -6 -7 -8 -9 -e --stdout --to-stdout --decompress "
        "--uncompress --force --keep --list --no-name --name --quiet --recursive --test --verbose --fast --best --rm "
        "--compress --rsyncable", tree="-r --recursive", effects=effects,
    )  # fmt: skip


ARCHIVE_ROWS = expand_rows({
    "tar bsdtar gtar": Row("", shows="text", flags="-t -v -z -j -J --list --verbose --gzip --bzip2 --xz",
        read="-f --file", prepare=_dashed_tar, check=_check_tar, own=True, subcommands=1, effects=_tar),
    "zip": Row("", starts="-TT --unzip-command", act="-m --move -@ --names-stdin", into="-b",
        write="-O --output-file -lf --logfile-path", value="-x -i -n", links="! -y --symlinks", effects=_zip),
    "unzip": Row("", shows="content", flags=_UNZIP_SHOWS + " -q -1", into="-d", value="-x", act="-: -P",
        check=lambda found: "" if found.has(*_UNZIP_SHOWS.split()) else "unpacking", others="maybe", effects=_unzip),
    "gzip gunzip bzip2 bunzip2": _packer("-S --suffix -b --bits"),
    "xz unxz": _packer("-S --suffix -T --threads"),
    "zstd unzstd": _packer("-T? -b? --threads", keeps=True),
    "brotli": _packer("-S --suffix", keeps=True),
    "lz4": Row("second"),
    "ar": Row("", shows="content", own=True, subcommands=1, check=_check_ar, effects=_ar),
    "cpio": Row("", write="-O", value="-F --file", read="-I", starts="--rsh-command",
        act="-i --extract -p --pass-through", into="-D --directory", effects=_cpio),
    "7z 7za 7zz": Row("", shows="content", flags="-slt -ba -r", own=True, subcommands=1, check=_check_seven,
        links="*", effects=_seven),
    "zcat bzcat xzcat zstdcat": reading_row("content", "fvq"),
    "jar": Row("", own=True, subcommands=1, effects=_tar),
})  # fmt: skip
