"""Unwrap commands that run other commands if that is exact, and mark them as unknown if it is not.

Only options listed here are understood; any other makes the part unknown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Literal

from agent_cli.permissions.shell.words import SimpleCommand, Word, Wrapper
from agent_tools.record import Value


class _Wrapper:
    """The syntax of a wrapper: options without and with a value, then `operands` words, then the command.

    own: it changes the abilities or input of the command, so it needs its own rule.
    """

    def __init__(self, flags: str = "", valued: str = "", operands: int = 0, *, own: bool = False) -> None:
        self.flags = frozenset(flags.split())
        self.valued = frozenset(valued.split())
        self.operands = operands
        self.own = own


WRAPPERS = {
    "command": _Wrapper("-p"),
    "builtin": _Wrapper(),
    # With -a, a multi-call program that looks at its own name would become another one.
    "exec": _Wrapper("-c -l"),
    "nohup": _Wrapper(),
    "timeout": _Wrapper("-v --verbose --foreground --preserve-status", "-k --kill-after -s --signal", 1),
    "nice": _Wrapper("", "-n --adjustment"),
    "time": _Wrapper("-p"),
    "stdbuf": _Wrapper("", "-i -o -e --input --output --error"),
    "setsid": _Wrapper("-w --wait"),
    "ionice": _Wrapper("-t", "-c -n --class --classdata"),
    "env": _Wrapper("-i --ignore-environment - -0 --null", "-u --unset"),
    "sudo": _Wrapper("-n -E -H -S -k -b --non-interactive", "-u -g --user --group", own=True),
    "doas": _Wrapper("-n", "-u", own=True),
    "xargs": _Wrapper("-0 --null -r --no-run-if-empty -t -x", "-n -P -L -d -I -s", own=True),
}  # fmt: skip
_SHELLS = frozenset(("bash", "sh", "dash", "zsh", "ksh", "ash"))
_SHELL_LONG = frozenset(("--noprofile", "--norc", "--login", "--posix"))
_STRICTER = frozenset(("pipefail", "errexit", "nounset", "xtrace"))
# Programs that may run what their arguments, input or the network tell them to, in ways not followed here.
RUNNERS = frozenset(
    "ssh docker podman kubectl parallel watch strace ltrace gdb script expect busybox toybox chroot unshare nsenter su "
    "runuser screen tmux at batch crontab systemd-run flock entr direnv mise asdf nix nix-shell guix proot fakeroot "
    "source . trap enable alias sg newgrp pkexec run0 dbus-run-session xvfb-run torsocks proxychains chronic unbuffer "
    "taskset chrt numactl prlimit setarch linux32 linux64 setpriv runcon capsh cgexec choom valgrind perf hyperfine "
    "rlwrap faketime eatmydata catchsegv ld.so ts chpst softlimit setuidgid xdotool nodemon watchexec "
    "compgen complete fc bind mapfile readarray "
    "zsh ksh ash fish csh tcsh pwsh firejail bwrap env.exe wsl".split()
)
_FIND_RUNS = frozenset(("-exec", "-execdir", "-ok", "-okdir"))
# Builtins that take variable names: a subscript in one is evaluated, and so may run commands.
_NAMING = frozenset("declare typeset local readonly export read unset let getopts wait".split())
_SUBSCRIPT = re.compile(r"[A-Za-z_]\w*\[(?!\d+\])")
_USUAL_PLACE = re.compile(r"(?:(?:/usr)?/bin/)?[^/]+")
_DEEPEST = 8


class Script(Value):
    """Shell code that a part runs, analysed separately. layer: how the part runs it. exact: run by this bash."""

    part: SimpleCommand
    text: str
    layer: Wrapper
    exact: bool


def look_through(part: SimpleCommand) -> Iterator[SimpleCommand | Script]:
    """Yield the commands that a part really runs: itself, or the one inside it.

    A `Script` is shell code that has to be analysed separately.
    """
    words = part.words
    if words and words[0].pattern:
        part = part.replace(why=part.why or "a pattern for a program's name")
    if not words or words[0].why or words[0].pattern or len(part.layers) >= _DEEPEST:
        deep = "too many wrappers" if len(part.layers) >= _DEEPEST else ""
        yield part.replace(why=part.why or deep)
        return
    name = os.path.basename(words[0].text)
    if name in WRAPPERS and not (name == "command" and part.texts[1:2] in (("-v",), ("-V",))):
        yield from _unwrap(part, name)
    elif name in _SHELLS and (found := _script_of(part, name)):
        yield found
    elif name == "eval":
        yield from _eval(part)
    elif name == "find":
        yield part
        yield from _find(part)
    elif name in RUNNERS or (name == "git" and _runs_of_git(part)):
        yield part.replace(hides=f"{name}, which runs other commands,")
        if name == "trap" and len(words) > 2 and not words[1].why and not words[1].text.startswith("-"):
            yield Script(part, words[1].text, Wrapper(words, "own", len(words)), exact=True)
    elif _computes(part):
        yield part.replace(why=part.why or "a subscript that may run commands")
    else:
        yield part


def _kind(part: SimpleCommand, wrapper: _Wrapper | None) -> Literal["clear", "script", "own"]:
    """Return the kind of layer for a part: a wrapper in an unusual directory might be any program."""
    if not _USUAL_PLACE.fullmatch(part.words[0].text) or (wrapper is not None and wrapper.own):
        return "own"
    return "script" if wrapper is None else "clear"


def _unwrap(part: SimpleCommand, name: str) -> Iterator[SimpleCommand | Script]:
    wrapper, words = WRAPPERS[name], part.words
    at, assigns, why = 1, list(part.assigns), ""
    while at < len(words) and words[at].text.startswith("-") and words[at].text != "--" and not why:
        option = words[at].text
        if option in wrapper.flags or _joined(option, wrapper) or (name == "nice" and re.fullmatch(r"-\d+", option)):
            at += 1
        elif option in wrapper.valued:
            at += 2
        else:
            why = f"the option {option} of {name}"
    if at < len(words) and words[at].text == "--":
        at += 1
    while name in ("env", "sudo", "doas") and at < len(words) and "=" in words[at].text:
        assigns.append(words[at])
        at += 1
    at += wrapper.operands
    # A word that expands to several words, or none, moves the start of the command.
    why = why or next((w.why or "a pattern" for w in words[1:at] if w.why or w.pattern), "")
    if why or at >= len(words):
        # Without a command, or with one that cannot be located for certain, it is a part itself.
        yield part.replace(why=part.why or why or ("" if at == len(words) else f"too few words for {name}"))
        return
    layer = Wrapper(words, _kind(part, wrapper), at)
    inner = part.replace(words=words[at:], assigns=tuple(assigns), layers=(*part.layers, layer))
    if name == "xargs":
        inner = inner.replace(words=_filled_in(words[1:at], inner.words))
    yield from look_through(inner)


def _filled_in(options: tuple[Word, ...], words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Return the command that xargs runs: input replaces a placeholder with -I, else is appended."""
    given = Word("…", "what xargs is given")
    texts = [w.text for w in options]
    marks = [b for a, b in pairwise(texts) if a == "-I"] + [t[2:] for t in texts if t.startswith("-I") and t != "-I"]
    if not marks:
        return (*words, given)
    return tuple(w.replace(why=w.why or given.why) if any(m in w.text for m in marks) else w for w in words)


