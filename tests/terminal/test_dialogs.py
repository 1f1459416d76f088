"""Every question as a dialog, answered by lines: what a line names, what other words mean, and what stands."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from agent_cli import ApprovalQuestion
from agent_cli.kernel.decisions import Answer, Approve, Defer, EditedCall, QuestionReply, Reject
from agent_cli.kernel.events import QuestionAsked, SubagentEvent, ToolRequested, TurnStarted
from agent_cli.kernel.run_environment import UsageError
from agent_cli.kernel.runtime.approval_words import rule_label
from agent_cli.kernel.runtime.edit_call import EditableCall, Hunk
from agent_cli.kernel.runtime.user_decision import UserDecision
from agent_cli.kernel.session.live import LiveSession
from agent_cli.policy.policy import Policy
from agent_cli.shells.terminal.app.question_view import QuestionView
from agent_cli.shells.terminal.dialogs.approval import approval_dialog, ask_approval, hunk_dialog
from agent_cli.shells.terminal.dialogs.lines import LineDialogs
from agent_cli.shells.terminal.dialogs.model import KEYS, Dialog, PlanBody
from agent_cli.shells.terminal.dialogs.questions import (
    allow_any,
    ask_question,
    confirm_dialog,
    plan_dialog,
    question_dialog,
    review_dialog,
)
from agent_cli.shells.terminal.editor import edit_and_parse
from agent_tools.base import Effect
from agent_tools.cancel import CancelledError
from agent_tools.fs.workspace import Workspace
from tests.support.terminal_stage import REQUEST, decision

PLAN = QuestionAsked("c1", "plan", {"plan": "1. Touch it"})
CHANGE = EditableCall("Bash", {"command": "touch a"})
FILES = Workspace(Path("/"))


class Lines:
    """Dialogs whose user types these lines; shown: what was written, the labels included."""

    def __init__(self, *typed: str) -> None:
        self._typed = list(typed)
        self._file = io.StringIO()
        self.dialogs = LineDialogs(Console(file=self._file, width=80), self._read, lambda words: words == "/todos")

    def _read(self, label: str) -> str:
        self._file.write(label)
        if not self._typed:
            raise EOFError
        if self._typed[0] == "^C":
            raise KeyboardInterrupt
        return self._typed.pop(0)

    @property
    def shown(self) -> str:
        return self._file.getvalue()

    def approve(self, always: str = "Bash(touch a)") -> Answer:
        request = REQUEST.replace(always=always, keeps=bool(always), arguments={"command": "touch a"})
        return ask_approval(request, self.dialogs.put, FILES)

    def reply(self, asked: QuestionAsked, check_mode: Callable[[str], None] = allow_any) -> QuestionReply | Defer:
        return ask_question(asked, self.dialogs.put, FILES, 0, check_mode)


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("y", Approve()),
        ("YES", Approve()),
        ("a", Approve(rule="Bash(touch a)")),
        ("A", Approve(rule="Bash(touch a)", scope="project")),
        ("Always", Approve(rule="Bash(touch a)", scope="project")),
        ("", Reject()),
        ("No", Reject()),
        ("not this one", Reject("not this one")),
        ("r", Reject("r")),
    ],
)
def test_what_a_line_means_at_a_call(typed: str, answer: Answer) -> None:
    assert Lines(typed).approve() == answer


def test_always_where_it_is_not_offered_is_reported_and_the_question_stands() -> None:
    lines = Lines("a", "y")
    assert lines.approve(always="") == Approve()
    assert lines.shown.count("Allow?") == 2
    assert '"always" is not offered for this call. Answer y to allow it once.' in lines.shown
    assert "always this session" not in lines.shown


def test_a_change_that_says_nothing_and_a_command_leave_the_question_open() -> None:
    lines = Lines("e", "", "/todos", "e", "touch b")
    assert lines.approve() == EditedCall({"command": "touch b"})
    assert lines.shown.count("Allow?") == 3


def test_the_end_of_input_leaves_a_question_of_a_turn_open_and_is_a_no_to_ones_own() -> None:
    assert Lines().approve() == Defer() == Lines().reply(PLAN)
    assert Lines().dialogs.confirm("Sure?", grave=False) is False
    assert Lines().dialogs.choose("Which?", [("one", ""), ("two", "")]) is None


def test_ctrl_c_interrupts_a_turn_and_is_a_no_to_ones_own_question() -> None:
    with pytest.raises(CancelledError):
        Lines("^C").approve()
    assert Lines("^C").dialogs.confirm("Sure?", grave=False) is False


@pytest.mark.parametrize(
    ("typed", "reply"),
    [
        ("a", QuestionReply("approve", mode="acceptEdits")),
        ("y", QuestionReply("approve")),
        ("y be quick", QuestionReply("approve", "be quick")),
        ("looks good", QuestionReply("approve")),
        ("n", QuestionReply("cancel")),
        ("smaller steps", QuestionReply("revise", "smaller steps")),
    ],
)
def test_what_a_line_means_at_a_plan(typed: str, reply: QuestionReply) -> None:
    assert Lines(typed).reply(PLAN) == reply


def test_a_mode_that_is_refused_here_is_reported_and_the_plan_stands() -> None:
    def refuse(mode: str) -> None:
        if mode == "bypassPermissions":
            raise UsageError("That mode is refused here.")

    lines = Lines("y bypassPermissions", "y")
    assert lines.reply(PLAN, refuse) == QuestionReply("approve")
    assert "That mode is refused here." in lines.shown and lines.shown.count("Approve this plan?") == 2


@pytest.mark.parametrize(
    ("written", "title", "rest"),
    [
        ("# Plan\n\n1. Touch it", "Plan", "1. Touch it"),
        ("\n## Plan: ##\n1. Touch it", "Plan", "1. Touch it"),
        ("**Plan**\n\n1. Touch it", "Plan", "1. Touch it"),
        ("# The plan for `a.py`\n\n1. Touch it", "The plan for `a.py`", "1. Touch it"),
        ("# Goal\n\n1. Touch it", "Plan", "# Goal\n\n1. Touch it"),
        ("# Explanation\n\n1. Touch it", "Plan", "# Explanation\n\n1. Touch it"),
        ("Plan to touch it", "Plan", "Plan to touch it"),
        ("**Plan** first, **then**\n1. Touch it", "Plan", "**Plan** first, **then**\n1. Touch it"),
        ("# Plan", "Plan", "# Plan"),
    ],
)
def test_a_plan_that_begins_with_its_own_title_is_not_titled_twice(written: str, title: str, rest: str) -> None:
    dialog = plan_dialog(QuestionAsked("c1", "plan", {"plan": written}))
    assert (dialog.title.text, dialog.body) == (title, (PlanBody(rest),))


def test_a_plan_is_put_again_as_it_was_edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nprintf "\\n2. Look at it\\n" >> "$1"\n')
    editor.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(editor))
    lines = Lines("e", "y")
    reply = lines.reply(PLAN)
    assert isinstance(reply, QuestionReply) and "2. Look at it" in reply.plan["plan"]
    assert "2. Look at it" in lines.shown.rpartition("? Plan")[2]


@pytest.mark.parametrize(
    ("tool", "arguments", "suffix"),
    [
        ("Edit", {"file_path": "src/a.py", "old_string": "a", "new_string": "b"}, ".py"),
        ("Write", {"file_path": "/w/main.rs", "content": "b"}, ".rs"),
        ("Write", {"file_path": "Makefile", "content": "b"}, ".txt"),
        ("Bash", {"command": "make"}, ".sh"),
    ],
)
def test_a_call_is_edited_in_a_file_that_shows_its_language(
    tool: str, arguments: dict[str, str], suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change = EditableCall(tool, arguments)
    assert change.suffix == suffix
    editor = tmp_path / "editor"
    editor.write_text(f'#!/bin/sh\necho "$1" > {tmp_path}/named\necho more >> "$1"\n')
    editor.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(editor))
    edited = edit_and_parse(change.text, change.edited, change.suffix)
    assert isinstance(edited.answer, dict) and edited.answer != arguments
    assert (tmp_path / "named").read_text().strip().endswith(suffix)


def test_a_prompt_that_does_not_fit_has_its_choices_above_it() -> None:
    lines = Lines("y")
    lines.reply(PLAN)
    *_, hint, last = lines.shown.split("\n")
    assert last == "Approve this plan? " and hint.strip().endswith("what to change")
    assert all(len(line) <= 80 for line in lines.shown.split("\n"))


HUNK = Hunk("a.txt", 0, ("a\n",), ("b\n",), "@@ -1 +1 @@\n-a\n+b")
OPTIONS = [{"label": str(number)} for number in range(12)]
EVERY = {
    "call": approval_dialog(ApprovalQuestion(REQUEST, EditableCall("Bash", {"command": "touch a"}, (HUNK, HUNK)))),
    "hunk": hunk_dialog(HUNK.diff, 1, 2),
    "question": question_dialog({"question": "Which?", "options": OPTIONS}),
    "words": question_dialog({"question": "Why?"}),
    "plan": plan_dialog(PLAN),
    "review": review_dialog(QuestionAsked("c1", "review", {"title": "step one"})),
    "yes or no": confirm_dialog("Sure?", grave=False),
}


@pytest.mark.parametrize("dialog", EVERY.values(), ids=EVERY.keys())
def test_each_choice_has_a_key_that_is_bound_and_no_two_the_same(dialog: Dialog) -> None:
    keys = [choice.key for choice in dialog.choices]
    names = [name for choice in dialog.choices for name in choice.names]
    assert len(set(keys)) == len(keys) and len(set(names)) == len(names)
    assert {key for key in keys if not key.isdecimal()} <= set(KEYS)
    view = QuestionView(dialog)
    assert all(view.by_key(str(place)) is choice for place, choice in enumerate(dialog.listed[:9], 1))
    assert dialog.from_command or dialog.by_key(dialog.escape) is not None
    for choice in dialog.choices:
        assert dialog.by_key(choice.key) is choice
        assert not choice.names or dialog.by_name(choice.key) is choice


def test_the_plain_front_end_says_what_matters_and_explains_on_request() -> None:
    lines = Lines("?", "y")
    request = REQUEST.replace(
        arguments={"command": "touch a", "description": "Make a"}, warnings=("deletes 2 files",), facts=("a fact",),
        always="Bash(touch a)",
    )  # fmt: skip
    assert ask_approval(request, lines.dialogs.put, FILES) == Approve()
    asked, _, explained = lines.shown.partition("Allow? ")
    assert asked.startswith("? Run a command · Make a\n  touch a\n  deletes 2 files\n")
    assert "y yes · a always this session: touch a" in asked and "? explain" in asked
    assert "  a fact\n" not in asked and "  a fact\n" in explained
    assert "asked, as no rule allows this command" in explained
    assert "  a always this session: touch a: until this session ends" in explained


def test_the_explanation_says_each_thing_once_and_names_no_hidden_key(tmp_path: Path) -> None:
    gate = Policy(Workspace(tmp_path))
    effects = (Effect("run", "cd . && python3 -m unittest -q"),)
    decision = gate.decide("Bash", effects)
    request = REQUEST.replace(
        summary=f"Run: {effects[0].target}", effects=effects, reason=decision.reason, trusts=True,
        facts=gate.facts("Bash", effects, decision).lines, always="Bash(python3 -m unittest:*)",
        keeps=True, exact="Bash(python3 -m unittest -q)", grants=gate.describe_grant("Bash(python3 -m unittest:*)"),
    )  # fmt: skip
    lines = Lines("?", "y")
    ask_approval(request, lines.dialogs.put, FILES)
    explained = lines.shown.partition("Allow? ")[2].splitlines()
    assert sum("not known to be read-only" in line for line in explained) == 1
    assert not [line for line in explained if re.match(r"\s*[aAx]: ", line)]
    assert any("its own settings, hooks and commands also take effect" in line for line in explained)


@pytest.mark.parametrize(
    ("rules", "label"),
    [
        ("Bash(python3 -m unittest:*)", "python3 -m unittest:*"),
        ("Bash(git add:*), Bash(git commit:*)", "git add:*, git commit:*"),
        ("Edit(//w/src/a.py)", "changes to src/a.py"),
        ("Edit(//etc/hosts), Bash(make)", "changes to /etc/hosts, make"),
        ("Read(//etc/hosts)", "reading /etc/hosts"),
        ("WebFetch(domain:example.org)", "example.org"),
        ("WebSearch", "WebSearch"),
        ("SlashCommand(/review)", "SlashCommand(/review)"),
    ],
)
def test_a_choice_names_what_its_rule_allows(rules: str, label: str) -> None:
    assert rule_label(rules, "/w") == label


def test_what_looks_like_something_else_comes_before_all_other_warnings() -> None:
    odd = "p\N{CYRILLIC SMALL LETTER U}test"
    request = REQUEST.replace(
        summary=f"Run: {odd}", effects=(Effect("run", odd),), arguments={"command": odd}, warnings=("deletes 1 file",)
    )
    found = approval_dialog(ApprovalQuestion(request, CHANGE))
    assert "CYRILLIC" in found.warnings[0].upper() or "U+" in found.warnings[0]
    assert found.warnings[1:] == ("deletes 1 file",)


def test_a_question_says_which_sub_agent_asks() -> None:
    asking = LiveSession()
    for event in (
        TurnStarted("m", "default"),
        ToolRequested("t1", "Task", {}, "Sub-agent explore: find the tests"),
        SubagentEvent("explore", "t1", REQUEST.replace(call_id="c1")),
        SubagentEvent("explore", "lost", REQUEST.replace(call_id="c2")),
    ):
        asking.apply(event)
    assert asking.asked_for("c1") == "for sub-agent explore: find the tests"
    assert asking.asked_for("c2") == "for sub-agent explore" and asking.asked_for("other") == ""
    seen: list[Dialog] = []

    def put(dialog: Dialog) -> UserDecision:
        seen.append(dialog)
        return decision("approve")

    ask_approval(REQUEST, put, FILES, about=asking.asked_for("c1"))
    ask_approval(REQUEST, put, FILES)
    assert [dialog.about for dialog in seen] == ["for sub-agent explore: find the tests", ""]
