"""Clearing old results: when, which, by what line, and what a model that asks again is given."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from agent_cli.kernel.engine.compaction import compact
from agent_cli.kernel.engine.compaction.compact import CLEARED
from agent_cli.kernel.engine.types import TurnOptions
from agent_cli.kernel.events import Compacted, MessageAdded, Uncompacted
from agent_cli.kernel.messages import ToolMessage
from agent_cli.kernel.results import Complete
from agent_cli.kernel.session.log import SessionLog
from agent_cli.kernel.session.records import Header
from agent_cli.kernel.session.restore import restore
from agent_cli.kernel.window import Window
from agent_cli.models.base import Request
from agent_tools.registry import BUILTIN
from tests.support.narrow_model import NarrowModel
from tests.support.scripts import call
from tests.support.turns import World

SIZE = 40_000
STEPS = (0.5, 0.75)


def saying(*calls: dict[str, Any]) -> Any:
    """Makes these calls, one a round, and says a word."""

    def answer(number: int, request: Request) -> dict[str, Any]:
        return {"calls": [calls[number]]} if number < len(calls) else {"text": "Done."}

    return answer


def printing(number: int, more: str = "") -> dict[str, Any]:
    return call("Bash", command=f"seq -f 'line %g of {number}, and a few words' 200{more}")


def world_with(
    root: Path, *calls: dict[str, Any], allow: tuple[str, ...] = ("Bash",), **options: Any
) -> tuple[World, NarrowModel]:
    model = NarrowModel(saying(*calls), 10 * SIZE, bytes_per_token=3.5)
    world = World(root, [], allow=allow)
    world.deps = world.deps.replace(client=model)
    result = world.turn(**{"context_window": SIZE, "clear_at": STEPS, **options})
    assert isinstance(result, Complete)
    return world, model


def results(request: Request) -> list[str]:
    return [m.text for m in request.messages if isinstance(m, ToolMessage)]


def breaks(model: NarrowModel) -> int:
    pairs = zip(model.requests, model.requests[1:], strict=False)
    return sum(b.messages[: len(a.messages)] != a.messages for a, b in pairs)


def test_at_half_of_the_window_old_output_becomes_a_line_and_stays_in_a_file(tmp_path: Path) -> None:
    world, model = world_with(tmp_path, *map(printing, range(16)))
    made = world.of(Compacted)
    assert made and all(m.trigger == "clear" and not m.head for m in made)
    assert SIZE * 0.5 <= made[0].tokens_before < SIZE * 0.6
    assert made[0].tokens_after < SIZE * 0.3
    assert breaks(model) == len(made) <= 2
    last = results(model.requests[-1])
    assert last[0].startswith(f"{CLEARED}201 lines of Bash. All of it is in /") and len(last[0]) < 300
    assert all(not text.startswith(CLEARED) for text in last[-3:])
    found = re.search(r" in (/\S+);", last[0])
    assert found
    assert Path(found[1]).read_text().startswith("line 1 of 0")
    assert world.deps.context.workspace.may_read(found[1])
    assert len(world.history) == 1 + 2 * 16 + 1 and "line 1 of 0" in world.history[2].text, "the history has all"


def test_the_prefix_is_not_broken_for_little(tmp_path: Path) -> None:
    world, model = world_with(tmp_path, *map(printing, range(3)), context_window=8_000, compact_at=0)
    assert not world.of(Compacted) and breaks(model) == 0


@pytest.mark.parametrize("options", [{"clear_at": ()}, {"context_window": None}])
def test_nothing_is_cleared_where_it_is_off_or_the_window_is_large(tmp_path: Path, options: dict[str, Any]) -> None:
    world, model = world_with(tmp_path, *map(printing, range(12)), **options)
    assert not world.of(Compacted) and breaks(model) == 0


def test_a_window_that_nobody_knows_is_taken_for_128000(tmp_path: Path) -> None:
    world, _ = world_with(tmp_path, *map(printing, range(40)), context_window=None)
    assert [m.trigger for m in world.of(Compacted)] == ["clear"]
    made = world.of(Compacted)[0]
    assert made.tokens_before >= 64_000 and made.tokens_after < 64_000 * 0.4, "as large, it is cleared seldom and much"


def test_short_results_which_are_never_worth_it_are_not_compared_with_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The comparison goes through the whole session, and was made three times for each model call."""
    compared: list[int] = []
    found = compact.superseded
    monkeypatch.setattr(compact, "superseded", lambda view, *rest: (compared.append(len(view)), found(view, *rest))[1])
    short = [call("Bash", command=f"echo {n}; : {'words ' * 100}") for n in range(24)]
    world, model = world_with(tmp_path, *short, context_window=10_000, clear_at=(0.3, 0.6), compact_at=1.0)
    assert len(model.requests) == 25 and not world.of(Compacted)
    assert compared == []


