"""Results of a turn: four kinds, each with the messages that it added and what it used.

Also the limits of a turn, the usage of model calls, and the totals of a turn's earlier parts, saved while it is
suspended so that its result covers the whole turn.
"""

from __future__ import annotations

import re
from typing import Any, Literal

from agent_cli.kernel.messages import Message
from agent_tools.lazy import lazy_pattern
from agent_tools.record import Value

Cap = Literal["rounds", "duration", "tool_calls", "cost", "failures", "denials", "repetition", "output"]


class Limits(Value):
    """Limits of one turn; zero means none.

    rounds: model calls.
    seconds: working time; time spent waiting for the user does not count.
    tool_calls: calls of tools.
    cost: dollars, for models with known prices.
    failures: rounds in a row in which no call succeeded.
    denials: refusals of the same call.
    """

    rounds: int = 200
    seconds: float = 0.0
    tool_calls: int = 500
    cost: float = 0.0
    failures: int = 25
    denials: int = 3


class Usage(Value, tag="Usage"):
    """Tokens and dollars.

    input: all input, cached parts included.
    output: includes `reasoning`.
    reliable: False as soon as one part had no known price; stays False when usages are added.
    estimated: includes an interrupted answer, for which the provider reports nothing.
    cache_write_1h: the part of `cache_write` that the provider keeps for an hour.
    """

    input: int = 0
    output: int = 0
    reasoning: int = 0
    cache_read: int = 0
    cache_write: int = 0
    web_searches: int = 0
    cost: float = 0.0
    reliable: bool = True
    estimated: bool = False
    cache_write_1h: int = 0

    @property
    def claude_fields(self) -> dict[str, Any]:
        """Claude Code's usage fields: `input_tokens` excludes what was read from or written to a cache."""
        return {
            "input_tokens": self.input - self.cache_read - self.cache_write,
            "cache_creation_input_tokens": self.cache_write,
            "cache_read_input_tokens": self.cache_read,
            "output_tokens": self.output,
            "reasoning_tokens": self.reasoning,
            "server_tool_use": {"web_search_requests": self.web_searches, "web_fetch_requests": 0},
            "service_tier": "standard",
            "cache_creation": {
                "ephemeral_1h_input_tokens": self.cache_write_1h,
                "ephemeral_5m_input_tokens": self.cache_write - self.cache_write_1h,
            },
            "inference_geo": "",
            "iterations": [],
            "speed": "standard",
        }

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input=self.input + other.input,
            output=self.output + other.output,
            reasoning=self.reasoning + other.reasoning,
            cache_read=self.cache_read + other.cache_read,
            cache_write=self.cache_write + other.cache_write,
            web_searches=self.web_searches + other.web_searches,
            cost=self.cost + other.cost,
            reliable=self.reliable and other.reliable,
            estimated=self.estimated or other.estimated,
            cache_write_1h=self.cache_write_1h + other.cache_write_1h,
        )

    @property
    def cost_words(self) -> str:
        """The cost as text: "about" if a part is estimated, unknown without a price."""
        if not self.reliable:
            return "cost unknown"
        return f"{'about ' if self.estimated else ''}${self.cost:.4f}"

    def since(self, before: Usage) -> Usage:
        """Return the usage since `before`."""
        flags = ("reliable", "estimated")
        counts = {name: getattr(self, name) - getattr(before, name) for name in self._fields if name not in flags}
        return Usage(**counts, reliable=self.reliable, estimated=self.estimated)


TerminalReason = Literal[
    "completed",
    "max_rounds",
    "max_duration",
    "max_tool_calls",
    "max_cost",
    "max_failures",
    "max_denials",
    "max_output_tokens",
    "repetition",
    "inference_error",
    "empty_answer",
    "await_approval",
    "await_user_input",
    "interrupted",
    "cancelled",
    "stopped_by_hook",
    "denied",  # in logs of earlier versions, as the next
    "failed",
]


