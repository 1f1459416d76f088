"""Side questions that do not become part of the conversation."""

from __future__ import annotations

from agent_cli.engine.helper_model import ask_side_question
from agent_cli.providers.base import ModelError
from agent_cli.terminal.slash import SlashContext, slash
from agent_tools.cancel import CancelledError


@slash("btw", "ask beside the conversation; neither question nor answer is kept in it", "QUESTION", aside=True)
def _btw(ctx: SlashContext, words: str) -> None:
    conversation = ctx.agent.conversation
    deps = conversation.deps
    if not words or deps.open_model is None:
        ctx.say("Say what you want to know: /btw QUESTION")
        return
    stop = conversation.side_cancel_token()
    opened = deps.open_model(conversation.options.label)  # a separate connection: a turn may be using the other
    answer: list[str] = []
    steps = ask_side_question(
        opened, conversation.options, deps.state.window.view(conversation.live_history), words, stop
    )
    try:
        while True:
            answer.append(next(steps))
    except StopIteration as end:
        ctx.add_usage(end.value)
    except ModelError as error:
        ctx.say(error.failure.message)
        return
    except CancelledError:
        return
    ctx.show_markdown("".join(answer).strip() or "(no answer)")
