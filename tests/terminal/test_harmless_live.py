"""The application draws foreign text in many places; none of it steers the terminal."""

from __future__ import annotations

import re

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_cli import ApprovalQuestion
from agent_cli.kernel.events import (
    ApprovalRequested,
    Event,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolProgress,
    ToolRequested,
    ToolStarted,
    Warned,
)
from agent_cli.kernel.runtime.edit_call import EditableCall
from agent_cli.shells.terminal.app.question_panel import OpenDialog
from agent_cli.shells.terminal.app.status_bar import sanitize_status
from agent_cli.shells.terminal.dialogs.approval import approval_dialog
from agent_cli.shells.terminal.dialogs.questions import pick_dialog
from agent_cli.shells.terminal.render.ansi import title_sequence
from agent_tools.base import Effect
from agent_tools.results import CommandOutput, TodoItem
from agent_tools.text import UNSAFE
from tests.support.hostile.text import HOSTILE
from tests.support.hypothesis_examples import examples
from tests.support.terminal_stage import Stage, decision, play

# What the renderer of prompt-toolkit and our own frames write: cursor, erasing, modes, SGR; the title, plain inside.
SEQUENCES = re.compile(
    r"\x1b\[\?(?:2026|2004|25|12|7|1)[hl]|\x1b\[[0-9;]*[mABCDKJH]|\x1b\]0;[^\x00-\x1f\x7f-\x9f]*\x07"
    r"|\x1b[78]|\x1b\]9;agent waits for you\x1b\\|\x1b\[2[23];0t|\x07|\r|\n|\x08"
)


def assert_ours(drawn: str) -> None:
    found = re.search(UNSAFE, SEQUENCES.sub("", drawn))
    assert found is None, ascii(drawn[-2000:])


def events(text: str) -> list[Event]:
    display = CommandOutput(text, text, 0, 0.1, text)
    return [
        ThinkingDelta(text), TextDelta(text), ToolRequested("c", text, {"command": text}, text), ToolStarted("c", text),
        ToolProgress("c", text), Warned(text, 3.0), ToolFinished("c", text, False, 1, display), TextDelta(text),
    ]  # fmt: skip


@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(HOSTILE, min_size=1, max_size=4))
def test_nothing_that_is_drawn_steers_the_terminal(texts: list[str]) -> None:
    def story(stage: Stage) -> None:
        live = stage.live
        stage.session.items = tuple(TodoItem(text or "x", "in_progress") for text in texts)
        stage.press("go\r")
        stage.until(lambda: stage.session.sent)
        for text in texts:
            live.soon(lambda text=text: live.queued.append(text))  # type: ignore[misc]
            for event in events(text):
                live.bridge.emit(event)
            live.soon(lambda text=text: live.hint_for(text, 1.0))  # type: ignore[misc]
        request = ApprovalRequested(
            "d", texts[0], texts[0], texts[0], (Effect("run", texts[0]),), texts[0], None, "", "h", facts=(texts[0],)
        )
        ask = OpenDialog(approval_dialog(ApprovalQuestion(request, EditableCall("Bash", {"command": texts[0]}))))
        live.bridge.emit(ask)
        stage.until(lambda: live.questions.ask is ask)
        live.soon(lambda: live.questions.reply("x") if live.line.replying else ask.waiting.answer(decision("approve")))
        live.soon(live.questions.cancel)
        stage.until(lambda: live.questions.ask is None)
        live.soon(lambda: live.line.set_text(texts[0]))
        stage.settle()
        live.soon(live.line.clear)
        choice = OpenDialog(pick_dialog(texts[0], [(text, text) for text in texts]))
        live.bridge.emit(choice)
        stage.until(lambda: live.questions.ask is choice)
        stage.settle()

    stage = play(story)
    assert_ours(stage.screen.drawn)
    assert_ours("\n".join(stage.live.take_rest()))


@settings(deadline=None)
@given(HOSTILE)
def test_titles_and_status_lines(text: str) -> None:
    assert_ours(title_sequence(text))
    assert_ours(sanitize_status(text))
    assert "\n" not in sanitize_status(text)
