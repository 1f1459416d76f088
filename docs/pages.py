"""What the documentation takes from the program: `make pages` writes it, and tests hold that it is up to date.

A page has each such part between two comments, `<!-- generated: NAME -->` and `<!-- end -->`. The rest of a page is
written by hand.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import wrap
from typing import Any, get_args

from agent_cli.cli import command_names, run_options
from agent_cli.cli.app import build_command_tree, load_command
from agent_cli.cli.commands.review import FINDINGS_EXIT_CODE
from agent_cli.cli.help import GROUPS, _explain, _names
from agent_cli.config import reference
from agent_cli.hooks.events import HOOK_EVENTS
from agent_cli.kernel.runtime.user_decision import decisions_table
from agent_cli.models.registry import PROVIDERS, Provider
from agent_cli.models.server_info import usual_model
from agent_cli.policy.programs import git_reads, reads
from agent_cli.policy.programs.row import Row
from agent_cli.policy.programs.table import ROWS
from agent_cli.shells.headless import output
from agent_cli.shells.terminal.slash import builtin_commands
from docs import man

ROOT = Path(__file__).resolve().parent.parent
WIDTH = 120
START, END = "<!-- generated: {} -->", "<!-- end -->"
_BASES = {"agent_cli/": ROOT / "agent_cli", "agent_tools/": ROOT / "tools/agent_tools"}
# Files of a folder that are named: modules, and data that belongs to one.
_NAMED = (".py", ".bash", ".json")


def files_in(folder: Path) -> list[str]:
    """Return the names of a folder's files as the tree has them: modules without `.py`."""
    found = (p for p in folder.iterdir() if p.suffix in _NAMED and p.name != "__init__.py")
    return sorted(p.stem if p.suffix == ".py" else p.name for p in found)


def tree(block: str) -> str:
    """Return the tree with the names of the files that are there; the lines of folders stay as they are."""
    lines: list[str] = []
    folders: list[tuple[int, Path]] = []
    for line in block.splitlines():
        depth = len(line) - len(line.lstrip())
        first = line.split()[0]
        while folders and folders[-1][0] >= depth:
            folders.pop()
        if first in _BASES or (first.endswith("/") and folders):
            path = _BASES[first] if first in _BASES else folders[-1][1] / first
            folders.append((depth, path))
            indent = " " * (depth + 2)
            names = wrap(" ".join(files_in(path)), WIDTH, initial_indent=indent, subsequent_indent=indent)
            lines += [line, *names]
        elif not folders:
            lines.append(line)
    return "".join(f"{line}\n" for line in lines)


def tree_block() -> str:
    """Return the tree of architecture.md: its folders as they are written there, with the files of each."""
    text = (ROOT / "docs/architecture.md").read_text("utf-8")
    return f"```text\n{tree(inside(text, 'tree').partition('```text' + chr(10))[2].partition('```')[0])}```\n"


def cells(*texts: str) -> str:
    """Return a row of a table."""
    return f"| {' | '.join(text.replace('|', chr(92) + '|') for text in texts)} |\n"


def code(*words: str, between: str = ", ") -> str:
    return between.join(f"`{word}`" for word in words)


def options_block() -> str:
    """Return the options of `agent`, a table for each heading of --help."""
    panels: dict[str, str] = {}
    for flag, _ in run_options.flags().values():
        names = code(*flag.names[:-1], f"{flag.names[-1]} {flag.metavar}".strip())
        text = flag.help
        if flag.choices:
            text += f" One of {code(*flag.choices)}{' or ' + code(*flag.aliases) if flag.aliases else ''}."
        setting = f"[`{flag.setting}`](configuration.md)" if flag.setting else ""
        panels[flag.panel] = panels.get(flag.panel, "") + cells(names, text, setting)
    head = "| option | what it does | setting |\n|---|---|---|\n"
    return "\n".join(f"## {panel}\n\n{head}{rows}" for panel, rows in panels.items())


def commands_block() -> str:
    """Return each command of `agent`, by group, with its own options; the options of a run are only named."""
    root = build_command_tree()
    groups = {word: heading for heading, words in GROUPS.items() for word in words}
    order = [word for words in GROUPS.values() for word in words]
    names = sorted(command_names(), key=lambda n: (order.index(n) if n in order else len(order), n))
    *_, last = GROUPS
    text, heading = "", ""
    for name in names:
        if heading != (heading := groups.get(name, last)):
            text += f"## {heading}\n\n"
        text += "".join(_command(load_command(name), f"agent {name}", root))
    return text.rstrip() + "\n"


