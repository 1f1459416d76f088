"""What the model says in a story, and what it saw: a queue of lines over a real HTTP server."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from agent_tools.record import Value
from tests.support.model_replies import Call, Reply
from tests.support.model_server import ModelServer, Received

# Seconds that a request waits for the story to queue an answer.
SLOW_STORY = 10.0

COMPACTING = b"<compaction>"


class Line(Value):
    """One answer of the model. sees: words that must have come to it since its last answer; unseen: that must not.

    fault: the fault of the day comes before this answer.
    """

    reply: Reply
    sees: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()
    fault: bool = False


Words = str | Sequence[str]


def says(text: str, *calls: Call, sees: Words = (), unseen: Words = (), fault: bool = False, **more: Any) -> Line:
    """An answer with these words and calls; `more` are fields of `Reply`."""
    return Line(Reply(text=text, calls=calls, split=8, **more), _several(sees), _several(unseen), fault)


def refuses(status: int, error: str, **more: Any) -> Line:
    """An answer with an error status."""
    return Line(Reply(status=status, error=error, **more))


def bash(command: str, **more: Any) -> Call:
    return Call("Bash", {"command": command, **more})


def read(path: str) -> Call:
    return Call("Read", {"file_path": path})


def write(path: str, content: str) -> Call:
    return Call("Write", {"file_path": path, "content": content})


def edit(path: str, old: str, new: str) -> Call:
    return Call("Edit", {"file_path": path, "old_string": old, "new_string": new})


def task(prompt: str, kind: str = "general") -> Call:
    return Call("Task", {"subagent_type": kind, "description": prompt[:30], "prompt": prompt})


def plan(*steps: str, done: int = 0, active: bool = True) -> Call:
    """The plan with its first `done` steps completed and, where `active`, the next one in progress."""
    states = ["completed"] * done + ["in_progress" if active else "pending"] + ["pending"] * len(steps)
    todos = [{"content": step, "status": state, "activeForm": step} for step, state in zip(steps, states, strict=False)]
    return Call("TodoWrite", {"todos": todos})


class Model:
    """The model of a day, to be used with `with`. summary: what it answers where the conversation is compacted."""

    def __init__(self) -> None:
        self.server = ModelServer([self._answer], repeat=True)
        self.lines: list[Line] = []
        self._queued = threading.Condition()
        self.problems: list[str] = []
        self.summary = "# Goal\nGo on.\n# Next step\nAs before."
        self.compactions = 0
        self._breaks = 0
        self.on_fault: Callable[[], str] = str
        self._number = 0
        self._sides: list[tuple[str, Callable[[Received], Reply]]] = []

    def __enter__(self) -> Model:
        self.server.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.server.close()

    def will(self, *lines: Line) -> None:
        """Queue answers, one for each request."""
        with self._queued:
            self.lines += lines
            self._queued.notify_all()

    def breaks_off(self, times: int = 1) -> None:
        """The connection drops in the middle of the next answer, which is given whole when it is asked for again."""
        self._breaks = times

    def beside(self, words: str, answer: Callable[[Received], Reply]) -> None:
        """Requests in which these words stand get this answer, whatever is queued."""
        self._sides.append((words, answer))

    @property
    def requests(self) -> list[Received]:
        """All that was asked, in order."""
        return self.server.requests

    @property
    def newest(self) -> str:
        """What came to the model in the last request, since its last answer."""
        return news(self.requests[-1].body)

    def all_problems(self) -> list[str]:
        """What is wrong with what the program asked."""
        return [*self.problems, *self.server.violations]

    def finished(self) -> None:
        """Raise AssertionError if something was asked wrongly, or was not asked."""
        assert not self.all_problems(), "\n".join(self.all_problems())
        assert not self.lines, f"the model was not asked for {len(self.lines)} more answers: {self.lines[0].reply.text}"

    def _answer(self, received: Received) -> Reply:
        if COMPACTING in received.raw:
            self.compactions += 1
            return Reply(text=self.summary)
        text = json.dumps(received.body, ensure_ascii=False)
        for words, answer in self._sides:
            if words in text:
                return answer(received)
        new = news(received.body)
        # A quick program may ask before the story, which just saw an approval take effect, has said what comes next.
        with self._queued:
            self._queued.wait_for(lambda: bool(self.lines), SLOW_STORY)
        if not self.lines:
            return self._problem(f"nothing more was to be asked, but: {new[-1500:]}")
        line = self.lines[0]
        if missing := [words for words in line.sees if words not in new]:
            return self._problem(f"before {line.reply.text!r} the model should see {missing}, and saw: {new[-3000:]}")
        if present := [words for words in line.unseen if words in new]:
            return self._problem(f"before {line.reply.text!r} the model should not see {present}: {new[-3000:]}")
        if line.fault:
            self.lines[0] = line.replace(fault=False)
            if self.on_fault() == "silence":
                return Reply(stall="headers")
        if self._breaks:
            self._breaks -= 1
            return line.reply.replace(hang_up="middle")
        self.lines.pop(0)
        self._number += 1
        return line.reply.replace(id=f"reply-{self._number}")

    def _problem(self, what: str) -> Reply:
        self.problems.append(what)
        return Reply(status=400, error="the story goes otherwise")


def news(body: dict[str, Any]) -> str:
    """The texts of a request that stand behind the last answer of the model."""
    messages = body.get("messages", [])
    start = max((n for n, m in enumerate(messages) if m["role"] == "assistant"), default=-1)
    return "\n".join(text_of(m) for m in messages[start + 1 :])


def text_of(message: dict[str, Any]) -> str:
    """The text of a message on either wire; of what is no text, its JSON."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    texts = []
    for block in content:
        inner = block.get("text", block.get("content", block))
        with suppress(TypeError, KeyError):
            inner = "\n".join(b["text"] for b in inner) if isinstance(inner, list) else inner
        texts.append(inner if isinstance(inner, str) else json.dumps(inner, ensure_ascii=False))
    return "\n".join(texts)


def _several(words: Words) -> tuple[str, ...]:
    return (words,) if isinstance(words, str) else tuple(words)
