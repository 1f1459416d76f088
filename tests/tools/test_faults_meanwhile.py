"""Files that vanish or change between a tool's look and its use, folders removed while they are walked, many files."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_tools.fs import files
from tests.support.file_faults import FOLDERS, calls, outcome, within
from tests.support.hypothesis_examples import examples
from tests.support.racing_workspace import racing
from tests.support.tool_bench import Bench

FILES = examples(50_000)
# At these moments of one call the file is looked at; each time it may turn into something else just afterwards.
LOOKED_AT = ("Read", "Write", "Edit", "MultiEdit", "NotebookRead", "NotebookEdit")


def gone(path: Path) -> None:
    path.unlink()


def a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def a_circle(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def a_gigabyte(path: Path) -> None:
    os.truncate(path, 1 << 30)


@pytest.mark.parametrize("tool", LOOKED_AT)
@pytest.mark.parametrize(
    ("become", "words"),
    [
        (gone, "does not exist"),
        (a_pipe, "is a named pipe"),
        (a_folder, "is a directory"),
        (a_circle, "is a symbolic link"),
        (a_gigabyte, "too large"),
    ],
)
def test_it_becomes_something_else_after_the_look(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, tool: str, become: Callable[[Path], None], words: str
) -> None:
    path = bench.file("x", "old\n")
    bench("Read", file_path="x")
    really = files.open_file

    def late(there: Path) -> int:
        become(path)
        return really(there)

    monkeypatch.setattr(files, "open_file", late)
    with within(60):
        found = bench.fails(tool, **calls("x")[tool])
    assert words in found and [p.name for p in bench.root.iterdir()] == ([] if become is gone else ["x"])


@pytest.mark.parametrize("tool", ["Write", "Edit", "MultiEdit"])
@pytest.mark.parametrize("become", [gone, a_pipe, a_folder, a_circle, a_gigabyte])
def test_it_becomes_something_else_before_the_write(bench: Bench, tool: str, become: Callable[[Path], None]) -> None:
    path = bench.file("x", "old\n")
    bench("Read", file_path="x")
    racing(bench, 1, lambda: become(path))
    with within(60):
        found = bench.fails(tool, **calls("x")[tool])
    assert "\n" not in found and "Errno" not in found
    assert [p.name for p in bench.root.iterdir()] == ([] if become is gone else ["x"])


@pytest.fixture
def vanishing(bench: Bench) -> Iterator[Bench]:
    """A workspace of which one folder is made and removed again all the time."""
    stop = threading.Event()

    def churn() -> None:
        while not stop.is_set():
            for n in range(20):
                (bench.root / f"v/d{n}").mkdir(parents=True, exist_ok=True)
                (bench.root / f"v/d{n}/f").write_text("needle\n")
                (bench.root / f"v/d{n}/link").symlink_to("f")
            shutil.rmtree(bench.root / "v")

    bench.file("stays", "needle\n")
    thread = threading.Thread(target=churn)
    thread.start()
    yield bench
    stop.set()
    thread.join()


@pytest.mark.parametrize("with_rg", [True, False])
def test_folders_removed_while_they_are_walked(vanishing: Bench, with_rg: bool, request: pytest.FixtureRequest) -> None:
    if not with_rg:
        request.getfixturevalue("without_rg")
    for _ in range(examples(45)):
        with within(60):
            assert "stays" in vanishing("Grep", pattern="needle", head_limit=0).text
            assert "No matches" in vanishing("Grep", pattern="nowhere").text
            assert "stays" in vanishing("Glob", pattern="**/*").text
            assert "stays" in vanishing("LS", path=".").text
            for tool, arguments in (("Glob", {"pattern": "*", "path": "v"}), ("LS", {"path": "v"})):
                assert_a_sentence(vanishing, tool, arguments)
            assert_a_sentence(vanishing, "Grep", {"pattern": "needle", "path": "v"})


def assert_a_sentence(bench: Bench, tool: str, arguments: dict[str, Any]) -> None:
    """The call works, or says that its folder is gone."""
    try:
        bench(tool, **arguments)
    except files.ToolError as error:
        assert "does not exist" in str(error) or "No such file" in str(error), error


def test_the_working_directory_is_gone(bench: Bench) -> None:
    (bench.root / "s").mkdir()
    bench("Bash", command="cd s")
    (bench.root / "s").rmdir()
    for tool, arguments in (("Glob", {"pattern": "*"}), ("Grep", {"pattern": "x"}), ("LS", {"path": "."})):
        worked, text = outcome(bench, tool, arguments)
        assert not worked and "s is gone. Use absolute paths. Bash goes back to the root." in text
    assert "does not exist, nor does its directory" in bench.fails("Read", file_path="a")
    assert f"no longer exists: this ran in {bench.root}]" in bench("Bash", command="pwd").text


@pytest.mark.parametrize("tool", ["Grep", "Bash"])
def test_half_a_character_is_no_crash(bench: Bench, tool: str) -> None:
    wrong = {"pattern": "\ud800"} if tool == "Grep" else {"command": "echo \ud800", "run_in_background": True}
    assert "half a surrogate pair" in bench.fails(tool, **wrong)


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of many files."""
    folder = tmp_path_factory.mktemp("crowd") / "many"
    folder.mkdir()
    for number in range(FILES):
        os.close(os.open(folder / f"f{number}.txt", os.O_CREAT))
    return folder


@pytest.mark.slow
def test_very_many_files_in_one_folder(crowd: Path) -> None:
    bench = Bench(crowd)
    shown = {"Glob": f"[{FILES - 100:,} older", "LS": f"[{FILES - 60:,} more entries]", "Grep": "No matches"}
    for tool in (*FOLDERS, "Grep"):
        with within(60):
            assert shown[tool] in bench(tool, **calls(".")[tool]).text
    for tool in ("Read", "Edit", "MultiEdit", "NotebookRead", "LS"):
        with within(60):
            assert "Near it: f123.txt" in bench.fails(tool, **calls("g123.txt")[tool])
    with within(60):
        assert "Created" in bench("Write", file_path="new.txt", content="x\n").text
