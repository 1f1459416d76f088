"""A session as one HTML page: no scripts, nothing loaded from anywhere, light and dark, calls that fold.

Whatever is not of this file passes `_safe` or the renderer of `prose`; the page's own policy forbids all but its style.
"""

from __future__ import annotations

from html import escape

from agent_cli.session.export.prose import as_html
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
from agent_tools.clipping import counted
from agent_tools.display import Diff
from agent_tools.inert import inert

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
    """The whole document."""
    title = _safe(title_of(session))
    known = "".join(f"<dt>{_safe(name)}</dt><dd>{_safe(value)}</dd>" for name, value in document_facts(session))
    body = "\n".join(_entry(entry) for entry in session.entries)
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
    """Text as text, in an element or an attribute."""
    return escape(inert(text), quote=True)


def _entry(entry: Entry) -> str:
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
            return _call(entry)


def _call(call: ToolEntry) -> str:
    parts = [_diff(diff) for diff in diffs_of(call)]
    plan = steps(call)
    if given := arguments_text(call):
        parts.insert(0, f"<pre>{_safe(given)}</pre>")
    if plan:
        parts.append(f"<pre>{_safe(chr(10).join(plan))}</pre>")
    if call.text and not (diffs_of(call) or plan):
        parts.append(f"<pre>{_safe(call.text)}</pre>")
    if words := decision_text(call):
        parts.insert(0, f'<p class="how">Said: {_safe(words)}</p>')
    parts += [_call(inner) for inner in call.inner]
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
