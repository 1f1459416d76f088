"""What runs at named steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_cli.core.hooks import Hook
from agent_cli.terminal.slash import slash
from agent_tools.clipping import shorten

if TYPE_CHECKING:
    from agent_cli.terminal.repl import Repl


@slash("hooks", "the hooks of this session, and those held back for lack of trust", aside=True)
def _hooks(repl: Repl, words: str) -> None:
    layers, settings = repl.agent.layers, repl.agent.settings
    for hook in settings.hooks:
        counts = (hook.own or layers.trust.trusted) and not settings.disable_hooks
        repl.say(_line(hook, "" if counts else ", does not run"))
    for hook in layers.held_hooks:
        repl.say(_line(hook, ", held: the project is not trusted"))
    if not settings.hooks and not layers.held_hooks:
        repl.say("There are no hooks.")


def _line(hook: Hook, standing: str) -> str:
    return f"  {hook.event} {hook.where or '*'}  {shorten(hook.command)}  ({hook.source}{standing})"
