"""A session as markdown: the person's words quoted, the model's as they are, calls with their code in fences."""

from __future__ import annotations

from agent_cli.session.export.prose import as_markdown, fenced, ticked
from agent_cli.session.export.told import Answer, Done, Entry, Remark, Said, Told, title_of
from agent_cli.session.export.words import arguments, changes, clock, facts, how, speaker, steps, words_of
from agent_tools.clipping import counted


def markdown(session: Told) -> str:
    """The whole document."""
    parts = [f"# {_inline(title_of(session))}", "\n".join(f"- {name}: {_inline(v)}" for name, v in facts(session))]
    for entry in session.entries:
        parts += _entry(entry)
    return "\n\n".join(parts) + "\n"


def _inline(text: str) -> str:
    """Words on one line in which nothing is markup."""
    line = " ".join(as_markdown(" ".join(text.split())).split())
    return line if line and line[0] not in "#>-+*=~|" else ticked(text)


def _entry(entry: Entry) -> list[str]:
    match entry:
        case Said():
            shown = [f"({counted(entry.shown, 'attachment')})"] if entry.shown else []
            return [f"## {speaker(entry)}, {clock(entry.time)}", _quoted(entry.text), *shown]
        case Answer():
            thought = [_quoted(f"(thinking)\n\n{entry.thinking}")] if entry.thinking else []
            return [f"## Agent, {clock(entry.time)}", *thought, *([as_markdown(entry.text)] if entry.text else [])]
        case Remark():
            return [f"*{_inline(entry.text)}*" if "*" not in entry.text else _inline(entry.text)]
        case Done():
            return _call(entry, "###")


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in as_markdown(text).split("\n"))


def _call(call: Done, level: str) -> list[str]:
    reason = [f"Said: {_inline(words)}"] if (words := words_of(call)) else []
    parts = [f"{level} {ticked(call.summary or call.tool)}", how(call), *reason]
    if given := arguments(call):
        parts.append(fenced(given, "sh" if call.tool == "Bash" else "json"))
    for diff in changes(call):
        parts += [ticked(diff.path), fenced(diff.patch, "diff")]
    if plan := steps(call):
        parts.append(fenced("\n".join(plan)))
    if call.text and not (changes(call) or plan):
        parts.append(fenced(call.text))
    for inner in call.inner:
        parts += _call(inner, "####")
    return parts
