"""File name patterns as in the shell and .gitignore: `*`, `?`, `[a-z]`, `**`, `{a,b}`."""

from __future__ import annotations

import re

from agent_tools.results import ToolError

MAGIC = r"[*?\[\]{}]"


def compile_glob(pattern: str, anywhere: bool = True) -> re.Pattern[str]:
    """Compile a glob to a regular expression for whole relative paths with "/" between names.

    anywhere: a pattern without "/" matches a name at any depth, as in .gitignore.
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
            inner = found[0][1:-1].replace("\\", "\\\\").replace("[", "\\[")
            out.append(f"[^/{inner[1:]}]" if inner[0] in "!^" else f"[{inner}]")
            at += found.end()
        else:
            if char == "{":
                depth += 1
            elif char == "}" and depth:
                depth -= 1
                char = "end"
            elif char == "\\" and len(rest) > 1:
                at, char = at + 1, "\\" + pattern[at + 1]
            words = {"*": "[^/]*", "?": "[^/]", "{": "(?:", "end": ")"}
            out.append("|" if char == "," and depth else words.get(char) or re.escape(char[-1]))
            at += 1
    return "".join(out)


def split_base(pattern: str) -> tuple[str, str]:
    """Split off the leading directory without wildcards: "../src/**/*.py" -> "../src", "**/*.py"."""
    parts = pattern.split("/")
    fixed = next((n for n, part in enumerate(parts) if re.search(MAGIC, part)), len(parts) - 1)
    base = "/".join(parts[:fixed]) or ("/" if fixed and pattern.startswith("/") else "")
    return base, "/".join(parts[fixed:])


def asks_for_hidden(pattern: str) -> bool:
    """Return True if a pattern names hidden files or directories itself."""
    return bool(re.search(r"(?:^|/)(?:\{(?:[^{}/]*,)?)?\.[^./]", pattern))
