"""A log that was damaged by chance: nothing is lost without being counted, and what is left is a history that holds.

MUTATIONS is how many damaged logs are opened (`make crashes`: 1,000).
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_cli.kernel.events import (
    MessageAdded,
    ToolFinished,
    ToolRequested,
    ToolStarted,
    TurnFinished,
    TurnStarted,
    UsageAdded,
)
from agent_cli.kernel.messages import AssistantMessage, Text, ToolCall, ToolMessage, UserMessage
from agent_cli.kernel.results import Diagnostics, Usage
from agent_cli.kernel.session.files import read_bytes
from agent_cli.kernel.session.log import SessionLog
from agent_cli.kernel.session.records import Header, SessionNotFoundError
from agent_cli.kernel.session.restore import restore
from tests.support.crashes import unpaired

MUTATIONS = int(os.environ.get("MUTATIONS", "200"))
HEADER = Header("s-1", "/w", "/w", "a/b", "Be good.", ("Read",), "1")
Mutation = Callable[[bytes, random.Random], bytes]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A log of four turns, with calls side by side."""
    path = tmp_path_factory.mktemp("log") / "s.jsonl"
    written = SessionLog(path, lambda text: None)
    written.create(HEADER)
    for turn in range(4):
        first, second = f"c{turn}-1", f"c{turn}-2"
        asked = tuple(
            ToolCall(i, "Read", {"file_path": f"{i}.txt", "note": 'a "quoted"\nline'}) for i in (first, second)
        )
        written.record(MessageAdded(UserMessage(f"Turn {turn}: look\u2028here")))
        written.record(TurnStarted("a/b", "default"))
        written.record(UsageAdded("a/b", Usage(100, 10)))
        written.record(MessageAdded(AssistantMessage((Text("I look."), *asked), "tool_use", "id", "m")))
        for one in asked:
            written.record(ToolRequested(one.id, one.name, one.arguments, f"Read {one.id}"))
            written.record(ToolStarted(one.id, one.name))
            written.record(MessageAdded(ToolMessage(one.id, one.name, f"text of {one.id}\n" * 20)))
            written.record(ToolFinished(one.id, one.name, False, 1, seen={f"/w/{one.id}": "hash"}))
        written.record(MessageAdded(AssistantMessage((Text(f"Done with {turn}."),), "end_turn")))
        written.record(TurnFinished("Complete", Diagnostics(2, 2, 5, 5, "stop", "completed"), Usage(5, 6), "Done."))
    written.close()
    return path.read_bytes()


def flip(data: bytes, dice: random.Random) -> bytes:
    spoiled = bytearray(data)
    for _ in range(dice.choice((1, 1, 1, 5))):
        spoiled[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    return bytes(spoiled)


def tear(data: bytes, dice: random.Random) -> bytes:
    return data[: dice.randrange(1, len(data))]


def nul(data: bytes, dice: random.Random) -> bytes:
    start = dice.randrange(len(data))
    size = min(dice.choice((1, 60, 512, 4096)), len(data) - start)
    return data[:start] + bytes(size) + data[start + size :]


def cut(data: bytes, dice: random.Random) -> bytes:
    start = dice.randrange(len(data))
    return data[:start] + data[start + dice.randrange(1, 3_000) :]


def insert(data: bytes, dice: random.Random) -> bytes:
    start = dice.randrange(len(data))
    return data[:start] + dice.randbytes(dice.randrange(1, 400)) + data[start:]


def repeat(data: bytes, dice: random.Random) -> bytes:
    start, to = dice.randrange(len(data)), dice.randrange(len(data))
    return data[:to] + data[start : start + dice.randrange(1, 3_000)] + data[to:]


def drop_lines(data: bytes, dice: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    # Not the last ones: a file that ends early, but with a whole record, is a file as it was earlier.
    start = dice.randrange(len(lines) - 3)
    return b"".join(lines[:start] + lines[min(start + dice.randrange(1, 4), len(lines) - 1) :])


def swap_lines(data: bytes, dice: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    one, other = dice.randrange(len(lines)), dice.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]
    return b"".join(lines)


def join_lines(data: bytes, dice: random.Random) -> bytes:
    lines = data.split(b"\n")
    place = dice.randrange(1, len(lines))
    return b"\n".join(lines[:place]) + b"\n".join(lines[place:])


def other_ends(data: bytes, dice: random.Random) -> bytes:
    return data.replace(b"\n", dice.choice((b"\r\n", b"\r", "\u2028".encode(), b"\n\n", b" \n", b"\x0b")))


HARMLESS = (swap_lines, join_lines, other_ends)
HARMFUL = (flip, tear, nul, cut, insert, repeat, drop_lines)


def ids(data: bytes) -> set[str]:
    return {line.id for line in read_bytes(data) if line is not None}


def number_of(identity: str) -> int:
    return int(identity.partition("-")[0], 16)


@pytest.mark.slow
def test_nothing_is_lost_in_silence(log: bytes) -> None:
    whole = ids(log)
    dice = random.Random(1)
    for number in range(MUTATIONS):
        spoil = dice.choice(HARMFUL)
        data = spoil(log, dice)
        left = ids(data)
        lost = len(whole - left)
        inner = len({i for i in whole - left if number_of(i) < max(map(number_of, left), default=0)})
        try:
            found = restore(data, "s-1")
        except SessionNotFoundError as error:
            assert lost > len(whole) - 3, f"{number} {spoil.__name__}: {error}"
            continue
        ends_whole = log.startswith(data) and b"\n" in (data[-1:], log[len(data) : len(data) + 1])
        assert found.bad >= min(lost, 1) or ends_whole, f"{number} {spoil.__name__}: {lost} lost, {found.bad} counted"
        assert found.bad >= inner, f"{number} {spoil.__name__}: {inner} lost, {found.bad} counted"
        if spoil is drop_lines:
            assert found.bad == lost
        assert found.history and not unpaired(found.history), f"{number} {spoil.__name__}: {unpaired(found.history)}"
        assert set(found.seen) <= {f"/w/c{turn}-{n}" for turn in range(4) for n in (1, 2)}


def test_what_can_be_put_right_is(log: bytes) -> None:
    dice = random.Random(2)
    clean = restore(log, "s-1")
    for _ in range(max(30, MUTATIONS // 10)):
        spoil = dice.choice(HARMLESS)
        found = restore(spoil(log, dice), "s-1")
        assert found.history == clean.history and found.bad == 0, spoil.__name__
        assert (found.header, found.seen, found.usage, found.seq) == (clean.header, clean.seen, clean.usage, clean.seq)


def test_a_mended_log_tells_nothing_twice_and_keeps_what_it_was(log: bytes, tmp_path: Path) -> None:
    dice = random.Random(3)
    for number in range(max(20, MUTATIONS // 10)):
        path = tmp_path / f"{number}.jsonl"
        damaged = dice.choice(HARMFUL)(log, dice)
        path.write_bytes(damaged)
        written = SessionLog(path, lambda text: None)
        written.acquire()
        try:
            before = restore(damaged, "s-1")
        except SessionNotFoundError:
            written.close()
            continue
        written.continue_from(before.seq, before.parent)
        if before.bad:
            assert written.mend(before) == f"is saved as {number}.damaged-1"
            assert (tmp_path / f"{number}.damaged-1").read_bytes() == damaged
        written.record(MessageAdded(UserMessage("Go on.")))
        written.close()
        after = restore(path.read_bytes(), "s-1")
        assert after.bad == 0 and not unpaired(after.history)
        assert after.history[-1] == UserMessage("Go on.")
        assert ids(path.read_bytes()) >= ids(damaged)
