"""`agent sessions list --search`, `rm` and `export`, and going on with sessions of other folders: the real program."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path

import pytest

from agent_cli.cli.commands.sessions import read_time
from agent_cli.kernel.run_environment import UsageError
from agent_cli.kernel.session.files import decode_record, encode_record
from agent_cli.kernel.session.store import SessionStore
from tests.support.program import agent
from tests.support.pty_session import Terminal
from tests.support.scripts import call, script
from tests.support.session_logs import keep, session_id, turn

OLD = "2020-01-02T03:04:05.678Z"


@pytest.fixture
def store(work: Path) -> SessionStore:
    """The sessions of `work`, three of them."""
    store = SessionStore(work.parent / "home/state", work)
    for number, (question, answer) in enumerate(
        [("fix the parser", "In lexer.py."), ("write docs", "Done: <b>all</b>."), ("say hi", "Hi.")], 1
    ):
        keep(store, number, turn(question, answer, 0.01), root=str(work), branch="main")
    return store


def ids(store: SessionStore) -> list[int]:
    return sorted(int(path.stem[:8], 16) for path in store.folder.glob("*.jsonl"))


def test_a_list_over_all_projects_with_what_was_searched_for(work: Path, store: SessionStore) -> None:
    gone = SessionStore(work.parent / "home/state", work.parent / "moved")
    keep(gone, 9, turn("old work", "On the LEXER too."), root=str(work.parent / "moved"))
    header, *rows = agent(["sessions", "list"], work).stdout.splitlines()
    assert header.split() == ["ID", "AGE", "MODEL", "BRANCH", "MESSAGES", "SIZE", "COST", "SESSION"]
    assert [row.split()[0] for row in rows] == ["00000003", "00000002", "00000001"]
    found = agent(["sessions", "list", "--all-projects", "--search", "lexer"], work).stdout
    assert "old work | On the LEXER too." in found
    assert "~/" not in found
    assert f"{work.parent}/moved (gone)" in found
    assert "write docs" not in found
    data = json.loads(agent(["sessions", "list", "-A", "-s", "lexer in", "--json"], work).stdout)
    assert [(d["session_id"], d["match"], d["root"]) for d in data] == [(session_id(1), "In lexer.py.", str(work))]
    nothing = agent(["sessions", "list", "--search", "haskell"], work)
    assert (nothing.returncode, nothing.stdout) == (0, "")
    assert "contains 'haskell'" in nothing.stderr


def test_a_session_of_a_moved_folder_goes_on_as_a_copy(work: Path) -> None:
    model = script(work.parent / "s.toml", [{"text": "One."}, {"text": "Two."}])
    agent(["-p", "--model", model, "begin"], work)
    work.rename(work.parent / "renamed")
    work = work.parent / "renamed"
    found = json.loads(agent(["sessions", "list", "-A", "--json"], work).stdout)[0]["session_id"]
    refused = agent(["-p", "--model", model, "-r", found[:8], "more"], work)
    assert refused.returncode == 2
    assert "--fork-session continues a copy of it here" in refused.stderr
    done = agent(["-p", "--model", model, "-r", found[:8], "--fork-session", "more"], work)
    assert (done.returncode, done.stdout) == (0, "Two.\n")
    (copy,) = json.loads(agent(["sessions", "list", "--json"], work).stdout)
    assert (copy["messages"], copy["root"], copy["first_message"]) == (5, str(work), "begin")
    exported = json.loads(agent(["sessions", "export", "-f", "json"], work).stdout)
    assert f"You work in {work}." in exported["header"]["system"]
    assert exported["header"]["forked_from"] == found


def test_words_and_names_are_taken_where_nobody_can_choose(work: Path, store: SessionStore) -> None:
    model = script(work.parent / "s.toml", [{"text": "x"}, {"text": "Went on."}])
    done = agent(["-p", "--model", model, "-r", "lexer", "go on"], work)
    assert (done.returncode, done.stdout) == (0, "x\n")
    several = agent(["-p", "--model", model, "-r", "0000", "go on"], work)
    assert several.returncode == 2
    assert "3 sessions of this project begin with 0000. Give the ID of one: 00000001 fix the parser;" in several.stderr
    for args in (["-r"], ["-r", "0000"], ["-r", "nothing"]):
        done = agent(args, work)
        assert done.returncode == 2
        assert done.stderr.startswith("agent: ")
        assert len(done.stderr.splitlines()) == 1


def test_removing_needs_a_yes(work: Path, store: SessionStore) -> None:
    refused = agent(["sessions", "rm", "00000001"], work)
    assert (refused.returncode, ids(store)) == (2, [1, 2, 3])
    assert "--yes" in refused.stderr
    terminal = Terminal(["sessions", "rm", "00000001", "docs"], work)
    assert "fix the parser" in terminal.expect("Delete these 2 sessions? [y/N]")
    terminal.type("n")
    terminal.end()
    assert (terminal.exit_code, ids(store)) == (2, [1, 2, 3])
    terminal = Terminal(["sessions", "rm", "00000001", "docs"], work)
    terminal.expect("[y/N]")
    terminal.type("y")
    assert "2 sessions removed" in terminal.end()
    assert ids(store) == [3]


def test_all_files_of_a_session_go_with_it(work: Path, store: SessionStore) -> None:
    path = store.path(session_id(1))
    path.with_name(f"{path.stem}.draft").write_text("{}")
    done = agent(["sessions", "rm", "fix parser", "--yes"], work)
    assert (done.returncode, done.stderr) == (0, "1 session removed.\n")
    assert not list(store.folder.glob(f"{path.stem}*"))


def test_old_ones_go_and_one_that_is_open_stays(work: Path, store: SessionStore) -> None:
    for number in (1, 2):
        path = store.path(session_id(number))
        # Older, by what its records say.
        records = [decode_record(line) or {} for line in path.read_bytes().split(b"\n")[:-1]]
        older = [
            encode_record({k: v for k, v in r.items() if k != "data"} | {"time": OLD, "data": r["data"]})
            for r in records
        ]
        path.write_bytes(b"\n".join(older) + b"\n")
    assert "No session is older than 4000w." in agent(["sessions", "rm", "--older-than", "4000w", "-y"], work).stderr
    with store.path(session_id(2)).open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = agent(["sessions", "rm", "--older-than", "30d", "--yes"], work)
    assert done.returncode == 1
    assert "Session 00000002 is open in another process and was not removed.\n1 session removed." in done.stderr
    assert ids(store) == [2, 3]


@pytest.mark.parametrize("args", [[], ["x", "--older-than", "1d"], ["--older-than", "soon"], ["haskell", "--yes"]])
def test_one_sentence_for_what_cannot_be(args: list[str], work: Path, store: SessionStore) -> None:
    done = agent(["sessions", "rm", *args], work)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert ids(store) == [1, 2, 3]


def test_times() -> None:
    assert [read_time(t).total_seconds() for t in ("90m", "12h", "1d", "2W")] == [5400, 43200, 86400, 1209600]
    for wrong in ("", "d", "5", "-5d", "5y", "9999999d"):
        with pytest.raises(UsageError):
            read_time(wrong)


def test_exports_go_where_they_are_asked_to(work: Path, store: SessionStore) -> None:
    assert "> fix the parser" in agent(["sessions", "export", "lexer"], work).stdout
    done = agent(["sessions", "export", "write docs", "-o", "x.html"], work)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "Session 00000002 is in x.html.\n")
    text = (work / "x.html").read_text()
    assert "&lt;b&gt;all&lt;/b&gt;" in text
    again = agent(["sessions", "export", "docs", "-o", "x.html"], work)
    assert again.returncode == 2
    assert "--force" in again.stderr
    assert agent(["sessions", "export", "docs", "-o", "x.html", "--force", "-f", "json"], work).returncode == 0
    assert json.loads((work / "x.html").read_text())["title"] == "write docs"
    for args in (["docs", "-f", "pdf"], ["docs", "-o", "no/where.md"], ["haskell"]):
        done = agent(["sessions", "export", *args], work)
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1


def test_secrets_that_are_known_now_are_not_exported(work: Path) -> None:
    model = script(work.parent / "s.toml", [{"calls": [call("Bash", command="ls")]}, {"text": "It is hunter2hunter2."}])
    agent(["-p", "--model", model, "what is it"], work)
    assert "hunter2hunter2" in agent(["sessions", "export"], work).stdout
    assert "hunter2" not in agent(["sessions", "export"], work, {"MY_API_KEY": "hunter2hunter2"}).stdout


def test_showing_takes_words_and_other_projects(work: Path, store: SessionStore, tmp_path: Path) -> None:
    assert "> fix the parser" in agent(["sessions", "show", "lexer"], work).stdout
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert "> write docs" in agent(["sessions", "show", "-A", "docs"], elsewhere).stdout
    assert agent(["sessions", "show", "docs"], elsewhere).returncode == 2
    assert not list(elsewhere.iterdir())


def test_with_a_session_goes_what_undo_kept_of_it(work: Path) -> None:
    model = script(work.parent / "s.toml", [{"calls": [call("Write", file_path="n.txt", content="x")]}, {"text": "A."}])
    agent(["-p", "--model", model, "--permission-mode", "acceptEdits", "go"], work)
    [records] = (work.parent / "home/state/snapshots").rglob("*.records")
    assert agent(["sessions", "rm", "--yes", records.stem], work).returncode == 0
    assert not records.exists()