class Diagnostics(Value, tag="Diagnostics"):
    """Counters of a turn.

    stop_reason: the provider's last one.
    terminal_reason: ours.
    """

    rounds: int
    tool_calls: int
    duration_ms: int
    model_ms: int
    stop_reason: str
    terminal_reason: TerminalReason
    first_chunk_ms: int | None = None


class Failure(Value, tag="Failure"):
    """Why the model could not continue: a kind of provider error with a sentence, or that a hook blocked the prompt.

    A "price" is not known, so that a budget cannot be enforced.

    status: of the provider's HTTP answer; 0 if there was none.
    reducible: the provider refused the request for a reason that does not lie in its options or the account, so that
        it may take one that contains less.
    subject: the provider's names for what a reducible one is about.
    media: digests of the images and documents that a reducible one is about.
    """

    kind: Literal[
        "auth", "rate_limit", "overloaded", "context_too_long", "bad_request", "network", "malformed", "refused",
        "script", "replay", "blocked", "price",
    ]  # fmt: skip
    message: str
    retryable: bool = False
    status: int = 0
    reducible: bool = False
    subject: str = ""
    media: tuple[str, ...] = ()

    @property
    def complaint(self) -> str:
        """The message without numbers, places and ids: equal for two refusals with the same reason."""
        return re.sub(r"\S*\d\S*", "0", self.message)

    @property
    def final(self) -> bool:
        """True if another model cannot help."""
        return self.kind in ("script", "replay", "context_too_long")


class Denial(Value, tag="Denial"):
    """A call that was refused, by a rule, a mode or a user.

    by: who refused it, as in `events.Decider`.
    rule: the rule that denied it, or asked; "" for none.
    """

    call_id: str
    tool: str
    arguments: dict[str, Any]
    reason: str
    by: str = "default"
    rule: str = ""


class TurnEnd(Value, tag="TurnEnd"):
    """The part common to all results.

    All but `messages` covers the whole turn, including its parts before a suspension.

    messages: added by this part of the turn.
    usage: of the model calls.
    diagnostics: counters.
    denials: refused calls.
    cost: dollars, sub-agents included.
    """

    messages: tuple[Message, ...]
    usage: Usage
    diagnostics: Diagnostics
    denials: tuple[Denial, ...] = ()
    cost: float = 0.0


def empty_end(reason: TerminalReason, stop_reason: str = "") -> TurnEnd:
    """Return the end of a turn without a model call."""
    return TurnEnd((), Usage(), Diagnostics(0, 0, 0, 0, stop_reason, reason))


class Complete(Value, tag="Complete"):
    """The model answered.

    degraded: the model failed after tools had run; `text` is our own recap.
    plan_unfinished: the plan has open steps.
    verified: which commands checked the work, and how they ended.
    """

    end: TurnEnd
    text: str = ""
    degraded: bool = False
    failure: Failure | None = None
    return_value: Any = None
    plan_unfinished: bool = False
    verified: str = ""


class Suspended(Value, tag="Suspended"):
    """The turn waits for the user. Running the history again resumes it.

    pending: ids of the calls without a result.
    """

    end: TurnEnd
    pending: tuple[str, ...] = ()


class Failed(Value, tag="Failed"):
    """Nothing was done: the model failed before any tool ran, or the turn was interrupted (`failure` is None)."""

    end: TurnEnd
    failure: Failure | None = None
    text: str = ""


class LimitReached(Value, tag="MaxIterations"):
    """A limit was reached; `text` summarizes where the work stands."""

    end: TurnEnd
    cap: Cap = "rounds"
    text: str = ""


TurnResult = Complete | Suspended | Failed | LimitReached


class Action(Value, tag="Action"):
    """A call that was answered, as listed in the recap of a turn."""

    summary: str
    outcome: Literal["done", "failed", "refused"]


