"""Commands that a person keeps as markdown files: found by name at the start, read when they are used.

    ~/.agent/commands/x.md is /x, .agent/commands/sub/x.md in the project is /sub:x; .claude/commands counts as well.

The nearest file of a name wins: the project's before the person's own. The head of a file may have a description and an
argument-hint; its other keys change nothing. A command is only text: nothing in it is run.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agent_cli.config.front_matter import BadFrontMatter, read_front_matter, split_front_matter
from agent_cli.config.mentions import mentioned_files, with_files
from agent_tools.base import ToolContext, ToolError
from agent_tools.regular import read_regular, read_start
from agent_tools.values import Value

FOLDERS = (".agent/commands", ".claude/commands")
LIMIT = 65_536
DEEPEST = 4
MOST = 500
_HEAD = 4_096
_PLACE = r"\$(ARGUMENTS\b|[1-9](?!\d))"


class Command(Value):
    """A prompt kept in a file. name: as it is called, without the slash. hint: its arguments, in words.

    by_model: the model may use it. within: the folder that the file must be in, links followed; None for any.
    """

    name: str
    path: Path
    description: str = ""
    hint: str = ""
    by_model: bool = True
    within: Path | None = None

    def expand(self, arguments: str, ctx: ToolContext) -> str:
        """The prompt with the arguments in their places and the files that it mentions. Raises ToolError."""
        try:
            text = read_regular(self.path, LIMIT, self.within).decode("utf-8", "replace")
        except OSError as error:
            raise ToolError(f"The command /{self.name} cannot be read: {error.strerror or error}.") from None
        _, body = split_front_matter(text)
        if not body.strip():
            raise ToolError(f"The command /{self.name} is empty: {self.path} has no text.")
        prompt = with_arguments(body.strip(), arguments.strip())
        return "\n\n".join([prompt, *mentioned_files(prompt, ctx)])


def with_arguments(body: str, arguments: str) -> str:
    """The prompt with `$ARGUMENTS` and `$1` to `$9` replaced; without such a place they stand below it."""
    if re.search(_PLACE, body) is None:
        return f"{body}\n\nArguments: {arguments}" if arguments else body
    words = _words(arguments)

    def fill(place: re.Match[str]) -> str:
        if place[1] == "ARGUMENTS":
            return arguments
        number = int(place[1])
        return words[number - 1] if number <= len(words) else ""

    return re.sub(_PLACE, fill, body)


def _words(arguments: str) -> list[str]:
    """The arguments one by one: quoted as in a shell where that can be read."""
    if not set(arguments) & set("\"'\\"):
        return arguments.split()
    import shlex

    try:
        return shlex.split(arguments)
    except ValueError:
        return arguments.split()


def expanded(text: str, commands: Mapping[str, Command], ctx: ToolContext) -> str:
    """What a message means: a command's prompt for `/name arguments`, else itself and the files that it mentions.

    Raises ToolError."""
    name, arguments = split_call(text) if text.startswith("/") else ("", "")
    return commands[name].expand(arguments, ctx) if name in commands else with_files(text, ctx)


def split_call(text: str) -> tuple[str, str]:
    """The name and the arguments of `/name arguments`."""
    name, *rest = text.removeprefix("/").split(maxsplit=1)[:2] or [""]
    return name, rest[0] if rest else ""


def find_commands(home: Path | None, project: Path | None) -> tuple[dict[str, Command], list[str]]:
    """The commands by name, sorted, and what is wrong with files among them. project: None where it has no say."""
    found: dict[str, Command] = {}
    problems: list[str] = []
    for base, within in ((project, project), (home, None)):
        for folder in FOLDERS if base is not None else ():
            for name, path in _files(f"{base}/{folder}"):
                if name not in found:
                    found[name] = _read_head(name, Path(path), within, problems)
    return dict(sorted(found.items())), problems


def _files(folder: str, prefix: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Names and paths of the command files below a folder, in order."""
    try:
        with os.scandir(folder) as entries:
            listed = sorted(((e.name, e.is_dir()) for e, _ in zip(entries, range(MOST), strict=False)))
    except OSError:
        return
    for name, is_folder in listed:
        if not name.isprintable() or name.startswith(".") or set(" :") & set(name):
            continue
        if is_folder and depth < DEEPEST:
            yield from _files(f"{folder}/{name}", f"{prefix}{name}:", depth + 1)
        elif name.endswith(".md") and not is_folder:
            yield prefix + name[:-3], f"{folder}/{name}"


def _read_head(name: str, path: Path, within: Path | None, problems: list[str]) -> Command:
    """The command, from the beginning of its file. One with a bad head can be used, but says nothing of itself."""
    command = Command(name, path, within=within)
    try:
        start = read_start(path, _HEAD).decode("utf-8", "replace")
        table = read_front_matter(split_front_matter(start)[0])
    except BadFrontMatter as error:
        problems.append(f"{path}: the head between the lines of --- was not read: {error}")
        return command
    except OSError:
        return command
    by_model = table.get("disable-model-invocation") is not True
    return command.but(
        description=_words_of(table, "description"), hint=_words_of(table, "argument-hint"), by_model=by_model
    )


def _words_of(table: dict[str, Any], key: str) -> str:
    """A key's value on one line; "" where it is none that can be shown."""
    value = table.get(key)
    return " ".join(str(value).split()) if isinstance(value, (str, int, float)) else ""
