"""Generate `.agentrc.example` and the configuration reference from the schema; a test keeps them up to date.

python -m agent_cli.config.reference        writes both
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agent_cli.config.schema import Settings, SettingScope, TurnSettings, tables
from agent_tools.record import describe_type, hints_of

ROOT = Path(__file__).resolve().parent.parent.parent
_WHO = {
    "trusted": "if trusted",
    "tighten": "stricter; all if trusted",
    "asked": "if trusted, after another question",
    "user": "no",
}

INTRO = """\
# Settings of agent: every key with its default. Copy what you want to change to ~/.agentrc (yours, for every
# project) or to .agentrc at the root of a repository (shared; it can only tighten until you trust it).
# Order, later wins: ~/.agentrc, .agentrc, .agentrc.local, --settings, AGENT_<KEY> in the environment, flags.
"""


Field = tuple[str, str, str, Any, Any, str]


def setting_fields() -> list[Field]:
    """Return a row for each key in order: table, key, type in words, default, meaning, who may set it."""
    rows: list[Field] = []
    every: dict[str, type] = {"": Settings, **tables()}
    for table, cls in every.items():
        hints = hints_of(cls)
        # The inherited ones, of turns, last: a reader looks for the model first.
        for key in sorted(hints, key=lambda key: table == "" and key in TurnSettings._fields):
            if cls is Settings and key in tables():
                continue
            hint = hints[key]
            notes = hint.__metadata__
            scope = next((n for n in notes if isinstance(n, SettingScope)), SettingScope("trusted"))
            rows.append((table, key, describe_type(hint), getattr(cls, key), notes[0], scope.who))
    return rows


def example() -> str:
    """Return the text of `.agentrc.example`: TOML with every key commented out except the table headings."""
    lines = [INTRO]
    current = ""
    for table, key, _, default, meaning, _ in setting_fields():
        if table != current:
            lines.append(f"\n[{table}]")
            current = table
        lines.append(f"# {meaning}\n# {key} = {_toml(default)}")
    return "\n".join(lines) + "\n"


def reference() -> str:
    """Return the text of docs/configuration.md."""
    lines = [
        "# Settings",
        "",
        "`make pages` writes this page from the schema.",
        "",
        "Settings are TOML files. Later layers take precedence: `~/.agentrc`, `.agentrc` at the root of the",
        "workspace, `.agentrc.local` next to it, `--settings FILE|TOML|JSON`, `AGENT_<KEY>` in the environment, and",
        "options. Lists of rules from all layers are combined. Files can begin with a byte order mark, and JSON can",
        "contain comments and trailing commas.",
        "",
        "An error names the file, the line, the key and the expected value, and ends the run with exit code 2. If the",
        "error is in a file of a project that you have not trusted, agent reports it and reads the rest of the file.",
        "",
        "The column *project* shows whether the files of a repository can set a key. Once you",
        "[trust](security.md#trust) the repository, they can set it freely. Before that, they can only make it",
        "stricter, or cannot set it at all. They can never set some of the keys. `--settings` is treated like your own",
        "settings.",
        "",
        "`[profiles.NAME]` in your own settings is a group of keys. With `--profile NAME`, they take precedence over",
        "the files. `--profile small` and `--profile default` set the key `profile`, unless a group has that name.",
        "agent [understands](claude-code.md#settings) the keys of Claude Code in that program's settings files and in",
        "JSON for `--settings`.",
        "",
        "`AGENT_STATE_DIR` changes the folder in which sessions are stored. Under `[permissions]`, the variables are",
        "`AGENT_PERMISSION_MODE`, `AGENT_PERMISSION_ALLOW` and so on. Separate the items of a list with commas.",
    ]
    current: str | None = None
    for table, key, kind, default, meaning, who in setting_fields():
        if table != current:
            lines += [
                "",
                f"## [{table}]" if table else "## Top level",
                "",
                "| key | type | default | meaning | project |",
            ]
            lines.append("|---|---|---|---|---|")
            current = table
        lines.append(f"| `{key}` | {kind} | `{_toml(default)}` | {meaning} | {_WHO[who]} |")
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if value is None:
        return '""'
    return json.dumps(list(value) if isinstance(value, tuple) else value)


def files() -> dict[Path, str]:
    """Return the generated files by path."""
    return {ROOT / ".agentrc.example": example(), ROOT / "docs" / "configuration.md": reference()}


if __name__ == "__main__":
    for path, text in files().items():
        path.write_text(text, "utf-8")
