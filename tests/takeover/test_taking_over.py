"""Sessions that the real programs wrote (`tests.outside.record_sessions`), taken over and continued on every wire."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.foreign_stores import FIXED, PROGRAMS, all_files
from tests.support.model_server import Call, Reply
from tests.support.program import agent
from tests.support.taken_sessions import AFTER, NAMES, WIRES, WORKED, ask, load, place, shown, take


@pytest.mark.parametrize("name", PROGRAMS)
def test_text_stays_calls_become_ours_and_each_has_one_result(work: Path, home: Path, name: str) -> None:
    place(name, "worked", home, work)
    made = take(work, name)
    session = load(home, made["session_id"])
    assert shown(session) == WORKED[name]
    assert (made["new"], made["messages"], made["program"]) == (True, len(session.history) - 1, name)
    begins = f"<session_change>\nThis conversation was begun in {NAMES[name]} (session "
    assert session.history[-1].text.startswith(begins)


@pytest.mark.parametrize("name", PROGRAMS)
def test_files_that_were_read_count_if_they_are_unchanged(work: Path, home: Path, name: str) -> None:
    place(name, "worked", home, work)
    (work / "old.py").write_text("LIMIT = 11\n")
    session = load(home, take(work, name)["session_id"])
    # sums.py was read, then edited: the model knows what came out of it.
    assert [Path(path).name for path in session.seen] == ["sums.py", "notes.md"]
    assert "these files have now: sums.py, notes.md.\n" in session.history[-1].text
    assert "read them before you edit them: old.py." in session.history[-1].text


@pytest.mark.parametrize("name", PROGRAMS)
def test_only_a_changed_file_must_be_read_before_an_edit(work: Path, home: Path, name: str) -> None:
    place(name, "worked", home, work)
    (work / "old.py").write_text("LIMIT = 11\n")
    edits = (
        Call("Edit", {"file_path": "sums.py", "old_string": "sum(numbers)", "new_string": "sum(list(numbers))"}),
        Call("Edit", {"file_path": "old.py", "old_string": "LIMIT = 11", "new_string": "LIMIT = 12"}),
    )
    replies = (Reply(calls=edits), Reply(text="Done."))
    model = "anthropic/claude-sonnet-4-5"
    ask(work, model, "-r", f"@{name}", "--permission-mode", "acceptEdits", "Go on.", replies=replies)
    assert (work / "sums.py").read_text() == "def total(numbers):\n    return sum(list(numbers))\n"
    assert (work / "old.py").read_text() == "LIMIT = 11\n"


PLANS = {
    "claude": [("Fix the sum", "completed"), ("Run the tests", "pending")],
    "codex": [],  # it has no list any more
    "gemini": [("Fix the sum", "in_progress"), ("Run the tests", "pending")],
    "opencode": [("Fix the sum", "in_progress"), ("Run the tests", "pending")],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_todo_list_is_taken_over(work: Path, home: Path, name: str) -> None:
    place(name, "worked", home, work)
    session = load(home, take(work, name)["session_id"])
    assert [(item.content, item.status) for item in session.plan] == PLANS[name]


@pytest.mark.parametrize("model", WIRES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_it_is_continued_on_every_wire(work: Path, home: Path, name: str, model: str) -> None:
    place(name, "worked", home, work)
    done, sent = ask(work, model, "-r", f"@{name}", "And now?")
    assert "Sure." in done.stdout and f"of {NAMES[name]}: " in done.stderr
    for words in ("Fix total in sums.py", "I read both files.", "The total must be exact.", "It asks for", "And now?"):
        assert words in sent
    assert f"was begun in {NAMES[name]}" in sent
    # From here on it is a session like any other: the next request begins as this one did.
    _, again = ask(work, model, "-c", "Third.")
    assert "And now?" in again and "Sure." in again and again.count("was begun in") == 1


@pytest.mark.parametrize("model", WIRES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_of_a_compacted_session_the_summary_is_the_beginning(work: Path, home: Path, name: str, model: str) -> None:
    place(name, "later", home, work)
    listed = json.loads(agent(["sessions", "import", name, "--list", "--json"], work).stdout)
    [compacted] = [row["source_id"] for row in listed if row["source_id"] not in _forks(name, listed)]
    _, sent = ask(work, model, "-r", f"@{name}:{compacted}", "And now?")
    assert "The total was one too low, and is exact now." in sent and "And now?" in sent
    assert "I read both files." not in sent
    assert ("Wait for the build" in sent) == (name == "codex")  # it keeps what the user said


def _forks(name: str, listed: list[dict[str, Any]]) -> set[str]:
    """Return the IDs of copies: the later half of what a program left."""
    if name == "claude":
        return {"6f0c2f4e-7d0b-4c53-9a51-3f5f0a4c2b11"}
    first = min if name == "codex" else max  # OpenCode counts down
    return {row["source_id"] for row in listed} - {first(row["source_id"] for row in listed)}


@pytest.mark.parametrize("name", ["claude", "codex", "opencode"])
def test_a_fork_has_what_it_was_forked_from(work: Path, home: Path, name: str) -> None:
    place(name, "later", home, work)
    listed = json.loads(agent(["sessions", "import", name, "--list", "--json"], work).stdout)
    [fork] = _forks(name, listed)
    session = load(home, take(work, name, fork)["session_id"])
    question = WORKED[name][-3]
    assert shown(session) == [*WORKED[name][:-1], question, *AFTER[1:]]


@pytest.mark.parametrize("part", ["worked", "later"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_source_is_only_read(work: Path, home: Path, name: str, part: str) -> None:
    place(name, part, home, work)
    before = list(all_files(home))
    agent(["sessions", "import", name, "--list", "--all-projects"], work)
    ask(work, "openai/gpt-4.1-mini", "-r", f"@{name}", "And now?")
    after = [file for file in all_files(home) if "/state/" not in file[0] and "/.claude/projects/" not in file[0]]
    assert [file for file in before if "/.claude/projects/" not in file[0]] == after
    kept = dict.fromkeys(file for file in before if "/.claude/projects/" in file[0])
    assert kept.keys() <= set(all_files(home))


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_second_import_makes_nothing_unless_the_session_has_grown(work: Path, home: Path, name: str) -> None:
    place(name, "worked", home, work)
    first, second = take(work, name), take(work, name)
    assert first["session_id"] == second["session_id"] and (first["new"], second["new"]) == (True, False)
    assert "taken over before" in agent(["sessions", "import", name], work).stderr
    assert len(list(home.glob("state/sessions/*/*.jsonl"))) == 1
    for path in home.glob(".local/share/opencode/*"):
        path.unlink()
    place(name, "later", home, work)
    listed = json.loads(agent(["sessions", "import", name, "--list", "--json"], work).stdout)
    grown = next(row["source_id"] for row in listed if row["source_id"] not in _forks(name, listed))
    third = take(work, name, grown)
    assert third["new"] and third["session_id"] != first["session_id"]


def test_it_is_listed_shown_exported_and_has_nothing_to_undo(work: Path, home: Path) -> None:
    place("claude", "worked", home, work)
    made = take(work, "claude")["session_id"]
    [listed] = json.loads(agent(["sessions", "list", "--json"], work).stdout)
    assert (listed["session_id"], listed["first_message"]) == (made, "Fix total in sums.py")
    turns = agent(["sessions", "show", made], work).stdout
    assert turns.count("\nturn ") == 4 and "    Read sums.py: " in turns and "completed: 8 model calls" in turns
    exported = agent(["sessions", "export", made], work).stdout
    assert "I read both files." in exported and "The total must be exact." in exported
    undone = agent(["undo", made], work)
    assert undone.returncode == 2 and "What was changed before it was taken over is not recorded." in undone.stderr
    assert (work / "sums.py").read_text() == FIXED
    assert agent(["sessions", "rm", made, "--yes"], work).returncode == 0
    assert take(work, "claude")["new"]
