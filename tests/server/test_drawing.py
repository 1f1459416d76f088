"""Markdown, code and changes as trees: what the page makes elements of."""

from __future__ import annotations

import json
import time

import pytest

from agent_cli.extras.server.drawing import LiveDrawing, draw_code, draw_markdown, with_rows

TEXT = (
    "# Title 😀\n\nSome **bold** and `code`.\n\n1. one\n   - inner\n2. two\n\n> quoted\n\n- [x] done\n- [ ] open\n\n"
    "| a | b |\n|:--|--:|\n| 1 | 2 |\n\n```python\ndef f():  # note\n    return 'x'\n```\n\nSee https://example.org/x_y.\n"
)


@pytest.mark.parametrize("size", [1, 7, 50, 1_000])
def test_an_answer_in_pieces_is_drawn_like_the_whole(size: int) -> None:
    live = LiveDrawing()
    blocks: list[object] = []
    for at in range(0, len(TEXT), size):
        change = live.add(TEXT[at : at + size])
        assert "rest" not in change
        blocks[change["at"] :] = change["blocks"]
    assert blocks == draw_markdown(TEXT)


def test_a_long_block_is_left_as_text_until_it_is_complete() -> None:
    live = LiveDrawing()
    first = live.add("😀 begins.\n\n" + "word " * 2_000)
    assert first == {
        "at": 0,
        "blocks": [["p", {}, "😀 begins."]],
        "rest": len("😀 begins.\n\n".encode("utf-16-le")) // 2,
    }
    assert live.add("more ") == {"at": 1, "blocks": [], "rest": first["rest"]}
    done = live.add("end.\n\nNext")
    assert (done["at"], len(done["blocks"]), "rest" in done) == (1, 2, False)


def test_links_lead_to_the_web_only_and_nothing_is_html() -> None:
    text = "<b onclick=x>hi</b> [a](javascript:x) ![p](https://example.org/p.png) [d](data:text/html,x) <https://e.org>"
    drawn = json.dumps(draw_markdown(text))
    assert [each for each in ("javascript:x", "data:text") if f'"href": "{each}' in drawn] == []
    assert '"href": "https://example.org/p.png"' in drawn and '"href": "https://e.org"' in drawn
    assert "<b onclick=x>" in drawn and '"img"' not in drawn and '["b"' not in drawn


def test_marks_without_end_take_no_time() -> None:
    began = time.process_time()
    for text in ("*a " * 20_000, "[" * 20_000, "`" * 9_999 + "x", "> " * 5_000, "| a " * 5_000, "- \n\n" * 3_000):
        json.dumps(draw_markdown(text))
        LiveDrawing().add(text)
    assert time.process_time() - began < 30


def test_a_patch_is_rows_with_both_numbers() -> None:
    patch = "@@ -8,3 +8,3 @@ def f():\n a = 1\n-x = 1\n+x = '2'\n\\ No newline at end of file\n"
    rows = with_rows({"path": "a.py", "patch": patch})["rows"]
    assert [row[:3] for row in rows] == [
        ["hunk", 0, 0], ["same", 8, 8], ["removed", 9, 9], ["added", 10, 9], ["note", 0, 0],
    ]  # fmt: skip
    assert rows[0][3] == ["Line 8: def f():"] and rows[4][3] == ["No newline at end of file"]
    assert rows[2][3] == ["x = ", ["span", {"class": "code-n"}, "1"]]
    assert draw_code("x" * 40_000, "python") == ["x" * 40_000] and draw_code("", "python") == []
