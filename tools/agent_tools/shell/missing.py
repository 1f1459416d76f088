"""Recognize that a command failed because a program or a module is not installed, and tell the model the ways out."""

from __future__ import annotations

import re

from agent_tools.base import ToolContext
from agent_tools.text import shorten

_PROGRAM = (
    r"(?m)^(?:.*?: )?(?:line \d+: |\d+: )?([\w.+-]+): (?:command )?not found$"
    r"|env: [\u2018'\"]?([\w.+-]+)[\u2019'\"]?: No such file or directory"
)
_MODULE = r"No module named ['\"]?([A-Za-z_]\w*)|Cannot find module '([@\w][\w./@-]*)'|Cannot find package '([^']+)'"
# What the end of the output must have, where errors are.
_MAX_CHARS = 4_000


def missing_note(output: str, ctx: ToolContext) -> str:
    """Return a note about what the failed command missed; "" if that is not it, or the model knows it already."""
    end = output[-_MAX_CHARS:]
    if found := re.search(_PROGRAM, end):
        name, what = found[1] or found[2], "is not installed here, or not on the PATH of commands"
    elif found := re.search(_MODULE, end):
        name = next(filter(None, found.groups()))
        what = "is not installed for the interpreter that ran"
        if _is_own(name, ctx):
            return ""
    else:
        return ""
    ask = "ask the user, " if ctx.workspace.offered("AskUserQuestion") else ""
    return ctx.once(
        f"[{shorten(name, 60)} {what}. Look for the project's own environment or another way to run it; else {ask}"
        "install it if that is approved, or say what could not be run.]"
    )


def _is_own(module: str, ctx: ToolContext) -> bool:
    """Return True if a module is the project's own: then its path is wrong, and nothing is missing."""
    top = re.split(r"[./]", module.removeprefix("./"))[0] or "."
    folders = (ctx.workspace.cwd, ctx.workspace.root, ctx.workspace.root / "src")
    return any((folder / f"{top}{end}").exists() for folder in folders for end in ("", ".py"))
