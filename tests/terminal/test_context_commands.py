"""/context, /compact, /uncompact and /pin in a real session, line by line, and what a second process finds of them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from agent_cli.kernel.engine.compaction.controls import ContextUsage
from agent_cli.shells.terminal.commands.context import context_lines
from agent_cli.shells.terminal.dialogs.view import PRINTED_COLUMNS
from tests.support.narrow_model import SUMMARY
from tests.support.program import agent
from tests.support.scripts import call

READS = [{"text": f"Reading {n}.", "calls": [call("Read", file_path=f"f{n}.txt")]} for n in range(4)]
DONE = {"text": "All four are alike."}


def scripted(path: Path, replies: list[dict[str, Any]], small: list[dict[str, Any]]) -> str:
    def table(kind: str, reply: dict[str, Any]) -> str:
        names = [json.dumps(c["arguments"]["file_path"]) for c in reply.get("calls", ())]
        calls = [f'{{name = "Read", arguments = {{file_path = {name}}}}}' for name in names]
        return f"[[{kind}]]\ntext = {json.dumps(reply['text'])}\ncalls = [{', '.join(calls)}]\n"

    path.write_text("".join([*(table("reply", r) for r in replies), *(table("small", r) for r in small)]))
    return f"scripted:{path}"


def session(work: Path, *lines: str, small: int = 1, size: str = "60000", flags: tuple[str, ...] = ()) -> str:
    for number in range(4):
        (work / f"f{number}.txt").write_text(f"file {number}, with a line of words\n" * 600)
    replies = [*READS, DONE, {"text": "Yes."}, {"text": "Still."}]
    model = scripted(work.parent / "s.toml", replies, [{"text": SUMMARY}] * small)
    done = agent(
        ["--model", model, "--plain", *flags],
        work,
        env={"AGENT_CONTEXT_WINDOW": size} if size else {},
        stdin="".join(f"{line}\n" for line in lines),
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


def used(shown: str) -> list[int]:
    """What each /context said is used."""
    return [int(n.replace(",", "")) for n in re.findall(r"context: ([\d,]+) ", shown)]


def test_what_was_compacted_is_reported_afterwards(work: Path) -> None:
    session(work, "Read all four, quietly.", "/compact the words", "/uncompact")
    found = agent(["show"], work).stdout
    exported = agent(["sessions", "export", "-"], work).stdout or agent(["sessions", "export"], work).stdout
    for text in (found, exported):
        assert "became a summary; the newest" in text
        assert "the last compaction is undone" in text
    (turn,) = json.loads(agent(["show", "--json"], work).stdout)["turns"]
    assert len(turn["notes"]) == 2


def test_compact_and_back_again(work: Path) -> None:
    shown = session(
        work, "Read all four, quietly.", "/context", "/compact the words", "/context", "/context summary",
        "/uncompact", "/context", "/uncompact", "and?",
    )  # fmt: skip
    before, after, back = used(shown)
    assert after < before * 0.8
    assert abs(back - before) < 40
    assert "compacting the conversation" in shown and ": you asked" in shown
    assert "became a summary; the newest" in shown
    assert "carried over: your last message, " in shown
    assert "## Open questions" in shown
    assert "the last compaction is undone" in shown
    assert "This conversation has not been compacted." in shown
    assert "Yes." in shown
    for part in (
        "system prompt",
        "tools",
        "files read",
        "conversation",
        "free",
        "it is compacted at 55,200 tokens (92 %)",
    ):
        assert part in shown


def test_the_next_process_finds_what_was_compacted_and_pinned(work: Path) -> None:
    first = session(work, "Read all four, quietly.", "/pin quietly", "/compact", "/context")
    assert "pinned: Read all four, quietly." in first
    again = session(work, "/context", "and?", "/pin quietly", "/uncompact", "/context", flags=("-c",))
    found = used(again)
    assert abs(found[0] - used(first)[0]) < 20
    assert "compacted 1 time, 1 pinned message" in again
    assert "no longer pinned" in again
    assert found[1] > found[0]
    assert "Yes." in again


def test_a_fork_is_compacted_as_its_origin_is(work: Path) -> None:
    first = session(work, "Read all four.", "/pin alike", "/compact")
    assert "compacted: " in first
    forked = session(work, "/context", "and?", flags=("-c", "--fork-session"))
    assert "compacted 1 time, 1 pinned message" in forked
    assert "Yes." in forked
    assert used(forked)[0] < 40_000


def test_what_cannot_be_done_is_reported(work: Path) -> None:
    shown = session(work, "/compact", "/uncompact", "/pin", "/pin x", "/context summary", "/context")
    assert "There is nothing to compact yet." in shown
    assert "This conversation has not been compacted." in shown
    assert "There is no message to pin yet." in shown
    assert "No message has these words." in shown
    assert "This conversation has no summary" in shown


def test_a_message_is_picked_to_be_pinned(work: Path) -> None:
    shown = session(work, "Read all four, quietly.", "/pin", "2", "/pin", "", "/context")
    assert "pinned: " in shown
    assert "1 pinned message" in shown


def test_without_a_model_for_the_summary_the_program_writes_it(work: Path) -> None:
    shown = session(work, "Read all four, quietly.", "/compact", "/context summary", "and?", small=0)
    assert "(made without a model, as none could write it)" in shown
    assert "- f0.txt: read" in shown
    assert "Yes." in shown


def test_what_does_not_fit_is_not_taken_back(work: Path) -> None:
    assert "compacted: " in session(work, "Read all four.", "/compact", size="")
    shown = session(work, "/uncompact", "/context", size="24000", flags=("-c",))
    assert "It would not fit: without its last compaction" in shown
    assert "compacted 1 time" in shown


def test_a_window_that_is_not_known_is_reported_without_a_bar(work: Path) -> None:
    shown = session(work, "/context", size="")
    assert "this model's window is not known (context_window)" in shown
    assert "[" not in shown.partition("context: ")[2]


def test_the_bars_show_every_part_and_are_never_wider_than_the_view() -> None:
    parts = (("system prompt", 10), ("tools", 3_000), ("memory", 1), ("files read", 40_000), ("conversation", 9_000))
    found = ContextUsage(parts, 52_011, 100_000, 92_000, 0)
    for size in (1, 20_000, 52_011, 100_000, 10_000_000):
        lines = context_lines(found.replace(size=size), 80)
        assert all(line.cell_len <= 80 for line in lines)
        whole = next(line for line in lines if line.plain and set(line.plain) <= set("█░"))
        assert whole.cell_len == 80 and len(whole.spans) >= len(parts) - 1
    shown = [line.plain for line in context_lines(found, 80)]
    assert any("files read" in line and "40 %" in line and "█" * 10 in line for line in shown)
    assert not any("█" in line.plain for line in context_lines(found, PRINTED_COLUMNS))
