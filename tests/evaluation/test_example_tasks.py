"""The example tasks: each check fails on the untouched repository and for wrong work, and passes for right work."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_tools.record import Value
from tests.support.fork_server import ROOT
from tests.support.repositories import git

# The second ten are for protocols that were tuned with the first.
SETS = (ROOT / "benchmarks" / "tasks", ROOT / "benchmarks" / "unseen")
TASKS = {folder.name: folder for tasks in SETS for folder in sorted(tasks.iterdir()) if folder.is_dir()}


class Work(Value):
    """What somebody does on a task: replacements and new files, an answer, a commit."""

    answer: str = "Done."
    edit: tuple[tuple[str, str, str], ...] = ()
    write: tuple[tuple[str, str], ...] = ()
    move: tuple[tuple[str, str], ...] = ()
    commit: str = ""

    def do(self, folder: Path) -> None:
        for name, old, new in self.edit:
            text = (folder / name).read_text()
            assert old in text
            (folder / name).write_text(text.replace(old, new))
        for name, text in self.write:
            (folder / name).write_text(text)
        for name, new in self.move:
            (folder / new).parent.mkdir(exist_ok=True)
            (folder / name).rename(folder / new)
        if self.commit:
            git(folder, "commit", "-qam", self.commit)


TOUCHED = (("new.txt", "a trace"),)
TESTS = """import unittest
from slug import slugify

class SlugTest(unittest.TestCase):
    def test_small(self):
        self.assertEqual(slugify("ABC"), "abc")

    def test_dashes(self):
        self.assertEqual(slugify("a b c"), "a-b-c")
"""
MODULE = """def to_celsius(f):
    return round((f - 32) * 5 / 9, 1)

def to_fahrenheit(c):
    return round(c * 9 / 5 + 32, 1)
