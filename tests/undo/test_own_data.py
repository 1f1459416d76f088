"""The program's own data, wherever its folder is, is in no snapshot, in no list of changes and never restored."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from agent_cli.kernel.messages import UserMessage
from agent_cli.undo.recorder import Recorder
from agent_cli.undo.scanner import Snapshot
from agent_cli.undo.store import Store, StoreConfig
from agent_cli.undo.undo import UndoManager
from agent_cli.undo.undo_plan import changed_ignored
from agent_tools.base import Effect
from tests.support.repositories import GIT, git


class Session:
    """A session whose log is in `state`, and grows while a command runs."""

    def __init__(self, root: Path, state: Path, home: Path | None = None) -> None:
        self.root, self.log = root, state / "sessions/s.jsonl"
        self.log.parent.mkdir(parents=True)
        self.log.write_text("begun\n")
        self.where = StoreConfig(
            state / "snapshots/p", (root,), os.environ["PATH"], str(home or root.parent / "home"), "s"
        )
        self.recorder = Recorder(self.where, str, lambda: "m")

    def run(self, command: str) -> None:
        self.recorder.turn([UserMessage(command)], new=True)
        self.recorder.before("c1", "Bash", command, [Effect("run", command)], str(self.root))
        subprocess.run(["bash", "-c", command], cwd=self.root, env=GIT, check=True, capture_output=True)
        self.log.write_text("begun\ngrown\n")
        self.recorder.after("c1")

    def recorded(self) -> set[str]:
        """All paths in the snapshots around the commands."""
        store = Store(self.where)
        shots: list[Snapshot] = []
        for record in store.manifest.read():
            shots += getattr(record, "shots", ())
        return {
            os.path.join(shot.base, name)
            for shot in shots
            for name in store.git.run("ls-tree", "-r", "-z", "--name-only", shot.tree).decode().split("\0")
            if name
        }

    def planned(self) -> set[str]:
        """What an undo of the latest turn would touch or name."""
        work = UndoManager(Store(self.where))
        number = work.latest()
        plan = work.plan([] if number is None else [number])
        return {item.path for item in plan.of("ready", "ask", "lost", "kept")}


OUTSIDE = [
    "mv a.txt ..", "mv a.txt ../", "cp a.txt ..", "cp -r . ../copy", "cp -rT . ..", "tar cf ../x.tar a.txt",
    "tar cf x.tar a.txt && tar xf x.tar -C ..", "chmod -R u+rw ..", "mv a.txt ../state", "rsync -a a.txt ..",
    "find .. -name nothing -delete", "ln -sf a.txt ..",
]  # fmt: skip


@pytest.mark.parametrize("command", OUTSIDE)
def test_a_command_on_a_folder_above_it_records_nothing_of_it(root: Path, tmp_path: Path, command: str) -> None:
    session = Session(root, tmp_path / "state")
    session.run(command)
    state = f"{tmp_path}/state/"
    mine = {path for path in session.recorded() | session.planned() if path.startswith((f"{state}ses", f"{state}sn"))}
    assert not mine


@pytest.mark.parametrize("name", ["state", "my [state] *x", "a b/.state"])
@pytest.mark.parametrize("kind", ["plain", "repository", "tracked"])
def test_a_project_that_contains_it_is_recorded_without_it(root: Path, name: str, kind: str) -> None:
    session = Session(root, root / name)
    if kind != "plain":
        git(root, "init", "-q")
        git(root, "add", "-A" if kind == "tracked" else "a.txt")
        git(root, "commit", "-qm", "first")
    session.run("echo more >> a.txt; mkdir -p sub; mv a.txt sub; cp -r sub ..; touch x")
    assert {os.path.relpath(path, root) for path in session.planned()} >= {"a.txt", "sub/a.txt", "x"}
    state = f"{root / name}/"
    assert not {path for path in session.recorded() | session.planned() if path.startswith(state)}


def test_an_ignored_folder_that_contains_it_is_not_listed_as_changed(repository: Path) -> None:
    (repository / ".gitignore").write_text("build/\n")
    session = Session(repository, repository / "build/state")
    session.run("echo more >> a.txt")
    assert changed_ignored(Store(session.where), 0.0) != []  # the folder itself is new
    session.log.write_text("grown again\n")
    later = (repository / "build").stat().st_ctime + 0.001
    assert changed_ignored(Store(session.where), later) == []


def test_the_home_folder_as_project_is_recorded_without_it(root: Path) -> None:
    session = Session(root, root / ".local/state/agent", home=root)
    session.run("rm -rf b.txt; mv a.txt .local")
    assert session.planned() == {f"{root}/b.txt", f"{root}/a.txt"}


def test_a_question_about_its_removal_says_that_it_cannot_be_restored(root: Path, tmp_path: Path) -> None:
    session = Session(root, tmp_path / "state")
    for command in ("rm -rf ../state", "rm -rf ..", "rm -r ../state/sessions"):
        (line,) = session.recorder.facts([Effect("run", command)], str(root))
        assert line == f"undo cannot restore: {tmp_path}/state (agent's own data)"


def test_a_folder_in_it_that_a_session_works_in_is_recorded(tmp_path: Path) -> None:
    room = tmp_path / "state/stages/1/work"
    room.mkdir(parents=True)
    (room / "a.txt").write_text("one\n")
    session = Session(room, tmp_path / "state")
    session.run("echo two > a.txt; rm -f a.txt; touch b.txt")
    assert session.planned() == {f"{room}/a.txt", f"{room}/b.txt"}
