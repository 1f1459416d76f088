"""Keys that a model types: by name, as escapes, and as it writes them by mistake."""

from __future__ import annotations

import pytest

from agent_tools.results import ToolError
from agent_tools.shell.keys import typed_text


@pytest.mark.parametrize(
    ("text", "keys", "typed"),
    [
        ("Ada\n", (), "Ada\r"),
        ("Ada\\n", (), "Ada\r"),
        ("Ad\\t", (), "Ad\t"),
        ('printf "a\\n"\n', (), 'printf "a\\n"\r'),
        ("C:\\\\new\\\\n", (), "C:\\\\new\\\\n"),
        ("Ada", ("Enter",), "Ada\r"),
        ("", ("Ctrl-C",), "\x03"),
        ("", ("ctrl+d", "^X", "C-a"), "\x04\x18\x01"),
        ("", ("Up", "PageDown", "F1", "Shift-Tab", "Alt-f"), "\x1b[A\x1b[6~\x1bOP\x1b[Z\x1bf"),
        ("", ("j", "Esc", "BackSpace", "page_up"), "j\x1b\x7f\x1b[5~"),
        ("\x03", (), "\x03"),
        ("Ctrl-C", (), "\x03"),
        ("^C", (), "\x03"),
        ("<Enter>", (), "\r"),
        ("\\x1b", (), "\x1b"),
        ("<b>bold</b>", (), "<b>bold</b>"),
        ("<div>", (), "<div>"),
        ("press Ctrl-C", (), "press Ctrl-C"),
    ],
)
def test_what_is_typed(text: str, keys: tuple[str, ...], typed: str) -> None:
    assert typed_text(text, keys) == typed


def test_arrows_follow_the_mode_of_the_program() -> None:
    assert typed_text("", ("Up", "End"), keypad=True) == "\x1bOA\x1bOF"


def test_an_unknown_key_names_the_known_ones() -> None:
    with pytest.raises(ToolError, match="There is no key"):
        typed_text("", ("Hyper",))
