"""The options of `agent`: the one definition shared by the quick parser, Typer, --help and the tests.

Most command lines are parsed by `parse_options`, which knows exactly this table and gives up (None) on anything it does
not fully understand: an unknown word, a missing value, an invalid choice, --help. Typer, built from the same table in
`cli.app`, then decides; importing it takes as long as a whole one-shot run otherwise does.
"""

import re
from typing import Annotated, Any, Literal, get_args

from agent_cli.core.modes import MODES, Effort
from agent_cli.core.rules import KNOWN_TOOLS
from agent_tools.record import Value

Format = Literal["text", "json", "stream-json"]
FORMATS: tuple[str, ...] = get_args(Format)
ASK_WHICH = "?"


class Flag(Value):
    """How an option is written: its names, its help, the setting it overrides, and its heading in --help.

    --help appends the choices of an option to its help.
    """

    names: tuple[str, ...]
    help: str
    panel: str
    setting: str = ""
    choices: tuple[str, ...] = ()
    metavar: str = ""
    optional_value: bool = False


TASK = "The task"
SESSION = "Session"
MODEL = "Model"
PERMISSION = "Permissions"
OUTPUT = "Output"
LIMITS = "Limits and exit codes"
CONTEXT = "Settings and prompts"


def _flag(names: str, panel: str, text: str, **more: Any) -> Flag:
    return Flag(tuple(names.split()), text, panel, **more)


