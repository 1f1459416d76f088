"""The rows of an open question: what is asked and its choices always show; what is decided is whole, there or above."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from agent_cli import ApprovalQuestion
from agent_cli.kernel.runtime.edit_call import EditableCall, Hunk
from agent_cli.shells.terminal.app.question_view import QuestionView
from agent_cli.shells.terminal.dialogs.approval import approval_dialog, hunk_dialog
from agent_cli.shells.terminal.dialogs.model import Dialog
from agent_cli.shells.terminal.dialogs.questions import confirm_dialog, plan_dialog, question_dialog, review_dialog
from agent_cli.shells.terminal.render.ansi import cells
from agent_tools.base import Effect
from agent_tools.results import Diff
from tests.support.terminal_stage import REQUEST, asked_plan, asked_review

LONG_SUFFIX = "rm -f " + " ".join(f"a-file-with-a-long-name-{n:02}" for n in range(60)) + " && echo the-last-words"
PATCH = "@@ -1,40 +1,40 @@\n" + "\n".join(f"-old line {n}\n+new line {n}" for n in range(40))
CHANGE = EditableCall("Bash", {"command": "touch a"})
HUNK = Hunk("a.py", 0, ("a\n",), ("b\n",), "@@ -1 +1 @@\n-a\n+b")


def command(text: str, **more: object) -> Dialog:
    request = REQUEST.replace(
        summary=f"Run: {text[:200]}",
        effects=(Effect("run", text),),
        arguments={"command": text, "description": "Do it"},
        exact="Bash(touch a b)",
        warnings=("deletes 2 files (4 bytes), 1 that git has no copy of", "uses the network"),
        facts=tuple(f"fact {n}" for n in range(4)),
        **more,
    )
    return approval_dialog(ApprovalQuestion(request, CHANGE))


EDIT = REQUEST.replace(
    tool="Edit", summary="Edit a.py (+40 -40)", effects=(Effect("write", "/w/a.py"),), edits=True,
    always="Edit(//w/a.py)", preview=Diff("a.py", PATCH, 40, 40), arguments={},
)  # fmt: skip
OPTIONS = [{"label": f"Option {n}", "description": "words " * 20} for n in range(12)]
FILES = [{"path": f"f{n}", "added": 1, "removed": 0} for n in range(30)]
PLAN = {"plan": "# A plan\n\n" + "\n".join(f"- step {n} of it" for n in range(60)) + "\n\nthe end"}
EVERY = {
    "command": command("python3 -m unittest -q 2>&1 | tail -20"),
    "long command": command(LONG_SUFFIX),
    "script": command("\n".join(f"echo {n}" for n in range(50)) + "\necho the-last-words"),
    "edit": approval_dialog(ApprovalQuestion(EDIT, EditableCall("", {}, (HUNK, HUNK)))),
    "hunk": hunk_dialog(HUNK.diff, 1, 3),
    "plan": plan_dialog(asked_plan(PLAN), ttl=60),
    "question": question_dialog({"question": "Which of these is the one to take? " * 9, "options": OPTIONS[:4]}),
    "several": question_dialog({"question": "Which?", "options": OPTIONS, "multiSelect": True}),
    "review": review_dialog(asked_review({"title": "step one", "files": FILES})),
    "confirm": confirm_dialog("Undo it?", grave=False),
}  # fmt: skip


def rows(view: QuestionView, columns: int, room: int) -> list[str]:
    """The rows as plain text, after what does not fit was written above them."""
    console = screen(columns)
    if not view.fits(console, columns - 1, room):
        view.written = len(view.body(console, columns - 1))
    found, at = view.rows(console, columns - 1, room)
    assert len(found) <= room
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", row) for row in found]
    assert all(cells(row) <= columns - 1 for row in plain), plain
    assert not view.choices or plain[at].startswith("❯ ") or room < 3
    return plain


def screen(columns: int) -> Console:
    return Console(file=io.StringIO(), width=columns, force_terminal=True, color_system="standard", soft_wrap=True)


def written(view: QuestionView, columns: int = 80) -> str:
    return "\n".join(row.plain.rstrip() for row in view.to_write(screen(columns), columns - 1))


@pytest.mark.parametrize(("columns", "window"), [(80, 24), (100, 32), (40, 15), (160, 45)])
@pytest.mark.parametrize("name", EVERY)
def test_what_is_asked_and_every_choice_show(name: str, columns: int, window: int) -> None:
    view = QuestionView(EVERY[name])
    shown = rows(view, columns, window - 3)
    assert shown[0] == "─" * (columns - 1)
    asked = (view.dialog.asks or view.dialog.title.text)[:20]
    assert shown[1].startswith(asked)
    if len(view.choices) < window // 2:
        for choice in view.choices:
            assert any(row[2:].startswith(f"{choice.key:<2} ") and choice.label[:8] in row for row in shown), shown
    assert any(row.startswith("❯ ") for row in shown)
    keys = view.keys(columns - 1, replying=False, away=False).plain
    assert "Enter" in keys and "Esc " in keys and len(keys) < columns


@pytest.mark.parametrize(("columns", "window"), [(80, 24), (40, 15)])
@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("long command", [LONG_SUFFIX]),
        ("script", [*(f"echo {n}" for n in range(50)), "echo the-last-words"]),
        ("edit", [f"{sign} {word} line {n}" for n in range(40) for sign, word in (("-", "old"), ("+", "new"))]),
        ("plan", ["A plan", *(f"step {n} of it" for n in range(60)), "the end"]),
        ("review", [f"f{n} (+1 -0)" for n in range(30)]),
    ],
)
def test_what_does_not_fit_is_written_above_and_every_line_of_it_is_there(
    name: str, lines: list[str], columns: int, window: int
) -> None:
    view = QuestionView(EVERY[name])
    assert not view.fits(screen(columns), columns - 1, window - 3)
    text = "".join(written(view, columns).split())
    assert [line for line in lines if "".join(line.split()) not in text] == []
    shown = rows(view, columns, window - 3)
    assert "above" in shown[1] + shown[2] and "..." not in "".join(shown)


def test_of_a_very_long_text_the_first_and_the_last_lines_are_written_and_a_key_shows_all() -> None:
    view = QuestionView(command("\n".join(f"echo {n}" for n in range(1, 1_001))))
    lines = written(view).split("\n")
    assert lines[:2] == ["Run a command", "  echo 1"] and lines[-1] == "  echo 1000"
    assert lines[301] == "  ... 600 lines are not shown here (v shows all) ..." and len(lines) == 402
    rows(view, 80, 20)
    assert "v show all" in view.keys(79, replying=False, away=False).plain
    assert "echo 500\n" in view.whole(screen(80))


def test_a_short_command_is_in_the_question() -> None:
    view = QuestionView(EVERY["command"])
    assert rows(view, 80, 21) == [
        "─" * 79,
        "Run this command? · Do it",
        "",
        "  python3 -m unittest -q 2>&1 | tail -20",
        "  deletes 2 files (4 bytes), 1 that git has no copy of · uses the network",
        "",
        "❯ y  Yes",
        "  a  Yes, and ask no more about touch a",
        "  n  No · Tab: say what to do instead",
    ]
    keys = view.keys(79, replying=False, away=False).plain
    assert keys == "  ↑↓ Enter · Tab add words · e edit · ? more · Esc no"


def test_the_explanation_has_the_reasons_and_one_line_on_each_choice() -> None:
    view = QuestionView(EVERY["command"])
    view.explain()
    shown = rows(view, 110, 21)
    assert "  fact 3" in shown
    assert "❯ y  Yes · this once" in shown
    assert "  a  Yes, and ask no more about touch a · until this session ends; adds Bash(touch a)" in shown
    assert any(row.startswith("  A  Yes, and never ask for it in this project · saved in .agentrc") for row in shown)
    assert any(row.startswith("  x  Yes, and ask no more about exactly this command") for row in shown)
    assert any(row.startswith("  n  No · the model learns it") for row in shown)
    view.explain()
    assert not any(row.startswith("  A  ") for row in rows(view, 110, 21))


def test_trust_is_not_mentioned_where_the_project_is_trusted_already() -> None:
    for trusts in (True, False):
        view = QuestionView(approval_dialog(ApprovalQuestion(REQUEST.replace(trusts=trusts), CHANGE)))
        view.explain()
        assert ("hooks and commands also take effect" in "".join(rows(view, 160, 40))) == trusts


def test_commands_that_begin_alike_are_named_by_their_beginning() -> None:
    for rule, name in (("Bash(python3 -m pytest:*)", "python3 -m pytest …"), ("Bash(make)", "make")):
        shown = rows(QuestionView(approval_dialog(ApprovalQuestion(REQUEST.replace(always=rule), CHANGE))), 80, 21)
        assert f"  a  Yes, and ask no more about {name}" in shown


def test_an_edit_offers_further_edits_and_shows_its_hunks_as_a_key() -> None:
    view = QuestionView(EVERY["edit"])
    shown = rows(view, 80, 21)
    assert shown[1] == "Make this change to a.py? · 80 lines above"
    assert "  s  Yes, and make further edits without asking · Shift-Tab" in shown
    assert "h review 2 hunks" in view.keys(79, replying=False, away=False).plain


@pytest.mark.parametrize(("columns", "room"), [(40, 12), (40, 7), (30, 12), (80, 21)])
@pytest.mark.parametrize("explained", [False, True])
def test_what_a_choice_allows_is_wrapped_and_never_cut(columns: int, room: int, *, explained: bool) -> None:
    rule = "Bash(python3 -m pytest tests/unit/test_dates.py:*)"
    for request in (REQUEST.replace(always=rule, warnings=("deletes 2 files",)), EDIT):
        view = QuestionView(approval_dialog(ApprovalQuestion(request, CHANGE)))
        if explained:
            view.explain()
        seen = ""
        for _ in view.choices:
            shown = rows(view, columns, room)
            text = " ".join(" ".join(shown).split())
            assert "…" not in text.replace("py …", ""), shown
            seen += f"{text}\n"
            view.move(1)
        for choice in view.choices:
            assert choice.label in seen, (choice.label, seen)


def test_the_list_is_dim_while_the_keys_go_elsewhere() -> None:
    view = QuestionView(EVERY["command"])
    for dim in ({"replying": True}, {"away": True}):
        found, at = view.rows(screen(80), 79, 21, **dim)  # type: ignore[arg-type]
        assert "\x1b[1m" not in found[at] and "\x1b[2m" in found[at]


@pytest.mark.parametrize(("columns", "room"), [(20, 3), (20, 1), (24, 5), (10, 2)])
def test_in_a_tiny_window_the_choice_that_enter_takes_shows(columns: int, room: int) -> None:
    for dialog in EVERY.values():
        view = QuestionView(dialog)
        view.move(-1)
        shown = rows(view, columns, room)
        assert any(row.startswith("❯ ") for row in shown) or room < 3, shown


def test_nothing_in_a_question_steers_the_terminal() -> None:
    evil = "a\x1b[2J\x1b]52;c;x\x07\u202e\x9b31m"
    for dialog in (
        command(evil),
        question_dialog({"question": evil, "options": [{"label": evil, "description": evil}]}),
    ):
        view = QuestionView(dialog.replace(warnings=(evil,), about=evil))
        text = "".join([*view.rows(screen(80), 79, 30)[0], written(view)])
        assert not re.search(r"\x1b(?!\[[0-9;]*m)|[\x07\x9b\u202e]", text), text
