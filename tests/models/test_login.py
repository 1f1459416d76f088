"""Checking a key at a provider, and the keys that are stored, over real HTTP and with real files."""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_cli.kernel.redact import Redactor
from agent_cli.models.credentials import KeyStore, KeyStoreError, Secret, find_key
from agent_cli.models.login import (
    KeyRefusedError,
    LoginError,
    OpenRouterLogin,
    check_key,
    code_in,
    offers_sign_in,
    starting_model,
)
from agent_cli.models.registry import Provider, find_provider
from tests.support.key_provider import KeyProvider

GOOD = "sk-good-0123456789abcdef"


def named(name: str) -> Provider:
    found = find_provider(name)
    assert found is not None
    return found


@pytest.fixture
def server() -> Iterator[KeyProvider]:
    with KeyProvider(GOOD) as made:
        yield made


@pytest.mark.parametrize("name", ["openai", "anthropic", "gemini", "groq", "openrouter"])
def test_a_key_is_checked_in_the_way_of_each_provider(server: KeyProvider, name: str) -> None:
    url = server.openrouter_url if name == "openrouter" else f"http://127.0.0.1:{server.port}"
    found = check_key(named(name), url, Secret(GOOD))
    assert found.checked and found.models == ("m-1", "m-2")
    with pytest.raises(KeyRefusedError) as refused:
        check_key(named(name), url, Secret("sk-other-0123456789"))
    assert "sk-other" not in str(refused.value) and "[redacted]" in str(refused.value)


@pytest.mark.parametrize(
    ("options", "models"), [({"public": True}, ("m-1", "m-2")), ({"lists": False}, ()), ({"status": 403}, None)]
)
def test_a_provider_that_does_not_look_at_the_key_checks_nothing(options: dict[str, int], models: object) -> None:
    with KeyProvider(**options) as server:  # type: ignore[arg-type]
        if models is None:  # a key that may not list models can be good for prompts
            with pytest.raises(LoginError) as error:
                check_key(named("groq"), server.openai_url, Secret(GOOD))
            assert not isinstance(error.value, KeyRefusedError)
        else:
            found = check_key(named("groq"), server.openai_url, Secret(GOOD))
            assert (found.checked, found.models) == (False, models)


def test_a_provider_that_cannot_be_reached_is_named(server: KeyProvider) -> None:
    with pytest.raises(LoginError, match=r"127\.0\.0\.1:9: connection refused"):
        check_key(named("openai"), "http://127.0.0.1:9/v1", Secret(GOOD))
    assert not check_key(named("bedrock"), "", Secret(GOOD)).checked


def test_a_redirect_does_not_get_the_key() -> None:
    with KeyProvider(GOOD, status=302) as server, pytest.raises(LoginError):
        check_key(named("openai"), server.openai_url, Secret("sk-other-0123456789"))
    assert len(server.seen) == 1


def test_the_model_to_begin_with_is_one_that_is_offered() -> None:
    assert starting_model(named("openai"), ()) == "openai/gpt-5.6"
    assert starting_model(named("openai"), ("gpt-4.1", "gpt-5.6")) == "openai/gpt-5.6"
    assert starting_model(named("openai"), ("tts-1", "gpt-4.1")) == "openai/gpt-4.1"
    assert starting_model(named("openai"), ("ours",)) == "openai/ours"
    assert starting_model(named("fireworks_ai"), ("accounts/fireworks/models/glm-5p2",)) == "fireworks_ai/glm-5p2"
    assert starting_model(named("deepinfra"), ()) == ""


def test_openrouter_makes_a_key_for_the_code_of_this_sign_in(server: KeyProvider) -> None:
    provider = named("openrouter")
    assert offers_sign_in(provider, provider.base_url) and not offers_sign_in(provider, "https://gateway.example/v1")
    assert not offers_sign_in(named("openai"), server.openrouter_url)
    login = OpenRouterLogin(provider, server.openrouter_url, "http://localhost:1/callback/x")
    other = OpenRouterLogin(provider, server.openrouter_url, "http://localhost:1/callback/x")
    code = server.sign_in(login.address).partition("code=")[2]
    with pytest.raises(LoginError, match="did not accept the code"):
        other.exchange(code)
    key = login.exchange(server.sign_in(login.address).partition("code=")[2])
    assert check_key(provider, server.openrouter_url, key).checked
    assert OpenRouterLogin(provider, provider.base_url, "x").address.startswith("https://openrouter.ai/auth?")
    assert code_in(f" {code}\n") == code and not code_in("http://localhost/x?code=1") and not code_in("no code")


