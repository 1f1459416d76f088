"""The commands that a command runs: behind a wrapper, in shell code, or for each file that is found.

They are unwrapped if that is exact: only options listed here are understood, any other makes the part unknown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Literal

from agent_cli.policy.programs.find import read_find
from agent_cli.policy.programs.git import runs_command, split_git
from agent_cli.policy.programs.row import Row
from agent_cli.policy.programs.rows.system import SHELLS, WRAPPER_ROWS
from agent_cli.policy.programs.table import row_of
from agent_cli.policy.shell.words import SimpleCommand, Word, Wrapper
from agent_tools.lazy import lazy_pattern
from agent_tools.record import Value

_SHELL_LONG = frozenset(("--noprofile", "--norc", "--login", "--posix"))
_STRICTER = frozenset(("pipefail", "errexit", "nounset", "xtrace"))
# Builtins that take variable names: a subscript in one is evaluated, and so may run commands.
_NAMING = frozenset("declare typeset local readonly export read unset let getopts wait".split())
_SUBSCRIPT = lazy_pattern(r"[A-Za-z_]\w*\[(?!\d+\])")
_USUAL_PLACE = lazy_pattern(r"(?:(?:/usr)?/bin/)?[^/]+")
_MAX_LAYERS = 8
# Why a word of a command that xargs runs is not known.
GIVEN = "what xargs is given"


class Script(Value):
    """Shell code that a part runs, analysed separately.

    layer: how the part runs it.
    exact: run by this bash.
    """

    part: SimpleCommand
    text: str
    layer: Wrapper
    exact: bool


def unwrap_part(part: SimpleCommand) -> Iterator[SimpleCommand | Script]:
    """Yield the commands that a part really runs: itself, or the one inside it.

    A `Script` is shell code that has to be analysed separately.
    """
    words = part.words
    if words and words[0].pattern:
        part = part.replace(why=part.why or "a pattern for a program's name")
    if not words or words[0].why or words[0].pattern or len(part.layers) >= _MAX_LAYERS:
        deep = "too many wrappers" if len(part.layers) >= _MAX_LAYERS else ""
        yield part.replace(why=part.why or deep)
        return
    name = os.path.basename(words[0].text)
    if name in WRAPPER_ROWS and not (name == "command" and part.texts[1:2] in (("-v",), ("-V",))):
        yield from _unwrap(part, name)
    elif name in SHELLS and (found := _script_of(part, name)):
        yield found
    elif name == "eval":
        yield from _eval(part)
    elif row_of(name).syntax is read_find:
        yield part
        yield from _find(part)
    elif row_of(name).hides or (row_of(name).syntax is split_git and runs_command(part.texts)):
        yield part.replace(hides=f"{name}, which runs other commands,")
        if name == "trap" and len(words) > 2 and not words[1].why and not words[1].text.startswith("-"):
            yield Script(part, words[1].text, Wrapper(words, "gated", len(words)), exact=True)
    elif _evaluates_words(part):
        yield part.replace(why=part.why or "a subscript that may run commands")
    else:
        yield part


def _kind(part: SimpleCommand, wrapper: Row | None) -> Literal["clear", "script", "gated"]:
    """Return the kind of layer for a part: a wrapper in an unusual directory might be any program."""
    if not _USUAL_PLACE.fullmatch(part.words[0].text) or (wrapper is not None and wrapper.gated):
        return "gated"
    return "script" if wrapper is None else "clear"


def _unwrap(part: SimpleCommand, name: str) -> Iterator[SimpleCommand | Script]:
    wrapper, words = WRAPPER_ROWS[name], part.words
    at, assigns, why = 1, list(part.assigns), ""
    folders: list[str] = []
    while at < len(words) and words[at].text.startswith("-") and words[at].text != "--" and not why:
        option = words[at].text
        if (
            wrapper.roles.get(option) == "flag"
            or _joined(option, wrapper)
            or (name == "nice" and re.fullmatch(r"-\d+", option))
        ):
            folders += [value for name, value in [_split(option)] if wrapper.roles.get(name) == "chdir"]
            at += 1
        elif option in wrapper.roles:
            folders += [w.text for w in words[at + 1 : at + 2] if wrapper.roles[option] == "chdir"]
            at += 2
        else:
            why = f"the option {option} of {name}"
    if at < len(words) and words[at].text == "--":
        at += 1
    while name in ("env", "sudo", "doas") and at < len(words) and "=" in words[at].text:
        assigns.append(words[at])
        at += 1
    at += wrapper.wraps or 0
    # A word that expands to several words, or none, moves the start of the command.
    why = why or next((w.why or "a pattern" for w in words[1:at] if w.why or w.pattern), "")
    hides = f"{name}, which runs other commands," if wrapper.hides else part.hides
    if why or at >= len(words):
        # Without a command, or with one that cannot be located for certain, it is a part itself.
        odd = why or ("" if at == len(words) else f"too few words for {name}")
        # Of one that may do more, the command may be in an option or in one word.
        yield part.replace(hides=hides) if wrapper.hides else part.replace(why=part.why or odd)
        return
    layer = Wrapper(words, _kind(part, wrapper), at)
    inner = part.replace(words=words[at:], assigns=tuple(assigns), layers=(*part.layers, layer), hides=hides)
    if folders:
        # The same as a `cd` before the command.
        yield inner.replace(words=(Word("cd"), Word(folders[-1])), assigns=())
        inner = inner.replace(cwds=_moved(part.cwds, folders[-1]))
    if name == "xargs":
        inner = inner.replace(words=_xargs_command(words[1:at], inner.words))
    yield from unwrap_part(inner)


def _xargs_command(options: tuple[Word, ...], words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Return the command that xargs runs: input replaces a placeholder with -I, else is appended."""
    given = Word("…", GIVEN)
    texts = [w.text for w in options]
    marks = [b for a, b in pairwise(texts) if a == "-I"] + [t[2:] for t in texts if t.startswith("-I") and t != "-I"]
    if not marks:
        return (*words, given)
    return tuple(w.replace(why=w.why or given.why) if any(m in w.text for m in marks) else w for w in words)