def test_plans_failures_and_files_stay_at_first(tmp_path: Path) -> None:
    for number in range(12):
        (tmp_path / f"f{number}.txt").write_text(f"file {number} has this long line\n" * 250)
    todo = call("TodoWrite", todos=[{"content": "a step " * 200, "status": "in_progress"}])
    first = [todo, call("Read", file_path="f0.txt"), printing(0, "; false")]
    world, model = world_with(tmp_path, *first, *map(printing, range(1, 12)), plan_nudges=0, plan_reminder=0)
    assert len(world.of(Compacted)) == 1
    last = results(model.requests[-1])
    assert not any(text.startswith(CLEARED) for text in last[:3]) and last[3].startswith(CLEARED)
    # At three quarters, files and failures go as well.
    reads = [call("Read", file_path=f"f{n}.txt") for n in range(12)]
    world, model = world_with(tmp_path, *first, *reads, plan_nudges=0, plan_reminder=0)
    assert [SIZE * 0.75 <= m.tokens_before < SIZE * 0.85 for m in world.of(Compacted)] == [True]
    last = results(model.requests[-1])
    assert not last[0].startswith(CLEARED)
    assert last[1] == f"{CLEARED}250 lines of Read f0.txt. Read the file again if you need it.]"
    assert last[2].startswith(f"{CLEARED}201 lines of Bash. All of it is in /")


def test_a_file_whose_text_was_cleared_is_shown_again(tmp_path: Path) -> None:
    for number in range(12):
        (tmp_path / f"f{number}.txt").write_text(f"file {number} has this long line\n" * 300)
    reads = [call("Read", file_path=f"f{n}.txt") for n in range(12)]
    _, model = world_with(tmp_path, *reads[:3], reads[0], *reads, reads[0])
    found = results(model.requests[-1])
    assert found[3].startswith("Skipped: unchanged since your last ")
    assert found[0].startswith(CLEARED)
    assert "file 0 has this long line" in found[-1]


def test_a_file_whose_text_was_cleared_is_read_again_before_it_is_replaced(tmp_path: Path) -> None:
    for number in range(12):
        (tmp_path / f"f{number}.txt").write_text("".join(f"line {n} of the file {number}\n" for n in range(300)))
    reads = [call("Read", file_path=f"f{n}.txt") for n in range(12)]
    edit = call("Edit", file_path="f0.txt", old_string="line 7 of", new_string="line seven of")
    writes = [call("Write", file_path=f"f{n}.txt", content="x\n") for n in (0, 11)]
    again = [call("Read", file_path="f0.txt"), writes[0]]
    _, model = world_with(tmp_path, *reads, edit, *writes, *again, allow=("Bash", "Edit", "Write"))
    found = results(model.requests[-1])
    assert found[0].startswith(CLEARED)
    assert "has 300 lines, and lines 1-" in found[13]
    assert "are no longer in the conversation (last seen with Read)" in found[13]
    assert found[12].startswith("Edited") and found[14].startswith("Wrote") and found[16].startswith("Wrote")