class RunOptions(Value):
    """One run of `agent` as requested on the command line. None and empty values mean: not given."""

    prompt: tuple[str, ...] = ()
    print: Annotated[bool, _flag("-p --print", TASK, "Run one task, print the answer and exit.")] = False
    image: Annotated[
        tuple[str, ...], _flag("-i --image", TASK, "Attach an image to the first message.", metavar="FILE")
    ] = ()

    continue_: Annotated[bool, _flag("-c --continue", SESSION, "Continue the latest session of this folder.")] = False
    resume: Annotated[
        str | None,
        _flag("-r --resume", SESSION, "Resume a session by its ID, its name or words in it; alone: pick from a list.",
              metavar="[ID|WORDS]", optional_value=True),
    ] = None  # fmt: skip
    worktree: Annotated[
        str | None,
        _flag("-w --worktree", SESSION, "Work in a separate git worktree, on the branch agent/NAME.",
              metavar="[NAME]", optional_value=True),
    ] = None  # fmt: skip
    fork_session: Annotated[
        bool, _flag("--fork-session", SESSION, "With -c or -r: continue in a copy with a new ID.")
    ] = False
    session_id: Annotated[
        str | None, _flag("--session-id", SESSION, "Use this UUID as the ID of the session.", metavar="UUID")
    ] = None
    no_session_persistence: Annotated[bool, _flag("--no-session-persistence", SESSION, "Do not save the session.")] = (
        False
    )

    model: Annotated[
        str | None, _flag("--model -m", MODEL, "Model to use, as provider/model.", setting="model", metavar="MODEL")
    ] = None
    effort: Annotated[
        str | None,
        _flag("--effort", MODEL, "Reasoning effort.", setting="effort", choices=get_args(Effort), metavar="LEVEL"),
    ] = None
    fallback_model: Annotated[
        tuple[str, ...],
        _flag("--fallback-model", MODEL, "Model to switch to when the model fails.", setting="fallback_models",
              metavar="MODEL"),
    ] = ()  # fmt: skip

    permission_mode: Annotated[
        str | None, _flag("--permission-mode", PERMISSION, "Approval mode.", choices=MODES, metavar="MODE")
    ] = None
    allowed_tools: Annotated[
        tuple[str, ...],
        _flag("--allowedTools --allowed-tools", PERMISSION,
              "Rules for calls to run without asking, e.g. 'Bash(git status:*) Edit'.", metavar="RULES"),
    ] = ()  # fmt: skip
    ask_tools: Annotated[
        tuple[str, ...],
        _flag("--askTools --ask-tools", PERMISSION,
              "Rules for calls that always need approval, even if another rule allows them.", metavar="RULES"),
    ] = ()  # fmt: skip
    disallowed_tools: Annotated[
        tuple[str, ...],
        _flag("--disallowedTools --disallowed-tools", PERMISSION, "Rules for calls to refuse.", metavar="RULES"),
    ] = ()
    trust: Annotated[
        bool, _flag("--trust", PERMISSION, "Trust this project's settings, commands and hooks for this run.")
    ] = False
    add_dir: Annotated[
        tuple[str, ...], _flag("--add-dir", PERMISSION, "Add a folder to the workspace.", metavar="DIR")
    ] = ()
    tools: Annotated[
        tuple[str, ...], _flag("--tools", PERMISSION, "Offer only these tools; '' for none.", metavar="NAMES")
    ] = ()

    output_format: Annotated[
        str, _flag("--output-format", OUTPUT, "Format of the answer, with -p.", choices=FORMATS, metavar="FORMAT")
    ] = "text"
    input_format: Annotated[
        str,
        _flag("--input-format", OUTPUT, "Format of the input, with -p.", choices=("text", "stream-json"),
              metavar="FORMAT"),
    ] = "text"  # fmt: skip
    json_schema: Annotated[
        str | None,
        _flag("--json-schema", OUTPUT, "Require an answer that matches this JSON schema.", metavar="FILE|JSON"),
    ] = None
    include_partial_messages: Annotated[
        bool, _flag("--include-partial-messages", OUTPUT, "With stream-json: print parts of the answer as they arrive.")
    ] = False
    include_hook_events: Annotated[
        bool, _flag("--include-hook-events", OUTPUT, "With stream-json: print each hook as it starts and ends.")
    ] = False
    plain: Annotated[bool, _flag("--plain", OUTPUT, "Print line by line, without colours or redrawing.")] = False
    verbose: Annotated[bool, _flag("--verbose", OUTPUT, "Print more to standard error.")] = False
    debug: Annotated[bool, _flag("--debug", OUTPUT, "Write requests and responses to a file, and show tracebacks.")] = (
        False
    )
    report: Annotated[
        tuple[str, ...],
        _flag("--report", OUTPUT, "With -p: also write a report: summary, annotations, codequality, junit, sarif, json "
              "or outputs.", metavar="FORMAT:FILE"),
    ] = ()  # fmt: skip
    patch: Annotated[
        str | None,
        _flag("--patch", OUTPUT, "With -p: work in a copy, and write the changes to this file as a patch.",
              metavar="FILE"),
    ] = None  # fmt: skip
    record: Annotated[
        str | None,
        _flag("--record", OUTPUT, "Record requests and answers for --model replay:FILE.", metavar="FILE"),
    ] = None

    max_turns: Annotated[
        int | None, _flag("--max-turns", LIMITS, "Stop after this many model calls.", setting="max_rounds", metavar="N")
    ] = None
    max_budget_usd: Annotated[
        float | None,
        _flag("--max-budget-usd", LIMITS, "Stop once the turn has cost this many dollars.", setting="max_cost",
              metavar="USD"),
    ] = None  # fmt: skip
    allow_unknown_cost: Annotated[
        bool,
        _flag("--allow-unknown-cost", LIMITS, "With --max-budget-usd: run even if the model's price is not known.",
              setting="allow_unknown_cost"),
    ] = False  # fmt: skip
    on_ask: Annotated[
        str,
        _flag("--on-ask", LIMITS, "What -p does with a call that needs approval.",
              choices=("deny", "suspend", "fail"), metavar="ACTION"),
    ] = "deny"  # fmt: skip
    fail_on_denied: Annotated[bool, _flag("--fail-on-denied", LIMITS, "Exit 5 if anything was denied.")] = False
    fail_on_degraded: Annotated[
        bool, _flag("--fail-on-degraded", LIMITS, "Exit 75 if the model failed after tools had run.")
    ] = False
    fail_on_unfinished: Annotated[
        bool, _flag("--fail-on-unfinished", LIMITS, "Exit 1 if the plan has open steps at the end.")
    ] = False

    settings: Annotated[
        tuple[str, ...],
        _flag("--settings", CONTEXT, "Read settings from a file, or from TOML or JSON text.", metavar="FILE|JSON"),
    ] = ()
    bare: Annotated[bool, _flag("--bare", CONTEXT, "Ignore settings and memory files; use only these options.")] = False
    system_prompt: Annotated[
        str | None,
        _flag("--system-prompt", CONTEXT, "Replace the system prompt.", setting="system_prompt", metavar="TEXT"),
    ] = None
    append_system_prompt: Annotated[
        str | None,
        _flag("--append-system-prompt", CONTEXT, "Add to the system prompt.", setting="append_system_prompt",
              metavar="TEXT"),
    ] = None  # fmt: skip
    mcp_config: Annotated[
        tuple[str, ...],
        _flag("--mcp-config", CONTEXT, "Add MCP servers from a file or JSON text.", metavar="FILE|JSON"),
    ] = ()
    strict_mcp_config: Annotated[
        bool, _flag("--strict-mcp-config", CONTEXT, "Use only the MCP servers of --mcp-config.")
    ] = False


