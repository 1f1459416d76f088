"""Models made ready: chosen by name, their wires opened when they are needed, their calls priced and written down."""

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
from agent_tools.fs.private import private_folder
from agent_tools.lazy import lazy_imports
from agent_tools.media import MediaKind

with lazy_imports():
    from agent_cli.core import redact
    from agent_cli.providers import (
        debug,
        discover,  # most runs name their model
    )
    from agent_tools.net import http  # HTTP and TLS, which a script does without

# A model on this machine may read a long prompt for many minutes; where its server ends, the connection ends too.
LOCAL_IDLE_SECONDS = 1800.0


def choose_model(name: str | None, settings: Settings, place: RunEnvironment) -> ResolvedModel:
    """The model to use: the one named, or what is found. Raises UsageError."""
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
    """What adds the cost to a model call's usage; a script costs nothing."""
    return (lambda usage: usage) if model.wire == "scripted" else (lambda usage: price(info, usage))


def check_price(model: ResolvedModel, info: ModelInfo | None, settings: Settings) -> None:
    """Raises UsageError where a budget in dollars could not hold, because the price of the model is not known."""
    # OpenRouter reports what each call cost.
    known = model.wire == "scripted" or model.provider == "openrouter" or (info and (info.local or info.prices))
    if settings.max_cost and not known and not settings.allow_unknown_cost:
        raise UsageError(
            f"The price of {model.name} is not known, so a budget in dollars cannot hold. Leave out --max-budget-usd "
            "(max_cost), or add --allow-unknown-cost and bound the turn by --max-turns."
        )


class ChosenModel:
    """The model that a session uses; the user may change it. resolved: what was found for its name; info: what the
    catalog says of it."""

    def __init__(self, name: str | None, settings: Settings, place: RunEnvironment) -> None:
        """Raises UsageError."""
        self._settings = settings
        self._place = place
        self.change(name)

    def change(self, name: str | None) -> None:
        """Use another one from now on. Raises UsageError; nothing has changed then."""
        resolved = choose_model(name, self._settings, self._place)
        info = lookup(resolved.provider, resolved.model)
        check_price(resolved, info, self._settings)
        self.resolved, self.info = resolved, info

    def label(self) -> str:
        """The name that people use."""
        return self.resolved.name


def input_modalities(info: ModelInfo | None, settings: Settings) -> frozenset[MediaKind]:
    """What a model can be shown beside text: as the catalog says, else as the settings do."""
    says: dict[MediaKind, bool | None] = {"image": None, "pdf": None}
    if info is not None:
        says = {"image": info.vision, "pdf": info.pdf}
    return frozenset(kind for kind, taken in says.items() if (kind in settings.model_takes if taken is None else taken))


def window_of(info: ModelInfo | None, settings: Settings) -> int | None:
    """How many tokens a model takes: as the catalog says, and not more than the settings do; None: not known."""
    known = [size for size in (info.context_window if info else None, settings.context_window) if size]
    return min(known, default=None)


class _LazyClient:
    """A wire that is opened with its first request: until then nobody pays for HTTP and TLS."""

    def __init__(self, opened: Callable[[], ModelClient]) -> None:
        self._opened = opened
        self._transport: ModelClient | None = None

    def stream(self, request: Request, cancel: CancelToken) -> Iterator[Chunk]:
        if self._transport is None:
            self._transport = self._opened()
        return self._transport.stream(request, cancel)


def open_client(model: ResolvedModel, settings: Settings) -> ModelClient:
    """The wire of a model, opened with its first request. Raises UsageError for a script that cannot be read."""

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
    """The wire with its requests and responses written down, without secrets."""
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
    """A further model, made ready when it is needed. Calling it raises ModelError where that cannot be."""

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
