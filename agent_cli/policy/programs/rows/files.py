"""Programs that copy, move, remove, change and make files, and editors."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from agent_cli.policy.programs.arguments import Arguments
from agent_cli.policy.programs.effects import REMOTE, Touch
from agent_cli.policy.programs.row import KEYS, Row, expand_rows
from agent_cli.policy.shell.words import Word
from agent_tools.lazy import lazy_pattern

_COPY_TREE = "-r -R -a --recursive --archive"
# Where an editor begins: a line, or a word to look for. Anything else behind a plus is a command.
_PLACE = lazy_pattern(r"\+(?:\d*|/[\w .-]+)")


def _install(found: Arguments) -> Iterator[Touch]:
    """With -d, `install` makes folders of all its operands."""
    yield from (Touch("write", w) for w in found.operands if found.has("-d", "--directory"))
    if not found.has("-d", "--directory"):
        yield from copied(found)


def copied(
    found: Arguments,
    *,
    remote: bool = False,
    moves: bool = False,
    deep: bool = False,
    whole: tuple[str, ...] = (),
    slash: bool = False,
    skips: tuple[str, ...] = ("-n", "--no-clobber"),
) -> Iterator[Touch]:
    """Yield the effects of a copy: `-t DIR`, or the last operand, is written and the others are read.

    remote: a name with a colon is on another machine. moves: the sources are removed. deep: directories are copied.
    whole: options with which a copy keeps the whole path of its source, not only its name.
    slash: a slash at the end of a source means what is in it. skips: options with which no file is replaced.
    """
    into = found.values("-t", "--target-directory")
    operands = list(found.operands)
    target = [] if into or len(operands) < 2 else [operands.pop()]
    places = target or into or [Word(".")]
    deep = moves or deep
    keeps = found.has(*skips)
    keeps_path = any(option.startswith(given.name) for given in found.options if given.name for option in whole)
    copies = [
        _copy_of(found, source, places[0], keeps_path=keeps_path, slash=slash, remote=remote) for source in operands
    ]
    for source, copy in zip(operands, copies, strict=True):
        if not (remote and REMOTE.match(source.text)):
            yield Touch("tree" if deep else "read", source, where=copy)
            if moves:
                yield Touch("remove", source)
    # A file copied into a directory keeps its own name there.
    for place in places:
        if remote and REMOTE.match(place.text):
            continue
        if place.pattern:  # all but its last match are sources
            yield Touch("tree" if deep else "read", place)
            yield from [Touch("remove", place)] if moves else []
        yield Touch("write", place, replaces=not keeps)
        for source in operands:
            copy = _copy_of(found, source, place, keeps_path=keeps_path, slash=slash, remote=remote)
            inside = copy.text == place.text or os.path.basename(copy.text) == ".."
            if inside or (source.text.endswith("/") and not slash):
                yield Touch("into", place)  # its content, under unknown names
            if copy.text != place.text:
                yield Touch("write", copy, replaces=not keeps)


def _copy_of(found: Arguments, source: Word, place: Word, *, keeps_path: bool, slash: bool, remote: bool) -> Word:
    """Return the copy of a source: below the target, or the target itself if only the content is copied."""
    path = (REMOTE.sub("", source.text, count=1) if remote else source.text).strip("/")
    name = os.path.basename(path)
    if keeps_path:
        name = path.partition("/./")[2] or path
    elif (slash and source.text.endswith("/")) or found.has("-T", "--no-target-directory"):
        name = ""
    if name in ("", "."):
        return place.replace(why=source.why or place.why)
    return Word(os.path.join(place.text, name), source.why or place.why, source.pattern)


def _copy(found: Arguments) -> Iterator[Touch]:
    yield from copied(found, deep=found.has(*_COPY_TREE.split()), whole=("--parents",))


def _move(found: Arguments) -> Iterator[Touch]:
    yield from copied(found, moves=True)


def _ln(found: Arguments) -> Iterator[Touch]:
    into = found.values("-t", "--target-directory")
    operands = list(found.operands)
    sources = operands if into or len(operands) < 2 else operands[:-1]
    target = into[0] if into else operands[-1] if len(operands) > 1 else Word(".")
    # The target of a symbolic link is relative to the directory of the link.
    symbolic, relative = found.has("-s", "--symbolic"), found.has("-r", "--relative")
    where = Word(".") if not symbolic or relative else target
    replaces = found.has("-f", "--force")
    yield Touch("write", target, replaces=replaces)
    named = found.has("-T", "--no-target-directory")
    for source in sources:
        if named:
            yield Touch("link", source, where)
            continue
        name = os.path.basename(source.text.rstrip("/"))
        below = Word(os.path.join(target.text, name), source.why or target.why, source.pattern)
        yield Touch("write", below, replaces=replaces)
        yield Touch("link", source, where)


def _dd(found: Arguments) -> Iterator[Touch]:
    for word in found.words:
        key, _, value = word.text.partition("=")
        if key in ("of", "if"):
            yield Touch(
                "write" if key == "of" else "read",
                word.replace(text=value),
                replaces=key == "of" and value != "/dev/null",
            )


def _attributes(found: Arguments) -> Iterator[Touch]:
    """Mode, owner or group of files: of the first operand if the value is that of another file."""
    skipped = 0 if found.has("--reference") else 1
    deep = found.has("-R", "--recursive")
    yield from (Touch("attributes" if deep else "write", w) for w in found.operands[skipped:])


def _truncate(found: Arguments) -> Iterator[Touch]:
    """Growing a file loses nothing."""
    grows = any(re.match(r"[+>]", value.text) for value in found.values("-s", "--size"))
    yield from (Touch("write", w, replaces=not grows) for w in found.operands)


def _tee(found: Arguments) -> Iterator[Touch]:
    yield from (Touch("write", w, replaces=not found.has("-a", "--append")) for w in found.operands)


def _rsync(found: Arguments) -> Iterator[Touch]:
    here = [w for w in found.operands if not REMOTE.match(w.text)]
    if found.has("-n", "--dry-run", "--list-only") or len(found.operands) < 2:
        yield from (Touch("tree", w) for w in here)
        return
    whole = ("-R", "--relative")
    skips = ("--ignore-existing",)
    # -T is that of a folder for temporary files.
    options = tuple(option for option in found.options if option.name != "-T")
    found = found.replace(options=options)
    touches = list(copied(found, remote=True, deep=True, whole=whole, slash=True, skips=skips))
    yield from touches
    sources, target = found.operands[:-1], found.operands[-1]
    if found.has("--remove-source-files"):
        yield from (Touch("remove", w, follows="named", selective=True) for w in here if w in sources)
    if any(option.name.startswith("--del") for option in found.options) and target in here:
        # In the copies of folders; those of another machine may be any below the target.
        copies = (
            [touch.where for touch in touches if touch.kind == "tree"] if here == list(found.operands) else [target]
        )
        yield from (Touch("remove", copy, follows="named", selective=True) for copy in dict.fromkeys(copies))


def _rimraf(found: Arguments) -> Iterator[Touch]:
    """With --glob it expands patterns itself."""
    globs = found.has("-g", "--glob")
    yield from (Touch("remove", word.replace(pattern=word.pattern or globs)) for word in found.operands)


def _editor(found: Arguments) -> Iterator[Touch]:
    for word in found.operands:
        yield Touch("read", word)
        yield Touch("write", word)
        if word.text[:1] == "+" and not _PLACE.fullmatch(word.text):
            yield Touch("run", word, starts=True)


def _patch(found: Arguments) -> Iterator[Touch]:
    operands = found.operands
    yield from (Touch("read", w) for w in operands)
    yield from (Touch("write", w) for w in operands[:1])
    if not operands:
        yield Touch("names", next(iter(found.values("-i", "--input")), Word("-")))


def _split(found: Arguments) -> Iterator[Touch]:
    """The pieces of a file get names that begin with the second operand."""
    yield from (Touch("read", w) for w in found.operands[:1])
    prefix = found.operands[1] if len(found.operands) > 1 else Word("x")
    yield Touch("write", prefix)
    yield Touch("into", prefix.replace(text=os.path.dirname(prefix.text) or "."))  # noqa: PTH120 - as text


def _csplit(found: Arguments) -> Iterator[Touch]:
    yield from (Touch("read", w) for w in found.operands[:1])
    prefix = next(iter(found.values("-f", "--prefix")), Word("xx"))
    yield Touch("into", prefix.replace(text=os.path.dirname(prefix.text) or "."))  # noqa: PTH120 - as text


def _mktemp(found: Arguments) -> Iterator[Touch]:
    """A file with a new name, in the system's temporary directory unless told otherwise."""
    inside = found.has("-t") or not found.operands
    yield from (Touch("write", w) for w in found.operands if not inside)


