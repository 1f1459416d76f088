"""How the session looks and is typed in, for as long as it lasts; the settings under [terminal] are for good."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_cli.terminal.slash import slash
from agent_cli.terminal.themes import THEMES

if TYPE_CHECKING:
    from agent_cli.terminal.repl import Repl


@slash("theme", "show or change the colours", "[NAME]", aside=True, values=lambda repl: THEMES)
def _theme(repl: Repl, words: str) -> None:
    if words and words not in THEMES:
        repl.say(f"{words} is none of {', '.join(THEMES)}.")
        return
    if not words and (place := repl.choose("Which colours?", [(name, "") for name in THEMES])) is not None:
        words = list(THEMES)[place]
    if words:
        repl.look(theme=words)
    repl.say(f"theme: {repl.theme}" + (" (for good: theme under [terminal] in your settings)" if words else ""))


@slash("vim", "the keys of vi in the input line, on or off", aside=True)
def _vim(repl: Repl, words: str) -> None:
    on = repl.switch_vim()
    if on is None:
        repl.say("Lines are typed here without an editor, so there are no keys to choose.")
    else:
        repl.say(f"The keys of vi are {'on' if on else 'off'}.")
