"""Slash commands on the page and over HTTP, and what a message completes.

A command of the project or of the user is a prompt, which the worker expands. `/compact` is carried out by the worker.
All others are for the page, which has a dialog for each; as a message they are refused, and never sent to a model.
"""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.requests import Request

from agent_cli import RunEnvironment, UsageError
from agent_cli.extras.server.guard import RequestRefusedError
from agent_cli.extras.server.hub import Hub
from agent_cli.extras.server.queries import session_environment
from agent_cli.extras.server.words import MODES
from agent_cli.kernel.runtime.completion import CommandEntry, complete
from agent_cli.kernel.runtime.session_commands import is_slash, unknown_command

# Carried out by the worker, between turns.
COMPACT = CommandEntry("compact", "summarize the conversation", "[HINT]")
# Carried out by the page.
PAGE_COMMANDS = (
    CommandEntry("model", "change the model", "[NAME]", aliases=("models",)),
    CommandEntry("mode", "change the permission mode", "[MODE]", values=lambda: MODES.items(), strict=True),
    CommandEntry(
        "plan", "plan mode: nothing is changed until you approve a plan", "[off]", values=lambda: (("off", "leave it"),)
    ),
    CommandEntry("todos", "show the plan", aliases=("todo",)),
    CommandEntry("record", "show the steps of the plan, each with what checked it"),
    CommandEntry("diff", "show the changes of the session", aliases=("changes",)),
    CommandEntry("commit", "commit, push, and open a pull request"),
    CommandEntry("undo", "undo turns, after a preview", aliases=("rewind", "checkpoint", "restore")),
    CommandEntry("continue", "continue a turn that was cut off"),
    CommandEntry("cost", "show tokens, context and cost", aliases=("usage", "context", "status")),
    CommandEntry("copy", "copy the last answer"),
    CommandEntry("export", "download the session"),
    CommandEntry("sessions", "search the sessions", "[TEXT]", aliases=("resume",)),
    CommandEntry("rename", "rename the session", "[NAME]"),
    CommandEntry("fork", "continue in a copy", aliases=("branch",)),
    CommandEntry("archive", "archive the session"),
    CommandEntry("delete", "delete the session"),
    CommandEntry("stop", "interrupt the turn"),
    CommandEntry("new", "start a task", aliases=("clear", "reset")),
    CommandEntry("help", "show the commands and the keys of this page"),
)
_MAX_BEFORE_CHARS = 4_000


async def list_completions(hub: Hub, request: Request) -> dict[str, Any]:
    """Return what the text before the cursor can become: commands after a slash, files after an @."""
    query = request.query_params
    before, session_id = query.get("before", "")[-_MAX_BEFORE_CHARS:], query.get("session", "")
    whole = len(query.get("before", "")) <= _MAX_BEFORE_CHARS

    def find() -> list[dict[str, Any]]:
        if not session_id and not query.get("project"):
            return []
        run_env = _environment(hub, session_id, query.get("project", ""))
        own = [] if not session_id else [COMPACT, *PAGE_COMMANDS]
        commands: list[CommandEntry] = []
        if before.startswith("/") and whole:
            known = {entry.name for entry in own}
            commands = [*own, *(entry for name, entry in hub.completer.prompts(run_env).items() if name not in known)]
        found = complete(before, commands, lambda: hub.completer.files(run_env))
        return [{"text": c.text, "help": c.help, "start": c.start} for c in found]

    try:
        return {"items": await asyncio.to_thread(find)}
    except UsageError as error:
        raise RequestRefusedError(409, "settings", str(error)) from None


def _environment(hub: Hub, session_id: str, project_id: str) -> RunEnvironment:
    if session_id:
        return session_environment(hub, session_id)
    project = hub.views.find_project(project_id)
    if project is None:
        raise RequestRefusedError(404, "project", "This server has no such project.")
    return hub.run_env(project.folder)


def check_command(hub: Hub, run_env: RunEnvironment, text: str) -> bool:
    """Return True if a message is a slash command; refuse one that is none of those that a message can have."""
    if not is_slash(text):
        return False
    name = text[1:].split(maxsplit=1)[0] if text[1:].split() else ""
    try:
        prompts = hub.completer.prompts(run_env)
    except UsageError as error:
        raise RequestRefusedError(409, "settings", str(error)) from None
    if name == COMPACT.name or name in prompts:
        return True
    for entry in PAGE_COMMANDS:
        if name in (entry.name, *entry.aliases):
            why = f"/{name} is a command of the page, and was not sent to the model."
            raise RequestRefusedError(422, "command", why, name=entry.name, words=text[1:].partition(name)[2].strip())
    known = [COMPACT.name, *prompts, *(entry.name for entry in PAGE_COMMANDS)]
    raise RequestRefusedError(422, "command", unknown_command(name, known))
