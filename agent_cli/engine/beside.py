"""A question of the user's beside the conversation: the model sees all of it, calls nothing, and nothing is kept."""

from __future__ import annotations

from collections.abc import Generator, Iterable

from agent_cli.config.prompts import prompt
from agent_cli.core.media import only_taken
from agent_cli.core.messages import Message, UserMessage, with_open_calls_closed
from agent_cli.core.usage import Usage
from agent_cli.engine.sampling import request_of
from agent_cli.engine.turn import Opened, TurnOptions
from agent_cli.model.transport import PlainAnswer, Restarted, TextChunk
from agent_tools.cancel import CancelToken


def ask_beside(
    opened: Opened, options: TurnOptions, history: Iterable[Message], question: str, cancel: CancelToken
) -> Generator[str, None, Usage]:
    """Yield the answer as it comes; return what it cost. Raises ModelError, CancelledError.

    The request is the conversation's own and a suffix, so that what the provider has cached of it counts.
    """
    messages = with_open_calls_closed(only_taken(list(history), opened.takes), "This has not finished yet.")
    asked = UserMessage(prompt("beside").format(question=question))
    request = request_of(options.but(model=opened.model), [*messages, asked], "none")
    answer = PlainAnswer()
    for chunk in opened.transport.stream(request, cancel):
        answer.read((chunk,))
        if isinstance(chunk, TextChunk):
            yield chunk.text
        elif isinstance(chunk, Restarted):
            yield "\n\n(The connection broke; the answer starts again.)\n\n"
    cancel.check()
    return opened.price(answer.usage) if answer.usage is not None else Usage()
