"""`agent demo`: the real engine repairs a real bug; only the words are scripted."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.program import agent, clean_env
from tests.support.pty_session import plain

pexpect = pytest.importorskip("pexpect")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (tmp_path / "tmp").mkdir()
    return folder


def tmp(work: Path, **more: str) -> dict[str, str]:
    return {"TMPDIR": str(work.parent / "tmp"), **more}


def test_red_then_a_diff_then_green(work: Path) -> None:
    done = agent(["demo"], work, env=tmp(work))
    assert done.returncode == 0, done.stdout + done.stderr
    order = [
        "Plan: 0 of 3 done",
        "FAILED (failures=1)",
        "exit code 1",
        " -    return full - discount",
        " +    return full - full * discount // 100",
        "Ran 4 tests",
        "OK",
        "exit code 0",
        "Plan: 3 of 3 done",
        "4 tests ran and all pass",
        "ANTHROPIC_API_KEY",
        "agent doctor",
    ]
    at = 0
    for words in order:
        at = done.stdout.find(words, at)
        assert at >= 0, f"{words!r} is missing or out of order in:\n{done.stdout}"
    assert "\x1b" not in done.stdout
    assert done.stderr == ""


def test_how_to_install_it_is_reported_where_it_is_not_on_the_path(work: Path) -> None:
    folder = work.parent / "bin"
    folder.mkdir()
    path = f"{folder}:/usr/bin:/bin"
    assert "pipx install ." in agent(["demo"], work, env={**tmp(work), "PATH": path}).stdout
    (folder / "agent").write_text("#!/bin/sh\n")
    (folder / "agent").chmod(0o755)
    assert "pipx install ." not in agent(["demo"], work, env={**tmp(work), "PATH": path}).stdout


def test_its_own_words_are_wrapped_between_words(work: Path) -> None:
    shown, status = on_a_terminal(work, [], "--yes", columns=60, term="xterm-256color")
    assert status == 0, shown
    rows = plain(shown).partition("To use it")[2].split("\n")
    assert "ollama/NAME" in " ".join(rows).split()
    assert all(len(row) <= 60 for row in rows), rows


def test_nothing_is_left_behind(work: Path) -> None:
    agent(["demo", "--yes"], work, env=tmp(work))
    assert list(work.iterdir()) == []
    assert list((work.parent / "tmp").iterdir()) == []
    assert list((work.parent / "home").iterdir()) == []


def test_keep_leaves_the_repaired_project_and_says_where(work: Path) -> None:
    done = agent(["demo", "--keep"], work, env=tmp(work))
    match = re.search(r"stays in (\S+)", done.stdout)
    assert match
    assert sorted(p.name for p in Path(match[1]).iterdir()) == ["basket.py", "test_basket.py"]
    assert "full * discount // 100" in (Path(match[1]) / "basket.py").read_text()


@pytest.mark.parametrize(
    "env",
    [
        {"HOME": ""},
        {"HOME": "/nowhere"},
        {"TERM": "dumb"},
        {"FORCE_COLOR": "1"},
        {"PYTHONSAFEPATH": "1"},
        {"LC_ALL": "C"},
    ],
)
def test_it_works_in_odd_surroundings(work: Path, env: dict[str, str]) -> None:
    done = agent(["demo"], work, env=tmp(work, **env))
    assert done.returncode == 0, done.stdout + done.stderr


def test_settings_of_the_folder_it_is_started_in_do_not_count(work: Path) -> None:
    (work / ".agentrc").write_text("this is not TOML")
    assert agent(["demo"], work, env=tmp(work)).returncode == 0


def test_an_interpreter_in_a_folder_with_blanks_and_quotes(work: Path) -> None:
    folder = work.parent / 'my "own" pythons'
    folder.mkdir()
    # A script and not a link: a link would lose the environment that it lives in.
    wrapper = folder / "python"
    wrapper.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    wrapper.chmod(0o755)
    code = f"import sys; sys.executable = {str(wrapper)!r}; sys.argv = ['agent', 'demo']; "
    code += "from agent_cli.__main__ import main; main()"
    env = clean_env(work.parent / "home", **tmp(work))
    output, status = _run(code, env, work)
    assert status == 0, output


def _run(code: str, env: dict[str, str], cwd: Path) -> tuple[str, int]:
    done = subprocess.run([sys.executable, "-c", code], env=env, cwd=cwd, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr, done.returncode


def test_without_a_folder_for_temporary_files_it_says_so(work: Path) -> None:
    code = (
        "import tempfile, sys; tempfile._candidate_tempdir_list = lambda: ['/nowhere']; sys.argv = ['agent', 'demo']; "
    )
    code += "from agent_cli.__main__ import main; main()"
    output, status = _run(code, clean_env(work.parent / "home"), work)
    assert status == 2
    assert output.startswith("agent: There is no folder for temporary files")


def on_a_terminal(
    work: Path, answers: list[str], *args: str, columns: int = 160, term: str = "dumb"
) -> tuple[str, int]:
    """Run the demo on a terminal, line by line where it is a dumb one, and answer its questions in order."""
    env = clean_env(work.parent / "home", **tmp(work, TERM=term))
    command = ["-m", "agent_cli", "demo", "--speed", "0", *args]
    child = pexpect.spawn(sys.executable, command, env=env, cwd=str(work), encoding="utf-8", timeout=60)
    child.setwinsize(50, columns)
    shown = ""
    for answer in answers:
        child.expect_exact("Allow? ")
        shown += str(child.before)
        if answer == "^C":
            child.sendintr()
        else:
            child.sendline(answer)
    child.expect(pexpect.EOF)
    shown += str(child.before)
    child.close()
    return re.sub(r"\x1b\[[0-9;]*m", "", shown).replace("\r\n", "\n"), int(child.exitstatus or 0)


def test_on_a_terminal_a_person_approves(work: Path) -> None:
    shown, status = on_a_terminal(work, ["y"])
    assert status == 0, shown
    assert "y approves" in shown
    assert "Run: python3 -m unittest" in shown
    assert shown.index("+    return full - full * discount // 100") < shown.index("Now the tests again.")


def test_yes_asks_nothing_on_a_terminal(work: Path) -> None:
    shown, status = on_a_terminal(work, [], "--yes")
    assert status == 0, shown


@pytest.mark.parametrize("answer", ["n", "use integers please"])
def test_a_refusal_ends_the_demo_in_words(work: Path, answer: str) -> None:
    shown, status = on_a_terminal(work, [answer])
    assert status == 0
    assert "so I stop here" in shown
    assert "because a call was refused" in shown
    assert "/todos" not in shown
    assert "script" not in shown.partition("One test")[2]
    assert list((work.parent / "tmp").iterdir()) == []


def test_ctrl_c_at_the_question_ends_it_and_cleans_up(work: Path) -> None:
    shown, status = on_a_terminal(work, ["^C"])
    assert status == 130, shown
    assert "KeyboardInterrupt" not in shown
    assert list((work.parent / "tmp").iterdir()) == []


def test_a_folder_that_was_deleted_under_it_does_not_matter(work: Path) -> None:
    code = "import os, sys; os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone'); sys.argv = ['agent', 'demo']; "
    code += "from agent_cli.__main__ import main; main()"
    output, status = _run(code, clean_env(work.parent / "home", **tmp(work)), work)
    assert status == 0, output
    assert list(work.iterdir()) == []


def test_a_reader_that_leaves_early_ends_it_quietly(work: Path) -> None:
    command = f"'{sys.executable}' -m agent_cli demo | head -n 1; exit ${{PIPESTATUS[0]}}"
    env = clean_env(work.parent / "home", **tmp(work))
    done = subprocess.run(["bash", "-c", command], cwd=work, env=env, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.returncode == 141
    assert list((work.parent / "tmp").iterdir()) == []
