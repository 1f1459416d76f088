"""What usual programs do with their operands and options: which they read, write, remove or run.

An allow rule for a program says nothing about these; see `command_effects`.
"""

from __future__ import annotations

from functools import cached_property
from typing import Literal

# copy: the last is written, the others are read. move: they are removed, too. first: the first is written, the others
# are read. second: the second is written, the first is read. skip: the first is no file, the others are written.
Operands = Literal["none", "read", "write", "remove", "copy", "move", "first", "second", "skip", "rewrite"]
Role = Literal["write", "read", "run", "act", "into", "value"]


class Program:
    """What one program does, by the names of its options, with dashes and separated by blanks.

    write, read: the value is a file. run: the value is a program, or says what to run or to send elsewhere. act: the
    option alone is more than the rule for the program allows. into: the value is the folder that is written. value:
    any other value. tree: with these options, or always for "*", what is read is read with all below. here: without
    `into` files come to be in the working directory.
    """

    def __init__(
        self, operands: Operands = "none", *, write: str = "", read: str = "", run: str = "", act: str = "",
        into: str = "", value: str = "", tree: str = "", here: bool = False,
    ) -> None:  # fmt: skip
        self.operands = operands
        self.roles: dict[str, Role] = {}
        found: tuple[tuple[Role, str], ...] = (
            ("value", value), ("read", read), ("write", write), ("into", into), ("act", act), ("run", run),
        )  # fmt: skip
        for role, names in found:
            self.roles.update(dict.fromkeys(names.split(), role))
        self.tree = frozenset(tree.split())
        self.here = here

    @cached_property
    def long(self) -> tuple[str, ...]:
        """The names with two dashes, the most dangerous first."""
        order = ("run", "act", "write", "into", "read", "value")
        return tuple(sorted((n for n in self.roles if n.startswith("--")), key=lambda n: order.index(self.roles[n])))


_COPY_TREE = "-r -R -a --recursive --archive"
_PACKER = Program("rewrite", write="-o", value="-S --suffix -T --threads -b --bits", tree="-r --recursive")
_FORMATTER = "--line-length -l --target-version -t --extend-exclude --exclude --include --select --ignore --profile"
_COMPILER = Program(
    "read",
    write="-o -MF",
    run="-wrapper -fplugin -specs -B -Xlinker -fuse-ld -load",
    value="-I -D -L -l -U -include -isystem -x -std -MT -MQ -framework",
)
_FETCHED = (
    "-X --request -H --header -A --user-agent -e --referer -m --max-time -u --user -w --write-out --retry -x --proxy"
)

