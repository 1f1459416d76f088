"""User actions on the context window: show its usage, compact, uncompact, pin a message.

Called between turns; showing the usage is safe at any time. Each change is recorded and shown like the events of a
turn.
"""

from __future__ import annotations

from agent_cli.kernel.engine.compaction.measure import compaction_limit, used_tokens, window_tokens
from agent_cli.kernel.engine.conversation import Conversation, Listener, consume
from agent_cli.kernel.engine.loop import run_turn
from agent_cli.kernel.engine.turn import Turn
from agent_cli.kernel.events import MessageAdded, Pinned, Uncompacted
from agent_cli.kernel.messages import AssistantMessage, Message, ToolMessage, UserMessage, is_user_message
from agent_cli.kernel.window import count_message_tokens, count_text_tokens, count_tokens, count_tool_tokens
from agent_cli.models.base import ModelError
from agent_tools.cancel import CancelledError, CancelToken
from agent_tools.lazy import lazy_imports
from agent_tools.record import Value
from agent_tools.text import new_uuid

with lazy_imports():
    from agent_cli.kernel.engine.compaction import compact

MEMORY = "# Project memory\n"
_MEMORY_TAG = "<project_memory"
# Share of the window that all pins together may use.
_MAX_PINNED_SHARE = 0.2
OPEN = "Calls of this conversation are waiting for your decision; decide them first."


class ContextUsage(Value):
    """Usage of the window, in tokens.

    parts: by name, in order.
    used: sum of the parts.
    size: of the window; None if unknown.
    limit: usage at which the conversation is compacted; None if it is not.
    reported: usage by the provider's last report; 0 if there is none.
    free: None if the size is unknown.
    """

    parts: tuple[tuple[str, int], ...]
    used: int
    size: int | None
    limit: int | None
    reported: int

    @property
    def free(self) -> int | None:
        return max(0, self.size - self.used) if self.size else None


class ContextWindow:
    """The context window of a conversation, and what its user can do with it."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation

    @staticmethod
    def label(message: Message) -> str:
        """Return who wrote a message, as one word."""
        if isinstance(message, AssistantMessage):
            return "answer"
        return "you" if isinstance(message, UserMessage) else message.name

    def used(self) -> tuple[int, int | None]:
        """Return the tokens of the next request and the size of the window, None if unknown."""
        conversation = self._conversation
        used = used_tokens(conversation.deps.state.window, conversation.options, conversation.live_history)
        return used, self.size

    @property
    def size(self) -> int | None:
        """Return the size of the window: from the settings, the catalog, or a refused request; None if unknown."""
        return window_tokens(self._conversation.deps.state.window, self._conversation.options)

    def usage(self) -> ContextUsage:
        """Return the usage of the window. The parts are our own count, scaled to add up to the usage."""
        conversation = self._conversation
        window, options, history = conversation.deps.state.window, conversation.options, conversation.live_history
        used, size = self.used()
        view = window.view(history)
        memory = count_text_tokens(options.system.partition(MEMORY)[2])
        near = [m for m in view if isinstance(m, UserMessage) and m.text.startswith(_MEMORY_TAG)]
        files = [m for m in view if isinstance(m, ToolMessage) and conversation.deps.traits_of(m.name).shows_file]
        summaries = [m for m in view[: len(window.head)] if m in window.head]
        ours = {
            "system prompt": count_text_tokens(options.system) - memory,
            "tools": count_tool_tokens(options.tools),
            "memory": memory + count_tokens(near),
            "summary": count_tokens(summaries),
            "files read": count_tokens(files),
        }
        ours["conversation"] = max(
            0, count_tokens(view) - count_tokens(near) - count_tokens(summaries) - count_tokens(files)
        )
        scale = used / max(sum(ours.values()), 1)
        parts = tuple((name, round(count * scale)) for name, count in ours.items() if count)
        limit = compaction_limit(size, options) if size and options.compact_at else None
        return ContextUsage(parts, used, size, limit, window.report.filled if window.report else 0)

    def compact(self, show: Listener, focus: str = "") -> str:
        """Compact the conversation at the user's request; return why it was not done, or ""."""
        conversation = self._conversation
        if conversation.suspended:
            return OPEN
        conversation.deps.context.cancel = CancelToken()
        conversation.deps.state.prompt_id = conversation.deps.state.prompt_id or new_uuid()
        turn = Turn(conversation.history, conversation.deps, conversation.options, run_turn)
        used = used_tokens(conversation.deps.state.window, conversation.options, conversation.history)
        try:
            return consume(compact.compact(turn, "manual", used, focus), conversation.record, show)
        except CancelledError:
            return "Interrupted; the conversation is unchanged."
        except ModelError as error:
            return error.failure.message

    def uncompact(self, show: Listener) -> str:
        """Undo the latest compaction if its conversation fits into the window; return why not, or ""."""
        conversation = self._conversation
        if conversation.suspended:
            return OPEN
        window, options, history = conversation.deps.state.window, conversation.options, conversation.history
        if not window.compactions:
            return "This conversation has not been compacted."
        last, report = window.compactions.pop(), window.report
        window.report = None
        tokens, size = used_tokens(window, options, history), window_tokens(window, options)
        window.compactions.append(last)
        if size is not None and tokens >= compaction_limit(size, options):
            window.report = report
            return (
                f"It would not fit: without its last compaction the conversation has about {tokens:,} tokens, and it "
                f"is compacted at {compaction_limit(size, options):,}. Use a model with a larger window: /model"
            )
        event = Uncompacted(tokens)
        window.apply(event, len(history))
        conversation.record(event)
        show(event)
        return ""

    def pinnable(self) -> list[Message]:
        """Return the messages that can be pinned, newest first: the user's, the model's, and results."""
        found: dict[str, Message] = {}
        for message in self._conversation.history:
            if message.text.strip() and (is_user_message(message) or not isinstance(message, UserMessage)):
                found.pop(message.text, None)
                found[message.text] = message
        return list(reversed(found.values()))

    def pin(self, message: Message, show: Listener) -> str:
        """Pin a message, or unpin a pinned one; return why it cannot be pinned, or ""."""
        conversation = self._conversation
        window = conversation.deps.state.window
        on = message.text not in window.pins
        size = window_tokens(window, conversation.options)
        if on and size is not None:
            there = {m.text: m for m in conversation.history}
            count = sum(
                count_message_tokens(there[text]) for text in window.pins if text in there
            ) + count_message_tokens(message)
            if count > size * _MAX_PINNED_SHARE:
                return (
                    f"The pinned messages would have about {count:,} tokens; more than a fifth of the window "
                    f"({round(size * _MAX_PINNED_SHARE):,}) cannot be pinned."
                )
        event = Pinned(message.text, on)
        window.apply(event, len(conversation.history))
        conversation.record(event)
        show(event)
        if on and not any(message.text in m.text for m in window.view(conversation.history)):
            self._show_again(message)
        return ""

    def _show_again(self, message: Message) -> None:
        """Show the model again a message that a compaction removed."""
        conversation = self._conversation
        conversation = self._conversation
        text = f"<pinned>\n{message.text}\n</pinned>\nThe user pinned this message from earlier in the conversation."
        if conversation.suspended:
            conversation.inbox.append(text)
            return
        media = () if isinstance(message, AssistantMessage) else message.media
        again = UserMessage(text, media)
        conversation.history.append(again)
        conversation.record(MessageAdded(again))
