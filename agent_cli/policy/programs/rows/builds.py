"""Compilers, build tools, package managers, test runners, formatters and interpreters.

What a build does is not known; that is for the rule which allows it. This is about where their options lead: other
programs and settings than the project's, files written elsewhere, and files that are sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile

from agent_cli.policy.programs.arguments import Arguments
from agent_cli.policy.programs.effects import Touch, of_interpreter
from agent_cli.policy.programs.row import HOOKS, INSTALLS, KEYS, Row, expand_rows, reading_row
from agent_cli.policy.programs.rows.network import service_effects, values_of
from agent_cli.policy.shell.words import Word
from agent_tools.lazy import lazy_pattern

# Values of make variables that are plain words or paths, with no meaning to a shell.
_PLAIN_VALUE = lazy_pattern(r"[\w.,:/+=@%-]*")
_MAKE_VARIABLES = frozenset(
    ("SHELL", "MAKE", "MAKEFLAGS", "MAKEFILES", "GNUMAKEFLAGS", "MFLAGS", "MAKESHELL", "COMSPEC")
)
_LINKER = re.compile(r"-[sw]|-X(?:=.*)?|-buildid=.*|'?\w[\w./-]*=[^`]*")
_COMPILER_FLAGS = re.compile(r"(?:[\w./]+=)?-[NlmSB]+")
_PASSED_ON = lazy_pattern(r"-W[alp],(.*)")
_WRITES_FROM_LINKER = lazy_pattern(r"(?:^|,)(?:-o|-M[A-Z]*D|-MF|-MM?D|-plugin|-T|-dynamic-linker|--script|-Map)")
# Properties of Maven and Gradle that name a program, or code that runs in one.
_RUNNING_PROPERTY = lazy_pattern(
    r"exec\..*|argLine|(?:.*\.)?jvm(?:args)?|.*[.]java\.home|maven\.ext\..*|.*\.executable"
)
# Options of Maven with more than one letter, which are no cluster.
_MAVEN_FLAGS = lazy_pattern(r"-(?:n[a-z]{1,2}|amd?|fae|ff|fn|llr|cpu|npr|up|ep|emp)")
_RUNNING_GOAL = lazy_pattern(r"exec:.*|antrun:.*|[^:]+:[^:]+:.+")
_TOOLCHAIN = lazy_pattern(
    r"(?i)(?:.*_)?(?:COMPILER|LAUNCHER|LINKER|MAKE_PROGRAM|COMMAND|TOOLCHAIN_FILE|INCLUDE)(?:_\w+)?"
)
_HARMLESS_MAKE = lazy_pattern(r"-j\d*|-k|-l\d+|-v|-s|\d+|[A-Za-z][\w-]*")
_NO_OUTPUT = frozenset("--noemit --help --version --showconfig --listfilesonly".split())


def _make(found: Arguments) -> Iterator[Touch]:
    for word in found.operands:
        name, equals, value = word.text.partition("=")
        if equals and (name.rstrip(":+?! ").lstrip(".") in _MAKE_VARIABLES or not _PLAIN_VALUE.fullmatch(value)):
            yield Touch("run", Word(name), starts=True)


def _one_dash(words: Sequence[Word]) -> list[Word]:
    """Options of go are the same with one dash or two."""
    return [w.replace(text=w.text[1:]) if re.match(r"--\w", w.text) else w for w in words]


def _go(found: Arguments) -> Iterator[Touch]:
    # Of the test program, also where `go test` does not have them.
    words = found.words
    for n, word in enumerate(words):
        if match := re.fullmatch(r"--?test\.\w*(?:profile|dir|trace|log\w*)(?:=(.*))?", word.text, re.DOTALL):
            yield Touch("write", word.replace(text=match[1]) if match[1] else (*words, Word(""))[n + 1])
    for option in found.options:
        plain = {"-ldflags": _LINKER, "-gcflags": _COMPILER_FLAGS, "-asmflags": _COMPILER_FLAGS}.get(option.name)
        if plain is not None and not all(plain.fullmatch(piece) for piece in option.value.text.split()):
            yield Touch("run", Word(option.name), starts=True)
    operands, verbs = found.operands, found.texts
    if verbs[:1] == ("env",) and found.has("-w", "-u"):
        yield Touch("run", Word("env"))
    elif verbs[:1] in (("fmt",), ("fix",), ("generate",)):
        yield Touch("into", Word("."))
    elif verbs[:1] == ("run",):
        yield from (Touch("maybe", w) for w in operands[1:] if w.text.endswith(".go"))
    elif verbs[:1] == ("work",):
        yield from (Touch("maybe", w) for w in operands[2:])
    elif verbs[:2] == ("mod", "edit"):
        for value in found.values("-replace"):
            yield Touch("maybe", value.replace(text=value.text.rpartition("=")[2]))


def _cargo(found: Arguments) -> Iterator[Touch]:
    operands = found.operands
    verbs = [text for text in found.texts if not text.startswith("+")]
    if verbs[:1] == ["fmt"] and not found.has("--check"):
        yield Touch("into", Word("."))
    if verbs[:1] in (["new"], ["init"], ["vendor"]):
        yield from (Touch("write", w) for w in operands[1:2])
    # Behind -- are the options of the compiler, or of the test program.
    texts = [w.text for w in found.words]
    passed = list(found.words[texts.index("--") + 1 :]) if "--" in texts else []
    if verbs[:1] in (["rustc"], ["rustdoc"]):
        yield from (Touch("run", w, starts=True) for w in passed if w.text.startswith("-"))
    for n, word in enumerate(passed):
        if word.text.partition("=")[0] == "--logfile":
            inside = word.replace(text=word.text[10:])
            yield Touch("write", inside if "=" in word.text else (passed[n + 1 :] or [word])[0])


def _pytest(found: Arguments) -> Iterator[Touch]:
    for option in found.options:
        name, value = option.name, option.value
        if name == "-p" and value.text.startswith("no:"):
            continue
        if name in ("-o", "--override-ini") and value.text.startswith("log_"):
            key, _, path = value.text.partition("=")
            yield from [Touch("write", value.replace(text=path))] if key == "log_file" else []
        elif name.startswith("--cov-r") and ":" in value.text:
            yield Touch("write", value.replace(text=value.text.partition(":")[2]))
        elif option.role in ("run", "act"):
            yield Touch("run", Word(name))
            yield from [Touch("read", value)] if option.role == "run" and value.text else []
        elif option.role in ("write", "into", "maybe"):
            yield Touch(option.role, value)
        if name == "--basetemp":
            yield Touch("remove", value)  # it is emptied first


def _dashed_npm(words: Sequence[Word]) -> list[Word]:
    """The package manager of node takes any number of dashes for two."""
    return [w.replace(text=f"-{w.text}") if re.match(r"-\w\w", w.text) else w for w in words]


def _any_operand(found: Arguments) -> Iterator[Touch]:
    """Any word may be a file, for one program or another."""
    yield from (Touch("maybe", w) for w in found.operands)


def _compiler(found: Arguments) -> Iterator[Touch]:
    for option in found.options:
        if not _PASSED_ON.match(option.value.text):
            if option.role in ("run", "act"):
                yield Touch("run", Word(option.name), starts=True)
                yield from [Touch("read", option.value)] if option.role == "run" and option.value.text else []
            elif option.role in ("write", "into", "read", "maybe"):
                yield Touch(option.role, option.value)
    for word in found.words:
        passed = _PASSED_ON.match(word.text)
        if word.text.startswith("@") or (passed and _WRITES_FROM_LINKER.search(passed[1])):
            yield Touch("run", word, starts=True)
    yield from (Touch("read", w) for w in found.operands)


def _pandoc(found: Arguments) -> Iterator[Touch]:
    for option in found.options:
        if option.name in ("-f", "-t", "--from", "--to") and re.search(r"\.lua|/", option.value.text):
            yield Touch("run", Word(option.name), starts=True)
    yield from (Touch("read", w) for w in found.operands)


def _pip(found: Arguments) -> Iterator[Touch]:
    # Installed packages run code, so their source counts.
    yield from (Touch("maybe", w) for w in found.operands[1:])
    yield from (Touch("maybe", value) for value in found.values("-e", "--editable", "-r"))
    if found.texts[:1] == ("config",) and {"set", "unset", "edit"} & set(found.texts[1:2]):
        yield Touch("run", Word("config"))


def _check_pip(found: Arguments) -> str:
    """Allow what pip says of installed packages."""
    verb = "".join(found.texts[:1])
    shown = found.has("-i", "-r", "--index-url") or any(o.role not in ("flag", "value") for o in found.options)
    known = verb in ("list", "check", "show") and (verb == "show") == (len(found.texts) > 1) and not shown
    return "" if known else f"pip {verb}"


def _own_files(found: Arguments) -> Iterator[Touch]:
    """Yield the files that the options before the first operand read."""
    for word in takewhile(lambda w: w.text.startswith("-"), found.words):
        name, _, value = word.text.partition("=")
        yield from [Touch("read", word.replace(text=value))] if "file" in name and value else []


def _interpreter(found: Arguments) -> Iterator[Touch]:
    """Yield the files that an interpreter's own options read, its program, and its operands."""
    yield from _own_files(found)
    yield from of_interpreter(found.words, found.operands)


