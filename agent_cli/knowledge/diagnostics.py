"""Diagnose the files in `.agent/` and `.claude/` for `agent doctor`: one line each on how they are used.

Nothing is skipped silently: a file that nothing reads is reported, and so is each front matter key without effect, with
the reason. Everything is read again here, so that it costs nothing at startup; nothing is run.

Also lists which keys and folders of other programs are used here, and why the others are not.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from agent_cli.config.claude_keys import translate, unused_in_words
from agent_cli.config.prompts import FrontMatterError, read_allowed, read_front_matter, split_front_matter
from agent_cli.hooks import front_matter_hooks
from agent_cli.kernel.user_text import decode_user_text, load_user_json
from agent_cli.knowledge.agents import AgentTypeError, read_agent_type
from agent_cli.knowledge.commands import MAX_BYTES, is_unusable_name
from agent_cli.knowledge.skills import MAX_BYTES as SKILL_MAX_BYTES
from agent_cli.knowledge.skills import SKILL_FILE, read_skill
from agent_cli.knowledge.template import command_pieces, model_of
from agent_tools.fs.safe_files import read_regular, resolve_inside
from agent_tools.record import Value
from agent_tools.text import counted

_PROMPT = frozenset(
    ("description", "argument-hint", "allowed-tools", "model", "disable-model-invocation", "flow", "hooks")
)
USED_KEYS = {
    "command": _PROMPT | {"hide-from-slash-command-tool"},
    "skill": _PROMPT | {"name", "user-invocable", "when_to_use"},
    "agent": frozenset(("name", "description", "tools", "disallowedTools", "model", "hooks")),
}
_HERE = "it works in this conversation, not in a separate one"
_INFORMATIVE = "only says something about the file"
_REASONS = {
    "name": "the file's name is used",
    "tools": "in this kind of file the key is allowed-tools",
    "allowed-tools": "in this kind of file the key is tools",
    "allowed_tools": "the key is allowed-tools",
    "context": _HERE,
    "agent": _HERE,
    "fork": _HERE,
    "color": "agent types have no colours here",
    "user-invocable": "a command is always yours to use",
    "effort": "the session's effort applies",
    "thinking": "the session's effort applies",
    "permissionMode": "the session's mode applies",
    "maxTurns": "the limits of the turn apply",
    "skills": "it may use any skill itself",
    "mcpServers": "the servers of the session are used",
    "memory": "it starts without memory",
    "background": "sub-agents do not run in the background",
    "isolation": "it works in the same folder",
    "paths": "it is offered everywhere",
    "shell": "commands run in bash",
    **dict.fromkeys(
        "author category categories compatibility created date license metadata name_zh owner priority source status "
        "tags title type updated version".split(),
        _INFORMATIVE,
    ),
}
# Keys of Claude Code's settings that are read separately.
SEPARATE_KEYS = ("permissions", "hooks")
PERMISSIONS = frozenset(("allow", "ask", "deny", "defaultMode", "additionalDirectories"))
# Files and folders directly in `.agent` and `.claude`: True if they take effect, and a description.
_MEMORY = (True, "memory, which has a separate line")
_STATUS = (False, "not used by itself: the command for it is status_line under [terminal] of our own settings")
KNOWN_ENTRIES = {
    **dict.fromkeys(("AGENTS.md", "CLAUDE.md", "AGENTS.local.md", "CLAUDE.local.md", "rules"), _MEMORY),
    "hooks": (True, "belongs to hooks, and runs if a hook names it"),
    "output-styles": (True, "output styles, for the setting output_style"),
    "plugins": (True, "plugins, which agent plugin list shows"),
    "scripts": (True, "belongs to what names it"),
    "worktrees": (False, "not used: worktrees of another program"),
    **dict.fromkeys(("statusline.sh", "status_lines"), _STATUS),
    "README.md": (False, "not used: a comment"),
    ".gitignore": (False, "not used: a note for git"),
}


def describe_unused(kind: str, keys: Iterable[str]) -> list[str]:
    """Describe the keys of front matter without effect, grouped by reason."""
    reasons: dict[str, list[str]] = {}
    for key in keys:
        if key not in USED_KEYS[kind]:
            reasons.setdefault(_REASONS.get(key, "not known here"), []).append(key)
    return [f"{', '.join(names)}: {why}" for why, names in reasons.items()]


MAX_FILES = 1_000
MAX_DEPTH = 6


class FileReport(Value):
    """The report on one file.

    what: a description of the file.
    used: it takes effect.
    notes: its parts that have no effect or are invalid.
    """

    path: str
    what: str
    used: bool = True
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        notes = f" ({'; '.join(self.notes)})" if self.notes else ""
        return f"{self.path}: {self.what}{notes}"


class ReportReader:
    """Reports on folders, nearest first; of several files of one name the first takes effect.

    tools: the available tools.
    reserved: reserved names of slash commands.
    check_model: as for `read_agent_type`.
    """

    def __init__(self, tools: Collection[str], reserved: Collection[str], check_model: Callable[[str], str]) -> None:
        self._tools, self._check_model = tools, check_model
        self._names = {f"/{name}": "a command of the program" for name in reserved}
        self._base = Path()

    def read(self, base: Path, within: Path | None) -> list[FileReport]:
        """Return a report on every file below a folder's `.agent` and `.claude`, in order, up to the limits."""
        found: list[FileReport] = []
        self._base = base
        for top in (".agent", ".claude"):
            for path in walk_folder(base, top, within):
                if len(found) == MAX_FILES:
                    return [
                        *found,
                        FileReport(f"{top}/...", f"more than {MAX_FILES} files: the rest was not checked", False),
                    ]
                if (report := self._file(base, path, within)) is not None:
                    found.append(report)
        return found

    def _file(self, base: Path, path: str, within: Path | None) -> FileReport | None:
        """Return a report on one file; None for a file that belongs to a skill."""
        top, _, rest = path.partition("/")
        folder, _, inner = rest.partition("/")
        if folder == "commands" and inner:
            return self._command(base, path, inner, within)
        if folder == "agents" and inner:
            return self._agent(base, path, inner, within)
        if folder == "skills" and inner:
            return self._skill(base, path, inner, within)
        if top == ".claude" and rest in ("settings.json", "settings.local.json"):
            return _settings(base, path, within, from_user=within is None)
        if path == ".agent/hooks.json":
            return FileReport(path, "hooks, which agent hooks list shows")
        known = KNOWN_ENTRIES.get(folder if inner else rest)
        return FileReport(path, known[1], known[0]) if known else FileReport(path, "not used: nothing reads it", False)

    def _command(self, base: Path, path: str, inner: str, within: Path | None) -> FileReport:
        if why := _why_unusable(inner, "a command"):
            return FileReport(path, why, False)
        name = "/" + inner[:-3].replace("/", ":")
        text, table, wrong = _read(base / path, MAX_BYTES, within)
        if wrong and not text:
            return FileReport(path, f"not used: {wrong}", False)
        body = split_front_matter(text)[1]
        if not body.strip():
            return FileReport(path, "not used: it has no text", False)
        notes = [wrong] if wrong else []
        notes += self._prompt_notes("command", table, body, within)
        return self._unless_name_taken(FileReport(path, f"command {name}", True, tuple(notes)), name)

    def _skill(self, base: Path, path: str, inner: str, within: Path | None) -> FileReport | None:
        name, _, file = inner.partition("/")
        there = (base / path).parent if not file else base / path[: len(path) - len(file) - 1]
        if not file:
            return FileReport(path, "not used: a skill is a folder with a SKILL.md", False)
        if file != SKILL_FILE:
            if os.path.lexists(there / SKILL_FILE):
                return None
            return FileReport(path, f"not used: its folder {name} has no {SKILL_FILE}", False)
        if is_unusable_name(name):
            return FileReport(path, "not used: the folder's name cannot be one of a skill", False)
        problems: list[str] = []
        skill = read_skill(name, there, within, problems)
        if skill is None:
            why = problems[0].removeprefix(f"{there / SKILL_FILE}: ") if problems else "it cannot be read"
            return FileReport(path, f"not used: {why}", False)
        text, table, wrong = _read(there / SKILL_FILE, SKILL_MAX_BYTES, within)
        if wrong:
            return FileReport(path, f"not used: {wrong}", False)
        notes = self._prompt_notes("skill", table, split_front_matter(text)[1], within)
        if table.get("name") not in (None, name):
            notes.append(f"its name {str(table['name'])[:80]!r} differs from the name of its folder, which is used")
        return self._unless_name_taken(FileReport(path, f"skill {name}", True, tuple(notes)), f"skill {name}")

    def _agent(self, base: Path, path: str, inner: str, within: Path | None) -> FileReport:
        if why := _why_unusable(inner, "an agent type"):
            return FileReport(path, why, False)
        text, table, wrong = _read(base / path, SKILL_MAX_BYTES, within)
        if wrong:
            return FileReport(path, f"not used: {wrong}", False)
        try:
            wrong_hooks: list[str] = []
            kind = read_agent_type(
                text, "", self._tools, self._check_model, stem=Path(path).stem, within=within, problems=wrong_hooks
            )
        except AgentTypeError as error:
            return FileReport(path, f"not used: {str(error).removeprefix(': ')}", False)
        notes = [*describe_unused("agent", table), *(why.removeprefix(": ") for why in wrong_hooks)]
        if kind.missing_tools:
            notes.append(f"tools that are not here: {', '.join(kind.missing_tools)}")
        name = f"agent type {kind.name}"
        return self._unless_name_taken(FileReport(path, name, True, tuple(notes)), name)

    def _prompt_notes(self, kind: str, table: dict[str, Any], body: str, within: Path | None) -> list[str]:
        """Return notes on the keys of a command or skill that have no effect or are invalid."""
        notes = describe_unused(kind, table)
        notes += read_allowed(table.get("allowed-tools"))[1]
        wrong: list[str] = []
        front_matter_hooks(table, "", within, wrong)
        notes += [why.removeprefix(": ") for why in wrong]
        if (model := model_of(table)) and (why := self._check_model(model)):
            notes.append(f"model: {why}")
        if runs := len(command_pieces(body)) // 2:
            notes.append(f"runs {counted(runs, 'command')} when it is used, if they are permitted")
        return notes

    def _unless_name_taken(self, report: FileReport, name: str) -> FileReport:
        path = str(self._base / report.path)
        where = self._names.setdefault(name, path)
        if where == path:
            return report
        where = where.removeprefix(f"{self._base}/")
        return report.replace(what=f"{report.what}, not used: {where} has that name and comes first", used=False)


