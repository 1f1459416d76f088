"""The session log: what is written is read back, damage is skipped and counted, and two processes never interleave."""

from __future__ import annotations

import json
import os
from pathlib import Path

import platformdirs
import pytest

from agent_cli.kernel.events import MessageAdded, Rewound, ToolFinished
from agent_cli.kernel.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from agent_cli.kernel.results import Usage
from agent_cli.kernel.session.files import decode_record, encode_record
from agent_cli.kernel.session.log import SessionBusyError, SessionLog
from agent_cli.kernel.session.records import Header, SessionNotFoundError
from agent_cli.kernel.session.restore import restore
from agent_cli.kernel.session.store import SessionStore, state_folder
from agent_tools.results import Media
from tests.support.file_faults import fill, mount_small, own_mounts
from tests.support.session_logs import HEADER, MESSAGES, quiet, write_log


def test_images_are_read_back(tmp_path: Path) -> None:
    image = Media("image/png", "cGl4ZWw=", "a b.png")
    shown = [
        UserMessage("See.", (image,)),
        AssistantMessage((ToolCall("c1", "Read", {}),)),
        ToolMessage("c1", "Read", "Image", media=(image, image.replace(name=""))),
    ]
    log = SessionLog(tmp_path / "s-1.jsonl", quiet)
    log.create(HEADER)
    for message in shown:
        log.record(MessageAdded(message))
    log.close()
    assert list(restore((tmp_path / "s-1.jsonl").read_bytes(), "s-1").history) == shown


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "s-1.jsonl"
    write_log(path)
    found = restore(path.read_bytes(), "s-1")
    assert found.header == HEADER
    assert list(found.history) == MESSAGES
    assert found.seen == {"/w/a": "hash"}
    assert found.usage == Usage(5, 6)
    assert found.last is not None
    assert found.bad == 0
    assert oct(path.stat().st_mode & 0o777) == "0o600"
    assert oct(path.parent.stat().st_mode & 0o777) == "0o700"


def test_records_are_ascii_lines_with_every_field(tmp_path: Path) -> None:
    path = tmp_path / "s-1.jsonl"
    write_log(path)
    lines = path.read_bytes().splitlines()
    assert len(lines) == 1 + len(MESSAGES) + 3
    parent = ""
    for seq, line in enumerate(lines, 1):
        record = json.loads(line)
        assert set(record) == {"v", "seq", "id", "parent", "type", "time", "data", "crc"}
        assert (record["seq"], record["parent"]) == (seq, parent)
        assert line.isascii()
        parent = record["id"]


def test_a_session_in_which_nothing_was_written_leaves_no_file(tmp_path: Path) -> None:
    log = SessionLog(tmp_path / "s.jsonl", quiet)
    log.create(HEADER)
    log.close()
    assert not (tmp_path / "s.jsonl").exists()


@pytest.mark.parametrize("spoil", ["torn", "nul", "flipped", "joined", "empty lines", "foreign"])
def test_damaged_records_are_skipped_and_counted(tmp_path: Path, spoil: str) -> None:
    path = tmp_path / "s.jsonl"
    write_log(path)
    lines = path.read_bytes().splitlines(keepends=True)
    good = len(lines)
    if spoil == "torn":
        lines[-1] = lines[-1][:40]
    elif spoil == "nul":
        lines[3] = b"\0" * 100 + b"\n"
    elif spoil == "flipped":
        lines[3] = lines[3].replace(b"text", b"tixt")
    elif spoil == "joined":
        lines[3] = lines[3][:-1]
    elif spoil == "empty lines":
        lines.insert(2, b"\n\n")
    elif spoil == "foreign":
        lines.insert(2, b'{"type": "MessageAdded", "data": {}}\n')
    found = restore(b"".join(lines), "s")
    expected = {"torn": 1, "nul": 1, "flipped": 1, "joined": 0, "empty lines": 0, "foreign": 1}[spoil]
    assert found.bad == expected
    assert len(found.history) >= len(MESSAGES) - 2
    assert good - expected <= len(lines)


