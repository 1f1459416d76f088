"""New problems in edited files, in one-shot runs: what the model reads of them, and what runs at all."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.support.checkers import ESLINT, MYPY, RUFF, CheckerFolder
from tests.support.model_server import Call, ModelServer, Reply
from tests.support.program import agent
from tests.support.sandboxes import missing
from tests.support.waiting import gone, soon

pytestmark = pytest.mark.skipif(bool(missing("bubblewrap")), reason=f"NOT TESTED: {missing('bubblewrap')}")
OLD = "first = BAD_before\n\n\n"
BASH = ("--allowedTools", "Bash")
ALLOW_ESLINT = ("--allowedTools", "Bash(eslint:*)")


class Story:
    """Edits of one file in the real program, with checkers of its own on PATH."""

    def __init__(self, work: Path, home: Path) -> None:
        self.work = work
        self.checkers = CheckerFolder(home)
        self.path = self.checkers.path
        self.sandbox = ""

    def run(
        self, name: str, *replies: Reply | Any, options: tuple[str, ...] = (), settings: str = "", text: str = OLD
    ) -> list[str]:
        """Run calls, one reply each. Return what the model was given after each of them, as text."""
        (self.work / name).write_text(text)
        if settings:
            (self.work.parent / "settings.toml").write_text(settings)
            options = (*options, "--settings", str(self.work.parent / "settings.toml"))
        read = Reply(calls=(Call("Read", {"file_path": name}),))
        with ModelServer([read, *replies, Reply(text="Done.")]) as server:
            env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url, "PATH": self.path}
            env["AGENT_SANDBOX_MODE"] = self.sandbox
            done = agent(
                ["-p", "--model", "openai/x", "--permission-mode", "acceptEdits", *options, "--", "go"], self.work, env
            )
            assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
            bodies = [body["messages"] for body in server.bodies]
        return [
            "\n".join(str(m["content"]) for m in after[len(before) + 1 :]) for before, after in pairwise(bodies[1:])
        ]


def appends(name: str, line: str, old: str = OLD) -> Reply:
    return Reply(calls=(Call("Edit", {"file_path": name, "old_string": old, "new_string": f"{old}{line}\n"}),))


@pytest.fixture
def story(work: Path, home: Path) -> Iterator[Story]:
    found = Story(work, home)
    yield found
    found.checkers.close()


def test_what_an_edit_brings_is_reported_and_nothing_else(story: Story) -> None:
    story.checkers.add("ruff", RUFF)
    first, second = story.run(
        "a.py", appends("a.py", "second = BAD_new"), appends("a.py", "third = good", "second = BAD_new\n")
    )
    assert first.endswith(
        "\n[diagnostics: 1 new problem in a.py since this edit:]\na.py:4: second = BAD_new is undefined (ruff F821)"
    )
    assert "BAD_before is" not in first and "diagnostics" not in second
    # Before the first edit, and after each.
    assert len(story.checkers.runs()) == 3


def test_a_checker_that_reads_the_file_itself_reports_the_changed_lines(story: Story) -> None:
    story.checkers.add("mypy", MYPY)
    first, second = story.run(
        "a.py", appends("a.py", "second = BAD_new"), appends("a.py", "third = good", "second = BAD_new\n")
    )
    assert "a.py:4: second = BAD_new has no type (mypy attr-defined)" in first
    assert "BAD_before has" not in first and "diagnostics" not in second


def test_the_setting_switches_it_off(story: Story) -> None:
    story.checkers.add("ruff", RUFF)
    (found,) = story.run("a.py", appends("a.py", "BAD"), settings="[diagnostics]\nenabled = false\n")
    assert "diagnostics" not in found and not story.checkers.runs()
    (found,) = story.run("a.py", appends("a.py", "BAD"), settings='[diagnostics]\nskip = ["ruff"]\n')
    assert "diagnostics" not in found and not story.checkers.runs()


def test_nothing_runs_in_a_project_that_is_not_trusted(story: Story) -> None:
    story.checkers.add("ruff", RUFF)
    (story.work / ".agentrc").write_text('after_turn = "touch evil"\n')
    (found,) = story.run("a.py", appends("a.py", "BAD"))
    assert "diagnostics" not in found and not story.checkers.runs()
    (found,) = story.run("a.py", appends("a.py", "BAD"), options=("--trust", "--allowedTools", "Bash(touch evil)"))
    assert "a.py:4: BAD is undefined" in found and story.checkers.runs()


def test_nothing_runs_without_a_sandbox_unless_a_rule_allows_it(story: Story) -> None:
    story.checkers.add("ruff", RUFF)
    story.sandbox = "off"
    (found,) = story.run("a.py", appends("a.py", "BAD"))
    assert "diagnostics" not in found and not story.checkers.runs()
    (found,) = story.run("a.py", appends("a.py", "BAD"), options=("--allowedTools", "Bash(ruff check:*)"))
    assert "a.py:4: BAD is undefined" in found


@pytest.mark.parametrize("rule", [(), ("--disallowedTools", "Bash(eslint:*)", *ALLOW_ESLINT), ALLOW_ESLINT])
def test_what_runs_code_of_the_project_needs_a_rule(story: Story, rule: tuple[str, ...]) -> None:
    story.checkers.add("eslint", ESLINT)
    (story.work / "eslint.config.js").write_text("export default []\n")
    (found,) = story.run("a.js", appends("a.js", "BAD"), options=rule)
    allowed = rule == ALLOW_ESLINT
    assert ("a.js:4: BAD is bad (eslint no-bad)" in found) is allowed
    assert bool(story.checkers.runs()) is allowed


@pytest.mark.parametrize(
    ("rule", "runs"), [("Bash(ls:*)", False), ("Bash(npx eslint:*)", True), ("Bash(node_modules/.bin/eslint:*)", True)]
)
def test_a_program_of_the_project_needs_a_rule(story: Story, rule: str, runs: bool) -> None:
    story.checkers.add("eslint", ESLINT, story.work / "node_modules/.bin")
    (story.work / ".eslintrc.json").write_text("{}\n")
    (found,) = story.run("a.js", appends("a.js", "BAD"), options=("--allowedTools", rule))
    assert ("a.js:4: BAD is bad" in found) is runs and bool(story.checkers.runs()) is runs


def test_a_ruff_of_the_workspace_on_path_needs_a_rule(story: Story) -> None:
    story.checkers.add("ruff", RUFF, story.work / "env/bin")
    story.path = f"{story.work}/env/bin:{story.path}"
    (found,) = story.run("a.py", appends("a.py", "BAD"))
    assert "diagnostics" not in found and not story.checkers.runs()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("mypy.ini", "[mypy]\nPlugins: evil.py\n"),
        ("pyproject.toml", '[tool.mypy]\n"plug\\u0069ns" = ["evil"]\n'),
        ("setup.cfg", "[mypy]\npython_executable = ./evil\n"),
        ("pyproject.toml", "not TOML"),
    ],
)
def test_mypy_with_plugins_needs_a_rule(story: Story, name: str, text: str) -> None:
    story.checkers.add("mypy", MYPY)
    (story.work / name).write_text(text)
    (found,) = story.run("a.py", appends("a.py", "BAD"))
    assert "diagnostics" not in found and not story.checkers.runs()


def test_what_comes_late_is_in_a_later_request(story: Story) -> None:
    """The checker waits for a file that the next command makes."""
    story.checkers.add("ruff", f"import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\n{RUFF}")
    steps = [Reply(calls=(Call("Bash", {"command": f"touch go; sleep 0.2; echo {n}"}),)) for n in range(15)]
    edit, *later = story.run(
        "a.py", appends("a.py", "BAD"), *steps, options=BASH, settings="[diagnostics]\nwait = 0.2\n"
    )
    assert "diagnostics" not in edit
    text = "\n".join(later)
    assert "[diagnostics: 1 new problem in a.py since your last edit:]\na.py:4: BAD is undefined (ruff F821)" in text
    assert text.count("diagnostics") == 1


def test_a_checker_that_fails_is_named_once_and_given_up(story: Story) -> None:
    story.checkers.add(
        "ruff", f"{RUFF}\nsys.stdout.flush(); sys.exit('no such setting \\x1b[31m')\n".replace("print(", "str(")
    )
    steps = [appends("a.py", f"x{n} = 1", OLD) for n in range(3)]
    first, second, third = story.run("a.py", *steps)
    assert "diagnostics" not in first + third
    assert (
        "[diagnostics: ruff failed with exit code 1: no such setting \\x1b[31m. It will not run again in this session.]"
        in second
    )


@pytest.mark.parametrize("mode", ["push", "pull", "busy"])
def test_a_language_server_is_kept_for_the_session(story: Story, mode: str) -> None:
    story.checkers.add_server("gopls", mode)
    first, second = story.run(
        "a.go",
        appends("a.go", "second BAD_new // HINT"),
        appends("a.go", "third BAD", "second BAD_new // HINT\n"),
        settings="[diagnostics]\nwait = 60\n",
    )
    assert "a.go:4: second BAD_new // HINT is \\x1b[31mbad (fake E1)" in first and "hint" not in first
    assert "1 new problem" in first and "1 new problem" in second and "a.go:5: third BAD is" in second
    log = story.checkers.runs()
    started = [line for line in log if line.startswith("started")]
    assert len(started) == 1 and log[-1] == "exit"


def test_a_server_of_the_users_settings(story: Story) -> None:
    story.checkers.add_server("my-server", "pull")
    settings = '[diagnostics]\nservers = {"*.txt" = "my-server --stdio"}\n'
    (found,) = story.run("b.txt", appends("b.txt", "BAD"), settings=settings)
    assert "b.txt:4: BAD is" in found


@pytest.mark.parametrize("mode", ["die", "garbage"])
def test_a_server_that_dies_costs_the_edit_nothing(story: Story, mode: str) -> None:
    story.checkers.add_server("gopls", mode)
    first, second, third = story.run("a.go", *(appends("a.go", f"BAD{n}", OLD) for n in range(3)))
    assert "diagnostics" not in first + third and "Edited a.go" in third
    assert "[diagnostics: gopls " in second and "not run again" in second


@pytest.mark.parametrize("sandbox", ["", "off"])
@pytest.mark.parametrize("mode", ["hang", "fork"])
def test_no_server_outlives_the_session(story: Story, mode: str, sandbox: str) -> None:
    story.checkers.add_server("gopls", mode)
    story.sandbox = sandbox
    # It is started within that time; one that hangs is waited for to the end.
    settings, rule = f"[diagnostics]\nwait = {5 if mode == 'hang' else 60}\n", ("--allowedTools", "Bash(gopls)")
    story.run("a.go", appends("a.go", "BAD"), settings=settings, options=rule)
    assert soon(lambda: bool(story.checkers.runs()))
    assert not processes_of(story.work)


def processes_of(work: Path) -> list[str]:
    """The command lines of processes that name the workspace or its home, or run in it."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            here = (entry / "cwd").readlink()
        except OSError:
            continue
        if (str(work.parent) in words or here == work) and not gone(int(entry.name)):
            found.append(words)
    return found


