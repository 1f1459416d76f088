"""Connect a model: a key that is pasted, a sign-in at OpenRouter, a server on this machine.

Asked at a start without a usable model, by `agent login` and by /login. Where a key is sent comes from the user's own
environment and settings, never from a project. Keys are read without echo and shown nowhere.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from agent_cli import Config, Layers, RunEnvironment, UsageError, read_settings
from agent_cli.config.parsing import SettingsError
from agent_cli.config.schema import Settings
from agent_cli.kernel.runtime.models import ReachableModels
from agent_cli.kernel.runtime.saved_settings import SettingsFile
from agent_cli.models.credentials import KeyStoreError, Secret, key_variable
from agent_cli.models.registry import LOCAL_SERVERS, PROVIDERS, Provider, base_url_of, find_provider, normalize_url
from agent_cli.shells.terminal.line_input import read_hidden, write_terminal
from agent_cli.shells.terminal.render.console import abbreviate_home
from agent_tools.lazy import lazy_imports
from agent_tools.record import Protocol
from agent_tools.text import one_line

with lazy_imports():
    from agent_cli.kernel.runtime import browser_login  # an HTTP server
    from agent_cli.models import login, server_info  # HTTP

SIGN_IN_SECONDS = 300.0
MAX_TRIES = 3
_POLL_SECONDS = 0.1
_MAX_LISTED = 15
LOCAL_HELP = """\
  Ollama (https://ollama.com):  ollama serve, and in another terminal: ollama pull qwen3-coder
  LM Studio:                    load a model and start the server
  llama.cpp:                    llama-server -m MODEL.gguf --jinja --port 8080
  vLLM:                         vllm serve MODEL --enable-auto-tool-choice --tool-call-parser PARSER
  A server on another machine: set its address, as in OLLAMA_HOST=HOST:11434."""


class LoginQuestions(Protocol):
    """The questions that a login asks; see `slash.UserQuestions`."""

    def say(self, text: str) -> None: ...

    def confirm(self, question: str, *, grave: bool) -> bool: ...

    def choose(self, question: str, options: Sequence[tuple[str, str]], *, quiet: bool = False) -> int | None: ...

    def ask(self, question: str, read: Callable[[str], Any], text: str = "") -> Any: ...


# Runs something that reads and writes the terminal itself; returns None if Ctrl-C ends it.
Outside = Callable[[Callable[[], Any]], Any]


class ModelLogin:
    """Asks the user how to connect a model, and stores the keys.

    outside: see `Outside`. browser: a browser may be opened.
    """

    def __init__(
        self,
        asks: LoginQuestions,
        outside: Outside,
        run_env: RunEnvironment,
        config: Config,
        *,
        browser: bool = True,
    ) -> None:
        """Raises UsageError for the user's settings."""
        self._asks, self._outside, self._browser = asks, outside, browser
        self._run_env, self._home = run_env, run_env.home
        self.env, self._settings = own_settings(run_env, config)
        self._keys = ReachableModels(run_env, self._settings).keys

    def connect(self, title: str, provider: str = "", more: Sequence[tuple[str, str]] = ()) -> str | int | None:
        """Ask until a model is connected; return its name, the index of the picked one of `more`, or None.

        provider: whose key is missing.
        """
        while True:
            ways: list[tuple[str, str, Callable[[], str | None] | int]] = []
            needed = find_provider(provider) if provider else None
            if needed is not None and needed.name != "openrouter" and needed.keys:
                ways.append((f"Paste a key for {needed.name}", needed.key_page, partial(self.log_in, needed)))
            about = "in the browser; one account for the models of many providers"
            ways.append(("Sign in to OpenRouter", about, self._sign_in_to_openrouter))
            ways.append(("Paste an API key", "of Anthropic, OpenAI, Gemini, DeepSeek or another provider", self._paste))
            for name, why in server_info.local_models(self.env):
                ways.append((f"Use {name}", why, partial(str, name)))
            servers = ", ".join(LOCAL_SERVERS.values())
            ways.append(("Run a model on this machine", f"with {servers}", self._explain_local))
            ways += [(label, text, index) for index, (label, text) in enumerate(more)]
            picked = self._asks.choose(title, [(label, text) for label, text, _ in ways])
            if picked is None:
                return None
            way = ways[picked][2]
            if isinstance(way, int):
                return way
            if connected := way():
                return connected

    def log_in(self, provider: Provider) -> str | None:
        """Get, check and store a key; return the model to begin with, None without a login."""
        url = self._address_of(provider)
        if login.offers_sign_in(provider, url):
            picked = self._asks.choose(
                f"How do you want to log in to {provider.name}?",
                [("Sign in in the browser", "a key is made for you"), ("Paste a key", provider.key_page)],
            )
            if picked is None:
                return None
            if picked == 0:
                return self._sign_in(provider, url)
        return self._paste_key(provider, url)

    def store(self, provider: Provider, key: Secret) -> str:
        """Check and store a key that was not typed; return the model to begin with. Raises LoginError."""
        found = login.check_key(provider, self._address_of(provider), key)
        return self._keep(provider, key, found)

    def _address_of(self, provider: Provider) -> str:
        if self._settings.base_url:
            return normalize_url(self._settings.base_url, provider)
        return base_url_of(provider, self.env)

    def _paste(self) -> str | None:
        named = [p for p in PROVIDERS if p.keys and not p.local and p.wire != "litellm"][:_MAX_LISTED]
        options = [(p.name, p.key_page) for p in named]
        picked = self._asks.choose("Which provider is the key for?", [*options, ("another", "type its name")])
        if picked is None:
            return None
        provider = named[picked] if picked < len(named) else self._asks.ask("Name of the provider", _named_provider)
        return None if provider is None else self._paste_key(provider, self._address_of(provider))

    def _paste_key(self, provider: Provider, url: str) -> str | None:
        say = self._asks.say
        if provider.key_page and url == provider.base_url:
            say(f"  Keys are made at {provider.key_page}")
        for _ in range(MAX_TRIES):
            text = self._outside(lambda: read_hidden(f"  API key for {provider.name} (it is not shown): "))
            if not text:
                say("  Nothing was stored.")
                return None
            if problem := login.key_problem(text):
                say(f"  {problem}")
                continue
            try:
                return self._check_and_keep(provider, url, Secret(text))
            except login.KeyRefusedError as refused:
                say(f"  {one_line(str(refused))}")
        say("  Nothing was stored.")
        return None

    def _check_and_keep(self, provider: Provider, url: str, key: Secret) -> str | None:
        """Raises KeyRefusedError."""
        self._asks.say(f"  Checking the key at {url or provider.name} ...")
        try:
            found = login.check_key(provider, url, key)
        except login.KeyRefusedError:
            raise
        except login.LoginError as error:
            self._asks.say(f"  The key could not be checked: {one_line(str(error))}")
            if not self._asks.confirm("Store it without a check?", grave=False):
                return None
            found = login.CheckedKey(checked=False)
        try:
            return self._keep(provider, key, found) or self._ask_for_model(provider)
        except login.LoginError as error:
            self._asks.say(f"  {one_line(str(error))}")
            return None

    def _ask_for_model(self, provider: Provider) -> str | None:
        """Ask for a model of a provider that lists none."""
        name = self._asks.ask(f"Which model of {provider.name}? Its name", str.strip)
        return f"{provider.name}/{name}" if name else None

    def keep_model(self, name: str, layers: Layers | None = None) -> None:
        """Save the model with which sessions begin. layers: the settings of the session that begins."""
        self._asks.say(f"  Model: {name} (/model changes it at any time, agent models lists others)")
        if self._home is None:
            return
        try:
            SettingsFile(self._home / ".agentrc").set("model", name, layers)
        except (SettingsError, OSError):
            self._asks.say(f"  ~/.agentrc could not be changed; agent --model {name} uses it.")
        else:
            self._asks.say("  saved as `model` in ~/.agentrc")

    def has_model(self) -> bool:
        """Return True if the user's own settings and keys are enough for a session."""
        try:
            model = ReachableModels(self._run_env.replace(env=self.env), self._settings).choose(self._settings.model)
        except UsageError:
            return False
        return bool(self._settings.model) or model.key_source != "none found"

    def _keep(self, provider: Provider, key: Secret, found: login.CheckedKey) -> str:
        """Store a key; return the model to begin with, "" if it is not known. Raises LoginError."""
        variable = key_variable(provider, self.env)
        others = self.env[variable].strip() if variable else ""
        try:
            path = self._keys.save(provider.name, key, others if others != key.reveal() else "")
        except KeyStoreError as error:
            raise login.LoginError(f"The key cannot be stored: {error}.") from None
        where = f"{abbreviate_home(Path(path), self._home)}, which only you can read" if path else "the system keyring"
        state = "The key works" if found.checked else f"{provider.name} did not check the key; its first answer will"
        self._asks.say(f"  {state}. It is stored in {where}; agent logout {provider.name} removes it.")
        if others and others != key.reveal():
            self._asks.say(f"  {variable} has another key. The stored key is used until you change that variable.")
        return login.starting_model(provider, found.models)

    def _sign_in_to_openrouter(self) -> str | None:
        provider = find_provider("openrouter")
        assert provider is not None
        url = self._address_of(provider)
        if not login.offers_sign_in(provider, url):
            self._asks.say(f"  The address of openrouter is {url}, which has no sign-in page. Paste a key instead.")
            return None
        return self._sign_in(provider, url)

    def _sign_in(self, provider: Provider, url: str) -> str | None:
        opens = self._browser and browser_login.can_open_browser(self.env)
        try:
            key = self._outside(lambda: _key_from_browser(provider, url, opens=opens))
        except (login.LoginError, OSError) as error:
            self._asks.say(f"  The sign-in failed: {one_line(str(error))}")
            return None
        if key is None:
            self._asks.say("  Nothing was stored.")
            return None
        try:
            return self._check_and_keep(provider, url, key)
        except login.KeyRefusedError as refused:
            self._asks.say(f"  {one_line(str(refused))}")
            return None

    def _explain_local(self) -> None:
        for line in LOCAL_HELP.splitlines():
            self._asks.say(line)
        self._asks.ask("Start one of them, then press Enter to look for it", lambda line: True)


def own_settings(run_env: RunEnvironment, config: Config) -> tuple[Mapping[str, str], Settings]:
    """Return the environment and the settings of the user alone, without the project's. Raises UsageError."""
    own = Config(bare=config.bare, settings=config.settings, sources=None if config.bare else ("user",))
    layers = read_settings(own, run_env)
    return {**run_env.env, **layers.env}, layers.settings()


def log_out(run_env: RunEnvironment, config: Config, name: str) -> str:
    """Remove a stored key; return what was done. Raises UsageError."""
    env, settings = own_settings(run_env, config)
    keys = ReachableModels(run_env, settings).keys
    names = keys.names()
    if not name and len(names) > 1:
        raise UsageError(f"You are logged in to {', '.join(names)}: name one of them.")
    provider = provider_with_key(name) if name else find_provider(names[0]) if names else None
    if provider is None:
        return "You are not logged in to any provider."
    try:
        existed = keys.forget(provider.name)
    except KeyStoreError as error:
        raise UsageError(f"The key was not removed: {error}.") from None
    lines = [f"Logged out of {provider.name}." if existed else f"You are not logged in to {provider.name}."]
    if existed and provider.key_page:
        lines.append(f"The key itself stays valid until you delete it at {provider.key_page}")
    if variable := key_variable(provider, env):
        lines.append(f"{variable} in your environment has a key, which is used.")
    return "\n".join(lines)


def provider_with_key(name: str) -> Provider:
    """Return a provider to log in to. Raises UsageError for any other name."""
    provider = find_provider(name.strip().lower())
    if provider is None:
        known = ", ".join(p.name for p in PROVIDERS if p.keys and not p.local)
        raise UsageError(f"{one_line(name)} is not a known provider. There are {known}.")
    if not provider.keys:
        raise UsageError(f"{provider.name} takes no API key.")
    return provider


def _named_provider(name: str) -> Provider:
    try:
        return provider_with_key(name)
    except UsageError as error:
        raise ValueError(str(error)) from None


def _key_from_browser(provider: Provider, url: str, *, opens: bool) -> Secret | None:
    """Show the sign-in page and wait for its answer; return the key. Raises LoginError, OSError."""
    codes: list[str] = []

    def accept(line: str) -> bool:
        if code := login.code_in(line):
            codes.append(code)
        return bool(code) or listener.accept(line)

    def refuse() -> None:
        write_terminal(f"  That is neither a code nor the address of this sign-in, which begins with {listener.uri}\n")

    with browser_login.RedirectListener(secret_path=True) as listener:
        request = login.OpenRouterLogin(provider, url, listener.uri)
        where = "in the browser that opens, or here" if opens else "here"
        write_terminal(
            f"  Sign in to {provider.name} {where}:\n{request.address}\n"
            "  If the browser is on another machine, paste the address it ends at, or its code.\n  Ctrl-C cancels.\n"
        )
        if opens:
            browser_login.open_browser(request.address)
        typed: int | None = 0
        end = time.monotonic() + SIGN_IN_SECONDS
        while not codes:
            if time.monotonic() > end:
                raise login.LoginError(f"nobody signed in within {SIGN_IN_SECONDS:.0f} s.")
            if (answer := listener.poll()) is not None:
                if "code" not in answer:
                    words = answer.get("error_description") or answer.get("error") or "no code"
                    raise login.LoginError(f"the page answered: {words[:300]}")
                codes.append(answer["code"])
            elif typed is None:
                time.sleep(_POLL_SECONDS)
            else:
                typed = browser_login.read_pasted(typed, accept, refuse)
    return request.exchange(codes[0])
