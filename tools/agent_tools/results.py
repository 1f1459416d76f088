"""What a call is about to do and what came of it: effects, results, and what a running tool yields."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Literal

from agent_tools.display import Display
from agent_tools.media import Media
from agent_tools.overrides import TurnOverrides
from agent_tools.record import Value


class ToolError(Exception):
    """The call failed for a reason the model can act on; the message is what it reads."""


EffectKind = Literal["read", "write", "run", "fetch", "state", "prompt", "call"]


class Effect(Value, tag="Effect"):
    """One thing a call is about to do. `target`: an absolute resolved path, a command line, a URL, or what is named.

    "state" changes only the conversation; "prompt" puts words into it that were written beforehand; "call" does what
    this program cannot see.
    """

    kind: EffectKind
    target: str = ""


class Suspend(Value, tag="Suspend"):
    """The call cannot finish without a user. "questions": data holds `questions`; "plan": the plan to approve."""

    kind: Literal["questions", "plan"]
    data: dict[str, Any]


class Finish(Value, tag="Finish"):
    """The call completes the turn with this return value."""

    value: Any


class ToolResult(Value, tag="ToolResult"):
    """What came of a call: `text` and `media` for the model, `display` for the user. lent: what holds from now on."""

    text: str
    display: Display | None = None
    is_error: bool = False
    suspend: Suspend | None = None
    finish: Finish | None = None
    media: tuple[Media, ...] = ()
    lent: TurnOverrides = TurnOverrides()


class Progress(Value):
    """Output while a tool runs: complete or partial lines, as they come."""

    text: str


class AskModel(Value):
    """A question to the small model, yielded by a running tool, which is sent the answer. `text` may be untrusted."""

    system: str
    text: str
    max_tokens: int = 2_000


class AskUser(Value):
    """A question to the user, yielded by a running tool, which is sent their words; None where nobody answers."""

    question: str
    options: tuple[str, ...] = ()


Outcome = ToolResult | Generator[Any, Any, ToolResult]
