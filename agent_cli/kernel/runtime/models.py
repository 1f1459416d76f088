"""Choose models by name and create their clients, which connect on first use, with prices and optional logs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from agent_cli.config.config import Config
from agent_cli.config.prompts import prompt
from agent_cli.config.schema import ProviderSettings, Settings
from agent_cli.kernel.engine.types import ModelHandle
from agent_cli.kernel.modes import Effort
from agent_cli.kernel.results import Failure, Usage
from agent_cli.kernel.run_environment import RunEnvironment, UsageError
from agent_cli.kernel.session.store import state_folder
from agent_cli.models.base import Chunk, ModelClient, ModelError, Request
from agent_cli.models.catalog import ModelInfo, lookup, price
from agent_cli.models.credentials import KeyStore, MissingKeyError, NoModelError
from agent_cli.models.registry import WireApi, find_provider, is_loopback_url
from agent_cli.models.resolve import OPUS_PLAN, ModelSetupError, ResolvedModel, create_client, resolve
from agent_tools.cancel import CancelToken
from agent_tools.fs.safe_files import private_folder
from agent_tools.lazy import lazy_imports
from agent_tools.record import Value
from agent_tools.results import ASSUMED_WINDOW_TOKENS, MediaKind

if TYPE_CHECKING:
    from agent_cli.models.offers import ModelOffers

with lazy_imports():
    from agent_cli.kernel import redact
    from agent_cli.models import (
        debug,
        guided,  # only for small models
        retry,  # only with a budget
        server_info,  # most models are in the catalog
    )
    from agent_cli.models import offers as model_offers  # only for lists
    from agent_tools.net import http  # HTTP and TLS, which a script does without

# A local model may read a long prompt for many minutes; if its server stops, the connection ends anyway.
LOCAL_IDLE_SECONDS = 300.0
# Added for each KB of the request: an old processor reads about ten tokens per second.
LOCAL_IDLE_SECONDS_PER_KB = 30.0
# Anthropic's name for the long window, and its size in tokens.
LONG_WINDOW_BETA, LONG_WINDOW = "context-1m-2025-08-07", 1_000_000
TASK_BUDGET_BETA = "task-budgets-2026-03-13"
# A smaller window, in tokens, has room only for few tools and a short prompt.
SMALL_WINDOW_TOKENS = 20_000
# A model with fewer parameters cannot handle many tools.
SMALL_MODEL_PARAMETERS = 8e9
_NAMED_SIZE = r"(?i)(?<![\w.])e?(\d+(?:\.\d+)?)b(?!\w)"
# Assumed window of a model of unknown size on a local server, in tokens; `ASSUMED_WINDOW_TOKENS` is that of others.
ASSUMED_LOCAL_WINDOW_TOKENS = 32_000
# The window that Ollama loads a model with by default: large enough to work, small enough for most memories.
OLLAMA_WINDOW_TOKENS = 32_768


class NoAccessError(UsageError):
    """No model can be reached: none is configured, or its key is missing. provider: whose key is missing, if known."""

    def __init__(self, text: str, provider: str = "") -> None:
        super().__init__(text)
        self.provider = provider


_KEYS = "keys"


def share_keys(env: Mapping[str, str], state: Path) -> None:
    """Let a run with a state folder of its own, which is made, use the stored keys. Raises OSError."""
    private_folder(state)
    if (keys := state_folder(env) / _KEYS).is_dir():
        (state / _KEYS).symlink_to(keys.absolute())


class ReachableModels:
    """The models that a user can reach, with the environment, the settings and the stored keys."""

    def __init__(self, run_env: RunEnvironment, settings: Settings) -> None:
        self._run_env, self._settings = run_env, settings

    @property
    def keys(self) -> KeyStore:
        """The keys that the user stored with `agent login`."""
        return KeyStore(state_folder(self._run_env.env) / _KEYS, keyring=self._settings.keyring)

    @property
    def offers(self) -> ModelOffers:
        """What to offer to the user."""
        return model_offers.ModelOffers(self._run_env.env, self.keys, self.current)

    def choose(self, name: str | None) -> ResolvedModel:
        """Resolve a model; without a name, find one. Raises UsageError, and NoAccessError if none can be reached."""
        logins, settings = self.keys, self._settings
        try:
            if not name or name == "default":
                name = server_info.default_model(self._run_env.env, logins=logins)
            return resolve(
                name,
                base_url=settings.base_url,
                transport=settings.transport,
                wire_api=wire_api_of(settings),
                env=self._run_env.env,
                key_command=settings.key_command,
                keyring=settings.keyring,
                logins=logins,
            )
        except ModelSetupError as error:
            text = str(error)
            text = text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")
            if isinstance(error, NoModelError | MissingKeyError):
                raise NoAccessError(text, getattr(error, "provider", "")) from None
            raise UsageError(text) from None

    @property
    def current(self) -> str:
        """The model that a run would use now, with its provider; "" if there is none. No key is read."""
        logins, settings = self.keys, self._settings
        try:
            name = settings.model or server_info.default_model(self._run_env.env, logins=logins)
            return resolve(
                name, base_url=settings.base_url, transport=settings.transport, wire_api=wire_api_of(settings),
                env=self._run_env.env, logins=logins,
            ).name  # fmt: skip
        except ModelSetupError:
            # It cannot be called without its key, but it is still the configured model.
            return settings.model or ""


def wire_api_of(settings: Settings) -> Callable[[str], WireApi]:
    """Return a function that returns the OpenAI protocol that the settings name for a provider."""
    return lambda provider: settings.providers.get(provider, ProviderSettings()).wire_api


def pricing(model: ResolvedModel, info: ModelInfo | None, settings: Settings) -> Callable[[Usage], Usage]:
    """Return a function that adds the cost to a model call's usage; scripts and recordings cost nothing."""
    if model.wire == "scripted" or model.recording:
        return lambda usage: usage
    return lambda usage: price(info, usage, hour=settings.cache_ttl == "1h")


