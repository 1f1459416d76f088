"""The denied calls of a run in text: each named once, and the flags that would allow them."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence

from agent_cli import ApprovalRequested, CallView, Denial
from agent_tools.text import escape_controls, one_line

_DENIED = "Permission was denied: the call "
_MAX_RULES = 8
_BY_RULE = " The user can allow it by the rule "


def denial_lines(denials: Sequence[Denial], calls: Iterable[CallView]) -> Iterator[str]:
    """Yield a line for each denied call, repeated ones once, and a line that says how to allow them.

    calls: those of the run.
    """
    made = {call.call_id: call for call in calls if call.requested}
    summaries = {call_id: call.summary for call_id, call in made.items()}
    asked = {i: call.question for i, call in made.items() if isinstance(call.question, ApprovalRequested)}
    # A denial without a call is that of the prompt, which has been reported.
    named = [denial for denial in denials if denial.call_id]
    yield from dict.fromkeys(_line(denial, summaries.get(denial.call_id, "")) for denial in named)
    unattended = [denial.call_id for denial in named if denial.by == "default"]
    if advice := _advice([asked[call_id] for call_id in unattended if call_id in asked]):
        yield escape_controls(advice)


def _line(denial: Denial, summary: str) -> str:
    summary = summary.removeprefix("Run: ").removeprefix(f"{denial.tool} ")
    reason = denial.reason.partition(_BY_RULE)[0]
    if reason.startswith(_DENIED):
        reason = f"It {reason.removeprefix(_DENIED)}"
    what = f"{denial.tool}: {one_line(summary)}" if summary else denial.tool
    return escape_controls(f"Denied: {what}. {reason}")


def _advice(asked: Sequence[ApprovalRequested]) -> str:
    """Say which flags allow calls; "" for none."""
    rules = [*dict.fromkeys(shlex.quote(each.always) for each in asked if each.always)]
    if not rules:
        return ""
    narrow = f"--allowedTools {' '.join(rules[:_MAX_RULES])}"
    narrow += f" and {len(rules) - _MAX_RULES} more rules" if len(rules) > _MAX_RULES else ""
    if not any(each.edits for each in asked):
        return f"To allow this: {narrow}"
    what = "this" if all(each.edits for each in asked) else "edits"
    return f"To allow {what}: --permission-mode acceptEdits. To allow exactly the calls above: {narrow}"
