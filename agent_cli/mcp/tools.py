"""The tools, resources and prompts of servers in a session, with the same permissions, events and limits as our own.

Answers are sanitized for the conversation: text is truncated and escaped, images become attachments, up to a limit.
When a server asks a question during a call, the user is asked about one field after another.

In user input, `@server:uri` refers to a resource, and `/mcp__server__prompt words` to a prompt.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Generator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_cli.mcp.answers import block_text, mcp_result, read_contents, truncated_result
from agent_cli.mcp.catalog import McpRequestError, Offer, UnknownOutcomeError
from agent_cli.mcp.schemas import restore_names
from agent_cli.mcp.server import Server
from agent_tools.base import AskHooks, AskUser, Effect, Outcome, Progress, Tool, ToolContext, ToolError, ToolResult
from agent_tools.cancel import CancelledError, CancelToken
from agent_tools.record import Value
from agent_tools.results import Media, Note
from agent_tools.text import escape_controls, one_line, shorten

if TYPE_CHECKING:
    from concurrent.futures import Future

_PROGRESS_INTERVAL_SECONDS = 0.2


class McpArgs(Value):
    """Arguments of a server's tool, passed on unchecked; the server validates them."""

    arguments: dict[str, Any]


class McpTool(Tool[McpArgs]):
    """One tool of one server. Its own claims, such as being read-only, allow nothing."""

    Args = McpArgs
    of_server = True

    def __init__(self, server: Server, offer: Offer) -> None:
        self.server = server
        self.offer = offer
        self.name = offer.full
        self.description = offer.description or f"A tool of the MCP server {offer.server}."

    def schema(self) -> dict[str, Any]:
        return self.offer.schema

    def read(self, arguments: dict[str, Any]) -> McpArgs:
        return McpArgs(restore_names(arguments, self.offer.renamed))

    def effects(self, args: McpArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        return (Effect("call", f"{self.offer.server}: {one_line(self.offer.name)}"),)

    def summary(self, args: McpArgs, ctx: ToolContext) -> str:
        text = ", ".join(f"{k}={json.dumps(v, ensure_ascii=False)}" for k, v in args.arguments.items())
        return f"{self.offer.server}: {shorten(self.offer.name, 60)}({shorten(text, 100) if text else ''})"

    def preview(self, args: McpArgs, ctx: ToolContext) -> Note | None:
        text = json.dumps(args.arguments, ensure_ascii=False, indent=1) if args.arguments else ""
        hint = "it claims to be read-only" if self.offer.read_only else ""
        return Note(escape_controls("\n".join(filter(None, [text, hint])))) if text or hint else None

    def run(self, args: McpArgs, ctx: ToolContext) -> Outcome:
        return self._steps(args, ctx)

    def _steps(self, args: McpArgs, ctx: ToolContext) -> Generator[Any, Any, ToolResult]:
        wait_for(self.server, ctx.cancel)
        self._check()
        # Imported here because most runs make no call.
        from concurrent.futures import CancelledError as FutureCancelledError
        from concurrent.futures import InvalidStateError
        from queue import SimpleQueue

        inbox: SimpleQueue[tuple[str, Any]] = SimpleQueue()
        call = self.server.call(self.offer.name, args.arguments, lambda kind, what: inbox.put((kind, what)))
        call.add_done_callback(lambda done: inbox.put(("done", None)))
        undo = ctx.cancel.on_cancel(lambda: inbox.put(("cancel", None)))
        shown_at = 0.0
        try:
            while True:
                kind, what = inbox.get()
                if kind == "done":
                    break
                if kind == "cancel":
                    raise CancelledError
                if kind == "ask":
                    params, reply = what
                    asked = AskHooks(self.server.name, params)
                    answer = (yield asked) or (yield from answer_form(self.server.name, params))
                    answer = (yield asked.replace(answer=answer)) or answer
                    # The server may have stopped waiting meanwhile.
                    with suppress(InvalidStateError):
                        reply.set_result(answer)
                elif (now := time.monotonic()) - shown_at >= _PROGRESS_INTERVAL_SECONDS:
                    shown_at = now
                    yield Progress(f"{shorten(str(what), 200)}\n")
            return mcp_result(call.result(), ctx)
        except UnknownOutcomeError as lost:
            raise ToolError(self._maybe_done(shorten(escape_controls(str(lost)), 2_000))) from None
        except McpRequestError as refused:
            text = shorten(escape_controls(str(refused)), 2_000)
            raise ToolError(f"The MCP server {self.server.name} could not do this: {text}") from None
        except FutureCancelledError:
            raise ToolError(self._maybe_done("it was stopped before it answered")) from None
        finally:
            undo()
            call.cancel()

    def _maybe_done(self, why: str) -> str:
        return (
            f"There is no readable answer from the MCP server {self.server.name}: {why}. "
            "The call may have been done; check before you repeat it."
        )

    def _check(self) -> None:
        """Raise ToolError if the tool is no longer the one that was approved."""
        if self.server.status == "ready" and self.server.tools.get(self.name) != self.offer:
            why = self.server.withheld.get(self.name)
            text = "has changed since it was approved; only the user can approve it" if why else "is not the one listed"
            raise ToolError(f"The tool {self.name} {text}.")


def wait_for(server: Server, cancel: CancelToken) -> None:
    """Start a server if needed and wait for it. Raises CancelledError, and ToolError if it does not start."""
    if server.status == "waiting":
        server.start()
    while server.status == "starting" and not server.wait(0.05):
        cancel.check()
    if server.status != "ready":
        raise ToolError(f"The MCP server {server.name} is not running ({server.reason or server.status}).")


def _cancel(future: Future[Any]) -> None:
    future.cancel()


def result_within(future: Future[Any], cancel: CancelToken, name: str) -> Any:
    """Wait for the result of a request that is not a tool call. Raises CancelledError, ToolError."""
    from concurrent.futures import CancelledError as FutureCancelledError

    undo = cancel.on_cancel(partial(_cancel, future))
    try:
        return future.result()
    except McpRequestError as refused:
        raise ToolError(f"The MCP server {name}: {shorten(escape_controls(str(refused)), 500)}") from None
    except FutureCancelledError:
        cancel.check()
        raise ToolError(f"The MCP server {name} was stopped before it answered.") from None
    finally:
        undo()


DECLINE = "Decline"
_MAX_FIELDS = 20
Answers = Generator[Any, Any, dict[str, Any]]


def answer_form(server: str, params: dict[str, Any]) -> Answers:
    """Return the reply to an elicitation in the protocol's form. Yields AskUser, and is sent the user's reply."""
    message = escape_controls(str(params.get("message", "")))[:2_000]
    head = f"The MCP server {server} asks: {message}"
    if params.get("mode") == "url":
        reply = yield AskUser(
            f"{head}\nIt wants you to open {escape_controls(str(params.get('url', '')))}", ("Done", DECLINE)
        )
        return {"action": "accept" if reply == "Done" else "decline"}
    schema = _table(params.get("requestedSchema"))
    fields = list(_table(schema.get("properties")).items())[:_MAX_FIELDS]
    if not fields:
        reply = yield AskUser(head, ("Accept", DECLINE))
        return {"action": "accept", "content": {}} if reply == "Accept" else {"action": "decline"}
    content: dict[str, Any] = {}
    needed = _list(schema.get("required"))
    for name, field in fields:
        value = yield from _field(head, name, _table(field), name in needed)
        if value is None:
            return {"action": "decline"}
        if value != "":
            content[name] = value
        head = f"The MCP server {server} also asks:"
    return {"action": "accept", "content": content}


def _table(data: Any) -> dict[str, Any]:
    """Return a table of a schema; {} for anything else that a server may have put there."""
    return data if isinstance(data, dict) else {}


def _list(data: Any) -> list[Any]:
    return data if isinstance(data, list) else []


def _field(head: str, name: str, field: dict[str, Any], needed: bool) -> Generator[Any, Any, Any]:
    """Ask for the value of one field; return "" if it is left empty, None if the user declines."""
    words = shorten(" - ".join(str(field[k]) for k in ("title", "description") if field.get(k)) or name, 400)
    labels = _labels(field)
    options = (*labels, DECLINE)
    note = "" if needed else " (optional)"
    question = f"{head}\n{shorten(name, 80)}: {words}{note}"
    for _ in range(3):
        text = yield AskUser(question, options if labels else ())
        if text is None or text == DECLINE:
            return None
        text = "" if text == "(no answer)" else text.strip()
        if not text:
            return None if needed else ""
        try:
            return _value(field, labels, text)
        except ValueError as error:
            question = f"{shorten(name, 80)}: {error}"
    return None


def _labels(field: dict[str, Any]) -> dict[str, Any]:
    """Return the values to choose from, by label; empty for a free answer."""
    if field.get("type") == "boolean":
        return {"Yes": True, "No": False}
    choices = _table(field.get("items")) if field.get("type") == "array" else field
    titled = _list(choices.get("oneOf")) or _list(choices.get("anyOf"))
    found = {shorten(str(c.get("title") or c.get("const"))): c.get("const") for c in titled if isinstance(c, dict)}
    values = _list(choices.get("enum"))
    return found or {
        shorten(str(n)): v for n, v in zip(_list(choices.get("enumNames")) or values, values, strict=False)
    }


def _value(field: dict[str, Any], labels: dict[str, Any], text: str) -> Any:
    """Convert an answer to a value of the field's type. Raises ValueError, which says what was expected."""
    if field.get("type") == "array":
        chosen = [part.strip() for part in text.split(",")]
        if all(part in labels for part in chosen):
            return [labels[part] for part in chosen]
    if labels:
        if text not in labels:
            raise ValueError(f"choose one of {', '.join(labels)}")
        return labels[text]
    kind = field.get("type")
    try:
        return int(text) if kind == "integer" else float(text) if kind == "number" else text
    except ValueError:
        raise ValueError("a number is expected") from None


_MENTION = r"(?<![\w@`])@([A-Za-z0-9][A-Za-z0-9_-]*):([^\s`'\"<>|]+)"
_MAX_RESOURCES = 10


def with_resources(text: str, servers: dict[str, Server], ctx: ToolContext) -> tuple[str, tuple[Media, ...]]:
    """Return the message with the text of the resources that it mentions appended, and their images.

    Unknown server names stay plain text. Raises ToolError for a resource that cannot be read, CancelledError.
    """
    blocks: list[str] = []
    media: list[Media] = []
    seen: set[tuple[str, str]] = set()
    for mention in re.finditer(_MENTION, text):
        server = servers.get(mention[1])
        if server is None or len(seen) >= _MAX_RESOURCES:
            continue
        uri = mention[2] if mention[2] in server.resources else mention[2].rstrip(".,;:!?)]}")
        if (server.name, uri) in seen:
            continue
        seen.add((server.name, uri))
        wait_for(server, ctx.cancel)
        data = result_within(server.read(uri), ctx.cancel, server.name)
        content = truncated_result(read_contents(data, media, ctx), ctx) or "[it is empty]"
        blocks.append(f'<resource server="{server.name}" uri="{one_line(uri)}">\n{content}\n</resource>')
    return "\n\n".join([text, *blocks]), tuple(media)


class ServerPrompt(Value):
    """A server's prompt as a slash command for the user; the model cannot call it."""

    name: str
    server: Server
    raw: dict[str, Any]

    by_model = False
    path = Path()

    @property
    def description(self) -> str:
        return shorten(escape_controls(str(self.raw.get("description") or f"a prompt of {self.server.name}")), 200)

    @property
    def _arguments(self) -> list[dict[str, Any]]:
        return [a for a in _list(self.raw.get("arguments")) if isinstance(a, dict)]

    @property
    def hint(self) -> str:
        return " ".join(f"<{shorten(str(a.get('name')), 40)}>" for a in self._arguments)

    def expand(self, arguments: str, ctx: ToolContext) -> str:
        """Have the server expand the prompt. Raises ToolError, CancelledError."""
        import shlex

        try:
            words = shlex.split(arguments)
        except ValueError:
            words = arguments.split()
        names = [str(a.get("name")) for a in self._arguments]
        if len(words) > len(names) > 0:
            # The last argument takes the rest.
            words = [*words[: len(names) - 1], " ".join(words[len(names) - 1 :])]
        missing = [str(a.get("name")) for a in self._arguments[len(words) :] if a.get("required")]
        if missing:
            raise ToolError(f"/{self.name} needs {', '.join(missing)}: /{self.name} {self.hint}")
        wait_for(self.server, ctx.cancel)
        given = dict(zip(names, words, strict=False))
        data = result_within(self.server.prompt(str(self.raw["name"]), given), ctx.cancel, self.server.name)
        text = "\n\n".join(filter(None, (_message_text(m) for m in _list(_table(data).get("messages")))))
        if not text.strip():
            raise ToolError(f"The MCP server {self.server.name} returned an empty prompt for /{self.name}.")
        return truncated_result(text, ctx)


def _message_text(message: Any) -> str:
    """Return the text of a message of a prompt, of any form."""
    given = _table(message)
    content = given.get("content") if given else message
    blocks = content if isinstance(content, list) else [content]
    text = "\n".join(filter(None, (block_text(block) for block in blocks)))
    return f"[as the assistant said] {text}" if given.get("role") == "assistant" and text else text


def prompts_of(servers: dict[str, Server]) -> dict[str, ServerPrompt]:
    """Return the prompts of all servers that run or may run, by the name of their slash command."""
    found = {}
    for server in servers.values():
        if server.status not in ("ready", "waiting", "starting"):
            continue
        for raw_name, raw in server.prompts.items():
            name = f"mcp__{server.name}__{re.sub(r'[^A-Za-z0-9_-]', '_', raw_name)}"
            found[name] = ServerPrompt(name, server, raw)
    return found
