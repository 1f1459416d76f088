"""Answers in the shapes that providers and compatible servers send them, written down as they come over the wire.

Each file says what is to be read from it: a stream in the comment that it begins with, a whole answer beside its body.
`calls` has the id, the name and the arguments (their text, where that is cut), `usage` the tokens given, made, read
from a cache and reasoned with; `error` is the failure that the answer is.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_cli.kernel.engine.sampling import AnswerDraft
from agent_cli.kernel.messages import Text, Thinking, ToolCall, UserMessage
from agent_cli.models.base import ModelClient, ModelError, Request, ToolSpec
from agent_cli.models.gemini import GeminiClient
from agent_cli.models.openai_responses import OpenAIResponsesClient
from agent_tools.cancel import CancelToken
from agent_tools.schema import Freeform
from tests.support.model_server import ModelServer, Reply

RECORDED = Path(__file__).parent / "recorded"
RESPONSES = sorted((RECORDED / "responses").iterdir())
GEMINI = sorted((RECORDED / "gemini").iterdir())
PATCH = ToolSpec("Patch", "Changes files.", {"type": "object"}, Freeform("patch"))


def recording(path: Path) -> tuple[dict[str, Any], Reply]:
    """What is expected, and the answer."""
    text = path.read_bytes().decode()
    if path.suffix == ".json":
        held = json.loads(text)
        return held["expect"], Reply(raw=json.dumps(held["body"]).encode())
    return json.loads(text.partition("\n")[0].removeprefix(": ")), Reply(
        raw=text.encode(), content_type="text/event-stream"
    )


def test_there_are_recordings() -> None:
    assert len(RESPONSES) >= 45 and len(GEMINI) >= 60


@pytest.mark.parametrize("cut", [0, 7])
@pytest.mark.parametrize("path", RESPONSES, ids=lambda path: path.name)
def test_responses(path: Path, cut: int) -> None:
    check(path, cut, "gpt-5.6", lambda server: OpenAIResponsesClient(server.openai_url, None))


@pytest.mark.parametrize("cut", [0, 7])
@pytest.mark.parametrize("path", GEMINI, ids=lambda path: path.name)
def test_gemini(path: Path, cut: int) -> None:
    check(path, cut, "gemini-3-flash-preview", lambda server: GeminiClient(server.gemini_url, "k"))


def check(path: Path, cut: int, model: str, make: Callable[[ModelServer], ModelClient]) -> None:
    """Read an answer over a wire, and compare it with what is expected."""
    expected, reply = recording(path)
    draft, failed = AnswerDraft(), None
    with ModelServer([reply.replace(cut=cut)]) as server:
        request = Request(model, "", (UserMessage("hi"),), (PATCH,), stream=path.suffix == ".sse")
        try:
            for chunk in make(server).stream(request, CancelToken()):
                draft.add(chunk)
        except ModelError as error:
            failed = error
    message = draft.message("", cut=draft.stopped is not None and draft.stopped.unfinished)
    parts = message.parts if message else ()
    assert "".join(p.text for p in parts if isinstance(p, Text)) == expected["text"]
    if "error" in expected:
        assert failed is not None and expected["error"]["says"] in failed.failure.message
        found = failed.failure.kind, failed.failure.retryable, failed.retry_after
        assert found == (expected["error"]["kind"], expected["error"]["retryable"], expected["error"]["wait"])
        return
    assert failed is None and draft.stopped is not None and draft.usage is not None
    thoughts = [p for p in parts if isinstance(p, Thinking)]
    assert "".join(p.text for p in thoughts) == expected["thinking"]
    assert [p.data for p in thoughts if p.data] == expected["encrypted"]
    assert {p.provider for p in thoughts if not p.data} <= {expected.get("provider", "")}
    calls = [[c.id, c.name, c.broken or c.arguments] for c in parts if isinstance(c, ToolCall)]
    assert calls == expected["calls"]
    used = draft.usage
    assert [used.input, used.output, used.cache_read, used.reasoning] == expected["usage"]
    assert used.cost == expected.get("cost", 0.0)
    assert [p.phase for p in parts if isinstance(p, Text) and p.phase] == expected.get("phases", [])
    assert draft.stopped.reason == expected["stop"]
