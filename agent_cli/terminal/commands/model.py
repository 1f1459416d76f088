"""Which model answers, and what is permitted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_cli.core.modes import MODES
from agent_cli.terminal.slash import slash

if TYPE_CHECKING:
    from agent_cli.terminal.repl import Repl


@slash("model", "show or change the model", "[NAME]")
def _model(repl: Repl, words: str) -> None:
    if words:
        repl.switch_model(words)
    repl.say(f"model: {repl.agent.conversation.options.label}")


@slash("mode", "show or change the permission mode", "[MODE]", aside=True, values=lambda repl: MODES)
def _mode(repl: Repl, words: str) -> None:
    if words and words not in MODES:
        repl.say(f"{words} is none of {', '.join(MODES)}.")
        return
    if words:
        repl.switch_mode(words)
    repl.say(f"mode: {repl.agent.conversation.kit.policy.mode}")
