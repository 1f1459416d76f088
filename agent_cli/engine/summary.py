"""The account of a turn that needs no model: what ran, in order, and how it ended."""

from __future__ import annotations

from collections.abc import Sequence

from agent_cli.core.spent import Action

_SHOWN = 30


def recap(actions: Sequence[Action], opening: str) -> str:
    """A short markdown text: the opening sentence, then one line per call that was made."""
    if not actions:
        return opening
    words = {"done": "done", "failed": "failed", "refused": "refused"}
    lines = [f"- {a.summary} ({words[a.outcome]})" for a in actions[-_SHOWN:]]
    left_out = len(actions) - len(lines)
    earlier = [f"- {left_out} earlier calls"] if left_out else []
    return "\n".join([opening, "", "Before that:", *earlier, *lines])
