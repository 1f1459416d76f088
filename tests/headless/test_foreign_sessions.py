"""Sessions that exist only as a transcript in Claude Code's shape, and sessions resumed at an earlier message."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.claude_transcripts import Entry, entries_of, transcript, visible_lines, written
from tests.support.model_server import ModelServer, Reply
from tests.support.program import agent
from tests.support.scripts import script

ID = "5d0d8d5e-0000-4000-8000-00000000abcd"
TORN = '{"type":"user","mess'
OTHER = "00000000-0000-4000-8000-00000000ffff"


def user(content: Any, **more: Any) -> Entry:
    return {"type": "user", "message": {"role": "user", "content": content}, **more}


def answer(name: str, *blocks: dict[str, Any], **more: Any) -> Entry:
    return {"type": "assistant", "message": {"id": name, "role": "assistant", "content": list(blocks)}, **more}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def use(name: str, call_id: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": {"command": "x"}}


def result(call_id: str, words: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": [text(words)]}


def place(home: Path, work: Path) -> Path:
    name = "".join(c if c.isascii() and c.isalnum() else "-" for c in str(work.resolve()))
    return home / ".claude/projects" / name / f"{ID}.jsonl"


LINES = [
    {"type": "summary", "summary": "Older", "leafUuid": OTHER},
    user("What is here?", cwd="/elsewhere", version="2.1.0"),
    {"type": "system", "subtype": "informational", "content": "no message"},
    answer("msg_1", {"type": "thinking", "thinking": "Look.", "signature": "sig"}),
    answer("msg_1", text("I look.")),
    answer("msg_1", use("Bash", "toolu_1")),
    answer("msg_1", use("Read", "toolu_2")),
    user([result("toolu_2", "two")]),
    # Calls ran at the same time: this result is the child of its call, beside the chain.
    user([result("toolu_1", "one")], parentUuid="00000000-0000-4000-a000-000000000005"),
    answer("msg_2", text("Two files."), parentUuid="00000000-0000-4000-a000-000000000007"),
    user("<command-name>/x</command-name>", isSidechain=True, parentUuid=None),
    {"type": "custom-title", "customTitle": "Files"},
]


def ask(work: Path, words: str, *args: str, ok: bool = True) -> tuple[Any, list[dict[str, Any]]]:
    """Run with a server that refuses a history that does not hold; what it was sent."""
    with ModelServer([Reply(text="Sure.")]) as server:
        env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url, "AGENT_TRANSCRIPT": "claude"}
        done = agent(["-p", "--model", "openai/gpt-4.1-mini", *args, words], work, env)
        assert not ok or done.returncode == 0, done.stderr
        server.check()
        return done, [message for body in server.bodies for message in body.get("messages", [])]


def words_of(home: Path) -> list[str]:
    return visible_lines(entries_of(transcript(home, ID), TORN))


def test_a_foreign_session_is_continued_in_its_own_file_and_in_a_log_of_ours(work: Path, home: Path) -> None:
    path = written(place(home, work), LINES)
    with path.open("a") as file:
        file.write(TORN)
    before = path.read_bytes()
    _, sent = ask(work, "And now?", "--resume", ID)
    assert [m.get("tool_call_id", m["role"]) for m in sent if m["role"] != "system"][:6] == [
        "user", "assistant", "toolu_2", "toolu_1", "assistant", "user",
    ]  # fmt: skip
    assert path.read_bytes().startswith(before + b"\n")
    assert words_of(home)[-2:] == ["user: And now?", "assistant: Sure."]
    whole = json.loads(agent(["sessions", "export", ID, "--format", "json"], work).stdout)
    found = json.dumps(whole)
    assert all(words in found for words in ("What is here?", "I look.", "one", "two", "Two files.", "And now?"))
    assert "was lost" not in found and "command-name" not in found
    listed = json.loads(agent(["sessions", "list", "--json"], work).stdout)
    assert [(s["session_id"], s["name"]) for s in listed] == [(ID, "Files")]
    # From here on it is a session like any other.
    ask(work, "Third.", "--resume", ID[:8])
    assert words_of(home)[-2:] == ["user: Third.", "assistant: Sure."]


def test_what_was_compacted_is_its_summary_and_what_was_preserved(work: Path, home: Path) -> None:
    uuids = [f"00000000-0000-4000-a000-{n:012d}" for n in range(6)]
    segment = {"headUuid": uuids[2], "anchorUuid": uuids[5], "tailUuid": uuids[3]}
    written(
        place(home, work),
        [
            user("Old words."),
            answer("msg_1", text("Old answer.")),
            user("Kept words."),
            answer("msg_2", text("Kept answer.")),
            {"type": "system", "subtype": "compact_boundary", "parentUuid": None,
             "compactMetadata": {"trigger": "auto", "preservedSegment": segment}},
            user("The summary.", isCompactSummary=True),
        ],
    )  # fmt: skip
    _, sent = ask(work, "And now?", "--resume", ID)
    words = [str(m["content"]) for m in sent if m["role"] != "system"]
    assert words[:3] == ["The summary.", "Kept words.", "Kept answer."]
    found = agent(["sessions", "export", ID, "--format", "json"], work).stdout
    assert all(words in found for words in ("The summary.", "Kept words.", "Kept answer.", "And now?"))
    assert "Old words." not in found


def test_a_foreign_session_of_another_folder_is_only_copied(work: Path, home: Path) -> None:
    written(place(home, work.parent / "elsewhere"), LINES)
    done, _ = ask(work, "hi", "--resume", ID, ok=False)
    assert done.returncode == 2 and "belongs to /elsewhere: resume it there" in done.stderr
    done, _ = ask(work, "hi", "--resume", ID, "--fork-session")
    [fork] = (place(home, work).parent).glob("*.jsonl")
    assert fork.stem != ID and visible_lines(entries_of(fork))[0] == "user: What is here?"


def test_a_foreign_session_is_cut_at_the_uuid_of_one_of_its_entries(work: Path, home: Path) -> None:
    lines = [user("one?"), answer("m1", text("one")), user("two?"), answer("m2", text("two"))]
    written(place(home, work), lines)
    uuids = [f"00000000-0000-4000-a000-{n:012d}" for n in range(4)]
    ask(work, "three?", "--resume", ID, "--resume-session-at", uuids[1], "--resume-drops-turn", uuids[2])
    assert words_of(home) == ["user: one?", "assistant: one", "user: three?", "assistant: Sure."]


@pytest.mark.parametrize("name", ["no-such", OTHER, f"../{ID}"])
def test_an_id_of_nothing_is_refused(work: Path, home: Path, name: str) -> None:
    written(place(home, work), LINES)
    done, _ = ask(work, "hi", "--resume", name, ok=False)
    assert done.returncode == 2 and "No session of this project" in done.stderr


@pytest.mark.parametrize("content", [b"", b"\x00\x01", b'["x"]\n{"type":"user","uuid":1}\n', b"{" * 5000])
def test_a_file_without_messages_is_refused_in_a_sentence(work: Path, home: Path, content: bytes) -> None:
    path = place(home, work)
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    done, _ = ask(work, "hi", "--resume", ID, ok=False)
    assert done.returncode == 2 and "There is no message in the transcript" in done.stderr
    assert "Traceback" not in done.stderr


# Two turns of ours, resumed at the end of the first.


def turns(work: Path, *words: str) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    for number, said_ in enumerate(words):
        model = script(work.parent / "s.toml", [{"text": f"to {w}"} for w in words[: number + 1]])
        args = ["-p", "--model", model, "--output-format", "stream-json", *(["-c"] if number else [])]
        done = agent([*args, said_], work, {"AGENT_TRANSCRIPT": "claude"})
        assert done.returncode == 0, done.stderr
        lines += map(json.loads, done.stdout.splitlines())
    return lines


def resume(work: Path, *args: str) -> Any:
    model = script(work.parent / "s.toml", [{"text": "to a"}, {"text": "to c"}])
    return agent(["-p", "--model", model, "--output-format", "json", *args, "c"], work, {"AGENT_TRANSCRIPT": "claude"})


def test_a_fork_at_an_earlier_message_drops_the_turn_behind_it(work: Path, home: Path) -> None:
    keep = next(line["uuid"] for line in turns(work, "a", "b") if line["type"] == "assistant")
    path = transcript(home)
    before, prompt = path.read_bytes(), entries_of(path)[2]["uuid"]
    at = ("--resume", path.stem, "--resume-session-at", keep)
    done = resume(work, *at, "--fork-session", "--resume-drops-turn", prompt)
    assert done.returncode == 0, done.stderr
    fork = json.loads(done.stdout)["session_id"]
    assert fork != path.stem and path.read_bytes() == before
    assert visible_lines(entries_of(transcript(home, fork))) == [
        "user: a",
        "assistant: to a",
        "user: c",
        "assistant: to c",
    ]


def test_the_session_itself_goes_on_from_there_and_its_file_keeps_what_was(work: Path, home: Path) -> None:
    keep = next(line["uuid"] for line in turns(work, "a", "b") if line["type"] == "assistant")
    path = transcript(home)
    before = path.read_bytes()
    done = resume(work, "--resume", path.stem, "--resume-session-at", keep)
    assert done.returncode == 0, done.stderr
    assert path.read_bytes().startswith(before)
    assert visible_lines(entries_of(path)) == ["user: a", "assistant: to a", "user: c", "assistant: to c"]
    entries = entries_of(path)
    assert len({e["uuid"] for e in entries}) == len(entries) == 6


@pytest.mark.parametrize(
    ("words", "drops", "why"),
    [
        (("a", "b"), None, "no message after"),
        (("a", "b", "c"), 2, "messages since that are not of that turn"),
        (("a", "b", "c"), 4, "messages of another turn are between"),
        (("a", "b"), 0, "no message after"),
    ],
)
def test_a_cut_that_would_drop_more_is_refused_and_changes_nothing(
    work: Path, home: Path, words: tuple[str, ...], drops: int | None, why: str
) -> None:
    keep = next(line["uuid"] for line in turns(work, *words) if line["type"] == "assistant")
    path = transcript(home)
    before = {p: p.read_bytes() for p in home.rglob("*.jsonl")}
    prompt = OTHER if drops is None else entries_of(path)[drops]["uuid"]
    done = resume(work, "--resume", path.stem, "--resume-session-at", keep, "--resume-drops-turn", prompt)
    assert done.returncode == 2 and "Resume rejected by --resume-drops-turn:" in done.stderr and why in done.stderr
    assert {p: p.read_bytes() for p in home.rglob("*.jsonl")} == before


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (("--resume-session-at", OTHER), "--resume-session-at needs the session"),
        (("-c", "--resume-drops-turn", OTHER), "--resume-drops-turn needs --resume-session-at"),
        (("-c", "--resume-session-at", OTHER), "No message of this session has the UUID"),
    ],
)
def test_a_cut_without_its_place_is_refused(work: Path, home: Path, args: tuple[str, ...], why: str) -> None:
    turns(work, "a")
    done = resume(work, *args)
    assert done.returncode == 2 and why in done.stderr
