"""Sub-agent types: markdown files with front matter (name, description, tools, model), then the system prompt.

The order of precedence: .agent/agents/x.md in the project, .claude/agents, the same in the home folder, the built-in
ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from agent_cli.config.prompts import (
    FrontMatterError,
    listed_items,
    prompt_folder,
    read_front_matter,
    split_front_matter,
)
from agent_cli.config.rule_lists import resembled_list
from agent_cli.hooks import front_matter_hooks
from agent_cli.kernel.modes import AgentType
from agent_cli.kernel.rules import RuleError
from agent_cli.knowledge.commands import key_text, markdown_files, search_folders
from agent_cli.knowledge.template import model_of
from agent_tools.fs.safe_files import read_regular, read_text
from agent_tools.registry import tool_name

FOLDERS = (".agent/agents", ".claude/agents")
MAX_BYTES = 131_072


class AgentTypeError(ValueError):
    """An invalid agent type; the message names the file and the problem."""


def read_agent_type(
    text: str,
    source: str,
    known: Collection[str] = (),
    check_model: Callable[[str], str] = lambda name: "",
    stem: str = "",
    within: Path | None = None,
    problems: list[str] | None = None,
) -> AgentType:
    """Parse one file. Raises AgentTypeError.

    known: the available tools; () for any.
    check_model: returns why a model is invalid, or "".
    stem: the name, if the front matter has none.
    within: the project of the file; None for the user's own.
    problems: collects a sentence for each invalid hook, and for an unknown model.
    """
    head, body = split_front_matter(text)
    if not head:
        raise AgentTypeError(f"{source}: an agent type begins with front matter between two lines of ---")
    try:
        table = read_front_matter(head)
        if problems is not None:
            problems += _unread_lists(table, source)
        tools, without = _tools(table.get("tools"), known)
        disallowed_tools, unknown = _tools(table.get("disallowedTools"), known)
        if hint := next(filter(None, (_hint(name, known) for name in unknown)), ""):
            raise AgentTypeError(f"disallowedTools: there is no tool named {', '.join(unknown)}{hint}")
    except (FrontMatterError, RuleError, AgentTypeError) as error:
        raise AgentTypeError(f"{source}: {error}") from None
    name, description = key_text(table, "name") or stem, key_text(table, "description")
    if not name or not body.strip():
        raise AgentTypeError(f"{source}: a name and a prompt are needed")
    if re.fullmatch(r"\w[\w.:-]*", name) is None:
        raise AgentTypeError(f"{source}: {name!r} is not a name of one word")
    if without and not tools:
        hint = _hint(without[0], known)
        raise AgentTypeError(f"{source}: none of its tools is available: {', '.join(without)}{hint}")
    model = model_of(table)
    if model and (why := check_model(model)):
        if problems is not None:
            problems.append(f"{source}: model {model}: {why}; the model of the session is used")
        model = ""
    hooks = front_matter_hooks(table, source, within, problems)
    plan = table.get("permissionMode") == "plan"
    return AgentType(name, description, body.strip(), tools, model, None, without, disallowed_tools, hooks, plan)


def _unread_lists(table: Mapping[str, Any], source: str) -> list[str]:
    """Return a sentence for each key that looks like a list of tools and is none."""
    read = ("tools", "disallowedTools", "permissionMode")
    strange = [str(key) for key in table if key not in read and resembled_list(str(key))]
    return [f"{source}: {key}: not known here, and not applied; write tools or disallowedTools" for key in strange]


def agent_types_from(data: Mapping[str, Any], source: str, notes: list[str] | None = None) -> dict[str, AgentType]:
    """Return the types that JSON data defines, by name; the keys are those of the front matter, and `prompt`.

    notes: collects what is ignored in their hooks.

    Raises AgentTypeError.
    """
    found = {}
    notes = [] if notes is None else notes
    for name, table in data.items():
        if not isinstance(table, dict) or not str(table.get("prompt") or "").strip():
            raise AgentTypeError(f"{source}: the agent {name} needs a prompt")
        try:
            tools, without = _tools(table.get("tools"), ())
            disallowed_tools, _ = _tools(table.get("disallowedTools"), ())
        except RuleError as error:
            raise AgentTypeError(f"{source}: the agent {name}: {error}") from None
        description = key_text(table, "description")
        notes += _unread_lists(table, f"{source}: the agent {name}")
        problems: list[str] = []
        hooks = front_matter_hooks(table, f"{source}: the agent {name}", None, problems, notes=notes)
        if problems:
            raise AgentTypeError(problems[0])
        found[name] = AgentType(
            name, description, table["prompt"], tools, model_of(table), None, without, disallowed_tools, hooks,
            table.get("permissionMode") == "plan",
        )  # fmt: skip
    return found


def _tools(value: Any, known: Collection[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the tools that the front matter lists, and separately those that are not here. Raises RuleError."""
    names = [tool_name(text.partition("(")[0]) for text in listed_items(value)]
    if names == ["*"]:
        return (), ()
    meant = {name.lower(): name for name in known}
    found: list[str] = []
    without: list[str] = []
    for name in dict.fromkeys(names):
        if not known or name.startswith("mcp__"):
            found.append(name)
        elif name.lower() in meant:
            found.append(meant[name.lower()])
        else:
            without.append(name)
    return tuple(dict.fromkeys(found)), tuple(without)


def _hint(name: str, known: Collection[str]) -> str:
    import difflib  # only for an unknown name

    near = difflib.get_close_matches(name, known, 1)
    return f"; did you mean {near[0]}?" if near else ""


def builtin_agent_types() -> dict[str, AgentType]:
    """Return the built-in types by name."""
    files: list[Path] = sorted((prompt_folder() / "agents").glob("*.md"))
    types = [read_agent_type(read_text(f, MAX_BYTES), f.name) for f in files]
    return {t.name: t for t in types}


def find_agent_types(
    home: Path | None, project: Path | None, known: Collection[str], check_model: Callable[[str], str]
) -> tuple[dict[str, AgentType], list[str]]:
    """Return the user's types by name, sorted, and problems with their files. project: None if it is not trusted."""
    found: dict[str, AgentType] = {}
    problems: list[str] = []
    for folder, within in search_folders(home, project, FOLDERS):
        for stem, path in markdown_files(folder, within, problems):
            if stem.casefold().endswith("readme"):
                continue  # not an agent type; `agent doctor` reports it
            try:
                text = read_regular(path, MAX_BYTES, within).decode("utf-8", "replace")
                kind = read_agent_type(text, path, known, check_model, stem=stem, within=within, problems=problems)
                kind = kind.replace(path=Path(path))
            except OSError as error:
                problems.append(f"{path}: this agent type is skipped: {error.strerror or error}")
            except AgentTypeError as error:
                problems.append(f"{error}; this agent type is skipped")
            else:
                found.setdefault(kind.name, kind)
    return dict(sorted(found.items())), problems
