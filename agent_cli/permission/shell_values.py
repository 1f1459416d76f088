"""What a command line would do, as values: simple commands with their words, redirections and where they run."""

from __future__ import annotations

import re
from typing import Literal

from agent_tools.values import Value


class Word(Value):
    """One word after quote removal. `why`: what makes its value unknown; `text` is then as it was written.

    pattern: it has an unquoted * ? or [, so file names may take its place. number: some number in it is not known, and
    stands as 0.
    """

    text: str
    why: str = ""
    pattern: bool = False
    number: bool = False


class Redirect(Value):
    """A redirection to or from a file. target: as after quote removal; `why` says what makes it unknown."""

    kind: Literal["read", "write", "append", "network"]
    target: str
    why: str = ""


class Layer(Value):
    """A command that runs another: `timeout 5 make` around `make`.

    kind: "clear" adds nothing by itself (timeout, env, nohup). "script" is a text of shell code that was analysed
    (bash -c, eval). "own" changes what the inner command can do or is given, and needs a rule of its own (sudo, xargs,
    find -exec). inner: the index in `words` where the inner command begins; the number of words for a script.
    """

    words: tuple[Word, ...]
    kind: Literal["clear", "script", "own"]
    inner: int


class Part(Value):
    """One simple command of a command line.

    assigns: variables set before it, NAME=value. why: what makes the command unknown, beside its words. cwds: the
    directories it may run in; None where that is unknown. layers: the commands it is run by, outermost first. hides:
    what may run commands that are not seen here; a rule can allow that, but it cannot be compared with deny rules.
    """

    words: tuple[Word, ...]
    assigns: tuple[Word, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    cwds: tuple[str, ...] | None = ()
    layers: tuple[Layer, ...] = ()
    why: str = ""
    hides: str = ""

    @property
    def program(self) -> str:
        """The name of the program, without the folder of the system's programs; "" for none."""
        return re.sub(r"^(?:/usr)?/bin/(?=[^/]+$)", "", self.words[0].text) if self.words else ""

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(w.text for w in self.words)

    @property
    def text(self) -> str:
        """The command as text, with its wrappers."""
        words = self.layers[0].words if self.layers else (*self.assigns, *self.words)
        return " ".join(w.text for w in words)

    @property
    def unknown(self) -> str:
        """Why it cannot be told what this would do; "" where it can."""
        words = (*self.words, *self.assigns) if self.words else ()
        return self.why or next((w.why for w in words if w.why), "")


class Analysis(Value):
    """A whole command line. unclear: why it could not be taken apart, if so; `parts` is then what could be found."""

    command: str
    parts: tuple[Part, ...]
    unclear: str = ""

    @property
    def unknown(self) -> str:
        """Why it cannot be told for certain what the command line would run; "" where it can."""
        return self.unclear or next((why for p in self.parts if (why := p.unknown or p.hides)), "")
