"""What is counted, and what is shown of a history: estimates, cuts, borders, and histories that lost records."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_cli.kernel.events import Compacted, Pinned, Uncompacted
from agent_cli.kernel.messages import AssistantMessage, Message, Text, ToolCall, ToolMessage, UserMessage
from agent_cli.kernel.results import Usage
from agent_cli.kernel.window import (
    Window,
    count_media_tokens,
    count_message_tokens,
    count_text_tokens,
    count_tokens,
    truncate_to_tokens,
)
from agent_tools.results import Media

HEAD = UserMessage("<compacted>")


def rounds(count: int) -> list[Message]:
    history: list[Message] = [UserMessage("go")]
    for number in range(count):
        history.append(AssistantMessage((ToolCall(f"c{number}", "Read", {"file_path": "a"}),), model="m"))
        history.append(ToolMessage(f"c{number}", "Read", f"result {number}"))
    return history


def compacted(kept: int, head: bool = True, **more: object) -> Compacted:
    return Compacted("auto", kept, 1, head=(HEAD,) if head else (), **more)  # type: ignore[arg-type]


def test_a_window_shows_the_head_and_what_stays_and_the_history_grows_on() -> None:
    history, window = rounds(4), Window()
    window.apply(compacted(2), len(history))
    assert window.view(history) == [HEAD, *history[-2:]]
    history += rounds(1)
    assert window.view(history) == [HEAD, *history[7:]]
    assert window.hidden_answers(history) == 3
    window.apply(Uncompacted(0), len(history))
    assert window.view(history) == history
    assert window.hidden_answers(history) == 0


def test_cuts_and_heads_add_up() -> None:
    history, window = rounds(4), Window()
    window.apply(compacted(9, head=False, cuts={"c3": "[cut]"}), len(history))
    assert [m.text for m in window.view(history)][-1] == "[cut]"
    window.apply(compacted(4), len(history))
    assert window.view(history) == [HEAD, *history[5:8], history[8].replace(text="[cut]")]
    window.apply(compacted(2, cuts={"c3": "[shorter]"}), len(history))
    assert [m.text for m in window.view(history)] == ["<compacted>", "", "[shorter]"]


def test_a_result_is_never_shown_without_its_call_even_where_records_were_lost() -> None:
    history, window = rounds(4), Window()
    window.apply(compacted(2), len(history))
    assert window.view(history[:-3] + history[-2:]) == [HEAD, *history[-2:]]
    window.apply(compacted(1), len(history))
    assert window.view(history) == [HEAD, *history[-2:]]


def test_a_history_that_is_taken_back_is_seen_as_it_was_then() -> None:
    history, window = rounds(6), Window()
    window.apply(compacted(2), 7)
    window.apply(compacted(2), len(history))
    window.rewind_to(9)
    assert window.view(history[:9]) == [HEAD, *history[5:9]]
    window.rewind_to(5)
    assert window.view(history[:5]) == history[:5]


def test_pins_come_and_go() -> None:
    window = Window()
    for event in (Pinned("a"), Pinned("b"), Pinned("a"), Pinned("b", on=False)):
        window.apply(event, 0)
    assert window.pins == ["a"]


def test_a_report_holds_until_something_else_is_shown() -> None:
    window = Window()
    window.record_usage(Usage(input=100, output=50, reasoning=40), 3)
    assert window.report is not None
    assert window.report.filled == 110
    window.record_usage(Usage(), 4)
    assert window.report.messages == 3
    window.apply(compacted(1), 4)
    assert window.report is None


def test_text_in_other_scripts_has_more_tokens_for_each_character() -> None:
    assert count_text_tokens("a" * 3_500) == 1_000
    assert 700 < count_text_tokens("字" * 1_000) < 1_000
    assert count_text_tokens("") == 0
    assert count_text_tokens("\ud800" * 9) > 0


def test_images_are_counted_by_their_pixels_and_documents_by_their_size() -> None:
    def png(width: int, height: int) -> Media:
        size = width.to_bytes(4, "big") + height.to_bytes(4, "big")
        data = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + size + b"\x08\x02\0\0\0" + b"\0" * 99
        return Media("image/png", base64.b64encode(data).decode())

    assert count_media_tokens(png(300, 250)) == 100
    assert count_media_tokens(png(4_000, 4_000)) == count_media_tokens(Media("image/png", "AAAA")) == 1_600
    small, large = (count_media_tokens(Media("application/pdf", "A" * size)) for size in (100, 4_000_000))
    assert 1_000 < small < large
    with_image = UserMessage("look", (png(300, 250),))
    assert count_message_tokens(with_image) == count_message_tokens(UserMessage("look")) + 100


def test_calls_are_counted_with_their_arguments() -> None:
    call = ToolCall("c", "Write", {"content": "x" * 7_000})
    assert count_tokens([AssistantMessage((Text("y" * 350), call))]) == pytest.approx(2_100, rel=0.02)


@given(st.text(max_size=3_000), st.integers(0, 500))
def test_what_is_clipped_is_no_longer_than_asked_for(text: str, tokens: int) -> None:
    note = "cut here"
    found = truncate_to_tokens(text, tokens, note)
    if count_text_tokens(text) <= tokens:
        assert found == text
    else:
        assert f"[{note}]" in found
        # A text of mixed scripts is cut by characters, so the bound is near.
        assert len(found) <= max(len(text), len(note)) + 6
        if text.isascii():
            assert count_text_tokens(found) <= tokens + len(note)