def _command(command: Any, path: str, root: Any, level: int = 3) -> Iterator[str]:
    ctx = command.make_context(path, [], resilient_parsing=True)
    usage = " ".join((path, *(piece.strip("{}") for piece in command.collect_usage_pieces(ctx))))
    yield f"{'#' * level} {path}\n\n{command.help}\n\n```text\n{usage}\n```\n\n"
    of_run = {name for flag, _ in run_options.flags().values() for name in flag.names}
    shown = [p for p in command.get_params(ctx) if not p.hidden and "--help" not in p.opts]
    own = [p for p in shown if p.param_type_name == "argument" or not of_run >= {*p.opts}]
    if own:
        yield "| argument or option | what it does |\n|---|---|\n"
        for p in own:
            name = p.make_metavar(ctx) if p.param_type_name == "argument" else _names(p)
            yield cells(code(name), _explain(p, ctx).replace("(default: ", "(default "))
        yield "\n"
    if others := sorted({max(p.opts, key=len) for p in shown if p not in own}):
        listed = wrap(f"It also takes these [options of a run](options.md): {code(*others)}.", WIDTH)
        yield "\n".join(listed) + "\n\n"
    for name, inner in getattr(command, "commands", {}).items():
        yield from _command(inner, f"{path} {name}", root, level + 1)


def slash_commands_block() -> str:
    """Return the slash commands that are built in."""
    head = "| command | what it does | other names | during a turn |\n|---|---|---|---|\n"
    rows = (
        cells(
            code(f"/{c.name} {c.usage}".strip()), c.help, code(*(f"/{a}" for a in c.aliases)), "yes" if c.aside else ""
        )
        for c in (builtin_commands()[name] for name in sorted(builtin_commands()))
    )
    return head + "".join(rows)


_EXIT_CODES = {
    output.OK: "The run finished, or the model failed after tools had run.",
    output.FAILED: "The model or the run failed, or a hook blocked the prompt. With `--fail-on-unfinished`, the plan "
    "has open steps.",
    output.USAGE: "The usage or the settings are wrong, or a gateway reports no cost for a budget.",
    output.SUSPENDED: "The run is waiting for the user.",
    output.LIMIT: "A limit stopped the run.",
    output.DENIED: "The run finished, but every call needed an approval that nobody could give. With "
    "`--fail-on-denied`, also if any call was denied.",
    output.DIFFERS: "A [replay](ci.md#record-and-replay) differs from the recording. Standard error shows the first "
    "difference.",
    FINDINGS_EXIT_CODE: "`agent review` has a finding at least as severe as [`--fail-on`](ci.md#reviews).",
    output.RETRY: "The provider failed before any tool ran, and trying again may work. With `--fail-on-degraded`, also "
    "a degraded run.",
    output.exit_code("interrupted", fail_on_degraded=False): "Ctrl-C interrupted the run.",
    output.PIPE: "The reader of standard output went away.",
}


def exit_codes_block() -> str:
    """Return the exit codes of a run, with the outcomes that lead to each."""
    outcomes: dict[int, list[str]] = {}
    for word in get_args(output.Outcome):
        for degraded in (False, True):
            found = outcomes.setdefault(output.exit_code(word, fail_on_degraded=degraded), [])
            found += [word] if word not in found else []
    head = "| code | outcome | meaning |\n|---|---|---|\n"
    return head + "".join(cells(str(n), ", ".join(outcomes.get(n, [])), text) for n, text in _EXIT_CODES.items())


_WIRES = {
    "openai": "Chat Completions", "responses": "Responses", "anthropic": "Anthropic Messages", "gemini": "Gemini",
    "ollama": "Ollama", "litellm": "LiteLLM",
}  # fmt: skip


def providers_block() -> str:
    """Return the table of providers, in the order of preference."""
    head = "| provider | protocol | key | address | default model |\n|---|---|---|---|---|\n"
    return head + "".join(_provider(p) for p in PROVIDERS if p.wire in _WIRES)


def _provider(p: Provider) -> str:
    address = code(p.base_url) if p.base_url else "LiteLLM's" if p.wire == "litellm" else "by location"
    keys = code(*p.keys) or ("its own credentials" if not p.local else "none")
    return cells(code(p.name), _WIRES[p.wire], keys, " or ".join(filter(None, (address, code(*p.base_url_vars)))),
                 code(default) if (default := usual_model(p)) else "")  # fmt: skip