def walk_folder(
    base: Path, path: str, within: Path | None, depth: int = 0, seen: frozenset[str] = frozenset()
) -> Iterator[str]:
    """Yield the files below a folder, sorted; links out of `within` and circular ones count as files."""
    try:
        real = str(base / path if within is None else resolve_inside(base / path, within))
        with os.scandir(real) as entries:
            listed = sorted((e.name, e.is_dir()) for e, _ in zip(entries, range(MAX_FILES), strict=False))
    except OSError:
        if os.path.lexists(base / path) and depth:
            yield path
        return
    real = os.path.realpath(real)
    if real in seen or depth > MAX_DEPTH:
        yield f"{path}/"
        return
    for name, is_folder in listed:
        if is_folder:
            yield from walk_folder(base, f"{path}/{name}", within, depth + 1, seen | {real})
        else:
            yield f"{path}/{name}"


def _why_unusable(inner: str, what: str) -> str:
    """Return why a file cannot be used as a markdown file of this kind, or ""."""
    if not inner.endswith(".md"):
        return f"not used: {what} is a file that ends in .md"
    if any(is_unusable_name(part) for part in inner.split("/")):
        return "not used: its name cannot be used; it contains spaces or colons, or begins with a dot"
    return ""


def _read(path: Path, limit: int, within: Path | None) -> tuple[str, dict[str, Any], str]:
    """Return the text, its front matter as a table, and the problem with either ("" for none)."""
    try:
        text = read_regular(path, limit, within).decode("utf-8", "replace")
    except OSError as error:
        return "", {}, f"it cannot be read: {error.strerror or error}"
    try:
        return text, read_front_matter(split_front_matter(text)[0]), ""
    except FrontMatterError as error:
        return text, {}, f"its front matter is invalid: {error}"


