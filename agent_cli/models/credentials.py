"""Find and store a provider's key.

A key comes from the environment, `agent login`, the user's key command, or the system keyring. It is held in a
`Secret`, which no repr, log or JSON can reveal.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent_cli.models.registry import Provider, find_provider
from agent_tools.fs.safe_files import private_folder, read_regular, write_atomic
from agent_tools.lazy import lazy_imports

with lazy_imports():
    from agent_cli.kernel import redact  # keys of the environment are redacted anyway
    from agent_tools.process import child  # costs several ms, and few have a key command

COMMAND_SECONDS = 10
_MAX_FILE_BYTES = 1 << 16


class ModelSetupError(Exception):
    """No model can be called as configured. The message is one sentence for the user."""


class NoModelError(ModelSetupError):
    """No model is configured, or none by this name can be reached."""


class MissingKeyError(ModelSetupError):
    """The provider needs a key and none was found. provider: its name."""

    def __init__(self, text: str, provider: str) -> None:
        super().__init__(text)
        self.provider = provider


class KeyStoreError(Exception):
    """A key was not stored or removed; the message says why."""


class Secret:
    """A text that only `reveal()` shows."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return "Secret(***)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)


class KeyStore:
    """The keys of `agent login`: a file per provider, mode 0600. A key in the system keyring leaves only a note there.

    A stored key comes before the key that the environment had at the login, but not before another one.

    folder: where the files are. keyring: the system keyring may be used.
    """

    def __init__(self, folder: Path, *, keyring: bool = True) -> None:
        self.folder = folder
        self._keyring = keyring

    def _path(self, provider: str) -> Path:
        return self.folder / f"{provider}.json"

    def names(self) -> list[str]:
        """Return the names of the providers with a stored key."""
        try:
            stems = sorted(path.stem for path in self.folder.iterdir() if path.suffix == ".json")
        except OSError:
            return []
        return [name for name in stems if find_provider(name) is not None]

    def read(self, provider: str) -> dict[str, Any] | None:
        """Return the stored entry of a provider; None if there is none."""
        try:
            entry = json.loads(read_regular(self._path(provider), _MAX_FILE_BYTES))
        except (OSError, ValueError, RecursionError):
            return None
        return entry if isinstance(entry, dict) else None

    def key_in(self, provider: str, entry: Mapping[str, Any]) -> tuple[Secret, str] | None:
        """Return the key of a stored entry and its origin; None if it is not there any more."""
        if entry.get("keyring"):
            text, place = _from_keyring(provider), "system keyring"
        else:
            text, place = entry.get("key"), str(self._path(provider))
        return (_hold(text), f"agent login ({place})") if isinstance(text, str) and text else None

    def save(self, provider: str, key: Secret, replaces: str = "") -> str:
        """Store a key; return the path of its file, "" if it is in the system keyring. Raises KeyStoreError.

        replaces: the key of the environment in whose place it is used.
        """
        _hold(key.reveal())
        in_keyring = self._keyring and _put_into_keyring(provider, key.reveal())
        entry: dict[str, Any] = {"keyring": True} if in_keyring else {"key": key.reveal()}
        if replaces:
            entry["replaces"] = _digest(replaces)
        path = self._path(provider)
        try:
            private_folder(self.folder)
            self.folder.chmod(0o700)
            write_atomic(path, json.dumps(entry).encode("ascii"))
        except OSError as error:
            raise KeyStoreError(f"{path}: {error.strerror or error}") from None
        return "" if in_keyring else str(path)

    def forget(self, provider: str) -> bool:
        """Remove the key of a provider; return True if there was one. Raises KeyStoreError if it stays."""
        entry = self.read(provider)
        if entry is not None and entry.get("keyring") and not _remove_from_keyring(provider):
            raise KeyStoreError(f"the system keyring did not remove the entry {provider} of the service agent")
        try:
            self._path(provider).unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise KeyStoreError(f"{self._path(provider)}: {error.strerror or error}") from None
        return True


def _digest(key: str) -> str:
    from hashlib import blake2b  # loads OpenSSL, which most runs do not need

    return blake2b(key.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()


def key_variable(provider: Provider, env: Mapping[str, str]) -> str:
    """Return the environment variable that has the provider's key; "" if none does."""
    return next((name for name in provider.keys if env.get(name, "").strip()), "")


def find_key(
    provider: Provider, env: Mapping[str, str], key_command: str | None, keyring: bool, logins: KeyStore | None = None
) -> tuple[Secret | None, str]:
    """Return the key and its origin, such as "environment OPENAI_API_KEY".

    Raises ModelSetupError if the user's key command fails.
    """
    variable = key_variable(provider, env)
    given = (Secret(env[variable].strip()), f"environment {variable}") if variable else None
    entry = logins.read(provider.name) if logins is not None and provider.keys else None
    replaced = given is not None and entry is not None and entry.get("replaces") == _digest(given[0].reveal())
    if given is not None and not replaced:
        return given
    if logins is not None and entry is not None and (stored := logins.key_in(provider.name, entry)):
        return stored
    if given is not None:
        return given
    if key_command:
        return _hold(key_of_command(key_command, env)), "key_command"
    if keyring and (held := _from_keyring(provider.name)):
        return _hold(held), f"system keyring (agent, {provider.name})"
    return None, "none"


def missing_key(provider: Provider) -> MissingKeyError:
    """Return the error that says how to set the key."""
    if not provider.keys:
        text = f"no key for {provider.name}: set key_command or store it in the keyring"
    else:
        ways = f"run agent login {provider.name}, set {provider.keys[0]}, or set key_command in your settings"
        text = f"no key for {provider.name}: {ways}"
    return MissingKeyError(text, provider.name)


def key_of_command(command: str, env: Mapping[str, str]) -> str:
    """Return what the user's key command prints. Raises ModelSetupError if it fails."""
    try:
        done = child.run_child(
            ["/bin/sh", "-c", command], seconds=COMMAND_SECONDS, memory=None, env=dict(env), start_new_session=True
        )
    except OverflowError:
        raise ModelSetupError("key_command printed more than one key") from None
    except TimeoutError:
        raise ModelSetupError(f"key_command printed no key within {COMMAND_SECONDS} s") from None
    except OSError as error:
        raise ModelSetupError(f"key_command could not be run: {error.strerror}") from None
    if done.code != 0:
        message = (done.err.decode("utf-8", "replace").strip().splitlines() or ["it said nothing"])[-1]
        raise ModelSetupError(f"key_command failed with exit code {done.code}: {message[:200]}")
    if not (key := done.out.decode("utf-8", "replace").strip()):
        raise ModelSetupError("key_command printed nothing")
    return key


def _hold(text: str) -> Secret:
    redact.hold_secret(text)
    return Secret(text)


def _from_keyring(user: str) -> str | None:
    try:
        import keyring  # an optional extra, and a quarter of a second

        text = keyring.get_password("agent", user)
    except Exception:  # noqa: BLE001 - backends raise anything; a keyring that fails has no key
        return None
    return text.strip() if text else None


def _put_into_keyring(user: str, key: str) -> bool:
    """Store a key in the system keyring; return False if there is none that keeps it."""
    try:
        import keyring

        keyring.set_password("agent", user, key)
    except Exception:  # noqa: BLE001 - as above
        return False
    return _from_keyring(user) == key


def _remove_from_keyring(user: str) -> bool:
    try:
        import keyring

        keyring.delete_password("agent", user)
    except Exception:  # noqa: BLE001 - as above
        return _from_keyring(user) is None
    return True
