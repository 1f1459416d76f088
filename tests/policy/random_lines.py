"""Command lines by chance: a grammar of bash with all that hides commands in it, and changes to its text.

No line loops without end, and none names a path outside of the folder that it runs in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random

from tests.policy import random_line_parts as words


class Grammar:
    """Draws lines from a source of chance."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._depth = 0
        self._in_function = self._tame = False
        self._documents: list[str] = []

    def line(self) -> str:
        """One command line, of one or more commands. Half of them are tame: most of what is in those is known."""
        self._depth, self._in_function, self._tame = 0, False, self._likely(0.5)
        if self._likely(0.1):
            return "ls " + "".join(self._chance.choices(words.SOUP, k=self._chance.randint(2, 12))) + "wipe q"
        text = self._list(self._chance.choice((1, 1, 2, 2, 3)))
        return self._changed(text) if self._likely(0.3) else text

    def _likely(self, probability: float) -> bool:
        return self._chance.random() < probability

    def _some(self, tame: Sequence[str], wild: Sequence[str]) -> str:
        return self._chance.choice(tame if self._tame else wild)

    def _few(self, most: int, form: Callable[[], str]) -> list[str]:
        return [form() for _ in range(self._chance.randint(0, most))]

    def _by_weight(self, forms: Mapping[Callable[[], str], float]) -> str:
        return self._chance.choices(list(forms), list(forms.values()))[0]()

    def _list(self, size: int) -> str:
        text = self._end(self._statement())
        for _ in range(size - 1):
            # A comment or a here-document ended with its line.
            join = "" if text.endswith("\n") else self._chance.choice(words.JOINS)
            text += join + self._end(self._statement())
        return text

    def _end(self, statement: str) -> str:
        """A statement with the bodies of its here-documents, and at times a comment."""
        bodies, self._documents = "".join(f"\n{d}" for d in self._documents), []
        if bodies:
            return f"{statement}{bodies}\n"
        return f"{statement} # {self._chance.choice(words.COMMENTS)}\n" if self._likely(0.05) else statement

    def _statement(self) -> str:
        self._depth += 1
        try:
            if self._depth > 4:
                return self._simple()
            return self._by_weight({self._simple: 12, self._compound: 4, self._assigning: 2, self._function: 1})
        finally:
            self._depth -= 1

    def _inner(self, size: int = 0) -> str:
        """A list for inside of something else; its here-documents end in it."""
        outer, self._documents = self._documents, []
        text = self._list(size or self._chance.choice((1, 1, 1, 2)))
        self._documents = outer
        return text

    def _simple(self) -> str:
        before = self._few(1, self._assignment) if self._likely(0.15) else []
        found = [*before, self._command(), *self._few(2, self._argument)]
        if self._likely(0.25):
            found.insert(self._chance.randint(len(before), len(found)), self._redirect())
        return self._chance.choice(words.BLANKS).join(found)

    def _command(self) -> str:
        return self._by_weight(
            {
                self._program: 10,
                lambda: f"{self._some(words.TAME_WRAPPERS, words.WRAPPERS)} {self._program()}": 3,
                self._shell_code: 2,
                lambda: self._quoted(self._chance.choice(words.READERS + words.OTHERS)): 3,
                lambda: f"{self._some(words.TAME_BUILTINS, words.BUILTINS)} {self._program()}": 2,
                lambda: self._chance.choice(words.DYNAMIC): 0 if self._tame else 1,
            }
        )

    def _program(self) -> str:
        name = self._chance.choice(words.READERS + words.OTHERS + words.SPECIAL)
        return name if self._likely(0.8) else self._quoted(name)

    def _quoted(self, text: str) -> str:
        at = self._chance.randint(1, len(text))
        head, tail = text[:at], text[at:]
        forms = (
            f"'{text}'", f'"{text}"', f"{head}''{tail}", f'{head}""{tail}', f"{head[:-1]}\\{head[-1]}{tail}",
            f"'{head}'{tail}", f"{head}\\\n{tail}", f"$'{text}'", f'"{head}"\'{tail}\'',
            f"$'{head[:-1]}\\x{ord(head[-1]):x}{tail}'",
        )  # fmt: skip
        return self._chance.choice(forms)

    def _shell_code(self) -> str:
        if self._depth > 3:
            return "true"
        inner = self._inner().rstrip("\n")
        form = self._some(words.TAME_SHELL_CODE, words.SHELL_CODE)
        single = "'" + inner.replace("'", "'\\''") + "'"
        return form.replace("§q", single).replace("§d", f'"{inner}"').replace("§a", inner)

    def _argument(self) -> str:
        return self._by_weight(
            {
                lambda: self._chance.choice(words.FILES): 6,
                lambda: self._quoted(self._chance.choice(words.FILES)): 2,
                lambda: self._chance.choice(words.KNOWN_VARIABLES): 1,
                self._substitution: 2 if self._depth < 4 and not self._tame else 0,
                self._variable: 0 if self._tame else 3,
                lambda: self._chance.choice(words.ODD_ARGUMENTS): 1 if self._tame else 3,
            }
        )

    def _variable(self) -> str:
        return self._chance.choice(words.VARIABLES).replace("§n", self._chance.choice(words.NAMES))

    def _substitution(self) -> str:
        return self._chance.choice(words.SUBSTITUTIONS).replace("§a", self._inner())

    def _redirect(self) -> str:
        kind = self._chance.random()
        if kind < 0.25 and not self._documents:
            return self._document()
        if kind < 0.35:
            return f"<<< {self._argument()}"
        if kind < 0.65:
            return self._chance.choice(words.NUMBERED_REDIRECTS)
        if self._tame:
            return self._chance.choice(words.TAME_REDIRECTS)
        blank = self._chance.choice(("", " "))
        return f"{self._chance.choice(words.OPERATORS)}{blank}{self._chance.choice(words.TARGETS)}"

    def _document(self) -> str:
        end, closing = self._chance.choice(list(words.ENDS.items()))
        dash = self._chance.choice(("", "-"))
        body = "".join(f"{line}\n" for line in self._few(3, lambda: self._chance.choice(words.DOCUMENT_LINES)))
        tab = "\t" if dash and self._likely(0.5) else ""
        self._documents.append(f"{body}{tab}{closing}")
        return f"<<{dash}{end}"

    def _assignment(self) -> str:
        if self._tame:
            return self._chance.choice(words.TAME_ASSIGNMENTS)
        name = self._chance.choice((*words.NAMES, *words.NAMES, "PATH", "X", "IFS", "a[0]", "_"))
        if name == "PATH":
            return "PATH=$PATH" if self._likely(0.5) else "PATH=sub:$PATH"
        return f"{name}{self._chance.choice(('=', '=', '=', '+='))}{self._chance.choice(words.VALUES)}"

    def _assigning(self) -> str:
        return " ".join([self._assignment(), *self._few(1, self._assignment)]) + "; " + self._simple()

    def _function(self) -> str:
        """A function, which never calls one: that could go on for ever."""
        if self._in_function:
            return self._simple()
        self._in_function = True
        outer, self._documents = self._documents, []
        body = self._end(self._simple())
        self._documents, self._in_function = outer, False
        for name in (*words.READERS, "f"):
            body = body.replace(name, "build")
        form = self._chance.choice(words.FUNCTIONS)
        return form.replace("§n", self._chance.choice((*words.READERS, "f"))).replace("§a", body)

    def _compound(self) -> str:
        form = self._chance.choice(words.COMPOUNDS).replace("§n", self._chance.choice(words.NAMES))
        for mark in ("§a", "§b", "§c"):
            text = self._inner(1)
            form = form.replace(mark, text if "<<" in text else text.rstrip("\n"))
        return form + self._chance.choice(words.AFTER_COMPOUNDS)

    def _changed(self, text: str) -> str:
        """The text with a few characters taken out, put in or doubled."""
        for _ in range(self._chance.randint(1, 3)):
            at = self._chance.randint(0, len(text))
            special = [n for n, char in enumerate(text, 1) if char in "$`\"'\\(){}<>&|;#=[]\n"]
            if special and self._likely(0.5):
                at = self._chance.choice(special)
            kind = self._chance.random()
            if kind < 0.3:
                text = text[: at - 1] + text[at:] if at else text
            elif kind < 0.6:
                text = text[:at] + self._chance.choice(words.PIECES) + text[at:]
            elif kind < 0.8:
                text = text[:at] + self._chance.choice(words.JOINERS) + text[at:]
            else:
                end = min(len(text), at + self._chance.randint(1, 6))
                text = text[:at] + text[at:end] + text[at:]
        return text
