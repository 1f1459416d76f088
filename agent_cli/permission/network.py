"""Programs that are there to use a network, as far as their names and subcommands tell."""

from __future__ import annotations

import os

from agent_cli.permission.shell_values import Analysis, Part

_ALWAYS = frozenset(
    "curl wget http https xh ssh scp sftp rsync ftp nc ncat netcat socat telnet ping dig host nslookup whois "
    "traceroute gh glab hub docker podman kubectl helm aws gcloud az terraform pulumi ansible ansible-playbook "
    "apt apt-get apk dnf yum pacman brew snap flatpak npx pnpx bunx uvx pipx".split()
)
_SUBCOMMANDS = {
    "git": "push pull fetch clone ls-remote submodule lfs",
    "npm": "install i ci add update audit outdated publish view info search login exec create init",
    "pnpm": "install i add update dlx publish audit outdated create",
    "yarn": "install add up upgrade dlx publish audit create",
    "bun": "install add update x create publish",
    "pip": "install download index search",
    "pip3": "install download index search",
    "uv": "sync add pip lock tool run publish python",
    "poetry": "install add update lock publish",
    "pdm": "install add update lock sync publish",
    "hatch": "env publish run test",
    "cargo": "install fetch update add search publish build test run check",
    "go": "get install mod build test run download",
    "gem": "install update fetch push",
    "bundle": "install update add",
    "composer": "install update require",
    "mvn": "install package test verify compile deploy",
    "gradle": "build test assemble check",
    "dotnet": "restore build test run add publish",
    "mix": "deps.get deps.update",
    "conda": "install create update search",
    "mamba": "install create update search",
}
_KNOWN = {name: frozenset(words.split()) for name, words in _SUBCOMMANDS.items()}


def uses_network(part: Part) -> bool:
    """Whether a command is one that uses a network: `curl`, `git push`, `npm install`."""
    if not part.words:
        return False
    name = os.path.basename(part.words[0].text)
    if name in ("python", "python3") and part.texts[1:3] == ("-m", "pip"):
        return True
    if name in _ALWAYS or any(r.kind == "network" for r in part.redirects):
        return True
    plain = [t for t in part.texts[1:] if not t.startswith("-")]
    # Without a subcommand yarn installs.
    return bool(_KNOWN.get(name, frozenset()) & set(plain[:1])) or (name == "yarn" and not plain)


def names_network(analysis: Analysis) -> bool:
    """Whether any command of a line uses a network."""
    return any(uses_network(part) for part in analysis.parts)
