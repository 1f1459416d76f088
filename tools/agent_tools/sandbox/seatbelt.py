"""The Seatbelt sandbox of macOS: the profile as rules for `/usr/bin/sandbox-exec`. Experimental.

Everything is denied that no rule allows, and the last rule that matches applies: rules for inner paths follow those for
outer ones, and for the same path, what denies follows what allows. All paths are parameters, so that no name can be
read as a rule. The kernel compares them with resolved paths (`/private/tmp`, not `/tmp`). A renamed folder takes its
files to a name that no rule denies, so neither a writable directory nor one on the way to a denied path can be renamed;
nor can a file get a second name.

A name that does not exist yet is compared as the command spells it, and the file system usually ignores case: denied
paths are denied in upper and lower case.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from agent_tools.fs.workspace import is_within
from agent_tools.sandbox.bwrap import NOTHING_SHARED, Shared, require_possible
from agent_tools.sandbox.conditions import Wrapped
from agent_tools.sandbox.mounts import Folders
from agent_tools.sandbox.profile import Profile

PROGRAM = "/usr/bin/sandbox-exec"
LIMITS = (
    "experimental: nothing runs without asking because of it",
    "processes that leave the command's group are not ended with it by the kernel",
    'caches in the home folder can be written only with sandbox.caches = "shared"',
    "hidden files are not absent: opening them fails",
    'a protected file that is missing can be created by an unusual spelling of its name ("\u017f" for "s")',
)

# What programs need to know of the machine. The arguments of other processes (kern.procargs2) are not listed.
_SYSCTL_NAMES = (
    "kern.argmax kern.bootargs kern.boottime kern.hostname kern.ngroups kern.secure_kernel kern.tcsm_available"
    " kern.tcsm_enable kern.usrstack64 kern.version sysctl.proc_cputype vm.loadavg"
).split()
_SYSCTL_PREFIXES = "hw. kern.max kern.os kern.proc. machdep.cpu. net.routetable.".split()
# Services of the system. Keychains, Apple events, launchd and others that act for a program are not listed.
_SERVICES = (
    "bsd.dirhelper logd system.logger system.notification_center system.opendirectoryd.libinfo"
    " system.opendirectoryd.membership"
).split()
_CERTIFICATE_SERVICES = "ocspd trustd trustd.agent".split()
_NETWORK_SERVICES = "networkd SystemConfiguration.configd SystemConfiguration.DNSConfiguration".split()
_NAME_SERVER = "/private/var/run/mDNSResponder"
_TERMINALS = '(regex "^/dev/ttys[0-9]+$")'


def _filters(kind: str, names: Iterable[str]) -> str:
    return " ".join(f'({kind} "{name}")' for name in names)


def _services(names: Iterable[str]) -> str:
    return f"(allow mach-lookup {_filters('global-name', (f'com.apple.{name}' for name in names))})"


_BASE = (
    "(version 1)",
    "(deny default)",
    "(allow process-exec)",
    "(allow process-fork)",
    "(allow process-info* (target same-sandbox))",
    "(allow signal (target same-sandbox))",
    f"(allow sysctl-read {_filters('sysctl-name', _SYSCTL_NAMES)} {_filters('sysctl-name-prefix', _SYSCTL_PREFIXES)})",
    _services(_SERVICES),
    "(allow ipc-posix-sem)",
    '(allow ipc-posix-shm-read-data (ipc-posix-name "apple.shm.notification_center"))',
    "(allow pseudo-tty)",
    "(allow file-map-executable)",
    "(allow file-read*)",
    "(allow file-write-data file-ioctl"
    f' {_filters("literal", ("/dev/null", "/dev/zero", "/dev/tty", "/dev/ptmx"))} (subpath "/dev/fd"))',
    # Of the other terminals, only those that the command has opened itself; one that it was given is open already.
    f"(deny file-read-data file-write* {_TERMINALS})",
    f'(allow file-read-data file-write-data (require-all {_TERMINALS} (extension "com.apple.sandbox.pty")))',
    f"(allow file-ioctl {_TERMINALS})",
)
_NETWORK = (
    f'(allow network-outbound (remote ip "*:*") (remote unix-socket (subpath "{_NAME_SERVER}")))',
    '(allow network-bind (local ip "*:*"))',
    '(allow network-inbound (local ip "*:*"))',
    "(allow system-socket (require-all (socket-domain AF_SYSTEM) (socket-protocol 2)))",
    _services(_NETWORK_SERVICES),
)


def prepare_seatbelt(
    argv: list[str], env: dict[str, str], profile: Profile, shared: Shared = NOTHING_SHARED
) -> Wrapped:
    """Wrap a command. Raises ToolError if something cannot be protected."""
    require_possible(profile)
    rules = SeatbeltRules(profile, shared)
    if profile.temp:
        env = env | {"TMPDIR": str(profile.temp[0].source)}
    return Wrapped("seatbelt", [PROGRAM, "-p", rules.text, *rules.definitions(), "--", *argv], env)


class SeatbeltRules:
    """The rules for a profile. text: in SBPL. parameters: the paths in it, by the names that it has for them."""

    def __init__(self, profile: Profile, shared: Shared = NOTHING_SHARED) -> None:
        self.parameters: dict[str, str] = {}
        self._names: dict[str, str] = {}
        caches = [target for target, source in shared.caches.items() if target == source]
        temporary = [mount.source for mount in profile.temp[:1]]
        writable = (*profile.writable, *caches, *temporary)
        denied = (*profile.hidden, *profile.protected, *profile.personal, *_watched(profile))
        rules = (
            *_BASE,
            *self._reading(profile, (*caches, *temporary)),
            *self._writing(writable, denied),
            *self._network(profile, shared, writable),
        )
        self.text = "".join(f"{rule}\n" for rule in rules)

    def definitions(self) -> Iterator[str]:
        """Yield the options that define the parameters."""
        for name, value in self.parameters.items():
            yield from ("-D", f"{name}={value}")

    def _reading(self, profile: Profile, more: Iterable[Path]) -> Iterator[str]:
        for path in profile.covered:
            yield f"(deny file-read* {self._denied(path)})"
        shown = [(path, _resolve(path)) for path in (*profile.shown, *profile.sockets, *more)]
        opened = [real for _, real in shown if is_within(real, profile.covered)]
        # Links on the way, and what they lead to.
        opened += [path for path, real in shown if path != real and is_within(path, profile.covered)]
        for path in dict.fromkeys(opened):
            yield f"(allow file-read* {self._subpath(path)})"
        rules = [(path, True) for path in profile.writable] + [(path, False) for path in profile.hidden]
        for path, allows in _outer_first(rules):
            yield f"(allow file-read* {self._subpath(path)})" if allows else f"(deny file-read* {self._denied(path)})"
        # Programs look at each folder on the way to a file.
        closed = (*profile.covered, *profile.hidden)
        for path in dict.fromkeys(p for o in (*opened, *profile.writable) for p in o.parents if is_within(p, closed)):
            yield f"(allow file-read-metadata {self._literal(path)})"

    def _writing(self, writable: Sequence[Path], denied: Sequence[Path]) -> Iterator[str]:
        rules = [(path, True) for path in writable]
        rules += [(path, False) for path in dict.fromkeys(denied) if is_within(path, writable)]
        for path, allows in _outer_first(rules):
            yield f"(allow file-write* {self._subpath(path)})" if allows else f"(deny file-write* {self._denied(path)})"
        folders = Folders(writable)
        fixed = [*writable, *(folder for path, allows in rules if not allows for folder in folders.between(path))]
        for path in dict.fromkeys(fixed):
            yield f"(deny file-write-unlink {self._literal(path)})"
        yield "(deny file-link file-clone file-write-setugid)"

    def _network(self, profile: Profile, shared: Shared, writable: Iterable[Path]) -> Iterator[str]:
        yield "(allow system-socket (socket-domain AF_UNIX))"
        for path in dict.fromkeys((*writable, *profile.sockets)):
            for name in self._parameters(path):
                yield f"(allow network-outbound (remote unix-socket (subpath {name})))"
        for path in dict.fromkeys(writable):
            for name in self._parameters(path):
                yield f"(allow network-bind (local unix-socket (subpath {name})))"
        if profile.network:
            yield from _NETWORK
        else:
            yield from (f'(allow network-outbound (remote ip "localhost:{port}"))' for port in shared.ports)
        if profile.network or shared.ports:
            yield _services(_CERTIFICATE_SERVICES)

    def _subpath(self, path: Path) -> str:
        return " ".join(f"(subpath {name})" for name in self._parameters(path))

    def _literal(self, path: Path) -> str:
        return " ".join(f"(literal {name})" for name in self._parameters(path))

    def _denied(self, path: Path) -> str:
        """Return filters for a path, whether it is a file or a folder or missing, and all below it, in any case."""
        return f'{self._literal(path)} {self._subpath(path)} (regex "{any_case(str(path))}")'

    def _parameters(self, path: Path) -> Iterator[str]:
        """Yield a parameter for each way in which the file system may have composed the characters of a path."""
        for text in dict.fromkeys((str(path), *(unicodedata.normalize(form, str(path)) for form in ("NFC", "NFD")))):
            name = self._names.setdefault(text, f"P{len(self._names)}")
            self.parameters[name] = text
            yield f'(param "{name}")'


def any_case(path: str) -> str:
    """Return a regular expression for a path, and all below it, in upper and lower case.

    It needs no quotes: characters that would need them match any one, and others than those of ASCII any such run.
    """
    found = re.sub(r"[^ -~]+|.", _one_case, path, flags=re.DOTALL)
    return f"^{found}(/.*)?$"


def _one_case(found: re.Match[str]) -> str:
    text = found[0]
    if not text.isascii() or not text.isprintable():
        return "[^ -~]+"
    if text.isalpha():
        return f"[{text.lower()}{text.upper()}]"
    if text.isalnum() or text in "/ _-":
        return text
    return "." if text in '"\\[]^' else f"[{text}]"


def _watched(profile: Profile) -> Iterator[Path]:
    """Yield the missing paths that no command may create, or the first missing folder on the way: one that is moved
    there would bring the file along.
    """
    for folder, name in profile.watched:
        path = folder
        for part in Path(name).parts:
            path /= part
            if not os.path.lexists(path):
                break
        yield path


def _outer_first(rules: Iterable[tuple[Path, bool]]) -> list[tuple[Path, bool]]:
    """Sort paths, each with whether it is allowed: outer before inner, and for the same path allowed before denied."""
    return sorted(rules, key=lambda rule: (len(rule[0].parts), not rule[1]))


def _resolve(path: Path) -> Path:
    return Path(os.path.realpath(path))