def test_the_oldest_are_cleared_first_and_no_more_than_needed(tmp_path: Path) -> None:
    world, model = world_with(tmp_path, *map(printing, range(12)))
    last = [text.startswith(CLEARED) for text in results(model.requests[-1])]
    assert last == sorted(last, reverse=True) and 3 < sum(last) < 8
    [made] = world.of(Compacted)
    assert SIZE * 0.25 < made.tokens_after < SIZE * 0.3


@pytest.mark.parametrize("look", [
    call("Read", file_path="number.py"), call("Bash", command="cat number.py"),
    call("Bash", command="sed -n 1,250p number.py"),
])  # fmt: skip
def test_in_a_small_window_what_was_read_a_round_ago_can_still_be_edited(tmp_path: Path, look: dict[str, Any]) -> None:
    """The source, then long test runs that fail: the older ones go, the source stays."""
    (tmp_path / "number.py").write_text("".join(f"def f{n}(): return {n}\n" for n in range(250)))
    os.utime(tmp_path / "number.py", (1_700_000_000, 1_700_000_000))
    edit = call("Edit", file_path="number.py", old_string="f7(): return 7\n", new_string="f7(): return 8\n")
    runs = [[printing(10 * n + m, "; false") for m in range(3)] for n in range(5)]
    rounds = [[look], *runs, [edit]]

    def answer(number: int, request: Request) -> dict[str, Any]:
        return {"calls": rounds[number]} if number < len(rounds) else {"text": "Done."}

    model = NarrowModel(answer, 10 * SIZE, bytes_per_token=3.5)
    world = World(tmp_path, [], allow=("Bash", "Edit"))
    world.deps = world.deps.replace(client=model)
    world.turn(context_window=30_000, clear_at=STEPS)
    assert [event.trigger for event in world.of(Compacted)] == ["clear"]
    found = results(model.requests[-1])
    assert "def f249(): return 249" in found[0] and found[1].startswith(CLEARED)
    assert found[-1].startswith("Edited number.py")