def check_price(model: ResolvedModel, info: ModelInfo | None, settings: Settings) -> None:
    """Raise UsageError if a budget in dollars cannot be enforced because the model's price is unknown."""
    if _is_unpriced(model, info, settings) and not _is_gateway(model):
        raise UsageError(_unpriced(model))


def _is_unpriced(model: ResolvedModel, info: ModelInfo | None, settings: Settings) -> bool:
    """Return True if there is a budget in dollars, and no price to enforce it with."""
    # OpenRouter reports the cost of each call.
    known = (
        model.wire == "scripted"
        or model.recording
        or model.provider == "openrouter"
        or (info and (info.local or info.prices))
    )
    return bool(settings.max_cost and not known and not settings.allow_unknown_cost)


def _is_gateway(model: ResolvedModel) -> bool:
    """Return True for another address than the provider's own, where answers may come with their cost."""
    provider = find_provider(model.provider)
    return bool(model.base_url) and provider is not None and model.base_url != provider.base_url


def _unpriced(model: ResolvedModel) -> str:
    where = f" {model.base_url} reports no cost, and the" if _is_gateway(model) else " The"
    return (
        f"{where} price of {model.name} is not known, so a budget in dollars cannot be enforced. Leave out "
        "max_cost (--max-budget-usd), or set allow_unknown_cost (--allow-unknown-cost) and limit the turn with "
        "max_rounds (--max-turns)."
    ).lstrip()


class ChosenModel:
    """The model of a session, which the user may change.

    resolved: the resolved name.
    info: its catalog entry; None if there is none.
    has_planner: another model works in plan mode: Opus plans, Sonnet does the rest.
    """

    def __init__(self, name: str | None, settings: Settings, run_env: RunEnvironment) -> None:
        """Raise UsageError if the model cannot be resolved."""
        self._settings = settings
        self._run_env = run_env
        self.change(name)

    def change(self, name: str | None) -> None:
        """Switch to another model. Raises UsageError, without a change."""
        resolved = ReachableModels(self._run_env, self._settings).choose(name)
        info = lookup(resolved.provider, resolved.model)
        check_price(resolved, info, self._settings)
        self.resolved, self.info = resolved, info
        self.has_planner = (name or self._settings.model) == OPUS_PLAN
        self._window: ModelWindow | None = None

    @property
    def window(self) -> ModelWindow:
        """The model's window; its server is asked at most once."""
        if self._window is None:
            self._window = find_window(self.resolved, self.info, self._settings)
        return self._window

    def label(self) -> str:
        """The name shown to users."""
        return self.resolved.name