def programs_page() -> str:
    """Return the tables of docs/programs.md."""
    rows: dict[int, tuple[Row, list[str]]] = {}
    for name, row in ROWS.items():
        rows.setdefault(id(row), (row, []))[1].append(name)
    titles: dict[str, Callable[[Row], bool]] = {
        "Read-only programs": lambda row: row.reads_only and row.shows == row.operands,
        "Programs with read-only options": lambda row: row.reads_only,
        "Programs whose files are known": lambda row: not row.reads_only and not row.partly and row.wraps is None,
        "Programs whose options are known": lambda row: row.partly and not row.hides and bool(row.roles or row.effects),
        "Programs that run other commands": lambda row: row.hides or row.wraps is not None,
        "Programs that need something": lambda row: True,
    }
    found = dict.fromkeys(titles, "")
    for row, names in rows.values():
        title = next(title for title, holds in titles.items() if holds(row))
        words = " ".join(f"`{name}`" for name in sorted(names)).replace("|", "\\|")
        found[title] += f"| {words} | {_notes(row)} |\n"
    nested: dict[str, list[str]] = {}
    for name, inner in sorted(git_reads.NESTED):
        nested.setdefault(name, []).append(inner)
    git = [*sorted(git_reads.SUBCOMMANDS), *(f"{name} {' '.join(inner)}" for name, inner in nested.items())]
    text = "".join(
        f"## {title}\n\n" + "\n".join(wrap(code(*names), WIDTH, break_on_hyphens=False)) + "\n\n"
        for title, names in (
            ("Read-only shell commands", sorted(reads.BUILTINS)),
            ("Read-only git subcommands", git),
        )
    )
    head = "| programs | options that lead elsewhere, and other needs |\n|---|---|\n"
    return text + "\n".join(f"## {title}\n\n{head}{lines}" for title, lines in found.items())


def _notes(row: Row) -> str:
    """Describe what a row knows beyond operands."""
    of_roles: dict[str, list[str]] = {}
    for option, role in row.roles.items():
        if role not in ("flag", "value"):
            of_roles.setdefault("run" if role in ("run", "act") else role, []).append(option)
    words = {
        "run": "run or control", "write": "write", "into": "write into", "read": "read",
        "steer": "read instructions from", "chdir": "change the folder", "other": "change what is done",
    }  # fmt: skip
    notes = [f"{words[role]} ({code(*names, between=' ')})" for role, names in of_roles.items()]
    if row.network:
        notes.append("network" if "*" in row.network else f"network ({code(*row.network.split(), between=' ')})")
    if row.verbs:
        notes.append(f"read-only ({code(*row.verbs)})")
    if row.outside:
        notes.append(row.outside)
    return ", ".join(notes)


def commands_list_block() -> str:
    """Return the first words that are commands, as a paragraph."""
    return "\n".join(wrap(code(*command_names()), WIDTH, break_on_hyphens=False)) + "\n"


def events_table() -> str:
    """Return the table of hook events."""
    lines = [
        "| event | when | matcher | its own fields on standard input | what it can do |",
        "|---|---|---|---|---|",
    ]
    for row in HOOK_EVENTS.values():
        matcher = code(*row.subjects) or row.matched.removesuffix("_name").replace("_", " ")
        can = [*dict.fromkeys(words for words, _ in row.verdicts.values())]
        can += ["name the folder"] * row.names_folder
        can += ["change the input"] * row.changes_input + ["change the result"] * row.changes_output
        can += ["add context"] * row.adds_context + ["set variables"] * row.sets_variables
        lines.append(f"| `{row.name}` | {row.when} | {matcher} | {code(*row.fields, between=' ')} | {', '.join(can)} |")
    return "\n".join(lines) + "\n"


BLOCKS: dict[str, dict[str, Callable[[], str]]] = {
    "architecture.md": {"tree": tree_block},
    "commands.md": {"commands": commands_block, "names": commands_list_block},
    "exit-codes.md": {"exit codes": exit_codes_block},
    "hooks.md": {"events": events_table},
    "models.md": {"providers": providers_block},
    "options.md": {"options": options_block},
    "programs.md": {"programs": programs_page},
    "slash-commands.md": {"slash commands": slash_commands_block},
    "http-api.md": {"decisions": decisions_table},
}


def inside(text: str, name: str) -> str:
    """Return what is between the marks of a part."""
    start = START.format(name)
    assert start in text, start
    return text.partition(start)[2].partition(END)[0]


def handwritten(text: str) -> str:
    """Return a page without its generated parts."""
    return re.sub(r"<!-- generated: .*? -->.*?<!-- end -->", "", text, flags=re.DOTALL)


def pages() -> Iterator[tuple[Path, str]]:
    """Yield each generated file with the text that it should have."""
    yield from reference.files().items()
    plain = {code: re.sub(r"\[([^]]+)\]\([^)]*\)|`", r"\1", text) for code, text in _EXIT_CODES.items()}
    yield ROOT / "docs/agent.1", man.man_page(plain.items())
    for name, blocks in BLOCKS.items():
        path = ROOT / "docs" / name
        text = path.read_text("utf-8")
        for block, made in blocks.items():
            before, mark, rest = text.partition(START.format(block))
            assert mark, f"{name} has no mark for {block}"
            text = f"{before}{mark}\n\n{made()}\n{END}{rest.partition(END)[2]}"
        yield path, text


if __name__ == "__main__":
    for path, made in pages():
        path.write_text(made, "utf-8")