"""
VERSION = ("version.txt", "1.4.0", "1.5.0")
RENAMED = (("cart.py", "calc", "total_price"), ("report.py", "calc", "total_price"))
PATHS = "./config/server.yaml\n./deploy/production.yml\n./deploy/staging/values.yaml"
TIMEOUT = ("settings.ini", "timeout = 30", "timeout = 90")
MEDIAN = ("stats.py", "ordered[middle] + ordered[middle]", "ordered[middle - 1] + ordered[middle]")

HOURS = (("wage.py", "* h\n", "* hours\n"), ("wage.py", "if h >", "if hours >"), ("wage.py", "(h -", "(hours -"))

RIGHT = {
    "change-config": Work(edit=(TIMEOUT,)),
    "create-file": Work(write=(("temperature.py", MODULE),)),
    "explain-function": Work(answer="It returns **156**: 145 pieces are 12.08 packs of 12, so 13 packs."),
    "find-definition": Work(answer="`planner/text/units.py:11`"),
    "fix-bug": Work(edit=(MEDIAN,)),
    "git-commit": Work(edit=(VERSION,), commit="Release 1.5.0"),
    "list-files": Work(answer=PATHS),
    "rename-function": Work(edit=RENAMED),
    "run-tests": Work(answer="`test_parse_tenths` fails: it expected 350, and got 305."),
    "write-test": Work(write=(("test_slug.py", TESTS),)),
    "add-constant": Work(edit=(("limits.py", "MIN_RETRIES = 1\n", "MIN_RETRIES = 1\nMAX_RETRIES = 5\n"),)),
    "count-functions": Work(answer="It has 4 functions: square, circle, ring, and area inside ring."),
    "create-json": Work(write=(("package.json", '{"name": "demo", "version": "1.0.0"}'),)),
    "find-import": Work(answer="`app/store.py`"),
    "fix-index": Work(edit=(("items.py", "items[len(items)]", "items[-1]"),)),
    "fix-spelling": Work(edit=(("README.md", "recieve", "receive"),)),
    "move-file": Work(move=(("notes.txt", "docs/notes.txt"),)),
    "remove-line": Work(edit=(("app.toml", "debug = true\n", ""),)),
    "rename-variable": Work(edit=(("wage.py", "h = 38", "hours = 38"), *HOURS)),
    "run-program": Work(answer="203"),
}

# Who commits the work unasked has done it all the same.
COMMITTED = {name: RIGHT[name].replace(commit="Done") for name in ("change-config", "fix-bug", "rename-function")}

WRONG = [
    ("explain-function", Work(answer="156", edit=(("stock.py", "25", "24"),), commit="Oops")),
    ("fix-bug", Work(edit=(MEDIAN, ("test_stats.py", "2.5", "3")), commit="Fix")),
    ("change-config", Work(edit=(("settings.ini", "timeout = ", "timeout = 90 ; was "),))),
    ("change-config", Work(edit=(TIMEOUT, ("settings.ini", "; One of", "; Any of")))),
    ("create-file", Work(write=(("temperature.py", MODULE.replace(", 1)", ")")),))),
    ("create-file", Work(write=(("temperature.py", "raise SystemExit(0)\n"),))),
    ("explain-function", Work(answer="It returns 145.")),
    ("explain-function", Work(answer="156", write=TOUCHED)),
    ("find-definition", Work(answer="planner/durations.py:11")),
    ("find-definition", Work(answer="planner/text/units.py:111")),
    ("find-definition", Work(answer="planner/text/units.py:11", write=TOUCHED)),
    ("fix-bug", Work(write=(("stats.py", "def mean(v): return 3.0\ndef median(v): return 2.5\n"),))),
    ("fix-bug", Work(write=(("stats.py", "raise SystemExit(0)\n"),))),
    ("fix-bug", Work(edit=(MEDIAN, ("test_stats.py", "2.5", "3")))),
    ("git-commit", Work(edit=(VERSION,))),
    ("git-commit", Work(edit=(VERSION,), commit="release")),
    ("git-commit", Work(edit=(VERSION, ("README.md", "Clock", "Watch")), commit="Release 1.5.0")),
    ("list-files", Work(answer=PATHS.replace("./deploy/production.yml", ""))),
    ("list-files", Work(answer=PATHS + "\n./config/gateway.yaml.bak")),
    ("list-files", Work(answer=PATHS, write=TOUCHED)),
    ("rename-function", Work(edit=RENAMED[:1])),
    ("rename-function", Work(edit=(*RENAMED, ("cart.py", "price * count", "price")))),
    ("run-tests", Work(answer="All tests pass.")),
    ("run-tests", Work(answer="test_parse_tenths or test_parse_cents")),
    ("run-tests", Work(answer="test_parse_tenths", edit=(("money.py", "int(part or 0)", "350"),))),
    ("add-constant", Work(edit=(("limits.py", "\nPAUSE", "\nMAX_RETRIES = 5\nPAUSE"),))),
    ("count-functions", Work(answer="It has 13 functions.")),
    ("create-json", Work(write=(("package.json", '{"name": "demo", "version": "1.0.0", "main": "index.js"}'),))),
    ("find-import", Work(answer="app/view.py")),
    ("fix-index", Work(edit=(("items.py", "items[len(items)]", "3"),))),
    ("fix-spelling", Work(edit=(("README.md", "recieve mail", "receive post"),))),
    ("move-file", Work(write=(("docs.txt", "Buy milk.\n"),))),
    ("remove-line", Work(edit=(("app.toml", "debug = true", "debug = false"),))),
    ("rename-variable", Work(edit=(("wage.py", "h = 38", "hours = h = 38"),))),
    ("run-program", Work(answer="It prints 29.")),
    ("write-test", Work(write=(("test_slug.py", TESTS.replace('"a-b-c"', '"a b c"')),))),
    ("write-test", Work(write=(("test_slug.py", TESTS.replace('"a b c"', '"a-b-c"')),))),
    ("write-test", Work(write=(("test_slug.py", "import slug\n"),))),
    ("write-test", Work(edit=(("slug.py", "title", "name"),), write=(("test_slug.py", TESTS),))),
]

Check = Callable[[str, Work | None], subprocess.CompletedProcess[str]]


@pytest.fixture
def check(tmp_path: Path) -> Check:
    """Return a function that runs the check of a task on a fresh repository after some work."""

    def run(name: str, work: Work | None) -> subprocess.CompletedProcess[str]:
        folder, result = tmp_path / "work", tmp_path / "answer.txt"
        shutil.copytree(TASKS[name] / "repo", folder)
        git(folder, "init", "-q")
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", "start")
        result.write_text(work.answer if work else "")
        if work:
            work.do(folder)
        env = {**os.environ, "AGENT_EVAL_RESULT": str(result)}
        return subprocess.run([TASKS[name] / "check"], cwd=folder, env=env, capture_output=True, text=True, timeout=60)

    return run


def test_each_task_has_a_prompt_a_repository_a_check_and_a_solution() -> None:
    assert TASKS.keys() == RIGHT.keys()
    for folder in TASKS.values():
        assert (folder / "prompt.md").read_text().strip()
        assert any((folder / "repo").iterdir())
        assert os.access(folder / "check", os.X_OK)


@pytest.mark.parametrize("name", RIGHT)
def test_the_check_fails_where_nothing_was_done(name: str, check: Check) -> None:
    done = check(name, None)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1, "one line says what is wrong"


@pytest.mark.parametrize("name", RIGHT)
def test_the_check_passes_for_a_right_solution(name: str, check: Check) -> None:
    done = check(name, RIGHT[name])
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", COMMITTED)
def test_the_check_passes_where_the_work_was_committed(name: str, check: Check) -> None:
    done = check(name, COMMITTED[name])
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("name", "work"), WRONG)
def test_the_check_fails_for_wrong_work(name: str, work: Work, check: Check) -> None:
    done = check(name, work)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