PROGRAMS: dict[str, Program] = {
    "cp": Program("copy", into="-t --target-directory", value="-S --suffix", tree=_COPY_TREE),
    "mv": Program("move", into="-t --target-directory", value="-S --suffix"),
    "install": Program("copy", into="-t --target-directory", run="--strip-program",
        value="-g -m -o -S --group --mode --owner"),
    "ln": Program("copy", into="-t --target-directory", value="-S --suffix"),
    "link": Program("copy"),
    "rm": Program("remove"),
    "rmdir": Program("remove"),
    "unlink": Program("remove"),
    "shred": Program("remove", value="-n -s --iterations --size", read="--random-source"),
    "touch": Program("write", read="-r --reference", value="-d -t --date --time"),
    "mkdir": Program("write", value="-m --mode"),
    "mkfifo": Program("write", value="-m --mode"),
    "truncate": Program("write", read="-r --reference", value="-s --size"),
    "tee": Program("write"),
    "chmod": Program("skip", read="--reference"),
    "chown": Program("skip", read="--reference", value="--from"),
    "chgrp": Program("skip", read="--reference"),
    "dos2unix": Program("write", write="-n --newfile"),
    "sort": Program(
        "read", write="-o --output -T --temporary-directory", read="--files0-from --random-source",
        run="--compress-program", value="-k -t -S --key --field-separator --buffer-size --parallel --batch-size",
    ),
    "uniq": Program("second", value="-f -s -w --skip-fields --skip-chars --check-chars"),
    "xxd": Program("second", value="-c -g -l -o -s"),
    "split": Program("second", run="--filter", value="-a -b -C -l -n --bytes --lines --number --suffix-length"),
    "iconv": Program("read", write="-o --output", value="-f -t --from-code --to-code"),
    "cat": Program("read"),
    "base64": Program("read", value="-w --wrap"),
    "head": Program("read", value="-n -c --lines --bytes"),
    "tail": Program("read", value="-n -c --lines --bytes"),
    "tar": Program("none"),
    "zip": Program("first", run="-TT --unzip-command", act="-m --move", into="-b", value="-x -i -n", tree="-r -R"),
    "unzip": Program("read", into="-d", value="-P -x", here=True),
    "gzip": _PACKER, "gunzip": _PACKER, "bzip2": _PACKER, "bunzip2": _PACKER, "xz": _PACKER, "unxz": _PACKER,
    "zstd": _PACKER, "unzstd": _PACKER,
    "cpio": Program("none", write="-O -F --file", read="-I", run="--rsh-command",
        act="-i --extract -p --pass-through"),
    "rsync": Program(
        "copy", run="-e --rsh --rsync-path -M --remote-option", act="--delete --del --delete-before --delete-during "
        "--delete-after --delete-delay --delete-excluded --remove-source-files --daemon --config", tree="*",
        write="--log-file --backup-dir --partial-dir -T --temp-dir --write-batch --only-write-batch",
        read="--files-from --exclude-from --include-from --password-file --read-batch --compare-dest --link-dest",
        value="-f --filter --exclude --include --bwlimit --chmod --port --timeout --max-size --info",
    ),
    "scp": Program("copy", run="-S -o -F -D -J", read="-i", value="-P -c -l", tree="-r"),
    "sftp": Program("none", run="-S -o -F -D -b -J", read="-i", value="-P -c -l -B"),
    "ssh": Program("none", run="-o -F -I -J -S -W -D -L -R", act="-A -X -Y -f", read="-i", write="-E",
        value="-p -l -c -m"),
    "curl": Program(
        "none", write="-o --output -D --dump-header -c --cookie-jar --trace --trace-ascii --stderr --libcurl --hsts "
        "--alt-svc --etag-save", into="--output-dir",
        run="-K --config --proto-default --unix-socket --abstract-unix-socket",
        read="-T --upload-file --netrc-file --etag-compare -E --cert --key --cacert --capath --crlfile",
        value=f"{_FETCHED} -d --data --data-raw --data-binary --data-ascii --data-urlencode --json -F --form -b "
        "--cookie "
        "--connect-timeout --resolve --url --form-string --range -r --limit-rate --max-redirs --oauth2-bearer",
    ),
    "wget": Program(
        "none", write="-O --output-document -o --output-file -a --append-output --save-cookies --warc-file "
        "--hsts-file "
        "--rejected-log", into="-P --directory-prefix", run="-e --execute --use-askpass --config",
        read="-i --input-file --post-file --body-file --load-cookies --certificate --private-key --ca-certificate",
        value="-U --user-agent --header --post-data -t --tries -T --timeout -w --wait -Q --quota -l --level -A -R "
        "-D --user "
        "--password --method --body-data", here=True,
    ),
    "find": Program("none"),
    "fd": Program("none", run="-x --exec -X --exec-batch", read="--ignore-file"),
    "rg": Program("none", run="--pre --hostname-bin", read="-f --file --ignore-file",
        value="--pre-glob -e --regexp -g --glob -t -T -A -B -C -m"),
    "grep": Program("none", read="-f --file", value="-e --regexp -A -B -C -m --include --exclude --exclude-dir"),
    "sed": Program("none"),
    "awk": Program("none"), "gawk": Program("none"), "mawk": Program("none"),
    "dd": Program("none"),
    "git": Program("none"),
    "man": Program("none", run="-P --pager -H --html -C --config-file -M --manpath -l --local-file -E "
        "--preprocessor -p"),
    "less": Program("read", write="-o -O --log-file --LOG-FILE", run="-k --lesskey-file -T --tag-file --lesskey-src"),
    "patch": Program("none"),
    "make": Program("none", run="--eval -E -f --file --makefile", into="-C --directory", value="-j -l -o -W"),
    "pip": Program(
        "none", write="--log --report", into="-t --target --prefix --root --cache-dir -d --dest -w --wheel-dir",
        run="--python", read="-r --requirement -c --constraint -e --editable",
        value="-i --index-url --extra-index-url -f --find-links",
    ),
    "ruff": Program("none", write="-o --output-file --cache-dir", value=f"{_FORMATTER} --config --extend-select"),
    "black": Program("write", value=f"{_FORMATTER} --config", run="--code"),
    "isort": Program("write", value=f"{_FORMATTER} --settings-path --sp --src"),
    "autopep8": Program("write", value="--max-line-length"),
    "yapf": Program("write", value="--style"),
    "gofmt": Program("write", run="-cpuprofile", value="-r"),
    "rustfmt": Program("write", value="--edition --config --config-path --emit"),
    "clang-format": Program("write", value="-style --style"),
    "prettier": Program("write", run="--plugin --plugin-search-dir --config",
        value="--parser --log-level --ignore-path"),
    "eslint": Program(
        "write", write="-o --output-file --cache-location --cache-file",
        run="-c --config --plugin --rulesdir --parser "
        "--resolve-plugins-relative-to -f --format", value="--ext --rule --ignore-pattern --max-warnings",
    ),
    "gcc": _COMPILER, "g++": _COMPILER, "cc": _COMPILER, "c++": _COMPILER, "clang": _COMPILER, "clang++": _COMPILER,
    "go": Program(
        "none", write="-o -coverprofile -cpuprofile -memprofile -trace -modfile -overlay", into="-C -outputdir",
        run="-toolexec -exec -vettool -ldflags -gcflags -compiler", value="-run -count -timeout -tags -p",
    ),
    "cargo": Program("none", run="--config -Z", into="--target-dir --root -C", value="-p --package --features"),
    "pytest": Program(
        "none", write="--junitxml --junit-xml --log-file --cov-report --report-log", into="--basetemp",
        act="--pdbcls",
        run="-p -c --config-file -o --override-ini --confcutdir --pdbcls",
        value="-k -m -n --maxfail --tb --durations",
    ),
    "openssl": Program("none", write="-out -keyout", read="-in -inkey -key -CAfile -cert",
        run="-engine -provider-path"),
    "gpg": Program("read", write="-o --output", run="--exec-path --photo-viewer --agent-program", value="-r -u"),
    "jq": Program("none", read="-f --from-file -L", value="--indent"),
    "pandoc": Program(
        "read", write="-o --output --log --extract-media",
        run="-F --filter -L --lua-filter --pdf-engine -d --defaults",
        read="--template -c --css -H -A -B", value="-f -t --from --to -M -V",
    ),
    "diff": Program("none", read="--from-file --to-file -X --exclude-from"),
}  # fmt: skip
PROGRAMS |= {"pip3": PROGRAMS["pip"], "grep": PROGRAMS["grep"], "egrep": PROGRAMS["grep"], "fgrep": PROGRAMS["grep"]}
# Options of git that run, read or write something else, wherever they stand.
GIT_RUNS = frozenset(
    "--ext-diff --exec --exec-path --upload-pack --receive-pack --open-files-in-pager --extcmd --config --config-env "
    "--no-index --git-dir --work-tree --template --tool --gpg-sign-program --separate-git-dir --smtp-server "
    "--paginate".split()
)
GIT_WRITES = frozenset("--output --output-directory --export-marks".split())
GIT_READS = frozenset("--file --contents --exclude-from --pathspec-from-file --import-marks --reference".split())
GIT_RUNNERS = frozenset(
    "difftool mergetool bisect filter-branch send-email daemon instaweb credential remote-ext remote-fd web--browse "
    "help "
    "fast-import http-backend shell upload-pack receive-pack cvsserver gui citool gitk hook".split()
)
