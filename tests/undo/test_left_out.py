"""Turns after which git ignores less than before: undo removes what they created, and keeps what was there."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from agent_cli.kernel.messages import UserMessage
from agent_cli.undo import left_out
from agent_cli.undo.left_out import MOVED, UNKNOWN, LeftOutRecords, group_paths
from agent_cli.undo.prune import prune
from agent_cli.undo.recorder import Recorder
from agent_cli.undo.scanner import SizeLimits
from agent_cli.undo.store import Store
from agent_cli.undo.undo import UndoManager
from agent_tools.base import Effect
from agent_tools.text import utc_stamp
from tests.support.file_trees import tree_of
from tests.support.repositories import git
from tests.support.undo_sessions import Session

PRIVATE = {
    ".env": "KEY=1\n", "data/results.csv": "1\n", "data/2026/more.csv": "2\n", "node_modules/a/index.js": "a\n",
    "logs/x.log": "x\n", "sub/private.txt": "p\n", "local.cfg": "l\n", "inner/code.py": "c\n",
}  # fmt: skip


@pytest.fixture
def ignoring(repository: Path) -> Path:
    """A repository that ignores files in every way, and has a branch without any .gitignore."""
    git(repository, "branch", "older")
    (repository / ".gitignore").write_text(".env\ndata/\n*.log\n/node_modules\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "ignore")
    for name, text in PRIVATE.items():
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_text(text)
    (repository / "sub/.gitignore").write_text("*\n")
    (repository / ".git/info/exclude").write_text("local.cfg\n")
    git(repository / "inner", "init", "-q")
    return repository


def private_of(root: Path) -> dict[str, str]:
    return {name: (root / name).read_text() for name in PRIVATE if (root / name).exists()}


def kept_by(work: UndoManager, *turns: int) -> dict[str, str]:
    plan = work.plan(turns or [work.latest() or 0])
    return {os.path.relpath(i.path, work.store.where.roots[0]): i.why for i in plan.of("kept")}


@pytest.mark.parametrize(
    "command",
    [
        "git checkout -q older",
        "rm .gitignore",
        "git mv .gitignore x.ignore",
        "git rm -q .gitignore",
        "echo > .gitignore",
        "sed -i /data/d .gitignore",
        "mv .gitignore ../gone",
        "rm sub/.gitignore",
        "git reset -q --hard older",
        "git stash -q; rm -f .gitignore",
        "rm -rf inner/.git",
        "mv inner/.git ../moved",
        "rm .gitignore sub/.gitignore; rm -rf inner/.git",
        "printf '!.env\\n!data/\\n!*.log\\n' >> .gitignore; printf '!*\\n' >> sub/.gitignore",
    ],
)
def test_what_was_ignored_before_the_turn_is_kept(ignoring: Path, command: str) -> None:
    (ignoring / "a.txt").write_text("changed\n")
    session = Session(ignoring)
    session.run(f"{command}; echo made > new.txt; mkdir made; echo made > made/new.txt")
    session.undo()
    assert private_of(ignoring) == PRIVATE
    assert not (ignoring / "new.txt").exists() and not (ignoring / "made").exists()


def test_what_is_kept_is_listed_by_folder_with_the_reason(ignoring: Path) -> None:
    session = Session(ignoring)
    session.run("rm .gitignore sub/.gitignore; rm -rf inner/.git; echo x > new.txt")
    ignored = "ignored by git before the turn"
    assert kept_by(session.work) == {
        ".env": ignored, "data": ignored, "node_modules": ignored, "logs/x.log": ignored, "sub/private.txt": ignored,
        "inner": "a separate repository",
    }  # fmt: skip


def test_ignored_files_that_changed_are_noted_and_caches_are_not(ignoring: Path) -> None:
    session = Session(ignoring)
    caches = "__pycache__ .mypy_cache .pytest_cache .ruff_cache"
    fill = f"for name in {caches}; do mkdir $name; touch $name/a; done"
    session.run(f"echo x > a.txt; {fill}; seq 3 | xargs -I{{}} touch data/{{}}")
    _, notes = session.undo()
    noted = " ".join(notes)
    assert "ignored by git, changed since, and not restored: " in noted and "data/" in noted and "cache" not in noted
    assert all((ignoring / name / "a").exists() for name in caches.split())


def test_exclude_files_outside_of_the_work_tree(ignoring: Path) -> None:
    """They are read when a session begins, and again by the command that undoes it."""
    home = ignoring.parent / "home"
    home.mkdir()
    (home / ".gitconfig").write_text("[core]\n\texcludesFile = ~/ignored\n")
    (home / "ignored").write_text("mine.txt\n")
    (ignoring / "mine.txt").write_text("mine\n")
    session = Session(ignoring)
    session.run("echo x > new.txt")
    (home / "ignored").write_text("")
    (ignoring / ".git/info/exclude").write_text("")
    # Another program of the same project opens the store while the turn runs.
    Store(session.where)
    session.run("echo y > new2.txt", new=False)
    session.undo()
    assert (ignoring / "mine.txt").read_text() == "mine\n" and private_of(ignoring) == PRIVATE
    assert not (ignoring / "new.txt").exists() and not (ignoring / "new2.txt").exists()


def test_a_new_file_in_a_folder_that_was_ignored_is_kept(ignoring: Path) -> None:
    session = Session(ignoring)
    session.run("seq 3 | xargs -I{} touch data/new{}.csv; echo x > logs/new.txt; rm .gitignore")
    assert kept_by(session.work)["data"]
    session.undo()
    assert sorted(p.name for p in (ignoring / "data").iterdir()) == [
        "2026", "new1.csv", "new2.csv", "new3.csv", "results.csv",
    ]  # fmt: skip
    assert not (ignoring / "logs/new.txt").exists(), "the folder of an ignored file is not ignored"


def test_redo_and_another_undo_keep_it(ignoring: Path) -> None:
    session = Session(ignoring)
    session.run("git checkout -q older; echo x > new.txt")
    after = tree_of(ignoring)
    session.undo()
    before = tree_of(ignoring)
    found = session.work.redo_plan()
    assert found is not None and not found[1].of("kept")
    assert session.work.redo(found[0], found[1].items) == {}
    assert tree_of(ignoring) == after
    session.undo()
    assert tree_of(ignoring) == before and private_of(ignoring) == PRIVATE


def test_several_turns_at_once_keep_it(ignoring: Path) -> None:
    session = Session(ignoring)
    session.run("echo 1 > one.txt; echo x >> .gitignore")
    session.run("rm .gitignore; echo 2 > two.txt")
    session.run("echo 3 > three.txt; rm sub/.gitignore")
    work = session.work
    assert {".env", "data", "sub/private.txt"} <= kept_by(work, 1, 2, 3).keys()
    assert work.undo([1, 2, 3], work.plan([1, 2, 3]).of("ready")) == {}
    assert private_of(ignoring) == PRIVATE
    assert not list(ignoring.glob("t*.txt")) and not (ignoring / "one.txt").exists()
    assert (ignoring / ".gitignore").read_text() == ".env\ndata/\n*.log\n/node_modules\n"


def test_a_later_change_of_such_a_file_is_undone(ignoring: Path) -> None:
    session = Session(ignoring)
    session.run("rm .gitignore")
    session.run("echo KEY=2 > .env; rm data/results.csv", new=False)
    session.run("echo other > unrelated.txt")
    work = session.work
    assert work.undo([1, 2], work.plan([1, 2]).of("ready")) == {}
    assert private_of(ignoring) == PRIVATE


def test_a_call_that_never_ended_keeps_it(ignoring: Path) -> None:
    session = Session(ignoring)
    session.recorder.turn([UserMessage("x")], new=True)
    session.recorder.before("c1", "Bash", "x", [Effect("run", "rm .gitignore")], str(ignoring))
    (ignoring / ".gitignore").unlink()
    (ignoring / "new.txt").write_text("made\n")
    work = session.work
    assert {".env", "data"} <= kept_by(work, 1).keys()
    plan = work.plan([1])
    assert {Path(i.path).name for i in plan.of("ask")} == {".gitignore", "new.txt"} and not plan.of("ready")
    assert work.undo([1], plan.of("ask")) == {}
    assert private_of(ignoring) == PRIVATE and not (ignoring / "new.txt").exists()


def test_a_turn_that_is_resumed_uses_its_first_record(ignoring: Path) -> None:
    session = Session(ignoring)
    session.run("rm .gitignore")
    session.recorder = Recorder(session.where, str, lambda: "m")
    session.recorder.turn([UserMessage("rm .gitignore")], new=False)
    session.run("rm sub/.gitignore; echo x > new.txt", new=False)
    assert {".env", "sub/private.txt"} <= kept_by(session.work, 1).keys()
    session.undo()
    assert private_of(ignoring) == PRIVATE and not (ignoring / "new.txt").exists()


def without_records(session: Session) -> None:
    """Make the log as older versions wrote it."""
    path = session.where.folder / "sessions/s.records"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps({k: v for k, v in r.items() if k != "left_out"}) + "\n" for r in rows))


def forget_records(session: Session) -> None:
    for change in session.work.story().changes:
        for oid in change.left_out.values():
            (session.where.folder / "git/objects" / oid[:2] / oid[2:]).unlink(missing_ok=True)


@pytest.mark.parametrize("how", [without_records, forget_records])
def test_without_a_record_only_what_was_looked_for_by_name_is_deleted(ignoring: Path, how: object) -> None:
    session = Session(ignoring)
    session.run("rm .gitignore; echo x > new.txt; mkdir made; seq 6 | xargs -I{} touch made/{}")
    assert callable(how)
    how(session)
    kept = kept_by(session.work)
    assert kept["made"] == kept[".env"] == UNKNOWN
    session.undo()
    assert private_of(ignoring) == PRIVATE and (ignoring / ".gitignore").exists()
    assert (ignoring / "made/1").exists() and not (ignoring / "new.txt").exists()


def test_a_turn_of_which_everything_is_kept_is_still_listed(ignoring: Path) -> None:
    session = Session(ignoring)
    session.run("seq 2 | xargs -I{} touch made{}")
    without_records(session)
    assert session.work.latest() == 1
    assert kept_by(session.work) == {"made1": UNKNOWN, "made2": UNKNOWN}


@pytest.mark.parametrize("bound", ["_MAX_ENTRIES", "_SECONDS", "_MAX_BYTES"])
def test_beyond_a_bound_all_that_may_have_been_there_is_kept(
    ignoring: Path, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    monkeypatch.setattr(left_out, bound, 0)
    session = Session(ignoring)
    session.run("rm .gitignore; seq 2 | xargs -I{} touch made{}")
    assert kept_by(session.work)["made1"] == UNKNOWN
    session.undo()
    assert private_of(ignoring) == PRIVATE and (ignoring / "made1").exists()


def test_more_skipped_files_than_a_log_line_names_are_kept(repository: Path) -> None:
    """What exceeds the limit of one snapshot may fit into the next one."""
    for n in range(600):
        (repository / f"big{n}").write_bytes(b"x" * 1000 + str(n).encode())
    session = Session(repository, SizeLimits(file=5_000, total=50_000))
    session.run("echo made > new.txt")
    session.undo()
    assert len(list(repository.glob("big*"))) == 600 and not (repository / "new.txt").exists()


def test_ignored_files_that_are_moved_come_back_or_stay(ignoring: Path) -> None:
    session = Session(ignoring)
    before = tree_of(ignoring)
    session.run("mv data/*.csv .; mv node_modules vendored")
    session.undo()
    assert tree_of(ignoring) == before
    # More than are listed for a call.
    (ignoring / "data/many").mkdir()
    for n in range(2_100):
        (ignoring / f"data/many/{n}").write_text(f"{n}\n")
    session.run("mv data/many results; echo x > new.txt")
    years_later(session)
    assert kept_by(session.work)["results"] == MOVED
    session.undo()
    assert len(list((ignoring / "results").iterdir())) == 2_100 and not (ignoring / "new.txt").exists()


@pytest.mark.parametrize("name", ["data", "node_modules", "sub"])
def test_an_ignored_folder_that_becomes_a_link_comes_back(ignoring: Path, name: str) -> None:
    session = Session(ignoring)
    before = tree_of(ignoring)
    session.run(f"mv {name} ../away; ln -s ../away {name}; rm -f .gitignore")
    session.undo()
    assert tree_of(ignoring) == before and (ignoring.parent / "away").is_dir()


def years_later(session: Session) -> None:
    """Make the calls of a session later than all files, which no test can make older."""
    path = session.where.folder / "sessions/s.records"
    year = utc_stamp()[:4]
    path.write_text(path.read_text().replace(f'"time":"{year}', f'"time":"{int(year) + 4}'))


@pytest.mark.parametrize("move", ["os.rename('data/results.csv', 'r.csv')", "os.rename('../mine.csv', 'r.csv')"])
def test_a_file_that_a_program_moves_here_stays(ignoring: Path, move: str) -> None:
    (ignoring.parent / "mine.csv").write_text("mine\n")
    if left_out._birth_time(str(ignoring / "a.txt")) is None:
        pytest.skip("this file system does not know when a file was created")
    session = Session(ignoring)
    session.run(f'python3 -c "import os; {move}"; mv a.txt moved.txt; seq 3 > new.txt')
    years_later(session)
    assert kept_by(session.work)["r.csv"] == MOVED
    plan = session.work.plan([1])
    assert {Path(i.path).name for i in plan.of("ready")} >= {"a.txt", "moved.txt", "new.txt"}
    session.undo()
    assert (ignoring / "r.csv").exists() and (ignoring / "a.txt").exists() and not (ignoring / "moved.txt").exists()


def test_why_names_no_call_for_a_line_that_was_there(ignoring: Path) -> None:
    session = Session(ignoring)
    session.run("rm .gitignore; echo new > new.txt")
    assert session.work.blame(str(ignoring / ".env"), 1, ["KEY=1\n"]) is None
    assert session.work.blame(str(ignoring / "new.txt"), 1, ["new\n"]) is not None


def test_a_record_survives_pruning(ignoring: Path) -> None:
    session = Session(ignoring)
    session.run("rm .gitignore; echo x > new.txt")
    store = Store(session.where)
    for _ in range(2):
        prune(store, 14, 1 << 30, 1e9)
    assert kept_by(session.work)[".env"] != UNKNOWN
    session.undo()
    assert private_of(ignoring) == PRIVATE and not (ignoring / "new.txt").exists()


@pytest.mark.parametrize(
    ("name", "covered"), [(b"closed/in", ("closed/in/", True)), (b"odd?name", ("closed/in/x", False))]
)
def test_a_folder_that_cannot_be_opened_is_in_the_record(
    repository: Path, monkeypatch: pytest.MonkeyPatch, name: bytes, covered: tuple[str, bool]
) -> None:
    """Root opens every folder, so git's warning is added to what it prints."""
    (repository / "closed/in").mkdir(parents=True)
    collect = left_out.collect

    def warned(*words: object) -> tuple[bytes, bytes]:
        out, _ = collect(*words)  # type: ignore[arg-type]
        return out, b"warning: could not open directory '%s/': Permission denied\n" % name

    monkeypatch.setattr(left_out, "collect", warned)
    store = Store(Session(repository).where)
    with store.locked():
        record = store.record_left_out(store.shots())[str(repository)]
    assert LeftOutRecords(store.git).entry(record, "closed/in/x") == covered


def test_many_paths_of_one_folder_become_that_folder() -> None:
    many = [f"/w/lib/a/{n}" for n in range(9)]
    assert group_paths([*many, "/w/x", "/w/y/1", "/w/y/2"], lambda _: "/w") == ["/w/lib/a/", "/w/x", "/w/y/1", "/w/y/2"]
