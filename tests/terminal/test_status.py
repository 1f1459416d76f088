"""What the application says of the session at a glance: mode, context, the model call, what is left to do."""

from __future__ import annotations

import io
import time
from pathlib import Path

import pytest
from rich.console import Console

from agent_cli.kernel.events import PlanChanged, RoundStarted, TextDelta, TurnFinished, TurnStarted
from agent_cli.kernel.results import Diagnostics, TerminalReason, Usage
from agent_cli.knowledge.template import attached_files
from agent_cli.shells.terminal.app.attachments import ImageAttachments, typed_images
from agent_cli.shells.terminal.app.layout import context_field, mode_field
from agent_cli.shells.terminal.render.transcript import SILENT_SECONDS, Transcript
from agent_cli.shells.terminal.repl import proposed_message
from agent_tools.results import TodoItem
from tests.support.terminal_stage import Stage, play


@pytest.mark.parametrize(
    ("mode", "field"),
    [
        ("default", ("class:dim", "asks before changes (Shift-Tab)")),
        ("acceptEdits", ("class:edits", "edits without asking (Shift-Tab)")),
        ("plan", ("class:plan", "plans, changes nothing (Shift-Tab)")),
        ("bypassPermissions", ("class:danger", "never asks (Shift-Tab)")),
    ],
)
def test_the_mode_is_in_words_with_its_key_and_the_colour_of_its_danger(mode: str, field: object) -> None:
    assert mode_field(mode, "Shift-Tab") == field


@pytest.mark.parametrize(
    ("used", "window", "field"),
    [
        (0, 200_000, "context ╌╌╌╌╌╌╌╌ 0%"),
        (50_000, 200_000, "context ━━╌╌╌╌╌╌ 25%"),
        (180_000, 200_000, ("class:edits", "context ━━━━━━━━ 90%")),
        (300_000, 200_000, ("class:edits", "context ━━━━━━━━ 150%")),
        (1_234, 0, "context 1.2k"),
    ],
)
def test_the_context_is_a_bar_with_a_number(used: int, window: int, field: object) -> None:
    assert context_field(used, window) == field


def transcript() -> Transcript:
    kept = io.StringIO()
    return Transcript(Console(file=kept, soft_wrap=True), kept)


def test_a_silent_model_is_told_from_one_that_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = transcript()
    now = [1_000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    shown(TurnStarted("m", "default", {}))
    shown(RoundStarted(1))
    now[0] += 4
    shown(TextDelta("words"))
    now[0] += SILENT_SECONDS - 1
    assert shown.status(60.0) == "writing · 13s"
    now[0] += 11
    assert shown.status(60.0) == "writing · 24s · no data for 20 s"
    # In the first request of a turn both times are the same.
    assert shown.status(24.0) == "writing · no data for 20 s"
    shown(TextDelta("more"))
    assert shown.status(60.0) == "writing · 24s"
    shown(finished())
    assert "no data" not in shown.status(90.0)


def test_a_paused_plan_is_mentioned_once() -> None:
    kept = io.StringIO()
    shown = Transcript(Console(file=kept, soft_wrap=True, width=100), kept)
    plan = (TodoItem("one", "completed"), TodoItem("two", "pending"))
    for _ in range(3):
        shown(TurnStarted("m", "default", {}))
        shown(PlanChanged(plan, paused=True))
        shown(finished())
    assert kept.getvalue().count("an earlier plan is paused, 1 of 2 done (/todos shows it)") == 1


def finished(reason: TerminalReason = "completed", **fields: object) -> TurnFinished:
    return TurnFinished("Complete", Diagnostics(1, 1, 0, 0, "stop", reason), Usage(), **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (finished(), ""),
        (finished(plan_unfinished=True), "continue with the next step of the plan"),
        (finished(verified="`pytest` failed (exit 1)", changed_files=True), "repair what the failed check reports"),
        (finished(verified="`make failed` ran, but its exit code does not show the outcome", changed_files=True), ""),
        (finished(verified="pytest passed", changed_files=True), ""),
        (finished("interrupted"), "continue"),
        (finished(degraded=True), "continue"),
        (finished("cancelled").replace(result="Failed"), ""),
        (finished().replace(result="MaxIterations"), "continue"),
    ],
)
def test_what_is_proposed_after_a_turn(event: TurnFinished, message: str) -> None:
    assert proposed_message(event) == message


def test_a_proposal_stands_in_the_empty_line_and_tab_takes_it() -> None:
    def story(stage: Stage) -> None:
        stage.session.proposal = "go on with it"
        stage.live.soon(stage.live.draw_soon)
        stage.until(lambda: "go on with it (Tab)" in stage.screen.drawn)
        stage.press("\r")
        stage.settle()
        assert not stage.session.sent, "nothing is sent that was not taken"
        stage.press("x\x7f\t")
        stage.has("go on with it")
        stage.press("\r")
        stage.until(lambda: stage.session.sent == ["go on with it"])

    play(story)


def test_backspace_takes_back_what_was_decided_about_calls_that_have_not_begun() -> None:
    def story(stage: Stage) -> None:
        stage.press("go\r")
        stage.until(lambda: stage.session.sent)
        stage.session.agreed = {"c2": "approve", "c3": "approve"}
        stage.until(lambda: "2 answered calls to come" in stage.screen.drawn)
        stage.press("\x7f")
        stage.until(lambda: not stage.session.agreed)
        stage.until(lambda: "The answer to 2 calls is undone" in stage.live.hint)

    play(story)


def test_the_files_that_a_message_carries() -> None:
    message = 'look\n\n<file path="a.py">\nx = 1\ny = 2\n</file>\n\n<file path="b c.py" lines="3-4">\nz\n</file>'
    assert list(attached_files(message)) == [("a.py", "", 2), ("b c.py", "3-4", 1)]
    assert not list(attached_files("no <file> here"))


def test_an_image_whose_path_is_typed_or_dropped_is_attached(tmp_path: Path) -> None:
    one, two = tmp_path / "one.png", tmp_path / "two words.JPG"
    for path in (one, two):
        path.write_bytes(b"x")
    escaped = str(two).replace(" ", "\\ ")
    text = f"compare {one}, '{two}' and {escaped} with ./one.png and one.png; not {tmp_path}/none.png or {one}.txt"
    assert typed_images(text, tmp_path) == [one, two, two, tmp_path / "one.png"]
    assert ImageAttachments().images_in(text, tmp_path) == [one, two]
    assert ImageAttachments().from_paste(f"{escaped} {one}\n") == "[Image #1 two words.JPG] [Image #2 one.png]"
    assert ImageAttachments().from_paste(f"{one} and more") is None
