"""Display of paths, suggestions for a path that does not exist, and glob patterns: `*`, `?`, `[a-z]`, `**`, `{a,b}`."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path

from agent_tools.base import ToolContext, ToolError
from agent_tools.fs.files import lstat_resolved, not_a_directory_error, open_directory, resolved_path_error
from agent_tools.lazy import lazy_imports
from agent_tools.text import one_line, shorten, unescape_line

with lazy_imports():
    from agent_tools.search import ripgrep

GLOB_CHARS = r"[*?\[\]{}]"


def compile_glob(pattern: str, anywhere: bool = True) -> re.Pattern[str]:
    """Compile a glob to a regular expression for whole relative paths with "/" between names.

    anywhere: a pattern without "/" matches a name at any depth, as in .gitignore.
    Brackets and braces also match themselves: `[id]` is the name of a folder in some web frameworks.
    Raises ToolError for an invalid pattern.
    """
    given, pattern = pattern, pattern.removeprefix("./")
    if anywhere and "/" not in pattern.rstrip("/"):
        pattern = "**/" + pattern
    if pattern.endswith("/"):
        pattern += "**"
    try:
        return re.compile(_translate(pattern) + r"\Z", re.DOTALL)
    except re.error:
        raise ToolError(f"Invalid pattern {given!r}. Use *, ?, [abc], ** and {{a,b}}.") from None


def _translate(pattern: str) -> str:
    out: list[str] = []
    at = depth = 0
    while at < len(pattern):
        rest = pattern[at:]
        if rest.startswith("**/") and (at == 0 or pattern[at - 1] in "/{,"):
            out.append("(?:[^/]+/)*")
            at += 3
        elif rest.startswith("**"):
            out.append(".*")
            at += len(rest) - len(rest.lstrip("*"))
        elif (char := pattern[at]) == "[" and (found := re.match(r"\[[!^]?\]?[^\]/]*\]", rest)):
            out.append(_choice(found[0]))
            at += found.end()
        else:
            if char == "{":
                out.append(f"(?:{re.escape(group)}|" if (group := _braces(rest)) else "(?:")
                depth, at = depth + 1, at + 1
                continue
            if char == "}" and depth:
                depth -= 1
                char = "end"
            elif char == "\\" and len(rest) > 1:
                at, char = at + 1, "\\" + pattern[at + 1]
            words = {"*": "[^/]*", "?": "[^/]", "end": ")"}
            out.append("|" if char == "," and depth else words.get(char) or re.escape(char[-1]))
            at += 1
    return "".join(out)


def _choice(group: str) -> str:
    """Return the expression for a bracket expression, which also matches its own text."""
    inner = re.sub(r"[\\\[&~|]|-(?=-)", r"\\\g<0>", group[1:-1])
    choice = f"[^/{inner[1:]}]" if inner[0] in "!^" else f"[{inner}]"
    try:
        re.compile(choice)
    except re.error:  # such as a range that runs backwards: [user-id]
        return re.escape(group)
    return f"(?:{re.escape(group)}|{choice})"


def _braces(text: str) -> str:
    """Return the braces with which a text begins, as far as they are closed; "" if they are not."""
    depth = 0
    for n, char in enumerate(text):
        depth += {"{": 1, "}": -1}.get(char, 0)
        if not depth:
            return text[: n + 1]
    return ""


def as_names(pattern: str) -> str:
    """Return a glob whose brackets, and braces without a choice, mean themselves: `[id]/*.{ts,tsx}`.

    What matches it goes before what matches the pattern in other ways. "" if there is no difference.
    """
    out, at = "", 0
    while at < len(pattern):
        group = _braces(pattern[at:]) if pattern[at] == "{" else ""
        if group and "," in group:
            out += group
        elif group:
            out += f"\\{{{as_names(group[1:-1]) or group[1:-1]}\\}}"
        elif pattern[at] == "\\":
            out += pattern[at : at + 2]
        else:
            out += f"\\{pattern[at]}" if pattern[at] in "[]" else pattern[at]
        at += len(group) or (2 if pattern[at] == "\\" else 1)
    return "" if out == pattern else out


def as_text(pattern: str) -> str:
    """Return a glob in which all brackets and braces mean themselves."""
    return re.sub(r"\\.|[\[\]{}]", lambda found: found[0] if len(found[0]) > 1 else f"\\{found[0]}", pattern)


def matching_names(pattern: str, names: Iterable[str], anywhere: bool = True) -> list[str]:
    """Return the relative paths that match a glob: those that match it `as_names`, if any do. Raises ToolError."""
    found = [*filter(compile_glob(pattern, anywhere).match, names)]
    literal = as_names(pattern)
    return ([*filter(compile_glob(literal, anywhere).match, found)] if literal else []) or found


def split_base(pattern: str) -> tuple[str, str]:
    """Split off the leading directory without wildcards: "../src/**/*.py" -> "../src", "**/*.py"."""
    parts = pattern.split("/")
    plain = [re.sub(r"^\$\{\w+\}$", "", parts[0]), *parts[1:]]
    fixed = next((n for n, part in enumerate(plain) if re.search(GLOB_CHARS, part)), len(parts) - 1)
    base = "/".join(parts[:fixed]) or ("/" if fixed and pattern.startswith("/") else "")
    return base, "/".join(parts[fixed:])


def matches_hidden(pattern: str) -> bool:
    """Return True if a pattern explicitly names hidden files or directories."""
    return bool(re.search(r"(?:^|/)(?:\{(?:[^{}/]*,)?)?\.[^./]", pattern))


_MAX_SUGGESTIONS = 3


def display_path(text: str, ctx: ToolContext) -> str:
    """Format a path argument for a summary, short and on one line. Never raises."""
    try:
        return shorten(ctx.workspace.show(ctx.workspace.resolve(text)))
    except ToolError:
        return shorten(text) or "(no path)"


def stat_or_error(path: Path, ctx: ToolContext) -> os.stat_result:
    """Stat a resolved path. Raises ToolError if it is missing or inaccessible."""
    try:
        state = lstat_resolved(path)
        if stat.S_ISLNK(state.st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        return state
    except FileNotFoundError:
        raise not_found_error(path, ctx) from None
    except OSError as error:
        raise resolved_path_error(path, error) from None


def require_directory(path: Path, ctx: ToolContext) -> None:
    """Raise ToolError if a resolved path is not a directory, naming what is there."""
    mode = stat_or_error(path, ctx).st_mode
    if not stat.S_ISDIR(mode):
        raise ctx.workspace.advised(not_a_directory_error(ctx.workspace.spell(path), mode))


def not_found_error(path: Path, ctx: ToolContext) -> ToolError:
    """Return the error for a missing file, suggesting similar names."""
    from difflib import get_close_matches

    workspace, spell = ctx.workspace, ctx.workspace.spell
    if path == workspace.cwd:
        where = one_line(str(path))
        back = workspace.advice("Bash", "{} goes back to the root.")
        return ToolError(f"The working directory {where} is gone. Use absolute paths.{back}")
    if workspace.scratch.contains(path):
        return ToolError(f"{spell(path)} was deleted: there is a limit on disk. Make the call again.")
    parent = path.parent
    there = parent.is_dir()
    text = f"{spell(path)} does not exist"
    if (meant := unescape_line(str(path))) != str(path) and os.path.lexists(meant):
        use = workspace.advice("Bash", "Send that character itself, or use {} with a wildcard in its place.")
        return ToolError(f"{text}, but a file is shown so: an escape in its name is one character.{use}")
    if not there:
        known = next((p for p in parent.parents if p.is_dir()), Path("/"))
        text += f", nor does its directory; the nearest that does is {spell(known)!r}"
    if same := _files_of_same_name(path, ctx):
        have = "has that name" if len(same) == 1 else "have that name"
        return ToolError(f"{text}. {' and '.join(map(spell, same))} {have}.")
    if not there:
        return ToolError(f"{text}.{workspace.advice('LS Glob', 'Use {} to find the right path.', 'ls')}")
    names = _list_names(parent)
    lowered = {name.lower(): name for name in names}
    close = [lowered[n] for n in get_close_matches(path.name.lower(), lowered, n=3, cutoff=0.6)]
    close += [n for n in sorted(names) if Path(n).stem == path.stem and n not in close][:2]
    if close:
        return ToolError(f"{text}. Near it: {', '.join(spell(parent / name) for name in close)}.")
    search = workspace.advice("Glob", f"{{}} **/{_escape_braces(shorten(path.name, 60))} may find it.")
    return ToolError(f"{text}.{search or workspace.advice('', 'Use {} to look for it.', 'find')}")


def _list_names(folder: Path) -> list[str]:
    """List the names in the directory at a resolved path; [] if it cannot be listed."""
    try:
        directory = open_directory(folder, readable=True)
    except OSError:
        return []
    try:
        return os.listdir(directory)  # noqa: PTH208 - a path has no method for descriptors
    finally:
        os.close(directory)


def _escape_braces(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _is_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(lstat_resolved(path).st_mode)
    except OSError:
        return False


def _files_of_same_name(path: Path, ctx: ToolContext) -> list[Path]:
    """Return the files of the workspace with the name of a missing one, except ignored files; [] if there are many."""
    root = ctx.workspace.root
    found = [root / name for name in ripgrep.files_named(path.name, root, ctx) if _is_file(root / name)]
    if ctx.readable is not None:
        found = [file for file in found if ctx.readable(file)]
    return found if len(found) <= _MAX_SUGGESTIONS else []