def input_modalities(
    info: ModelInfo | None, settings: Settings, window: ModelWindow | None = None
) -> frozenset[MediaKind]:
    """Return the media a model accepts: from its server, else from the catalog, else from the settings."""
    accepted: dict[MediaKind, bool | None] = {"image": None, "pdf": None}
    if info is not None:
        accepted = {"image": info.vision, "pdf": info.pdf}
    if window is not None and window.images is not None:
        accepted = {"image": window.images, "pdf": False}
    return frozenset(
        kind for kind, taken in accepted.items() if (kind in settings.model_takes if taken is None else taken)
    )


class ModelWindow(Value):
    """The context window of a model, and where its size comes from.

    tokens: None for a script, which has no window.
    images: the model accepts images, according to its server; None if unknown.
    parameters: the number of parameters, according to its server; None if unknown.
    llama_cpp: the server is llama.cpp.
    """

    tokens: int | None
    source: Literal["catalog", "settings", "server", "assumed", "none"]
    images: bool | None = None
    parameters: int | None = None
    llama_cpp: bool = False


def find_window(model: ResolvedModel, info: ModelInfo | None, settings: Settings, *, ask: bool = True) -> ModelWindow:
    """Return a model's window: from the settings and the catalog, else from its server, else an assumption.

    Only the user's own servers are asked, and only if neither settings nor catalog have it.
    ask: a server may be asked.
    """
    if model.recording:
        return ModelWindow(model.window, "none")
    known, configured = info.context_window if info else None, settings.context_window
    if known and model.long and model.provider == "anthropic":
        known = max(known, LONG_WINDOW)
    if model.wire == "ollama":
        return _ollama_window(model, configured, ask=ask)
    if configured:
        return ModelWindow(min(configured, known or configured), "settings")
    if model.wire == "scripted":
        return ModelWindow(None, "none")
    provider = find_provider(model.provider)
    # A local server often loads a model with less than its maximum.
    if known and not (provider and provider.local):
        return ModelWindow(known, "catalog")
    private = provider is not None and model.base_url != provider.base_url
    if ask and model.base_url and model.wire in ("openai", "responses") and (private or (provider and provider.local)):
        key = model.api_key.reveal() if model.api_key else ""
        asked = server_info.ask_server(model.base_url, model.model, key)
        if asked.window:
            return ModelWindow(asked.window, "server", None, asked.parameters, asked.llama_cpp)
    if known:
        return ModelWindow(known, "catalog")
    # A local server with the protocol of Anthropic or Google is a proxy for a large model.
    local = model.wire in ("openai", "responses") and is_loopback_url(model.base_url)
    return ModelWindow(ASSUMED_LOCAL_WINDOW_TOKENS if local else ASSUMED_WINDOW_TOKENS, "assumed")


def _ollama_window(model: ResolvedModel, configured: int | None, *, ask: bool) -> ModelWindow:
    """Return the window to request from Ollama: from the settings, else the model's own file, else a default.

    A model that is loaded with a larger window stays so.
    """
    key = model.api_key.reveal() if model.api_key else ""
    about = server_info.ask_ollama(model.base_url, model.model, key) if ask else None
    if about is None:
        return ModelWindow(configured or OLLAMA_WINDOW_TOKENS, "settings" if configured else "assumed")
    window = configured or about.configured or max(about.loaded or 0, OLLAMA_WINDOW_TOKENS)
    source: Literal["settings", "server"] = "settings" if configured else "server"
    return ModelWindow(min(window, about.max_context or window), source, about.images, about.parameters)