def test_a_call_that_failed_a_round_ago_stops_no_clearing(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a\n")
    failing = call("Edit", file_path="a.txt", old_string="b", new_string="c")
    calls = [each for number in range(12) for each in (printing(number), failing)]
    world, model = world_with(tmp_path, call("Read", file_path="a.txt"), *calls, allow=("Bash", "Edit"))
    assert world.of(Compacted) and any(text.startswith(CLEARED) for text in results(model.requests[-1]))


@pytest.mark.parametrize("look", [
    call("Bash", command="grep -n 'f7()' number.py; seq -f 'line %g' 300"),
    call("Grep", pattern="f7\\(\\)", path="number.py", output_mode="content", **{"-B": 100, "-A": 100}),
])  # fmt: skip
@pytest.mark.parametrize("runs", [0, 16])
def test_what_a_search_showed_is_known_until_it_is_cleared(tmp_path: Path, look: dict[str, Any], runs: int) -> None:
    (tmp_path / "number.py").write_text("".join(f"def f{n}(): return {n}  # {'x' * 40}\n" for n in range(250)))
    os.utime(tmp_path / "number.py", (1_700_000_000, 1_700_000_000))
    edit = call("Edit", file_path="number.py", old_string="f7(): return 7 ", new_string="f7(): return 8 ")
    _, model = world_with(tmp_path, look, *map(printing, range(runs)), edit, allow=("Bash", "Edit"))
    found = results(model.requests[-1])
    assert found[0].startswith(CLEARED) == bool(runs)
    assert ("was not read in this conversation" in found[-1]) == bool(runs), found[-1]


def test_a_resumed_session_is_shown_the_same(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    log = SessionLog(path, lambda text: None)
    log.create(Header("s", str(tmp_path), str(tmp_path), "m", "You are a test.", (), "1"))
    world = World(tmp_path, [], allow=("Bash",))
    model = NarrowModel(saying(*map(printing, range(16))), 10 * SIZE, bytes_per_token=3.5)
    world.deps = world.deps.replace(client=model)
    world.turn(context_window=SIZE, clear_at=STEPS)
    log.record(MessageAdded(world.history[0]))
    for event in world.events:
        log.record(event)
    log.close()
    restored = restore(path.read_bytes(), "s")
    window = Window(restored.compactions, restored.pins, restored.report)
    assert window.view(restored.history) == world.deps.state.window.view(world.history)
    assert any(m.text.startswith(CLEARED) for m in window.view(restored.history))


def test_what_the_user_takes_back_is_not_cleared_again_at_once(tmp_path: Path) -> None:
    world, _ = world_with(tmp_path, *map(printing, range(12)))
    window, count = world.deps.state.window, len(world.of(Compacted))
    assert count == 1
    window.apply(Uncompacted(20_000), len(world.history))
    assert window.view(world.history) == world.history
    world.turn("again", context_window=SIZE, clear_at=STEPS)
    assert len(world.of(Compacted)) == 1


def test_what_the_user_pinned_stays(tmp_path: Path) -> None:
    world, _ = world_with(tmp_path, printing(0))
    pinned = world.history[2].text
    world.deps.state.window.pins.append(pinned)
    model = NarrowModel(saying(*map(printing, range(1, 13))), 10 * SIZE, bytes_per_token=3.5)
    world.deps = world.deps.replace(client=model)
    world.turn("go on", context_window=SIZE, clear_at=STEPS)
    last = results(model.requests[-1])
    assert last[0] == pinned and last[1].startswith(CLEARED)


def test_without_a_tool_for_files_the_line_says_to_call_again(tmp_path: Path) -> None:
    world = World(tmp_path, [], allow=("Bash",), tools=tuple(t for t in BUILTIN if t.name == "Bash"))
    model = NarrowModel(saying(*map(printing, range(12))), 10 * SIZE, bytes_per_token=3.5)
    world.deps = world.deps.replace(client=model)
    world.turn(context_window=SIZE, clear_at=STEPS)
    assert results(model.requests[-1])[0] == f"{CLEARED}201 lines of Bash. Make the call again if you need them.]"
    assert world.deps.context.workspace.scratch.folder is None


def test_it_is_off_in_options_that_do_not_name_it() -> None:
    assert TurnOptions(model="m", label="m", system="").clear_at == ()


def test_lines_stay_known_by_the_call_that_still_shows_them(tmp_path: Path) -> None:
    """The result that showed the first lines is cleared; the one that showed the others, and an edit, are not."""
    (tmp_path / "a.txt").write_text("".join(f"line {n} of the file\n" for n in range(1, 301)))
    os.utime(tmp_path / "a.txt", (1_700_000_000, 1_700_000_000))
    first, rest = call("Bash", command="head -n 200 a.txt"), call("Read", file_path="a.txt", offset=201)
    edit = call("Edit", file_path="a.txt", old_string="line 7 of", new_string="line seven of")
    write = call("Write", file_path="a.txt", content="x\n")
    again = call("Read", file_path="a.txt", limit=200)
    calls = [first, *map(printing, range(10)), rest, edit, write, again, write]
    _, model = world_with(tmp_path, *calls, allow=("Bash", "Edit", "Write"))
    found = results(model.requests[-1])
    assert found[0].startswith(CLEARED) and not found[11].startswith(CLEARED)
    assert "lines 1-6 and 8-200 are no longer in the conversation (last seen with Bash)" in found[-3]
    assert found[-1].startswith("Wrote")


def test_lines_of_calls_that_ran_at_the_same_time_are_all_seen(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 41)))
    parts = [call("Read", file_path="a.txt", offset=at, limit=10) for at in (1, 11, 21, 31)]
    answers = [{"calls": parts}, {"calls": [call("Write", file_path="a.txt", content="x\n")]}, {"text": "Done."}]
    world = World(tmp_path, answers, allow=("Write",))
    world.turn()
    assert world.results[-1].text.startswith("Wrote")
