"""A session as markdown: the user's words quoted, the model's as they are, calls with their code in fences."""

from __future__ import annotations

from agent_cli.session.export.prose import as_markdown, code_fence, ticked
from agent_cli.session.export.told import AssistantEntry, Document, Entry, NoteEntry, ToolEntry, UserEntry, title_of
from agent_cli.session.export.words import (
    arguments_text,
    decision_text,
    diffs_of,
    document_facts,
    format_time,
    how,
    speaker_heading,
    steps,
)
from agent_tools.builtin import tool_class
from agent_tools.clipping import counted


def markdown(session: Document) -> str:
    """The whole document."""
    parts = [
        f"# {_inline(title_of(session))}",
        "\n".join(f"- {name}: {_inline(v)}" for name, v in document_facts(session)),
    ]
    for entry in session.entries:
        parts += _entry(entry)
    return "\n\n".join(parts) + "\n"


def _inline(text: str) -> str:
    """Words on one line in which nothing is markup."""
    line = " ".join(as_markdown(" ".join(text.split())).split())
    return line if line and line[0] not in "#>-+*=~|" else ticked(text)


def _entry(entry: Entry) -> list[str]:
    match entry:
        case UserEntry():
            shown = [f"({counted(entry.shown, 'attachment')})"] if entry.shown else []
            return [f"## {speaker_heading(entry)}, {format_time(entry.time)}", _quoted(entry.text), *shown]
        case AssistantEntry():
            thought = [_quoted(f"(thinking)\n\n{entry.thinking}")] if entry.thinking else []
            return [
                f"## Agent, {format_time(entry.time)}",
                *thought,
                *([as_markdown(entry.text)] if entry.text else []),
            ]
        case NoteEntry():
            return [f"*{_inline(entry.text)}*" if "*" not in entry.text else _inline(entry.text)]
        case ToolEntry():
            return _call(entry, "###")


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in as_markdown(text).split("\n"))


def _call(call: ToolEntry, level: str) -> list[str]:
    reason = [f"Said: {_inline(words)}"] if (words := decision_text(call)) else []
    parts = [f"{level} {ticked(call.summary or call.tool)}", how(call), *reason]
    if given := arguments_text(call):
        parts.append(code_fence(given, "sh" if tool_class(call.tool).command_argument else "json"))
    for diff in diffs_of(call):
        parts += [ticked(diff.path), code_fence(diff.patch, "diff")]
    if plan := steps(call):
        parts.append(code_fence("\n".join(plan)))
    if call.text and not (diffs_of(call) or plan):
        parts.append(code_fence(call.text))
    for inner in call.inner:
        parts += _call(inner, "####")
    return parts
