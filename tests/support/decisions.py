"""A turn that a user decides about: what is decided reaches the model, the rules, the mode and the log."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent_cli.kernel.decisions import (
    Answer,
    Defer,
    QuestionReply,
    approval_record,
    recorded_answer,
    recorded_reply,
    reply_record,
)
from agent_cli.kernel.events import ApprovalRequested, ApprovalResolved, QuestionAnswered, QuestionAsked
from agent_tools.fs.workspace import Workspace
from agent_tools.plan import plan_text
from tests.support.scripts import call
from tests.support.turns import World

LINES = "".join(f"line {n}\n" for n in range(1, 41))
EDITS = [{"old_string": "line 3\n", "new_string": "three\n"}, {"old_string": "line 30\n", "new_string": "thirty\n"}]
OTHER = {"file_path": "a.txt", "edits": [{"old_string": "line 9\n", "new_string": "nine\n"}]}


class DecidedCall:
    """A turn that asks about a change of two hunks. ask: returns the answer of a front end.

    The question offers two rules, of which the first can be kept in the project.
    """

    def __init__(self, root: Path, ask: Callable[[ApprovalRequested, Workspace], Answer]) -> None:
        (root / "a.txt").write_text(LINES)
        change = call("MultiEdit", file_path="a.txt", edits=EDITS)
        replies = [{"calls": [call("Read", file_path="a.txt")]}, {"calls": [change]}, {"text": "Done."}]
        self.saved: list[str] = []
        self.exact = f"Edit(/{root}/exact.txt)"
        self._ask = ask
        self.world = World(root, replies, save_rule=lambda rule: self.saved.append(rule) or "")
        self.world.deps = self.world.deps.replace(approver=self._decide)
        self.world.turn()

    def _decide(self, request: ApprovalRequested) -> Answer:
        self.world.asked.append(request)
        answer = self._ask(request.replace(keeps=True, exact=self.exact), self.world.deps.context.workspace)
        if not isinstance(answer, Defer):
            assert recorded_answer(approval_record(request, answer)) == answer, "the log holds the whole decision"
        return answer

    @property
    def always(self) -> str:
        """The rule that can be kept in the project."""
        return self.world.asked[0].always

    @property
    def records(self) -> list[ApprovalResolved]:
        """What the log says about the change, after the record about the Read before it."""
        return self.world.of(ApprovalResolved)[1:]

    @property
    def changes(self) -> tuple[bool, bool, bool]:
        """Whether the first hunk, the second one, and the other change were made."""
        text = (self.world.root / "a.txt").read_text()
        return "three" in text, "thirty" in text, "nine" in text

    def check(
        self,
        verdict: str,
        text: str = "",
        rule: str = "",
        scope: str = "session",
        mode: str = "",
        hunks: tuple[int, ...] = (0, 1),
        *,
        other: bool = False,
        user: str = "",
    ) -> None:
        """Assert that this, and nothing else, was decided. hunks: those made. other: instead, the other change was."""
        result, [record] = self.world.results[-1].text, self.records
        assert (record.decision, record.reason, record.user) == (verdict, text, user)
        assert (record.rule, record.scope, record.mode) == (rule, scope, mode)
        assert text in result
        assert len(self.world.asked) == 1
        assert self.world.policy.mode == (mode or "default")
        assert self.saved == ([rule] if scope == "project" else [])
        assert [r.text for r in self.world.policy.rules if r.list == "allow"] == ([rule] if rule else [])
        made = () if verdict == "reject" or other else hunks
        assert self.changes == (0 in made, 1 in made, other), result
        assert ("1 of the 2 parts" in result) == (len(made) == 1)


PLAN = {"plan": "Make it.", "steps": ["one", "two"]}
QUESTIONS = [
    {"question": "Which?", "header": "", "multiSelect": False,
     "options": [{"label": "red", "description": ""}, {"label": "blue", "description": ""}]},
    {"question": "Which ones?", "header": "", "multiSelect": True,
     "options": [{"label": label, "description": ""} for label in ("1", "2", "8")]},
]  # fmt: skip


class DecidedQuestion:
    """A turn that puts a plan or questions to the user. ask: returns the reply of a front end."""

    def __init__(self, root: Path, kind: str, ask: Callable[[QuestionAsked, Workspace], QuestionReply | Defer]) -> None:
        made = call("ExitPlanMode", **PLAN) if kind == "plan" else call("AskUserQuestion", questions=QUESTIONS)
        self._ask = ask
        mode: Any = "plan" if kind == "plan" else "default"
        self.world = World(root, [{"calls": [made]}, {"text": "Done."}], mode=mode, asker=self._reply)
        self.world.turn(plan_nudges=0)

    def _reply(self, asked: QuestionAsked) -> QuestionReply | Defer:
        reply = self._ask(asked, self.world.deps.context.workspace)
        if not isinstance(reply, Defer):
            assert recorded_reply(reply_record(asked, reply)) == reply, "the log holds the whole decision"
        return reply

    def check(self, verdict: str, text: str = "", mode: str = "", plan: dict[str, Any] | None = None) -> None:
        """Assert that this, and nothing else, was decided about the plan or the questions."""
        [record] = self.world.of(QuestionAnswered)
        assert (record.verdict, record.text, record.mode, record.plan) == (verdict, text, mode, plan or {})
        result = self.world.results[-1].text
        assert verdict == "cancel" or text in result
        assert plan is None or plan_text(plan) in result
        assert ("approved the plan" in result) == (verdict == "approve")
        if verdict == "approve":
            assert self.world.policy.mode == (mode or "default")
