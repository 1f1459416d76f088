"""Effects and results of a call, and what a running tool yields."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Literal

from agent_tools.display import Display
from agent_tools.media import Media
from agent_tools.overrides import TurnOverrides
from agent_tools.record import Value


class ToolError(Exception):
    """The call failed for a reason that the model can act on; it reads the message."""


EffectKind = Literal["read", "write", "run", "fetch", "state", "prompt", "call"]


class Effect(Value, tag="Effect"):
    """One thing that a call is about to do.

    kind: "state" changes only the conversation; "prompt" adds a saved prompt to it; "call" does something that this
    program cannot see.
    target: an absolute resolved path, a command line, a URL, or the name of the prompt or tool.
    """

    kind: EffectKind
    target: str = ""


class Suspend(Value, tag="Suspend"):
    """The call needs an answer of the user. data: has `questions` for "questions", the plan to approve for "plan"."""

    kind: Literal["questions", "plan"]
    data: dict[str, Any]


class Finish(Value, tag="Finish"):
    """The call completes the turn with this return value."""

    value: Any


class ToolResult(Value, tag="ToolResult"):
    """The result of a call.

    text, media: for the model.
    display: for the user.
    suspend: the question that the turn waits for.
    finish: ends the turn with a return value.
    lent: overrides for the rest of the turn.
    """

    text: str
    display: Display | None = None
    is_error: bool = False
    suspend: Suspend | None = None
    finish: Finish | None = None
    media: tuple[Media, ...] = ()
    lent: TurnOverrides = TurnOverrides()


class Progress(Value):
    """Output of a running tool: complete or partial lines, as they arrive."""

    text: str


class AskModel(Value):
    """A question to the small model, yielded by a running tool, which gets the answer. `text` may be untrusted."""

    system: str
    text: str
    max_tokens: int = 2_000


class AskUser(Value):
    """A question to the user, yielded by a running tool, which gets the answer; None if no user can be asked."""

    question: str
    options: tuple[str, ...] = ()


Outcome = ToolResult | Generator[Any, Any, ToolResult]
