"""Export a session as markdown, HTML or JSON: choose the format by file name and write the document.

Markdown: user messages quoted, answers as they are, code of calls in fences.
JSON: one object, for programs.
ATIF: a trajectory for evaluation harnesses, see `export_atif`.
HTML: one page without scripts or external resources, light and dark, with collapsible calls.

Untrusted markdown is sanitized: rendered as HTML, or left as markdown with its HTML escaped.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

from agent_cli.kernel.redact import Redactor
from agent_cli.kernel.session.export_atif import ToolDefinitions, atif
from agent_cli.kernel.session.export_document import (
    AssistantEntry,
    Document,
    Entry,
    NoteEntry,
    ToolEntry,
    UserEntry,
    arguments_text,
    build_document,
    decision_text,
    diffs_of,
    document_facts,
    format_time,
    how,
    speaker_heading,
    steps,
    title_of,
)
from agent_cli.kernel.session.files import read_log
from agent_tools.fs.safe_files import write_atomic
from agent_tools.record import Value
from agent_tools.registry import tool_traits
from agent_tools.results import Diff
from agent_tools.text import counted, escape_controls

FORMATS = ("markdown", "html", "json", "atif")
_BY_ENDING = {".md": "markdown", ".markdown": "markdown", ".html": "html", ".htm": "html", ".json": "json"}


def format_of(name: str) -> str:
    """Return the format for a file name; "" if its suffix is unknown."""
    return _BY_ENDING.get(Path(name).suffix.lower(), "")


def document(log: Path, kind: str, definitions: ToolDefinitions = lambda names: []) -> str:
    """Export a session's log, with secrets redacted once more. Raises SessionNotFoundError or OSError.

    definitions: returns the definitions of tools by name, for ATIF.
    """
    found = read_log(log)
    made = atif(found, log.stem, definitions) if kind == "atif" else _writer(kind)(build_document(found, log.stem))
    return Redactor(os.environ)(made)


def _writer(kind: str) -> Callable[[Document], str]:
    # Only the exporter in use is imported: JSON does not load the markdown parser.
    if kind == "html":
        return page
    if kind == "json":
        return data

    return markdown


def write_document(path: Path, text: str, *, replace: bool) -> None:
    """Write a document atomically, readable only by its owner.

    Raises OSError; FileExistsError if the file exists and `replace` is False.
    """
    if not replace:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    try:
        write_atomic(path, text.encode("utf-8", "replace"))
    except OSError:
        if not replace:
            with suppress(OSError):
                path.unlink()
        raise


FORMAT_VERSION = 1


def data(session: Document) -> str:
    """Export as JSON: ASCII, indented."""
    header = {name: getattr(session.header, name) for name in session.header._fields}
    known = {
        "format": FORMAT_VERSION,
        "title": title_of(session),
        "name": session.name,
        "created": session.created,
        "updated": session.updated,
        "usage": _plain(session.usage),
        "header": header,
        "entries": [_plain(entry) for entry in session.entries],
        "damaged_records": session.bad,
    }
    return json.dumps(known, indent=2) + "\n"


def _plain(value: Any) -> Any:
    """Convert a value to plain data with all its fields; `type` names the kind of a record."""
    if isinstance(value, Value):
        return {"type": value._tag} | {name: _plain(getattr(value, name)) for name in value._fields}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return {k: _plain(v) for k, v in value.items()} if isinstance(value, dict) else value


_LINKS = re.compile(r"(?:https?://|mailto:)", re.IGNORECASE)
_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_MAX_TRIES = 3


@lru_cache(1)
def _to_html() -> MarkdownIt:
    parser = MarkdownIt("js-default", {"html": False, "linkify": False, "typographer": False}).disable("image")
    parser.validateLink = lambda url: _LINKS.match(url) is not None  # type: ignore[method-assign]
    return parser


@lru_cache(1)
def _with_html() -> MarkdownIt:
    """Return a parser that recognizes HTML as any markdown reader would."""
    return MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])


def as_html(text: str) -> str:
    """Render markdown as safe HTML that needs no more escaping."""
    tokens = _to_html().parse(escape_controls(text))
    for token in _all(tokens):
        if token.type == "link_open":
            token.attrSet("rel", "noopener noreferrer")
    rendered: str = _to_html().renderer.render(tokens, _to_html().options, {})
    return rendered


def _all(tokens: Sequence[Token]) -> list[Token]:
    return [t for token in tokens for t in (token, *(token.children or ()))]


def as_markdown(text: str) -> str:
    """Escape HTML in markdown and close its last fence; if that fails, put the whole text in a fence."""
    text = escape_controls(text).strip("\n")
    for _ in range(_MAX_TRIES):
        tokens = _with_html().parse(text)
        marked = _lines_with_html(tokens)
        if not marked:
            return _close_fence(text, tokens)
        lines = text.split("\n")
        for number in marked & set(range(len(lines))):
            lines[number] = _TAG.sub("&lt;", lines[number])
        text = "\n".join(lines)
    return code_fence(text)


def _lines_with_html(tokens: Sequence[Token]) -> set[int]:
    found: set[int] = set()
    for token in tokens:
        kinds = {token.type, *(child.type for child in token.children or ())}
        if kinds & {"html_block", "html_inline"} and token.map:
            found |= set(range(*token.map))
    return found


def _close_fence(text: str, tokens: Sequence[Token]) -> str:
    """Close a fence that runs to the end of the text, so that it does not swallow what follows."""
    last = tokens[-1] if tokens else None
    if last is None or last.type != "fence" or last.map is None:
        return text
    lines = text.split("\n")
    end = lines[last.map[1] - 1].strip()
    closes = last.map[1] - last.map[0] > 1 and end.startswith(last.markup) and not end.strip(last.markup[0])
    return text if closes else f"{text}\n{last.markup}"


def code_fence(text: str, language: str = "") -> str:
    """Return the text as a code block whose fence nothing in it closes."""
    text = escape_controls(text).rstrip("\n")
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def inline_code(text: str) -> str:
    """Return one line as inline code, with enough backticks."""
    line = " ".join(escape_controls(text).split())
    longest = max((len(run) for run in re.findall(r"`+", line)), default=0)
    ticks = "`" * (longest + 1)
    room = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{ticks}{room}{line}{room}{ticks}" if line else "``` ```"


def markdown(session: Document) -> str:
    """Export as markdown."""
    parts = [
        f"# {_inline(title_of(session))}",
        "\n".join(f"- {name}: {_inline(v)}" for name, v in document_facts(session)),
    ]
    for entry in session.entries:
        parts += _entry(entry)
    return "\n\n".join(parts) + "\n"


def _inline(text: str) -> str:
    """Return text on one line without markup."""
    line = " ".join(as_markdown(" ".join(text.split())).split())
    return line if line and line[0] not in "#>-+*=~|" else inline_code(text)


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
    reason = [f"Comment: {_inline(words)}"] if (words := decision_text(call)) else []
    parts = [f"{level} {inline_code(call.summary or call.tool)}", how(call), *reason]
    if given := arguments_text(call):
        parts.append(code_fence(given, "sh" if tool_traits(call.tool).command_argument else "json"))
    for diff in diffs_of(call):
        parts += [inline_code(diff.path), code_fence(diff.patch, "diff")]
    if plan := steps(call):
        parts.append(code_fence("\n".join(plan)))
    if call.text and not (diffs_of(call) or plan):
        parts.append(code_fence(call.text))
    for inner in call.inner:
        parts += _call(inner, "####")
    return parts


POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
STYLE = """
:root { color-scheme: light dark; --ink: #1c1c1e; --back: #fff; --pale: #6a6a70; --line: #d9d9de; --you: #eef3fb;
  --code: #f5f5f7; --add: #d7f5dd; --del: #fde0de; --hunk: #6f42c1; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e6e9; --back: #16171a; --pale: #9a9aa2; --line: #34353a;
  --you: #1d2a3d; --code: #202126; --add: #153d22; --del: #4a1d1d; --hunk: #c3a6ff; --bad: #ff8a80; } }
body { margin: 0 auto; max-width: 54rem; padding: 2rem 1rem; background: var(--back); color: var(--ink);
  font: 1rem/1.55 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; } h2 { font-size: .85rem; color: var(--pale); font-weight: 600; margin: 2rem 0 .4rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; font-size: .9rem; }
dt { color: var(--pale); } dd { margin: 0; }
pre, code { font: .85rem/1.45 ui-monospace, monospace; background: var(--code); border-radius: 4px; }
code { padding: .1em .3em; } pre { padding: .6rem .8rem; overflow-x: auto; } pre code { padding: 0; }
.you { background: var(--you); border-radius: 8px; padding: .6rem 1rem; white-space: pre-wrap; }
details { border-left: 3px solid var(--line); margin: .5rem 0; padding-left: .8rem; }
summary { cursor: pointer; } .how, .remark { color: var(--pale); font-size: .9rem; }
.failed > summary, .rejected > summary { color: var(--bad); }
.diff span { display: block; min-height: 1.45em; } .add { background: var(--add); } .del { background: var(--del); }
.hunk { color: var(--hunk); }
table { border-collapse: collapse; } td, th { border: 1px solid var(--line); padding: .2rem .6rem; }
"""


def page(session: Document) -> str:
    """Export as one HTML page."""
    title = _safe(title_of(session))
    known = "".join(f"<dt>{_safe(name)}</dt><dd>{_safe(value)}</dd>" for name, value in document_facts(session))
    body = "\n".join(_html_entry(entry) for entry in session.entries)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<style>{STYLE}</style>
</head>
<body>
<h1>{title}</h1>
<dl>{known}</dl>
{body}
</body>
</html>
"""


def _safe(text: str) -> str:
    """Escape text for an element or attribute."""
    return escape(escape_controls(text), quote=True)


def _html_entry(entry: Entry) -> str:
    match entry:
        case UserEntry():
            shown = f'<p class="remark">{counted(entry.shown, "attachment")}</p>' if entry.shown else ""
            head = f"<h2>{speaker_heading(entry)}, {_safe(format_time(entry.time))}</h2>"
            return f'{head}\n<div class="you">{_safe(entry.text)}</div>{shown}'
        case AssistantEntry():
            thought = f"<details><summary>Thinking</summary><pre>{_safe(entry.thinking)}</pre></details>\n"
            return (
                f"<h2>Agent, {_safe(format_time(entry.time))}</h2>\n{thought if entry.thinking else ''}"
                f'<div class="answer">{as_html(entry.text)}</div>'
            )
        case NoteEntry():
            return f'<p class="remark">{_safe(entry.text)}</p>'
        case ToolEntry():
            return _html_call(entry)


def _html_call(call: ToolEntry) -> str:
    parts = [_diff(diff) for diff in diffs_of(call)]
    plan = steps(call)
    if given := arguments_text(call):
        parts.insert(0, f"<pre>{_safe(given)}</pre>")
    if plan:
        parts.append(f"<pre>{_safe(chr(10).join(plan))}</pre>")
    if call.text and not (diffs_of(call) or plan):
        parts.append(f"<pre>{_safe(call.text)}</pre>")
    if words := decision_text(call):
        parts.insert(0, f'<p class="how">Comment: {_safe(words)}</p>')
    parts += [_html_call(inner) for inner in call.inner]
    shown = " open" if diffs_of(call) else ""
    summary = f'{_safe(call.summary or call.tool)} <span class="how">{_safe(how(call))}</span>'
    kind = {"failed": "call failed", "rejected": "call rejected"}.get(call.outcome, "call")
    inside = "\n".join(parts)
    return f'<details class="{kind}"{shown}><summary>{summary}</summary>\n{inside}\n</details>'


def _diff(diff: Diff) -> str:
    rows = "".join(f'<span class="{_kind(line)}">{_safe(line)}</span>' for line in diff.patch.split("\n") if line)
    counts = f"+{diff.added} -{diff.removed}"
    return f'<p><code>{_safe(diff.path)}</code> <span class="how">{counts}</span></p>\n<pre class="diff">{rows}</pre>'


def _kind(line: str) -> str:
    return {"+": "add", "-": "del", "@": "hunk"}.get(line[0], "same")
