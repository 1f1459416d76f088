"""Who is asked about the calls of a round before they run: the hooks first, then the user. Hooks cost nothing here
where there are none."""

from __future__ import annotations

from collections.abc import Generator

from agent_cli.core.answers import Answer, Approve, Reject
from agent_cli.core.events import ApprovalRequested, Event
from agent_cli.core.hooks import HookResult
from agent_cli.core.messages import ToolCall
from agent_cli.engine.barrier import caught
from agent_cli.engine.checking import Checked, Prepared, check
from agent_cli.engine.questions import answer_of
from agent_cli.engine.turn import Turn
from agent_tools.base import Effect
from agent_tools.cancel import CancelledError


class HookOutcome:
    """What the PreToolUse hooks said about a call, with the arguments that they were given."""

    def __init__(self, call: ToolCall, result: HookResult, changed: ToolCall | None) -> None:
        self.given = call.arguments
        self.result = result
        self.changed = changed


class Asks:
    """The questions of one round. said: by call id, so that each hook is asked once. changes: how often
    PermissionRequest hooks changed a call. settled: what calls do that the user changed, and has seen so."""

    def __init__(self, turn: Turn, *, together: bool) -> None:
        self.turn = turn
        self.together = together
        self.said: dict[str, HookOutcome] = {}
        self.changes: dict[str, int] = {}
        self.settled: dict[str, tuple[Effect, ...]] = {}
        # Calls that could not be checked, with what the model reads then.
        self._failed: dict[str, tuple[ToolCall, str]] = {}

    def check(self, call: ToolCall) -> Generator[Event, None, Checked]:
        """The call made ready, with what the hooks say about it. Raises CancelledError."""
        if (failed := self._failed.get(call.id)) and failed[0] == call:
            return failed[1]
        try:
            # Any: which tool is really called is only known of a call that was made ready.
            if not self.turn.kit.hooks.wants("PreToolUse"):
                return check(self.turn, call, together=self.together)
            from agent_cli.engine.hooked import pre_tool_use

            return (yield from pre_tool_use(self, call))
        except CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - it must cost this call, not the turn
            said = yield from caught(self.turn.kit, f"checking {call.name}", error)
            self._failed[call.id] = (call, f"{said} The call was not run.")
            return self._failed[call.id][1]

    def answer(self, request: ApprovalRequested, item: Prepared) -> Generator[Event, None, Answer]:
        """What the hooks say to a question, else the user. Raises CancelledError."""
        try:
            return (yield from self._answer(request, item))
        except CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - nobody said yes, so it is a no; the turn goes on
            said = yield from caught(self.turn.kit, f"asking about {request.tool}", error)
            return Reject(f"could not be asked about. {said}".rstrip("."), by="default")

    def _answer(self, request: ApprovalRequested, item: Prepared) -> Generator[Event, None, Answer]:
        kit = self.turn.kit
        if kit.hooks.wants("PermissionRequest", request.tool):
            from agent_cli.engine.hooked import permission

            answer = yield from permission(self, item, request)
            if answer is not None:
                return answer
        kit.context.cancel.check()
        if request.call_id in self.settled and set(request.effects) <= set(self.settled.pop(request.call_id)):
            return Approve()
        message = f"The agent needs your permission to use {request.tool}"
        return (yield from answer_of(self.turn, request, kit.approver, "permission_prompt", message))

    def note(self, call: ToolCall) -> str:
        """What the model is told of the hooks beside the result of a call."""
        said = self.said.get(call.id)
        if said is None:
            return ""
        changed = [f"[A hook changed the arguments to {said.changed.arguments}.]"] if said.changed else []
        return "".join(f"\n\n{text}" for text in (*changed, *said.result.context))
