"""The models of a run that is recorded (`--record FILE`) or replayed (`--model replay:FILE`)."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agent_cli.config.config import Config
from agent_cli.config.schema import Settings
from agent_cli.kernel.engine.types import ModelHandle
from agent_cli.kernel.redact import Redactor
from agent_cli.kernel.results import Failure
from agent_cli.kernel.run_environment import RunEnvironment, UsageError
from agent_cli.kernel.runtime.models import ChosenModel, ReachableModels, find_window, model_handle, open_client
from agent_cli.kernel.session.store import state_folder
from agent_cli.models.base import ModelClient, ModelError
from agent_cli.models.catalog import lookup
from agent_cli.models.recording import Normalizer, RecordingClient, RecordingFile, ReplayClient
from agent_cli.models.resolve import ResolvedModel, model_of_recording

Opener = Callable[[], ModelHandle]


class Recording:
    """Models whose requests and answers are recorded."""

    def __init__(self, config: Config, chosen: ChosenModel, settings: Settings, run_env: RunEnvironment) -> None:
        """Create the file `Config.record`. Raises UsageError."""
        file = config.record or ""
        model = chosen.resolved
        key = model.api_key.reveal() if model.api_key else ""
        self._normalize = Normalizer(run_folders(run_env), run_env.env)
        self._model, self._settings, self._window = model, settings, chosen.window
        head = {"resolved": self._description(model, self._window.tokens)}
        try:
            self._file = RecordingFile(file, head, self._normalize, Redactor(run_env.env, key))
        except OSError as error:
            raise UsageError(
                f"{config.name_of('record')}: {file} cannot be written: {error.strerror or error}."
            ) from None

    def _description(self, model: ResolvedModel, window: int | None) -> Mapping[str, Any]:
        plain = {"provider": model.provider, "model": model.model, "wire": model.wire, "litellm": model.litellm}
        return {**self._normalize(plain), "window": window}

    def client(self) -> ModelClient:
        """Return the client of the main model."""
        return RecordingClient(open_client(self._model, self._settings, self._window), self._model.name, self._file)

    def lazy_model(self, name: str, settings: Settings, run_env: RunEnvironment) -> Opener:
        """Return a function that opens another model. Calling it raises ModelError if that fails."""

        def open_model() -> ModelHandle:
            try:
                model = ReachableModels(run_env, settings).choose(name)
                info = lookup(model.provider, model.model)
                window = find_window(model, info, settings)
                self._file.add_model(self._normalize.text(name), self._description(model, window.tokens))
                client = RecordingClient(open_client(model, settings, window), model.name, self._file)
                return model_handle(model, info, settings, client, window)
            except UsageError as mistake:
                raise ModelError(Failure("auth", str(mistake))) from None

        return open_model


class Replaying:
    """Models that answer from a recording."""

    def __init__(self, model: ResolvedModel, run_env: RunEnvironment) -> None:
        """Read the recording. Raises UsageError."""
        self._path = model.recording
        self._normalize = Normalizer(run_folders(run_env), run_env.env)
        try:
            self._replay = ReplayClient(Path(model.recording), run_folders(run_env), run_env.env)
        except ModelError as error:
            raise UsageError(error.failure.message) from None

    def client(self) -> ModelClient:
        """Return the client of the main model."""
        return self._replay

    def lazy_model(self, name: str, settings: Settings, run_env: RunEnvironment) -> Opener:
        """Return a function that opens another model of the recording. Calling it raises ModelError."""

        def open_model() -> ModelHandle:
            plain = self._replay.models.get(self._normalize.text(name))
            if plain is None:
                raise ModelError(Failure("replay", f"The replay differs: {self._path} has no answers by {name}."))
            model = model_of_recording(plain, self._path)
            info = lookup(model.provider, model.model)
            return model_handle(model, info, settings, self._replay, find_window(model, info, settings))

        return open_model


def open_exchange(
    config: Config, chosen: ChosenModel, settings: Settings, run_env: RunEnvironment
) -> Recording | Replaying:
    """Return the models of a run that is recorded, or replayed. Raises UsageError."""
    if chosen.resolved.recording:
        if config.record:
            name, model = config.name_of("record"), config.name_of("model")
            raise UsageError(f"{name} cannot be combined with {model} replay:FILE, which is a recording already.")
        return Replaying(chosen.resolved, run_env)
    return Recording(config, chosen, settings, run_env)


def run_folders(run_env: RunEnvironment) -> dict[str, str]:
    """Return the folders that differ between machines, with the names that replace them in a recording."""
    found = {str(state_folder(run_env.env)): "<state>"}
    if run_env.home is not None:
        found[str(run_env.home)] = "<home>"
    found[str(run_env.root)] = "<root>"
    found[str(run_env.cwd)] = "<cwd>"
    if temporary := run_env.env.get("TMPDIR"):
        found[os.path.abspath(temporary)] = "<tmp>"  # noqa: PTH100
    return found