def _moved(cwds: tuple[str, ...] | None, folder: str) -> tuple[str, ...] | None:
    """Return the directories in which a wrapper runs a command; None if unknown, as `..` behind a link is."""
    if cwds is None or not folder or ".." in folder.split("/"):
        return None
    return tuple(dict.fromkeys(os.path.normpath(os.path.join(cwd, folder)) for cwd in cwds))


def _split(option: str) -> tuple[str, str]:
    """Return the name and the value of an option with both in one word: -n5, --signal=KILL."""
    if option.startswith("--"):
        name, _, value = option.partition("=")
        return name, value
    return option[:2], option[2:]


def _joined(option: str, wrapper: Row) -> bool:
    """Return True if an option has its value in the same word."""
    name, value = _split(option)
    return wrapper.roles.get(name, "flag") != "flag" and (bool(value) or option.endswith("="))


def _script_of(part: SimpleCommand, name: str) -> Script | SimpleCommand | None:
    """Return the shell code that `bash -c` runs; None if the shell runs a file, which is an ordinary program."""
    words, at, letters, odd = part.words, 1, "", name != "bash"
    unknown = part.replace(why=part.why or "shell code that is not known")
    if part.texts[1:] in (("--version",), ("--help",)):
        return None
    while at < len(words) and words[at].text[:1] in "-+" and words[at].text not in ("-", "--"):
        option = words[at]
        at += 1
        if option.why or option.pattern:
            return unknown
        if option.text in _SHELL_LONG:
            continue
        if not re.fullmatch(r"-[celuxvsoO]+|\+[euxvoO]+", option.text):
            return unknown
        letters += option.text[1:] if option.text[0] == "-" else ""
        for value in words[at : (at := at + sum(option.text.count(o) for o in "oO"))]:
            odd = odd or option.text.startswith("+") or value.text not in _STRICTER
    at += at < len(words) and words[at].text in ("-", "--")
    if any(w.why or w.pattern for w in words[:at]):
        return unknown
    if "c" not in letters:
        from_file = "s" not in letters and at < len(words) and not words[at].text.startswith(("/dev/", "/proc/"))
        return None if from_file else part.replace(why=part.why or "commands from its input")
    if at >= len(words) or words[at].why or words[at].pattern:
        return unknown
    layer = Wrapper(words, _kind(part, None), len(words))
    return Script(part, words[at].text, layer, not odd and at == len(words) - 1)


def _eval(part: SimpleCommand) -> Iterator[SimpleCommand | Script]:
    if any(w.why or w.pattern for w in part.words):
        yield part.replace(why=part.why or "shell code that is not known")
    else:
        texts = part.texts[2:] if part.texts[1:2] == ("--",) else part.texts[1:]
        yield Script(part, " ".join(texts), Wrapper(part.words, "script", len(part.words)), exact=True)


def _evaluates_words(part: SimpleCommand) -> bool:
    """Return True if a builtin evaluates its words: a subscript, or the value of an integer variable."""
    name, rest = part.words[0].text, part.texts[1:]
    if name in ("declare", "typeset", "local") and any(re.match(r"-\w*[in]", t) for t in rest):
        return True
    if name in ("test", "[", "printf") and not {"-v", "-R"} & {t[:2] for t in rest}:
        return False
    named = name in _NAMING or name in ("test", "[", "printf")
    return named and any(_SUBSCRIPT.search(t) for t in rest)


def _find(part: SimpleCommand) -> Iterator[SimpleCommand | Script]:
    """Yield what `find -exec` runs for every file it finds."""
    call = read_find(part.words[1:])
    # If every file is selected, the places where it starts are among what it finds.
    starts = () if call.narrow else tuple(w.text for w in call.starts if not w.why)
    for term in call.terms:
        if term.kind != "run" or not term.values:
            continue
        layer = Wrapper(part.words, "gated", term.at + 2)
        inner = tuple(
            w.replace(why="what find finds", possible=tuple(w.text.replace("{}", s) for s in starts))
            if "{}" in w.text
            else w
            for w in term.values
        )
        # With -execdir it runs where the file is.
        cwds = None if term.name.endswith("dir") else part.cwds
        run = part.replace(words=inner, redirects=(), layers=(*part.layers, layer), cwds=cwds)
        yield from unwrap_part(run)
