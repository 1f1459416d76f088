"""Work taken back: /undo, /redo, /rewind; and what it was: /diff. What they need is loaded when it is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_cli.terminal.slash import slash

if TYPE_CHECKING:
    from agent_cli.terminal.repl import Repl


@slash("undo", "undo what the last turn changed, commands included")
def _undo(repl: Repl, words: str) -> None:
    from agent_cli.terminal.undoing import undo_turn

    undo_turn(repl, words)


@slash("redo", "make again what the last undo took back")
def _redo(repl: Repl, words: str) -> None:
    from agent_cli.terminal.undoing import redo

    redo(repl, words)


@slash("rewind", "go back to a message: the conversation, the files, or both")
def _rewind(repl: Repl, words: str) -> None:
    from agent_cli.terminal.undoing import rewind

    rewind(repl, words)


@slash("diff", "what the session changed; in turn N; from turn N on; in the last turn", "[N|since N|last]", aside=True)
def _diff(repl: Repl, words: str) -> None:
    from agent_cli.terminal.undoing import diff

    diff(repl, words)