def flags() -> dict[str, tuple[Flag, Any]]:
    """Return the flag and bare type of each field except the prompt, in the order of the table."""
    return {
        name: (hint.__metadata__[0], hint.__origin__)
        for name, hint in RunOptions.__annotations__.items()
        if name != "prompt"
    }


def parse_options(argv: list[str]) -> RunOptions | None:
    """Parse a command line; None if Typer has to parse it."""
    table = {n: (field, flag, kind) for field, (flag, kind) in flags().items() for n in flag.names}
    found: dict[str, Any] = {}
    words: list[str] = []
    rest = list(reversed(normalize_argv(argv)))
    while rest:
        word = rest.pop()
        if word == "--":
            words += reversed(rest)
            break
        if not word.startswith("-") or word == "-":
            words.append(word)
            continue
        name, equals, value = word.partition("=")
        if name not in table or (equals and not name.startswith("--")):
            return None
        field, flag, kind = table[name]
        if kind is bool:
            if equals:
                return None
            found[field] = True
            continue
        if not equals:
            if not rest:
                return None
            value = rest.pop()
        read = _value(flag, kind, value)
        if read is None:
            return None
        found[field] = (*found.get(field, ()), read) if str(kind).startswith("tuple") else read
    return RunOptions(prompt=tuple(words), **found)


def _value(flag: Flag, kind: Any, text: str) -> Any:
    if flag.choices and text not in flag.choices:
        return None
    number = next((t for t in (int, float) if t in get_args(kind)), None)
    if number is None:
        return text
    try:
        return number(text)
    except ValueError:
        return None


# Patterns of values for the two flags whose value may be omitted.
_VALUES = {"resume": re.compile(r"[^-].*", re.DOTALL), "worktree": re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")}


def _is_rule(word: str) -> bool:
    """Return True if a word is certainly a rule: the name of a known tool, alone or with parentheses."""
    name, opened, rest = word.partition("(")
    return name.startswith("mcp__") or (name in KNOWN_TOOLS and (not opened or rest.endswith(")")))


def normalize_argv(argv: list[str]) -> list[str]:
    """Expand two conveniences of a command line: several rules after one flag, and flags without their value.

    Only words in the exact form of a rule (or the name of a worktree) are consumed, so a prompt is not swallowed;
    --resume takes the next word, whatever it is.
    """
    listing = {n for f in ("allowed_tools", "disallowed_tools", "ask_tools") for n in flags()[f][0].names}
    values = {n: (field, form) for field, form in _VALUES.items() for n in flags()[field][0].names}
    out: list[str] = []
    index = 0
    while index < len(argv):
        word = argv[index]
        index += 1
        out.append(word)
        if word == "--":
            return out + argv[index:]
        if word in values:
            field, form = values[word]
            if index < len(argv) and form.fullmatch(argv[index]):
                out.append(argv[index])
                index += 1
            else:
                out[-1] = f"--{field}={ASK_WHICH}"
        elif word in listing and index < len(argv):
            out.append(argv[index])
            index += 1
            while index < len(argv) and _is_rule(argv[index]):
                out += [word, argv[index]]
                index += 1
    return out
