"""Slash commands from markdown files: found by name at startup, read when they are used.

~/.agent/commands/x.md is /x, .agent/commands/sub/x.md in the project is /sub:x; .claude/commands works as well.

The project's commands take precedence over the user's own, and those over the built-in ones. docs/extensions.md
describes the keys of the front matter.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from agent_cli.config.prompts import FrontMatterError, prompt_folder, read_front_matter, split_front_matter
from agent_cli.hooks import PlainHooks, front_matter_hooks
from agent_tools.base import ToolContext, ToolError, UserCommand
from agent_tools.fs.safe_files import NotRegularFileError, outside_notice, read_regular, read_start, resolve_inside
from agent_tools.lazy import lazy_imports
from agent_tools.record import Value
from agent_tools.results import ExpandedPrompt
from agent_tools.text import fill_variables

with lazy_imports():
    from agent_cli.knowledge import template  # few messages need them

FOLDERS = (".agent/commands", ".claude/commands")
MAX_BYTES = 65_536
MAX_DEPTH = 4
MAX_ENTRIES = 5_000
_HEAD_BYTES = 4_096


class Command(Value):
    """A prompt stored in a file.

    name: without the slash.
    hint: its arguments, described for the user.
    by_model: the model may use it.
    within: the folder that the file must be in, links followed; None for any.
    from_user: it is the user's own, or built in.
    variables: values to fill into the text, such as a plugin's folder.
    hooks: from its front matter, as plain data.
    """

    name: str
    path: Path
    description: str = ""
    hint: str = ""
    by_model: bool = True
    within: Path | None = None
    from_user: bool = True
    variables: dict[str, str] = {}  # noqa: RUF012 - never changed
    hooks: PlainHooks = ()

    def expand(self, arguments: str, ctx: ToolContext) -> str | ExpandedPrompt:
        """Return the prompt with arguments inserted and mentioned files appended. Raises ToolError."""
        head, body = read_prompt_file(self.path, MAX_BYTES, self.within, f"The command /{self.name}", self.variables)
        try:
            table = read_front_matter(head)
        except FrontMatterError:
            table = {}  # reported at startup
        within = None if self.from_user else self.within
        hooks = front_matter_hooks(table, str(self.path), within, variables=self.variables)
        return template.expand_body(self.name, body, table, arguments, ctx, from_user=self.from_user, hooks=hooks)


def read_prompt_file(
    path: Path, limit: int, within: Path | None, what: str, variables: Mapping[str, str]
) -> tuple[str, str]:
    """Return the front matter and the text of a prompt file. Raises ToolError. what: the file, for the message."""
    try:
        text = read_regular(path, limit, within).decode("utf-8", "replace")
    except OSError as error:
        raise ToolError(f"{what} cannot be read: {error.strerror or error}.") from None
    head, body = split_front_matter(fill_variables(text, variables))
    if not body.strip():
        raise ToolError(f"{what} is empty: {path} has no text.")
    return head, body


def expand_message(text: str, commands: Mapping[str, UserCommand], ctx: ToolContext) -> str | ExpandedPrompt:
    """Expand a message: `/name arguments` to the command's prompt, any other with the files that it mentions.

    Raises ToolError.
    """
    if text.startswith("/"):
        name, arguments = split_call(text)
        if name in commands:
            expanded = commands[name].expand(arguments, ctx)
            if "@" not in arguments or not ctx.user_types:
                return expanded
            more = tuple(template.mentioned_files(arguments, ctx, arguments, elsewhere=True))
            if isinstance(expanded, ExpandedPrompt):
                return expanded.replace(below=(*expanded.below, *more))
            return "\n\n".join([expanded, *more])
    return template.with_files(text, ctx) if "@" in text or ctx.small_model else text


def split_call(text: str) -> tuple[str, str]:
    """Split `/name arguments` into name and arguments."""
    name, *rest = text.removeprefix("/").split(maxsplit=1)[:2] or [""]
    return name, rest[0] if rest else ""


def find_commands(home: Path | None, project: Path | None) -> tuple[dict[str, Command], list[str]]:
    """Return the commands by name, sorted, and problems with their files. project: None if it is not trusted."""
    found: dict[str, Command] = {}
    problems: list[str] = []
    for folder, within in search_folders(home, project, FOLDERS):
        for name, path in markdown_files(folder, within, problems):
            if name not in found:
                found[name] = read_command(name, Path(path), within, problems)
    return dict(sorted(found.items())), problems


def shipped_commands() -> dict[str, Command]:
    """Return the built-in commands; the model does not see them."""
    folder = prompt_folder() / "commands"
    files = [(name, Path(path)) for name, path in markdown_files(str(folder))]
    return {name: read_command(name, path, None, []).replace(by_model=False) for name, path in files}


def search_folders(
    home: Path | None, project: Path | None, names: tuple[str, ...]
) -> Iterator[tuple[str, Path | None]]:
    """Yield the folders to search for extensions, nearest first, each with the folder that its files must be in."""
    for base, within in ((project, project), (home, None)):
        if base is not None:
            yield from ((f"{base}/{name}", within) for name in names)


def markdown_files(
    folder: str, within: Path | None = None, problems: list[str] | None = None
) -> Iterator[tuple[str, str]]:
    """Yield names and paths of the markdown files below a folder, in order; `a:b` is the file b in the folder a.

    within: as in Command.
    problems: collects the links that lead out of it.
    """
    for path in files_below(folder, lambda f: entries_inside(f, within, problems), is_unusable_name, MAX_DEPTH):
        if path.endswith(".md"):
            yield path[:-3].replace("/", ":"), f"{folder}/{path}"


def files_below(
    folder: str, list_folder: Callable[[str], list[tuple[str, bool]]], skip: Callable[[str], bool], depth: int
) -> Iterator[str]:
    """Yield the paths of the files below a folder, in order.

    list_folder: returns a folder's entries, each with True for a folder.
    skip: returns True for names to leave out.
    depth: how many levels of subfolders to visit.
    """
    for name, is_folder in list_folder(folder):
        if skip(name):
            continue
        if not is_folder:
            yield name
        elif depth:
            yield from (f"{name}/{path}" for path in files_below(f"{folder}/{name}", list_folder, skip, depth - 1))


def entries_inside(folder: str, within: Path | None, problems: list[str] | None = None) -> list[tuple[str, bool]]:
    """Return the names in a folder, sorted, each with True for a folder; [] if it does not exist.

    within: as in Command; links that lead out of it are skipped.
    problems: collects these links.
    """
    found: list[tuple[str, bool]] = []
    problems = [] if problems is None else problems
    try:
        with os.scandir(folder if within is None else resolve_inside(folder, within)) as entries:
            for count, entry in enumerate(entries):
                if count == MAX_ENTRIES:
                    problems.append(f"{folder}: only {MAX_ENTRIES:,} of its entries are read")
                    break
                try:
                    if within is not None and entry.is_symlink():
                        found.append((entry.name, resolve_inside(f"{folder}/{entry.name}", within).is_dir()))
                    else:
                        found.append((entry.name, entry.is_dir()))
                except NotRegularFileError:
                    problems.append(outside_notice(f"{folder}/{entry.name}", within or Path("/")))
                except OSError:
                    continue
    except NotRegularFileError:
        if (notice := outside_notice(folder, within or Path("/"))) not in problems:
            problems.append(notice)
    except OSError:
        pass
    return sorted(found)


def is_unusable_name(name: str) -> bool:
    """Return True if a file or folder of this name cannot be a command."""
    return not name.isprintable() or name.startswith(".") or bool(set(" :") & set(name))


def read_command(name: str, path: Path, within: Path | None, problems: list[str]) -> Command:
    """Read a command from the beginning of its file; with invalid front matter it is usable, without description."""
    from_user = within is None
    try:
        real = path if within is None else resolve_inside(path, within)
        start = read_start(real, _HEAD_BYTES).decode("utf-8", "replace")
        table = read_front_matter(split_front_matter(start)[0])
    except FrontMatterError as error:
        problems.append(f"{path}: its front matter is invalid: {error}")
        return Command(name, path, within=within, from_user=from_user)
    except OSError:
        return Command(name, path, within=within, from_user=from_user)
    by_model = all(
        table.get(key) not in (True, "true") for key in ("disable-model-invocation", "hide-from-slash-command-tool")
    )
    hooks = front_matter_hooks(table, str(path), within, problems)
    found = Command(name, path, key_text(table, "description"), hint_of(table), by_model, within, from_user)
    return found.replace(hooks=hooks) if hooks else found


def hint_of(table: dict[str, Any]) -> str:
    return key_text(table, "argument-hint")


def key_text(table: dict[str, Any], key: str) -> str:
    """Return a key's value as text on one line; "" if it is neither text nor a number."""
    value = table.get(key)
    return " ".join(str(value).split()) if isinstance(value, (str, int, float)) else ""
