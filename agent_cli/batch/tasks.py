"""Read the tasks of a batch: JSON lines, one task each."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from agent_cli.core.modes import MODE_ALIASES, MODES
from agent_cli.evaluation.tasks import key_mistake
from agent_tools.record import Value

_KEYS: dict[str, tuple[type, ...]] = {
    "id": (str, int),
    "name": (str, int),
    "prompt": (str,),
    "repository": (str,),
    "folder": (str,),
    "branch": (str,),
    "commit": (str,),
    "model": (str,),
    "mode": (str,),
    "setup": (str,),
    "check": (str,),
    "check_sandbox": (bool,),
    "check_timeout": (int, float),
    "budget": (dict,),
    "settings": (dict,),
}
_BUDGET: dict[str, tuple[type, ...]] = {"cost": (int, float), "turns": (int,), "seconds": (int, float)}
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
_JSON = {str: "text", int: "a number", float: "a number", bool: "true or false", dict: "an object"}
_REVISION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./@{}^~+#=-]{0,254}")
# Nobody is there to approve a plan.
_MODES = tuple(mode for mode in MODES if mode != "plan")

# What `fetching_git` allows.
_SCHEMES = ("https", "ssh", "git", "file")

SourceKind = Literal["url", "git", "copy"]


class BatchTask(Value):
    """One task.

    line: where it stands.
    kind: how its files are found: cloned from a URL, from a repository of this machine, or copied from a folder.
    source: the URL, or the path of the repository or folder.
    subfolder: where in it the agent works; "" for its top.
    revision: a branch, a tag or a commit; "" for what is checked out.
    cost, turns, seconds: its budget; 0 for none.
    digest: changes when the task does.
    """

    id: str
    line: int
    prompt: str
    kind: SourceKind
    source: str
    digest: str
    subfolder: str = ""
    revision: str = ""
    model: str = ""
    mode: str = ""
    setup: str = ""
    check: str = ""
    check_sandbox: bool = True
    check_timeout: float = 300.0
    cost: float = 0.0
    turns: int = 0
    seconds: float = 0.0
    settings: dict[str, Any] = {}  # noqa: RUF012 - never changed


class BadTaskError(Exception):
    """A line is no task; the message is one sentence."""


def read_batch(text: str, folder: Path, here: Path) -> tuple[list[BatchTask], dict[int, str]]:
    """Return the tasks of a text, and what is wrong with lines that are none, by their numbers.

    folder: where relative paths start. here: what a task works on that names nothing.
    """
    tasks: list[BatchTask] = []
    wrong: dict[int, str] = {}
    lines: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            task = _task(line, number, folder, here)
            if (first := lines.setdefault(task.id, number)) != number:
                raise BadTaskError(f"the id {task.id} is that of line {first}")
            tasks.append(task)
        except BadTaskError as error:
            wrong[number] = str(error)
    return tasks, wrong


def _task(line: str, number: int, folder: Path, here: Path) -> BatchTask:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadTaskError(f"this is not JSON ({error})") from None
    if not isinstance(data, dict):
        raise BadTaskError('a task is an object, as in {"prompt": "..."}')
    _check_types(data, _KEYS, "")
    budget = data.get("budget", {})
    _check_types(budget, _BUDGET, "budget.")
    for names in (("id", "name"), ("branch", "commit")):
        if all(name in data for name in names):
            raise BadTaskError(f"{' and '.join(names)} mean the same: give one of them")
    if not data.get("prompt", "").strip():
        raise BadTaskError("there is no prompt")
    named = str(data.get("id", data.get("name", f"task-{number}")))
    if not _ID.fullmatch(named):
        raise BadTaskError("id must be letters, digits, dots and dashes, 80 at most")
    revision = str(data.get("branch", data.get("commit", "")))
    if revision and (not _REVISION.fullmatch(revision) or ".." in revision):
        raise BadTaskError(f"{revision} is no name of a branch, a tag or a commit")
    if (timeout := data.get("check_timeout", 300)) <= 0:
        raise BadTaskError("check_timeout must be more than 0")
    what = {name: data[name] for name in ("model", "setup", "check", "check_sandbox", "settings") if name in data}
    return BatchTask(
        id=named,
        line=number,
        prompt=data["prompt"],
        **_source(data, folder, here, revision),
        **what,
        revision=revision,
        mode=_mode(data.get("mode", "")),
        check_timeout=float(timeout),
        **budget,
        digest=hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16],
    )


def _check_types(data: dict[str, Any], keys: dict[str, tuple[type, ...]], before: str) -> None:
    if mistake := key_mistake(data, keys, before, types=_JSON):
        raise BadTaskError(mistake.rstrip("."))
    for key, value in data.items():
        if before and not 0 < float(str(value)) < 1e12:
            raise BadTaskError(f"{before}{key} must be more than 0")


def _mode(name: str) -> str:
    mode = MODE_ALIASES.get(name, name)
    if mode == "plan":
        raise BadTaskError("in the mode plan nobody would be there to approve the plan; use another mode")
    if mode and mode not in _MODES:
        raise BadTaskError(f"{name} is no mode; the modes are {', '.join(_MODES)}")
    return mode


def _source(data: dict[str, Any], folder: Path, here: Path, revision: str) -> dict[str, Any]:
    """Return the fields `kind`, `source` and `subfolder`."""
    repository, inner = data.get("repository", ""), data.get("folder", "")
    if not repository:
        return _from_folder(_path(folder, inner) if inner else here, revision)
    if inner and (os.path.isabs(inner) or ".." in Path(inner).parts):  # noqa: PTH117
        raise BadTaskError("folder must be a path inside of the repository")
    if _is_url(repository):
        if "://" in repository and repository.partition("://")[0] not in _SCHEMES:
            raise BadTaskError(f"{repository} cannot be cloned; a URL begins with {'://, '.join(_SCHEMES)}://")
        return {"kind": "url", "source": repository, "subfolder": inner}
    path = _path(folder, repository)
    if not path.is_dir():
        raise BadTaskError(f"{path} is not a folder")
    if not ((path / ".git").exists() or ((path / "HEAD").is_file() and (path / "objects").is_dir())):
        raise BadTaskError(f"{path} is not a git repository; name it as folder to work in a copy of it")
    return {"kind": "git", "source": str(path), "subfolder": inner}


def _from_folder(path: Path, revision: str) -> dict[str, Any]:
    if not path.is_dir():
        raise BadTaskError(f"{path} is not a folder")
    for top in _upwards(path):
        if (top / ".git").exists():
            inside = path.relative_to(top).as_posix()
            return {"kind": "git", "source": str(top), "subfolder": "" if inside == "." else inside}
    if revision:
        raise BadTaskError(f"{path} is not in a git repository, so it has no branch and no commit")
    return {"kind": "copy", "source": str(path)}


def _upwards(path: Path) -> Iterator[Path]:
    yield path
    yield from path.parents


def _path(folder: Path, name: str) -> Path:
    try:
        return Path(os.path.realpath(folder / Path(name).expanduser()))
    except (RuntimeError, ValueError):
        raise BadTaskError(f"{name} is no path") from None


def _is_url(name: str) -> bool:
    return "://" in name or ("@" in name.partition("/")[0] and ":" in name)
