"""The programs that `agent gate` decides for: a row each, with what they send to a hook and what they read from it."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

from agent_cli import UsageError
from agent_tools.record import Value
from agent_tools.registry import find_tool

# By how much the limit of a hook is above the time for which it waits.
MARGIN_SECONDS = 15
# What a hook is run for: a message of the user; a call that is about to run; one that the program would ask about; the
# end of a call; the end of a turn.
Moment = Literal["prompt", "before", "ask", "after", "end"]
Verdict = Literal["allow", "deny", ""]


class HostCall(Value):
    """What a hook got on standard input.

    session: the program's own ID of the session. call_id: "" where the program names none.
    tool, arguments: in the words of the program; a tool of an MCP server is mcp__SERVER__TOOL.
    """

    moment: Moment
    session: str
    cwd: str
    prompt: str = ""
    tool: str = ""
    arguments: dict[str, Any] = {}  # noqa: RUF012 - never changed
    call_id: str = ""

    @property
    def key(self) -> str:
        """An ID of the call that the hooks before and after it have in common."""
        if self.call_id:
            return self.call_id
        text = json.dumps([self.tool, self.arguments], sort_keys=True)
        return f"call-{blake2b(text.encode('utf-8', 'surrogatepass'), digest_size=6).hexdigest()}"


class Host(Value):
    """A program with hooks.

    name, label: on the command line, and in texts.
    folder, variable: of its settings below the home folder, and what sets it. user, project: the file of hooks there,
        and in a repository. whole: that file has only our hooks.
    events: its names of moments.
    tools: its names of tools that ours stand for. dropped: arguments that change nothing about what a call does.
    harmless: tools that change nothing but the conversation.
    unit: of a time limit, in seconds. most: seconds after which it continues without the hook.
    dies: what happens to a call when its hook is killed or reaches the limit.
    trust: what the user must do before the hook runs.
    """

    name: str
    label: str
    folder: str
    variable: str
    user: str
    project: str
    events: Mapping[str, Moment]
    tools: Mapping[str, str]
    dropped: tuple[str, ...] = ()
    harmless: frozenset[str] = frozenset()
    whole: bool = False
    unit: float = 1.0
    most: int = 86_400
    dies: str = ""
    trust: str = ""

    def file(self, home: Path, root: Path | None, env: Mapping[str, str]) -> Path:
        """Return the file of hooks: of a repository, or the user's own."""
        if root is not None:
            return root / self.project
        return Path(env.get(self.variable) or home / self.folder) / self.user

    @property
    def longest_wait(self) -> int:
        """Seconds that a call can wait for the user, at most."""
        return self.most - MARGIN_SECONDS

    def read(self, data: Mapping[str, Any]) -> HostCall:
        """Return what standard input says. Raises UsageError."""
        camel = "sessionId" in data
        name = str(data.get("hook_event_name") or _event_of(data))
        moment = self.events.get(name)
        session = data.get("sessionId" if camel else "session_id")
        arguments = data.get("toolArgs" if camel else "tool_input")
        if isinstance(arguments, str):
            arguments = _object(arguments)
        if moment is None or not isinstance(session, str) or not session:
            raise UsageError(f"This is no input of a hook of {self.label} that agent gate install writes.")
        if moment in ("before", "ask") and not isinstance(arguments, dict):
            raise UsageError(f"{self.label} sent a call without arguments.")
        tool, mcp = str(data.get("toolName" if camel else "tool_name") or ""), data.get("mcp_context")
        if isinstance(mcp, dict) and mcp.get("server_name"):
            tool = f"mcp__{mcp['server_name']}__{mcp.get('tool_name') or tool}"
        elif self.name == "copilot" and tool not in self.tools and "-" in tool:
            tool = f"mcp__{tool.replace('-', '__', 1)}"  # of a server: its name comes first
        return HostCall(
            moment,
            session,
            str(data.get("cwd") or os.getcwd()),  # noqa: PTH109 - a text is needed
            str(data.get("prompt") or ""),
            tool,
            arguments if isinstance(arguments, dict) else {},
            str(data.get("tool_use_id") or ""),
        )

    def answer(self, moment: Moment, verdict: Verdict, reason: str, note: str = "") -> str:
        """Return what standard output has to be. note: for the model, beside a permission or after the call."""
        if moment == "after" and note:
            return _output(hookSpecificOutput={"hookEventName": "AfterTool", "additionalContext": note})
        if not verdict:
            return ""
        allowed = verdict == "allow"
        if moment == "ask":
            decided = {"behavior": verdict} | ({} if allowed else {"message": reason})
            return _output(hookSpecificOutput={"hookEventName": "PermissionRequest", "decision": decided})
        if self.name == "gemini":
            return _output(decision=verdict, reason=reason) if not allowed else _output(decision="allow")
        said = {"permissionDecision": verdict, "permissionDecisionReason": reason}
        said |= {"additionalContext": note} if note else {}
        if self.name == "copilot":
            return _output(**said)
        if self.name == "codex" and allowed:
            # It knows no "allow" before a call: it says nothing, and answers when Codex would ask.
            del said["permissionDecision"], said["permissionDecisionReason"]
            if not said:
                return ""
        return _output(hookSpecificOutput={"hookEventName": "PreToolUse", **said})

    @property
    def takes_notes(self) -> bool:
        """True if the model can be told something beside a permission; else it learns of it after the call."""
        return self.name != "gemini"

    def translate(self, call: HostCall) -> tuple[str, dict[str, Any]]:
        """Return the name of our tool for a call, and its arguments: "" if none of ours does the same."""
        name = self.tools.get(call.tool, "")
        given = {key: value for key, value in call.arguments.items() if key not in self.dropped and value is not None}
        folder = next((given.pop(key) for key in _FOLDERS if name == "Bash" and key in given), "")
        if folder and isinstance(given.get("command"), str):
            given["command"] = f"cd {shlex.quote(str(folder))} && {given['command']}"
        if name in _SEARCHED:
            # What narrows a search does not count, and what it searches besides is not known.
            extra = given.keys() - _NARROWING
            given = {key: value for key, value in given.items() if key in _SEARCHED[name]}
            name = "" if extra - given.keys() else name
        elif name == "Read":
            path = given.get("path", given.get("file_path"))
            if isinstance(path, str) and os.path.isdir(os.path.join(call.cwd, path)):  # noqa: PTH112 - never raises
                return "LS", {"path": path}
            given = {key: value for key, value in given.items() if key in _PATHS}
        elif name == "ApplyPatch":
            given = {"patch": given.get("patch") or given.get("input") or given.get("command") or ""}
            name = "apply_patch"
        elif call.tool == "web_fetch" and "url" not in given:
            urls = re.findall(r"https?://[^\s\"'<>]+", str(given.get("prompt", "")))
            return ("WebFetch", {"url": urls[0]}) if len(set(urls)) == 1 else ("", call.arguments)
        tool = find_tool(name) if name else None
        return (tool.name, given) if tool is not None else ("", call.arguments)


