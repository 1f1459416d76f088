"""Table of common programs: what their operands and options read, write, remove or run.

An allow rule for a program does not cover these effects; see `effects.verdicts`.
"""

from __future__ import annotations

from functools import cached_property
from typing import Literal

# copy: the last is written, the others are read. move: they are removed, too. first: the first is written, the others
# are read. second: the second is written, the first is read. skip: the first is not a file, the others are written.
Operands = Literal["none", "read", "write", "remove", "copy", "move", "first", "second", "skip", "rewrite"]
Role = Literal["write", "read", "run", "act", "into", "value", "flag", "maybe"]


class Program:
    """Effects of one program, by option names with their dashes, separated by spaces.

    write, read: the value is a file.
    run: the value is a program, or decides what is run or sent elsewhere.
    act: the option alone exceeds what a rule for the program allows.
    into: the value is the directory that is written.
    value: any other value.
    tree: with these options, or always for "*", directories are read recursively.
    here: without `into`, files are created in the working directory.
    flags: harmless options without a value; if listed, every unlisted option counts as one that runs something.
    most: after this many operands, options are no longer those of this program.
    whole: with these options a copy keeps the whole path of its source, not only its name.
    remote: a name with a colon is on another machine.
    follows: a link that is removed is followed first.
    partly: which files the program itself opens is not known, only where its options lead.
    others: the role of unlisted options; by default, their values may be files.
    """

    def __init__(
        self, operands: Operands = "none", *, write: str = "", read: str = "", run: str = "", act: str = "",
        into: str = "", value: str = "", tree: str = "", here: bool = False, flags: str = "", most: int = 0,
        whole: str = "", remote: bool = False, partly: bool = False, others: Role = "maybe",
        follows: Literal["", "named"] = "",
    ) -> None:  # fmt: skip
        self.operands = operands
        self.roles: dict[str, Role] = {}
        found: tuple[tuple[Role, str], ...] = (
            ("flag", flags), ("value", value), ("read", read), ("write", write), ("into", into), ("act", act),
            ("run", run),
        )  # fmt: skip
        for role, names in found:
            self.roles.update(dict.fromkeys(names.split(), role))
        self.tree = frozenset(tree.split())
        self.here = here
        self.most = most
        self.remote = remote
        self.whole = tuple(whole.split())
        self.follows: Literal["", "named"] = follows
        self.partly = partly
        self.unlisted: Role = "run" if flags else others

    @cached_property
    def long(self) -> tuple[str, ...]:
        """Long option names, the most dangerous first."""
        order = ("run", "act", "write", "into", "read", "value", "flag")
        return tuple(sorted((n for n in self.roles if n.startswith("--")), key=lambda n: order.index(self.roles[n])))


def _tool(**roles: str) -> Program:
    """Return a build tool or package manager, of which only the options are known."""
    return Program("none", partly=True, **roles)  # type: ignore[arg-type]


def _client(**roles: str) -> Program:
    """Return a client of a service. The values of its other options are often names and paths elsewhere."""
    return Program("none", partly=True, others="value", **roles)  # type: ignore[arg-type]


_COPY_TREE = "-r -R -a --recursive --archive"
_PACKER = Program(
    "rewrite", write="-o", act="--files --files0", value="-S --suffix -T --threads -b --bits", tree="-r --recursive"
)
_EDITOR = Program(
    "rewrite", run="-c -S -s -u -U --cmd -t -W -w", read="-r", value="-T --startuptime", act="-e -E -es -V"
)
_FORMATTER = "--line-length -l --target-version -t --extend-exclude --exclude --include --select --ignore --profile"
_COMPILER = Program(
    "read",
    write="-o -MF",
    run="-wrapper -fplugin -specs -B -Xlinker -fuse-ld -load",
    read="-include -imacros",
    into="-dumpdir",
    value="-I -D -L -l -U -isystem -x -std -MT -MQ -framework",
)
_FETCHED = (
    "-X --request -H --header -A --user-agent -e --referer -m --max-time -u --user -w --write-out --retry -x --proxy"
)

