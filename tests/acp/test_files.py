"""Files through the editor: unsaved text is what the model reads, edits arrive there, undo returns to it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.support.editor_client import FILES, FakeEditor, connected
from tests.support.scripts import call

READ = {"calls": [call("Read", file_path="a.txt")]}


def test_unsaved_text_is_read_and_edited_and_undo_returns_to_it(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    path = work / "a.txt"
    path.write_text("saved\nline\n")
    replies = [
        READ,
        {"expect": "unsaved", "calls": [call("Edit", file_path="a.txt", old_string="line", new_string="edited")]},
        {"text": "ok"},
    ]

    async def story() -> FakeEditor:
        async with connected(work, replies, "--permission-mode", "acceptEdits", capabilities=FILES) as here:
            editor = here.editor
            editor.buffers[str(path)] = "unsaved\nline\n"
            opened = await here.agent.new_session(cwd=str(work), mcp_servers=[])
            assert (await here.prompt(opened.session_id, "go")).stop_reason == "end_turn"
            assert path.read_text() == "unsaved\nedited\n"
            await here.prompt(opened.session_id, "/undo")
            return editor

    editor = asyncio.run(story())
    assert path.read_text() == "unsaved\nline\n"
    assert set(editor.written) == {str(path)}
    assert editor.last_call("call-2-1")["content"][0]["oldText"] == "unsaved\nline\n"


def test_line_ends_stay_and_a_stale_buffer_is_not_taken_for_unsaved_text(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    path = work / "a.txt"
    path.write_bytes(b"one\r\ntwo\r\n")
    replies = [
        READ,
        {"calls": [call("Edit", file_path="a.txt", old_string="two", new_string="three")]},
        {"calls": [call("Bash", command="printf 'new\\r\\n' > a.txt")]},
        READ,
        {"expect": "new", "text": "ok"},
    ]

    async def story() -> None:
        mode = ("--permission-mode", "bypassPermissions")
        async with connected(work, replies, *mode, capabilities=FILES) as here:
            opened = await here.agent.new_session(cwd=str(work), mcp_servers=[])
            running = asyncio.create_task(here.prompt(opened.session_id, "go"))
            await here.editor.until(lambda u: u.get("toolCallId") == "call-2-1" and u.get("status") == "completed")
            assert path.read_bytes() in (b"one\r\nthree\r\n", b"new\r\n")
            # The editor has not noticed yet that the command changes the file.
            here.editor.buffers[str(path)] = "one\nthree\n"
            assert (await running).stop_reason == "end_turn"

    asyncio.run(story())
    assert path.read_bytes() == b"new\r\n"


def test_an_editor_that_refuses_leaves_the_disk(tmp_path: Path) -> None:
    work = tmp_path / "work"
    replies = [{"calls": [call("Write", file_path="deep/new.txt", content="text\n")]}, {"text": "ok"}]

    async def story() -> None:
        editor = FakeEditor()
        # As an editor would that creates no folders.
        async with connected(work, replies, capabilities=FILES, editor=editor) as here:
            opened = await here.agent.new_session(cwd=str(work), mcp_servers=[])
            assert (await here.prompt(opened.session_id, "go")).stop_reason == "end_turn"

    asyncio.run(story())
    assert (work / "deep/new.txt").read_text() == "text\n"
