"""The head of a markdown file: YAML between two lines of `---`. The door to PyYAML.

A head of plain `key: value` lines, as nearly all are, is read without the library, which takes longer to import than
all the files to read. Values of keys that hold words are taken as they stand, though YAML reads `[file]` or `a: b`
as something else: that is how people write them.
"""

from __future__ import annotations

import json
import re
from typing import Any

TEXTS = frozenset(("name", "description", "argument-hint", "model"))
LIMIT = 16_384
# Compiled on first use, which a run without such files never comes to.
_HEAD = r"\ufeff?---[ \t]*\n(?P<head>(?:[^\n]*\n)*?)---[ \t]*(?:\n|\Z)(?P<body>(?s:.*))"
_LINE = r"(?P<key>[A-Za-z][\w-]*):[ \t]+(?P<value>\S(?:.*\S)?)[ \t]*"
# What YAML reads as something else than words.
_WORDS = frozenset("true false yes no on off null".split())


class BadFrontMatter(ValueError):
    """A head that cannot be read; the message says where and why."""


def split_front_matter(text: str) -> tuple[str, str]:
    """The head, "" where there is none, and what stands below it."""
    text = text.replace("\r\n", "\n")
    found = re.match(_HEAD, text) if text.startswith(("---", "\ufeff---")) else None
    return (found["head"], found["body"]) if found else ("", text)


def read_front_matter(head: str) -> dict[str, Any]:
    """The table that a head spells. Raises BadFrontMatter."""
    if len(head) > LIMIT:
        raise BadFrontMatter(f"the head has more than {LIMIT:,} characters")
    quick = _read_plain(head)
    return _read_yaml(head) if quick is None else quick


def _read_plain(head: str) -> dict[str, Any] | None:
    """What plain lines say; None where there is anything else."""
    table: dict[str, Any] = {}
    for line in head.split("\n"):
        if not line:
            continue
        found = re.fullmatch(_LINE, line, re.ASCII)
        if found is None or found["key"] in table or not line.isprintable():
            return None
        key, value = found["key"], found["value"]
        if key.casefold() in _WORDS or (key in TEXTS and value[0] in "\"'|>&*!"):
            return None
        if key not in TEXTS:
            if value in ("true", "false"):
                table[key] = value == "true"
                continue
            marked = ": " in value or " #" in value or "\t#" in value or value.endswith(":")
            if marked or not value[0].isalpha() or not value.isascii() or value.casefold() in _WORDS:
                return None
        table[key] = value
    return table


def _read_yaml(head: str) -> dict[str, Any]:
    import yaml

    # Words on one line are quoted; what goes on in an indented line is YAML's to read.
    texts = rf"^({'|'.join(TEXTS)}):[ \t]+(?![\"'|>&*!])(\S(?:.*\S)?)[ \t]*$(?!\n[ \t]+\S)"
    quoted = re.sub(texts, lambda m: f"{m[1]}: {json.dumps(m[2], ensure_ascii=False)}", head, flags=re.MULTILINE)
    try:
        # The C reader, where PyYAML has it, takes a tenth of the time.
        table = yaml.load(quoted, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 2}: " if error.problem_mark else ""
        raise BadFrontMatter(f"{line}{error.problem or 'cannot be read'}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise BadFrontMatter(" ".join(str(error).split())[:200] or "cannot be read") from None
    if table is None:
        return {}
    if not isinstance(table, dict):
        raise BadFrontMatter("expected lines of the form key: value")
    return {str(key): value for key, value in table.items()}
