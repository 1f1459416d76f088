"""Which console there is: colours, bold alone, or nothing but text."""

from __future__ import annotations

import io
import os

import pytest
from rich.console import Console

from agent_cli.shells.terminal.dialogs.lines import dialog_lines
from agent_cli.shells.terminal.dialogs.questions import question_dialog
from agent_cli.shells.terminal.render.console import make_console, styled

COLOR, BOLD, TEXT = "\x1b[1;33mx\x1b[0m\n", "\x1b[1mx\x1b[0m\n", "x\n"


@pytest.mark.parametrize(
    ("terminal", "color", "env", "plain", "shown"),
    [
        (True, "auto", {}, False, COLOR),
        (True, "auto", {"NO_COLOR": "1"}, False, BOLD),
        (True, "auto", {"NO_COLOR": ""}, False, COLOR),
        (True, "never", {}, False, BOLD),
        (True, "auto", {}, True, TEXT),
        (True, "auto", {"TERM": "dumb"}, False, TEXT),
        (True, "auto", {"TERM": ""}, False, TEXT),
        (False, "auto", {}, False, TEXT),
        (False, "never", {}, False, TEXT),
        (False, "always", {"NO_COLOR": "1"}, False, COLOR),
    ],
)
def test_colours_are_there_where_they_can_be_seen_and_are_wanted(
    terminal: bool,
    color: str,
    env: dict[str, str],
    plain: bool,
    shown: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(os, "isatty", lambda fd: terminal)
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    make_console(color, {"TERM": "xterm", **env}, plain=plain).print(styled("x", "ask"))
    assert capsys.readouterr().out == shown


def test_a_question_is_wrapped_by_words_and_nothing_in_it_passes_for_an_option() -> None:
    asked = {
        "question": "Shall we rename everything in this module?",
        "options": [{"label": "Yes", "description": "all of the names will be 2. No"}],
    }
    wide = Console(file=io.StringIO(), width=30, force_terminal=True)
    assert [row.plain for row in dialog_lines(question_dialog(asked), wide)] == [
        "? Shall we rename everything",
        "in this module?",
        "  1. Yes - all of the names",
        "     will be 2. No",
    ]
    piped = Console(file=io.StringIO(), width=30)
    assert [row.plain for row in dialog_lines(question_dialog(asked), piped)][1:] == [
        "  1. Yes - all of the names will be 2. No"
    ]
