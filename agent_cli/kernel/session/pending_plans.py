"""Store the plan that awaits approval: one per user and project, claimed exactly once, until it expires."""

from __future__ import annotations

import json
import os
import time
from calendar import timegm
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent_tools.fs.safe_files import read_regular, write_atomic
from agent_tools.plan import plan_text
from agent_tools.record import DecodeError, Value, from_json, to_json
from agent_tools.text import in_minutes, utc_stamp

_NAME = "plan.json"
_MAX_BYTES = 16 << 20


class WaitingPlan(Value):
    """A plan that awaits the user's approval.

    created: seconds since the epoch.
    """

    session_id: str
    call_id: str
    plan: dict[str, Any]
    created: float

    def expired(self, minutes: int) -> bool:
        """Return True if `minutes` have passed since it was saved; with 0 minutes never."""
        return is_expired(self.created, minutes)

    def feedback(self, words: str, request: str) -> str:
        """Wrap the user's words about it for the model. request: what it is for; "" if the model knows that."""
        return feedback_block(self.plan, words, request)


def save_plan(folder: Path, plan: WaitingPlan) -> None:
    """Save the plan, replacing an earlier one. An unwritable directory is ignored."""
    with suppress(OSError):
        write_atomic(folder / _NAME, json.dumps(to_json(plan)).encode("ascii"), sync=False)


def claim_plan(folder: Path, session_id: str | None = None) -> WaitingPlan | None:
    """Remove and return the plan, exclusively; with `session_id` only that session's. None if there is none."""
    taken = folder / f"{_NAME}.{os.urandom(4).hex()}.taken"
    try:
        (folder / _NAME).rename(taken)
        plan: WaitingPlan = from_json(WaitingPlan, json.loads(read_regular(taken, _MAX_BYTES)))
    except (OSError, ValueError, DecodeError):
        with suppress(OSError):
            taken.unlink()
        return None
    if session_id is not None and plan.session_id != session_id:
        with suppress(OSError):
            taken.rename(folder / _NAME)
        return None
    with suppress(OSError):
        taken.unlink()
    return plan


def is_expired(created: float, minutes: int) -> bool:
    """Return True if `minutes` have passed since `created`; with 0 minutes never."""
    return bool(minutes) and time.time() - created > minutes * 60


def seconds_of(stamp: str) -> float:
    """Convert a log time (UTC, ISO 8601) to seconds since the epoch."""
    return float(timegm(time.strptime(stamp[:19], "%Y-%m-%dT%H:%M:%S")))


def exact_seconds_of(stamp: str) -> float:
    """Convert a log time to seconds since the epoch, with its milliseconds."""
    fraction = stamp[19:].removesuffix("Z")
    return seconds_of(stamp) + (float(fraction) if fraction[:1] == "." and fraction[1:].isdigit() else 0.0)


def expiry_of(stamp: str, minutes: int) -> str | None:
    """Return when a plan presented at `stamp` expires, as a log time; None if never."""
    if not stamp or not minutes:
        return None
    return utc_stamp(seconds_of(stamp) + minutes * 60)


def expired_words(minutes: int) -> str:
    """Return the message about an expired plan, for the user and the model."""
    return f"The plan expired: it was not approved within {in_minutes(minutes)}."


def feedback_block(plan: dict[str, Any], words: str, request: str = "") -> str:
    """Wrap the user's feedback on a pending plan for the model.

    request: what the plan is for; "" if the model knows it.
    """
    asked = f"The request:\n{request}\n\n" if request else ""
    return (
        f"<plan_feedback>\n{asked}The plan:\n{plan_text(plan)}\n\nThe user's feedback:\n{words}\n\n"
        "Revise the plan accordingly and propose it again; if the feedback tells you to proceed, carry the plan out.\n"
        "</plan_feedback>"
    )
