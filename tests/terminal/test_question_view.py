"""The rows of an open question: what is asked and the choices always show; the rest folds, and can be seen."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

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
    return approval_dialog(request, CHANGE)


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
    "edit": approval_dialog(EDIT, EditableCall("", {}, (HUNK, HUNK))),
    "hunk": hunk_dialog(HUNK, 1, 3),
    "plan": plan_dialog(asked_plan(PLAN), ttl=60),
    "question": question_dialog({"question": "Which of these is the one to take? " * 9, "options": OPTIONS[:4]}),
    "several": question_dialog({"question": "Which?", "options": OPTIONS, "multiSelect": True}),
    "review": review_dialog(asked_review({"title": "step one", "files": FILES})),
    "confirm": confirm_dialog("Undo it?"),
}  # fmt: skip


def rows(view: QuestionView, columns: int, room: int, window: int) -> list[str]:
    console = Console(file=io.StringIO(), width=columns, force_terminal=True, color_system="standard", soft_wrap=True)
    found = view.rows(console, columns - 1, room, window)
    assert len(found) <= room
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", row) for row in found]
    assert all(cells(row) <= columns - 1 for row in plain), plain
    return plain


@pytest.mark.parametrize(("columns", "window"), [(80, 24), (40, 15), (120, 40)])
@pytest.mark.parametrize("name", EVERY)
def test_what_is_asked_and_every_choice_show(name: str, columns: int, window: int) -> None:
    view = QuestionView(EVERY[name])
    # The toolbar, a spare row, and a draft as long as it may be.
    shown = rows(view, columns, window - 2 - max(1, window // 6), window)
    assert shown[0].startswith(view.dialog.title.text[:20])
    if len(view.dialog.listed) < window // 2:
        for number, choice in enumerate(view.dialog.listed, 1):
            words = choice.label.removeprefix("Yes, ")[1:12], choice.brief[:8] or choice.label
            assert any(f"{number}. " in row and any(w in row for w in words) for row in shown), (number, shown)
    assert any(row.startswith("❯ 1. ") for row in shown)
    assert "Enter" in shown[-1] and "Esc " in shown[-1]
    body = [row for row in shown if not re.match(r"[❯ ] +\d+\. ", row)]
    assert len(body) >= 3 or not view.dialog.body, "something of what it is about"


@pytest.mark.parametrize(("columns", "window"), [(80, 24), (40, 15)])
def test_a_long_body_folds_in_the_middle_and_is_whole_on_request(columns: int, window: int) -> None:
    view = QuestionView(EVERY["script"])
    shown = rows(view, columns, window - 4, window)
    text = "\n".join(shown)
    assert "echo 0" in text and re.search(r"\.\.\. \d+ more lines? \(v views all\)", text) and " all · " in shown[-1]
    whole = view.whole(Console(file=io.StringIO(), width=columns))
    assert all(f"echo {n}\n" in whole for n in range(50)) and "the-last-words" in whole and "fact 3" in whole


def test_the_beginning_and_the_end_of_a_command_stay() -> None:
    shown = "\n".join(rows(QuestionView(EVERY["long command"]), 80, 20, 24))
    assert "rm -f a-file-with-a-long-name-00" in shown and "the-last-words" in shown


def test_what_always_would_allow_is_readable_in_a_narrow_window() -> None:
    name = "src/package/test_of_the_titles.py"
    edit = EDIT.replace(summary=f"Edit {name} (+40 -40)", always=f"Edit(//w/{name})", keeps=True)
    shown = rows(QuestionView(approval_dialog(edit, EditableCall("", {}))), 40, 12, 15)
    assert "  3. Session: changes to …the_titles.py" in shown, shown
    shown = rows(QuestionView(approval_dialog(edit, EditableCall("", {}))), 40, 15, 18)
    text = "".join("".join(shown).split())
    assert f"3.Session:changesto{name}" in text and f"4.Project:changesto{name}" in text, shown
    shown = rows(QuestionView(approval_dialog(edit, EditableCall("", {}))), 40, 24, 30)
    text = "".join("".join(shown).split())
    assert f"3.Yes,alwaysthissession:changesto{name}" in text and name in text.partition("4.")[2], shown


def test_a_short_body_is_never_folded() -> None:
    view = QuestionView(EVERY["command"])
    shown = rows(view, 80, 18, 24)
    assert shown == [
        "Run a command   · Do it",
        "  python3 -m unittest -q 2>&1 | tail -20",
        "  deletes 2 files (4 bytes), 1 that git has no copy of · uses the network",
        "❯ 1. Yes",
        "  2. Yes, always this session: touch a",
        "  3. Yes, always in this project, trusting it: touch a",
        "  4. Yes, always this session, exactly: touch a b",
        "  5. No",
        "  Enter choose · Tab add a comment · e edit · ? explain · Esc no",
    ]


def test_trust_is_not_mentioned_where_the_project_is_trusted_already() -> None:
    shown = rows(QuestionView(approval_dialog(REQUEST.replace(trusts=False), CHANGE)), 80, 18, 24)
    assert "  3. Yes, always in this project: touch a" in shown


def test_of_a_small_change_in_a_low_window_the_changed_lines_show_and_not_those_around() -> None:
    patch = "@@ -2,4 +2,4 @@\n \n \n def slug(title):\n-    return title.lower()\n+    return title.upper()"
    edit = EDIT.replace(summary="Edit a.py (+1 -1)", preview=Diff("a.py", patch, 1, 1))
    shown = "\n".join(rows(QuestionView(approval_dialog(edit, CHANGE)), 40, 11, 15))
    assert "5 -    return title.lower()" in shown and "5 +    return title.upper()" in shown


def test_an_edit_offers_all_edits_and_names_the_file_once() -> None:
    shown = rows(QuestionView(EVERY["edit"]), 80, 20, 24)
    assert shown[0] == "Edit a.py (+40 -40)" and "old line 0" in shown[1]
    assert "  2. Yes, all edits this session (Shift-Tab)" in shown
    assert "  3. Yes, always this session: changes to a.py" in shown
    assert shown[-1] == "  Enter · Tab comment · h 2 hunks · ? explain · v all · Esc no"


@pytest.mark.parametrize(("columns", "room"), [(20, 3), (20, 1), (24, 5), (10, 2)])
def test_in_a_tiny_window_the_choice_that_enter_takes_shows(columns: int, room: int) -> None:
    for dialog in EVERY.values():
        view = QuestionView(dialog)
        view.move(-1)
        shown = rows(view, columns, room, room + 3)
        assert any(row.startswith("❯ ") for row in shown) or room == 1, shown
        assert view.folded or len(shown) <= room


def test_the_facts_show_in_place_where_they_fit() -> None:
    console = Console(file=io.StringIO(), width=80, force_terminal=True)
    view = QuestionView(EVERY["command"])
    assert view.fits_explained(console, 79, 40) and not view.fits_explained(console, 79, 12)
    view.explained = True
    assert "  fact 3" in rows(view, 80, 36, 40)


def test_nothing_in_a_question_steers_the_terminal() -> None:
    evil = "a\x1b[2J\x1b]52;c;x\x07\u202e\x9b31m"
    for dialog in (
        command(evil),
        question_dialog({"question": evil, "options": [{"label": evil, "description": evil}]}),
    ):
        view = QuestionView(dialog.replace(warnings=(evil,), about=evil))
        console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system="standard")
        text = "".join(view.rows(console, 79, 30, 40))
        assert not re.search(r"\x1b(?!\[[0-9;]*m)|[\x07\x9b\u202e]", text), text
