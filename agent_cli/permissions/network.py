"""Recognize programs that use the network, by their names and subcommands."""

from __future__ import annotations

import os
import re
from collections.abc import Collection

from agent_cli.permissions.shell.words import Analysis, SimpleCommand
from agent_tools.sandbox.domains import host_matches

_ALWAYS = frozenset(
    "curl wget http https xh ssh scp sftp rsync ftp nc ncat netcat socat telnet ping dig host nslookup whois "
    "traceroute gh glab hub docker podman kubectl helm aws gcloud az terraform pulumi ansible ansible-playbook "
    "apt apt-get apk dnf yum pacman brew snap flatpak npx pnpx bunx uvx pipx".split()
)
_SUBCOMMANDS = {
    "git": "push pull fetch clone ls-remote lfs",
    "npm": "install i ci add update audit outdated publish view info search login exec create init",
    "pnpm": "install i add update dlx publish audit outdated create",
    "yarn": "install add up upgrade dlx publish audit create",
    "bun": "install add update x create publish",
    "pip": "install download index search",
    "pip3": "install download index search",
    "uv": "sync add pip lock tool publish python",
    "poetry": "install add update lock publish",
    "pdm": "install add update lock sync publish",
    "hatch": "env publish",
    "cargo": "install fetch update add search publish",
    "go": "get install mod download",
    "gem": "install update fetch push",
    "bundle": "install update add",
    "composer": "install update require",
    "mvn": "deploy dependency:resolve dependency:go-offline",
    "gradle": "publish",
    "dotnet": "restore add publish",
    "mix": "deps.get deps.update",
    "conda": "install create update search",
    "mamba": "install create update search",
}
# Subcommands whose downloads are often cached already.
_BUILDS = {
    "cargo": "build test run check clippy doc bench",
    "go": "build test run vet generate",
    "hatch": "run test",
    "uv": "run",
    "mvn": "install package test verify compile",
    "gradle": "build test assemble check",
    "gradlew": "build test assemble check",
    "dotnet": "build test run",
    "mix": "test compile",
}
_KNOWN = {name: frozenset(words.split()) for name, words in _SUBCOMMANDS.items()}
_MAYBE = {name: frozenset(words.split()) for name, words in _BUILDS.items()}
# Default hosts of package managers.
_REGISTRIES = {
    "pip pip3 uv uvx poetry pdm pipx": ("pypi.org", "files.pythonhosted.org"),
    "npm npx pnpm pnpx bun bunx": ("registry.npmjs.org",),
    "yarn": ("registry.yarnpkg.com",),
    "cargo": ("index.crates.io", "static.crates.io"),
    "go": ("proxy.golang.org", "sum.golang.org"),
    "gem bundle": ("rubygems.org",),
    "composer": ("repo.packagist.org",),
    "mvn": ("repo.maven.apache.org",),
}
_HOSTS = {name: hosts for names, hosts in _REGISTRIES.items() for name in names.split()}
_URL = re.compile(r"https?://(?:[^/@\s]*@)?([^/:\s]+)", re.I)
_LOOPBACK = frozenset(("localhost", "127.0.0.1", "[::1]", "::1"))


def uses_network(part: SimpleCommand) -> bool:
    """Return True if a command uses the network, certainly or possibly: `curl`, `npm install`, `cargo build`."""
    plain = [t for t in part.texts[1:] if not t.startswith("-")][:1]
    return needs_network(part) or bool(part.words and _MAYBE.get(_name(part), frozenset()) & set(plain))


def needs_network(part: SimpleCommand) -> bool:
    """Return True if a command cannot work without the network: `curl`, `git push`, `npm install`."""
    if not part.words:
        return False
    name = _name(part)
    if name in ("npx", "pnpx", "bunx") and _is_local(part):
        return False
    if name in ("python", "python3") and part.texts[1:3] == ("-m", "pip"):
        return True
    if name in _ALWAYS or any(r.kind == "network" for r in part.redirects):
        return True
    plain = [t for t in part.texts[1:] if not t.startswith("-")]
    # Without a subcommand yarn installs.
    return bool(_KNOWN.get(name, frozenset()) & set(plain[:1])) or (name == "yarn" and not plain)


def _is_local(part: SimpleCommand) -> bool:
    """Return True if npx need not download its program: an option says so, or the project has it."""
    words = part.texts[1:]
    if any(w in ("--no-install", "--no", "--offline") for w in words):
        return True
    program = next((w for w in words if not w.startswith("-")), "")
    return bool(program and part.cwds) and all(
        os.path.lexists(os.path.join(cwd, "node_modules/.bin", program)) for cwd in part.cwds or ()
    )


def _name(part: SimpleCommand) -> str:
    return os.path.basename(part.words[0].text)


def hosts_of(part: SimpleCommand) -> tuple[str, ...]:
    """Return the hosts that a network command would contact; () if they are unknown."""
    name = _name(part)
    if name in ("python", "python3"):
        name = "pip"
    if name in ("curl", "wget", "http", "https", "xh"):
        found = [m[1].lower() for word in part.texts[1:] if (m := _URL.match(word))]
        plain = [w for w in part.texts[1:] if not w.startswith("-")]
        return tuple(found) if found and len(found) == len(plain) else ()
    return _HOSTS.get(name, ())


def within_reach(part: SimpleCommand, domains: Collection[str]) -> bool:
    """Return True if all hosts that a command would contact are loopback or among the domains."""
    hosts = hosts_of(part)
    if not hosts or all(host in _LOOPBACK for host in hosts):
        return bool(hosts)
    return bool(domains) and all(host in _LOOPBACK or host_matches(host, domains) for host in hosts)


def names_network(analysis: Analysis) -> bool:
    """Return True if any command of a line uses the network."""
    return any(uses_network(part) for part in analysis.parts)
