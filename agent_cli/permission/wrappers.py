"""Commands that run other commands: looked through where that is exact, and called unknown where it is not.

Only options listed here are understood; any other makes the part unknown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from agent_cli.permission.shell_values import Layer, Part, Word


class _Wrapper:
    """How a wrapper's own words end: options without and with a value, then `operands` words, then the command.

    own: it changes what the command can do or is given, and so needs a rule of its own.
    """

    def __init__(self, flags: str = "", valued: str = "", operands: int = 0, *, own: bool = False) -> None:
        self.flags = frozenset(flags.split())
        self.valued = frozenset(valued.split())
        self.operands = operands
        self.own = own


WRAPPERS = {
    "command": _Wrapper("-p"),
    "builtin": _Wrapper(),
    "exec": _Wrapper("-c -l", "-a"),
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
# Programs that may run what their arguments, their input or the network say, in ways not followed here.
RUNNERS = frozenset(
    "ssh docker podman kubectl parallel watch strace ltrace gdb script expect busybox chroot unshare nsenter su "
    "runuser screen tmux at batch crontab systemd-run flock entr direnv mise asdf nix nix-shell guix proot fakeroot "
    "source . trap enable alias sg newgrp pkexec run0 dbus-run-session xvfb-run torsocks proxychains "
    "zsh ksh ash fish csh tcsh pwsh firejail bwrap env.exe wsl".split()
)
_FIND_RUNS = frozenset(("-exec", "-execdir", "-ok", "-okdir"))
_DEEPEST = 8


class Script(Exception):
    """The part runs a text of shell code: analyse `text` and go on. layer: how the part runs it."""

    def __init__(self, text: str, layer: Layer, exact: bool) -> None:
        super().__init__(text)
        self.text, self.layer, self.exact = text, layer, exact


def look_through(part: Part) -> Iterator[Part | Script]:
    """The commands that a part really runs: itself, or what is inside it.

    A `Script` stands for shell code that has to be analysed by itself.
    """
    if not part.words or part.words[0].why or len(part.layers) >= _DEEPEST:
        deep = "is wrapped too often" if len(part.layers) >= _DEEPEST else ""
        yield part.but(why=part.why or deep)
        return
    name = os.path.basename(part.words[0].text)
    if name in WRAPPERS and not (name == "command" and part.texts[1:2] in (("-v",), ("-V",))):
        yield from _unwrap(part, name)
    elif name in _SHELLS and (found := _script_of(part, name)):
        yield found
    elif name == "eval":
        yield from _eval(part)
    elif name == "find":
        yield part
        yield from _find(part)
    elif name in RUNNERS:
        yield part.but(why=part.why or f"{name}, which runs other commands,")
    else:
        yield part


def _unwrap(part: Part, name: str) -> Iterator[Part | Script]:
    wrapper, words = WRAPPERS[name], part.words
    at, assigns, why = 1, list(part.assigns), ""
    while at < len(words) and words[at].text.startswith("-") and words[at].text != "--" and not why:
        option = words[at]
        if option.why or option.pattern:
            why = option.why or "a pattern"
        elif option.text in wrapper.flags:
            at += 1
        elif option.text in wrapper.valued:
            at += 2
        elif _joined(option.text, wrapper) or (name == "nice" and re.fullmatch(r"-\d+", option.text)):
            at += 1
        else:
            why = f"the option {option.text} of {name}"
    if at < len(words) and words[at].text == "--":
        at += 1
    while name == "env" and at < len(words) and re.match(r"[A-Za-z_]\w*=", words[at].text):
        assigns.append(words[at])
        at += 1
    at += wrapper.operands
    if why or at >= len(words):
        # Without a command, or with one that cannot be found for certain: a part of its own.
        yield part.but(why=part.why or why or ("" if at == len(words) else f"too few words for {name}"))
        return
    layer = Layer(words, "own" if wrapper.own else "clear", at)
    inner = part.but(words=words[at:], assigns=tuple(assigns), layers=(*part.layers, layer))
    if name == "xargs":
        inner = inner.but(words=(*inner.words, Word("…", "what xargs is given")))
    yield from look_through(inner)


def _joined(option: str, wrapper: _Wrapper) -> bool:
    """Whether an option has its value in the same word: -n5, --signal=KILL."""
    if option.startswith("--"):
        return option.partition("=")[0] in wrapper.valued and "=" in option
    return option[:2] in wrapper.valued and len(option) > 2


def _script_of(part: Part, name: str) -> Script | Part | None:
    """The shell code that `bash -c` runs; None where the shell runs a file, which is a program like others."""
    words = part.words
    at = 1
    while at < len(words) and re.fullmatch(r"-[a-z]+|--(?:noprofile|norc|login|posix)", words[at].text):
        letters = words[at].text[1:] if not words[at].text.startswith("--") else ""
        at += 1
        if "c" not in letters:
            continue
        if set(letters) - set("celux") or at >= len(words) or words[at].why:
            return part.but(why=part.why or "shell code that is not known")
        layer = Layer(words, "script", len(words))
        exact = name == "bash" and at == len(words) - 1
        return Script(words[at].text, layer, exact)
    if any(w.why for w in words) or at < len(words):
        return None
    return part.but(why=part.why or "commands from its input")


def _eval(part: Part) -> Iterator[Part | Script]:
    if any(w.why or w.pattern for w in part.words):
        yield part.but(why=part.why or "shell code that is not known")
    else:
        yield Script(" ".join(part.texts[1:]), Layer(part.words, "script", len(part.words)), exact=True)


def _find(part: Part) -> Iterator[Part | Script]:
    """What `find -exec` runs, for every file it finds."""
    words, at = part.words, 1
    while at < len(words):
        if words[at].text not in _FIND_RUNS:
            at += 1
            continue
        end = next((n for n in range(at + 1, len(words)) if words[n].text in (";", "+")), len(words))
        layer = Layer(words, "own", at + 1)
        inner = tuple(w.but(why="what find finds") if "{}" in w.text else w for w in words[at + 1 : end])
        if inner:
            yield from look_through(part.but(words=inner, redirects=(), layers=(*part.layers, layer)))
        at = end + 1
