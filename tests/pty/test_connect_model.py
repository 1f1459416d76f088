"""A start without a usable model, a key that a provider refuses, and the login later: from there to an answer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.http_proxy import Proxy
from tests.support.key_provider import KeyProvider, browse
from tests.support.mcp.running import eventually
from tests.support.program import agent
from tests.support.pty_screen import Drawn
from tests.support.pty_session import Terminal
from tests.support.scripts import script

GOOD, WRONG = "sk-good-0123456789abcdef", "sk-wrong-fedcba9876543210"


@pytest.fixture
def provider() -> Iterator[KeyProvider]:
    with KeyProvider(GOOD) as made:
        yield made


def stored(work: Path, name: str = "openai") -> Path:
    return work.parent / "home" / "state" / "keys" / f"{name}.json"


def places_of(work: Path, key: str) -> set[str]:
    """The files below the home folder and the project that have a key in them."""
    files = [p for base in (work, work.parent / "home") for p in base.rglob("*") if p.is_file()]
    return {p.name for p in files if key.encode() in p.read_bytes()}


def test_the_first_start_connects_a_provider_line_by_line(work: Path, provider: KeyProvider) -> None:
    env = {"OPENAI_BASE_URL": provider.openai_url}
    terminal = Terminal(["--plain"], work, **env)
    shown = terminal.expect("How do you want to connect a model?")
    assert "OPENAI_BASE_URL is set" in shown
    terminal.expect("1. Sign in to OpenRouter")
    terminal.expect("4. Watch the demo")
    terminal.expect("Enter to cancel] ")
    terminal.type("paste")
    terminal.expect("Which provider is the key for?")
    terminal.expect("Enter to cancel] ")
    terminal.type("openai")
    terminal.expect("(it is not shown): ")
    terminal.type("two words")
    shown = terminal.expect("A key has no spaces")
    terminal.expect("(it is not shown): ")
    terminal.type(WRONG)
    shown += terminal.expect("openai refused the API key: Incorrect API key provided: [redacted]")
    terminal.expect("(it is not shown): ")
    terminal.type(GOOD)
    shown += terminal.expect(f"Checking the key at {provider.openai_url} ...")
    shown += terminal.expect("The key works. It is stored in ~/state/keys/openai.json, which only you can read;")
    terminal.expect("Model: openai/m-1 (/model changes it at any time")
    terminal.expect("saved as `model` in ~/.agentrc")
    terminal.ready()
    terminal.type("hello")
    shown += terminal.expect("Answer of m-1.")
    shown += terminal.leave()
    assert GOOD not in shown and WRONG not in shown and "two words" not in shown
    assert stored(work).stat().st_mode & 0o777 == 0o600 and stored(work).parent.stat().st_mode & 0o777 == 0o700
    assert places_of(work, GOOD) == {"openai.json"} and not places_of(work, WRONG)
    # Only the address of the user's environment has seen the keys, and the next start asks nothing.
    again = Terminal(["--plain"], work, **env)
    assert "connect" not in again.expect("· openai/m-1 ·")
    again.leave()
    assert agent(["-p", "hello"], work, env).stdout == "Answer of m-1.\n"


def test_a_cancelled_setup_ends_with_the_reason(work: Path) -> None:
    terminal = Terminal(["--plain"], work)
    terminal.expect("No model can be used yet: there is no API key, and no model server on this machine.")
    terminal.expect("Enter to cancel] ")
    terminal.type("run")
    terminal.expect("ollama serve")
    terminal.expect("press Enter to look for it")
    terminal.type("")
    terminal.expect("Enter to cancel] ")
    terminal.type("")
    shown = terminal.end()
    assert "Set one up with agent login, or see it work: agent demo." in shown and terminal.exit_code == 2


def test_nobody_is_asked_without_a_terminal(work: Path) -> None:
    for args, stdin in ((["-p", "hello"], ""), ([], "hello\n"), (["--plain"], "1\n")):
        done = agent(args, work, stdin=stdin)
        assert done.returncode == 2 and "connect a model?" not in done.stdout + done.stderr
        assert "Set one up with agent login" in done.stderr
    named = agent(["-p", "--model", "deepseek/deepseek-v4-pro", "hello"], work)
    assert named.returncode == 2
    assert "No key for deepseek: run agent login deepseek, set DEEPSEEK_API_KEY, or set key_command" in named.stderr
    screen = Terminal(["--plain"], work, CI="true")
    assert "connect a model?" not in screen.end() and screen.exit_code == 2
    unknown = Terminal(["--plain", "--model", "nosuch"], work)
    assert "No provider is known for the model 'nosuch'" in unknown.end() and unknown.exit_code == 2


def test_a_local_server_that_is_started_meanwhile_is_offered(work: Path) -> None:
    with KeyProvider("", public=True) as server:
        terminal = Terminal(["--plain", "--model", "deepseek/x"], work, LM_STUDIO_API_BASE=f"127.0.0.1:{server.port}")
        terminal.expect("No key for deepseek")
        terminal.expect("1. Paste a key for deepseek")
        terminal.expect("Use lm_studio/m-1 - a server answers at")
        terminal.expect("Enter to cancel] ")
        terminal.type("lm_studio")
        terminal.expect("Model: lm_studio/m-1")
        terminal.ready()
        terminal.type("hello")
        terminal.expect("Answer of m-1.")
        terminal.leave()
    assert (work.parent / "home/.agentrc").read_text() == 'model = "lm_studio/m-1"\n'


def test_settings_of_another_agent_are_imported_without_its_login(work: Path, provider: KeyProvider) -> None:
    codex = work.parent / "home/.codex"
    codex.mkdir(parents=True)
    (codex / "config.toml").write_text('model = "gpt-5.6"\n')
    (codex / "auth.json").write_text(json.dumps({"OPENAI_API_KEY": GOOD}))
    terminal = Terminal(["--plain"], work)
    terminal.expect("Import settings of another agent - of Codex; never its login")
    terminal.expect("Enter to cancel] ")
    terminal.type("import")
    terminal.expect("logins are not copied")
    terminal.expect("Import these? [y/N] ")
    terminal.type("y")
    terminal.expect("No key for openai")
    terminal.expect("1. Paste a key for openai")
    terminal.expect("Enter to cancel] ")
    terminal.type("")
    terminal.end()
    assert places_of(work, GOOD) == {"auth.json"}


def test_the_demo_can_be_watched_first(work: Path) -> None:
    terminal = Terminal(["--plain"], work)
    terminal.expect("Enter to cancel] ")
    terminal.type("demo")
    terminal.expect("This is a demo")
    terminal.press("c")
    terminal.expect("How do you want to connect a model?")
    terminal.expect("Enter to cancel] ")
    terminal.type("")
    terminal.end()


def test_a_refused_key_is_replaced_in_the_session_which_goes_on(work: Path, provider: KeyProvider) -> None:
    env = {"OPENAI_BASE_URL": provider.openai_url, "OPENAI_API_KEY": WRONG, "AGENT_MODEL": "openai/m-1"}
    with Drawn([], work, **env) as screen:
        screen.ready()
        screen.line("hello")
        screen.wait("refused the API key")
        screen.wait("Log in to openai with another key, and try again?")
        screen.rest()
        screen.type("y")
        screen.wait("(it is not shown):")
        screen.line(GOOD)
        screen.wait("The key works.")
        screen.wait("OPENAI_API_KEY has another key.")
        screen.wait("Answer of m-1.")
        assert GOOD not in screen.text() and screen.text().count("hello") == 1
        screen.ready()
        screen.line("/logout openai")
        screen.wait("Logged out of openai.")
        screen.wait("OPENAI_API_KEY in your environment has a key, which is used.")
        screen.line("/login openai")
        screen.until(lambda: screen.text().count("(it is not shown):") == 2)
        screen.line(GOOD)
        screen.wait("openai/m-1 uses the new key from here on.")
        screen.leave()
    sent = [key for method, _, key in provider.seen if method == "POST"]
    assert sent == [WRONG, GOOD]
    # The stored key stands for exactly the key that it replaced.
    assert agent(["-p", "hello"], work, env).stdout == "Answer of m-1.\n"
    other = agent(["-p", "hello"], work, {**env, "OPENAI_API_KEY": "sk-third-0123456789"})
    assert other.returncode == 1 and provider.seen[-1][2] == "sk-third-0123456789"
    assert "To store another one: agent login" in other.stderr
    assert places_of(work, GOOD) == {"openai.json"} and not places_of(work, WRONG)


def test_a_refused_login_leaves_the_session_as_it_was(work: Path, provider: KeyProvider) -> None:
    env = {"OPENAI_BASE_URL": provider.openai_url, "OPENAI_API_KEY": WRONG, "AGENT_MODEL": "openai/m-1"}
    terminal = Terminal(["--plain"], work, **env)
    terminal.ready()
    terminal.type("hello")
    terminal.expect("and try again? [y/N] ")
    terminal.type("y")
    terminal.expect("(it is not shown): ")
    terminal.press("c")
    terminal.expect("Nothing was stored.")
    terminal.ready()
    terminal.type("/login nosuch")
    terminal.expect("nosuch is not a known provider. There are anthropic, openai,")
    terminal.leave()
    assert not stored(work).exists()


def test_openrouter_by_the_browser_at_the_first_start(work: Path) -> None:
    opened = work.parent / "opened"
    browser = work.parent / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {opened}.new; mv {opened}.new {opened}\n')
    browser.chmod(0o755)
    with KeyProvider() as provider:
        # To the program this is an address elsewhere: what answers on this machine needs no key.
        env = {"OPENROUTER_API_BASE": f"http://0.0.0.0:{provider.port}/api/v1", "BROWSER": str(browser)}
        with Drawn([], work, **env) as screen:
            screen.wait("Sign in to OpenRouter")
            screen.wait("type to filter")
            screen.line("1")
            screen.wait("Sign in to openrouter in the browser that opens, or here:")
            eventually(opened.exists)
            target = provider.sign_in(opened.read_text())
            # Nothing but the address of this sign-in is an answer.
            assert browse(target.replace("/callback/", "/callback/x")) == 400
            assert browse(target) == 200
            screen.wait("The key works.")
            screen.wait("Model: openrouter/m-1")
            screen.ready()
            screen.line("hello")
            screen.wait("Answer of m-1.")
            screen.leave()
        (key,) = provider.keys
        assert places_of(work, key) == {"openrouter.json"}
        assert key not in "".join(path for _, path, _ in provider.seen)


@pytest.mark.parametrize("pasted", ["code", "address"])
def test_over_ssh_the_code_is_pasted_and_a_proxy_is_used(work: Path, pasted: str) -> None:
    with KeyProvider() as provider, Proxy() as proxy:
        env = {
            "OPENROUTER_API_BASE": f"http://0.0.0.0:{provider.port}/api/v1",
            "HTTP_PROXY": f"http://127.0.0.1:{proxy.port}",
            "http_proxy": f"http://127.0.0.1:{proxy.port}",
        }
        terminal = Terminal(["login", "openrouter"], work, **env)
        terminal.expect("How do you want to log in to openrouter?")
        terminal.expect("Enter to cancel] ")
        terminal.type("1")
        terminal.expect("Sign in to openrouter here:")
        address = re.search(r"http://\S+", terminal.expect("Ctrl-C cancels."))
        assert address is not None and address[0].startswith(f"http://0.0.0.0:{provider.port}/auth?")
        terminal.type("http://localhost:1/callback/other?code=1234567890")
        terminal.expect("That is neither a code nor the address of this sign-in")
        target = provider.sign_in(address[0])
        terminal.type(target if pasted == "address" else target.partition("code=")[2])
        terminal.expect("The key works.")
        terminal.expect("saved as `model` in ~/.agentrc")
        terminal.end()
        assert terminal.exit_code == 0
        assert [line.split()[0] for line, _ in proxy.seen] == ["POST", "GET", "GET"]
        assert stored(work, "openrouter").exists()


def test_a_wrong_code_stores_nothing(work: Path) -> None:
    with KeyProvider() as provider:
        terminal = Terminal(["login", "openrouter"], work, OPENROUTER_API_BASE=provider.openrouter_url)
        terminal.expect("Enter to cancel] ")
        terminal.type("1")
        terminal.expect("Ctrl-C cancels.")
        terminal.type("code_that_nobody_issued")
        terminal.expect("The sign-in failed: openrouter did not accept the code (HTTP 403); sign in again.")
        terminal.end()
        assert terminal.exit_code == 1 and not stored(work, "openrouter").exists()


def test_a_trusted_project_does_not_decide_where_a_key_is_checked(work: Path, provider: KeyProvider) -> None:
    with KeyProvider(GOOD) as theirs:
        (work / ".agentrc").write_text(f'base_url = "{theirs.openai_url}"\nmodel = "openai/m-2"\n')
        terminal = Terminal(["--plain"], work, OPENAI_BASE_URL=provider.openai_url)
        terminal.expect("Trust this folder? [y/N] ")
        terminal.type("y")
        terminal.expect("[y/N] ")
        terminal.type("n")
        terminal.ready()
        terminal.type("/login openai")
        terminal.expect("(it is not shown): ")
        terminal.type(GOOD)
        terminal.expect(f"Checking the key at {provider.openai_url} ...")
        terminal.expect("The key works.")
        terminal.leave()
        assert not [key for _, _, key in theirs.seen if key]


def test_a_session_whose_key_is_gone_is_resumed_after_a_login(work: Path, provider: KeyProvider) -> None:
    env = {"GROQ_API_BASE": provider.openai_url, "AGENT_MODEL": "groq/m-1"}
    assert agent(["-p", "first"], work, {**env, "GROQ_API_KEY": GOOD}).returncode == 0
    elsewhere = {"AGENT_MODEL": "groq/m-1"}
    terminal = Terminal(["--plain", "-c"], work, **elsewhere)
    terminal.expect("No key for groq")
    terminal.expect("1. Paste a key for groq")
    terminal.expect("Enter to cancel] ")
    terminal.type("")
    assert "No key for groq" in terminal.end() and terminal.exit_code == 2
    stored_by = agent(["login", "groq"], work, env, stdin=GOOD)
    assert stored_by.returncode == 0, stored_by.stderr
    terminal = Terminal(["--plain", "-c"], work, **env)
    terminal.expect("restored 2 messages")
    terminal.leave()
    assert agent(["logout"], work, env).returncode == 0
    # Another model continues the session as well.
    with KeyProvider("", public=True) as server:
        terminal = Terminal(["--plain", "-c"], work, **elsewhere, LM_STUDIO_API_BASE=f"127.0.0.1:{server.port}")
        terminal.expect("Enter to cancel] ")
        terminal.type("lm_studio")
        terminal.expect("agent 0.1.0 · lm_studio/m-1")
        terminal.expect("restored 2 messages")
        terminal.ready()
        terminal.type("second")
        terminal.expect("Answer of m-1.")
        terminal.leave()


def test_openrouter_by_a_pasted_code_in_a_drawn_session(work: Path) -> None:
    model = script(work.parent / "s.toml", [{"text": "Scripted."}])
    with KeyProvider() as provider:
        env = {"OPENROUTER_API_BASE": f"http://0.0.0.0:{provider.port}/api/v1"}
        with Drawn(["--model", model], work, **env) as screen:
            screen.ready()
            screen.line("/login")
            screen.wait("What do you want to use?")
            screen.line("OpenRouter")
            screen.wait("Sign in to openrouter here:")
            screen.wait("Ctrl-C cancels.")
            screen.type("\x03")
            screen.wait("Nothing was stored.")
            screen.line("/login openrouter")
            screen.wait("How do you want to log in to openrouter?")
            screen.line("Sign in")
            screen.until(lambda: screen.text().count("Ctrl-C cancels.") == 2)
            address = "".join(screen.text().rpartition("http://0.0.0.0")[1:]).partition("  If the browser")[0]
            target = provider.sign_in("".join(address.split()))
            screen.line(target.partition("code=")[2])
            screen.wait("The key works.")
            screen.wait("To use it here: /model openrouter/m-1")
            screen.line("/model openrouter/m-1")
            screen.wait("model: openrouter/m-1")
            screen.line("hello")
            screen.wait("Answer of m-1.")
            screen.leave()
