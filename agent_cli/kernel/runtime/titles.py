"""Session titles: the small model makes one in the background if the user gave the session no name."""

from __future__ import annotations

import threading
from collections.abc import Callable

from agent_cli.config.prompts import prompt
from agent_cli.kernel.messages import AssistantMessage, UserMessage, is_user_message, user_text
from agent_cli.kernel.results import Usage
from agent_cli.kernel.runtime.models import lazy_model
from agent_cli.kernel.runtime.session import Session
from agent_cli.kernel.runtime.session_log import sanitize_title
from agent_cli.models.base import ModelError, Request, TextCollector
from agent_tools.cancel import CancelledError, CancelToken

_MAX_CHARS = 2_000


class Titles:
    """Makes the titles of the program's sessions. on_usage: called with the usage for a title."""

    def __init__(self, on_usage: Callable[[Usage], None]) -> None:
        self._on_usage = on_usage
        self._requested: set[str] = set()
        self._cancel = CancelToken()

    def turn_ended(self, agent: Session) -> None:
        """Request a title from the small model in the background, if there is one and the session has no name."""
        session = agent.header.session_id
        if (
            agent.name
            or session in self._requested
            or not agent.settings.small_model
            or not agent.settings.save_sessions
        ):
            return
        if not any(isinstance(m, AssistantMessage) and m.text for m in agent.history):
            return
        self._requested.add(session)
        threading.Thread(target=self._ask, args=(agent,), name="title", daemon=True).start()

    def close(self) -> None:
        """Stop making titles."""
        self._cancel.cancel()

    def _ask(self, agent: Session) -> None:
        """Make a title, in a separate thread. If the model fails, the session stays without a title."""
        settings = agent.settings
        assert settings.small_model is not None
        answer = TextCollector()
        try:
            opened = lazy_model(settings.small_model, settings, agent.run_env)()
            request = Request(opened.model, prompt("title"), (UserMessage(_title_prompt(agent)),), max_tokens=400)
            answer.read(opened.client.stream(request, self._cancel))
        except (ModelError, CancelledError):
            return
        usage = opened.price(answer.usage) if answer.usage is not None else Usage()
        title = sanitize_title(answer.text)
        # A name that the user chose in the meantime takes precedence.
        if title and not agent.name and not self._cancel.cancelled:
            agent.rename(title, opened.label, usage)
            self._on_usage(usage)


def _title_prompt(agent: Session) -> str:
    """Return the beginning of the conversation as a prompt."""
    history = agent.history
    request = next((user_text(m.text) for m in history if is_user_message(m)), "")
    answered = next((m.text for m in history if isinstance(m, AssistantMessage) and m.text), "")
    return f"<conversation>\nUser: {request[:_MAX_CHARS]}\n\nAgent: {answered[:_MAX_CHARS]}\n</conversation>"