def _database(found: Arguments) -> Iterator[Touch]:
    """Yield the files that a client's own options read, and its operands, of which one may be a database."""
    yield from _own_files(found)
    yield from (Touch("maybe", w) for w in found.operands)


def _psql(found: Arguments) -> Iterator[Touch]:
    for option, value in values_of(found.words):
        if option in ("-o", "--output") and not value.text.startswith("|"):
            yield Touch("write", value, replaces=True)
    yield from _database(found)


def _deno(found: Arguments) -> Iterator[Touch]:
    words = found.words[1:] if [w.text for w in found.words[:1]] == ["run"] else found.words
    return of_interpreter(words, found.operands)


def _in_place(found: Arguments) -> Iterator[Touch]:
    """Yield the effects of perl and ruby, which edit files with -i."""
    operands = [w for w in found.words if not w.text.startswith("-")]
    edits = any(re.match(r"-[a-zA-Z0-9]*i", w.text) for w in found.words)
    yield from (Touch("read", w) for w in operands)
    yield from (Touch("write", w) for w in operands if edits)


def _without_properties(words: Sequence[Word]) -> list[Word]:
    """Return the words without those that set properties, and without Maven's flags of several letters."""
    return [w for w in split_properties(words)[0] if not _MAVEN_FLAGS.fullmatch(w.text)]


