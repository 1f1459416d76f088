"""Line by line, what is typed or pasted where no message is read is the draft; only Enter at the prompt sends it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.pty_session import Terminal
from tests.support.scripts import call, script

RUN = {"calls": [call("Bash", command="touch made")]}
ASK = {
    "calls": [
        call("AskUserQuestion", questions=[{"question": "Which one?", "options": [{"label": "A"}, {"label": "B"}]}])
    ]
}
PLAN = {"calls": [call("ExitPlanMode", plan="1. Touch it")]}
KEYS = {"ANTHROPIC_API_KEY": "sk-ant-none", "OPENAI_API_KEY": "sk-none"}
KEPT = "is the draft of your next message"


def session(work: Path, *answers: dict[str, object], prompt: str = "please") -> Terminal:
    model = script(work.parent / "s.toml", [*answers, {"text": "All done."}])
    return Terminal(["--model", model, "--plain", "--permission-mode", "default", *([prompt] if prompt else [])], work)


def messages(work: Path) -> list[str]:
    """What the user has sent, as the log has it."""
    [log] = (work.parent / "home/state/sessions").rglob("*.jsonl")
    records = [json.loads(line)["data"] for line in log.read_text().splitlines()]
    added = [record.get("message", {}) for record in records if record.get("type") == "MessageAdded"]
    return [message["text"] for message in added if message.get("type") == "UserMessage"]


@pytest.mark.parametrize("first", [RUN, ASK], ids=["approval", "question"])
@pytest.mark.parametrize(
    "typed", ["fix the tests then\r", "fix the tests then", "fix\r\rthe tests\rthen", "next\rtask"]
)
def test_what_is_typed_before_a_question_is_the_draft_and_sent_with_enter(
    work: Path, first: dict[str, object], typed: str
) -> None:
    terminal = session(work, first, {"text": "First."})
    terminal.expect("? explain" if first is RUN else "2. B")
    terminal.send(typed)
    terminal.expect(KEPT)
    terminal.expect("Allow?" if first is RUN else "Choose")
    terminal.type("n" if first is RUN else "2")
    terminal.expect("First.")
    terminal.expect("Enter sends it")
    terminal.ready()
    assert messages(work) == ["please"]
    terminal.type("")
    terminal.expect("All done.")
    terminal.leave()
    assert messages(work) == ["please", typed.replace("\r", "\n").strip()]


@pytest.mark.parametrize(("question", "answer"), [("Allow?", "n"), ("Choose", "2"), ("Approve this plan?", "n")])
def test_no_line_of_a_paste_answers_a_question(work: Path, question: str, answer: str) -> None:
    terminal = session(work, {"Allow?": RUN, "Choose": ASK, "Approve this plan?": PLAN}[question])
    terminal.expect(question)
    terminal.type("y\r1\rand then this\ry")
    terminal.expect(KEPT)
    terminal.expect(question)
    terminal.type(answer)
    terminal.expect("Enter sends it")
    terminal.press("c")
    terminal.expect("dropped")
    terminal.leave()
    assert not (work / "made").exists() and messages(work) == ["please"]


@pytest.mark.parametrize("pasted", ["one\rtwo\rthree", "one\rtwo\r", "a\rb"])
def test_a_paste_at_the_prompt_is_sent_as_one_message(work: Path, pasted: str) -> None:
    terminal = session(work, prompt="")
    terminal.ready()
    terminal._send(pasted)
    terminal.expect("Enter sends it")
    terminal.ready()
    terminal.type("and more")
    terminal.expect("All done.")
    terminal.leave()
    assert messages(work) == [f"{pasted.strip()}\rand more".replace("\r", "\n")]


def test_a_command_is_no_part_of_a_draft_and_leaves_it(work: Path) -> None:
    terminal = session(work, prompt="")
    terminal.ready()
    terminal._send("one\rtwo\r")
    terminal.expect("Enter sends it")
    terminal.type("/todos")
    terminal.expect("There is no plan.")
    terminal.expect("Enter sends it")
    terminal.type("!echo $((6 * 7))")
    terminal.expect("42")
    terminal.expect("Enter sends it")
    terminal.type("")
    terminal.expect("All done.")
    terminal.leave()
    assert "one\ntwo" in "\n".join(messages(work))


@pytest.mark.parametrize("task", ["refactor", "fix the tests", "Überarbeiten"])
@pytest.mark.parametrize("prompt", [[], ["please"]])
def test_a_task_typed_at_the_first_questions_waits_at_the_prompt(work: Path, task: str, prompt: list[str]) -> None:
    (work / ".agentrc").write_text('[permissions]\nallow = ["Bash(make)"]\n')
    model = script(work.parent / "s.toml", [{"text": "All done."}, {"text": "Once more."}])
    terminal = Terminal(["--model", model, "--plain", *prompt], work)
    terminal.expect("Trust this folder?")
    terminal.expect("[y/N] ")
    terminal.type(task)
    terminal.expect(KEPT)
    terminal.expect("[y/N] ")
    terminal.type("n")
    terminal.expect("Enter sends it")
    terminal.ready()
    assert messages(work) == prompt if prompt else not list((work.parent / "home/state").rglob("sessions/*/*.jsonl"))
    terminal.type("")
    terminal.expect("Once more." if prompt else "All done.")
    terminal.leave()
    assert messages(work) == [*prompt, task]
