"""Hooks that are a condition in words, which a model judges."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_cli.hooks import Hook, HookRegistry, HookSession, HookSurroundings
from agent_cli.hooks.answers import read_hook_verdict
from agent_cli.kernel.engine.conversation import consume
from agent_cli.kernel.engine.types import ModelHandle
from agent_cli.kernel.events import UsageAdded
from agent_cli.kernel.messages import ToolMessage
from agent_cli.kernel.results import Usage
from agent_cli.kernel.runtime import conditions
from agent_cli.models.scripted import ScriptedClient
from agent_tools.cancel import CancelledError, CancelToken
from tests.support.program import run_allowing_bash
from tests.support.scripts import call
from tests.support.turns import World

NO = json.dumps({"ok": False, "reason": "The tests were not run."})
COSTS = Usage(input=20, output=5, cost=0.5)


class Judged(HookSurroundings):
    def __init__(self, root: Path, judge: ModelHandle) -> None:
        super().__init__(HookSession(root=root))
        self._judge = judge

    def evaluate(self, hook: Hook, text: str, cancel: CancelToken, used: list[UsageAdded]) -> str:
        return conditions.evaluate_condition(lambda name: self._judge, None, "", hook, text, cancel, used)


def table(root: Path, model: ScriptedClient, event: str, words: str = "Did they test it?", **hook: Any) -> HookRegistry:
    judge = ModelHandle("tiny", "tiny", model, lambda usage: COSTS)
    return HookRegistry([Hook(event, words, kind="prompt", **hook)], (), lambda: Judged(root, judge))


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ('{"ok": true}', (0, "")),
        ('{"ok": true, "reason": "fine"}', (0, "")),
        (NO, (2, "The tests were not run.")),
        (f"```json\n{NO}\n```", (2, "The tests were not run.")),
        (f'{{x}} is no reason. {NO} Were it {{"ok": true}}, it would pass.', (2, "The tests were not run.")),
        ('{"ok": true}\n' + NO, (2, "The tests were not run.")),
        ('{"decision": "block", "reason": "no"}', (2, "no")),
        ('{"ok": false}', (2, "the condition is not met")),
        ("yes", (None, "yes")),
        ('{"ok": "true"}', (None, '{"ok": "true"}')),
        ("[1]", (None, "[1]")),
        ("{" * 100_000, (None, "{" * 100_000)),
    ],
)
def test_what_an_answer_means(text: str, verdict: tuple[int | None, str]) -> None:
    assert read_hook_verdict(text) == verdict


def test_it_sends_the_model_on_until_the_condition_is_met_and_the_turn_pays(tmp_path: Path) -> None:
    world = World(tmp_path, [{"text": "Done."}, {"text": "Tested.", "expect": "The tests were not run."}])
    judge = ScriptedClient([], small=[{"text": NO, "expect": "Did they test it?"}, {"text": '{"ok": true}'}])
    world.deps = world.deps.replace(hooks=table(tmp_path, judge, "Stop"))
    result = world.turn()
    assert result.end.cost == 1.0
    assert [e.usage for e in world.of(UsageAdded) if e.aside] == [COSTS, COSTS]
    assert '"last_assistant_message": "Done."' in judge.requests[0].messages[0].text
    assert [bool(r.tools) for r in judge.requests] == [False, False]


def test_the_input_stands_where_the_condition_says(tmp_path: Path) -> None:
    judge = ScriptedClient([], small=[{"text": '{"ok": true}'}])
    hooks = table(tmp_path, judge, "PreToolUse", "Is $ARGUMENTS harmless?")
    consume(hooks.run("PreToolUse", {"tool_name": "Bash"}, CancelToken()), lambda event: None)
    [message] = judge.requests[0].messages
    assert message.text.startswith("Is {") and message.text.endswith("} harmless?")
    assert '"tool_name": "Bash"' in message.text


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("reply", [{"error": {"kind": "overloaded", "message": "Busy."}}, {"text": "Well."}])
def test_a_failure_refuses_only_where_it_is_strict(tmp_path: Path, reply: dict[str, Any], strict: bool) -> None:
    world = World(tmp_path, [{"calls": [call("Bash", command="touch made")]}, {"text": "ok"}], allow=("Bash",))
    world.deps = world.deps.replace(
        hooks=table(tmp_path, ScriptedClient([], small=[reply]), "PreToolUse", strict=strict)
    )
    world.turn()
    assert (tmp_path / "made").exists() is not strict
    [result] = [m for m in world.history if isinstance(m, ToolMessage)]
    assert result.is_error is strict


def test_its_time_is_bounded_and_an_interrupt_is_none_of_its_time(tmp_path: Path) -> None:
    slow = {"text": "word " * 1_000, "pause": 0.05}
    hooks = table(tmp_path, ScriptedClient([], small=[slow, slow]), "PreToolUse", timeout=0.2)
    events: list[Any] = []
    consume(hooks.run("PreToolUse", {}, CancelToken()), events.append)
    assert events[-1].outcome == "cancelled" and "was ended after" in events[-1].note
    cancel = CancelToken()
    cancel.cancel()
    with pytest.raises(CancelledError):
        consume(hooks.run("PreToolUse", {}, cancel), events.append)


def test_in_the_program_the_small_model_judges(work: Path, home: Path) -> None:
    small = work.parent / "small.toml"
    small.write_text(f"[[small]]\ntext = '{NO}'\nexpect = 'touch made'\n")
    (home / ".claude").mkdir()
    hook = {"type": "prompt", "prompt": "Is $ARGUMENTS wise?", "timeout": 20}
    table = {"PreToolUse": [{"matcher": "Bash", "hooks": [hook]}]}
    (home / ".claude/settings.json").write_text(json.dumps({"hooks": table}))
    replies = [{"calls": [call("Bash", command="touch made")]}, {"text": "ok", "expect": "The tests were not run."}]
    done = run_allowing_bash(work, replies, "--settings", json.dumps({"small_model": f"scripted:{small}"}))
    assert (done.stdout, (work / "made").exists()) == ("ok\n", False), done.stderr
