"""Changes on the terminal: of one file or several, and not a second time where they were just approved."""

from __future__ import annotations

import io

from rich.console import Console

from agent_cli.core.events import ApprovalRequested, ToolFinished
from agent_cli.terminal.show import Show
from agent_cli.terminal.views import lines_of
from agent_tools.display import Diff, Diffs, Display

ONE = Diff("a.py", "@@ -1 +1 @@\n-a\n+b", 1, 1)
TWO = Diffs((ONE, Diff("b.py", "@@ -0,0 +1 @@\n+new", 1, 0, True)))


def shown(approved: Display, done: Display) -> str:
    """What the screen has after a call that was asked about."""
    out = io.StringIO()
    show = Show(Console(file=out, width=100, no_color=True))
    show(ApprovalRequested("c1", "MultiEdit", "Edit", "changes a file", (), "/w", approved, "", "hash"))
    show(ToolFinished("c1", "MultiEdit", False, 3, done))
    return out.getvalue()


def test_every_file_of_a_change_is_shown() -> None:
    assert [line.plain for line in lines_of(TWO, whole=True)] == [
        "  a.py (change, +1 -1)",
        "  @@ -1 +1 @@",
        "  -a",
        "  +b",
        "  b.py (new file, +1 -0)",
        "  @@ -0,0 +1 @@",
        "  +new",
    ]


def test_what_was_approved_is_not_shown_again_but_what_came_of_it_is() -> None:
    assert shown(ONE, ONE) == shown(TWO, TWO) == ""
    formatted = Diff("a.py", "@@ -1 +1 @@\n-a\n+B", 1, 1)
    assert "+B" in shown(ONE, formatted)
    assert "+B" in shown(TWO, TWO.but(files=(formatted, TWO.files[1])))
