"""A question of a server while one of its tools runs, put to the user field by field.

Nothing is filled in for them: where nobody answers, and at the word Decline, the server is told so.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from agent_tools.base import AskPerson
from agent_tools.clipping import shorten
from agent_tools.inert import inert

DECLINE = "Decline"
_MOST_FIELDS = 20
Answers = Generator[Any, Any, dict[str, Any]]


def answer_form(server: str, params: dict[str, Any]) -> Answers:
    """The reply to an elicitation, in the shape of the protocol. Yields AskPerson, and is sent what they say."""
    message = inert(str(params.get("message", "")))[:2_000]
    head = f"The MCP server {server} asks: {message}"
    if params.get("mode") == "url":
        said = yield AskPerson(f"{head}\nIt wants you to open {inert(str(params.get('url', '')))}", ("Done", DECLINE))
        return {"action": "accept" if said == "Done" else "decline"}
    schema = params.get("requestedSchema") or {}
    fields = list((schema.get("properties") or {}).items())[:_MOST_FIELDS]
    if not fields:
        said = yield AskPerson(head, ("Accept", DECLINE))
        return {"action": "accept", "content": {}} if said == "Accept" else {"action": "decline"}
    content: dict[str, Any] = {}
    needed = set(schema.get("required") or ())
    for name, field in fields:
        value = yield from _field(head, name, field if isinstance(field, dict) else {}, name in needed)
        if value is None:
            return {"action": "decline"}
        if value != "":
            content[name] = value
        head = f"The MCP server {server} asks on"
    return {"action": "accept", "content": content}


def _field(head: str, name: str, field: dict[str, Any], needed: bool) -> Generator[Any, Any, Any]:
    """The value of one field; "" where it is left out; None where the user declines."""
    words = shorten(" - ".join(str(field[k]) for k in ("title", "description") if field.get(k)) or name, 400)
    labels = _labels(field)
    options = (*labels, DECLINE)
    note = "" if needed else " (may stay empty)"
    question = f"{head}\n{shorten(name, 80)}: {words}{note}"
    for _ in range(3):
        said = yield AskPerson(question, options if labels else ())
        if said is None or said == DECLINE:
            return None
        said = "" if said == "(no answer)" else said.strip()
        if not said:
            return None if needed else ""
        try:
            return _value(field, labels, said)
        except ValueError as error:
            question = f"{shorten(name, 80)}: {error}"
    return None


def _labels(field: dict[str, Any]) -> dict[str, Any]:
    """The answers to choose from, by what the user sees; empty for a free answer."""
    if field.get("type") == "boolean":
        return {"Yes": True, "No": False}
    items = field.get("items") if field.get("type") == "array" else field
    choices = items if isinstance(items, dict) else {}
    titled = choices.get("oneOf") or choices.get("anyOf") or ()
    found = {shorten(str(c.get("title") or c.get("const"))): c.get("const") for c in titled if isinstance(c, dict)}
    names = choices.get("enumNames") or choices.get("enum") or ()
    return found or {shorten(str(n)): v for n, v in zip(names, choices.get("enum") or (), strict=False)}


def _value(field: dict[str, Any], labels: dict[str, Any], said: str) -> Any:
    """What an answer means. Raises ValueError, which says what was expected."""
    if field.get("type") == "array":
        chosen = [part.strip() for part in said.split(",")]
        if all(part in labels for part in chosen):
            return [labels[part] for part in chosen]
    if labels:
        if said not in labels:
            raise ValueError(f"choose one of {', '.join(labels)}")
        return labels[said]
    kind = field.get("type")
    try:
        return int(said) if kind == "integer" else float(said) if kind == "number" else said
    except ValueError:
        raise ValueError("a number is expected") from None
