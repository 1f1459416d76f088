"""The turn at the end of a log: what it has spent, and what it is resumed with."""

from __future__ import annotations

from calendar import timegm
from time import strptime
from typing import Any

from agent_cli.core.events import Checkpoint, TurnPaused, TurnStarted
from agent_cli.core.messages import ToolMessage
from agent_cli.core.spent import Action, Spent
from agent_cli.core.usage import Usage


class OpenTurn:
    """What the records of a turn add up to. held: its state when a user was asked last; None where nobody was asked
    since the model's last answer, or where that can no longer be told. mode and kept: as in a checkpoint, as far as is
    known.
    """

    def __init__(self) -> None:
        self.began = TurnStarted("", "")
        self.held: Checkpoint | None = None
        self.mode = ""
        self.kept: dict[str, Any] = {}
        self.by_model: dict[str, Usage] = {}
        self._spent = Spent()
        self._before = (self._spent, self.mode, self.kept, self.by_model)
        # Since when it has been working; empty while a user is asked.
        self._since = self._until = ""

    def begin(self, event: TurnStarted, time: str, *, resumed: bool) -> None:
        """A turn starts, or resumes with the calls that it left open."""
        self.began, self._since = event, time
        self._before = self._spent, self.mode, self.kept, self.by_model
        if not resumed:
            lent = event.saved.get("lent")
            self.held, self._spent, self.mode, self.by_model = None, Spent(), event.mode, {}
            self.kept = {"lent": [lent]} if lent else {}

    def resume(self) -> None:
        """The turn that has begun resumes with what was spent before."""
        self._spent, self.mode, self.kept, self.by_model = self._before

    def hold(self, event: Checkpoint | TurnPaused) -> None:
        """A user is asked: the account is exact here."""
        self.held = Checkpoint(event.spent, event.mode, event.kept)
        self._spent, self.mode, self.kept, self._since = event.spent, event.mode, event.kept, ""

    def release(self) -> None:
        """Nothing is asked any more, or that can no longer be told."""
        self.held = None

    def answered(self, mode: str = "") -> None:
        """A user has answered. mode: what a plan is to be carried out in."""
        self._since, self.mode = self._since or self._until, mode or self.mode

    def reached(self, time: str) -> None:
        """A record of this time."""
        self._until = time

    def called(self, result: ToolMessage) -> None:
        """A call has its result."""
        action = Action(result.name, "failed" if result.is_error else "done")
        self._spent = self._spent.but(tool_calls=self._spent.tool_calls + 1, actions=(*self._spent.actions, action))

    def used(self, model: str, usage: Usage) -> None:
        """A model call has begun and been paid for."""
        self.by_model = {**self.by_model, model: self.by_model.get(model, Usage()) + usage}
        self._spent = self._spent.but(cost=self._spent.cost + usage.cost, usage=self._spent.usage + usage)

    def entered(self, round_: int) -> None:
        """A round begins; a sub-agent's are counted on from its parent's."""
        self._spent = self._spent.but(rounds=max(self._spent.rounds, round_))

    @property
    def spent(self) -> Spent:
        """What the turn has spent by the last record."""
        if not (self._since and self._until):
            return self._spent
        seconds = max(0.0, _seconds(self._until) - _seconds(self._since))
        return self._spent.but(seconds=self._spent.seconds + seconds)


def _seconds(time: str) -> float:
    """A time as the log writes it (UTC, ISO 8601), in seconds."""
    try:
        return timegm(strptime(time[:19], "%Y-%m-%dT%H:%M:%S")) + float(f"0{time[19:].rstrip('Z')}")
    except ValueError:
        return 0.0