def _settings(base: Path, path: str, within: Path | None, *, from_user: bool) -> FileReport:
    """Report on Claude Code's settings: which of their keys are used."""
    try:
        table = load_user_json(decode_user_text(read_regular(base / path, 4 << 20, within)))
    except OSError as error:
        return FileReport(path, f"not used: it cannot be read: {error.strerror or error}", False)
    except (ValueError, RecursionError):
        return FileReport(path, "not used: it is not JSON", False)
    if not isinstance(table, dict):
        return FileReport(path, "not used: it is not a JSON object", False)
    if from_user and path.endswith("settings.local.json"):
        return FileReport(path, "not used: in the home folder only settings.json is read", False)
    found = translate(
        {k: v for k, v in table.items() if k not in SEPARATE_KEYS}, ("model", "output_style").__contains__
    )
    unused = found.unused if from_user or "disableAllHooks" not in table else (*found.unused, "disableAllHooks")
    used = [key for key in table if key not in {name.partition(".")[0] for name in unused}]
    notes = unused_in_words(unused)
    rules = table.get("permissions")
    inner = rules if isinstance(rules, dict) else {}
    notes += [f"permissions.{key}: not read here" for key in inner if key not in PERMISSIONS]
    what = f"settings of Claude Code; used here: {' and '.join(used) or 'nothing'}"
    return FileReport(path, what, bool(used), tuple(notes))
