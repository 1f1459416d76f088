"""What a session comes back with: answers that broke off, calls that had begun, a lost header, its size and its end."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from threading import Event as Flag
from threading import Lock

import pytest

from agent_cli.kernel.events import (
    Compacted,
    Event,
    LeftOut,
    MessageAdded,
    Pinned,
    PlanChanged,
    Rewound,
    RoundStarted,
    TextDelta,
    ToolFinished,
    TurnStarted,
    UsageAdded,
)
from agent_cli.kernel.messages import AssistantMessage, Text, ToolCall, ToolMessage, UserMessage
from agent_cli.kernel.redact import Redactor
from agent_cli.kernel.results import Usage
from agent_cli.kernel.session.files import decode_record
from agent_cli.kernel.session.history import INTERRUPTED, LOST_MESSAGE, LOST_RESULT, last_exchanges
from agent_cli.kernel.session.log import PartialWriter, SessionLog
from agent_cli.kernel.session.records import Restored, SessionNotFoundError
from agent_cli.kernel.session.restore import restore
from agent_cli.kernel.session.store import SessionStore
from agent_cli.kernel.window import Window
from agent_tools.results import TodoItem
from agent_tools.shell.state import ShellSnapshot
from tests.support.crashes import unpaired
from tests.support.program import agent
from tests.support.scripts import call, script
from tests.support.session_logs import HEADER, quiet

ASKED = AssistantMessage((ToolCall("c1", "Read", {"file_path": "a"}), ToolCall("c2", "Read", {"file_path": "b"})))


def written(path: Path, *events: Event) -> SessionLog:
    log = SessionLog(path, quiet)
    log._unfinished._seconds = 0.001
    log.create(HEADER)
    for event in events:
        log.record(event)
    return log


def read(path: Path) -> Restored:
    return restore(path.read_bytes(), "s-1")


def until_saved(path: Path, words: bytes) -> None:
    end = time.monotonic() + 10
    while words not in path.read_bytes():
        assert time.monotonic() < end
        time.sleep(0.002)


def test_the_words_of_an_answer_that_broke_off_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    log = written(path, MessageAdded(UserMessage("Tell.")), TurnStarted("a/b", "default"))
    for word in ("Once ", "upon ", "a time "):
        log.record(TextDelta(word))
        until_saved(path, word.encode())
    cut = AssistantMessage((Text("Once upon a time "),), INTERRUPTED)
    found = read(path)
    assert found.history == (UserMessage("Tell."), cut)
    shown = next(iter(last_exchanges(path, 1)), None)
    assert shown is not None and (shown.question, shown.events[1:]) == ("Tell.", (TextDelta("Once upon a time "),))
    # The next process goes on behind them.
    log._release()
    again = SessionLog(path, quiet)
    again.acquire()
    again.continue_from(found.seq, found.parent)
    again.record(MessageAdded(UserMessage("Go on.")))
    again.close()
    assert read(path).history == (UserMessage("Tell."), cut, UserMessage("Go on."))


def test_a_finished_answer_takes_the_place_of_its_pieces(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    log = written(path, MessageAdded(UserMessage("Tell.")), TextDelta("Once "))
    until_saved(path, b"Once ")
    whole = AssistantMessage((Text("Once upon a time."),), "end_turn")
    log.record(MessageAdded(whole))
    log.close()
    assert read(path).history == (UserMessage("Tell."), whole)


def test_no_half_of_a_key_is_saved(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    key, value = "sk-ant-api03-abcdefghijklmnopqrst", "correct horse battery"
    log = SessionLog(path, quiet, {"MY_PASSWORD": value})
    log._unfinished._seconds = 0.001
    log.create(HEADER)
    log.record(MessageAdded(UserMessage("Tell.")))
    for number, secret in enumerate(
        (key, value, "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----")
    ):
        for letter in secret:
            log.record(TextDelta(letter))
            time.sleep(0.0004)
        log.record(TextDelta(f" then{number} "))
        until_saved(path, b"then%d" % number)
    data = path.read_bytes()
    log.close()
    assert all(half not in data for half in (b"sk-a", b"hors", b"MIIE"))
    assert read(path).history[-1].text == "[redacted] then0 [redacted] then1 [redacted] then2 "


def test_calls_that_had_begun_are_reported_from_those_that_had_not(work: Path) -> None:
    """After a crash each open call has its answer, and none of them runs again."""
    replies = [{"calls": [call("Bash", command="echo run >> ran.txt"), call("LS", path=".")]}, {"text": "I see."}]
    model = script(work.parent / "s.toml", replies)
    args = ["-p", "--model", model, "--allowedTools", "Bash", "--"]
    assert agent([*args, "go"], work).returncode == 0
    [path] = (work.parent / "home/state/sessions").rglob("*.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    begun = next(n for n, line in enumerate(lines) if b'"type":"ToolStarted"' in line)
    path.write_bytes(b"".join(lines[: begun + 1]))
    found = read(path)
    assert len(found.started) == 1 and found.last is None and found.waiting is None
    done = agent(["-p", "-c", "--model", model, "--", "well?"], work)
    assert (done.returncode, done.stdout) == (0, "I see.\n"), done.stderr
    first, second = [m.text for m in read(path).history if isinstance(m, ToolMessage)]
    assert first.startswith("Interrupted: the program ended before this finished. It may have run in part")
    assert second == "Interrupted: the program ended before this finished. It had not begun."
    assert (work / "ran.txt").read_text() == "run\n"


def test_a_session_without_its_header_is_gone_on_with(work: Path) -> None:
    model = script(work.parent / "s.toml", [{"text": "One."}, {"text": "Two."}, {"text": "Three."}])
    assert agent(["-p", "--model", model, "first"], work).returncode == 0
    [path] = (work.parent / "home/state/sessions").rglob("*.jsonl")
    path.write_bytes(b"\0" * 99 + path.read_bytes()[99:])
    found = SessionStore(work.parent / "home/state", work).session(path.stem).load()
    assert found.rebuilt and found.bad == 1 and found.header.root == str(work)
    done = agent(["-p", "-c", "--model", model, "second"], work)
    assert (done.returncode, done.stdout) == (0, "Two.\n")
    assert (
        f"1 damaged record of this session skipped; the original file is saved as {path.stem}.damaged-1" in done.stderr
    )
    done = agent(["-p", "-c", "--model", model, "third"], work)
    assert (done.returncode, done.stdout, done.stderr) == (0, "Three.\n", "")
    again = read(path)
    assert (
        not again.rebuilt
        and again.header.tools
        and [m.text for m in again.history][::2] == ["first", "second", "third"]
    )


def test_nothing_but_garbage_is_refused_in_a_sentence(work: Path) -> None:
    model = script(work.parent / "s.toml", [{"text": "One."}])
    assert agent(["-p", "--model", model, "first"], work).returncode == 0
    [path] = (work.parent / "home/state/sessions").rglob("*.jsonl")
    path.write_bytes(b"garbage\n" * 3)
    done = agent(["-p", "-c", "--model", model, "second"], work)
    assert done.returncode == 2 and "3 damaged records" in done.stderr and "Traceback" not in done.stderr
    assert path.read_bytes() == b"garbage\n" * 3
    # The start of a first record, or an empty file, is no session: it is passed over.
    path.write_bytes(b'{"v":1,"seq":1,"id":"1-')
    assert "There is no earlier session" in agent(["-p", "-c", "--model", model, "x"], work).stderr
    path.write_bytes(b"")
    assert "There is no earlier session" in agent(["-p", "-c", "--model", model, "x"], work).stderr


def test_a_file_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    written(path, MessageAdded(UserMessage("Hi."))).close()
    newer = []
    for line in path.read_bytes().splitlines():
        record = decode_record(line)
        assert record is not None
        from agent_cli.kernel.session.files import encode_record

        newer.append(encode_record({**record, "v": 2}) + b"\n")
    with pytest.raises(SessionNotFoundError, match="newer version"):
        restore(b"".join(newer), "s")


@pytest.mark.parametrize("lost", range(7))
def test_whatever_message_is_lost_the_history_holds(tmp_path: Path, lost: int) -> None:
    path = tmp_path / "s.jsonl"
    results = [ToolMessage(c.id, c.name, "text") for c in ASKED.calls]
    last = AssistantMessage((Text("Done."),))
    notes = [UserMessage("Go."), ASKED, *results, last, UserMessage("More."), last]
    events: list[Event] = [MessageAdded(m) for m in notes]
    events.insert(1, TurnStarted("a/b", "default"))
    events.insert(7, TurnStarted("a/b", "default"))
    written(path, *events).close()
    lines = path.read_bytes().splitlines(keepends=True)
    places = [n for n, line in enumerate(lines) if b'"type":"MessageAdded","time"' in line]
    del lines[places[lost]]
    found = restore(b"".join(lines), "s")
    assert found.bad == (0 if lost == 6 else 1)
    assert not unpaired(found.history), unpaired(found.history)
    texts = [m.text for m in found.history]
    assert (LOST_MESSAGE in texts) is (lost in (0, 5)) and (LOST_RESULT in texts) is (lost in (2, 3))


def test_going_back_counts_a_lost_first_message_too(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    messages = [UserMessage("one"), AssistantMessage((Text("One."),)), UserMessage("two")]
    log = written(path, *map(MessageAdded, messages))
    log.close()
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(line for line in lines if b'"one"' not in line))
    found = read(path)
    assert [m.text for m in found.history] == [LOST_MESSAGE, "One.", "two"]
    again = SessionLog(path, quiet)
    again.acquire()
    again.continue_from(found.seq, found.parent)
    again.record(Rewound(2))
    again.close()
    assert [m.text for m in read(path).history] == [LOST_MESSAGE, "One."]


def test_what_a_turn_had_spent_when_it_was_cut_off_counts_on(tmp_path: Path) -> None:
    def asks(call_id: str) -> MessageAdded:
        return MessageAdded(AssistantMessage((ToolCall(call_id, "Read", {"file_path": "a"}),)))

    log = written(
        tmp_path / "s.jsonl", MessageAdded(UserMessage("Read.")), TurnStarted("a/b", "default"),
        RoundStarted(1), UsageAdded("a/b", Usage(10, 5, cost=0.5)), asks("c1"),
        MessageAdded(ToolMessage("c1", "Read", "x")),
        RoundStarted(2), UsageAdded("a/b", Usage(20, 5, cost=0.25)), asks("c2"),
        MessageAdded(ToolMessage("c2", "Read", "no", is_error=True)), RoundStarted(3),
    )  # fmt: skip
    log.close()
    turn = read(tmp_path / "s.jsonl").interrupted
    assert turn is not None
    spent = turn.spent
    assert (spent.rounds, spent.tool_calls, spent.cost, spent.usage.input) == (3, 2, 0.75, 30)
    assert [action.outcome for action in spent.actions] == ["done", "failed"]


def test_the_words_before_a_message_of_the_program_that_interrupted_them_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    log = written(path, MessageAdded(UserMessage("Tell.")), TurnStarted("a/b", "default"), TextDelta("Once upon"))
    until_saved(path, b"Once")
    log.record(MessageAdded(UserMessage("<reminder>\nGo on.\n</reminder>")))
    log.record(MessageAdded(AssistantMessage((Text("The end."),))))
    log.close()
    shown = [event.text for each in last_exchanges(path, 2) for event in each.events if isinstance(event, TextDelta)]
    assert [text.strip()[:4] for text in shown] == ["Once", "The "]


@pytest.mark.parametrize("added", ['<hook_context event="UserPromptSubmit">\nhooked\n</hook_context>', ""])
def test_a_message_with_text_of_a_hook_behind_it_is_shown_once(tmp_path: Path, added: str) -> None:
    path = tmp_path / "s.jsonl"
    turns: list[Event] = []
    for number in range(3):
        turns += [MessageAdded(UserMessage(f"Question {number}"))]
        turns += [MessageAdded(UserMessage(added))] if added else []
        answer = AssistantMessage((Text(f"Answer {number}"),))
        turns += [TurnStarted("a/b", "default"), MessageAdded(answer)]
    written(path, *turns).close()
    found = last_exchanges(path, 9)
    assert [each.question for each in found] == ["Question 0", "Question 1", "Question 2"]
    shown = [part for each in found for part in each.parts() if isinstance(part, str)]
    assert shown == ["Question 0", "Question 1", "Question 2"]


def test_a_message_whose_turn_never_began_is_shown_before_the_next_one(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    answer = AssistantMessage((Text("Answer"),))
    messages = (MessageAdded(UserMessage(text)) for text in ("Left", "Asked", "<hook_context>\nx\n</hook_context>"))
    written(path, MessageAdded(UserMessage("First")), TurnStarted("a/b", "default"), MessageAdded(answer),
            *messages, TurnStarted("a/b", "default"), MessageAdded(answer)).close()  # fmt: skip
    shown = [part for each in last_exchanges(path, 9) for part in each.parts() if isinstance(part, str)]
    assert shown == ["First", "Left", "Asked"]


def test_a_copy_of_a_session_has_all_that_the_model_is_shown_and_has_agreed_to(tmp_path: Path) -> None:
    first, then = (TodoItem("one", "pending"),), (TodoItem("one", "completed"),)
    done = AssistantMessage((Text("Done."),))
    events: list[Event] = [
        MessageAdded(UserMessage("Begin.")), PlanChanged(first), MessageAdded(done),
        MessageAdded(UserMessage("Go on.")),
        ToolFinished("", "", False, 0, seen={"/w/a": "mark"}, shell=ShellSnapshot("/w/sub", {"X": "1"})),
        MessageAdded(done), PlanChanged(then), Pinned("Begin."), LeftOut("a/b", reasoning=2, tools=("Read",)),
        Compacted("auto", 1, 3, "It began.", (UserMessage("It began."),), by="model", usage=Usage(50, 5)),
        MessageAdded(UserMessage("And?")),
    ]  # fmt: skip
    written(tmp_path / "s.jsonl", *events).close()
    known = read(tmp_path / "s.jsonl")
    copy = SessionLog(tmp_path / "copy.jsonl", quiet)
    copy.create(HEADER.replace(forked_from="s-1"), known)
    copy.close()
    found = read(tmp_path / "copy.jsonl")
    for name in ("history", "seen", "plan", "plans", "shell", "pins", "left_out"):
        assert getattr(found, name) == getattr(known, name) != (), name
    [before], [after] = known.compactions, found.compactions
    assert (after.upto, after.event.replace(kept=1, usage=before.event.usage)) == (before.upto, before.event)
    views = [Window(r.compactions, r.pins, r.report).view(r.history) for r in (known, found)]
    assert views[0] == views[1] and len(views[0]) < len(known.history)


def test_how_much_of_a_window_a_session_fills(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    log = written(path, MessageAdded(UserMessage("x" * 400)))
    assert read(path).tokens == 100
    log.record(UsageAdded("a/b", Usage(5_000, 200)))
    log.record(MessageAdded(AssistantMessage((Text("y" * 800),))))
    assert read(path).tokens == 5_200
    log.record(MessageAdded(UserMessage("x" * 400)))
    assert read(path).tokens == 5_300
    log.record(Rewound(1))
    log.close()
    assert read(path).tokens == 5_000, "less what the person went back from"


def test_no_word_is_lost_between_the_threads() -> None:
    """Words that came while a piece was being taken used to be dropped."""
    took: list[str] = []
    lock = Lock()

    def take() -> None:
        with lock:
            took.append(unfinished.take()[1])

    unfinished = PartialWriter(Redactor({}), take, seconds=0)
    words = [f"{number} " for number in range(20_000)]
    for word in words:
        unfinished.feed(word)
    take()
    assert "".join(took) == "".join(words)


def test_the_thread_that_saves_pieces_takes_no_signal() -> None:
    """A SIGTERM that came as the first words did used to be given to it, and the turn went on waiting."""
    masks: list[set[int]] = []
    saved = Flag()

    def due() -> None:
        masks.append(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
        saved.set()

    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    PartialWriter(Redactor({}), due, seconds=0).feed("word")
    assert saved.wait(20)
    assert {signal.SIGINT, signal.SIGTERM, signal.SIGHUP} <= masks[0]
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before


def test_wherever_a_piece_ends_no_part_of_a_secret_is_in_it() -> None:
    value = "correct horse battery"
    redact = Redactor({"MY_PASSWORD": value})
    block = "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----"
    whole = f"a {value}x b {value} c {value}{value} {block} d{block} sk-ant-api03-abcdefghijklmnopqrst e "
    clean = redact(whole)
    for size in range(len(whole) + 1):
        assert clean.startswith(redact(whole[: redact.safe_length(whole[:size])])), whole[:size]
    assert redact(whole[: redact.safe_length(whole)]) == clean


@pytest.mark.parametrize("end", [call("BashOutput", shell_id="b1", timeout=20_000), call("KillShell", shell_id="b1")])
def test_a_session_whose_background_command_ended_comes_back_whole(work: Path, end: dict[str, object]) -> None:
    command = "sleep 100" if "Kill" in str(end) else "true"
    first = [{"calls": [call("Bash", command=command, run_in_background=True)]}, {"calls": [end]}, {"text": "Done."}]
    flags = ["-p", "--allowedTools", "Bash", "--model"]
    assert agent([*flags, script(work.parent / "s.toml", first), "go"], work).returncode == 0
    again = agent(["-c", *flags, script(work.parent / "t.toml", [{"text": "Back."}]), "more"], work)
    assert (again.stdout, again.stderr) == ("Back.\n", "")
