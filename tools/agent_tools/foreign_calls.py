"""Calls of tools under the names that models learned from other programs: `bash`, `functions.Bash`, `read_file`.

Only names of equivalent tools are mapped. The tool itself reads the other program's argument names (`ALIASES` in
schema.py); `_CONVERTERS` handle arguments of another form. The name of an offered tool is never changed.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any

from agent_tools.base import Tool
from agent_tools.record import Value

# The names of Claude Code, Codex, Gemini CLI, Qwen Code, OpenCode, Cline, Roo Code, Cursor, Windsurf, Copilot,
# OpenHands and SWE-agent, without "_" and in lower case.
_TOOL_BY_NAME: dict[str, str] = {
    name: tool
    for tool, names in {
        "Read": "readfile view viewfile openfile viewcode readtextfile cat",
        "Write": "writefile writetofile createfile filewrite savefile createnewfile",
        "Edit": "editfile replace strreplace searchreplace searchandreplace replaceinfile replacestringinfile "
        "editexistingfile fileedit",
        "MultiEdit": "multireplacestringinfile multisearchreplace",
        "Glob": "globsearch globfilesearch filesearch findfiles findfile findbyname searchfilesbyname globtool",
        "Grep": "grepsearch grepcode searchfilecontent searchfiles searchtext rg ripgrep filegrep greptool "
        "searchincode",
        "LS": "listfiles listdirectory listdir lsdir listtool viewdirectory dirlist",
        "Bash": "shell shellcommand runshellcommand runcommand executecommand runterminalcmd runterminalcommand "
        "runinterminal runcommandinterminal terminal executebash bashtool localshell execcommand exec sh "
        "containerexec commandline runbash",
        "BashOutput": "bashoutput readterminal getterminaloutput commandstatus taskoutput",
        "KillShell": "killbash killterminal taskstop",
        "WebFetch": "fetch fetchurl fetchwebpage readurlcontent webfetchtool",
        "WebSearch": "googlewebsearch searchweb googlesearch websearchtool",
        "TodoWrite": "updateplan writetodos updatetodolist managetodolist todo",
        "TodoRead": "tasklist taskget",
        "PlanProgress": "taskcreate taskupdate",
        "Task": "agent subagent runsubagent",
        "Skill": "useskill activateskill",
        "SlashCommand": "runslashcommand",
    }.items()
    for name in names.split()
}
# One tool for several purposes, chosen by its argument `command`.
_TEXT_EDITORS = ("strreplaceeditor", "strreplacebasededittool", "texteditor", "editor", "editortool")
_EDITOR_COMMANDS = {"view": "Read", "create": "Write", "str_replace": "Edit"}
_PREFIX = re.compile(r"(?:(?:functions?|tools?|default_api|assistant|api)[.:/]+|functions_)+")
# Suffixes that servers leave in a name: Kimi's call number, a special token of GPT-OSS.
_SUFFIX = re.compile(r"(?::\d+|<\|.*|\(\))\Z", re.DOTALL)
# Arguments of other programs' tools that only explain the call, or request what ours does anyway.
_IGNORED_ARGUMENTS = frozenset(
    "explanation instruction instructions requires_approval recursive task_progress security_risk reasoning".split()
)


class ResolvedCall(Value):
    """A call of an offered tool."""

    tool: str
    arguments: dict[str, Any]


def resolve_call(name: str, arguments: dict[str, Any], tools: Mapping[str, Tool[Any]]) -> ResolvedCall | None:
    """Map a call to an offered tool; return None if none fits."""
    if name in tools:
        return ResolvedCall(name, arguments)
    stripped = _PREFIX.sub("", _SUFFIX.sub("", name.strip()), count=1) or name
    for tool in (stripped, *(known for known in tools if _normalize(known) == _normalize(stripped))):
        if tool in tools:
            return ResolvedCall(tool, arguments)
    wrapped = (
        (tool.name, inner) for tool in tools.values() if (inner := tool.wrap_call(stripped, arguments)) is not None
    )
    if (found := next(wrapped, None)) is not None:
        return ResolvedCall(*found)
    normalized = _normalize(stripped)
    target = _editor_tool(arguments) if normalized in _TEXT_EDITORS else _TOOL_BY_NAME.get(normalized)
    if target == "Edit" and "edits" in arguments and "MultiEdit" in tools:
        target = "MultiEdit"
    if target is None and "Bash" in tools and _is_program_call(normalized, arguments):
        return ResolvedCall("Bash", arguments)
    if target is None or target not in tools:
        return None
    converted = {key: value for key, value in arguments.items() if key not in _IGNORED_ARGUMENTS}
    if normalized in _TEXT_EDITORS:
        converted = {key: value for key, value in converted.items() if key != "command" and value is not None}
    return ResolvedCall(target, _CONVERTERS[target](converted) if target in _CONVERTERS else converted)


def _is_program_call(name: str, arguments: dict[str, Any]) -> bool:
    """Return True if a call is named after the program that its command runs: git with `git add a.py`."""
    command = arguments.get("command")
    return arguments.keys() == {"command"} and isinstance(command, str) and command.split()[:1] == [name]


def _editor_tool(arguments: dict[str, Any]) -> str | None:
    command = arguments.get("command")
    return _EDITOR_COMMANDS.get(command) if isinstance(command, str) else None


def _normalize(name: str) -> str:
    return re.sub(r"[_.-]", "", name).lower()


def _read_arguments(arguments: dict[str, Any]) -> dict[str, Any]:
    """Convert first and last line to the arguments of Read."""
    first: Any = None
    last: Any = None
    for key in arguments:
        if key == "view_range" and isinstance(arguments[key], list) and len(arguments[key]) == 2:
            first, last = arguments[key]
        elif _normalize(key) in ("startline", "startlineoneindexed", "linestart"):
            first = arguments[key]
        elif _normalize(key) in ("endline", "endlineoneindexed", "endlineoneindexedinclusive", "lineend"):
            last = arguments[key]
    handled = ("view_range", "should_read_entire_file")
    rest = {k: v for k, v in arguments.items() if k not in handled and "line" not in _normalize(k)}
    if not isinstance(first, int):
        return rest if first is None and last is None else arguments
    size = {"limit": last - first + 1} if isinstance(last, int) and last >= first else {}
    return {**rest, "offset": first, **size}


def _bash_arguments(arguments: dict[str, Any]) -> dict[str, Any]:
    """Convert a command given as a list of words."""
    words = arguments.get("command")
    if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
        return arguments
    shell = len(words) == 3 and words[0].rpartition("/")[2] in ("bash", "sh") and words[1] in ("-c", "-lc")
    return {**arguments, "command": words[2] if shell else shlex.join(words)}


def _plan_progress_arguments(arguments: dict[str, Any]) -> dict[str, Any]:
    """Convert the creation or status change of a task."""
    step, status = arguments.get("taskId", arguments.get("task_id")), arguments.get("status")
    if step is None:
        subject = arguments.get("subject")
        return {"new_step": subject} if isinstance(subject, str) else arguments
    if status == "in_progress":
        return {"next_step": str(step)}
    return {"step_id": str(step)} if status == "completed" else arguments


def _todo_read_arguments(arguments: dict[str, Any]) -> dict[str, Any]:
    """Drop the ID of a single task."""
    return {key: value for key, value in arguments.items() if key not in ("taskId", "task_id")}


_CONVERTERS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "Read": _read_arguments,
    "Bash": _bash_arguments,
    "PlanProgress": _plan_progress_arguments,
    "TodoRead": _todo_read_arguments,
}
