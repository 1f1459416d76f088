"""What is said of a session and a model in a few words: in lists, above a transcript, in the dialog about usage."""

from __future__ import annotations

from typing import Any

from agent_cli.models.catalog import ModelInfo
from agent_tools.lookalikes import escape_lookalikes
from agent_tools.text import dollars, one_line, short_count

MODES = {
    "default": "Ask before changes",
    "acceptEdits": "Accept edits",
    "plan": "Plan first",
    "dontAsk": "Deny what would ask",
    "bypassPermissions": "Allow everything",
}

# The columns of the board, on the page and in the terminal: what waits first.
COLUMNS = {
    "Waiting for you": ("waiting",),
    "Running": ("running", "queued"),
    "Stopped": ("interrupted", "failed"),
    "Done": ("done", "idle"),
}


def spent_words(cost: float, *, known: bool) -> str:
    """Return a cost; "" for nothing spent. known: the price of each part is."""
    return f"{'' if known else 'at least '}{dollars(cost)}" if cost else ""


def _branch(session: dict[str, Any]) -> str:
    name = escape_lookalikes(one_line(session["branch"]))
    return f"{name} (worktree)" if name and session["worktree"] else name


def list_facts(session: dict[str, Any], project: str) -> list[str]:
    """Return what a list shows of a session besides its title and its state."""
    cost = spent_words(session["cost"], known=session["cost_known"])
    return [*filter(None, (one_line(project), one_line(session["host"]), _branch(session), cost))]


def head_facts(session: dict[str, Any], project: str) -> list[str]:
    """Return what stands above the transcript of a session. session: with its usage."""
    size, window = session["tokens"], session["window"]
    context = f"{short_count(size)} of {short_count(window)} tokens" if size and window else ""
    model = one_line(session["model"]).rpartition("/")[2]
    branch, cost = _branch(session), spent_words(session["cost"], known=session["cost_known"])
    return [
        *filter(None, (one_line(project), branch, MODES.get(session["mode"], session["mode"]), model, cost, context))
    ]


def usage_rows(session: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the rows of the dialog about the usage and cost of a session."""
    usage = session["usage"]

    def tokens(name: str) -> str:
        return f"{usage[name]:,} tokens" if usage.get(name) else ""

    share = min(100, round(100 * session["tokens"] / session["window"])) if session["window"] else 0
    window = f"{short_count(session['tokens'])} of {short_count(session['window'])} tokens ({share}%)" if share else ""
    known = usage.get("reliable", True)
    rows = (
        ("Cost", f"{spent_words(usage.get('cost', 0.0), known=known) or '$0.00'}"),
        ("", "" if known else "A price is not known."),
        ("Input", tokens("input")),
        ("Read from the cache", tokens("cache_read")),
        ("Output", tokens("output")),
        ("Reasoning", tokens("reasoning")),
        ("Context", window),
        ("Model", escape_lookalikes(one_line(session["model"]))),
        ("Mode", MODES.get(session["mode"], session["mode"])),
        ("Folder", escape_lookalikes(one_line(session["folder"]))),
        ("Branch", _branch(session)),
    )
    return [(name, text) for name, text in rows if text]


def model_words(model: ModelInfo) -> str:
    """Return a model as a list offers it."""
    price_in, price_out = model.price_per_million
    price = "" if price_in is None else f", ${price_in} / ${price_out} per million"
    window = f" ({short_count(model.context_window)} tokens{price})" if model.context_window else ""
    return f"{one_line(model.name)}{window}"
