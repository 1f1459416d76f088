"""Find a provider's key: in the environment, then by the user's key command, then in the system keyring.

A key is stored in a `Secret`, which no repr, log or JSON can reveal.
"""

from __future__ import annotations

from collections.abc import Mapping

from agent_cli.providers.registry import Provider
from agent_tools.lazy import lazy_imports

with lazy_imports():
    from agent_tools.process import child  # costs several ms, and few have a key command

COMMAND_SECONDS = 10


class ModelSetupError(Exception):
    """No model can be called as configured. The message is one sentence for the user."""


class NoModelError(ModelSetupError):
    """No model is configured, or none by this name can be reached."""


class MissingKeyError(ModelSetupError):
    """The provider needs a key and none was found."""


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


def find_key(
    provider: Provider, env: Mapping[str, str], key_command: str | None, keyring: bool
) -> tuple[Secret | None, str]:
    """Return the key and its origin, such as "environment OPENAI_API_KEY".

    Raises ModelSetupError if the user's key command fails.
    """
    for variable in provider.keys:
        if text := env.get(variable, "").strip():
            return Secret(text), f"environment {variable}"
    if key_command:
        return Secret(key_of_command(key_command, env)), "key_command"
    if keyring and (held := _from_keyring(provider.name)):
        return Secret(held), f"system keyring (agent, {provider.name})"
    return None, "none"


def missing_key(provider: Provider) -> MissingKeyError:
    """Return the error that names the variable to set."""
    if not provider.keys:
        return MissingKeyError(f"no key for {provider.name}: set key_command or store it in the keyring")
    return MissingKeyError(f"no key for {provider.name}: set {provider.keys[0]}, or key_command in your settings")


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


def _from_keyring(user: str) -> str | None:
    try:
        import keyring  # an optional extra, and a quarter of a second

        text = keyring.get_password("agent", user)
    except Exception:  # noqa: BLE001 - backends raise anything; a keyring that fails has no key
        return None
    return text.strip() if text else None
