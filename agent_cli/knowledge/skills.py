"""Skills: folders with a SKILL.md that says when and how to use them; the model reads their other files when needed.

The order of precedence: .agent/skills/x/SKILL.md in the project, .claude/skills, .agents/skills, the same in the home
folder.

At startup only the front matter is read. The body is read when the skill is used: by the model with the tool Skill, or
by the user as /x.
"""

from __future__ import annotations

import os
from pathlib import Path

from agent_cli.config.prompts import FrontMatterError, read_front_matter, split_front_matter
from agent_cli.hooks import PlainHooks, front_matter_hooks
from agent_cli.knowledge.commands import (
    entries_inside,
    files_below,
    hint_of,
    is_unusable_name,
    key_text,
    read_prompt_file,
    search_folders,
)
from agent_cli.knowledge.template import expand_body
from agent_tools.base import ToolContext, ToolError
from agent_tools.fs.safe_files import read_start, resolve_inside
from agent_tools.record import Value
from agent_tools.results import ExpandedPrompt

FOLDERS = (".agent/skills", ".claude/skills", ".agents/skills")
SKILL_FILE = "SKILL.md"
MAX_BYTES = 131_072
MAX_LISTED_FILES = 100
_MAX_ENTRIES = 500  # of a skill's folder
_HEAD_BYTES = 16_384
_MAX_DESCRIPTION_CHARS = 1_536


class Skill(Value):
    """A skill, named after its folder.

    hint: its arguments, described for the user.
    by_model: the model may use it.
    by_user: the user may use it as a slash command.
    within: as in Command.
    from_user: it is the user's own.
    variables: as in Command.
    hooks: as in Command.
    """

    name: str
    folder: Path
    description: str = ""
    hint: str = ""
    by_model: bool = True
    by_user: bool = True
    within: Path | None = None
    from_user: bool = True
    variables: dict[str, str] = {}  # noqa: RUF012 - never changed
    hooks: PlainHooks = ()

    @property
    def path(self) -> Path:
        return self.folder / SKILL_FILE

    def expand(self, arguments: str, ctx: ToolContext) -> str | ExpandedPrompt:
        """Return the skill's text and a list of its other files. Raises ToolError."""
        head, body = read_prompt_file(self.path, MAX_BYTES, self.within, f"The skill {self.name}", self.variables)
        try:
            table = read_front_matter(head)
        except FrontMatterError as error:
            raise ToolError(f"The skill {self.name} cannot be used: {self.path}: its front matter: {error}.") from None
        body = body.replace("${CLAUDE_SKILL_DIR}", str(self.folder)).replace("{baseDir}", str(self.folder))
        below = (self._files(),)
        within = None if self.from_user else self.within
        hooks = front_matter_hooks(table, str(self.path), within, variables=self.variables)
        return expand_body(
            self.name, body, table, arguments, ctx, from_user=self.from_user, below=below, hooks=hooks, for_session=True
        )

    def _files(self) -> str:
        try:
            folder = self.folder if self.within is None else resolve_inside(self.folder, self.within)
        except OSError:
            folder = self.folder
        names = sorted(n for n in files_below(str(folder), _folder_entries, _is_hidden, 3) if n != SKILL_FILE)
        here = f"This skill's folder is {self.folder}; paths in it are relative to that."
        if not names:
            return here
        more = f", and {len(names) - MAX_LISTED_FILES} more" if len(names) > MAX_LISTED_FILES else ""
        return f"{here} Its other files: {', '.join(names[:MAX_LISTED_FILES])}{more}."


def find_skills(home: Path | None, project: Path | None) -> tuple[dict[str, Skill], list[str]]:
    """Return the skills by name, sorted, and problems with their files. project: None if it is not trusted."""
    found: dict[str, Skill] = {}
    problems: list[str] = []
    for folder, within in search_folders(home, project, FOLDERS):
        for name in skill_names(folder, within, problems):
            if name not in found and (skill := read_skill(name, Path(f"{folder}/{name}"), within, problems)):
                found[name] = skill
    return dict(sorted(found.items())), problems


def skill_names(folder: str, within: Path | None = None, problems: list[str] | None = None) -> list[str]:
    """Return the subfolders that may be skills, in order. within, problems: as for `entries_inside`."""
    return [n for n, is_folder in entries_inside(folder, within, problems) if is_folder and not is_unusable_name(n)]


def read_skill(name: str, folder: Path, within: Path | None, problems: list[str]) -> Skill | None:
    """Read a skill's front matter; return None if it cannot be used."""
    path = folder / SKILL_FILE
    try:
        real = path if within is None else resolve_inside(path, within)
        head, body = split_front_matter(read_start(real, _HEAD_BYTES).decode("utf-8", "replace"))
        table = read_front_matter(head)
    except FileNotFoundError:
        return None
    except OSError as error:
        problems.append(f"{path}: the skill is skipped: {error.strerror or error}")
        return None
    except FrontMatterError as error:
        problems.append(f"{path}: the skill is skipped: its front matter is invalid: {error}")
        return None
    description = " ".join(filter(None, (key_text(table, "description"), key_text(table, "when_to_use"))))
    if table.get("description") in (None, ""):
        description = description or _first_paragraph(body)
    if not description:
        problems.append(
            f"{path}: the skill is skipped: it has neither a description, which says when to use it, nor text"
        )
        return None
    return Skill(
        name,
        folder,
        description[:_MAX_DESCRIPTION_CHARS],
        hint_of(table),
        by_model=table.get("disable-model-invocation") is not True,
        by_user=table.get("user-invocable") is not False,
        within=within,
        from_user=within is None,
        hooks=front_matter_hooks(table, str(path), within, problems),
    )


def _first_paragraph(body: str) -> str:
    """Return the first paragraph that is not a heading, on one line: the description of a skill without one."""
    blocks = (block.strip() for block in body.split("\n\n"))
    return next((" ".join(block.split()) for block in blocks if block and not block.startswith("#")), "")


def _folder_entries(folder: str) -> list[tuple[str, bool]]:
    """Return a folder's entries, sorted, each with True for a folder; a link to a folder does not count."""
    try:
        with os.scandir(folder) as entries:
            listed = zip(entries, range(_MAX_ENTRIES), strict=False)
            return sorted((e.name, e.is_dir(follow_symlinks=False)) for e, _ in listed)
    except OSError:
        return []


def _is_hidden(name: str) -> bool:
    return not name.isprintable() or name.startswith(".") or name == "__pycache__"
