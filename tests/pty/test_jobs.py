"""Background commands in a session on a terminal: listed, told of, ended by /clear and on leaving."""

from __future__ import annotations

from pathlib import Path

from tests.support.pty_session import Terminal
from tests.support.scripts import call, script
from tests.support.waiting import gone, soon


def test_background_commands_are_listed_and_end_with_the_session(work: Path) -> None:
    def start(name: str) -> dict[str, object]:
        return {"calls": [call("Bash", command=f"echo $$ > {name}; exec sleep 60", run_in_background=True)]}

    def pid(name: str) -> int:
        path = work / name
        assert soon(lambda: path.exists() and bool(path.read_text()))
        return int(path.read_text())

    replies = [start("one"), {"text": "Started."}, start("two"), {"text": "Again."}]
    terminal = Terminal(["--model", script(work.parent / "s.toml", replies), "--allowedTools", "Bash"], work)
    terminal.ready()
    terminal.type("/jobs")
    terminal.expect("There are no background jobs.")
    terminal.type("go")
    terminal.expect("Started.")
    terminal.type("/jobs")
    terminal.expect("b1  running, 0:")
    terminal.expect("exec sleep 60")
    terminal.type("/clear")
    terminal.expect("(previous one: /resume). 1 background job ended.")
    assert gone(pid("one"))
    terminal.type("go")
    terminal.expect("Started.")
    second = pid("one")
    terminal.leave()
    assert soon(lambda: gone(second))
