"""Model calls outside the conversation.

`ask_helper_model`: a tool asks the small model; history and prompt are unaffected.
`ask_side_question`: the user asks about the conversation; the model sees all of it, calls no tools, and nothing is
stored.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence

from agent_cli.config.prompts import prompt
from agent_cli.kernel.engine.sampling import request_of
from agent_cli.kernel.engine.turn import Turn
from agent_cli.kernel.engine.types import ModelHandle, TurnOptions
from agent_cli.kernel.events import Event, UsageAdded, Warned
from agent_cli.kernel.messages import Message, UserMessage, close_open_calls, have_media
from agent_cli.kernel.results import Usage
from agent_cli.kernel.window import Window
from agent_cli.models.base import ModelError, Request, Restarted, TextChunk, TextCollector
from agent_tools.base import AskModel
from agent_tools.cancel import CancelToken
from agent_tools.lazy import lazy_imports

with lazy_imports():
    from agent_cli.kernel.engine.compaction import measure  # only for answers that break off


def ask_helper_model(turn: Turn, ask: AskModel) -> Generator[Event, None, str | None]:
    """Return the small model's answer, charged to the turn; None if it failed. Raises CancelledError."""
    handle = ModelHandle(turn.options.label, turn.options.model, turn.client, turn.price)
    try:
        handle = turn.deps.small() if turn.deps.small is not None else handle
        request = Request(handle.model, ask.system, (UserMessage(ask.text),), max_tokens=ask.max_tokens, aside=True)
        return (yield from complete_text(turn, handle, request)) or None
    except ModelError as error:
        yield Warned(f"The small model did not answer: {error.failure.message}")
        return None


def complete_text(turn: Turn, handle: ModelHandle, request: Request) -> Generator[Event, None, str]:
    """Return the text of one answer, charged to the turn. Raises ModelError, CancelledError."""
    answer, usage = TextCollector(), None
    try:
        answer.read(handle.client.stream(request, turn.deps.context.cancel))
    finally:
        if answer.usage is not None:
            usage = handle.price(answer.usage)
            turn.usage += usage
            turn.budget.cost += usage.cost
    if usage is not None:
        yield UsageAdded(handle.label, usage, aside=True)
    turn.deps.context.cancel.check()
    return answer.text.strip()


def ask_side_question(
    handle: ModelHandle,
    options: TurnOptions,
    window: Window,
    history: Sequence[Message],
    question: str,
    cancel: CancelToken,
    on_usage: Callable[[Usage], None],
) -> Iterator[str]:
    """Yield the answer as it arrives. Raises ModelError, CancelledError.

    The request is the conversation's own plus a suffix, so it hits the provider's prompt cache.
    on_usage: called at the end with the usage, which is estimated if the answer broke off.
    """
    messages = close_open_calls(window.view(history, handle.label), "This has not finished yet.")
    asked = UserMessage(prompt("side_question").format(question=question))
    shown = [*messages, asked]
    request = request_of(handle.options(options), window, shown, "none", have_media(shown))
    answer = TextCollector()
    try:
        for chunk in handle.client.stream(request, cancel):
            started = bool(answer.text)
            answer.read((chunk,))
            if isinstance(chunk, TextChunk):
                yield chunk.text
            elif isinstance(chunk, Restarted) and started:
                yield "\n\n(The connection broke; the answer starts again.)\n\n"
        cancel.check()
    finally:
        used = answer.usage
        if used is None and (answer.text or cancel.cancelled):
            sent = measure.used_tokens(window, options, [*history, asked])
            used = Usage(sent, measure.scaled(window, len(answer.text) // 4), estimated=True)
        if used is not None:
            on_usage(handle.price(used))
