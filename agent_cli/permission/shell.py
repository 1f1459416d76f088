"""A command line as simple commands, where that is certain.

Only plain words, quoted words without expansions, `&&`, `||`, `;`, `|`, newlines and output thrown away are understood.
Everything else (substitution, variables, redirections, groups, background, comments, bytes outside a plain set) makes
the command *dynamic*: it can be approved by a person, but no prefix rule vouches for it.
"""

from __future__ import annotations

import re

from agent_tools.values import Value

_TOKEN = re.compile(
    r"""(?P<blank>[ \t]+)
      | (?P<join>&&|\|\||;|\||\n)
      | (?P<null>(?:[12&]?>[ ]?/dev/null|2>&1|<[ ]?/dev/null)(?=[ \t\n;|]|&&|$))
      | (?P<word>(?:[A-Za-z0-9_@%+=:,./~^*?\[\]-]|'[^']*'|"[^"$`\\!]*")+)""",
    re.VERBOSE,
)
_QUOTED = re.compile(r"""'([^']*)'|"([^"]*)\"""")
# Words that start shell grammar, not a program.
_GRAMMAR = set("if then else elif fi for while until do done case esac select function time coproc in [[ ]]".split())
# Programs that run what their arguments say: a rule about the inner program cannot be checked by the first word.
WRAPPERS = frozenset(
    "sudo doas env command builtin exec nohup timeout nice ionice setsid stdbuf xargs parallel eval source . "
    "sh bash dash zsh ksh busybox find watch strace script ssh docker podman".split()
)


class SimpleCommand(Value):
    """One program with its words after quote removal."""

    words: tuple[str, ...]

    @property
    def text(self) -> str:
        return " ".join(self.words)


def parse(command: str) -> tuple[SimpleCommand, ...] | None:
    """The simple commands of a command line, or None where it is dynamic or empty."""
    parts: list[list[str]] = [[]]
    position = 0
    while position < len(command):
        match = _TOKEN.match(command, position)
        if match is None:
            return None
        position = match.end()
        if match["join"]:
            parts.append([])
        elif match["word"]:
            word = match["word"]
            if not parts[-1] and (word in _GRAMMAR or "=" in word or re.search(r"[*?\[~'\"]", word)):
                return None
            parts[-1].append(_QUOTED.sub(lambda m: m[1] if m[1] is not None else m[2], word))
    commands = tuple(SimpleCommand(tuple(words)) for words in parts if words)
    return commands or None
