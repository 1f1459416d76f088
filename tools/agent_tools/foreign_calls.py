"""Calls of tools under the names that models learned from other programs: `bash`, `functions.Bash`, `read_file`.

Only where the other program's tool means the same; its arguments are read by the tool itself (`ALIASES` in schema.py),
except for those that have another form (`_ARGUMENTS`). A name that a tool on offer has is never changed.
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
_NAMES: dict[str, str] = {
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
# One tool for several purposes: what its argument `command` says is the purpose.
_TEXT_EDITORS = ("strreplaceeditor", "strreplacebasededittool", "texteditor", "editor", "editortool")
_EDITOR_COMMANDS = {"view": "Read", "create": "Write", "str_replace": "Edit"}
_PREFIX = re.compile(r"(?:(?:functions?|tools?|default_api|assistant|api)[.:/]+|functions_)+")
# What servers leave at the end of a name: Kimi's call number, a special token of GPT-OSS.
_SUFFIX = re.compile(r"(?::\d+|<\|.*|\(\))\Z", re.DOTALL)
# Arguments of other programs' tools that only explain the call, or say what ours does anyway.
_WORDS = frozenset(
    "explanation instruction instructions requires_approval recursive task_progress security_risk reasoning".split()
)


class ResolvedCall(Value):
    """A call under the name of a tool on offer."""

    tool: str
    arguments: dict[str, Any]


def resolve_call(name: str, arguments: dict[str, Any], tools: Mapping[str, Tool[Any]]) -> ResolvedCall | None:
    """Return which of the tools on offer a call means, with its arguments; None if none does."""
    if name in tools:
        return ResolvedCall(name, arguments)
    bare = _PREFIX.sub("", _SUFFIX.sub("", name.strip()), count=1) or name
    for tool in (bare, *(known for known in tools if _folded(known) == _folded(bare))):
        if tool in tools:
            return ResolvedCall(tool, arguments)
    wrapped = ((tool.name, inner) for tool in tools.values() if (inner := tool.wrap_call(bare, arguments)) is not None)
    if (found := next(wrapped, None)) is not None:
        return ResolvedCall(*found)
    folded = _folded(bare)
    meant = _of_editor(arguments) if folded in _TEXT_EDITORS else _NAMES.get(folded)
    if meant == "Edit" and "edits" in arguments and "MultiEdit" in tools:
        meant = "MultiEdit"
    if meant is None and "Bash" in tools and _runs(folded, arguments):
        return ResolvedCall("Bash", arguments)
    if meant is None or meant not in tools:
        return None
    taken = {key: value for key, value in arguments.items() if key not in _WORDS}
    if folded in _TEXT_EDITORS:
        taken = {key: value for key, value in taken.items() if key != "command" and value is not None}
    return ResolvedCall(meant, _ARGUMENTS[meant](taken) if meant in _ARGUMENTS else taken)


def _runs(name: str, arguments: dict[str, Any]) -> bool:
    """Return True if a call is a command of the program that it names: git with `git add a.py`."""
    command = arguments.get("command")
    return arguments.keys() == {"command"} and isinstance(command, str) and command.split()[:1] == [name]


def _of_editor(arguments: dict[str, Any]) -> str | None:
    command = arguments.get("command")
    return _EDITOR_COMMANDS.get(command) if isinstance(command, str) else None


def _folded(name: str) -> str:
    return re.sub(r"[_.-]", "", name).lower()


def _lines(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of Read for a first and a last line."""
    first: Any = None
    last: Any = None
    for key in arguments:
        if key == "view_range" and isinstance(arguments[key], list) and len(arguments[key]) == 2:
            first, last = arguments[key]
        elif _folded(key) in ("startline", "startlineoneindexed", "linestart"):
            first = arguments[key]
        elif _folded(key) in ("endline", "endlineoneindexed", "endlineoneindexedinclusive", "lineend"):
            last = arguments[key]
    named = ("view_range", "should_read_entire_file")
    rest = {k: v for k, v in arguments.items() if k not in named and "line" not in _folded(k)}
    if not isinstance(first, int):
        return rest if first is None and last is None else arguments
    size = {"limit": last - first + 1} if isinstance(last, int) and last >= first else {}
    return {**rest, "offset": first, **size}


def _command(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of Bash for a command given as a list of words."""
    words = arguments.get("command")
    if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
        return arguments
    shell = len(words) == 3 and words[0].rpartition("/")[2] in ("bash", "sh") and words[1] in ("-c", "-lc")
    return {**arguments, "command": words[2] if shell else shlex.join(words)}


def _progress(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of PlanProgress for a task that is created, or whose status changes."""
    step, status = arguments.get("taskId", arguments.get("task_id")), arguments.get("status")
    if step is None:
        subject = arguments.get("subject")
        return {"new_step": subject} if isinstance(subject, str) else arguments
    if status == "in_progress":
        return {"next_step": str(step)}
    return {"step_id": str(step)} if status == "completed" else arguments


def _whole_plan(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of TodoRead for one task of the list."""
    return {key: value for key, value in arguments.items() if key not in ("taskId", "task_id")}


_ARGUMENTS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "Read": _lines,
    "Bash": _command,
    "PlanProgress": _progress,
    "TodoRead": _whole_plan,
}
