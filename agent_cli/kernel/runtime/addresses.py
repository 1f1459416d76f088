"""Addresses, proxies and certificates that a trusted project sets: used only after a question of their own.

They decide where the user's keys and conversations go, so trust in the project does not cover them. The answer is
stored with the user, for this project, this variable and this value. Only a session at a terminal asks and uses them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from agent_cli.config.layers import Layers, ProjectAddress
from agent_cli.kernel.redact import shown_variable
from agent_cli.kernel.run_environment import RunEnvironment
from agent_cli.kernel.session.store import state_folder
from agent_cli.models.registry import PROVIDERS
from agent_cli.models.steering import BASE_URL, Steering, steering_of
from agent_cli.policy.trust import MAX_STORE_BYTES, check_owner
from agent_tools.fs.safe_files import changing, read_regular, write_atomic
from agent_tools.record import DecodeError, Value, from_json, to_json
from agent_tools.text import utc_stamp

NAME = "addresses.json"
_MAX_FILE_BYTES = 4 << 20


class AddressAnswer(Value):
    """The user's answer about an address. digest: fingerprint of the value, and of the file that it names."""

    digest: str
    use: bool
    when: str


class AddressStore:
    """The file of answers, by project and by name. problem: why it is ignored; "" if it is used."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        self._read()

    def _read(self) -> None:
        self.problem = ""
        self._answers: dict[str, dict[str, AddressAnswer]] = {}
        try:
            check_owner(self._path)
            data = json.loads(read_regular(self._path, MAX_STORE_BYTES))
            self._answers = {
                root: {name: from_json(AddressAnswer, answer) for name, answer in found.items()}
                for root, found in data.items()
            }
        except (FileNotFoundError, NotADirectoryError):
            pass
        except (OSError, ValueError, RecursionError, TypeError, AttributeError, DecodeError) as error:
            self.problem = f"{self._path} cannot be used, so the answers in it are ignored: {error}"

    def answer(self, root: Path, address: ProjectAddress) -> bool | None:
        """Return the stored answer about exactly this value; None if there is none."""
        found = self._answers.get(str(root), {}).get(address.name)
        return found.use if found is not None and found.digest == _digest(address, root) else None

    def remember(self, root: Path, address: ProjectAddress, use: bool) -> None:
        """Store an answer. Raises OSError if that cannot be saved."""
        answer = AddressAnswer(_digest(address, root), use, utc_stamp())
        with changing(self._path):
            self._read()
            self._answers.setdefault(str(root), {})[address.name] = answer
            plain: dict[str, Any] = {
                root: {name: to_json(answer) for name, answer in found.items()} for root, found in self._answers.items()
            }
            write_atomic(self._path, json.dumps(plain, indent=1).encode("ascii"))


def _digest(address: ProjectAddress, root: Path) -> str:
    from hashlib import blake2b  # loads OpenSSL, which most runs do not need

    found = blake2b(address.value.encode("utf-8", "surrogateescape"), digest_size=16)
    with suppress(OSError, ValueError):  # it may name a file of certificates
        found.update(b"\0" + read_regular(root / os.path.expanduser(address.value), _MAX_FILE_BYTES))
    return found.hexdigest()


def withhold_addresses(layers: Layers, env: dict[str, tuple[str, str]]) -> None:
    """Merge a trusted project's variables, by name with value and source, except those that lead requests elsewhere."""
    for name, (value, source) in env.items():
        if steering_of(name) is None:
            layers.env[name] = value
        else:
            layers.addresses.append(ProjectAddress(name, value, source))


def report_addresses(layers: Layers, run_env: RunEnvironment) -> None:
    """Name each address of the project that is not used, and drop those that the user has set above the project."""
    layers.addresses = [a for a in layers.addresses if a.name != BASE_URL or BASE_URL not in layers.origins]
    layers.ignored += [notice(address, run_env) for address in layers.addresses]


def notice(address: ProjectAddress, run_env: RunEnvironment) -> str:
    """Return the line that says why an address of the project is not used."""
    decides = f"where {_cargo(address, run_env)} would go"
    if _steering(address).kind == "certificates":
        decides = "which servers are believed"
    return (
        f"{_set_by(address, run_env)}, which is not used, as it decides {decides}: set it in your own environment or "
        "settings, or start agent in a terminal to be asked"
    )


def describe_question(address: ProjectAddress, run_env: RunEnvironment) -> tuple[str, list[str], str]:
    """Return the title, the lines and the question about using an address of the project."""
    title, kind = f"{_set_by(address, run_env)}.", _steering(address).kind
    if kind == "certificates":
        lines = ["With the keys of these certificates, others can read and change what is sent to your providers."]
        return title, lines, f"Believe servers by the {address.name} of this project?"
    cargo, place = _cargo(address, run_env), f"{'through' if kind == 'proxy' else 'to'} {_host(address.value)}"
    lines = [
        f"y: {cargo}, and what the model is shown of your files, would go {place}, until the project names another",
        "n: it is not used",
    ]
    return title, lines, f"Send {cargo} {place}?"


def _steering(address: ProjectAddress) -> Steering:
    return steering_of(address.name) or Steering("address")


def _set_by(address: ProjectAddress, run_env: RunEnvironment) -> str:
    source = os.path.relpath(address.source, run_env.root)
    return f"{source} of this project sets {shown_variable(address.name, address.value)}"


def _cargo(address: ProjectAddress, run_env: RunEnvironment) -> str:
    """Return what would be sent: a provider's requests, with the key that is there."""
    steering = _steering(address)
    if steering.kind == "proxy":
        return "all requests"
    if not steering.providers:
        keys = ", ".join(sorted({key for row in PROVIDERS for key in row.keys if run_env.env.get(key, "").strip()}))
        return f"your API keys ({keys})" if keys else "your API keys"
    names, key = ", ".join(steering.providers), steering.key_variable(run_env.env)
    return f"your {names} key ({key})" if key else f"requests for {names}, with any of your keys,"


def _host(value: str) -> str:
    """Return the host of an address as the user has to read it: the one that a request goes to."""
    try:
        parts = urlsplit(value if "://" in value else f"//{value}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return shown_variable("", value)
    return f"{host}:{port}" if host and port else host or shown_variable("", value)


def use_address(layers: Layers, address: ProjectAddress, run_env: RunEnvironment) -> None:
    """Let an address of the project take effect."""
    layers.addresses = [found for found in layers.addresses if found != address]
    layers.ignored = [text for text in layers.ignored if text != notice(address, run_env)]
    if address.name == BASE_URL:
        layers.add({BASE_URL: address.value}, address.source, run_env.root)
    else:
        layers.env[address.name] = address.value


def use_answered(layers: Layers, run_env: RunEnvironment) -> Iterable[ProjectAddress]:
    """Use the addresses that the user has agreed to; yield those that they have not been asked about."""
    if not layers.addresses:
        return
    store = AddressStore(state_folder(run_env.env))
    if store.problem:
        layers.ignored.append(store.problem)
    for address in list(layers.addresses):
        answer = store.answer(run_env.root, address)
        if answer is None:
            yield address
        elif answer:
            use_address(layers, address, run_env)
