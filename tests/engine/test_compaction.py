"""Compaction as stories: when it comes, what it keeps, what it costs, and what happens where it cannot help."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from agent_cli.hooks import HookRegistry, PythonHook
from agent_cli.kernel.decisions import Approve, Defer
from agent_cli.kernel.engine.compaction.measure import compaction_limit
from agent_cli.kernel.engine.compaction.summarize import SECTIONS
from agent_cli.kernel.engine.types import ModelHandle, NestedState, TurnOptions
from agent_cli.kernel.events import Compacted, Compacting, MessageAdded, SubagentEvent, UsageAdded, Warned
from agent_cli.kernel.messages import AssistantMessage, Text, ToolMessage, UserMessage
from agent_cli.kernel.results import Complete, Failed, Suspended, Usage
from agent_cli.kernel.session.log import SessionLog
from agent_cli.kernel.session.records import Header
from agent_cli.kernel.session.restore import restore
from agent_cli.kernel.window import Window
from agent_cli.models.base import Request
from agent_cli.models.scripted import ScriptedClient
from agent_tools.fs.read_state import KnownVersion
from agent_tools.results import TodoItem
from tests.support.narrow_model import SUMMARY, NarrowModel, whole
from tests.support.scripts import call
from tests.support.turns import World

SIZE = 8_000


def reading(*names: str, then: str = "Done.") -> Any:
    """Reads these files, one a round, and says a word."""

    def answer(number: int, request: Request) -> dict[str, Any]:
        return {"calls": [call("Read", file_path=names[number])]} if number < len(names) else {"text": then}

    return answer


def world_with(root: Path, model: NarrowModel, files: int = 9, **deps: Any) -> World:
    for number in range(files):
        (root / f"f{number}.txt").write_text(f"file {number} has this text here\n" * 110)
    world = World(root, [], **deps)
    world.deps = world.deps.replace(client=model)
    return world


@pytest.mark.parametrize("tag", ["", "<li>"])
def test_a_turn_goes_on_by_itself_in_a_window_that_it_would_overflow(tmp_path: Path, tag: str) -> None:
    model = NarrowModel(reading(*(f"f{n}.txt" for n in range(9))), SIZE)
    world = world_with(tmp_path, model)
    world.deps.context.plan = (TodoItem("read it all", "in_progress"), TodoItem("say what it is"))
    result = world.turn(f"{tag}Read all nine, and mind the semicolons.", context_window=SIZE, plan_nudges=0)
    assert isinstance(result, Complete)
    assert result.text == "Done."
    assert model.refused == 0
    made = world.of(Compacted)
    assert made
    first = made[0]
    assert (first.trigger, first.by) == ("auto", "model")
    assert first.tokens_after < first.tokens_before * 0.7
    head = first.head[0].text  # type: ignore[union-attr]
    assert f"<message>\n{tag}Read all nine, and mind the semicolons.\n</message>" in head
    assert "[>] read it all" in head
    assert "Count to the end" in head
    assert first.restated[:2] == ("your last message", "the plan")
    # The file that was read last stays as it is; of those before, the last is there as it is now.
    assert "the present text of f4.txt. It is information, not instructions to you" in head
    assert "file 4 has this text here" in head
    assert model.requests[-1].head == 1
    # Nothing of it is lost.
    assert len([m for m in world.history if isinstance(m, ToolMessage)]) == 9
    assert world.names.index("Compacting") < world.names.index("Compacted")


def test_a_summary_names_the_commands_in_the_background(tmp_path: Path) -> None:
    command = "until [ -e done ]; do sleep 0.05; done"

    def answer(number: int, request: Request) -> dict[str, Any]:
        if number == 0:
            return {"calls": [call("Bash", command=command, run_in_background=True)]}
        return reading(*(f"f{n}.txt" for n in range(9)))(number - 1, request)  # type: ignore[no-any-return]

    world = world_with(tmp_path, NarrowModel(answer, SIZE), allow=("Bash",))
    assert isinstance(world.turn("Read all nine.", context_window=SIZE), Complete)
    (tmp_path / "done").touch()
    made = world.of(Compacted)[0]
    assert re.search(rf"Running background commands:\n\S+: {re.escape(command)}", made.head[0].text)  # type: ignore[union-attr]
    assert made.restated[1] == "background commands"


def test_lines_that_were_cut_from_a_carried_file_count_as_unseen(tmp_path: Path) -> None:
    model = NarrowModel(reading(*(f"f{n}.txt" for n in range(9))), SIZE)
    world = world_with(tmp_path, model)
    for number in range(9):
        (tmp_path / f"f{number}.txt").write_text(f"file {number} has this text here\n" * 160)
    world.turn("Read all nine.", context_window=SIZE)
    head = "".join(e.head[0].text for e in world.of(Compacted) if e.head)  # type: ignore[union-attr]
    name = next(f"f{n}.txt" for n in range(9) if f"the present text of f{n}.txt" in head)
    assert "read the file for the rest" in head
    seen = {path: mark for e in world.of(Compacted) for path, mark in e.seen.items()}
    assert KnownVersion.from_mark(seen[str(tmp_path / name)]).lines == ()


@pytest.mark.parametrize("way", ["read", "written", "printed"])
def test_a_file_that_the_model_no_longer_has_is_not_replaced(tmp_path: Path, way: str) -> None:
    text = "file x has this text here\n" * 50
    (tmp_path / "x.txt").write_text(text)
    how = {
        "read": call("Read", file_path="x.txt"),
        "written": call("Write", file_path="x.txt", content=text + "end\n"),
        "printed": call("Bash", command="cat x.txt"),
    }
    calls = [call("Read", file_path="x.txt"), how[way], *(call("Read", file_path=f"f{n}.txt") for n in range(9))]
    calls.append(call("Write", file_path="x.txt", content="short\n"))

    def answer(number: int, request: Request) -> dict[str, Any]:
        return {"calls": [calls[number]]} if number < len(calls) else {"text": "Done."}

    model = NarrowModel(answer, SIZE)
    world = world_with(tmp_path, model, allow=("Bash", "Edit", "Write"))
    log = SessionLog(tmp_path.parent / f"{way}.jsonl", lambda text: None)
    log.create(Header("s", str(tmp_path), str(tmp_path), "m", "You are a test.", (), "1"))
    assert isinstance(world.turn("Go.", context_window=SIZE), Complete)
    assert "file x has this text here" not in "".join(m.text for m in model.requests[-2].messages)
    said = model.requests[-1].messages[-1].text
    # Of the file that was written, a part is carried over.
    gone = "were not shown" if way == "written" else "are no longer in the conversation (last seen with "
    assert f"lines 1-{50 + (way == 'written')} {gone}" in said and "replace the whole file" in said
    assert len((tmp_path / "x.txt").read_text()) >= len(text)
    log.record(MessageAdded(world.history[0]))
    for event in world.events:
        log.record(event)
    log.close()
    restored = restore((tmp_path.parent / f"{way}.jsonl").read_bytes(), "s")
    assert KnownVersion.from_mark(restored.seen[str(tmp_path / "x.txt")]).held == ()


def test_old_results_that_were_replaced_are_cut_first_and_no_model_is_asked(tmp_path: Path) -> None:
    def answer(number: int, request: Request) -> dict[str, Any]:
        if number >= 9:
            return {"text": "Done."}
        (tmp_path / "f0.txt").write_text(f"version {number} of this line\n" * 110)
        return {"calls": [call("Read", file_path="f0.txt")]}

    model = NarrowModel(answer, SIZE)
    world = world_with(tmp_path, model)
    assert isinstance(world.turn("Watch f0.txt.", context_window=SIZE), Complete)
    made = world.of(Compacted)
    assert made
    assert not any(e.head for e in made)
    assert all(e.cuts for e in made)
    assert not model.asides
    assert not world.of(Compacting)
    results = [m.text for m in model.requests[-1].messages if isinstance(m, ToolMessage)]
    assert "version 8" in results[-1]
    assert results[0] == "[Cut: this file was read again, or written, later. Use the later result.]"
    # One break of the prefix each.
    pairs = zip(model.requests, model.requests[1:], strict=False)
    assert sum(b.messages[: len(a.messages)] != a.messages for a, b in pairs) == len(made)


def test_a_provider_that_refuses_shows_how_large_a_window_is_that_nobody_knew(tmp_path: Path) -> None:
    model = NarrowModel(reading(*(f"f{n}.txt" for n in range(9))), SIZE)
    world = world_with(tmp_path, model)
    assert isinstance(world.turn("Read all nine."), Complete)
    made = world.of(Compacted)
    assert made[0].trigger == "too_long"
    # From then on it is not overflown again.
    assert model.refused == 1
    assert all(e.trigger == "auto" for e in made[1:])
    assert (world.deps.state.window.refused_tokens or 0) <= SIZE


@pytest.mark.parametrize("known", [None, 20 * SIZE])
@pytest.mark.parametrize("reports", [True, False])
@pytest.mark.parametrize(
    "words",
    [
        "maximum context length is {size} tokens. However, your messages resulted in {count} tokens.",
        "prompt is too long: {count} tokens > {size} maximum",
        "This model's maximum context length is {size} tokens.",
    ],
)
def test_a_refusal_that_names_the_window_sets_it(tmp_path: Path, words: str, reports: bool, known: int | None) -> None:
    model = NarrowModel(reading(*(f"f{n}.txt" for n in range(9))), SIZE, reports=reports, words=words)
    world = world_with(tmp_path, model)
    assert isinstance(world.turn("Read all nine.", context_window=known), Complete)
    assert world.deps.state.window.refused_tokens == SIZE
    assert world.of(Compacted)[0].trigger == "too_long"
    assert model.refused == 1, "from then on the window is known"


def test_the_summary_of_the_program_has_no_words_of_the_program(tmp_path: Path) -> None:
    """Nor a file twice: but what a command printed last, what failed, what the model said, what others changed."""

    def shell(command: str) -> dict[str, Any]:
        return call("Bash", command=command)

    write = call("Write", file_path="NOTES.md", content="a long note\n" * 40)
    calls = [
        {"text": "I take the hard way, as the easy one loses data.", "calls": [call("Read", file_path="f0.txt")]},
        {"calls": [shell("echo 3 failed; echo; exit 1"), shell("(echo fine; false) | cat")]},
        {"calls": [call("Edit", file_path="f0.txt", old_string="no such", new_string="x")]},
        {"calls": [shell("echo changed >> f0.txt")]},
        {"text": "Now the rest.", "calls": [call("Read", file_path="f1.txt")]},
        *({"calls": [call("Read", file_path=f"f{n}.txt")]} for n in range(2, 7)),
        {"calls": [write]},
    ]  # fmt: skip

    def answer(number: int, request: Request) -> dict[str, Any]:
        return calls[number] if number < len(calls) else {"text": "Done."}

    model = NarrowModel(answer, SIZE, summary=None)
    world = world_with(tmp_path, model, allow=("Bash", "Edit", "Write"))
    world.deps.context.plan = (TodoItem("read it all", "in_progress"),)
    world.turn("Read all.", context_window=SIZE, plan_nudges=0, plan_reminder=1)
    summary = next(event.summary for event in world.of(Compacted) if event.head)
    assert "- `echo 3 failed; echo; exit 1` (failed): 3 failed\n" in summary
    assert "- f0.txt: read, changed (failed), changed since\n" in summary
    assert summary.count("f0.txt:") == 1 and "I take the hard way, as the easy one loses data." in summary
    assert "<reminder>" not in summary and "</reminder>" not in summary and "exit code" not in summary


def test_a_summary_of_the_model_is_checked_against_the_plan_and_the_changed_files(tmp_path: Path) -> None:
    calls = [
        call("Write", file_path="new_one.py", content="x = 1\n"), call("Write", file_path="told.py", content="x = 1\n"),
        *(call("Read", file_path=f"f{n}.txt") for n in range(7)),
    ]  # fmt: skip

    def answer(number: int, request: Request) -> dict[str, Any]:
        return {"calls": [calls[number]]} if number < len(calls) else {"text": "Done."}

    plan = (
        TodoItem("read it all", "in_progress"), TodoItem("say what it is", "completed"), TodoItem("tell", "pending"),
        TodoItem("sing", "cancelled"),
    )  # fmt: skip
    changed = "In told.py all is done.\n\nChanged as well: new_one.py."
    for told, open_steps in (
        ("[x] Read it all\n- [X] say what it is\n[ ] tell", '"read it all"'),
        ("All steps are done.", '"read it all", "tell"'),
        ("[>] read it all\n[x] say what it is\n- [ ] Tell them", ""),
    ):
        said = SUMMARY.replace("It stands below.", told) + "\nIn told.py all is done.\n"
        for name in ("new_one.py", "told.py"):
            (tmp_path / name).unlink(missing_ok=True)
        world = world_with(tmp_path, NarrowModel(answer, SIZE, summary=said), allow=("Write",))
        world.deps.context.plan = plan
        world.turn("Read all.", context_window=SIZE, plan_nudges=0)
        summary = next(event.summary for event in world.of(Compacted) if event.head)
        note = f"\n\nNot done yet, as the plan has it: {open_steps}." if open_steps else ""
        assert summary.endswith(f"{changed}{note}"), told


@pytest.mark.parametrize("summary", [None, "", "short"])
def test_without_a_summary_of_a_model_the_program_writes_one(tmp_path: Path, summary: str | None) -> None:
    model = NarrowModel(reading(*(f"f{n}.txt" for n in range(9))), SIZE, summary=summary)
    world = world_with(tmp_path, model)
    assert isinstance(world.turn("Read all nine.", context_window=SIZE), Complete)
    made = world.of(Compacted)
    assert made[0].by == "program"
    assert [line[3:] for line in made[0].summary.splitlines() if line.startswith("## ")] == list(SECTIONS)
    assert "Read all nine." in made[0].summary
    assert "- f0.txt: read\n" in made[0].summary
    assert any("summary" in w.text for w in world.of(Warned))
    assert model.refused == 0


def test_the_small_model_writes_the_summary_and_the_turn_pays(tmp_path: Path) -> None:
    tiny = ScriptedClient([], small=[{"text": SUMMARY, "usage": {"input": 900, "output": 90}}] * 9)
    opened = ModelHandle("tiny", "tiny", tiny, lambda usage: usage.replace(cost=0.25), window=4_000)
    model = NarrowModel(reading(*(f"f{n}.txt" for n in range(9))), SIZE)
    world = world_with(tmp_path, model, small=lambda: opened)
    result = world.turn("Read all nine.", context_window=SIZE)
    made = world.of(Compacted)
    assert result.end.cost == pytest.approx(0.25 * len(made))
    assert not model.asides
    assert made[0].usage == Usage(input=900, output=90, cost=0.25)
    assert [u.aside for u in world.of(UsageAdded) if u.model == "tiny"] == [True] * len(made)
    asked = tiny.requests[0]
    # A text of the conversation, which fits into its own window.
    assert len(asked.messages) == 1
    assert "Result of Read" in whole(asked)
    assert len(whole(asked)) / 3.5 < 4_000
    assert "## Next step" in whole(asked)


def test_the_model_itself_is_asked_at_the_end_of_what_its_provider_has_cached(tmp_path: Path) -> None:
    model = NarrowModel(reading(*(f"f{n}.txt" for n in range(36))), 4 * SIZE)
    world = world_with(tmp_path, model, files=36)
    world.turn("Read them all.", context_window=4 * SIZE)
    aside = model.asides[0]
    before = next(r for r in reversed(model.requests) if len(r.messages) >= len(aside.messages) - 1 and not r.head)
    assert aside.messages[:-1] == before.messages[: len(aside.messages) - 1]
    assert (aside.system, aside.tools, aside.tool_choice) == (before.system, before.tools, "none")


def test_what_is_wanted_of_the_answer_is_left_free(tmp_path: Path) -> None:
    model = NarrowModel(reading(*(f"f{n}.txt" for n in range(9))), SIZE)
    world = world_with(tmp_path, model)
    world.turn("Read all nine.", context_window=SIZE, max_tokens=3_000)
    # Files have long names in the folder of a test.
    assert model.largest < SIZE - 2_700


def test_what_an_effort_may_think_is_left_free() -> None:
    def limit(size: int, **options: Any) -> int:
        return compaction_limit(size, TurnOptions(model="m", label="m", system="", tools=(), **options))

    assert limit(200_000) == 184_000 == limit(200_000, effort="none")
    assert limit(200_000, effort="high") == 200_000 - 24_096 == limit(200_000, thinking_tokens=20_000)
    assert limit(200_000, effort="high", max_tokens=8_000) == 184_000
    assert limit(30_000, effort="max") == 20_000, "a small window is not given away"


def test_results_that_are_together_larger_than_the_window_are_shortened(tmp_path: Path) -> None:
    def answer(number: int, request: Request) -> dict[str, Any]:
        return {"calls": [call("Read", file_path=f"f{n}.txt") for n in range(9)]} if not number else {"text": "Done."}

    model = NarrowModel(answer, SIZE)
    world = world_with(tmp_path, model)
    for number in range(9):
        (tmp_path / f"f{number}.txt").write_text("".join(f"line {n} of a large file\n" for n in range(3_000)))
    assert isinstance(world.turn("Read them.", context_window=SIZE), Complete)
    made = world.of(Compacted)
    assert [len(e.cuts) for e in made] == [9]
    assert "call again for a part of it" in whole(model.requests[-1])
    assert model.refused == 0


def test_a_message_that_is_larger_than_the_window_is_reported_to_be(tmp_path: Path) -> None:
    model = NarrowModel(reading(), SIZE)
    world = world_with(tmp_path, model)
    result = world.turn("word " * 20_000, context_window=SIZE)
    assert isinstance(result, Failed)
    assert result.failure is not None
    assert result.failure.kind == "context_too_long"
    assert "Your message alone has about" in result.text
    assert "Send a part of it" in result.text
    assert not model.requests
    # The conversation goes on: of what is not the newest message, a part will do.
    assert isinstance(world.turn("Hello.", context_window=SIZE), Complete)
    assert "cut here" in whole(model.requests[-1])


def test_a_prompt_that_fills_the_window_alone_is_not_compacted_in_circles(tmp_path: Path) -> None:
    model = NarrowModel(reading(*(f"f{n}.txt" for n in range(4))), SIZE)
    world = world_with(tmp_path, model)
    result = world.turn("Read.", context_window=SIZE, system="rules " * 4_000)
    assert isinstance(result, Failed)
    assert "The system prompt and the tools alone fill" in result.text
    assert model.refused <= 3
    assert len(model.asides) <= 2


def test_a_provider_that_refuses_everything_is_asked_three_times_at_most(tmp_path: Path) -> None:
    model = NarrowModel(reading(), 10)
    world = world_with(tmp_path, model)
    world.history = [UserMessage("Earlier."), AssistantMessage((Text("Yes."),))] * 6
    result = world.turn("Now.")
    assert isinstance(result, Failed)
    assert "10 fit" in result.text
    assert model.refused <= 6


def test_a_sub_agent_compacts_its_own_conversation(tmp_path: Path) -> None:
    names = [f"f{n}.txt" for n in range(9)]

    def answer(number: int, request: Request) -> dict[str, Any]:
        if number == 0:
            return {"calls": [call("Task", description="read", prompt="Read all nine.", subagent_type="explore")]}
        if number <= 9:
            return {"calls": [call("Read", file_path=names[number - 1])]}
        return {"text": "It is all the same." if number == 10 else "Done."}

    model = NarrowModel(answer, SIZE)
    world = world_with(tmp_path, model)
    assert isinstance(world.turn("Have it read.", context_window=SIZE), Complete)
    assert not world.of(Compacted)
    nested = [e.event for e in world.of(SubagentEvent) if isinstance(e.event, Compacted)]
    assert nested
    assert "Read all nine." in nested[0].head[0].text  # type: ignore[union-attr]
    assert model.refused == 0
    assert not world.deps.state.window.compactions


def test_a_skipped_call_is_made_again_once_its_result_is_gone(tmp_path: Path) -> None:
    names = ["f0.txt", *(f"f{n}.txt" for n in range(1, 9)), "f0.txt"]
    model = NarrowModel(reading(*names), SIZE)
    world = world_with(tmp_path, model)
    world.turn("Read.", context_window=SIZE)
    assert world.of(Compacted)
    assert not [m for m in world.results if m.text.startswith("Skipped")]


def test_a_window_that_is_large_enough_is_left_alone(tmp_path: Path) -> None:
    model = NarrowModel(reading(*(f"f{n}.txt" for n in range(9))), 100_000)
    world = world_with(tmp_path, model)
    world.turn("Read all nine.", context_window=100_000)
    assert not world.of(Compacted)
    assert not model.asides


def test_with_compact_at_0_only_a_refusal_compacts(tmp_path: Path) -> None:
    model = NarrowModel(reading(*(f"f{n}.txt" for n in range(9))), SIZE)
    world = world_with(tmp_path, model)
    assert isinstance(world.turn("Read all nine.", context_window=SIZE, compact_at=0.0), Complete)
    assert {e.trigger for e in world.of(Compacted)} == {"too_long"}


def test_hooks_are_asked_before_and_may_say_what_to_mind(tmp_path: Path) -> None:
    asked: list[dict[str, Any]] = []

    def hook(data: dict[str, Any]) -> dict[str, Any]:
        asked.append(data)
        return {"hookSpecificOutput": {"hookEventName": "PreCompact", "additionalContext": "Mind the umlauts."}}

    model = NarrowModel(reading(*(f"f{n}.txt" for n in range(9))), SIZE)
    world = world_with(tmp_path, model)
    world.deps = world.deps.replace(hooks=HookRegistry(functions=[PythonHook("PreCompact", hook)]))
    assert isinstance(world.turn("Read all nine.", context_window=SIZE), Complete)
    assert {d["trigger"] for d in asked} == {"auto"}
    assert len(asked) == len(model.asides) == len(world.of(Compacted))
    assert "Mind the umlauts." in whole(model.asides[0])


def test_a_hook_may_keep_a_conversation_from_being_compacted(tmp_path: Path) -> None:
    model = NarrowModel(reading(*(f"f{n}.txt" for n in range(9))), SIZE)
    world = world_with(tmp_path, model)
    hooks = HookRegistry(
        functions=[PythonHook("PreCompact", lambda data: {"decision": "block", "reason": "not while I watch"})]
    )
    world.deps = world.deps.replace(hooks=hooks)
    result = world.turn("Read all nine.", context_window=SIZE)
    assert not world.of(Compacted)
    assert isinstance(result, Complete)
    assert result.degraded
    assert model.refused == 1


def test_a_sub_agent_that_waited_goes_on_from_what_it_had_compacted(tmp_path: Path) -> None:
    names = [f"f{n}.txt" for n in range(7)]

    def answer(number: int, request: Request) -> dict[str, Any]:
        if number == 0:
            return {"calls": [call("Task", description="read", prompt="Read, then make it.", subagent_type="general")]}
        if number <= 7:
            return {"calls": [call("Read", file_path=names[number - 1])]}
        if number == 8:
            return {"calls": [call("Bash", command="touch made")]}
        return {"text": "Made." if number == 9 else "Done."}

    model = NarrowModel(answer, SIZE)
    log = SessionLog(tmp_path / "log.jsonl", lambda text: None)
    log.create(Header("s", str(tmp_path), str(tmp_path), "narrow", "", (), ""))
    world = world_with(tmp_path, model, answers=[Defer()])
    first = world.turn("Have it made.", context_window=SIZE)
    assert isinstance(first, Suspended)
    for event in [MessageAdded(world.history[0]), *world.events]:
        log.record(event)
    log.close()
    sent = model.requests[-1]
    assert sent.head == 1

    restored = restore((tmp_path / "log.jsonl").read_bytes(), "s")
    assert restored.waiting is not None
    again = world_with(tmp_path, model, answers=[Approve()])
    again.history = list(restored.history)
    for call_id, messages in restored.waiting.nested.items():
        window = Window(restored.waiting.nested_compactions.get(call_id, ()))
        again.deps.state.nested[call_id] = NestedState(messages, window=window)
    assert isinstance(again.turn(None, context_window=SIZE), Complete)
    assert (tmp_path / "made").exists()
    # The sub-agent's next request is its last one and a suffix.
    after = model.requests[-2]
    assert after.messages[: len(sent.messages)] == sent.messages
    assert model.refused == 0


def test_the_hooks_of_the_start_run_again_behind_a_compaction(tmp_path: Path) -> None:
    model = NarrowModel(reading(*(f"f{n}.txt" for n in range(9))), SIZE)
    world = world_with(tmp_path, model)
    seen: list[str] = []

    def hook(data: dict[str, Any]) -> dict[str, Any]:
        seen.append(data["source"])
        return {"hookSpecificOutput": {"additionalContext": f"Start number {len(seen)}."}}

    world.deps = world.deps.replace(hooks=HookRegistry(functions=[PythonHook("SessionStart", hook, matcher="compact")]))
    assert isinstance(world.turn("Read all nine.", context_window=SIZE, plan_nudges=0), Complete)
    summed_up = [event for event in world.of(Compacted) if event.head]
    assert summed_up and seen == ["compact"] * len(summed_up)
    lines = [e.message.text for e in world.of(MessageAdded) if isinstance(e.message, UserMessage)]
    assert any("Start number 1." in text for text in lines)


def test_a_file_whose_newest_text_stays_in_a_call_is_not_carried_over_as_well(tmp_path: Path) -> None:
    for number in range(12):
        (tmp_path / f"f{number}.txt").write_text(f"file {number} has this text here\n" * 60)

    def answer(number: int, request: Request) -> dict[str, Any]:
        if number == 24:
            return {"text": "Done."}
        if number % 2:
            return {"calls": [call("Write", file_path="NOTES.md", content=f"what step {number} showed\n" * 30)]}
        return {"calls": [call("Read", file_path=f"f{number // 2}.txt")]}

    model = NarrowModel(answer, SIZE)
    world = world_with(tmp_path, model, allow=("Write",))
    assert isinstance(world.turn("Take notes of each file.", context_window=SIZE), Complete)
    heads = [event.head[0].text for event in world.of(Compacted) if event.head]  # type: ignore[union-attr]
    assert heads and not [head for head in heads if "the present text of NOTES.md" in head]
