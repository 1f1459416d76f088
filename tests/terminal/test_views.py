"""Views: what the keys do, what a window of any size shows, and what is printed without one."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.text import Text

from agent_cli.kernel.messages import ToolCall
from agent_cli.shells.terminal.dialogs.view import PRINTED_COLUMNS, Chosen, View, ViewAction, ViewItem, ViewState, bar
from agent_cli.shells.terminal.render.ansi import cells
from agent_cli.shells.terminal.render.transcript import Transcript
from tests.support.call_counts import steps
from tests.support.pty_session import plain
from tests.support.session_logs import called

SIZES = [(39, 15), (79, 24), (99, 32), (159, 45)]
FRUITS = ("apple", "banana", "cherry", "date", "elderberry", "fig")


def fruits(count: int = 6, **more: object) -> View:
    def detail(name: str) -> object:
        return lambda width: [Text(f"{name} {n}") for n in range(60)]

    items = tuple(
        ViewItem(name, f"{name} is a fruit that grows somewhere", section="early" if n < 3 else "late",
                 detail=detail(name), mark="✓" if n % 2 else " ", style="good")
        for n, name in enumerate(FRUITS[:count])
    )  # fmt: skip
    return View("Fruits", lambda width: [Text("All that there are.")], items, **more)  # type: ignore[arg-type]


def shown(state: ViewState, width: int = 79, height: int = 24) -> str:
    return "\n".join(plain(row) for row in state.rows(width, height))


def press(state: ViewState, *keys: str) -> Chosen | bool:
    left: Chosen | bool = False
    for key in keys:
        assert not left
        left = state.press(key)
    return left


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_a_view_has_as_many_rows_as_the_window_and_none_too_wide(width: int, height: int) -> None:
    state = ViewState(fruits(actions=(ViewAction("x", "remove this one from the list"),)))
    for keys in ((), ("down", "down"), ("enter",), ("pagedown",), ("left", "/", "e"), ("enter", "end")):
        press(state, *keys)
        rows = [plain(row) for row in state.rows(width, height)]
        assert len(rows) == height and all(cells(row) <= width for row in rows)
        assert rows[0].startswith("Fruits") and rows[-1].endswith(("q close", "Esc all"))


def test_a_list_is_walked_filtered_opened_and_closed() -> None:
    state = ViewState(fruits())
    assert "❯   apple" in shown(state) and "1 of 6" in shown(state) and "apple 3" in shown(state)
    press(state, "down", "down", "down", "up")
    assert "❯   cherry" in shown(state) and "\nearly\n" in shown(state)
    press(state, "/", "l", "a", "t", "e", " ", "f", "i", "g", "enter")
    assert "❯ ✓ fig" in shown(state) and "apple" not in shown(state) and "1 of 1" in shown(state)
    press(state, "enter")
    assert "Fruits · fig" in shown(state) and "fig 15" in shown(state) and "fruit" not in shown(state)
    press(state, "pagedown")
    assert "\nfig 0\n" not in shown(state)
    press(state, "left", "escape")
    assert "❯   apple" in shown(state)
    assert press(state, "escape") is True and press(ViewState(fruits()), "q") is True


def test_what_matches_nothing_is_said_and_taken_back() -> None:
    state = ViewState(fruits())
    press(state, "/", "q", "x")
    assert "nothing matches" in shown(state)
    press(state, "backspace", "backspace", "enter", "down")
    assert "❯ ✓ banana" in shown(state)


def test_a_key_of_an_action_leaves_with_the_item_that_it_is_offered_for() -> None:
    change, remove = ViewAction("enter", "change"), ViewAction("x", "remove", lambda index: index > 0)
    state = ViewState(fruits(actions=(change, remove)))
    assert press(state, "x") is False and "x remove" not in shown(state)
    assert press(state, "down", "x") == Chosen("x", 1)
    assert press(ViewState(fruits(actions=(change,), at=4)), "enter") == Chosen("enter", 4)


def test_a_view_that_begins_with_a_detail_closes_from_there() -> None:
    peek = fruits(at=2, opened=True)
    state = ViewState(peek)
    assert "Fruits · cherry" in shown(state) and press(state, "c-o") is False
    assert "Fruits · banana" in shown(state)
    assert press(state, "escape") is True
    state = ViewState(peek)
    press(state, "left")
    assert "❯   cherry" in shown(state) and press(state, "enter", "escape") is False


def test_without_a_window_a_view_is_text() -> None:
    lines = [line.plain for line in fruits(2).printed(PRINTED_COLUMNS)]
    assert lines == [
        "All that there are.", "early", "  apple  apple is a fruit that grows somewhere",
        "  banana  banana is a fruit that grows somewhere",
    ]  # fmt: skip
    assert [line.plain for line in View("None", empty="There are none.").printed(80)] == ["There are none."]


def test_a_bar_shows_each_part_and_what_is_free() -> None:
    assert bar([(50, "accent"), (1, "good"), (0, "bad")], 100, 20).plain == "█" * 11 + "░" * 9
    assert bar([(500, ""), (500, "")], 100, 20).plain == "█" * 20


def test_a_key_in_a_long_list_costs_no_more_than_in_a_short_one() -> None:
    def cost(count: int) -> int:
        items = tuple(ViewItem(f"call {n}", "about it", section=f"turn {n // 50}") for n in range(count))
        state = ViewState(View("Transcript", items=items))
        state.rows(100, 30)

        def move() -> None:
            state.press("down")
            state.rows(100, 30)

        return steps(move)

    assert cost(5_000) < 1.2 * cost(100)


def test_a_key_in_the_long_result_of_a_call_costs_no_more_than_in_a_short_one() -> None:
    def cost(count: int) -> int:
        kept = io.StringIO()
        transcript = Transcript(Console(file=kept, width=100), kept)
        result = "\n".join(f"line {n}" for n in range(count))
        for event in called(ToolCall("1", "Read", {"file_path": "a"}), result):
            transcript(event)
        view = transcript.details.view()
        assert view is not None
        state = ViewState(view)
        state.press("enter")
        state.rows(100, 30)

        def scroll() -> None:
            state.press("down")
            state.rows(100, 30)

        return steps(scroll)

    assert cost(10_000) < 1.2 * cost(100)


def test_a_line_is_typed_for_an_action_and_is_about_what_was_chosen() -> None:
    now = [fruits(actions=(ViewAction("r", "return", asks="Why"),))]
    now[0] = now[0].replace(items=tuple(each.replace(key=each.label, value=n) for n, each in enumerate(now[0].items)))
    now[0] = now[0].replace(renew=lambda: now[0])
    state = ViewState(now[0])
    assert press(state, "down", "r") is False
    assert "Why: ▏" in shown(state) and "Enter send · Esc back" in shown(state)
    # The list changes while the line is typed: what the line is about stays.
    chosen = now[0].items[1]
    now[0] = now[0].replace(items=now[0].items[2:])
    assert press(state, "q", "x", "backspace", " ", "j") is False
    assert chosen.label in shown(state) and "Why: q j▏" in shown(state)
    assert press(state, "enter") == Chosen("r", 1, "q j", False, 1)
    assert chosen.label not in shown(state)
    assert press(state, "r", "a", "escape") is False and "Why" not in shown(state)
    assert press(state, "r", "enter", "c-c", "q") is True


def test_a_view_that_changes_keeps_its_choice() -> None:
    items = tuple(ViewItem(name, key=name, detail=lambda width: []) for name in "abc")
    now = [fruits().replace(text=None, items=items)]
    now[0] = now[0].replace(renew=lambda: now[0])
    state = ViewState(now[0])
    press(state, "down")
    now[0] = now[0].replace(items=(ViewItem("new", key="new"), *now[0].items), note="One came.")
    assert "3 of 4" in shown(state) and "One came." in shown(state) and state.index == 2
    press(state, "enter")
    assert "· b" in shown(state)
    now[0] = now[0].replace(items=(), empty="Nothing is left.")
    assert "Nothing is left." in shown(state) and state.index == -1
    assert press(state, "escape") is True
