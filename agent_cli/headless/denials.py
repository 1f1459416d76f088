"""The calls of a run that were denied: each named once, and what would allow them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from agent_cli.core.events import ApprovalRequested, Event, ToolRequested, unwrap
from agent_cli.core.results import Denial
from agent_tools.text import escape_controls, one_line

_DENIED = "Permission was denied: the call "
_BY_RULE = " The user can allow it by the rule "


class DenialReporter:
    """A listener that collects what a report about denied calls needs."""

    def __init__(self) -> None:
        self._summaries: dict[str, str] = {}
        self._asked: dict[str, ApprovalRequested] = {}

    def __call__(self, event: Event) -> None:
        match unwrap(event):
            case ToolRequested(call_id=call_id, summary=summary):
                self._summaries[call_id] = summary
            case ApprovalRequested(call_id=call_id) as asked:
                self._asked[call_id] = asked

    def lines(self, denials: Sequence[Denial]) -> Iterator[str]:
        """Yield a line for each denied call, repeated ones once, and a line that says how to allow them."""
        # A denial without a call is that of the prompt, which has been reported.
        named = [denial for denial in denials if denial.call_id]
        yield from dict.fromkeys(self._line(denial) for denial in named)
        if advice := self._advice(named):
            yield advice

    def _line(self, denial: Denial) -> str:
        summary = self._summaries.get(denial.call_id, "").removeprefix("Run: ").removeprefix(f"{denial.tool} ")
        reason = denial.reason.partition(_BY_RULE)[0]
        if reason.startswith(_DENIED):
            reason = f"It {reason.removeprefix(_DENIED)}"
        what = f"{denial.tool}: {one_line(summary)}" if summary else denial.tool
        return escape_controls(f"Denied: {what}. {reason}")

    def _advice(self, denials: Sequence[Denial]) -> str:
        """Say which flags allow the calls that nobody could approve; "" for none."""
        asked = [found for d in denials if d.by == "default" and (found := self._asked.get(d.call_id)) is not None]
        rules = " ".join(dict.fromkeys(shlex.quote(found.always) for found in asked if found.always))
        if not rules:
            return ""
        narrow = f"--allowedTools {rules}"
        if not any(found.edits for found in asked):
            return escape_controls(f"To allow this: {narrow}")
        rest = [found for found in asked if not found.edits]
        edits = "--permission-mode acceptEdits"
        what = "edits" if rest else "this"
        return escape_controls(f"To allow {what}: {edits}. To allow exactly the calls above: {narrow}")
