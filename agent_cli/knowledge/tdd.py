"""The workflow of /tdd: an approved plan, failing tests, the user's review of them, code, the same tests passing, and a
commit that needs approval. It is enforced by observing calls, not by what the model says.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from agent_cli.kernel.decisions import Decision, Level
from agent_cli.kernel.engine.progress import is_question
from agent_cli.kernel.engine.turn import Turn
from agent_cli.kernel.engine.types import PreparedCall
from agent_cli.kernel.results import Check
from agent_tools.base import Effect, ToolError, ToolResult
from agent_tools.record import Value, from_json, to_json
from agent_tools.results import CommandOutput

Phase = Literal["plan", "tests", "review", "code", "commit", "done"]
MAX_NUDGES = 4
_TEST = (
    r"(?:^|/)(?:tests?|specs?|__tests__|testing|testdata|t)/|"
    r"(?:^|/)(?:(?:test|tests|spec|conftest)(?:[_.-][^/]*)?|[^/]*[_.-](?:tests?|spec)|[^/]*(?:Tests?|Spec|IT))\.\w+$"
)
_COMMIT = r"\bgit\b[^|;&\n]*\bcommit\b"
# Commands that may come before the tests on the same line, since they do not hide how the tests end.
_HARMLESS_BEFORE = r"(?:cd|export|source|\.)\s[^&]*|true"
# Checks that run no tests.
_NO_TESTS = (
    r"(?:\w+=\S*\s+)*(?:\S*/)?(?:python[\d.]*\s+-m\s+|npx\s+|(?:uv|poetry)\s+run\s+)?"
    r"(?:(?:mypy|pyright|ruff|flake8|tsc|eslint|shellcheck|ninja)\b|"
    r"\w+\s+(?:run\s+)?(?:build|clippy|vet|lint|all|compile)\b|cargo\s+check\b)"
)
_NEXT = {
    "plan": "Propose the plan as a todo list (two or more steps); the user approves it.",
    "tests": "Write the tests, run them with a separate command, and see them fail.",
    "review": "Continue with the first call of the implementation; the user reviews the tests before it runs.",
    "code": "Make `{command}` pass; it is the command that was seen failing.",
    "commit": "Commit the tests and the code with git; the user is asked to approve it.",
}
_MISSING = {
    "plan": "no plan was approved",
    "tests": "the tests were not seen failing",
    "review": "the tests were not reviewed",
    "code": "`{command}` was not seen passing",
    "commit": "nothing was committed",
}


class TddState(Value, tag="State"):
    """The progress of the work.

    red: the test command that was seen failing, with its exit code.
    tests: the test files that were written.
    later: those that were changed after the user's review.
    """

    phase: Phase = "plan"
    red: Check | None = None
    tests: tuple[str, ...] = ()
    later: tuple[str, ...] = ()


class Tdd:
    """Observes every call before and after it runs."""

    def __init__(self, turn: Turn, stored: dict[str, Any] | None) -> None:
        self.state: TddState = from_json(TddState, stored) if stored else TddState()
        self._is_check, self._decides = turn.checks.is_check, turn.checks.decides
        self._root = turn.deps.context.workspace.root
        turn.options = turn.options.replace(plan_review="always")
        turn.plan_approved = self.state.phase != "plan"

    def snapshot(self) -> Any:
        return to_json(self.state)

    def decided(self, turn: Turn, tool: str, effects: Sequence[Effect], decision: Decision) -> Decision:
        """Refuse calls that come too early, or ask about them; a commit always needs approval. Raises ToolError."""
        if self.state.phase == "plan" and turn.plan_approved:
            self._enter("tests")
        writes = [self._relative(e.target) for e in effects if e.kind == "write"]
        commands = [e.target for e in effects if e.kind == "run"]
        early = self.state.phase in ("plan", "tests", "review")
        if early and writes:
            self._check_writes(writes)
        for command in commands:
            if re.search(_COMMIT, command):
                if self.state.phase not in ("commit", "done"):
                    raise ToolError(f"/tdd: it is too early to commit. {self._next()}")
                decision = _ask(turn, decision, self._describe_commit())
            elif early and self._test_of(command) is None and not turn.deps.policy.only_reads(command):
                decision = _ask(turn, decision, "runs before the tests were seen failing, and may change files")
        if early and any(e.kind == "call" for e in effects):
            decision = _ask(turn, decision, "runs before the tests were seen failing, and may change files")
        return decision

    def _check_writes(self, writes: Sequence[str]) -> None:
        if self.state.phase == "plan":
            raise ToolError(f"/tdd: it is too early to write files. {self._next()}")
        if others := [path for path in writes if re.search(_TEST, path) is None]:
            raise ToolError(
                f"/tdd: {others[0]} is not a test file, and the tests come first. {self._next()} A test file has "
                "test or spec in its name, or is in a test folder."
            )

    def record_result(self, item: PreparedCall, result: ToolResult) -> str:
        """Record what a call did; return a note for the model on what it means for the workflow."""
        if not result.is_error:
            self._record_writes([self._relative(path) for path in item.writes])
        shown = result.display
        if not isinstance(shown, CommandOutput):
            return ""
        if re.search(_COMMIT, shown.command) and shown.exit_code == 0 and self.state.phase == "commit":
            self._enter("done")
            return ""
        command = self._test_of(shown.command)
        if command is None:
            if not self._is_check(shown.command) or self.state.phase not in ("tests", "code"):
                return ""
            return "\n\n[/tdd: this run was not recorded: run the tests alone, without pipes and other commands.]"
        return self._record_test_run(Check(command, shown.exit_code))

    def _record_test_run(self, check: Check) -> str:
        phase, red = self.state.phase, self.state.red
        if phase == "tests" and self.state.tests:
            if check.passed:
                return "\n\n[/tdd: these tests pass already, so they test nothing new. Write one that fails.]"
            if not _is_red(check):
                code = check.exit_code
                return f"\n\n[/tdd: exit code {code} does not mean failing tests. Run the tests so that they fail.]"
            self.state = self.state.replace(red=check, phase="review")
            return "\n\n[/tdd: seen failing. The user reviews the tests before your next call runs.]"
        if phase == "code" and red is not None:
            if check.passed and check.command == red.command:
                self._enter("commit")
                return "\n\n[/tdd: seen passing. Commit now; the user is asked.]"
            if check.passed:
                return f"\n\n[/tdd: now make `{red.command}` pass, which was seen failing.]"
        return ""

    def _record_writes(self, paths: Sequence[str]) -> None:
        state = self.state
        tests = [path for path in paths if re.search(_TEST, path)]
        if state.phase in ("tests", "review") and tests:
            # The tests that were seen failing have changed.
            self.state = state.replace(tests=_merge(state.tests, tests), phase="tests", red=None)
        elif state.phase in ("code", "commit") and paths:
            self.state = state.replace(phase="code", later=_merge(state.later, tests))

    def review(self) -> str:
        """Return the title of the user's review of the tests, if that is due; else ""."""
        if self.state.phase != "review":
            return ""
        return (
            f"The tests are written and fail, as they should: {self.state.red}. Tests: {', '.join(self.state.tests)}."
        )

    def record_review(self, *, approved: bool) -> None:
        self._enter("code" if approved else "tests")

    def unfinished(self, turn: Turn, text: str) -> str:
        """Return a message that continues the turn; "" if the model is done, asks a question, or was nudged enough."""
        if self.state.phase == "plan" and turn.plan_approved:
            self._enter("tests")
        nothing_to_commit = self.state.phase == "commit" and not (self._root / ".git").exists()
        if self.state.phase == "done" or nothing_to_commit or is_question(text):
            return ""
        if turn.nudges.get("tdd", 0) >= MAX_NUDGES:
            return ""
        turn.nudges["tdd"] = turn.nudges.get("tdd", 0) + 1
        return f"The /tdd workflow is not finished. {self._next()}"

    def missing(self) -> str:
        """Describe the steps that were not observed by the end of the turn."""
        if self.state.phase == "done" or (self.state.phase == "commit" and not (self._root / ".git").exists()):
            return ""
        return self._fill(_MISSING[self.state.phase])

    def _test_of(self, command: str) -> str | None:
        """Return the command on one line, if it runs tests and its exit code is that of the tests; else None."""
        line = " ".join(command.split())
        if "\n" in command.strip() or re.search(r"[|;&<>]|\$\(|`", re.sub(r"\d?>&\d|&&", " ", line)):
            return None
        *before, last = (part.strip() for part in line.split("&&"))
        if re.match(_NO_TESTS, last) or not all(re.fullmatch(_HARMLESS_BEFORE, part) for part in before):
            return None
        return line if self._decides(last) else None

    def _describe_commit(self) -> str:
        state = self.state
        later = f"; tests changed after you saw them: {', '.join(state.later)}" if state.later else ""
        return f"commits; `{state.red.command if state.red else ''}` was seen failing, then passing{later}"

    def _enter(self, phase: Phase) -> None:
        self.state = self.state.replace(phase=phase)

    def _next(self) -> str:
        return self._fill(_NEXT.get(self.state.phase, ""))

    def _fill(self, words: str) -> str:
        return words.replace("{command}", self.state.red.command if self.state.red else "the tests")

    def _relative(self, path: str) -> str:
        real = Path(path)
        return real.relative_to(self._root).as_posix() if real.is_relative_to(self._root) else path


def _is_red(check: Check) -> bool:
    """Return True if an exit code means failing tests, not a command that could not run."""
    if check.exit_code in (None, 126, 127):
        return False
    # pytest: 3 to 5 are internal errors, a wrong command line, and no tests at all.
    return not ("pytest" in check.command and check.exit_code in (3, 4, 5))


def _ask(turn: Turn, decision: Decision, why: str) -> Decision:
    mode = turn.deps.policy.mode
    if decision.level is Level.DENY or mode == "bypassPermissions":
        return decision
    if mode == "dontAsk":
        return decision.replace(level=Level.DENY, reason=f"{why}, and the mode dontAsk denies it", by="mode", rule="")
    return decision.replace(level=Level.ASK, reason=why, by="default", rule="")


def _merge(before: tuple[str, ...], paths: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*before, *paths)))
