"""Effects of build tools, package managers and clients of services.

What a build does is not known; that is for the rule which allows it. This is about where their options lead: other
programs and settings than the project's, files written elsewhere, and files that are sent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from agent_cli.permissions.effects.table import PROGRAMS
from agent_cli.permissions.options import Touch, option_effects, scan
from agent_cli.permissions.shell.words import Word

# Properties of Maven and Gradle that name a program, or code that runs in one.
_RUNNING_PROPERTY = re.compile(r"exec\..*|argLine|(?:.*\.)?jvm(?:args)?|.*[.]java\.home|maven\.ext\..*|.*\.executable")
# Options of Maven with more than one letter, which are no cluster.
_MAVEN_FLAGS = re.compile(r"-(?:n[a-z]{1,2}|amd?|fae|ff|fn|llr|cpu|npr|up|ep|emp)")
_RUNNING_GOAL = re.compile(r"exec:.*|antrun:.*|[^:]+:[^:]+:.+")
_PLAIN_VALUE = re.compile(r"[\w.,:/+=@%-]*")
_TOOLCHAIN = re.compile(
    r"(?i)(?:.*_)?(?:COMPILER|LAUNCHER|LINKER|MAKE_PROGRAM|COMMAND|TOOLCHAIN_FILE|INCLUDE)(?:_\w+)?"
)
_HARMLESS_MAKE = re.compile(r"-j\d*|-k|-l\d+|-v|-s|\d+|[A-Za-z][\w-]*")


def _properties(words: Sequence[Word]) -> tuple[list[Word], list[Word]]:
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


def _jvm(name: str, words: Sequence[Word]) -> Iterator[Touch]:
    kept, properties = _properties(words)
    found, operands = scan(PROGRAMS[name], [w for w in kept if not _MAVEN_FLAGS.fullmatch(w.text)])
    yield from option_effects(found)
    for word in properties:
        key, _, value = word.text.partition("=")
        if _RUNNING_PROPERTY.fullmatch(key):
            yield Touch("run", Word(key))
        else:
            yield Touch("maybe", word.replace(text=value))
    if name == "mvn":
        yield from (Touch("run", w) for w in operands if _RUNNING_GOAL.fullmatch(w.text))


def _mvn(words: Sequence[Word]) -> Iterator[Touch]:
    yield from _jvm("mvn", words)


def _gradle(words: Sequence[Word]) -> Iterator[Touch]:
    yield from _jvm("gradle", words)


def _tsc(words: Sequence[Word]) -> Iterator[Touch]:
    # Options are the same in any case, with one dash or two.
    own = [w.replace(text=f"--{w.text.lstrip('-').lower()}") if re.match(r"--?\w\w", w.text) else w for w in words]
    found, _ = scan(PROGRAMS["tsc"], own)
    yield from option_effects(found)
    if not {"--noemit", "--help", "--version", "--showconfig", "--listfilesonly"} & {w.text for w in own}:
        yield Touch("into", Word("."))


def _just(words: Sequence[Word]) -> Iterator[Touch]:
    found, operands = scan(PROGRAMS["just"], words)
    yield from option_effects(found)
    for word in operands:
        name, equals, value = word.text.partition("=")
        if equals and not _PLAIN_VALUE.fullmatch(value):
            yield Touch("run", Word(name))


def _uv(words: Sequence[Word]) -> Iterator[Touch]:
    found, operands = scan(PROGRAMS["uv"], words)
    yield from option_effects(found)
    if [w.text for w in operands[:1]] in (["venv"], ["init"]):
        yield from (Touch("write", w) for w in operands[1:2])


def _with_operands(name: str) -> Callable[[Sequence[Word]], Iterator[Touch]]:
    """Return the effects of a package manager any word of which may be a file."""

    def effects(words: Sequence[Word]) -> Iterator[Touch]:
        found, operands = scan(PROGRAMS[name], words)
        yield from option_effects(found)
        yield from (Touch("maybe", w) for w in operands)

    return effects


def _cmake(words: Sequence[Word]) -> Iterator[Touch]:
    kept, definitions = _properties(words)
    found, _ = scan(PROGRAMS["cmake"], kept)
    yield from option_effects(found)
    yield from (Touch("run", w) for w in definitions if _TOOLCHAIN.fullmatch(re.split(r"[:=]", w.text)[0]))
    texts = [w.text for w in words]
    if "--" in texts:
        yield from (Touch("run", w) for w in words[texts.index("--") + 1 :] if not _HARMLESS_MAKE.fullmatch(w.text))


def _copied(operands: Sequence[Word]) -> Iterator[Touch]:
    """Yield the effects of a copy from or into a container, whose files have a colon in their names."""
    for word, kind in zip(operands, ("tree", "write"), strict=False):
        if ":" not in word.text and word.text != "-":
            yield Touch("tree" if kind == "tree" else "write", word)


def _docker(words: Sequence[Word]) -> Iterator[Touch]:
    found, operands = scan(PROGRAMS["docker"], words)
    yield from option_effects(found)
    verbs = [w.text for w in operands if w.text not in ("container", "image", "buildx", "builder", "compose")]
    if verbs[:1] == ["cp"]:
        yield from _copied(operands[[w.text for w in operands].index("cp") + 1 :])
    for option, value in _values(words):
        if option in ("-o", "--output") and verbs[:1] and verbs[0] in ("build", "bake", "save", "export", "config"):
            places = [
                piece.removeprefix("dest=") for piece in value.text.split(",") if not re.match(r"(?!dest)\w+=", piece)
            ]
            yield from (Touch("write", value.replace(text=place)) for place in places)
        elif option == "--secret" and (source := re.search(r"(?:^|,)(?:src|source)=([^,]+)", value.text)):
            yield Touch("read", value.replace(text=source[1]))


def _kubectl(words: Sequence[Word]) -> Iterator[Touch]:
    found, operands = scan(PROGRAMS["kubectl"], words)
    yield from option_effects(found)
    if [w.text for w in operands[:1]] == ["cp"]:
        yield from _copied(operands[1:])


def _helm(words: Sequence[Word]) -> Iterator[Touch]:
    found, operands = scan(PROGRAMS["helm"], words)
    yield from option_effects(found)
    if [w.text for w in operands[:2]] in (["plugin", "install"], ["plugin", "update"]):
        yield Touch("run", operands[0])


# What changes how gh itself works from now on, runs code of others, or prints the token.
_GH_ACTS = frozenset(
    ("alias set", "alias import", "extension install", "extension upgrade", "extension exec", "config set",
     "auth token", "auth setup-git")
)  # fmt: skip
# Subcommands whose operands, from the third on, are files that are sent.
_GH_SENDS = {"gist create": 2, "release create": 3, "release upload": 3}
_GH_BODIES = frozenset("-F --body-file --notes-file --input --env-file".split())


def _gh(words: Sequence[Word]) -> Iterator[Touch]:
    found, operands = scan(PROGRAMS["gh"], words)
    yield from option_effects(found)
    verb = " ".join(w.text for w in operands[:2])
    api = [w.text for w in operands[:1]] == ["api"]
    if verb in _GH_ACTS:
        yield Touch("run", operands[0])
    if verb == "auth status" and any(re.fullmatch(r"-\w*t\w*", w.text) for w in words):
        yield Touch("run", Word("-t"))
    if verb in ("repo clone", "gist clone"):
        yield from (Touch("write", w) for w in operands[3:4])
    if verb in _GH_SENDS:
        yield from (Touch("read", w) for w in operands[_GH_SENDS[verb] :] if w.text != "-")
    for option, value in _values(words):
        if api and option in ("-F", "--field"):
            if match := re.match(r"[^=]*=@(.+)", value.text, re.DOTALL):
                yield Touch("read", value.replace(text=match[1]))
        elif (option in _GH_BODIES or (verb == "secret set" and option == "-f")) and value.text != "-":
            yield Touch("read", value)


def _values(words: Sequence[Word]) -> Iterator[tuple[str, Word]]:
    """Yield every option with what may be its value: behind `=`, in the same word, or the next word."""
    for n, word in enumerate(words):
        name, equals, value = word.text.partition("=")
        if re.fullmatch(r"--\w[\w-]*", name) and equals:
            yield name, word.replace(text=value)
        elif re.fullmatch(r"--\w[\w-]*|-\w", word.text):
            yield word.text, words[n + 1] if n + 1 < len(words) else Word("")
        elif re.match(r"-\w", word.text) and not word.text.startswith("--"):
            yield word.text[:2], word.replace(text=word.text[2:].removeprefix("="))


BUILD_EFFECTS: Mapping[str, Callable[[Sequence[Word]], Iterator[Touch]]] = {
    "mvn": _mvn, "mvnw": _mvn, "gradle": _gradle, "gradlew": _gradle, "tsc": _tsc, "just": _just, "uv": _uv,
    "cmake": _cmake, "docker": _docker, "podman": _docker, "kubectl": _kubectl, "helm": _helm, "gh": _gh,
    **{name: _with_operands(name) for name in ("pnpm", "yarn", "bun")},
}  # fmt: skip
