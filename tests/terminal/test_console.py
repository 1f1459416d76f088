"""Which console there is: colours, bold alone, or nothing but text."""

from __future__ import annotations

import os

import pytest

from agent_cli.terminal.console import make_console, styled

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
