"""Checkers and servers in one process: those that hang, leave processes, or are asked by sub-agents."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_tools.cancel import CancelToken
from agent_tools.diagnostics import commands, language_server
from agent_tools.diagnostics.feedback import EditDiagnostics
from tests.support.checkers import MYPY, RUFF, CheckerFolder
from tests.support.tool_bench import TOOLS, Bench
from tests.support.waiting import gone, soon


@pytest.fixture
def bench(work: Path, checkers: CheckerFolder) -> Iterator[Bench]:
    """Every command is allowed by a rule; there is no sandbox."""
    found = Bench(work)
    found.ctx.env["PATH"] = checkers.path
    found.ctx.command_rule = lambda command: True
    yield found
    found.ctx.close()


def given_up(bench: Bench, name: str) -> str:
    """What is said in the end about a checker that fails at each of two edits."""
    lines = [bench("Write", file_path=name, content=f"BAD{n}").text for n in range(2)]
    assert soon(lambda: "not run again" in "".join(lines.extend(bench.ctx.notices()) or lines), 30)
    return "\n".join(lines)


def test_a_checker_that_hangs_is_ended(bench: Bench, checkers: CheckerFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "TIMEOUT_SECONDS", 0.3)
    checkers.add("ruff", f"import os, time\nopen(LOG, 'w').write(f'{{os.getpid()}}\\n')\ntime.sleep(99)\n{RUFF}")
    found = given_up(bench, "a.py")
    assert "[diagnostics: ruff was stopped after 0.3 s. It will not run again in this session.]" in found
    assert all(gone(int(pid)) for pid in checkers.runs())


def test_what_a_checker_leaves_behind_is_ended(bench: Bench, checkers: CheckerFolder) -> None:
    child = "import subprocess\nc = subprocess.Popen(['sleep', '99'], start_new_session=True, stdout=-3, stderr=-3)\n"
    checkers.add("ruff", f"{child}open(LOG, 'w').write(f'{{c.pid}}\\n')\n{RUFF}")
    bench("Write", file_path="a.py", content="BAD")
    assert soon(lambda: bool(checkers.runs()), 20)
    assert soon(lambda: gone(int(checkers.runs()[0])), 20)


def test_an_interrupt_ends_the_wait(bench: Bench, checkers: CheckerFolder) -> None:
    checkers.add("ruff", "import time\ntime.sleep(60)\n")
    bench.ctx.settings["diagnostics"] = {"wait": 60}
    token = bench.ctx.cancel = CancelToken()
    threading.Timer(0.2, token.cancel).start()
    began = time.monotonic()
    bench("Write", file_path="a.py", content="BAD")
    assert time.monotonic() - began < 30


def test_an_edit_does_not_wait_again_for_one_that_was_late(bench: Bench, checkers: CheckerFolder) -> None:
    checkers.add("ruff", "import time\ntime.sleep(60)\n")
    bench.ctx.settings["diagnostics"] = {"wait": 1.0}
    waited = []
    for n in range(3):
        began = time.monotonic()
        bench("Write", file_path="a.py", content=f"BAD{n}")
        waited.append(time.monotonic() - began)
    assert waited[0] >= 1 and min(waited[1:]) < 1


def test_sub_agents_share_a_server_and_hear_of_their_own_edits(bench: Bench, checkers: CheckerFolder) -> None:
    checkers.add_server("gopls")
    bench.ctx.settings["diagnostics"] = {"wait": 30}
    bench("Write", file_path="a.go", content="BAD 1\n")
    other = Bench(bench.root)
    other.ctx = bench.ctx.nested()
    assert "b.go:1: BAD 2 is" in other("Write", file_path="b.go", content="BAD 2\n").text
    assert sum(line.startswith("started") for line in checkers.runs()) == 1
    bench.ctx.settings["diagnostics"]["wait"] = 0
    other("Write", file_path="c.go", content="BAD 3\n")
    state = bench.ctx.state(EditDiagnostics)
    assert soon(lambda: bool(state.unreported), 30)
    sibling = bench.ctx.nested()
    assert not sibling.notices() and "c.go:1: BAD 3" in "".join(other.ctx.notices()) and not bench.ctx.notices()


def test_edits_of_one_answer_are_checked_once_after_the_last(bench: Bench, checkers: CheckerFolder) -> None:
    checkers.add("ruff", RUFF)
    bench.ctx.settings["diagnostics"] = {"wait": 30}
    bench.ctx.edits_follow = True
    assert "diagnostics" not in bench("Write", file_path="a.py", content="BAD = 1\n").text
    assert "diagnostics" not in bench("Write", file_path="b.py", content="BAD = 2\n").text
    bench.ctx.edits_follow = False
    found = bench("Write", file_path="a.py", content="good = 1\n").text
    assert "[diagnostics: 1 new problem in b.py since these edits:]" in found and "a.py:" not in found
    assert len([line for line in checkers.runs() if "a.py" in line]) == 1


def test_edits_are_checked_where_the_last_of_an_answer_is_not_made(bench: Bench, checkers: CheckerFolder) -> None:
    checkers.add("ruff", RUFF)
    bench.ctx.settings["diagnostics"] = {"wait": 30}
    bench.ctx.edits_follow = True
    bench("Write", file_path="a.py", content="BAD = 1\n")
    bench.ctx.edits_follow = False
    bench.fails("Edit", file_path="a.py", old_string="not there", new_string="x")
    assert "1 new problem in a.py since your last edit" in "".join(bench.ctx.notices())


@pytest.mark.parametrize(("second", "reported"), [("one\ntwo\n", 0), ("one\ntwo\nBAD 1\n", 1)])
def test_problems_of_a_text_that_is_gone_are_not_reported(
    bench: Bench, checkers: CheckerFolder, second: str, reported: int
) -> None:
    checkers.add_server("gopls")
    bench.ctx.settings["diagnostics"] = {"wait": 0}
    bench("Write", file_path="a.go", content="BAD 1\n")
    state = bench.ctx.state(EditDiagnostics)
    assert soon(lambda: bool(state.unreported), 30)
    heard = [bench("Write", file_path="a.go", content=second).text]
    bench("Write", file_path="b.go", content="BAD 2\n")
    assert soon(lambda: "BAD 2" in "".join(heard.extend(bench.ctx.notices()) or heard), 30)
    assert "".join(heard).count("a.go:3: BAD 1 is") == "".join(heard).count("BAD 1") == reported


def test_a_server_that_hangs_is_ended(bench: Bench, checkers: CheckerFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language_server, "TIMEOUT_SECONDS", 0.3)
    checkers.add_server("gopls", "hang")
    found = given_up(bench, "a.go")
    assert "[diagnostics: gopls did not answer in time. It will not run again in this session.]" in found
    started = [line.split()[1] for line in checkers.runs() if line.startswith("started")]
    assert len(started) == 2 and all(gone(int(pid)) for pid in started)


def test_where_a_server_does_not_start_the_next_of_its_group_is_used(bench: Bench, checkers: CheckerFolder) -> None:
    checkers.add_server("gopls", "absent")
    checkers.add("gofmt", "import sys\nprint('<standard input>:1:1: expected package', file=sys.stderr)\nsys.exit(2)\n")
    bench.ctx.settings["diagnostics"] = {"wait": 30}
    assert "diagnostics" not in bench("Write", file_path="a.go", content="x").text
    assert "b.go:1: expected package (gofmt)" in bench("Write", file_path="b.go", content="x").text


def test_without_a_checker_nothing_is_started(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.ctx.env["PATH"] = os.fspath(bench.root)
    before = threading.active_count()
    assert bench("Write", file_path="a.go", content="BAD").text == "Created a.go (1 line)."
    assert bench("Write", file_path="b.txt", content="BAD").text == "Created b.txt (1 line)."
    assert threading.active_count() == before


@pytest.mark.parametrize("tool", ["Edit", "MultiEdit", "apply_patch", "Write"])
def test_every_tool_that_edits_reports(bench: Bench, checkers: CheckerFolder, tool: str) -> None:
    checkers.add("ruff", RUFF)
    bench.ctx.settings["diagnostics"] = {"wait": 30}
    bench.file("a.py", "one\n")
    bench("Read", file_path="a.py")
    arguments = {
        "Edit": {"file_path": "a.py", "old_string": "one", "new_string": "BAD"},
        "MultiEdit": {"edits": [{"file_path": "a.py", "old_string": "one", "new_string": "BAD"}]},
        "apply_patch": {"patch": "*** Begin Patch\n*** Update File: a.py\n@@\n-one\n+BAD\n*** End Patch"},
        "Write": {"file_path": "a.py", "content": "BAD\n"},
    }
    name = next(name for name in TOOLS if name.lower().replace("_", "") == tool.lower().replace("_", ""))
    assert "a.py:1: BAD is undefined (ruff F821)" in bench(name, **arguments[tool]).text


@pytest.mark.parametrize(
    ("old", "new", "shown"),
    [
        ("x = 1\n", "x = (\n", "a.py:1: '(' was never closed (python "),
        ("x = 1\n", "def f(:\n", "a.py:1: invalid syntax (python "),
        ("x = 1\n", "x = 1\n  y = 2\n", "a.py:2: unexpected indent (python "),
        ("x = 1\n", "return 1\n", "a.py:1: 'return' outside function (python "),
        ("x = 1\n", 'x = "\\d"\n', ""),
        ("x = 1\n", "((((" * 4_000, None),
        ("x = 1\n", "x = 1\0\n", None),
        # It does not parse before the edit either, as with a newer Python's syntax.
        ("try: f()\nexcept!: pass\n", "try: f()\nexcept!: pass\nx = 1\n", ""),
        ("print 'old'\n", "print 'old'\nprint('new')\n", ""),
    ],
)
def test_syntax_is_checked_without_any_checker(bench: Bench, old: str, new: str, shown: str | None) -> None:
    bench.ctx.command_rule = lambda command: None
    bench.ctx.settings["diagnostics"] = {"wait": 60}
    bench.file("a.py", old)
    bench("Read", file_path="a.py")
    found = bench("Write", file_path="a.py", content=new).text
    assert "not run again" not in found
    if shown is not None:
        assert shown in found if shown else "diagnostics" not in found
        # The user reads the same problems.
        assert [line for line in "".join(bench.progress).split("\n") if line] == [
            line for line in found.split("\n") if "(python " in line
        ]


@pytest.mark.parametrize(
    ("name", "text", "checked"),
    [
        ("pyproject.toml", '[tool.mypy]\nfiles = ["src", "tests/typing"]\n', ["src/a.py", "tests/typing/b.py"]),
        ("mypy.ini", "[mypy]\nfiles = src/a.py, tests/*.py\n", ["src/a.py", "tests/c.py"]),
        ("setup.cfg", "[mypy]\nfiles = .\n", ["src/a.py", "tests/typing/b.py", "tests/c.py"]),
        ("pyproject.toml", "[tool.mypy]\nstrict = true\n", ["src/a.py", "tests/typing/b.py", "tests/c.py"]),
    ],
)
def test_mypy_is_not_asked_about_files_that_the_project_does_not_have_it_check(
    bench: Bench, checkers: CheckerFolder, name: str, text: str, checked: list[str]
) -> None:
    checkers.add("mypy", MYPY)
    bench.ctx.settings["diagnostics"] = {"wait": 30}
    bench.file(name, text)
    bench.file("tests/c.py", "")
    found = []
    for path in ("src/a.py", "tests/typing/b.py", "tests/c.py"):
        bench("Read", file_path=path) if path == "tests/c.py" else None
        if "mypy attr-defined" in bench("Write", file_path=path, content="x = BAD\n").text:
            found.append(path)
    assert found == checked
