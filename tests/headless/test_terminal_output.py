"""What a model or a provider says cannot steer the terminal that a one-shot run stands in; pipes get it as it is."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.model_server import ModelServer, Reply
from tests.support.program import agent, clean_env
from tests.support.scripts import script

# Colours, the clipboard, the title, 8-bit controls, and marks that reorder text.
STEERING = "a\x1b[31mred\x1b]52;c;QUJD\x07 \x1b]0;title\x1b\\ \x9b2J \u202eevil\nnext\ttab é ☃"


def in_terminal(argv: list[str], work: Path, **env: str) -> bytes:
    """Everything that a run writes to its terminal."""
    mine, its = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "agent_cli", *argv],
        cwd=work,
        env=clean_env(work.parent / "home", **env),
        stdin=subprocess.DEVNULL,
        stdout=its,
        stderr=its,
        start_new_session=True,
    )
    os.close(its)
    written = b""
    try:
        while piece := os.read(mine, 65_536):
            written += piece
    except OSError:  # how a terminal without any writer ends
        pass
    os.close(mine)
    process.wait(60)
    return written.replace(b"\r\n", b"\n")


def harmless(written: bytes) -> bool:
    text = written.decode()
    return not any((ord(c) < 32 and c not in "\n\t") or 127 <= ord(c) < 160 or c == "\u202e" for c in text)


def test_the_answer_is_inert_on_a_terminal_and_whole_in_a_pipe(work: Path) -> None:
    model = script(work.parent / "s.toml", [{"text": STEERING}])
    shown = in_terminal(["-p", "--model", model, "go"], work)
    assert harmless(shown)
    assert b"a\\x1b[31mred" in shown and "\nnext\ttab é ☃\n".encode() in shown
    assert agent(["-p", "--model", model, "go"], work).stdout == f"{STEERING}\n"


@pytest.mark.parametrize("form", ["json", "stream-json"])
def test_so_are_the_other_forms(work: Path, form: str) -> None:
    model = script(work.parent / "s.toml", [{"text": STEERING}])
    assert harmless(in_terminal(["-p", "--output-format", form, "--verbose", "--model", model, "go"], work))


def test_an_error_of_the_provider_is_inert_on_a_terminal(work: Path) -> None:
    with ModelServer([Reply(status=400, error=STEERING)]) as server:
        env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url}
        shown = in_terminal(["-p", "--model", "openai/x", "go"], work, **env)
    assert b"red" in shown and harmless(shown)