def split_properties(words: Sequence[Word]) -> tuple[list[Word], list[Word]]:
    """Return the other words, and the properties that -D sets, as name=value."""
    queue, kept, found = list(words), [], []
    while queue:
        word = queue.pop(0)
        if word.text in ("-D", "--define", "--system-prop") and queue:
            found.append(queue.pop(0))
        elif match := re.match(r"-D|--(?:define|system-prop)=", word.text):
            found.append(word.replace(text=word.text[match.end() :]))
        else:
            kept.append(word)
    return kept, found


def _jvm(found: Arguments) -> Iterator[Touch]:
    for word in split_properties(found.given)[1]:
        key, _, value = word.text.partition("=")
        if _RUNNING_PROPERTY.fullmatch(key):
            yield Touch("run", Word(key), starts=True)
        else:
            yield Touch("maybe", word.replace(text=value))


def _mvn(found: Arguments) -> Iterator[Touch]:
    yield from _jvm(found)
    yield from (Touch("run", w, starts=True) for w in found.operands if _RUNNING_GOAL.fullmatch(w.text))


def _lower_tsc(words: Sequence[Word]) -> list[Word]:
    """Options of the TypeScript compiler are the same in any case, with one dash or two."""
    return [w.replace(text=f"--{w.text.lstrip('-').lower()}") if re.match(r"--?\w\w", w.text) else w for w in words]


def _tsc(found: Arguments) -> Iterator[Touch]:
    if not _NO_OUTPUT & {w.text for w in found.words}:
        yield Touch("into", Word("."))


def _just(found: Arguments) -> Iterator[Touch]:
    for word in found.operands:
        name, equals, value = word.text.partition("=")
        if equals and not _PLAIN_VALUE.fullmatch(value):
            yield Touch("run", Word(name), starts=True)


