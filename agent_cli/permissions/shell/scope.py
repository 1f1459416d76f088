"""State at one point of a command line: values of variables, and directories it may be in."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

# Variables whose values change how later words are read or which program a name means.
MEANINGFUL = re.compile(
    r"IFS|PATH|HOME|PWD|OLDPWD|CDPATH|BASH.*|ENV|SHELLOPTS|GLOBIGNORE|POSIXLY_CORRECT|LC_.*|LANG|PS[0-4]|PROMPT_COMMAND|"
    r"EXECIGNORE|FIGNORE|FUNCNEST|LD_.*|DYLD_.*|TIMEFORMAT|TMPDIR|histchars|auto_resume"
)
# Variables to which bash gives its own values, whatever is assigned.
OWN = re.compile(
    r"_|RANDOM|SRANDOM|SECONDS|LINENO|EPOCH\w*|PPID|E?UID|GROUPS|DIRSTACK|FUNCNAME|PIPESTATUS|REPLY|OPT(?:ARG|IND|ERR)|"
    r"COMP_\w+|COMPREPLY|MAPFILE|COPROC(?:_PID)?|HIST\w+|HOST(?:NAME|TYPE|FILE)|OSTYPE|MACHTYPE|SHLVL|READLINE_\w+|"
    r"CHILD_MAX|COLUMNS|LINES|TMOUT|MAIL\w*|IGNOREEOF|INPUTRC|INSIDE_EMACS|FCEDIT"
)
# Variables that change how text looks, not what runs: a rule about a command need not name them.
PLAIN_VARIABLES = re.compile(
    r"LC_[A-Z]+|LANG|TZ|NO_COLOR|FORCE_COLOR|CLICOLOR(?:_FORCE)?|COLUMNS|LINES|CI"
    # Variables that control builds and tests without naming a program.
    r"|NODE_ENV|RUST_BACKTRACE|RUST_LOG|GOOS|GOARCH|CGO_ENABLED|PYTHONUNBUFFERED|PYTHONDONTWRITEBYTECODE"
)
_MOST_PLACES = 8


class Scope:
    """Follows assignments and directory changes through a command line and forgets what is uncertain.

    variables: known values; None for an unknown value.
    cwds: directories where the next command may run; None if unknown.
    failed: directories where it runs if the preceding `cd` failed.
    lost: why nothing of this is known any more.
    renamed: why the name of a program may mean another one.
    """

    def __init__(self, variables: Mapping[str, str | None], cwds: tuple[str, ...] | None) -> None:
        self.variables = dict(variables)
        self.cwds = cwds
        self.failed: tuple[str, ...] | None = ()
        self.lost = ""
        self.renamed = ""

    def copy(self) -> Scope:
        other = Scope(self.variables, self.cwds)
        other.failed, other.lost, other.renamed = self.failed, self.lost, self.renamed
        return other

    def assign(self, name: str, value: str | None) -> None:
        """Assign a value to a variable; None for an unknown one."""
        if MEANINGFUL.fullmatch(name):
            self.renamed = self.renamed or f"a change of {name}"
            self.lose(self.renamed)
        else:
            # By now a name may be bound to another one.
            self.variables[name] = None if self.lost or OWN.fullmatch(name) else value

    def lose(self, why: str) -> None:
        """Give up: from here on neither variables nor the directory are known."""
        self.variables, self.cwds, self.lost = {}, None, self.lost or why

    def forget(self, names: Iterable[str]) -> None:
        for name in names:
            self.variables[name] = None

    def change_directory(self, target: str | None) -> None:
        """Apply `cd target`; None for an unknown target."""
        if target is None or self.cwds is None:
            self.cwds, self.failed = None, None
            return
        self.failed = self.cwds
        self.cwds = tuple(dict.fromkeys(os.path.normpath(os.path.join(c, target)) for c in self.cwds))

    def settle(self) -> None:
        """Account for a preceding command that may have failed: its `cd` may or may not have happened."""
        self.cwds = _union(self.cwds, self.failed)
        self.failed = ()

    def join(self, other: Scope) -> None:
        """Merge with the end of a branch that may or may not have run."""
        self.variables = {n: v for n, v in self.variables.items() if other.variables.get(n) == v} | {
            n: None for n, v in other.variables.items() if self.variables.get(n) != v
        }
        self.cwds = _union(_union(self.cwds, other.cwds), _union(self.failed, other.failed))
        self.failed = ()
        self.lost, self.renamed = self.lost or other.lost, self.renamed or other.renamed
        if self.lost:
            self.variables, self.cwds = {}, None


def _union(a: tuple[str, ...] | None, b: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if a is None or b is None:
        return None
    both = tuple(dict.fromkeys((*a, *b)))
    return both if len(both) <= _MOST_PLACES else None
