"""Create model clients: chosen by name, connected on first use, with prices and optional request logs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from agent_cli.config.schema import ProviderSettings, Settings
from agent_cli.core.place import RunEnvironment, UsageError
from agent_cli.core.results import Failure, Usage
from agent_cli.engine.types import ModelHandle
from agent_cli.providers.base import Chunk, ModelClient, ModelError, Request
from agent_cli.providers.catalog import ModelInfo, lookup, price
from agent_cli.providers.registry import WireApi, is_loopback_url
from agent_cli.providers.resolve import ModelSetupError, ResolvedModel, open_transport, resolve
from agent_cli.session.records import Header
from agent_cli.session.store import state_folder
from agent_tools.cancel import CancelToken
from agent_tools.fs.safe_files import private_folder
from agent_tools.lazy import lazy_imports
from agent_tools.media import MediaKind

with lazy_imports():
    from agent_cli.core import redact
    from agent_cli.providers import (
        debug,
        discover,  # most runs name their model
    )
    from agent_tools.net import http  # HTTP and TLS, which a script does without

# A local model may read a long prompt for many minutes; if its server stops, the connection ends, too.
LOCAL_IDLE_SECONDS = 1800.0
# A window below this is for few tools and a short prompt only.
SMALL_WINDOW = 16_000


def choose_model(name: str | None, settings: Settings, place: RunEnvironment) -> ResolvedModel:
    """Resolve the named model, or find one. Raises UsageError."""
    try:
        if not name:
            name = discover.default_model(place.env)
        return resolve(
            name,
            base_url=settings.base_url,
            transport=settings.transport,
            wire_api=wire_api_of(settings),
            env=place.env,
            key_command=settings.key_command,
            keyring=settings.keyring,
        )
    except ModelSetupError as error:
        text = str(error)
        raise UsageError(text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")) from None


def wire_api_of(settings: Settings) -> Callable[[str], WireApi]:
    """Which of OpenAI's protocols the settings name for a provider."""
    return lambda provider: settings.providers.get(provider, ProviderSettings()).wire_api


def pricing(model: ResolvedModel, info: ModelInfo | None) -> Callable[[Usage], Usage]:
    """Return the function that adds the cost to a model call's usage; a script costs nothing."""
    return (lambda usage: usage) if model.wire == "scripted" else (lambda usage: price(info, usage))


def check_price(model: ResolvedModel, info: ModelInfo | None, settings: Settings) -> None:
    """Raise UsageError if a budget in dollars cannot be enforced because the model's price is unknown."""
    # OpenRouter reports the cost of each call.
    known = model.wire == "scripted" or model.provider == "openrouter" or (info and (info.local or info.prices))
    if settings.max_cost and not known and not settings.allow_unknown_cost:
        raise UsageError(
            f"The price of {model.name} is not known, so a budget in dollars cannot hold. Leave out --max-budget-usd "
            "(max_cost), or add --allow-unknown-cost and bound the turn by --max-turns."
        )


class ChosenModel:
    """The model of a session, which the user may change.

    resolved: the resolved name.
    info: its catalog entry, if any.
    """

    def __init__(self, name: str | None, settings: Settings, place: RunEnvironment) -> None:
        """Raise UsageError if the model cannot be resolved."""
        self._settings = settings
        self._place = place
        self.change(name)

    def change(self, name: str | None) -> None:
        """Switch to another model. Raises UsageError; nothing has changed then."""
        resolved = choose_model(name, self._settings, self._place)
        info = lookup(resolved.provider, resolved.model)
        check_price(resolved, info, self._settings)
        self.resolved, self.info = resolved, info

    def label(self) -> str:
        """The name shown to users."""
        return self.resolved.name


def input_modalities(info: ModelInfo | None, settings: Settings) -> frozenset[MediaKind]:
    """Return the media a model accepts: from the catalog, else from the settings."""
    says: dict[MediaKind, bool | None] = {"image": None, "pdf": None}
    if info is not None:
        says = {"image": info.vision, "pdf": info.pdf}
    return frozenset(kind for kind, taken in says.items() if (kind in settings.model_takes if taken is None else taken))


def window_of(info: ModelInfo | None, settings: Settings) -> int | None:
    """Return the context window in tokens: the catalog's, limited by the settings; None if unknown."""
    known = [size for size in (info.context_window if info else None, settings.context_window) if size]
    return min(known, default=None)


def wants_small_profile(settings: Settings, window: int | None) -> bool:
    """Return True if the model is to get few tools and a short prompt: by the setting, else by its window."""
    if settings.profile != "auto":
        return settings.profile == "small"
    return window is not None and window < SMALL_WINDOW


class _LazyClient:
    """A model client that is opened with its first request, which defers loading HTTP and TLS."""

    def __init__(self, opened: Callable[[], ModelClient]) -> None:
        self._opened = opened
        self._transport: ModelClient | None = None

    def stream(self, request: Request, cancel: CancelToken) -> Iterator[Chunk]:
        if self._transport is None:
            self._transport = self._opened()
        return self._transport.stream(request, cancel)


def open_client(model: ResolvedModel, settings: Settings) -> ModelClient:
    """Return a model's client, opened with its first request. Raises UsageError for a script that cannot be read."""

    def opened() -> ModelClient:
        idle = settings.idle_timeout
        if idle == Settings().idle_timeout and is_loopback_url(model.base_url):
            idle = LOCAL_IDLE_SECONDS
        timeouts = http.Timeouts(settings.connect_timeout, idle, settings.total_timeout)
        return open_transport(model, timeouts=timeouts, attempts=settings.retries)

    if model.wire != "scripted":
        return _LazyClient(opened)
    try:
        return open_transport(model)
    except ModelSetupError as error:
        raise UsageError(str(error)) from None


def debugged(
    transport: ModelClient, model: ResolvedModel, place: RunEnvironment, header: Header, warn: Callable[[str], None]
) -> ModelClient:
    """Wrap a client so that its requests and responses are logged, without secrets."""
    folder = state_folder(place.env) / "debug"
    path = folder / f"{header.session_id}.jsonl"
    try:
        private_folder(folder)
    except OSError as error:
        raise UsageError(f"--debug: cannot write to {folder}: {error.strerror}.") from None
    warn(f"requests and responses are written to {path}")
    return debug.RequestLogger(
        transport, path, redact.Redactor(place.env, model.api_key.reveal() if model.api_key else "")
    )


def lazy_model(name: str, settings: Settings, place: RunEnvironment) -> Callable[[], ModelHandle]:
    """Return a function that opens a further model. Calling it raises ModelError if that fails."""

    def opened() -> ModelHandle:
        try:
            model = choose_model(name, settings, place)
            wire = open_client(model, settings)
            info = lookup(model.provider, model.model)
            check_price(model, info, settings)
            takes, window = input_modalities(info, settings), window_of(info, settings)
            return ModelHandle(model.name, model.model, wire, pricing(model, info), takes, window)
        except UsageError as mistake:
            raise ModelError(Failure("auth", str(mistake))) from None

    return opened
