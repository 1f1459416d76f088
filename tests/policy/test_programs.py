"""The programs that developers have: each has its three lines, and the allowed one is run where it is installed.

A line that only reads changes no file. One that a rule allows changes, at most, the files that the gate expects.
"""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import tarfile
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from agent_cli.policy.programs.archives import ARCHIVE_ROWS
from agent_cli.policy.programs.invocation import Invocation, invocation
from agent_cli.policy.programs.rows.files import FILE_ROWS
from agent_cli.policy.programs.table import row_of
from agent_cli.policy.shell.analysis import analyse
from agent_tools.fs.workspace import Workspace
from agent_tools.shell.state import NON_INTERACTIVE
from tests.policy.corpus import Case
from tests.policy.corpus.place import PATH, build
from tests.policy.corpus.programs import ALLOWED, ASKED, CASES, PROGRAMS, SERVICES, STOPPED

LINES = [case for case in CASES if case.kind == ALLOWED]
SOURCES = {
    "x.c": "int main(void) { return 0; }\n",
    "x.cpp": "int main() { return 0; }\n",
    "x.o": "",
    "src/main.rs": "fn main() {}\n",
    "src/Main.java": "class Main {}\n",
    "c.txt": "c\n",
    "lib.a": "!<arch>\n",
    "src/x.lua": "print(1)\n",
}


def named(case: Case) -> str:
    return case.command.split(" ")[0]


def test_every_program_has_a_line_that_is_allowed_one_that_asks_and_one_that_a_deny_rule_stops() -> None:
    assert len(PROGRAMS) == 188
    for kinds in ((ALLOWED, SERVICES), (ASKED,), (STOPPED,)):
        assert Counter(named(case) for case in CASES if case.kind in kinds) == Counter(PROGRAMS)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("programs")
    root = build(folder, git=True)
    for name, text in SOURCES.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    (root / "build").mkdir()
    (root / "x.gz").write_bytes(gzip.compress(b"x\n"))
    for name in ("x.zip", "x.jar"):
        with zipfile.ZipFile(root / name, "w") as opened:
            opened.writestr("a.txt", "a\n")
    with tarfile.open(root / "x.tar", "w") as tar:
        tar.add(root / "a.txt", "a.txt")
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    found = {}
    for here, folders, names in os.walk(folder):
        links = [name for name in folders if Path(here, name).is_symlink()]
        for name in (*names, *links):
            path = Path(here, name)
            found[str(path.relative_to(folder))] = bytes(path.readlink()) if path.is_symlink() else path.read_bytes()
    return found


def run(command: str, folder: Path) -> int:
    variables = {"PATH": PATH, "HOME": str(folder / "home"), **NON_INTERACTIVE}
    done = subprocess.run(
        ["/bin/bash", "--noprofile", "--norc", "-c", command],
        cwd=folder / "work",
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        start_new_session=True,
        check=False,
    )
    return done.returncode


def expects(parts: list[Invocation], path: str) -> bool:
    """Whether the gate expects a line to change a file; a packed file or a piece of one is named after the first."""
    kinds = ("write", "into", "remove")
    named = [os.path.normpath(f"work/{t.word.text}") for part in parts for t in part.touches if t.kind in kinds]
    return any(path == name or path.startswith((f"{name}/", f"{name}.")) for name in named)


@pytest.mark.slow
@pytest.mark.parametrize("case", LINES, ids=named)
def test_an_allowed_line_changes_only_what_the_gate_expects(case: Case, place: Path, tmp_path: Path) -> None:
    name = named(case)
    if shutil.which(name, path=PATH) is None:
        pytest.skip(f"NOT TESTED: {name} is not installed")
    folder = tmp_path / "run"
    parts = [invocation(part) for part in analyse(case.command, str(folder / "work"), str(folder / "home")).parts]
    leaves = row_of(name).outside or any(
        part.network or part.outside_reason(Workspace(tmp_path), PATH) for part in parts
    )
    if case.allow and leaves:
        pytest.skip(f"NOT TESTED: {name} is about more than this tree")
    shutil.copytree(place, folder, symlinks=True)
    before = contents(folder)
    code = run(case.command, folder)
    after = contents(folder)
    changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    if not case.allow:
        assert not changed and code in (0, 1)
    elif name in FILE_ROWS or name in ARCHIVE_ROWS:
        named_elsewhere = any(touch.kind in ("names", "unpack") for part in parts for touch in part.touches)
        assert code in (0, 1)
        assert all(expects(parts, path) or (named_elsewhere and path.startswith("work/")) for path in changed), changed
    else:
        assert not [path for path in changed if path.startswith(("outside/", "work/.git/", "work/docs/"))]
