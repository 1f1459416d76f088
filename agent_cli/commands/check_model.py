"""Doctor's question about models: which one a run would use, where its key comes from, and what else is there."""

from __future__ import annotations

from agent_cli.commands.checks import Finding, package_version
from agent_cli.config.schema import Settings
from agent_cli.model.catalog import ModelInfo, lookup
from agent_cli.model.discover import discover, probe_server
from agent_cli.model.providers import find
from agent_cli.model.select import ModelSetupError, ResolvedModel, open_transport
from agent_cli.place import Place, UsageError
from agent_cli.wires import choose_model, taken_by
from agent_tools.media import MediaKind

MEDIA: dict[MediaKind, str] = {"image": "images", "pdf": "PDFs"}


def check_model(settings: Settings, place: Place) -> tuple[list[Finding], bool]:
    """The findings, and whether a model could be used. No provider is called; only this machine is asked."""
    found = discover(place.env)
    try:
        model = choose_model(settings.model, settings, place)
    except UsageError as mistake:
        return [Finding("problem" if settings.model else "missing", "model", str(mistake)), *_others(found, "")], False
    how = "configured" if settings.model else "found: " + next((why for n, why in found if n == model.name), "")
    if wrong := _unusable(model):
        return [Finding("problem", "model", f"{model.name} ({how}): {wrong}"), *_others(found, model.name)], False
    info = lookup(model.provider, model.model)
    # The text of a key is never at hand here: Resolved holds a Secret, and only its source is told.
    takes = ", ".join(["text", *(MEDIA[kind] for kind in sorted(taken_by(info, settings)))])
    details = (f"key: {model.key_source}", f"reached by: {_way(model)}", _facts(model, info), f"takes: {takes}")
    data = {"model": model.name, "key_source": model.key_source, "configured": settings.model is not None}
    finding = Finding("ok", "model", f"{model.name} ({how})", details, data)
    return [finding, *_fallbacks(settings, place), *_others(found, model.name)], True


def _unusable(model: ResolvedModel) -> str:
    """Why a model that was resolved cannot be called from here; "" where nothing speaks against it."""
    if model.wire == "scripted":
        try:
            open_transport(model)
        except ModelSetupError as error:
            return str(error)
    if model.wire == "litellm" and not package_version("litellm"):
        return f"{model.provider} is reached through LiteLLM, which is not installed"
    provider = find(model.provider)
    local = provider is not None and provider.local and model.base_url.startswith("http://")
    if local and probe_server(model.base_url) is None:
        return f"no model server answers at {model.base_url}"
    return ""


def _way(model: ResolvedModel) -> str:
    wires = {
        "openai": "the Chat Completions wire",
        "anthropic": "the Anthropic wire",
        "litellm": "LiteLLM",
        "scripted": "a script",
    }
    return f"{wires[model.wire]}{f' at {model.base_url}' if model.base_url else ''}"


def _facts(model: ResolvedModel, info: ModelInfo | None) -> str:
    if model.wire == "scripted":
        return "a script: no window, no price"
    if info is None:
        return "not in the catalog: window and price unknown; it works, and cost is not shown"
    window = f"{info.context_window:,} tokens" if info.context_window else "unknown"
    price = "free" if info.local else "known" if info.prices else "unknown"
    return f"window: {window}; price: {price}"


def _fallbacks(settings: Settings, place: Place) -> list[Finding]:
    findings = []
    for name in settings.fallback_models:
        try:
            model = choose_model(name, settings, place)
            findings.append(Finding("ok", "fallback", f"{model.name} (key: {model.key_source})"))
        except UsageError as mistake:
            findings.append(Finding("problem", "fallback", f"{name}: {mistake}"))
    return findings


def _others(found: list[tuple[str, str]], chosen: str) -> list[Finding]:
    others = [(name, why) for name, why in found if name != chosen]
    if not others:
        return []
    details = tuple(f"{name} ({why})" for name, why in others)
    return [Finding("ok", "also usable", "other models that were found", details, {"models": [n for n, _ in others]})]
