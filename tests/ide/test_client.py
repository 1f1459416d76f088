"""A connection to a stand-in editor, over a real WebSocket."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_cli.ide.client import IdeClient, Mention, Selection, read_selection
from agent_cli.ide.locks import IdeError, RunningEditor
from tests.support.ide_editor import TOKEN, TOOLS, StandIn
from tests.support.waiting import soon


def _running(editor: StandIn, token: str = TOKEN) -> RunningEditor:
    return RunningEditor("Standin", editor.port, 2, (), token)


def test_the_token_is_sent_and_hands_are_shaken(tmp_path: Path) -> None:
    with StandIn(tmp_path, tmp_path) as editor:
        client = IdeClient(_running(editor))
        assert editor.wait_connected()["pid"] > 0
        assert client.tools == set(TOOLS)
        assert client.selection is None
        (headers,) = editor.connections
        assert headers["sec-websocket-protocol"] == "mcp"
        client.close()


def test_with_another_token_there_is_no_connection(tmp_path: Path) -> None:
    with StandIn(tmp_path, tmp_path) as editor:
        with pytest.raises(IdeError, match="does not take the connection"):
            IdeClient(_running(editor, "another token".replace(" ", "-")))
        assert editor.refused == 1


def test_what_is_selected_and_mentioned_arrives(tmp_path: Path) -> None:
    file, mentions = tmp_path / "a.py", list[Mention]()
    with StandIn(tmp_path, tmp_path) as editor:
        editor.select(file, "x = 1\ny = 2\n", 4, 6)
        client = IdeClient(_running(editor), mentions.append)
        assert client.selection == Selection(str(file), "x = 1\ny = 2\n", 5, 6), "what was selected before"
        editor.select(file, "y", 5, 5)
        assert soon(lambda: client.selection == Selection(str(file), "y", 6, 6), 60)
        editor.select(file, "")
        assert soon(lambda: client.selection == Selection(str(file)), 60)
        editor.mention(file, 0, 2)
        assert soon(lambda: mentions == [Mention(str(file), 1, 3)], 60)
        client.close()


def test_a_call_ends_when_the_editor_does(tmp_path: Path) -> None:
    with StandIn(tmp_path, tmp_path) as editor:
        client = IdeClient(_running(editor))
        waiting = client.begin_call("openDiff", {"tab_name": "t"})
        editor.wait_diff()
        editor.quit()
        assert isinstance(waiting.exception(60), IdeError)
        assert client.closed
        with pytest.raises(IdeError, match="has ended"):
            client.call("getDiagnostics", {})


@pytest.mark.parametrize(
    "params",
    [None, [], {}, {"filePath": 3}, {"filePath": "relative"}, {"filePath": "/a\0b"}, {"filePath": "Untitled-1"}],
)
def test_a_selection_without_a_file_is_none(params: object) -> None:
    assert read_selection(params) is None


@pytest.mark.parametrize("span", [None, [], {"start": 1}, {"start": {"line": "x"}, "end": {"line": -4}}])
def test_an_unusual_selection_is_read_as_far_as_it_goes(span: object) -> None:
    assert read_selection({"fileUrl": "file:///a%20b", "text": "x", "selection": span}) == Selection("/a b", "x", 1, 1)
