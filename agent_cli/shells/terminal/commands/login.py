"""/login and /logout: store an API key during a session, and remove it. Also the offer after a key was refused."""

from __future__ import annotations

from collections.abc import Iterable

from agent_cli import Failure, TurnResult
from agent_cli.kernel.results import Spent
from agent_cli.kernel.runtime.models import ReachableModels
from agent_cli.models.registry import PROVIDERS, Provider, find_provider
from agent_cli.shells.terminal.login import ModelLogin, log_out, provider_with_key
from agent_cli.shells.terminal.slash import SlashContext, slash


def _providers(ctx: SlashContext) -> Iterable[str]:
    return [p.name for p in PROVIDERS if p.keys and not p.local]


def _stored(ctx: SlashContext) -> Iterable[str]:
    return ReachableModels(ctx.run_env, ctx.agent.settings).keys.names()


@slash("login", "log in to a model provider", "[PROVIDER]", values=_providers)
def _login(ctx: SlashContext, words: str) -> None:
    chosen = provider_with_key(words) if words else None
    setup = ModelLogin(ctx, ctx.outside, ctx.run_env, ctx.config)
    name = setup.log_in(chosen) if chosen is not None else setup.connect("What do you want to use?")
    if not isinstance(name, str):
        return
    now = ctx.agent.model
    if name.startswith(f"{now.provider}/"):
        ctx.switch_model(ctx.agent.label)
        ctx.say(f"  {now.name} uses the new key from here on.")
    else:
        ctx.say(f"  To use it here: /model {name}")


@slash("logout", "remove a stored API key", "[PROVIDER]", values=_stored)
def _logout(ctx: SlashContext, words: str) -> None:
    for line in log_out(ctx.run_env, ctx.config, words).splitlines():
        ctx.say(line)


def refused_by(ctx: SlashContext, result: TurnResult | None) -> Provider | None:
    """Return the provider that ended a turn because it refused the key; None if that is not why it ended."""
    failure: Failure | None = getattr(result, "failure", None)
    if failure is None or failure.kind != "auth" or failure.status == 403 or ctx.agent.model.wire == "scripted":
        return None
    provider = find_provider(ctx.agent.model.provider)
    return provider if provider is not None and provider.keys else None


def offer_login(ctx: SlashContext) -> None:
    """After a turn whose key was refused, offer to log in and to try the turn again."""
    conversation = ctx.agent
    while (provider := refused_by(ctx, conversation.last)) is not None:
        if not ctx.confirm(f"Log in to {provider.name} with another key, and try again?", grave=False):
            return
        if ModelLogin(ctx, ctx.outside, ctx.run_env, ctx.config).log_in(provider) is None:
            return
        ctx.switch_model(conversation.label)
        conversation.pick_up()
        ctx.run_interruptible(lambda: conversation.resume(ctx.show_event, Spent()))
