"""Send less when a provider refuses a request: the steps, in order, and the memory of the one that helped.

A refusal of no known kind is not final while something optional is still being sent. Tried once each: without the
reasoning of earlier answers; with images and documents as text; without the tools of MCP servers; after a compaction
for which no model is asked. What an error names is tried first: an image, a tool, a signature, the size in bytes. A
step that leads to the same refusal is undone. What made the request pass stays left out in this session, for this
model (`LeftOut`), and is said once.

Everything is left out of the messages and tools that the clients are given, so no protocol has to know of it.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator, Sequence

from agent_cli.kernel.engine.compaction import compact, measure
from agent_cli.kernel.engine.sampling import build_request
from agent_cli.kernel.engine.turn import Turn
from agent_cli.kernel.events import Event, LeftOut, Uncompacted, Warned
from agent_cli.kernel.messages import AssistantMessage, Message, Thinking, media_noun
from agent_cli.kernel.results import Failure
from agent_cli.kernel.window import Compaction
from agent_cli.models.base import ModelError
from agent_cli.models.errors import MEDIA, TOO_LARGE, words_of
from agent_tools.results import Media
from agent_tools.text import counted, shorten

ADVICE = (
    "Every request of this conversation may be refused like that: /compact replaces it by a summary, and /rewind goes "
    "back to before what is refused."
)
# Images that are tried as text one by one, before all of the newest.
_MAX_SINGLE_MEDIA = 3
# Tools that are left out because an error names them, before all tools of MCP servers are.
_MAX_NAMED_TOOLS = 10
_MAX_STEPS = 30

# These come first in any case.
_REASONING = r"signature|thinking|reasoning|encrypted.content|thought|cannot be modified"
# Images of which there are too many: the newest are kept.
_TOO_MANY = r"too many|many-image|number of images|at most \d|up to \d+ image|maximum of \d+ (image|file|pdf)"
_TOO_MANY_NUMBER = r"(?:at most|up to|maximum of|limit of) (\d{1,4}) (?:image|document|pdf|file)"
# Amazon counts from 1: `toolConfig.tools.3.member.toolSpec`.
_TOOL_PLACE = r"(?i)\btools\.(\d{1,4})(\.member)?"
# Gemini has all tools in one: `tools[0].function_declarations[7]`.
_INNER_TOOL_PLACE = r"(?i)function_?declarations\.(\d{1,4})()"
_MESSAGE_PLACE = r"\b(messages|contents?|input)\.\d|signature"
_QUOTES = "['\"`\u2018\u2019\u201c\u201d\xab\xbb]"

Steps = Iterator[LeftOut]


class RequestReducer:
    """The steps for the request that is being sent. A turn has one, which is empty while requests pass."""

    def __init__(self) -> None:
        # What was left out before the first step, and what is left out as it has changed the provider's complaint.
        self._before: LeftOut | None = None
        self._kept: LeftOut | None = None
        self._tried: set[LeftOut] = set()
        self._complaint: tuple[str, ...] = ()
        self._failure: Failure | None = None
        self._exhausted = False
        self._compaction: Compaction | None = None

    def reduce(self, turn: Turn, error: ModelError) -> Generator[Event, None, Failure | None]:
        """Take the next step after a refusal, so that the request can be sent again.

        Return the failure, with advice, if there is none; everything is undone then. Raises CancelledError.
        """
        window = turn.deps.state.window
        now = _in_use(turn)
        tools = _named_tools(turn, now, error.failure)
        complaint = (error.failure.complaint, *tools, *error.failure.media)
        if self._failure is None:
            self._before = now
        if self._kept is None or complaint != self._complaint:
            self._kept = now
        # What the log has of an earlier refusal may end in advice.
        again = self._failure is not None or window.refusal.startswith(complaint[0])
        self._failure, self._complaint = error.failure, complaint
        _use(turn, self._kept)
        if not self._exhausted:
            following = (step for step in _steps(turn, self._kept, error.failure, tools) if step not in self._tried)
            if len(self._tried) < _MAX_STEPS and (step := next(following, None)) is not None:
                self._tried.add(step)
                _use(turn, step)
                return None
            self._exhausted = True
            used = measure.used_tokens(window, turn.options, turn.history)
            if not (yield from compact.compact(turn, "refused", used, bare=True)):
                self._compaction = window.compactions[-1]
                return None
        yield from self.restore(turn)
        window.refusal = complaint[0]
        return error.failure.replace(message=f"{error.failure.message} {ADVICE}") if again else error.failure

    def keep(self, turn: Turn) -> Generator[Event, None, None]:
        """Remember what made the request pass, and say it."""
        before, now = self._before, _in_use(turn)
        if self._failure is not None and before is not None and now != before:
            # Refused a second time, the reasoning of each answer would be.
            if now.reasoning > before.reasoning > 0:
                now = now.replace(reasoning=-1)
            _use(turn, now)
            yield now
            what = " and ".join(_difference(turn, before, now))
            yield Warned(f"{self._failure.message} It passed without {what}, left out for the rest of this session.")
        if self._failure is not None and self._compaction is not None:
            yield Warned(f"{self._failure.message} It passed after the conversation was compacted.")
        self._reset()

    def restore(self, turn: Turn) -> Generator[Event, None, None]:
        """Undo all steps: the request was not answered."""
        window = turn.deps.state.window
        if self._before is not None:
            _use(turn, self._before)
        if self._compaction is not None and window.compactions[-1:] == [self._compaction]:
            event = Uncompacted(self._compaction.event.tokens_before)
            window.apply(event, len(turn.history))
            turn.refresh_view()
            yield event
        self._reset()

    def _reset(self) -> None:
        self._before = self._kept = self._failure = self._compaction = None
        self._tried, self._exhausted = set(), False


def _in_use(turn: Turn) -> LeftOut:
    return turn.deps.state.window.left_out.get(turn.options.label) or LeftOut(turn.options.label)


def _use(turn: Turn, left_out: LeftOut) -> None:
    everything = turn.deps.state.window.left_out
    if left_out == LeftOut(left_out.model):
        everything.pop(left_out.model, None)
    else:
        everything[left_out.model] = left_out
    turn.refresh_view()


def _steps(turn: Turn, kept: LeftOut, failure: Failure, tools: Sequence[str]) -> Steps:
    """Yield what may be left out beyond `kept`, what the failure names first. tools: those that it names."""
    words = words_of(failure)
    sent = build_request(turn).messages
    if tools and len(kept.tools) < _MAX_NAMED_TOOLS:
        yield kept.replace(tools=(*kept.tools, *tools))
    elif failure.status == 413 or re.search(TOO_LARGE, words, re.IGNORECASE):
        yield from _oldest_media(sent, kept, 0)
    elif re.search(MEDIA, words, re.IGNORECASE) and not re.search(_REASONING, words, re.IGNORECASE):
        yield from _named_media(sent, kept, failure.media, words)
    answers = (m for m in sent if isinstance(m, AssistantMessage))
    if any(isinstance(part, Thinking) for answer in answers for part in answer.parts):
        yield kept.replace(reasoning=len(turn.history))
    yield from _as_text(kept, _media_of(sent))
    servers = [tool.name for tool in turn.options.tools if turn.deps.traits_of(tool.name).of_server]
    if more := [name for name in servers if name not in kept.tools]:
        yield kept.replace(tools=(*kept.tools, *more))


def _named_media(sent: Sequence[Message], kept: LeftOut, named: Sequence[str], words: str) -> Steps:
    """Yield what to send as text of the images and documents that a failure is about.

    The newest are the likely ones: a request with the others was answered.
    named: digests of those that the failure names by their place.
    """
    if re.search(_TOO_MANY, words, re.IGNORECASE):
        number = re.search(_TOO_MANY_NUMBER, words, re.IGNORECASE)
        yield from _oldest_media(sent, kept, int(number[1]) if number else 0)
    yield from _as_text(kept, [item for item in _media_of(sent) if item.digest in named])
    answered = max((i for i, m in enumerate(sent) if isinstance(m, AssistantMessage)), default=-1)
    newest = _media_of(sent[answered + 1 :]) or _media_of(sent)
    for item in newest[: -_MAX_SINGLE_MEDIA - 1 : -1]:
        yield from _as_text(kept, [item])
    yield from _as_text(kept, newest)


def _oldest_media(sent: Sequence[Message], kept: LeftOut, most: int) -> Steps:
    """Yield growing parts of the media, the oldest first: all but `most`; then half of their bytes, and half again."""
    media = _media_of(sent)
    if most and len(media) > most:
        yield from _as_text(kept, media[:-most])
    left = sum(len(item.data) for item in media)
    room = left // 2
    for count, item in enumerate(media, 1):
        left -= len(item.data)
        if left <= room:
            yield from _as_text(kept, media[:count])
            room = left // 2


def _as_text(kept: LeftOut, media: Iterable[Media]) -> Steps:
    if more := [d for d in dict.fromkeys(item.digest for item in media) if d not in kept.media]:
        yield kept.replace(media=(*kept.media, *more))


def _media_of(messages: Sequence[Message]) -> list[Media]:
    return [item for m in messages if not isinstance(m, AssistantMessage) for item in m.media]


def _named_tools(turn: Turn, left_out: LeftOut, failure: Failure) -> list[str]:
    """Return the tools that a failure names, by their name or by their number in the request."""
    words = words_of(failure)
    offered = [tool.name for tool in turn.options.tools if tool.name not in left_out.tools]
    named: list[str] = []
    if not re.search(_MESSAGE_PLACE, words):
        # The name of a tool of a server is no other word.
        named = [name for name in offered if "__" in name and re.search(rf"\b{re.escape(name)}\b", words)]
    if not named and (places := re.findall(_INNER_TOOL_PLACE, words) or re.findall(_TOOL_PLACE, words)):
        numbers = dict.fromkeys(int(number) - bool(from_one) for number, from_one in places)
        named = [offered[at] for at in numbers if 0 <= at < len(offered)]
    elif not named and not re.search(_MESSAGE_PLACE, words):
        named = [name for name in offered if re.search(f"{_QUOTES}{re.escape(name)}{_QUOTES}", words)]
    return list(dict.fromkeys(named)) if len(named) < len(offered) else []


def _difference(turn: Turn, before: LeftOut, now: LeftOut) -> Iterator[str]:
    """Yield in words what is left out now and was not before."""
    if now.reasoning != before.reasoning:
        yield "the reasoning of earlier answers"
    gone = {digest for digest in now.media if digest not in before.media}
    items = list({item.digest: item for item in _media_of(turn.history) if item.digest in gone}.values())
    if len(items) == 1:
        yield f"the {media_noun(items[0])} {shorten(items[0].name or 'without a name', 80)}"
    elif items:
        nouns = {media_noun(item) for item in items}
        yield counted(len(items), nouns.pop()) if len(nouns) == 1 else f"{len(items)} images and PDFs"
    if tools := [name for name in now.tools if name not in before.tools]:
        yield f"{'the tools' if len(tools) > 1 else 'the tool'} {shorten(', '.join(tools), 300)}"