def _joined(option: str, wrapper: _Wrapper) -> bool:
    """Return True if an option has its value in the same word: -n5, --signal=KILL."""
    if option.startswith("--"):
        return option.partition("=")[0] in wrapper.valued and "=" in option
    return option[:2] in wrapper.valued and len(option) > 2


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


def _runs_of_git(part: SimpleCommand) -> bool:
    """Return True if git runs a command: by an alias on its command line, or by a subcommand that does."""
    texts = part.texts
    configured = any(re.match(r"-c$|--config-env|--exec-path=", t) for t in texts) and any("alias." in t for t in texts)
    return (
        configured
        or any(t.startswith("--exec") for t in texts)
        or {"submodule", "foreach"} <= set(texts)
        or (
            bool({"bisect", "rebase", "filter-branch"} & set(texts))
            and bool({"run", "-x", "filter-branch"} & set(texts))
        )
    )


def _computes(part: SimpleCommand) -> bool:
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
    words, at = part.words, 1
    while at < len(words):
        if words[at].text not in _FIND_RUNS:
            at += 1
            continue
        end = next((n for n in range(at + 1, len(words)) if words[n].text in (";", "+")), len(words))
        layer = Wrapper(words, "own", at + 1)
        inner = tuple(w.replace(why="what find finds") if "{}" in w.text else w for w in words[at + 1 : end])
        if inner:
            yield from look_through(part.replace(words=inner, redirects=(), layers=(*part.layers, layer)))
        at = end + 1
