"""Read the tasks of an evaluation: folders with a prompt, a repository and a check.

A task is a folder with `prompt.md`, `repo/` and an executable `check`; `task.toml` may replace these, and set more.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agent_cli import UsageError
from agent_tools.fs.safe_files import read_text
from agent_tools.record import Value

_MAX_BYTES = 1 << 20
_FILES = ("prompt.md", "task.toml")
# The keys of task.toml with their types.
_TASK_KEYS: dict[str, tuple[type, ...]] = {
    "prompt": (str,),
    "repo": (str,),
    "commit": (str,),
    "setup": (str,),
    "check": (str,),
    "check_sandbox": (bool,),
    "timeout": (int, float),
    "check_timeout": (int, float),
    "max_cost": (int, float),
    "settings": (dict,),
}
_TYPES = {str: "text", bool: "true or false", int: "a number", dict: "a table"}


class EvaluationTask(Value):
    """One task.

    repo: a folder to copy, or a repository to fetch from; "" for an empty repository.
    fetched: `repo` is fetched by git, at `commit`.
    setup: a command that runs in the work tree before the model does; "" for none.
    check: the command line of the check, as words.
    check_sandbox: run the check in the sandbox, if there is one.
    timeout, check_timeout: seconds for the model's turn, and for the setup and the check.
    max_cost: dollars for one run; 0 for no limit.
    settings: settings of its runs.
    """

    name: str
    folder: Path
    prompt: str
    check: tuple[str, ...]
    repo: str = ""
    fetched: bool = False
    commit: str = ""
    setup: str = ""
    check_sandbox: bool = True
    timeout: float = 600.0
    check_timeout: float = 300.0
    max_cost: float = 0.0
    settings: dict[str, Any] = {}  # noqa: RUF012 - never changed


def read_tasks(folder: Path, only: Sequence[str] = ()) -> tuple[EvaluationTask, ...]:
    """Return the tasks in a folder, or the one that it is, by name. only: names of those to take.

    Raises UsageError for a folder without tasks, a name that none has, and a task that cannot be run.
    """
    folder = folder.expanduser().absolute()
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder.")
    try:
        found = [folder] if _is_task(folder) else sorted(path for path in folder.iterdir() if _may_be_task(path))
    except OSError as error:
        raise UsageError(f"Cannot read {folder}: {error.strerror or error}.") from None
    if not found:
        raise UsageError(f"There are no tasks in {folder}: a task is a folder with prompt.md, repo/ and check.")
    names = [path.name for path in found]
    if missing := next((name for name in only if name not in names), ""):
        near = difflib.get_close_matches(missing, names, 1)
        hint = f"did you mean {near[0]}?" if near else f"the tasks are: {', '.join(names)}."
        raise UsageError(f"--only: there is no task {missing} in {folder}; {hint}")
    return tuple(_read(path) for path in found if not only or path.name in only)


def _is_task(folder: Path) -> bool:
    return any((folder / name).is_file() for name in _FILES)


def _may_be_task(path: Path) -> bool:
    return path.is_dir() and not path.name.startswith((".", "_"))


def _read(folder: Path) -> EvaluationTask:
    if not _is_task(folder):
        raise UsageError(f"{folder} is no task: it has neither prompt.md nor task.toml.")
    try:
        data = _options(folder / "task.toml")
        prompt = str(data.pop("prompt", "")) or _prompt(folder)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The task in {folder} cannot be read: {getattr(error, 'strerror', None) or error}.") from None
    if not prompt.strip():
        raise UsageError(f"{folder} has no prompt: write it in prompt.md.")
    for name in ("timeout", "check_timeout"):
        if data.get(name, 1) <= 0:
            raise UsageError(f"{folder / 'task.toml'}: {name} must be more than 0.")
    data["check"] = _check(folder, str(data.get("check", "")))
    data |= _repository(folder, str(data.get("repo", "")), str(data.get("commit", "")))
    return EvaluationTask(name=folder.name, folder=folder, prompt=prompt, **data)


def _options(path: Path) -> dict[str, Any]:
    """Read task.toml; return {} if there is none. Raises OSError, UsageError."""
    if not path.exists():
        return {}
    try:
        data = tomllib.loads(read_text(path, _MAX_BYTES).removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: {error}.") from None
    if mistake := find_key_error(data, _TASK_KEYS):
        raise UsageError(f"{path}: {mistake}")
    return data


def find_key_error(
    data: Mapping[str, Any],
    keys: Mapping[str, tuple[type, ...]],
    before: str = "",
    *,
    types: Mapping[type, str] = _TYPES,
) -> str:
    """Describe what is wrong with the keys and types of a task; "" for nothing.

    keys: the types that each key may have.
    before: prefix of their names, such as "budget.".
    types: the names of the types.
    """
    for key, value in data.items():
        if key not in keys:
            near = difflib.get_close_matches(key, keys, 1)
            hint = f"did you mean {near[0]}?" if near else f"the keys are {', '.join(keys)}."
            return f"there is no key {before}{key}; {hint}"
        if not isinstance(value, keys[key]) or (isinstance(value, bool) and bool not in keys[key]):
            return f"{before}{key} must be {types[keys[key][0]]}."
    return ""


def _prompt(folder: Path) -> str:
    path = folder / "prompt.md"
    return read_text(path, _MAX_BYTES) if path.exists() else ""


def _check(folder: Path, command: str) -> tuple[str, ...]:
    """Return the words of the check. Raises UsageError if there is none."""
    if command:
        return ("bash", "-c", command)
    path = folder / "check"
    if not path.is_file():
        raise UsageError(f"{folder} has no check: add an executable file `check`, or `check = ...` to its task.toml.")
    if not os.access(path, os.X_OK):
        raise UsageError(f"{path} is not executable: chmod +x makes it so.")
    return (str(path),)


def _repository(folder: Path, named: str, commit: str) -> dict[str, Any]:
    """Return the fields `repo`, `fetched` and `commit`. Raises UsageError for a path that is no folder."""
    if not named:
        if commit:
            raise UsageError(f"{folder / 'task.toml'}: commit needs repo, a git repository to fetch it from.")
        return {"repo": str(folder / "repo") if (folder / "repo").is_dir() else ""}
    if "://" in named or ("@" in named.partition("/")[0] and ":" in named):
        return {"repo": named, "fetched": True, "commit": commit or "HEAD"}
    path = Path(os.path.normpath(folder / Path(named).expanduser()))
    if not path.is_dir():
        raise UsageError(f"{folder / 'task.toml'}: repo: {path} is not a folder.")
    fetched = (path / ".git").exists()
    if commit and not fetched:
        raise UsageError(f"{folder / 'task.toml'}: commit: {path} is not a git repository.")
    return {"repo": str(path), "fetched": fetched, "commit": (commit or "HEAD") if fetched else ""}
