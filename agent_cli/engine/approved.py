"""Whether an approval still holds when its call is about to run: what a command destroys must be what was shown.

What this turn's own calls have changed meanwhile, saying so beforehand, is no reason to ask again.
"""

from __future__ import annotations

from agent_cli.core.events import ApprovalRequested
from agent_cli.engine.checking import Prepared, binding, bound
from agent_cli.engine.turn import Turn

# Where what would be lost changes all the time (a log), it is asked about again so often.
_AGAIN = 2
_NAMED = 5


class ShownCalls:
    """What the questions of a round have shown, by call id."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._shown: dict[str, tuple[str, dict[str, str]]] = {}
        self._again: dict[str, int] = {}
        # What the calls that ran since then said that they would change, and all of these calls.
        self._own: set[str] = set()
        self._ran: list[str] = []

    def asked(self, item: Prepared, request: ApprovalRequested) -> ApprovalRequested:
        """A question that is about to be put; where it is put again, with what has changed."""
        call, stakes = item.call.id, self._stakes(item)
        before = self._shown.get(call)
        self._shown[call] = (bound(self._turn, item), stakes)
        if before is None or not (changed := _changed(before[1], stakes)):
            return request
        self._again[call] = self._again.get(call, 0) + 1
        more = f" and {len(changed) - _NAMED} more" if len(changed) > _NAMED else ""
        ran = f", while this ran: {'; '.join(self._ran[-3:])}" if self._ran else ""
        names = ", ".join(changed[:_NAMED])
        return request.but(facts=(*request.facts, f"changed since you were asked: {names}{more}{ran}"))

    def holds(self, item: Prepared, request: ApprovalRequested) -> bool:
        """Whether an approval of the question holds for the call as things are now."""
        if binding(self._turn, item) == request.binding:
            return True
        shown, before = self._shown.get(item.call.id, ("", {}))
        if bound(self._turn, item) != shown:
            return False
        changed = _changed(before, self._stakes(item))
        return self._again.get(item.call.id, 0) >= _AGAIN or all(self._by_us(path) for path in changed)

    def runs(self, item: Prepared) -> None:
        """A call is about to run."""
        if any(stakes for _, stakes in self._shown.values()):
            self._own |= item.writes | self._stakes(item).keys()
            self._ran.append(item.summary)

    def _stakes(self, item: Prepared) -> dict[str, str]:
        return self._turn.kit.policy.at_stake(item.effects)

    def _by_us(self, path: str) -> bool:
        return any(path == own or path.startswith(f"{own}/") for own in self._own)


def _changed(before: dict[str, str], now: dict[str, str]) -> list[str]:
    return sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
