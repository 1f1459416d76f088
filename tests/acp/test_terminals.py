"""Commands in terminals that the editor runs, with the official client as the editor."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from acp import RequestError
from acp.schema import ClientCapabilities

from tests.support.editor_client import EditorTerminal, FakeEditor, connected
from tests.support.scripts import call

BYPASS = ("--permission-mode", "bypassPermissions")
TERMINALS = ClientCapabilities(terminal=True)


def bash(command: str, **more: Any) -> dict[str, Any]:
    return call("Bash", command=command, **more)


def run(work: Path, replies: list[dict[str, Any]], editor: FakeEditor | None = None, **env: str) -> FakeEditor:
    async def story() -> FakeEditor:
        async with connected(work, replies, *BYPASS, editor=editor, capabilities=TERMINALS, **env) as here:
            opened = await here.agent.new_session(cwd=str(work), mcp_servers=[])
            here.editor.answer = await here.prompt(opened.session_id, "go")  # type: ignore[attr-defined]
            return here.editor

    return asyncio.run(story())


def test_a_terminal_shows_the_output_and_ends_with_the_exit_code(tmp_path: Path) -> None:
    replies = [{"calls": [bash("printf 'a\\nb\\n'; exit 3")]}, {"calls": [bash("true")]}, {"text": "ok"}]
    editor = run(tmp_path / "work", replies)
    first, second = editor.terminals.values()
    assert (first.output, first.process.returncode, first.released) == ("a\nb\n", 3, True)
    assert first.line[-1] == "printf 'a\\nb\\n'; exit 3"
    assert (second.output, second.process.returncode) == ("", 0)
    assert editor.last_call("call-1-1")["content"] == [{"type": "terminal", "terminalId": "terminal-1"}]
    assert editor.last_call("call-1-1")["status"] == "failed"
    assert "a\nb" in editor.last_call("call-1-1")["rawOutput"]
    # The files of the relays are gone.
    assert not Path(first.line[1]).parent.exists()


def test_commands_keep_their_environment_directory_and_limits(tmp_path: Path) -> None:
    """The command runs in the program: what carries over and what is withheld is as without a terminal."""
    work = tmp_path / "work"
    (work / "sub").mkdir(parents=True)
    replies = [
        {"calls": [bash("cd sub; export COLOUR=red")]},
        {"expect": "working directory now", "calls": [bash('pwd; echo "$COLOUR:${SERVICE_API_KEY-none}"')]},
        {"expect": "red:none", "calls": [bash("echo begun; sleep 60", timeout=300)]},
        {"text": "ok"},
    ]
    editor = run(work, replies, SERVICE_API_KEY="sk-1234567890abcdef1234567890")
    _, shown, cut = editor.terminals.values()
    assert shown.output == f"{work}/sub\nred:none\n"
    assert cut.output == "begun\n"


def test_a_stop_in_the_editor_stops_the_command(tmp_path: Path) -> None:
    class Impatient(FakeEditor):
        async def create_terminal(self, *args: Any, **more: Any) -> Any:
            opened = await super().create_terminal(*args, **more)
            self.killer = asyncio.ensure_future(self.stop(self.terminals[opened.terminal_id]))
            return opened

        async def stop(self, terminal: EditorTerminal) -> None:
            while "started" not in terminal.output:
                await asyncio.sleep(0.01)
            terminal.kill()

    editor = run(
        tmp_path / "work", [{"calls": [bash("echo started; sleep 600")]}, {"text": "not reached"}], Impatient()
    )
    assert editor.answer.stop_reason == "cancelled"  # type: ignore[attr-defined]
    assert editor.last_call("call-1-1")["status"] == "failed"
    assert editor.text() == ""


def test_much_output_arrives_whole(tmp_path: Path) -> None:
    editor = run(tmp_path / "work", [{"calls": [bash("seq 20000")]}, {"text": "ok"}])
    (terminal,) = editor.terminals.values()
    assert terminal.output.splitlines()[-1] == "20000"
    assert editor.last_call("call-1-1")["content"][0]["type"] == "terminal"


@pytest.mark.parametrize("kind", ["refused", "elsewhere"])
def test_without_a_terminal_the_output_is_text(kind: str, tmp_path: Path) -> None:
    """An editor that opens no terminal, or whose terminals do not see this machine's files."""

    class Strange(FakeEditor):
        async def create_terminal(self, session_id: str, command: str, args: list[str], cwd: str, **more: Any) -> Any:
            if kind == "refused":
                raise RequestError.internal_error()
            return await super().create_terminal(session_id, command, ["/nowhere", *args], cwd, **more)

    editor = run(tmp_path / "work", [{"calls": [bash("echo words")]}, {"text": "ok"}], Strange())
    assert "words" in editor.last_call("call-1-1")["content"][0]["content"]["text"]
    assert editor.text() == "ok"


def test_a_replayed_session_opens_no_terminals(tmp_path: Path) -> None:
    work = tmp_path / "work"
    run(work, [{"calls": [bash("echo words")]}, {"text": "ok"}])

    async def story() -> FakeEditor:
        async with connected(work, [], capabilities=TERMINALS) as here:
            listed = await here.agent.list_sessions(cwd=str(work))
            session_id = listed.sessions[0].session_id
            await here.agent.load_session(cwd=str(work), session_id=session_id, mcp_servers=[])
            return here.editor

    editor = asyncio.run(story())
    assert not editor.terminals
    assert "words" in editor.last_call("call-1-1")["content"][0]["content"]["text"]
