"""`agent login` and `agent logout` in scripts: the key on standard input, exit codes, and which key is used."""

from __future__ import annotations

from pathlib import Path

from tests.support.key_provider import KeyProvider
from tests.support.program import agent

GOOD = "sk-good-0123456789abcdef"
BACKEND = """
import json, os, keyring.backend

class Ring(keyring.backend.KeyringBackend):
    priority = 1
    path = os.path.expanduser("~/ring.json")

    def _held(self):
        return json.load(open(self.path)) if os.path.exists(self.path) else {}

    def get_password(self, service, user):
        return self._held().get(f"{service}/{user}")

    def set_password(self, service, user, text):
        held = {**self._held(), f"{service}/{user}": text}
        json.dump(held, open(self.path, "w"))

    def delete_password(self, service, user):
        held = self._held()
        del held[f"{service}/{user}"]
        json.dump(held, open(self.path, "w"))
"""


def test_a_key_on_standard_input_is_checked_and_stored(work: Path) -> None:
    with KeyProvider(GOOD) as provider:
        env = {"OPENAI_BASE_URL": provider.openai_url}
        wrong = agent(["login", "openai"], work, env, stdin="sk-wrong-0123456789\n")
        assert wrong.returncode == 1 and "Nothing was stored: openai refused the API key" in wrong.stderr
        done = agent(["login", "openai"], work, env, stdin=f"{GOOD}\n")
        assert done.returncode == 0, done.stderr
        assert "The key works." in done.stdout and "Model: openai/m-1" in done.stdout
        assert GOOD not in done.stdout + done.stderr
        doctor = agent(["doctor"], work, env)
        assert "key: agent login (" in doctor.stdout and GOOD not in doctor.stdout
        assert agent(["-p", "hello"], work, env).stdout == "Answer of m-1.\n"
        out = agent(["logout"], work, env)
        assert out.stdout.splitlines() == [
            "Logged out of openai.",
            "The key itself stays valid until you delete it at https://platform.openai.com/api-keys",
        ]
        assert agent(["logout"], work, env).stdout == "You are not logged in to any provider.\n"
        assert agent(["logout", "openai"], work, env).stdout == "You are not logged in to openai.\n"
    gone = agent(["login", "openai"], work, env, stdin=f"{GOOD}\n")
    assert gone.returncode == 1 and "Nothing was stored: Could not connect" in gone.stderr


def test_a_second_login_leaves_the_configured_model(work: Path) -> None:
    with KeyProvider(GOOD) as provider:
        env = {"GROQ_API_BASE": provider.openai_url, "OPENAI_API_KEY": "sk-x", "AGENT_MODEL": "openai/gpt-5.6"}
        done = agent(["login", "groq"], work, env, stdin=GOOD)
        assert done.returncode == 0 and "To use it: agent --model groq/m-1, or /model" in done.stdout
        assert not (work.parent / "home/.agentrc").exists()


def test_the_system_keyring_keeps_the_key(work: Path) -> None:
    config = work.parent / "home/.config/python_keyring"
    config.mkdir(parents=True)
    (config / "ring.py").write_text(BACKEND)
    (config / "keyringrc.cfg").write_text(f"[backend]\ndefault-keyring=ring.Ring\nkeyring-path={config}\n")
    with KeyProvider(GOOD) as provider:
        env = {"OPENAI_BASE_URL": provider.openai_url}
        done = agent(["login", "openai"], work, env, stdin=GOOD)
        assert "It is stored in the system keyring; agent logout openai removes it." in done.stdout, done.stderr
        home = work.parent / "home"
        assert GOOD in (home / "ring.json").read_text()
        assert GOOD not in (home / "state/keys/openai.json").read_text()
        assert agent(["-p", "hello"], work, env).stdout == "Answer of m-1.\n"
        assert agent(["logout"], work, env).returncode == 0
        assert GOOD not in (home / "ring.json").read_text()


def test_mistakes_are_usage_errors(work: Path) -> None:
    for args, stdin, text in (
        (["login"], GOOD, "Name the provider whose key is on standard input"),
        (["login", "openai"], "", "There is no key on standard input."),
        (["login", "openai"], "a key", "A key has no spaces"),
        (["login", "nosuch"], GOOD, "nosuch is not a known provider. There are anthropic, openai,"),
        (["login", "bedrock"], GOOD, "bedrock takes no API key."),
        (["logout", "nosuch"], "", "nosuch is not a known provider."),
    ):
        done = agent(args, work, stdin=stdin)
        assert done.returncode == 2 and text in done.stderr, done.stderr
