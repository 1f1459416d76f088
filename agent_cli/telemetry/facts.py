"""What each metric, event and span says of the session, and the names by which things are known outside."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agent_cli.config.telemetry import TelemetryOptions
from agent_cli.kernel.version import PACKAGE, __version__
from agent_tools.fs.own_files import write_own
from agent_tools.fs.safe_files import read_regular
from agent_tools.record import Value
from agent_tools.registry import tool_traits
from agent_tools.text import new_uuid

REDACTED = "<REDACTED>"
_ID_FILE = "telemetry-id"
_MAX_VALUE_CHARS = 512
_MAX_INPUT_CHARS = 4_096
# Names of the GenAI conventions for providers that are called otherwise here.
_PROVIDERS = {
    "azure": "azure.ai.openai", "bedrock": "aws.bedrock", "gemini": "gcp.gemini", "mistral": "mistral_ai",
    "vertex_ai": "gcp.vertex_ai", "xai": "x_ai",
}  # fmt: skip
_LANGUAGES = {
    "c": "C", "cpp": "C++", "cs": "C#", "css": "CSS", "go": "Go", "html": "HTML", "java": "Java", "js": "JavaScript",
    "json": "JSON", "jsx": "JavaScript", "kt": "Kotlin", "lua": "Lua", "md": "Markdown", "php": "PHP", "py": "Python",
    "rb": "Ruby", "rs": "Rust", "scala": "Scala", "sh": "Shell", "sql": "SQL", "swift": "Swift", "toml": "TOML",
    "ts": "TypeScript", "tsx": "TypeScript", "xml": "XML", "yaml": "YAML", "yml": "YAML",
}  # fmt: skip


class SessionFacts(Value):
    """What is known of a session when it begins.

    attended: a user is present. start_type: fresh, resume or continue. state: folder of the program's own files.
    """

    session_id: str
    attended: bool
    start_type: str
    env: Mapping[str, str]
    state: Path


class Attributes:
    """The attributes of everything, and of calls as far as the user lets them be known.

    redact: removes secrets from a text.
    """

    def __init__(self, options: TelemetryOptions, facts: SessionFacts, redact: Callable[[str], str]) -> None:
        self._options, self._redact = options, redact
        entrypoint = facts.env.get("CLAUDE_CODE_ENTRYPOINT") or ("cli" if facts.attended else "sdk-cli")
        terminal = facts.env.get("TERM_PROGRAM") or ("tmux" if facts.env.get("TMUX") else facts.env.get("TERM", ""))
        own = {"user.id": anonymous_id(facts.state), "session.id": facts.session_id}
        own["terminal.type"] = terminal if facts.attended else "non-interactive"
        own |= {"app.version": __version__} if options.version else {}
        own |= {"app.entrypoint": entrypoint} if options.entrypoint else {}
        self.all = {**options.resource, **own}
        self.of_metrics = {**(options.resource if options.resource_keys else {}), **own}
        if not options.session:
            del self.of_metrics["session.id"]

    def resource(self) -> dict[str, str]:
        """Return what describes the program."""
        system = platform.uname()
        return {
            "host.arch": {"x86_64": "amd64", "aarch64": "arm64"}.get(system.machine, system.machine),
            "os.type": system.system.lower(),
            "os.version": system.release,
            "process.executable.name": "agent",
            "telemetry.distro.name": PACKAGE,
            "service.name": "claude-code",
            "service.version": __version__,
            **self._options.resource,
            **({"service.name": self._options.service} if self._options.service else {}),
        }

    def text(self, text: str, *, shown: bool) -> str:
        """Return a text without secrets and of limited length, if the user lets it be known."""
        return self._cut(text) if shown else REDACTED

    def _cut(self, text: str, limit: int = 0) -> str:
        limit, text = limit or self._options.max_chars, self._redact(text)
        return text if len(text) <= limit else f"{text[: max(0, limit - 14)]} [TRUNCATED]"

    def tool_name(self, name: str) -> str:
        """Return the name of a tool; those of MCP servers are the user's."""
        return "mcp_tool" if name.startswith("mcp__") and not self._options.details else name

    def agent_name(self, name: str, *, built_in: bool) -> str:
        """Return the type of a sub-agent; those that users write have names of theirs."""
        return name if built_in or self._options.details else "custom"

    def parameters(self, name: str, arguments: Mapping[str, Any]) -> dict[str, str]:
        """Return what a call is about, by the names of `tool_parameters`; nothing without the user's consent."""
        if not self._options.details:
            return {}
        traits = tool_traits(name)
        found: dict[str, Any] = {}
        if traits.command_argument and (command := str(arguments.get(traits.command_argument, ""))):
            found = {"bash_command": command.split(maxsplit=1)[0] if command.strip() else "", "full_command": command}
            found |= {key: arguments[key] for key in ("timeout", "description") if key in arguments}
        elif traits.nested:
            found = {"subagent_type": arguments.get("subagent_type", "")}
        elif name.startswith("mcp__"):
            server, _, tool = name.removeprefix("mcp__").partition("__")
            found = {"mcp_server_name": server, "mcp_tool_name": tool}
        return {"tool_parameters": self._cut(json.dumps(found))} if found else {}

    def arguments(self, arguments: Mapping[str, Any]) -> dict[str, str]:
        """Return the arguments of a call, with long values cut; nothing without the user's consent."""
        if not self._options.details:
            return {}
        cut = {key: self._cut(v, _MAX_VALUE_CHARS) if isinstance(v, str) else v for key, v in arguments.items()}
        return {"tool_input": self._cut(json.dumps(cut, default=str), _MAX_INPUT_CHARS)}

    def target(self, name: str, arguments: Mapping[str, Any]) -> dict[str, str]:
        """Return the file, command or sub-agent of a call, as spans have it; nothing without the user's consent."""
        if not self._options.details:
            return {}
        traits = tool_traits(name)
        named = {"file_path": traits.file_argument, "full_command": traits.command_argument}
        named |= {"subagent_type": "subagent_type" if traits.nested else ""}
        found = {key: str(arguments[argument]) for key, argument in named.items() if argument in arguments}
        return {key: self._cut(text) for key, text in found.items()}


def anonymous_id(state: Path) -> str:
    """Return a random identifier of this installation, which is made when it is first needed."""
    path = state / _ID_FILE
    try:
        return read_regular(path, 100).decode("ascii").strip()
    except (OSError, ValueError):
        made = new_uuid()
    try:
        os.makedirs(state, 0o700, exist_ok=True)  # noqa: PTH103 - as elsewhere in this folder
        write_own(path, made.encode("ascii"), 0o600)
    except OSError:
        pass  # this session has one of its own
    return made


def split_label(label: str) -> tuple[str, str]:
    """Return the provider of a model by its name in the GenAI conventions, and the model."""
    provider, _, model = label.partition("/")
    return (_PROVIDERS.get(provider, provider), model) if model else ("", label)


def language_of(path: str) -> str:
    """Return the programming language of a file, by the end of its name."""
    return _LANGUAGES.get(path.rpartition(".")[2].lower(), "unknown")
