"""Recognize commands that check the work (tests, builds, linters), and determine what their exit codes prove.

A command line passes as a check only if its exit code, with those of the parts of its last pipe, proves that every
check in it ran and exited with 0. `cd x && pytest` does; `pytest; echo done` and `pytest || true` do not, and are not
reported as passed. In doubt (functions, traps, `eval`, computed program names), nothing is proved.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from agent_cli.kernel.results import Check
from agent_cli.policy.programs.unwrapping import Script, unwrap_part
from agent_cli.policy.shell.analysis import plain_parts
from agent_cli.policy.shell.parser import ShellParseError, nodes, parse_tree
from agent_cli.policy.shell.words import Node, SimpleCommand, Word, node_source, read_word
from agent_tools.lazy import lazy_pattern
from agent_tools.record import Value

_MODULES = "pytest|unittest|mypy|tox|nox|ruff check|flake8|pyright|coverage run .*"
# Programs, with the sub-commands that make them a check if they do other things too.
RUNNERS = {
    "pytest": "", "py.test": "", "tox": "", "nox": "", "mypy": "", "pyright": "", "ruff": "check", "flake8": "",
    "make": r"(?:\S.* )?(?:test|check|lint|build|all|tests)", "gmake": r"(?:\S.* )?(?:test|check|lint|build|all|tests)",
    "cargo": r"(?:\+\S+ )?(?:test|check|build|clippy|nextest)", "go": "test|build|vet",
    "npm": "test|t|run (?:test|build|lint|check)\\S*", "pnpm": "test|(?:run )?(?:test|build|lint|check)\\S*",
    "yarn": "test|(?:run )?(?:test|build|lint|check)\\S*", "bun": "test", "jest": "", "vitest": "", "mocha": "",
    "tsc": "", "eslint": "", "gradle": "test|build|check", "gradlew": "test|build|check", "mvn": "test|verify|package",
    "mvnw": "test|verify|package", "dotnet": "test|build", "rspec": "", "rake": "test|spec", "phpunit": "",
    "ctest": "", "ninja": "", "bazel": "test|build", "mix": "test|compile", "swift": "test|build", "shellcheck": "",
    "python": rf"(?:-[WX] \S+ |-[a-zA-Z]+ )*?-m (?:{_MODULES})|(?:\S*/)?manage\.py test", "unittest": "",
    "deno": "test",
}  # fmt: skip
# Programs that run a check of their environment, by the sub-command before it.
_LAUNCHERS = {
    "uv": "run", "poetry": "run", "pipenv": "run", "pdm": "run", "rye": "run", "hatch": "run", "bundle": "exec",
    "npx": "", "bunx": "", "coverage": "run",
}  # fmt: skip
_NAMES = sorted({*RUNNERS, *_LAUNCHERS})
_CANDIDATE = lazy_pattern(r"(?<![\w.-])(?:python[\d.]*|" + "|".join(map(re.escape, _NAMES)) + r")(?![\w-])")
# With one of these options nothing is checked, or the exit code does not show a failure.
_IDLE = lazy_pattern(
    r"--(?:version|help|collect-only|co|fixtures|markers|setup-plan|no-run|dry-run|just-print|question|touch|list"
    r"|listTests|exit-zero|ignore-errors|if-present|passWithNoTests|showConfig|print-config)|-h"
)
_IDLE_MAKE = lazy_pattern(r"-[a-zA-Z]*[nqti][a-zA-Z]*")
# Wrappers that exit with the code of the command they run.
_TRANSPARENT = frozenset("command exec nohup timeout nice time stdbuf ionice env sudo doas".split())
# After these, the exit code of the line says nothing about its commands.
_UNSURE = frozenset("trap eval alias enable shopt return hash".split())
_STRICTER = lazy_pattern(r"-[eux]*o?|\+[ux]+|pipefail|errexit|nounset|xtrace")
_SIGPIPE_EXIT_CODE = 141
# A longer command is truncated in its record.
MAX_COMMAND_CHARS = 120
_MAX_DEPTH = 4


def evaluate_check(command: str, code: int | None, pipe: Sequence[int] = (), more: Sequence[str] = ()) -> Check | None:
    """Return the check that a finished command was, with its outcome; None if there is no check in it.

    code: its exit code; None if it was killed.
    pipe: exit codes of the parts of the last pipe that it ran; () if unknown.
    more: beginnings of commands that are checks as well.
    """
    proof = _Proof(command, code, pipe, more)
    if not proof.programs:
        return None
    shown = " ".join(command.split())[:MAX_COMMAND_CHARS]
    if code is None:
        return Check(shown, None, programs=proof.programs)
    if proof.holds:
        return Check(shown, code if proof.by_line else 0, programs=proof.programs)
    if proof.hidden:
        return Check(shown, proof.hidden, programs=proof.programs)
    return Check(shown, code, decided=False, programs=proof.programs)


def contains_check(command: str, more: Sequence[str] = ()) -> bool:
    """Return True if a check runs somewhere in the command line."""
    return bool(_Proof(command, 0, (), more).programs)


def decides(command: str, more: Sequence[str] = ()) -> bool:
    """Return True if the exit code of the command line is 0 only if every check in it ran and passed."""
    proof = _Proof(command, 0, (), more)
    return bool(proof.programs) and proof.holds


class _Flags(Value):
    """Options of the shell. ignored: errexit has no effect here, since another command tests the exit code."""

    errexit: bool = False
    pipefail: bool = False
    ignored: bool = False


class _Proof:
    """Determines what exit code 0 of a command line proves.

    programs: the checks that run somewhere in the line.
    holds: if the line exited with 0, all of them ran and exited with 0; or the codes of its only pipe prove that.
    by_line: the exit code of the line proves it, so another code is a failure.
    hidden: the exit code of a check that failed in the last pipe although the line did not fail; else 0.
    """

    def __init__(
        self,
        command: str,
        code: int | None,
        pipe: Sequence[int],
        more: Sequence[str],
        flags: _Flags | None = None,
        depth: int = 0,
    ) -> None:
        self.programs: tuple[str, ...] = ()
        self.holds, self.by_line, self.hidden = False, True, 0
        self._more = tuple(" ".join(m.split()) for m in more)
        self._depth = depth
        self._source = command.encode("utf-8", "replace")
        # Checks by the id of their command's node, and the nodes whose exit code is that of their check.
        self._seen: dict[int, tuple[str, ...]] = {}
        self._exact: set[int] = set()
        self._unsure = False
        # A sourced file may switch `set -e` off.
        self._sourced = False
        line = " ".join(command.split())
        named = any(name in line for name in _NAMES) and _CANDIDATE.search(line)
        if not named and not any(m in line for m in self._more):
            return
        if any(line == m for m in self._more):
            self.programs, self.holds = (line,), True
        elif len(plain := plain_parts(command, ())) == 1:
            self.programs, self.holds = self._checks(plain[0], line)
        else:
            self._parse(command, code, tuple(pipe), flags or _Flags())
        if not self.programs and line.startswith(self._more):
            self.programs, self.holds = (line,), False

    def _parse(self, command: str, code: int | None, pipe: tuple[int, ...], flags: _Flags) -> None:
        try:
            statements = parse_tree(command).get("Stmts") or []
            for node in nodes(statements):
                self._inspect(node)
            self.programs = tuple(dict.fromkeys(name for names in self._seen.values() for name in names))
            if not self.programs or self._unsure:
                return
            wanted = set(self._seen)
            if self._sequence(statements, flags, ()) >= wanted:
                self.holds = True
            elif code == 0 or (len(statements) == 1 and len(_pipeline(statements[0])) > 1):
                # The pipe at the end of the line is the last that ran.
                self.by_line = False
                self.holds = self._sequence(statements, flags, pipe) >= wanted
        except (ShellParseError, KeyError, TypeError, RecursionError):
            self.programs, self.holds = self.programs or tuple(self._guessed(command)), False

    def _guessed(self, command: str) -> Iterator[str]:
        """Yield the checks that probably run in a line that cannot be parsed."""
        for piece in re.split(r"[;&|()\n]+", command):
            if name := self._name(SimpleCommand(tuple(map(Word, piece.split()))), piece):
                yield name

    def _inspect(self, node: Node) -> None:
        """Record a node that is a check, or that makes every exit code uncertain."""
        if node.get("Type") in ("FuncDecl", "CoprocClause"):
            self._unsure = True
        if node.get("Type") != "CallExpr" or not node.get("Args"):
            return
        words = tuple(read_word(word, {}, self._source) for word in node["Args"])
        found, exact = self._checks(SimpleCommand(words), node_source(node, self._source))
        if found:
            self._seen[id(node)] = found
            if exact:
                self._exact.add(id(node))
        texts = [word.text for word in words]
        self._sourced = self._sourced or (texts[0] in ("source", ".") and not texts[-1].endswith("/activate"))
        self._unsure = (
            self._unsure
            or bool(words[0].why)
            or texts[0] in _UNSURE
            or (texts[0] == "exit" and not _fails(texts))
            or (texts[0] == "exec" and not found)
            or (texts[0] == "set" and any(w.why or not _STRICTER.fullmatch(w.text) for w in words[1:]))
        )

    def _checks(self, part: SimpleCommand, source: str = "") -> tuple[tuple[str, ...], bool]:
        """Return the checks that a command runs, and True if it exits with their code."""
        found: list[str] = []
        exact = True
        for inner in unwrap_part(part):
            command = inner.part if isinstance(inner, Script) else inner
            wrappers = [(os.path.basename(layer.words[0].text), layer.words[: layer.inner]) for layer in command.layers]
            # `sudo -b` does not wait.
            clear = all(w in _TRANSPARENT and not any(o.text == "-b" for o in words) for w, words in wrappers)
            if isinstance(inner, Script):
                names, holds = self._script(inner)
            else:
                name = self._name(inner, source or " ".join(inner.texts))
                names, holds = ((name,) if name else ()), True
            found += names
            exact = exact and (not names or (clear and holds))
        return tuple(found), exact

    def _script(self, script: Script) -> tuple[tuple[str, ...], bool]:
        """Return the checks of `bash -c TEXT`, and True if it exits with their code."""
        texts = script.part.texts
        if self._depth >= _MAX_DEPTH:
            return ("shell code",), False
        options = texts[1 : texts.index(script.text)] if script.text in texts else ()
        flags = _Flags(any(re.fullmatch(r"-[a-z]*e[a-z]*", o) for o in options), "pipefail" in options)
        inside = _Proof(script.text, 0, (), self._more, flags, self._depth + 1)
        return inside.programs, inside.holds and os.path.basename(texts[0]) in ("bash", "sh")

    def _name(self, part: SimpleCommand, source: str) -> str:
        """Return the name of the check that a command runs, without path and launchers; "" for none."""
        source, words = " ".join(source.split()), list(part.texts)
        if named := next((m for m in self._more if source.startswith(m) or " ".join(words).startswith(m)), ""):
            return named
        if not words or part.words[0].why or words[1:] == ["-V"] or any(_IDLE.fullmatch(w) for w in words[1:]):
            return ""
        program = _program(words[0])
        while program in _LAUNCHERS and words[1:]:
            by = _LAUNCHERS[program]
            if by and words[1] != by:
                return ""
            words = words[2:] if by else words[1:]
            if program == "coverage":
                words.insert(0, "python")
            while len(words) > 1 and words[0].startswith("-"):
                words.pop(0)
            if not words:
                return ""
            program = _program(words[0])
        if program in ("make", "gmake") and any(_IDLE_MAKE.fullmatch(w) for w in words[1:]):
            return ""
        wanted, rest = RUNNERS.get(program), " ".join(words[1:])
        if wanted is None or (wanted and not re.match(rf"(?:{wanted})(?:\s|$)", rest)):
            return ""
        if program == "python":
            module = re.search(r"-m (\w+)", rest)
            return module[1] if module else "manage.py"
        return program

    def _sequence(self, statements: Sequence[Node], flags: _Flags, pipe: tuple[int, ...]) -> set[int]:
        """Return the checks that passed if the last of these statements ended with 0."""
        passed: set[int] = set()
        for number, node in enumerate(statements):
            last = number == len(statements) - 1
            found = self._statement(node, flags, pipe if last else ())
            stops = flags.errexit and not flags.ignored and not self._sourced and _ends_the_shell(node)
            if last or stops or _or_exits(node, self._source):
                passed |= found
            flags = _set(node, flags, self._source)
        return passed

    def _statement(self, node: Node, flags: _Flags, pipe: tuple[int, ...] = ()) -> set[int]:
        """Return the checks that passed if this statement ended with 0. pipe: codes of the pipe that it ends with."""
        command = node.get("Cmd")
        if command is None or any(node.get(key) for key in ("Negated", "Background", "Coprocess", "Disown")):
            return set()
        match command["Type"]:
            case "CallExpr":
                return {id(command)} & self._exact
            case "BinaryCmd" if command["Op"] == "&&":
                before = self._statement(command["X"], flags.replace(ignored=True))
                return before | self._statement(command["Y"], _set(command["X"], flags, self._source), pipe)
            case "BinaryCmd" if command["Op"] == "||":
                failing = _always_fails(command["Y"], self._source)
                return self._statement(command["X"], flags.replace(ignored=True)) if failing else set()
            case "BinaryCmd":
                return self._pipe(_pipeline(node), flags, pipe)
            case "Block":
                return self._sequence(command.get("Stmts") or [], flags, ())
            case "Subshell":
                return self._sequence(command.get("Stmts") or [], flags, ())
            case "TimeClause" if command.get("Stmt"):
                return self._statement(command["Stmt"], flags, pipe)
        return set()

    def _pipe(self, parts: Sequence[Node], flags: _Flags, pipe: tuple[int, ...]) -> set[int]:
        codes = pipe if len(pipe) == len(parts) else ()
        passed: set[int] = set()
        for number, part in enumerate(parts):
            found = self._statement(part, flags)
            if codes and found and codes[number] not in (0, _SIGPIPE_EXIT_CODE):
                self.hidden = self.hidden or codes[number]
            if codes[number] == 0 if codes else flags.pipefail or number == len(parts) - 1:
                passed |= found
        return passed


def _program(word: str) -> str:
    return re.sub(r"^python[\d.]*$", "python", os.path.basename(word))


def _pipeline(node: Node) -> list[Node]:
    """Return the parts of a pipe; the statement itself if it is not a pipe."""
    command = node.get("Cmd") or {}
    if command.get("Type") == "TimeClause" and command.get("Stmt"):
        return _pipeline(command["Stmt"])
    if command.get("Type") == "BinaryCmd" and command["Op"] in ("|", "|&"):
        return [*_pipeline(command["X"]), *_pipeline(command["Y"])]
    return [node]


def _ends_the_shell(node: Node) -> bool:
    """Return True if `set -e` ends the shell when this statement fails."""
    command = node.get("Cmd") or {}
    return command.get("Type") in ("CallExpr", "Subshell") or len(_pipeline(node)) > 1


def _fails(words: Sequence[str]) -> bool:
    """Return True for `false`, and `exit` with a code other than 0."""
    if len(words) == 1:
        return words[0] == "false"
    return (
        len(words) == 2
        and words[0] == "exit"
        and re.fullmatch(r"\d{1,3}", words[1]) is not None
        and (0 < int(words[1]) < 256)
    )


def _always_fails(node: Node, source: bytes) -> bool:
    """Return True if a statement cannot end with 0: `exit 1`, `{ echo no; exit 1; }`."""
    command = node.get("Cmd") or {}
    if any(node.get(key) for key in ("Negated", "Background", "Coprocess", "Disown")):
        return False
    if command.get("Type") == "CallExpr":
        return _fails([read_word(word, {}, source).text for word in command.get("Args") or []])
    if command.get("Type") in ("Block", "Subshell"):
        inner = command.get("Stmts") or []
        return bool(inner) and _always_fails(inner[-1], source)
    return False


def _or_exits(node: Node, source: bytes) -> bool:
    """Return True for `X || exit 1` that really ends the shell."""
    command = node.get("Cmd") or {}
    if command.get("Type") != "BinaryCmd" or command["Op"] != "||" or node.get("Negated") or node.get("Background"):
        return False
    last = command["Y"]
    while (last.get("Cmd") or {}).get("Type") == "Block" and last["Cmd"].get("Stmts"):
        last = last["Cmd"]["Stmts"][-1]
    words = [read_word(word, {}, source).text for word in (last.get("Cmd") or {}).get("Args") or []]
    return words[:1] == ["exit"] and _always_fails(command["Y"], source)


def _set(node: Node, flags: _Flags, source: bytes) -> _Flags:
    """Return the options after a statement such as `set -e` or `set -euo pipefail`."""
    command = node.get("Cmd") or {}
    words: list[Word] = [read_word(word, {}, source) for word in command.get("Args") or []]
    if command.get("Type") != "CallExpr" or not words or words[0].text != "set":
        return flags
    on = True
    for word in words[1:]:
        if word.text[:1] in "-+":
            on = word.text[0] == "-"
            flags = flags.replace(errexit=on) if "e" in word.text else flags
        elif word.text in ("errexit", "pipefail"):
            flags = flags.replace(**{word.text: on})
    return flags
