"""Which session is meant: at a glance, by ID, name and words; and the end of one, as it was."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_cli.kernel.events import (
    FilesSeen,
    PlanContinued,
    Rewound,
    SessionNamed,
    TextDelta,
    ToolFinished,
    ToolProgress,
    ToolRequested,
    ToolStarted,
    TurnStarted,
)
from agent_cli.kernel.messages import Message, ToolCall, UserMessage
from agent_cli.kernel.session.files import transcript_note
from agent_cli.kernel.session.history import (
    MAX_ANSWER_CHARS,
    MAX_EVENTS,
    TAIL_BYTES,
    Exchange,
    exchanges_of,
    last_exchanges,
)
from agent_cli.kernel.session.records import SessionNotFoundError
from agent_cli.kernel.session.restore import restore
from agent_cli.kernel.session.store import SessionStore, StoredSession
from agent_tools.results import CommandOutput
from agent_tools.text import short_size
from tests.support.hypothesis_examples import examples
from tests.support.session_logs import answered, asked, called, ended, keep, session_id, turn


def newest(log: Path, tail: int = TAIL_BYTES) -> Exchange | None:
    return next(iter(last_exchanges(log, 1, tail)), None)


def only(history: Iterable[Message]) -> Exchange | None:
    return next(iter(exchanges_of(history, 1)), None)


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(tmp_path / "state", tmp_path / "here")


def test_a_glance_says_what_reading_all_of_it_says(store: SessionStore) -> None:
    events = [*turn("Fix  the\nparser, please", "Yes.", 0.25), *turn("More", "Done.", 0.5)]
    path = keep(store, 1, events, name="Parser", branch="main", root="/w")
    found, whole = StoredSession(path).summary(), restore(path.read_bytes(), "x")
    assert found is not None
    assert (found.name, found.first, found.branch, found.root) == ("Parser", "Fix the parser, please", "main", "/w")
    assert (found.messages, found.cost, found.ended) == (len(whole.history), whole.usage.cost, "done")
    assert (found.created, found.updated, found.size) == (whole.created, whole.updated, path.stat().st_size)
    assert whole.name == "Parser"


@pytest.mark.parametrize(
    ("last", "how"),
    [
        (ended(result="Suspended", reason="await_approval"), "waiting"),
        (ended(result="Failed", reason="inference_error"), "failed"),
        (ended(result="Failed", reason="interrupted"), "interrupted"),
        (TurnStarted("m", "default"), "open"),
    ],
)
def test_a_glance_says_how_it_ended(store: SessionStore, last: TurnStarted, how: str) -> None:
    found = StoredSession(keep(store, 1, [*turn("a", "b"), last])).summary()
    assert found is not None
    assert found.ended == how


def test_damage_is_passed_over_and_what_is_no_log_is_nothing(store: SessionStore) -> None:
    path = keep(store, 1, turn("a", "b"))
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([lines[0], b"\0\0{garbage", *lines[1:-2], lines[-2][:30]]))
    found = StoredSession(path).summary()
    assert found is not None
    assert (found.first, found.messages) == ("a", 2)
    path.write_bytes(b"nothing of the kind\n")
    assert StoredSession(path).summary() is None
    assert list(store.summaries()) == []


def test_by_id_name_and_words(store: SessionStore) -> None:
    one = keep(store, 0x10, turn("fix the parser", "I look into lexer.py"), name="Parser work")
    two = keep(store, 0x11, turn("write docs", "the PARSER is described"))
    assert store.find(one.stem).path == one
    assert store.find("00000011").path == two
    assert store.find("parser work").path == one
    assert store.find("the fix").path == one
    assert store.find("lexer").path == one
    assert store.find("described parser").path == two
    with pytest.raises(SessionNotFoundError, match="2 sessions of this project begin with 0000") as several:
        store.find("0000")
    assert [g.path for g in several.value.found] == [two, one]
    with pytest.raises(SessionNotFoundError, match="No session of this project fits 'haskell'"):
        store.find("haskell")
    with pytest.raises(SessionNotFoundError, match="begins with ffff"):
        store.find("ffff")


def test_words_that_look_like_an_id_are_words_too(store: SessionStore) -> None:
    path = keep(store, 1, turn("a facade for the cache", "ok"))
    assert store.find("facade").path == path


def test_a_session_of_elsewhere_is_named(store: SessionStore, tmp_path: Path) -> None:
    other = SessionStore(tmp_path / "state", tmp_path / "moved")
    path = keep(other, 0x22, turn("a", "b"), root=str(tmp_path / "moved"))
    keep(store, 1, turn("c", "d"))
    with pytest.raises(SessionNotFoundError, match=r"00000022 is of .*moved, which no longer exists"):
        store.find("00000022")
    (tmp_path / "moved").mkdir()
    with pytest.raises(SessionNotFoundError, match=r"00000022 is of .*moved: resume it there"):
        store.find("00000022")
    assert store.find("00000022", anywhere=True).path == path
    everywhere = SessionStore.all_summaries({"AGENT_STATE_DIR": str(tmp_path / "state")})
    assert [g.first for g in everywhere] in (["a", "c"], ["c", "a"])


@settings(max_examples=examples(150), deadline=None)
@given(st.text(min_size=1, max_size=30), st.integers(0, 29), st.integers(1, 10))
def test_every_piece_of_what_was_written_is_found(text: str, start: int, length: int) -> None:
    import tempfile

    words = text[start : start + length].lower().split()
    # Letters whose lower case is not one letter are cut apart differently in a text and in a part of it.
    if not words or any(w not in text.lower() for w in words) or "İ" in text:
        return
    with tempfile.TemporaryDirectory() as folder:
        path = keep(SessionStore(Path(folder), Path(folder)), 1, turn("question", text))
        assert StoredSession(path).excerpt(words)
        assert not StoredSession(path).excerpt([*words, "qqqqzzzz"])


def test_results_and_arguments_are_searched_and_the_system_prompt_is_not(store: SessionStore) -> None:
    call = ToolCall("c1", "Bash", {"command": "grep Straße *.txt"})
    path = keep(store, 1, [asked("hi"), answered("", call), *called(call, 'x.txt: "quoted\\path"')], name="Ünïcode")
    for words in (["straße"], ['"quoted\\path"'], ["ünïcode"], ["grep", "hi"]):
        assert StoredSession(path).excerpt(words), words
    assert not StoredSession(path).excerpt(["you", "are."])
    assert StoredSession(path).excerpt(["*.txt"]) == "grep Straße *.txt"


def test_the_last_exchange_is_shown_as_it_was(store: SessionStore) -> None:
    call = ToolCall("c1", "Bash", {"command": "ls"})
    shown = CommandOutput("ls", "a\nb\n", 0, 0.1)
    events = [
        *turn("first", "One."), asked("second\nline"), TurnStarted("m", "default"), answered("I look.", call),
        *called(call, "a\nb", shown), answered("Two."), ended(),
    ]  # fmt: skip
    found = newest(keep(store, 1, events))
    assert found is not None
    assert found.question == "second\nline"
    texts = [e.text for e in found.events if isinstance(e, TextDelta)]
    assert texts == ["I look.", "Two."]
    assert [e.text for e in found.events if isinstance(e, ToolProgress)] == ["a\nb\n"]


def test_a_turn_that_was_gone_on_with_belongs_to_its_message(store: SessionStore) -> None:
    events = [*turn("ask", "Half."), TurnStarted("m", "default"), answered("The rest."), ended()]
    found = newest(keep(store, 1, events))
    assert found is not None
    assert found.question == "ask"
    assert [e.text for e in found.events if isinstance(e, TextDelta)] == ["Half.", "The rest."]


def test_answers_between_which_the_turn_was_sent_on_stand_apart(store: SessionStore) -> None:
    sent_on = [PlanContinued(1, 1, 4), asked("<plan_continue>\nGo on.\n</plan_continue>")]
    reminded = asked("<reminder>\nThe last check failed.\n</reminder>")
    events = [asked("ask"), TurnStarted("m", "default"), answered("One."), *sent_on, answered("Two."), reminded,
              answered("Three."), ended()]  # fmt: skip
    found = newest(keep(store, 1, events))
    assert found is not None
    assert [getattr(e, "text", type(e).__name__) for e in found.events][:5] == [
        "TurnStarted", "One.", "PlanContinued", "Two.", "\n\nThree.",
    ]  # fmt: skip


def test_what_the_person_went_back_from_is_not_the_end(store: SessionStore) -> None:
    def shown(path: Path, tail: int) -> tuple[str, list[str]]:
        found = newest(path, tail)
        assert found is not None
        return found.question, [e.text for e in found.events if isinstance(e, TextDelta)]

    events = [*turn("one", "One."), *turn("two", "Two."), *turn("three", "Three."), Rewound(2)]
    path = keep(store, 1, events)
    assert shown(path, TAIL_BYTES) == shown(path, 1_500) == ("one", ["One."])
    path = keep(store, 2, [*events, *turn("again", "Two again."), Rewound(4), *turn("more", "More.")])
    assert shown(path, TAIL_BYTES) == ("more", ["More."])
    assert shown(keep(store, 3, [*events, *turn("again", "Again."), *turn("x", "X."), Rewound(4)]), 400)[0] == "again"


def test_a_message_with_what_hooks_added_is_one_question(store: SessionStore) -> None:
    events = [*turn("one", "One."), asked("two"), asked("<hook>\nmind\n</hook>"), TurnStarted("m", "default"), ended()]
    found = newest(keep(store, 1, events))
    assert found is not None and found.question == "two"


def test_a_message_with_what_the_program_says_before_it_is_shown_as_the_users(store: SessionStore) -> None:
    paused = asked("<plan_paused>\nA plan has open steps.\n</plan_paused>")
    events = [*turn("one", "One."), paused, asked("two"), TurnStarted("m", "default"), answered("Two."), ended()]
    path = keep(store, 1, events)
    for found in (newest(path), only(restore(path.read_bytes(), session_id(1)).history)):
        assert found is not None and found.question == "two"


def test_a_message_that_mentions_files_begins_an_exchange_and_one_during_the_work_is_part_of_it(
    store: SessionStore,
) -> None:
    shown, seen = 'explain @a.py\n\n<file path="a.py">\nx\n</file>', FilesSeen({"a.py": "mark"})
    events = [
        asked(shown),
        seen,
        TurnStarted("m", "default"),
        answered("One."),
        asked("and b"),
        answered("Two."),
        ended(),
    ]
    found = newest(keep(store, 1, [*turn("first", "No."), *events]))
    assert found is not None and found.question == "explain @a.py"
    assert [part for part in found.parts() if isinstance(part, str)] == ["explain @a.py", "and b"]


def test_nothing_is_left_of_a_call_whose_beginning_is_cut_off(store: SessionStore) -> None:
    cut = [
        ToolRequested("c", "Read", {}, "Read a"),
        *(ToolFinished(str(n), "Read", False, 1) for n in range(MAX_EVENTS)),
    ]
    events = [TurnStarted("m", "default"), *cut, ToolFinished("c", "Read", False, 1), ended()]
    found = newest(keep(store, 1, [asked("q"), *events]))
    assert found is not None and "c" not in {e.call_id for e in found.events if isinstance(e, ToolFinished)}


def test_long_exchanges_are_bounded(store: SessionStore) -> None:
    long = "x\n\n" * MAX_ANSWER_CHARS
    many = [SessionNamed("n"), *(ToolFinished(str(n), "Read", False, 1) for n in range(2 * MAX_EVENTS))]
    found = newest(keep(store, 1, [asked("q"), TurnStarted("m", "default"), *many, answered(long), ended()]))
    assert found is not None
    assert (len(found.events), found.skipped) == (MAX_EVENTS, MAX_EVENTS + 3)
    (text,) = [e.text for e in found.events if isinstance(e, TextDelta)]
    assert text.startswith("…\n\nx")
    assert len(text) <= MAX_ANSWER_CHARS + 5
    assert newest(keep(store, 2, [SessionNamed("n")])) is None


def test_messages_alone_are_enough(store: SessionStore) -> None:
    call = ToolCall("c1", "Read", {})
    path = keep(store, 1, [asked("q"), answered("I read.", call), *called(call, "text"), answered("So.")])
    found = only(restore(path.read_bytes(), session_id(1)).history)
    assert found is not None
    assert found.question == "q"
    assert [type(e) for e in found.events].count(ToolStarted) == 1


@pytest.mark.parametrize(
    ("count", "said_so"),
    [(0, "0B"), (999, "999B"), (1_000, "1K"), (999_499, "999K"), (1_000_000, "1.0M"), (123_456_789, "123M")],
)
def test_sizes_in_one_unit(count: int, said_so: str) -> None:
    assert short_size(count) == said_so


def test_a_long_first_message_ends_in_an_ellipsis() -> None:
    assert UserMessage("word " * 30).title.endswith("word…")
    assert UserMessage("short\nand plain").title == "short and plain"


def test_an_old_transcript_that_a_cleanup_removes_ends_no_session(tmp_path: Path) -> None:
    log, transcript = tmp_path / "s.jsonl", tmp_path / "projects" / "s.jsonl"
    transcript.parent.mkdir()
    log.write_text("{}\n")
    transcript_note(log).write_text(f"{transcript}\nhost")
    assert StoredSession(log).is_deleted
    old = log.stat().st_mtime - 30 * 86_400
    os.utime(log, (old, old))
    assert not StoredSession(log).is_deleted