_FOLDERS = ("workdir", "directory", "dir_path", "cwd")
_PATHS = ("file_path", "absolute_path", "path", "notebook_path")
_SEARCHED = {
    "Grep": ("pattern", "path", "dir_path", "query"),
    "Glob": ("pattern", "path", "dir_path"),
    "LS": ("path", "dir_path"),
}
_NARROWING = frozenset(
    "pattern path dir_path query glob type output_mode head_limit multiline -i -n -A -B -C context before after limit "
    "include include_pattern exclude_pattern names_only max_matches_per_file total_max_matches case_sensitive ignore "
    "fixed_strings offset respect_git_ignore".split()
)


def _output(**fields: Any) -> str:
    return json.dumps(fields)


def _object(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _event_of(data: Mapping[str, Any]) -> str:
    """Return the event of an input that does not name it."""
    if "toolName" in data:
        ended = [key for key in ("toolResult", "error") if key in data]
        return "postToolUse" if ended else "preToolUse"
    return "userPromptSubmitted" if "prompt" in data else "agentStop" if "stopReason" in data else ""


_CLAUDE_EVENTS: dict[str, Moment] = {
    "UserPromptSubmit": "prompt", "PreToolUse": "before", "PostToolUse": "after", "PostToolUseFailure": "after",
    "Stop": "end",
}  # fmt: skip
_PASSES = "If the hook reaches its time limit or its shell is killed, {label} runs the call."
_GEMINI_TOOLS = {
    "read_file": "Read", "list_directory": "LS", "glob": "Glob", "grep_search": "Grep", "search_file_content": "Grep",
    "write_file": "Write", "run_shell_command": "Bash", "web_fetch": "WebFetch",
}  # fmt: skip
HOSTS: dict[str, Host] = {
    host.name: host
    for host in (
        Host(
            "claude", "Claude Code", ".claude", "CLAUDE_CONFIG_DIR", "settings.json", ".claude/settings.json",
            _CLAUDE_EVENTS,
            {name: name for name in (
                "Bash", "Edit", "Glob", "Grep", "LS", "MultiEdit", "NotebookEdit", "Read", "WebFetch", "WebSearch",
                "Write")},
            ("description", "timeout", "run_in_background"),
            frozenset(
                "Agent AskUserQuestion BashOutput EnterPlanMode ExitPlanMode KillShell ListAgents ReportFindings Skill "
                "Task TaskCreate TaskGet TaskList TaskOutput TaskStop TaskUpdate TodoWrite ToolSearch".split()
            ),
            dies="If the hook is killed or reaches its time limit, Claude Code refuses the call, since 2.1.295. Older "
            "versions run it then.",
        ),
        Host(
            "codex", "Codex", ".codex", "CODEX_HOME", "hooks.json", ".codex/hooks.json",
            {"UserPromptSubmit": "prompt", "PreToolUse": "before", "PermissionRequest": "ask", "PostToolUse": "after",
             "Stop": "end"},
            {"Bash": "Bash", "apply_patch": "ApplyPatch", "view_image": "Read"}, ("description",),
            frozenset(("update_plan", "request_user_input")),
            dies=_PASSES.format(label="Codex"),
            trust="Codex runs a new hook only after you trust it: start codex, and enter /hooks.",
        ),
        Host(
            "copilot", "Copilot CLI", ".copilot", "COPILOT_HOME", "hooks/agent-gate.json",
            ".github/hooks/agent-gate.json",
            {"userPromptSubmitted": "prompt", "preToolUse": "before", "postToolUse": "after", "agentStop": "end"},
            {"bash": "Bash", "view": "Read", "create": "Write", "edit": "Edit", "grep": "Grep", "glob": "Glob",
             "apply_patch": "ApplyPatch", "web_fetch": "WebFetch"},
            ("description", "mode", "initial_wait", "shellId", "sessionId", "detach"),
            frozenset(
                "fetch_copilot_cli_documentation list_agents list_bash read_agent read_bash report_intent skill "
                "stop_bash task update_todo".split()
            ),
            whole=True,
            dies="If the hook reaches its time limit, Copilot CLI runs the call. If it is killed, the call is refused.",
        ),
        Host(
            "gemini", "Gemini CLI", ".gemini", "", "settings.json", ".gemini/settings.json",
            {"BeforeAgent": "prompt", "BeforeTool": "before", "AfterTool": "after", "AfterAgent": "end"},
            {**_GEMINI_TOOLS, "replace": "Edit"},
            ("description", "instruction", "is_background", "expected_replacements", "allow_multiple"),
            frozenset("activate_skill enter_plan_mode exit_plan_mode ask_user invoke_agent list_background_processes "
                      "read_background_output update_topic write_todos".split()),
            unit=0.001, dies=_PASSES.format(label="Gemini CLI"),
        ),
        Host(
            "qwen", "Qwen Code", ".qwen", "QWEN_HOME", "settings.json", ".qwen/settings.json", _CLAUDE_EVENTS,
            {**_GEMINI_TOOLS, "edit": "Edit", "notebook_edit": "NotebookEdit"},
            ("description", "is_background", "timeout"),
            frozenset("agent ask_user_question exit_plan_mode get_goal list_agents skill todo_write tool_search "
                      "update_goal".split()),
            most=60,  # it runs the call after a minute, whatever the hook's own limit is
            dies=_PASSES.format(label="Qwen Code"),
        ),
    )
}  # fmt: skip


def find_host(name: str) -> Host:
    """Return a host by its name. Raises UsageError."""
    if (host := HOSTS.get(name)) is None:
        raise UsageError(f"{name} is not one of the programs that agent gate knows: {', '.join(HOSTS)}.")
    return host
