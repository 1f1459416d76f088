"""Exit codes that are results, not failures: `grep` without a match, a false `test`, `diff` with a difference.

The exit code of a command line comes from the last program of a pipeline in its last list. Where several can decide it
(`cd x && grep y`), one for which the code is a result is enough: the output shows which it was.
"""

from __future__ import annotations

import re
import shlex

# Program to the exit code that is a result, by POSIX and the programs' manuals.
_ANSWERS = {
    "grep": 1, "egrep": 1, "fgrep": 1, "zgrep": 1, "rg": 1, "ag": 1, "ack": 1, "diff": 1, "cmp": 1, "colordiff": 1,
    "test": 1, "[": 1, "[[": 1, "which": 1, "type": 1, "hash": 1, "pgrep": 1, "pidof": 1, "fuser": 1, "lsof": 1,
    "ps": 1, "expr": 1, "mountpoint": 1, "getent": 2,
}  # fmt: skip
# The same where it depends on the arguments: the first words, or an option, that make the code a result.
_ANSWERS_WITH = {
    "git": ("grep", "check-ignore", "show-ref", "--exit-code", "--quiet", "--is-ancestor", "--verify", "--get",
            "--error-unmatch", "-e"),
    "command": ("-v", "-V"),
    "kill": ("-0",),
    "jq": ("-e", "--exit-status"),
    "systemctl": ("is-active", "is-enabled", "is-failed"),
}  # fmt: skip
_PREFIX = re.compile(r"\w+\+?=.*|time|env|builtin|exec|sudo|timeout|\d+[smhd]?|!|\{")


def is_answer(command: str, code: int) -> bool:
    """Return True if this exit code of a command line is a result; False if the line cannot be parsed."""
    if not 0 < code < 5:
        return False
    lexer = shlex.shlex(command, posix=True, punctuation_chars="();|&\n")
    lexer.whitespace = " \t\r"
    lexer.commenters = ""
    try:
        words = list(lexer)
    except ValueError:
        return False
    deciders: list[list[str]] = [[]]
    for number, word in enumerate(words):
        ended = not any(re.fullmatch(r"[^();|&\n]+", later) for later in words[number:])
        if word in ("&&", "||"):
            deciders.append([])
        elif word in ("|", "|&"):
            deciders[-1] = []
        elif re.fullmatch(r"[();|&\n]+", word):
            if not ended and "(" not in word:
                deciders = [[]]
        else:
            deciders[-1].append(word)
    return any(_answers(program, code) for program in deciders)


def _answers(words: list[str], code: int) -> bool:
    while words and _PREFIX.fullmatch(words[0]):
        words = words[1:]
    if not words:
        return False
    program = words[0].rsplit("/", 1)[-1]
    if program in _ANSWERS_WITH:
        return code in (1, 3) and any(word in _ANSWERS_WITH[program] for word in words[1:])
    return _ANSWERS.get(program) == code