def _uv(found: Arguments) -> Iterator[Touch]:
    if found.texts[:1] in (("venv",), ("init",)):
        yield from (Touch("write", w) for w in found.operands[1:2])


def _cmake(found: Arguments) -> Iterator[Touch]:
    definitions = split_properties(found.given)[1]
    yield from (Touch("run", w, starts=True) for w in definitions if _TOOLCHAIN.fullmatch(re.split(r"[:=]", w.text)[0]))
    texts = [w.text for w in found.given]
    if "--" in texts:
        rest = found.given[texts.index("--") + 1 :]
        yield from (Touch("run", w, starts=True) for w in rest if not _HARMLESS_MAKE.fullmatch(w.text))


def _ruff(found: Arguments) -> Iterator[Touch]:
    if found.operands and (found.texts[0] == "format" or any(o.name.startswith("--fix") for o in found.options)):
        yield from (Touch("write", w) for w in found.operands[1:] or [Word(".")])


def _tool(**more: object) -> Row:
    """Return a build tool or package manager, of which only the options are known."""
    return Row("", partly=True, **more)  # type: ignore[arg-type]


_FORMATTER = "--line-length -l --target-version -t --extend-exclude --exclude --include --select --ignore --profile"
_NPM_HOSTS = "registry.npmjs.org"
_PYPI_HOSTS = "pypi.org files.pythonhosted.org"
_PUBLISHING = {KEYS: "publish login"}
_VERSION = "--version"
_MAVEN = _tool(
    subcommands=99,
    write="-l --log-file",
    run="-s --settings -gs --global-settings -t --toolchains -gt --global-toolchains",
    value="-P --activate-profiles -pl --projects -rf --resume-from -T --threads",
    prepare=_without_properties,
    effects=_mvn,
    network="deploy dependency:resolve dependency:go-offline",
    builds="install package test verify compile",
    hosts="repo.maven.apache.org",
    outside_verbs={KEYS: "deploy"},
    offers="test",
)
_GRADLE = _tool(
    subcommands=99,
    run="-I --init-script -c --settings-file",
    into="-g --gradle-user-home --project-cache-dir",
    value="-x --exclude-task --console -P --project-prop --max-workers --warning-mode --tests --priority --args",
    prepare=_without_properties,
    effects=_jvm,
    network="publish",
    builds="build test assemble check",
    outside_verbs={KEYS: "publish"},
    offers="test",
)
_SCRIPT = _tool(own=True, effects=_interpreter, interprets=True)
BUILD_ROWS = expand_rows({
    "make": Row("", subcommands=99, starts="--eval -E -f --file --makefile", into="-C --directory", value="-j -l -o -W",
        effects=_make, versions=_VERSION),
    "gcc g++ cc c++ clang clang++": Row(
        "read", write="-o -MF", starts="-wrapper -fplugin -specs -B -Xlinker -fuse-ld -load",
        read="-include -imacros", into="-dumpdir",
        value="-I -D -L -l -U -isystem -x -std -MT -MQ -framework", own=True, effects=_compiler, versions=_VERSION,
    ),
    "ld": Row("read", write="-o -Map", starts="-plugin -dynamic-linker", steer="-T --script", value="-L -l -e -m -z"),
    "go": Row(
        "", subcommands=1, write="-o -coverprofile -cpuprofile -memprofile -blockprofile -mutexprofile -trace "
        "-modfile -overlay "
        "-output",
        into="-C -outputdir -pkgdir", starts="-toolexec -exec -vettool -compiler",
        value="-run -count -timeout -tags -p -ldflags -gcflags -asmflags -replace -bench -benchtime",
        prepare=_one_dash, effects=_go, network="get install mod:download mod:tidy mod:vendor work:sync",
        builds="build test run vet generate", hosts="proxy.golang.org sum.golang.org",
        outside_verbs={INSTALLS: "install"}, offers="test"),
    "cargo": Row("", subcommands=1, starts="--config", run="-Z", into="--target-dir --root -C",
        value="-p --package --features", effects=_cargo,
        network="install fetch update add search publish", builds="build test run check clippy doc bench",
        hosts="index.crates.io static.crates.io",
        outside_verbs={KEYS: "publish login yank owner", INSTALLS: "install uninstall"}, offers="test, nextest run"),
    "pytest py.test": Row(
        "", write="--junitxml --junit-xml --log-file --report-log", into="--basetemp", act="--pastebin",
        run="-p -c --config-file -o --override-ini --confcutdir --pdbcls",
        value="-k -m -n -r -W --maxfail --tb --durations --ignore --deselect --cov --cov-fail-under --color "
        "--import-mode", own=True, effects=_pytest, offers="*"),
    "hg": _tool(into="--cwd", starts="--config --ssh --remotecmd -e", steer="-R --repository",
        network="push pull clone incoming outgoing identify", outside_verbs={KEYS: "push pull clone"}),
    "svn": _tool(into="--config-dir", starts="--editor-cmd --diff-cmd --diff3-cmd --config-option",
        network="checkout co update up commit ci switch sw log ls list cat blame merge copy cp move mv delete rm "
            "import "
        "export info", outside_verbs={KEYS: "checkout co update up commit ci switch sw import"}),
    "npm": Row(
        "", subcommands=1, into="-C --prefix --cache", act="-g --global",
        run="--node-options --userconfig --globalconfig --init-module --onload-script --registry --location",
        starts="-c --call --script-shell --shell --git --editor --viewer --pager",
        value="-w --workspace --loglevel --tag --otp --access --omit --include --depth --workspaces-update",
        prepare=_dashed_npm, effects=_any_operand, versions="--version -v", hosts=_NPM_HOSTS,
        network="install i ci add update audit outdated publish view info search login exec create init",
        outside_verbs={KEYS: "publish login adduser whoami token owner", INSTALLS: "-g --global link"},
        starts_after="exec x dlx", offers="test, run test, t"),
    "npx pnpx bunx": _tool(subcommands=1, starts="-c --call --script-shell --shell", run="--node-options --userconfig",
        whole=True, value="-p --package", network="*", hosts=_NPM_HOSTS, starts_after="*", interprets=True),
    "pnpm": _tool(subcommands=1, into="-C --dir --prefix --modules-dir --lockfile-dir --store-dir --virtual-store-dir "
        "--global-dir --pack-destination", run="--node-options", starts="--script-shell", act="-c --shell-mode",
        value="-F --filter --reporter --loglevel", effects=_any_operand, hosts=_NPM_HOSTS,
        network="install i add update dlx publish audit outdated create", whole=True, starts_after="exec x dlx ?",
        outside_verbs={KEYS: "publish login", INSTALLS: "-g --global"}, offers="test, run test"),
    "yarn": _tool(subcommands=1, into="--cwd --modules-folder --cache-folder --preferred-cache-folder --global-folder "
        "--link-folder", run="--use-yarnrc", starts="--script-shell", effects=_any_operand, whole=True,
        hosts="registry.yarnpkg.com", network="add install up upgrade dlx publish audit create",
        outside_verbs={KEYS: "publish login", INSTALLS: "global"}, starts_after="exec x dlx run ?",
        offers="test, run test"),
    "bun": _tool(subcommands=1, write="--outfile", into="--outdir --cwd --cache-dir", starts="-r --preload -e --eval "
        "-p --print",
        value="--filter --target", effects=_any_operand, network="install add update x create publish",
        hosts=_NPM_HOSTS, outside_verbs={KEYS: "publish", INSTALLS: "-g"}, starts_after="x", interprets=True,
            offers="test"),
    "pip pip3": reading_row(
        "text", subcommands=1, write="--log --report", into="-t --target --prefix --root --cache-dir -d --dest -w "
        "--wheel-dir",
        starts="--python", steer="-r --requirement -c --constraint -e --editable",
        value="-i --index-url --extra-index-url -f --find-links --format --exclude",
        flags="--local --files --user --not-required -l", check=_check_pip, effects=_pip,
        versions=_VERSION, network="install download index search -o --outdated -u --uptodate", hosts=_PYPI_HOSTS,
        outside_verbs={INSTALLS: "--user"},
    ),
    "uv": _tool(write="-o --output-file", into="--out-dir --directory --project --cache-dir --target --prefix --root",
        value="--with --group --extra --only-group --index-url --extra-index-url --index --python-version "
        "--python-platform", effects=_uv, versions=_VERSION, whole=True,
        network="sync add remove lock publish pip:install pip:sync pip:compile tool:install tool:run tool:upgrade "
        "python:install python:upgrade",
        builds="run", hosts=_PYPI_HOSTS, outside_verbs={
            KEYS: "publish", INSTALLS: "tool:install tool:upgrade tool:uninstall python:install python:upgrade "
            "python:uninstall"}, subcommands=1, starts_after="run =pip"),
    "uvx": _tool(whole=True, network="*", hosts=_PYPI_HOSTS, starts_after="*", interprets=True),
    "pipx": _tool(network="*", hosts=_PYPI_HOSTS, outside=INSTALLS, starts_after="run", interprets=True),
    "poetry": _tool(into="-C --directory -P --project", network="install add update lock publish", hosts=_PYPI_HOSTS,
        outside_verbs=_PUBLISHING, starts_after="run", whole=True),
    "pdm": _tool(into="-p --project", network="install add update lock sync publish", hosts=_PYPI_HOSTS,
        outside_verbs=_PUBLISHING, starts_after="run"),
    "hatch": _tool(network="env publish", builds="run test", outside_verbs=_PUBLISHING, starts_after="run"),
    "flit": _tool(outside_verbs=_PUBLISHING),
    "pipenv": _tool(outside=INSTALLS, starts_after="run"),
    "rye pixi": _tool(starts_after="run"),
    "conda mamba micromamba": _tool(into="-p --prefix", network="install create update search", outside=INSTALLS,
        local="list info", starts_after="run"),
    "gem": _tool(into="-i --install-dir -n --bindir", network="install update fetch push", hosts="rubygems.org",
        outside_verbs={KEYS: "push signin", INSTALLS: "install"}),
    "bundle bundler": _tool(into="--path", network="install update add", hosts="rubygems.org", starts_after="exec"),
    "composer": _tool(into="-d --working-dir", network="install update require", hosts="repo.packagist.org"),
    "mix": _tool(network="deps.get deps.update", builds="test compile", offers="test"),
    # Options may begin with a slash, as in `dotnet test /p:Configuration=Release`.
    "dotnet": _tool(into="-o --output",
        effects=lambda found: (Touch("maybe", w) for w in found.operands if not re.match(r"/\w+(?::|$)", w.text)),
        network="restore add publish", builds="build test run",
        outside_verbs={KEYS: "nuget"}, offers="test"),
    "swift": _tool(into="--package-path --build-path --scratch-path", builds="build test run", interprets=True,
        offers="test"),
    "mvn mvnw": _MAVEN,
    "gradle gradlew": _GRADLE,
    # Operands that begin with two slashes are labels.
    "bazel bazelisk": _tool(run="--bazelrc", starts="--run_under", into="--output_base --output_user_root",
        effects=lambda found: (Touch("maybe", w) for w in found.operands if w.text[:2] != "//"),
        builds="build test run", network="sync fetch"),
    "meson": _tool(into="-C", builds="setup compile test"),
    "ninja": _tool(into="-C", steer="-f"),
    "tox nox": _tool(write="--result-json", into="--workdir --devenv --envdir",
        run="--runner --installpkg --noxfile", starts="-x --override", value="-e -m -f -k -s -p -t"),
    "tsc": _tool(write="--outfile --tsbuildinfofile", into="--outdir --declarationdir --generatetrace "
        "--generatecpuprofile", value="-t --target -m --module --lib --jsx", prepare=_lower_tsc, effects=_tsc),
    "just": _tool(subcommands=99, starts="--shell --shell-arg -c --command --chooser --set", act="-e --edit "
        "--choose",
        into="--tempdir", value="--color --dump-format", effects=_just),
    "jest": _tool(write="--outputFile", into="--coverageDirectory --cacheDirectory",
        run="-c --config --setupFiles --testRunner", value="-t --testNamePattern -w --maxWorkers", offers="*"),
    "vitest mocha ava": _tool(write="--outputFile", into="--coverage.reportsDirectory",
        run="-c --config -r --require --import", value="-t --testNamePattern", offers="*"),
    "rspec phpunit": _tool(write="-o --out --log-junit", run="-r --require --bootstrap -c --configuration",
        value="-e --example -f --format --filter", offers="*"),
    "unittest ctest": _tool(offers="*"),
    "esbuild": _tool(replaces=True, write="--outfile --metafile", into="--outdir"),
    "cmake": _tool(starts="-P -E", run="-C --prefix", into="-B", value="-G -j --target --config -t --parallel",
        prepare=lambda words: split_properties(words)[0], effects=_cmake, versions=_VERSION),
    "mypy": _tool(write="--junit-xml", into="--cache-dir --any-exprs-report --cobertura-xml-report --html-report "
        "--linecount-report --linecoverage-report --lineprecision-report --txt-report --xml-report --xslt-html-report "
        "--xslt-txt-report", starts="--python-executable", act="--install-types", value="-p -m -c --python-version",
        versions=_VERSION),
    "pyright": _tool(starts="--pythonpath", write="--createstub", value="--level --pythonversion", into="-p --project"),
    "coverage": _tool(write="-o --data-file", into="-d --directory", run="--rcfile", starts_after="run"),
    "ruff": Row("", subcommands=1, write="-o --output-file --cache-dir", value=f"{_FORMATTER} --config --extend-select",
        effects=_ruff, versions=_VERSION, offers="format", whole=True),
    "black": Row("write", whole=True, value=f"{_FORMATTER} --config", run="--code", versions=_VERSION, offers="*"),
    "isort": Row("write", whole=True, value=f"{_FORMATTER} --settings-path --sp --src", offers="*"),
    "autopep8": Row("write", whole=True, value="--max-line-length"),
    "yapf": Row("write", whole=True, value="--style"),
    "gofmt": Row("write", whole=True, run="-cpuprofile", value="-r", offers="*"),
    "rustfmt": Row("write", whole=True, value="--edition --config --config-path --emit"),
    "rustc": Row("read", write="-o --emit", into="--out-dir -L", run="-Z", starts="-C --codegen",
        value="--edition --crate-type --crate-name --cap-lints --cfg"),
    "javac": Row("read", into="-d -s -h", run="-processor -processorpath", starts="-J",
        value="-cp -classpath -source -target"),
    "clang-format": Row("write", value="-style --style"),
    "prettier": Row("rewrite", whole=True,
        run="--plugin --plugin-search-dir --config", value="--parser --log-level --ignore-path"),
    "eslint": Row(
        "write", whole=True, write="-o --output-file --cache-location --cache-file",
        run="-c --config --plugin --rulesdir --parser --resolve-plugins-relative-to -f --format",
        value="--ext --rule --ignore-pattern --max-warnings",
    ),
    "pandoc": Row(
        "read", write="-o --output --log --extract-media", starts="-F --filter -L --lua-filter --pdf-engine",
        run="-d --defaults --data-dir",
        read="--template -c --css -H -A -B --include-in-header --include-before-body --include-after-body "
        "--syntax-definition --bibliography --csl --metadata-file --reference-doc", value="-f -t --from --to -M -V",
        effects=_pandoc,
    ),
    "pre-commit husky lefthook": _tool(run="-c --config", outside_verbs={HOOKS: "install uninstall init"}),
    # Interpreters: their operands are programs.
    "python python3 python2 pypy pypy3 ipython": _tool(
        whole=True, own=True, effects=_interpreter, interprets=True, versions="--version -V", starts_after="-m"),
    "node nodejs php perl5": _tool(own=True, effects=_interpreter, interprets=True, versions="--version -v"),
    "perl ruby": Row("", own=True, effects=_in_place, interprets=True, versions="--version -v"),
    "redis-cli": _tool(own=True, effects=service_effects, interprets=True, versions=_VERSION),
    "deno": _tool(own=True, effects=_deno, interprets=True, versions=_VERSION),
    "psql": _tool(own=True, effects=_psql, interprets=True, versions=_VERSION),
    "mysql sqlite3": _tool(own=True, effects=_database, interprets=True, versions=_VERSION),
    "lua luajit Rscript R julia java scala groovy kotlin tclsh wish osascript powershell pwsh mongo mongosh gdb lldb "
    "irb ghci erl elixir iex sbcl racket guile": _SCRIPT,
})  # fmt: skip