PROGRAMS: dict[str, Program] = {
    "cp": Program("copy", into="-t --target-directory", value="-S --suffix", tree=_COPY_TREE,
        act="-l --link -s --symbolic-link", whole="--parents"),
    "mv": Program("move", into="-t --target-directory", value="-S --suffix"),
    "install": Program("copy", into="-t --target-directory", run="--strip-program",
        value="-g -m -o -S --group --mode --owner"),
    "ln": Program("none", into="-t --target-directory", value="-S --suffix"),
    "link": Program("copy"),
    "rm": Program("remove"),
    "rmdir": Program("remove"),
    "unlink": Program("remove"),
    "shred": Program("remove", follows="named", value="-n -s --iterations --size", read="--random-source"),
    "touch": Program("write", read="-r --reference", value="-d -t --date --time"),
    "mkdir": Program("write", value="-m --mode"),
    "mkfifo": Program("write", value="-m --mode"), "mknod": Program("first", value="-m --mode"),
    "truncate": Program("write", read="-r --reference", value="-s --size"),
    "tee": Program("write"),
    "chmod": Program("skip", read="--reference"),
    "chown": Program("skip", read="--reference", value="--from"),
    "chgrp": Program("skip", read="--reference"),
    "dos2unix": Program("rewrite", write="-n --newfile"), "unix2dos": Program("rewrite", write="-n --newfile"),
    # Editors write their operands and run commands from their options.
    "ed": Program("rewrite"), "vim": _EDITOR, "vi": _EDITOR, "view": _EDITOR, "nvim": _EDITOR, "ex": _EDITOR,
    "emacs": Program("rewrite", run="--eval --execute -l --load -f --funcall --script -x"),
    "nano": Program("rewrite", into="-C --backupdir", run="-f --rcfile -s --speller"),
    "sponge": Program("write"), "autoflake": Program("write"), "pyupgrade": Program("write"),
    "sort": Program(
        "read", write="-o --output -T --temporary-directory", read="--files0-from --random-source",
        run="--compress-program", value="-k -t -S --key --field-separator --buffer-size --parallel --batch-size",
    ),
    "shuf": Program("read", write="-o --output", read="--random-source",
        value="-n -i --head-count --input-range"),
    "tree": Program("none", write="-o", value="-L -P -I -H -T --filelimit --charset --sort --timefmt"),
    "uniq": Program("second", value="-f -s -w --skip-fields --skip-chars --check-chars"),
    "xxd": Program("second", value="-c -g -l -o -s"),
    "split": Program("second", run="--filter", value="-a -b -C -l -n --bytes --lines --number --suffix-length"),
    "csplit": Program("read", write="-f --prefix", value="-b --suffix-format -n --digits"),
    "iconv": Program("read", write="-o --output", value="-f -t --from-code --to-code"),
    "cat": Program("read"),
    "base64": Program("read", value="-w --wrap"),
    "head": Program("read", value="-n -c --lines --bytes"),
    "tail": Program("read", value="-n -c --lines --bytes"),
    "tar": Program("none"),
    "zip": Program("first", run="-TT --unzip-command", act="-m --move -@ --names-stdin", into="-b",
        write="-O --output-file -lf --logfile-path", value="-x -i -n", tree="-r -R"),
    "unzip": Program("none", into="-d", value="-P -x", act="-:"),
    "gzip": _PACKER, "gunzip": _PACKER, "bzip2": _PACKER, "bunzip2": _PACKER, "xz": _PACKER, "unxz": _PACKER,
    "zstd": _PACKER, "unzstd": _PACKER, "brotli": _PACKER, "lz4": Program("second"),
    "cpio": Program("none", write="-O -F --file", read="-I", run="--rsh-command",
        act="-i --extract -p --pass-through", into="-D --directory"),
    "rsync": Program(
        "copy", remote=True, whole="-R --relative", run="-e --rsh --rsync-path -M --remote-option",
        act="--delete --del --delete-before --delete-during "
        "--delete-after --delete-delay --delete-excluded --remove-source-files --daemon --config", tree="*",
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
    ),
    "scp": Program("copy", remote=True, run="-S -o -F -D -J", value="-P -c -l -i", tree="-r",
        flags="-3 -4 -6 -A -B -C -p -q -r -T -v -R -O -s"),
    "sftp": Program("none", run="-S -o -F -D -b -J", value="-P -c -l -B -R -i",
        flags="-4 -6 -A -a -C -f -N -p -q -r -v"),
    "ssh": Program("none", run="-o -F -I -J -S -W -D -L -R", act="-A -X -Y -f", write="-E",
        value="-p -l -c -m -b -B -e -Q -i", flags="-4 -6 -C -N -n -q -T -t -v -V -a -x -K -k -G", most=1),
    "curl": Program(
        "none", write="-o --output -D --dump-header -c --cookie-jar --trace --trace-ascii --stderr --libcurl --hsts "
        "--alt-svc --etag-save", into="--output-dir",
        run="-K --config --proto-default --unix-socket --abstract-unix-socket", act="-n --netrc --netrc-optional",
        read="-T --upload-file --netrc-file --etag-compare -E --cert --key --cacert --capath --crlfile",
        value=f"{_FETCHED} -d --data --data-raw --data-binary --data-ascii --data-urlencode --json -F --form -b "
        "--cookie --connect-timeout --resolve --url --form-string --range -r --limit-rate --max-redirs "
        "--oauth2-bearer --retry-delay --retry-max-time --interface --speed-limit --speed-time -y -Y -z --time-cond "
        "--max-filesize -C --continue-at --ciphers --tls13-ciphers --proto --proto-redir --noproxy --tls-max "
        "--parallel-max --rate --keepalive-time --expect100-timeout -h --help",
        flags="-s -S -L -f -v -i -I -k -g -N -4 -6 -0 -1 -2 -3 -# -G -O -J -R -Z -q -l -j -V -M --silent --show-error "
        "--location --fail --verbose --include --head --insecure --compressed --globoff --no-buffer --http1.0 "
        "--http1.1 --http2 --http2-prior-knowledge --http3 --ipv4 --ipv6 --progress-bar --get --remote-name "
        "--remote-name-all --remote-header-name --remote-time --parallel --fail-with-body --fail-early --create-dirs "
        "--no-progress-meter --tlsv1 --tlsv1.2 --tlsv1.3 --ssl-reqd --retry-all-errors --retry-connrefused --raw "
        "--tcp-nodelay --no-keepalive --path-as-is --post301 --post302 --no-location --styled-output "
        "--no-styled-output --disable --next --version --basic --digest --anyauth --list-only --form-escape "
        "--suppress-connect-headers --trace-time --no-compressed",
    ),
    "wget": Program(
        "none", write="-O --output-document -o --output-file -a --append-output --save-cookies --warc-file "
        "--hsts-file --rejected-log", into="-P --directory-prefix", run="-e --execute --use-askpass --config",
        read="-i --input-file --post-file --body-file --load-cookies --certificate --private-key --ca-certificate",
        value="-U --user-agent --header --post-data -t --tries -T --timeout -w --wait -Q --quota -l --level -A -R "
        "-D --user --password --method --body-data --waitretry --limit-rate --connect-timeout --read-timeout "
        "--dns-timeout --accept --reject --domains --exclude-domains --referer --http-user --http-password "
        "--max-redirect --cut-dirs --progress --compression --secure-protocol --accept-regex --reject-regex -I -X",
        flags="-q -v -n -d -c -N -S -b -r -m -p -k -K -E -x -4 -6 -L -H -F -V -h --quiet --verbose --no-verbose "
        "--continue --timestamping --server-response --spider --no-check-certificate --no-clobber --no-directories "
        "--no-host-directories --no-parent --recursive --mirror --page-requisites --convert-links "
        "--adjust-extension --span-hosts --https-only --show-progress --content-disposition --no-cache --no-cookies "
        "--no-proxy --no-hsts --inet4-only --inet6-only --background --random-wait --retry-connrefused "
        "--force-directories --no-dns-cache --save-headers --unlink --version --help --debug",
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
    "man": Program("none", run="-P --pager -H --html -C --config-file -M --manpath -l --local-file -E --preprocessor "
        "-p",
        value="-s -S --sections -e --extension -m --systems -L --locale",
        flags="-k -K -f -a -w -W -i -I -u -c -d -D -V -7 --all --apropos --whatis --where --path --location --regex "
        "--ignore-case --match-case --wildcard --names-only --global-apropos --version --help --usage"),
    "less": Program("none", write="-o -O --log-file --LOG-FILE", run="-k --lesskey-file -T --tag-file --lesskey-src",
        value="-p -P -x -b -h -y -j -z --pattern --tabs --window --shift",
        flags="-N -n -S -R -r -F -X -i -I -M -m -s -g -G -e -E -q -Q -c -C -f -a -A -w -W -L -u -U -V -J -K -B -~ -d "
        "--LINE-NUMBERS --line-numbers --chop-long-lines --RAW-CONTROL-CHARS --quit-if-one-screen --no-init "
        "--ignore-case --IGNORE-CASE --squeeze-blank-lines --quit-at-eof --version --help --no-lessopen"),
    "patch": Program("none"),
    "make": Program("none", run="--eval -E -f --file --makefile", into="-C --directory", value="-j -l -o -W"),
    "pip": Program(
        "none", write="--log --report", into="-t --target --prefix --root --cache-dir -d --dest -w --wheel-dir",
        run="--python", read="-r --requirement -c --constraint -e --editable",
        value="-i --index-url --extra-index-url -f --find-links",
    ),
    "npm": Program(
        "none", into="-C --prefix --cache", act="-g --global",
        run="--script-shell --node-options --userconfig --globalconfig --shell --git --editor --viewer --init-module "
        "--onload-script --pager --call --registry --location",
        value="-w --workspace --loglevel --tag --otp --access --omit --include --depth --workspaces-update",
    ),
    "ruff": Program("none", write="-o --output-file --cache-dir", value=f"{_FORMATTER} --config --extend-select"),
    "black": Program("write", value=f"{_FORMATTER} --config", run="--code"),
    "isort": Program("write", value=f"{_FORMATTER} --settings-path --sp --src"),
    "autopep8": Program("write", value="--max-line-length"),
    "yapf": Program("write", value="--style"),
    "gofmt": Program("write", run="-cpuprofile", value="-r"),
    "rustfmt": Program("write", value="--edition --config --config-path --emit"),
    "clang-format": Program("write", value="-style --style"),
    "prettier": Program("rewrite", run="--plugin --plugin-search-dir --config",
        value="--parser --log-level --ignore-path"),
    "eslint": Program(
        "write", write="-o --output-file --cache-location --cache-file",
        run="-c --config --plugin --rulesdir --parser "
        "--resolve-plugins-relative-to -f --format", value="--ext --rule --ignore-pattern --max-warnings",
    ),
    "gcc": _COMPILER, "g++": _COMPILER, "cc": _COMPILER, "c++": _COMPILER, "clang": _COMPILER, "clang++": _COMPILER,
    "go": Program(
        "none", write="-o -coverprofile -cpuprofile -memprofile -blockprofile -mutexprofile -trace -modfile -overlay "
        "-output",
        into="-C -outputdir -pkgdir", run="-toolexec -exec -vettool -compiler",
        value="-run -count -timeout -tags -p -ldflags -gcflags -asmflags -replace -bench -benchtime",
    ),
    "cargo": Program("none", run="--config -Z", into="--target-dir --root -C", value="-p --package --features"),
    "pytest": Program(
        "none", write="--junitxml --junit-xml --log-file --report-log", into="--basetemp",
        act="--pastebin",
        run="-p -c --config-file -o --override-ini --confcutdir --pdbcls",
        value="-k -m -n -r -W --maxfail --tb --durations --ignore --deselect --cov --cov-fail-under --color "
        "--import-mode",
    ),
    "openssl": Program("none", write="-out -keyout -writerand -rand", read="-in -inkey -key -CAfile -cert",
        value="-subj -days -newkey -addext -pkeyopt -algorithm",
        run="-engine -provider-path -config"),
    "gpg": Program("read", write="-o --output",
        run="--exec-path --photo-viewer --agent-program --options --homedir", value="-r -u"),
    "jq": Program("none", read="-f --from-file -L", value="--indent"),
    "perl": Program("none"), "ruby": Program("none"),
    "7z": Program("none"), "7za": Program("none"), "7zz": Program("none"), "bsdtar": Program("none"),
    "pandoc": Program(
        "read", write="-o --output --log --extract-media",
        run="-F --filter -L --lua-filter --pdf-engine -d --defaults --data-dir",
        read="--template -c --css -H -A -B --include-in-header --include-before-body --include-after-body "
        "--syntax-definition --bibliography --csl --metadata-file --reference-doc", value="-f -t --from --to -M -V",
    ),
    "diff": Program("none", read="--from-file --to-file -X --exclude-from"),
    "mvn": _tool(write="-l --log-file", run="-s --settings -gs --global-settings -t --toolchains -gt "
        "--global-toolchains", value="-P --activate-profiles -pl --projects -rf --resume-from -T --threads"),
    "gradle": _tool(run="-I --init-script -c --settings-file", into="-g --gradle-user-home --project-cache-dir",
        value="-x --exclude-task --console -P --project-prop --max-workers --warning-mode --tests --priority --args"),
    "tox": _tool(write="--result-json", into="--workdir --devenv", run="-x --override --runner --installpkg",
        value="-e -m -f -k -s -p"),
    "tsc": _tool(write="--outfile --tsbuildinfofile", into="--outdir --declarationdir --generatetrace "
        "--generatecpuprofile", value="-t --target -m --module --lib --jsx"),
    "just": _tool(run="--shell --shell-arg --set -c --command --chooser", act="-e --edit --choose", into="--tempdir",
        value="--color --dump-format"),
    "uv": _tool(write="-o --output-file", into="--out-dir --directory --project --cache-dir --target --prefix --root",
        value="--with --group --extra --only-group --index-url --extra-index-url --index --python-version "
        "--python-platform"),
    "npx": _tool(run="-c --call --script-shell --node-options --shell --userconfig", value="-p --package"),
    "pnpm": _tool(into="-C --dir --prefix --modules-dir --lockfile-dir --store-dir --virtual-store-dir --global-dir "
        "--pack-destination", run="--script-shell --node-options", act="-c --shell-mode",
        value="-F --filter --reporter --loglevel"),
    "yarn": _tool(into="--cwd --modules-folder --cache-folder --preferred-cache-folder --global-folder --link-folder",
        run="--use-yarnrc --script-shell"),
    "bun": _tool(write="--outfile", into="--outdir --cwd --cache-dir", run="-r --preload -e --eval -p --print",
        value="--filter --target"),
    "jest": _tool(write="--outputFile", into="--coverageDirectory --cacheDirectory",
        value="-t --testNamePattern -w --maxWorkers"),
    "vitest": _tool(write="--outputFile", into="--coverage.reportsDirectory", value="-t --testNamePattern"),
    "esbuild": _tool(write="--outfile --metafile", into="--outdir"),
    "cmake": _tool(run="-P -E -C --prefix", into="-B", value="-G -j --target --config -t --parallel"),
    "mypy": _tool(write="--junit-xml", into="--cache-dir --any-exprs-report --cobertura-xml-report --html-report "
        "--linecount-report --linecoverage-report --lineprecision-report --txt-report --xml-report --xslt-html-report "
        "--xslt-txt-report", run="--python-executable", act="--install-types", value="-p -m -c --python-version"),
    "coverage": _tool(write="-o --data-file", into="-d --directory"),
    "docker": _client(write="--iidfile --cidfile --metadata-file", run="-H --host --config"),
    "kubectl": _client(write="--profile-output", into="--cache-dir", run="-s --server --kubeconfig"),
    "helm": _client(into="--output-dir -d --destination", run="--post-renderer --kubeconfig --kube-apiserver"),
    "gh": _client(write="-O", into="-D --dir", act="--show-token"),
}  # fmt: skip
PROGRAMS |= {"mvnw": PROGRAMS["mvn"], "gradlew": PROGRAMS["gradle"], "podman": PROGRAMS["docker"]}
PROGRAMS |= {"pip3": PROGRAMS["pip"], "grep": PROGRAMS["grep"], "egrep": PROGRAMS["grep"], "fgrep": PROGRAMS["grep"]}
# Options of git that run, read or write something else, with any subcommand.
GIT_RUNS = frozenset(
    "--ext-diff --exec --exec-path --upload-pack --receive-pack --open-files-in-pager --extcmd --config --config-env "
    "--no-index --git-dir --work-tree --template --tool --gpg-sign-program --separate-git-dir --smtp-server "
    "--paginate".split()
)
GIT_WRITES = frozenset("--output --output-directory --export-marks --prefix --index-output --object-dir".split())
GIT_READS = frozenset("--file --contents --exclude-from --pathspec-from-file --import-marks --reference".split())
GIT_RUNNERS = frozenset(
    "difftool mergetool filter-branch send-email daemon instaweb remote-ext remote-fd web--browse "
    "help merge-index "
    "fast-import http-backend shell upload-pack receive-pack cvsserver gui citool gitk hook svn "
    "p4 imap-send cvsimport cvsexportcommit archimport for-each-repo submodule--helper maintenance".split()
)
