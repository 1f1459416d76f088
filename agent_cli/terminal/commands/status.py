"""/status, /doctor and /bug: the state of the session, checks, and a report for the maintainers."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator

from agent_cli.config.schema import Settings
from agent_cli.core.redact import Redactor
from agent_cli.core.version import __version__
from agent_cli.engine.compaction.controls import window_size
from agent_cli.session.store import SessionStore, state_folder
from agent_cli.terminal.slash import REGISTRY, SlashContext, slash
from agent_tools.fs.safe_files import private_folder
from agent_tools.lazy import lazy_imports
from agent_tools.sandbox.runner import SandboxRunner
from agent_tools.text import one_line

with lazy_imports():
    from agent_cli.doctor import report as doctor_report  # 400 modules, for this command alone

PACKAGE = "agent-cli"
_SHOWN_KEYS = frozenset(("model", "small_model", "transport", "effort", "permissions.mode", "sandbox.mode", "stream"))


@slash("status", "model, mode, sandbox, trust, settings, session, folders, context", aside=True)
def _status(ctx: SlashContext, words: str) -> None:
    for name, text in status(ctx):
        ctx.say(f"  {name:<10} {one_line(text)}")


def status(ctx: SlashContext) -> Iterator[tuple[str, str]]:
    """Yield the facts as (name, text)."""
    agent, conversation = ctx.agent, ctx.agent.conversation
    context, options = conversation.deps.context, conversation.options
    model, trust, settings = agent.model, ctx.layers.trust, agent.settings
    yield "version", f"agent {__version__}"
    where = f" at {without_password(model.base_url)}" if model.base_url else ""
    yield "model", f"{options.label} ({model.wire}{where}; key: {model.key_source})"
    yield "effort", options.effort or "the default of the model"
    yield "mode", conversation.deps.policy.mode
    sandbox = context.supplied(SandboxRunner)
    yield "sandbox", settings.sandbox.mode if sandbox is None else sandbox.sandbox.text()
    yield "trust", f"{trust.state}{f' ({trust.by})' if trust.by else ''}"
    yield "settings", ", ".join(ctx.layers.read) or "none: every setting has its default"
    kept = SessionStore(state_folder(ctx.place.env), ctx.place.root).path(agent.header.session_id)
    yield "session", f"{agent.header.session_id} ({kept if settings.save_sessions else 'not kept'})"
    yield "folder", str(context.workspace.cwd)
    yield "workspace", ", ".join(map(str, context.workspace.roots))
    used, window = ctx.context_tokens, window_size(agent.conversation)
    yield "context", f"{used:,} tokens" + (f" of {window:,} ({100 * used // window}%)" if window else "")
    memory = [f.shown for f in agent.memory.files]
    yield "memory", ", ".join(memory) or "no memory files"


@slash("doctor", "check what is configured, found and missing")
def _doctor(ctx: SlashContext, words: str) -> None:
    findings, _ = doctor_report.collect_findings(ctx.place, ctx.layers, [], REGISTRY)
    ctx.page(doctor_report.findings_text(findings))


@slash("bug", "write a report without secrets, for those who maintain this program", "[WORDS]")
def _bug(ctx: SlashContext, words: str) -> None:
    folder = state_folder(ctx.place.env) / "reports"
    path = folder / f"bug-{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(2).hex()}.md"
    text = report(ctx, words)
    try:
        private_folder(folder)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        ctx.say(f"The report cannot be written to {path}: {error.strerror or error}.")
        return
    ctx.say(f"The report is in {path}. Nothing was sent: read it, add what happened, and remove what is private.")
    ctx.say(f"Send it to {tracker() or 'the maintainers of your installation'}.")


def report(ctx: SlashContext, words: str) -> str:
    """Return a bug report: versions, settings by name, the last error; no conversation, no keys."""
    import platform  # a millisecond, before every prompt

    agent = ctx.agent
    failure = getattr(agent.conversation.last, "failure", None)
    sets = [f"- {key} ({source}){_value(agent.settings, key)}" for key, source in ctx.layers.origins.items()]
    lines = [
        "# Report",
        "",
        words or "(what did you do, what did you expect, and what happened?)",
        "",
        "## Program",
        f"- agent {__version__}, Python {platform.python_version()}, {platform.platform()}",
        f"- terminal: {ctx.place.env.get('TERM', '')} {ctx.place.env.get('TERM_PROGRAM', '')}".rstrip(),
        f"- model: {agent.conversation.options.label} ({agent.model.wire})",
        f"- mode: {agent.conversation.deps.policy.mode}, sandbox: {agent.settings.sandbox.mode}",
        f"- trust: {ctx.layers.trust.state}",
        f"- messages: {len(agent.conversation.history)}, front end: {type(ctx).__name__}, {sys.platform}",
        "",
        "## Settings that differ from the defaults",
        *(sets or ["none"]),
        "",
        "## Last error",
        f"{failure.kind}: {failure.message}" if failure else "none in this session",
        *(
            ["", "## Warnings at the start", *(f"- {text}" for text in ctx.layers.ignored)]
            if ctx.layers.ignored
            else []
        ),
    ]
    text = Redactor(ctx.place.env)("\n".join(without_password(line) for line in lines))
    return f"{text.replace(str(ctx.place.home), '~') if ctx.place.home else text}\n"


def _value(settings: Settings, key: str) -> str:
    """Return the value of a setting that cannot hold anything private."""
    if key not in _SHOWN_KEYS:
        return ""
    value: object = settings
    for name in key.split("."):
        value = getattr(value, name)
    return f" = {value}"


def without_password(text: str) -> str:
    """Remove the credentials from URLs in a text."""
    return re.sub(r"(://)[^/\s@]+@", r"\1***@", text)


def tracker() -> str:
    """Return the issue tracker of the package; "" if it names none."""
    from importlib.metadata import PackageNotFoundError, metadata

    try:
        urls = metadata(PACKAGE).get_all("Project-URL") or []
    except PackageNotFoundError:
        return ""
    named = dict(entry.split(", ", 1) for entry in urls if ", " in entry)
    wanted = ("issues", "bug tracker", "tracker", "issue tracker", "repository", "source", "homepage")
    return next((url for word in wanted for name, url in named.items() if name.lower() == word), "")