_EDITOR = Row("rewrite", run="-S -s -u -U -t -W -w", starts="-c --cmd", read="-r", value="-T --startuptime",
    act="-e -E -es -V", effects=_editor, interprets=True)  # fmt: skip
_RMDIR = "-p -v --parents --verbose --ignore-fail-on-non-empty"
_DEEP = "-R -v -f -c -h -H -L -P --recursive --verbose --silent --quiet --changes --no-dereference"
FILE_ROWS = expand_rows({
    "cp": Row("copy", flags="-r -R -a --recursive --archive --parents -n --no-clobber -u --update -f -i -p -v -L -P -H "
        "-d -T --force --interactive --verbose --no-target-directory --dereference --no-dereference", others="maybe",
        into="-t --target-directory", value="-S --suffix",
        act="-l --link -s --symbolic-link", links="-L --dereference", effects=_copy),
    "mv": Row("move", flags="-n --no-clobber -f -i -u -v -T --force --interactive --update --verbose "
        "--no-target-directory", others="maybe",
        renames=True, whole=True, into="-t --target-directory", value="-S --suffix", effects=_move),
    "install": Row("copy", flags="-d -D -c -p -v -s -T -C --directory --strip --verbose "
        "--no-target-directory", others="maybe", renames=True,
        into="-t --target-directory", starts="--strip-program",
        value="-g -m -o -S --group --mode --owner", effects=_install),
    "ln": Row("", flags="-s -f -n -r -v -T -i --symbolic --force --relative --verbose --no-dereference "
        "--no-target-directory", others="maybe",
        renames=True, into="-t --target-directory", value="-S --suffix", effects=_ln),
    "link": Row("copy", effects=copied),
    "rm": Row("remove", flags="-r -R -f -i -I -v -d --recursive --force --dir --verbose --one-file-system "
        "--preserve-root --no-preserve-root", others="maybe", value="--interactive?"),
    "rimraf": Row("remove", tree="*", flags="-g -G -v -i --glob --no-glob --verbose --interactive --preserve-root "
        "--no-preserve-root", others="maybe", value="--impl --tmp --max-retries --retry-delay --backoff",
        effects=_rimraf),
    "rmdir": Row("remove", flags=_RMDIR, others="maybe", empty_only=True),
    "unlink": Row("remove", flags=_RMDIR, others="maybe"),
    "shred": Row("remove", follows="named", value="-n -s --iterations --size", read="--random-source"),
    "touch": Row("write", read="-r --reference", value="-d -t --date --time"),
    "mkdir mkfifo": Row("write", value="-m --mode"),
    "mknod": Row("first", value="-m --mode"),
    "mktemp": Row("write", value="--suffix --tmpdir?", into="-p", effects=_mktemp),
    "truncate": Row("write", empties=True, read="-r --reference", value="-s --size", effects=_truncate),
    "tee": Row("write", flags="-a --append -i --ignore-interrupts -p", value="--output-error?", others="maybe",
        effects=_tee),
    "chmod chgrp setfacl": Row("write", whole=True,
        read="--reference", flags=_DEEP, others="maybe", effects=_attributes),
    "chown": Row("write", whole=True,
        read="--reference", value="--from", flags=_DEEP, others="maybe", effects=_attributes),
    "dos2unix unix2dos": Row("rewrite", write="-n --newfile"),
    "dd": Row("", empties=True, effects=_dd),
    "patch": Row("", write="-o --output -r --reject-file -B --prefix", into="-d --directory", read="-i --input",
        value="-p --strip -F -V -D -z", effects=_patch),
    "split": Row("", starts="--filter", value="-a -b -C -l -n --bytes --lines --number --suffix-length",
        effects=_split),
    "csplit": Row("", write="-f --prefix", value="-b --suffix-format -n --digits", effects=_csplit),
    "shuf": Row("read", write="-o --output", read="--random-source", value="-n -i --head-count --input-range"),
    "sponge": Row("write"),
    "autoflake pyupgrade": Row("write", whole=True),
    # Editors write their operands and run commands from their options.
    "ed": Row("rewrite", interprets=True),
    "vim vi view nvim ex": _EDITOR,
    "emacs": Row("rewrite", starts="--eval --execute -l --load -f --funcall --script -x", interprets=True),
    "nano": Row("rewrite", into="-C --backupdir", starts="-s --speller", run="-f --rcfile"),
    "rsync": Row(
        "copy", starts="-e --rsh --rsync-path", run="-M --remote-option",
        act="--delete --del --delete-before --delete-during "
        "--delete-after --delete-delay --delete-excluded --remove-source-files --daemon --config",
        write="--log-file --backup-dir --partial-dir -T --temp-dir --write-batch --only-write-batch",
        read="--files-from --exclude-from --include-from --password-file --read-batch --compare-dest --link-dest "
        "--copy-dest",
        value="-f --filter --exclude --include --bwlimit --chmod --port --timeout --max-size --min-size --info --chown "
        "--compress-level --out-format --suffix --contimeout --block-size -B --modify-window --skip-compress --debug",
        flags="-a -v -z -r -n -u -P -h -l -p -t -g -o -q -c -i -x -H -A -X -S -W -R -L -k -K -D -C -0 -b -d -m -y -8 "
        "-4 -6 -I -O -J -N -U --archive --verbose --compress --recursive --dry-run --update --progress --partial "
        "--human-readable --links --perms --times --group --owner --quiet --checksum --itemize-changes --from0 "
        "--one-file-system --hard-links --acls --xattrs --sparse --whole-file --no-whole-file --relative "
        "--no-relative --copy-links --safe-links --stats --existing --ignore-existing --size-only --inplace --append "
        "--numeric-ids --no-perms --no-owner --no-group --no-times --no-o --no-g --no-p --prune-empty-dirs "
        "--list-only --backup --cvs-exclude --dirs --no-motd --executability --specials --fuzzy --delay-updates "
        "--omit-dir-times --mkpath --no-implied-dirs --no-compress --version --help",
        links="-L --copy-links -k --copy-dirlinks --copy-unsafe-links", effects=_rsync, network="remote",
    ),
    "scp": Row("copy", starts="-S -o -F -D -J", value="-P -c -l -i",
        flags="-3 -4 -6 -A -B -C -p -q -r -T -v -R -O -s", effects=lambda found: copied(found, remote=True,
            deep=found.has("-r")),
        links="*", network="*", outside=KEYS),
})  # fmt: skip
