"""Prompt files, their front matter, and facts about a folder that need no program: its repository and branch.

Front matter is YAML between two lines of `---`; this is the only user of PyYAML. Plain `key: value` lines, the usual
case, are parsed without the library, which takes longer to import than all the files take to read. Text values are
taken literally, as people mean them, although YAML parses `[file]` or `a: b` differently.

Also parses lists of tools in front matter: rules under `allowed-tools`, names under `tools`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_cli.kernel.rules import KNOWN_TOOLS, RuleError, read_rule, split_rules
from agent_tools.fs.safe_files import read_regular, read_text

if TYPE_CHECKING:
    import re

TEXT_KEYS = frozenset(("name", "description", "argument-hint", "model"))
# Keys that end a description that continues over several unindented lines.
_AFTER_TEXT = (
    "name|model|tools|disallowedTools|allowed-tools|argument-hint|color|version|license|permissionMode|hooks|skills"
    "|mcpServers|maxTurns|memory|effort|metadata|compatibility|disable-model-invocation|user-invocable"
)
MAX_FRONT_MATTER_CHARS = 16_384
# Words that YAML does not read as text.
_YAML_WORDS = frozenset("true false yes no on off null".split())


class FrontMatterError(ValueError):
    """The front matter cannot be parsed; the message says where and why."""


def split_front_matter(text: str) -> tuple[str, str]:
    """Split a text into its front matter, "" if there is none, and the rest."""
    text = text.replace("\r\n", "\n")
    if text.startswith(("---", "\ufeff---")):
        # No regular expressions, here and below: a start reads many files, and usually compiles no other.
        lines = text.removeprefix("\ufeff").split("\n")
        marks = (number for number, line in enumerate(lines) if line.rstrip(" \t") == "---")
        if next(marks, None) == 0 and (end := next(marks, 0)):
            return "".join(f"{line}\n" for line in lines[1:end]), "\n".join(lines[end + 1 :])
    return "", text


def read_front_matter(head: str) -> dict[str, Any]:
    """Parse front matter into a table. Raises FrontMatterError."""
    if len(head) > MAX_FRONT_MATTER_CHARS:
        raise FrontMatterError(f"the head has more than {MAX_FRONT_MATTER_CHARS:,} characters")
    quick = _read_plain(head)
    return _read_yaml(head) if quick is None else quick


def _read_plain(head: str) -> dict[str, Any] | None:
    """Parse plain lines; None if there is anything else."""
    table: dict[str, Any] = {}
    for line in head.split("\n"):
        if not line:
            continue
        key, _, rest = line.partition(":")
        value = rest.strip(" ")
        if not (_is_key(key) and value and rest[0] == " " and line.isprintable()) or key in table:
            return None
        if key.casefold() in _YAML_WORDS or (key in TEXT_KEYS and value[0] in "\"'|>&*!"):
            return None
        if key not in TEXT_KEYS:
            if value in ("true", "false"):
                table[key] = value == "true"
                continue
            marked = ": " in value or " #" in value or "\t#" in value or value.endswith(":")
            if marked or not value[0].isalpha() or not value.isascii() or value.casefold() in _YAML_WORDS:
                return None
        table[key] = value
    return table


def _is_key(text: str) -> bool:
    """Return True for a letter followed by letters, digits, _ and -."""
    return text.isascii() and text[:1].isalpha() and text.replace("-", "_").isidentifier()


def _read_yaml(head: str) -> dict[str, Any]:
    import re

    import yaml

    # A star begins a reference in YAML, and a pattern or "all" in these files.
    head = re.sub(r"^([\w-]+):[ \t]+(\*.*?)[ \t]*$", _quote, head, flags=re.MULTILINE)
    # Quote text on one line; leave continuation lines to YAML.
    texts = rf"^({'|'.join(TEXT_KEYS)}):[ \t]+(?![\"'|>&*!])(\S(?:.*\S)?)[ \t]*$(?!\n[ \t]+\S)"
    quoted = re.sub(texts, _quote, head, flags=re.MULTILINE)
    # The C loader, if PyYAML has it, takes a tenth of the time.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        try:
            table = yaml.load(quoted, loader)
        except yaml.MarkedYAMLError as error:
            # Many agents describe themselves with examples over several lines, which is not valid YAML.
            more = rf"(?:\n(?!(?:{_AFTER_TEXT}):).*)+?"
            whole = rf"(?m)^description:[ \t]*+(?![\"'|>&*!{{\[])(.+{more})(?=\n(?:{_AFTER_TEXT}):|\n?\Z)"
            joined = re.sub(whole, lambda m: f"description: {json.dumps(m[1].strip(), ensure_ascii=False)}", head)
            try:
                table = yaml.load(re.sub(texts, _quote, joined, flags=re.MULTILINE), loader)
            except yaml.MarkedYAMLError:
                raise error from None
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 2}: " if error.problem_mark else ""
        raise FrontMatterError(f"{line}{error.problem or 'cannot be read'}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise FrontMatterError(" ".join(str(error).split())[:200] or "cannot be read") from None
    if table is None:
        return {}
    if not isinstance(table, dict):
        raise FrontMatterError("expected lines of the form key: value")
    return {str(key): value for key, value in table.items()}


def _quote(text: re.Match[str]) -> str:
    return f"{text[1]}: {json.dumps(text[2], ensure_ascii=False)}"


def read_allowed(value: object) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the rules in a value of `allowed-tools`, and a message for each invalid one."""
    rules: list[str] = []
    notes: list[str] = []
    try:
        texts = listed_items(value)
    except RuleError as error:
        return (), (f"allowed-tools: {error}",)
    for text in texts:
        try:
            rule = read_rule("allow", text, "", Path("/"))
        except RuleError as error:
            notes.append(f"allowed-tools: {error}")
            continue
        rules.append(rule.text)
        if rule.tool not in KNOWN_TOOLS and not rule.tool.startswith("mcp__"):
            notes.append(f"allowed-tools: {rule.text} names a tool that is not built in")
    return tuple(rules), tuple(notes)


