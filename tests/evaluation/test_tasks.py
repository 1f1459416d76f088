"""Tasks as they are read: what a task.toml may say, and a sentence for each mistake."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agent_cli.extras.evaluation.tasks import read_tasks
from agent_cli.kernel.run_environment import UsageError

Make = Callable[..., Path]


def test_the_files_of_a_folder(tmp_path: Path, make: Make) -> None:
    for name in ("b", "a", ".hidden", "_shared"):
        make(tmp_path / name, "true")
    (tmp_path / "README.md").write_text("About these.")
    found = read_tasks(tmp_path)
    assert [task.name for task in found] == ["a", "b"]
    assert (found[0].prompt, found[0].check) == ("Do it.\n", (str(tmp_path / "a/check"),))
    assert (found[0].repo, found[0].fetched, found[0].timeout) == (str(tmp_path / "a/repo"), False, 600.0)
    assert [task.name for task in read_tasks(tmp_path, ["b"])] == ["b"]
    assert [task.name for task in read_tasks(tmp_path / "a")] == ["a"]


def test_all_keys_of_task_toml(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t/task.toml").write_text(
        'prompt = "Go."\nrepo = "git@example.org:a/b.git"\ncommit = "v1"\nsetup = "true"\ncheck = "make test"\n'
        "check_sandbox = false\ntimeout = 9\ncheck_timeout = 1.5\nmax_cost = 2\n[settings]\nmax_rounds = 3\n"
    )
    (task,) = read_tasks(tmp_path)
    assert (task.prompt, task.repo, task.fetched, task.commit) == ("Go.", "git@example.org:a/b.git", True, "v1")
    assert (task.setup, task.check, task.check_sandbox) == ("true", ("bash", "-c", "make test"), False)
    assert (task.timeout, task.check_timeout, task.max_cost, task.settings) == (9, 1.5, 2, {"max_rounds": 3})


def test_a_path_is_a_folder_or_a_repository(tmp_path: Path, make: Make) -> None:
    source = tmp_path / "source"
    source.mkdir()
    folder = make(tmp_path / "tasks/t", "true", toml='repo = "../../source"\n')
    assert (read_tasks(folder)[0].repo, read_tasks(folder)[0].fetched) == (str(source), False)
    (source / ".git").mkdir()
    assert (read_tasks(folder)[0].fetched, read_tasks(folder)[0].commit) == (True, "HEAD")


@pytest.mark.parametrize(
    ("toml", "words"),
    [
        ("timout = 3", "there is no key timout; did you mean timeout?"),
        ("zzz = 3", "there is no key zzz; the keys are prompt, repo"),
        ('timeout = "3"', "timeout must be a number"),
        ("timeout = true", "timeout must be a number"),
        ("timeout = 0", "timeout must be more than 0"),
        ("check_sandbox = 1", "check_sandbox must be true or false"),
        ("settings = 1", "settings must be a table"),
        ("timeout = ", "task.toml: Invalid value"),
        ('commit = "x"', "commit needs repo"),
        ('repo = "nowhere"', "nowhere is not a folder"),
        ('repo = "repo"\ncommit = "x"', "is not a git repository"),
    ],
)
def test_mistakes_in_task_toml(tmp_path: Path, make: Make, toml: str, words: str) -> None:
    with pytest.raises(UsageError) as error:
        read_tasks(make(tmp_path / "t", "true", toml=toml))
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_mistakes_in_the_files(tmp_path: Path, make: Make) -> None:
    folder = make(tmp_path / "t", "true")
    (folder / "check").chmod(0o644)
    with pytest.raises(UsageError, match="is not executable: chmod"):
        read_tasks(tmp_path)
    (folder / "check").unlink()
    with pytest.raises(UsageError, match="has no check"):
        read_tasks(tmp_path)
    (folder / "prompt.md").write_text(" \n")
    with pytest.raises(UsageError, match="has no prompt"):
        read_tasks(tmp_path)
    (folder / "prompt.md").write_bytes(b"\xff")
    with pytest.raises(UsageError, match="cannot be read"):
        read_tasks(tmp_path)
    (tmp_path / "u").mkdir()
    with pytest.raises(UsageError, match="it has neither"):
        read_tasks(tmp_path, ["u"])
    with pytest.raises(UsageError, match="is not a folder"):
        read_tasks(tmp_path / "none")
