"""What a user can do about a failure of the provider, by its kind."""

from __future__ import annotations

import re

from agent_cli.core.outcome import Failure

_BY_KIND = {
    "auth": "Set another key in the environment or the keyring (agent doctor shows which is used), then say it again.",
    "rate_limit": "Wait a moment and try again, or switch to another model: /model NAME.",
    "overloaded": "Wait a moment and try again, or switch to another model: /model NAME.",
    "network": "Check the connection and base_url (agent doctor tries it), then say it again.",
    "context_too_long": "/clear begins a new session; /model NAME takes a model with a larger window.",
}
_NO_MODEL = re.compile(r"no model named|does not exist|not found")
_NO_MONEY = re.compile(r"quota|credit|billing|balance|money|spending", re.IGNORECASE)


# By the reason for which a turn ended: what was limited, and the setting.
_LIMITS = {
    "max_rounds": ("model calls per turn", "max_rounds"),
    "max_duration": ("working time per turn", "max_seconds"),
    "max_tool_calls": ("tool calls per turn", "max_tool_calls"),
    "max_cost": ("dollars per turn", "max_cost"),
    "max_failures": ("failed rounds in a row", "max_failures"),
    "max_denials": ("refusals of the same call", "max_denials"),
    "max_output_tokens": ("tokens of an answer", "max_tokens"),
}


def reached(reason: str) -> str:
    """Which limit has ended a turn, and how to continue."""
    if reason not in _LIMITS:
        return "Stopped: the model repeated itself. Say what to do instead to continue."
    what, setting = _LIMITS[reason]
    said = f"Stopped: the limit of {what} is reached (setting: {setting})."
    return f'{said} Say "continue" to continue, or raise the limit.'


def advice(failure: Failure) -> str:
    """One sentence, or nothing where there is none to give."""
    if failure.kind == "bad_request" and _NO_MODEL.search(failure.message):
        return "agent models lists what there is; /model NAME changes it here."
    if failure.kind in ("auth", "rate_limit", "bad_request") and _NO_MONEY.search(failure.message):
        return "Add credit with the provider, or switch to another model: /model NAME."
    return _BY_KIND.get(failure.kind, "")
