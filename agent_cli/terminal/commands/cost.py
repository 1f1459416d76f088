"""What the session used and cost: in all, by model, by turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_cli.core.usage import Usage
from agent_cli.session.lines import read_log
from agent_cli.session.store import SessionStore, state_folder
from agent_cli.terminal.slash import slash
from agent_tools.clipping import shorten

if TYPE_CHECKING:
    from agent_cli.session.spending import Spending
    from agent_cli.terminal.repl import Repl

TURNS = 10


@slash("cost", "tokens and dollars of this session, by model and by turn", "[all]", aside=True)
def _cost(repl: Repl, words: str) -> None:
    told = _told(repl)
    if told is None:
        kept = repl.agent.settings.save_sessions
        repl.say(used(repl.show.usage) + ("" if kept else " (since the session was opened; it is not kept)"))
        return
    repl.say(f"session: {used(told.total)}")
    if len(told.models) > 1:
        for model, usage in told.models.items():
            repl.say(f"  {model}: {used(usage)}")
    if len(told.turns) < 2:
        return
    first = 0 if words == "all" else max(0, len(told.turns) - TURNS)
    if first:
        before = sum((t.usage for t in told.turns[:first]), Usage())
        repl.say(f"  turns 1 to {first}: {used(before)} (/cost all shows each)")
    for number, turn in enumerate(told.turns[first:], first + 1):
        repl.say(f"  turn {number}: {used(turn.usage)}  {shorten(turn.query, 50)}")


def _told(repl: Repl) -> Spending | None:
    """What the log says; None where there is none."""
    if not repl.agent.settings.save_sessions:
        return None
    from agent_cli.session.spending import spending  # reads logs, which a start does not

    store = SessionStore(state_folder(repl.place.env), repl.place.root)
    try:
        return spending(read_log(store.path(repl.agent.header.session_id)))
    except OSError:
        return None


def used(usage: Usage) -> str:
    """Tokens, the share of input that came from the provider's cache, and dollars."""
    cached = f" ({100 * usage.cache_read // usage.input}% from cache)" if usage.input and usage.cache_read else ""
    cost = f"${usage.cost:.4f}" if usage.reliable else "cost unknown (no price for this model)"
    if not usage.reliable and usage.cost:
        cost = f"more than ${usage.cost:.4f} (a model without a known price took part)"
    about = " (estimated in part: an answer was interrupted)" if usage.estimated else ""
    return f"{usage.input:,} tokens in{cached}, {usage.output:,} out; {cost}{about}"
