"""/commit. What it needs is loaded when it is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_cli.terminal.slash import slash

if TYPE_CHECKING:
    from agent_cli.terminal.repl import Repl


@slash(
    "commit",
    "commit what the session changed, with a message that you see first",
    "[--all] [-m MESSAGE] [PATH] [WORDS]",
)
def _commit(repl: Repl, words: str) -> None:
    from agent_cli.terminal.committing import commit

    commit(repl, words)
