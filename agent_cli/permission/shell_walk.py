"""From the syntax tree to parts: every simple command that may run, wherever it stands.

Lists, pipes, substitutions, subshells, loops, conditions, functions, here-documents and background jobs are all gone
through in the order bash would, with what is known of variables and directories. Whatever this file does not know by
name makes the whole command line unclear.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from agent_cli.permission.shell_scope import Scope
from agent_cli.permission.shell_values import Part, Redirect, Word
from agent_cli.permission.shell_words import Node, read_word, spelled

_MOST_PARTS = 400
_MOST_ITEMS = 50
_WRITES = {">": "write", ">|": "write", "&>": "write", "<>": "write", ">>": "append", "&>>": "append"}
_NOWHERE = ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin", "/dev/tty")
# Builtins after which no variable is known any more, and the directory neither.
_CHANGING = frozenset(
    "read mapfile readarray getopts let unset source . eval trap alias unalias shopt set enable hash pushd popd exec "
    "printf builtin command local declare typeset export readonly shift".split()
)
_MOVING = frozenset(("cd", "pushd", "popd"))
# Why a value is unknown although computing it did nothing.
_HARMLESS = ("the variable", "an unquoted", "the output of another")
_STRICTER = re.compile(r"-[eux]*o?|pipefail|errexit|nounset|xtrace")
_TESTS_OF_FILES = frozenset("! -e -f -d -r -w -x -s -L -h -p -S -b -c -g -u -k -O -G -N -z -n -t".split())
_TESTS_OF_TEXT = frozenset(("&&", "||", "==", "=", "!=", "=~", "<", ">", "-nt", "-ot", "-ef"))


class Walk:
    """One pass over a tree, collecting parts. `unclear` is set where something in it could not be followed."""

    def __init__(self, source: str) -> None:
        self._source = source.encode()
        self.parts: list[Part] = []
        self.unclear = ""

    def statements(self, nodes: list[Node] | None, scope: Scope) -> None:
        for node in nodes or []:
            self.statement(node, scope)
            scope.settle()

    def statement(self, node: Node, scope: Scope) -> None:
        """One statement with its redirections. A background job or coprocess runs in a shell of its own."""
        if node.get("Coprocess") or node.get("Disown"):
            self.unclear = self.unclear or "is a coprocess"
        inner = scope.copy() if node.get("Background") else scope
        redirects = tuple(self._redirects(node.get("Redirs") or [], inner))
        command = node.get("Cmd")
        if redirects and (command is None or command["Type"] != "CallExpr"):
            # A redirection of a group opens its file once, in the directory of the beginning.
            self._add(Part((), (), redirects, inner.cwds))
        if command is not None:
            self._command(command, redirects, inner)

    def _command(self, node: Node, redirects: tuple[Redirect, ...], scope: Scope) -> None:
        match node["Type"]:
            case "CallExpr":
                self._call(node, redirects, scope)
            case "BinaryCmd":
                self._binary(node, scope)
            case "Block":
                self.statements(node.get("Stmts"), scope)
            case "Subshell":
                self.statements(node.get("Stmts"), scope.copy())
            case "IfClause":
                self._if(node, scope)
            case "WhileClause":
                self._loop([*(node.get("Cond") or []), *(node.get("Do") or [])], scope)
            case "ForClause":
                self._for(node, scope)
            case "CaseClause":
                self._case(node, scope)
            case "TimeClause":
                if node.get("Stmt"):
                    self.statement(node["Stmt"], scope)
            case "FuncDecl":
                lost = scope.copy()
                lost.lose("it stands in a function")
                self.statement(node["Body"], lost)
                scope.lose("a function is defined in it")
            case "DeclClause":
                self._declare(node, scope)
            case "TestClause":
                self._test(node, scope)
            case kind:
                self._substitutions(node, scope)
                self._add(Part((Word(spelled(node, self._source), f"a {kind}"),), cwds=scope.cwds))
                scope.lose("it computes")

    def _call(self, node: Node, redirects: tuple[Redirect, ...], scope: Scope) -> None:
        words = tuple(self._word(w, scope) for w in node.get("Args") or [])
        assigned = [self._assignment(a, scope) for a in node.get("Assigns") or []]
        assigns = tuple(word for _, word in assigned)
        self._add(Part(words, assigns, redirects, scope.cwds, why=self._lost(scope, words)))
        if not words:
            for name, word in assigned:
                if word.why and not word.why.startswith(_HARMLESS):
                    self.unclear = self.unclear or f"contains {word.why}"
                value = None if word.why or "=" not in word.text else word.text.partition("=")[2]
                scope.assign(name, None if "+=" in word.text.partition("=")[0] + "=" else value)
        elif words[0].text in _MOVING:
            self._cd(words, scope)
        elif words[0].why or _changes(words):
            scope.lose(f"{words[0].text} comes before it")

    def _cd(self, words: tuple[Word, ...], scope: Scope) -> None:
        rest = [w for w in words[1:] if w.text not in ("-P", "-L", "--")]
        plain = words[0].text == "cd" and len(rest) == 1 and not rest[0].why and not rest[0].pattern
        scope.change_directory(rest[0].text if plain and not rest[0].text.startswith("-") else None)

    def _lost(self, scope: Scope, words: tuple[Word, ...]) -> str:
        # Only what changes which program a name means makes a literal command uncertain.
        return scope.lost if scope.lost and words and scope.lost.endswith("is set in it") else ""

    def _binary(self, node: Node, scope: Scope) -> None:
        if node["Op"] in ("|", "|&"):
            for side in ("X", "Y"):
                self.statement(node[side], scope.copy())
            return
        if node["Op"] == "||":
            self.statement(node["X"], scope)
            scope.settle()
            branch = scope.copy()
            self.statement(node["Y"], branch)
            scope.join(branch)
            return
        chain = [node["Y"]]
        while _is_chain(left := node["X"]):
            node = left["Cmd"]
            chain.append(node["Y"])
        self.statement(node["X"], scope)
        # What runs behind && runs where all before it succeeded.
        branch = scope.copy()
        for command in reversed(chain):
            branch.failed = ()
            self.statement(command, branch)
            scope.join(branch)

    def _if(self, node: Node, scope: Scope) -> None:
        self.statements(node.get("Cond"), scope)
        branch = scope.copy()
        self.statements(node.get("Then"), branch)
        if node.get("Else"):
            other = scope.copy()
            self._if(node["Else"], other)
            branch.join(other)
        scope.join(branch)

    def _loop(self, body: list[Node], scope: Scope) -> None:
        """A body that may run any number of times: what it changes is unknown from its beginning on."""
        self._expect(body, scope)
        branch = scope.copy()
        self.statements(body, branch)
        scope.join(branch)

    def _expect(self, body: Any, scope: Scope) -> None:
        """Forget what anything in a body may change."""
        for node in _nodes(body):
            if node.get("Type") == "FuncDecl":
                scope.lose("a function is defined in it")
            if node.get("Type") == "CallExpr" and node.get("Args"):
                words = tuple(read_word(w, {}, self._source) for w in node["Args"])
                if words[0].text in _MOVING:
                    scope.cwds = None
                elif words[0].why or _changes(words):
                    scope.lose(f"{words[0].text} comes before it")
        scope.forget(_assigned(body))

    def _for(self, node: Node, scope: Scope) -> None:
        loop, body = node["Loop"], node.get("Do") or []
        if loop["Type"] != "WordIter" or node.get("Select"):
            self._substitutions(loop, scope)
            self.unclear = self.unclear or "has a loop that computes"
            self._loop(body, scope)
            return
        name = loop["Name"]["Value"]
        items = [self._word(w, scope) for w in loop.get("Items") or []]
        known = items and not any(w.why or w.pattern for w in items) and len(items) <= _MOST_ITEMS
        for value in [w.text for w in items] if known else [None]:
            scope.assign(name, value)
            self._loop(body, scope)
        scope.forget([name])

    def _case(self, node: Node, scope: Scope) -> None:
        self._harmless_word(node["Word"], scope)
        # One item may run on into the next.
        self._expect(node.get("Items"), scope)
        start = scope.copy()
        for item in node.get("Items") or []:
            for pattern in item.get("Patterns") or []:
                self._harmless_word(pattern, scope)
            branch = start.copy()
            self.statements(item.get("Stmts"), branch)
            scope.join(branch)

    def _declare(self, node: Node, scope: Scope) -> None:
        """export, declare, local, readonly, typeset: state of the shell, which no reading program needs."""
        words = [Word(node["Variant"]["Value"])]
        for argument in node.get("Args") or []:
            words.append(self._assignment(argument, scope)[1])
        self._add(Part(tuple(words), cwds=scope.cwds))
        simple = words[0].text == "export"
        for word in words[1:]:
            name, equals, value = word.text.partition("=")
            if not simple or word.why or not name.isidentifier():
                scope.lose(f"{words[0].text} comes before it")
            elif equals:
                scope.assign(name, value)

    def _test(self, node: Node, scope: Scope) -> None:
        """[[ ... ]]: reads, unless it computes."""
        why = ""
        for inner in _nodes(node["X"]):
            kind, op = inner.get("Type"), inner.get("Op")
            known = _TESTS_OF_FILES if kind == "UnaryTest" else _TESTS_OF_TEXT
            if kind in ("UnaryTest", "BinaryTest") and op not in known:
                why = f"a test by {op}"
            if kind == "Word" and (word := self._word(inner, scope)).why and not word.why.startswith(_HARMLESS):
                why = why or word.why
        if why:
            self._add(Part((Word("[["), Word(spelled(node, self._source), why)), cwds=scope.cwds))

    def _assignment(self, node: Node, scope: Scope) -> tuple[str, Word]:
        """The name and the word NAME=value of an assignment, or a word of a declaration."""
        name = (node.get("Name") or {}).get("Value", "")
        if node.get("Index") or node.get("Array"):
            self._substitutions(node, scope)
            return name, Word(spelled(node, self._source), "an array")
        if node.get("Naked"):
            word = self._word(node["Value"], scope) if node.get("Value") else Word(name)
            return name or word.text, word
        word = Word("")
        if node.get("Value"):
            self._substitutions(node["Value"], scope)
            word = read_word(node["Value"], scope.variables, self._source, assigned=True)
        return name, Word(f"{name}{'+' if node.get('Append') else ''}={word.text}", word.why)

    def _word(self, node: Node, scope: Scope) -> Word:
        self._substitutions(node, scope)
        return read_word(node, scope.variables, self._source)

    def _harmless_word(self, node: Node, scope: Scope) -> None:
        """A word that is only compared: a plain variable in it does no harm, any other expansion might."""
        word = self._word(node, scope)
        if word.why and not word.why.startswith(_HARMLESS):
            self.unclear = self.unclear or f"contains {word.why}"

    def _redirects(self, nodes: list[Node], scope: Scope) -> Iterator[Redirect]:
        for node in nodes:
            op, number = node["Op"], (node.get("N") or {}).get("Value", "")
            if number and not (number.isdecimal() and len(number) == 1):
                self.unclear = self.unclear or "opens an unusual file descriptor"
            if node.get("Hdoc"):
                self._substitutions(node["Hdoc"], scope)
                self._check_document(node["Hdoc"])
                continue
            word = self._word(node["Word"], scope)
            if op == "<<<":
                if word.why:
                    self._harmless_word(node["Word"], scope)
                continue
            if op in (">&", "<&") and (word.text.rstrip("-").isdecimal() or word.text == "-") and not word.why:
                continue
            if op == "<&" or (op == ">&" and number):
                self.unclear = self.unclear or "opens an unusual file descriptor"
            why = word.why or ("a pattern" if word.pattern else "")
            if not why and word.text in _NOWHERE:
                continue
            if not why and word.text.startswith(("/dev/tcp/", "/dev/udp/")):
                yield Redirect("network", word.text)
            elif not why and word.text == "/dev/fd/63":
                continue
            else:
                yield Redirect(_WRITES.get(op, "write" if op == ">&" else "read"), word.text, why)  # type: ignore[arg-type]

    def _check_document(self, node: Node) -> None:
        """A here-document is only text, unless an expansion in it computes."""
        for part in node.get("Parts") or []:
            if part["Type"] in ("ParamExp", "ArithmExp"):
                word = read_word({**node, "Parts": [part]}, {}, self._source)
                if word.why and not word.why.startswith(_HARMLESS):
                    self.unclear = self.unclear or f"contains {word.why}"

    def _substitutions(self, node: Any, scope: Scope) -> None:
        """The commands inside a word, wherever in it; each runs in a shell of its own."""
        for inner in _nodes(node, stop=("CmdSubst", "ProcSubst")):
            if inner.get("Type") in ("CmdSubst", "ProcSubst"):
                if inner.get("TempFile") or inner.get("ReplyVar"):
                    self.unclear = self.unclear or "is not bash"
                self.statements(inner.get("Stmts"), scope.copy())

    def _add(self, part: Part) -> None:
        if len(self.parts) >= _MOST_PARTS:
            self.unclear = self.unclear or "runs too many commands to look at each"
            return
        if part not in self.parts:
            self.parts.append(part)


def _changes(words: tuple[Word, ...]) -> bool:
    """Whether a command is a builtin that changes variables or the shell itself, in more than its strictness."""
    name, rest = words[0].text, words[1:]
    first = rest[0].text if rest else ""
    if name == "set":
        return any(w.why or not _STRICTER.fullmatch(w.text) for w in rest)
    if name == "command":
        return first not in ("-v", "-V")
    if name == "printf":
        return bool(rest) and (bool(rest[0].why) or first.startswith("-"))
    return name in _CHANGING


def _is_chain(node: Node) -> bool:
    """Whether a statement is nothing but `a && b`."""
    command = node.get("Cmd") or {}
    plain = not (node.get("Redirs") or node.get("Negated") or node.get("Background"))
    return plain and command.get("Type") == "BinaryCmd" and command.get("Op") == "&&"


def _nodes(tree: Any, stop: tuple[str, ...] = ()) -> Iterator[Node]:
    """All nodes of a tree, from the top; below a node of a type in `stop` it is not gone."""
    if isinstance(tree, dict):
        yield tree
        if tree.get("Type") in stop:
            return
        for child in tree.values():
            if isinstance(child, (dict, list)):
                yield from _nodes(child, stop)
    elif isinstance(tree, list):
        for child in tree:
            yield from _nodes(child, stop)


def _assigned(body: list[Node]) -> set[str]:
    """The names of variables that anything in a body may set."""
    found = set()
    for node in _nodes(body):
        if "Assigns" in node or node.get("Type") == "DeclClause":
            for assignment in [*(node.get("Assigns") or []), *(node.get("Args") or [])]:
                if name := (assignment.get("Name") or {}).get("Value"):
                    found.add(name)
        if node.get("Type") == "WordIter":
            found.add(node["Name"]["Value"])
    return found