def wants_small_profile(settings: Settings, model: str, window: ModelWindow) -> bool:
    """Return True if the model should get few tools and a short prompt: by the setting, else by its window and size.

    The size comes from its server, else from its name: the largest of `7b`, `1.5b`, `e4b` in it.
    """
    if settings.profile != "auto":
        return settings.profile != "default"
    if window.tokens is not None and window.tokens < SMALL_WINDOW_TOKENS:
        return True
    sizes = re.findall(_NAMED_SIZE, model) if "b" in model.lower() else ()
    named = max((float(size) * 1e9 for size in sizes), default=None)
    size = window.parameters or named
    return size is not None and size < SMALL_MODEL_PARAMETERS


def wants_guidance(settings: Settings, model: ResolvedModel, window: ModelWindow) -> bool:
    """Return True if the model should be led by constrained steps: by the setting, else if its server can do that.

    Only a server on this machine is asked, once, when the first request is sent.
    """
    if settings.profile != "auto":
        return settings.profile == "guided"
    if not wants_small_profile(settings, model.model, window) or not is_loopback_url(model.base_url):
        return False
    if model.wire != "openai":
        return model.wire == "ollama"
    key = model.api_key.reveal() if model.api_key else ""
    return server_info.constrains_answers(model.base_url, model.model, key)


# The default limit for an answer: a model may not stop by itself. An answer that is cut is continued.
DEFAULT_ANSWER_TOKENS = 32_000


def model_handle(
    model: ResolvedModel, info: ModelInfo | None, settings: Settings, client: ModelClient, window: ModelWindow
) -> ModelHandle:
    """Return a model ready for use, with the limits that catalog, provider and window set for its answers."""
    total = info.max_output if info else None
    return ModelHandle(
        label=model.name,
        model=model.model,
        client=client,
        price=pricing(model, info, settings),
        input_modalities=input_modalities(info, settings, window),
        window=window.tokens,
        answer_tokens=_answer_tokens(model, total, window.tokens),
        total_tokens=total,
        usual_effort=_default_effort(model, info, settings),
        provider=model.provider,
    )


def _answer_tokens(model: ResolvedModel, max_output: int | None, window: int | None) -> int | None:
    provider = find_provider(model.provider)
    if model.wire == "scripted" or (provider is not None and provider.max_tokens_optional):
        return None
    if max_output is None and window and provider is not None and provider.local:
        max_output = window // 2  # a small model may repeat itself until its window is full
    return min(DEFAULT_ANSWER_TOKENS, max_output) if max_output else None


def _default_effort(model: ResolvedModel, info: ModelInfo | None, settings: Settings) -> Effort | None:
    """Return "medium" if the model has levels of effort and no setting rules them out."""
    provider = find_provider(model.provider)
    if info is None or not info.reasoning or provider is None or not provider.effort:
        return None
    # Claude accepts neither together with thinking.
    ruled_out = model.wire == "anthropic" and settings.temperature is not None
    return None if ruled_out else "medium"


class _LazyClient:
    """A model client that is opened by its first request, so that HTTP and TLS are loaded late."""

    def __init__(self, open_now: Callable[[], ModelClient]) -> None:
        self._open = open_now
        self._transport: ModelClient | None = None

    def stream(self, request: Request, cancel: CancelToken) -> Iterator[Chunk]:
        if self._transport is None:
            self._transport = self._open()
        return self._transport.stream(request, cancel)