class Ring(types.ModuleType):
    """The library `keyring` with a backend in memory. works: False: it raises."""

    def __init__(self, *, works: bool = True) -> None:
        super().__init__("keyring")
        self.held: dict[tuple[str, str], str] = {}
        self.works = works

    def get_password(self, service: str, user: str) -> str | None:
        return self.held.get((service, user))

    def set_password(self, service: str, user: str, text: str) -> None:
        if not self.works:
            raise RuntimeError("No recommended backend was available")
        self.held[service, user] = text

    def delete_password(self, service: str, user: str) -> None:
        del self.held[service, user]


def test_a_key_is_stored_in_the_keyring_if_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ring = Ring()
    monkeypatch.setitem(sys.modules, "keyring", ring)
    keys = KeyStore(tmp_path / "keys")
    assert keys.save("openai", Secret(GOOD)) == ""
    assert ring.held == {("agent", "openai"): GOOD} and GOOD not in (tmp_path / "keys/openai.json").read_text()
    assert keys.names() == ["openai"]
    assert find_key(named("openai"), {}, None, True, keys) == (Secret(GOOD), "agent login (system keyring)")
    assert keys.forget("openai") and not ring.held and not keys.names() and not keys.forget("openai")


@pytest.mark.parametrize("ring", [None, Ring(works=False)])
def test_without_a_keyring_it_is_a_file_of_the_user_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ring: Ring | None
) -> None:
    monkeypatch.setitem(sys.modules, "keyring", ring)
    keys = KeyStore(tmp_path / "keys")
    path = keys.save("openai", Secret(GOOD))
    assert path == str(tmp_path / "keys/openai.json") and Path(path).stat().st_mode & 0o777 == 0o600
    assert find_key(named("openai"), {}, "echo other", True, keys) == (Secret(GOOD), f"agent login ({path})")
    assert "Secret" in repr(keys.read("openai")) or json.loads(Path(path).read_text()) == {"key": GOOD}
    (tmp_path / "keys/nosuch.json").write_text("{}")
    (tmp_path / "keys/groq.json").write_text("damaged")
    assert keys.names() == ["groq", "openai"]
    assert find_key(named("groq"), {}, None, False, keys) == (None, "none")
    blocked = KeyStore(tmp_path / "keys/openai.json/deeper", keyring=False)
    with pytest.raises(KeyStoreError):
        blocked.save("groq", Secret(GOOD))


def test_a_stored_key_is_used_in_place_of_the_one_that_it_replaced(tmp_path: Path) -> None:
    keys = KeyStore(tmp_path, keyring=False)
    provider = named("openai")
    keys.save("openai", Secret(GOOD), replaces="old")
    assert find_key(provider, {"OPENAI_API_KEY": "old"}, None, False, keys)[0] == Secret(GOOD)
    assert find_key(provider, {"OPENAI_API_KEY": "new"}, None, False, keys)[1] == "environment OPENAI_API_KEY"
    keys.save("openai", Secret(GOOD))
    assert find_key(provider, {"OPENAI_API_KEY": "old"}, None, False, keys)[1] == "environment OPENAI_API_KEY"


def test_a_stored_key_is_redacted_also_by_what_was_there_before(tmp_path: Path) -> None:
    redact = Redactor({})
    key = "plain-words-without-a-known-form"
    assert redact(f"it is {key}") == f"it is {key}"
    KeyStore(tmp_path, keyring=False).save("groq", Secret(key))
    assert redact(f"it is {key}") == "it is [redacted]"
    assert redact.safe_length(f"x {key[:9]}") == 2