# Exit code of the test runners of Python if they find no test.
_NO_TESTS_CODE = 5
_TEST_RUNNERS = frozenset(("pytest", "unittest"))


# Files that no check depends on: after a change of the changelog, a passed test run still counts.
_DOCUMENTS = r"(?i)(change(s|log)|history|news|readme|authors)(\.(md|rst|txt))?"
# Parts of a command that do not change what it checks.
_IDLE_WORDS = lazy_pattern(r"2>&1|\|\s*(?:tail|head|cat|grep)\b.*|(?:^|(?<=\s))(?:python[\d.]* -m |-[qvx]+(?=\s|$))")


def is_checked(path: str) -> bool:
    """Return True if a check may depend on a file."""
    return not re.fullmatch(_DOCUMENTS, path.rpartition("/")[2])


class Check(Value, tag="Check"):
    """A command that checks the work.

    exit_code: None if it was killed.
    decided: the exit code says whether the work passed; in `pytest; echo done` it does not.
    programs: the checks that ran.
    """

    command: str
    exit_code: int | None
    decided: bool = True
    programs: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return self.decided and self.exit_code == 0

    @property
    def failed(self) -> bool:
        return self.decided and self.exit_code != 0

    @property
    def started(self) -> bool:
        """False if a program of it could not be run, as the shell's exit codes say."""
        return not self.decided or self.exit_code not in (126, 127)

    @property
    def ending(self) -> str:
        """How it ended, in words."""
        if self.exit_code is None:
            return "did not finish"
        empty = self.exit_code == _NO_TESTS_CODE and {*self.programs} & _TEST_RUNNERS
        return f"exit {self.exit_code}: no tests were found" if empty else f"exit {self.exit_code}"

    def covers(self, other: Check) -> bool:
        """Return True if it checks the same as another or more, with fewer words."""
        words, others = (_IDLE_WORDS.sub(" ", each.command).split() for each in (self, other))
        paths = [word.partition("::")[0] for word in others]

        def within(word: str) -> bool:
            return word in others or any(p == word or p.startswith(f"{word.rstrip('/')}/") for p in paths)

        return all(map(within, words))

    def __str__(self) -> str:
        if self.passed:
            return f"`{self.command}` passed"
        if not self.decided:
            return f"`{self.command}` ran, but its exit code does not show the outcome"
        if not self.started:
            return f"`{self.command}` could not run (exit {self.exit_code})"
        how = self.ending if self.exit_code is None else f"failed ({self.ending})"
        return f"`{self.command}` {how}"


class Spent(Value, tag="Spent"):
    """Totals of the earlier parts of a turn.

    rounds, seconds, tool_calls, cost: totals that the limits apply to.
    failures: rounds in a row without a success.
    denials: refusals by call.
    nudges: how often each guard continued the turn.
    usage, model_ms, first_chunk_ms: of the conversation's own model calls and those of its tools.
    actions: calls that were answered, in order.
    denied: calls that were refused, in order.
    check: the last command that verified the work.
    checks: those before it that still say something about the work.
    changed_since: files changed after it.
    wrote: files changed at all.
    plan_touched: the plan was made, approved or changed in this turn.
    recent: the latest calls with their results, as hashes, for the detection of repeats.
    """

    rounds: int = 0
    seconds: float = 0.0
    tool_calls: int = 0
    cost: float = 0.0
    failures: int = 0
    denials: dict[str, int] = {}  # noqa: RUF012 - never changed
    nudges: dict[str, int] = {}  # noqa: RUF012 - never changed
    usage: Usage = Usage()
    model_ms: int = 0
    first_chunk_ms: int | None = None
    actions: tuple[Action, ...] = ()
    denied: tuple[Denial, ...] = ()
    check: Check | None = None
    checks: tuple[Check, ...] = ()
    changed_since: bool = False
    wrote: bool = False
    plan_touched: bool = False
    recent: tuple[str, ...] = ()
