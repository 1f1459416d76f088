"""A session that plays automatically at reading speed, in the real interface: `agent demo`.

The message is typed automatically, and the model is scripted. Space and Enter show the next part at once, Esc and
Ctrl-C end the demo. The user answers questions: while one is open, every key works as in any session.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from prompt_toolkit.filters import Condition
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent, merge_key_bindings
from prompt_toolkit.keys import Keys

from agent_cli import Answer, ApprovalRequested, Config, Layers, RunEnvironment, Session
from agent_cli.models.base import ModelClient
from agent_cli.shells.terminal.app.session import AppRepl
from agent_cli.shells.terminal.dialogs.model import Dialog
from agent_cli.shells.terminal.repl import LineScreen
from agent_tools.cancel import CancelToken

KEY_SECONDS, WORD_SECONDS, LOOK_SECONDS = 0.045, 0.1, 1.4
PLAYING = "demo · Space: next · Esc: end"
YOURS = "demo · you answer this question: nothing is changed unless you allow it"
_POLL_SECONDS = 0.05


class Pace:
    """The speed of a played session. slowness: 1 for reading speed, 0 for all at once."""

    def __init__(self, slowness: float) -> None:
        self.slowness = slowness
        self._next = threading.Event()

    def begin(self) -> None:
        """Begin the next part, at reading speed again."""
        self._next.clear()

    def skip(self) -> None:
        """Show the rest of the current part at once; from any thread."""
        self._next.set()

    @property
    def is_skipping(self) -> bool:
        """True if the current part is shown at once."""
        return not self.slowness or self._next.is_set()

    def wait(self, seconds: float, cancel: CancelToken) -> None:
        """Wait, unless the part is skipped. Raises CancelledError."""
        end = time.monotonic() + seconds * self.slowness
        while not cancel.cancelled and not self._next.is_set() and (left := end - time.monotonic()) > 0:
            self._next.wait(min(left, _POLL_SECONDS))
        cancel.check()


class PlayedSession(AppRepl):
    """A session of one message, which ends after its turn.

    intro: lines below the greeting.
    model: answers at the given pace.
    answered: called with each answer of the user.
    """

    def __init__(
        self,
        run_env: RunEnvironment,
        layers: Layers,
        message: str,
        *,
        intro: str,
        model: ModelClient,
        pace: Pace,
        answered: Callable[[Answer], None],
    ) -> None:
        self._message, self._intro = message, intro
        self._model, self._pace, self._answered = model, pace, answered
        self.stopped = ""
        self._is_over = False
        # The timer of the next automatic step, and the step.
        self._scheduled: tuple[Any, Callable[[], None]] | None = None
        config = Config(bare=True)
        super().__init__(config, run_env, layers, LineScreen(layers.settings(), run_env.home), first=False)
        app = self.live.app
        assert app.key_bindings is not None
        app.key_bindings = merge_key_bindings([app.key_bindings, self._keys()])
        app.pre_run_callables.append(self._type_message)

    def _build(self, config: Config) -> Session:
        agent = super()._build(config)
        agent.use_client(self._model)
        return agent

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        playing = Condition(lambda: self.live.questions.ask is None)

        def bind(*names: str, run: Callable[[KeyPressEvent], object]) -> None:
            for name in names:
                keys.add(name, filter=playing, eager=True)(run)

        # Other keys have no effect.
        bind(Keys.Any, run=lambda event: None)
        bind(" ", "enter", "c-j", run=lambda event: self._skip())
        bind("escape", "c-d", run=lambda event: self._stop("ended"))
        bind("c-c", "<sigint>", run=lambda event: self._stop("interrupted"))
        bind("c-z", run=lambda event: self.live.suspend())
        return keys

    def _skip(self) -> None:
        self._pace.skip()
        due, self._scheduled = self._scheduled, None
        if due:
            due[0].cancel()
            due[1]()
        if self._is_over:
            self.live.leave()

    def _stop(self, how: str) -> None:
        self.stopped = how
        self.live.leave()

    def _greet(self) -> None:
        super()._greet()
        self.say(self._intro)

    def _hint(self, text: str) -> None:
        def show() -> None:
            self.live.hint = text
            self.live.draw_soon()

        self.live.soon(show)

    def _type_message(self) -> None:
        """Type the message into the line, key by key, and send it; on the drawing thread."""
        live, left = self.live, self._message
        self._hint(PLAYING)

        def press() -> None:
            nonlocal left
            count = len(left) if self._pace.is_skipping else 1
            live.line.buffer.insert_text(left[:count])
            left = left[count:]
            live.draw_soon()
            assert live.app.loop is not None
            then = press if left else send
            wait = (KEY_SECONDS if left else LOOK_SECONDS / 2) * self._pace.slowness
            self._scheduled = live.app.loop.call_later(wait, then), then

        def send() -> None:
            self._scheduled = None
            live.send(live.line.take_message())
            self._hint(PLAYING)

        press()

    def put(self, dialog: Dialog) -> Any:
        self._hint(YOURS)
        try:
            return super().put(dialog)
        finally:
            self._hint(PLAYING)

    def _approve(self, request: ApprovalRequested) -> Answer:
        answer = super()._approve(request)
        self._answered(answer)
        return answer

    def send(self, text: str) -> None:
        super().send(text)
        self._is_over = True
        self.live.soon(self._leave_later)

    def _leave_later(self) -> None:
        assert self.live.app.loop is not None
        self.live.app.loop.call_later(2 * LOOK_SECONDS * self._pace.slowness, self.live.leave)

    def _offer_undo(self) -> None:
        """Offer nothing, since the folder is removed soon."""
