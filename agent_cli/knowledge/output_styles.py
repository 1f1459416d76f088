"""Output styles: markdown files whose text becomes part of the system prompt, after the instructions.

The order of precedence: .agent/output-styles/x.md in the project, .claude/output-styles, the same in the home folder,
those of plugins as `plugin:x`, the built-in ones. Names are not case-sensitive.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from agent_cli.config.prompts import FrontMatterError, prompt_folder, read_front_matter, split_front_matter
from agent_cli.knowledge.commands import key_text, markdown_files, search_folders
from agent_cli.knowledge.plugins.manifest import Plugin
from agent_tools.fs.safe_files import read_regular
from agent_tools.record import Value

FOLDERS = (".agent/output-styles", ".claude/output-styles")
DEFAULT = "default"
MAX_BYTES = 65_536


class OutputStyle(Value):
    """A style. text: added to the system prompt."""

    name: str
    description: str = ""
    text: str = ""
    path: Path | None = None


_DEFAULT = OutputStyle(DEFAULT, "answers as the instructions say")


def find_output_styles(
    home: Path | None, project: Path | None, plugins: Iterable[Plugin] = ()
) -> tuple[dict[str, OutputStyle], list[str]]:
    """Return the styles by name, the default first, and problems with files. project: None if it is not trusted."""
    problems: list[str] = []
    files: list[tuple[str, Path, Path | None]] = []
    for folder, within in search_folders(home, project, FOLDERS):
        files += [("", Path(path), within) for _, path in markdown_files(folder, within, problems)]
    files += [(f"{plugin.name}:", path, plugin.folder) for plugin in plugins for path in plugin.styles]
    shipped = sorted((prompt_folder() / "output-styles").glob("*.md"))
    found = {DEFAULT: _DEFAULT}
    for prefix, path, within in [*files, *(("", path, None) for path in shipped)]:
        if (style := _read_style(prefix, path, within, problems)) is not None:
            found.setdefault(style.name, style)
    return found, problems


def _read_style(prefix: str, path: Path, within: Path | None, problems: list[str]) -> OutputStyle | None:
    try:
        head, body = split_front_matter(read_regular(path, MAX_BYTES, within).decode("utf-8", "replace"))
        table = read_front_matter(head)
    except OSError as error:
        problems.append(f"{path}: this output style is skipped: {error.strerror or error}")
        return None
    except FrontMatterError as error:
        problems.append(f"{path}: this output style is skipped: its front matter is invalid: {error}")
        return None
    if not body.strip():
        problems.append(f"{path}: this output style is skipped: it has no text")
        return None
    name = key_text(table, "name") or path.stem
    return OutputStyle(f"{prefix}{name}", key_text(table, "description"), body.strip(), path)


def choose_style(name: str, styles: dict[str, OutputStyle]) -> OutputStyle | None:
    """Return the style of this name, ignoring case; None if there is none."""
    if name in styles:
        return styles[name]
    return next((style for known, style in styles.items() if known.casefold() == name.casefold()), None)


def style_block(style: OutputStyle) -> str:
    """Return the style's part of the system prompt; "" for the default."""
    return f"# Output style: {style.name}\n\n{style.text}" if style.text else ""