def open_client(model: ResolvedModel, settings: Settings, window: ModelWindow | None = None) -> ModelClient:
    """Return a model's client, which the first request opens. Raises UsageError for a script that cannot be read.

    window: the model's, if known, for servers that have to be asked for it.
    """

    def open_now() -> ModelClient:
        idle, per_kb = settings.idle_timeout, 0.0
        if idle == Settings().idle_timeout and is_loopback_url(model.base_url):
            idle, per_kb = LOCAL_IDLE_SECONDS, LOCAL_IDLE_SECONDS_PER_KB
        timeouts = http.Timeouts(idle=idle, total=0.0, idle_per_kb=per_kb)
        client = create_client(
            model,
            timeouts=timeouts,
            attempts=settings.retries,
            headers=_betas(model, settings),
            cache_ttl=settings.cache_ttl,
            window=window.tokens if window else None,
            progress=window is not None and window.llama_cpp,
        )
        unpriced = settings.max_cost and _is_unpriced(model, lookup(model.provider, model.model), settings)
        if unpriced:
            client = retry.ReportedCostClient(client, _unpriced(model))
        if window is None or not wants_guidance(settings, model, window):
            return client
        return guided.GuidedClient(client, prompt("small/guided"), prompt("small/system"))

    if model.recording:
        raise UsageError("A recording is replayed from the start of a run: agent -p --model replay:FILE.")
    if model.wire != "scripted":
        return _LazyClient(open_now)
    try:
        return create_client(model)
    except ModelSetupError as error:
        raise UsageError(str(error)) from None


def _betas(model: ResolvedModel, settings: Settings) -> dict[str, str]:
    """Return the header that requests beta features of Anthropic's API."""
    wanted_by = ((LONG_WINDOW_BETA, model.long), (TASK_BUDGET_BETA, settings.task_budget))
    names = (*settings.betas, *(beta for beta, wanted in wanted_by if wanted))
    return {"anthropic-beta": ",".join(dict.fromkeys(names))} if names and model.provider == "anthropic" else {}


def open_debug(
    model: ResolvedModel, run_env: RunEnvironment, config: Config, session_id: str, warn: Callable[[str], None]
) -> debug.DebugLog | None:
    """Return the log of `Config.debug`, without secrets; None if it is not requested."""
    options = config.debug
    if options is None:
        return None
    categories = debug.debug_categories(options.categories)
    if not categories:
        known = ", ".join(debug.CATEGORIES)
        warn(f"{config.name_of('debug')} {options.categories}: nothing is written; choose from {known}")
        return None
    secrets = redact.Redactor(run_env.env, model.api_key.reveal() if model.api_key else "")
    if options.to_stderr and not options.file:
        return debug.DebugLog(None, secrets, categories)
    folder = state_folder(run_env.env) / "debug"
    path = Path(os.path.expanduser(options.file)) if options.file else folder / f"{session_id}.jsonl"
    try:
        if not options.file:
            private_folder(folder)
        os.close(debug.open_debug_log(path))
    except OSError as error:
        raise UsageError(f"{config.name_of('debug')}: cannot write to {path}: {error.strerror or error}.") from None
    what = "requests, responses, calls and hooks"
    if categories != {*debug.CATEGORIES}:
        what = " and ".join({"api": "requests and responses", "tools": "calls"}.get(c, c) for c in sorted(categories))
    warn(f"{what} are written to {path}")
    return debug.DebugLog(path, secrets, categories)


def log_requests(client: ModelClient, log: debug.DebugLog | None) -> ModelClient:
    """Return a client that also logs requests and responses, if the log wants them."""
    return debug.RequestLogger(client, log) if log is not None and "api" in log.categories else client


def lazy_model(name: str, settings: Settings, run_env: RunEnvironment) -> Callable[[], ModelHandle]:
    """Return a function that opens another model. Calling it raises ModelError if that fails."""

    def open_now() -> ModelHandle:
        try:
            model = ReachableModels(run_env, settings).choose(name)
            info = lookup(model.provider, model.model)
            check_price(model, info, settings)
            window = find_window(model, info, settings)
            return model_handle(model, info, settings, open_client(model, settings, window), window)
        except UsageError as mistake:
            raise ModelError(Failure("auth", str(mistake))) from None

    return open_now


def make_planner(
    chosen: ChosenModel, main: ModelHandle, lazy: Callable[[str], Callable[[], ModelHandle]]
) -> Callable[[bool], ModelHandle] | None:
    """Return `TurnDeps.planner` for a model.

    main: its handle.
    lazy: returns a function that opens another model.
    """
    if not chosen.has_planner:
        return None
    plans = cache(lazy("opus"))
    return lambda planning: plans() if planning else main
