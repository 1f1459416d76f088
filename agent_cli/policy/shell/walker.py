"""Walk the syntax tree and collect every simple command that may run, wherever it is.

Lists, pipes, substitutions, subshells, loops, conditions, functions, here-documents and background jobs are visited in
the order of execution, with known variables and directories. Any construct not handled by name here makes the whole
command line unclear.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from agent_cli.policy.shell.parser import assigned, is_chain, nodes
from agent_cli.policy.shell.possible import possible_values
from agent_cli.policy.shell.words import (
    MEANINGFUL,
    STRICTER,
    TESTS_OF_FILES,
    Node,
    Redirect,
    Scope,
    SimpleCommand,
    Word,
    node_source,
    read_word,
    sets_variable,
)
from agent_tools.lazy import lazy_pattern

MAX_PARTS = 400
_MAX_STEPS = 2_000
_MAX_ITEMS = 50
_KINDS = {
    ">": "write", ">|": "write", "&>": "write", "<>": "write", ">&": "write", ">>": "append", "&>>": "append",
    "<": "read",
}  # fmt: skip
_COPY = lazy_pattern(r"[1-9]-?")
# /dev/stdin is not included: opening it for writing reopens the file that is read from.
_NOWHERE = ("/dev/null", "/dev/stdout", "/dev/stderr")
# Builtins after which neither variables nor the directory are known.
_CHANGING = frozenset(
    "read mapfile readarray getopts let unset source . eval trap alias unalias shopt set enable hash pushd popd exec "
    "printf builtin command local declare typeset export readonly shift wait".split()
)
# Builtins that only print or compare a number, whatever it is.
_NUMBERS_GO = frozenset("echo printf test [ : true false exit return seq expr".split())
_MOVING = frozenset(("cd", "pushd", "popd"))
# Reasons for unknown values whose computation has no effects.
_HARMLESS = ("the variable", "an unquoted", "the output of another")
_QUOTES = lazy_pattern(r"['\"\\`\n]|<<[^ ]")
_TESTS_OF_WORDS = frozenset("! -z -n -t".split())
_TESTS_OF_TEXT = frozenset(("&&", "||", "==", "=", "!=", "=~", "<", ">", "-nt", "-ot", "-ef"))


class Walk:
    """One pass over a tree that collects parts. `unclear` is set if something could not be followed.

    entered: a directory that is there: a `cd` to it succeeds before any other command has run.
    """

    def __init__(self, source: str, entered: str = "") -> None:
        self._entered = entered
        self._source = source.encode("utf-8", "replace")
        self.parts: list[SimpleCommand] = []
        self.unclear = ""
        self._seen: set[SimpleCommand] = set()
        # Depth of pipes, and the number of parts after which one is given the output of the last.
        self._pipes, self._fed = 0, -1
        self._steps = 0
        self._rounds = 1

    def statements(self, nodes: list[Node] | None, scope: Scope) -> None:
        for node in nodes or []:
            self.statement(node, scope)
            scope.settle()

    def statement(self, node: Node, scope: Scope) -> None:
        """Walk a statement with its redirections. A background job or coprocess runs in a subshell."""
        self._steps += 1
        if self._steps > _MAX_STEPS:
            self.unclear = self.unclear or "runs too many commands to look at each"
            return
        if node.get("Coprocess") or node.get("Disown"):
            self.unclear = self.unclear or "is a coprocess"
        inner = scope.copy() if node.get("Background") else scope
        redirects = tuple(self._redirects(node.get("Redirs") or [], inner))
        command = node.get("Cmd")
        if redirects and (command is None or command["Type"] != "CallExpr"):
            # A redirection of a group opens its file once, in the directory at its start.
            self._add(SimpleCommand((), (), redirects, inner.cwds))
        if command is not None:
            self._command(command, redirects, inner)
        if node.get("Negated"):
            # A command after && runs only if this one succeeded.
            inner.settle()

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
                lost.lose("it is in a function")
                self.statement(node["Body"], lost)
                scope.lose("a function is defined in it")
            case "CoprocClause":
                self.unclear = self.unclear or "is a coprocess"
                self.statement(node["Stmt"], scope.copy())
                scope.lose("a coprocess comes before it")
            case "DeclClause":
                self._declare(node, scope)
            case "TestClause":
                self._test(node, scope)
            case kind:
                self._substitutions(node, scope)
                self._add(SimpleCommand((Word(node_source(node, self._source), f"a {kind}"),), cwds=scope.cwds))
                scope.lose("it computes")

    def _call(self, node: Node, redirects: tuple[Redirect, ...], scope: Scope) -> None:
        cwds, renamed, fed = scope.cwds, scope.renamed, self._fed
        self._fed = -1
        words = tuple(self._word(w, scope) for w in node.get("Args") or [])
        if words and words[0].text == "--":
            # After `time`, bash treats it as the end of options, the parser as a program.
            self.unclear = self.unclear or "has an unusual form"
        if words and words[0].text not in _NUMBERS_GO:
            words = tuple(w.replace(why=w.why or "a number that is not known") if w.number else w for w in words)
        # Each assignment sees the previous ones; before a command they end with it.
        inner = scope.copy() if words else scope
        assigns = []
        for assignment in node.get("Assigns") or []:
            name, word = self._assignment(assignment, inner)
            if word.why and not word.why.startswith(_HARMLESS):
                self.unclear = self.unclear or f"contains {word.why}"
            value = None if word.why or word.number or "=" not in word.text else word.text.partition("=")[2]
            inner.assign(name, None if assignment.get("Append") else value, word.possible)
            assigns.append(word)
        # Only a change of what program names mean makes a literal command uncertain.
        # Commands in its words come before it; then it is not known what it is given.
        piped = fed if fed == len(self.parts) else 0
        self._add(SimpleCommand(words, tuple(assigns), redirects, cwds, why=renamed if words else "", piped=piped))
        if words and words[0].text in _MOVING:
            self._cd(words, scope, known=not assigns)
        elif words:
            self._builtin(words, scope)

    def _builtin(self, words: tuple[Word, ...], scope: Scope) -> None:
        """Update the scope after a command that may be a builtin which changes the shell."""
        if words[0].why or _changes(words):
            for name in (w.text.partition("=")[0].rstrip("+") for w in words[1:]):
                if MEANINGFUL.fullmatch(name):
                    scope.assign(name, None)
            scope.lose(f"{words[0].text} comes before it")
        if words[0].text == "set" and _enables_keywords(words[1:]):
            self.unclear = self.unclear or "makes assignments of later arguments (set -k)"

    def _cd(self, words: tuple[Word, ...], scope: Scope, *, known: bool) -> None:
        rest = [w for w in words[1:] if w.text not in ("-L", "--")]
        plain = known and words[0].text == "cd" and len(rest) == 1 and not rest[0].why and not rest[0].pattern
        scope.change_directory(rest[0].text if plain and not rest[0].text.startswith("-") else None)
        if plain and rest[0].text == self._entered and len(self.parts) == 1:
            scope.failed = ()

    def _binary(self, node: Node, scope: Scope) -> None:
        if node["Op"] in ("|", "|&"):
            self._pipes += 1
            self.statement(node["X"], scope.copy())
            feeds = node["Op"] == "|" and _feeds(node["X"], node["Y"])
            self._fed = len(self.parts) if feeds else -1
            self.statement(node["Y"], scope.copy())
            self._pipes -= 1
            return
        if node["Op"] == "||":
            self.statement(node["X"], scope)
            scope.settle()
            branch = scope.copy()
            self.statement(node["Y"], branch)
            scope.join(branch)
            return
        chain = [node["Y"]]
        while is_chain(left := node["X"]):
            node = left["Cmd"]
            chain.append(node["Y"])
        self.statement(node["X"], scope)
        # A command after && runs where all before it succeeded.
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
        """Walk a body that may run any number of times: what it changes is unknown from its start."""
        self._forget_changes(body, scope)
        branch = scope.copy()
        self.statements(body, branch)
        scope.join(branch)

    def _forget_changes(self, body: Any, scope: Scope) -> None:
        """Forget everything a body may change."""
        for node in nodes(body):
            if node.get("Type") == "FuncDecl":
                scope.lose("a function is defined in it")
            if node.get("Type") == "CallExpr" and node.get("Args"):
                words = tuple(read_word(w, {}, self._source) for w in node["Args"])
                if words[0].text in _MOVING:
                    scope.cwds = None
                else:
                    self._builtin(words, scope)
        scope.forget(assigned(body))

    def _for(self, node: Node, scope: Scope) -> None:
        loop, body = node["Loop"], node.get("Do") or []
        if loop["Type"] != "WordIter" or node.get("Select"):
            self._substitutions(loop, scope)
            self.unclear = self.unclear or "has a loop that computes"
            self._loop(body, scope)
            return
        name = loop["Name"]["Value"]
        items = [self._harmless_word(w, scope) for w in loop.get("Items") or []]
        known = items and not any(w.why or w.number for w in items)
        self._add(SimpleCommand((), (Word(f"{name}="),), cwds=scope.cwds))
        before = self._rounds
        self._rounds *= len(items)
        for item in items if known and self._rounds <= _MAX_ITEMS else [None]:
            if item is not None and item.pattern:
                scope.assign_match(name, item.text)
            else:
                scope.assign(name, item.text if item is not None else None)
            self._loop(body, scope)
        self._rounds = before
        scope.forget([name])

    def _case(self, node: Node, scope: Scope) -> None:
        self._harmless_word(node["Word"], scope)
        # One item may fall through to the next.
        self._forget_changes(node.get("Items"), scope)
        start = scope.copy()
        for item in node.get("Items") or []:
            for pattern in item.get("Patterns") or []:
                self._harmless_word(pattern, scope)
            branch = start.copy()
            self.statements(item.get("Stmts"), branch)
            scope.join(branch)

    def _declare(self, node: Node, scope: Scope) -> None:
        """Walk export, declare, local, readonly, typeset: shell state that read-only programs do not need."""
        variant, cwds = Word(node["Variant"]["Value"]), scope.cwds
        words = [variant]
        for argument in node.get("Args") or []:
            word = self._assignment(argument, scope)[1]
            words.append(word)
            name, equals, value = word.text.partition("=")
            if variant.text != "export" or word.why or not name.isidentifier():
                self._builtin((variant, word), scope)
            elif equals:
                scope.assign(name, None if word.number else value)
        self._add(SimpleCommand(tuple(words), cwds=cwds))

    def _test(self, node: Node, scope: Scope) -> None:
        """Walk [[ ... ]], which only reads unless it computes."""
        why = ""
        for inner in nodes(node["X"]):
            kind, op = inner.get("Type"), inner.get("Op")
            known = _TESTS_OF_WORDS if kind == "UnaryTest" else _TESTS_OF_TEXT
            if kind == "UnaryTest" and op in TESTS_OF_FILES:
                self._add(SimpleCommand((Word("test"), Word(op), self._word(inner["X"], scope)), cwds=scope.cwds))
            elif kind in ("UnaryTest", "BinaryTest") and op not in known:
                why = f"a test by {op}"
            if kind == "Word" and (word := self._word(inner, scope)).why and not word.why.startswith(_HARMLESS):
                why = why or word.why
        if why:
            self._add(SimpleCommand((Word("[["), Word(node_source(node, self._source), why)), cwds=scope.cwds))

    def _assignment(self, node: Node, scope: Scope) -> tuple[str, Word]:
        """Return the name and the word NAME=value of an assignment, or a word of a declaration."""
        name = (node.get("Name") or {}).get("Value", "")
        if node.get("Index") or node.get("Array"):
            self._substitutions(node, scope)
            return name, Word(node_source(node, self._source), "an array")
        if node.get("Naked"):
            word = self._word(node["Value"], scope) if node.get("Value") else Word(name)
            return name or word.text, word
        word = Word("")
        if node.get("Value"):
            self._substitutions(node["Value"], scope)
            word = self._read(node["Value"], scope, assigned=True)
        return name, word.replace(text=f"{name}{'+' if node.get('Append') else ''}={word.text}")

    def _word(self, node: Node, scope: Scope) -> Word:
        self._substitutions(node, scope)
        return self._read(node, scope)

    def _read(self, node: Node, scope: Scope, *, assigned: bool = False) -> Word:
        globs = {} if assigned else {n: g for n, g in scope.globs.items() if _names(node, n)}
        # In quotes a glob's match is one word, which the glob stands for; outside of them it may become several.
        word = read_word(node, {**scope.variables, **globs}, self._source, assigned=assigned)
        if word.why:
            return word.replace(possible=possible_values(node, scope))
        if globs:
            word = word.replace(pattern=True)
        if scope.lost and any(n.get("Type") == "CmdSubst" for n in nodes(node)):
            # Its text came from `cat`, which may be another command by now.
            return Word(node_source(node, self._source), "the output of another command")
        return word

    def _harmless_word(self, node: Node, scope: Scope) -> Word:
        """Walk a word that is not passed to a program: plain variables in it are harmless, other expansions not."""
        word = self._word(node, scope)
        if word.why and not word.why.startswith(_HARMLESS):
            self.unclear = self.unclear or f"contains {word.why}"
        return word

    def _redirects(self, redirects: list[Node], scope: Scope) -> Iterator[Redirect]:
        for node in redirects:
            op, number = node["Op"], (node.get("N") or {}).get("Value", "")
            # A file opened for reading on a descriptor other than 0 could be reopened by number, for writing.
            if len(number) > 1 or (op == "<" and number not in ("", "0")):
                self.unclear = self.unclear or "opens an unusual file descriptor"
            if node.get("Hdoc"):
                self._substitutions(node["Hdoc"], scope)
                self._check_document(node["Hdoc"])
                if any(inner.get("Hdoc") for inner in nodes(node["Hdoc"])):
                    # The delimiter of the inner one may end the outer one.
                    self.unclear = self.unclear or "has a here-document in a here-document"
                # Inside $(...) bash forgets that an empty delimiter was quoted, and expands the document.
                if not re.fullmatch(r"\w[\w.-]*", read_word(node["Word"], {}, self._source).text):
                    self.unclear = self.unclear or "has an unusual here-document"
                continue
            word = self._word(node["Word"], scope)
            if op == "<<<":
                if word.why:
                    self._harmless_word(node["Word"], scope)
                continue
            why = word.why or ("a pattern" if word.pattern else "a number" if word.number else "")
            if not why and ((op in (">&", "<&") and word.text == "-") or (op == ">&" and _COPY.fullmatch(word.text))):
                continue
            if op == "<&" or (op == ">&" and (number or word.text[:1].isdecimal() or word.text[:1] == "-")):
                self.unclear = self.unclear or "opens an unusual file descriptor"
            kind = _KINDS.get(op)
            if kind is None:
                self.unclear = self.unclear or "has an unusual redirection"
            elif not why and (word.text in (*_NOWHERE, "/dev/fd/63") or (op == "<" and word.text == "/dev/stdin")):
                continue
            elif not why and word.text.startswith(("/dev/tcp/", "/dev/udp/")):
                yield Redirect("network", word.text)
            elif kind != "read" and re.match(r"/dev/|/proc/", word.text):
                yield Redirect("write", word.text, why or "a device")
            else:
                if op == "<>":
                    yield Redirect("read", word.text, why)
                yield Redirect(kind, word.text, why)  # type: ignore[arg-type]

    def _check_document(self, node: Node) -> None:
        """Check a here-document, which is only text unless an expansion in it computes."""
        for part in node.get("Parts") or []:
            if part["Type"] in ("ParamExp", "ArithmExp"):
                word = read_word({**node, "Parts": [part]}, {}, self._source)
                if word.why and not word.why.startswith(_HARMLESS):
                    self.unclear = self.unclear or f"contains {word.why}"

    def _substitutions(self, node: Any, scope: Scope) -> None:
        """Walk the commands inside a word, at any depth; each runs in a subshell."""
        for inner in nodes(node, stop=("CmdSubst", "ProcSubst")):
            if inner.get("Type") in ("CmdSubst", "ProcSubst"):
                if inner.get("TempFile") or inner.get("ReplyVar"):
                    self.unclear = self.unclear or "is not bash"
                self.statements(inner.get("Stmts"), scope.copy())
            elif inner.get("Type") in ("ArithmExp", "ArithmCmd") and _QUOTES.search(node_source(inner, self._source)):
                # If the parentheses do not balance, bash treats the text as commands in a subshell.
                self.unclear = self.unclear or "has quotes or lines in arithmetic"

    def _add(self, part: SimpleCommand) -> None:
        if len(self.parts) >= MAX_PARTS:
            self.unclear = self.unclear or "runs too many commands to look at each"
        elif self._pipes or part not in self._seen:
            self._seen.add(part)
            self.parts.append(part)


def _is_call(statement: Node) -> bool:
    return (statement.get("Cmd") or {}).get("Type") == "CallExpr"


def _feeds(source: Node, target: Node) -> bool:
    """Return True if the input of a simple command is all that the one before it in a pipe prints."""
    before = source.get("Cmd") or {}
    if before.get("Type") == "BinaryCmd" and before["Op"] == "|":
        source = before["Y"]
    redirected = any(r["Op"].startswith("<") for r in target.get("Redirs") or [])
    mixed = any(">&" in r["Op"] or "&>" in r["Op"] for r in source.get("Redirs") or [])
    return _is_call(source) and _is_call(target) and not redirected and not mixed


def _names(node: Node, name: str) -> bool:
    """Return True if a word contains a variable."""
    return any(n.get("Type") == "ParamExp" and (n.get("Param") or {}).get("Value") == name for n in nodes(node))


def _enables_keywords(options: tuple[Word, ...]) -> bool:
    """Return True if arguments of `set` turn on -k, after which `program NAME=value` no longer passes that argument."""
    for word in options:
        if word.text in ("--", "-") and not word.why:
            return False
        if word.why or word.text == "keyword" or re.fullmatch(r"-\w*k\w*", word.text):
            return True
    return False


def _changes(words: tuple[Word, ...]) -> bool:
    """Return True if a command is a builtin that changes variables or the shell, beyond making it stricter."""
    name, rest = words[0].text, words[1:]
    first = rest[0].text if rest else ""
    if name == "set":
        return any(w.why or not STRICTER.fullmatch(w.text) for w in rest)
    if name == "command":
        return first not in ("-v", "-V")
    if name == "wait":
        return any(w.why or w.text.startswith("-p") for w in rest)
    if name == "printf":
        odd = bool(rest) and (bool(rest[0].why) or rest[0].pattern or first.startswith("-"))
        return odd or sets_variable([w.text for w in rest])
    return name in _CHANGING