def listed_items(value: object) -> list[str]:
    """Return the items of a list, a text with commas or spaces, or a text in brackets. Raises RuleError."""
    if value is None:
        return []
    if isinstance(value, str):
        text = value.strip()
        return split_rules(text[1:-1] if text.startswith("[") and text.endswith("]") else text)
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return [rule for item in value for rule in split_rules(item)]
    raise RuleError(f"{str(value)[:80]!r} is not a list of tools")


_PACKAGE = Path(__file__).resolve().parent.parent
_MAX_GIT_FILE_BYTES = 4096
_MAX_PACKED_REFS_BYTES = 1 << 24
_MAX_PROMPT_BYTES = 1 << 20


def prompt(name: str) -> str:
    """Return the text of a prompt file such as "system" or "tools/Read", without surrounding blank lines.

    A checkout's live `prompts/` comes first, then the copy in the wheel. Raises FileNotFoundError.
    """
    return read_text(prompt_folder() / f"{name}.md", _MAX_PROMPT_BYTES).strip()


def prompt_folder() -> Path:
    """Return the directory of the prompt files: a checkout's own, else that of the wheel."""
    live = _PACKAGE.parent / "prompts"
    return live if (live / "system.md").is_file() else _PACKAGE / "_prompts"


def git_branch(root: Path) -> str:
    """Return the branch in HEAD, read without starting git; "" if there is none, or its name is invalid."""
    return git_head(root)[0]


def git_head(root: Path) -> tuple[str, str]:
    """Return the branch in HEAD and its commit, read without starting git; "" for what is not found or invalid."""
    git = root / ".git"
    try:
        if os.path.isfile(git):  # noqa: PTH113 - the method raises where a parent is closed
            git = root / _git_line(git).removeprefix("gitdir:").strip()
        head = _git_line(git / "HEAD")
    except (OSError, ValueError):
        return "", ""
    if not head.startswith("ref: refs/"):
        return (f"detached at {head[:12]}", head) if set(head) <= set("0123456789abcdef") and head else ("", "")
    ref = head.removeprefix("ref: ")
    name = _valid_name(ref.removeprefix("refs/heads/"))
    return (name, _commit_of(git, ref)) if name else ("", "")


def default_branch(root: Path) -> str:
    """Return the default branch of the remote repository, read without starting git; "" if it is not known."""
    try:
        head = _git_line(root / ".git/refs/remotes/origin/HEAD")
    except (OSError, ValueError):
        return ""
    prefix = "ref: refs/remotes/origin/"
    return _valid_name(head.removeprefix(prefix)) if head.startswith(prefix) else ""


def _valid_name(name: str) -> str:
    valid = name.isprintable() and len(name) <= 250 and not set(" ~^:?*[\\") & set(name) and ".." not in name
    return name if valid else ""


def _commit_of(git: Path, ref: str) -> str:
    """Return the commit of a branch; "" if there is none, or it is stored in another way."""
    try:
        common = git / _git_line(git / "commondir")
    except (OSError, ValueError):
        common = git
    try:
        commit = _git_line(common / ref)
    except (OSError, ValueError):
        try:
            packed = read_regular(common / "packed-refs", _MAX_PACKED_REFS_BYTES).decode("utf-8", "replace")
        except (OSError, ValueError):
            return ""
        commit = next((line.partition(" ")[0] for line in packed.split("\n") if line.endswith(f" {ref}")), "")
    return commit if set(commit) <= set("0123456789abcdef") else ""


def _git_line(path: Path) -> str:
    return read_regular(path, _MAX_GIT_FILE_BYTES).decode("utf-8", "replace").strip()


def workspace_root(cwd: Path, home: Path | None) -> Path:
    """Return the repository that contains `cwd`, or `cwd` itself. The search stops below HOME and below `/`."""
    for folder in (cwd, *cwd.parents):
        if folder == home or folder == Path(folder.anchor):
            break
        if os.path.exists(folder / ".git"):  # noqa: PTH110
            return folder
    return cwd