def test_a_checker_sees_the_workspace_and_writes_nothing_into_it(story: Story) -> None:
    story.checkers.add("ruff", f"import os\nassert not os.path.exists('.agentrc')\n{RUFF}\nopen('left', 'w')\n")
    (found,) = story.run("a.py", appends("a.py", "BAD"))
    assert "a.py:4: BAD is undefined" in found and not (story.work / "left").exists()


def test_the_real_ruff_and_mypy(story: Story) -> None:
    tools = Path(sys.executable).parent
    if not (tools / "ruff").exists() or not (tools / "mypy").exists():
        pytest.skip("NOT TESTED: ruff and mypy are not installed beside this Python")
    story.path = f"{tools}:/usr/bin:/bin"
    (found,) = story.run(
        "a.py", appends("a.py", "x: int = ''\nprint(undefined_name)"), settings="[diagnostics]\nwait = 60\n"
    )
    assert (
        "a.py:5: Undefined name `undefined_name` (ruff F821)" in found and "BAD_before" not in found.split("[diag")[1]
    )
    assert 'a.py:4: Incompatible types in assignment (expression has type "str", variable has type "int")' in found
    assert not list(story.work.glob(".*_cache"))


def test_the_real_gcc(story: Story) -> None:
    if shutil.which("gcc", path="/usr/bin") is None:
        pytest.skip("NOT TESTED: there is no gcc")
    old = "int before(void) { return missing; }\n"
    edit = appends("a.c", "int after(void) { return nothing; }", old)
    (found,) = story.run("a.c", edit, settings="[diagnostics]\nwait = 60\n", text=old)
    assert "a.c:2: " in found and "nothing" in found.split("a.c:2: ")[1] and "missing" not in found.split("[diag")[1]


@pytest.mark.parametrize("sandbox", ["", "off"])
def test_without_a_checker_python_files_have_their_syntax_checked(story: Story, sandbox: str) -> None:
    story.sandbox = sandbox
    (story.work / "sitecustomize.py").write_text("open('evil', 'w')\n")
    old = "def f():\n    return 1\n"
    replies = [appends("a.py", "print((1)", old), appends("a.py", "x = 1", "print((1)\n")]
    first, second = story.run("a.py", *replies, text=old, settings="[diagnostics]\nwait = 60\n")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert f"1 new problem in a.py since this edit:]\na.py:3: '(' was never closed (python {version})" in first
    assert "diagnostics" not in second and not (story.work / "evil").exists()
    (found,) = story.run(
        "b.py", appends("b.py", "if x\n", old), text=old, settings='[diagnostics]\nskip = ["python"]\n'
    )
    assert "diagnostics" not in found


def test_a_checker_makes_the_check_of_the_syntax_needless(story: Story) -> None:
    story.checkers.add("ruff", RUFF)
    (found,) = story.run("a.py", appends("a.py", "BAD = ("), settings="[diagnostics]\nwait = 60\n")
    assert "a.py:4: BAD = ( is undefined (ruff F821)" in found and "never closed" not in found