def test_going_on_after_a_torn_tail_keeps_the_next_record_apart(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    write_log(path)
    path.write_bytes(path.read_bytes()[:-30])
    found = restore(path.read_bytes(), "s")
    log = SessionLog(path, quiet)
    log.acquire()
    log.continue_from(found.seq, found.parent)
    log.record(MessageAdded(UserMessage("again")))
    log.close()
    after = restore(path.read_bytes(), "s")
    assert after.history[-1] == UserMessage("again")
    assert after.bad == 1


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    write_log(path)
    first = SessionLog(path, quiet)
    first.acquire()
    with pytest.raises(SessionBusyError, match="open in another process"):
        SessionLog(path, quiet).acquire()
    first.close()


def test_a_folder_that_cannot_be_written_is_reported_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    lines: list[str] = []
    log = SessionLog(tmp_path / "file" / "s.jsonl", lines.append)
    log.create(HEADER)
    for message in MESSAGES:
        log.record(MessageAdded(message))
    assert len(lines) == 1
    assert "cannot be saved" in lines[0]


def test_a_file_without_a_header_is_not_an_empty_session() -> None:
    with pytest.raises(SessionNotFoundError, match="No message of session s can be read: there is a damaged record"):
        restore(b"garbage\n", "s")


def test_sealing_is_reversible_and_notices_any_flipped_byte() -> None:
    line = encode_record({"a": "x\n", "crc_like": ',"crc":1}'})
    assert decode_record(line) == {"a": "x\n", "crc_like": ',"crc":1}'}
    for index in range(len(line)):
        spoiled = bytearray(line)
        spoiled[index] ^= 1
        assert decode_record(bytes(spoiled)) is None


def test_finding_by_the_beginning_of_an_id(tmp_path: Path) -> None:
    store = SessionStore(tmp_path, Path("/some/project"))
    for name in ("aaaa-1", "aaab-2"):
        write_log(store.path(name))
    os.utime(store.path("aaaa-1"), (1, 1))
    assert store.latest() == "aaab-2"
    # A program that ends lines in its own way leaves no line feed, and all the records.
    path = store.path("aaab-2")
    path.write_bytes(path.read_bytes().replace(b"\n", "\u2028".encode()))
    assert store.latest() == "aaab-2"
    assert store.find_id("aaaa") == "aaaa-1"
    with pytest.raises(SessionNotFoundError, match="2 sessions"):
        store.find_id("aaa")
    with pytest.raises(SessionNotFoundError, match="No session"):
        store.find_id("b")
    assert [store.session(i).info().messages for i in store.ids()] == [4, 4]
    assert SessionStore(tmp_path, Path("/some/other")).ids() == []


def test_the_state_folder_is_where_the_platform_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    expected = Path(platformdirs.user_state_dir("agent", appauthor=False))
    assert state_folder(dict(os.environ)) == expected
    monkeypatch.setenv("XDG_STATE_HOME", "/x/state")
    assert state_folder(dict(os.environ)) == Path(platformdirs.user_state_dir("agent", appauthor=False))
    assert state_folder({"AGENT_STATE_DIR": "/y"}) == Path("/y")


def test_what_a_full_disk_did_not_take_follows_when_there_is_room(tmp_path: Path) -> None:
    with own_mounts():
        mount_small(tmp_path / "disk", "64k")
        rest = fill(tmp_path / "disk")
        rest.write_bytes(rest.read_bytes()[:-8_192])
        lines: list[str] = []
        log = SessionLog(tmp_path / "disk/s.jsonl", lines.append)
        log.create(HEADER)
        spoken = [UserMessage(f"{number} " + "x" * 1_500) for number in range(6)]
        for message in spoken[:-1]:
            log.record(MessageAdded(message))
        assert len(lines) == 1 and log.warning == lines[0]
        # What the disk took of a record was taken back: whoever reads it now finds whole ones.
        early = restore((tmp_path / "disk/s.jsonl").read_bytes(), "s")
        assert 0 < len(early.history) < 5 and early.bad == 0
        rest.unlink()
        log.record(MessageAdded(spoken[-1]))
        assert not log.warning and "saved again" in lines[1] and len(lines) == 2
        log.close()
        found = restore((tmp_path / "disk/s.jsonl").read_bytes(), "s")
        assert (list(found.history), found.bad) == (spoken, 0)


def test_a_session_that_was_rewound_goes_on_from_there(tmp_path: Path) -> None:
    log = SessionLog(tmp_path / "s.jsonl", lambda text: None)
    log.create(Header("s", "/w", "/w", "m", "", (), "1"))
    lines = [UserMessage("one"), UserMessage("two"), UserMessage("three")]
    for message in lines[:2]:
        log.record(MessageAdded(message))
    log.record(ToolFinished("c", "Read", False, 0, seen={"/w/a": "x"}))
    log.record(Rewound(1))
    log.record(MessageAdded(lines[2]))
    log.close()
    session = restore((tmp_path / "s.jsonl").read_bytes(), "s")
    assert session.history == (lines[0], lines[2])
    assert not session.seen
