"""Answers that fit a JSON schema: a tool that the model must call last, whose arguments are the answer.

An answer whose text is fitting JSON, plain or in a code fence, counts as that call.

A tool instead of the provider's own response format, because only some APIs have that, and it would forbid text between
the calls of a longer job.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agent_cli.kernel.engine.turn import Turn
from agent_cli.kernel.messages import AssistantMessage
from agent_tools.base import Effect, Finish, Tool, ToolContext, ToolError, ToolResult
from agent_tools.record import Value

NAME = "StructuredOutput"
_MAX_REMINDERS = 2


class StructuredAnswer(Value):
    """Arguments that fit the user's schema."""

    value: dict[str, Any]


class StructuredOutput(Tool[StructuredAnswer]):
    """Give the final answer. Call this once, as the last step, when the task is done; its arguments are the answer."""

    name = NAME
    Args = StructuredAnswer

    def __init__(self, schema: dict[str, Any]) -> None:
        self._schema = schema

    def schema(self) -> dict[str, Any]:
        return self._schema

    def read(self, arguments: dict[str, Any]) -> StructuredAnswer:
        # jsonschema takes 0.1 s to import; only runs that ask for a schema pay.
        from jsonschema.validators import validator_for

        found = validator_for(self._schema)(self._schema).iter_errors(arguments)
        mistakes = [f"{'.'.join(map(str, e.path)) or 'the answer'}: {e.message}" for e in found]
        if mistakes:
            raise ToolError(f"The answer does not fit its schema. {'; '.join(mistakes[:5])}")
        return StructuredAnswer(arguments)

    def effects(self, args: StructuredAnswer, ctx: ToolContext) -> tuple[Effect, ...]:
        return (Effect("state"),)

    def summary(self, args: StructuredAnswer, ctx: ToolContext) -> str:
        return "Give the structured answer"

    def run(self, args: StructuredAnswer, ctx: ToolContext) -> ToolResult:
        return ToolResult("The answer was taken.", finish=Finish(args.value))


def _read_text(turn: Turn, answer: AssistantMessage) -> StructuredAnswer | None:
    """Read an answer's text, or the code fence that ends it, as the structured answer; None if it is no JSON object.

    Raises ToolError if it does not fit the schema.
    """
    text = (turn.cut_text + answer.text).strip()
    if text.count("```") == 2 and text.endswith("```"):
        text = text.split("```")[1].removeprefix("json")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return turn.deps.tools[NAME].read(value) if isinstance(value, dict) else None


def answer_in_text(turn: Turn, answer: AssistantMessage) -> Finish | None:
    """Return the structured answer given as text; None if there is none, or none is wanted."""
    if NAME not in turn.deps.tools:
        return None
    try:
        found = _read_text(turn, answer)
    except ToolError:
        return None
    return Finish(found.value) if found else None


def answer_guard(turn: Turn, answer: AssistantMessage) -> str | None:
    """Return a reminder of the structured answer if the model ends with other text, at most twice; else None."""
    reminders, mistake = turn.nudges.get(NAME, 0), ""
    try:
        if _read_text(turn, answer):
            return None
    except ToolError as error:
        mistake = f"{error}\n"
    if reminders >= _MAX_REMINDERS:
        return None
    turn.nudges[NAME] = reminders + 1
    how = f"Give the final answer by calling {NAME}, with arguments that fit its schema."
    return f"<reminder>\n{mistake}{how}\n</reminder>"


def read_schema(text: str) -> dict[str, Any]:
    """Read a JSON schema from text, or from the file that the text names. Raises ValueError."""
    source = text
    if not text.lstrip().startswith("{"):
        try:
            source = Path(text).read_text("utf-8")
        except OSError as error:
            raise ValueError(f"cannot read {text}: {error.strerror or error}") from None
    try:
        schema = json.loads(source)
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        raise ValueError('a schema of type "object" is needed')
    return schema
