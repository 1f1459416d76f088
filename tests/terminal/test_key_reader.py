"""What the reader of the terminal makes of bytes: keys, and pastes, however the bytes are cut into reads and bursts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prompt_toolkit.keys import Keys

from agent_cli.shells.terminal.app.key_reader import LONG_QUIET_SECONDS, QUIET_SECONDS, KeyReader
from tests.support.hypothesis_examples import examples
from tests.support.pipe_terminal import PipeTerminal


class Typist:
    """A terminal whose bytes come as a test says, and the reader of it."""

    def __init__(self, terminal: PipeTerminal) -> None:
        self.send_text = terminal.send_text
        self.now = 100.0
        self.reader = KeyReader(terminal.stdin, lambda: self.now)

    def burst(self, *reads: str, after: float = 1.0) -> list[tuple[str, str]]:
        """What arrives in one burst, so many seconds after the one before, in these reads."""
        self.now += after
        found: list[tuple[str, str]] = []
        for data in reads:
            self.send_text(data)
            found += self._events(self.reader.read_keys())
        return [*found, *self._events(self.reader.flush_keys())]

    def by_hand(self, text: str) -> list[tuple[str, str]]:
        """Keys, one by one."""
        return [event for key in text for event in self.burst(key, after=0.1)]

    def _events(self, keys: Sequence[Any]) -> Iterator[tuple[str, str]]:
        for press in keys:
            if press.key == Keys.BracketedPaste:
                yield "paste", press.data
            elif press.key == Keys.ControlM:
                yield "enter at once" if self.reader.at_once else "enter", ""
            else:
                yield "key", press.data


@pytest.fixture
def typist() -> Iterator[Typist]:
    with PipeTerminal() as terminal:
        yield Typist(terminal)


def keys(text: str) -> list[tuple[str, str]]:
    return [("key", each) if each != "\r" else ("enter", "") for each in text]


AHEAD = "and then please run all of the tests"


def test_an_enter_alone_is_one(typist: Typist) -> None:
    assert typist.by_hand("fix it\r") == keys("fix it\r")


@pytest.mark.parametrize("reads", [("fix it\r",), ("fix", " it\r"), ("fix it", "\r"), tuple("fix it\r")])
def test_the_enter_of_a_line_that_a_program_types_is_one(typist: Typist, reads: tuple[str, ...]) -> None:
    assert typist.burst(*reads) == [*keys("fix it"), ("enter at once", "")]


@pytest.mark.parametrize(
    "reads",
    [("a\rb",), ("a", "\r", "b"), ("a\r", "b"), ("a", "\rb"), ("line one\r", "line two\r", "line three"),
     ("a\n", "b\r", "c"),  ("x" * 2_000, "x" * 48, "\r", "more\r"), ("\r", "\r"), ("a\r\r",), ("\ra",), ("a\r\n",)],
)  # fmt: skip
@pytest.mark.parametrize("before", ["", "a line that was sent\r"])
def test_an_enter_among_text_of_one_burst_is_part_of_a_paste(
    typist: Typist, reads: tuple[str, ...], before: str
) -> None:
    typist.by_hand(before)
    found = typist.burst(*reads)
    assert "enter" not in str(found) and "".join(text for _, text in found) == "".join(reads)


@pytest.mark.parametrize("after", [0.05, 5.0])
@pytest.mark.parametrize("ahead", ["x", AHEAD])
def test_an_enter_that_begins_a_burst_sends_a_line_that_was_typed(typist: Typist, ahead: str, after: float) -> None:
    typist.by_hand("fix it")
    assert typist.burst("\r", ahead, after=after) == keys(f"\r{ahead}")


def test_a_few_keys_that_a_slow_connection_delivers_at_once_were_typed(typist: Typist) -> None:
    typist.by_hand("fix ")
    assert typist.burst("it\rnow", after=0.3) == [*keys("it"), ("enter at once", ""), *keys("now")]


@pytest.mark.parametrize(
    ("marks", "after", "typed"), [(True, 4.0, True), (True, 0.5, False), (False, 4.0, False), (True, 60.0, True)]
)
def test_many_keys_that_a_slow_connection_delivers_at_once(
    typist: Typist, marks: bool, after: float, typed: bool
) -> None:
    typist.reader.marks_pastes = marks
    typist.by_hand("fix ")
    found = typist.burst(f"the bug\r{AHEAD}", after=after)
    assert (("enter at once", "") in found) is typed
    assert typed or found == [("paste", f"the bug\r{AHEAD}")]


@pytest.mark.parametrize("text", [f"{AHEAD}\r" * 20, f"it\r{AHEAD}\rx", f"\r{AHEAD}\rx"])
@pytest.mark.parametrize("marks", [True, False])
def test_several_lines_at_once_are_a_paste_whatever_was_typed_before(typist: Typist, text: str, marks: bool) -> None:
    typist.reader.marks_pastes = marks
    typist.by_hand("fix ")
    assert typist.burst(text, after=60.0) == [("paste", text)]


def test_what_follows_a_paste_does_not_send_it(typist: Typist) -> None:
    typist.by_hand("see: ")
    assert typist.burst("a" * 100) == keys("a" * 100)
    assert typist.burst(f"\r{AHEAD}") == [("paste", f"\r{AHEAD}")]
    typist.burst("\x1b[200~text\x1b[201~")
    assert typist.burst(f"\r{AHEAD}") == [("paste", f"\r{AHEAD}")]


def test_a_long_paste_may_stand_still_for_longer(typist: Typist) -> None:
    typist.send_text("a")
    typist.reader.read_keys()
    assert typist.reader.quiet_seconds == QUIET_SECONDS
    typist.send_text("a" * 100)
    typist.reader.read_keys()
    assert typist.reader.quiet_seconds == LONG_QUIET_SECONDS
    typist.reader.flush_keys()
    assert typist.reader.quiet_seconds == QUIET_SECONDS


def test_the_indentation_of_a_pasted_line_is_no_key(typist: Typist) -> None:
    assert typist.burst("\tdef run(self):") == [("paste", "\tdef run(self):")]
    assert typist.burst("\tso") == keys("\tso") and typist.burst("\t") == keys("\t")


@pytest.mark.parametrize("keys_of_users", ["\x1b[B\x1b[B\r", "no match\r\x1b", "\r\x15sec\r", "\x1b[A\t\r"])
def test_other_keys_between_text_make_it_no_paste(typist: Typist, keys_of_users: str) -> None:
    assert not [text for kind, text in typist.burst(keys_of_users) if kind == "paste"]


@pytest.mark.parametrize("cut", range(1, 40))
def test_a_marked_paste_is_one_however_it_is_cut(typist: Typist, cut: int) -> None:
    data = "a\x1b[200~one\r\x1b[13;1u\x1b[97u\ttwo\x1b[201~b"
    found = typist.burst(data[:cut], data[cut:])
    assert found == [("key", "a"), ("paste", "one\r\r\x1b[97u\ttwo"), ("key", "b")] and typist.reader.marks_pastes


@pytest.mark.parametrize("cut", range(12))
@pytest.mark.parametrize(("state", "marks"), [(0, False), (1, True), (2, True), (3, True), (4, False)])
def test_the_terminal_is_asked_once_whether_it_marks_pastes(typist: Typist, state: int, marks: bool, cut: int) -> None:
    assert typist.reader.ask_paste().startswith("\x1b[?2004$p")
    answer = f"a\x1b[?2004;{state}$yb"
    assert typist.burst(answer[:cut], answer[cut:]) == keys("ab") and typist.reader.marks_pastes is marks


PIECES = st.sampled_from(
    ["a", "y", "2", " ", "ä", "\u00a0", "🙂", "word", "a longer line of text", "\r", "\r\n", "\n", "\t", "/cost", "?",
     "\x1b[C", "\x1b[97u", "\x1b[13;1u", "\x1b[200~pasted\rtext\x1b[201~", "\x1b[3;5~", "\x1b[1;129D",
     "\x1b[57441;5:3u"]
)  # fmt: skip
CHARACTERS = {"\x1b[97u": "a", "\x1b[13;1u": "\r", "\x1b[200~pasted\rtext\x1b[201~": "pasted\rtext"}


@settings(max_examples=examples(900), deadline=None)
@given(data=st.data())
def test_no_character_is_lost_or_doubled(data: st.DataObject) -> None:
    pieces = data.draw(st.lists(PIECES, max_size=12))
    whole = "".join(pieces)
    wanted = "".join(CHARACTERS.get(piece, "" if piece.startswith("\x1b") else piece) for piece in pieces)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(whole)), max_size=8)))
    reads = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    with PipeTerminal() as terminal:
        found = Typist(terminal).burst(*reads, after=data.draw(st.sampled_from([0.05, 1.0, 30.0])))
    got = "".join("\r" if kind.startswith("enter") else text for kind, text in found if not text.startswith("\x1b"))
    assert got == wanted
    # An Enter of a burst that began no line by hand is the last of it.
    text = [event for event in found if not event[1].startswith("\x1b")]
    assert all(not kind.startswith("enter") for kind, _ in text[:-1]) or "\x1b" in whole
