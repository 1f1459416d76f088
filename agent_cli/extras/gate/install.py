"""Write the hooks of `agent gate` into the settings of another program, and take them out."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from pathlib import Path
from typing import Any

from agent_cli import RunEnvironment, UsageError
from agent_cli.extras.gate.hosts import MARGIN_SECONDS, Host, Moment
from agent_cli.extras.gate.json_text import JsonTextError, append_item, parse_json_text, remove_item
from agent_tools.fs.own_files import write_own
from agent_tools.fs.safe_files import changing, read_regular
from agent_tools.record import Value

_MAX_BYTES = 8 << 20
_NOTE_SECONDS = 60
_DENIES = '{ echo "agent gate gave no answer, so the call is refused." >&2; exit 2; }'


class Installed(Value):
    """The file of a program, and what is done with it."""

    path: Path
    changed: bool


def write_hooks(host: Host, run_env: RunEnvironment, wait: int, *, project: bool) -> Installed:
    """Write the hooks of a program, for the user or the repository. wait: seconds for an answer. Raises UsageError."""
    if not 1 <= wait <= host.longest_wait:
        raise UsageError(f"--wait: for {host.label}, between 1 and {host.longest_wait} seconds.")
    program = "agent" if project else _program()
    path, text = _read(host, run_env, project=project)
    new = "" if host.whole else _without(host, text, path)
    try:
        if host.whole:
            hooks = {name: [_hook(host, program, moment, wait)] for name, moment in host.events.items()}
            new = json.dumps({"version": 1, "hooks": hooks}, indent=2) + "\n"
        else:
            for name, moment in host.events.items():
                group: dict[str, Any] = {} if moment in ("prompt", "end") else {"matcher": "*"}
                group["hooks"] = [_hook(host, program, moment, wait)]
                new = append_item(new or "{}\n", ("hooks", name), group)
    except JsonTextError as error:
        raise UsageError(f"{path} cannot be changed: {error}.") from None
    return _write(path, text, new)


def remove_hooks(host: Host, run_env: RunEnvironment, *, project: bool) -> Installed:
    """Remove the hooks of a program. Raises UsageError."""
    path, text = _read(host, run_env, project=project)
    if host.whole:
        path.unlink(missing_ok=True)
        return Installed(path, bool(text))
    left = _without(host, text, path)
    if left.strip() == "{}" and left != text:
        path.unlink(missing_ok=True)
        return Installed(path, True)
    return _write(path, text, left)


def _program() -> str:
    """Return the command that starts this program, in the words of a shell."""
    started = Path(sys.argv[0])
    if started.name == "agent" and started.exists():
        return shlex.quote(str(started.absolute()))
    return f"{shlex.quote(sys.executable)} -m agent_cli"


def _hook(host: Host, program: str, moment: Moment, wait: int) -> dict[str, Any]:
    decides = moment in ("before", "ask")
    command = f"{program} gate decide {host.name}"
    command += f" --wait {wait} || {_DENIES}" if decides else " || true"
    limit: float = (wait + MARGIN_SECONDS if decides else _NOTE_SECONDS) / host.unit
    if host.whole:
        return {"type": "command", "bash": command, "timeoutSec": round(limit)}
    closed = {"onFailure": "block"} if host.name == "claude" and moment == "before" else {}
    return {"type": "command", "command": command, "timeout": round(limit), **closed}


def _without(host: Host, text: str, path: Path) -> str:
    """Return a file of hooks without ours. Raises UsageError."""
    ours = re.compile(rf"\bgate decide {host.name}\b")
    try:
        while text.strip() and (found := _find(text, ours)):
            text = remove_item(text, *found)
    except JsonTextError as error:
        raise UsageError(f"{path} cannot be read: {error}.") from None
    return text


def _find(text: str, ours: re.Pattern[str]) -> tuple[tuple[str, ...], int] | None:
    """Return where a group with a hook of ours is."""
    settings = parse_json_text(text).value
    hooks = settings.get("hooks", {}) if isinstance(settings, dict) else {}
    for event, groups in hooks.items() if isinstance(hooks, dict) else ():
        for number, group in enumerate(groups if isinstance(groups, list) else ()):
            commands = [str(hook.get("command")) for hook in group.get("hooks", ()) if isinstance(hook, dict)]
            if commands and all(ours.search(command) for command in commands):
                return ("hooks", event), number
    return None


def _read(host: Host, run_env: RunEnvironment, *, project: bool) -> tuple[Path, str]:
    if run_env.home is None:
        raise UsageError("There is no home folder.")
    named = host.file(run_env.home, run_env.root if project else None, run_env.env)
    path = Path(os.path.realpath(named))
    try:
        return path, read_regular(path, _MAX_BYTES).decode("utf-8-sig")
    except FileNotFoundError:
        return path, ""
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None


def _write(path: Path, before: str, text: str) -> Installed:
    if text == before:
        return Installed(path, False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with changing(path):
            write_own(path, text.encode(), 0o644, keep=True)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror or error}") from None
    return Installed(path, True)
