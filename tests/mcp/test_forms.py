"""Questions of a server to the user: whatever stands in its schema, the form ends in an answer."""

from __future__ import annotations

import re
from typing import Any

import pytest

from agent_cli.mcp.tools import answer_form
from agent_tools.base import AskUser
from agent_tools.text import UNSAFE

ODD: tuple[Any, ...] = (None, 3, "x", [1], [[1]], {"a": 1}, [{"const": [1]}], {"type": ["x"]})


def fill(params: dict[str, Any], *replies: str) -> dict[str, Any]:
    form = answer_form("notes", params)
    asked: list[str] = []
    try:
        question = next(form)
        for reply in replies:
            assert isinstance(question, AskUser)
            asked.append(question.question)
            question = form.send(reply)
    except StopIteration as end:
        assert not any(re.search(UNSAFE, text) for text in asked)
        answer: dict[str, Any] = end.value
        return answer
    raise AssertionError("the form did not end")


def test_a_form_is_filled_in() -> None:
    schema = {"properties": {"name": {"type": "string"}, "size": {"type": "integer"}}, "required": ["size"]}
    answer = fill({"message": "Who?", "requestedSchema": schema}, "Ann", "many", "3")
    assert answer == {"action": "accept", "content": {"name": "Ann", "size": 3}}


@pytest.mark.parametrize("odd", ODD, ids=repr)
@pytest.mark.parametrize("key", ["properties", "required", "field", "items", "oneOf", "enum", "enumNames", "title"])
def test_a_schema_of_any_shape_ends_in_an_answer(key: str, odd: Any) -> None:
    field: Any = {"type": "array", "items": odd} if key == "items" else {"enum": ["x"], key: odd}
    schema = {"properties": {"a": odd if key == "field" else field}, "required": ["a"]}
    if key in ("properties", "required"):
        schema[key] = odd
    for params in ({"requestedSchema": schema}, {"requestedSchema": odd, "message": odd}):
        assert fill(params, "x", "x", "x")["action"] in ("accept", "decline")


def test_what_a_server_asks_cannot_steer_a_terminal() -> None:
    schema = {"properties": {"\x1b]0;x\x07": {"title": "\x1b[2J\u202e", "enum": ["\x1b[31m"]}}}
    params = {"message": "\x1b[2J\u202ehello", "requestedSchema": schema}
    assert fill(params, "Decline") == {"action": "decline"}
    assert fill({"mode": "url", "url": "https://x.org/\x1b[2J"}, "Done") == {"action": "accept"}
